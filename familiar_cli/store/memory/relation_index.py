"""The graph of people, places and topics in `.index/relations.sqlite`, derived from pages.

Safe to delete at any time. A page is read again when its size, time or inode changes; with more
than `MOST_STATS` pages, only directories are checked unless a thorough refresh is requested.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from heapq import nsmallest
from math import inf
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.text import fold, sha256_of
from familiar_cli.base.times.clock import wall_ns
from familiar_cli.base.who.visibility import NOBODY, Viewer
from familiar_cli.store.memory.aliases import main_account, names_of
from familiar_cli.store.memory.layout import (
    PEOPLE_DIR,
    PLACES_DIR,
    RELATION_KINDS,
    TOPICS_DIR,
    people_path,
)
from familiar_cli.store.memory.page_index import PageIndex, page_signature
from familiar_cli.store.memory.pages.front_matter import listed_aliases
from familiar_cli.store.memory.pages.lines import citation_comment
from familiar_cli.store.memory.pages.links import link_targets, title_of
from familiar_cli.store.memory.pages.relations import Kinds, kinds_of, relations_in
from familiar_cli.store.memory.pages.visible_lines import visible_in

if TYPE_CHECKING:
    import sqlite3

    from familiar_cli.base.sqlite import IdleConnection
    from familiar_cli.store.memory.store.store import MemoryStore

DIRS: Final = (PEOPLE_DIR, TOPICS_DIR, PLACES_DIR)
"""Directories whose pages can have relations."""

LINKS: Final = "links to"
"""Relation name of a plain link."""

_SUFFIX: Final = ".md"
_KINDS: Final = {PEOPLE_DIR: "person", PLACES_DIR: "place", TOPICS_DIR: "topic"}
_EDGES: Final = (
    "SELECT source, line, relation, target, key, name, since, until, evidence, private FROM edges"
)


class Edge(Struct, frozen=True):
    """A relation or link between two pages.

    Args:
        source: Page that states it.
        target: Page it points to, which may be missing.
        relation: What the source is to the target.
        since: Start; empty if unknown.
        until: End; empty if ongoing.
        evidence: Supporting turns, in citation format.
        line: Line number in the page; 0 for a link.
        private: Private scopes it belongs to; empty if public.
    """

    source: str
    target: str
    relation: str
    since: str = ""
    until: str = ""
    evidence: tuple[str, ...] = ()
    line: int = 0
    private: frozenset[str] = frozenset()

    @property
    def is_link(self) -> bool:
        """Whether it is a plain link."""
        return not self.line


def is_edge_visible(edge: Edge, viewer: Viewer) -> bool:
    """Tell whether a viewer may know of an edge.

    Of a plain link it is not known which turns its line cites: only the owner sees it.
    """
    evidence = viewer.rules.evidence
    if viewer.is_owner or not evidence:
        return viewer.sees(edge.private)
    (citations,) = evidence.cited([f"<!-- turns {'; '.join(edge.evidence)} -->"])
    if not edge.evidence and evidence.imported(edge.source, ""):
        return False
    return not edge.is_link and viewer.sees(edge.private | citations)


class GraphPage(Struct, frozen=True):
    """A page of the graph.

    Args:
        title: Public title.
        exists: Whether the file exists.
    """

    path: str
    title: str
    exists: bool = True

    @property
    def id(self) -> str:
        """The path without its extension."""
        return self.path.removesuffix(_SUFFIX)

    @property
    def kind(self) -> str:
        """`person`, `place` or `topic`; `missing` without a file; otherwise `page`."""
        first, _, rest = self.path.partition("/")
        if not self.exists:
            return "missing"
        if rest.startswith(f"{PLACES_DIR}/"):
            return _KINDS[PLACES_DIR]
        return _KINDS.get(first, "page")


class RelationIndex(PageIndex[tuple[str, str, str | None]]):
    """The relation graph. Not thread-safe."""

    WHAT = "The graph of relations"
    FILE = "relations.sqlite"
    SIGNATURES = "SELECT path, signature FROM pages"
    VERSION = 3
    TABLES = (
        "CREATE TABLE pages (path TEXT PRIMARY KEY, signature TEXT, title TEXT, same TEXT)",
        "CREATE INDEX same_person ON pages (same) WHERE same != ''",
        "CREATE TABLE names (key TEXT, path TEXT, PRIMARY KEY (key, path)) WITHOUT ROWID",
        "CREATE INDEX names_of_page ON names (path)",
        """CREATE TABLE edges (
            source TEXT, line INTEGER, relation TEXT, target TEXT, key TEXT, name TEXT,
            since TEXT, until TEXT, evidence TEXT, private TEXT
        )""",
        "CREATE INDEX edges_from ON edges (source)",
        "CREATE INDEX edges_to ON edges (target)",
        "CREATE INDEX edges_to_name ON edges (key)",
        "CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT)",
    )

    def __init__(self, store: MemoryStore, idle: IdleConnection | None = None) -> None:
        super().__init__(store, idle)
        self._kinds: Kinds | None = None

    @property
    def kinds(self) -> Kinds:
        """Relation kinds, including the memory's own; reloaded at each `refresh`."""
        if self._kinds is None:
            self._kinds = kinds_of(self._store.readable(RELATION_KINDS))
        return self._kinds

    def refresh(self, *, thorough: bool = False, within_s: float = inf) -> int:
        """Read changed pages, people first; all of them once the kinds of relations change.

        See `PageIndex.refresh`.
        """
        self._kinds = None
        if self._is_current():
            return 0
        known_kinds = sha256_of(json.dumps(sorted(self.kinds.known)))
        if self._state().get("kinds") != known_kinds:
            with self._writing() as database:
                database.execute("UPDATE pages SET signature = ''")
            self._keep({"kinds": known_kinds, "folders": ""})
        return super().refresh(thorough=thorough, within_s=within_s)

    def around(
        self, rel_path: str, depth: int = 1, *, viewer: Viewer, most: int = 200, links: bool = True
    ) -> tuple[list[GraphPage], list[Edge]]:
        """Return the pages within `depth` steps of one, nearest first, and all edges among them.

        Args:
            rel_path: Center page.
            depth: Number of steps.
            viewer: Viewer of the result.
            most: Maximum number of pages.
            links: Include links.

        Raises:
            FamiliarError: The index cannot be used.
        """
        seen = {self.main(rel_path): 0}
        outer = list(seen)
        for distance in range(1, depth + 1):
            found = self._visible_edges(outer, viewer, links=links)
            reached = [path for one in found for path in (one.source, one.target)]
            outer = [path for path in dict.fromkeys(reached) if path not in seen]
            outer = outer[: max(most - len(seen), 0)]
            seen |= dict.fromkeys(outer, distance)
        edges = self._visible_edges(seen, viewer, links=links)
        return self._nodes(seen), [e for e in edges if e.source in seen and e.target in seen]

    def related(self, viewer: Viewer, most: int = 200) -> tuple[list[GraphPage], list[Edge], int]:
        """Return the most connected pages by path, their edges, and the number of connected pages.

        Raises:
            FamiliarError: The index cannot be used.
        """
        rows = self._rows("SELECT DISTINCT source FROM edges WHERE line > 0")
        stating = sorted(path for (path,) in rows)
        edges = self._visible_edges(stating, viewer, links=False)
        counts = Counter(path for one in edges for path in (one.source, one.target))
        held = set(nsmallest(most, counts, key=lambda path: (-counts[path], path)))
        seen = sorted(held)
        inside = [e for e in edges if held >= {e.source, e.target}]
        return self._nodes(seen), inside, len(counts)

    def _visible_edges(
        self, rel_paths: Collection[str], viewer: Viewer, *, links: bool
    ) -> list[Edge]:
        return [e for e in self.edges(rel_paths, links=links) if is_edge_visible(e, viewer)]

    def _nodes(self, rel_paths: Collection[str]) -> list[GraphPage]:
        titles = self.titles(rel_paths)
        return [
            GraphPage(path, titles[path])
            if path in titles
            else GraphPage(
                path, path.removesuffix(_SUFFIX).rpartition("/")[2], exists=self._is_file(path)
            )
            for path in rel_paths
        ]

    def edges(self, rel_paths: Collection[str], *, links: bool = True) -> list[Edge]:
        """Return relations and links from or to some pages, relations first.

        Includes those private to channels. A link is dropped where a relation exists.

        Args:
            rel_paths: The pages.
            links: Include links.

        Raises:
            FamiliarError: The index cannot be used.
        """
        also = self._among("SELECT same, path FROM pages WHERE same != '' AND same IN", rel_paths)
        asked = list(dict.fromkeys([*rel_paths, *(path for _, path in also)]))
        keys = {key for key, _ in self._among("SELECT key, path FROM names WHERE path IN", asked)}
        select = f"{_EDGES} WHERE line >= {0 if links else 1} AND"
        rows = [
            *self._among(f"{select} source IN", asked),
            *self._among(f"{select} target IN", asked),
            *self._among(f"{select} key != '' AND key IN", list(keys)),
        ]
        wanted = set(asked)
        found = [
            edge
            for edge in self._resolved(dict.fromkeys(rows))
            if wanted & {edge.source, edge.target}
        ]
        related = {
            frozenset((e.source, e.target)) for e in found if not e.is_link and not e.private
        }
        return [
            edge
            for edge in dict.fromkeys(sorted(found, key=lambda e: (e.is_link, e.source, e.line)))
            if not edge.is_link or frozenset((edge.source, edge.target)) not in related
        ]

    def once(self, edges: Iterable[Edge]) -> list[Edge]:
        """Deduplicate edges: of two that state the same, keep the first or the more specific.

        `sister of` is more specific than `sibling of`, which is symmetric.
        """
        found: list[Edge] = []
        between: dict[frozenset[str], list[int]] = {}
        for edge in edges:
            known = between.setdefault(frozenset((edge.source, edge.target)), [])
            same = next((n for n in known if self._say_the_same(edge, found[n])), None)
            if same is None:
                known.append(len(found))
                found.append(edge)
            elif self.kinds.is_symmetric(found[same].relation):
                found[same] = edge
        return found

    def _say_the_same(self, edge: Edge, other: Edge) -> bool:
        if edge.source == other.source:
            is_same = fold(edge.relation) == fold(other.relation)
        else:
            is_same = self.kinds.are_alike(edge.relation, other.relation)
        return is_same and edge.until == other.until

    def main(self, rel_path: str) -> str:
        """Return the main page of a secondary account, otherwise `rel_path` itself."""
        rows = list(self._among("SELECT path, same FROM pages WHERE path IN", [rel_path]))
        return next((same for _, same in rows if same), rel_path)

    def named(self, name: str) -> list[str]:
        """Return the pages with the name `name`, sorted."""
        rows = self._among("SELECT key, path FROM names WHERE key IN", [fold(name)])
        return sorted({self.main(path) for _, path in rows})

    def _resolved(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[Edge]:
        rows = list(rows)
        keys = {row[4] for row in rows if row[4]}
        called: dict[str, set[str]] = {}
        for key, path in self._among("SELECT key, path FROM names WHERE key IN", list(keys)):
            called.setdefault(key, set()).add(path)
        paths = {path for row in rows for path in (row[0], row[3])}
        same = dict(
            self._among("SELECT path, same FROM pages WHERE same != '' AND path IN", list(paths))
        )
        for source, line, relation, target, key, _, since, until, evidence, private in rows:
            if key:
                named = {same.get(path, path) for path in called.get(key, ())}
                if len(named) != 1:
                    continue  # unknown or ambiguous; housekeeping reports it
                (target,) = named  # noqa: PLW2901
            ends = same.get(source, source), same.get(target, target)
            if ends[0] != ends[1]:
                yield Edge(
                    *ends,
                    relation,
                    since,
                    until,
                    tuple(json.loads(evidence)),
                    line,
                    frozenset(json.loads(private)),
                )

    def titles(self, rel_paths: Collection[str]) -> dict[str, str]:
        """Return the public titles of the graph's pages."""
        return dict(self._among("SELECT path, title FROM pages WHERE path IN", rel_paths))

    def has_page(self, rel_path: str) -> bool:
        """Tell whether the graph has a page, read already or not."""
        is_of_graph = rel_path.endswith(_SUFFIX) and rel_path.partition("/")[0] in DIRS
        return is_of_graph and (rel_path in self.titles([rel_path]) or self._is_file(rel_path))

    def _is_file(self, rel_path: str) -> bool:
        try:
            return self._store.exists(rel_path)
        except FamiliarError:
            return False

    def _replace(
        self, names: Collection[str], pages: Iterable[tuple[str, str, str | None]]
    ) -> None:
        listed = [(path,) for path in names]
        with self._writing() as database:
            for table, column in (("pages", "path"), ("names", "path"), ("edges", "source")):
                database.executemany(f"DELETE FROM {table} WHERE {column} = ?", listed)  # noqa: S608
            for path, signature, text in pages:
                if text is not None:
                    self._insert(database, path, signature, text)

    def _read_page(self, page: str, signature: str) -> tuple[str, str, str | None]:
        try:
            head = self._read_head(page, self._store.limits.max_file_bytes)
        except FamiliarError:
            return page, signature, None  # reported by the memory's own checks
        return page, signature, head.text

    def _insert(self, database: sqlite3.Connection, path: str, signature: str, text: str) -> None:
        other = main_account(text)
        same = people_path(other) if other else ""
        public = visible_in(text, NOBODY, path)
        row = (path, signature, title_of(public, path), same)
        database.execute("INSERT INTO pages VALUES (?, ?, ?, ?)", row)
        keys = {fold(path.removesuffix(_SUFFIX).rpartition("/")[2])}
        if not same:
            is_person = path.startswith(f"{PEOPLE_DIR}/")
            named = names_of(text) if is_person else (row[2], *listed_aliases(public))
            keys |= {fold(name) for name in named}
        database.executemany(
            "INSERT OR IGNORE INTO names VALUES (?, ?)", [(key, path) for key in keys if key]
        )
        if same:
            return
        for one in relations_in(text, path, self.kinds.known).relations:
            evidence = [
                citation_comment([c])[len("<!-- turns ") : -len(" -->")] for c in one.evidence
            ]
            key = "" if one.target else fold(one.name.partition("|")[0].rpartition("/")[2])
            values = (
                *(path, one.line, one.relation, one.target, key, one.name, one.since, one.until),
                *(json.dumps(evidence), json.dumps(sorted(one.private))),
            )
            database.execute("INSERT INTO edges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        for target in link_targets(public, path):
            if target.partition("/")[0] in DIRS:
                values = (path, 0, LINKS, target, "", "", "", "", "[]", "[]")
                database.execute("INSERT INTO edges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    def _scan(self) -> tuple[dict[str, str], dict[str, str]]:
        result: dict[str, str] = {}
        directories: dict[str, str] = {}
        for name in DIRS:
            looked_ns = wall_ns()
            with suppress(OSError):
                directories[name] = page_signature(
                    os.stat(os.path.join(self._root, name)), looked_ns
                )
            for path, status in self._store.stat_files(name).items():
                if not path.endswith(_SUFFIX):
                    continue
                result[path] = page_signature(status, looked_ns)
                below = path.rpartition("/")[0]
                if below not in directories:
                    with suppress(OSError):
                        look = os.stat(os.path.join(self._root, *below.split("/")))
                        directories[below] = page_signature(look, looked_ns)
        return result, directories
