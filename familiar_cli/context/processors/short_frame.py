"""`ShortFramePreProcessor`: of what was offered, a prompt that a small model can hold.

A model of some hundred million parameters takes instructions, examples and headings for things to
write more of. It gets who it is in a few sentences, what memory says as plain sentences, the last
turns, and what was said. Everything else is left out, and the trace tells so.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from familiar_cli.context.types import Contribution, Layer, PromptSpan
from familiar_cli.markdown import scan, split_front_matter, without_marker
from familiar_cli.text import framed
from familiar_cli.truncate import cut_to

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from familiar_cli.context.macros import Macros
    from familiar_cli.context.types import ContextRequest
    from familiar_cli.tokens import TokenCounter

NAME: Final = "short_frame"
ABOUT_TOKENS: Final = 60
MEMORY_TOKENS: Final = 80
WEAK: Final = 0.5
TURN_TOKENS: Final = 60
LAST_TURNS: Final = 4
"""Tokens of who it is and of all memory, the share of the best score below which memory distracts,
tokens of one turn, and how many turns. Chosen by reading: docs/explanation/small-models.md."""

INSTRUCTION: Final = (
    "You are {char}, talking with {user}. {about}Reply in one or two short sentences."
)
"""One paragraph: of several, such a model follows the last."""
REMEMBERED: Final = "{char} remembers: "
LEFT_OUT: Final = "left out: a small model follows a short prompt better (context.frame)"
_SHORTENED: Final = "shortened for a small model (context.frame)"
_MAIN: Final = "config.system_prompt"
_OWN: Final = "settings."  # the author's note and insertions, which a person has set
_ABOUT: Final = "character.description"
_UTTERANCE: Final = "utterance"
_PRIORITY: Final = 100
_MEMORY: Final = (Layer.pinned, Layer.content, Layer.desk, Layer.digest, Layer.history_summary)
_LABEL: Final = re.compile(r"\[[^\n]*\]\n")
_ACTION: Final = re.compile(r"\s*\*[^*]*\*\s*\Z")
_OTHER_SCRIPT: Final = re.compile(r"\s*\([^()]*[^\x00-\u024f\u2000-\u206f()][^()]*\)")
_STOPS: Final = tuple(".!?…:;。！？")


class ShortFramePreProcessor:
    """Makes the prompt short.

    Args:
        char: What the familiar is called.
        macros: Says what macros become in a turn.
        counter: What counts tokens.
        own_instruction: A person has set the main instruction, so it stays.
    """

    name: Final = NAME
    deadline_s: Final = 2.0

    def __init__(
        self,
        char: str,
        macros: Callable[[ContextRequest], Macros],
        counter: TokenCounter,
        *,
        own_instruction: bool = False,
    ) -> None:
        self._char = char
        self._macros = macros
        self._counter = counter
        self._own_instruction = own_instruction

    async def process(
        self, request: ContextRequest, contributions: Sequence[Contribution]
    ) -> list[Contribution]:
        """Return what goes into the short prompt, and all the rest as left out."""
        made = [self._piece(offered) for offered in contributions]
        self._shorten_chat(made)
        self._shorten_memory(made)
        return made if self._own_instruction else self._instructed(request, made)

    def _instructed(
        self, request: ContextRequest, pieces: list[Contribution]
    ) -> list[Contribution]:
        """Return `pieces` with the instruction, around what says who the familiar is."""
        names = {"char": framed(self._char), "user": framed(self._macros(request).user)}
        for number, piece in enumerate(pieces):
            if piece.source == _ABOUT and not (piece.problem or piece.remark):
                text = INSTRUCTION.format(**names, about=f"{piece.text} ")
                cause = "with the instruction of a small model around it"
                return [
                    *pieces[:number],
                    replace(piece, text=text, cause=cause),
                    *pieces[number + 1 :],
                ]
        text = INSTRUCTION.format(**names, about="")
        return [Contribution(Layer.core, _PRIORITY, text, NAME, PromptSpan.main), *pieces]

    def _piece(self, offered: Contribution) -> Contribution:
        """Return a piece that is neither memory nor a turn."""
        if offered.problem or offered.remark or offered.hidden:
            return offered
        if offered.layer in _MEMORY or offered.place in {PromptSpan.chat, PromptSpan.begun}:
            return offered
        if offered.source.startswith(_OWN) or (self._own_instruction and offered.source == _MAIN):
            return offered
        if offered.source == _ABOUT:
            return self._cut(offered, sentences(offered.text), ABOUT_TOKENS)
        return self._left_out(offered)

    def _shorten_chat(self, pieces: list[Contribution]) -> None:
        """Keep the last turns; of a reply what was said."""
        turns = [n for n, piece in enumerate(pieces) if _is_turn(piece)]
        for number in turns:
            piece = pieces[number]
            if number not in turns[-LAST_TURNS:]:
                pieces[number] = self._left_out(piece)
            elif piece.role == "assistant":
                pieces[number] = self._cut(piece, _speech(piece.text), TURN_TOKENS)

    def _shorten_memory(self, pieces: list[Contribution]) -> None:
        """Keep what fits of memory, as plain sentences, the best first."""
        room, title = MEMORY_TOKENS, REMEMBERED.format(char=framed(self._char))
        numbers = [n for n, piece in enumerate(pieces) if _is_memory(piece)]
        best = max((pieces[n].score or 0.0 for n in numbers), default=0.0)
        for number in sorted(numbers, key=lambda n: _rank(pieces[n])):
            piece = pieces[number]
            if piece.score is not None and piece.score < WEAK * best:
                pieces[number] = self._left_out(piece)
                continue
            text = title + sentences(_LABEL.sub("", piece.text, count=1))
            made = self._cut(piece, text, room)
            if made.remark:
                pieces[number] = made
                continue
            room -= self._counter.count(made.text)
            title = ""
            pieces[number] = replace(made, place=PromptSpan.world_after, depth=0, role="system")

    def _cut(self, offered: Contribution, text: str, most_tokens: int) -> Contribution:
        """Return a piece with `text`, which was made of it, in at most so many tokens."""
        count = self._counter.count
        kept = text if count(text) <= most_tokens else cut_to(text, most_tokens, count)
        if not kept:
            return self._left_out(offered)
        if kept == offered.text:
            return offered
        whole_tokens = max(offered.whole_tokens, count(offered.text))
        return replace(
            offered, text=kept, shortened=offered.shortened or _SHORTENED, whole_tokens=whole_tokens
        )

    def _left_out(self, offered: Contribution) -> Contribution:
        whole_tokens = max(offered.whole_tokens, self._counter.count(offered.text))
        return replace(offered, dialogue=(), remark=LEFT_OUT, whole_tokens=whole_tokens)


def sentences(text: str) -> str:
    """Return what Markdown says as one paragraph of plain sentences, without headings."""
    lines = []
    for line in scan(split_front_matter(text)[1]):
        words = without_marker(line.text.strip()).strip()
        if not words or line.level or line.in_code:
            continue
        lines.append(words if words.endswith(_STOPS) else f"{words}.")
    said = " ".join(lines)
    # A name in another script leads such a model away from its language.
    return _OTHER_SCRIPT.sub("", said)


def _speech(text: str) -> str:
    """Return what was said in a turn, without paragraphs that only tell what was done."""
    paragraphs = [part.strip() for part in text.split("\n\n")]
    said = [part for part in paragraphs if part and not _ACTION.match(part)]
    return " ".join(said or paragraphs)


def _is_turn(piece: Contribution) -> bool:
    return (
        piece.place is PromptSpan.chat
        and piece.source != _UTTERANCE
        and not (piece.problem or piece.remark)
    )


def _is_memory(piece: Contribution) -> bool:
    return piece.layer in _MEMORY and not (piece.problem or piece.remark) and bool(piece.text)


def _rank(piece: Contribution) -> tuple[int, float]:
    return _MEMORY.index(piece.layer), -(piece.score or 0.0)
