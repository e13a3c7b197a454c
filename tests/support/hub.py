"""A model hub on loopback: files of repositories, with the headers that the real one announces."""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


@dataclass
class HubFile:
    """One file in a repository.

    Args:
        content: Its bytes.
        large: Announced by SHA-256 behind a redirect, as large files are; else by git's name.
        etag: Announce this instead of the truth; empty: announce nothing.
        break_after: End the connection after so many bytes, once for each number.
        ranges: Requests for the rest of a file are answered with the rest.
    """

    content: bytes
    large: bool = True
    etag: str | None = None
    break_after: list[int] = field(default_factory=list)
    ranges: bool = True

    @property
    def announced(self) -> str:
        if self.etag is not None:
            return self.etag
        if self.large:
            return hashlib.sha256(self.content).hexdigest()
        return hashlib.sha1(b"blob %d\x00" % len(self.content) + self.content).hexdigest()


class HubServer:
    """A context manager: `files` by `owner/name/path`; `requests` lists what was asked."""

    def __init__(self, files: dict[str, HubFile]) -> None:
        self.files = files
        self.requests: list[tuple[str, str, str | None]] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._http.daemon_threads = True
        self._http.hub = self  # type: ignore[attr-defined]
        self._http.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.endpoint = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        hub: HubServer = self.server.hub  # type: ignore[attr-defined]
        hub.requests.append((self.command, self.path, self.headers.get("Range")))
        self.close_connection = True
        elsewhere = self.path.startswith("/store/")
        path = self.path.removeprefix("/store")
        repo, _, rest = path.removeprefix("/").partition("/resolve/")
        file = hub.files.get(f"{repo}/{rest.partition('/')[2]}")
        if file is None:
            self._head(404, {"X-Error-Code": "EntryNotFound", "Content-Length": "0"})
        elif file.large and not elsewhere:
            linked = {
                "X-Linked-Etag": f'"{file.announced}"',
                "X-Linked-Size": str(len(file.content)),
            }
            storage = hub.endpoint.replace(
                "127.0.0.1", "localhost"
            )  # another host, as it really is
            location = {"Location": f"{storage}/store{self.path}", "Content-Length": "0"}
            self._head(302, location | (linked if file.announced else {}))
        else:
            self._content(file, with_body=with_body)

    def _content(self, file: HubFile, *, with_body: bool) -> None:
        start, status = 0, 200
        if file.ranges and (asked := self.headers.get("Range")):
            start, status = int(asked.removeprefix("bytes=").rstrip("-")), 206
        body = file.content[start:]
        etag = {"ETag": f'"{file.announced}"'} if file.announced else {}
        self._head(status, {"Content-Length": str(len(body))} | etag)
        if with_body:
            if file.break_after:
                body = body[: file.break_after.pop(0)]
            with suppress(OSError):
                self.wfile.write(body)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        always = {"X-Repo-Commit": "0" * 40, "Connection": "close"}
        for name, value in (always | headers).items():
            self.send_header(name, value)
        self.end_headers()
