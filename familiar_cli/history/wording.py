"""By what words the lines of a source and kept turns are the same, whichever way they came."""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from familiar_cli.history.rows import pack, unpack
from familiar_cli.history.selection import TurnFilter, select
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from familiar_cli.history.matching import IncomingLine
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn

SERVED: Final = "serve"
"""The source of turns that came through the server."""

_FENCED: Final = re.compile(
    r"<memory>\s*What [^\n]{1,1000}? remembers, as notes\..*?</memory>\s*", re.DOTALL
)
_MAX_CELLS: Final = 4_000_000  # of a comparison in which frequent lines count like all others
_LOOKED_UP: Final = 20  # lines at each end of a source by which live channels are found
_TRUSTED_LINES: Final = 3  # so many in a row are no coincidence
_NEWEST_LINES: Final = 2  # so many are enough where nothing was said after them

Wording = tuple[bool, str]


def wording_of(turn: Turn) -> Wording:
    """Return whether the familiar says a turn, and its words without their spacing."""
    return turn.role == "assistant", normal_words(turn.content)


def without_fence(text: str) -> str:
    """Return a text without the notes that the server, or its extension, put there."""
    if "<memory>" not in text:
        return text
    head, end, tail = text.rpartition("</memory>")  # a fence that nothing closes costs no search
    rest = tail.lstrip()
    return _FENCED.sub("", f"{head}{end}{tail[: len(tail) - len(rest)]}") + rest


def kept_words(text: str) -> str:
    """Return a text as a turn holds it: without our notes, and with no tag that looks like them.

    A text that is nothing but notes stays, with its tag quoted.
    """
    if "<memory" not in text:
        return text
    words = without_fence(text)
    return (words if words.strip() else text).replace("<memory", "‹memory")


def normal_words(text: str) -> str:
    """Return words that are equal whatever their spaces, line ends and way of quoting tags."""
    return " ".join(unicodedata.normalize("NFC", text).replace("‹", "<").split())


def matching_blocks(
    kept: Sequence[Wording], lines: Sequence[Wording]
) -> Iterator[tuple[int, int, int]]:
    """Yield where equal runs begin, and their lengths; the last one is empty."""
    most = min(len(kept), len(lines))
    head = next((n for n in range(most) if kept[n] != lines[n]), most)
    if head:
        yield 0, 0, head
    is_large = (len(kept) - head) * (len(lines) - head) > _MAX_CELLS
    matcher = SequenceMatcher(None, kept[head:], lines[head:], autojunk=is_large)
    for i, j, size in matcher.get_matching_blocks():
        yield head + i, head + j, size


def live_channels(history: HistoryStore, lines: Sequence[IncomingLine]) -> list[str]:
    """Return the channels that hold a source's lines and were only ever kept live, the best first.

    Args:
        history: The history.
        lines: All lines of the source.
    """
    texts = {pack(line.turn.content) for line in [*lines[:_LOOKED_UP], *lines[-_LOOKED_UP:]]}
    sql = (
        "SELECT DISTINCT channel_id FROM turns WHERE source = ? "  # noqa: S608  # marks only
        f"AND content IN ({', '.join('?' * len(texts))}) "
        "AND channel_id NOT IN (SELECT channel_id FROM chats)"
    )
    with history.use(create=False) as connection:
        rows = connection.execute(sql, (SERVED, *texts)).fetchall() if texts else []
        runs = {unpack(row[0]): shared_run(history, unpack(row[0]), lines) for row in rows}
    return sorted((name for name, run in runs.items() if run), key=lambda name: -runs[name])


def doubles_of(history: HistoryStore, channel_id: str, lines: Sequence[IncomingLine]) -> list[int]:
    """Return the live turns elsewhere that a channel holds, too, now that it has these lines.

    Of a channel that it holds as a whole, these are all turns, even what the source took back.
    """
    found: list[int] = []
    others = [name for name in live_channels(history, lines) if name != channel_id]
    if not others:
        return found
    past = TurnFilter(OWNER, channel_id, everything=True)
    here = [wording_of(kept.turn) for kept in select(history, past)]
    for name in others:
        turns = [kept.turn for kept in select(history, TurnFilter(OWNER, name))]
        turns = [turn for turn in turns if turn.channel_id == name]
        words = [wording_of(turn) for turn in turns]
        if set(words) <= set(here):
            found += [turn.id for turn in turns]
            continue
        for i, _, size in matching_blocks(words, here):
            found += [turn.id for turn in turns[i : i + size] if size >= _TRUSTED_LINES]
    return found


def shared_run(history: HistoryStore, channel_id: str, lines: Sequence[IncomingLine]) -> int:
    """Return how many lines in a row a source shares with a channel; 0: too few to trust.

    A greeting does not count, since many chats begin with the same one.
    """
    kept = [wording_of(kept.turn) for kept in select(history, TurnFilter(OWNER, channel_id))]
    there = set(kept)
    words = []
    for line in lines:
        own = wording_of(line.turn)
        others = ((own[0], normal_words(text)) for text in line.others)
        words.append(next((one for one in (own, *others) if one in there), own))
    best = 0
    for i, j, size in matching_blocks(kept, words):
        counted = size - (j == 0 and size > 0 and words[0][0])
        needed = _NEWEST_LINES if i + size == len(kept) else _TRUSTED_LINES
        best = max(best, counted if counted >= needed else 0)
    return best
