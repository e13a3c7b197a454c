"""Files of every format that were damaged, or made to do harm, are read or refused."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from familiar_cli.base.errors import FamiliarError
from familiar_cli.imports import foreign_files, source
from familiar_cli.imports.cast import Cast
from familiar_cli.imports.contract import ForeignChat, ForeignMessage, Reading, recognise
from familiar_cli.imports.source import Skip, as_source
from familiar_cli.imports.what_is_it import why_unknown
from tests.support.cases import IS_NIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLES = Path(__file__).parent / "samples"
WILD = (None, -1, 10**400, float("inf"), "", [], {}, [[]], [None], "99999-01-01", {"text": [["a"]]})


def places(value: object, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every member of a JSON value, two of each list."""
    items = value.items() if isinstance(value, dict) else []
    items = list(enumerate(value[:2])) if isinstance(value, list) else items
    for key, inner in items:
        yield (*above, key)
        yield from places(inner, (*above, key))


def put(value: object, place: tuple[str | int, ...], wild: object) -> object:
    whole = inner = deepcopy(value)
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = wild
    return whole


def read(path: Path) -> list[tuple[ForeignChat, list[ForeignMessage | Skip]]]:
    """Read all chats in a file, and whatever else it holds."""
    chats = []
    with as_source(path) as opened:
        for found in recognise(opened)[:1]:
            for value in found.format.read(opened, Reading(Cast(unnamed="familiar"))):
                if isinstance(value, ForeignChat):
                    value.head()
                    chats.append((value, list(value.messages())))
    return chats


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.json")))
def test_a_wild_value_anywhere_is_read_or_refused(tmp_path, name) -> None:
    value = json.loads((SAMPLES / name).read_bytes())
    path = tmp_path / name
    for number, place in enumerate(places(value)):
        # At night each value at each place; in the gate a third of them, another at the next place.
        for wild in WILD if IS_NIGHT else WILD[number % 3 :: 3]:
            path.write_text(json.dumps(put(value, place, wild)))
            with suppress(FamiliarError):
                read(path)


def test_a_message_that_nests_too_deeply_is_named(tmp_path) -> None:
    path = tmp_path / "result.json"
    text = "[" * 600 + "]" * 600
    path.write_text(
        '{"name": "Ann", "type": "personal_chat", "id": 5, "messages": ['
        f'{{"id": 1, "type": "message", "from": "Bo", "text": {text}}},'
        '{"id": 2, "type": "message", "from": "Bo", "text": "Hi"}]}'
    )
    ((_, (skip, message)),) = read(path)
    assert (skip, message.text) == (Skip(1, "it nests too deeply"), "Hi")


def test_a_long_tree_of_messages_over_many_lines_is_read(tmp_path) -> None:
    tree: list[dict[str, object]] = []
    for number in range(200, 0, -1):
        above = str(number - 1) if number > 1 else None
        message = {"messageId": str(number), "parentMessageId": above, "text": f"Line {number}"}
        tree = [message | {"children": tree}]
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"conversationId": "c", "title": "T", "messages": tree}, indent=1))
    ((chat, messages),) = read(path)
    assert (chat.name, len(messages), messages[-1].text) == ("T", 200, "Line 200")


@pytest.mark.parametrize("most_bytes", [None, 10_000])
def test_an_accounts_chats_are_found_behind_its_contacts(tmp_path, monkeypatch, most_bytes) -> None:
    if most_bytes:
        monkeypatch.setattr(source, "MAX_CARD_BYTES", most_bytes)
    message = {"id": 1, "type": "message", "from": "Bo", "text": "Hi"}
    chat = {"name": "Ann", "type": "personal_chat", "id": 5, "messages": [message] * 100}
    account = {
        "about": "All your data",
        "personal_information": {"first_name": "Robin"},
        "contacts": {"about": "People", "list": [{"first_name": "Cy"}] * 200},
        "chats": {"about": "Chats [all]", "list": [chat]},
    }
    path = tmp_path / "result.json"
    path.write_text(json.dumps(account))
    ((found, messages),) = read(path)
    assert (found.name, len(messages)) == ("Ann", 100)


def test_a_chat_called_list_is_no_account(tmp_path) -> None:
    path = tmp_path / "result.json"
    message = {"id": 1, "type": "message", "from": "Bo", "text": "Hi"}
    chat = {"name": "list", "type": "personal_chat", "id": 5, "messages": [message]}
    path.write_text(json.dumps(chat))
    ((read_chat, (read_message,)),) = read(path)
    assert (read_chat.name, read_message.text) == ("list", "Hi")


@pytest.fixture
def small(monkeypatch) -> None:
    """Let every file be too large to be read as a whole."""
    monkeypatch.setattr(source, "MAX_CARD_BYTES", 10)
    monkeypatch.setattr(foreign_files, "MAX_CARD_BYTES", 10)


@pytest.mark.usefixtures("small")
def test_a_large_chat_of_telegram_keeps_its_name(tmp_path) -> None:
    path = tmp_path / "result.json"
    message = {"id": 1, "type": "message", "from": "Bo", "text": "Hi"}
    path.write_text(
        json.dumps({"name": "Ann", "type": "personal_chat", "id": 5, "messages": [message]})
    )
    ((chat, messages),) = read(path)
    assert (chat.name, chat.key, len(messages)) == ("Ann", "telegram:5", 1)


@pytest.mark.usefixtures("small")
def test_a_large_package_of_discord_is_read(tmp_path) -> None:
    path = tmp_path / "messages.json"
    path.write_text(json.dumps([{"ID": 1, "Timestamp": "2024-01-01 00:00:00", "Contents": "Hi"}]))
    ((_, messages),) = read(path)
    assert [message.text for message in messages] == ["Hi"]


def test_bytes_in_an_old_history_are_text(tmp_path) -> None:
    path = tmp_path / "history.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE turns (id, role, content, speaker, extra)")
        connection.execute("INSERT INTO turns VALUES (1, 'user', ?, 'Bo', 1e999)", (b"Hi",))
        connection.commit()
    ((_, (message,)),) = read(path)
    assert message.text == "Hi"


def test_a_table_that_is_not_utf8_keeps_its_letters(tmp_path) -> None:
    path = tmp_path / "chat.csv"
    path.write_bytes("Timestamp,From,Text\n2024-01-01 00:00:00,Me,A café\n".encode("cp1252"))
    ((_, (message,)),) = read(path)
    assert message.text == "A café"


def test_a_damaged_file_has_an_error_of_its_own_whatever_its_words(tmp_path) -> None:
    files = {"a.x": b"PK\x03\x04cut off", "b.x": b'{"a": ', "c.x": b"just words", "d.x": b"[1, 2]"}
    damaged = []
    for name, raw in files.items():
        path = tmp_path / name
        path.write_bytes(raw)
        if isinstance(why_unknown(path)[1], foreign_files.DamagedError):
            damaged.append(name)
    assert damaged == ["a.x", "b.x"]
