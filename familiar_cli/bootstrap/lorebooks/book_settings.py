"""What a directory's `.lorebook.json` keeps: the settings of its books and entries.

Each entry's line has the settings as they came, where its file was last seen, and the SHA-256 of
what was written there, so that a person's edits are told from the program's own text.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from familiar_cli.bootstrap import ledger
from familiar_cli.bootstrap.lorebooks.types import KEYS, LoreEntry, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.memory.store.store import MemoryStore

R = TypeVar("R", "BookRecord", "EntryRecord")

FILE_NAME: Final = ".lorebook.json"
VERSION: Final = 1
_KINDS: Final[Mapping[str, type]] = {
    **dict.fromkeys(("name", "source", "digest", "book", "slot", "path", "sha256"), str),
    **dict.fromkeys(("frame", "outer", "raw"), dict),
    "place": int,
}


@dataclass(frozen=True, slots=True)
class BookRecord:
    """One book in the directory. See `Lorebook` for the fields of the same name.

    Args:
        digest: Of all entries and settings as they came; finds the book again under another name.
    """

    name: str
    shape: Shape
    source: str
    digest: str
    frame: Mapping[str, Any]
    outer: Mapping[str, Any]
    unreadable: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class EntryRecord:
    """One entry in the directory.

    Args:
        book: The id of its book.
        place: Where it stood among the entries of its source.
        slot: See `LoreEntry`.
        shape: How `raw` is spelled.
        path: Where its file was last seen, below the memory root.
        sha256: Of the file as it was written.
        raw: Its settings.
    """

    book: str
    shape: Shape
    place: int
    slot: str
    path: str
    sha256: str
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BookSettings:
    """All books and entries of one directory, by their ids."""

    books: dict[str, BookRecord] = field(default_factory=dict)
    entries: dict[str, EntryRecord] = field(default_factory=dict)

    def entry(self, entry_id: str) -> LoreEntry:
        """Return an entry as it came."""
        record = self.entries[entry_id]
        return LoreEntry(record.shape, record.raw, record.slot)

    def of_book(self, book_id: str) -> dict[str, EntryRecord]:
        """Return the entries of one book."""
        return {name: record for name, record in self.entries.items() if record.book == book_id}


def path_in(directory: str) -> str:
    """Return where the settings of the books in `directory` are kept."""
    return f"{directory}/{FILE_NAME}" if directory else FILE_NAME


def load(store: MemoryStore, directory: str) -> BookSettings:
    """Return the settings of the books in `directory`, empty when it has none.

    Raises:
        BadInputError: The file is damaged; nothing is changed.
    """
    found = ledger.load(
        store,
        path_in(directory),
        _parse,
        keeps="the settings of the lorebooks there",
        hint="Restore an older copy of it, or import into another directory with `--into`.",
    )
    return found or BookSettings()


def dump(settings: BookSettings) -> str:
    """Return the text of the file: ASCII, one line for each book and entry, in a fixed order."""
    lines = [f'{{"familiar_lorebook": {VERSION},']
    lines.append(_object("books", settings.books) + ",")
    lines.append(_object("entries", settings.entries) + "}")
    return "\n".join(lines) + "\n"


def _object(name: str, records: Mapping[str, BookRecord | EntryRecord]) -> str:
    rows = [f'"{key}": {json.dumps(asdict(records[key]))}' for key in sorted(records)]
    return f'"{name}": {{' + ",".join(f"\n{row}" for row in rows) + "}"


def _parse(data: dict[str, Any]) -> BookSettings:
    if data["familiar_lorebook"] != VERSION:
        raise ValueError("written by another version")
    return BookSettings(
        {
            key: _checked(BookRecord(**{**value, "unreadable": tuple(value["unreadable"])}))
            for key, value in data["books"].items()
        },
        {key: _checked(EntryRecord(**value)) for key, value in data["entries"].items()},
    )


def _checked(record: R) -> R:
    """Return `record` when what it holds is of the kinds that it promises.

    Raises:
        TypeError: It is not.
    """
    for name, kind in _KINDS.items():
        if not isinstance(getattr(record, name, kind()), kind):
            raise TypeError(f"{name} is not a {kind.__name__}")
    if record.shape not in KEYS:
        raise ValueError("unexpected structure")
    keys = getattr(record, "raw", {}).get(KEYS[record.shape], [])
    if not (isinstance(keys, list) and all(isinstance(key, str) for key in keys)):
        raise TypeError("the keys are not text")
    return record
