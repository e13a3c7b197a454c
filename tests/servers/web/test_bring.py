"""A file is brought in the page: first what would be done, then the import."""

from __future__ import annotations

import json
import os
import re
import time
from html import unescape

import pytest

from familiar_cli.base.config.home import cache_dir, list_familiars
from tests.support.browsing import looking
from tests.support.cards import png_card, v2
from tests.support.world import data, home, live

CHAT = [
    {"user_name": "Robin", "character_name": "Ada", "chat_metadata": {}},
    {"name": "Robin", "is_user": True, "send_date": "2024-01-31T12:00:00.000Z", "mes": "Hi <b>"},
    {"name": "Ada", "is_user": False, "send_date": "2024-01-31T12:00:09.000Z", "mes": "Hello."},
]


@pytest.fixture
def client():
    live("ada")
    with looking() as found:
        yield found


def upload(client, name: str, content: bytes):
    return client.post("/import", files={"file": (name, content)}, data={"do": "preview"})


def confirm(client, page):
    token = re.search(r'name="token" value="([^"]+)"', page.text)[1]
    return client.post("/import", data={"token": token, "do": "import"}, follow_redirects=True)


def turns() -> list[str]:
    return [turn["content"] for turn in data("history", "show", "--all")["turns"]]


def test_a_chat_is_shown_first_and_imported_then(client) -> None:
    page = upload(client, "Ada - 1.jsonl", "\n".join(map(json.dumps, CHAT)).encode())
    assert "2 turns" in unescape(page.text)
    assert not (home() / "ada" / "history.db").exists() or turns() == []
    assert "2 turns" in unescape(confirm(client, page).text)
    assert turns() == ["Hi <b>", "Hello."]
    assert list((cache_dir() / "uploads").iterdir()) == []


@pytest.mark.posix
def test_a_file_that_nobody_imports_is_deleted_after_an_hour(client) -> None:
    upload(client, "Ada - 1.jsonl", "\n".join(map(json.dumps, CHAT)).encode())
    client.get("/import")
    (kept,) = (cache_dir() / "uploads").iterdir()
    os.utime(kept, (time.time() - 3700,) * 2)
    kept.with_name("gone").symlink_to("nowhere")  # as if another request deleted it just now
    assert client.get("/import").status_code == 200
    assert not kept.exists()


def test_a_card_makes_a_familiar_and_leads_to_it(client) -> None:
    page = upload(client, "../mira.png", png_card(v2(name="Mira")))
    assert list_familiars(home()) == ["ada"]
    assert confirm(client, page).url.path == "/f/mira/"


def test_what_is_not_recognised_is_said(client) -> None:
    page = upload(client, "x.bin", b"\x00\x01")
    assert 'role="alert"' in page.text
    assert "Import it" not in page.text


@pytest.mark.parametrize("token", ["../../etc", "a" * 22, "x"])
def test_only_what_was_uploaded_is_imported(client, token) -> None:
    answer = client.post("/import", data={"token": token, "do": "import"})
    assert (answer.status_code, "no longer stored" in answer.text) == (404, True)


def test_no_file_is_an_error_on_the_page(client) -> None:
    assert client.post("/import", data={"do": "preview"}).status_code == 400


def test_a_long_name_of_a_file_is_shortened(client) -> None:
    page = upload(client, f"{'é' * 300}.png", png_card(v2(name="Mira")))
    assert confirm(client, page).url.path == "/f/mira/"


def test_the_year_of_dates_without_one_is_asked_for(client) -> None:
    page = upload(client, "c.txt", b"31 December 10:04 - User: Hi\n2 January 9:30 - Ada: Ho\n")
    assert "Which day is its first date?" in page.text
    assert '<option value="2023">31 December 2023</option>' in page.text
    token = re.search(r'name="token" value="([^"]+)"', page.text)[1]
    client.post("/import", data={"token": token, "year": "2023", "do": "import"})
    shown = data("history", "show", "--all")["turns"]
    assert [turn["at"][:10] for turn in shown] == ["2023-12-31", "2024-01-02"]
