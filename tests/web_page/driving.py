"""What tests do on the page, and with what it saves."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from onnxproof.evidence.conform import read_bundle
from onnxproof.evidence.record import Record
from onnxproof.page.device import judge, read_device_record
from tests.web_page.serving import Host


def open_page(page: Page, host: Host) -> None:
    """Open the page and wait until it can be used."""
    page.goto(host.url)
    expect(page.locator("#controls")).to_be_visible()


def run(page: Page, host: Host, *, webgpu: bool = False) -> str:
    """Open the page and run the proof to its end; the verdict, ``passed`` or ``failed``."""
    open_page(page, host)
    if page.locator("#use-webgpu").is_enabled():
        page.locator("#use-webgpu").set_checked(webgpu)
    page.locator("#run").click()
    return verdict(page)


def verdict(page: Page) -> str:
    """Wait for a verdict."""
    expect(page.locator("#proof")).to_have_class(re.compile("passed|failed"))
    return str(page.locator("#proof").get_attribute("class")).split()[-1]


def outcomes(page: Page, provider: str = "wasm") -> dict[str, str]:
    """What came of each case on a provider, as the table has it."""
    rows = page.locator("#table tbody tr").all()
    cell = f'td[data-provider="{provider}"]'
    return {
        str(row.get_attribute("data-case")): str(row.locator(cell).get_attribute("data-outcome"))
        for row in rows
    }


def port(page: Page, name: str) -> Locator:
    """The part of the form for one input."""
    return page.locator(f'[data-port="{name}"]')


def saved(page: Page, place: Path) -> Path:
    """Save the record of the page at ``place``."""
    with page.expect_download() as download:
        page.locator("#save").click()
    download.value.save_as(place)
    return place


def judged(place: Path, bundle: Path) -> list[Record]:
    """What the record at ``place`` comes to, held against the bundle."""
    return judge(read_device_record(place), read_bundle(bundle), bundle)
