"""Who and what is around somebody: pages, and how they are related."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.memory.layout import people_path

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.memory.relations.index import Edge, Node, RelationIndex
    from familiar_cli.visibility import Viewer

MOST_NODES: Final = 200
"""More fit neither a screen nor a picture."""


@dataclass(frozen=True, slots=True)
class Around:
    """A part of the graph.

    Args:
        center: The page in the middle; None: an overview of all that is related.
        nodes: The pages, the one in the middle first.
        edges: The relations and links between them.
        depth: How many steps away.
        is_cut: There are more pages.
    """

    center: Node | None
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    depth: int = 1
    is_cut: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "center": node_json(self.center) if self.center else None,
            "depth": self.depth,
            "is_cut": self.is_cut,
            "nodes": [node_json(node) for node in self.nodes],
            "edges": [edge_json(edge) for edge in self.edges],
        }


def node_json(node: Node) -> dict[str, Any]:
    """Return a node as plain values."""
    return {"id": node.id, "path": node.path, "title": node.title, "kind": node.kind}


def edge_json(edge: Edge) -> dict[str, Any]:
    """Return an edge as plain values; what is not known is null."""
    return {
        "from": edge.source.removesuffix(".md"),
        "to": edge.target.removesuffix(".md"),
        "relation": edge.relation,
        "since": edge.since or None,
        "until": edge.until or None,
        "evidence": list(edge.evidence),
        "line": edge.line or None,
    }


def around(
    familiar: Familiar,
    name: str,
    depth: int = 1,
    *,
    viewer: Viewer,
    most: int = MOST_NODES,
    links: bool = True,
    thorough: bool = True,
) -> Around:
    """Return the neighbourhood of the page that `name` refers to.

    Args:
        familiar: Whose memory.
        name: A person as `familiar people` takes one, a page's path or title.
        depth: How many steps.
        viewer: Who will see it.
        most: Most pages.
        links: Links between pages count, too.
        thorough: Look at every page, also where the directories say that nothing has changed.

    Raises:
        NotFoundError: Nothing is called so.
        UsageError: Several things are.
        FamiliarError: The graph cannot be used.
    """
    with closing(familiar.relations()) as graph:
        graph.refresh(thorough=thorough)
        center = _meant(familiar, graph, name)
        nodes, edges = graph.around(center, depth, viewer=viewer, most=most, links=links)
        kept = graph.once(edges)
    return Around(nodes[0], tuple(nodes), tuple(kept), depth, is_cut=len(nodes) >= most)


def overview(
    familiar: Familiar, *, viewer: Viewer, most: int = MOST_NODES, thorough: bool = True
) -> Around:
    """Return every page that has a relation, and the relations.

    Args:
        familiar: Whose memory.
        viewer: Who will see it.
        most: Most pages.
        thorough: Look at every page, also where the directories say that nothing has changed.

    Raises:
        FamiliarError: The graph cannot be used.
    """
    with closing(familiar.relations()) as graph:
        graph.refresh(thorough=thorough)
        nodes, edges = graph.related(viewer, most)
        kept = graph.once(edges)
    return Around(None, tuple(nodes), tuple(kept), is_cut=len(nodes) >= most)


def _meant(familiar: Familiar, graph: RelationIndex, name: str) -> str:
    """Return the page that a name means: a path of one, else a person, else a title."""
    for path in (name, f"{name}.md"):
        if path in graph.titles([path]):
            return path
    try:
        return _person(familiar, name)
    except NotFoundError:
        found = graph.named(name)
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{name!r} may be {', '.join(found)}", hint=f"Choose one: `familiar graph {found[0]}`."
        )
    raise NotFoundError(
        f"No person, place or topic is called {name!r}",
        hint="`familiar graph` lists all relations, `familiar people ls` everyone.",
    )


def _person(familiar: Familiar, name: str) -> str:
    from familiar_cli.actions.people.read import find_person

    with closing(familiar.names()) as names:
        names.refresh(thorough=True)
        return people_path(find_person(familiar, names, name))
