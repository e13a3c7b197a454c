"""Pages of relations: the picture of all of them, or of what is around one page."""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from familiar_cli.actions.memory.fact_days import fact_days
from familiar_cli.actions.memory.graph import Around, neighbourhood, overview
from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.servers.web.asking import PageRequest, Shown, WebPage
from familiar_cli.servers.web.html.pictures import MOST_NODES, ego_svg

if TYPE_CHECKING:
    from familiar_cli.base.config.home import FamiliarPaths
    from familiar_cli.store.memory.relation_index import GraphPage

_MOST_STEPS: Final = 4
_ALL_S: Final = 600.0
READ_S: Final = 0.2
"""Seconds a page waits while changed files are read; the rest is read in the background."""


def show_graph(asked: PageRequest) -> Shown:
    """Return the graph of all relations, or of one page's neighbourhood."""
    name = asked.query.get("name", "").strip()
    depth = asked.number("depth") or 1
    if depth > _MOST_STEPS:
        raise UsageError(f"depth must be at most {_MOST_STEPS}, not {depth}")
    viewer = asked.familiar.privacy.owner()
    found = (
        neighbourhood(asked.familiar, name, depth, viewer=viewer, thorough=False, within_s=READ_S)
        if name
        else overview(asked.familiar, viewer=viewer, thorough=False, within_s=READ_S)
    )
    return Shown("graph", {"name": name, "steps": _MOST_STEPS, **draw_graph(asked, found)})


def draw_graph(asked: PageRequest, found: Around) -> dict[str, Any]:
    """Return the template values for a graph; continue reading in the background."""
    from familiar_cli.pages.memory_pages import edge_span

    if found.unread:
        finish_reading(asked.familiar.paths)
    nodes = {node.path: node for node in found.nodes}

    def href(node: GraphPage) -> str:
        return asked.to("graph", name=node.path) if node.exists else ""

    edges = [
        {
            "from": nodes[edge.source],
            "to": nodes[edge.target],
            "relation": edge.relation,
            "when": edge_span(edge).strip(" ()"),
            "turns": edge.evidence,
            "kind": "link" if edge.is_link else "over" if edge.until else "relation",
        }
        for edge in found.edges
    ]
    near = nearest_pages(found)
    return {
        "found": found,
        "edges": edges,
        "picture": ego_svg(near, href) if edges else "",
        "left_out": len(found.nodes) - len(near.nodes),
    }


def nearest_pages(found: Around) -> Around:
    """Return the pages nearest to the center, or to the page with most relations."""
    if not found.nodes:
        return found
    beside: dict[str, list[str]] = {node.path: [] for node in found.nodes}
    for edge in found.edges:
        beside[edge.source].append(edge.target)
        beside[edge.target].append(edge.source)
    first = found.center.path if found.center else max(beside, key=lambda path: len(beside[path]))
    reached = [first]
    for path in reached:  # grows while it is iterated: breadth first
        reached += [other for other in dict.fromkeys(beside[path]) if other not in reached]
        if len(reached) >= MOST_NODES:
            break
    del reached[MOST_NODES:]
    nodes = {node.path: node for node in found.nodes}
    edges = tuple(e for e in found.edges if e.source in reached and e.target in reached)
    shown = tuple(nodes[path] for path in reached)
    return replace(found, center=shown[0], nodes=shown, edges=edges)


_READING: Final[set[str]] = set()
_READING_LOCK: Final = threading.Lock()


def finish_reading(paths: FamiliarPaths) -> None:
    """Index all changed pages in a background thread, one per familiar."""
    from familiar_cli.familiar import Familiar

    key = str(paths.root)

    def read() -> None:
        try:
            with (
                suppress(FamiliarError),
                Familiar(paths) as familiar,
                closing(familiar.relations()) as graph,
            ):
                familiar.index.refresh()
                fact_days(familiar).read(familiar, _ALL_S)
                graph.refresh()
        finally:
            with _READING_LOCK:
                _READING.discard(key)

    with _READING_LOCK:
        if key in _READING:
            return
        _READING.add(key)
    threading.Thread(target=read, daemon=True).start()


PAGES: Final = (WebPage("/graph", show_graph),)
