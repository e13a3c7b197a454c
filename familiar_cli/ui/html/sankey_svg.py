"""The SVG of a Sankey diagram.

What is in the prompt is a filled ribbon; what is not is a hatched one with a dashed edge, and each
label begins with a mark, so that they are told apart without colour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.ui.html.elements import Html, el, joined
from familiar_cli.ui.html.sankey import BAR

if TYPE_CHECKING:
    from familiar_cli.ui.html.sankey import Diagram, Frame, Node, Ribbon


def svg(diagram: Diagram, label: str) -> Html:
    """Return the diagram as an SVG element, named `label` for those who do not see it."""
    frame = diagram.frame
    size = f"0 0 {frame.width:g} {diagram.height:.0f}"
    ribbons = [_draw_ribbon(ribbon, frame) for ribbon in diagram.ribbons]
    nodes = [_draw_node(node, frame) for node in diagram.nodes]
    labels = [_draw_label(node, frame) for node in diagram.nodes]
    parts = (_hatches(diagram, frame), *ribbons, *nodes, *labels)
    return el(
        "svg",
        joined(*parts),
        class_=f"sankey {frame.name}",
        viewBox=size,
        role="img",
        aria_label=label,
    )


def _hatches(diagram: Diagram, frame: Frame) -> Html:
    layers = sorted({ribbon.layer for ribbon in diagram.ribbons if ribbon.lost})
    patterns = [
        el(
            "pattern",
            el("line", x1=0, y1=0, x2=0, y2=6, class_=f"line {_color(layer)}"),
            id=f"{frame.name}-{_color(layer)}",
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
            patternTransform="rotate(45)",
        )
        for layer in layers
    ]
    return el("defs", *patterns)


def _draw_ribbon(ribbon: Ribbon, frame: Frame) -> Html:
    color = _color(ribbon.layer)
    fill = f"url(#{frame.name}-{color})" if ribbon.lost else None
    kind = "lost" if ribbon.lost else "sent"
    title = el("title", ribbon.title)
    return el("path", title, class_=f"ribbon {kind} {color}", d=ribbon.path, fill=fill)


def _draw_node(node: Node, frame: Frame) -> Html:
    color = _color(node.layer)
    solid = node.height - node.lost
    bars = []
    if solid:
        size = {"x": node.x, "y": node.y, "width": BAR, "height": solid}
        bars.append(el("rect", class_=f"node {color}", **_rounded(size)))
    if node.lost:
        size = {"x": node.x, "y": node.y + solid, "width": BAR, "height": node.lost}
        fill = f"url(#{frame.name}-{color})"
        bars.append(el("rect", class_=f"node lost {color}", fill=fill, **_rounded(size)))
    return el("g", el("title", node.title), *bars)


def _rounded(size: dict[str, float]) -> dict[str, str]:
    return {name: f"{value:.1f}" for name, value in size.items()}


def _draw_label(node: Node, frame: Frame) -> Html:
    x, middle = node.x + BAR + 6, node.y + node.height / 2
    if node.layer == "prompt" and not frame.with_origin:
        return Html("")
    words = [el("tspan", node.label, class_="name")]
    words += [el("tspan", f" {node.origin}", class_="origin")] if node.origin else []
    words += (
        [el("tspan", f" {node.note}", class_="note")] if node.state or frame.with_origin else []
    )
    place = {"x": f"{x:.1f}", "y": f"{middle:.1f}", "dy": ".35em"}
    return el("text", el("title", node.title), *words, class_=f"label {node.state}", **place)


def _color(layer: str) -> str:
    return f"layer-{layer.replace('_', '-')}"
