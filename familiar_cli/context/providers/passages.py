"""Passages of memory for the model, without what it must not see.

Left out of a file are: text said in private elsewhere, lines that rest on turns in the prompt, keys
and marks of lore entries, and machine-readable parts. Lore is written like a card, so its macros
are expanded; anything else in memory is data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.languages import ENGLISH, Phrases
from familiar_cli.base.markdown import body_start, bullet, scan, title_of
from familiar_cli.base.text import one_line, sha256_of
from familiar_cli.context.lore_placement import place_of, place_piece
from familiar_cli.context.providers.packing import EXCHANGE, Excerpt, Fact, Passage, PieceSource
from familiar_cli.context.types import KEPT_BACK
from familiar_cli.store import fts
from familiar_cli.store.memory.layout import LORE_DIR, PEOPLE_DIR
from familiar_cli.store.memory.pages import lines as memory_lines
from familiar_cli.store.memory.pages import visible_lines
from familiar_cli.store.memory.pages.facts import days_shown, ended_spans
from familiar_cli.store.memory.pages.front_matter import aside_spans, parse_lore
from familiar_cli.store.search.hits import DENSE_FLOOR as NEAR
from familiar_cli.store.search.hits import below_heading, holds_any, label_of
from familiar_cli.store.search.who_when import period_of

if TYPE_CHECKING:
    from familiar_cli.base.who.visibility import Viewer
    from familiar_cli.context.character import Macros
    from familiar_cli.context.lore_gates import LoreGates
    from familiar_cli.context.providers.packing import PackedSource
    from familiar_cli.context.request import ContextRequest
    from familiar_cli.context.types import Contribution
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.memory.pages.lore_settings import LoreSettings
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.store.search.types import Hit, Spans

CITED_SHARE: Final = 0.5
"""What a line's score counts for the turns it rests on, which may hold none of the words."""

LABEL_CHARS: Final = 80
_SHORT_CHARS: Final = 1200
_CHARS_A_TOKEN: Final = 4  # about
_VAGUE: Final = {"daily": 1, "weekly": 2, "monthly": 3, "yearly": 4, "digest": 5}

PRIVATE: Final = "it was said in private elsewhere"
SHOWN: Final = "it is based on turns that are already included"
ENDED: Final = "a newer line replaced it, and the question is not about the past"
DISABLED: Final = f"{KEPT_BACK}: it is disabled, until `Disabled` is taken from its list"
LOADED: Final = "it is already included as a participant's file"
_NOT_ITS_WORDS: Final = "only its keys match"
NAME_ALONE: Final = "the only match is a word that may be its person's name"
_BOLD_SPEAKER: Final = re.compile(r"^\*\*([^*\n:]+):\*\*", re.MULTILINE)
_EMPTY: Final = "it is empty apart from headings and comments"


def open_gates(
    store: MemoryStore, history: HistoryStore, request: ContextRequest, macros: Macros
) -> Callable[[], LoreGates]:
    """Return a function that opens the gates of a turn on its first call."""

    @cache
    def opened() -> LoreGates:
        from familiar_cli.context.lore_gates import LoreGates  # noqa: PLC0415  # few prompts have lore

        return LoreGates(store, history, request, macros)

    return opened


class PartlyHiddenFile(Struct, frozen=True):
    """A file, and its parts that are hidden from the model.

    Args:
        text: The file.
        private: The ranges that the viewer does not see, sorted.
        hidden: Hidden ranges with reasons, sorted.
        left_out: All ranges that are not shown: hidden and machine-readable ones, sorted.
        why_not: Why all of it is hidden.
        days: The days of its lines, as `facts.days_shown` gives them.
    """

    text: str
    private: Spans
    hidden: tuple[tuple[int, int, str], ...] = ()
    left_out: tuple[tuple[int, int], ...] = ()
    why_not: str = ""
    days: Mapping[int, str] = field(default_factory=dict)

    def reason_at(self, place: int) -> str:
        """Return why the character at `place` is hidden; empty if it is not."""
        return next((why for start, end, why in self.hidden if start <= place < end), "")

    def between(self, start: int, end: int) -> str:
        """Return the text shown there."""
        return memory_lines.shown_between(self.text, start, end, self.left_out, self.days)

    @property
    def shown(self) -> str:
        """All that is shown of it."""
        return self.between(0, len(self.text))

    def lines_of(self, start: int, end: int) -> str:
        """Return the text from `start` to the end of the line: a long one cites at its end."""
        last = self.text.find("\n", max(start, end - 1))
        end = last if last >= 0 else len(self.text)
        return memory_lines.shown_between(self.text, start, end, self.private)


class Whole(Struct, frozen=True):
    """The visible text of a file.

    Args:
        label: Its title in one line.
        text: The text, without the title.
        why_not: Why nothing of it is visible; empty if something is.
        is_part: Some of it is hidden.
    """

    label: str
    text: str
    why_not: str = ""
    is_part: bool = False


class Sight(Struct, frozen=True):
    """Decides what a model may see of memory in one turn.

    Args:
        window: Returns the turns in the prompt.
        macros: The values of macros in lore.
        phrases: The language of labels.
        numbering: The mapping of citations to turns.
        has_past: The question is about the past; otherwise ended lines are hidden.
        gates: Returns the gates of lorebooks; None to leave them open.
    """

    viewer: Viewer
    window: Callable[[], frozenset[int]]
    macros: Macros
    phrases: Phrases = ENGLISH
    numbering: memory_lines.Numbering = memory_lines.PLAIN
    has_past: bool = False
    gates: Callable[[], LoreGates] | None = None

    def of(self, rel_path: str, text: str, private: Spans | None = None) -> PartlyHiddenFile:
        """Return the visible part of a file.

        Args:
            private: The ranges that the viewer does not see, if they are known.
        """
        if private is None:
            private = visible_lines.private_spans(text, self.viewer, rel_path)
        is_lore = rel_path.startswith(f"{LORE_DIR}/")
        if is_lore and (why_not := self.kept_back(rel_path, text)):
            return PartlyHiddenFile(text, private, why_not=why_not)
        hidden = [(*span, SHOWN) for span in self._of_window(text)]
        hidden += [(*span, PRIVATE) for span in private]
        if not self.has_past:
            hidden += [(*span, ENDED) for span in ended_spans(text)]
        if is_lore:
            hidden += [(*span, _NOT_ITS_WORDS) for span in aside_spans(text)]
        days = {} if is_lore else days_shown(text, self.numbering, self.viewer, self.phrases)
        left_out = sorted([*(span[:2] for span in hidden), *memory_lines.machine_spans(text)])
        return PartlyHiddenFile(text, private, tuple(sorted(hidden)), tuple(left_out), days=days)

    def kept_back(self, rel_path: str, text: str) -> str:
        """Return why a lore entry is not offered in this turn; empty if it may be."""
        page = parse_lore(text)
        if not page.enabled:
            return DISABLED
        return (
            self.gates().reason(rel_path, page) if self.gates and page.entry_id is not None else ""
        )

    def settings_of(self, rel_path: str, text: str) -> LoreSettings | None:
        """Return the settings of a lore entry, if a book has any."""
        is_lore = rel_path.startswith(f"{LORE_DIR}/")
        return self.gates().settings(rel_path, text) if self.gates and is_lore else None

    def place(self, piece: Contribution, rel_path: str, text: str, body: str) -> Contribution:
        """Return a piece of a file at the place that its book gives it.

        Args:
            text: The file.
            body: The piece without its heading.
        """
        settings = self.settings_of(rel_path, text)
        return place_piece(piece, place_of(settings), body, self.macros) if settings else piece

    def whole(self, rel_path: str, text: str) -> Whole:
        """Return all of a file that may be shown."""
        seen = self.of(rel_path, text)
        visible = visible_lines.without_spans(text, seen.private)
        title = title_of(visible[body_start(visible) :])
        below = _below_title(seen.shown, title)
        return Whole(
            one_line(title, LABEL_CHARS) or rel_path.rpartition("/")[2],
            self.words(rel_path, below),
            seen.why_not or ("" if any(map(str.isalnum, below)) else _EMPTY),
            any(why not in {_NOT_ITS_WORDS, ENDED} for _, _, why in seen.hidden),
        )

    def turns_of(self, text: str) -> frozenset[int]:
        """Return the local turns cited in a line, or in a longer text."""
        return frozenset(memory_lines.turn_ids(text, self.numbering) if "<!-- turn" in text else ())

    def words(self, rel_path: str, text: str) -> str:
        """Return the visible text of a file, expanding macros in lore only."""
        return self.macros.expand(text).strip() if rel_path.startswith(f"{LORE_DIR}/") else text

    def _of_window(self, text: str) -> list[tuple[int, int]]:
        """Return the ranges of lines all of whose turns are in the prompt."""
        if "<!-- turn" not in text:
            return []
        spans, start = [], 0
        for line in scan(text):
            if not line.text.strip() or line.level:
                start = line.end
            elif bullet(line.text):
                start = line.start
            if memory_lines.citations_in(line.text):
                if self._are_shown(line.text):
                    spans.append((start, line.end))
                start = line.end
        return spans

    def _are_shown(self, line: str) -> bool:
        """Tell whether the prompt shows all turns that a line names."""
        shown = self.window()
        return shown.issuperset(
            memory_lines.turn_ids(line, self.numbering)
        ) and self.numbering.holds(line)


class Gatherer(Struct):
    """Collects found lines, best first, if they are visible.

    Args:
        sight: The filter of visible memory.
        loaded: Text that is in the prompt already, by file.
        query: The search query.
        elsewhere: Files that other providers offer.
        most_chars: Stop once the pieces have this many characters.
        most_files: Stop once they come from this many files, before another one.
        pieces: The collected pieces.
        sources: Their files.
        refused: Why a file is left out, by path.
    """

    sight: Sight
    loaded: Mapping[str, Contribution]
    query: str = ""
    elsewhere: frozenset[str] = frozenset()
    most_chars: int = 20_000
    most_files: int = 1_000
    pieces: list[Excerpt] = field(default_factory=list)
    sources: dict[str, PieceSource] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    _files: dict[str, PartlyHiddenFile] = field(default_factory=dict)
    _headings: dict[str, str] = field(default_factory=dict)  # that a passage's label names
    _chars: int = 0

    def __call__(self, hit: Hit, text: str, private: Spans) -> bool | None:
        """Collect a line if it is visible; return whether it was, or None if there are enough."""
        is_new = hit.rel_path not in self.sources
        if self._chars >= self.most_chars or (is_new and len(self.sources) >= self.most_files):
            return None
        file = self._files.get(hit.rel_path)
        if file is None:
            file = self._files[hit.rel_path] = self.sight.of(hit.rel_path, text, private)
        shown = _below_title(file.between(hit.char_start, hit.char_end), hit.title)
        why_not = (
            file.why_not
            or file.reason_at(hit.best_start)
            or self._hidden_alone(file, shown)
            or self._is_there(hit, shown)
        )
        if why_not:
            self.refused.setdefault(hit.rel_path, why_not)
            return False
        if is_new:
            self.sources[hit.rel_path] = self._source(hit, file)
            self._headings[hit.rel_path] = hit.heading
        if hit.heading == self._headings.get(hit.rel_path, ""):
            shown = below_heading(shown, hit.heading)
        piece = self._piece(hit, file, shown)
        self.pieces.append(piece)
        self._chars += len(piece.text)
        return True

    def add_named(self, rel_paths: Sequence[str], read: Callable[[str], str]) -> None:
        """Add named files in this order; they come before files that merely match."""
        for number, rel_path in enumerate(rel_paths):
            if rel_path in self.loaded or rel_path.startswith(f"{PEOPLE_DIR}/"):
                continue  # people's files have a provider of their own
            text = read(rel_path)
            whole = self.sight.whole(rel_path, text)
            if whole.why_not:
                self.refused.setdefault(rel_path, whole.why_not)
                continue
            self._files.setdefault(rel_path, self.sight.of(rel_path, text))
            known = self.sources.get(rel_path)
            self.sources[rel_path] = PieceSource(
                key=rel_path,
                label=known.label if known else whole.label,
                kind=self.sight.phrases.from_memory,
                phrases=self.sight.phrases,
                whole=whole.text,
                is_entry=True,
                size_tokens=len(whole.text) // _CHARS_A_TOKEN,
            )
            self.pieces.append(
                Excerpt(rel_path, 0, len(text), whole.text, 1 - number / 1000, 1.0, named=True)
            )

    def cited(self) -> dict[int, float]:
        """Return the turns that the pieces rest on, with their share of the best score."""
        found: dict[int, float] = {}
        for piece in self.pieces:
            if len(piece.turns) <= EXCHANGE and not piece.vague:
                found |= {
                    turn: max(CITED_SHARE * piece.score, found.get(turn, 0.0))
                    for turn in piece.turns
                }
        return found

    def passage(self, packed: PackedSource) -> Passage:
        """Return the packed part of a file as a passage."""
        key = packed.source.key
        file = self._files[key]
        first, last = packed.pieces[0].start, packed.pieces[-1].end
        text, private = file.text, file.private
        ends = (first, last) if packed.is_cut else (0, len(text))
        first, last = (
            visible_lines.line_for(text, place, self.sight.viewer, private=private)
            for place in ends
        )
        return replace(
            packed.passage(),
            rel_path=key,
            lines=(first, last),
            sha256=sha256_of(visible_lines.without_spans(text, private)),
            is_cut=packed.is_cut,
            whole_tokens=packed.source.size_tokens if packed.is_cut else 0,
            place=partial(self.sight.place, rel_path=key, text=text),
        )

    def settings_of(self, rel_path: str) -> LoreSettings | None:
        """Return the settings of a collected lore entry, if a book has any."""
        file = self._files.get(rel_path)
        return self.sight.settings_of(rel_path, file.text) if file else None

    def _hidden_alone(self, seen: PartlyHiddenFile, shown: str) -> str:
        """Return why a hit is rejected if all its matching words are hidden."""
        # What is private is not searched at all.
        why = next((why for _, _, why in seen.hidden if why not in {_NOT_ITS_WORDS, PRIVATE}), "")
        if not why:
            return ""
        return "" if holds_any(shown, self.query) else why

    def _is_there(self, hit: Hit, shown: str) -> str:
        if all(not line.text.strip() or line.level for line in scan(shown)):
            return _EMPTY
        loaded = self.loaded.get(hit.rel_path)
        if loaded:
            return LOADED if shown in loaded.text else ""
        return NAME_ALONE if self._only_names(hit, shown) else ""

    def _only_names(self, hit: Hit, shown: str) -> bool:
        """Tell whether a person was found only by a common word that is also a name."""
        if not hit.rel_path.startswith(f"{PEOPLE_DIR}/") or (hit.signals.dense or 0.0) >= NEAR:
            return False
        if not hit.signals.coverage and shown in hit.text:
            return True  # as of most
        found = set(fts.content_words(self.query)).intersection(fts.words(shown))
        return not found or found.issubset(fts.words(hit.title))

    def _words(self, rel_path: str, shown: str) -> str:
        """Return the visible text of a file, with its speakers written as in past turns."""
        return _BOLD_SPEAKER.sub(r"\1:", self.sight.words(rel_path, shown))

    def _piece(self, hit: Hit, file: PartlyHiddenFile, shown: str) -> Excerpt:
        signals = hit.signals
        return Excerpt(
            source=hit.rel_path,
            start=hit.char_start,
            end=hit.char_end,
            text=self._words(hit.rel_path, shown),
            score=hit.score,
            strength=round(max(signals.coverage, signals.dense or 0.0), 4),
            turns=self.sight.turns_of(file.lines_of(hit.char_start, hit.char_end)),
            vague=_VAGUE.get(hit.rel_path.partition("/")[0], 0),
        )

    def _source(self, hit: Hit, seen: PartlyHiddenFile) -> PieceSource:
        is_lore, shown = hit.rel_path.startswith(LORE_DIR), seen.shown
        may_be_whole = hit.rel_path not in self.loaded and (len(shown) <= _SHORT_CHARS or is_lore)
        below = _below_title(shown, hit.title) if may_be_whole else ""
        whole = self._words(hit.rel_path, below)
        period, phrases = period_of(hit.rel_path), self.sight.phrases
        label = label_of(hit, phrases, is_whole=bool(whole))
        return PieceSource(
            key=hit.rel_path,
            label=label,
            brief=label if _is_day(label, hit.day, phrases) else "",
            kind=phrases.from_memory,
            phrases=phrases,
            whole=whole,
            is_entry=is_lore,
            size_tokens=len(shown) // _CHARS_A_TOKEN,
            day=hit.day or (period.first.isoformat() if period else ""),
            facts=_facts_in(seen, self.sight) if whole and not is_lore else (),
        )


def _facts_in(seen: PartlyHiddenFile, sight: Sight) -> tuple[Fact, ...]:
    is_short = len(seen.text) <= _MOST_CACHED_CHARS
    is_plain = is_short and not seen.left_out and "<!--" not in seen.text
    return _plain_facts(seen.text) if is_plain else tuple(_read_facts(seen, sight.turns_of))


_MOST_CACHED_CHARS: Final = 16_384  # all that is cached stays in memory


@lru_cache(maxsize=512)  # one question after another finds the same short pages
def _plain_facts(text: str) -> tuple[Fact, ...]:
    return tuple(_read_facts(PartlyHiddenFile(text, ()), lambda _: frozenset()))


def _read_facts(
    seen: PartlyHiddenFile, turns_of: Callable[[str], frozenset[int]]
) -> Iterator[Fact]:
    """Yield the facts in the lines of a file."""
    for line in scan(seen.text):
        if line.level or not line.text.strip():
            continue
        said = memory_lines.normal_line(seen.between(line.start, line.end))
        if said:
            yield Fact(said, turns_of(line.text))


def _is_day(label: str, day: str, phrases: Phrases) -> bool:
    """Tell whether a label is a day, or a part of one, and nothing that anybody wrote."""
    if not day:
        return False
    shown = phrases.day(date.fromisoformat(day))
    parts = ("", *(f"{phrases.comma}{part}" for part in phrases.parts))
    return label in {f"{shown}{part}" for part in parts}


def _below_title(text: str, title: str) -> str:
    """Remove the title at the start of `text`, which the label contains."""
    first, _, rest = text.partition("\n")
    same = first.startswith("# ") and first[2:].strip() == title
    return rest.strip() if same and rest.strip() else text
