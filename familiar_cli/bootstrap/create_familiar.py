"""Make a familiar out of a card: all of it, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from familiar_cli.bootstrap.unpack_character import plan_unpack
from familiar_cli.bootstrap.workshop import check_place, fill, workshop
from familiar_cli.config.home import FamiliarPaths
from familiar_cli.errors import UsageError
from familiar_cli.identity import check_familiar_id
from familiar_cli.text import one_line, slugify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from familiar_cli.bootstrap.cards import Card
    from familiar_cli.bootstrap.unpack_character import UnpackPlan
    from familiar_cli.memory.store import MemoryStore

_MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class Created:
    """What making a familiar did, or would do.

    Args:
        id: The familiar's id.
        name: What it is called.
        path: Its directory.
        is_new: It did not exist before.
        written: Files that are new or have new content, below `memory/`.
        unchanged: Files that were already as they should be.
        overwritten: Those of `written` that held something else.
        removed: Files of another card that are gone.
        kept_unmapped: What the card has that is kept, but is in no Markdown file.
        warnings: What was odd about the card.
    """

    id: str
    name: str
    path: Path
    is_new: bool
    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    overwritten: tuple[str, ...]
    removed: tuple[str, ...]
    kept_unmapped: tuple[str, ...]
    warnings: tuple[str, ...]


def create_familiar(
    home: Path,
    card: Card,
    open_store: Callable[[FamiliarPaths], MemoryStore],
    *,
    familiar_id: str | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
) -> Created:
    """Make a familiar out of `card`, or bring an existing one up to it.

    Args:
        home: Where the familiars live; it is made when it is not there.
        card: What it is made of.
        open_store: Opens the memory of a familiar.
        familiar_id: Its id; else the card's name, else the name of the card's file.
        overwrite: Text that differs from the card's may be overwritten.
        dry_run: Check everything, and leave nothing on disk.

    Raises:
        UsageError: `familiar_id` could not be an id.
        RefusedError: The familiar exists with other text and `overwrite` is not set.
        FamiliarError: The disk refused; what was there before is as it was.
    """
    paths = FamiliarPaths(home / (check_familiar_id(familiar_id) if familiar_id else id_for(card)))
    check_place(paths)
    if paths.root.exists():
        return _created(paths, card, _fill(paths, card, open_store, overwrite, dry_run), new=False)
    with workshop(home, paths, dry_run=dry_run) as staging:
        plan = _fill(staging, card, open_store, overwrite=True, dry_run=False)
    return _created(paths, card, plan, new=True)


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


def _fill(
    paths: FamiliarPaths,
    card: Card,
    open_store: Callable[[FamiliarPaths], MemoryStore],
    overwrite: bool,  # noqa: FBT001
    dry_run: bool,  # noqa: FBT001
) -> UnpackPlan:
    """Unpack the card into the familiar at `paths`, and write its settings if it has none."""
    store = open_store(paths)
    plan = plan_unpack(card, store, overwrite=overwrite)
    if not dry_run:
        message = f"unpack {one_line(card.name, 60)}"
        fill(paths, store, called(card), message, None if plan.is_noop else plan.stage)
    return plan


def _created(paths: FamiliarPaths, card: Card, plan: UnpackPlan, *, new: bool) -> Created:
    book = plan.book
    return Created(
        id=paths.id,
        name=called(card) or paths.id,
        path=paths.root,
        is_new=new,
        written=tuple(sorted((*plan.files, *(book.written if book else ())))),
        unchanged=tuple(sorted((*plan.unchanged, *(book.unchanged if book else ())))),
        overwritten=plan.overwritten,
        removed=plan.removed,
        kept_unmapped=plan.kept_unmapped,
        warnings=plan.warnings,
    )
