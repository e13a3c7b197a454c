"""`familiar import`: whatever a file is, it goes to the importer that takes it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from familiar_cli.cli.app import app
from tests.support.cards import as_json, png_card
from tests.support.cases import each
from tests.support.chats import HEAD, save, talk
from tests.support.lorebooks import lore, world
from tests.support.sillytavern import card, lived_in
from tests.support.world import data, home, live, run

DISCORD = {
    "guild": {"id": "1"},
    "channel": {"id": "2", "name": "pier"},
    "messages": [
        {
            "type": "Default",
            "timestamp": f"2024-02-01T10:00:0{number}Z",
            "content": "Hello.",
            "author": {"id": str(number), "name": name.lower(), "nickname": name},
        }
        for number, name in enumerate(("Robin", "Yuzu"))
    ],
}
CHATGPT = {
    "title": "Tea",
    "current_node": "b",
    "mapping": {
        name: {
            "id": name,
            "parent": parent,
            "children": [],
            "message": {"author": {"role": role}, "content": {"parts": ["Hello."]}},
        }
        for name, parent, role in (("a", None, "user"), ("b", "a", "assistant"))
    },
}
CLAUDE = {
    "uuid": "1",
    "name": "Tea",
    "chat_messages": [{"sender": "human", "text": "Hello."}, {"sender": "assistant", "text": "Hi"}],
}
PLAIN = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
TIMED = {
    "dash.txt": "13/02/2024, 10:00 - {0}: Hello.\n13/02/2024, 10:01 - {1}: Hi.\n",
    "irc.log": "[10:00] <{0}> Hello.\n[10:01] <{1}> Hi.\n",
    "line.txt": "2024/02/13(火)\n10:00\t{0}\tHello.\n10:01\t{1}\tHi.\n",
    "after.txt": "{0} (2024-02-13 10:00): Hello.\n{1} (2024-02-13 10:01): Hi.\n",
    "block.txt": "[2024-02-13 10:00] {0}\nHello.\n\n[2024-02-13 10:01] {1}\nHi.\n",
    "angle.txt": "<{0}> Hello.\n<{1}> Hi.\n<{0}> So.\n<{1}> So.\n",
    "discord.csv": "AuthorID,Author,Date,Content,Attachments,Reactions\n"
    "1,{0},2024-02-13T10:00:00Z,Hello.,,\n2,{1},2024-02-13T10:01:00Z,Hi.,,\n",
}
WHATSAPP = "[01.02.24, 10:00:00] Robin: Hello.\n[01.02.24, 10:00:09] Yuzu: Hi.\n"
FILES = {
    "mira.png": ("card", png_card(card("Mira"))),
    "mira.json": ("card", as_json(card("Mira"))),
    "пётр.json": ("card", as_json(card("Пётр"))),
    "pip.yaml": ("card", b"name: Pip\ngreeting: Hello.\ncontext: A cat.\n"),
    "world.json": ("lorebook", as_json(world(lore("Quay")))),
    "book.json": ("lorebook", as_json({"spec": "lorebook_v3", "data": {"entries": [lore("A")]}})),
    "st.jsonl": ("chat", b"".join(as_json(line) + b"\n" for line in (HEAD, *talk(3)))),
    "plain.jsonl": ("chat", b"".join(as_json(line) + b"\n" for line in PLAIN)),
    "plain.json": ("chat", as_json(PLAIN)),
    "conversations.json": ("chat", as_json([CHATGPT])),
    "claude.json": ("chat", as_json([CLAUDE])),
    "discord.json": ("chat", as_json(DISCORD)),
    "chat.txt": ("chat", b"Robin: Hello.\nYuzu: Hi.\nRobin: How are you?\nYuzu: Well.\n"),
    "utf16.txt": ("chat", WHATSAPP.encode("utf-16")),
    "whatsapp.txt": ("chat", WHATSAPP.encode("utf-8-sig")),
    "柚子.md": ("chat", "**Robin:** 你好\n\n**Yuzu:** 你好!\n\n**Robin:** 茶?\n".encode()),
    **{name: ("chat", text.format("Robin", "Yuzu").encode()) for name, text in TIMED.items()},
    "note.md": ("vault", b"# The boat\n\nIt leaks.\n"),
}


@pytest.fixture
def familiar():
    root = live("ada")
    (root / "character.toml").write_text('name = "Yuzu"\n', encoding="utf-8")
    run("me", "--name", "Robin")
    return root


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_what_it_holds(familiar, tmp_path, name) -> None:
    kind, content = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    before = sorted(p for p in home().rglob("*.md"))
    (told,) = data("import", str(path), "--dry-run")["items"]
    assert sorted(p for p in home().rglob("*.md")) == before
    (item,) = data("import", str(path))["items"]
    assert (item["kind"], item["familiar"]) == (told["kind"], told["familiar"])
    assert item["kind"] == kind
    assert item["familiar"] == "ada" or kind == "card"
    assert data("import", str(path))["items"][0]["error"] is None


def directories(tmp_path):
    lived_in(tmp_path / "st" / "default-user")
    for path, text in {
        "ember/IDENTITY.md": "# Ember\n",
        "diary/daily/2026-03-02_phone.md": "- Rain.\n",
        "diary/README.md": "About.",
        "vault/.obsidian/app.json": "{}",
        "vault/topics/tea.md": "# Tea\n",
        "vault/daily/2026-03-02.md": "- Rain.\n",
        "notes/boat.md": "# Boat\n",
        "notes/shed/paint.md": "# Paint\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    (tmp_path / "chats").mkdir()
    save(tmp_path / "chats" / "one.jsonl", HEAD, *talk(2))
    (tmp_path / "mixed").mkdir()
    save(tmp_path / "mixed" / "a.jsonl", HEAD, *talk(2))
    (tmp_path / "mixed" / "z.png").write_bytes(png_card(card("Yuzu")))
    (tmp_path / "mixed" / "photo.png").write_bytes(b"\xff\xd8\xff\xe0 JFIF")
    return {
        "st": ["sillytavern"],
        "ember": ["persona"],
        "diary": ["memories"],
        "vault": ["vault"],
        "notes": ["vault"],
        "chats": ["chat"],
        "mixed": ["card", "chat"],
    }


def test_a_directory_is_what_its_files_are(familiar, tmp_path) -> None:
    run("use", "ada")
    for name, kinds in directories(tmp_path).items():
        found = data("import", str(tmp_path / name), code=7 if name == "st" else 0)
        assert [item["kind"] for item in found["items"] if item["kind"]] == kinds, name
    assert (familiar / "memory" / "topics" / "tea.md").read_text("utf-8") == "# Tea\n"
    assert not list((familiar / "memory").rglob("app.json"))
    assert found["items"][1]["familiar"] == "yuzu"  # the one that was made beside it
    assert "a.jsonl: a chat (SillyTavern), into yuzu" in run("import", str(tmp_path / name)).stdout


def test_what_is_left_out_of_a_directory_is_named_and_damage_is_an_error(familiar, tmp_path):
    (tmp_path / "mem").mkdir()
    save(tmp_path / "mem" / "book.json", world(lore("Reeds")))
    for name, text in (
        ("cut.json", '{"a": [1, 2'),
        ("picture.png", "\x89PNG\r\n\x1a\nnothing"),
        ("cut.zip", "PK\x03\x04cut"),
        ("read (not valid).txt", "Of lakes."),
        ("note.md", "# Of lakes"),
        ("talk.md", "**Bo** (10:00): Tea?\n\n**Al** (10:01): Yes.\n\n" * 3),
        ("package.json", '{"name": "x", "version": "1", "main": "x.js"}'),
        ("list.md", "[2025-03-04] - Likes lakes"),
        ("lake.mp4", "\0\1"),
        ("reed.mp4", "\0\1"),
    ):
        (tmp_path / "mem" / name).write_bytes(text.encode("latin-1"))
    result = data("import", str(tmp_path / "mem"), code=7)
    items = {Path(item["path"]).name: item for item in result["items"]}
    assert [name for name, item in items.items() if item["results"]] == ["book.json", "list.md"]
    assert {n for n, item in items.items() if item["error"]} == {
        *("cut.json", "cut.zip", "picture.png")
    }
    left_out = {n: item["left_out"] for n, item in items.items() if item["left_out"]}
    assert left_out == {
        "read (not valid).txt": "it is text",
        "note.md": "a note",
        "talk.md": "a chat (transcript); import it by itself",
        "package.json": "a package of npm",
        "lake.mp4": "files of this type are not imported",
        "reed.mp4": "files of this type are not imported",
    }
    shown = run("import", str(tmp_path / "mem")).stderr
    assert "lake.mp4, reed.mp4 were left out: files of this type" in shown


def test_an_archive_is_the_directory_in_it(familiar, tmp_path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("claude.json", "claude.memories.json"):
            archive.write(SAMPLES / name, f"export/{name}")
        archive.writestr("export/users.json", '[{"full_name": "Robin"}]')
        archive.writestr("export/voice.ogg", b"OggS")
    items = {Path(one["path"]).name: one for one in data("import", str(path))["items"]}
    assert [items[name]["kind"] for name in ("claude.memories.json", "claude.json")] == [
        *("memories", "chat")
    ]
    assert {name for name, one in items.items() if one["left_out"]} == {"users.json", "voice.ogg"}
    assert data("import-chat", str(path))["already_there"] == 2
    path.write_bytes(bytes(byte ^ (40 < at < 90) for at, byte in enumerate(path.read_bytes())))
    damaged = run("import", str(path))
    assert (damaged.exit_code, damaged.stdout) == (5, "")
    assert "zip archive that cannot be read" in damaged.stderr


def test_a_person_in_an_archive_is_asked_for_by_its_name(familiar, tmp_path) -> None:
    path = tmp_path / "whatsapp.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_chat.txt", "Ann: Hi.\nYuzu: Hello.\nAnn: Tea?\nYuzu: Yes.\n")
        archive.writestr("photo.jpg", b"\xff\xd8\xff")
    for command in ("import", "import-chat"):
        assert f"`familiar {command} {path} --me Ann`" in run(command, str(path)).stderr
    (item,) = data("import", str(path), "--me", "Ann")["items"]
    assert item["path"] == str(path)
    (found,) = item["results"]
    assert [Path(one["file"]).name for one in found["files"]] == ["_chat.txt", "photo.jpg"]


def test_of_several_peoples_data_folders_none_is_guessed(tmp_path) -> None:
    for name in ("ann", "bo"):
        lived_in(tmp_path / "data" / name)
    result = run("import", str(tmp_path / "data"))
    assert (result.exit_code, "'ann', 'bo'" in result.stderr) == (2, True), result.stderr
    assert not home().exists()


def test_where_two_readings_are_possible_the_safe_one_is_taken(familiar, tmp_path) -> None:
    for path in ("daily/2026-03-02_phone.md", "boat.md"):
        (tmp_path / "m" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "m" / path).write_text("- Rain.\n", "utf-8")
    result = run("import", str(tmp_path / "m"), "--dry-run")
    assert "`--kind memories` reads it differently" in result.stderr
    assert "boat.md" in result.stdout
    (item,) = data("import", str(tmp_path / "m"), "--kind", "memories")["items"]
    assert (item["kind"], item["results"][0]["written"]) == (
        "memories",
        ["daily/2026-03-02_phone.md"],
    )


@each("name", ["st.jsonl", "world.json", "note.md"])
def test_without_a_familiar_the_error_says_what_to_type(tmp_path, name) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name][1])
    result = run("import", str(path))
    assert (result.exit_code, result.stdout) == (4, "")
    assert "`familiar import CARD.png`" in result.stderr
    assert not list(home().glob("*"))
    (tmp_path / "mira.png").write_bytes(FILES["mira.png"][1])
    (tmp_path / "plain.jsonl").write_bytes(FILES["plain.jsonl"][1])
    files = [str(tmp_path / one) for one in ("plain.jsonl", "mira.png")]
    told = data("import", *files, "--dry-run")
    assert not list(home().glob("*"))
    assert [item["familiar"] for item in told["items"]] == ["mira", "mira"]
    assert data("import", *files)["items"][1]["results"][0]["imported"] == 2


def test_a_chat_goes_to_the_familiar_that_speaks_in_it(familiar, tmp_path) -> None:
    (live("bo") / "character.toml").write_text('name = "Bo"\n', encoding="utf-8")
    run("use", "bo")
    (item,) = data("import", str(save(tmp_path / "c.jsonl", HEAD, *talk(2))))["items"]
    assert item["familiar"] == "ada"
    (item,) = data("import", str(save(tmp_path / "p.jsonl", *PLAIN)))["items"]
    assert item["familiar"] == "bo"


def test_what_only_a_person_knows_is_a_usage_error(familiar, tmp_path) -> None:
    dates = "01/02/2024, 10:00 - Robin: Hello.\n01/02/2024, 10:01 - Yuzu: Hi.\n"
    stranger = "Robin: Hello.\nMira: Hi.\nRobin: Well?\nMira: Well.\n"
    for text, option in ((dates, "--dates dmy"), (stranger, "--character Mira")):
        path = tmp_path / f"{option[2:5]}.txt"
        path.write_text(text, "utf-8")
        result = run("import", str(path))
        assert (result.exit_code, option in result.stderr) == (2, True), result.stderr
        assert run("import-chat", str(path)).exit_code == 5


class Typed:
    """Standard input at which somebody types."""

    def __init__(self, *lines: str) -> None:
        self._lines = iter(lines)

    def readline(self) -> str:
        return next(self._lines)


def at_a_terminal(patch, *lines: str) -> None:
    patch.setattr("familiar_cli.pages.emit.is_terminal", lambda: True)
    patch.setattr("familiar_cli.cli.terminal.prompts.sys.stdin", Typed(*lines))


@each("answer, account", [("2\n", "chat"), ("me:jon\n", "cli")])
def test_a_person_is_asked_whether_a_stranger_is_them(tmp_path, answer, account) -> None:
    (live("ada") / "character.toml").write_text('name = "Yuzu"\n', encoding="utf-8")
    run("me", "--name", "Caroline")
    path = tmp_path / "c.txt"
    path.write_text("Jon: Hi\nYuzu: Hello.\nJon: Are you there?\nYuzu: I am.\n", "utf-8")
    for asked in ((answer,), ()):  # only once
        with pytest.MonkeyPatch.context() as patch:
            at_a_terminal(patch, *asked)
            app(["import", str(path)], standalone_mode=False)
    turns = data("history", "show", "--channel", "c")["turns"]
    assert {turn["author"]["platform"] for turn in turns if turn["author"]} == {account}


def test_each_stranger_in_a_directory_of_chats_is_asked_about_once(tmp_path, monkeypatch) -> None:
    (live("ada") / "character.toml").write_text('name = "Yuzu"\n', encoding="utf-8")
    for chat, name in (("a", "Jon"), ("b", "Kit"), ("c", "Jon")):
        (tmp_path / f"{chat}.txt").write_text(f"{name}: Hi {chat}\nYuzu: Hello.\n", "utf-8")
    at_a_terminal(monkeypatch, "2\n", "me:kit\n")
    app(["import", str(tmp_path)], standalone_mode=False)
    said = [data("history", "show", "--channel", chat)["turns"][0] for chat in "abc"]
    assert [turn["author"]["platform"] for turn in said] == ["chat", "cli", "chat"]


BROKEN = {
    "cut.png": (png_card(card("Mira"))[:60], "incomplete PNG"),
    "photo.png": (b"\xff\xd8\xff\xe0 JFIF", "JPEG"),
    "preset.json": (b'{"temperature": 1, "top_p": 0.9}', "sampling settings"),
    "broken.json": (b'{"a": [1, 2', "not valid JSON"),
    "data.bin": (bytes(range(256)) * 20, "binary"),
    "empty.jsonl": (b"", "empty"),
    "words.txt": (b"just some words", "text"),
    "archive.zip": (b"PK\x03\x04" + b"\0" * 60, "zip"),
}


@each("name", BROKEN)
def test_what_nobody_can_read_is_one_clear_error(tmp_path, name) -> None:
    live("ada")
    path = tmp_path / name
    path.write_bytes(BROKEN[name][0])
    result = run("import", str(path))
    assert (result.exit_code, result.stdout) == (5, ""), result.stderr
    assert BROKEN[name][1] in result.stderr
    assert "nothing was imported" in result.stderr
    assert result.stderr.count("error:") == 1


def test_one_bad_file_does_not_stop_the_others(familiar, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    good = save(tmp_path / "c.jsonl", HEAD, *talk(2))
    found = data("import", str(tmp_path / "empty"), str(tmp_path / "gone"), str(good), code=7)
    errors = {Path(item["path"]).name: item["error"] for item in found["items"]}
    assert "is empty" in errors["empty"]
    assert "No such file" in errors["gone"]
    assert errors["c.jsonl"] is None
    assert run("import", str(tmp_path / "gone")).exit_code == 4


def test_each_file_that_needs_a_chosen_familiar_is_named(tmp_path) -> None:
    live("ada")
    live("bo")
    names = ("quay.json", "pier.json")
    for name in names:
        (tmp_path / name).write_text(json.dumps(world(lore("Quay"))), encoding="utf-8")
    told = run("import", *(str(tmp_path / name) for name in names)).stderr
    assert [f"{name}': There are several familiars" in told for name in names] == [True, True]


def test_standard_input_is_a_file_too(familiar) -> None:
    result = run("import", "-", "--json", stdin=json.dumps(PLAIN))
    (item,) = json.loads(result.stdout)["data"]["items"]
    assert (result.exit_code, item["kind"], item["results"][0]["imported"]) == (0, "chat", 2)


def test_a_vault_is_updated_and_edits_stay(familiar, tmp_path) -> None:
    note = tmp_path / "v" / "tea.md"
    note.parent.mkdir()
    note.write_text("# Tea\n", "utf-8")
    (tmp_path / "v" / "plan.png").write_bytes(b"picture")
    run("import", str(tmp_path / "v"), "--kind", "vault")
    assert (familiar / "memory" / ".imported/vaults/v/plan.png").read_bytes() == b"picture"
    note.write_text("# Green tea\n", "utf-8")
    assert run("import", str(tmp_path / "v"), "--kind", "vault").exit_code == 5
    run("import", str(tmp_path / "v"), "--kind", "vault", "--update")
    mine = familiar / "memory" / "tea.md"
    assert mine.read_text("utf-8") == "# Green tea\n"
    mine.write_text("# My tea\n", "utf-8")
    run("import", str(tmp_path / "v"), "--kind", "vault", "--update")
    assert mine.read_text("utf-8") == "# My tea\n"


SAMPLES = Path(__file__).parents[1] / "imports" / "samples"


@each("name", ["backyard.byaf", "character_ai.json"])
def test_a_file_with_a_character_and_chats_makes_it_and_keeps_them(name) -> None:
    run("me", "--name", "Nell")
    (item,) = data("import", str(SAMPLES / name))["items"]
    assert (item["familiar"], item["error"]) == ("ibis", None)
    said = [chat["channel"] for result in item["results"] for chat in result.get("chats", ())]
    assert len(said) == 1
    assert data("history", "show", "--channel", said[0])["turns"]


def test_a_directory_of_such_files_makes_it_too_and_a_rehearsal_names_none(tmp_path) -> None:
    place = tmp_path / "dump" / "ibis.json"
    place.parent.mkdir()
    place.write_bytes((SAMPLES / "character_ai.json").read_bytes())
    tried = run("import", str(place.parent), "--dry-run")
    assert ("Would make Ibis" in tried.stdout, "it was not imported" in tried.stderr) == (True,) * 2
    assert f"`familiar import {place} --me Nell`" in tried.stderr
    with zipfile.ZipFile(tmp_path / "dump.zip", "w") as archive:
        archive.write(place, "chats/ibis.json")
    result = run("import", str(tmp_path / "dump.zip"))
    assert "Made Ibis" in result.stdout
    assert f"'Nell' speaks in '{tmp_path / 'dump.zip'}'" in result.stderr


def test_the_history_of_a_known_familiar_does_not_touch_its_card() -> None:
    live("ibis")
    (item,) = data("import", str(SAMPLES / "character_ai.json"), "--me", "Nell")["items"]
    assert (item["error"], [r["imported"] for r in item["results"]]) == (None, [2])


def test_a_question_is_asked_again_and_its_end_refuses_the_file(tmp_path, monkeypatch) -> None:
    live("ada")
    monkeypatch.setattr("familiar_cli.pages.emit.is_terminal", lambda: True)
    path = tmp_path / "chat.txt"
    path.write_text("01/02/24, 10:04 - User: hello\n03/02/24, 10:05 - Ada: hi\n", encoding="utf-8")
    ended = run("import", str(path), stdin="7\n")
    assert ended.exit_code == 2
    assert "'7' is none of 1 to 2" in ended.stderr
    assert "its question was not answered" in ended.stderr
    assert run("import", str(path), stdin="x\n2\n").exit_code == 0


@each(
    "argv",
    [
        ("import", ""),
        ("import", "there.json", ""),
        ("export", ""),
        ("card", "export", "--out="),
        ("card", "check", ""),
        ("init", "x", "--from-card", ""),
        ("--home", "", "list"),
    ],
)
def test_an_empty_text_is_no_file_and_never_the_current_directory(
    argv, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*argv)
    assert (done.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "is empty; nothing was read or changed" in done.stderr


def test_a_document_is_not_taken_for_text(tmp_path) -> None:
    live("ada")
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n")
    told = run("import", str(tmp_path / "a.pdf")).stderr
    assert "it is a document (save what it says as plain text" in told
    assert "reads any text" not in told


def test_a_preview_shows_times_as_they_are_where_the_familiar_is(tmp_path) -> None:
    live("ada")
    run("config", "set", "timezone", "Asia/Tokyo")
    path = tmp_path / "chat.txt"
    path.write_text("2024-03-13 10:04 - User: hello\n2024-03-13 10:05 - Ada: hi\n", "utf-8")
    assert "turn 1    2024-03-13 10:04 User" in run("import", str(path), "--dry-run").stdout


def test_a_file_of_another_character_makes_a_familiar_of_it() -> None:
    root = live("ada")
    (damaged := root.with_name("odo")).mkdir()
    (damaged / "character.toml").write_text("= 1")
    (item,) = data("import", str(SAMPLES / "character_ai.json"), "--me", "Nell")["items"]
    assert item["familiar"] == "ibis"
    assert run("history", "stats", "--familiar", "ada").exit_code == 0
    assert not (root / "history.db").exists()
