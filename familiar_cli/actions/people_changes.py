"""Merge two people, split them again, rename one: what `familiar people` changes for good."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.actions.people import find_person
from familiar_cli.errors import FamiliarError
from familiar_cli.writer import people

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.writer.people import Changed


@dataclass(frozen=True, slots=True)
class PeopleChange:
    """What a change did, or would do.

    Args:
        slug: Whose file holds what is known now.
        other: The other person, or the name that went.
        files: The files that changed.
        moved: How many lines moved.
        diff: How; unified.
        notices: What the user should know.
        dry_run: Nothing was changed.
    """

    slug: str
    other: str
    files: tuple[str, ...]
    moved: int
    diff: str
    notices: tuple[str, ...] = ()
    dry_run: bool = False


def merge(familiar: Familiar, kept: str, other: str, *, dry_run: bool = False) -> PeopleChange:
    """Put all that is known of `other` into the file of `kept`.

    Raises:
        NotFoundError: Nobody is called so, or `other` has no file.
        UsageError: Several people are called so, or they are the same already.
        RefusedError: A file may not be written; nothing was changed.
    """
    with closing(familiar.names()) as names:
        names.refresh(thorough=True)
        slug, gone = (find_person(familiar, names, person) for person in (kept, other))
    change = people.merged(familiar.memory, slug, gone)
    return _made(familiar, slug, gone, change, f"merge {gone} into {slug}", dry_run=dry_run)


def split(familiar: Familiar, other: str, *, dry_run: bool = False) -> PeopleChange:
    """Give a person who was merged into another a file of their own again.

    Raises:
        NotFoundError: Nobody is called so, or has no file.
        UsageError: Several people are, or that one was never merged.
        RefusedError: A file may not be written; nothing was changed.
    """
    with closing(familiar.names()) as names:
        names.refresh(thorough=True)
        slug = find_person(familiar, names, other)

    def said_by(turn_id: int) -> str | None:
        turn = familiar.history.turn(turn_id)
        return turn.author.slug if turn and turn.author else None

    change = people.split(familiar.memory, slug, said_by)
    return _made(familiar, slug, "", change, f"split {slug}", dry_run=dry_run)


def rename(
    familiar: Familiar, person: str, old: str, new: str, *, dry_run: bool = False
) -> PeopleChange:
    """Call a person `new` instead of `old`, in their file and in links to it.

    Raises:
        NotFoundError: Nobody is called `person`, or that one is not called `old`.
        UsageError: Several people are, or `new` can be no name.
        RefusedError: A file may not be written; nothing was changed.
    """
    with closing(familiar.names()) as names:
        names.refresh(thorough=True)
        slug = find_person(familiar, names, person)
    change = people.renamed(familiar.memory, slug, old, new)
    return _made(familiar, slug, old, change, f"rename {old!r} of {slug}", dry_run=dry_run)


def _made(
    familiar: Familiar, slug: str, other: str, change: Changed, message: str, *, dry_run: bool
) -> PeopleChange:
    # All files are made ready before the transaction, and refused there if they changed meanwhile.
    diff = change.draft.diff()
    files = people.make(familiar.memory, change, message, dry_run=dry_run)
    notices: tuple[str, ...] = ()
    if not dry_run:
        with closing(familiar.names()) as names:
            try:
                notices = names.publish()
            except FamiliarError as error:  # the next turn tries again
                notices = (f"The list of names stays as it was: {error}",)
    return PeopleChange(slug, other, files, change.moved, diff, notices, dry_run)
