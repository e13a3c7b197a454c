"""What a request may cost: bytes, time, and whether anybody still waits for the answer."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from familiar_cli.base.errors import OutOfTimeError, UsageError
from familiar_cli.base.times.clock import check_work_limit
from familiar_cli.servers import guard
from familiar_cli.servers.api_errors import ApiError
from familiar_cli.servers.chat_api import aligning
from familiar_cli.servers.chat_api.aligning import (
    KeptLine,
    RequestLine,
    _Comparison,
    align_lines,
)
from familiar_cli.servers.chat_api.api_format import parse_request
from familiar_cli.servers.guard import Guard, RequestBudget, Rules
from familiar_cli.servers.mcp.arguments import read_arguments
from familiar_cli.servers.mcp.catalogue import TOOLS
from familiar_cli.store.history.store import HistoryStore
from tests.servers.chat_api.test_guard import raw
from tests.support.serving import serving, user
from tests.support.world import live, run

RULES = Rules(frozenset({"here"}), most_bodies_bytes=150_000, body_s=5)


@pytest.fixture
def server(serve):
    live("ada")
    serve("Hello.")
    with serving() as found:
        yield found


class Requests:
    """Requests to an application behind a guard, made by hand."""

    def __init__(self, app) -> None:
        self._guard = Guard(app, RULES)

    def begin(self, *messages):
        """Begin a request whose body comes so far; return its task and where more is put."""
        coming, answered = asyncio.Queue(), []
        for message in messages:
            coming.put_nowait(message)

        async def send(message) -> None:
            answered.append(message)

        headers = [(b"host", b"here"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/x", "headers": headers}
        task = asyncio.ensure_future(self._guard(scope, coming.get, send))
        return task, coming, answered


def piece(size: int, *, more: bool = True):
    return {"type": "http.request", "body": b" " * size, "more_body": more}


async def answer(scope, receive, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def test_unfinished_bodies_hold_no_more_than_all_bodies_together_may() -> None:
    async def several() -> list[int]:
        requests = Requests(answer)
        first, coming, _ = requests.begin(piece(150_000))
        await asyncio.sleep(0)
        second, _, refused = requests.begin(piece(150_000))
        small, _, small_answer = requests.begin(piece(50_000, more=False))
        await asyncio.gather(second, small)
        coming.put_nowait({"type": "http.disconnect"})
        await first
        third, _, accepted = requests.begin(piece(150_000, more=False))
        await third
        return [refused[0]["status"], small_answer[0]["status"], accepted[0]["status"]]

    assert asyncio.run(several()) == [503, 200, 200]


def test_work_ends_when_the_client_has_left() -> None:
    ended: list[type] = []
    begun = threading.Event()

    def work() -> None:
        begun.set()
        while True:
            check_work_limit()

    async def busy(scope, receive, send) -> None:
        try:
            await RequestBudget.of(scope).work(work)
        except OutOfTimeError as error:
            ended.append(type(error))

    async def leave() -> None:
        task, coming, _ = Requests(busy).begin(piece(10, more=False))
        await asyncio.to_thread(begun.wait)
        coming.put_nowait({"type": "http.disconnect"})
        await task

    asyncio.run(leave())
    assert ended == [OutOfTimeError]


def test_two_lengths_of_one_body_are_refused(server) -> None:
    port = urlsplit(server.url).port
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 5\r\n"
        "Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n0\r\n\r\n"
    )
    assert raw(server.url, head.encode()).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/v1/chat/completions", "/mcp", "/"])
def test_odd_methods_are_refused_in_json_and_break_nothing(server, path) -> None:
    for method in ("PUT", "DELETE", "TRACE", "CONNECT", "PROPFIND", "X" * 500):
        reply = server.client.request(method, path)
        assert reply.status_code in {403, 405, 501}, method
        if path != "/":
            assert reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"model":"ada","messages":[' + b"{}," * 600_000 + b"{}]}", 413),
        (b'{"model":"' + b"\\n" * 4_100_000 + b'"}', 413),
        (json.dumps({"model": "ada", "messages": [user("x" * 4_000_001)]}).encode(), 413),
        (json.dumps({"model": "x" * 1_000_000, "messages": [user("x")]}).encode(), 404),
        (b"[" * 100_000, 400),
        ("x".encode("utf-16"), 400),
    ],
)
def test_what_would_cost_too_much_is_refused_in_few_words(server, body, status) -> None:
    for path in ("/v1/chat/completions", "/familiar/context"):
        reply = server.client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert (reply.status_code, len(reply.content) < 3_000) == (status, True)


def test_a_message_of_a_megabyte_is_answered(server) -> None:
    text = "Where do the bees of Anna live? " * 31_250
    reply = server.client.post("/familiar/context", json={"model": "ada", "messages": [user(text)]})
    assert reply.status_code == 200


def test_a_client_that_stops_reading_is_left_and_its_reply_is_kept(serve) -> None:
    root = live("ada")
    text = ("Bees." * 20_000 + " ") * 100
    serve(text)
    with serving(stalled_s=0.3) as server:
        parts = urlsplit(server.url)
        body = json.dumps({"model": "ada", "stream": True, "messages": [user("Hello")]})
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((parts.hostname, parts.port))
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(f"{head}{body}".encode())
            client.settimeout(20)
            history = HistoryStore(root / "history.db")
            for _ in range(200):
                said = history.last_turn()
                if said and said.role == "assistant":
                    break
                threading.Event().wait(0.1)
            history.close()
    assert said is not None
    assert said.role == "assistant"
    assert text.startswith(said.content[:1000])


def test_an_argument_of_a_megabyte_is_refused_at_once() -> None:
    for tool in TOOLS:
        nested = {next(iter(tool.takes), "x"): [{"deep": "x" * 1_000_000}]}
        with pytest.raises(UsageError, match="1,000,000 characters") as raised:
            read_arguments(tool, nested)
        assert len(str(raised.value)) < 300


def test_thousands_of_equal_lines_are_placed_in_bounded_time(monkeypatch) -> None:
    assert aligning._MOST_STEPS < 5_000 * 6_000
    monkeypatch.setattr(aligning, "_MOST_STEPS", 100_000)
    lines = [RequestLine("user", "Hello")] * 1_000
    kept = [KeptLine(n, "user", "Hello", {}) for n in range(2_000)]
    other = [KeptLine(0, "user", "Bye", {}), *kept]
    assert align_lines([*lines, RequestLine("user", "Bees?")], kept) is not None
    assert (
        align_lines([*lines, RequestLine("assistant", "x"), RequestLine("user", "Bees?")], other)
        is not None
    )
    compared = _Comparison(lines, kept)
    assert compared.is_same(0, 0)


NOT_PUBLIC = [
    *("file:///etc/passwd", "ftp://example.org/a.png", "/etc/passwd", "http:///a.png"),
    *("http://127.0.0.1/", "http://10.1.2.3/", "http://169.254.169.254/", "http://[::1]/"),
    *("http://[2002:7f00:1::]/", "http://[64:ff9b::a00:1]/"),
    *("http://[::ffff:10.0.0.1]/", "http://0x7f.1/", "http://127.1/", "http://2130706433/"),
    *("http://localhost/", "http://nas.local./", "http://ollama:11434/", "http://a b.org/"),
    *("http://a.org@127.0.0.1/", "http://127.0.0.1\\@a.org/", "data:text/html;base64,AA=="),
]


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("data:image/png;base64,AA==", True),
        ("https://example.org/a.png", True),
        ("http://93.184.216.34:8080/a.png", True),
        *((url, False) for url in NOT_PUBLIC),
    ],
)
def test_a_model_server_is_sent_no_address_of_a_file_or_a_private_network(url, is_allowed) -> None:
    source = {"type": "image", "source": {"type": "url", "url": url}}
    shapes = ({"type": "image_url", "image_url": {"url": url}}, {"image_url": url}, source)
    for part in shapes[: 2 if url.startswith("data:") else 3]:
        messages = [{"role": "user", "content": [part]}, user("What is it?")]
        body = json.dumps({"model": "ada+memory", "messages": messages}).encode()
        if is_allowed:
            assert parse_request(body, ["ada"]).said == "What is it?"
        else:
            with pytest.raises(ApiError, match="nothing was sent"):
                parse_request(body, ["ada"])


def test_the_page_names_the_most_bytes_of_a_request() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "server.md").read_text("utf-8")
    most = guard._MOST_TEXT_BYTES
    for size in (most, Rules(frozenset()).most_body_bytes, guard._MOST_OTHER_BYTES):
        assert f"{size // 2**20} MiB" in page
    kind = {"content-type": "application/json"}
    guard._check_values(b'"image"' + b" " * most, kind)
    with pytest.raises(ApiError, match="without pictures may have at most 16,777,216 bytes"):
        guard._check_values(b" " * (most + 1), kind)


def test_a_message_longer_than_a_prompt_has_the_code_of_the_api(serve) -> None:
    live("ada")
    serve("Hello.")
    run("config", "set", "budget.total", "1000")
    with serving() as found:
        reply = found.post(messages=[user("Where do the bees live? " * 2_000)])
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "context_length_exceeded")
