"""The graph around somebody: a tree for a terminal, and the language of Graphviz."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.tree import Tree

from familiar_cli.memory.relation_index import LINKS
from familiar_cli.ui.terminal import plain

if TYPE_CHECKING:
    from rich.console import RenderableType

    from familiar_cli.actions.graph import Around
    from familiar_cli.memory.relation_index import Edge, GraphPage


def graph_tree(found: Around) -> RenderableType:
    """Return the page in the middle with what is around it, each page once, near ones first."""
    assert found.center
    titles = {node.path: node for node in found.nodes}
    root = Tree(plain(_shown(found.center), "bold"))
    branches = {found.center.path: root}
    told: set[Edge] = set()
    level = [found.center.path]
    while level:
        below: list[str] = []
        for path in level:
            for edge in found.edges:
                if edge in told or path not in {edge.source, edge.target}:
                    continue
                told.add(edge)
                other = edge.target if path == edge.source else edge.source
                is_new = other not in branches
                child = branches[path].add(plain(edge_text(edge, path, titles)))
                if is_new:
                    branches[other] = child
                    below.append(other)
        level = below
    return root


def overview_text(found: Around) -> str:
    """Return all relations, one a line."""
    titles = {node.path: node for node in found.nodes}
    return "".join(
        f"{_title(edge.source, titles)}: {edge.relation} "
        f"{_title(edge.target, titles)}{when(edge)}\n"
        for edge in found.edges
    )


def edge_text(edge: Edge, path: str, titles: dict[str, GraphPage]) -> str:
    """Return an edge as one of its ends tells it."""
    if path == edge.source:
        return f"{edge.relation} {_told(edge.target, titles)}{when(edge)}"
    if edge.relation == LINKS:
        return f"{_told(edge.source, titles)} {LINKS} it"
    return f"{_told(edge.source, titles)} is {edge.relation} {_title(path, titles)}{when(edge)}"


def when(edge: Edge) -> str:
    """Return from when until when it holds, in brackets; empty where that is not known."""
    told = [f"since {edge.since}"] if edge.since else []
    told += [f"until {edge.until}"] if edge.until else []
    return f" ({', '.join(told)})" if told else ""


def dot_text(found: Around) -> str:
    """Return the graph in the language of Graphviz."""
    nodes = "".join(
        f"  {json.dumps(node.id)} [label={json.dumps(node.title, ensure_ascii=False)}];\n"
        for node in found.nodes
    )
    edges = "".join(
        f"  {json.dumps(_id(edge.source))} -> {json.dumps(_id(edge.target))}"
        f" [label={json.dumps(edge.relation + when(edge), ensure_ascii=False)}];\n"
        for edge in found.edges
    )
    return f"digraph familiar {{\n{nodes}{edges}}}\n"


def _shown(node: GraphPage) -> str:
    return f"{node.title}  {node.path}"


def _told(path: str, titles: dict[str, GraphPage]) -> str:
    node = titles.get(path)
    missing = ", which does not exist" if node and node.kind == "missing" else ""
    return f"{_title(path, titles)}  {path}{missing}"


def _title(path: str, titles: dict[str, GraphPage]) -> str:
    return titles[path].title if path in titles else _id(path)


def _id(path: str) -> str:
    return path.removesuffix(".md")
