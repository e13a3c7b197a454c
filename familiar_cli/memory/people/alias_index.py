"""The SQLite file in which names are looked up. It can be deleted at any time and comes back.

Where it cannot be written, it is kept in this process only; where it is damaged, it is made anew.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import FamiliarError, LockedError
from familiar_cli.files import remove
from familiar_cli.memory.people.mentions import Head, head_of, key_of
from familiar_cli.sqlite import (
    Fault,
    connect,
    connect_derived,
    fault_of,
    is_useless,
    renew,
    rows_among,
    transaction,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

VERSION: Final = 2
_BUSY_S: Final = 0.5
_TABLES: Final = (
    "CREATE TABLE people (slug TEXT PRIMARY KEY, signature TEXT, names TEXT, problem TEXT)",
    "CREATE TABLE names (key TEXT, slug TEXT, PRIMARY KEY (key, slug)) WITHOUT ROWID",
    "CREATE INDEX names_of_slug ON names (slug)",
    "CREATE TABLE heads (head TEXT PRIMARY KEY, words INTEGER, chars INTEGER) WITHOUT ROWID",
    "CREATE TABLE state (name TEXT PRIMARY KEY, value TEXT)",
    f"PRAGMA user_version = {VERSION}",
)


@dataclass(frozen=True, slots=True)
class NamedPerson:
    """Someone with a file in `people/`.

    Args:
        slug: Whose file it is.
        names: What they are called.
        problem: Why the file could not be read; empty when it could.
        signature: What shows that the file is still the same.
    """

    slug: str
    names: tuple[str, ...]
    problem: str = ""
    signature: str = ""


class AliasIndex:
    """Names and who is called so.

    Args:
        path: The SQLite file; made when first written to.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None

    def close(self) -> None:
        """Let go of the file."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def exists(self) -> bool:
        """Tell whether anything was ever kept."""
        return self._database is not None or os.path.exists(self._path)

    def heads(self, heads: Collection[str]) -> dict[str, Head]:
        """Return those of `heads` with which a name begins, and how long such names are."""
        rows = self._among("SELECT head, words, chars FROM heads WHERE head IN", heads)
        return {head: Head(words, chars) for head, words, chars in rows}

    def known(self, keys: Collection[str]) -> set[str]:
        """Return those of `keys` that are names."""
        return {key for (key,) in self._among("SELECT key FROM names WHERE key IN", keys)}

    def slugs(self, keys: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return everyone who is called so, by key; sorted."""
        found: dict[str, list[str]] = {}
        for key, slug in self._among("SELECT key, slug FROM names WHERE key IN", keys):
            found.setdefault(key, []).append(slug)
        return {key: tuple(sorted(slugs)) for key, slugs in found.items()}

    def there(self, slugs: Collection[str]) -> set[str]:
        """Return those of `slugs` who have a file."""
        return {slug for (slug,) in self._among("SELECT slug FROM people WHERE slug IN", slugs)}

    def people(self) -> list[NamedPerson]:
        """Return everyone who has a file, sorted by slug."""
        rows = self._rows("SELECT slug, names, problem, signature FROM people ORDER BY slug")
        with self._translated():
            return [
                NamedPerson(slug, tuple(json.loads(names)), *more) for slug, names, *more in rows
            ]

    def shared(self) -> dict[str, tuple[str, ...]]:
        """Return every name that several people share, sorted."""
        rows = self._rows("SELECT key FROM names GROUP BY key HAVING count(*) > 1 ORDER BY key")
        found = self.slugs([key for (key,) in rows])
        return {key: found[key] for (key,) in rows}

    def signatures(self) -> dict[str, str]:
        """Return everyone's signature by slug."""
        return dict(self._rows("SELECT slug, signature FROM people"))

    def state(self) -> dict[str, str]:
        """Return what `keep` kept."""
        return dict(self._rows("SELECT name, value FROM state"))

    def keep(self, state: Mapping[str, str]) -> None:
        """Keep values by name."""
        with self._writing() as database:
            database.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", state.items())

    def replace(self, slugs: Iterable[str], people: Iterable[NamedPerson]) -> None:
        """Forget all that is known of `slugs`, and take `people` in; all or nothing."""
        listed = [(slug,) for slug in slugs]
        with self._writing() as database:
            database.executemany("DELETE FROM people WHERE slug = ?", listed)
            database.executemany("DELETE FROM names WHERE slug = ?", listed)
            for person in people:
                _insert(database, person)
            database.execute("INSERT OR REPLACE INTO state VALUES ('changed', '1')")

    def _among(self, select: str, values: Collection[str]) -> list[tuple[Any, ...]]:
        if not self.exists():
            return []
        with self._translated():
            return list(rows_among(self._opened(), select, values))

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        if not self.exists():
            return []
        with self._translated():
            return self._opened().execute(sql).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._translated(), transaction(self._opened()) as database:
            yield database

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            try:
                self._database = self._open(self._path)
            except sqlite3.DatabaseError as error:
                if fault_of(error) is Fault.locked:
                    raise
                self._database = self._made_anew()
        return self._database

    def _made_anew(self) -> sqlite3.Connection:
        """Return a new index: in place of the damaged one, else in this process only."""
        with suppress(OSError, sqlite3.DatabaseError):
            self._remove()
            return self._open(self._path)
        return self._open(":memory:")

    def _open(self, path: str) -> sqlite3.Connection:
        database = (connect if path == ":memory:" else connect_derived)(path, _BUSY_S)
        try:
            renew(database, VERSION, _TABLES)
        except BaseException:
            database.close()
            raise
        return database

    def _remove(self) -> None:
        for end in ("", "-wal", "-shm", "-journal"):
            remove(self._path + end)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            if fault_of(error) is Fault.locked:
                raise LockedError(
                    "The name index is locked by another process; nothing was changed",
                    hint="Wait for that process and try again.",
                ) from error
            if is_useless(error) or not isinstance(error, sqlite3.DatabaseError):
                self.close()
                with suppress(OSError):
                    self._remove()  # the next use makes it anew
            raise FamiliarError(
                f"The name index {self._path!r} could not be used: {error}",
                hint="Try again; it is rebuilt. It can be deleted without loss.",
            ) from error


def _insert(database: sqlite3.Connection, person: NamedPerson) -> None:
    names = json.dumps(person.names, ensure_ascii=True)
    database.execute(
        "INSERT INTO people VALUES (?, ?, ?, ?)",
        (person.slug, person.signature, names, person.problem),
    )
    for key in {key_of(name) for name in person.names} - {""}:
        head, length = head_of(key)
        database.execute("INSERT OR IGNORE INTO names VALUES (?, ?)", (key, person.slug))
        database.execute(
            "INSERT INTO heads VALUES (?, ?, ?) ON CONFLICT (head) DO UPDATE SET"
            " words = max(words, excluded.words), chars = max(chars, excluded.chars)",
            (head, *length),
        )
