"""What a search takes and gives, and how a store tells the index of changes."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from familiar_cli.errors import FamiliarError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date, tzinfo

    from familiar_cli.index.build import EmbeddingIndex
    from familiar_cli.index.rank import Weights
    from familiar_cli.memory.store.store import MemoryStore, OnChange
    from familiar_cli.visibility import Viewer

Method = Literal["hybrid", "lexical", "dense", "grep"]
Wanted = Literal["auto", "hybrid", "lexical", "dense", "grep"]


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search.

    Args:
        k: Most hits.
        method: `auto` takes words and meaning where there is a model, else words alone.
        within: Only files at or below this path.
        since: Only files about this day or later.
        until: Only files about this day or earlier.
        zone: Where days begin for a file that names none; None: in the system's timezone.
        exclude: Files to leave out, as paths.
        instance: The instance that asks; files it wrote are preferred.
        lines: Rank single lines, instead of files with their best passage.
        snippet_tokens: Most tokens of a hit's text; 0 for whole short files and whole passages.
        refresh: Look first for files that changed since the last search.
        refresh_s: Most seconds for reading such files; None for as long as it takes.
        judge: Asked of each hit, the best first, whether it counts, until there are enough or it
            says None; it is given the hit and the whole text of its file.
        weights: How much each signal counts; None for the measured ones.
        naming: Texts in which names are looked for, what matters most first.
        min_score: Least score of a hit.
        viewer: Who will see the hits.
    """

    k: int = 10
    method: Wanted = "auto"
    within: str = ""
    since: date | None = None
    until: date | None = None
    zone: tzinfo | None = None
    exclude: frozenset[str] = frozenset()
    instance: str = ""
    lines: bool = False
    snippet_tokens: int = 0
    refresh: bool = True
    refresh_s: float | None = None
    judge: Callable[[Hit, str], bool | None] | None = None
    weights: Weights | None = None
    naming: tuple[str, ...] = ()
    min_score: float = 0.0
    viewer: Viewer = field(kw_only=True)

    @property
    def has_days(self) -> bool:
        """Whether only files about some days count."""
        return self.since is not None or self.until is not None


def options_from(
    *,
    k: int,
    method: str,
    within: str,
    since: date | None,
    lines: bool,
    min_score: float = 0.0,
    viewer: Viewer,
) -> SearchOptions:
    """Return options as they were typed.

    Raises:
        UsageError: There is no such method.
    """
    known = get_args(Wanted)
    if method not in known:
        raise UsageError(f"No such method: {method!r}", hint=f"Known: {', '.join(known)}.")
    return SearchOptions(
        k=k,
        method=cast("Wanted", method),
        within=within,
        since=since,
        lines=lines,
        min_score=min_score,
        viewer=viewer,
    )


@dataclass(frozen=True, slots=True)
class Signals:
    """Why a hit stands where it stands; None where a signal was not known.

    Args:
        relevance: Words and meaning together, who speaks, and when.
        lexical: By words: 1 is the best match that this question has.
        dense: By meaning: 0 for unrelated, about 1 for an answer, whatever the question.
        cosine: What `dense` was made of.
        coverage: Share of the question's content words that the hit's text holds as they are.
        speaker: The question names who speaks there.
        recency: 1 for a file of today, a half after about 143 days.
        linked: It is, or is linked with, a person or topic that the question names.
        same_instance: The asking instance wrote it.
        people: The share of those whom the question names who speak in the file, or of whom it
            tells.
        time: How near in time it is to what the question asks for; 0 where it asks for no time.
        maxsim_line: By the vectors of its tokens: 1 is the best line that this question has.
        maxsim_passage: The same of the lines around it.
    """

    relevance: float
    lexical: float
    dense: float | None
    cosine: float | None
    coverage: float
    speaker: bool
    recency: float
    linked: bool
    same_instance: bool
    people: float = 0.0
    time: float = 0.0
    maxsim_line: float | None = None
    maxsim_passage: float | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing found. `text` is what a reader sees of the file's `[char_start:char_end]`.

    Where nothing in there is only for the program (`memory.pages.lines`), it is that to the
    character.

    Args:
        rel_path: Where, below the memory root.
        title: The file's title.
        heading: The headings above the text, as `Title > Section`.
        day: The day the file is about, as `2026-01-31`, or an empty string.
        char_start: Where the text begins.
        char_end: Where it ends.
        line: The number, from 1, of the line in the file where the best place begins.
        best_start: Where the best line within the text begins.
        best_end: Where that line ends.
        score: What hits are sorted by; see docs/reference/ranking.md.
        text: The text.
        signals: What the score was made of.
        best: The best line as it stands in the text.
    """

    rel_path: str
    title: str
    heading: str
    day: str
    char_start: int
    char_end: int
    line: int
    best_start: int
    best_end: int
    score: float
    text: str
    signals: Signals
    best: str = ""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found, best first.

    Args:
        method: How it was found.
        query: What was asked.
        hits: What was found.
        elapsed_ms: How long it took.
        model: Whose vectors were used, or an empty string.
        waiting: How many pieces have no vector yet and were found by words alone.
        unread: How many files changed that there was no time to read.
        notes: What the person should know: a missing model, a rebuilt index, files left out.
        hint: The command that adds what is missing, or an empty string.
        named: The files that `SearchOptions.naming` names, in the order of their names there.
    """

    method: Method
    query: str
    hits: tuple[Hit, ...] = ()
    elapsed_ms: float = 0.0
    model: str = ""
    waiting: int = 0
    unread: int = 0
    notes: tuple[str, ...] = field(default=())
    hint: str = ""
    named: tuple[str, ...] = ()


MOST_AT_ONCE: Final = 200
"""Files of one change that are indexed before the write returns."""


def IndexingMemoryStore(  # noqa: N802  # it stands where a class stood
    inner: MemoryStore,
    index: Callable[[], EmbeddingIndex | None],
    on_change: OnChange | None = None,
) -> MemoryStore:
    """Return a store on the directory of `inner` that tells an index what it changes.

    Args:
        inner: A store, which stays as it is.
        index: As `index_changes` takes it.
        on_change: As `index_changes` takes it.
    """
    store = copy(inner)
    store.on_change = index_changes(index, on_change)
    return store


def index_changes(
    index: Callable[[], EmbeddingIndex | None], on_change: OnChange | None = None
) -> OnChange:
    """Return a callback for the files that a `MemoryStore` changed.

    The words of those files can be found when the write returns; vectors come later. An index that
    cannot be written never fails a write: the next search finds the change by itself. So it does
    when more than `MOST_AT_ONCE` files changed, which would hold up whoever writes.

    Args:
        index: Gives the index to tell, or None where there is none yet; asked after each change.
        on_change: Called with the changed paths once they are indexed, e.g. to wake a worker.
    """

    def tell(rel_paths: tuple[str, ...]) -> None:
        known = index()
        if known is None:
            return
        try:
            if len(rel_paths) <= MOST_AT_ONCE:
                known.touch(rel_paths)
        except FamiliarError:
            return  # the next search compares every file with the index, and says what is wrong
        if on_change:
            on_change(rel_paths)

    return tell
