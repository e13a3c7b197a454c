"""Parse the annotations on a page's lines: citations, tags, private sections, machine text.

- Citations name the turns that support a line, in an HTML comment at its end.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from itertools import groupby
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct

from familiar_cli.base import markdown
from familiar_cli.base.errors import NotFoundError, UsageError
from familiar_cli.base.text import fold, harmless
from familiar_cli.base.who.visibility import OWNERS, PUBLIC, Viewer

_INSTANCE: Final = r"[a-z0-9]++(?:-[a-z0-9]++)*+"
_ONE: Final = rf"(?:{_INSTANCE}:)?+[0-9]{{1,19}}+"
BODY: Final = rf"{_ONE}(?:[-,; ]++{_ONE})*+"
"""What follows the word `turns` in the comment; the syntax is unambiguous."""

_TURN_NAME: Final = re.compile(_ONE)
_REFERENCE: Final = re.compile(rf"[ \t]{{0,9}}<!-- turns? ({BODY}) -->")
_CONFIRMED: Final = re.compile(r"[ \t]{0,9}<!-- confirmed [0-9]{4}-[0-9]{2}-[0-9]{2} -->")
_RANGE: Final = re.compile(rf"(?:({_INSTANCE}):)?+([0-9]+)(?:-([0-9]+))?|;")
_MOST_IN_RANGE: Final = 10_000  # limits the damage of a typo
_NEWEST: Final = 20


class TurnRange(NamedTuple):
    """A range of consecutive turns.

    Args:
        instance: Instance whose numbers these are; empty for the original instance.
        first: First turn.
        last: Last turn.
    """

    instance: str
    first: int
    last: int

    @property
    def ids(self) -> range:
        """The numbers, or only the first if there are implausibly many."""
        return range(self.first, min(self.last, self.first + _MOST_IN_RANGE) + 1)


class Numbering(Struct, frozen=True):
    """Maps citations to local turns and back.

    Args:
        own: This instance; empty if it has no id yet and all its turns are its own.
        began: The original instance.
        find: Returns the local ids of another instance's turns held here, by their numbers there.
        origins: Returns the original instance and number of local turns that came from elsewhere.
        days: Returns the days of local turns visible to a viewer, in the familiar's timezone.
    """

    own: str = ""
    began: str = ""
    find: Callable[[str, Collection[int]], Mapping[int, int]] = lambda _, __: {}
    origins: Callable[[Collection[int]], Mapping[int, tuple[str, int]]] = lambda _: {}
    days: Callable[[Collection[int], Viewer], Mapping[int, date]] = lambda _, __: {}

    def cite(self, turn_ids: Iterable[int]) -> list[TurnRange]:
        """Return the citations for local turns."""
        wanted = set(turn_ids)
        elsewhere = self.origins(wanted) if wanted else {}
        items = (elsewhere.get(turn_id, (self.own, turn_id)) for turn_id in wanted)
        return _join_citations(TurnRange(instance, number, number) for instance, number in items)

    def local(self, cited: TurnRange) -> Mapping[int, int]:
        """Return the local ids of a citation's turns held here, by number."""
        instance = cited.instance or self.began
        if instance == self.own:
            return {number: number for number in cited.ids}
        return self.find(instance, cited.ids)

    def cited_days(self, texts: Iterable[str], viewer: Viewer) -> list[dict[date, list[int]]]:
        """Return, per text, the days of its cited turns visible to a viewer, with the turns.

        Each instance's turns and all days are looked up once for all texts. Of a long range only
        the last turns count, being the newest.
        """
        citations = [
            {(c.instance or self.began, n) for c in citations_in(t) for n in c.ids[-_NEWEST:]}
            for t in texts
        ]
        numbers: dict[str, set[int]] = {}
        for instance, number in set().union(*citations):
            numbers.setdefault(instance, set()).add(number)
        local: dict[tuple[str, int], int] = {}
        for instance, some in numbers.items():
            here = {n: n for n in some} if instance == self.own else self.find(instance, some)
            local |= {(instance, number): turn for number, turn in here.items()}
        days = self.days(set(local.values()), viewer) if local else {}
        matches: list[dict[date, list[int]]] = []
        for one in citations:
            by_day: dict[date, list[int]] = {}
            for turn in sorted(local[name] for name in one if name in local):
                if turn in days:
                    by_day.setdefault(days[turn], []).append(turn)
            matches.append(by_day)
        return matches

    def newest_days(self, texts: Iterable[str], viewer: Viewer) -> list[date | None]:
        """Return, per text, the day of the newest cited turn visible to a viewer."""
        return [max(days, default=None) for days in self.cited_days(texts, viewer)]

    def turn_number(self, name: str | int) -> int:
        """Resolve a turn, given as `number` or `instance:number`, to its local number.

        Raises:
            NotFoundError: That instance's turn is not stored here.
            UsageError: `name` is neither.
        """
        citation = parse_turn_name(str(name))
        if citation is None:
            raise UsageError(
                f"{str(name)[:60]!r} is not a turn",
                hint="Use its number, CHANNEL:NUMBER or INSTANCE:NUMBER; `familiar history show` "
                "lists turns.",
            )
        if not citation.instance:
            return citation.first
        position = self.local(citation).get(citation.first)
        if position is None:
            raise NotFoundError(
                f"Turn {str(name)!r} does not exist here", hint="Run `familiar history show`."
            )
        return position

    def holds(self, text: str) -> bool:
        """Tell whether every turn that a line cites is stored here."""
        return all(len(self.local(one)) == len(one.ids) for one in citations_in(text))

    def without(self, citations: Iterable[TurnRange], gone: Collection[int]) -> list[TurnRange]:
        """Remove local turns from citations, keeping turns not stored here."""
        left: list[TurnRange] = []
        for one in citations:
            fallen = {number for number, local in self.local(one).items() if local in gone}
            if fallen:
                left += (TurnRange(one.instance, n, n) for n in one.ids if n not in fallen)
            else:
                left.append(one)
        return _join_citations(left)

    def cite_originals(self, text: str, originals: Mapping[int, int]) -> str:
        """Return a text whose citations point to original turns instead of duplicates.

        Comments in code, and those citing implausibly many turns, are unchanged.

        Args:
            text: Markdown.
            originals: The original of each duplicate turn.
        """

        def replaced(comment: re.Match[str]) -> str:
            if turn_count(comment[0]) > _MOST_IN_RANGE:
                return comment[0]
            named = set(turn_ids(comment[0], self))
            doubles = named & originals.keys()
            if not doubles:
                return comment[0]
            added = {originals[double] for double in doubles} - named
            turns = [*self.without(citations_in(comment[0]), doubles), *self.cite(added)]
            return comment[0][: comment[0].index("<")] + citation_comment(turns)

        return _replace_comments(text, replaced)


def rename_turns(text: str, old: Collection[str], new: str, numbers: Collection[int]) -> str:
    """Return a text that cites some turns of an instance by its new id; code is unchanged.

    Args:
        text: Markdown.
        old: Its former ids; an empty one for the original instance.
        new: Its new id.
        numbers: The turns that have it.
    """

    def replaced(comment: re.Match[str]) -> str:
        citations = [TurnRange(c.instance, n, n) for c in citations_in(comment[0]) for n in c.ids]
        meant = {one for one in citations if one.instance in old and one.first in numbers}
        if not meant or turn_count(comment[0]) > _MOST_IN_RANGE:
            return comment[0]
        named = (one._replace(instance=new) if one in meant else one for one in citations)
        return comment[0][: comment[0].index("<")] + citation_comment(named)

    return _replace_comments(text, replaced)


def _replace_comments(text: str, replaced: Callable[[re.Match[str]], str]) -> str:
    lines = markdown.scan(text) if "<!-- turn" in text else ()
    whole = (x.text if x.in_code else _REFERENCE.sub(replaced, x.text) for x in lines)
    return "".join(whole) or text


PLAIN: Final = Numbering()
"""For a familiar on one machine whose citations name no instance."""


def citations_in(text: str) -> list[TurnRange]:
    """Return the citations of a text, in order."""
    return [one for comment in _REFERENCE.finditer(text) for one in _parse_citations(comment[1])]


def parse_turn_name(text: str) -> TurnRange | None:
    """Resolve `12` or `laptop-7f3a:12` to a turn, or None."""
    if not _TURN_NAME.fullmatch(text):
        return None
    instance, _, number = text.rpartition(":")
    return TurnRange(instance, int(number), int(number))


def _parse_citations(body: str) -> Iterator[TurnRange]:
    instance = ""
    for match in _RANGE.finditer(body):
        if not match[2]:
            instance = ""
            continue
        instance = match[1] or instance
        first, last = int(match[2]), int(match[3] or match[2])
        if last >= first:
            yield TurnRange(instance, first, last)


def citation_comment(turns: Iterable[TurnRange | int]) -> str:
    """Return the comment that cites `turns`; empty for none.

    Args:
        turns: A plain number refers to the original instance.
    """
    citations = _join_citations(
        one if isinstance(one, TurnRange) else TurnRange("", one, one) for one in turns
    )
    groups = (
        (f"{instance}:" if instance else "") + ", ".join(map(_format_range, group))
        for instance, group in groupby(citations, key=lambda one: one.instance)
    )
    body = "; ".join(groups)
    return f"<!-- turns {body} -->" if body else ""


def _join_citations(citations: Iterable[TurnRange]) -> list[TurnRange]:
    """Merge citations into as few ranges as possible, sorted by instance and number."""
    found: list[TurnRange] = []
    for one in sorted(citations):
        last = found[-1] if found else None
        if last and last.instance == one.instance and one.first <= last.last + 1:
            found[-1] = last._replace(last=max(last.last, one.last))
        else:
            found.append(one)
    return found


def _format_range(one: TurnRange) -> str:
    return f"{one.first}-{one.last}" if one.last > one.first else f"{one.first}"


def number_spans(turn_ids: Iterable[int]) -> str:
    """Format `turn_ids` as ranges: `12-14, 20`."""
    return ", ".join(map(_format_range, _join_citations(TurnRange("", n, n) for n in turn_ids)))


def turn_ids(line: str, numbering: Numbering) -> tuple[int, ...]:
    """Return the local turns a text cites, sorted and unique."""
    items = (numbering.local(one).values() for one in citations_in(line))
    return tuple(sorted(set().union(*items)))


def scopes_cited(
    texts: Iterable[str],
    numbering: Numbering,
    scopes_of: Callable[[Collection[int]], Mapping[int, str]],
) -> list[frozenset[str]]:
    """Return, per text, the private scopes of the turns it cites.

    A turn that is not stored here might be private: it counts as the owner's.
    """
    citations = [[(one, numbering.local(one)) for one in citations_in(text)] for text in texts]
    known = scopes_of({n for some in citations for _, local in some for n in local.values()})
    return [
        frozenset(
            known.get(local.get(number, 0), OWNERS) for one, local in some for number in one.ids
        )
        - {PUBLIC}
        for some in citations
    ]


def turn_count(line: str) -> int:
    """Count the turns a line cites without expanding ranges; some may count twice."""
    return sum(len(one.ids) for one in citations_in(line))


def last_turn(line: str, numbering: Numbering = PLAIN) -> int | None:
    """Return the newest local turn a line cites, or None if none is stored here."""
    return max((n for one in citations_in(line) for n in _last_ids(one, numbering)), default=None)


def _last_ids(one: TurnRange, numbering: Numbering) -> Iterable[int]:
    instance = one.instance or numbering.began
    return (one.last,) if instance == numbering.own else numbering.local(one).values()


def is_reference(comment: str) -> bool:
    """Tell whether a comment is a citation."""
    return _REFERENCE.fullmatch(comment) is not None


def without_references(text: str) -> str:
    """Return `text` without citation and confirmation comments."""
    return _REFERENCE.sub("", without_confirmation(text))


def citing(line: str, turns: Iterable[TurnRange]) -> str:
    """Return a line that cites these turns instead of those that it cites."""
    bare = line.rstrip("\r\n")
    cited = f"{without_references(bare).rstrip()} {citation_comment(turns)}"
    return cited.rstrip() + line[len(bare) :]


def without_confirmation(text: str) -> str:
    """Return `text` without confirmation comments."""
    return _CONFIRMED.sub("", text) if "<!-- confirmed " in text else text


def is_confirmed(line: str) -> bool:
    """Tell whether a person has confirmed a line."""
    return _CONFIRMED.search(line) is not None


_MOST_MARKER_CHARS: Final = 4  # "1999. That year" is not a list item


def as_line(text: str) -> str:
    """Return `text` as one line that cannot affect the structure of a Markdown file."""
    line = " ".join(harmless(text).replace("<!--", "‹!--").replace("-->", "--›").split())
    line = line.removeprefix("• ")
    while (item := markdown.bullet(line)) and len(item.marker) <= _MOST_MARKER_CHARS:
        line = line[item.text_at :].removeprefix("• ")
    return markdown.as_paragraph(line)


Span = tuple[int, int]

TAG: Final = re.compile(r"[ \t]{0,9}(?<!\\)\[(chat|via):([^\[\]\s]+)\]")
"""Tag at the end of a line: where it was said, or which instance recorded it."""

_RECORD: Final = (
    r"^(?:made_by: familiar|made_at: [0-9T:.+Z-]+|sources: \{.*\}|blocks:(?: [0-9a-f]{8})*)"
    r"[ \t\r]*$"
)
_LINK_TEXT: Final = (
    r"\[(?:[^\]\\\n]|\\.){0,300}\]\((?![A-Za-z][A-Za-z0-9+.\-]*:|//)"
    r"[^)\s]{1,1000}\.(?:md|markdown|txt)(?:#[^)\s]{0,300})?\)"
)
_NO_BREAK: Final = re.compile(r"[^\r\n]")
_GAP: Final = re.compile(r"(?:\r?\n){3,}")


@lru_cache(maxsize=128)  # one question after another finds the same pages
def machine_spans(text: str) -> tuple[Span, ...]:
    """Return the ranges of machine text in a page, in order, as character offsets."""
    spans = [(0, start)] if (start := markdown.body_start(text)) else []
    spans += markdown.comments(text)
    if "blocks:" in text or "made_" in text or "sources:" in text:
        spans += (match.span() for match in re.finditer(_RECORD, text, re.MULTILINE))
    if "[chat:" in text or "[via:" in text:
        spans += (found.span() for found in TAG.finditer(text))
    if "](" in text:
        spans += _link_lists(text)
    return tuple(sorted(spans))


def shown_between(
    text: str,
    start: int,
    end: int,
    hidden: Iterable[Span],
    days: Mapping[int, str] = MappingProxyType({}),
) -> str:
    """Return the visible text of a part of a page.

    Args:
        text: The page.
        start: Start of the part.
        end: End of the part.
        hidden: Ranges to leave out, sorted.
        days: Replacements for hidden comments, by their start; see `facts`.
    """
    shown, at = [], start
    for begin, stop in hidden:
        if begin < end and stop > at:
            before = text[at : max(begin, at)]
            day = days.get(begin, "") if begin >= at else ""
            # White space before a trailing comment only separated it.
            is_last = day or text[stop : stop + 1] in "\r\n"
            shown.append(before.rstrip(" \t") if is_last else before)
            shown += [" ", day] if day else []
            at = stop
    shown.append(text[at:end] if at < end else "")
    bare = "".join(shown)
    if "\r" in bare:
        bare = bare.replace("\r\n", "\n")
    has_gap = "\n\n\n" in bare or "\r\n" in bare
    whole = _GAP.sub("\n\n", bare) if has_gap else bare
    return whole.strip().removeprefix("\ufeff").lstrip()


def blank_spans(text: str) -> str:
    """Replace machine text with spaces, preserving all offsets."""
    parts, at = [], 0
    for start, end in machine_spans(text):
        if end > at:
            parts += [text[at:start], _NO_BREAK.sub(" ", text[max(start, at) : end])]
            at = end
    return "".join((*parts, text[at:])) if parts else text


def readable_text(text: str) -> str:
    """Return the visible text of a page."""
    return shown_between(text, 0, len(text), machine_spans(text))


def with_references(text: str) -> str:
    """Return the visible text of a page with its citation comments."""
    spans = [span for span in machine_spans(text) if not is_reference(text[slice(*span)])]
    return shown_between(text, 0, len(text), spans)


def _link_lists(text: str) -> Iterator[Span]:
    """Yield the ranges of lists that only link to other pages, with a heading of nothing else."""
    every = list(markdown.sections(text))
    for section, after in zip(every, [*every[1:], None], strict=True):
        spans = list(_lists_in(section.below))
        if not spans:
            continue
        left = (line for line in section.below if not _is_within(line, spans))
        is_last = after is None or after.level <= section.level
        if section.level > 1 and is_last and not any(line.text.strip() for line in left):
            yield section.start, section.end
        else:
            yield from spans


def _lists_in(lines: Sequence[markdown.TextLine]) -> Iterator[Span]:
    held: list[markdown.TextLine] = []
    for line in (*lines, None):
        if line is not None and (line.is_item or _goes_on(held, line)):
            held.append(line)
            continue
        items = [one for one in held if one.text.strip()]
        if items and all(only_links(one.text) for one in items):
            yield held[0].start, items[-1].end
        held = []


def _goes_on(lines: Sequence[markdown.TextLine], line: markdown.TextLine) -> bool:
    """Tell whether a line continues the list above it without starting an item."""
    if not lines or line.in_code:
        return False
    return line.text[0] in " \t\r\n" or bool(lines[-1].text.strip())


def only_links(line: str) -> bool:
    """Tell whether a line has nothing but links to pages."""
    if "](" not in line:
        return False
    item = markdown.bullet(line)
    left, count = re.subn(_LINK_TEXT, "", line[item.text_at :] if item else line)
    left = markdown.replace_spans(left, ((*span, "") for span in markdown.comments(left)))
    return bool(count) and not any(char.isalnum() for char in left)


def _is_within(line: markdown.TextLine, spans: Sequence[Span]) -> bool:
    return any(start <= line.start < end for start, end in spans)


_WORD: Final = re.compile(r"\w+")
_SOURCE: Final = re.compile(r"\s*\([^()]{1,80}\)\s*$")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
# Shorter texts are often repeated independently: "likes tea".
_LEAST_CHARS: Final = 20
SAID_SHARE: Final = 0.7
"""Share of a sentence's words that must occur in a text that states it."""

_GRAM: Final = 4
_STEM_CHARS: Final = 4  # share of a word kept when its ending changes
_DEBRIS: Final = frozenset("{}[]<>`")
_UNSPACED: Final = r"[\u0e00-\u0eff\u1780-\u17ff\u2e80-\U0003ffff]+"  # slow to compile
_SHARE: Final = 0.8
_LEAST_LETTERS: Final = 4
_WIDE: Final = 3  # a character of a script without spaces counts as several letters
_ONE_SCRIPT: Final = {"HIRAGANA": "CJK", "KATAKANA": "CJK", "HALFWIDTH": "CJK", "BOPOMOFO": "CJK"}


def normal_line(text: str) -> str:
    """Return the normalized words of a text, so that small differences do not matter."""
    shown = markdown.without_marker(without_references(text) if "<!--" in text else text)
    shown = _LINK.sub(r"\1", shown) if "](" in shown else shown
    return " ".join(_WORD.findall(fold(_SOURCE.sub("", shown) if "(" in shown else shown)))


def normal_lines(text: str) -> frozenset[str]:
    """Return each non-blank line of `text`, normalized by `normal_line`."""
    return frozenset(line for line in map(normal_line, markdown.split_lines(text)) if line)


class KnownTexts:
    """Known texts, to detect lines that only repeat them."""

    def __init__(self, texts: Iterable[str]) -> None:
        # Joined by a separator that occurs in no line.
        texts = tuple(texts)
        self._whole = frozenset(filter(None, map(normal_line, texts)))
        self._all = " | ".join(
            " ".join(normal_line(line) for line in markdown.split_lines(t)) for t in texts
        )
        words = self._all.split()
        self._grams = {tuple(words[n : n + _GRAM]) for n in range(len(words) - _GRAM + 1)}

    def is_one(self, text: str) -> bool:
        """Tell whether a text of any length is one of the known texts."""
        return normal_line(text) in self._whole

    def cover(self, text: str) -> bool:
        """Tell whether at least half of a multi-line text is in the known texts."""
        lines = [line for line in markdown.split_lines(text) if normal_line(line)]
        known = sum(len(line) for line in lines if self.has(line))
        return 2 * known >= sum(map(len, lines)) > 0

    def has(self, text: str) -> bool:
        """Tell whether most of a line, unless it is short, occurs in the known texts."""
        line = normal_line(text)
        if sum(_WIDE if ord(c) > 0x2E7F else 1 for c in line) < _LEAST_CHARS:  # noqa: PLR2004
            return False
        if line in self._all:
            return True
        words = line.split()
        grams = [tuple(words[n : n + _GRAM]) for n in range(len(words) - _GRAM + 1)]
        return bool(grams) and sum(g in self._grams for g in grams) >= _SHARE * len(grams)


class EvidenceText:
    """A text used as evidence for others."""

    def __init__(self, text: str) -> None:
        self._text = fold(text)

    def share(self, text: str) -> float:
        """Return the share of the words of `text` found here, ignoring inflection and order.

        0 for anything but a sentence, such as text without words or with program syntax.
        """
        pieces = set(_word_pieces(text))
        if not pieces or _DEBRIS.intersection(text):
            return 0.0
        return sum(piece in self._text for piece in pieces) / len(pieces)

    def says(self, text: str) -> bool:
        """Tell whether most words of `text` are found here."""
        return self.share(text) >= SAID_SHARE


def main_script(text: str) -> str | None:
    """Return the main script of `text`, e.g. `LATIN`, or None if there are too few letters."""
    scripts = _count_scripts(text)
    if scripts.total() < _LEAST_LETTERS:
        return None
    return scripts.most_common(1)[0][0]


def scripts_in(texts: Iterable[str]) -> frozenset[str]:
    """Return every script used in `texts`."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_count_scripts(text))
    return frozenset(counts)


def _count_scripts(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for char, times in Counter(text).items():
        if char.isalpha():
            script = unicodedata.name(char, "?").split()[0]
            counts[_ONE_SCRIPT.get(script, script)] += times
    return counts


def _word_pieces(text: str) -> Iterable[str]:
    """Yield stems of longer words, and character pairs in scripts without spaces."""
    for word in normal_line(text).split():
        if not word.isascii() and re.match(_UNSPACED, word):
            yield from (word[n : n + 2] for n in range(max(1, len(word) - 1)))
        elif len(word) >= _STEM_CHARS:
            yield word[:_STEM_CHARS]
