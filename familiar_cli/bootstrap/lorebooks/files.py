"""Find the files of a directory's entries, wherever in the memory a person has put them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.bootstrap.lorebooks import book_settings, shelf
from familiar_cli.errors import BadInputError, FamiliarError, NotFoundError
from familiar_cli.memory.pages.lore_page import parse
from familiar_cli.text import sha256_of

if TYPE_CHECKING:
    from familiar_cli.bootstrap.lorebooks.book_settings import BookSettings
    from familiar_cli.memory.store.store import MemoryStore


@dataclass(frozen=True, slots=True)
class LoreFile:
    """One Markdown file as it is now."""

    path: str
    text: str
    sha256: str


@dataclass(frozen=True, slots=True)
class EntryFiles:
    """What became of the files of the entries in a directory.

    Args:
        files: Entry id -> its file.
        strays: Files in the directory that belong to no entry.
        skipped: Files that could not be read: path and reason.
        names: Every path in the directory, Markdown or not.
    """

    files: dict[str, LoreFile]
    strays: tuple[LoreFile, ...]
    skipped: tuple[str, ...]
    names: frozenset[str]


def find(store: MemoryStore, directory: str, settings: BookSettings) -> EntryFiles:
    """Return the files of the entries in `settings`, and what else is in their `directory`.

    A file is an entry's when it bears its id; the one where the entry was last seen comes first,
    and is the entry's even without the id. Only when one is missing is the whole memory searched,
    but for what is another directory's. Directories below with books of their own are those books'.
    """
    skipped: list[str] = []
    paths = _own(_paths(store, directory, skipped), directory, _others(store, directory))
    here = _read(store, [path for path in paths if path.endswith(".md")], skipped)
    wanted = {record.path: key for key, record in settings.entries.items()}
    away = [path for path in wanted if path not in here and store.exists(path)]
    seen = here | _read(store, [path for path in away if path not in paths], skipped)
    found = _claim(seen, settings, wanted)
    if len(found) < len(settings.entries):
        known = seen.keys() | _recorded(store, directory)
        others = [p for p in _paths(store, "", skipped) if p.endswith(".md") and p not in known]
        marked = _read(store, others, skipped)
        found = _claim(seen | marked, settings, wanted)
    claimed = {file.path for file in found.values()}
    strays = tuple(file for path, file in here.items() if path not in claimed)
    return EntryFiles(found, strays, tuple(dict.fromkeys(skipped)), frozenset(paths))


def _claim(
    seen: dict[str, LoreFile], settings: BookSettings, wanted: dict[str, str]
) -> dict[str, LoreFile]:
    """Return which file is which entry's: at its old path, then by its id, then by its old path."""
    marks = {path: parse(file.text).entry_id for path, file in seen.items()}
    found = {key: seen[path] for path, key in wanted.items() if marks.get(path, "") == key}
    for path in sorted(seen):
        key = marks[path]
        if key in settings.entries and key not in found:
            found[key] = seen[path]
    for path, key in wanted.items():
        if key not in found and path in seen and marks[path] is None:
            found[key] = seen[path]
    return found


def _others(store: MemoryStore, directory: str) -> list[str]:
    """Return the other directories that have books."""
    return [other for other in shelf.directories(store) if other != directory]


def _own(found: list[str], directory: str, others: list[str]) -> list[str]:
    """Return what of a directory is not in one below it that has books of its own."""
    below = tuple(f"{other}/" for other in others if other.startswith(f"{directory}/"))
    return [path for path in found if not path.startswith(below)]


def _recorded(store: MemoryStore, directory: str) -> set[str]:
    """Return where entries of other directories were last seen."""
    found: set[str] = set()
    for other in _others(store, directory):
        with suppress(BadInputError):  # told when that directory is what is asked for
            settings = book_settings.load(store, other)
            found |= {record.path for record in settings.entries.values()}
    return found


def _paths(store: MemoryStore, directory: str, skipped: list[str]) -> list[str]:
    try:
        walk = store.walk(directory)
    except NotFoundError:
        return []
    skipped += [f"{item.rel_path}: {item.reason}" for item in walk.skipped]
    return [entry.rel_path for entry in walk.files if not entry.is_dir]


def _read(store: MemoryStore, paths: list[str], skipped: list[str]) -> dict[str, LoreFile]:
    read: dict[str, LoreFile] = {}
    for path in paths:
        try:
            raw = store.read_bytes(path)
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            skipped.append(f"{path}: not UTF-8 text")
            continue
        except FamiliarError as error:
            skipped.append(f"{path}: {error}")
            continue
        read[path] = LoreFile(path, text, sha256_of(raw))
    return read
