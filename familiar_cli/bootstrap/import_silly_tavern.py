"""Turn a lorebook into Markdown: read one in any format, and plan the files it becomes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from familiar_cli.bootstrap.containers import open_container
from familiar_cli.bootstrap.json_text import decoded
from familiar_cli.bootstrap.lorebooks.plan import ImportPlan, plan_import
from familiar_cli.bootstrap.lorebooks.read import MAX_ENTRIES, read_book
from familiar_cli.bootstrap.lorebooks.types import Lorebook, LoreEntry
from familiar_cli.errors import BadInputError
from familiar_cli.memory.layout import IMPORTED_LORE_DIR, new_run_id, noting

if TYPE_CHECKING:
    from familiar_cli.memory.store.store import MemoryStore

__all__ = [
    "IMPORTED_LORE_DIR",
    "MAX_ENTRIES",
    "ImportPlan",
    "ImportedLorebook",
    "LoreEntry",
    "Lorebook",
    "import_lorebook",
    "load_book",
    "plan_import",
    "read_book",
]

SOURCE: Final = "import-lorebook"
_OPENERS: Final = ("{", "[")


@dataclass(frozen=True, slots=True)
class ImportedLorebook:
    """What an import did, or would do. See `ImportPlan` for the lists.

    Args:
        book: The book's name.
        directory: Where it is in memory.
        source: The format it came in.
        entries: How many it has.
        in_every_prompt: Which of its settings put text into every prompt.
        found_when_it_fits: Which put text into prompts that it fits.
        kept_unmapped: Which are kept for export and have no effect here.
    """

    book: str
    directory: str
    source: str
    entries: int
    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    in_every_prompt: tuple[str, ...]
    found_when_it_fits: tuple[str, ...]
    kept_unmapped: tuple[str, ...]
    warnings: tuple[str, ...]


def import_lorebook(
    store: MemoryStore,
    book: Lorebook,
    *,
    into: str | None = None,
    update: bool = False,
    force: bool = False,
    dry_run: bool = False,
) -> ImportedLorebook:
    """Import `book` in one transaction, into a directory of its own unless `into` names another.

    Arguments and errors are those of `plan_import`.
    """
    plan = plan_import(book, store, into=into, update=update, force=force)
    with store.transaction(
        SOURCE, f"import {book.name!r}", dry_run=dry_run, trailers=noting(new_run_id())
    ) as tx:
        plan.stage(tx)
    return ImportedLorebook(
        book.name,
        plan.directory,
        book.source,
        len(book.entries),
        plan.written,
        plan.unchanged,
        plan.effects.in_every_prompt,
        plan.effects.found_when_it_fits,
        plan.effects.kept,
        plan.warnings,
    )


def load_book(raw: bytes, *, origin: str) -> Lorebook:
    """Return the lorebook in the bytes of a file: of JSON, or of any card that holds one.

    Raises:
        BadInputError: There is none; the message says what the file is instead.
        LimitError: The book has too many entries.
    """
    what = _what_it_is_instead(raw, origin)
    if what:
        raise BadInputError(
            f"{origin!r} is {what}, not a lorebook; nothing was imported",
            hint="A lorebook is a JSON file, or a card that contains one.",
        )
    opened = open_container(raw, origin=origin)
    book = read_book(opened.value, origin=origin)
    return replace(book, warnings=(*opened.notes, *book.warnings))


def _what_it_is_instead(raw: bytes, origin: str) -> str:
    """Return what a file is that is neither JSON nor a card's container, or an empty string."""
    try:
        text = decoded(raw).lstrip()
    except ValueError:
        return "text that is not UTF-8" if raw.lstrip().startswith((b"{", b"[")) else ""
    is_yaml = PurePath(origin).suffix.lower() in {".yaml", ".yml"}
    if is_yaml or "\0" in text or raw.startswith(b"PK") or text.startswith(_OPENERS):
        return ""
    return "text" if text else "empty"
