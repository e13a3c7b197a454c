"""The expressions of a lorebook are bounded in time."""

from __future__ import annotations

from time import process_time
from typing import Any

from familiar_cli.context.character import Macros
from familiar_cli.context.lore_gates import LoreGates


def test_an_expression_that_takes_too_long_is_tried_once() -> None:
    nothing: Any = None
    gates = LoreGates(nothing, nothing, nothing, Macros("Ada", "Bo"))
    words = "a" * 60 + "b"
    begin_s = process_time()
    assert not any(gates._expression_matches("/(?:a|a)+$/", words) for _ in range(100))
    assert process_time() - begin_s < 1
    assert gates._expression_matches("/A+b/i", words)
