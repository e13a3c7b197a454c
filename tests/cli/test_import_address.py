"""`familiar import ADDRESS`: a card is fetched where that is allowed."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from familiar_cli.imports import foreign_files
from tests.support.cards import as_json, v2
from tests.support.world import data, home, run


@contextmanager
def served(content: bytes, status: int = 200):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/cards/ilse%20card.json"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_card_is_fetched_and_makes_a_familiar() -> None:
    with served(as_json(v2())) as place:
        (item,) = data("import", place, "--allow-network")["items"]
    assert (item["familiar"], item["error"]) == ("ilse", None)


def test_a_script_fetches_nothing_unless_it_says_so() -> None:
    result = run("import", "https://cards.example/mira.png")
    assert (result.exit_code, "--allow-network" in result.stderr) == (2, True)


def test_what_is_not_there_and_what_is_too_large_is_one_clear_error(monkeypatch) -> None:
    with served(b"", 404) as place:
        result = run("import", place, "--allow-network")
    assert (result.exit_code, "answered 404" in result.stderr) == (5, True)
    monkeypatch.setattr(foreign_files, "MAX_FILE_BYTES", 10)
    with served(b"x" * 11) as place:
        result = run("import", place, "--allow-network")
    assert "is larger than" in result.stderr
    assert not list(home().glob("*")) if home().exists() else True


def test_without_a_network_the_error_says_so() -> None:
    result = run("import", "http://127.0.0.1:9/mira.png", "--allow-network")
    assert "cannot be reached" in result.stderr
    assert "nothing was imported" in result.stderr


def test_the_card_of_a_page_is_asked_of_its_sites_api() -> None:
    page = "https://www.chub.example/characters/somebody/ilse"
    assert foreign_files._file_address(page) == (
        "https://api.chub.example/api/characters/somebody/ilse?full=true"
    )
    assert foreign_files._file_address("https://a.example/b.png") == "https://a.example/b.png"


def test_two_addresses_with_the_same_file_name_are_both_imported() -> None:
    with served(as_json(v2())) as one, served(as_json(v2(name="Mira"))) as other:
        items = data("import", one, other, "--allow-network")["items"]
    assert [item["familiar"] for item in items] == ["ilse", "mira"]


def test_a_name_of_dots_or_of_many_letters_is_no_trouble(tmp_path) -> None:
    with served(b"x") as place:
        base = place.partition("/cards")[0]
        for name in ("...", "é" * 200):
            assert foreign_files.fetch_file(f"{base}/{name}", tmp_path / "1").read_bytes() == b"x"


def test_what_is_no_address_is_an_error() -> None:
    result = run("import", "http://[", "--allow-network")
    assert "is not an address" in result.stderr
    assert "nothing was imported" in result.stderr


def test_offline_nothing_is_fetched(monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_OFFLINE", "1")
    result = run("import", "https://cards.example/mira.png", "--allow-network")
    assert (result.exit_code, "FAMILIAR_OFFLINE" in result.stderr) == (2, True)
