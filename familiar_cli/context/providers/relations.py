"""`RelationsProvider`: how those who take part, or are named, are related to others."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import to_zone
from familiar_cli.context.types import Contribution, Layer, PromptSpan
from familiar_cli.errors import FamiliarError
from familiar_cli.jobs import in_thread
from familiar_cli.memory.layout import people_path
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import tzinfo

    from familiar_cli.context.types import ContextRequest
    from familiar_cli.languages import Phrases
    from familiar_cli.memory.people.aliases import Aliases
    from familiar_cli.memory.relations.index import Edge, RelationIndex
    from familiar_cli.tokens import TokenCounter

SOURCE: Final = "people.relations"
PRIORITY: Final = 84
MOST_TOKENS: Final = 150
"""Of all lines together, with the one above them."""

_MOST_TITLE_CHARS: Final = 60
_MOST_PEOPLE: Final = 20


class RelationsProvider:
    """Offers relations. They are data: nothing in them is expanded.

    Args:
        present: Gives the slugs of those who take part, the first matters most.
        aliases: Opens who is called what; it is closed after each use.
        graph: Opens the graph; it is closed after each use.
        counter: What counts tokens.
        zone: Where the familiar lives; None: the system's timezone.
        deadline_s: How long it may take.
    """

    name: Final = "relations"
    looks_at: Final = "the section Relations in the files of who takes part or is named"

    def __init__(
        self,
        present: Callable[[ContextRequest], Iterable[str]],
        aliases: Callable[[], Aliases],
        graph: Callable[[], RelationIndex],
        counter: TokenCounter,
        *,
        zone: tzinfo | None = None,
        deadline_s: float = 2.0,
    ) -> None:
        self._present = present
        self._aliases = aliases
        self._graph = graph
        self._counter = counter
        self._zone = zone
        self.deadline_s = deadline_s

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the lines as one piece, or what went wrong."""
        return await in_thread(partial(self._read, request))

    def _read(self, request: ContextRequest) -> list[Contribution]:
        try:
            named = [people_path(slug) for slug in self._named(request)]
            present = [people_path(slug) for slug in self._present(request)]
            people = list(dict.fromkeys([*named, *present]))[:_MOST_PEOPLE]
            with closing(self._graph()) as graph:
                graph.refresh()
                people = list(dict.fromkeys(map(graph.main, people)))
                edges = self._shown(graph, people, request)
                titles = graph.titles({path for e in edges for path in (e.source, e.target)})
        except FamiliarError as error:
            return [_piece(problem=str(error))]
        if not edges:
            return []
        return [self._told(edges, titles, people, request.phrases)]

    def _named(self, request: ContextRequest) -> list[str]:
        with closing(self._aliases()) as aliases:
            aliases.refresh()
            return [slug for named in aliases.find(request.query) for slug in named.slugs]

    def _shown(
        self, graph: RelationIndex, people: list[str], request: ContextRequest
    ) -> list[Edge]:
        """Return what may be shown, each once: what lasts first, then who matters most."""
        today = to_zone(request.at, self._zone).date().isoformat()
        may = [
            edge
            for edge in graph.edges(people)
            if not edge.is_link and request.viewer.sees(edge.private)
        ]
        place = {path: number for number, path in enumerate(people)}

        def rank(edge: Edge) -> tuple[bool, int, str, int]:
            near = min(place.get(edge.source, len(place)), place.get(edge.target, len(place)))
            return has_ended(edge, today), near, edge.source, edge.line

        return graph.once(sorted(may, key=rank))

    def _told(
        self, edges: list[Edge], titles: dict[str, str], people: list[str], phrases: Phrases
    ) -> Contribution:
        lines, text = [phrases.related], phrases.related
        for edge in edges:
            longer = "\n".join([*lines, line_of(edge, titles, phrases)])
            if self._counter.count(longer) > MOST_TOKENS:
                break
            lines.append(line_of(edge, titles, phrases))
            text = longer
        count = len(lines) - 1
        sources = {edge.source for edge in edges[:count]}
        left = len(edges) - count
        return _piece(
            text if count else "",
            rel_path=sources.pop() if len(sources) == 1 else None,
            cause=f"{', '.join(people[:3])} take part or are named",
            shortened=f"{left} of {len(edges)} relations found no room in {MOST_TOKENS} tokens"
            if left
            else "",
        )


def has_ended(edge: Edge, today: str) -> bool:
    """Tell whether a relation is over; a year or a month that it ended in counts as over."""
    return bool(edge.until) and edge.until <= today


def line_of(edge: Edge, titles: dict[str, str], phrases: Phrases) -> str:
    """Return a relation in one line: `- Mika: sister of Robin (since 2024-03)`."""
    when = [phrases.since_when.format(edge.since)] if edge.since else []
    when += [phrases.until_when.format(edge.until)] if edge.until else []
    note = f" ({phrases.comma.join(when)})" if when else ""
    one, other = (_called(path, titles) for path in (edge.source, edge.target))
    return f"- {one}{phrases.colon}{edge.relation} {other}{note}"


def _called(rel_path: str, titles: dict[str, str]) -> str:
    name = rel_path.rpartition("/")[2].removesuffix(".md")
    return one_line(titles.get(rel_path) or name, _MOST_TITLE_CHARS)


def _piece(
    text: str = "",
    *,
    rel_path: str | None = None,
    cause: str = "",
    shortened: str = "",
    problem: str = "",
) -> Contribution:
    return Contribution(
        layer=Layer.content,
        priority=PRIORITY,
        text=text,
        source=SOURCE,
        place=PromptSpan.world_after,
        rel_path=rel_path,
        cause=cause,
        shortened=shortened,
        problem=problem,
    )
