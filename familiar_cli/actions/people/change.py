"""What `familiar people` changes: names, who is one person with whom, and what one is called."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from familiar_cli.actions.people import drafts
from familiar_cli.actions.people.read import find_person, shared_names, speakers_of
from familiar_cli.errors import FamiliarError
from familiar_cli.memory.layout import people_path
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.actions.people.drafts import PeopleDraft
    from familiar_cli.familiar import Familiar
    from familiar_cli.memory.people.aliases import Aliases, Named


@dataclass(frozen=True, slots=True)
class AliasChange:
    """What changing an alias did, or would do.

    Args:
        slug: Whose it is.
        rel_path: Their file.
        name: The alias.
        changed: The file is another one now.
        diff: How; unified, empty when nothing changed.
        collisions: Names of this person that others have as well.
        notices: What the user should know.
        dry_run: Nothing was changed.
    """

    slug: str
    rel_path: str
    name: str
    changed: bool
    diff: str
    collisions: tuple[Named, ...] = ()
    notices: tuple[str, ...] = ()
    dry_run: bool = False


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


def add_alias(familiar: Familiar, person: str, name: str, *, dry_run: bool = False) -> AliasChange:
    """Give a person one more name; the file is made if there is none.

    Raises:
        NotFoundError: Nobody is called `person`.
        UsageError: Several people are, or `name` can be none.
        RefusedError: The file may not be written, or has changed meanwhile; nothing was changed.
    """
    with _meant(familiar, person) as (names, slug):
        draft = drafts.with_name(
            familiar.memory, slug, name, _new_page(familiar, slug), familiar.phrases
        )
        return _named(familiar, names, slug, name, draft, dry_run=dry_run)


def remove_alias(
    familiar: Familiar, person: str, name: str, *, dry_run: bool = False
) -> AliasChange:
    """Take a name out of the list of a person's aliases.

    Raises:
        NotFoundError: Nobody is called `person`, or their list does not say `name`.
        UsageError: Several people are, or a line of the list says other names as well.
        RefusedError: The file may not be written, or has changed meanwhile; nothing was changed.
    """
    with _meant(familiar, person) as (names, slug):
        draft = drafts.without_name(familiar.memory, slug, name)
        return _named(familiar, names, slug, name, draft, dry_run=dry_run)


def merge(familiar: Familiar, kept: str, other: str, *, dry_run: bool = False) -> PeopleChange:
    """Put all that is known of `other` into the file of `kept`.

    Raises:
        NotFoundError: Nobody is called so; `other` has neither a file nor turns.
        UsageError: Several people are called so, or they are the same already.
        RefusedError: A file may not be written; nothing was changed.
    """
    with _meant(familiar, kept) as (names, slug):
        gone = find_person(familiar, names, other)
        titles = _titles(familiar)
        draft = drafts.merged(familiar.memory, slug, gone, familiar.phrases, titles)
        done = PeopleChange(slug, gone, (), draft.moved, draft.draft.diff(), dry_run=dry_run)
        return _made(familiar, names, done, draft, f"merge {gone} into {slug}")


def split(familiar: Familiar, other: str, *, dry_run: bool = False) -> PeopleChange:
    """Give a person who was merged into another a file of their own again.

    Raises:
        NotFoundError: Nobody is called so.
        UsageError: Several people are, or that one was never merged.
        RefusedError: A file may not be written; nothing was changed.
    """

    def said_by(turn_id: int) -> str | None:
        turn = familiar.history.turn(turn_id)
        return turn.author.slug if turn and turn.author else None

    with _meant(familiar, other) as (names, slug):
        titles = _titles(familiar)
        draft = drafts.split(
            familiar.memory,
            slug,
            said_by,
            familiar.phrases,
            titles,
            numbering=familiar.numbering,
        )
        done = PeopleChange(slug, "", (), draft.moved, draft.draft.diff(), dry_run=dry_run)
        return _made(familiar, names, done, draft, f"split {slug}")


def rename(
    familiar: Familiar, person: str, old: str, new: str, *, dry_run: bool = False
) -> PeopleChange:
    """Call a person `new` instead of `old`, in their file and in links to it.

    Raises:
        NotFoundError: Nobody is called `person`, or that one is not called `old`.
        UsageError: Several people are, or `new` can be no name.
        RefusedError: A file may not be written; nothing was changed.
    """
    with _meant(familiar, person) as (names, slug):
        draft = drafts.renamed(familiar.memory, slug, old, new, familiar.phrases)
        done = PeopleChange(slug, old, (), draft.moved, draft.draft.diff(), dry_run=dry_run)
        return _made(familiar, names, done, draft, f"rename {old!r} of {slug}")


@contextmanager
def _meant(familiar: Familiar, person: str) -> Iterator[tuple[Aliases, str]]:
    """Open who is called what, and tell whom `person` means."""
    with closing(familiar.names()) as names:
        names.refresh(thorough=True)
        yield names, find_person(familiar, names, person)


def _named(
    familiar: Familiar,
    names: Aliases,
    slug: str,
    name: str,
    draft: PeopleDraft,
    *,
    dry_run: bool,
) -> AliasChange:
    diff = draft.draft.diff()
    message = f"alias {name!r} of {slug}"
    changed = bool(drafts.make(familiar.memory, draft, message, dry_run=dry_run))
    done = AliasChange(slug, people_path(slug), name, changed, diff, dry_run=dry_run)
    if dry_run:
        return done
    notices = published(names)
    return replace(done, collisions=shared_names(names, slug), notices=notices)


def _made(
    familiar: Familiar, names: Aliases, done: PeopleChange, draft: PeopleDraft, message: str
) -> PeopleChange:
    # All files are made ready before the transaction, and refused there if they changed meanwhile.
    files = drafts.make(familiar.memory, draft, message, dry_run=done.dry_run)
    notices = () if done.dry_run else published(names)
    return replace(done, files=files, notices=notices)


def published(names: Aliases) -> tuple[str, ...]:
    """Bring the list of names up to date, and return what is to be told."""
    try:
        return names.publish()
    except FamiliarError as error:  # the next turn tries again
        return (f"The list of names is unchanged: {error}",)


def _new_page(familiar: Familiar, slug: str) -> str:
    """Return the beginning of a file about somebody who is known by what was said only."""
    title = _titles(familiar).get(slug)
    return f"# {title}\n" if title else ""


def _titles(familiar: Familiar) -> dict[str, str]:
    """Return the titles of files about those who spoke, by slug: a name, else the account."""
    handle = familiar.me().handle
    authors = [speaker.author for speaker in speakers_of(familiar).values()]
    return {a.slug: one_line(a.display_name or a.username or handle(a.slug)) for a in authors}
