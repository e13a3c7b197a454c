"""The picture of who is around somebody: one in the middle, the others in circles; SVG alone."""

from __future__ import annotations

from collections import Counter
from math import atan2, cos, pi, sin
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.memory.relation_index import LINKS
from familiar_cli.ui.html.elements import Html, environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.actions.graph import Around
    from familiar_cli.memory.relation_index import Edge, GraphPage

Place = tuple[float, float]

MOST_NODES: Final = 40
"""A picture of more shows nothing."""

_STEP: Final = 210
_MARGIN_X: Final = 110
_MARGIN_Y: Final = 50
_LINE: Final = 14
_ARROWS: Final = "→↘↓↙←↖↑↗"  # as one looks at it: y grows downwards


def ego_page(found: Around) -> str:
    """Return a page for a browser that loads nothing and runs no script."""
    title = found.center.title if found.center else ""
    return str(_macros().page(title, ego_svg(found))).strip() + "\n"


def ego_svg(found: Around, href: Callable[[GraphPage], str] = lambda _: "") -> Html:
    """Return the picture. Whatever a memory says is text in it.

    Args:
        found: What is around somebody.
        href: Where a page leads to; empty: nowhere.
    """
    nodes = found.nodes[:MOST_NODES]
    places = _places(_rings(found, nodes))
    drawn = [e for e in found.edges if e.source in places and e.target in places]
    lines = [(_line_kind(edge), places[edge.source], places[edge.target]) for edge in drawn]
    labels = _labels([edge for edge in drawn if edge.relation != LINKS], places)
    picture = _macros().picture(found, nodes, places, _box(places), lines, labels, href)
    return Html(str(picture).strip())


def _macros() -> Any:  # noqa: ANN401  # the macros are attributes
    return environment("familiar_cli.ui.html").get_template("ego.html").module


def _box(places: dict[str, Place]) -> tuple[str, ...]:
    """Return what is seen: as much as the circles and their names need."""
    xs, ys = zip(*places.values(), strict=True)
    left, top = min(xs) - _MARGIN_X, min(ys) - _MARGIN_Y
    width, height = max(xs) + _MARGIN_X - left, max(ys) + _MARGIN_Y - top
    return tuple(f"{size:.0f}" for size in (left, top, width, height))


def _rings(found: Around, nodes: tuple[GraphPage, ...]) -> list[list[str]]:
    """Return the pages by how many steps they are away."""
    left = [node.path for node in nodes]
    rings = [[left.pop(0)]]
    while left:
        near = {
            end
            for edge in found.edges
            if {edge.source, edge.target} & set(rings[-1])
            for end in (edge.source, edge.target)
        }
        ring = [path for path in left if path in near] or left
        rings.append(ring)
        left = [path for path in left if path not in ring]
    return rings


def _places(rings: list[list[str]]) -> dict[str, Place]:
    places: dict[str, Place] = {}
    for number, ring in enumerate(rings):
        for at, path in enumerate(ring):
            angle = 2 * pi * at / len(ring) - pi / 2 + number * 0.3
            places[path] = (_STEP * number * cos(angle), _STEP * number * sin(angle))
    return places


def _line_kind(edge: Edge) -> str:
    return "link" if edge.relation == LINKS else "over" if edge.until else "relation"


def _labels(edges: list[Edge], places: dict[str, Place]) -> list[tuple[str, str, float, float]]:
    """Return each relation, its arrow and its place; those of the same two below one another."""
    beside: Counter[frozenset[str]] = Counter()
    labels = []
    for edge in edges:
        (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
        arrow = _ARROWS[round(atan2(y2 - y1, x2 - x1) / (pi / 4)) % len(_ARROWS)]
        ends = frozenset((edge.source, edge.target))
        labels.append((edge.relation, arrow, (x1 + x2) / 2, (y1 + y2) / 2 + beside[ends] * _LINE))
        beside[ends] += 1
    return labels
