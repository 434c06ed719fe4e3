"""The reader's own inputs: numbers, files of NumPy, pictures."""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, expect

from onnxproof.evidence.runtimes.ort import OrtSession
from tests.web_page.conftest import GALLERY, TYPES, values
from tests.web_page.driving import port, run
from tests.web_page.serving import Host

CNN = GALLERY / "cnn-nnx"
Make = Callable[..., Path]


def npy(array: Any) -> dict[str, Any]:
    """A .npy file as it is given to a form."""
    place = io.BytesIO()
    np.save(place, array)
    return {"name": "x.npy", "mimeType": "application/octet-stream", "buffer": place.getvalue()}


def png(pixels: Any) -> dict[str, Any]:
    """A PNG file of bytes [height, width, 3]."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    high, wide, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return {"name": "x.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n\x1a\n" + content}


def result(page: Page, place: Path) -> Any:
    """Run the model on what is in the form; its first output."""
    page.locator("#own-outputs").evaluate("e => e.replaceChildren()")
    page.locator("#own-run").click()
    expect(page.locator("#own-said")).to_have_text(re.compile("Done"))
    with page.expect_download() as download:
        page.locator(".output button").first.click()
    download.value.save_as(place)
    return np.load(place)


def complaint(page: Page) -> str:
    """Run the model on what is in the form; what the page says is wrong."""
    page.locator("#own-run").click()
    expect(page.locator("#own-said")).to_have_class("bad")
    return page.locator("#own-said").inner_text()


def test_numbers_files_and_pictures(page: Page, cnn: Path, tmp_path: Path) -> None:
    session = OrtSession(CNN / "model.onnx")
    rng = np.random.default_rng(1)

    def expected(x: Any) -> Any:
        return session.run([x])[0]

    def close(x: Any) -> bool:
        return bool(np.allclose(result(page, tmp_path / "y.npy"), expected(x), rtol=1e-5, atol=1e-5))

    with Host(cnn) as host:
        assert run(page, host) == "passed"
        host.instead.update(dict.fromkeys(host.asked))  # nothing is fetched from here on
        form = port(page, "x")
        source = form.locator("select").first

        assert close(
            np.frombuffer((CNN / "cases/batch-1/input_0.pb").read_bytes()[-1728:], "f4").reshape(1, 12, 12, 3)
        )

        source.select_option(label="numbers")
        form.locator("textarea").fill("0.25")
        page.locator("#size-0").fill("2")
        assert close(np.full((2, 12, 12, 3), 0.25, np.float32))
        x = rng.normal(size=(1, 12, 12, 3)).astype(np.float32)
        form.locator("textarea").fill("[" + ", ".join(map(str, x.ravel())) + "]")
        page.locator("#size-0").fill("1")
        assert close(x)
        form.locator("textarea").fill("1 2 3")
        assert (
            "432 numbers are needed for float32[1, 12, 12, 3], or one for all of them; 3 are there"
            in complaint(page)
        )
        form.locator("textarea").fill("1 two")
        assert complaint(page) == "x: two is not a number."

        source.select_option(label=".npy file")
        assert complaint(page) == "x: choose a file."
        x = rng.normal(size=(5, 12, 12, 3))
        form.locator("input[type=file]").set_input_files(npy(x))
        assert close(x.astype(np.float32))  # the file has float64
        form.locator("input[type=file]").set_input_files(npy(x[..., :2].astype(np.float32)))
        assert "The model refuses these inputs" in complaint(page)
        form.locator("input[type=file]").set_input_files(npy(np.asfortranarray(x)))
        assert "column-major" in complaint(page)
        form.locator("input[type=file]").set_input_files({**npy(x), "buffer": b"no such file at all"})
        assert complaint(page) == "x: it is not a .npy file."

        source.select_option(label="image")
        pixels = rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)
        form.locator("input[type=file]").set_input_files(png(pixels))
        expect(form.locator("canvas")).to_be_visible()
        assert close((pixels / 255)[None].astype(np.float32))
        form.get_by_label("Scale").select_option(label="-1 to 1")
        assert close((pixels / 127.5 - 1)[None].astype(np.float32))
        form.locator("input[type=file]").set_input_files({**npy(x), "name": "x.png"})
        assert complaint(page) == "x: the file is not an image that this browser reads."


def test_types_of_numbers(page: Page, make_site: Make, typed: Path, tmp_path: Path) -> None:
    with Host(make_site(typed)) as host:
        assert run(page, host) == "passed"
        page.locator("#size-0").fill("1")
        for name in TYPES:
            form = port(page, f"x_{name}")
            form.locator("select").first.select_option(label="numbers")
            form.locator("textarea").fill("1")
        words = {
            "x_int64": "-9223372036854775808, 9223372036854775807, 0, 1",
            "x_float32": "nan inf -inf 0.1",
        }
        for name, text in words.items():
            port(page, name).locator("textarea").fill(text)
        first = result(page, tmp_path / "y.npy")
        np.testing.assert_array_equal(first, np.array([[np.nan, np.inf, -np.inf, 0.1]], np.float32))
        outputs = page.locator(".output")
        expect(outputs).to_have_count(len(TYPES))
        expect(outputs.nth(TYPES.index("int64"))).to_contain_text(
            "-9223372036854775808, 9223372036854775807, 0, 1"
        )
        port(page, "x_int8").locator("textarea").fill("1.5")
        assert complaint(page) == "x_int8: 1.5 is not a whole number."


def test_npy_files_are_those_of_numpy(page: Page, cnn: Path) -> None:
    script = """async ([file]) => {
      const t = await import(new URL('js/tensor.js', location.href));
      const tensor = t.fromNpy(Uint8Array.from(file));
      const again = t.fromNumbers(tensor.dtype, tensor.shape, [...t.elements(tensor)]);
      return [tensor.dtype, tensor.shape, [...t.toNpy(tensor)], [...again.bytes]];
    }"""
    with Host(cnn) as host:
        page.goto(host.url)
        for dtype in TYPES:
            for shape in ((2, 3, 4), (5,), (0, 2)):
                array = values(dtype, shape)
                name, dims, file, again = page.evaluate(script, [[*npy(array)["buffer"]]])
                assert (name, dims) == (dtype, list(shape))
                np.testing.assert_array_equal(np.load(io.BytesIO(bytes(file))), array)
                np.testing.assert_array_equal(np.frombuffer(bytes(again), dtype).reshape(shape), array)


def test_halves_are_those_of_numpy(page: Page, cnn: Path) -> None:
    """Where a browser has no Float16Array, every half and every tie between two of them."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = (halves[1:] + halves[:-1]) / 2
    numbers = np.concatenate([halves, ties, -ties, [65519.99, 65520.0, 1e-9, 1e30]])
    script = """async (numbers) => {
      const t = await import(new URL('js/tensor.js', location.href));
      const bits = numbers.map(t.toHalf);
      return [bits, bits.map(t.half).map((v) => (Number.isFinite(v) ? v : v > 0 ? 1e300 : -1e300))];
    }"""
    with Host(cnn) as host:
        page.goto(host.url)
        bits, back = page.evaluate(script, numbers.tolist())
    with np.errstate(over="ignore"):
        wanted = numbers.astype(np.float16)
    np.testing.assert_array_equal(np.array(bits, np.uint16), wanted.view(np.uint16))
    np.testing.assert_array_equal(np.clip(back, -1e300, 1e300), np.clip(wanted.astype(float), -1e300, 1e300))
