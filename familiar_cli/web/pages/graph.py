"""Relations: who and what is around somebody, as a picture and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import UsageError
from familiar_cli.web.asking import Shown, WebPage

if TYPE_CHECKING:
    from familiar_cli.actions.graph import Around
    from familiar_cli.memory.relation_index import GraphPage
    from familiar_cli.web.asking import PageRequest

_MOST_STEPS: Final = 4


def show(asked: PageRequest) -> Shown:
    """Return all relations, or the picture of what is around one page."""
    from familiar_cli.actions.graph import around, overview

    name = asked.query.get("name", "").strip()
    depth = asked.number("depth") or 1
    if depth > _MOST_STEPS:
        raise UsageError(f"depth must be at most {_MOST_STEPS}, not {depth}")
    found = (
        around(asked.familiar, name, depth, viewer=asked.familiar.privacy.program(), thorough=False)
        if name
        else overview(asked.familiar, viewer=asked.familiar.privacy.program(), thorough=False)
    )
    return Shown("graph", {"name": name, "steps": _MOST_STEPS, **drawn(asked, found)})


def drawn(asked: PageRequest, found: Around) -> dict[str, Any]:
    """Return what a template needs for a picture and the list of what it shows."""
    from familiar_cli.ui.graph_page import when
    from familiar_cli.ui.html.ego import MOST_NODES, ego_svg

    nodes = {node.path: node for node in found.nodes}

    def href(node: GraphPage) -> str:
        return asked.to("graph", name=node.path) if node.exists else ""

    edges = [
        {
            "from": nodes[edge.source],
            "to": nodes[edge.target],
            "relation": edge.relation,
            "when": when(edge).strip(" ()"),
            "turns": edge.evidence,
            "is_link": edge.is_link,
        }
        for edge in found.edges
    ]
    return {
        "found": found,
        "edges": edges,
        "picture": ego_svg(found, href) if found.center and edges else "",
        "left_out": max(len(found.nodes) - MOST_NODES, 0) if found.center else 0,
    }


PAGES: Final = (WebPage("/graph", show),)
