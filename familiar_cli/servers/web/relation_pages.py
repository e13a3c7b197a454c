"""Pages of relations: the picture of all of them, or of what is around one page."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Final

from msgspec.structs import replace

from familiar_cli.actions.memory.fact_days import DatedFact, fact_days
from familiar_cli.actions.memory.graph import (
    Around,
    Cluster,
    clusters_of,
    neighbourhood,
    neighbours_in,
    overview,
    pages_by_nearness,
)
from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.base.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.base.text import counted
from familiar_cli.familiar import Familiar
from familiar_cli.servers.web.asking import PageRequest, PageView, WebPage
from familiar_cli.servers.web.html.pictures import MOST_NODES, ego_svg
from familiar_cli.store.memory.relation_index import Edge, GraphPage

_MOST_STEPS: Final = 4
_MOST_PAGES: Final = 5_000
_MOST_SINGLE: Final = 120  # pages drawn one by one; of more, no name can be read
_ALL_S: Final = 600.0
_AFTER_S: Final = 0.3  # so that the page that asks is drawn first
READ_S: Final = 0.2
"""Seconds a page waits while changed files are read; the rest is read in the background."""


def show_graph(request: PageRequest) -> PageView:
    """Return the graph around one page, or of all relations; of many, clusters that open."""
    name, cluster = (request.query.get(key, "").strip() for key in ("name", "cluster"))
    depth = request.number("depth") or 1
    if depth > _MOST_STEPS:
        raise UsageError(f"depth must be at most {_MOST_STEPS}, not {depth}")
    familiar, viewer = request.familiar, request.familiar.privacy.owner()
    if name:
        return _graph_page(
            request,
            neighbourhood(familiar, name, depth, viewer=viewer, thorough=False, within_s=READ_S),
        )
    graph = overview(familiar, viewer=viewer, most=_MOST_PAGES, thorough=False, within_s=READ_S)
    if not cluster and len(graph.nodes) <= _MOST_SINGLE:
        return _graph_page(request, graph)
    clusters = {one.path: one for one in clusters_of(graph)}
    if not cluster:
        return _graph_page(request, _graph_of(graph, clusters.values()), clusters)
    if cluster not in clusters:
        raise NotFoundError(
            f"There is no cluster around {cluster!r} now",
            hint="The page of all relations shows them.",
        )
    opened = clusters[cluster]
    nodes = {page.path for page in opened.pages}
    edges = tuple(edge for edge in graph.edges if nodes >= {edge.source, edge.target})
    return _graph_page(request, replace(graph, nodes=opened.pages, edges=edges), clusters, opened)


def _graph_of(graph: Around, clusters: Collection[Cluster]) -> Around:
    """Return a graph with a page for each cluster."""
    nodes = tuple(GraphPage(one.path, one.title) for one in clusters)
    edges = tuple(
        Edge(one.path, other, counted(count, "relation"), line=1)
        for one in clusters
        for other, count in one.beside.items()
        if one.path < other
    )
    return replace(graph, nodes=nodes, edges=edges)


def _graph_page(
    request: PageRequest,
    graph: Around,
    clusters: Mapping[str, Cluster] = {},
    opened: Cluster | None = None,
) -> PageView:
    values = {"name": request.query.get("name", ""), "steps": _MOST_STEPS}
    values |= {"clusters": clusters, "opened": opened}
    opens = "cluster" if clusters and not opened else "name"
    return PageView("graph", {**values, **draw_graph(request, graph, opens)})


def draw_graph(request: PageRequest, graph: Around, opens: str = "name") -> dict[str, Any]:
    """Return the template values for a graph; continue reading in the background.

    Args:
        request: The request.
        graph: The graph.
        opens: What a click on a page opens: its graph by `name`, or its `cluster`.
    """
    from familiar_cli.pages.memory_pages import edge_span

    if graph.unread:
        finish_reading(request.familiar.paths)
    nodes = {node.path: node for node in graph.nodes}

    def href(node: GraphPage) -> str:
        return request.to("graph", **{opens: node.path}) if node.exists else ""

    edges = [
        {
            "from": nodes[edge.source],
            "to": nodes[edge.target],
            "relation": edge.relation,
            "when": edge_span(edge).strip(" ()"),
            "turns": edge.evidence,
            "kind": "link" if edge.is_link else "over" if edge.until else "relation",
        }
        for edge in graph.edges
    ]
    near = nearest_pages(graph)
    return {
        "found": graph,
        "edges": edges,
        "picture": ego_svg(near, href) if edges else "",
        "left_out": len(graph.nodes) - len(near.nodes),
    }


def nearest_pages(graph: Around) -> Around:
    """Return the pages nearest to the center, or to the page with most relations."""
    if not graph.nodes:
        return graph
    near = neighbours_in(graph)
    first = graph.center.path if graph.center else max(near, key=lambda path: len(near[path]))
    reached = pages_by_nearness((first, *near), near)[:MOST_NODES]
    nodes = {node.path: node for node in graph.nodes}
    edges = tuple(e for e in graph.edges if e.source in reached and e.target in reached)
    pages = tuple(nodes[path] for path in reached)
    return replace(graph, center=pages[0], nodes=pages, edges=edges)


_READING: Final[set[str]] = set()
_READING_LOCK: Final = threading.Lock()


def finish_reading(paths: FamiliarPaths) -> None:
    """Index all changed pages in a background thread, one per familiar."""
    key = str(paths.root)

    def read() -> None:
        try:
            with suppress(FamiliarError), Familiar(paths) as familiar:
                familiar.finder.read_changes()
                fact_days(familiar).read(familiar, _ALL_S)
        finally:
            with _READING_LOCK:
                _READING.discard(key)

    with _READING_LOCK:
        if key in _READING:
            return
        _READING.add(key)
    reading = threading.Timer(_AFTER_S, read)
    reading.daemon = True
    reading.start()


def read_names(asked: PageRequest, *, thorough: bool = False) -> int:
    """Read changed files of people; return how many are still read in the background."""
    with closing(asked.familiar.names()) as names:
        unread = names.refresh(thorough=thorough, within_s=READ_S)
    if unread:
        finish_reading(asked.familiar.paths)
    return unread


def known_facts(asked: PageRequest, within_s: float = READ_S) -> tuple[Sequence[DatedFact], int]:
    """Return the dated facts, and how many changed pages are still read in the background."""
    facts, unread = fact_days(asked.familiar).read(asked.familiar, within_s)
    if unread:
        finish_reading(asked.familiar.paths)
    return facts, unread


PAGES: Final = (WebPage("/graph", show_graph),)
