"""ONNX Runtime Web in a page of the system's Chromium."""

from __future__ import annotations

from typing import Any

from onnxproof.evidence.runtimes.web.link import Ended
from onnxproof.evidence.runtimes.web.locate import Missing, Package, script
from onnxproof.evidence.runtimes.web.server import Server

# The build of each provider, and the two files of WebAssembly that it loads.
BUILDS = {"wasm": ("ort.wasm.min.mjs", ""), "webgpu": ("ort.webgpu.min.mjs", ".asyncify")}
_PAGE = ("page.mjs", "core.mjs", "wire.mjs")
_START_MS = 60_000.0


def need_playwright() -> None:
    """Raise unless the library that drives browsers can be imported.

    Raises:
        Missing: it can't.
    """
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError as err:
        raise Missing(
            "playwright, which drives browsers, is not installed: pip install 'onnxproof[web]'"
        ) from err


class Browser:
    """A link to ``page.mjs``, in a browser of its own; it ends with the process group of this process."""

    def __init__(self, program: str, package: Package, provider: str) -> None:
        from playwright.sync_api import sync_playwright

        build, kind = BUILDS[provider]
        files = {name: script(name) for name in _PAGE}
        loaded = (build, *(f"ort-wasm-simd-threaded{kind}.{end}" for end in ("mjs", "wasm")))
        files |= {f"ort/{name}": package.dist / name for name in loaded}
        page = script("index.html").read_text().replace("BUILD", build)
        self._server = Server(files, {"index.html": page})
        self._playwright: Any = sync_playwright().start()
        self._browser: Any = self._playwright.chromium.launch(
            executable_path=program,
            headless=True,
            timeout=_START_MS,
            args=["--enable-unsafe-webgpu"] if provider == "webgpu" else [],
        )
        self._page: Any = self._browser.new_page()
        self._page.goto(f"{self._server.url}index.html", timeout=_START_MS)
        self._page.wait_for_function("document.title === 'ready'", timeout=_START_MS)

    def ask(self, message: bytes) -> bytes:
        """Send a message and wait for the answer, as long as it takes.

        Raises:
            Ended: the page or the browser ended instead.
        """
        from playwright.sync_api import Error

        self._server.message, self._server.answer = message, b""
        try:
            self._page.evaluate("window.answer()")
        except Error as err:
            raise Ended(f"the page ended: {err.message}") from err
        return self._server.answer

    def close(self) -> None:
        """End the browser, what drives it, and the server."""
        self._browser.close()
        self._playwright.stop()
        self._server.close()
