"""Import vaults of notes, and the memory of an export: Markdown that keeps its paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from familiar_cli.base.errors import BadInputError, ConflictError, UnsafePathError
from familiar_cli.base.text import counted, one_line, sha256_of, slugify
from familiar_cli.base.who.identity import check_familiar_id
from familiar_cli.imports import folders
from familiar_cli.imports.foreign_files import (
    as_object,
    object_at,
    objects_at,
    read_foreign,
    read_json,
    text_at,
)
from familiar_cli.imports.import_plan import FileToWrite, ImportPlan, ImportReport, list_paths
from familiar_cli.imports.what_is_it import MANIFEST
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.store.files import MISSING, parse_new_path

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.store.memory.store.store import MemoryStore

_SOURCE: Final = "import"
_VAULTS_DIR: Final = ".imported/vaults"
_NOTES_DIR: Final = ".imported/notes"
_NOTE: Final = ".md"
MEMORY_DIR: Final = "memory"
TURNS_FILE: Final = "turns.jsonl"
EXPORT_VERSION: Final = 1


def read_vault(path: Path) -> folders.FolderContents:
    """Read the files of a vault without Obsidian's own; a single note becomes a topic.

    Raises:
        FamiliarError: It is unreadable or too large.
    """
    if not path.is_dir():
        return folders.FolderContents({f"{layout.TOPICS_DIR}/{path.name}": read_foreign(path)})
    folder = folders.read_folder(path)
    own = {source.split("/")[0] for source in folder.files if _is_programs_own(source)}
    folder.files = {s: raw for s, raw in folder.files.items() if not _is_programs_own(s)}
    folder.notes += [f"{name} belongs to a program; not imported" for name in sorted(own)]
    return folder


def _is_programs_own(source: str) -> bool:
    return not set(layout.PRIVATE_DIRS).isdisjoint(source.split("/"))


def import_vault(
    store: MemoryStore,
    folder: folders.FolderContents,
    wish: folders.FolderImportOptions,
    *,
    name: str = "",
    dry_run: bool = False,
) -> folders.ImportedMemories:
    """Import a vault's notes into `store` under their own paths, in one transaction.

    Files other than Markdown are stored hidden. An existing day gets the lines it lacks.

    Args:
        folder: The files; see `read_vault`.
        wish: Import options.
        name: The vault's name; empty: it is a single note.
        dry_run: Check everything, changing nothing.

    Raises:
        ConflictError: Files from elsewhere would change.
        RefusedError: The vault has changed.
        FamiliarError: A file cannot be written; everything is as before.
    """
    warnings: list[str] = []
    directory = f"{_VAULTS_DIR}/{slugify(name) or 'vault'}" if name else _NOTES_DIR
    pages = folders.map_tree(
        folder.files,
        [file.rel_path for file in store.walk().files],
        warnings,
        keeps_place=_is_note,
        kept_dir=directory,
    )
    plan = folders.plan_folder(
        store,
        pages,
        f"{directory}/.ledger.json",
        wish,
        folder=folder,
        warnings=warnings,
        merge=folders.merge_pages,
        is_whole=bool(name),
    )
    notes = sum(map(_is_note, folder.files))
    plan.carry_out(store, _SOURCE, f"import {counted(notes, 'note')}", dry_run=dry_run)
    return folders.ImportedMemories(tiers={}, notes=notes, **plan.report.values())


def _is_note(source: str) -> bool:
    return source.lower().endswith(_NOTE)


class ExportedFamiliar(Struct, frozen=True):
    """A familiar in an export.

    Args:
        path: Its directory.
        kinds: The kind of conversation of each channel, where stated.
    """

    id: str
    name: str
    path: Path
    kinds: dict[str, str]


def read_manifest(directory: Path) -> list[ExportedFamiliar]:
    """Return the familiars in an export.

    Raises:
        BadInputError: The manifest is damaged, or newer than this program.
        FamiliarError: It is unreadable.
    """
    value, _ = read_json(read_foreign(directory / MANIFEST), origin=MANIFEST)
    entries = objects_at(as_object(value), "familiars")
    if as_object(value).get("familiar_export") != EXPORT_VERSION or not entries:
        raise BadInputError(
            f"{str(directory / MANIFEST)!r} is not an export that this version can read; "
            "nothing was imported",
            hint="Make the export again with this version of `familiar export`.",
        )
    return [_read_entry(directory, entry) for entry in entries]


def _read_entry(directory: Path, entry: dict[str, Any]) -> ExportedFamiliar:
    familiar_id = check_familiar_id(text_at(entry, "id"))
    kinds = {
        channel: kind
        for channel, kind in object_at(entry, "channel_kinds").items()
        if isinstance(kind, str)
    }
    name = one_line(text_at(entry, "name"))
    return ExportedFamiliar(familiar_id, name, directory / familiar_id, kinds)


def plan_restore(
    store: MemoryStore, folder: folders.FolderContents, *, force: bool = False
) -> ImportPlan:
    """Plan restoring the memory of an export into `store`, file by file.

    Args:
        folder: The files of the exported memory.
        force: Allow overwriting files with other contents.

    Raises:
        ConflictError: Such files exist, and `force` is not set.
    """
    changes: list[FileToWrite] = []
    unchanged: list[str] = []
    overwritten: list[str] = []
    warnings: list[str] = []
    for rel_path, content in sorted(folder.files.items()):
        if not _is_memory(rel_path):
            warnings.append(f"{one_line(rel_path)} cannot be a file of a memory; not imported")
            continue
        there = store.sha256(rel_path)
        if there == sha256_of(content):
            unchanged.append(rel_path)
            continue
        overwritten += [rel_path] if there else []
        changes.append(FileToWrite(rel_path, content, there or MISSING))
    if overwritten and not force:
        raise ConflictError(
            f"These files differ from the export: {list_paths(overwritten)}; nothing was changed",
            hint="Add `--force` to use the export's text, or import it under another ID: "
            "`--familiar ID`.",
        )
    report = ImportReport(
        written=tuple(change.path for change in changes),
        unchanged=tuple(unchanged),
        overwritten=tuple(overwritten),
        left_out=tuple(folder.left_out),
        warnings=tuple(warnings),
    )
    return ImportPlan(report, tuple(changes))


def _is_memory(rel_path: str) -> bool:
    try:
        return parse_new_path(rel_path) == rel_path and layout.is_synced(rel_path)
    except UnsafePathError:
        return False
