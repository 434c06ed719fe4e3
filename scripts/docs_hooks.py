"""Hooks of mkdocs: pages that are made from other files, and links that lead out of docs/.

mkdocs.yml names this file; it is loaded by ``make docs`` only. Changelog, contributing and security policy are the
files in the root; tables of the record format come from ``schemas/``; the exit codes and options are not repeated
here. A link from docs/ to another place of the repository becomes one to its page where there is one, else text.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "README.md": "index.md",
}
MARKER = "<!-- the fields, from schemas/"
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")
ROW, CODE = (
    re.compile(r"^\|.*\|$", re.MULTILINE),
    re.compile(r"`[^`]+`"),
)  # of a table, "\|" is GitHub's way only
FENCE = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in PAGES.items():
        if page not in files.src_uris:
            files.append(File.generated(config, page, content=relinked((ROOT / source).read_text(), ROOT)))
    for schema in sorted((ROOT / "schemas").glob("*.json")):
        files.append(File.generated(config, f"schemas/{schema.name}", content=schema.read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    if page.file.generated_by is None:
        markdown = relinked(markdown, ROOT / "docs")
    for name in re.findall(rf"{MARKER}([\w-]+)\.json -->", markdown):
        schema = json.loads((ROOT / "schemas" / f"{name}.json").read_text())
        markdown = markdown.replace(f"{MARKER}{name}.json -->", tables(schema))
    return ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown)


def relinked(markdown: str, folder: Path) -> str:
    """The text with its links, which are relative to ``folder``, as the site has them."""

    def place(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        path = (folder / target).resolve()
        inside = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else target
        if inside in PAGES:
            return f"[{text}]({PAGES[inside]}{anchor})"
        if inside.startswith(("docs/", "schemas/")):
            return f"[{text}]({inside.removeprefix('docs/')}{anchor})"
        return text if "`" in text else f"`{inside}`" if text == target else f"{text} (`{inside}`)"

    parts = FENCE.split(markdown)
    return "".join(p if i % 2 else LINK.sub(place, p) for i, p in enumerate(parts))


def tables(schema: dict[str, Any]) -> str:
    """Each object of a JSON Schema as a heading, its description and a table of its fields."""
    objects = {schema["title"]: schema, **schema.get("$defs", {})}
    return "\n".join(
        part for name, value in objects.items() if "properties" in value for part in table(name, value)
    )


def table(name: str, value: dict[str, Any]) -> list[str]:
    needed = value.get("required", [])
    rows = [
        f"| `{field}` | {type_of(said)} | {'yes' if field in needed else ''} | {limits(said)} |"
        for field, said in value["properties"].items()
    ]
    description = value.get("description", "").replace("``", "`")
    return [
        f"### {name}",
        "",
        description,
        "",
        "| field | type | needed | limits |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def type_of(said: dict[str, Any]) -> str:
    if "$ref" in said:
        name = said["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in said:
        return " or ".join(f"`{v}`" for v in said["enum"])
    if "const" in said:
        return f"`{said['const']}`"
    for key in ("anyOf", "oneOf"):
        if key in said:
            return " or ".join(dict.fromkeys(type_of(each) for each in said[key]))
    if said.get("type") == "array":
        return f"list of {type_of(said['items'])}" if said.get("items") else "list"
    if isinstance(inner := said.get("additionalProperties"), dict):
        return f"object of {type_of(inner)}"
    return str(said.get("type", "any"))


def limits(said: dict[str, Any]) -> str:
    found = []
    for key, text in (
        ("minimum", "≥ {}"),
        ("maximum", "≤ {}"),
        ("minLength", "at least {} characters"),
        ("maxLength", "at most {} characters"),
        ("maxItems", "at most {}"),
        ("pattern", "`{}`"),
    ):
        if key in said:
            value = str(said[key]).replace("|", "\\|")
            found.append(text.format(value))
    return ", ".join(found)
