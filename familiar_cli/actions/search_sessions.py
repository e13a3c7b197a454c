"""Search what was said, as a page shows it: by day, each turn with the words that were found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli import fts
from familiar_cli.clock import iso, to_zone
from familiar_cli.errors import UsageError
from familiar_cli.folding import fold_word
from familiar_cli.history import fulltext
from familiar_cli.history.selection import TurnFilter
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from familiar_cli.familiar import Familiar
    from familiar_cli.history.types import Turn
    from familiar_cli.visibility import Viewer

_LOOKED_AT: Final = 300  # turns; who spoke says which of them are meant
_EXCERPT_CHARS: Final = 320
_BEFORE_CHARS: Final = 80
_STEM_CHARS: Final = 4
_ENDING_CHARS: Final = 2
_WORD: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class SaidHit:
    """A turn that was found.

    Args:
        turn: The turn.
        speaker: What its speaker is called.
        excerpt: A part of its words, or all of them.
        marks: Where in the excerpt the words stand that were looked for: begin and end.
    """

    turn: Turn
    speaker: str
    excerpt: str
    marks: tuple[tuple[int, int], ...]

    @property
    def pieces(self) -> Iterator[tuple[str, bool]]:
        """Yield the excerpt in pieces, each with whether it was looked for."""
        at = 0
        for begin, end in self.marks:
            if begin > at:
                yield self.excerpt[at:begin], False
            yield self.excerpt[begin:end], True
            at = end
        if at < len(self.excerpt):
            yield self.excerpt[at:], False

    def to_json(self) -> dict[str, Any]:
        """Return it as `--json` would show it."""
        return {
            "turn": self.turn.id,
            "channel": self.turn.channel_id,
            "at": iso(self.turn.at),
            "speaker": self.speaker,
            "excerpt": self.excerpt,
            "highlights": [list(mark) for mark in self.marks],
        }


def search_sessions(
    familiar: Familiar,
    query: str,
    *,
    viewer: Viewer,
    user: str = "",
    channel: str | None = None,
    limit: int = 50,
) -> dict[str, list[SaidHit]]:
    """Return the turns that fit `query` best, by the day on which they were said, newest first.

    Args:
        familiar: Whose past.
        query: Words, as anybody would say them.
        viewer: Who will see them.
        user: Whose memory is meant: what this person said, and the replies to them; a name, or
            `PLATFORM:ID`. Empty: everybody's.
        channel: Only this channel.
        limit: Most turns.

    Raises:
        UsageError: There is no word in `query`.
    """
    if not fts.words(query):
        raise UsageError(
            f"No word to search for in {query!r}", hint="Search for what was said: ?q=red+scarf"
        )
    span = TurnFilter(viewer, channel)
    looked_at = _LOOKED_AT if user else limit
    hits = fulltext.search(familiar.history, query, span, limit=looked_at, neighbours=0)
    labels = familiar.labels(hit.turn.author for hit in hits)
    found: dict[str, list[SaidHit]] = {}
    for hit in hits:
        turn = hit.turn
        speaker = labels.of(turn.author) if turn.author else familiar.name
        if user and not _is_of(familiar, turn, user):
            continue
        day = to_zone(turn.at, familiar.zone).date().isoformat()
        excerpt, marks = excerpt_of(turn.content, query)
        found.setdefault(day, []).append(SaidHit(turn, speaker, excerpt, marks))
        limit -= 1
        if not limit:
            break
    return {day: sorted(found[day], key=lambda h: h.turn.id) for day in sorted(found)[::-1]}


def excerpt_of(text: str, query: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the part of a text around the first word that was looked for, and where those stand.

    Words count that begin as one of the query does: a crude stem, enough to lead the eye.
    """
    wanted = fts.content_words(query)
    stems = {w[: max(_STEM_CHARS, len(w) - _ENDING_CHARS)] if w.isascii() else w for w in wanted}
    marks = [
        (begin, end)
        for begin, end, word in _words(text)
        if any(_fits(word, stem) for stem in stems)
    ]
    if not marks:
        marks = sorted(
            (at, at + len(w)) for w in wanted if not w.isascii() and (at := text.find(w)) >= 0
        )
    if len(text) <= _EXCERPT_CHARS:
        return text, _apart(marks)
    start = max(marks[0][0] - _BEFORE_CHARS, 0) if marks else 0
    end = min(start + _EXCERPT_CHARS, len(text))
    head, tail = ("…" if start else ""), ("…" if end < len(text) else "")
    moved = [
        (b - start + len(head), e - start + len(head)) for b, e in marks if b >= start and e <= end
    ]
    return f"{head}{text[start:end]}{tail}", _apart(moved)


def _words(text: str) -> Iterator[tuple[int, int, str]]:
    for found in _WORD.finditer(text):
        yield found.start(), found.end(), fold_word(found[0])


def _fits(word: str, stem: str) -> bool:
    return word == stem if len(stem) < _STEM_CHARS else word.startswith(stem)


def _apart(marks: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return marks without those that overlap an earlier one."""
    kept: list[tuple[int, int]] = []
    for begin, end in marks:
        if not kept or begin >= kept[-1][1]:
            kept.append((begin, end))
    return tuple(kept)


def _is_of(familiar: Familiar, turn: Turn, user: str) -> bool:
    """Tell whether a turn was said by a user, or to them."""
    author = turn.author
    if author is None and turn.reply_to is not None:
        answered = familiar.history.turn(turn.reply_to)
        author = answered.author if answered else None
    if author is None:
        return False
    if fold(familiar.me().name_of(author)) == fold(user):
        return True
    names = (author.user_id, author.username, author.display_name, author.slug)
    account = f"{author.platform}:{author.user_id}"
    return user == account or any(name and fold(name) == fold(user) for name in names)
