"""The page as readers have it: by keyboard, on a phone, over a slow line, without a network, in both color schemes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from onnxproof.evidence.measure import measure
from onnxproof.evidence.record import Tolerances
from tests.web_page.conftest import TYPES, values
from tests.web_page.driving import open_page, run, verdict
from tests.web_page.serving import Host

Make = Callable[..., Path]


def test_weight(cnn: Path) -> None:
    """All but the bundle and ONNX Runtime Web is less than 150 kB."""
    own = [p for p in cnn.rglob("*") if p.is_file() and p.relative_to(cnn).parts[0] not in ("bundle", "ort")]
    assert len(own) > 10
    assert sum(p.stat().st_size for p in own) < 150_000


def test_nothing_is_asked_of_anyone_else(page: Page, cnn: Path) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with Host(cnn) as host:
        assert run(page, host) == "passed"
    assert asked
    assert {url for url in asked if not url.startswith(host.url)} == set()
    for name in {*host.asked}:
        assert (cnn / name).is_file(), name


def test_keyboard_alone(page: Page, cnn: Path, tmp_path: Path) -> None:
    def tab_to(name: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            seen = page.evaluate(
                "() => { const e = document.activeElement, s = getComputedStyle(e);"
                " return [e.id, s.outlineStyle, s.outlineWidth]; }"
            )
            if seen[0] == name:
                assert seen[1:] == ["solid", "3px"]
                return
        raise AssertionError(f"no way to {name}")

    with Host(cnn) as host:
        open_page(page, host)
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.className") == "skip"
        tab_to("use-webgpu")
        page.keyboard.press("Space")
        expect(page.locator("#use-webgpu")).not_to_be_checked()
        tab_to("run")
        page.keyboard.press("Enter")
        assert verdict(page) == "passed"
        expect(page.locator("#run")).to_be_focused()
        tab_to("save")
        with page.expect_download():
            page.keyboard.press("Enter")
        tab_to("own-run")
        page.keyboard.press("Enter")
        expect(page.locator(".output")).to_have_count(1)
        expect(page.locator("#own-run")).to_be_focused()


def test_progress_of_a_large_model(page: Page, make_site: Make, large: Path) -> None:
    site = make_site(large)
    assert (site / "bundle" / "model.onnx").stat().st_size > 25e6
    page.add_init_script(
        "addEventListener('DOMContentLoaded', () => { window.seen = [];"
        " new MutationObserver(() => seen.push([document.getElementById('bar').value,"
        " document.getElementById('doing').textContent, document.getElementById('amount').textContent]))"
        ".observe(document.getElementById('progress'), {subtree: true, childList: true, characterData: true}); })"
    )
    with Host(site) as host:
        host.slow["bundle/model.onnx"] = 0.02
        assert run(page, host) == "passed", page.locator("#because").inner_text()
    seen = page.evaluate("() => seen")
    fetching = [value for value, doing, _ in seen if doing.startswith("Fetching the model")]
    assert len(set(fetching)) >= 20
    assert fetching == sorted(fetching)
    assert 0 < fetching[0] < 0.1
    whole = {amount.partition(" of ")[2] for _, doing, amount in seen if doing.startswith("Fetching")}
    assert whole == {"39 MB"}
    assert any(doing == "WebAssembly: one" for _, doing, _ in seen)


KEPT = """async () => {
  for (const name of await caches.keys()) if (await (await caches.open(name)).match(location.href)) return true;
  return false;
}"""


def test_works_without_a_network_once_loaded(context: BrowserContext, page: Page, cnn: Path) -> None:
    with Host(cnn) as host:
        assert run(page, host) == "passed"
        for _ in range(50):
            if page.evaluate(KEPT):
                break
            page.wait_for_timeout(100)
        url = host.url
    context.set_offline(True)
    page.locator("#run").click()
    assert verdict(page) == "passed"
    page.goto(url)
    expect(page.locator("#controls")).to_be_visible()
    page.locator("#use-webgpu").uncheck()
    page.locator("#run").click()
    assert verdict(page) == "passed"


def test_without_web_crypto_nothing_is_loaded(page: Page, cnn: Path) -> None:
    page.add_init_script("Object.defineProperty(window, 'isSecureContext', { value: false })")
    with Host(cnn) as host:
        page.goto(host.url)
        assert verdict(page) == "failed"
        expect(page.locator("#because")).to_contain_text("only to pages from HTTPS or from this machine")
        assert not [name for name in host.asked if name.startswith(("bundle/", "ort/"))]


CONTRAST = """() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const found = parse(getComputedStyle(e).backgroundColor);
      if (found[3] !== 0) return found;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !e.checkVisibility() || e.matches(':disabled, title')) continue;
    const style = getComputedStyle(e);
    const color = parse(e instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(color), light(behind(e.closest('svg')?.parentElement ?? e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push([e.tagName, e.textContent.slice(0, 30), ratio]);
  }
  return poor;
}"""
NAMELESS = """() => [...document.querySelectorAll('button, input, select, textarea, progress, [role=img]')]
  .filter((e) => e.checkVisibility())
  .filter((e) => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.labels?.length
    || (e.tagName === 'BUTTON' && e.textContent.trim())))
  .map((e) => e.outerHTML.slice(0, 100))"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone(browser: Browser, cnn: Path, scheme: Any) -> None:
    """At 360 pixels nothing is wider than the screen; text has contrast, every control a name."""
    context = browser.new_context(
        viewport={"width": 360, "height": 780}, color_scheme=scheme, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    with Host(cnn) as host:
        open_page(page, host)
        assert page.evaluate(CONTRAST) == []
        assert run(page, host) == "passed"
        page.locator("#own-run").tap()
        expect(page.locator(".output")).to_have_count(1)
        assert page.evaluate("() => document.documentElement.scrollWidth") == 360
        assert page.evaluate(CONTRAST) == []
        assert page.evaluate(NAMELESS) == []
        assert page.locator("h1").count() == 1
        host.changed("bundle/model.onnx")
        page.reload()
        assert run(page, host) == "failed"
        assert page.evaluate(CONTRAST) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") == 360
    context.close()


COMPARE = """async ([got, want, tolerances]) => {
  const { compare } = await import(new URL('js/compare.js', location.href));
  const tensor = ([dtype, shape, bytes]) => ({ dtype, shape, bytes: Uint8Array.from(bytes) });
  const c = compare(tensor(got), tensor(want), tolerances);
  const plain = (v) => (v === undefined ? null : Number.isFinite(v) ? v : 'inf');
  return [plain(c.maxAbs), plain(c.maxRel), plain(c.excess), c.nonfinite, c.worst, c.matches];
}"""


def described(array: Any) -> list[Any]:
    return [array.dtype.name, list(array.shape), [*array.tobytes()]]


def pairs(dtype: str) -> list[tuple[Any, Any]]:
    """Results and what is expected: alike, near, far, of another form, and where one side is not finite."""
    want = values(dtype, (2, 3, 5), 1)
    other = values(dtype, (2, 3, 5), 2)
    found = [
        (want, want),
        (other, want),
        (want[:1], want),
        (np.zeros((0, 3), dtype), np.zeros((0, 3), dtype)),
    ]
    if dtype.startswith("float"):
        near = (want * (1 + 1e-6)).astype(dtype)
        lost = want.copy()
        lost.flat[0] = 0
        huge = want.copy()
        huge.flat[7] = np.inf
        tiny = np.full((2, 2), np.finfo(dtype).smallest_subnormal, dtype)
        found += [(near, want), (lost, want), (want, lost), (huge, want), (tiny, 0 * tiny), (0 * tiny, tiny)]
    else:
        found.append((want.astype("float32"), want))
    return found


@pytest.mark.parametrize("rtol", [1e-5, 0.0])
def test_comparison_is_that_of_evidence(page: Page, cnn: Path, rtol: float) -> None:
    tolerances = Tolerances(rtol=rtol, atol=rtol / 10, nonfinite="equal")
    cases = [pair for dtype in TYPES for pair in pairs(dtype)]
    wide = np.empty((2, 3), np.complex64)
    wide.real, wide.imag = values("float32", (2, 3), 1), values("float32", (2, 3), 2)
    near = np.stack([wide.real * np.float32(1 + 1e-6), wide.imag], -1)
    cases += [(np.stack([part.real, part.imag], -1), wide) for part in (wide, np.roll(wide, 1))]
    cases.append((near, wide))
    with Host(cnn) as host:
        page.goto(host.url)
        for got, want in cases:
            here = measure("y", got, want, None, tolerances)
            given = [described(got), described(want), tolerances.model_dump()]
            *errors, nonfinite, worst, matches = page.evaluate(COMPARE, given)
            for said, wanted in zip(
                errors, (here.max_abs_error, here.max_rel_error, here.excess), strict=True
            ):
                if isinstance(said, (int, float)) and isinstance(wanted, float):
                    # The sums of squares of complex numbers may be rounded in two ways.
                    said = float(said) if want.dtype.kind != "c" else pytest.approx(said, rel=1e-15)
                assert said == wanted
            assert nonfinite == here.nonfinite
            if here.worst is not None:
                assert worst == here.worst.index
            assert matches == (here.excess is not None and here.excess != "inf" and here.excess <= 1)
