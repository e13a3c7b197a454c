"""What differs on Windows, by stand-ins that behave like it, so that any machine tests it."""

from __future__ import annotations

import errno
import io
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from familiar_cli.base.config.environment import command_words, editor, found_program
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import Disk
from familiar_cli.cli.terminal.reply import asked_lines
from familiar_cli.store import passes
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.consolidation.digests import run_notifier
from tests.support.terminals import call
from tests.support.world import live, run

ON_WINDOWS = (
    "familiar_cli.base.files.ON_WINDOWS",
    "familiar_cli.pages.emit.ON_WINDOWS",
    "familiar_cli.cli.terminal.reply.ON_WINDOWS",
    "familiar_cli.base.config.environment.ON_WINDOWS",
)
PROGRAM = stat.S_IRUSR | stat.S_IWUSR | stat.S_IXUSR
posix_only = pytest.mark.skipif(os.name == "nt", reason="a script of the POSIX shell")


@pytest.fixture
def windows(monkeypatch) -> None:
    for name in ON_WINDOWS:
        monkeypatch.setattr(name, True)


@pytest.fixture
def memory() -> Path:
    return live("ada", notes="- 日本, Zoë\n- two\n") / "memory"


def in_a_pipe(*argv: str) -> bytes:
    """Return what a command prints where pipes have an old code page and CRLF, as on Windows."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="cp1252", newline="\r\n")
    assert call(argv, stdout=out) == 0
    out.flush()
    return out.buffer.getvalue()


def test_a_pipe_gets_utf8_and_plain_line_ends(memory, windows) -> None:
    assert in_a_pipe("memory", "ls") == b"notes.md\n"
    assert "日本, Zoë" in in_a_pipe("memory", "grep", "Zo").decode()
    assert "日本" in in_a_pipe("memory", "grep", "Zo", "--json").decode()
    assert b"\r" not in in_a_pipe("status")


def test_an_encoding_that_the_person_names_is_kept(memory, windows, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    assert "\\u65e5" in in_a_pipe("memory", "grep", "Zo").decode("cp1252")


def test_a_closed_pipe_is_an_invalid_argument_and_no_error(memory, windows, tmp_path) -> None:
    class Closed(io.TextIOWrapper):
        def write(self, text: str) -> int:
            raise OSError(errno.EINVAL, "Invalid argument")

    err = io.StringIO()
    with Closed((tmp_path / "pipe").open("wb"), encoding="utf-8") as out:
        assert call(("memory", "ls"), stdout=out, stderr=err) == 0
    assert err.getvalue() == ""


def test_standard_input_may_begin_with_a_mark_and_end_lines_with_two_signs(memory) -> None:
    run("memory", "append", "a.md", "-", stdin=b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert (memory / "a.md").read_bytes() == b"one\ntwo\n"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (r"C:\Tools\ed.exe -w", [r"C:\Tools\ed.exe", "-w"]),
        (r'"C:\Program Files\ed.exe" --wait', [r"C:\Program Files\ed.exe", "--wait"]),
    ],
)
def test_a_backslash_belongs_to_the_path(windows, typed, words) -> None:
    assert command_words(typed) == words


def test_a_command_in_the_settings_keeps_its_backslashes(memory, windows) -> None:
    run("config", "set", "distill.notify", r"C:\Tools\toast.exe --title familiar")
    assert r"C:\Tools\toast.exe" in run("config", "get", "distill.notify").stdout.replace(
        "\\\\", "\\"
    )


@posix_only
def test_an_editor_in_a_directory_with_spaces_needs_no_quotes(tmp_path, monkeypatch) -> None:
    program = tmp_path / "Program Files" / "ed"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(PROGRAM)
    monkeypatch.setenv("EDITOR", str(program))
    assert editor() == [str(program)]


def test_a_program_is_found_by_the_name_that_is_typed(monkeypatch) -> None:
    monkeypatch.setattr("shutil.which", {"code": r"C:\bin\code.cmd"}.get)
    assert found_program(["code", "-w"]) == [r"C:\bin\code.cmd", "-w"]
    assert found_program(["nosuch"]) == ["nosuch"]


def test_without_an_editor_the_hint_can_be_typed_there(memory, windows) -> None:
    assert "`setx EDITOR notepad`" in run("scratch", "edit").stderr


@posix_only
def test_a_shell_never_reads_a_name_in_a_notification(tmp_path) -> None:
    told, script = tmp_path / "told", tmp_path / "tell.bat"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > "{told}"\n')
    script.chmod(PROGRAM)
    assert run_notifier([str(script)], 'Ada" & calc %PATH%: made', timeout_s=20) == ""
    assert told.read_text() == "Ada    calc  PATH : made"


def test_a_chat_goes_on_where_its_replies_go_into_a_file(windows, monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello\nBye\n"))
    assert list(asked_lines()) == ["Hello", "Bye"]
    assert capsys.readouterr() == ("", "> > > ")


def test_times_are_made_in_a_way_that_knows_no_1970() -> None:
    package = Path(passes.__file__).parents[1]
    modules = (path.read_text("utf-8") for path in package.rglob("*.py"))
    assert not any("fromtimestamp(" in text for text in modules)


def test_a_path_too_long_is_named(tmp_path, windows) -> None:
    class Limited(Disk):
        def replace(self, old: str, new: str) -> None:
            if len(new) >= 260:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", old, None, new)
            super().replace(old, new)

    store = MemoryStore(tmp_path / "memory", disk=Limited())
    with pytest.raises(FamiliarError, match="characters, and Windows allows 259") as error:
        store.write_file(f"people/{'a' * 240}.md", "x")
    assert "MAX_PATH" in str(error.value)
    assert "Enable long paths in Windows" in error.value.hint


@pytest.mark.skipif(sys.platform != "win32", reason="a signal of Windows")
def test_ctrl_break_ends_the_daemon_as_ctrl_c_does() -> None:
    assert signal.SIGBREAK in passes._ENDING
