"""Citations: the turns that a line of memory rests on, in a quiet HTML comment at its end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from familiar_cli.markdown import as_paragraph, bullet, scan
from familiar_cli.text import harmless

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping


_INSTANCE: Final = r"[a-z0-9]++(?:-[a-z0-9]++)*+"
_ONE: Final = rf"(?:{_INSTANCE}:)?+[0-9]{{1,19}}+"
BODY: Final = rf"{_ONE}(?:[-,; ]++{_ONE})*+"
"""What stands after the word `turns` in the comment. Nothing in it can be read in two ways."""

_TURN_NAME: Final = re.compile(_ONE)
_REFERENCE: Final = re.compile(rf"[ \t]{{0,9}}<!-- turns? ({BODY}) -->")
_RANGE: Final = re.compile(rf"(?:({_INSTANCE}):)?+([0-9]+)(?:-([0-9]+))?|;")
_MOST_IN_RANGE: Final = 10_000  # a person's slip of the pen is not to fill the machine


class Cited(NamedTuple):
    """Turns that follow each other.

    Args:
        instance: By whose numbers; empty: those of the instance that the familiar began on.
        first: The first.
        last: The last.
    """

    instance: str
    first: int
    last: int

    @property
    def ids(self) -> range:
        """The numbers, or the first of them where there are far too many."""
        return range(self.first, min(self.last, self.first + _MOST_IN_RANGE) + 1)


@dataclass(frozen=True, slots=True)
class Numbering:
    """Which local turn a citation means, and how a local turn is cited.

    Args:
        own: This instance; empty: it has no id yet, and all its turns are its own.
        began: The instance that the familiar began on.
        find: Gives the local ids of turns of another instance that are held here, by their numbers
            there.
        origins: Gives, of local turns, those that came from another instance: it, and their number
            there.
    """

    own: str = ""
    began: str = ""
    find: Callable[[str, Collection[int]], Mapping[int, int]] = lambda _, __: {}
    origins: Callable[[Collection[int]], Mapping[int, tuple[str, int]]] = lambda _: {}

    def cite(self, turn_ids: Iterable[int]) -> list[Cited]:
        """Return how local turns are cited."""
        wanted = set(turn_ids)
        elsewhere = self.origins(wanted) if wanted else {}
        found = (elsewhere.get(turn_id, (self.own, turn_id)) for turn_id in wanted)
        return _joined(Cited(instance, number, number) for instance, number in found)

    def local(self, cited: Cited) -> Mapping[int, int]:
        """Return the turns of a citation that are held here: the local id of each number."""
        instance = cited.instance or self.began
        if instance == self.own:
            return {number: number for number in cited.ids}
        return self.find(instance, cited.ids)

    def holds(self, text: str) -> bool:
        """Tell whether every turn that a line names is held here."""
        return all(len(self.local(one)) == len(one.ids) for one in cited(text))

    def without(self, citations: Iterable[Cited], gone: Collection[int]) -> list[Cited]:
        """Return citations without those of some local turns; what is not held here stays."""
        left: list[Cited] = []
        for one in citations:
            fallen = {number for number, local in self.local(one).items() if local in gone}
            if fallen:
                left += (Cited(one.instance, n, n) for n in one.ids if n not in fallen)
            else:
                left.append(one)
        return _joined(left)

    def cite_originals(self, text: str, originals: Mapping[int, int]) -> str:
        """Return a text that cites local turns in place of their doubles.

        Comments in code, and those that name more turns than anything rests on, stay as they are.

        Args:
            text: Markdown.
            originals: The turn that is cited from now on, for each double.
        """

        def replaced(comment: re.Match[str]) -> str:
            if turn_count(comment[0]) > _MOST_IN_RANGE:
                return comment[0]
            named = set(turn_ids(comment[0], self))
            doubles = named & originals.keys()
            if not doubles:
                return comment[0]
            added = {originals[double] for double in doubles} - named
            turns = [*self.without(cited(comment[0]), doubles), *self.cite(added)]
            return comment[0][: comment[0].index("<")] + reference(turns)

        lines = scan(text) if "<!-- turn" in text else ()
        return (
            "".join(
                line.text if line.in_code else _REFERENCE.sub(replaced, line.text) for line in lines
            )
            or text
        )


PLAIN: Final = Numbering()
"""Of a familiar that lives on one machine and whose citations name no instance."""


def cited(text: str) -> list[Cited]:
    """Return what a line, or a longer text, names, in the order in which it does."""
    return [one for comment in _REFERENCE.finditer(text) for one in _read(comment[1])]


def parse_turn_name(text: str) -> Cited | None:
    """Resolve `12` or `laptop-7f3a:12` to a turn, or None."""
    if not _TURN_NAME.fullmatch(text):
        return None
    instance, _, number = text.rpartition(":")
    return Cited(instance, int(number), int(number))


def _read(body: str) -> Iterator[Cited]:
    instance = ""
    for match in _RANGE.finditer(body):
        if not match[2]:
            instance = ""
            continue
        instance = match[1] or instance
        first, last = int(match[2]), int(match[3] or match[2])
        if last >= first:
            yield Cited(instance, first, last)


def reference(turns: Iterable[Cited | int]) -> str:
    """Return the comment that names `turns`; an empty string for none.

    Args:
        turns: A number alone is that of the instance that the familiar began on.
    """
    named = _joined(one if isinstance(one, Cited) else Cited("", one, one) for one in turns)
    groups = (
        (f"{instance}:" if instance else "") + ", ".join(map(_numbers, group))
        for instance, group in groupby(named, key=lambda one: one.instance)
    )
    body = "; ".join(groups)
    return f"<!-- turns {body} -->" if body else ""


def _joined(cited: Iterable[Cited]) -> list[Cited]:
    """Return citations as few as say the same, sorted by instance and number."""
    found: list[Cited] = []
    for one in sorted(cited):
        last = found[-1] if found else None
        if last and last.instance == one.instance and one.first <= last.last + 1:
            found[-1] = last._replace(last=max(last.last, one.last))
        else:
            found.append(one)
    return found


def _numbers(one: Cited) -> str:
    return f"{one.first}-{one.last}" if one.last > one.first else f"{one.first}"


def spans(turn_ids: Iterable[int]) -> str:
    """Return `turn_ids` as few numbers: `12-14, 20`."""
    return ", ".join(map(_numbers, _joined(Cited("", n, n) for n in turn_ids)))


def turn_ids(line: str, numbering: Numbering) -> tuple[int, ...]:
    """Return the local turns that a line, or a longer text, names; sorted, each once."""
    found = (numbering.local(one).values() for one in cited(line))
    return tuple(sorted(set().union(*found)))


def turn_count(line: str) -> int:
    """Return how many turns a line names, without counting them one by one; some count twice."""
    return sum(len(one.ids) for one in cited(line))


def last_turn(line: str, numbering: Numbering = PLAIN) -> int | None:
    """Return the newest local turn that a line names; None when it names none that is held here."""
    return max((n for one in cited(line) for n in _last(one, numbering)), default=None)


def _last(one: Cited, numbering: Numbering) -> Iterable[int]:
    instance = one.instance or numbering.began
    return (one.last,) if instance == numbering.own else numbering.local(one).values()


def is_reference(comment: str) -> bool:
    """Return whether a comment names turns."""
    return _REFERENCE.fullmatch(comment) is not None


def without_references(text: str) -> str:
    """Return `text` as a reader sees it: without the comments that name turns."""
    return _REFERENCE.sub("", text)


_MOST_MARKER_CHARS: Final = 4  # "1999. That year" is no item of a list


def as_line(text: str) -> str:
    """Return `text` as one line that cannot change the structure of a Markdown file."""
    line = " ".join(harmless(text).replace("<!--", "‹!--").replace("-->", "--›").split())
    line = line.removeprefix("• ")
    while (item := bullet(line)) and len(item.marker) <= _MOST_MARKER_CHARS:
        line = line[item.text_at :].removeprefix("• ")
    return as_paragraph(line)
