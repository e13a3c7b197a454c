"""Imported folders, as memory keeps them."""

from __future__ import annotations

from familiar_cli.imports import folders
from familiar_cli.store.memory.store.store import MemoryStore


def originals(store: MemoryStore, ledger: str) -> dict[str, bytes]:
    """Return every imported file with the bytes that are kept of it, by its path in the folder."""
    found = folders.load_folder_ledger(store, ledger)
    return {
        source: store.read_bytes(entry.original)
        for source, entry in found.items()
        if store.exists(entry.original)
    }
