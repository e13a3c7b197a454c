"""Make a familiar out of a card: all of it, or nothing."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from familiar_cli.bootstrap.staging import build
from familiar_cli.bootstrap.unpack_character import plan_unpack
from familiar_cli.config.home import FamiliarPaths
from familiar_cli.errors import UsageError
from familiar_cli.identity import check_familiar_id
from familiar_cli.text import one_line, slugify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from familiar_cli.bootstrap.cards import Card
    from familiar_cli.bootstrap.import_report import FamiliarReport
    from familiar_cli.memory.store.store import MemoryStore

_MAX_NAME_CHARS = 200


def create_familiar(
    home: Path,
    card: Card,
    open_store: Callable[[FamiliarPaths], MemoryStore],
    *,
    familiar_id: str | None = None,
    overwrite: bool = False,
    keep_edits: bool = False,
    dry_run: bool = False,
) -> FamiliarReport:
    """Make a familiar out of `card`, or bring an existing one up to it.

    Args:
        home: Where the familiars live; it is made when it is not there.
        card: What it is made of.
        open_store: Opens the memory of a familiar.
        familiar_id: Its id; else the card's name, else the name of the card's file.
        overwrite: Text that differs from the card's may be overwritten.
        keep_edits: But not what a person has edited of the card's book.
        dry_run: Check everything, and leave nothing on disk.

    Raises:
        UsageError: `familiar_id` could not be an id.
        RefusedError: The familiar exists with other text and `overwrite` is not set.
        FamiliarError: The disk refused; what was there before is as it was.
    """
    paths = FamiliarPaths(home / (check_familiar_id(familiar_id) if familiar_id else id_for(card)))
    return build(
        paths,
        open_store,
        lambda store: plan_unpack(card, store, overwrite=overwrite, keep_edits=keep_edits),
        name=called(card),
        message=f"unpack {one_line(card.name, 60)}",
        dry_run=dry_run,
    )


def id_for(card: Card) -> str:
    """Return the id that a familiar made of `card` gets when none is given."""
    for name in (card.name, PurePath(card.origin).stem):
        try:
            return check_familiar_id(slugify(name))
        except UsageError:
            continue
    return "familiar"


def called(card: Card) -> str:
    """Return what the character is called: the nickname, else the name."""
    return one_line(card.text("nickname"), _MAX_NAME_CHARS) or one_line(card.name, _MAX_NAME_CHARS)
