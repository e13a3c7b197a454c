"""Turn a directory of lore files back into a lorebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from familiar_cli.bootstrap.lorebooks import shelf
from familiar_cli.bootstrap.lorebooks.collect import FROM_CARD, collect
from familiar_cli.bootstrap.lorebooks.write import written
from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.memory.layout import IMPORTED_LORE_DIR
from familiar_cli.memory.store import paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.bootstrap.lorebooks.shelf import ShelvedBook
    from familiar_cli.bootstrap.lorebooks.types import BookFormat, Lorebook
    from familiar_cli.memory.store.store import MemoryStore

__all__ = ["choose_book", "collect", "export_book", "own_format", "written"]


def choose_book(store: MemoryStore, *, name: str = "", directory: str | None = None) -> Lorebook:
    """Return one imported book with a person's edits: the one that is meant, or the only one.

    Args:
        store: The memory.
        name: What it is called; empty: whichever there is.
        directory: Where it is; None: anywhere below `lore/`. Without a name, several books there
            are merged, and a warning says so.

    Raises:
        NotFoundError: There is no lore, or no such book.
        UsageError: Several could be meant; they are listed.
    """
    if directory is not None and not name:
        return collect(store, directory)
    found = shelf.find_book(store, name) if name else shelf.books(store)
    if directory is not None:
        found = [book for book in found if book.directory == paths.parse(directory)]
        if not found:
            raise NotFoundError(f"No lorebook in {directory!r} is called {name!r}")
    if len(found) > 1:
        raise _several(found, name)
    if not found:
        return collect(store, IMPORTED_LORE_DIR)
    return collect(store, found[0].directory, book_id=found[0].book_id)


def _several(found: Sequence[ShelvedBook], name: str) -> UsageError:
    listed = ", ".join(f"{book.record.name!r} ({book.directory})" for book in found)
    called = f" called {name!r}" if name else ""
    return UsageError(
        f"{len(found)} lorebooks{called} are imported: {listed}; nothing was exported",
        hint="Choose one with `--from DIR`." if name else "Choose one with `--book NAME`.",
    )


def export_book(
    store: MemoryStore,
    *,
    directory: str | None = None,
    book_format: BookFormat,
    book_id: str = "",
) -> dict[str, Any]:
    """Return the lore in `directory`, a person's edits included, as a lorebook.

    Args:
        store: The memory.
        directory: Where the lore is, below the memory root; None: wherever the only book is.
        book_format: `worldinfo`, `v3` (a standalone lorebook), or `card` for a `character_book`;
            for a card only the book that came with one is taken, if there is such a book.
        book_id: Of several books there, take this one alone.

    Raises:
        NotFoundError: There is no lore in `directory`.
        UsageError: No directory is given, and there are several books.
    """
    if directory is None:
        return written(choose_book(store), book_format)
    only = FROM_CARD if book_format == "card" else ()
    return written(collect(store, directory, book_id=book_id, only=only), book_format)


def own_format(book: Lorebook) -> BookFormat:
    """Return the format that a book's settings came in."""
    return "worldinfo" if book.shape == "worldinfo" else "v3"
