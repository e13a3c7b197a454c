"""Choose which memory files a batch is shown with: in full, as many as fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import FamiliarError, NotFoundError
from familiar_cli.markdown import split_lines, title_of
from familiar_cli.memory.layout import TOPICS_DIR
from familiar_cli.memory.people.alias_section import names_of
from familiar_cli.text import fold, sha256_of
from familiar_cli.writer.grounds import ShownFile, seen_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.review.draft import Draft
    from familiar_cli.visibility import Viewer
    from familiar_cli.writer.roster import Roster
    from familiar_cli.writer.types import Batch

_FRAME_TOKENS: Final = 16  # of the marks around a file
_LEAST_PART_TOKENS: Final = 80  # a smaller piece of a file tells nothing
_MOST_TOPICS: Final = 8
_MOST_TOPIC_NAMES: Final = 40
_LEAST_WORD_CHARS: Final = 4
_CHARS_PER_TOKEN: Final = 3  # at least, in the texts that are cut


@dataclass(frozen=True, slots=True)
class Gathered:
    """The files that the model is shown, and the names of the topics that it is not.

    Args:
        shown: By path, in the order in which they stand in the prompt.
        topics: Other topics there are, the likeliest first.
        known: Every topic that there is, shown or not.
        unreadable: Files that could not be read, and why.
    """

    shown: dict[str, ShownFile]
    topics: tuple[str, ...]
    known: tuple[str, ...]
    unreadable: dict[str, str]


def names_in(draft: Draft, rel_path: str) -> tuple[str, ...]:
    """Return the names in a person's file; none where it cannot be read."""
    try:
        return names_of(draft.text(rel_path) or "")
    except FamiliarError:
        return ()


def gather(
    batch: Batch,
    roster: Roster,
    sessions: Iterable[str],
    draft: Draft,
    store: MemoryStore,
    *,
    room_tokens: int,
    count: Callable[[str], int],
) -> Gathered:
    """Return what to show with a batch.

    First the session files, then the people, then the topics that the turns name. What does not
    fit is shown in part, or not at all, and may then not be rewritten.
    """
    topics = [] if batch.private is not None else _topics(batch, draft, store)
    people = [person.rel_path for person in roster.people]
    wanted = [*(() if batch.private is not None else sessions), *people]
    likely = [rel_path for rel_path, score in topics if score][:_MOST_TOPICS]
    shown: dict[str, ShownFile] = {}
    unreadable: dict[str, str] = {}
    for rel_path in [*wanted, *likely]:
        try:
            text = draft.text(rel_path)
        except FamiliarError as error:
            unreadable[rel_path] = str(error)
            continue
        if text is not None:
            piece = _shown(rel_path, text, batch.viewer, room_tokens, count)
            shown[rel_path] = piece
            room_tokens -= count(piece.shown) + _FRAME_TOKENS if piece.shown else 0
    others = tuple(p for p, _ in topics if not (p in shown and shown[p].shown))
    known = tuple(rel_path for rel_path, _ in topics)
    return Gathered(shown, others[:_MOST_TOPIC_NAMES], known, unreadable)


def _shown(
    rel_path: str, text: str, viewer: Viewer, room_tokens: int, count: Callable[[str], int]
) -> ShownFile:
    sha256 = sha256_of(text)
    seen = seen_of(text, viewer)
    whole = count(seen) + _FRAME_TOKENS <= room_tokens
    if not whole:
        room = room_tokens - _FRAME_TOKENS
        seen = _beginning(seen, room, count) if room >= _LEAST_PART_TOKENS else ""
    return ShownFile(rel_path, text, sha256, seen, whole)


def _beginning(text: str, tokens: int, count: Callable[[str], int]) -> str:
    """Return the first lines of `text` that fit."""
    kept: list[str] = []
    for line in split_lines(text[: tokens * _CHARS_PER_TOKEN * 3]):
        tokens -= count(line) + 1
        if tokens < 0:
            break
        kept.append(line)
    return "".join(kept)


def _topics(batch: Batch, draft: Draft, store: MemoryStore) -> list[tuple[str, int]]:
    """Return every topic with the number of its words that the turns say, the most first."""
    try:
        there = [entry.rel_path for entry in store.walk(TOPICS_DIR).files]
    except NotFoundError:
        there = []
    there += [file.rel_path for file in draft if file.rel_path.startswith(f"{TOPICS_DIR}/")]
    said = set(fold(" ".join(turn.content for turn in batch.turns)).replace("-", " ").split())
    text = fold(" ".join(turn.content for turn in batch.turns))
    scored = [
        (rel_path, _score(rel_path, said, text))
        for rel_path in dict.fromkeys(there)
        if rel_path.endswith(".md")
    ]
    return sorted(scored, key=lambda entry: (-entry[1], entry[0]))


def _score(rel_path: str, said: set[str], text: str) -> int:
    stem = fold(rel_path.rpartition("/")[2].removesuffix(".md"))
    phrase = " ".join(stem.replace("-", " ").replace("_", " ").split())
    words = [w for w in phrase.split() if len(w) >= _LEAST_WORD_CHARS or not w.isascii()]
    found = sum(w in said or any(s.strip(".,;:!?\"'()") == w for s in said) for w in words)
    return found + 2 * (phrase in text)


__all__ = ["Gathered", "gather", "names_in", "title_of"]
