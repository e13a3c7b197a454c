"""Whatever becomes of the streams, a command ends well and says nothing of its own troubles."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from familiar_cli.context.trace import TracedMessage, write_trace
from tests.support.cases import each
from tests.support.processes import Process, run_process
from tests.support.terminals import encoded, into_closed_pipe
from tests.support.traces import trace
from tests.support.world import live, spawn

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")


@pytest.fixture
def root():
    root = live("ada")
    long = (TracedMessage("user", "Zoë 日本 👋 [/b]\n" * 20_000),)
    write_trace(root / "traces", trace(7, messages=long))
    return root


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
@each("argv", [(), ("--messages",), ("--json",), ("--diff", "7")])
def test_no_code_page_stops_what_was_sent(root, argv, encoding) -> None:
    code, out, err = encoded(encoding, "context", *argv)
    assert (code, b"Traceback" in err) == (0, False)
    out.decode(encoding)


@pytest.mark.parametrize("argv", [(), ("--messages",), ("--json",), ("--raw",)])
def test_a_reader_that_leaves_early_is_no_error(root, argv) -> None:
    with Process(
        [sys.executable, "-m", "familiar_cli", "context", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 0


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_error_that_nobody_reads_is_no_traceback(more) -> None:
    code, stderr = into_closed_pipe("nosuch", *more)
    assert "Traceback" not in stderr
    assert code in {0, 2}


@posix_only
@pytest.mark.parametrize("argv", [("nosuch", "--json"), ("--version",), ("--json", "list")])
def test_an_answer_that_fits_nowhere_is_one_error(argv) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123
        done = run_process([sys.executable, "-m", "familiar_cli", *argv], stdout=full)
    assert done.returncode == 1
    assert done.stderr.decode().startswith("error: The answer could not be written: ")
    assert b"Traceback" not in done.stderr


def test_raw_bytes_do_not_depend_on_the_code_page(root) -> None:
    assert spawn("context", "--raw", PYTHONIOENCODING="ascii").stdout == trace(7).request.body


def in_terminal(columns: int, *argv: str, **env: str) -> str:
    """Return what a command prints on a terminal of that width."""
    import pty

    main, other = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS"}}
    environment |= {"TERM": "xterm-256color", "COLUMNS": str(columns), **env}
    with Process(
        [sys.executable, "-m", "familiar_cli", *argv],
        stdin=other,
        stdout=other,
        stderr=other,
        env=environment,
        close_fds=True,
    ):
        os.close(other)
        printed = b""
        while chunk := _read(main):
            printed += chunk
    os.close(main)
    return printed.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is closed
        return b""


@posix_only
def test_a_terminal_has_colour_and_its_own_width(root) -> None:
    write_trace(root / "traces", trace(8))
    printed = in_terminal(80, "context", "8")
    assert "\x1b[1mLayers\x1b[0m" in printed
    assert "[b]brackets[/b] and [/b]" in printed


@posix_only
def test_no_color_is_honoured_on_a_terminal(root) -> None:
    write_trace(root / "traces", trace(8))
    assert "\x1b[3" not in in_terminal(80, "context", "8", NO_COLOR="1")


@posix_only
def test_an_escape_in_a_message_does_not_reach_the_terminal(root) -> None:
    evil = (TracedMessage("user", "\x1b]0;title\x07\x1b[2J"),)
    write_trace(root / "traces", trace(8, messages=evil))
    for argv in ((), ("--messages",), ("--json",)):
        printed = in_terminal(80, "context", "8", *argv)
        assert "\x1b]0" not in printed
        assert "\x1b[2J" not in printed
