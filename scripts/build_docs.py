"""Build the site of the documents, and check it.

Usage: ``python3 scripts/build_docs.py MAIN VENV SITE``. MAIN is the environment of ``make setup``; VENV sees its
packages and gets those of the extra ``docs`` beside them; SITE is the folder that is written.

mkdocs is strict: a warning, such as a link that leads nowhere, is an error. Then every page is read again: each link
and anchor leads somewhere, and nothing is fetched from another host.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import environments
from environments import ROOT

FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
NOT_FETCHED = ("canonical", "prev", "next", "alternate")


def make(main: Path, folder: Path) -> Path:
    """An environment over that of ``main`` with the packages of the extra, kept when it works; its interpreter."""
    python = folder / "bin" / "python"
    if python.exists():
        known = subprocess.run([python, "-c", "import mkdocs, material, mkdocstrings"], check=False)
        if known.returncode == 0:
            return python
    return environments.over(main, folder, "docs")


class Page(HTMLParser):
    """The ids of a page, where it links to, and what a browser fetches with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.ids.update(said[name] for name in ("id", "name") if name in said and tag != "meta")
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        if tag in FETCHED and FETCHED[tag] in said and said.get("rel") not in NOT_FETCHED:
            self.fetched.append(said[FETCHED[tag]])


def problems(site: Path) -> Iterator[str]:
    """What is wrong with a site: a link or an anchor that leads nowhere, or a file that another host gives."""
    pages = {p: Page(p.read_text()) for p in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site)
        for address in page.fetched:
            if urlsplit(address).netloc:
                yield f"{name} fetches {address}"
        for address in [] if path.name == "404.html" else [*page.links, *page.fetched]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{name} links to {address}, which is not there"
            elif parts.fragment and (found := pages.get(target)) and unquote(parts.fragment) not in found.ids:
                yield f"{name} links to {address}: there is no such place on that page"


def main() -> None:
    base, folder, site = (Path(argument) for argument in sys.argv[1:4])
    started = time.monotonic()
    python = make(base, folder)
    command = [python, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", site.resolve()]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=False)
    if done.returncode:
        sys.exit("docs: the site was not built")
    found = list(problems(site.resolve()))
    if found:
        sys.exit("\n".join(f"docs: {problem}" for problem in found))
    count = sum(1 for _ in site.rglob("*.html"))
    print(
        f"docs: {count} pages, all links lead somewhere, {time.monotonic() - started:.0f} s; look at {site}/index.html"
    )


if __name__ == "__main__":
    main()
