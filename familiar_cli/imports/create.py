"""Create a familiar from a card, a template, or an export of another."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import resources
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from familiar_cli.base import errors
from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.base.macros import unknown_macros
from familiar_cli.base.text import nearest, one_line, sha256_of, slugify
from familiar_cli.base.who.identity import check_familiar_id
from familiar_cli.imports import cards, foreign_files, import_plan
from familiar_cli.imports.containers import SUFFIXES
from familiar_cli.imports.import_lorebook import plan_import
from familiar_cli.imports.lorebook_shelf import book_directories, place_for
from familiar_cli.imports.reading import read_card_book
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.layout import CARD_JSON, SELF_DIR
from familiar_cli.store.memory.pages.front_matter import ORIGINAL_STEM, field_markdown, self_file
from familiar_cli.store.memory.store.files import parse_new_path
from familiar_cli.store.memory.store.store import MISSING, MemoryStore

if TYPE_CHECKING:
    from familiar_cli.imports.folders import FolderContents


_VERSION: Final = "1"
CARD_TEMPLATES: Final = ("companion", "assistant", "narrator")
"""The tables of `card_templates.toml`."""


def template_card(template: str, *, name: str = "", also: tuple[str, ...] = ()) -> cards.Card:
    """Return a template as a card.

    Args:
        template: One of `NAMES`.
        name: The character's name; empty: the template's default.
        also: Templates that are not cards, to list in the error.

    Raises:
        NotFoundError: The template does not exist.
    """
    if template not in CARD_TEMPLATES:
        known = (*CARD_TEMPLATES, *also)
        guess = nearest(template, known)
        raise errors.NotFoundError(
            f"No such template: {template!r}; available: {', '.join(known)}",
            hint=f"Try `--template {guess or CARD_TEMPLATES[0]}`.",
        )
    tables = resources.files(__package__) / "card_templates.toml"
    own = tomllib.loads(tables.read_text("utf-8"))[template]
    data = {
        **own,
        "name": name or own["name"],
        "character_version": _VERSION,
        "tags": ["template", template],
    }
    spec, version = cards.V3_SPEC
    raw = {"spec": spec, "spec_version": version, "data": data}
    return cards.Card("v3", "template", data, raw, origin=f"template {template}")


_KNOWN: Final = "{!r} is the same card as the original, which is kept; `--overwrite` replaces it"


def plan_unpack(
    card: cards.Card, store: MemoryStore, *, overwrite: bool = False, keep_edits: bool = False
) -> import_plan.ImportPlan:
    """Plan unpacking `card` into `store`, writing nothing.

    Args:
        store: The target memory.
        overwrite: Allow overwriting files that differ, and removing files of another card.
        keep_edits: Even so, keep a person's edits of the card's book.

    Raises:
        RefusedError: Files differ and may not be overwritten; the error names them.
    """
    book = _plan_book(card, store, overwrite=overwrite, force=overwrite and not keep_edits)
    files = _card_files(card, book_dir=book.directory)
    is_known = not overwrite and _is_known_card(store, files)
    if is_known:
        files = {path: files[path] for path in files.keys() - set(cards.ORIGINALS)}
    there = {path: store.read_bytes(path) for path in files if store.exists(path)}
    same = {path for path, content in there.items() if _is_equal(path, content, files[path])}
    original = _original_name(card)
    same_card = (original if original in files else CARD_JSON) in same
    removed = () if same_card else _stale_files(store, files)
    overwritten = tuple(sorted(there.keys() - same))
    is_refused = (overwritten or removed or book.refusal) and not overwrite
    if is_refused or (book.refusal and keep_edits):
        raise _refuse_card(card, (*overwritten, *removed), book.refusal)
    written = [
        import_plan.FileToWrite(path, content, store.sha256(path) or MISSING)
        for path, content in files.items()
        if path not in same
    ]
    deleted = [
        import_plan.FileToWrite(path, None, store.sha256(path) or MISSING) for path in removed
    ]
    lore = book.plan or import_plan.ImportPlan(import_plan.ImportReport())
    of_card = cards.effects_of_card(card, book_dir=book.directory)
    report = import_plan.ImportReport(
        written=tuple(sorted((*(change.path for change in written), *lore.report.written))),
        unchanged=tuple(sorted((*same, *lore.report.unchanged))),
        overwritten=overwritten,
        removed=removed,
        in_every_prompt=of_card.in_every_prompt + _of_book(lore.report.in_every_prompt),
        found_when_it_fits=of_card.found_when_it_fits + _of_book(lore.report.found_when_it_fits),
        kept_unmapped=of_card.kept_unmapped + _of_book(lore.report.kept_unmapped),
        warnings=(
            *card.warnings,
            *((_KNOWN.format(card.origin or card.name),) if is_known else ()),
            *_macro_warnings(card),
            *book.warnings,
            *_former_lore(store, book, same_card=same_card),
        ),
    )
    return import_plan.ImportPlan(report, (*written, *deleted, *lore.changes))


def _is_known_card(store: MemoryStore, files: Mapping[str, bytes]) -> bool:
    """Tell whether a memory has the same card from another file, such as its JSON or picture."""
    originals = set(cards.ORIGINALS)
    own = next((path for path in files if path in originals), "")
    there = [path for path in originals if store.exists(path)]
    if not there or (own in there and store.read_bytes(own) == files[own]):
        return False
    return set(_stale_files(store, files)) <= originals and all(
        store.exists(path) and _is_equal(path, store.read_bytes(path), content)
        for path, content in files.items()
        if path not in originals
    )


def _macro_warnings(card: cards.Card) -> Iterator[str]:
    texts = (card.text(field) for field in cards.FILE_FIELDS)
    unknown = unknown_macros([*texts, *card.texts("alternate_greetings")])
    if unknown:
        named = ", ".join(f"{{{{{one_line(name, 40)}}}}}" for name in unknown[:8])
        yield f"macros that are not filled, and are sent as they are: {named}"


def _of_book(settings: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"character_book: {name}" for name in settings)


def _card_files(card: cards.Card, *, book_dir: str | None) -> dict[str, bytes]:
    files = {
        self_file(field).rel_path: field_markdown(
            field, foreign_files.to_storable(card.data[field])
        ).encode("utf-8")
        for field in cards.FILE_FIELDS
        if cards.is_text(card.data.get(field))
    }
    files[CARD_JSON] = cards.dump_kept(cards.kept_of(card, book_dir=book_dir))
    if card.content:
        files[_original_name(card)] = card.content
    return files


def _original_name(card: cards.Card) -> str:
    return f"{SELF_DIR}/{ORIGINAL_STEM}{SUFFIXES.get(card.container, '')}"


def _stale_files(store: MemoryStore, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the files that only a card writes and that this one lacks."""
    possible = [self_file(field).rel_path for field in cards.FILE_FIELDS]
    possible += cards.ORIGINALS
    return tuple(sorted(path for path in possible if path not in files and store.exists(path)))


def _is_equal(rel_path: str, there: bytes, new: bytes) -> bool:
    if there == new or rel_path != CARD_JSON:
        return there == new
    try:
        old, made = (
            foreign_files.read_json(content, origin=rel_path, max_depth=foreign_files.OWN_DEPTH)[0]
            for content in (there, new)
        )
        return bool(old == made)
    except errors.BadInputError:
        return False


class _BookPlan(Struct, frozen=True):
    """Plan for the card's book, or the reason for having none."""

    plan: import_plan.ImportPlan | None = None
    directory: str | None = None
    refusal: str = ""
    warnings: tuple[str, ...] = ()


def _former_lore(store: MemoryStore, book: _BookPlan, *, same_card: bool) -> tuple[str, ...]:
    if same_card:
        return ()
    others = [place for place in book_directories(store) if place != book.directory]
    return tuple(f"the lore already in {place} is kept" for place in others)


def _plan_book(card: cards.Card, store: MemoryStore, *, overwrite: bool, force: bool) -> _BookPlan:
    character_book = card.data.get("character_book")
    if character_book is None:
        return _BookPlan()
    try:
        book = read_card_book(character_book, origin=card.origin or card.name)
    except errors.BadInputError as error:
        warning = f"the card's book cannot be read and is kept in {CARD_JSON}: {error}"
        return _BookPlan(warnings=(warning,))
    directory = None
    try:
        directory, notes = place_for(book, store)
        plan = plan_import(book, store, into=directory, update=overwrite, force=force, is_copy=True)
    except errors.RefusedError as error:
        return _BookPlan(directory=directory, refusal=str(error))
    warnings = tuple(f"character_book: {note}" for note in (*notes, *plan.report.warnings))
    return _BookPlan(plan, directory, warnings=warnings)


_OVERWRITE: Final = (
    "Add `--overwrite` to use the card's text, or `--familiar ID` to make another familiar."
)


def _refuse_card(card: cards.Card, differing: tuple[str, ...], refusal: str) -> errors.RefusedError:
    which = f"differs from {card.origin or card.name!r} in: {', '.join(differing)}"
    parts = [which] if differing else []
    parts += [f"has different lore than the card's book. {refusal}"] if refusal else []
    return errors.RefusedError(
        f"The familiar {'; it '.join(parts)}; nothing was changed", hint=_OVERWRITE
    )


_MAX_NAME_CHARS = 200


def create_familiar(
    home: Path,
    card: cards.Card,
    open_store: Callable[[FamiliarPaths], MemoryStore],
    *,
    familiar_id: str | None = None,
    overwrite: bool = False,
    keep_edits: bool = False,
    dry_run: bool = False,
) -> import_plan.FamiliarReport:
    """Create a familiar from `card`, or update an existing one.

    Args:
        home: The directory of all familiars; created if missing.
        open_store: Opens the memory of a familiar.
        familiar_id: Its id; else the card's name, else the card's file name.
        overwrite: Allow overwriting text that differs from the card's.
        keep_edits: Even so, keep a person's edits of the card's book.
        dry_run: Check everything without leaving anything on disk.

    Raises:
        UsageError: `familiar_id` is not a valid id.
        RefusedError: The familiar exists with other text, and `overwrite` is not set.
        FamiliarError: A file cannot be written; everything is as before.
    """
    paths = FamiliarPaths(home / (check_familiar_id(familiar_id) if familiar_id else id_for(card)))
    return import_plan.build_familiar(
        paths,
        open_store,
        lambda store: plan_unpack(card, store, overwrite=overwrite, keep_edits=keep_edits),
        name=character_name(card),
        message=f"unpack {one_line(card.name, 60)}",
        dry_run=dry_run,
    )


def id_for(card: cards.Card) -> str:
    """Return the default id of a familiar made from `card`."""
    return id_from(card.name, PurePath(card.origin).stem)


def id_from(*names: str) -> str:
    """Return an id made from the first of `names` that is good for one."""
    for name in names:
        with suppress(errors.UsageError):
            return check_familiar_id(slugify(name))
    return "familiar"


def character_name(card: cards.Card) -> str:
    """Return the character's nickname, else its name."""
    return one_line(card.text("nickname"), _MAX_NAME_CHARS) or one_line(card.name, _MAX_NAME_CHARS)


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
    """Return the familiars in an export, or the one whose directory in it this is.

    Raises:
        BadInputError: The manifest is damaged, or newer than this program.
        FamiliarError: It is unreadable.
    """
    root = import_plan.export_of(directory) or directory
    path = root / import_plan.EXPORT_MANIFEST
    value, _ = foreign_files.read_json(foreign_files.read_foreign(path), origin=path.name)
    entries = foreign_files.objects_at(foreign_files.as_object(value), "familiars")
    if foreign_files.as_object(value).get("familiar_export") != EXPORT_VERSION or not entries:
        raise errors.BadInputError(
            f"{str(path)!r} is not an export that this version can read; nothing was imported",
            hint="Make the export again with this version of `familiar export`.",
        )
    familiars = [_read_entry(root, entry) for entry in entries]
    return [
        one for one in familiars if root == directory or one.path.name == directory.absolute().name
    ]


def _read_entry(directory: Path, entry: dict[str, Any]) -> ExportedFamiliar:
    familiar_id = check_familiar_id(foreign_files.text_at(entry, "id"))
    kinds = {
        channel: kind
        for channel, kind in foreign_files.object_at(entry, "channel_kinds").items()
        if isinstance(kind, str)
    }
    name = one_line(foreign_files.text_at(entry, "name"))
    return ExportedFamiliar(familiar_id, name, directory / familiar_id, kinds)


def plan_restore(
    store: MemoryStore, folder: FolderContents, *, force: bool = False
) -> import_plan.ImportPlan:
    """Plan restoring the memory of an export into `store`, file by file.

    Args:
        folder: The files of the exported memory.
        force: Allow overwriting files with other contents.

    Raises:
        ConflictError: Such files exist, and `force` is not set.
    """
    changes: list[import_plan.FileToWrite] = []
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
        changes.append(import_plan.FileToWrite(rel_path, content, there or MISSING))
    if overwritten and not force:
        listed = import_plan.list_paths(overwritten)
        raise errors.ConflictError(
            f"These files differ from the export: {listed}; nothing was changed",
            hint="Add `--force` to use the export's text, or `--familiar ID` to make another one.",
        )
    report = import_plan.ImportReport(
        written=tuple(change.path for change in changes),
        unchanged=tuple(unchanged),
        overwritten=tuple(overwritten),
        left_out=tuple(folder.left_out),
        warnings=tuple(warnings),
    )
    return import_plan.ImportPlan(report, tuple(changes))


def _is_memory(rel_path: str) -> bool:
    try:
        return parse_new_path(rel_path) == rel_path and layout.is_synced(rel_path)
    except errors.UnsafePathError:
        return False
