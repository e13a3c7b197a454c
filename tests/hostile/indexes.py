"""What may stand in place of the SQLite files that the program makes again: damaged and foreign."""

from __future__ import annotations

import atexit
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.familiar import Familiar
from tests.hostile.journals import type_
from tests.hostile.mutations import damage, damage_pages

if TYPE_CHECKING:
    from random import Random

READS = (
    ("search", "green tea"),
    ("people", "ls"),
    ("people", "show", "Anna 3"),
    ("index", "status"),
    ("index", "build"),
    ("status",),
    ("doctor",),
    ("ask", "Does Anna drink green tea?", "--dry-run"),
    ("memory", "write", "notes.md", "new"),
    ("people", "alias", "cli:me", "Bee"),
    ("index", "clear"),
)


@cache
def template() -> Path:
    """Return a familiar with an index of passages and one of names, made once."""
    place = tempfile.mkdtemp(prefix="hostile-indexes-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    root = Path(place) / "ada"
    (root / "memory" / "people").mkdir(parents=True)
    with Familiar(FamiliarPaths(root)) as familiar:
        for number in range(30):
            familiar.memory.write_file(f"topics/tea-{number}.md", f"# Tea {number}\n\nGreen.\n")
            page = f"# Anna {number}\n\n## Aliases\n\n- Ann{number}\n"
            familiar.memory.write_file(f"people/cli-u{number}.md", page)
    for argv in (("index", "build"), ("people", "ls")):
        assert type_(root.parent, *argv).exit_code == 0
    assert len(files(root)) == 2
    return root


def files(root: Path) -> list[Path]:
    """Return the SQLite files that are made from the memory."""
    return sorted((root / "memory" / ".index").glob("*.sqlite"))


def spoil(path: Path, rng: Random) -> None:
    """Put something else in the place of an SQLite file."""
    for end in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{path}{end}").unlink()
    raw = path.read_bytes()
    match rng.randrange(6):
        case 0 | 1:
            path.write_bytes(damage_pages(rng, raw))
        case 2:
            path.write_bytes(damage(rng, raw))
        case 3:
            path.write_bytes(rng.choice((b"", bytes(len(raw)), raw[: len(raw) // 2], b"SQLite")))
        case _:
            _foreign_tables(path, rng)


def _foreign_tables(path: Path, rng: Random) -> None:
    """Keep the version, and give each table other columns, other values, or to nobody."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA writable_schema = ON")
        kept = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
        for (name,) in database.execute(kept).fetchall():
            with suppress(sqlite3.DatabaseError):  # SQLite's own
                match rng.randrange(5):
                    case 0:
                        database.execute(f'DROP TABLE "{name}"')
                    case 1:
                        database.execute(f'DROP TABLE "{name}"')
                        database.execute(f'CREATE TABLE "{name}" (other BLOB, more INTEGER)')
                        database.execute(f"INSERT INTO \"{name}\" VALUES (x'ff00', 9e99)")
                    case 2 | 3:
                        _other_values(database, name, rng)


def _other_values(database: sqlite3.Connection, name: str, rng: Random) -> None:
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{name}")')]
    odd = (None, -1, 2**62, 1e300, "", "{", "[1]", "null", b"\xff\xfe", "../../x", "\x1b[2J")
    for column in rng.sample(columns, min(2, len(columns))):
        with suppress(sqlite3.DatabaseError):
            database.execute(f'UPDATE "{name}" SET "{column}" = ?', (rng.choice(odd),))
