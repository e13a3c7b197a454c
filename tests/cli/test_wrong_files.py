"""A file that was given to the wrong command: the error names the right one."""

from __future__ import annotations

import json

import pytest

from tests.support.cards import as_json, png_card
from tests.support.cases import each
from tests.support.chats import HEAD, save, talk
from tests.support.lorebooks import lore, world
from tests.support.sillytavern import DataFolder, card, lived_in
from tests.support.world import home, live, run

COMMANDS = {
    "card": ["init", "--from-card"],
    "lorebook": ["import-lorebook"],
    "chat": ["import-chat"],
    "folder": ["import-sillytavern"],
    "persona": ["init", "--from-persona"],
}


@pytest.fixture
def files(tmp_path):
    """Return one file of each kind, and the beginning of the command that takes it."""
    folder = lived_in(tmp_path / "st" / "default-user")
    value = {"author": {}, "mapping": {}, "title": "x", "current_node": "n", "id": "1"}
    persona = tmp_path / "ember"
    persona.mkdir()
    (persona / "IDENTITY.md").write_text("# Ember\n", "utf-8")
    chats = DataFolder(tmp_path / "many")
    save(chats.root / "one.jsonl", HEAD, *talk(2))
    return {
        "png": ("card", chats.put("../mira.png", png_card(card("Mira")))),
        "json": ("card", chats.put("../mira.json", as_json(card("Mira")))),
        "yaml": (
            "card",
            chats.put("../pip.yaml", "name: Pip\ngreeting: Hello.\ncontext: A cat.\n"),
        ),
        "world": ("lorebook", chats.put("../w.json", json.dumps(world(lore("Quay"))))),
        "sillytavern": ("chat", save(tmp_path / "c.jsonl", HEAD, *talk(2))),
        "stranger": ("chat", save(tmp_path / "s.jsonl", *talk(2))),
        "chatgpt": ("chat", chats.put("../conversations.json", json.dumps([value]))),
        "chats": ("chat", chats.root),
        "folder": ("folder", folder.root),
        "above": ("folder", tmp_path / "st"),
        "persona": ("persona", persona),
    }


@each("given", COMMANDS)
@each(
    "name",
    [
        "png",
        "json",
        "yaml",
        "world",
        "sillytavern",
        "stranger",
        "chatgpt",
        "chats",
        "folder",
        "above",
        "persona",
    ],
)
def test_the_right_command_is_named(files, given, name) -> None:
    kind, path = files[name]
    if kind == given or (given, name) in {("folder", "chats"), ("chat", "persona")}:
        return
    if given == "folder" and kind == "persona":
        return
    live("ada")
    result = run(*COMMANDS[given], str(path))
    assert result.exit_code in {2, 4, 5}, result.stderr
    assert f"`familiar {' '.join(COMMANDS[kind])} {path}`" in result.stderr
    assert "nothing was" in result.stderr
    assert [entry.name for entry in home().iterdir()] == ["ada"]


def test_settings_and_groups_are_known(tmp_path) -> None:
    live("ada")
    folder = lived_in(tmp_path / "default-user")
    folder.put("settings.json", {"power_user": {"personas": {}}})
    for path, command in (
        ("settings.json", "familiar me --from-sillytavern"),
        ("groups/1700000000000.json", "familiar import-sillytavern DIR"),
    ):
        for given in ("card", "lorebook", "chat"):
            result = run(*COMMANDS[given], str(folder.root / path))
            assert (result.exit_code, command in result.stderr) == (5, True), result.stderr


def test_what_nobody_knows_keeps_its_own_error(tmp_path) -> None:
    live("ada")
    path = tmp_path / "preset.json"
    path.write_bytes(as_json({"temperature": 1, "top_p": 0.9}))
    assert "a preset of sampling settings" in run("import-lorebook", str(path)).stderr


def test_a_damaged_card_stays_a_damaged_card(tmp_path) -> None:
    path = tmp_path / "mira.png"
    path.write_bytes(png_card(card("Mira"))[:60])
    assert "incomplete PNG" in run("init", "--from-card", str(path)).stderr


def test_a_lorebook_with_a_card_in_it_is_imported(tmp_path) -> None:
    live("ada")
    path = tmp_path / "mira.json"
    path.write_bytes(as_json(card("Mira", character_book={"entries": [lore("Quay")]})))
    assert run("import-lorebook", str(path)).exit_code == 0
