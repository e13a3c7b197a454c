"""SVG pictures: a Sankey diagram of a prompt's budget, and a graph of neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from math import atan2, cos, pi, sin
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.text import one_line
from familiar_cli.context.types import Fragment, Layer, LayerUse
from familiar_cli.pages.context_page import origin_of, row_key, state_of
from familiar_cli.servers.web.html.elements import Html, environment
from familiar_cli.store.memory.relation_index import LINKS, Edge, GraphPage

if TYPE_CHECKING:
    from familiar_cli.actions.memory.graph import Around
    from familiar_cli.context.trace import Trace

MOST_FLOWS: Final = 36
"""So many can be told apart; of the rest, those of one layer and fate become one."""

MARKS: Final = {"kept": "●", "cut": "◐", "out": "○"}


class Flow(Struct, frozen=True):
    """One piece, or several similar ones.

    Args:
        layer: The layer whose budget they use.
        state: `kept`, `cut` or `out`.
        name: The provider.
        origin: The source file or turns.
        sent_tokens: Tokens in the prompt.
        lost_tokens: Tokens left out.
        reason: Why they were left out.
        count: Number of pieces.
    """

    layer: str
    state: str
    name: str
    origin: str
    sent_tokens: int
    lost_tokens: int
    reason: str
    count: int = 1

    @property
    def tokens(self) -> int:
        """Tokens offered."""
        return self.sent_tokens + self.lost_tokens

    @property
    def title(self) -> str:
        """Full description."""
        pieces = f" ({self.count} pieces)" if self.count > 1 else ""
        origin = f"\n{self.origin}" if self.origin else ""
        lost = f", {self.lost_tokens} left out" if self.lost_tokens else ""
        why = f"\n{self.reason}" if self.reason else ""
        return (
            f"{self.name}{pieces}{origin}\n{self.state}: {self.sent_tokens} tokens sent{lost}{why}"
        )


def flows_of(trace: Trace) -> list[Flow]:
    """Group the flows by layer, in the order of the trace, without empty pieces."""
    order = {layer.name: number for number, layer in enumerate(trace.layers)}
    pieces = [piece for piece in trace.contributions if piece.offered_tokens > 0]
    pieces.sort(key=lambda piece: order.get(str(piece.layer), len(order)))
    flows = [_make_flow(list(alike)) for _, alike in groupby(pieces, key=_ribbon_key)]
    return _fewer_flows(flows)


def _ribbon_key(piece: Fragment) -> object:
    """Return the key by which neighbouring pieces share a ribbon, as the parts of a digest do."""
    is_digest = piece.layer is Layer.digest and piece.rel_path
    return (piece.layer, piece.source, piece.rel_path) if is_digest else row_key(piece)


def _make_flow(alike: Sequence[Fragment]) -> Flow:
    first = alike[0]
    states = {state_of(piece) for piece in alike}
    sent = sum(piece.tokens for piece in alike if piece.kept)
    offered = sum(piece.offered_tokens for piece in alike)
    return Flow(
        layer=str(first.layer),
        state=state_of(first) if len(states) == 1 else "cut",
        name=first.source,
        origin=origin_of(alike) if len(alike) == 1 or not first.rel_path else first.rel_path,
        sent_tokens=sent,
        lost_tokens=max(offered - sent, 0),
        reason=next((piece.reason for piece in alike if piece.reason), ""),
        count=len(alike),
    )


def _fewer_flows(flows: list[Flow]) -> list[Flow]:
    """Merge small flows of the same layer and state until about `MOST_FLOWS` remain."""
    if len(flows) <= MOST_FLOWS:
        return flows
    large = set(sorted(range(len(flows)), key=lambda n: -flows[n].tokens)[:MOST_FLOWS])
    rest: dict[tuple[str, str], Flow] = {}
    kept: list[Flow] = []
    for number, flow in enumerate(flows):
        if number in large:
            kept.append(flow)
        else:
            key = (flow.layer, flow.state)
            rest[key] = _sum(rest[key], flow) if key in rest else replace(flow, name="others")
    layers = list(dict.fromkeys(flow.layer for flow in flows))
    return sorted([*kept, *rest.values()], key=lambda flow: layers.index(flow.layer))


def _sum(one: Flow, other: Flow) -> Flow:
    return replace(
        one,
        origin="",
        reason=one.reason if one.reason == other.reason else "several reasons; see the table",
        sent_tokens=one.sent_tokens + other.sent_tokens,
        lost_tokens=one.lost_tokens + other.lost_tokens,
        count=one.count + other.count,
    )


_HEIGHT: Final = 380.0  # of all ribbons together, without gaps
_THINNEST: Final = 2.5
_SLOT: Final = 19.0  # minimum height of a label
_GAP: Final = 3.0
_LAYER_GAP: Final = 14.0
_MARGIN: Final = 12.0
_USEFUL_CELLS: Final = 8
BAR: Final = 9.0
"""The width of a node."""


class Frame(Struct, frozen=True):
    """The size of a diagram and its labels.

    Args:
        name: Its class, and the prefix of its ids.
        width: Total width.
        columns: Positions of the prompt, the layers and the pieces.
        label_cells: Maximum cells of a piece's label.
        with_origin: Whether labels include the file.
    """

    name: str
    width: float
    columns: tuple[float, float, float]
    label_cells: int
    with_origin: bool


WIDE: Final = Frame("wide", 1000.0, (0.0, 160.0, 410.0), 72, with_origin=True)
NARROW: Final = Frame("narrow", 360.0, (0.0, 46.0, 184.0), 16, with_origin=False)


class Ribbon(Struct, frozen=True):
    """A band of constant thickness between two columns."""

    x0: float
    y0: float
    x1: float
    y1: float
    thickness: float
    layer: str
    lost: bool
    title: str

    @property
    def path(self) -> str:
        """The outline as an SVG path."""
        middle = (self.x0 + self.x1) / 2
        low0, low1 = self.y0 + self.thickness, self.y1 + self.thickness
        there = (
            f"M{self.x0:.1f} {self.y0:.1f}C{middle:.1f} {self.y0:.1f} {middle:.1f} {self.y1:.1f}"
        )
        back = f"C{middle:.1f} {low1:.1f} {middle:.1f} {low0:.1f} {self.x0:.1f} {low0:.1f}Z"
        return f"{there} {self.x1:.1f} {self.y1:.1f}V{low1:.1f}{back}"


class SankeyNode(Struct, frozen=True):
    """A bar at which ribbons begin or end, with its label."""

    x: float
    y: float
    height: float
    layer: str
    lost: float
    label: str
    origin: str
    note: str
    title: str
    state: str = ""


class Diagram(Struct, frozen=True):
    """A laid-out diagram."""

    frame: Frame
    height: float
    nodes: tuple[SankeyNode, ...]
    ribbons: tuple[Ribbon, ...]


def lay_out(
    flows: Sequence[Flow], layers: Iterable[LayerUse], total: tuple[int, int], frame: Frame
) -> Diagram:
    """Lay out a diagram so that no two labels of a column overlap.

    Args:
        flows: Flows by layer.
        layers: The budget of each layer.
        total: Tokens of the prompt, and their limit.
        frame: The size.
    """
    scale = _HEIGHT / max(sum(flow.tokens for flow in flows), 1)
    budgets = {layer.name: layer for layer in layers}
    nodes: list[SankeyNode] = []
    ribbons: list[Ribbon] = []
    sources: list[tuple[SankeyNode, float]] = []
    y = _MARGIN
    for layer, group in groupby(flows, key=lambda flow: flow.layer):
        placed = _place_column(list(group), y, scale, frame)
        y = placed[-1][2]
        source = _source_node(layer, placed, budgets.get(layer), frame)
        ribbons += _fan_out(source, placed, frame)
        nodes += [source, *(node for node, _, _ in placed)]
        sources.append((source, sum(_ribbon_sizes(flow, scale)[0] for _, flow, _ in placed)))
        y += _LAYER_GAP
    height = y + _MARGIN - _LAYER_GAP if flows else 2 * _MARGIN
    root, trunk = _root_node(sources, total, height, frame)
    return Diagram(frame, height, (root, *nodes), (*trunk, *ribbons))


def _ribbon_sizes(flow: Flow, scale: float) -> tuple[float, float]:
    """Return the thickness of the ribbons for sent and for lost tokens."""
    sent = max(flow.sent_tokens * scale, _THINNEST) if flow.sent_tokens else 0.0
    lost = max(flow.lost_tokens * scale, _THINNEST) if flow.lost_tokens else 0.0
    return sent, lost


def _place_column(
    flows: Sequence[Flow], y: float, scale: float, frame: Frame
) -> list[tuple[SankeyNode, Flow, float]]:
    """Return each piece's node, and the end of its space."""
    placed = []
    for flow in flows:
        sent, lost = _ribbon_sizes(flow, scale)
        slot = max(sent + lost, _SLOT)
        top = y + (slot - sent - lost) / 2
        label, origin = _labels(flow, frame)
        tokens = f"{flow.sent_tokens}/{flow.tokens}" if flow.lost_tokens else str(flow.tokens)
        x = frame.columns[2]
        size = sent + lost
        node = SankeyNode(
            x, top, size, flow.layer, lost, label, origin, tokens, flow.title, flow.state
        )
        placed.append((node, flow, y + slot))
        y += slot + _GAP
    return placed


def _labels(flow: Flow, frame: Frame) -> tuple[str, str]:
    """Return a piece's name, and as much of its file as fits beside it."""
    from rich.cells import cell_len

    name = one_line(flow.name if frame.with_origin else flow.name.rpartition(".")[2])
    count = f" ×{flow.count}" if flow.count > 1 else ""
    label = head_cells(f"{MARKS[flow.state]} {name}{count}", frame.label_cells)
    room = frame.label_cells - cell_len(label) if frame.with_origin else 0
    return label, tail_cells(one_line(flow.origin, 1000), room)


def _source_node(
    layer: str, placed: Sequence[tuple[SankeyNode, Flow, float]], use: LayerUse | None, frame: Frame
) -> SankeyNode:
    height = sum(node.height for node, _, _ in placed)
    first, last = placed[0][0], placed[-1][0]
    top = (first.y + last.y + last.height - height) / 2
    sent = sum(flow.sent_tokens for _, flow, _ in placed)
    note = f"{use.used_tokens} of {use.budget_tokens}" if use else str(sent)
    lost = sum(flow.lost_tokens for _, flow, _ in placed)
    question = f"\n{lost} more tokens were offered" if lost else ""
    title = f"layer {layer}\n{note} tokens used{question}"
    return SankeyNode(frame.columns[1], top, height, layer, 0.0, layer, "", note, title)


def _fan_out(
    source: SankeyNode, placed: Sequence[tuple[SankeyNode, Flow, float]], frame: Frame
) -> list[Ribbon]:
    """Return the ribbons from a layer to its pieces."""
    ribbons = []
    y = source.y
    for node, flow, _ in placed:
        for thickness, offset, lost in (
            (node.height - node.lost, 0.0, False),
            (node.lost, node.height - node.lost, True),
        ):
            if thickness:
                x0, x1 = source.x + BAR, frame.columns[2]
                ribbons.append(
                    Ribbon(x0, y, x1, node.y + offset, thickness, flow.layer, lost, flow.title)
                )
                y += thickness
    return ribbons


def _root_node(
    sources: Sequence[tuple[SankeyNode, float]], total: tuple[int, int], height: float, frame: Frame
) -> tuple[SankeyNode, list[Ribbon]]:
    """Return the node of the whole prompt, and the ribbons from it to the layers."""
    whole = sum(sent for _, sent in sources)
    y = top = (height - whole) / 2
    ribbons = []
    for node, sent in sources:
        if sent:
            end = node.y + (node.height - sent) / 2
            x0, x1 = frame.columns[0] + BAR, node.x
            ribbons.append(Ribbon(x0, y, x1, end, sent, node.layer, lost=False, title=node.title))
            y += sent
    used, budget = total
    note = f"{used} of {budget}"
    title = f"the whole prompt\n{note} tokens used"
    return SankeyNode(
        frame.columns[0], top, whole, "prompt", 0.0, "prompt", "", note, title
    ), ribbons


def head_cells(label: str, cells: int) -> str:
    """Truncate the end of `label` to at most `cells` character cells; wide ones take two."""
    from rich.cells import cell_len, set_cell_size

    return label if cell_len(label) <= cells else set_cell_size(label, cells - 1).rstrip() + "…"


def tail_cells(label: str, cells: int) -> str:
    """Truncate the start of `label` to at most `cells` character cells; empty if too few."""
    from rich.cells import cell_len

    if cell_len(label) <= cells:
        return label
    end = label
    while end and cell_len(end) > cells - 1:
        end = end[1:]
    return f"…{end}" if cells >= _USEFUL_CELLS else ""


def sankey_svg(diagram: Diagram, label: str) -> Html:
    """Render the diagram as an SVG element with the accessible name `label`."""
    return Html(str(_macros("sankey").sankey(diagram, BAR, label)).strip())


Place = tuple[float, float]

MOST_NODES: Final = 40
"""A picture of more shows nothing."""

_STEP: Final = 210
_MARGIN_X: Final = 110
_MARGIN_Y: Final = 50
_LINE: Final = 14
_NAME_WIDTH: Final = 130  # space for a name on a ring
_NAME_CHARS: Final = 60
_LINE_CHARS: Final = 17
_MOST_LABELLED: Final = 13  # with more pages, the labels of relations overlap
_ARROWS: Final = "→↘↓↙←↖↑↗"  # in screen coordinates: y grows downwards


def ego_page(graph: Around) -> str:
    """Render a page without scripts or external resources."""
    title = graph.center.title if graph.center else ""
    return str(_macros("ego").page(title, ego_svg(graph))).strip() + "\n"


def ego_svg(graph: Around, href: Callable[[GraphPage], str] = lambda _: "") -> Html:
    """Render the neighbourhood. Text from memory is escaped.

    Args:
        graph: The neighbourhood.
        href: Returns the link of a page; empty for none.
    """
    nodes = graph.nodes[:MOST_NODES]
    places = _place_nodes(_rings_around(graph, nodes))
    drawn = [e for e in graph.edges if e.source in places and e.target in places]
    lines = [(_line_kind(edge), places[edge.source], places[edge.target]) for edge in drawn]
    stated = [edge for edge in drawn if edge.relation != LINKS]
    labels = _edge_labels(stated, places) if len(nodes) <= _MOST_LABELLED else []
    names = {node.path: wrap(one_line(node.title, _NAME_CHARS), _LINE_CHARS) for node in nodes}
    picture = _macros("ego").picture(graph, nodes, places, names, _box(places), lines, labels, href)
    return Html(str(picture).strip())


def _macros(template: str) -> Any:  # noqa: ANN401  # the macros are attributes
    return environment("familiar_cli.servers.web.html").get_template(f"{template}.html").module


def _box(places: dict[str, Place]) -> tuple[str, ...]:
    """Return the view box around the circles and their names."""
    xs, ys = zip(*places.values(), strict=True)
    left, top = min(xs) - _MARGIN_X, min(ys) - _MARGIN_Y
    width, height = max(xs) + _MARGIN_X - left, max(ys) + _MARGIN_Y - top
    return tuple(f"{size:.0f}" for size in (left, top, width, height))


def _rings_around(graph: Around, nodes: tuple[GraphPage, ...]) -> list[list[str]]:
    """Group the pages by their distance."""
    left = [node.path for node in nodes]
    rings = [[left.pop(0)]]
    while left:
        near = {
            end
            for edge in graph.edges
            if {edge.source, edge.target} & set(rings[-1])
            for end in (edge.source, edge.target)
        }
        ring = [path for path in left if path in near] or left
        rings.append(ring)
        left = [path for path in left if path not in ring]
    return rings


def _place_nodes(rings: list[list[str]]) -> dict[str, Place]:
    """Place each page; a ring without room for its names continues outside it."""
    places: dict[str, Place] = {}
    circles: list[list[str]] = []
    for ring in rings:
        left = ring
        while left:
            room = max(int(2 * pi * _STEP * len(circles) / _NAME_WIDTH), 1)
            circles.append(left[:room])
            left = left[room:]
    for number, ring in enumerate(circles):
        for at, path in enumerate(ring):
            angle = 2 * pi * at / len(ring) - pi / 2 + number * 0.3
            places[path] = (_STEP * number * cos(angle), _STEP * number * sin(angle))
    return places


def _line_kind(edge: Edge) -> str:
    return "link" if edge.relation == LINKS else "over" if edge.until else "relation"


def _edge_labels(
    edges: list[Edge], places: dict[str, Place]
) -> list[tuple[str, str, float, float]]:
    """Return each relation with its arrow and position; those between the same two are stacked."""
    beside: Counter[frozenset[str]] = Counter()
    labels = []
    for edge in edges:
        (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
        arrow = _ARROWS[round(atan2(y2 - y1, x2 - x1) / (pi / 4)) % len(_ARROWS)]
        ends = frozenset((edge.source, edge.target))
        labels.append((edge.relation, arrow, (x1 + x2) / 2, (y1 + y2) / 2 + beside[ends] * _LINE))
        beside[ends] += 1
    return labels
