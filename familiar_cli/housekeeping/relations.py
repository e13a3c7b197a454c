"""Relations that lead nowhere, say nothing, contradict each other, or go round in a circle."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.lines import Check, Finding, quotes
from familiar_cli.memory.layout import RELATION_KINDS
from familiar_cli.memory.pages.relations import kinds_of, relations_in
from familiar_cli.memory.relation_index import DIRS
from familiar_cli.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.lines import Corpus, MemoryText, Options
    from familiar_cli.memory.pages.relations import Kinds, Relation

_MOST_STEPS: Final = 50


@dataclass(frozen=True, slots=True)
class _Stated:
    """A relation, where it stands, and the page that it leads to."""

    note: MemoryText
    relation: Relation
    target: str

    @property
    def is_over(self) -> bool:
        return bool(self.relation.until)


def check_relations(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield what is wrong with relations."""
    del options
    table = next((note.text for note in corpus.notes if note.rel_path == RELATION_KINDS), "")
    kinds = kinds_of(table)
    stated: list[_Stated] = []
    for note in corpus.notes:
        if note.directory not in DIRS:
            continue
        found = relations_in(note.text, note.rel_path, kinds.known)
        if found.unread:
            yield _finding(
                note,
                found.unread,
                f"{counted(len(found.unread), 'line')} below Relations leads to nobody",
                "Write `- sister of [Robin](discord-42.md)`: a relation, then a link.",
            )
        stated += _leading(note, found.relations, corpus)
        yield from _wrong(note, found.relations, corpus)
    yield from _contradictions(stated, kinds)
    yield from _circles(stated, kinds)


def _leading(
    note: MemoryText, relations: tuple[Relation, ...], corpus: Corpus
) -> Iterator[_Stated]:
    for one in relations:
        target = _target(one, note, corpus)
        if target:
            yield _Stated(note, one, target)


def _target(one: Relation, note: MemoryText, corpus: Corpus) -> str:
    """Return the page that a relation leads to; empty: there is none."""
    path = one.target or corpus.names.find(one.name.partition("|")[0], note.rel_path) or ""
    if path not in corpus.paths:
        return ""
    return path


def _wrong(note: MemoryText, relations: tuple[Relation, ...], corpus: Corpus) -> Iterator[Finding]:
    """Yield what is wrong with single relations of a page."""
    lost = [one.line for one in relations if not _target(one, note, corpus)]
    if lost:
        yield _finding(
            note,
            lost,
            f"{counted(len(lost), 'relation')} to somebody without a file",
            "Create the file, or correct the link.",
        )
    own = [one.line for one in relations if _target(one, note, corpus) == note.rel_path]
    if own:
        yield _finding(note, own, "is related to itself", "Remove the line.")
    ends = [one.line for one in relations if one.since and one.until and one.until < one.since]
    if ends:
        yield _finding(
            note, ends, "a relation ends before it begins", "Correct `since` or `until`."
        )


def _contradictions(stated: list[_Stated], kinds: Kinds) -> Iterator[Finding]:
    """Yield where two pages each say that they are above, or below, the other."""
    now = [one for one in stated if not one.is_over and not one.relation.private]
    above: dict[tuple[str, str, str], _Stated] = {}
    for one in now:
        step = kinds.step(one.relation.relation)
        if step is None:
            continue
        ends = (one.note.rel_path, one.target)
        upper, lower = ends if step[1] else ends[::-1]
        above.setdefault((step[0], upper, lower), one)
    for (order, upper, lower), one in above.items():
        other = above.get((order, lower, upper))
        if other is not None and upper < lower:
            yield Finding(
                CHECK.name,
                tuple(dict.fromkeys((one.note.rel_path, other.note.rel_path))),
                f"{one.relation.relation!r} and {other.relation.relation!r} contradict each other",
                (
                    *quotes(one.note, [one.relation.line]),
                    *quotes(other.note, [other.relation.line]),
                ),
                hint="Correct one of them, or end it with `until`.",
            )


def _circles(stated: list[_Stated], kinds: Kinds) -> Iterator[Finding]:
    """Yield circles of three and more where there can be none, each once."""
    below: dict[str, dict[str, dict[str, _Stated]]] = defaultdict(lambda: defaultdict(dict))
    for one in stated:
        step = kinds.step(one.relation.relation)
        if step is None or one.is_over or one.relation.private:
            continue
        ends = (one.note.rel_path, one.target)
        upper, lower = ends if step[1] else ends[::-1]
        below[step[0]][upper].setdefault(lower, one)
    for edges in below.values():
        for circle in _found_circles(edges):
            steps = [edges[a][b] for a, b in zip(circle, (*circle[1:], circle[0]), strict=True)]
            yield Finding(
                CHECK.name,
                tuple(dict.fromkeys(one.note.rel_path for one in steps)),
                f"{len(circle)} relations form a cycle",
                tuple(q for one in steps for q in quotes(one.note, [one.relation.line])),
                hint="One of them is wrong: nobody is above themselves.",
            )


def _found_circles(edges: dict[str, dict[str, _Stated]]) -> Iterator[tuple[str, ...]]:
    """Yield a circle for each page that is the first, by path, of one."""
    for start in sorted(edges):
        came: dict[str, str] = {}
        level = [start]
        for _ in range(_MOST_STEPS):
            level = [
                lower
                for upper in level
                for lower in edges.get(upper, ())
                if lower >= start and came.setdefault(lower, upper) == upper
            ]
            if not level or start in came:
                break
        path = [start]
        while start in came and came[path[-1]] != start and len(path) <= _MOST_STEPS:
            path.append(came[path[-1]])
        if start in came and len(path) > 2:  # noqa: PLR2004  # two are a contradiction
            yield (path[0], *reversed(path[1:]))


def _finding(note: MemoryText, lines: list[int] | tuple[int, ...], what: str, hint: str) -> Finding:
    return Finding(CHECK.name, (note.rel_path,), what, quotes(note, lines), hint=hint)


CHECK: Final = Check("relations", "Relations", check_relations)
