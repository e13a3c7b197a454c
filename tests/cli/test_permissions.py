"""What may not be looked into is named in one error; it never counts as empty."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.support.world import live, run
from tests.support.writing import environment

# Root may look into everything, unless it gives that right away.
_AS_OTHERS = ["-dac_override,-dac_read_search", "-dac_override,-dac_read_search"]
_IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
_SETPRIV = shutil.which("setpriv")
pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or (_IS_ROOT and not _SETPRIV), reason="needs modes of files that hold"
)
HIDDEN = {
    "": (("list",), ("status",), ("init", "bob", "--template", "keeper"), ("use", "ada")),
    "ada": (("list",), ("status",), ("memory", "ls"), ("memory", "write", "a.md", "x")),
    "ada/memory": (
        ("memory", "ls"),
        ("memory", "grep", "x"),
        ("memory", "write", "a.md", "x"),
        ("search", "x"),
        ("status",),
        ("housekeep",),
        ("write-memory",),
    ),
    "ada/journal.git": (("memory", "log"), ("memory", "write", "a.md", "x")),
    "ada/channels": (("channel", "ls"), ("ask", "x", "--dry-run")),
    "ada/traces": (("context",),),
    "ada/history.db": (("status",), ("history", "ls")),
    "ada/character.toml": (("status",), ("config", "set", "name", "x")),
}
# Hide each place, run its commands, and tell how each ended and what it said on stderr.
EACH = """
import json, sys
from tests.support.world import home, run
told = {}
for place, commands in json.loads(sys.argv[1]).items():
    hidden = home() / place
    mode = hidden.stat().st_mode
    hidden.chmod(0)
    told[place] = [(one.exit_code, one.stderr) for one in (run(*c, stdin="") for c in commands)]
    hidden.chmod(mode)
print(json.dumps(told))
"""


@pytest.fixture
def root():
    made = live("ada", notes="x")
    assert run("memory", "append", "notes.md", "more").exit_code == 0
    for name in ("channels", "traces"):
        (made / name).mkdir()
    for name in ("character.toml", "channels/cli.toml", "history.db"):
        (made / name).touch()
    return made


def as_others(
    *argv: str, program: Sequence[str] = ("-m", "familiar_cli")
) -> subprocess.CompletedProcess[str]:
    options = ["--bounding-set", _AS_OTHERS[0], "--inh-caps", _AS_OTHERS[1]]
    without = [str(_SETPRIV), *options] if _IS_ROOT else []
    return subprocess.run(
        [*without, sys.executable, *program, *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )


def test_it_is_named_in_one_error(root) -> None:
    done = as_others(json.dumps(HIDDEN), program=("-c", EACH))
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    each = [
        (place, *pair) for place in HIDDEN for pair in zip(HIDDEN[place], ended[place], strict=True)
    ]
    for place, argv, (code, told) in each:
        if argv == ("list",) and place:  # the others are listed all the same
            assert "Permission denied" in told, argv
            continue
        assert code in {1, 3}, (argv, told)
        assert told.count("error: ") == 1, (argv, told)
        assert "Permission denied" in told or "unable to open" in told, (argv, told)
        assert "hint: " in told, (argv, told)


def test_a_search_names_the_directories_that_it_could_not_look_into(root) -> None:
    hidden = root / "memory" / "topics"
    hidden.mkdir()
    (hidden / "tea.md").write_text("green tea", encoding="utf-8")
    hidden.chmod(0)
    try:
        found, status = as_others("search", "tea"), as_others("index", "status")
    finally:
        hidden.chmod(0o755)
    assert "Left out: 'topics' cannot be read: Permission denied" in found.stderr
    assert "topics" in status.stdout + status.stderr


def test_a_directory_below_is_left_out_and_named(root) -> None:
    hidden = root / "memory" / "topics"
    hidden.mkdir()
    hidden.chmod(0)
    try:
        done = as_others("memory", "ls")
    finally:
        hidden.chmod(0o755)
    assert (done.returncode, done.stdout) == (0, "notes.md\n")
    assert "skipped 'topics': it cannot be read" in done.stderr
