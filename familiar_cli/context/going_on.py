"""A reply that goes on: how the model is asked for more of it, and how the two parts are joined.

Some servers go on from an assistant message at the end of the prompt. Others would begin anew, so
they are told to; a model that says its reply once more from the beginning is not believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.context.types import Contribution, Fit, Layer, PromptSpan
from familiar_cli.fts import is_unspaced

if TYPE_CHECKING:
    from collections.abc import Callable

INSTRUCTION: Final = (
    "[Continue your last message from exactly where it ends. Write only what comes next; repeat "
    "nothing of it.]"
)
SOURCE: Final = "reply.begun"
INSTRUCTION_SOURCE: Final = "reply.instruction"
_PRIORITY: Final = 999  # right after what was said
_TELLING: Final = 12  # characters; fewer may well begin what comes next, too
_CLOSING: Final = frozenset(".,;:!?…)]}»”’\"'")
_WIDE: Final = frozenset("。！？、，：；…」』）】")


@dataclass(frozen=True, slots=True)
class PartialReply:
    """The reply so far.

    Args:
        text: Its words.
        prefill: The server goes on from it; else the model is told to.
        exact: What it says is shown word for word, so it knows whether it is inside a word.
    """

    text: str
    prefill: bool = False
    exact: bool = False

    def pieces(self) -> list[Contribution]:
        """Return what stands at the end of the prompt."""
        reply = Contribution(
            layer=Layer.recent_history,
            priority=_PRIORITY,
            text=self.text.rstrip(),  # servers refuse to go on from a space
            source=SOURCE,
            place=PromptSpan.begun,
            role="assistant",
            fit=Fit.required,
        )
        told = Contribution(
            layer=Layer.recent_history,
            priority=_PRIORITY,
            text=INSTRUCTION,
            source=INSTRUCTION_SOURCE,
            place=PromptSpan.begun,
            fit=Fit.required,
        )
        return [reply] if self.prefill else [reply, told]

    def added(self, text: str) -> str:
        """Return what is to stand right after the text, given what the model said."""
        text = self._without_repetition(text)
        if self.exact:
            return text.lstrip() if self._ends_in_space else text
        text = text.lstrip(" ")
        return f" {text}" if text and self._is_spaced_from(text[0]) else text

    def may_repeat(self, text: str) -> bool:
        """Tell whether what the model has said so far may be the text once more."""
        return self._is_telling and self._stripped.startswith(text.strip())

    def _is_spaced_from(self, first: str) -> bool:
        if self._ends_in_space or first.isspace() or first in _CLOSING:
            return False
        last = self.text[-1]
        return last not in _WIDE and not (is_unspaced(last) or is_unspaced(first))

    def _without_repetition(self, text: str) -> str:
        said = text.lstrip()
        if self._is_telling and said.startswith(self._stripped):
            return said[len(self._stripped) :]
        return text

    @property
    def _stripped(self) -> str:
        return self.text.strip()

    @property
    def _is_telling(self) -> bool:
        return len(self._stripped) >= _TELLING

    @property
    def _ends_in_space(self) -> bool:
        return not self.text or self.text[-1].isspace()


class GoingOn:
    """Passes on what is added to a reply, without what is said once more.

    Args:
        begun: The reply so far.
        on_text: Given each piece.
    """

    def __init__(self, begun: PartialReply, on_text: Callable[[str], None]) -> None:
        self._begun = begun
        self._on_text = on_text
        self._held: str | None = ""

    def __call__(self, piece: str) -> None:
        """Take one piece."""
        if self._held is None:
            self._on_text(piece)
            return
        self._held += piece
        if self._held.strip() and not self._begun.may_repeat(self._held):
            added = self._begun.added(self._held)
            self._held = None
            if added:
                self._on_text(added)
