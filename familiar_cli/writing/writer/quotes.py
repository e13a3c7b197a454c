"""Quotes of what people said about themselves, for models too weak to put it in words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli.base.text import one_line, split_sentences
from familiar_cli.writing.writer.contract import Operation, ProposedLine
from familiar_cli.writing.writer.grounds import stems_of

if TYPE_CHECKING:
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.writing.writer.grounds import Grounds

_TURNS_OF_QUOTE: Final = 5
_MOST_CHARS: Final = 500
_LEAST_STEMS: Final = 3
_CHARS: Final = range(20, 200)
_SELF: Final = re.compile(r"\b(?:I|I['’]\w+|my|we|our)\b", re.IGNORECASE)
_ASKS: Final = re.compile(r"[?？؟]\W*\Z")


def quote_people(grounds: Grounds) -> list[Operation]:
    """Return additions to the files of people: the sentences that say most about them.

    About one for five turns, each with the turn as its evidence.
    """
    ranked = sorted(
        ((_weight(sentence), -turn.id, sentence, turn) for turn, sentence in _statements(grounds)),
        key=lambda one: one[:2],
        reverse=True,
    )
    most = 1 + len(grounds.batch.turns) // _TURNS_OF_QUOTE
    chosen = [(turn, text) for weight, _, text, turn in ranked[:most] if weight >= _LEAST_STEMS]
    chosen.sort(key=lambda one: one[0].id)
    return [quote_turn(grounds, turn, text) for turn, text in chosen]


def quote_turn(grounds: Grounds, turn: Turn, text: str = "") -> Operation:
    """Return the addition of a quote to its author's file, or to that of the session.

    Args:
        grounds: The evidence, which includes the turn.
        turn: The turn.
        text: The part to quote; empty for all.
    """
    quote = f"“{one_line(text or turn.content, _MOST_CHARS)}”"
    people = [person.rel_path for person in grounds.roster.who_said((turn.id,))]
    path = next(iter((*people, *grounds.sessions)))
    return Operation("add_bullets", path, (ProposedLine(quote, (turn.id,)),))


def _statements(grounds: Grounds) -> list[tuple[Turn, str]]:
    """List the sentences in which people speak of themselves; in other languages, all."""
    is_english = grounds.phrases.code == "en"
    return [
        (turn, sentence.strip())
        for turn in grounds.batch.turns
        if turn.role == "user"
        for sentence in split_sentences(turn.content)
        if len(sentence.strip()) in _CHARS
        and not _ASKS.search(sentence)
        and (not is_english or _SELF.search(sentence))
    ]


def _weight(sentence: str) -> int:
    return len(stems_of(sentence))
