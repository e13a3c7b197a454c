"""Who may ask: what a page in a browser, a stranger and a slow client try, and what they get."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest

from familiar_cli.base.config.serving import read_tokens
from tests.support.serving import serving, user
from tests.support.world import home, live, run

TOKEN = "a-token-that-nobody-guesses-0123456789"
PAGE = "http://page.example"


@pytest.fixture
def server(serve):
    live("ada")
    serve("Hello.")
    with serving() as found:
        yield found


def raw(url: str, request: bytes, wait_s: float = 20.0) -> bytes:
    """Send bytes, and return what comes until the server hangs up."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=wait_s) as connection:
        connection.sendall(request)
        pieces = []
        while piece := connection.recv(65536):
            pieces.append(piece)
        return b"".join(pieces)


def get(url: str, *headers: str, path: str = "/v1/models") -> bytes:
    lines = [f"GET {path} HTTP/1.1", *headers, "Connection: close", "", ""]
    return raw(url, "\r\n".join(lines).encode("latin-1"))


def test_health_says_nothing_private(server) -> None:
    assert server.client.get("/health").json() == {"status": "ok"}
    assert server.client.get("/ready").json() == {"status": "ready"}


def test_a_server_whose_familiar_cannot_be_opened_is_not_ready(server) -> None:
    (home() / "ada" / "history.db").write_bytes(b"no database" * 100)
    refused = server.client.get("/ready")
    assert (refused.status_code, refused.json()) == (503, {"status": "unavailable"})
    assert server.client.get("/health").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost.evil.example:1", ""])
def test_a_rebound_name_is_refused(server, host) -> None:
    assert b" 421 " in get(server.url, f"Host: {host}")


def test_our_own_names_are_not(server) -> None:
    port = urlsplit(server.url).port
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}"):
        assert b" 200 " in get(server.url, f"Host: {host}")


def test_two_hosts_are_refused(server) -> None:
    port = urlsplit(server.url).port
    answer = get(server.url, f"Host: 127.0.0.1:{port}", "Host: evil.example")
    assert b" 200 " not in answer


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
def test_a_page_from_elsewhere_changes_nothing(server, headers) -> None:
    reply = server.post(messages=[user("Hello")], headers=headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "wrong_origin")
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_form_of_a_page_is_no_request(server, kind) -> None:
    body = b'{"model": "ada", "messages": [{"role": "user", "content": "Hello"}]}'
    reply = server.client.post("/v1/chat/completions", content=body, headers={"Content-Type": kind})
    assert reply.status_code == 415


def test_a_page_that_the_settings_name_may_ask_and_read(serve) -> None:
    live("ada")
    serve("Hello.")
    with serving(origins=(PAGE,)) as server:
        reply = server.post(messages=[user("Hello")], headers={"Origin": PAGE})
        asked = {"Origin": PAGE, "Access-Control-Request-Headers": "content-type,x-familiar-type"}
        preflight = server.client.options("/v1/chat/completions", headers=asked)
        other = {"Origin": "http://page.example.evil.example"}
        refused = server.client.options("/v1/chat/completions", headers=other)
    assert reply.status_code == 200
    assert reply.headers["access-control-allow-origin"] == PAGE
    assert "x-familiar-turn" in reply.headers["access-control-expose-headers"]
    assert preflight.headers["access-control-allow-headers"] == "content-type,x-familiar-type"
    assert refused.status_code == 403


def test_a_token_is_needed_where_one_is_set(serve) -> None:
    live("ada")
    serve("Hello.")
    with serving(tokens=(TOKEN,)) as server:
        assert server.client.get("/health").status_code == 200
        assert server.client.get("/v1/models").status_code == 401
        assert server.client.get(f"/v1/models?token={TOKEN}").status_code == 401
        allowed = {"Authorization": f"Bearer {TOKEN}"}
        assert server.client.get("/v1/models", headers=allowed).status_code == 200


def test_only_a_token_marked_as_the_owners_shows_what_is_private(serve, tmp_path) -> None:
    live("ada")
    serve("Noted.")
    run("ask", "The word is zanzibar.")
    file, other = tmp_path / "tokens", f"other-{TOKEN}"
    file.write_text(f"# mine\nowner {TOKEN}\n{other}\n", encoding="utf-8")
    found = read_tokens(file)
    assert (found.tokens, found.of_owner) == ((TOKEN, other), {TOKEN})
    with serving(tokens=found.tokens, owner_tokens=found.of_owner) as server:

        def days(token: str) -> list[object]:
            headers = {"Authorization": f"Bearer {token}"}
            reply = server.client.get("/sessions/search", params={"q": "zanzibar"}, headers=headers)
            return reply.json()["days"]

        assert days(other) == []
        assert "zanzibar" in str(days(TOKEN))


def test_many_wrong_tokens_open_nothing(serve) -> None:
    live("ada")
    serve("Hello.")
    with serving(tokens=(TOKEN,)) as server:
        for number in range(200):
            wrong = TOKEN[: number % len(TOKEN)] if number % 2 else f"{TOKEN}{number}"
            reply = server.client.get("/v1/models", headers={"Authorization": f"Bearer {wrong}"})
            assert reply.status_code == 401


def test_a_body_that_is_too_large_is_not_read(server) -> None:
    port = urlsplit(server.url).port
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        "Content-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n"
    )
    assert b" 413 " in raw(server.url, head.encode())


def test_a_head_that_does_not_come_is_not_waited_for() -> None:
    live("ada")
    with serving(head_s=0.3) as server:
        assert raw(server.url, b"GET /v1/models HTTP/1.1\r\nHost: x") == b""


def test_a_body_that_comes_too_slowly_is_not_waited_for() -> None:
    live("ada")
    with serving(body_s=0.3) as server:
        port = urlsplit(server.url).port
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
        )
        assert b" 408 " in raw(server.url, head.encode())


def test_too_many_headers_are_refused(server) -> None:
    port = urlsplit(server.url).port
    many = [f"X-{n}: 1" for n in range(200)]
    assert b" 431 " in get(server.url, f"Host: 127.0.0.1:{port}", *many)


@pytest.mark.parametrize(
    "path",
    ["/../character.toml", "/v1/models/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/v1/%00", "/.env"],
)
def test_no_path_leads_to_a_file(server, path) -> None:
    port = urlsplit(server.url).port
    answer = get(server.url, f"Host: 127.0.0.1:{port}", path=path)
    assert b" 404 " in answer
    assert b"root:" not in answer


def test_a_header_is_not_split_by_what_a_channel_is_called(server) -> None:
    headers = {"X-Familiar-Channel": "a%0d%0aX-Evil: 1"}
    reply = server.post(messages=[user("Hello")], headers=headers)
    assert "x-evil" not in reply.headers


def test_without_a_token_nobody_from_elsewhere_can_ask() -> None:
    live("ada")
    result = run("serve", "--host", "0.0.0.0", "--port", "0")
    assert result.exit_code == 3
    assert "--token-file" in result.stderr


@pytest.mark.parametrize("text", ["", "# nothing\n", "short\n"])
def test_a_token_that_can_be_guessed_is_refused(tmp_path, text) -> None:
    live("ada")
    file = tmp_path / "tokens"
    file.write_text(text, encoding="utf-8")
    result = run("serve", "--port", "0", "--token-file", str(file))
    assert result.exit_code == 3
    assert "token" in result.stderr


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("chat.example", 200),
        ("chat.example:443", 200),
        ("chat.example:8443", 421),
        ("other.example", 200),
        ("evil.example", 421),
    ],
)
def test_a_proxy_passes_on_the_name_that_it_has(host, status) -> None:
    live("ada")
    with serving(hosts=("chat.example:443", "other.example")) as server:
        assert server.client.get("/v1/models", headers={"Host": host}).status_code == status
