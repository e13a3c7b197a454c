"""`familiar import-sillytavern`, from argv to stdout, stderr, exit code and what is on disk."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import pytest

from familiar_cli.store.history import schema
from familiar_cli.store.history.store import HistoryStore
from tests.support.cards import png_card
from tests.support.chats import said as words
from tests.support.lorebooks import book_entry
from tests.support.sillytavern import DataFolder, card, lived_in, said, talk
from tests.support.world import data, home, run


def bring(folder, *more):
    return run("import-sillytavern", str(folder.root), *more)


def found(folder, *more, code=0):
    return data("import-sillytavern", str(folder.root), *more, code=code)


def outcomes(answer):
    return {file["path"]: file["outcome"] for file in answer["files"]}


def reason(answer, path):
    return next(file["reason"] for file in answer["files"] if file["path"] == path)


def channels(familiar):
    with closing(HistoryStore(home() / familiar / "history.db")) as store:
        return {one.channel_id: one.turns for one in store.channels()}


def everything():
    """Return all that is kept: each file of memory, and each row of the histories."""
    kept = {}
    for path in sorted(home().rglob("*")):
        if path.suffix == ".db" and path.parent.parent == home():
            with closing(sqlite3.connect(path)) as connection:
                kept[path] = list(connection.iterdump())
        elif path.is_file() and {"memory", "refs"} & {*path.parts} and ".index" not in path.parts:
            kept[path] = path.read_bytes()
    return kept


@pytest.fixture
def folder(tmp_path):
    return DataFolder(tmp_path / "data" / "default-user")


@pytest.fixture
def full(tmp_path):
    return lived_in(tmp_path / "default-user")


def test_each_character_becomes_a_familiar_with_its_books_and_chats(full) -> None:
    answer = found(full, code=7)
    ids = {one["id"]: (one["name"], one["turns"], one["channels"]) for one in answer["familiars"]}
    assert ids == {"mira": ("Mira", 11, 3), "old-tom": ("Old Tom", 7, 2)}
    listed = run("memory", "ls", "--familiar", "mira").stdout
    assert "lighthouse.md" in listed
    assert "weather.md" in listed
    assert "self/description.md" in listed


def test_the_report_tells_what_became_of_each_file(full) -> None:
    assert outcomes(found(full, code=7)) == {
        "backups": "skipped",
        "characters/Mira": "skipped",
        "characters/Mira.png": "imported",
        "characters/broken.png": "refused",
        "characters/gone.png": "skipped",
        "characters/tom.png": "imported",
        "chats/Mira/Mira - 2025-03-01@10h00m00s.jsonl": "imported",
        "chats/Mira/damaged.jsonl": "imported",
        "chats/Nobody/lost.jsonl": "skipped",
        "chats/tom/Tom at sea.jsonl": "imported",
        "group chats/2025-03-02@09h00m00s.jsonl": "imported",
        "group chats/orphan.jsonl": "skipped",
        "groups/1700000000000.json": "read",
        "settings.json": "read",
        "themes": "skipped",
        "worlds/Everywhere.json": "imported",
        "worlds/Harbour.json": "imported",
        "worlds/Unused.json": "skipped",
        "worlds/broken.json": "skipped",
    }


def test_what_is_broken_is_named_and_stops_nothing(full) -> None:
    result = bring(full)
    assert result.exit_code == 7
    assert "'broken.png' is an incomplete PNG" in result.stdout
    assert "1 damaged line left out" in result.stdout
    assert "imported: characters/broken.png; chats/Mira/damaged.jsonl\n" in result.stderr


def test_a_second_run_changes_nothing(full) -> None:
    found(full, code=7)
    before = everything()
    again = found(full, code=7)
    assert everything() == before
    assert set(outcomes(again).values()) == {"unchanged", "skipped", "read", "refused"}
    assert [(one["outcome"], one["turns"]) for one in again["familiars"]] == [("unchanged", 0)] * 2


def test_a_rehearsal_writes_nothing_and_tells_what_the_run_then_does(full) -> None:
    told = found(full, "--dry-run", code=7)
    assert not home().exists()
    done = found(full, code=7)
    assert (told.pop("dry_run"), done.pop("dry_run")) == (True, False)
    assert told == done


def test_a_rehearsal_of_changes_tells_what_the_run_then_does(full) -> None:
    found(full, code=7)
    full.chat("Mira", "Mira - 2025-03-01@10h00m00s", *talk("Mira", 8))
    full.chat("Mira", "another", *talk("Mira", 4, 700))
    full.character("Mira", description="Mira has moved.", extensions={"world": "Harbour"})
    full.world("Harbour", "Lighthouse", "Quay", "Crane")
    full.character("New", description="New here.")
    before = everything()
    told = found(full, "--dry-run", code=7)
    assert everything() == before
    done = found(full, code=7)
    assert told | {"dry_run": False} == done
    changed = {path: o for path, o in outcomes(done).items() if o in {"imported", "updated"}}
    assert changed == {
        "characters/Mira.png": "updated",
        "characters/New.png": "imported",
        "chats/Mira/Mira - 2025-03-01@10h00m00s.jsonl": "updated",
        "chats/Mira/another.jsonl": "imported",
        "worlds/Everywhere.json": "imported",
        "worlds/Harbour.json": "updated",
    }


@pytest.mark.parametrize("above", ["", "..", "../.."])
def test_the_folder_is_found_from_above(folder, above) -> None:
    folder.character("Mira")
    answer = data("import-sillytavern", os.path.normpath(folder.root / above))
    assert [one["id"] for one in answer["familiars"]] == ["mira"]


def test_several_users_have_to_be_told_apart(tmp_path) -> None:
    for user in ("ann", "bo"):
        DataFolder(tmp_path / "data" / user).character("Mira")
    result = run("import-sillytavern", str(tmp_path / "data"))
    assert result.exit_code == 2
    assert "'ann', 'bo'" in result.stderr
    assert f"familiar import-sillytavern {tmp_path / 'data' / 'ann'}" in result.stderr


def test_a_directory_that_is_none_is_refused(tmp_path) -> None:
    result = run("import-sillytavern", str(tmp_path))
    assert result.exit_code == 4
    assert "no `characters`" in result.stderr


def test_a_familiar_of_the_same_card_is_used(folder) -> None:
    path = folder.character("Mira")
    run("init", "my-mira", "--from-card", str(path))
    folder.chat("Mira", "one", *talk("Mira", 2))
    answer = found(folder)
    assert [(one["id"], one["outcome"]) for one in answer["familiars"]] == [("my-mira", "updated")]
    assert outcomes(answer)["characters/Mira.png"] == "unchanged"


def test_which_chat_is_open_is_no_change_of_a_card(folder) -> None:
    folder.character("Mira")
    found(folder)
    noted = card("Mira") | {"chat": "another chat"}
    noted["data"]["extensions"]["fav"] = True
    folder.put("characters/Mira.png", png_card(noted))
    assert outcomes(found(folder)) == {"characters/Mira.png": "unchanged"}


def test_two_characters_of_one_name_are_two_familiars_and_stay_so(folder) -> None:
    folder.character("Mira", description="Keeps bees.", first_mes="Mind the smoker.")
    folder.character("Mira", stem="Mira1", description="Sails.", first_mes="Ahoy.")
    first = {one["id"]: one["character"] for one in found(folder)["familiars"]}
    assert first == {"mira": "characters/Mira.png", "mira-2": "characters/Mira1.png"}
    folder.character("Mira", description="Keeps wasps.", first_mes="Mind the smoker.")
    assert {one["id"]: one["character"] for one in found(folder)["familiars"]} == first


def test_another_character_of_a_familiars_name_does_not_touch_it(folder) -> None:
    run("init", "mira", "--template", "companion")
    folder.character("Mira")
    assert [one["id"] for one in found(folder)["familiars"]] == ["mira-2"]


def test_edits_by_hand_stay_when_a_card_changes(folder) -> None:
    folder.character("Mira")
    found(folder)
    (home() / "mira" / "memory" / "self" / "description.md").write_bytes(
        b"# Description\n\nMine.\n"
    )
    folder.character("Mira", description="Theirs.")
    answer = found(folder)
    assert outcomes(answer) == {"characters/Mira.png": "skipped"}
    assert "familiar init mira --from-card" in reason(answer, "characters/Mira.png")
    assert "Mine." in run("memory", "cat", "self/description.md").stdout


def test_edits_of_a_cards_book_stay_when_the_card_changes(folder) -> None:
    def book(text):
        return {"name": "Pier", "entries": [book_entry("Pier", text), book_entry("Buoy")]}

    folder.character("Mira", character_book=book("It is long."))
    found(folder)
    (path,) = (home() / "mira" / "memory" / "lore").rglob("pier.md")
    path.write_text(path.read_text("utf-8").replace("It is long.", "Mine."), "utf-8")
    folder.character("Mira", character_book=book("It is short."))
    assert outcomes(found(folder)) == {"characters/Mira.png": "skipped"}
    assert "Mine." in path.read_text("utf-8")


def test_only_some_characters(full) -> None:
    answer = found(full, "--only", "old tom", "--dry-run")
    assert [one["id"] for one in answer["familiars"]] == ["old-tom"]
    assert reason(answer, "characters/Mira.png") == reason(answer, "worlds/Harbour.json")
    assert bring(full, "--only", "old tom", "--dry-run").stdout.count("not named by") == 1


def test_what_the_folder_lacks_and_what_is_not_used_is_named(folder) -> None:
    folder.character("Mira")
    folder.chat("Mira", "a", *talk("Mira", 2), persona="tom.png")
    folder.chat("Mira", "header only")
    folder.group("Two", ["Mira.png", "gone.png"], ["lost"])
    folder.put("worlds/bad.json", "{")
    personas = {"tom.png": "Tom", "bo.png": "Bo"}
    folder.put("settings.json", {"power_user": {"personas": personas}})
    answer = found(folder)
    (mira,) = answer["familiars"]
    assert mira["channels"] == 1
    assert "`familiar me --name Tom --channel a --familiar mira`" in mira["warnings"][-1]
    run("me", "--name", "Tom", "--channel", "a")
    assert len(found(folder)["familiars"][0]["warnings"]) == len(mira["warnings"]) - 1
    assert reason(answer, "chats/Mira/header only.jsonl") == "it has no messages"
    assert reason(answer, "characters/gone.png") == "missing; the group 'Two' lists it"
    assert outcomes(answer)["group chats/lost.jsonl"] == "skipped"
    assert "`familiar import-lorebook" not in reason(answer, "worlds/bad.json")


def note_of(channel: str) -> list[object]:
    settings = data("channel", "show", channel, "--familiar", "mira")["settings"]
    return [one["value"] for one in settings if one["key"].startswith("author_note.")]


def test_author_notes_apply_in_the_channels_of_new_chats(folder) -> None:
    folder.character("Mira")
    place = {"note_position": 1, "note_depth": 2, "note_role": 1, "note_interval": 3}
    folder.chat("Mira", "a", *talk("Mira", 2), note_prompt=" [Rain] ", **place)
    odd = {"note_position": 2, "note_depth": "x", "note_role": [], "note_interval": 0}
    folder.chat("Mira", "b", *talk("Mira", 2, 9), note_prompt="[Sun]", **odd)
    folder.chat("Mira", "c", *talk("Mira", 2, 20))
    group = json.loads(folder.group("Two", ["Mira.png"], ["g"], "1").read_text("utf-8"))
    folder.put("groups/1.json", group | {"past_metadata": {"g": {"note_prompt": "[Snow]"}}})
    folder.group_chat("g", *talk("Mira", 2, 30))
    own = {"name": "Mira", "prompt": "[Softly]", "useChara": True, "position": 2}
    folder.put("settings.json", {"extension_settings": {"note": {"chara": [own]}}})
    assert len(found(folder, "--dry-run")["familiars"][0]["warnings"]) == 4
    told = found(folder)["familiars"][0]["warnings"]
    assert [sum(word in one for one in told) for word in ("applies in", "off, as it was")] == [3, 1]
    assert note_of("a") == ["[Rain]\n[Softly]", "depth", 2, "user", 3]
    assert note_of("b") == ["[Sun]\n[Softly]", "scenario", 4, "system", 0]
    assert note_of("c") == ["[Softly]", "depth", 4, "system", 1]
    assert note_of("two-g")[0] == "[Snow]\n[Softly]"
    run("channel", "set", "a", "--unset", "author_note.text")
    (told,) = found(folder)["familiars"][0]["warnings"]  # a person removed it
    assert "chats/Mira/a.jsonl: its author's note is not used; `familiar channel set a" in told
    assert note_of("a")[0] == "[Softly]"


def test_only_an_unknown_one_is_refused(full) -> None:
    result = bring(full, "--only", "Mirra")
    assert result.exit_code == 4
    assert "--only Mira" in result.stderr
    assert not home().exists()


def test_a_chat_under_a_former_name_is_the_characters(folder) -> None:
    folder.character("Mira")
    folder.chat("Mirabel", "old", *talk("Mirabel", 4), directory="Mira")
    found(folder)
    shown = data("history", "show", "--channel", "old")["turns"]
    assert [turn["role"] for turn in shown] == ["assistant", "user"] * 2


def test_a_group_chat_is_a_channel_of_each_member(full) -> None:
    found(full, code=7)
    name = "the-pier-2025-03-02-09h00m00s"
    told = {}
    for familiar in ("mira", "old-tom"):
        turns = data("history", "show", "--channel", name, "--familiar", familiar)["turns"]
        told[familiar] = [turn["role"] for turn in turns]
    assert told == {
        "mira": ["assistant", "user", "user"],
        "old-tom": ["user", "assistant", "user"],
    }


def test_a_cards_book_keeps_what_its_world_cannot_say(folder) -> None:
    book = {"name": "Eldoria", "scan_depth": 7, "extensions": {}, "entries": [book_entry("Elm")]}
    folder.character("Mira", character_book=book, extensions={"world": "Eldoria"})
    folder.world("Eldoria", "Elm", "Oak")
    found(folder)
    exported = json.loads(run("card", "export", "--format", "json").stdout)
    made = exported["data"]["character_book"]
    assert (made["name"], made["scan_depth"], len(made["entries"])) == ("Eldoria", 7, 2)


def test_lines_of_a_person_who_was_forgotten_are_named(full) -> None:
    found(full, code=7)
    assert run("people", "forget", "Old Tom", "--familiar", "mira", "--yes").exit_code == 0
    told = reason(found(full, code=7), "group chats/2025-03-02@09h00m00s.jsonl")
    assert told == "line 3 left out: it is from, or answers, a person who was forgotten"


def test_a_member_that_never_spoke_has_the_group_chat_too(folder) -> None:
    folder.character("Mira")
    folder.character("Quiet")
    folder.group("Two", ["Mira.png", "Quiet.png"], ["evening"])
    folder.group_chat("evening", *talk("Mira", 3))
    assert found(folder)["familiars"][1]["turns"] == 3


@pytest.mark.posix
def test_names_of_any_kind(folder) -> None:
    names = ["Ünïcödé 猫", "-rf", "a b;c`d`", "..", "con", "{{user}}", "\x1b[31mred"]
    for name in names:
        folder.character(name, stem=f"{name}x", description=f"{name} is {name!r}.")
        folder.chat(name, f"{name}chat", *talk(name, 2), directory=f"{name}x")
    folder.character("ANNA", description="Loud.", first_mes="HI")
    folder.character("anna", description="Quiet.", first_mes="hi")
    folder.chat("ANNA", "shout", *talk("ANNA", 2))
    folder.chat("anna", "whisper", *talk("anna", 2))
    result = bring(folder)
    assert result.exit_code == 0, result.stderr
    assert "\x1b" not in result.stdout
    answer = found(folder)
    assert {file["outcome"] for file in answer["files"]} == {"unchanged"}
    assert len(answer["familiars"]) == 9
    assert sorted(path.name for path in home().parent.iterdir()) == ["home"]
    by_file = {one["character"]: one["id"] for one in answer["familiars"]}
    assert channels(by_file["characters/ANNA.png"]) == {"shout": 2}
    assert channels(by_file["characters/anna.png"]) == {"whisper": 2}


@pytest.mark.posix
def test_links_that_lead_out_are_not_followed(folder, tmp_path) -> None:
    other = DataFolder(tmp_path / "elsewhere")
    other.character("Secret")
    other.chat("Secret", "private", *talk("Secret", 2))
    folder.character("Mira")
    (folder.root / "characters" / "Secret.png").symlink_to(other.root / "characters" / "Secret.png")
    (folder.root / "chats").symlink_to(other.root / "chats")
    (folder.root / "characters" / "loop.png").symlink_to("loop.png")
    answer = found(folder)
    assert [one["id"] for one in answer["familiars"]] == ["mira"]
    assert outcomes(answer)["chats"] == "skipped"
    assert outcomes(answer)["characters/Secret.png"] == "skipped"


@pytest.mark.posix
def test_a_pipe_among_the_files_is_passed_over(folder) -> None:
    folder.character("Mira")
    os.mkfifo(folder.root / "characters" / "pipe.png")
    assert outcomes(found(folder))["characters/pipe.png"] == "skipped"


def test_a_group_cannot_name_files_elsewhere(folder) -> None:
    folder.character("Mira")
    folder.group("Odd", ["../../Mira.png", "Mira.png"], ["../../chats/Mira/one"])
    folder.chat("Mira", "one", *talk("Mira", 2))
    assert found(folder)["familiars"][0]["channels"] == 1


def test_a_familiar_that_cannot_be_used_stops_no_other(folder) -> None:
    folder.character("Ada")
    folder.character("Mira")
    folder.chat("Ada", "one", *talk("Ada", 2))
    found(folder)
    folder.chat("Ada", "two", *talk("Ada", 2, 50))
    folder.chat("Mira", "one", *talk("Mira", 2))
    (home() / "ada" / "history.db").write_bytes(b"no database, but long enough to be read " * 50)
    answer = found(folder, code=7)
    assert outcomes(answer)["chats/Ada/two.jsonl"] == "refused"
    assert outcomes(answer)["chats/Mira/one.jsonl"] == "imported"


def test_a_chat_that_grew_adds_its_tail(folder) -> None:
    folder.character("Mira")
    folder.chat("Mira", "one", *talk("Mira", 4))
    found(folder)
    folder.chat("Mira", "one", *talk("Mira", 6))
    answer = found(folder)
    assert outcomes(answer)["chats/Mira/one.jsonl"] == "updated"
    with closing(HistoryStore(home() / "mira" / "history.db")) as store:
        assert words(store, "one") == [f"line {n}" for n in range(6)]
    folder.chat("Mira", "one", *talk("Mira", 5))
    page = bring(folder).stdout
    assert "Changed here, too:\n  chats/Mira/one.jsonl  1 turn withdrawn" in page
    assert "Left out" not in page


def test_json_is_one_envelope(full) -> None:
    result = bring(full, "--json")
    printed = json.loads(result.stdout)
    assert (printed["status"], printed["command"]) == ("partial", "import-sillytavern")
    assert set(printed["data"]) >= {"folder", "familiars", "files", "dry_run"}


def test_a_chat_that_went_on_here_and_there_becomes_a_branch(folder) -> None:
    folder.character("Mira")
    folder.chat("Mira", "one", *talk("Mira", 4))
    found(folder)
    with closing(HistoryStore(home() / "mira" / "history.db")) as store:
        store.append("one", "user", "said here")
    folder.chat("Mira", "one", *talk("Mira", 6))
    assert outcomes(found(folder))["chats/Mira/one.jsonl"] == "imported"
    assert channels("mira") == {"one": 5, "mira-one": 2}
    folder.chat("Mira", "one", *talk("Mira", 8))
    assert outcomes(found(folder))["chats/Mira/one.jsonl"] == "updated"
    with closing(HistoryStore(home() / "mira" / "history.db")) as store:
        assert words(store, "mira-one") == [f"line {n}" for n in range(8)]
    assert outcomes(found(folder))["chats/Mira/one.jsonl"] == "unchanged"


def test_the_speaker_keeps_their_name(folder) -> None:
    folder.character("Mira")
    folder.chat("Mira", "one", said("Mira", "who?", 1), said("Ann", "me", 2, user=True))
    found(folder)
    turn = data("history", "show", "--channel", "one")["turns"][1]
    assert "Ann" in json.dumps(turn)


def personas(folder, *names, chosen=""):
    found = {f"{name}.png": name for name in names}
    described = {f"{name}.png": {"description": f"{name} rows."} for name in names}
    about = {"personas": found, "persona_descriptions": described}
    folder.put("settings.json", {"power_user": about, "user_avatar": f"{chosen}.png"})


def test_the_persona_that_is_chosen_is_who_i_am(folder) -> None:
    folder.character("Mira")
    personas(folder, "Ann", "Bo", chosen="Bo")
    told = found(folder, "--dry-run")
    assert not home().exists()
    done = found(folder)
    assert outcomes(told) == outcomes(done)
    assert outcomes(done)["settings.json"] == "imported"
    me = data("me")
    assert (me["name"], me["description"]) == ("Bo", "Bo rows.")
    assert outcomes(found(folder))["settings.json"] == "unchanged"


def test_who_i_am_here_stays(folder) -> None:
    folder.character("Mira")
    personas(folder, "Ann", "Bo", chosen="Bo")
    run("me", "--name", "Cleo")
    answer = found(folder)
    assert outcomes(answer)["settings.json"] == "read"
    assert "familiar me --from-sillytavern" in reason(answer, "settings.json")
    assert data("me")["name"] == "Cleo"


def test_of_several_personas_none_is_guessed(folder) -> None:
    folder.character("Mira")
    personas(folder, "Ann", "Bo")
    assert "several personas" in reason(found(folder), "settings.json")
    assert data("me")["name"] == ""


def test_many_chats_cost_each_as_much_as_few(tmp_path, monkeypatch) -> None:
    """Counted in instructions of SQLite: none of them goes through what other chats brought."""
    made, counted, costs = schema.open_to_write, [0], {}

    def counting(*where):
        connection = made(*where)
        connection.set_progress_handler(lambda: counted.append(counted.pop() + 1), 100)
        return connection

    monkeypatch.setattr(schema, "open_to_write", counting)
    for chats in (20, 120):
        folder = DataFolder(tmp_path / f"{chats}")
        folder.character(f"C{chats}")
        for number in range(chats):
            folder.chat(
                f"C{chats}", f"{number}", said("Robin", f"Line {number}.", number, user=True)
            )
        for way in ("first", "again"):
            begun = counted[0]
            found(folder)
            costs[way, chats] = (counted[0] - begun) / chats
    assert costs["first", 120] < 1.5 * costs["first", 20]
    assert costs["again", 120] < 1.5 * costs["again", 20]


def test_an_update_of_a_book_that_a_person_undid_stays_undone(tmp_path) -> None:
    folder = DataFolder(tmp_path / "st")
    folder.character("Mira", extensions={"world": "Isle"})
    folder.world("Isle", "Reef")
    found(folder)
    (page,) = (home() / "mira" / "memory" / "lore" / "imported" / "isle").glob("*.md")
    before = page.read_text("utf-8")
    book = folder.root / "worlds" / "Isle.json"
    book.write_text(book.read_text("utf-8").replace("Reef", "Reef, sunk"), "utf-8")
    found(folder)
    assert page.read_text("utf-8") != before
    assert run("memory", "undo", "--familiar", "mira").exit_code == 0
    answer = found(folder)
    assert page.read_text("utf-8") == before
    assert "stays undone" in reason(answer, "worlds/Isle.json")


def test_what_extensions_remember_comes_along_once(tmp_path) -> None:
    folder = DataFolder(tmp_path / "st")
    folder.character("Mira")
    extra = {"qvink_memory": {"memory": "Robin fell into the harbour"}}
    lines = (said("Robin", "Help!", 1, user=True), said("Mira", "Hold on.", 2, extra=extra))
    folder.chat("Mira", "Storm", *lines, world_info="Scenes")
    entry = {"uid": 0, "key": [], "keysecondary": [], "comment": "Night", "stmemorybooks": True}
    folder.put("worlds/Scenes.json", {"entries": {"0": {**entry, "content": "They saw a whale."}}})
    note = '<memory chat="Storm" date="2025-03-02 10:00">\n- Robin fears gulls\n</memory>\n'
    folder.put("user/files/1_m.txt", note)
    bank = {"Mira.png": [{"url": "/user/files/1_m.txt"}, {"url": "/../../st/settings.json"}]}
    folder.put("settings.json", {"extension_settings": {"character_attachments": bank}})

    (item,) = data("import", str(folder.root), "--yes")["items"]
    (mira,) = item["results"][0]["familiars"]
    assert (mira["memories"], mira["warnings"]) == (3, [])
    pages = (home() / "mira" / "memory" / "topics").glob("*.md")
    text = "".join(page.read_text("utf-8") for page in pages)
    assert "2025-03-01: Robin fell into the harbour" in text
    assert "Night: They saw a whale." in text
    assert "2025-03-02: Robin fears gulls" in text
    (item,) = data("import", str(folder.root), "--yes")["items"]
    assert item["results"][0]["familiars"][0]["memories"] == 0
