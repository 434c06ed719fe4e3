"""A static host for tests: with a sub-path, headers, files that are not as they were written, and a slow line."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote, urlsplit

PREFIX = "/some/where/"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}


class Host:
    """Serves ``site`` below :data:`PREFIX` on this machine alone.

    Attributes:
        asked: paths in the site that were asked for, in order.
        instead: content that takes the place of a file; None stands for one that is not there.
        slow: files that come in pieces, with seconds between them.
    """

    def __init__(self, site: Path, *, isolated: bool = False) -> None:
        self.site, self.isolated = site, isolated
        self.asked: list[str] = []
        self.instead: dict[str, bytes | None] = {}
        self.slow: dict[str, float] = {}
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{PREFIX}"

    def __enter__(self) -> Host:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def changed(self, path: str, at: int = -1) -> None:
        """From now on a bit of ``path`` is flipped."""
        content = bytearray((self.site / path).read_bytes())
        content[at] ^= 1
        self.instead[path] = bytes(content)


class _Handler(BaseHTTPRequestHandler):
    owner: Host

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        name = path.removeprefix(PREFIX) or "index.html"
        host = self.owner
        host.asked.append(name)
        file = host.site / name
        content = (
            host.instead[name] if name in host.instead else file.read_bytes() if file.is_file() else None
        )
        if not path.startswith(PREFIX) or content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", TYPES.get(file.suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(len(content)))
        for key, value in ISOLATED.items() if host.isolated else ():
            self.send_header(key, value)
        self.end_headers()
        pause = host.slow.get(name)
        step = 2**20 if pause else len(content) or 1
        for i in range(0, len(content), step):
            self.wfile.write(content[i : i + step])
            time.sleep(pause or 0)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
