"""The diagram: everything is drawn, nothing overlaps, and sizes stand for tokens."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.context.types import Layer, LayerUse
from familiar_cli.servers.web.html.pictures import (
    MOST_FLOWS,
    NARROW,
    WIDE,
    Flow,
    flows_of,
    head_cells,
    lay_out,
    sankey_svg,
    tail_cells,
)
from tests.support.traces import piece, trace

LAYERS = tuple(LayerUse(str(layer), 1000, 100) for layer in Layer)
SIZES = st.lists(
    st.tuples(st.sampled_from(list(Layer)), st.integers(0, 9000), st.integers(0, 9000)),
    max_size=60,
)


def drawn(sizes, frame=WIDE):
    found = [
        Flow(str(layer), "kept", "a", "", sent, lost, "") for layer, sent, lost in sorted(sizes)
    ]
    found = [flow for flow in found if flow.tokens]
    return found, lay_out(found, LAYERS, (100, 1000), frame)


def column(diagram, number):
    x = diagram.frame.columns[number]
    return sorted((node for node in diagram.nodes if node.x == x), key=lambda node: node.y)


@given(SIZES, st.sampled_from([WIDE, NARROW]))
def test_every_flow_is_drawn_inside_the_picture(sizes, frame) -> None:
    found, diagram = drawn(sizes, frame)
    assert len(column(diagram, 2)) == len(found)
    for node in diagram.nodes:
        assert -0.01 <= node.y <= node.y + node.height <= diagram.height + 0.01
    for ribbon in diagram.ribbons:
        assert ribbon.thickness > 0
        for y in (ribbon.y0, ribbon.y1):
            assert -0.01 <= y <= y + ribbon.thickness <= diagram.height + 0.01


@given(SIZES)
def test_no_two_labels_of_a_column_overlap(sizes) -> None:
    _, diagram = drawn(sizes)
    for number in (1, 2):
        middles = [node.y + node.height / 2 for node in column(diagram, number)]
        assert all(low - high >= 15 for high, low in pairwise(middles))


@given(SIZES)
def test_what_flows_into_a_layer_flows_on_or_is_lost(sizes) -> None:
    _, diagram = drawn(sizes)
    for node in column(diagram, 1):
        into = [r for r in diagram.ribbons if r.layer == node.layer and r.x1 == node.x]
        out = [r for r in diagram.ribbons if r.layer == node.layer and r.x1 > node.x]
        sent = sum(r.thickness for r in out if not r.lost)
        assert sum(r.thickness for r in into) == pytest.approx(sent)
        assert sum(r.thickness for r in out) == pytest.approx(node.height)


def test_twice_the_tokens_are_twice_as_thick() -> None:
    _, diagram = drawn([(Layer.core, 1000, 0), (Layer.core, 2000, 0)])
    one, two = column(diagram, 2)
    assert two.height == pytest.approx(2 * one.height)


def test_what_is_lost_is_hatched_and_dashed_and_has_its_own_mark() -> None:
    made = trace(7)
    diagram = lay_out(flows_of(made), made.layers, (430, 1000), WIDE)
    picture = sankey_svg(diagram, "a label")
    assert 'class="ribbon lost layer-character"' in picture
    assert 'id="wide-layer-character"' in picture
    assert {node.label[0] for node in diagram.nodes if node.state} == {"●", "◐", "○"}
    assert 'role="img" aria-label="a label"' in picture


def test_hovering_tells_all_of_a_piece() -> None:
    cut = next(flow for flow in flows_of(trace(7)) if flow.state == "cut")
    assert cut.title == (
        "character.scenario\nself/scenario.md\ncut: 100 tokens sent, 160 left out\n"
        "the layer is full"
    )


def test_of_many_pieces_the_small_ones_become_one() -> None:
    many = tuple(
        piece(f"part.{n}", layer=list(Layer)[n % 7], tokens=n + 1, offered_tokens=n + 1)
        for n in range(300)
    )
    found = flows_of(trace(7, contributions=many))
    assert MOST_FLOWS <= len(found) <= MOST_FLOWS + 2 * len(Layer)
    assert sum(flow.sent_tokens for flow in found) == 300 * 301 // 2
    assert sum(flow.count for flow in found) == 300


def test_nothing_at_all_is_still_a_picture() -> None:
    assert lay_out([], LAYERS, (0, 0), WIDE).height > 0
    assert flows_of(trace(7, contributions=(piece("a", tokens=0, offered_tokens=0),))) == []


def test_labels_are_cut_by_width_and_wide_characters_take_two_cells() -> None:
    assert head_cells("abcdef", 6) == "abcdef"
    assert head_cells("abcdefg", 6) == "abcde…"
    assert head_cells("日本語日本語", 6) == "日本…"
    assert tail_cells("people/日本.md", 10) == "…e/日本.md"
    assert tail_cells("people/a.md", 3) == ""
