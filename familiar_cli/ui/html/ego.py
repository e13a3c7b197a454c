"""The picture of who is around somebody: one in the middle, the others in circles; SVG alone."""

from __future__ import annotations

from html import escape
from math import atan2, cos, pi, sin
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.relation_index import LINKS
from familiar_cli.text import one_line
from familiar_cli.ui.html.elements import Html, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.actions.graph import Around
    from familiar_cli.memory.relation_index import Edge, GraphPage

MOST_NODES: Final = 40
"""A picture of more shows nothing."""

_STEP: Final = 210
_MARGIN_X: Final = 110
_MARGIN_Y: Final = 50
_LINE: Final = 14
_MOST_CHARS: Final = 24
_ARROWS: Final = "→↘↓↙←↖↑↗"  # as one looks at it: y grows downwards
_STYLE: Final = """
body { margin: 2rem; font: 16px/1.4 system-ui, sans-serif; color: #222; background: #fff; }
svg { max-width: 100%; height: auto; }
line { stroke: #888; } line.link { stroke: #ddd; } line.over { stroke-dasharray: 4 4; }
circle { fill: #e8eef7; stroke: #557; } circle.person { fill: #fdf0d8; }
circle.missing { fill: none; stroke-dasharray: 3 3; } circle.center { stroke-width: 3; }
text { font-size: 13px; text-anchor: middle; fill: currentColor; }
text { paint-order: stroke; stroke: #fff; stroke-width: 4px; } text.edge { font-size: 11px; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818; } text { stroke: #181818; } line.link { stroke: #444; }
  circle { fill: #2b3442; } circle.person { fill: #4a3c20; }
}
"""


def ego_page(found: Around) -> str:
    """Return a page for a browser that loads nothing and runs no script."""
    title = escape(found.center.title if found.center else "")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n{ego_svg(found)}\n</body>\n</html>\n"
    )


def ego_svg(found: Around, href: Callable[[GraphPage], str] = lambda _: "") -> Html:
    """Return the picture. Whatever a memory says is text in it.

    Args:
        found: What is around somebody.
        href: Where a page leads to; empty: nowhere.
    """
    nodes = found.nodes[:MOST_NODES]
    places = _places(_rings(found, nodes))
    title = f"Relations of {plain(found.nodes[0].title)}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="ego" {_frame(places)} role="group"'
    parts = [f'{head} aria-label="{escape(title)}">']
    drawn = [e for e in found.edges if e.source in places and e.target in places]
    parts += [_line(edge, places) for edge in drawn]
    parts += _labels([edge for edge in drawn if edge.relation != LINKS], places)
    parts += [_circle(node, places[node.path], href, nodes[0]) for node in nodes]
    return Html("\n".join([*parts, "</svg>"]))


def _frame(places: dict[str, tuple[float, float]]) -> str:
    """Return what is seen: as much as the circles and their names need."""
    xs, ys = zip(*places.values(), strict=True)
    left, top = min(xs) - _MARGIN_X, min(ys) - _MARGIN_Y
    width, height = max(xs) + _MARGIN_X - left, max(ys) + _MARGIN_Y - top
    box = f"{left:.0f} {top:.0f} {width:.0f} {height:.0f}"
    return f'viewBox="{box}" width="{width:.0f}" height="{height:.0f}"'


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


def _places(rings: list[list[str]]) -> dict[str, tuple[float, float]]:
    places: dict[str, tuple[float, float]] = {}
    for number, ring in enumerate(rings):
        for at, path in enumerate(ring):
            angle = 2 * pi * at / len(ring) - pi / 2 + number * 0.3
            places[path] = (_STEP * number * cos(angle), _STEP * number * sin(angle))
    return places


def _line(edge: Edge, places: dict[str, tuple[float, float]]) -> str:
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    kind = "link" if edge.relation == LINKS else "over" if edge.until else "relation"
    return f'<line class="{kind}" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"/>'


def _labels(edges: list[Edge], places: dict[str, tuple[float, float]]) -> list[str]:
    """Return what relations are called, those of the same two below one another."""
    beside: dict[frozenset[str], int] = {}
    texts = []
    for edge in edges:
        (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
        arrow = _ARROWS[round(atan2(y2 - y1, x2 - x1) / (pi / 4)) % len(_ARROWS)]
        ends = frozenset((edge.source, edge.target))
        down = beside.get(ends, 0) * _LINE
        beside[ends] = beside.get(ends, 0) + 1
        x, y = (x1 + x2) / 2, (y1 + y2) / 2 + down
        texts.append(
            f'<text class="edge" x="{x:.0f}" y="{y:.0f}">{_text(edge.relation)} {arrow}</text>'
        )
    return texts


def _circle(
    node: GraphPage, place: tuple[float, float], href: Callable[[GraphPage], str], center: GraphPage
) -> str:
    x, y = place
    kind = f"{node.kind} center" if node is center else node.kind
    drawn = (
        f'<title>{escape(plain(node.path))}</title><circle class="{kind}" cx="{x:.0f}" '
        f'cy="{y:.0f}" r="16"/><text x="{x:.0f}" y="{y + 32:.0f}">{_text(node.title)}</text>'
    )
    to = href(node)
    return f'<a href="{escape(to)}">{drawn}</a>' if to else f"<g>{drawn}</g>"


def _text(said: str) -> str:
    return escape(plain(one_line(said, _MOST_CHARS)))
