"""One search of everything: each thing that was said or is known stands in the results once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.actions.memory import search
from familiar_cli.actions.memory.fact_days import fact_days, page_rank
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.markdown import without_marker
from familiar_cli.base.who.visibility import Viewer
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.history.selection import kept_turns, turns_around
from familiar_cli.store.memory.pages.lines import normal_line, readable_text
from familiar_cli.store.memory.pages.links import words_of_links
from familiar_cli.store.search.types import Hit, SearchOptions, SearchResult

Piece = tuple[str, bool]
"""Part of a text, and whether it is marked."""

_LOOKED_AT: Final = 40
_READ_S: Final = 0.05  # for pages that changed; the rest is read in the background
_OF_FACT: Final = 0.3  # measured: what a cited fact adds to the score of the turn that it rests on
_BEFORE, _AFTER = 1, 2  # an answer often follows the line that has the words of the question


class Moment(Struct, frozen=True):
    """Something found: a fact, what was said, or both.

    Args:
        score: Its score, comparable between facts and turns.
        fact: The best line of memory that states it, if any.
        turn: The turn where it was said, if any.
        around: The turn with its neighbours, in order.
        also_found: The numbers of all turns that were found.
    """

    score: float
    fact: Hit | None = None
    turn: Turn | None = None
    around: tuple[Turn, ...] = ()
    also_found: frozenset[int] = frozenset()

    def answers(self, turn: Turn) -> bool:
        """Tell whether a turn was found, or replies to the question in the one that was."""
        if self.turn is None or turn.id == self.turn.id or turn.id in self.also_found:
            return self.turn is not None
        after = [one.id for one in self.around if one.id > self.turn.id]
        return "?" in self.turn.content and turn.id == min(after, default=0)


class FoundMoments(Struct, frozen=True):
    """The results of a search of everything.

    Args:
        moments: What was found, best first.
        named: Pages whose names are in the query.
        memory: The search of memory, for its notices and progress.
        past: The search of turns.
        problems: What could not be searched, a sentence each.
    """

    moments: tuple[Moment, ...] = ()
    named: tuple[str, ...] = ()
    memory: SearchResult = field(default_factory=lambda: SearchResult("lexical", ""))
    past: search.PastSearchResult = search.PastSearchResult((), "lexical", 0)
    problems: tuple[str, ...] = ()


def search_everything(
    familiar: Familiar,
    query: str,
    options: SearchOptions,
    *,
    memory: bool = True,
    past: bool = True,
) -> FoundMoments:
    """Search memory and turns; what one of them cannot answer, the other still does.

    Args:
        familiar: The familiar.
        query: Words, as anybody would say them.
        options: Options of the search of memory; its viewer, days and number of results hold for
            turns, too.
        memory: Search memory.
        past: Search turns.
    """
    problems: list[str] = []
    lines, turns = SearchResult("lexical", query), search.PastSearchResult((), "lexical", 0)
    if memory:
        try:
            wanted = replace(options, k=_LOOKED_AT, lines=True, naming=(query,))
            lines = familiar.finder.search(query, wanted)
        except FamiliarError as error:
            problems.append(f"{error}. {error.hint or ''}".strip())
    if past and not options.within:
        try:
            turns = search.search_past(
                familiar,
                query,
                k=_LOOKED_AT,
                method="lexical" if options.method in {"lexical", "grep"} else "auto",
                since=options.since,
                until=options.until,
                viewer=options.viewer,
            )
        except FamiliarError as error:
            problems.append(f"{error}. {error.hint or ''}".strip())
    made = _rank_moments(familiar, lines.hits, turns, options.viewer)
    moments = tuple(_with_neighbours(familiar, made, options))
    return FoundMoments(moments, lines.named, lines, turns, tuple(dict.fromkeys(problems)))


def _rank_moments(
    familiar: Familiar, hits: Iterable[Hit], past: search.PastSearchResult, viewer: Viewer
) -> list[Moment]:
    """Merge facts with the turns they rest on, and equal facts of several pages, best first."""
    scores = {hit.turns[0]: hit.score for hit in past.hits}
    facts: dict[int | str, Hit] = {}
    for hit in hits:
        keys: tuple[int | str, ...] = search.cited_turns(familiar, hit, viewer)
        for key in keys or (normal_line(_fact_line(hit)),):
            known = facts.get(key)
            if known is None or _hit_rank(hit) < _hit_rank(known):
                facts[key] = hit
    pages = fact_days(familiar)
    pages.read(familiar, _READ_S)
    facts = {key: replace(hit, rel_path=pages.best_page(_fact_line(hit), hit.rel_path))
             for key, hit in facts.items()}  # fmt: skip
    turns = kept_turns(familiar.history, {*scores, *(key for key in facts if isinstance(key, int))})
    moments = [Moment(hit.score, hit) for key, hit in facts.items() if isinstance(key, str)]
    for number, selection in turns.items():
        turn, fact = selection.turn, facts.get(number)
        if turn.stands and viewer.sees_turn(turn):
            score = scores.get(number, 0.0) + (_OF_FACT * fact.score if fact else 0.0)
            moments.append(Moment(score, fact, turn))
    return sorted(moments, key=lambda one: -one.score)


def _hit_rank(hit: Hit) -> tuple[int, float]:
    return page_rank(hit.rel_path), -hit.score


def _with_neighbours(
    familiar: Familiar, moments: Iterable[Moment], options: SearchOptions
) -> Iterator[Moment]:
    """Yield the best moments, each with what was said around it, and nothing twice."""
    shown: set[object] = set()
    left, found = options.k, list(moments)
    ids = frozenset(one.turn.id for one in found[:_LOOKED_AT] if one.turn)
    for one in found:
        key = normal_line(_fact_line(one.fact)) if one.fact else None
        if (one.turn and one.turn.id in shown) or key in shown:
            continue
        if one.turn:
            selections = turns_around(
                familiar.history, one.turn, _BEFORE, _AFTER, viewer=options.viewer
            )
            around = tuple(each.turn for each in selections)
            shown |= {turn.id for turn in around}
            one = replace(one, around=around, also_found=ids)  # noqa: PLW2901
        shown |= {key} - {None}
        yield one
        left -= 1
        if not left:
            return


def fact_words(hit: Hit) -> str:
    """Return the sentence of a line of memory."""
    return words_of_links(readable_text(without_marker(_fact_line(hit).strip())))


def _fact_line(hit: Hit) -> str:
    """Return the line of a hit without the heading above it."""
    lines = [line for line in (hit.best or hit.text).split("\n") if not line.startswith("#")]
    return "\n".join(lines).strip()


def mark_words(text: str, query: str, *, whole: bool = False) -> list[Piece]:
    """Cut a text around the words of a query and mark them.

    Args:
        text: The text.
        query: The query.
        whole: Mark all of it if none of the words occurs, since its meaning was found.
    """
    excerpt, marks = search.excerpt_of(text, query)
    pieces, at = [], 0
    for begin, end in marks or ([(0, len(excerpt))] if whole and excerpt else []):
        pieces += [(excerpt[at:begin], False), (excerpt[begin:end], True)]
        at = end
    return [piece for piece in (*pieces, (excerpt[at:], False)) if piece[0]]
