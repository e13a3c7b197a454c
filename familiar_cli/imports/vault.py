"""Exports of familiars: their manifest, and restoring the memory of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from familiar_cli.base.errors import BadInputError, ConflictError, UnsafePathError
from familiar_cli.base.text import one_line, sha256_of
from familiar_cli.base.who.identity import check_familiar_id
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

    from familiar_cli.imports import folders
    from familiar_cli.store.memory.store.store import MemoryStore

MEMORY_DIR: Final = "memory"
TURNS_FILE: Final = "turns.jsonl"
EXPORT_VERSION: Final = 1


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
