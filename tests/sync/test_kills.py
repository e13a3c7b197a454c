"""Whatever is killed, and whatever a person types before the next command: no line is lost."""

from __future__ import annotations

import os

import pytest

from benchmarks.kills import run
from tests.support.cases import IS_NIGHT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows cannot fork")
def test_a_line_typed_after_a_kill_deletes_nobodys_lines(tmp_path) -> None:
    """A file with its old text and one more line is no deletion of what the change added."""
    found = run(8 if IS_NIGHT else 4, seed=5, where=str(tmp_path))
    assert found.halfway > 0
    assert found.lines > 20
    assert (found.lost, found.differing) == (0, 0)
