"""`familiar memory log`, `show`, `diff`, `blame`, `undo`, `restore`, `compact`, from argv on."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from familiar_cli.store.memory.store.store import hold_lock
from tests.support.world import data, home, live, run, spawn


@pytest.fixture
def memory():
    """The memory of the only familiar, with two changes behind it."""
    live("ada", notes="Ask Bob.\n")
    run("memory", "append", "people/alice.md", "# Alice\n\n- likes green tea\n")
    run("memory", "append", "people/alice.md", "- plays ska\n")
    return home() / "ada" / "memory"


def ids() -> list[str]:
    return [commit["id"] for commit in data("memory", "log")["commits"]]


class TestLog:
    def test_one_line_a_change_newest_first(self, memory) -> None:
        lines = run("memory", "log").stdout.splitlines()
        assert [re.sub(r"\d", "0", line)[12:] for line in lines] == [
            "0000-00-00 00:00  human  append people/alice.md",
            "0000-00-00 00:00  human  append people/alice.md",
            "0000-00-00 00:00  human  the memory as it was found",
        ]
        assert run("memory", "log", "notes.md").stdout.splitlines() == [lines[2]]

    def test_json_is_a_contract(self, memory) -> None:
        (newest, *_) = data("memory", "log", "people")["commits"]
        assert set(newest) >= {"id", "time", "source", "message", "paths", "run_id"}
        assert len(newest["id"]) == 40
        assert newest["paths"] == ["people/alice.md"]
        assert newest["time"].endswith("Z")
        assert newest["run_id"]
        assert newest["run"] is None
        (length,) = newest["lengths"]
        assert set(length) == {"rel_path", "bytes_before", "bytes_after"}
        assert length["rel_path"] == "people/alice.md"
        assert length["bytes_before"] < length["bytes_after"]

    def test_source_since_and_limit(self, memory) -> None:
        assert len(data("memory", "log", "--limit", "1")["commits"]) == 1
        assert len(data("memory", "log", "--since", "1h")["commits"]) == 3
        nobody = run("memory", "log", "--source", "memory_writer")
        assert (nobody.exit_code, nobody.stdout) == (0, "")
        assert "No change matches" in nobody.stderr
        assert run("memory", "log", "--since", "someday").exit_code == 2

    def test_what_it_does_not_know(self, memory) -> None:
        result = run("memory", "log", "people/bob.md")
        assert result.exit_code == 4
        assert "has nothing at 'people/bob.md'" in result.stderr

    def test_an_edit_by_hand_is_in_it(self, memory) -> None:
        (memory / "notes.md").write_text("by hand\n", encoding="utf-8")
        assert "human  edited by hand: notes.md" in run("memory", "log").stdout

    def test_while_someone_writes_it_says_how_far_it_goes(self, memory) -> None:
        run("config", "set", "memory.lock_timeout_s", "0.1")
        with hold_lock(home() / "ada" / ".lock", 1):
            result = run("memory", "log")
        assert result.exit_code == 0
        assert len(result.stdout.splitlines()) == 3
        assert "by hand since the last commit are not shown" in result.stderr


def test_show_tells_who_and_what(memory) -> None:
    result = run("memory", "show", ids()[0][:8])
    assert result.exit_code == 0
    head, _, body = result.stdout.partition("\n\n")
    assert [line.split()[0] for line in head.splitlines()] == ["commit", "source", "time", "run"]
    assert body.startswith("    append people/alice.md\n\n--- a/people/alice.md\n")
    assert body.endswith(" - likes green tea\n+- plays ska\n")
    shown = data("memory", "show", "HEAD")
    assert [set(file) for file in shown["files"]] == [{"rel_path", "kind", "diff"}]


def test_diff_between_commits_and_of_a_path(memory) -> None:
    newest, middle, oldest = ids()
    assert run("memory", "diff").stdout.endswith("+- plays ska\n")
    assert "+- likes green tea" in run("memory", "diff", oldest, middle).stdout
    nothing = run("memory", "diff", oldest, "notes.md")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "Nothing differs" in nothing.stderr
    found = data("memory", "diff", oldest, newest)
    assert (found["from"]["id"], found["to"]["id"]) == (oldest, newest)
    assert found["files"][-1]["kind"] == "added"


@pytest.mark.skipif(not shutil.which("patch"), reason="patch is not installed")
def test_what_diff_prints_can_be_applied(memory) -> None:
    text = run("memory", "diff", ids()[0], ids()[1]).stdout
    done = subprocess.run(["patch", "-p1"], input=text, cwd=memory, text=True, check=False)
    assert done.returncode == 0
    assert (memory / "people" / "alice.md").read_text() == "# Alice\n\n- likes green tea\n"


def test_blame_names_the_commit_of_each_line(memory) -> None:
    newest, middle, _ = ids()
    lines = run("memory", "blame", "people/alice.md").stdout.splitlines()
    assert [line[:10] for line in lines] == [middle[:10]] * 3 + [newest[:10]]
    assert lines[3].endswith("human  4  - plays ska")
    found = data("memory", "blame", "people/alice.md")["lines"]
    assert (found[3]["line"], found[3]["text"]) == (4, "- plays ska")
    assert found[3]["commit"]["id"] == newest


class TestUndo:
    def test_the_newest_change(self, memory) -> None:
        result = run("memory", "undo")
        assert (result.exit_code, result.stdout) == (0, "wrote people/alice.md\n")
        assert "Undid: append people/alice.md" in result.stderr
        assert (memory / "people" / "alice.md").read_text() == "# Alice\n\n- likes green tea\n"

    def test_a_conflict_ends_with_5_is_shown_and_changes_nothing(self, memory) -> None:
        path = memory / "people" / "alice.md"
        path.write_text(path.read_text().replace("ska", "the tuba"), encoding="utf-8")
        before = path.read_bytes()
        result = run("memory", "undo", ids()[1])
        assert (result.exit_code, result.stdout) == (5, "")
        assert "people/alice.md:4\n<<<<<<< now\n- plays the tuba\n||||||| after" in result.stderr
        assert path.read_bytes() == before
        as_json = run("memory", "undo", ids()[1], "--json")
        assert json.loads(as_json.stdout)["errors"][0]["code"] == "conflict"

    def test_a_dry_run(self, memory) -> None:
        result = run("memory", "undo", "--dry-run")
        assert result.exit_code == 0
        assert result.stdout.startswith("would write people/alice.md\n--- a/people/alice.md\n")
        assert result.stdout.endswith("\n-- plays ska\n")
        assert "ska" in (memory / "people" / "alice.md").read_text()
        found = data("memory", "undo", "--dry-run")
        assert set(found) == {
            *("commit", "commits", "files", "written", "unchanged", "deleted"),
            *("dry_run", "notices"),
        }

    def test_an_unknown_commit(self, memory) -> None:
        assert run("memory", "undo", "ffff0000").exit_code == 4
        assert run("memory", "undo", "nonsense").exit_code == 2

    def test_nothing_to_undo(self) -> None:
        live("ada")
        assert run("memory", "undo").exit_code == 4


def test_restore_brings_a_deleted_file_back(memory) -> None:
    then = ids()[0]
    run("memory", "rm", "people/alice.md")
    result = run("memory", "restore", "people/alice.md", "--at", then[:10])
    assert (result.exit_code, result.stdout) == (0, "wrote people/alice.md\n")
    assert "ska" in (memory / "people" / "alice.md").read_text()
    again = run("memory", "restore", "people/alice.md", "--at", then, "--dry-run")
    assert again.stdout == "unchanged people/alice.md\n"
    assert run("memory", "restore", "nothing.md", "--at", then).exit_code == 4


def test_compact_packs(memory) -> None:
    would = run("memory", "compact", "--dry-run")
    assert would.stdout.startswith("would pack ")
    assert re.fullmatch(
        r"packed \d+ objects, .* KB -> .* KB on disk\n", run("memory", "compact").stdout
    )
    assert run("memory", "compact").stdout == "the journal is already packed\n"
    assert len(ids()) == 3
    assert set(data("memory", "compact")) == {"objects", "bytes_before", "bytes_after", "dry_run"}


def test_escape_sequences_from_the_past_are_harmless_on_a_terminal(memory) -> None:
    run("memory", "write", "evil.md", "\x1b[31mred\x1b[0m")
    assert run("memory", "diff").stdout.endswith(
        "+\x1b[31mred\x1b[0m\n\\ No newline at end of file\n"
    )
    assert "\x1b" not in run("memory", "log").stdout


def test_the_first_commit_of_a_new_familiar_is_its_making() -> None:
    assert run("init", "eve", "--template", "companion").exit_code == 0
    (first,) = data("memory", "log")["commits"]
    assert first["source"] == "init"
    assert "self/description.md" in first["paths"]
    assert (home() / "eve" / "journal.git" / "HEAD").exists()


def test_a_dry_run_of_init_leaves_no_journal() -> None:
    run("init", "eve", "--template", "companion", "--dry-run")
    assert not list(home().rglob("journal.git"))


def test_what_is_acknowledged_is_in_the_journal(memory) -> None:
    done = spawn("memory", "append", "notes.md", "- durable")
    assert done.returncode == 0
    assert not (memory.parent / "journal.git" / "familiar-pending").exists()
    assert data("memory", "log", "notes.md")["commits"][0]["message"] == "append notes.md"


def test_cat_finishes_what_a_crash_cut_short_and_loads_no_dulwich(memory) -> None:
    newest, middle, _ = ids()
    path = memory / "people" / "alice.md"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"- plays ska\n", b""))
    mark = memory.parent / "journal.git" / "familiar-pending"
    mark.write_text(json.dumps({"base": middle, "commit": newest}), encoding="utf-8")
    assert spawn("memory", "cat", "people/alice.md").stdout == whole
    assert not mark.exists()


def test_a_damaged_record_of_files_that_cannot_be_here_deletes_nothing(memory) -> None:
    before = ids()
    record = memory.parent / "journal.git" / "familiar-absent"
    record.write_bytes(b'{"people/')
    (memory / "people" / "alice.md").unlink()
    assert "could not be committed: The journal is damaged: 'fami" in run("memory", "log").stderr
    assert ids() == before
    assert run("doctor").exit_code == 7
    record.unlink()
    assert ids()[1:] == before
