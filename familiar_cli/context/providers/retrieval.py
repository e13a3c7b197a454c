"""The second tier: passages of memory that match the message, found in the index.

Apart from updating the index, in atomic steps, it only reads. Files edited since the last search
are indexed while there is time; the rest, and their vectors, wait for later. Words are searched
first, so that a slowly loading model delays nothing else.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.text import USEFUL_TOKENS, counted
from familiar_cli.context.providers.packing import (
    Excerpt,
    Filling,
    Passage,
    PieceSource,
    fill_room,
    rank_pieces,
)
from familiar_cli.context.providers.passages import Gatherer, Sight, open_gates
from familiar_cli.context.providers.past_turns import Recall, Recaller
from familiar_cli.context.tiers import loaded_whole
from familiar_cli.context.types import Contribution, Layer, Subject
from familiar_cli.store import fts
from familiar_cli.store.memory.layout import LORE_DIR, is_page
from familiar_cli.store.memory.pages.facts import asks_for_past
from familiar_cli.store.memory.pages.front_matter import SELF_FILES
from familiar_cli.store.memory.pages.lines import PLAIN, Numbering, normal_line
from familiar_cli.store.search.build import RefreshResult
from familiar_cli.store.search.hits import query_coverage
from familiar_cli.store.search.search import notes_on
from familiar_cli.store.search.types import EmbedderError, SearchOptions, SearchResult, Wanted

if TYPE_CHECKING:
    from familiar_cli.context.character import Macros
    from familiar_cli.context.lore_gates import LoreGates
    from familiar_cli.context.providers.pins import Pinned
    from familiar_cli.context.request import ContextRequest
    from familiar_cli.llm.tokens import TokenCounter
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.store.search.finding import Finder

HEARD_BONUS: Final = 0.03
"""What a result gains at most for the words of what was said just before: it breaks ties."""
FEW_WAITING: Final = 16
"""So many turns without a vector are the newest, most of which a prompt shows anyhow."""
MESSAGE_TOKENS: Final = 4
LAST_TURNS: Final = 2
"""What is named in these comes before what is only similar, as what was just said does."""
_NO_PAST: Final = "past turns were not searched in time"
_TIED: Final = 60  # number of best results compared with recent turns
_FEW: Final = 3  # where there is little room, lines are made so short that this many fit
_WIDE_SHARE: Final = 20  # share of the room for one turn when many are wanted
_MOST_LINES: Final = 400
_CHARS_A_TOKEN: Final = 12  # three times what fits, since some are duplicates or too long
_LEAST_CHARS: Final = 6_000
_FOR_WHY_CHARS: Final = 200_000  # how far down the list a file's rank is determined
_LORE: Final = f"{LORE_DIR}/"
_SELF: Final = frozenset(entry.rel_path for entry in SELF_FILES)


class Memory(Struct, frozen=True):
    """The searched memory, and how to query it.

    Args:
        finder: Queries the index; has the embedding model, or why there is none.
        macros: Returns the values of macros in a turn.
        recent_turns: Maximum number of recent turns in a prompt.
        recall: Searches the past; None to skip it.
        pinned: Returns the pins of a prompt; None without pins.
        numbering: The mapping of citations to turns.
    """

    store: MemoryStore
    finder: Finder
    history: HistoryStore
    macros: Callable[[ContextRequest], Macros]
    recent_turns: int = 0
    recall: Recaller | None = None
    pinned: Callable[[ContextRequest], Pinned] | None = None
    numbering: Numbering = PLAIN


class Candidates(Struct, frozen=True):
    """The results of a search.

    Args:
        passages: The best passages, best first.
        how: How they were found: `words`, or `words and meaning`.
        remarks: Notices about the search.
        behind: The index is not complete yet.
        left: Results that did not fit: why, the file, and the conversation of turns.
        unread: What should have been searched and was not, in words; empty for nothing.
        pack: Packs the results into another number of tokens.
        before_digests: They answer a question that no digest does.
    """

    passages: tuple[Passage, ...] = ()
    how: str = "words"
    remarks: tuple[str, ...] = ()
    behind: bool = False
    left: tuple[tuple[str, str | None, str], ...] = ()
    unread: str = ""
    pack: Callable[[int], Candidates] | None = None
    before_digests: bool = False


class Retrieval:
    """Finds passages.

    Args:
        memory: The searched memory.
        counter: The token counter.
        k: Maximum number of passages.
        refresh_s: Maximum seconds for indexing changed files.
        most_tokens: Maximum tokens of all passages; 0 for as many as fit.
        line_tokens: Maximum tokens of one line or turn.
    """

    def __init__(
        self,
        memory: Memory,
        counter: TokenCounter,
        *,
        k: int,
        refresh_s: float,
        most_tokens: int = 0,
        line_tokens: int = 150,
    ) -> None:
        self.k = k
        self.memory = memory
        self._counter = counter
        self._refresh_s = refresh_s
        self._most_tokens = most_tokens
        self._line_tokens = line_tokens
        self._gates: tuple[ContextRequest, Callable[[], LoreGates]] | None = None
        self._heard: tuple[ContextRequest, list[Turn], frozenset[int]] | None = None

    def look(
        self,
        request: ContextRequest,
        loaded: Mapping[str, Contribution],
        room: int,
        tell: Callable[[Callable[[], Candidates]], None],
    ) -> None:
        """Search by words and then, if there is a model, by words and meaning.

        If the model is open already, the search by words alone is skipped.

        Args:
            loaded: Memory that is in the prompt already, by file.
            room: Tokens available for passages.
            tell: Called with a function that packs the results so far; the last one is the best.
        """
        query = make_question(request, self._before(request))
        ways = self._ways(query)
        pinned = self.memory.pinned(request) if self.memory.pinned else None
        if pinned:
            loaded = {**loaded, **pinned.shown}
        if not ways:
            tell(partial(Candidates, remarks=("it has no words to search for",)))
        fresh = pinned.found.fresh if pinned else RefreshResult()
        is_behind = False
        for number, method in enumerate(ways):
            gatherer = self._gatherer(request, loaded, room)
            is_first = not number and not pinned
            options = self._options(gatherer, method, request, refresh=is_behind or is_first)
            if not is_first:  # files were indexed for as long as allowed; the rest is read directly
                options = replace(options, refresh_s=0.0, left=fresh.left)
            try:
                result = self.memory.finder.search(query, options)
            except EmbedderError as error:
                if method != "dense":
                    raise
                remark = f"it contains no word to search for, and {error}"
                tell(partial(Candidates, remarks=(remark,)))
                return
            gatherer.add_named(result.named, self.memory.store.read_file)
            is_last = number + 1 == len(ways)
            is_behind = bool(result.direct) and not fresh.left
            result = replace(result, notes=(*notes_on(fresh), *result.notes))
            found = partial(self._find_candidates, result, gatherer, is_last=is_last)
            if self.memory.recall and not number:
                tell(partial(found, Recall(missed=True), room, request))
            past = self._past(request, query, method, gatherer)
            tell(partial(found, past, room, request))

    def why_not(
        self,
        subject: Subject,
        request: ContextRequest,
        loaded: Mapping[str, Contribution],
        room: int,
    ) -> str | None:
        """Return why no passage of a file, or not a turn, would be offered.

        See `Explains`.
        """
        rel_path = subject.rel_path
        if rel_path is None:
            return self._why_no_turn(subject, request, loaded, room)
        if not is_page(rel_path) or rel_path in _SELF or _is_hidden(rel_path):
            return None
        if not self.k:
            return "nothing is searched for: search.k is 0"
        if self.memory.pinned:
            loaded = {**loaded, **self.memory.pinned(request).shown}
        try:
            self.memory.store.read_file(rel_path)
            return self._place_of(rel_path, request, loaded, room)
        except FamiliarError as error:
            return f"it cannot be searched: {error}"

    def sight(self, request: ContextRequest) -> Sight:
        """Return the filter of memory for a turn."""
        window: list[frozenset[int]] = []

        def shown() -> frozenset[int]:
            if not window:
                window.append(self._window(request))
            return window[0]

        macros = self.memory.macros(request)
        has_past = asks_for_past(request.query)
        numbering = self.memory.numbering
        if self._gates is None or self._gates[0] is not request:
            gates = open_gates(self.memory.store, self.memory.history, request, macros)
            self._gates = request, gates
        gates = self._gates[1]
        return Sight(request.viewer, shown, macros, request.phrases, numbering, has_past, gates)

    def _gatherer(
        self, request: ContextRequest, loaded: Mapping[str, Contribution], room: int
    ) -> Gatherer:
        return Gatherer(
            self.sight(request),
            loaded,
            make_question(request, self._before(request)),
            loaded_whole(request.tier, request.viewer),
            most_chars=max(_CHARS_A_TOKEN * max(room, request.most_content), _LEAST_CHARS),
            most_files=self.k + self.k // 2,  # some are rejected
        )

    def _past(
        self, request: ContextRequest, query: str, method: Wanted, gatherer: Gatherer
    ) -> Recall:
        if self.memory.recall is None:
            return Recall()
        window, by_meaning = self._window(request), method != "lexical"
        return self.memory.recall(request, query, window, by_meaning, gatherer.cited())

    def _ways(self, query: str) -> tuple[Wanted, ...]:
        """Return the searches to run in turn; a query without meaningful words has none."""
        words = fts.words(query)
        embedder = self.memory.finder.embedder.embedder
        if not words or (embedder is None and fts.STOP_WORDS.issuperset(words)):
            return ()
        if fts.STOP_WORDS.issuperset(words):
            return ("dense",)
        if embedder is None:
            return ("lexical",)
        return ("auto",) if embedder.ready else ("lexical", "auto")

    def _options(
        self, gatherer: Gatherer, method: Wanted, request: ContextRequest, *, refresh: bool
    ) -> SearchOptions:
        whole = {path for path, piece in gatherer.loaded.items() if not piece.shortened}
        before = self._before(request)
        return SearchOptions(
            k=_MOST_LINES,
            method=method,
            lines=True,
            exclude=_SELF | gatherer.elsewhere | whole,
            refresh=refresh,
            refresh_s=self._refresh_s,
            judge=gatherer,
            # Names are searched for in the message and in the last turns before it.
            naming=(request.query, *(fts.bounded_query(one.content) for one in before)),
            viewer=request.viewer,
        )

    def _find_candidates(
        self,
        result: SearchResult,
        gatherer: Gatherer,
        past: Recall,
        room: int,
        request: ContextRequest,
        *,
        is_last: bool,
    ) -> Candidates:
        opened = self.memory.finder.embedder
        remarks = [(note[:1].lower() + note[1:]).rstrip(".") for note in result.notes]
        if past.waiting > FEW_WAITING:
            waiting = counted(past.waiting, "turn")
            remarks.append(f"found by words alone until `familiar index build`: {waiting}")
        if opened.embedder is None:
            more = f"; add one with `{opened.hint}`" if opened.hint else ""
            remarks.append(f"searched by words only: {opened.reason}{more}")
        elif not is_last:
            remarks.append("searched by words only: the embedding model did not answer in time")
        behind = bool(
            result.unread
            or result.direct
            or result.waiting
            or past.unread
            or past.missed
            or past.waiting > FEW_WAITING
            or not is_last
        )
        by_meaning = past.by_meaning or result.method in {"hybrid", "dense"}
        how = "words and meaning" if by_meaning else "words"
        candidates = Candidates(
            how=how,
            remarks=tuple(remarks),
            behind=behind,
            unread=_NO_PAST if past.missed else _unread_notice(result.unread, past.unread),
            before_digests=past.asked.is_for_turns,
        )
        fill = self._filler(gatherer, past, request)
        pack = partial(self._pack_candidates, candidates, gatherer, past, fill, guaranteed=room)
        return replace(pack(room), pack=pack)

    def _pack_candidates(
        self,
        candidates: Candidates,
        gatherer: Gatherer,
        past: Recall,
        fill: Callable[[int, int], Filling],
        room: int,
        *,
        guaranteed: int,
    ) -> Candidates:
        """Return the results packed into `room` tokens."""
        filling = fill(room, guaranteed)
        passages = tuple(
            past.passage(packed) if packed.source.key in past.sources else gatherer.passage(packed)
            for packed in filling.passages
        )
        left = (
            (why, None, past.sources[key].origin) if key in past.sources else (why, key, "")
            for key, why in filling.left.items()
        )
        return replace(candidates, passages=passages, left=tuple(left))

    def _before(self, request: ContextRequest) -> list[Turn]:
        """Return the last turns before the message, newest first."""
        return self._last_turns(request)[0]

    def _window(self, request: ContextRequest) -> frozenset[int]:
        """Return an estimate of the turns in the prompt, within the budget."""
        return self._last_turns(request)[1]

    def _last_turns(self, request: ContextRequest) -> tuple[list[Turn], frozenset[int]]:
        if self._heard is None or self._heard[0] is not request:
            most = max(self.memory.recent_turns, LAST_TURNS)
            turns = self.memory.history.recent(
                request.channel_id, most, request.before_id, viewer=request.viewer
            )[::-1]
            shown = self._shown_of(turns[: self.memory.recent_turns], request)
            self._heard = request, turns[:LAST_TURNS], shown
        return self._heard[1:]

    def _filler(
        self, gatherer: Gatherer, past: Recall, request: ContextRequest
    ) -> Callable[[int, int], Filling]:
        """Rank what was found; return a function of the room, and of its guaranteed share."""
        texts = {
            normal_line(line)
            for piece in gatherer.loaded.values()
            for line in piece.text.split("\n")
        }
        pieces, sources = _not_beside(gatherer, request)
        pieces = _with_ties_broken([*pieces, *past.pieces], request)
        ranked, kind = rank_pieces(pieces, gatherer.query), past.asked
        packed: dict[tuple[int, int], tuple[int, Filling]] = {}  # for what more room has in common

        def fill(room: int, guaranteed: int) -> Filling:
            room = min(room, self._most_tokens or room)
            limit, filling = room, pack(room, guaranteed)
            # Costs of parts are rounded, so their sum may be a little too small.
            while limit > 0 and (excess := filling.count_tokens(self._counter) - room) > 0:
                limit -= excess
                filling = pack(limit, guaranteed)
            return self._within_books(filling, gatherer)

        def pack(room: int, guaranteed: int) -> Filling:
            line_tokens = max(
                min(self._line_tokens, room // _FEW),
                2 * USEFUL_TOKENS,
                room // _WIDE_SHARE if kind.is_wide else 0,
            )
            least, known = packed.get((line_tokens, guaranteed), (room + 1, None))
            if known and known.has_room and room >= least:
                return known
            filling = fill_room(
                ranked,
                {**sources, **past.sources},
                room,
                self._counter,
                most_sources=len(sources) + len(past.sources) if kind.is_wide else self.k,
                line_tokens=line_tokens,
                query=gatherer.query,
                known=texts - {""},
                guaranteed=guaranteed,
                wide=kind.is_wide,
                in_order=kind.in_order,
                quotes_first=request.is_content_set,
                resume=known.resume if known and room >= least else None,
            )
            if filling.has_room or not known:
                packed[line_tokens, guaranteed] = room, filling
            return filling

        return fill

    def _within_books(self, filling: Filling, gatherer: Gatherer) -> Filling:
        """Leave out entries for which their book's own budget has no room, the lowest first."""
        count = self._counter.count
        entries = [
            (gatherer.settings_of(p.source.key), p.source.key, p.text) for p in filling.passages
        ]
        entries += [
            (gatherer.sight.settings_of(path, self.memory.store.read_file(path)), "", piece.text)
            for path, piece in gatherer.loaded.items()
            if path.startswith(_LORE)
        ]
        used, left = Counter[str](), dict(filling.left)
        # Pins are in the prompt in any case.
        for entry, key, text in sorted(
            entries, key=lambda e: (e[1] != "", -(e[0].order if e[0] else 0))
        ):
            if entry is None or not entry.book_tokens or entry.ignores_budget:
                continue
            used[entry.book] += (tokens := count(text))
            if key and used[entry.book] > entry.book_tokens:
                used[entry.book] -= tokens
                left[key] = f"its book has {entry.book_tokens} tokens in a prompt (token_budget)"
        return Filling(tuple(p for p in filling.passages if p.source.key not in left), left)

    def _place_of(
        self, rel_path: str, request: ContextRequest, loaded: Mapping[str, Contribution], room: int
    ) -> str:
        query = make_question(request, self._before(request))
        ways = self._ways(query)
        if not ways:
            return "the message has no words to search for"
        if rel_path in loaded and not loaded[rel_path].shortened:
            return ""
        gatherer = self._gatherer(request, loaded, room)
        if rel_path in gatherer.elsewhere:
            return "it is not searched, because another provider includes it at this tier"
        gatherer.most_chars, gatherer.most_files = _FOR_WHY_CHARS, _MOST_LINES
        options = self._options(gatherer, ways[-1], request, refresh=True)
        result = self.memory.finder.search(query, options)
        gatherer.add_named(result.named, self.memory.store.read_file)
        if rel_path in gatherer.sources:
            past = self._past(request, query, ways[-1], gatherer)
            fill = self._filler(gatherer, past, request)
            filling = fill(max(room, request.most_content), room)
            return _left_out(filling, gatherer, rel_path)
        by_meaning = "it is not similar in meaning" if result.method != "lexical" else ""
        why = by_meaning or "there is no embedding model"
        none = f"it contains none of the words of the message, and {why}"
        return gatherer.refused.get(rel_path, none)

    def _why_no_turn(
        self,
        subject: Subject,
        request: ContextRequest,
        loaded: Mapping[str, Contribution],
        room: int,
    ) -> str | None:
        query = make_question(request, self._before(request))
        ways = self._ways(query)
        if subject.turn_id is None or self.memory.recall is None or not ways:
            return None
        gatherer, most = self._gatherer(request, loaded, room), max(room, request.most_content)
        options = self._options(gatherer, ways[-1], request, refresh=False)
        self.memory.finder.search(query, options)
        past = self._past(request, query, ways[-1], gatherer)
        holder = past.source_of(subject.turn_id)
        if holder is None:
            return past.why(subject.turn_id)
        filling = self._filler(gatherer, past, request)(most, room)
        taken = {t for packed in filling.passages for piece in packed.pieces for t in piece.turns}
        if subject.turn_id in taken:
            return ""
        return f"it was found, and {filling.left.get(holder, 'others match better')}"

    def _shown_of(self, turns: Sequence[Turn], request: ContextRequest) -> frozenset[int]:
        """Return those of the last turns, newest first, that fit, and those always shown."""
        limit = request.layer_tokens.get(Layer.recent_history, request.budget_tokens)
        room = limit - self._counter.count(request.utterance)
        shown = {turn.id for turn in request.pending_turns}
        for turn in turns:
            room -= MESSAGE_TOKENS + self._counter.count(turn.content)
            if room < 0:
                break
            shown.add(turn.id)
        shown.update(id_ for id_ in (request.before_id, request.reply_to) if id_ is not None)
        return frozenset(shown)


def make_question(request: ContextRequest, before: Sequence[Turn] = ()) -> str:
    """Return the search query: the message alone.

    A message with a single meaningful word ("Remember?") is joined to the same person's message
    before it, and one without any ("and him?") to the last one heard.

    Args:
        before: The last turns before it, newest first.
    """
    words = _telling_words(request.query)
    if words > 1:
        return request.query
    turns = [*reversed(request.pending_turns), *before]
    own = [turn for turn in turns if turn.author == request.author and turn.role == "user"]
    near = own[:1] if words else [*own, *turns]
    texts = (fts.bounded_query(turn.content) for turn in near)
    context = next(filter(_telling_words, texts), "")
    return f"{context}\n{request.query}" if context else request.query


def _telling_words(text: str) -> int:
    """Count the words that carry meaning."""
    return sum(word not in fts.STOP_WORDS for word in fts.content_words(text))


def _with_ties_broken(pieces: list[Excerpt], request: ContextRequest) -> list[Excerpt]:
    """Among similar scores, prefer results that share words with recent turns."""
    heard = "\n".join(turn.content for turn in request.pending_turns[-LAST_TURNS:])
    if not heard:
        return pieces
    best = heapq.nlargest(_TIED, pieces, key=lambda piece: piece.score)
    words = fts.bounded_query(heard)
    bonus = {id(piece): HEARD_BONUS * query_coverage(piece.text, words) for piece in best}
    return [replace(p, score=p.score + bonus[id(p)]) if bonus.get(id(p)) else p for p in pieces]


def _not_beside(
    gatherer: Gatherer, request: ContextRequest
) -> tuple[list[Excerpt], dict[str, PieceSource]]:
    """Filter out what a chat program's own prompt already contains.

    A program that sends an entry of its lorebook has sent all that it considers relevant.
    """
    beside = request.beside
    if beside is None:
        return gatherer.pieces, gatherer.sources
    repeated = {piece.source for piece in gatherer.pieces if beside.cover(piece.text)}
    left_out = {key for key, source in gatherer.sources.items() if beside.cover(source.whole)}
    if any(key.startswith(_LORE) for key in repeated | left_out):
        left_out |= {key for key in gatherer.sources if key.startswith(_LORE)}
    sources = {
        key: replace(source, whole="") if key in repeated else source
        for key, source in gatherer.sources.items()
    }
    pieces = [
        piece
        for piece in gatherer.pieces
        if piece.source not in left_out and not beside.cover(piece.text)
    ]
    return pieces, sources


def _unread_notice(files: int, turns: int) -> str:
    counts = ((files, "file"), (turns, "turn"))
    missing = [f"{count:,} {what}{'s' if count > 1 else ''}" for count, what in counts if count]
    if not missing:
        return ""
    return f"{' and '.join(missing)} could not be searched in time; run `familiar index build`"


def _left_out(filling: Filling, gatherer: Gatherer, rel_path: str) -> str:
    """Return why a matching file is not in the prompt, and its rank."""
    if rel_path in {packed.source.key for packed in filling.passages}:
        return ""
    why = filling.left.get(rel_path, "it repeats what is already included")
    paths = list(gatherer.sources)
    best = max(p.score for p in gatherer.pieces if p.source == rel_path)
    top = max(p.score for p in gatherer.pieces)
    number = paths.index(rel_path) + 1
    return (
        f"{why}; it is number {number} of the matches with score {best:.2f}; the best has {top:.2f}"
    )


def _is_hidden(rel_path: str) -> bool:
    return any(part.startswith(".") for part in rel_path.split("/"))
