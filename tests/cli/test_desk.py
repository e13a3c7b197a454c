"""`familiar remind`, `task` and `scratch`, from argv to files, stdout, stderr and exit code."""

from __future__ import annotations

import re
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from familiar_cli.actions.memory import desk
from familiar_cli.cli.terminal.reply import BackgroundNotices
from familiar_cli.familiar import Familiar
from familiar_cli.pages.emit import Output
from tests.support.world import data, home, live, run


@pytest.fixture
def memory(monkeypatch):
    root = live("ada")
    (root / "character.toml").write_text('timezone = "Europe/Oslo"\n', "utf-8")
    monkeypatch.setattr(desk, "now", lambda: datetime(2026, 11, 21, 22, 47, tzinfo=UTC))
    return root / "memory"


def test_a_reminder_is_written_in_the_familiars_timezone(memory) -> None:
    result = run("remind", "add", "Call Anna", "--at", "in 2 hours")
    assert result.exit_code == 0
    assert result.stdout.endswith("+- [ ] Call Anna @2026-11-22 01:47\n")
    assert result.stderr == "Added r1, 2026-11-22 01:47.\n"
    assert (memory / "reminders.md").read_bytes() == (
        b"# Reminders\n\n- [ ] Call Anna @2026-11-22 01:47\n"
    )


def test_what_is_due_is_marked_and_what_is_done_goes(memory) -> None:
    (memory / "reminders.md").write_text(
        "- [ ] old @2026-11-21 23:47\n- [ ] new @2026-11-21 23:48\n- odd @2026-02-30\n", "utf-8"
    )
    found = data("remind", "ls")
    assert [(item["text"], item["is_due"]) for item in found["items"]] == [
        ("old", True),
        ("new", False),
        ("odd", True),
    ]
    assert (found["open"], found["due"]) == (3, 2)
    assert found["items"][0]["at"] == "2026-11-21T22:47:00.000Z"
    assert "2026-02-30: not a valid time" in run("remind", "ls").stdout

    done = data("remind", "done", "3")
    assert (done["changed"], done["item"]["mark"]) == (True, "done")
    assert (memory / "reminders.md").read_text("utf-8").endswith("- [x] odd @2026-02-30\n")
    assert len(data("remind", "ls")["items"]) == 2
    assert len(data("remind", "ls", "--all")["items"]) == 3
    assert "already" in run("remind", "done", "3").stderr


@pytest.mark.usefixtures("memory")
def test_an_empty_list_says_what_to_type() -> None:
    for words in (("remind", "ls"), ("task", "ls"), ("scratch",)):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (0, "")
        assert f"`familiar {words[0]} add TEXT" in result.stderr


def test_tasks_keep_their_numbers(memory) -> None:
    run("task", "add", "one")
    run("task", "add", "two", "--due", "friday")
    run("task", "done", "1")
    run("task", "add", "-", "--due", "2026-12-01")
    assert run("task", "add", "-", "--due", "tomorrow").exit_code == 2  # standard input is empty
    run("task", "drop", "2")
    assert (memory / "tasks.md").read_text("utf-8") == (
        "# Tasks\n\n- [x] one\n- [-] two @2026-11-27\n"
    )
    assert [item["number"] for item in data("task", "ls", "--all")["items"]] == [1, 2]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("remind", "add", "x", "--at", "some day"), 2),
        (("remind", "add", " ", "--at", "friday"), 2),
        (("remind", "add", "x"), 2),
        (("remind", "done", "1"), 4),
        (("task", "drop", "7"), 4),
        (("scratch", "add", ""), 2),
    ],
)
def test_what_makes_no_sense_changes_nothing(memory, words, code) -> None:
    result = run(*words)
    assert result.exit_code == code
    assert result.stderr.startswith("error: ")
    assert list(memory.iterdir()) == []


def test_a_dry_run_changes_nothing(memory) -> None:
    for words in (
        ("remind", "add", "x", "--at", "friday"),
        ("task", "add", "x"),
        ("scratch", "add", "x"),
    ):
        assert "Nothing was changed (--dry-run)" in run(*words, "--dry-run").stderr
    assert list(memory.iterdir()) == []


def test_a_scratchpad_is_written_read_and_thrown_away(memory) -> None:
    run("scratch", "add", "-", stdin="one\r\n")
    run("scratch", "add", "two")
    assert (memory / "scratch.md").read_bytes() == b"one\ntwo\n"
    assert run("scratch").stdout_bytes == b"one\ntwo\n"
    assert run("scratch", "show").stdout == run("scratch").stdout
    cleared = data("scratch", "clear")
    assert (cleared["before"], cleared["text"]) == ("one\ntwo\n", "")
    assert not (memory / "scratch.md").exists()


EDITOR = """
import pathlib, sys
path = pathlib.Path(sys.argv[-1])
print("welcome to the editor")
{}
"""


@pytest.fixture
def editor(tmp_path, monkeypatch):
    def set_to(code: str, variable: str = "EDITOR") -> None:
        script = tmp_path / "an editor.py"
        script.write_text(EDITOR.format(code), "utf-8")
        monkeypatch.setenv(variable, f'"{sys.executable}" "{script}"')

    return set_to


def test_the_scratchpad_is_opened_in_an_editor(memory, editor) -> None:
    (memory / "scratch.md").write_bytes(b"one\n")
    editor("1 / 0", "EDITOR")
    editor(
        "assert path.name == 'scratch.md'; path.write_bytes(path.read_bytes() + b'two')", "VISUAL"
    )
    result = run("scratch", "edit")
    assert result.stdout.endswith("@@ -1 +1,2 @@\n one\n+two\n\\ No newline at end of file\n")
    assert (memory / "scratch.md").read_bytes() == b"one\ntwo"
    assert run("scratch", "edit", "--dry-run", "--json").exit_code == 0
    assert (memory / "scratch.md").read_bytes() == b"one\ntwo"


def test_an_editor_that_changes_nothing_changes_nothing(memory, editor) -> None:
    editor("pass")
    assert "is empty; nothing was changed" in run("scratch", "edit").stderr
    assert list(memory.iterdir()) == []
    run("scratch", "add", "one")
    assert "is unchanged; nothing was changed" in run("scratch", "edit").stderr
    editor("path.write_bytes(b'\\n')")
    assert data("scratch", "edit")["text"] == ""
    assert not (memory / "scratch.md").exists()


@pytest.mark.parametrize("value", [None, "", "  ", '"vi'])
def test_without_an_editor_it_says_so(memory, monkeypatch, value) -> None:
    if value is not None:
        monkeypatch.setenv("EDITOR", value)
    result = run("scratch", "edit")
    assert result.exit_code == 3
    assert "No editor is set" in result.stderr
    assert "hint: Set one, e.g. `export EDITOR=nano`" in result.stderr
    assert list(memory.iterdir()) == []


def test_an_editor_that_is_not_there_is_named(memory, monkeypatch) -> None:
    monkeypatch.setenv("EDITOR", "no-such-editor -w")
    result = run("scratch", "edit")
    assert result.exit_code == 1
    assert "'no-such-editor' cannot be started" in result.stderr
    assert list(memory.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "exit_code", "told"),
    [
        ("path.write_bytes(b'mine'); sys.exit(3)", 1, "exited with status 3; nothing was changed"),
        ("path.write_bytes(b'\\xff')", 5, "is not UTF-8"),
        ("path.unlink()", 1, "cannot be read"),
        ("path.write_bytes(b'mine'); target.write_bytes(b'theirs')", 5, "was changed meanwhile"),
        ("path.write_bytes(b'x' * 300_000)", 5, "over the limit"),
    ],
)
def test_what_cannot_be_used_is_not_lost(memory, editor, code, exit_code, told) -> None:
    scratch = memory / "scratch.md"
    scratch.write_bytes(b"one\n")
    editor(f"target = pathlib.Path({str(scratch)!r}); {code}")
    result = run("scratch", "edit")
    assert result.exit_code == exit_code
    assert told in result.stderr
    assert scratch.read_bytes() in {b"one\n", b"theirs"}
    left = re.search(r"Your text is saved in '(.*?)'", result.stderr)
    assert (left is None) == ("unlink" in code)
    if left:
        assert Path(left[1]).read_bytes() != b"one\n"
        shutil.rmtree(Path(left[1]).parent)


def test_a_file_that_is_not_utf_8_is_refused_and_stays(memory) -> None:
    (memory / "tasks.md").write_bytes(b"- [ ] \xff\n")
    for words in (("task", "ls"), ("task", "add", "x"), ("task", "done", "1")):
        assert run(*words).exit_code == 5
    assert (memory / "tasks.md").read_bytes() == b"- [ ] \xff\n"
    assert "UTF-8" in data("status")["desk"]["problem"]


def test_status_names_what_is_due(memory) -> None:
    (memory / "reminders.md").write_text("- [ ] old @2026-01-01\n- [ ] new @2030-01-01\n", "utf-8")
    run("task", "add", "one")
    assert data("status")["desk"] == {
        "due": ["old"],
        "reminders": 2,
        "tasks": 1,
        "conflicts": [],
        "problem": "",
    }
    assert "1 due: old" in run("status").stdout


def test_a_number_alone_names_the_only_item_that_has_it(memory) -> None:
    assert run("todo", "add", "Mend the lamp").stderr == "Added t1.\n"
    assert run("todo", "done", "1").stderr == "t1 is done.\n"
    assert run("task", "drop", "t1").stderr == "t1 is dropped.\n"


def test_todo_holds_reminders_tasks_and_notes_under_one_noun(memory) -> None:
    run("todo", "add", "Water the plants", "--at", "every monday 9:00")
    run("todo", "add", "Mend the lamp", "--due", "friday")
    run("todo", "note", "low tide")
    found = data("todo")
    assert [item["every"] for item in found["reminders"]["items"]] == ["every monday 09:00"]
    assert [item["text"] for item in found["tasks"]["items"]] == ["Mend the lamp"]
    assert found["notes"] == "low tide\n"
    page = run("todo", "ls").stdout
    assert "r1  [ ]  2026-11-23 09:00, every monday 09:00  Water the plants" in page
    assert "t1  [ ]  2026-11-27" in page
    done = run("todo", "done", "r1")
    assert done.stderr == "r1 is open, 2026-11-30 09:00, every monday 09:00.\n"
    both = run("todo", "drop", "1")
    assert (both.exit_code, "`r1` or `t1`" in both.stderr) == (2, True)
    run("todo", "drop", "t1")
    assert (memory / "tasks.md").read_text(
        "utf-8"
    ) == "# Tasks\n\n- [-] Mend the lamp @2026-11-27\n"
    assert run("todo", "note", "--clear").exit_code == 0
    assert [data(*words)["items"] != [] for words in (("remind", "ls"), ("task", "ls"))] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("done", "1"), 4),
        (("done", "x2"), 2),
        (("done", "r7"), 4),
        (("add", "x", "--at", "every moon"), 2),
        (("add", "x", "--at", "friday", "--due", "friday"), 2),
        (("note", "x", "--clear"), 2),
    ],
)
def test_a_todo_that_makes_no_sense_changes_nothing(memory, words, code) -> None:
    result = run("todo", *words)
    assert (result.exit_code, result.stderr[:7]) == (code, "error: ")
    assert list(memory.iterdir()) == []


def test_a_reminder_is_told_once_by_each_face_and_again_each_time(memory, monkeypatch) -> None:
    (memory / "reminders.md").write_text(
        "- [ ] Water @2026-11-21 23:40 (every day 23:40)\n- [ ] later @2027-01-01\n", "utf-8"
    )

    def told(face: str) -> list[str]:
        with Familiar.load_from_disk(home(), "ada") as familiar:
            return [item.text for item in desk.fire_reminders(familiar, face)]

    assert [told("chat"), told("chat"), told("daemon")] == [["Water"], [], ["Water"]]
    tomorrow = datetime(2026, 11, 22, 22, 41, tzinfo=UTC)
    monkeypatch.setattr(desk, "now", lambda: tomorrow)
    assert [told("chat"), told("chat")] == [["Water"], []]
    (memory.parent / "reminded.json").write_text("[damaged", "utf-8")
    assert told("chat") == ["Water"]


def test_a_chat_tells_what_has_become_due(memory, capsys) -> None:
    (memory / "reminders.md").write_text("- [ ] Call Anna @2026-11-21 23:40\n", "utf-8")
    with Familiar.load_from_disk(home(), "ada") as familiar:
        beside = BackgroundNotices(Output("chat"), familiar)
        assert [beside.status(), beside.status()] == ["", ""]
    assert capsys.readouterr().err == (
        "Reminder: Call Anna (due since 2026-11-21 23:40). `familiar todo done r1`\n"
    )
