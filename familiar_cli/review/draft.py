"""Changes that are not made yet, over the memory as it is."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from familiar_cli.diffs import unified_file
from familiar_cli.memory.store.types import MISSING
from familiar_cli.text import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.transactions import Transaction


@dataclass(frozen=True, slots=True)
class FileChange:
    """What became of one file: `create` or `update`, and how many lines came and went."""

    rel_path: str
    operation: Literal["create", "update"]
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class DraftFile:
    """One file that is to change.

    Args:
        rel_path: Which.
        before: As it is on disk; None where there is none.
        expect: What it must still be when the change is made: a SHA-256, or `MISSING`.
        after: As it is to be.
    """

    rel_path: str
    before: str | None
    expect: str
    after: str

    @property
    def change(self) -> FileChange:
        """How much of it changes."""
        old, new = _middle((self.before or "").splitlines(), self.after.splitlines())
        added = removed = 0
        for tag, a, b, c, d in difflib.SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes():
            if tag != "equal":
                removed += b - a
                added += d - c
        kind = "create" if self.before is None else "update"
        return FileChange(self.rel_path, kind, added, removed)  # type: ignore[arg-type]


class Draft:
    """A set of changed files. What is not in it is read from the memory.

    Args:
        store: The memory.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._files: dict[str, DraftFile] = {}

    def __iter__(self) -> Iterator[DraftFile]:
        return (f for f in self._files.values() if f.after != f.before)

    def __bool__(self) -> bool:
        return any(True for _ in self)

    def copy(self) -> Draft:
        """Return a draft with the same changes, which may become others."""
        other = Draft(self._store)
        other._files = dict(self._files)
        return other

    def text(self, rel_path: str) -> str | None:
        """Return a file as it would be; None where none would be.

        Raises:
            FamiliarError: It cannot be read.
        """
        if rel_path in self._files:
            return self._files[rel_path].after
        return self._store.read_file(rel_path) if self._store.exists(rel_path) else None

    def sha256(self, rel_path: str) -> str:
        """Return the hash of a file as it would be, or `MISSING`."""
        text = self.text(rel_path)
        return MISSING if text is None else sha256_of(text)

    def put(self, rel_path: str, text: str) -> None:
        """Change a file. What it was when first changed is what it must still be in the end.

        Raises:
            FamiliarError: It cannot be read.
        """
        known = self._files.get(rel_path)
        if known is None:
            there = self._store.read(rel_path) if self._store.exists(rel_path) else None
            expect = there.sha256 if there else MISSING
            known = DraftFile(rel_path, there.text if there else None, expect, text)
        self._files[rel_path] = DraftFile(rel_path, known.before, known.expect, text)

    def drop(self, rel_path: str) -> None:
        """Forget the change of a file."""
        self._files.pop(rel_path, None)

    def stage(self, tx: Transaction) -> None:
        """Put all changes into a transaction."""
        for file in self:
            tx.write(file.rel_path, file.after, expect=file.expect)

    def diff(self) -> str:
        """Return all changes as a unified diff."""
        return "".join(unified_file(f.rel_path, f.before, f.after) for f in self)


def _middle(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Return both without what is the same at their beginnings and ends: comparing costs most."""
    least = min(len(old), len(new))
    start = next((n for n in range(least) if old[n] != new[n]), least)
    rest = least - start
    end = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    return old[start : len(old) - end], new[start : len(new) - end]
