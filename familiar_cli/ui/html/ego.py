"""The picture of who is around somebody: one in the middle, the others in circles; SVG alone."""

from __future__ import annotations

from html import escape
from math import cos, pi, sin
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.relations.index import LINKS
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from familiar_cli.actions.graph import Around
    from familiar_cli.memory.relations.index import Edge, Node

MOST_NODES: Final = 40
"""A picture of more shows nothing."""

_STEP: Final = 210
_MOST_CHARS: Final = 24
_STYLE: Final = """
body { margin: 2rem; font: 16px/1.4 system-ui, sans-serif; color: #222; background: #fff; }
svg { max-width: 100%; height: auto; }
line { stroke: #888; } line.link { stroke: #ddd; } line.over { stroke-dasharray: 4 4; }
circle { fill: #e8eef7; stroke: #557; } circle.person { fill: #fdf0d8; }
circle.missing { fill: none; stroke-dasharray: 3 3; } circle.center { stroke-width: 3; }
text { font-size: 13px; text-anchor: middle; fill: currentColor; } text.edge { font-size: 11px; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818; } line.link { stroke: #444; }
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


def ego_svg(found: Around) -> str:
    """Return the picture. Whatever a memory says is text in it."""
    nodes = found.nodes[:MOST_NODES]
    rings = _rings(found, nodes)
    places = _places(rings)
    half = _STEP * len(rings) - _STEP // 2
    size = 2 * half
    head = f'viewBox="{-half} {-half} {size} {size}" width="{size}" height="{size}" role="img"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {head}>']
    drawn = [e for e in found.edges if e.source in places and e.target in places]
    parts += [_line(edge, places) for edge in drawn]
    parts += [_circle(node, places[node.path], is_center=node is nodes[0]) for node in nodes]
    return "\n".join([*parts, "</svg>"])


def _rings(found: Around, nodes: tuple[Node, ...]) -> list[list[str]]:
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
    line = f'<line class="{kind}" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"/>'
    if edge.relation == LINKS:
        return line
    x, y = x1 + (x2 - x1) * 0.45, y1 + (y2 - y1) * 0.45
    return f'{line}<text class="edge" x="{x:.0f}" y="{y:.0f}">{_text(edge.relation)} →</text>'


def _circle(node: Node, place: tuple[float, float], *, is_center: bool) -> str:
    x, y = place
    kind = f"{node.kind} center" if is_center else node.kind
    return (
        f'<g><title>{escape(node.path)}</title><circle class="{kind}" cx="{x:.0f}" cy="{y:.0f}" '
        f'r="16"/><text x="{x:.0f}" y="{y + 32:.0f}">{_text(node.title)}</text></g>'
    )


def _text(said: str) -> str:
    return escape(one_line(said, _MOST_CHARS))
