"""Fill a token budget with the best pieces of memory and of the past, each fact once.

Pure functions: pieces and a budget in, passages out. A *piece* is a line of a file or a turn; a
*passage* is all that is taken from one source, in its order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.languages import ENGLISH, Phrases
from familiar_cli.base.markdown import split_lines
from familiar_cli.base.text import USEFUL_TOKENS, framed, sentence_ends, whole_sentences
from familiar_cli.store import fts
from familiar_cli.store.memory.pages.lines import normal_line

if TYPE_CHECKING:
    from familiar_cli.context.types import Contribution
    from familiar_cli.llm.tokens import TokenCounter

_LABEL_CHARS: Final = 160
WEAK: Final = 0.25
"""What scores less than this share of the best piece is not taken to fill room."""

FREE_FLOOR: Final = 0.5
"""The same for room beyond the guaranteed share: a prompt costs less where it would help little."""

WHOLE_SHARE: Final = 0.5
"""Most of the room that one whole source may take while others wait."""

EXCHANGE: Final = 2
"""A line that rests on no more turns says what they say."""

RESTING_SHARE: Final = 0.2
"""What the score of a line that rests on turns counts, where turns fit, too: quotes come first.

Measured with `benchmarks.life`: at 0.2 a prompt with files holds as much evidence word for word as
one without them, and more of the answers' words; at 1.0 it holds less."""

OWN_TOKENS: Final = 2500
"""Where quotes come first, so many tokens of turns are chosen by their own match alone.

Measured with `benchmarks.life`: turns that only a line of memory points to add evidence where there
is more room, and cost some where there is less."""

PART_BYTES: Final = 240
"""A turn of more than twice as many, about 120 tokens, is offered in parts of about so many."""

PART_SHARE: Final = 0.9
"""Share of a long turn's score that its part without any of the question's words has."""

_LEAST_TOKENS: Final = 8  # a sentence of so few still says something
_SHORT_BONUS: Final = 0.06
_USUAL_TOKENS: Final = 30
_GAP: Final = "…"
_MOST_TOKEN_CHARS: Final = 8  # what is longer need not be counted to be too long
_FEW_WORDS: Final = 4  # a piece with fewer is not understood without the one before it
_JOIN_TOKENS: Final = 1
_LETTER: Final = re.compile(r"\w")


@lru_cache(maxsize=1024)  # a prompt compares each of its pieces several times
def _normal_text(text: str) -> str:
    return normal_line(text)


class Fact(Struct, frozen=True):  # made for each piece, several times
    """The content of one line of a source.

    Args:
        said: Its text, normalised by `similarity.normal`.
        turns: The turns that it rests on.
    """

    said: str
    turns: frozenset[int] = frozenset()


class PieceSource(Struct, frozen=True):
    """The source of pieces: a memory file, or a conversation.

    Args:
        key: The file's path, or the conversation's name.
        label: Its title and day.
        kind: Prefix of the label, e.g. `From memory`.
        phrases: The language in which the two are joined.
        whole: All of its visible text, if it is short enough to be shown whole.
        is_entry: It was written to be shown whole.
        size_tokens: Approximate tokens of all of it.
        origin: For a conversation, its channel and day.
        place: Its channel, where the label names it.
        brief: The label without what it shares with others of its kind and place; empty for none.
        day: Its day, as `2026-01-31`, possibly with the part of the day; empty for none.
        facts: The lines of `whole`, if some of them may occur elsewhere as well.
    """

    key: str
    label: str
    kind: str = ENGLISH.from_memory
    whole: str = ""
    is_entry: bool = False
    size_tokens: int = 0
    origin: str = ""
    place: str = ""
    brief: str = ""
    day: str = ""
    facts: tuple[Fact, ...] = ()
    phrases: Phrases = ENGLISH

    @property
    def heading(self) -> str:
        """The line above its text."""
        label = framed(self.label, _LABEL_CHARS) if self.label else ""
        return self.phrases.labelled(self.kind, label)

    @property
    def group(self) -> tuple[str, str]:
        """What its heading says in common with others; an entry may be moved away from them."""
        return self.kind, self.key if self.is_entry else self.place

    @property
    def next_heading(self) -> str:
        """The line above its text after another source of its group."""
        return f"[{self.brief}]" if self.brief else self.heading


class Excerpt(Struct, frozen=True):
    """A line or a turn that matches the message.

    Args:
        source: The key of its source.
        start: Its start there.
        end: Its end there; the next piece starts at or after it.
        text: Its text for the model.
        score: The score by which pieces are sorted.
        strength: Its own evidence, in [0, 1].
        turns: The turns that it rests on.
        vague: 0 for a turn or a session, more for text derived from it.
        before: Returns the preceding piece, for one that needs it to be understood.
        named: The message names its source.
        is_turn: It is one of the turns itself.
        after: For a turn, the one before it in its channel; 0 if unknown.
        lead: Length of the speaker's label at its start.
        is_part: Some of its sentences are left out.
        span: For a part of a long turn, where it begins and ends there, without the speaker.
        gap_after: The white space after such a part.
        lift: Added to its score because a line cites it, but not among the first quotes.
    """

    source: str
    start: int
    end: int
    text: str
    score: float
    strength: float = 0.0
    turns: frozenset[int] = frozenset()
    vague: int = 0
    before: Callable[[], Excerpt] | None = None
    named: bool = False
    is_turn: bool = False
    after: int = 0
    lead: int = 0
    is_part: bool = False
    span: tuple[int, int] = (0, 0)
    gap_after: str = ""
    lift: float = 0.0

    @property
    def place(self) -> tuple[int, int]:
        """Its place in the source, for sorting."""
        return self.start, self.span[0]

    @property
    def fact(self) -> Fact:
        """Its content."""
        return Fact(_normal_text(self.text), self.turns)


class PackedSource(Struct, frozen=True):
    """The part of a source in the prompt.

    Args:
        pieces: The pieces that fit, in order.
        is_cut: The source is not complete.
    """

    source: PieceSource
    text: str
    pieces: tuple[Excerpt, ...]
    is_cut: bool

    @property
    def best(self) -> Excerpt:
        """The best of its pieces."""
        return max(self.pieces, key=lambda piece: piece.score)

    def passage(self) -> Passage:
        """Return it as a passage that does not say where it is from."""
        source, best = self.source, self.best
        return Passage(
            source.label,
            source.heading,
            best.score,
            best.strength,
            self.text,
            next_heading=source.next_heading,
            group=source.group,
        )


class Passage(Struct, frozen=True):
    """The part taken from one file, or from one stretch of the past.

    Args:
        label: Its title and day.
        heading: The line above it in the prompt.
        score: The score by which passages are sorted.
        strength: Its own evidence, whatever else was found: the larger of the share of the
            question's words that it contains, and of its similarity in meaning.
        text: Its text for the model.
        rel_path: The file; None for turns.
        lines: Its first and its last line there.
        sha256: Hash of the file.
        turns: The first and the last turn, for a conversation.
        origin: Their conversation.
        is_cut: The file is not complete.
        whole_tokens: Approximate tokens of the whole file; 0 if unknown.
        place: Returns its piece of a prompt where its book places it; None for no wish.
        next_heading: The line above it after another passage of its `group`.
        group: Its kind, and its channel.
    """

    label: str
    heading: str
    score: float
    strength: float
    text: str
    rel_path: str | None = None
    lines: tuple[int, int] | None = None
    sha256: str = ""
    turns: tuple[int, int] | None = None
    origin: str = ""
    is_cut: bool = False
    whole_tokens: int = 0
    place: Callable[..., Contribution] | None = None
    next_heading: str = ""
    group: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        """Its name in a record: its file, or its turns."""
        if self.rel_path is not None:
            return self.rel_path
        first, last = self.turns or (0, 0)
        return f"turns {first}-{last}" if last > first else f"turn {first}"


def brief_headings(passages: Sequence[Passage]) -> list[Passage]:
    """Return passages whose headings do not repeat what the one before says."""
    return [
        replace(one, heading=one.next_heading) if last and last.group == one.group else one
        for last, one in zip((None, *passages), passages, strict=False)
    ]


class Filling(Struct, frozen=True):
    """What fits, best first, and why the rest does not, by source.

    Args:
        has_room: More room would change nothing.
        resume: How far more room would change nothing; None if that is unknown.
    """

    passages: tuple[PackedSource, ...]
    left: dict[str, str]
    has_room: bool = False
    resume: _Filler | None = None

    def count_tokens(self, counter: TokenCounter) -> int:
        """Count the tokens of the passages in a prompt."""
        shown = brief_headings([packed.passage() for packed in self.passages])
        return sum(counter.count(f"{one.heading}\n{one.text}") + _JOIN_TOKENS for one in shown)


class _Open(Struct):
    """A source from which something was taken."""

    pieces: list[Excerpt] = field(default_factory=list)
    places: set[tuple[int, int]] = field(default_factory=set)
    whole: str = ""
    cut: str = ""

    def copy(self) -> _Open:
        return _Open([*self.pieces], {*self.places}, self.whole, self.cut)

    def add(self, piece: Excerpt) -> None:
        self.pieces.append(piece)
        self.places.add(piece.place)


class Ranked(Struct, frozen=True):
    """Candidates in the order in which they are taken, however much room there is.

    Args:
        pieces: Each with the score that its own must come near.
        precision: The most precise source of each fact.
    """

    pieces: list[tuple[Excerpt, float]]
    precision: _Precision


def rank_pieces(pieces: Iterable[Excerpt], query: str = "") -> Ranked:
    """Order candidates; long turns are split into parts that match `query`."""
    pieces = [part for piece in pieces for part in _parts_of(piece, query)]
    precision = _Precision.of(pieces)
    best = max((piece.score for piece in pieces if not piece.named), default=0.0)
    best_turn = max((piece.score for piece in pieces if piece.is_turn), default=0.0)
    share_of_lines = RESTING_SHARE if best_turn > FREE_FLOOR * best else 1.0
    # A line of memory that fits very well says little about how well turns can fit.
    of_turns = max(best_turn, RESTING_SHARE * best)
    ranked: list[tuple[Excerpt, float]] = []
    for piece in pieces:
        if piece.is_turn:
            ranked.append((piece, of_turns))
        elif not (piece.vague and precision.exceeds(piece.fact, piece.vague)):
            share = share_of_lines if _rests_on_turns(piece) else 1.0
            score = share * piece.score
            one = piece if share == 1.0 else replace(piece, score=score)
            ranked.append((one, share * best))
    return Ranked(sorted(ranked, key=_rank_pair), precision)


def fill_room(
    ranked: Ranked,
    sources: Mapping[str, PieceSource],
    room: int,
    counter: TokenCounter,
    *,
    most_sources: int,
    line_tokens: int = 150,
    query: str = "",
    known: Collection[str] = (),
    guaranteed: int = 0,
    wide: bool = False,
    in_order: bool = False,
    quotes_first: bool = False,
    resume: _Filler | None = None,
) -> Filling:
    """Choose the pieces that fill `room` tokens best.

    Args:
        ranked: The candidates.
        sources: Their sources, by key.
        room: Available tokens.
        counter: The token counter.
        most_sources: Maximum number of sources.
        line_tokens: Maximum tokens of a piece; of a longer one, the part that matches `query` is
            taken.
        query: The search query.
        known: Lines that are in the prompt already, normalised by `normal_line`.
        guaranteed: Share of `room` that lines, and the same that turns, fill even with weaker
            matches; 0 for all of it.
        wide: Many turns are wanted, including those that score far lower than the best.
        in_order: Order passages by day instead of score.
        quotes_first: Turns that match by themselves come first, and lines that rest on turns last.
        resume: `Filling.resume` of less room, where all else is the same: go on from there.
    """
    filler = (
        resume.copy(room)
        if resume
        else _Filler(
            sources,
            room,
            counter,
            most_sources,
            line_tokens,
            query,
            ranked.precision,
            set(known),
            in_order,
            all_room=room,
        )
    )
    turns = islice(_in_turn(ranked, filler, quotes_first=quotes_first), filler.number, None)
    for number, (piece, highest) in enumerate(turns, filler.number):
        filler.number = number
        is_beyond = filler.spent[piece.is_turn] > (guaranteed or room)
        floor = highest * (FREE_FLOOR if is_beyond else WEAK)
        if piece.score < floor and not (piece.named or (wide and piece.is_turn)):
            filler.leave(piece, "it scored far lower than the other results")
        else:
            filler.take(piece)
    filling = filler.filling()
    if not guaranteed:  # then the floor depends on the room
        return filling
    # The order of quotes depends on what was taken before them.
    paused = None if quotes_first else filler.paused
    return replace(filling, has_room=not filler.lacks_room, resume=paused)


def _in_turn(
    ranked: Ranked, filler: _Filler, *, quotes_first: bool
) -> Iterator[tuple[Excerpt, float]]:
    """Yield candidates by their own match, then those that need their lift, or wait for turns."""
    late = [] if quotes_first else ranked.pieces
    for number, (piece, highest) in enumerate(ranked.pieces if quotes_first else ()):
        if filler.spent[True] >= OWN_TOKENS:
            late += ranked.pieces[number:]
            break
        is_weak = bool(piece.lift) and piece.score < FREE_FLOOR * highest
        if is_weak or _rests_on_turns(piece):
            late.append((piece, highest))
        else:
            yield piece, highest
    if not (quotes_first or any(piece.lift for piece, _ in late)):
        yield from late
        return
    lifted = [
        (replace(piece, score=piece.score + piece.lift) if piece.lift else piece, highest)
        for piece, highest in late
    ]

    def rank(pair: tuple[Excerpt, float]) -> tuple[object, ...]:
        return quotes_first and _rests_on_turns(pair[0]), *_rank_pair(pair)

    yield from sorted(lifted, key=rank)


def _parts_of(piece: Excerpt, query: str) -> list[Excerpt]:
    """Split a long turn into parts, the best with its score; a piece that is not long stays."""
    if not piece.is_turn or len(piece.text) - piece.lead <= PART_BYTES // 2:  # four bytes at most
        return [piece]
    words = piece.text[piece.lead :]
    if _size(words) <= 2 * PART_BYTES:
        return [piece]
    spans = [(a, b) for a, b in _part_spans(words) if words[a:b].strip()]
    fit = fts.matching_words([words[a:b] for a, b in spans], query)
    if not any(fit):
        fit[:1] = [1.0]
    return [
        replace(
            piece,
            text=piece.text[: piece.lead] + _mark_part(words, a, b),
            score=piece.score * (PART_SHARE + (1 - PART_SHARE) * own / max(fit)),
            is_part=True,
            span=(a, b),
            gap_after=_space_at(words, b),
        )
        for (a, b), own in zip(spans, fit, strict=True)
    ]


def _space_at(text: str, place: int) -> str:
    """Return the white space around a place in a text."""
    before, after = text[:place], text[place:]
    return before[len(before.rstrip()) :] + after[: len(after) - len(after.lstrip())]


def _part_spans(text: str) -> list[tuple[int, int]]:
    """Return the parts of a text: short paragraphs together, a long one by its sentences."""
    spans: list[tuple[int, int]] = []
    start = 0
    for paragraph in split_lines(text):
        is_long = _size(paragraph) > 2 * PART_BYTES
        ends = (*sentence_ends(paragraph), len(paragraph)) if is_long else (len(paragraph),)
        begun = start
        for end in (start + one for one in ends):
            if spans and _size(text[spans[-1][0] : end]) <= PART_BYTES:
                spans[-1] = spans[-1][0], end
            else:
                spans.append((begun, end))
            begun = end
        start += len(paragraph)
    return spans


def _size(text: str) -> int:
    """Return the bytes of a text: four are about one token, in any script."""
    return len(text.encode("utf-8", "replace"))


def _mark_part(text: str, start: int, end: int) -> str:
    """Return a part of a text, with a mark where something is left out."""
    first, last = f"{_GAP} " * (start > 0), f" {_GAP}" * (end < len(text.rstrip()))
    return f"{first}{text[start:end].strip()}{last}"


def _rests_on_turns(piece: Excerpt) -> bool:
    """Tell whether a line paraphrases turns that could be quoted."""
    return bool(piece.turns or piece.vague) and not (piece.is_turn or piece.named)


def _rank_pair(pair: tuple[Excerpt, float]) -> tuple[bool, float, str, int]:
    # What is named comes first. Of two that score alike the shorter says more for its tokens.
    piece, _ = pair
    if piece.named:
        return (False, -piece.score, piece.source, piece.start)
    length = math.log(max(len(piece.text), 4) / 4 / _USUAL_TOKENS)
    return (True, -(piece.score - _SHORT_BONUS * length), piece.source, piece.start)


class _Precision(Struct, frozen=True):
    """The most precise source of each fact: the least `vague` among its pieces."""

    said: dict[str, int]
    turns: dict[int, int]

    @classmethod
    def of(cls, pieces: Sequence[Excerpt]) -> _Precision:
        said: dict[str, int] = {}
        turns: dict[int, int] = {}
        for piece in pieces if any(piece.vague for piece in pieces) else ():  # nobody asks else
            fact = piece.fact
            said[fact.said] = min(said.get(fact.said, piece.vague), piece.vague)
            for turn in fact.turns:
                turns[turn] = min(turns.get(turn, piece.vague), piece.vague)
        return cls(said, turns)

    def exceeds(self, fact: Fact, vague: int) -> bool:
        """Tell whether one of the pieces states a fact more precisely."""
        by_turns = bool(fact.turns) and all(self.turns.get(t, vague) < vague for t in fact.turns)
        return by_turns or self.said.get(fact.said, vague) < vague


class _Filler(Struct):
    sources: Mapping[str, PieceSource]
    room: int
    counter: TokenCounter
    most_sources: int
    line_tokens: int
    query: str
    precision: _Precision
    said: set[str]
    in_order: bool
    turns: set[int] = field(default_factory=set)
    open: dict[str, _Open] = field(default_factory=dict)
    groups: set[tuple[str, str]] = field(default_factory=set)  # of what is open
    left: dict[str, str] = field(default_factory=dict)
    spent: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})  # on turns, lines
    all_room: int = 0
    number: int = 0  # of the piece that it is at
    paused: _Filler | None = None  # as it was before the first piece that lacked room

    @property
    def lacks_room(self) -> bool:
        """Whether more room could change what was taken."""
        return self.paused is not None

    def copy(self, room: int) -> _Filler:
        """Return a copy that has taken the same from another room."""
        return replace(
            self,
            room=self.room + room - self.all_room,
            all_room=room,
            said={*self.said},
            turns={*self.turns},
            open={key: taken.copy() for key, taken in self.open.items()},
            groups={*self.groups},
            left={**self.left},
            spent={**self.spent},
        )

    def take(self, piece: Excerpt) -> None:
        """Take a piece, or say why not."""
        known = self.open.get(piece.source)
        if known and (known.whole or known.cut):
            return
        if not _LETTER.search(piece.text):
            return
        if self._is_told(piece.fact, piece.vague):
            self.leave(piece, "it repeats what is already included")
            return
        if known is None and len(self.open) >= self.most_sources:
            self.leave(piece, f"{self.most_sources} others match better (search.k)")
            return
        source = self.sources[piece.source]
        frame = 0 if known else self._line_cost(self._heading_of(source)) + _JOIN_TOKENS
        if known is None and self._take_whole(source, frame, piece):
            return
        self._take_line(frame, self._shorten_piece(piece))

    def _heading_of(self, source: PieceSource) -> str:
        """Return the heading that a source will have, since its group stands together."""
        is_next = not self.in_order and source.group in self.groups
        return source.next_heading if is_next else source.heading

    def _shorten_piece(self, piece: Excerpt) -> Excerpt:
        if len(piece.text) <= _MOST_TOKEN_CHARS * self.line_tokens and (
            len(piece.text) <= self.line_tokens
            or self.counter.count(piece.text) <= self.line_tokens
        ):
            return piece
        lead, words = piece.text[: piece.lead], piece.text[piece.lead :]
        room = self.line_tokens - self.counter.count(lead) - 2 * _JOIN_TOKENS
        start, end = fts.best_part(words, self.query, room, self.counter.count)
        part = self._sentences(words[start:end].strip(), room)
        end = start + len(words[start:end].rstrip())
        marks = f"{_GAP} " * (start > 0), f" {_GAP}" * (end < len(words.rstrip()))
        return replace(piece, text=f"{lead}{marks[0]}{part}{marks[1]}", is_part=any(marks))

    def _sentences(self, text: str, room: int) -> str:
        return whole_sentences(text, room, self.counter.count, least=_LEAST_TOKENS)

    def leave(self, piece: Excerpt, why: str) -> None:
        """Record why a piece is left out."""
        self.left.setdefault(piece.source, why)

    def filling(self) -> Filling:
        """Return the pieces taken."""
        passages = [
            _pack_source(self.sources[key], taken)
            for key, taken in self.open.items()
            if taken.pieces
        ]
        passages.sort(key=lambda packed: (-packed.best.score, packed.source.key))
        if self.in_order:
            passages.sort(key=lambda packed: packed.source.day)
        else:
            groups = list(dict.fromkeys(packed.source.group for packed in passages))
            passages.sort(key=lambda packed: groups.index(packed.source.group))
        left = {key: why for key, why in self.left.items() if key not in self.open}
        return Filling(tuple(passages), left)

    def _take_whole(self, source: PieceSource, frame: int, piece: Excerpt) -> bool:
        """Take all of a source that is short or meant to be read whole; tell whether it fit."""
        if not source.whole:
            return False
        if any(self._is_told(fact, piece.vague) for fact in source.facts):
            return False
        cost = frame + self.counter.count(source.whole)
        is_first = not self.open
        if cost <= self.room and (is_first or cost <= WHOLE_SHARE * self.all_room):
            self._pay(piece, cost).whole = source.whole
            self._note(source.facts)
            return True
        self._pause()
        if not source.is_entry or self.room < frame + USEFUL_TOKENS:
            return False
        share = self.room if is_first else min(self.room, int(WHOLE_SHARE * self.all_room))
        text = self._sentences(_from_best(source.whole, piece.text), share - frame)
        if not _LETTER.search(text):
            return False
        self._pay(piece, frame + self.counter.count(text)).cut = text
        return True

    def _take_line(self, frame: int, piece: Excerpt) -> None:
        known = self.open.get(piece.source)
        wanted = [] if known and piece.place in known.places else [piece]
        before = _needed_before(piece)
        if before and not (known and any(p.start == before.start for p in known.pieces)):
            parts = _parts_of(replace(before, score=1.0), self.query)
            best = max(parts, key=lambda part: part.score)
            wanted.insert(0, self._shorten_piece(replace(best, score=before.score)))
        # A mark stands for what is left out beside it.
        has_gap = known and not any(_is_next(piece, other) for other in known.pieces)
        frame += self._line_cost(_GAP) if has_gap else 0
        cost = frame + sum(self._line_cost(p.text) for p in wanted)
        if cost > self.room:
            self._pause()
        if cost > self.room and len(wanted) > 1:
            wanted = [piece]
            cost = frame + self._line_cost(piece.text)
        if cost <= self.room:
            taken = self._pay(piece, cost)
            for other in wanted:
                if other is not piece:
                    taken.add(other)
            return
        self.leave(piece, f"it has {cost} tokens, but only {self.room} were left")
        if not self.open and self.room >= frame + USEFUL_TOKENS:
            text = self._sentences(piece.text, self.room - frame - _JOIN_TOKENS)
            if _LETTER.search(text):
                self._pay(piece, frame + self.counter.count(text) + _JOIN_TOKENS).cut = text

    def _pause(self) -> None:
        """Keep what has been taken before the first piece that lacks room."""
        self.paused = self.paused or self.copy(self.all_room)

    def _line_cost(self, text: str) -> int:
        return self.counter.count(f"{text}\n")

    def _pay(self, piece: Excerpt, cost: int) -> _Open:
        self.room -= cost
        self.spent[piece.is_turn] += cost
        self._note([piece.fact])
        taken = self.open.setdefault(piece.source, _Open())
        self.groups.add(self.sources[piece.source].group)
        taken.add(piece)
        return taken

    def _note(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            self.said.add(fact.said)
            self.turns |= fact.turns

    def _is_told(self, fact: Fact, vague: int) -> bool:
        """Tell whether a fact is included, or will be from a more precise source."""
        if fact.said and fact.said in self.said:
            return True
        if not vague:  # nothing is more precise
            return False
        is_in_turns = bool(fact.turns) and self.turns.issuperset(fact.turns)
        return is_in_turns or self.precision.exceeds(fact, vague)


def _needed_before(piece: Excerpt) -> Excerpt | None:
    """Return the preceding piece of one that needs it: a short answer, or part of a long one."""
    if piece.before is None:
        return None
    is_short = len(_normal_text(piece.text).split()) < _FEW_WORDS
    return piece.before() if is_short or piece.is_part else None


def _is_next(piece: Excerpt, other: Excerpt) -> bool:
    """Tell whether nothing is left out between two pieces of a source.

    Turn numbers would reveal turns of other channels, so a turn is next only to one it follows.
    """
    if piece.is_turn and piece.start != other.start:
        return piece.after == other.start or other.after == piece.start
    return piece.start <= other.end + 1 and other.start <= piece.end + 1


def _from_best(whole: str, best: str) -> str:
    """Return `whole`, or only its end from the best match if that is far down."""
    at = whole.find(best)
    return whole if at < len(whole) // 2 else whole[at:]


def _pack_source(source: PieceSource, taken: _Open) -> PackedSource:
    pieces = tuple(sorted({p.place: p for p in taken.pieces}.values(), key=lambda p: p.place))
    if taken.whole:
        return PackedSource(source, taken.whole, pieces, is_cut=False)
    if taken.cut:
        return PackedSource(source, taken.cut, pieces, is_cut=True)
    lines: list[str] = []
    for piece, last in zip(pieces, (None, *pieces), strict=False):
        if last and last.start == piece.start:  # parts of one turn
            gap = last.gap_after if last.span[1] == piece.span[0] else f" {_GAP} "
            rest = piece.text[piece.lead :].removeprefix(f"{_GAP} ")
            lines[-1] = lines[-1].removesuffix(f" {_GAP}") + gap + rest
            continue
        has_gap = last is not None and not _is_next(piece, last)
        if has_gap and not (lines[-1].endswith(_GAP) or piece.text.startswith(_GAP)):
            lines.append(_GAP)
        lines.append(piece.text)
    return PackedSource(source, "\n".join(lines), pieces, is_cut=True)
