"""What the documents show works as written: every block of every page runs, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import onnxproof
from tests.documents import SHELLS, blocks, commands, run_apart, runner

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md")),
]


def runs(document: str) -> bool:
    """Whether a page has a block to run."""
    page = (ROOT / document).read_text()
    return not runner(page) and any(
        block.language == "python" or (block.language in SHELLS and any(commands(block.text)))
        for block in blocks(page)
        if not block.directive.startswith("not run:")
    )


@pytest.mark.parametrize("document", [page for page in PAGES if runs(page)])
def test_blocks_run(tmp_path: Path, document: str) -> None:
    run_apart(document, tmp_path)


@pytest.mark.parametrize("document", [page for page in PAGES if runner((ROOT / page).read_text())])
def test_pages_that_run_elsewhere_do(document: str) -> None:
    lane = ROOT / runner((ROOT / document).read_text())
    assert any(f'run_apart("{document}"' in path.read_text() for path in lane.glob("test_*.py"))


@pytest.mark.parametrize("document", PAGES)
def test_blocks_that_do_not_run_say_why(document: str) -> None:
    """Commands stand in ``console`` blocks behind ``$``; what is left out has a reason."""
    for block in blocks((ROOT / document).read_text()):
        place = f"{document}:{block.line}"
        directive = block.directive
        assert not directive.startswith("not run") or re.fullmatch(r"not run: .{10,}", directive), place
        if block.language in SHELLS and "$ " not in block.text and not directive:
            assert not re.search(r"^onnxproof ", block.text, re.MULTILINE), place


def test_the_readme_shows_the_command_of_its_example() -> None:
    (example,) = (b.text for b in blocks((ROOT / "README.md").read_text()) if b.language == "python")
    assert "scores.onnx" in example
    shown = "".join(b.text for b in blocks((ROOT / "README.md").read_text()) if b.language == "console")
    assert "export mypackage.search:scores -i query=B,64 -i keys=K,64 -o scores.onnx" in shown


@pytest.mark.parametrize("document", PAGES)
def test_links_lead_somewhere(document: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", text):
        if target.startswith("https://"):
            continue
        path = (ROOT / document).parent / target if target else ROOT / document
        assert path.exists(), f"{document} links to {target}"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path.read_text()), f"{document} links to {target}#{anchor}"


def anchors(page: str) -> set[str]:
    """The places that headings of a page make, as GitHub and the site call them."""
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip()) for title in titles}


@pytest.mark.parametrize("document", PAGES)
def test_make_targets_exist(document: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    page = (ROOT / document).read_text()
    shown = "".join(b.text for b in blocks(page) if b.language in SHELLS)
    named = re.findall(r"make ([a-z-]+)", shown) + re.findall(r"`make ([a-z-]+)[^`]*`", page)
    assert set(named) <= targets


def test_the_reference_has_every_name() -> None:
    shown = re.findall(r"^::: onnxproof\.(\S+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    modules = {name for name in shown if name == "errors"}
    for name, home in onnxproof._HOME.items():
        assert home in modules or f"{home}.{name}" in shown, name


def test_the_home_page_has_the_figure_of_coverage() -> None:
    agree, refused = re.findall(
        r"^\| \*\*all\*\* \| \*\*(\d+)\*\* \| \*\*(\d+)", _text("coverage.md"), re.MULTILINE
    )[0]
    assert f"{agree} of {int(agree) + int(refused)} public functions" in _text("index.md")


def _text(page: str) -> str:
    return (ROOT / "docs" / page).read_text()


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    made = {"changelog.md", "contributing.md", "security-policy.md"}  # by scripts/docs_hooks.py
    assert listed - made == {p.name for p in (ROOT / "docs").glob("*.md")}
