"""Search memory and past turns, and build, inspect and clear the indexes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.base.text import fold, fold_word, framed, hint_sentence
from familiar_cli.base.times.clock import iso, to_zone
from familiar_cli.store import fts
from familiar_cli.store.history import recall as fulltext
from familiar_cli.store.history.recall import recall
from familiar_cli.store.history.selection import TurnFilter
from familiar_cli.store.memory.layout import LORE_DIR, told_path
from familiar_cli.store.memory.pages.lines import shown_between, turn_ids
from familiar_cli.store.memory.pages.visible_lines import numbered_text, private_spans
from familiar_cli.store.search.rank import scores_of_turns, session_of
from familiar_cli.store.search.types import EmbedderError, Hit, SearchOptions, SearchResult

if TYPE_CHECKING:
    from familiar_cli.base.who.visibility import Viewer
    from familiar_cli.familiar import Familiar
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.store.search.build import Embedded, IndexStatus, Progress, RefreshResult
    from familiar_cli.store.search.turn_vectors import EmbeddedTurns, TurnVectorStatus


MOST_RESULTS: Final = 50


def search_memories(
    familiar: Familiar,
    query: str | Sequence[str],
    *,
    max_results: int = 10,
    min_score: float = 0.0,
    instance: str = "",
    since: date | None = None,
    until: date | None = None,
    viewer: Viewer,
) -> SearchResult:
    """Return the best hit in each memory that matches any of the questions.

    Args:
        query: A message, which is split into sentences, or up to five questions.
        max_results: Maximum number of memories.
        min_score: Minimum score.
        instance: The asking instance, whose own memories are preferred.
        since: Only memories dated this day or later.
        until: Only memories dated this day or earlier.
        viewer: Viewer of the results.

    Raises:
        UsageError: There is no question, or more than five, or one holds no word.
    """
    from familiar_cli.store.search.search import SENTENCES

    queries = [query] if isinstance(query, str) else list(dict.fromkeys(query))
    if not 1 <= len(queries) <= SENTENCES:
        raise UsageError(f"`query` takes 1 to {SENTENCES} questions, not {len(queries)}")
    options = SearchOptions(
        k=min(max(max_results, 1), MOST_RESULTS),
        instance=instance,
        since=since,
        until=until,
        zone=familiar.zone,
        min_score=min_score,
        viewer=viewer,
    )
    results = [familiar.finder.search(one, options) for one in queries]
    best: dict[str, Hit] = {}
    for hit in (hit for result in results for hit in result.hits):
        known = best.get(hit.rel_path)
        if known is None or hit.score > known.score:
            best[hit.rel_path] = hit
    ranked = sorted(best.values(), key=lambda h: (-h.score, told_path(h.rel_path, viewer)))
    found = replace(results[0], hits=tuple(ranked[: options.k]), notes=_result_notes(results))
    return replace(found, notes=tuple(filter(None, (found.caution, *found.notes))))


def kept_back(
    familiar: Familiar, query: str, rel_paths: Iterable[str], viewer: Viewer
) -> dict[str, str]:
    """Return why lore entries would not be offered if the query were said now, by path.

    It counts as said in the conversation that went on last; for others than the owner, in an empty
    one.
    """
    paths = [path for path in dict.fromkeys(rel_paths) if path.startswith(f"{LORE_DIR}/")]
    if not paths:
        return {}
    from familiar_cli.actions.talk.turn_setup import request_now, sight_of, turn_setup

    last = familiar.history.last_turn() if viewer.is_owner else None
    channel_id = last.channel_id if last else ""
    setup = turn_setup(familiar, channel_id)
    request = request_now(familiar, setup, channel_id, query, viewer=viewer)
    sight, result = sight_of(familiar, setup, request), {}
    for path in paths:
        with suppress(FamiliarError):  # deleted since it was found
            result[path] = sight.kept_back(path, familiar.memory.read_file(path))
    return {path: why for path, why in result.items() if why}


def cited_turns(familiar: Familiar, hit: Hit, viewer: Viewer) -> tuple[int, ...]:
    """Return the turns cited by the visible part of a hit."""
    text = familiar.memory.readable(hit.rel_path)  # it may be deleted since
    text = numbered_text(text, viewer, hit.rel_path)
    hidden = private_spans(text, viewer, hit.rel_path) if viewer.is_owner else []
    return turn_ids(shown_between(text, hit.char_start, hit.char_end, hidden), familiar.numbering)


def _result_notes(results: Sequence[SearchResult]) -> tuple[str, ...]:
    parts = (
        note
        for result in results
        for note in (*result.notes, result.hint and hint_sentence(result.hint))
    )
    return tuple(dict.fromkeys(filter(None, parts)))


METHODS: Final = ("auto", "hybrid", "lexical")
_LOOKED_AT: Final = (
    150  # turns that words and meaning find; who spoke, and when, says which are best
)
_BEFORE_DAYS: Final = 1000  # so many turns are looked at when only some days count


class PastHit(Struct, frozen=True):
    """A turn found by a search.

    Args:
        turns: First and last turn.
        speaker: Author.
        text: The words.
        score: Score, comparable between turns and memories.
    """

    turns: tuple[int, int]
    channel: str
    at: datetime
    speaker: str
    text: str
    score: float


class PastSearchResult(Struct, frozen=True):
    """Results of a search of past turns.

    Args:
        hits: The turns, best first.
        method: `lexical` or `hybrid`.
        waiting: Number of turns without a vector, for the owner.
    """

    hits: tuple[PastHit, ...]
    method: str
    waiting: int


def search_past(
    familiar: Familiar,
    query: str,
    *,
    k: int = 10,
    method: str = "auto",
    since: date | None = None,
    until: date | None = None,
    channel: str | None = None,
    viewer: Viewer,
    min_score: float = 0.0,
    unwritten: bool = False,
) -> PastSearchResult:
    """Return the turns that match `query`.

    Args:
        query: A message or question, as typed.
        k: Maximum number of turns.
        method: `auto` combines words and meaning if turns have vectors, else words alone.
        since: Only turns on this day or later.
        until: Only turns on this day or earlier.
        channel: Only this channel; None for all.
        viewer: Viewer of the results.
        min_score: Minimum score.
        unwritten: Only turns that the memory writer has not read yet.

    Raises:
        UsageError: `query` holds no word, or there is no such method for turns.
        EmbedderError: `method` is `hybrid`, no turn has a vector, and more than unread turns are
            searched.
    """
    if method not in METHODS:
        raise UsageError(
            f"Past turns cannot be searched by {method!r}", hint=f"Known: {', '.join(METHODS)}."
        )
    if not fts.words(query):
        raise UsageError(f"There is no word to search for in {query!r}")
    near = None if method == "lexical" else familiar.finder.near_turns(query)
    if near is None and method == "hybrid" and not unwritten:
        raise EmbedderError(
            "Turns cannot be searched by meaning yet", hint="Run `familiar index build`."
        )
    recollection = recall(
        familiar.history,
        query,
        near=near and replace(near, familiar=familiar.name),
        channel_id=channel,
        viewer=viewer,
        limit=_BEFORE_DAYS if since or until or unwritten else max(k, _LOOKED_AT),
    )
    turns = recollection.turns
    if unwritten:  # beside memory, what only stands next to a match is noise
        ids = familiar.history.unsummarised_among(one.turn.id for one in turns)
        turns = tuple(
            one
            for one in turns
            if one.turn.id in ids and (near or any(fts.match_spans(query, one.turn.content)))
        )
    is_counted = viewer.is_owner and method != "lexical"  # it tells how much others have said
    waiting = familiar.finder.turns_without_vector() if is_counted else 0
    found_by = "hybrid" if near else "lexical"
    if not turns:  # there is nobody to name
        return PastSearchResult((), found_by, waiting)
    labels = familiar.labels(one.turn.author for one in turns)

    def speaker(turn: Turn) -> str:
        if turn.role == "assistant":
            return framed(familiar.name)
        return labels.of(turn.author) if turn.author else "Somebody"

    sessions = [session_of(one.turn, familiar.zone) for one in turns]
    scores = scores_of_turns(turns, query, sessions, speaker=speaker, zone=familiar.zone)
    hits = [
        PastHit(
            (one.turn.id, one.turn.id),
            one.turn.channel_id,
            to_zone(one.turn.at, familiar.zone),
            speaker(one.turn),
            one.turn.content,
            round(score, 4),
        )
        for one, score in zip(turns, scores, strict=True)
    ]
    wanted = [
        hit
        for hit in hits
        if hit.score >= min_score
        and (since is None or hit.at.date() >= since)
        and (until is None or hit.at.date() <= until)
    ]
    wanted.sort(key=lambda hit: (-hit.score, hit.turns))
    return PastSearchResult(tuple(wanted[:k]), found_by, waiting)


_MOST_SAID: Final = 50
_SESSIONS_LOOKED_AT: Final = 300  # turns; who spoke says which of them are meant
_EXCERPT_CHARS: Final = 320
_BEFORE_CHARS: Final = 80
_STEM_CHARS: Final = 4
_ENDING_CHARS: Final = 2
_WORD: Final = re.compile(r"[^\W_]+")


class SaidHit(Struct, frozen=True):
    """A turn found by a search.

    Args:
        speaker: Its speaker's name.
        excerpt: Part or all of its text.
        marks: Ranges of matches in the excerpt.
    """

    turn: Turn
    speaker: str
    excerpt: str
    marks: tuple[tuple[int, int], ...]

    @property
    def pieces(self) -> Iterator[tuple[str, bool]]:
        """Yield the excerpt in pieces, each with whether it matched."""
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
    familiar: Familiar, query: str, *, viewer: Viewer, user: str = "", channel: str | None = None
) -> dict[str, list[SaidHit]]:
    """Return the best matching turns, at most 50, grouped by day, newest first.

    Args:
        familiar: Whose past.
        query: Words, as anybody would say them.
        viewer: Who will see them.
        user: Whose memory is meant: what this person said, and the replies to them; a name, or
            `PLATFORM:ID`. Empty: everybody's.
        channel: Only this channel.

    Raises:
        UsageError: There is no word in `query`.
    """
    if not fts.words(query):
        raise UsageError(
            f"No word to search for in {query!r}", hint="Search for what was said: ?q=red+scarf"
        )
    span = TurnFilter(viewer, channel)
    limit = _MOST_SAID
    looked_at = _SESSIONS_LOOKED_AT if user else limit
    hits = fulltext.search(familiar.history, query, span, limit=looked_at, neighbours=0)
    labels = familiar.labels(hit.turn.author for hit in hits)
    result: dict[str, list[SaidHit]] = {}
    for hit in hits:
        turn = hit.turn
        speaker = labels.of(turn.author) if turn.author else familiar.name
        if user and not _is_of(familiar, turn, user):
            continue
        day = to_zone(turn.at, familiar.zone).date().isoformat()
        excerpt, marks = excerpt_of(turn.content, query)
        result.setdefault(day, []).append(SaidHit(turn, speaker, excerpt, marks))
        limit -= 1
        if not limit:
            break
    return {day: sorted(result[day], key=lambda h: h.turn.id) for day in sorted(result)[::-1]}


def excerpt_of(text: str, query: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the part of a text around the first match, and the ranges of matches.

    A word matches if it starts like one in the query: a crude stem, good enough for highlighting.
    """
    targets = fts.content_words(query)
    stems = {w[: max(_STEM_CHARS, len(w) - _ENDING_CHARS)] if w.isascii() else w for w in targets}
    marks = [
        match.span()
        for match in _WORD.finditer(text)
        if any(_fits_stem(fold_word(match[0]), stem) for stem in stems)
    ]
    if not marks:
        marks = sorted(
            (at, at + len(w)) for w in targets if not w.isascii() and (at := text.find(w)) >= 0
        )
    if len(text) <= _EXCERPT_CHARS:
        return text, _without_overlaps(marks)
    start = max(marks[0][0] - _BEFORE_CHARS, 0) if marks else 0
    end = min(start + _EXCERPT_CHARS, len(text))
    head, tail = ("…" if start else ""), ("…" if end < len(text) else "")
    moved = [
        (b - start + len(head), e - start + len(head)) for b, e in marks if b >= start and e <= end
    ]
    return f"{head}{text[start:end]}{tail}", _without_overlaps(moved)


def _fits_stem(word: str, stem: str) -> bool:
    return word == stem if len(stem) < _STEM_CHARS else word.startswith(stem)


def _without_overlaps(marks: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return marks without those that overlap an earlier one."""
    kept: list[tuple[int, int]] = []
    for begin, end in marks:
        if not kept or begin >= kept[-1][1]:
            kept.append((begin, end))
    return tuple(kept)


def _is_of(familiar: Familiar, turn: Turn, user: str) -> bool:
    """Tell whether a turn was said by a person, or to them."""
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


class IndexBuildResult(Struct, frozen=True):
    """What `build_index` did: files read, their pieces and turns that got a vector."""

    refreshed: RefreshResult
    embedded: Embedded
    turns: EmbeddedTurns
    turns_waiting: int


class TurnsStatus(Struct, frozen=True):
    """Search status of turns.

    Args:
        turns: Number of turns.
        unread: Turns not indexed by words yet.
        vectors: Turns with a vector.
        waiting: Turns without a vector yet.
        size_bytes: Size of all vectors.
        token_vectors: Vectors of single tokens.
    """

    turns: int
    unread: int
    vectors: int
    waiting: int
    size_bytes: int
    token_vectors: int = 0


def build_index(familiar: Familiar, progress: Progress | None = None) -> IndexBuildResult:
    """Update all indexes: words always, vectors if a model is on disk.

    Raises:
        FamiliarError: An index cannot be written, or the model does not work; what was done stays.
    """
    from familiar_cli.store.search.turn_vectors import EmbeddedTurns  # loads numpy

    refreshed = familiar.finder.index_words(progress)
    familiar.index.shrink()
    embedder = familiar.finder.embedder.embedder
    if embedder is None:
        embedded = familiar.index.build_if_stale(None).embedded
        turns = familiar.history.count(everything=True)
        return IndexBuildResult(refreshed, embedded, EmbeddedTurns(), turns)
    embedded = familiar.index.embed_waiting(embedder, progress=progress)
    made = familiar.finder.embed_turns(progress=progress)
    return IndexBuildResult(refreshed, embedded, made, familiar.finder.turns_without_vector())


def read_index_status(familiar: Familiar) -> tuple[IndexStatus, TurnsStatus]:
    """Return the search status of memory and turns, without changing anything."""
    opened = familiar.finder.embedder.embedder
    made: TurnVectorStatus = familiar.finder.turn_vectors.status(opened)
    turns = familiar.history.count(everything=True)
    waiting = familiar.finder.turns_without_vector() if opened else turns
    found = TurnsStatus(
        turns,
        fulltext.count_unread(familiar.history),
        made.vectors,
        waiting,
        made.size_bytes,
        made.token_vectors,
    )
    return familiar.index.status(), found


def clear_index(familiar: Familiar) -> bool:
    """Delete the memory index and the turn vectors; tell whether there were any."""
    memory, turns = familiar.index.clear(), familiar.finder.turn_vectors.clear()
    return memory or turns
