"""Decide what an import of a folder writes, before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.bootstrap import ledger
from familiar_cli.bootstrap.folders.ledger import ImportedFile, Ledger, load
from familiar_cli.bootstrap.import_report import ImportReport
from familiar_cli.errors import ConflictError, RefusedError
from familiar_cli.memory.store.types import MISSING
from familiar_cli.text import sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from familiar_cli.bootstrap.folders.reading import LeftOut
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.transactions import Transaction

    Merge = Callable[[bytes, bytes], bytes | None]


@dataclass(frozen=True, slots=True)
class Piece:
    """What one file of the folder becomes in memory; it may become several.

    Args:
        source: The file.
        rel_path: Where it goes.
        content: What stands there.
        is_original: It is the file's own bytes.
        is_hidden: No person and no prompt looks there; it is kept, not shown.
        aside: Where the original is kept if it has to be merged into what is there already.
    """

    source: str
    rel_path: str
    content: bytes
    is_original: bool
    is_hidden: bool = False
    aside: str = ""


@dataclass(frozen=True, slots=True)
class FolderPlan:
    """What an import will do; nothing is done before `stage`.

    Args:
        report: What it does, for a person to read.
        changes: Every file to write: path, bytes, and the SHA-256 it has now or `MISSING`.
    """

    report: ImportReport
    changes: tuple[tuple[str, bytes, str], ...] = ()

    @property
    def is_noop(self) -> bool:
        """Whether everything is already as it should be."""
        return not self.changes

    def stage(self, tx: Transaction) -> None:
        """Put all changes into a transaction, which makes them together or not at all."""
        for rel_path, content, expect in self.changes:
            # What was larger elsewhere comes as it is; it can be read, and shortened later.
            tx.write(rel_path, content, expect=expect, any_size=True)


@dataclass(frozen=True, slots=True)
class FolderImportOptions:
    """How far an import may go.

    Args:
        update: Files whose source has changed may be written anew.
        force: So may files that a person edited or deleted, or that were there before.
        update_hint: What to type for `update`.
        force_hint: What to type for `force`.
    """

    update: bool = False
    force: bool = False
    update_hint: str = "Add `--update` to use the source's text; add `--dry-run` to preview."
    force_hint: str = "Add `--force` to use the source's text; add `--dry-run` to preview."


def plan_folder(
    store: MemoryStore,
    pieces: Iterable[Piece],
    ledger_path: str,
    wish: FolderImportOptions,
    *,
    sources: Mapping[str, bytes],
    left_out: Iterable[LeftOut] = (),
    warnings: Iterable[str] = (),
    merge: Merge = lambda _there, _new: None,
) -> FolderPlan:
    """Return what importing `pieces` will do.

    Args:
        store: The memory.
        pieces: What the files become.
        ledger_path: Where it is noted what came from where.
        wish: How far to go.
        sources: The files.
        left_out: What could not be read of the folder.
        warnings: What was odd about it.
        merge: Returns what is there with all of the new in it, or None where that makes no sense.

    Raises:
        ConflictError: Files that are not the import's own would change, without `wish.force`.
        RefusedError: The source has changed, without `wish.update`.
        BadInputError: The ledger is damaged.
    """
    draft = _Draft(store, load(store, ledger_path), wish, merge)
    listed = list(pieces)
    for piece in listed:
        draft.take(piece, sha256_of(sources[piece.source]))
    draft.check()
    hidden = {piece.source for piece in listed if piece.is_hidden}
    shown = {piece.source for piece in listed if not piece.is_hidden}
    gone = [
        f"{source!r} is no longer in the folder; its file in memory is kept"
        for source in draft.old.entries.keys() - sources.keys()
    ]
    return draft.plan(
        kept=tuple(sorted(hidden - shown)),
        left_out=tuple(left_out),
        warnings=(*warnings, *draft.warnings, *sorted(gone)),
    )


class _Draft:
    """A plan while it is being made."""

    def __init__(
        self, store: MemoryStore, old: Ledger, wish: FolderImportOptions, merge: Merge
    ) -> None:
        self.old = old
        self._store = store
        self._wish = wish
        self._merge = merge
        self._new = dict(old.entries)
        self._wrote: dict[str, dict[str, str]] = {}
        self._changes: dict[str, tuple[bytes, str]] = {}
        self._shown: dict[str, list[str]] = {"written": [], "unchanged": [], "edited": []}
        self._overwritten: list[str] = []
        self._in_the_way: list[str] = []
        self._outdated: list[str] = []
        self.warnings: list[str] = []

    def take(self, piece: Piece, source_sha256: str) -> None:
        """Note what one piece means for the memory."""
        made = sha256_of(piece.content)
        wrote = self._wrote.setdefault(piece.source, {})
        wrote[piece.rel_path] = made
        known = self._new.get(piece.source)
        original = piece.rel_path if piece.is_original else (known.original if known else "")
        before = self.old.entries.get(piece.source)
        if before and piece.aside in before.wrote:
            original = piece.aside
            wrote[piece.aside] = before.wrote[piece.aside]
        self._new[piece.source] = ImportedFile(source_sha256, wrote, original)
        there = self._store.sha256(piece.rel_path)
        if there == made:
            self._note("unchanged", piece)
        elif before is None or piece.rel_path not in before.wrote:
            self._first_time(piece, there)
        else:
            self._again(piece, there, before.wrote[piece.rel_path], made)

    def _first_time(self, piece: Piece, there: str | None) -> None:
        if there is None:
            self._write(piece, piece.content, MISSING)
        elif not self._merged(piece, there):
            self._overwrite(piece, there)

    def _again(self, piece: Piece, there: str | None, was: str, made: str) -> None:
        if there == was:
            self._outdated.append(piece.rel_path)
            self._write(piece, piece.content, was)
        elif made == was and not self._wish.force:
            self._note("unchanged" if self._is_in(piece, there) else "edited", piece)
        elif there is None:
            self._deleted(piece)
        elif not self._merged(piece, there):
            self._overwrite(piece, there)

    def _deleted(self, piece: Piece) -> None:
        if self._wish.force:
            self._write(piece, piece.content, MISSING)
        else:
            self._note("edited", piece)
            self.warnings.append(f"{piece.rel_path}: you deleted it; it was not restored")

    def _is_in(self, piece: Piece, there: str | None) -> bool:
        """Tell whether what is there says all that the piece says."""
        if there is None or not piece.aside:
            return False
        now = self._store.read_bytes(piece.rel_path)
        return self._merge(now, piece.content) == now

    def _merged(self, piece: Piece, there: str) -> bool:
        """Put what is new into what is there, where that is possible."""
        if self._wish.force or not piece.aside:
            return False
        now = self._store.read_bytes(piece.rel_path)
        merged = self._merge(now, piece.content)
        if merged is None:
            return False
        self._keep_aside(piece)
        if merged == now:
            self._note("unchanged", piece)
        else:
            self.warnings.append(f"{piece.rel_path}: already exists; what was missing was added")
            self._write(piece, merged, there)
        return True

    def _keep_aside(self, piece: Piece) -> None:
        """Keep the original, since memory now holds it among other text."""
        entry = self._new[piece.source]
        wrote = self._wrote[piece.source]
        wrote[piece.aside] = entry.sha256
        self._new[piece.source] = ImportedFile(entry.sha256, wrote, piece.aside)
        there = self._store.sha256(piece.aside)
        if there != entry.sha256:
            self._changes[piece.aside] = (piece.content, there or MISSING)

    def _overwrite(self, piece: Piece, there: str) -> None:
        self._in_the_way.append(piece.rel_path)
        self._overwritten.append(piece.rel_path)
        self._write(piece, piece.content, there)

    def _write(self, piece: Piece, content: bytes, expect: str) -> None:
        self._changes[piece.rel_path] = (content, expect)
        self._note("written", piece)

    def _note(self, what: str, piece: Piece) -> None:
        if not piece.is_hidden:
            self._shown[what].append(piece.rel_path)

    def check(self) -> None:
        """Refuse what is not allowed. Nothing has been written yet."""
        if self._in_the_way and not self._wish.force:
            raise ConflictError(
                f"These files differ from the folder: {ledger.listed(self._in_the_way)};"
                " nothing was changed",
                hint=self._wish.force_hint,
            )
        if self._outdated and not (self._wish.update or self._wish.force):
            raise RefusedError(
                f"The folder has changed since the import; {len(self._outdated)} would change: "
                f"{ledger.listed(self._outdated)}; nothing was changed",
                hint=self._wish.update_hint,
            )

    def plan(
        self, *, kept: tuple[str, ...], left_out: tuple[LeftOut, ...], warnings: tuple[str, ...]
    ) -> FolderPlan:
        """Return the finished plan."""
        after = Ledger(self.old.rel_path, self._new)
        changes = [(path, content, expect) for path, (content, expect) in self._changes.items()]
        if self._new and after.entries != self.old.entries:
            changes.append(ledger.change(self._store, after.rel_path, after.dump()))
        report = ImportReport(
            written=tuple(sorted(self._shown["written"])),
            unchanged=tuple(sorted(self._shown["unchanged"])),
            overwritten=tuple(sorted(self._overwritten)),
            edited=tuple(sorted(self._shown["edited"])),
            kept_unmapped=kept,
            left_out=left_out,
            warnings=warnings,
        )
        return FolderPlan(report, tuple(changes))
