"""The pages that a browser loads: a few files by name, to this machine alone, under a strict content policy."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
}
# WebAssembly is compiled from what was fetched; ONNX Runtime's threads are workers of its own file.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self';"
    " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",  # these three let a page have threads
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Server:
    """Serves files by name and one message at a time, on a port and below a path that nobody else knows.

    Args:
        files: path on the server → file.
        texts: path on the server → text that takes the place of a file.
    """

    def __init__(self, files: Mapping[str, Path], texts: Mapping[str, str]) -> None:
        self.message = b""
        self.answer = b""
        place = f"/{secrets.token_hex(16)}/"
        names = {"owner": self, "place": place, "files": files, "texts": texts}
        handler: type[_Handler] = type("Handler", (_Handler,), names)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        handler.host = f"127.0.0.1:{self._http.server_address[1]}"
        self.url = f"http://{handler.host}{place}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Serve no more."""
        self._http.shutdown()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or an answer waits for the receipt of its headers
    owner: ClassVar[Server]
    host: ClassVar[str]
    place: ClassVar[str]
    files: ClassVar[Mapping[str, Path]]
    texts: ClassVar[Mapping[str, str]]

    def do_GET(self) -> None:
        name = self._name()
        if name == "message":
            self._send(self.owner.message, "application/octet-stream")
        elif name in self.texts:
            self._send(self.texts[name].encode(), TYPES[Path(name).suffix])
        elif name in self.files:
            self._send(self.files[name].read_bytes(), TYPES[Path(name).suffix])
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        size = self.headers.get("Content-Length", "")
        if self._name() != "answer" or not size.isdecimal():
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.owner.answer = self.rfile.read(int(size))
        self._send(b"", "text/plain")

    def end_headers(self) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing: standard error is for what went wrong."""

    def _name(self) -> str:
        """The file that is asked for; nothing where the request is not for this server."""
        own = self.headers.get("Host") == self.host
        return self.path.removeprefix(self.place) if own and self.path.startswith(self.place) else ""

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
