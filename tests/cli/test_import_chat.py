"""`familiar import-chat`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import pytest

from familiar_cli.imports.import_chat import ChatImport
from tests.support.chats import HEAD, robin, save, talk, yuzu
from tests.support.world import data, live, run


@pytest.fixture
def root():
    return live("yuzu")


@pytest.fixture
def chat(root, tmp_path):
    return save(tmp_path / "night.jsonl", HEAD, *talk(4))


def bring(*argv, stdin=None):
    return run("import-chat", *map(str, argv), stdin=stdin)


def test_it_tells_what_was_imported(chat) -> None:
    result = bring(chat)
    assert (result.exit_code, result.stderr) == (0, "")
    told = "Imported 4 turns of night (SillyTavern) as channel night\n  heard by  only you\n"
    assert result.stdout == told


def test_the_author_s_note_of_a_chat_applies_in_its_channel(root, tmp_path) -> None:
    about = {"chat_metadata": {"note_prompt": "[It rains]", "note_depth": 1}}
    save(tmp_path / "rain.jsonl", HEAD | about, *talk(4))
    dry = bring(tmp_path / "rain.jsonl", "--dry-run")
    assert not list(root.glob("channels/*"))
    done = bring(tmp_path / "rain.jsonl")
    assert "its author's note would apply in the channel\n" in dry.stdout
    assert "`familiar channel set --unset author_note.text rain --familiar yuzu`" in done.stdout
    sent = data("ask", "Hello", "--channel", "rain", "--dry-run")["messages"]
    assert sent[-2]["content"].startswith("[It rains]")


def test_the_page_tells_what_is_unusual(root, tmp_path) -> None:
    save(
        tmp_path / "night.jsonl",
        HEAD,
        yuzu("a"),
        robin("b", None),
        yuzu("c", is_system=True),
        "?",
    )
    result = bring(tmp_path / "night.jsonl")
    assert result.exit_code == 7
    assert result.stdout.splitlines() == [
        "Imported 3 turns of night (SillyTavern) as channel night",
        "  hidden    1 turn: kept, but never shown to a model",
        "  no time   1 turn: time estimated from neighbouring turns",
        "  left out  line 5: it is not JSON (Expecting value: line 1 column 1 (char 0))",
        "  heard by  only you",
    ]
    assert "error: Not everything was imported: 1 damaged line left out" in result.stderr


def test_the_same_again_adds_nothing(chat) -> None:
    bring(chat)
    result = bring(chat)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "Nothing new in night (SillyTavern, channel night)",
        "  already there  4 turns",
    ]


def test_json_has_what_scripts_read(chat) -> None:
    found = data("import-chat", str(chat))
    assert (found["imported"], found["already_there"], found["skipped"]) == (4, 0, [])
    assert found["channel"] == "night"
    assert set(found["chats"][0]) >= {"file", "name", "format", "channel", "imported", "skipped"}


def test_json_names_lines_that_were_left_out(root, tmp_path) -> None:
    save(tmp_path / "night.jsonl", HEAD, *talk(2), "[]")
    result = bring(tmp_path / "night.jsonl", "--json")
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["status"]) == (7, "partial")
    assert answer["data"]["skipped"] == [{"line": 4, "reason": "it is JSON, but not an object"}]


def test_a_dry_run_writes_nothing(root, chat) -> None:
    result = bring(chat, "--dry-run")
    assert result.stdout.startswith("Would import 4 turns")
    assert not (root / "history.db").exists()


def test_standard_input_is_read(chat) -> None:
    result = bring("-", "--channel", "night", stdin=chat.read_bytes())
    assert "Imported 4 turns of stdin (SillyTavern) as channel night\n" in result.stdout


def test_a_directory_is_read_to_its_depths_each_chat_a_channel(root, tmp_path) -> None:
    deep = tmp_path / "chats" / "Yuzu"
    deep.mkdir(parents=True)
    save(deep / "one.jsonl", HEAD, *talk(2))
    save(deep / "two.jsonl", HEAD, *talk(3, first=60))
    (deep / "picture.png").write_bytes(b"")
    found = data("import-chat", str(tmp_path / "chats"))
    assert (found["imported"], found["channel"]) == (5, None)
    assert [chat["channel"] for chat in found["chats"]] == ["one", "two"]


def test_one_bad_file_does_not_stop_the_others(root, tmp_path) -> None:
    save(tmp_path / "bad.jsonl", "Dear diary")
    save(tmp_path / "good.jsonl", HEAD, *talk(2))
    result = bring(tmp_path, "--json")
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["data"]["imported"]) == (7, 2)
    files = {file["file"].rpartition("/")[2]: file["error"] for file in answer["data"]["files"]}
    assert files["good.jsonl"] is None
    assert "is text, not a chat" in files["bad.jsonl"]


def test_the_person_is_whom_as_names(chat) -> None:
    bring(chat, "--as", "discord:7")
    turns = data("history", "show", "--channel", "night")["turns"]
    assert (turns[0]["author"]["platform"], turns[0]["author"]["user_id"]) == ("discord", "7")


def test_times_without_a_zone_are_the_familiars(root, tmp_path) -> None:
    run("config", "set", "timezone", "Asia/Tokyo")
    bring(save(tmp_path / "c.jsonl", HEAD, yuzu("a", "June 19, 2023 2:20pm")))
    turns = data("history", "show", "--channel", "c")["turns"]
    assert turns[0]["at"] == "2023-06-19T05:20:00.000Z"


def test_an_escape_sequence_in_a_name_does_not_reach_the_terminal(root, tmp_path) -> None:
    head = {"familiar_chat": 1, "name": "\x1b[31mred"}
    path = save(tmp_path / "c.jsonl", head, {"role": "user", "content": "a"})
    assert "\x1b" not in bring(path).stdout


def test_a_chat_in_which_the_familiar_says_nothing_can_be_imported(root, tmp_path) -> None:
    path = tmp_path / "c.txt"
    path.write_text("Robin: Tea?\nBo: Please.\nRobin: Here.\nBo: Ah.\n", encoding="utf-8")
    refused = bring(path)
    assert refused.exit_code == 5
    assert "add `--character -`" in refused.stderr
    assert bring(path, "--character", "-").exit_code == 0
    turns = data("history", "show", "--channel", "c")["turns"]
    assert {(turn["role"], turn["author"]["display_name"]) for turn in turns} == {
        ("user", "Robin"),
        ("user", "Bo"),
    }


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["none.jsonl"], 4, "No such file"),
        (["empty"], 4, "No chats below"),
        (["text.jsonl"], 5, "is text, not a chat"),
        (["other.jsonl"], 5, "is a chat with 'Ilmari'"),
        (["good.jsonl", "--character", "Ilmari"], 5, "No speaker in"),
        (["good.jsonl", "--as", "nobody"], 2, "is not a valid account"),
        (["full", "--channel", "x"], 2, "each chat gets its own channel"),
        (["two.json", "--channel", "x"], 2, "holds 2 chats"),
        ([], 2, "Missing argument"),
    ],
)
def test_every_failure_has_its_exit_code(root, tmp_path, argv, code, message) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    save(tmp_path / "full" / "c.jsonl", HEAD, *talk(2))
    save(tmp_path / "text.jsonl", "Dear diary")
    save(tmp_path / "other.jsonl", HEAD, {"name": "Ilmari", "is_user": False, "mes": "Hm"})
    save(tmp_path / "good.jsonl", HEAD, *talk(2))
    conversation = {"uuid": "1", "chat_messages": [{"sender": "human", "text": "a"}]}
    save(tmp_path / "two.json", [conversation, conversation | {"uuid": "2"}])
    result = bring(*(str(tmp_path / argv[0]), *argv[1:]) if argv else ())

    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (root / "history.db").exists()


def test_a_channel_that_goes_on_later_exits_5(root, chat) -> None:
    bring(chat)
    with closing(sqlite3.connect(root / "history.db")) as other, other:
        other.execute(
            "INSERT INTO turns (channel_id, role, content, at_ms, modality, source) "
            "VALUES ('night', 'user', 'x', 1900000000000, 'text', 'cli')"
        )
    save(chat, HEAD, *talk(6))
    result = bring(chat)
    assert result.exit_code == 5
    assert "--channel NAME" in result.stderr


def test_another_programs_database_exits_5(root, chat) -> None:
    with closing(sqlite3.connect(root / "history.db")) as other, other:
        other.execute("CREATE TABLE x (y)")
    result = bring(chat)
    assert result.exit_code == 5
    assert "another program's database" in result.stderr


def test_without_a_familiar_it_exits_4(tmp_path) -> None:
    assert bring(save(tmp_path / "c.jsonl", *talk(2))).exit_code == 4


def test_ctrl_c_keeps_the_chats_before_and_says_how_to_go_on(root, tmp_path, monkeypatch) -> None:
    for name in ("a", "b"):
        save(tmp_path / f"{name}.jsonl", HEAD, *talk(2))
    run_import = ChatImport.run

    def interrupt(self):
        if self.done.file.endswith("b.jsonl"):
            raise KeyboardInterrupt
        run_import(self)

    monkeypatch.setattr(ChatImport, "run", interrupt)
    result = bring(tmp_path)
    assert result.exit_code == 130
    assert "What was imported is kept" in result.stderr
    assert {turn["channel"] for turn in data("history", "show")["turns"]} == {"a"}


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read_is_named(root, tmp_path) -> None:
    save(tmp_path / "good.jsonl", HEAD, *talk(2))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    try:
        result = bring(tmp_path)
    finally:
        closed.chmod(0o700)
    assert result.exit_code == 7
    assert "closed" in result.stderr


def test_a_file_name_that_is_no_unicode_stops_nothing(root, tmp_path) -> None:
    name = os.fsdecode(b"caf\xe9.jsonl") if os.name == "posix" else "caf\u00e9.jsonl"
    try:
        path = save(tmp_path / name, HEAD, *talk(2))
    except OSError:
        pytest.skip("this file system has only names in Unicode")
    assert data("import-chat", str(path.parent))["imported"] == 2
    assert data("import-chat", str(path.parent))["already_there"] == 2
