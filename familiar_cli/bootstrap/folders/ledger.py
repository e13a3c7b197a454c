"""What was imported from a folder: each source, what it became, and where its bytes are."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap import ledger
from familiar_cli.bootstrap.json_text import dump_json
from familiar_cli.text import typed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.memory.store.store import MemoryStore

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """One file of the folder.

    Args:
        sha256: Of its bytes.
        wrote: What it became: path -> SHA-256 of what was meant to stand there.
        original: The path of those that holds its bytes as they came.
    """

    sha256: str
    wrote: Mapping[str, str]
    original: str


@dataclass(slots=True)
class Ledger:
    """All files of one or more folders, by their path there."""

    rel_path: str
    entries: dict[str, ImportedFile] = field(default_factory=dict)

    def dump(self) -> str:
        """Return the ledger as it is stored."""
        files = {
            _as_text(source): {
                "sha256": entry.sha256,
                "wrote": dict(sorted(entry.wrote.items())),
                "original": entry.original,
            }
            for source, entry in sorted(self.entries.items())
        }
        return dump_json({"version": _VERSION, "files": files}, indent=1) + "\n"


def load(store: MemoryStore, rel_path: str) -> Ledger:
    """Return the ledger at `rel_path`; an empty one when there is none.

    Raises:
        BadInputError: It is damaged, so nobody can tell what a person has edited since.
    """
    entries = ledger.load(
        store,
        rel_path,
        _entries,
        keeps="what was imported",
        hint=f"`familiar memory log {typed(rel_path)}` shows its past; or move it away, and "
        "existing files count as yours.",
    )
    return Ledger(rel_path, entries or {})


def originals(store: MemoryStore, rel_path: str) -> dict[str, bytes]:
    """Return every imported file with the bytes that are kept of it, by its path in the folder.

    A file that went into memory as it was, and was edited there since, comes back edited.
    """
    found = load(store, rel_path).entries
    return {
        source: store.read_bytes(entry.original)
        for source, entry in found.items()
        if store.exists(entry.original)
    }


def _entries(value: dict[str, Any]) -> dict[str, ImportedFile]:
    return {_from_text(name): _entry(given) for name, given in value["files"].items()}


def _entry(given: dict[str, Any]) -> ImportedFile:
    wrote = {str(path): str(digest) for path, digest in given["wrote"].items()}
    return ImportedFile(str(given["sha256"]), wrote, str(given["original"]))


def _as_text(name: str) -> str:
    """Return a name, which may hold bytes that are no text, as JSON and UTF-8 can hold it."""
    return json.dumps(name)[1:-1]


def _from_text(text: str) -> str:
    return str(json.loads(f'"{text}"'))
