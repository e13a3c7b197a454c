"""What every chat model tells of the slot that it was made for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from familiar_cli.llm.slots import ResolvedSlot


class Slotted:
    """A chat model with the settings of a slot.

    Args:
        slot: The server, the model and the settings.
    """

    def __init__(self, slot: ResolvedSlot) -> None:
        self._slot = slot

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._slot!r})"

    @property
    def name(self) -> str:
        """The model's name at its server, or the path of its file."""
        return self._slot.model

    @property
    def context_tokens(self) -> int:
        """Most tokens that the model reads and writes together."""
        return self._slot.context_tokens

    @property
    def max_tokens(self) -> int:
        """Most tokens of one reply."""
        return self._slot.max_tokens
