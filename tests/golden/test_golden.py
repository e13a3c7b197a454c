"""Every command prints and writes what it did when it was last looked at."""

from __future__ import annotations

import pytest

from tests.contracts.test_command_tree import LEAVES
from tests.golden.record import SCRIPTS, play, recorded, script_of

STAYS = {"chat", "daemon", "mcp", "model pull", "scratch edit"}
"""What goes on until somebody ends it, or needs the network or an editor: only its help."""


@pytest.mark.posix
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_command_does_what_was_recorded(script) -> None:
    expected = recorded(script)
    changed = [
        f"{script}.txt:{done.line}: familiar {done.argv}: {expected[done.line]} -> {done.digests}"
        for done in play(script)
        if done.digests != expected[done.line]
    ]
    assert changed == [], "python -m tests.golden.record show DIRECTORY writes the texts"


def test_every_command_is_recorded_with_its_help() -> None:
    done = [line for name in SCRIPTS for line in script_of(name).splitlines() if "$ " in line]
    run = "\n".join(line for line in done if not line.endswith("--help"))
    names = [" ".join(leaf) for leaf in LEAVES]
    assert {name for name in names if f"$ familiar {name}" not in run} == STAYS
    assert [name for name in names if not any(d.endswith(f"{name} --help") for d in done)] == []
