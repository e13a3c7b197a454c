"""Turn a directory of lore files back into a lorebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from familiar_cli.bootstrap.lorebooks.collect import FROM_CARD, collect
from familiar_cli.bootstrap.lorebooks.write import written
from familiar_cli.memory.layout import IMPORTED_LORE_DIR

if TYPE_CHECKING:
    from familiar_cli.bootstrap.lorebooks.types import BookFormat, Lorebook
    from familiar_cli.memory.store.store import MemoryStore

__all__ = ["collect", "export_book", "own_format", "written"]


def export_book(
    store: MemoryStore, *, directory: str = IMPORTED_LORE_DIR, book_format: BookFormat
) -> dict[str, Any]:
    """Return the lore in `directory`, a person's edits included, as a lorebook.

    Args:
        store: The memory.
        directory: Where the lore is, below the memory root.
        book_format: `worldinfo`, `v3` (a standalone lorebook), or `card` for a `character_book`;
            for a card only the book that came with one is taken, if there is such a book.

    Raises:
        NotFoundError: There is no lore in `directory`.
    """
    only = FROM_CARD if book_format == "card" else ()
    return written(collect(store, directory, only=only), book_format)


def own_format(book: Lorebook) -> BookFormat:
    """Return the format that a book's settings came in."""
    return "worldinfo" if book.shape == "worldinfo" else "v3"
