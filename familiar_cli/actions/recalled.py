"""What memory and the past gave to a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.context.types import Layer

if TYPE_CHECKING:
    from familiar_cli.context.trace import Trace, TracedContribution

_OF_MEMORY: Final = frozenset({Layer.content, Layer.digest, Layer.pinned, Layer.desk})


def recalled(trace: Trace) -> list[TracedContribution]:
    """Return the pieces of a prompt that come from memory, or from turns long ago."""
    return [piece for piece in trace.contributions if piece.kept and piece.layer in _OF_MEMORY]
