"""Relations around a subject, and their import and export as nodes and edges."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.imports.entity_graph import EntityEdge, EntityGraph, EntityNode, read_graph
from familiar_cli.markdown import as_paragraph
from familiar_cli.memory.layout import PEOPLE_DIR, PLACES_DIR, TOPICS_DIR, people_path
from familiar_cli.memory.pages.links import way_to
from familiar_cli.memory.pages.relations import Relation, line_of, relations_in
from familiar_cli.review.pending import Draft
from familiar_cli.text import fold, slugify
from familiar_cli.visibility import NOBODY
from familiar_cli.writer import applying

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.familiar import Familiar
    from familiar_cli.memory.relation_index import Edge, GraphPage, RelationIndex
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

    center: GraphPage | None
    nodes: tuple[GraphPage, ...]
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


def node_json(node: GraphPage) -> dict[str, Any]:
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


def neighbourhood(
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
        center = _find_page(familiar, graph, name)
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


def _find_page(familiar: Familiar, graph: RelationIndex, name: str) -> str:
    """Return the page that a name means: a path of one, else a person, else a title."""
    for path in (name, f"{name}.md"):
        if path in graph.titles([path]):
            return path
    try:
        return _find_person(familiar, name)
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


def _find_person(familiar: Familiar, name: str) -> str:
    from familiar_cli.actions.people import find_person

    with closing(familiar.names()) as names:
        names.refresh(thorough=True)
        return people_path(find_person(familiar, names, name))


SOURCE: Final = "import-graph"
_DIRS: Final = {"person": f"{PEOPLE_DIR}/entity-", "place": f"{PLACES_DIR}/"}
_OWN: Final = "self"


@dataclass(slots=True)
class ImportedGraph:
    """What an import did, or would do.

    Args:
        pages: The pages that were made.
        files: The files that changed.
        relations: How many relations were added.
        known: How many were there already.
        left_out: How many edges could not be taken over.
        diff: The change; unified.
        dry_run: Nothing was changed.
    """

    pages: list[str] = field(default_factory=list)
    files: tuple[str, ...] = ()
    relations: int = 0
    known: int = 0
    left_out: int = 0
    diff: str = ""
    dry_run: bool = False


def import_graph(familiar: Familiar, path: Path, *, dry_run: bool = False) -> ImportedGraph:
    """Take the edges of a graph over as relations, in one transaction. Again adds only what is new.

    A node is the page that is called so; where there is none, one is made. The node of the entity
    itself, and what is deleted, stays out.

    Raises:
        BadInputError: The file holds no graph.
        FamiliarError: The memory cannot be used; nothing was changed.
    """
    graph = read_graph(path)
    nodes = {node.id: node for node in graph.nodes}
    draft, done = Draft(familiar.memory), ImportedGraph(left_out=graph.unread, dry_run=dry_run)
    with closing(familiar.relations()) as known:
        known.refresh(thorough=True)
        places: dict[str, str] = {}
        for edge in graph.edges:
            ends = nodes[edge.source], nodes[edge.target]
            if any(node.type == _OWN for node in ends) or edge.source == edge.target:
                done.left_out += 1
                continue
            one, other = (_page_of(node, places, known, draft, done) for node in ends)
            if one and other and one != other:
                made = Relation(edge.relation, other, ends[1].label, edge.since, edge.until)
                is_new = _add_item(draft, one, made, familiar.phrases.heading("relations"))
                done.relations += is_new
                done.known += not is_new
            else:
                done.left_out += 1
    done.diff = draft.diff()
    message = f"{done.relations} relations from {path.name}"
    with familiar.memory.transaction(SOURCE, message, dry_run=dry_run) as tx:
        draft.stage(tx)
    done.files = tx.result.written
    return done


def export_graph(familiar: Familiar) -> EntityGraph:
    """Return all relations that are not private as nodes and edges."""
    found = overview(familiar, viewer=NOBODY, most=100_000)
    nodes = [EntityNode(node.id, node.kind, node.title) for node in found.nodes]
    edges = [
        EntityEdge(
            edge.source.removesuffix(".md"),
            edge.target.removesuffix(".md"),
            edge.relation,
            edge.since,
            edge.until,
        )
        for edge in found.edges
    ]
    return EntityGraph(tuple(nodes), tuple(edges))


def _page_of(
    node: EntityNode,
    places: dict[str, str],
    known: RelationIndex,
    draft: Draft,
    done: ImportedGraph,
) -> str:
    """Return the page of a node, made if need be; empty: several are called so, or none can be."""
    if node.id in places:
        return places[node.id]
    found = known.named(node.label)
    path = found[0] if len(found) == 1 else ""
    stem = slugify(node.label)
    if not found and stem:
        path = f"{_DIRS.get(node.type, f'{TOPICS_DIR}/')}{stem}.md"
        if draft.text(path) is None:
            about = f"\n{as_paragraph(node.description)}\n" if node.description else ""
            draft.put(path, f"# {node.label}\n{about}")
            done.pages.append(path)
    places[node.id] = path
    return path


def _add_item(draft: Draft, rel_path: str, made: Relation, heading: str) -> bool:
    """Add a relation to a page, unless it states it already; tell whether it was new."""
    text = draft.text(rel_path) or ""
    for there in relations_in(text, rel_path).relations:
        is_same = (fold(there.relation), there.target) == (fold(made.relation), made.target)
        if is_same and not there.private:
            return False
    line = line_of(made, way_to(made.target, rel_path))
    draft.put(rel_path, applying.with_bullets(text, heading, [line]))
    return True


def as_json(done: ImportedGraph) -> dict[str, Any]:
    """Return an import as plain values."""
    return {
        "relations": done.relations,
        "known": done.known,
        "left_out": done.left_out,
        "pages": done.pages,
        "files": list(done.files),
        "dry_run": done.dry_run,
    }
