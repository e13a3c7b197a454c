"""Options and results of a search, and how a store reports changes to the index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from datetime import date, tzinfo
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast, get_args

from msgspec import Struct, field

from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.base.files import FileStamp
from familiar_cli.base.who.visibility import PrivacyRules, Viewer, ViewerRecord
from familiar_cli.store.search.weights import Weights

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.store import MemoryStore, OnChange

Method = Literal["hybrid", "lexical", "dense", "grep"]
Wanted = Literal["auto", "hybrid", "lexical", "dense", "grep"]
Spans = Sequence[tuple[int, int]]

BATCH: Final = 16
"""Texts that are read, and whose vectors are kept, at once."""


class Split(Struct, frozen=True):
    """How files are split into parts: the rules of privacy, and a stamp that changes with them."""

    rules: PrivacyRules = PrivacyRules()
    stamp: str = ""


REFRESH_S: Final = 1.5
"""So long a search indexes new files; the words of the others are looked for directly."""


class SearchOptions(ViewerRecord, frozen=True):
    """Options of a search.

    Args:
        k: Maximum number of hits.
        method: `auto` uses words and meaning if there is a model, else words alone.
        within: Only files at or below this path.
        since: Only files about this day or later.
        until: Only files about this day or earlier.
        zone: Timezone of files that name none; None for the system's.
        exclude: Paths of files to leave out.
        instance: The searching instance; files it wrote are preferred.
        lines: Rank single lines, instead of files with their best passage.
        snippet_tokens: Maximum tokens of a hit's text; 0 for whole short files and whole passages.
        refresh: First index files that changed since the last search.
        refresh_s: Maximum seconds for that, and as many to search the other files directly; None
            for no limit.
        left: Otherwise: files that the index was found to lack just now.
        judge: Called with each hit, best first, the whole text of its file, and the ranges of it
            that the viewer does not see; returns whether to accept the hit, or None to stop.
        weights: Weights of the signals; None for the measured ones.
        naming: Texts in which names are searched for, most important first.
        min_score: Minimum score of a hit.
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
    refresh_s: float | None = REFRESH_S
    left: Mapping[str, FileStamp] = field(default_factory=dict)
    judge: Callable[[Hit, str, Spans], bool | None] | None = None
    weights: Weights | None = None
    naming: tuple[str, ...] = ()
    min_score: float = 0.0

    @property
    def has_days(self) -> bool:
        """Whether only files about certain days count."""
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
    """Parse options as typed.

    Raises:
        UsageError: No such method.
    """
    args = get_args(Wanted)
    if method not in args:
        raise UsageError(f"No such method: {method!r}", hint=f"Known: {', '.join(args)}.")
    return SearchOptions(
        k=k,
        method=cast("Wanted", method),
        within=within,
        since=since,
        lines=lines,
        min_score=min_score,
        viewer=viewer,
    )


class EmbedderError(FamiliarError):
    """The embedding model cannot be used; words are still found."""

    code = "embedder"


class Signals(Struct, frozen=True):
    """The components of a hit's score; None for an unknown signal.

    Args:
        relevance: Words and meaning together, the speaker, and time.
        lexical: By words: 1 is the question's best match.
        dense: By meaning: 0 for unrelated, about 1 for an answer, whatever the question.
        cosine: The source of `dense`.
        coverage: Share of the question's content words that occur in the text in the same form.
        speaker: The question names the speaker.
        recency: 1 for a file of today, a half after about 143 days.
        linked: It is, or is linked with, a person or topic that the question names.
        same_instance: The searching instance wrote it.
        people: Share of the people named in the question who speak in the file, or whom it
            describes.
        time: Closeness to the time in the question; 0 if it names none.
        maxsim_line: By token vectors: 1 is the question's best line.
        maxsim_passage: The same for the lines around it.
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


class Hit(Struct, frozen=True):
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


class SearchResult(Struct, frozen=True):
    """The result of a search, best first.

    Args:
        method: The method used.
        elapsed_ms: Its duration.
        model: The model whose vectors were used, or an empty string.
        waiting: Number of pieces without a vector, found by words alone.
        unread: Number of changed files that there was no time to read.
        direct: Number of files whose words were looked for directly, since they are not indexed.
        notes: Notices for the person: a missing model, a rebuilt index, files left out.
        hint: The command that adds what is missing, or an empty string.
        named: Files named by `SearchOptions.naming`, in the order of their names there.
    """

    method: Method
    query: str
    hits: tuple[Hit, ...] = ()
    elapsed_ms: float = 0.0
    model: str = ""
    waiting: int = 0
    unread: int = 0
    direct: int = 0
    notes: tuple[str, ...] = field(default=())
    hint: str = ""
    named: tuple[str, ...] = ()

    @property
    def caution(self) -> str:
        """What a reader should know where no hit has a word of the query; else empty."""
        signals = [hit.signals for hit in self.hits]
        by_words = any(s.lexical or s.coverage or s.people or s.time for s in signals)
        return BY_MEANING if signals and not by_words else ""


BY_MEANING: Final = (
    "None of these memories contains a word of the query; they are the nearest by meaning."
)

MEMORIES_BY_MEANING: Final = (
    "No memory among these contains a word of the query; those shown are the nearest by meaning."
)


class WordIndex(Protocol):
    """An index, as what changes files sees it."""

    def touch(self, rel_paths: Sequence[str]) -> None:
        """Make the words of these files searchable."""


MOST_AT_ONCE: Final = 200
"""Files of one change that are indexed before the write returns."""


def IndexingMemoryStore(  # noqa: N802  # it stands where a class stood
    inner: MemoryStore, index: Callable[[], WordIndex | None], on_change: OnChange | None = None
) -> MemoryStore:
    """Return a store on the directory of `inner` that reports its changes to an index.

    Args:
        inner: A store, which is not changed.
        index: As for `index_changes`.
        on_change: As for `index_changes`.
    """
    store = copy(inner)
    store.on_change = index_changes(index, on_change)
    return store


def index_changes(
    index: Callable[[], WordIndex | None], on_change: OnChange | None = None
) -> OnChange:
    """Return a callback for the files that a `MemoryStore` changed.

    Their words are searchable when the write returns; vectors come later. An error of the index
    never fails a write: the next search finds the change itself. So it does if more than
    `MOST_AT_ONCE` files changed, which would delay the writer.

    Args:
        index: Returns the index, or None if there is none yet; called after each change.
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
            return  # the next search compares every file with the index, and reports the error
        if on_change:
            on_change(rel_paths)

    return tell
