"""Nodes and edges of entity-core's knowledge graph, as JSON or as its SQLite file.

JSON is `{"nodes": [{"id", "type", "label", "description"}], "edges": [{"fromId", "toId", "type",
"occurredAt", "validUntil"}]}`; the file has the tables `graph_nodes` and `graph_edges`.
"""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import BadInputError
from familiar_cli.files import read_plain, why
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

MOST_BYTES: Final = 64 * 1024 * 1024
_SQLITE: Final = b"SQLite format 3\x00"
_DATE: Final = re.compile(r"[0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2})?)?")
_MOST_CHARS: Final = 80
_NODES: Final = "SELECT id, type, label, description, deleted FROM graph_nodes"
_EDGES: Final = (
    "SELECT from_id AS fromId, to_id AS toId, type, occurred_at AS occurredAt,"
    " valid_until AS validUntil, deleted FROM graph_edges"
)


@dataclass(frozen=True, slots=True)
class EntityNode:
    """A node: its id, its type such as `person`, and what it is called."""

    id: str
    type: str
    label: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class EntityEdge:
    """An edge between two nodes, by their ids, with days where they are known."""

    source: str
    target: str
    relation: str
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class EntityGraph:
    """What of a graph is not deleted, and how much could not be read."""

    nodes: tuple[EntityNode, ...]
    edges: tuple[EntityEdge, ...]
    unread: int = 0


def read_graph(path: Path) -> EntityGraph:
    """Return the graph in a file.

    Raises:
        BadInputError: It cannot be read, or holds no graph.
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
        found = json.loads(raw)
        return _build_graph(found["nodes"], found["edges"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _no_graph(path, "it holds no nodes and edges") from error


def graph_json(graph: EntityGraph) -> dict[str, Any]:
    """Return a graph as entity-core's JSON has it."""
    nodes = [
        {"id": n.id, "type": n.type, "label": n.label, "description": n.description}
        for n in graph.nodes
    ]
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
        if (
            not isinstance(node, dict)
            or not _read_word(node, "id")
            or not _read_word(node, "label")
        ):
            unread += 1
        elif not node.get("deleted"):
            kind, about = _read_word(node, "type"), node.get("description")
            told = one_line(about, 2_000) if isinstance(about, str) else ""
            held[node["id"]] = EntityNode(node["id"], kind, _read_word(node, "label"), told)
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
        f"{str(path)!r} is no graph of entity-core: {reason}; nothing was changed",
        hint="Give its `graph.db`, or a JSON file with `nodes` and `edges`.",
    )
