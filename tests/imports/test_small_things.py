"""Small things that files from the world hold, and what becomes of each."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from familiar_cli.imports.cards import effects_of_card
from familiar_cli.imports.chat_times import read_time
from familiar_cli.imports.containers import text_chunk
from familiar_cli.imports.reading import read_card
from familiar_cli.imports.what_is_it import what_is
from tests.support.cards import as_json, png_with, v2, v3
from tests.support.lorebooks import book_entry, lore, world
from tests.support.world import data, live, run

NO_CARDS = {
    "package": {"name": "tide", "version": "1.0.0", "description": "Tide tables", "main": "a.js"},
    "composer": {"name": "a/b", "description": "Boats", "require": {}},
    "kube": {"name": "dev", "context": {"cluster": "dev", "user": "me"}},
    "features": {"name": "Login", "description": "As a user", "scenario": "A user logs in"},
    "pet": {"name": "Rex", "personality": "calm", "breed": "terrier", "age": 4, "id": 1},
    "wrapped": {"data": {"name": "Boat", "description": "Blue", "id": 7}},
    "openapi": {"openapi": "3.0", "info": {"title": "x", "description": "y"}, "paths": {}},
    "geo": {"type": "FeatureCollection", "name": "a", "features": []},
    "theme": {"name": "Azure", "blur_strength": 10, "main_text_color": "#fff"},
    "instruct": {"name": "Alpaca", "input_sequence": "### In", "output_sequence": "### Out"},
    "preset": {"temperature": 1, "top_p": 0.9, "name": "calm"},
    "prompts": {"prompts": [{"name": "Main", "content": "x"}], "prompt_order": []},
    "replies": {"version": 2, "name": "Buttons", "qrList": []},
    "scenario": {
        "kind": "scenario",
        "name": "Late",
        "description": "x",
        "text": "y",
        "entries": [],
    },
    "settings": {"editor.fontSize": 12, "name": "me"},
    "translations": {"name": "Name", "description": "Description", "greeting": "Hello"},
    "list": [{"name": "a", "description": "b"}],
}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "an empty JSON list"),
        ("[1]", "a JSON list"),
        ('{"spec": "chara_card_v2", "data": []}', "none of a card's fields"),
        ('{"spec": "chara_card_v2", "data":', "not valid JSON"),
    ],
)
def test_what_is_no_card_or_a_damaged_one_is_said_to_be_that(text, why, tmp_path) -> None:
    live("ada")
    path = tmp_path / "x.json"
    path.write_text(text, "utf-8")
    for argv in (("init", "q", "--from-card"), ("import",)):
        result = run(*argv, str(path))
        assert (result.exit_code, why in result.stderr) == (5, True)


@pytest.mark.parametrize("value", NO_CARDS.values(), ids=NO_CARDS)
def test_json_that_is_no_card_makes_no_familiar(tmp_path, value) -> None:
    path = tmp_path / "file.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    found = what_is(path)
    assert found is None or found.kind != "card"
    assert run("import", str(path)).exit_code == 5


@pytest.mark.parametrize("value", [-1, 0, "-1", "0"])
def test_what_stands_for_no_time_is_no_time(value) -> None:
    assert read_time(value, None) is None


def test_a_card_that_was_encoded_twice_is_read_as_it_was_meant() -> None:
    once = base64.b64encode(as_json(v2()))
    card = read_card(png_with(text_chunk("chara", base64.b64encode(once))), origin="ilse.png")
    assert (card.name, "encoded twice" in card.warnings[0]) == ("Ilse", True)


def test_letters_that_were_encoded_twice_are_mended() -> None:
    twice = "Zoë naps.".encode().decode("cp1252")
    card = read_card(as_json(v2(description=twice, scenario="Café — fine")), origin="x.json")
    assert card.text("description") == "Zoë naps."
    assert card.text("scenario") == "Café — fine"
    assert any("'description' was encoded twice" in warning for warning in card.warnings)


def test_an_empty_depth_prompt_is_in_no_prompt() -> None:
    empty = {"depth_prompt": {"prompt": "", "depth": 4}, "fav": True}
    effects = effects_of_card(read_card(as_json(v2(extensions=empty)), origin="x"), book_dir=None)
    assert "extensions.depth_prompt" not in (*effects.in_every_prompt, *effects.kept_unmapped)
    assert "extensions.fav" in effects.kept_unmapped


@pytest.mark.parametrize(
    "book",
    [
        world(lore("Heron"), lore("Fog", constant=True), name="Marsh"),
        {"name": "Marsh", "entries": [book_entry("Heron")], "extensions": {}},
    ],
)
def test_an_own_export_changes_nothing_and_has_its_shape(tmp_path, book) -> None:
    live("ada")
    path = tmp_path / "marsh.json"
    path.write_text(json.dumps(book), encoding="utf-8")
    first = data("import-lorebook", str(path))
    back = tmp_path / "back.json"
    assert run("export-lorebook", "--out", str(back)).exit_code == 0
    assert json.loads(back.read_text("utf-8")).keys() == book.keys()
    again = data("import-lorebook", str(back), "--update")
    assert (len(first["written"]) > 0, again["written"]) == (True, [])


@pytest.mark.parametrize(
    "command", [("import-lorebook",), ("import",), ("card", "check"), ("init", "--from-card")]
)
def test_a_quiet_command_prints_no_report_but_its_answer(tmp_path, command) -> None:
    live("ada")
    path = tmp_path / "marsh.json"
    book = world(lore("Heron"), lore("Fog", constant=True))
    path.write_bytes(as_json(v3()) if command[0] in ("card", "init") else json.dumps(book).encode())
    result = run(*command, str(path), "-q")
    told = "Ilse: no problems found\n" if command[0] == "card" else ""
    assert (result.exit_code, result.stdout, result.stderr) == (0, told, "")


def test_what_an_export_has_beside_its_chats_is_passed_over(tmp_path) -> None:
    live("ibis")
    sample = Path(__file__).parent / "samples" / "chatgpt.json"
    (tmp_path / "conversations.json").write_bytes(sample.read_bytes())
    (tmp_path / "user.json").write_text('{"id": "u", "email": ""}', encoding="utf-8")
    (tmp_path / "message_feedback.json").write_text("[]", encoding="utf-8")
    (tmp_path / "chat.html").write_text("<html></html>", encoding="utf-8")

    (item,) = data("import", str(tmp_path))["items"]

    assert (item["error"], len(item["results"][0]["chats"])) == (None, 1)
