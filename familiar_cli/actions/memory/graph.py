"""Relations around a subject, and their import and export as nodes and edges.

JSON is `{"nodes": [{"id", "type", "label", "description"}], "edges": [{"fromId", "toId", "type",
"occurredAt", "validUntil"}]}`; the file has the tables `graph_nodes` and `graph_edges`.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import asdict

from familiar_cli.actions.people.people import find_person
from familiar_cli.base.errors import BadInputError, NotFoundError, UsageError
from familiar_cli.base.files import read_plain, why
from familiar_cli.base.markdown import as_paragraph
from familiar_cli.base.text import counted, fold, one_line, slugify
from familiar_cli.base.who.visibility import NOBODY, Viewer
from familiar_cli.store.memory.layout import PEOPLE_DIR, PLACES_DIR, TOPICS_DIR, people_path
from familiar_cli.store.memory.pages.links import way_to
from familiar_cli.store.memory.pages.relations import Relation, line_of, relations_in
from familiar_cli.writing.pending import Draft
from familiar_cli.writing.writer import page_text

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.store.memory.relation_index import Edge, GraphPage, RelationIndex

MOST_BYTES: Final = 64 * 1024 * 1024
_SQLITE: Final = b"SQLite format 3\x00"
_DATE: Final = re.compile(r"[0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2})?)?")
_MOST_CHARS: Final = 80
_NODES: Final = "SELECT id, type, label, description, deleted FROM graph_nodes"
_EDGES: Final = (
    "SELECT from_id AS fromId, to_id AS toId, type, occurred_at AS occurredAt,"
    " valid_until AS validUntil, deleted FROM graph_edges"
)


class EntityNode(Struct, frozen=True):
    """A node: its id, its type such as `person`, and its label."""

    id: str
    type: str
    label: str
    description: str = ""


class EntityEdge(Struct, frozen=True):
    """An edge between two nodes, by their ids, with days where they are known."""

    source: str
    target: str
    relation: str
    since: str = ""
    until: str = ""


class EntityGraph(Struct, frozen=True):
    """The undeleted part of a graph, and the number of unreadable entries."""

    nodes: tuple[EntityNode, ...]
    edges: tuple[EntityEdge, ...]
    unread: int = 0


def read_graph(path: Path) -> EntityGraph:
    """Read the graph in a file.

    Raises:
        BadInputError: It is unreadable, or not a graph.
    """
    try:
        raw = read_plain(path, MOST_BYTES + 1)
    except OSError as error:
        raise BadInputError(f"{str(path)!r} cannot be read: {why(error)}") from error
    if len(raw) > MOST_BYTES:
        raise _no_graph(path, f"it is larger than {MOST_BYTES:,} bytes")
    if raw.startswith(_SQLITE):
        return _from_database(path)
    try:
        value = json.loads(raw)
        return _build_graph(value["nodes"], value["edges"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _no_graph(path, "it holds no nodes and edges") from error


def graph_json(graph: EntityGraph) -> dict[str, Any]:
    """Convert a graph to entity-core's JSON."""
    nodes = list(map(asdict, graph.nodes))
    edges = [
        {
            "id": f"{edge.source} {edge.relation} {edge.target}",
            "fromId": edge.source,
            "toId": edge.target,
            "type": edge.relation.replace(" ", "_"),
            **({"occurredAt": edge.since} if edge.since else {}),
            **({"validUntil": edge.until} if edge.until else {}),
        }
        for edge in graph.edges
    ]
    return {"nodes": nodes, "edges": edges}


def _from_database(path: Path) -> EntityGraph:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            return _build_graph(
                [dict(row) for row in database.execute(_NODES)],
                [dict(row) for row in database.execute(_EDGES)],
            )
    except sqlite3.DatabaseError as error:
        raise _no_graph(path, str(error)) from error


def _build_graph(nodes: Iterable[Any], edges: Iterable[Any]) -> EntityGraph:
    held: dict[str, EntityNode] = {}
    found: list[EntityEdge] = []
    unread = 0
    for node in nodes:
        is_node = isinstance(node, dict) and _read_word(node, "id") and _read_word(node, "label")
        if not is_node:
            unread += 1
        elif not node.get("deleted"):
            kind, about = _read_word(node, "type"), node.get("description")
            text = one_line(about, 2_000) if isinstance(about, str) else ""
            held[node["id"]] = EntityNode(node["id"], kind, _read_word(node, "label"), text)
    for edge in edges:
        if not isinstance(edge, dict) or not _read_word(edge, "type"):
            unread += 1
        elif not edge.get("deleted"):
            ends = edge.get("fromId"), edge.get("toId")
            if not all(isinstance(end, str) and end in held for end in ends):
                unread += 1
                continue
            relation = _read_word(edge, "type").replace("_", " ").strip()
            since, until = _read_day(edge, "occurredAt"), _read_day(edge, "validUntil")
            found.append(EntityEdge(edge["fromId"], edge["toId"], relation, since, until))
    return EntityGraph(tuple(held.values()), tuple(found), unread)


def _read_word(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    return one_line(value, _MOST_CHARS) if isinstance(value, str) else ""


def _read_day(values: Mapping[str, Any], key: str) -> str:
    found = _DATE.match(_read_word(values, key))
    return found[0] if found else ""


def _no_graph(path: Path, reason: str) -> BadInputError:
    return BadInputError(
        f"{str(path)!r} is not a graph of entity-core: {reason}; nothing was changed",
        hint="Use its `graph.db`, or a JSON file with `nodes` and `edges`.",
    )


MOST_NODES: Final = 200
"""More fit neither a screen nor a picture."""


class Around(Struct, frozen=True):
    """A part of the graph.

    Args:
        center: The page at the centre; None for an overview.
        nodes: The pages, the centre first.
        edges: Relations and links between them.
        depth: Number of steps from the centre.
        is_cut: There are more pages.
        unread: Number of pages not read yet, whose relations are missing.
    """

    center: GraphPage | None
    nodes: tuple[GraphPage, ...]
    edges: tuple[Edge, ...]
    depth: int = 1
    is_cut: bool = False
    unread: int = 0

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
    """Convert a node to plain values."""
    return {"id": node.id, "path": node.path, "title": node.title, "kind": node.kind}


def edge_json(edge: Edge) -> dict[str, Any]:
    """Convert an edge to plain values; unknown ones are null."""
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
    links: bool = True,
    thorough: bool = True,
    within_s: float = inf,
) -> Around:
    """Return the neighbourhood of the page that `name` refers to.

    Args:
        name: A person as `familiar people` takes one, a page's path or title.
        depth: Number of steps.
        links: Include links between pages.
        thorough: Check every page, even in directories that seem unchanged.
        within_s: Stop reading pages for it after this many seconds.

    Raises:
        NotFoundError: Nothing has this name.
        UsageError: Several things have it.
        FamiliarError: The graph cannot be used.
    """
    with closing(familiar.relations()) as graph:
        unread = graph.refresh(thorough=thorough, within_s=within_s)
        center = _find_page(familiar, graph, name, thorough=thorough, within_s=within_s)
        nodes, edges = graph.around(center, depth, viewer=viewer, most=MOST_NODES, links=links)
        kept = graph.once(edges)
    is_cut = len(nodes) >= MOST_NODES
    return Around(nodes[0], tuple(nodes), tuple(kept), depth, is_cut, unread)


def overview(
    familiar: Familiar,
    *,
    viewer: Viewer,
    most: int = MOST_NODES,
    thorough: bool = True,
    within_s: float = inf,
) -> Around:
    """Return all pages with relations, and the relations.

    Args:
        most: Maximum number of pages.
        thorough: Check every page, even in directories that seem unchanged.
        within_s: Stop reading pages for it after this many seconds.

    Raises:
        FamiliarError: The graph cannot be used.
    """
    with closing(familiar.relations()) as graph:
        unread = graph.refresh(thorough=thorough, within_s=within_s)
        nodes, edges, count = graph.related(viewer, most)
        kept = graph.once(edges)
    return Around(None, tuple(nodes), tuple(kept), is_cut=count > most, unread=unread)


_MOST_CLUSTERS: Final = 24
_MOST_OF_CLUSTER: Final = 80
_ROUNDS: Final = 20
_MOST_HUBS: Final = 8  # such as the owner, whom everybody knows


Neighbours = dict[str, dict[str, None]]


class Cluster(Struct, frozen=True):
    """Pages that are related to each other, the one with most relations first.

    Args:
        pages: The pages.
        beside: First pages of the clusters that it is related to, and the number of relations.
    """

    pages: tuple[GraphPage, ...]
    beside: Mapping[str, int] = {}

    @property
    def path(self) -> str:
        """The path of the first page, which stands for the cluster."""
        return self.pages[0].path

    @property
    def title(self) -> str:
        """The first page's title, and the number of the others."""
        first, others = self.pages[0].title, len(self.pages) - 1
        return f"{first} and {counted(others, 'other')}" if others else first


def neighbours_in(graph: Around) -> Neighbours:
    """Return the pages that each page is related to, in the order of the edges."""
    near: Neighbours = {node.path: {} for node in graph.nodes}
    for edge in graph.edges:
        near[edge.source][edge.target] = near[edge.target][edge.source] = None
    return near


def clusters_of(graph: Around, most: int = _MOST_OF_CLUSTER) -> list[Cluster]:
    """Group the pages of a graph into clusters of at most `most`, the largest first.

    Small ones are put together, so that there are few.
    """
    near = neighbours_in(graph)
    order = sorted(near, key=lambda path: (-len(near[path]), path))
    groups = _joined_groups(_related_groups(order, near, most), near, most)
    groups.sort(key=lambda group: (-len(group), group[0]))
    small = [path for group in groups[_MOST_CLUSTERS:] for path in group]
    packed = [small[start : start + most] for start in range(0, len(small), most)]
    held, nodes = [*groups[:_MOST_CLUSTERS], *packed], {node.path: node for node in graph.nodes}
    first_of = {path: group[0] for group in held for path in group}
    beside: dict[str, Counter[str]] = {group[0]: Counter() for group in held}
    for edge in graph.edges:
        one, other = first_of[edge.source], first_of[edge.target]
        if one != other:
            beside[one][other] += 1
            beside[other][one] += 1
    return [Cluster(tuple(nodes[path] for path in group), beside[group[0]]) for group in held]


def _related_groups(
    order: list[str], near: Neighbours, most: int, hubs: int = _MOST_HUBS
) -> list[list[str]]:
    """Give every page the group that most of its neighbours have, until none changes.

    Of a group that is too large, the page that holds it together is set aside for a moment, for
    at most `hubs` such pages; then the pages nearest to each other are taken together.
    """
    group = {path: path for path in order}
    for _ in range(_ROUNDS):
        before = dict(group)
        for path in reversed(order):  # those with few relations join those with many
            votes = Counter(group[other] for other in near[path] if other in group)
            best = max(votes, key=lambda one: (votes[one], one), default=path)
            if votes[best] > votes[group[path]]:
                group[path] = best
        if group == before:
            break
    held: dict[str, list[str]] = {}
    for path in order:
        held.setdefault(group[path], []).append(path)
    return [part for pages in held.values() for part in _small_parts(pages, near, most, hubs)]


def _small_parts(pages: list[str], near: Neighbours, most: int, hubs: int) -> list[list[str]]:
    if len(pages) <= most:
        return [pages]
    if hubs and len(near[pages[0]].keys() & set(pages)) > len(pages) / 2:
        first, *others = _related_groups(pages[1:], near, most - 1, hubs - 1)
        return [[pages[0], *first], *others]
    nearest = pages_by_nearness(pages, near)
    return [nearest[start : start + most] for start in range(0, len(nearest), most)]


def _joined_groups(groups: list[list[str]], near: Neighbours, most: int) -> list[list[str]]:
    """Join small groups to those that they have most relations with, until few are left."""
    place = {path: group for group in groups for path in group}
    left = len(groups)
    for group in sorted(groups, key=len):
        if left <= _MOST_CLUSTERS:
            break
        beside = Counter(place[other][0] for path in group for other in near[path])
        into = next(
            (
                place[first]
                for first, _ in beside.most_common()
                if first != group[0] and len(place[first]) + len(group) <= most
            ),
            None,
        )
        if into is not None:
            into += group
            place |= dict.fromkeys(group, into)
            group.clear()
            left -= 1
    return list(filter(None, groups))


def pages_by_nearness(pages: Iterable[str], near: Neighbours) -> list[str]:
    """Sort pages so that each is followed by its neighbours, breadth first."""
    inside = dict.fromkeys(pages)
    reached: dict[str, None] = {}
    for start in inside:
        waiting = [start]
        for path in waiting:  # grows while it is iterated
            if path not in reached:
                reached[path] = None
                waiting += [other for other in near[path] if other in inside]
    return list(reached)


def _find_page(
    familiar: Familiar, graph: RelationIndex, name: str, *, thorough: bool, within_s: float
) -> str:
    """Find the page with a path, else a person's page, else the page with a title."""
    for path in (name, f"{name}.md"):
        if graph.has_page(path):
            return path
    try:
        with closing(familiar.names()) as names:
            names.refresh(thorough=thorough, within_s=within_s)
            return people_path(find_person(familiar, names, name))
    except NotFoundError:
        paths = graph.named(name)
    if len(paths) == 1:
        return paths[0]
    if paths:
        raise UsageError(
            f"{name!r} may be {', '.join(paths)}", hint=f"Choose one: `familiar graph {paths[0]}`."
        )
    raise NotFoundError(
        f"No person, place or topic is called {name!r}",
        hint="`familiar graph` lists all relations, `familiar people list` everyone.",
    )


SOURCE: Final = "import-graph"
_DIRS: Final = {"person": f"{PEOPLE_DIR}/entity-", "place": f"{PLACES_DIR}/"}
_OWN: Final = "self"


class ImportedGraph(Struct):
    """The result of importing a graph.

    Args:
        pages: New pages.
        files: Changed files.
        relations: Number of relations added.
        known: Number of relations that existed.
        left_out: Number of edges that could not be imported.
        diff: The unified diff.
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
    """Import the edges of a graph as relations, in one transaction; repeats add only new ones.

    A node becomes the page with its name, which is created if missing. The node of the entity
    itself, and deleted ones, are left out.

    Raises:
        BadInputError: The file is not a graph.
        FamiliarError: The memory cannot be used; nothing was changed.
    """
    graph = read_graph(path)
    nodes = {node.id: node for node in graph.nodes}
    draft, done = Draft(familiar.memory), ImportedGraph(left_out=graph.unread, dry_run=dry_run)
    with closing(familiar.relations()) as index:
        index.refresh(thorough=True)
        places: dict[str, str] = {}
        for edge in graph.edges:
            ends = nodes[edge.source], nodes[edge.target]
            if any(node.type == _OWN for node in ends) or edge.source == edge.target:
                done.left_out += 1
                continue
            one, other = (_page_of(node, places, index, draft, done) for node in ends)
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
    """Return all public relations as nodes and edges."""
    graph = overview(familiar, viewer=NOBODY, most=100_000)
    nodes = [EntityNode(node.id, node.kind, node.title) for node in graph.nodes]
    edges = [
        EntityEdge(
            edge.source.removesuffix(".md"),
            edge.target.removesuffix(".md"),
            edge.relation,
            edge.since,
            edge.until,
        )
        for edge in graph.edges
    ]
    return EntityGraph(tuple(nodes), tuple(edges))


def _page_of(
    node: EntityNode,
    places: dict[str, str],
    index: RelationIndex,
    draft: Draft,
    graph: ImportedGraph,
) -> str:
    """Find or create the page of a node; empty if the name is ambiguous or invalid."""
    if node.id in places:
        return places[node.id]
    paths = index.named(node.label)
    path = paths[0] if len(paths) == 1 else ""
    stem = slugify(node.label)
    if not paths and stem:
        path = f"{_DIRS.get(node.type, f'{TOPICS_DIR}/')}{stem}.md"
        if draft.text(path) is None:
            about = f"\n{as_paragraph(node.description)}\n" if node.description else ""
            draft.put(path, f"# {node.label}\n{about}")
            graph.pages.append(path)
    places[node.id] = path
    return path


def _add_item(draft: Draft, rel_path: str, made: Relation, heading: str) -> bool:
    """Add a relation to a page unless it is stated already; tell whether it was new."""
    text = draft.text(rel_path) or ""
    for there in relations_in(text, rel_path).relations:
        is_same = (fold(there.relation), there.target) == (fold(made.relation), made.target)
        if is_same and not there.private:
            return False
    line = line_of(made, way_to(made.target, rel_path))
    draft.put(rel_path, page_text.with_bullets(text, heading, [line]))
    return True


def as_json(graph: ImportedGraph) -> dict[str, Any]:
    """Convert an import to plain values."""
    return {
        "relations": graph.relations,
        "known": graph.known,
        "left_out": graph.left_out,
        "pages": graph.pages,
        "files": list(graph.files),
        "dry_run": graph.dry_run,
    }
