"""`familiar memory`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from familiar_cli.store.memory.store.store import hold_lock
from tests.support.cases import each
from tests.support.world import data, home, live, run, spawn


@pytest.fixture
def memory():
    """The memory of the only familiar, with three files in it."""
    memory = live("ada", notes="Ask Bob.\n") / "memory"
    (memory / "people").mkdir()
    (memory / "people" / "alice.md").write_bytes(b"# Alice\n\nLikes green tea.\n")
    (memory / "people" / "bob.md").write_bytes(b"# Bob\n\nPlays ska.\n")
    return memory


def text(path) -> str:
    return path.read_bytes().decode()


class TestLs:
    def test_paths_come_one_a_line(self, memory) -> None:
        assert run("memory", "ls").stdout == "notes.md\npeople/alice.md\npeople/bob.md\n"
        assert run("memory", "ls", "people/").stdout == "people/alice.md\npeople/bob.md\n"

    def test_dotted_names_with_all(self, memory) -> None:
        (memory / ".gitignore").touch()
        assert ".gitignore" not in run("memory", "ls").stdout
        assert ".gitignore" in run("memory", "ls", "--all").stdout

    def test_json_tells_size_and_time(self, memory) -> None:
        (first, *_) = data("memory", "ls")["files"]
        assert set(first) == {"rel_path", "is_dir", "size_bytes", "modified"}
        assert (first["rel_path"], first["size_bytes"]) == ("notes.md", 9)

    def test_an_empty_memory_says_what_to_do(self) -> None:
        live("ada")
        result = run("memory", "ls")
        assert (result.exit_code, result.stdout) == (0, "")
        assert "familiar memory write" in result.stderr

    @pytest.mark.posix
    def test_what_is_skipped_is_told(self, memory) -> None:
        (memory / "broken.md").symlink_to("nowhere")
        result = run("memory", "ls")
        assert result.exit_code == 0
        assert "skipped 'broken.md': it is a broken link" in result.stderr
        assert data("memory", "ls")["skipped"] == [
            {"rel_path": "broken.md", "reason": "is a broken link"}
        ]

    def test_a_directory_that_is_not_there(self, memory) -> None:
        result = run("memory", "ls", "peple")
        assert result.exit_code == 4
        assert "Did you mean 'people'?" in result.stderr


class TestCat:
    def test_the_very_bytes_come_out(self, memory) -> None:
        raw = b"\xef\xbb\xbfcaf\xe9\r\n\x1b[31m\0no newline"
        (memory / "odd.md").write_bytes(raw)
        done = spawn("memory", "cat", "odd.md")
        assert (done.returncode, done.stdout, done.stderr) == (0, raw, b"")

    def test_json_has_the_hash_that_expect_wants(self, memory) -> None:
        found = data("memory", "cat", "notes.md")
        assert set(found) == {"rel_path", "text", "sha256", "size_bytes"}
        assert found["text"] == "Ask Bob.\n"
        done = run("memory", "write", "notes.md", "x", "--expect", found["sha256"])
        assert done.exit_code == 0

    def test_json_of_what_is_no_text_is_an_error(self, memory) -> None:
        (memory / "odd.md").write_bytes(b"caf\xe9")
        result = run("memory", "cat", "odd.md", "--json")
        assert result.exit_code == 5
        assert json.loads(result.stdout)["errors"][0]["code"] == "bad_input"

    @pytest.mark.parametrize(
        ("path", "code", "says"),
        [
            ("people/alcie.md", 4, "Did you mean 'people/alice.md'?"),
            ("people", 4, "is a directory"),
            ("../character.toml", 5, "leads outside the memory directory"),
            ("/etc/passwd", 5, "is not a path below"),
        ],
    )
    def test_what_cannot_be_read(self, memory, path, code, says) -> None:
        result = run("memory", "cat", path)
        assert (result.exit_code, result.stdout) == (code, "")
        assert says in result.stderr


class TestGrep:
    def test_hits_come_as_path_line_text(self, memory) -> None:
        result = run("memory", "grep", "TEA|ska")
        assert result.exit_code == 0
        assert result.stdout == "people/alice.md:3:Likes green tea.\npeople/bob.md:3:Plays ska.\n"

    def test_case_directory_and_files(self, memory) -> None:
        assert run("memory", "grep", "-s", "BOB").stdout == ""
        assert run("memory", "grep", "bob", "people").stdout == "people/bob.md:1:# Bob\n"
        assert run("memory", "grep", "--files", ".").stdout.splitlines() == [
            "notes.md",
            "people/alice.md",
            "people/bob.md",
        ]

    def test_json_has_spans(self, memory) -> None:
        found = data("memory", "grep", "tea")
        assert found == {
            "hits": [
                {
                    "rel_path": "people/alice.md",
                    "line": 3,
                    "text": "Likes green tea.",
                    "start": 12,
                    "end": 15,
                }
            ],
            "skipped": [],
            "truncated": False,
        }

    def test_no_hit_says_so_and_is_no_failure(self, memory) -> None:
        result = run("memory", "grep", "coffee")
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr.startswith("No line matches 'coffee'")
        assert run("memory", "grep", "coffee", "--quiet").stderr == ""

    def test_more_hits_than_fit_end_with_7(self, memory) -> None:
        (memory.parent / "character.toml").write_text("[memory]\nmax_results = 2\n")
        result = run("memory", "grep", ".")
        assert result.exit_code == 7
        assert len(result.stdout.splitlines()) == 2
        assert "more lines than the first 2 shown" in result.stderr
        assert data("memory", "grep", ".", code=7)["truncated"] is True

    def test_a_pattern_that_is_none(self, memory) -> None:
        result = run("memory", "grep", "(")
        assert result.exit_code == 2
        assert "is not a regular expression: missing ) at position 1" in result.stderr

    def test_a_file_that_is_not_utf_8_is_told_of(self, memory) -> None:
        (memory / "odd.md").write_bytes(b"tea caf\xe9")
        result = run("memory", "grep", "tea")
        assert result.stdout == "people/alice.md:3:Likes green tea.\n"
        assert "skipped 'odd.md': it is not UTF-8 text (byte 7)" in result.stderr


class TestGlob:
    def test_paths_come_one_a_line(self, memory) -> None:
        assert run("memory", "glob", "**/*b*.md").stdout == "people/bob.md\n"
        assert data("memory", "glob", "*") == {"files": ["notes.md"]}

    def test_nothing_says_so(self, memory) -> None:
        result = run("memory", "glob", "*.txt")
        assert (result.exit_code, result.stdout) == (0, "")
        assert "No file matches '*.txt'" in result.stderr

    def test_out_of_the_memory(self, memory) -> None:
        assert run("memory", "glob", "../*").exit_code == 5

    def test_more_than_the_limit_is_refused(self, memory) -> None:
        (memory.parent / "character.toml").write_text("[memory]\nmax_results = 2\n")
        result = run("memory", "glob", "**", "--json")
        assert result.exit_code == 5
        assert json.loads(result.stdout)["errors"][0]["code"] == "too_many_results"


@pytest.mark.parametrize("verb", ["write", "append"])
def test_a_nul_byte_is_refused_since_the_file_would_not_be_searched(verb) -> None:
    live("ada")
    result = run("memory", verb, "a.md", "-", stdin="a\0b\n")
    assert result.exit_code == 5
    assert "contains a NUL byte at character 1; nothing was changed" in result.stderr
    assert not (home() / "ada" / "memory" / "a.md").exists()


def test_an_edit_is_a_write() -> None:
    assert "Did you mean `familiar memory write`?" in run("memory", "edit", "a.md").stderr


class TestWrite:
    def test_the_text_is_the_whole_of_the_file(self, memory) -> None:
        result = run("memory", "write", "topics/new.md", "# Ünï\ntext")
        assert (result.exit_code, result.stdout) == (0, "wrote topics/new.md\n")
        assert text(memory / "topics" / "new.md") == "# Ünï\ntext"
        assert text(memory / ".gitignore") == ".index/\n"

    def test_a_text_without_the_mark_of_the_old_one_is_said_to_be_public(self, memory) -> None:
        run("memory", "write", "notes/x.md", "# X\n")
        run("memory", "unpublish", "notes/x.md")
        marked = text(memory / "notes" / "x.md")
        assert "Everybody" not in run("memory", "write", "notes/x.md", f"{marked}\nTea.\n").stderr
        told = run("memory", "write", "notes/x.md", "# X\n\nTea.\n").stderr
        assert "Everybody may see it; `familiar memory unpublish notes/x.md`" in told
        secret = "# Y\n\nTea.\n\n## Secret <!-- private @cli-user -->\n\n- One\n"
        run("memory", "write", "notes/y.md", secret)
        assert "Everybody" not in run("memory", "append", "notes/y.md", "- Two").stderr

    def test_a_public_version_is_told_from_a_private_folder(self, memory) -> None:
        run("memory", "write", "people/@all/x.md", "# X\n")
        hint = run("memory", "unpublish", "people/@all/x.md").stderr
        assert "`familiar memory rm people/@all/x.md` removes it" in hint

    def test_a_new_page_is_said_to_be_public_once_others_have_spoken(self, memory) -> None:
        assert run("memory", "write", "a.md", "# A\n").stderr == ""
        run("hear", "Hi", "--as", "discord:5", "--channel", "town")
        assert "Everybody may see it" in run("memory", "append", "b.md", "# B\n").stderr
        assert run("memory", "append", "b.md", "More.\n").stderr == ""

    def test_standard_input_is_taken_byte_for_byte(self, memory) -> None:
        raw = "\ufeff# 日本語\r\nline\n\n".encode()
        done = spawn("memory", "write", "a.md", "-", stdin=raw)
        assert done.returncode == 0, done.stderr
        assert (memory / "a.md").read_bytes() == raw

    def test_standard_input_that_is_no_text(self, memory) -> None:
        done = spawn("memory", "write", "a.md", "-", stdin=b"caf\xe9")
        assert done.returncode == 2
        assert b"not UTF-8" in done.stderr
        assert not (memory / "a.md").exists()

    def test_the_same_again_changes_nothing(self, memory) -> None:
        assert data("memory", "write", "notes.md", "Ask Bob.\n") == {
            "written": [],
            "unchanged": ["notes.md"],
            "deleted": [],
            "dry_run": False,
        }

    def test_a_dry_run_changes_nothing(self, memory) -> None:
        result = run("memory", "write", "notes.md", "x", "--dry-run")
        assert result.stdout == "would write notes.md\n"
        assert "Nothing was changed" in result.stderr
        assert text(memory / "notes.md") == "Ask Bob.\n"

    def test_a_file_that_changed_since_is_not_overwritten(self, memory) -> None:
        for expect in ("0" * 64, "missing"):
            result = run("memory", "write", "notes.md", "x", "--expect", expect, "--json")
            assert result.exit_code == 5
            assert json.loads(result.stdout)["errors"][0]["code"] == "conflict"
        assert text(memory / "notes.md") == "Ask Bob.\n"

    @pytest.mark.parametrize(
        "path", ["../x.md", ".index/x", "con.md", "NOTES.md", "people", "a\\b.md", "notes.md/x"]
    )
    def test_a_path_where_nothing_may_be_written(self, memory, path) -> None:
        result = run("memory", "write", path, "x")
        assert (result.exit_code, result.stdout) == (5, "")
        assert "hint: " in result.stderr

    def test_a_text_over_the_limit(self, memory) -> None:
        result = run("memory", "write", "a.md", "-", "--json", stdin="x" * (256 * 1024 + 1))
        assert result.exit_code == 5
        assert json.loads(result.stdout)["errors"][0]["code"] == "file_too_large"

    def test_another_writer_is_named(self, memory) -> None:
        (memory.parent / "character.toml").write_text("[memory]\nlock_timeout_s = 0.1\n")
        with hold_lock(memory.parent / ".lock", 1):
            result = run("memory", "write", "a.md", "x", "--json")
        (error,) = json.loads(result.stdout)["errors"]
        assert (result.exit_code, error["code"]) == (5, "locked")
        assert f"process {os.getpid()} on " in error["message"]

    def test_a_path_and_a_text_are_needed(self, memory) -> None:
        assert run("memory", "write", "a.md").exit_code == 2


class TestAppend:
    def test_the_text_begins_a_line_of_its_own(self, memory) -> None:
        for line in ("- likes tea", "- quiet -q day", "-- \n", "last"):
            assert run("memory", "append", "log.md", line).exit_code == 0
        assert text(memory / "log.md") == "- likes tea\n- quiet -q day\n-- \nlast\n"

    def test_options_stand_anywhere_around_a_text_with_a_dash(self, memory) -> None:
        for argv in (
            ["--dry-run", "log.md", "- a b"],
            ["log.md", "--dry-run", "- a b"],
            ["log.md", "- a b", "--dry-run"],
            ["--familiar", "ada", "log.md", "- a b", "--dry-run", "-q"],
            ["--dry-run", "--", "log.md", "-a"],
        ):
            assert run("memory", "append", *argv).stdout == "would write log.md\n"

    def test_standard_input(self, memory) -> None:
        assert spawn("memory", "append", "notes.md", "-", stdin=b"more\n").returncode == 0
        assert text(memory / "notes.md") == "Ask Bob.\nmore\n"


class TestRm:
    def test_files_go(self, memory) -> None:
        result = run("memory", "rm", "people/bob.md", "notes.md")
        assert result.stdout == "deleted notes.md\ndeleted people/bob.md\n"
        assert run("memory", "ls").stdout == "people/alice.md\n"

    def test_all_or_none(self, memory) -> None:
        result = run("memory", "rm", "notes.md", "people/bop.md")
        assert result.exit_code == 4
        assert "Did you mean 'people/bob.md'?" in result.stderr
        assert (memory / "notes.md").exists()

    def test_a_dry_run(self, memory) -> None:
        assert run("memory", "rm", "notes.md", "--dry-run").stdout == "would delete notes.md\n"
        assert (memory / "notes.md").exists()

    def test_a_directory_is_not_deleted(self, memory) -> None:
        assert run("memory", "rm", "people").exit_code == 5


class TestMv:
    def test_a_file_gets_another_path(self, memory) -> None:
        result = run("memory", "mv", "notes.md", "topics/bob.md")
        assert result.stdout == "wrote topics/bob.md\ndeleted notes.md\n"
        assert text(memory / "topics" / "bob.md") == "Ask Bob.\n"

    def test_what_is_there_stays(self, memory) -> None:
        result = run("memory", "mv", "notes.md", "people/bob.md")
        assert result.exit_code == 5
        assert text(memory / "people" / "bob.md") == "# Bob\n\nPlays ska.\n"

    def test_what_is_not_there(self, memory) -> None:
        result = run("memory", "mv", "note.md", "x.md")
        assert result.exit_code == 4
        assert "Did you mean 'notes.md'?" in result.stderr

    def test_a_dry_run(self, memory) -> None:
        result = run("memory", "mv", "notes.md", "x.md", "--dry-run")
        assert result.stdout == "would write x.md\nwould delete notes.md\n"
        assert (memory / "notes.md").exists()

    def test_links_go_with_it_and_come_back_with_one_undo(self, memory) -> None:
        said = b"[[notes|n]] and [n](../notes.md)\r\n"
        (memory / "topics").mkdir(exist_ok=True)
        (memory / "topics" / "tea.md").write_bytes(said)
        assert data("memory", "mv", "notes.md", "x.md", "--dry-run")["relinked"] == [
            "topics/tea.md"
        ]
        assert (memory / "topics" / "tea.md").read_bytes() == said
        result = run("memory", "mv", "notes.md", "x.md")
        assert result.stdout == "wrote topics/tea.md\nwrote x.md\ndeleted notes.md\n"
        assert "Updated the links in 1 file." in result.stderr
        assert (memory / "topics" / "tea.md").read_bytes() == b"[[x|n]] and [n](../x.md)\r\n"
        assert run("memory", "undo").exit_code == 0
        assert (memory / "topics" / "tea.md").read_bytes() == said
        assert (memory / "notes.md").exists()


@each("verb", ["list", "cat", "grep", "glob", "write", "append", "rm", "mv"])
def test_every_help_has_an_example(verb) -> None:
    assert f"\n  familiar memory {verb} " in run("memory", verb, "--help").stdout.replace(
        f"familiar memory {verb}\n", f"familiar memory {verb} \n"
    )


def test_without_a_familiar_the_next_command_is_named() -> None:
    result = run("memory", "ls")
    assert result.exit_code == 4
    assert "familiar init" in result.stderr


def test_reading_a_file_loads_nothing_heavy(memory) -> None:
    script = (
        "import sys; from familiar_cli.cli.app import app\n"
        "try: app(['memory', 'cat', 'notes.md'])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"filelock", "regex", "asyncio", "rich", "sqlite3", "numpy", "httpx", "platformdirs"}
    assert heavy & set(loaded) == set()
    assert "familiar_cli.store.memory.store.store" in loaded


@pytest.mark.skipif(os.name == "nt", reason="quoted otherwise there")
def test_a_hint_with_a_path_can_be_typed(memory) -> None:
    (memory / "my notes.md").write_text("x")
    result = run("memory", "mv", "notes.md", "my notes.md")
    assert "`familiar memory rm 'my notes.md'`" in result.stderr


def test_a_write_with_its_base_keeps_what_was_typed_since() -> None:
    live()
    assert run("memory", "write", "tea.md", "- green\n").exit_code == 0
    base = data("memory", "cat", "tea.md")["sha256"]
    (home() / "ada" / "memory" / "tea.md").write_text("- green\n- typed\n")
    written = run("memory", "write", "tea.md", "- green\n- black\n", "--base", base)
    assert written.exit_code == 0
    kept = (home() / "ada" / "memory" / "tea.md").read_text()
    assert kept == "- green\n- typed\n- black\n"
    base = data("memory", "cat", "tea.md")["sha256"]
    (home() / "ada" / "memory" / "tea.md").write_text("- green, cold\n")
    clash = run("memory", "write", "tea.md", "- green, hot\n", "--base", base)
    assert (clash.exit_code, data("memory", "cat", "tea.md")["text"]) == (5, "- green, cold\n")
