"""One contract for every format: a module, a line in the table, a sample."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from familiar_cli.imports import contract
from familiar_cli.imports.cast import Cast
from familiar_cli.imports.contract import (
    ForeignChat,
    ForeignMessage,
    Reading,
    form_of,
    load_format,
    load_formats,
    recognise,
)
from familiar_cli.imports.reading import read_card
from familiar_cli.imports.source import ForeignFile, as_source
from tests.support.world import data, live

SAMPLES = sorted((Path(__file__).parent / "samples").iterdir())
READING = Reading(Cast(known=("Ibis",), unnamed="familiar"), UTC)
FIRST = datetime(2025, 3, 28, 21, 25, tzinfo=UTC)
UNTIMED = ("sharegpt", "openai", "kobold")


def name_of(path):
    return path.name.partition(".")[0]


def forms_of(path):
    with as_source(path) as source:
        return recognise(source)[0].forms


def read(path):
    with as_source(path) as source:
        found = recognise(source)[0].format
        return [
            (form_of(value), value, list(value.messages()) if form_of(value) == "chat" else [])
            for value in found.read(source, READING)
        ]


def test_every_format_has_a_sample_and_a_name_of_its_own():
    names = [found.name for found in load_formats()]
    assert len(set(names)) == len(names)
    assert {name_of(path) for path in SAMPLES} == set(names)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_recognised_by_its_own_format_alone(path):
    with as_source(path) as source:
        assert [found.format.name for found in recognise(source)] == [name_of(path)]
        seen = {found.name: contract._sniff(found, source).certainty for found in load_formats()}
    name = name_of(path)
    assert [other for other, how in seen.items() if how == seen[name]] == [name]
    assert seen[name] == "certain" or "certain" not in seen.values()


def test_the_table_names_the_forms_of_each_format():
    for row, found in zip(contract.TABLE, load_formats(), strict=True):
        assert tuple(row.split()[1:]) == found.forms


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_read_to_the_forms_that_its_format_states(path):
    if path.stem == "unread":
        return
    forms = {form for form, _, _ in read(path)}
    assert forms == set(forms_of(path)) - ({"lorebook"} if path.stem == "risuai" else set())
    assert forms <= set(load_format(name_of(path)).forms)


CHATS = [path for path in SAMPLES if "chat" in forms_of(path)]


@pytest.mark.parametrize("path", CHATS, ids=lambda path: path.stem)
def test_a_chat_has_its_authors_and_its_times(path):
    (lines,) = [found for form, _, found in read(path) if form == "chat"]
    messages = [line for line in lines if isinstance(line, ForeignMessage)]
    spoken = [m for m in messages if m.role != "system" and "heron" in m.text]
    assert [(m.role, m.text) for m in spoken] == [("user", "Did the heron come back?")]
    assert spoken[0].at == (None if path.stem in UNTIMED else FIRST)
    answers = [m for m in messages if m.text == "At dawn, twice."]
    assert [m.role for m in answers] == ([] if path.stem == "discord_package" else ["assistant"])


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_what_its_program_switched_off_stays_off(path):
    if path.stem == "unread":
        return
    books = [value for form, value, _ in read(path) if form == "lorebook"]
    assert [entry.title for book in books for entry in book.entries if entry.enabled] == []


@pytest.mark.parametrize("name", ["card", "agnai.card", "site_card", "backyard"])
def test_a_card_says_who_it_is_and_never_what_only_its_site_says(name):
    (card,) = [v for f, v, _ in read(next(p for p in SAMPLES if p.stem == name)) if f == "card"]
    assert "counts birds" in card.text("description").lower()
    assert card.text("first_mes") == "Mind the reeds."
    assert "best bird" not in card.text("description")
    assert "note to myself" not in card.text("description")


def test_a_new_format_is_one_file_and_one_line_in_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(contract, "TABLE", [*contract.TABLE, "tests.support.tide_format chat"])
    live("ibis")
    path = tmp_path / "gauge.log"
    path.write_text("~Nell|Is it high?\n~ibis|In an hour.\n", encoding="utf-8")

    (item,) = data("import", str(path), "--me", "Nell")["items"]

    assert item["title"] == "a chat (Tide)"
    assert [chat["format"] for chat in item["results"][0]["chats"]] == ["tide"]
    turns = data("history", "show", "--channel", "gauge")["turns"]
    assert [(turn["role"], turn["content"]) for turn in turns] == [
        ("user", "Is it high?"),
        ("assistant", "In an hour."),
    ]


def test_the_chats_that_a_telegram_account_has_left_come_along():
    message = {"id": 1, "type": "message", "date": "2025-03-28T21:25:00", "from": "Nell"}
    of = {"type": "personal_chat", "messages": [{**message, "from_id": "user1", "text": "Hi"}]}
    lists = {"chats": {"list": [{**of, "name": "A", "id": 1}]}}
    lists["left_chats"] = {"list": [{**of, "name": "B", "id": 2}]}
    source = ForeignFile(None, "result.json", json.dumps({"about": "x", **lists}).encode())
    found = load_format("telegram").read(source, READING)
    assert [chat.name for chat in found] == ["A", "B"]


def test_the_further_characters_of_a_backyard_archive_are_named(tmp_path):
    path = tmp_path / "two.byaf"
    with zipfile.ZipFile(path, "w") as archive:
        files = [f"characters/{name}/character.json" for name in ("ibis", "heron")]
        manifest = {"schemaVersion": 1, "characters": files, "scenarios": []}
        archive.writestr("manifest.json", json.dumps(manifest))
        for file in files:
            archive.writestr(file, json.dumps({"name": file.split("/")[1], "persona": "A bird."}))
    card = read_card(path.read_bytes(), origin="two.byaf")
    assert card.warnings == ("heron, a further character, is not imported",)


def test_every_form_has_a_value_of_its_own():
    assert {
        form_of(value) for path in SAMPLES if path.stem != "unread" for _, value, _ in read(path)
    } == {
        "card",
        "lorebook",
        "chat",
        "memories",
        "settings",
    }
    assert isinstance(read(CHATS[0])[0][1], ForeignChat)
