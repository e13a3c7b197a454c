"""Relations as nodes and edges of entity-core: in from a file, and out."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.actions.graph import overview
from familiar_cli.bootstrap.entity_graph import EntityEdge, EntityGraph, EntityNode, read_graph
from familiar_cli.markdown import as_paragraph
from familiar_cli.memory.layout import PEOPLE_DIR, PLACES_DIR, TOPICS_DIR
from familiar_cli.memory.pages.links import way_to
from familiar_cli.memory.pages.relations import Relation, line_of, relations_in
from familiar_cli.review.draft import Draft
from familiar_cli.text import fold, slugify
from familiar_cli.visibility import NOBODY
from familiar_cli.writer import sections

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.familiar import Familiar
    from familiar_cli.memory.relations.index import RelationIndex

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
            one, other = (_page(node, places, known, draft, done) for node in ends)
            if one and other and one != other:
                made = Relation(edge.relation, other, ends[1].label, edge.since, edge.until)
                is_new = _add(draft, one, made, familiar.phrases.heading("relations"))
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


def _page(
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


def _add(draft: Draft, rel_path: str, made: Relation, heading: str) -> bool:
    """Add a relation to a page, unless it states it already; tell whether it was new."""
    text = draft.text(rel_path) or ""
    for there in relations_in(text, rel_path).relations:
        is_same = (fold(there.relation), there.target) == (fold(made.relation), made.target)
        if is_same and not there.private:
            return False
    line = line_of(made, way_to(made.target, rel_path))
    draft.put(rel_path, sections.with_bullets(text, heading, [line]))
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
