"""Turn a lorebook into Markdown: read one in any format, and plan the files it becomes."""

from __future__ import annotations

from dataclasses import replace

from familiar_cli.bootstrap.lorebooks.plan import DEFAULT_DIRECTORY, ImportPlan, plan_import
from familiar_cli.bootstrap.lorebooks.read import MAX_ENTRIES, read_book
from familiar_cli.bootstrap.lorebooks.types import Lorebook, LoreEntry

__all__ = [
    "DEFAULT_DIRECTORY",
    "MAX_ENTRIES",
    "ImportPlan",
    "LoreEntry",
    "Lorebook",
    "load_book",
    "plan_import",
    "read_book",
]


def load_book(raw: bytes, *, origin: str) -> Lorebook:
    """Return the lorebook in the bytes of a file: of JSON, or of any card that holds one.

    Raises:
        BadInputError: There is none; the message says what the file is instead.
        LimitError: The file or the book is too large.
    """
    from familiar_cli.bootstrap.containers import open_container  # noqa: PLC0415

    opened = open_container(raw, origin=origin)
    book = read_book(opened.value, origin=origin)
    return replace(book, warnings=(*opened.notes, *book.warnings))
