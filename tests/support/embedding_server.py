"""A server on loopback that speaks `/v1/embeddings` by a script.

    with EmbeddingServer(alike=[("umbrella", "parasol")]) as server:
        monkeypatch.setenv("FAMILIAR_EMBEDDING_BASE_URL", server.base_url)
        ...
    assert server.texts[0] == "passage: I lost my umbrella."

Each request takes the next step of the script; `None`, or the end of it, is an ordinary answer.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.embedders import WordEmbedder

Step = tuple[int, object] | Callable[[list[str]], tuple[int, object]] | None


class EmbeddingServer:
    """Answers with vectors of words; `requests` holds headers and bodies as they came."""

    def __init__(self, script: Sequence[Step] = (), *, dimension: int = 256, alike=()) -> None:
        self.words = WordEmbedder(dimension=dimension, alike=alike)
        self.script = list(script)
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.hold = threading.Event()
        self.hold.set()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._http.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Go away: from now on connections are refused."""
        self.hold.set()
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
            self._http.server_close()

    @property
    def texts(self) -> list[str]:
        """Every text that arrived, in order."""
        return [text for _, body in self.requests for text in body["input"]]

    def answer(self, body: dict[str, Any]) -> tuple[int, object]:
        step = self.script.pop(0) if self.script else None
        if callable(step):
            step = step(body["input"])
        if step is not None:
            return step
        rows = self.words.passages(body["input"])
        data = [{"index": n, "embedding": row.tolist()} for n, row in enumerate(rows)]
        return 200, {"object": "list", "model": body["model"], "data": data[::-1]}


def _handler_of(server: EmbeddingServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            self._send(200, {"data": [{"id": "nomic-embed-text"}, {"id": "llama3"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            server.requests.append((headers, body))
            server.hold.wait(20)
            if self.path != "/v1/embeddings":
                self._send(404, {"error": {"message": "Not Found"}})
            else:
                self._send(*server.answer(body))

        def _send(self, status: int, said: object) -> None:
            raw = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            with suppress(OSError):  # whoever asked did not wait
                self.wfile.write(raw)

    return Handler
