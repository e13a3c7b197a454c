"""A turn of which nothing is kept.

`OffRecord` is given neither the history nor a place for records, so there is nothing that it could
write to. What is said this way can be shown again only by whoever holds the result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from familiar_cli.context.taking import Taken, Taking

if TYPE_CHECKING:
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import ContextRequest


class OffRecord(Taking):
    """Takes one turn and keeps nothing."""

    def _begin(self, request: ContextRequest, trace: Trace) -> None:
        pass

    def _end(self, text: str, trace: Trace, *, partial: bool) -> Taken:
        del partial
        told = tuple(self.notices)
        return Taken(None, None, text, replace(trace, notices=told), told)

    def _what_is_kept(self, taken: Taken) -> str:
        del taken
        return "nothing of it is kept"
