"""A turn of which nothing is kept.

`OffRecord` is given neither the history nor a place for records, so there is nothing that it could
write to. What is said this way can be shown again only by whoever holds the result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from familiar_cli.context.turn_runner import TurnResult, TurnRunner

if TYPE_CHECKING:
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import ContextRequest


class OffRecord(TurnRunner):
    """Runs one turn and keeps nothing."""

    def _begin(self, request: ContextRequest, trace: Trace) -> Trace:
        del request
        return trace

    def _end(self, text: str, trace: Trace, *, partial: bool) -> TurnResult:
        del partial
        told = tuple(self.notices)
        return TurnResult(None, None, text, replace(trace, notices=told), told)

    def _what_is_kept(self, result: TurnResult) -> str:
        del result
        return "nothing was kept"
