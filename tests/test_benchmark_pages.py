"""Numbers of the documents are written by the programs that measure them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from benchmarks import page

WRITERS = {  # page: its blocks, each with the module that writes it
    "benchmarks.md": {
        name: f"benchmarks.{name}"
        for name in ("export", "startup", "scaling", "large", "evidence", "unrolling", "raising", "zoo")
    },
    "quantize.md": {"measured": "benchmarks.precision"},
    "web.md": {"measured": "scripts.measure_web", "compared": "benchmarks.web"},
}
TABLE = re.compile(r"^\|[-:| ]+\|$", re.MULTILINE)


@pytest.mark.parametrize("name", WRITERS)
def test_blocks_are_those_of_programs(name: str) -> None:
    text = (page.DOCS / name).read_text()
    assert sorted(re.findall(r"<!-- (\w+): start -->", text)) == sorted(WRITERS[name])
    for block, module in WRITERS[name].items():
        assert TABLE.search(page.block(block, page.DOCS / name)), f"{block}: no table"
        spec = importlib.util.find_spec(module)
        assert spec is not None
        source = Path(str(spec.origin)).read_text()
        assert re.search(rf'write\(\s*"{block}"', source), f"{module} doesn't write {block}"
        if name == "benchmarks.md":
            assert module in text or "make bench" in text


def test_the_page_of_benchmarks_has_no_table_by_hand() -> None:
    text = page.PAGE.read_text()
    for block in WRITERS["benchmarks.md"]:
        text = text.replace(page.block(block), "")
    assert not TABLE.search(text)


def test_writing_replaces_a_block_and_nothing_else(tmp_path: Path) -> None:
    place = tmp_path / "page.md"
    place.write_text("a\n<!-- x: start -->\nold\n<!-- x: end -->\nb\n<!-- y: start -->\n<!-- y: end -->\n")
    page.write("x", "new\\1\n", place)
    assert place.read_text() == (
        "a\n<!-- x: start -->\nnew\\1\n<!-- x: end -->\nb\n<!-- y: start -->\n<!-- y: end -->\n"
    )
    with pytest.raises(ValueError, match="no block z"):
        page.write("z", "new", place)
