"""Change people: aliases, merges, splits and names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from msgspec import Struct

from familiar_cli.actions.people.drafts import (
    PeopleDraft,
    apply_draft,
    merge_files,
    rename_files,
    split_draft,
    with_name,
    without_name,
)
from familiar_cli.actions.people.people import find_person, publish_names, shared_names, speakers_of
from familiar_cli.base.text import one_line
from familiar_cli.familiar import Familiar
from familiar_cli.store.memory.aliases import Aliases, SharedName
from familiar_cli.store.memory.layout import people_path


class AliasChange(Struct, frozen=True):
    """The result of changing an alias.

    Args:
        name: The alias.
        changed: The file changed.
        diff: A unified diff, empty if nothing changed.
        collisions: Names they share with others.
        notices: Notices for the user.
        dry_run: Nothing was written.
    """

    slug: str
    rel_path: str
    name: str
    changed: bool
    diff: str
    collisions: tuple[SharedName, ...]
    notices: tuple[str, ...]
    dry_run: bool


class PeopleChange(Struct, frozen=True):
    """The result of merging, splitting or renaming.

    Args:
        slug: The person whose file was kept.
        other: The other person, or the old name.
        files: The changed files.
        moved: Number of lines moved.
        diff: The unified diff.
        notices: Notices for the user.
        dry_run: Nothing was written.
    """

    slug: str
    other: str
    files: tuple[str, ...]
    moved: int
    diff: str
    notices: tuple[str, ...]
    dry_run: bool


def add_alias(familiar: Familiar, person: str, name: str, *, dry_run: bool = False) -> AliasChange:
    """Add a name to a person, creating their file if needed.

    Raises:
        NotFoundError: Nobody is called `person`.
        UsageError: Several people are, or `name` is not valid.
        RefusedError: The file is protected, or was changed meanwhile; nothing was changed.
    """
    with _find_person(familiar, person) as (names, slug):
        draft = with_name(familiar.memory, slug, name, _new_page(familiar, slug), familiar.phrases)
        return _change_alias(familiar, names, slug, name, draft, dry_run=dry_run)


def remove_alias(
    familiar: Familiar, person: str, name: str, *, dry_run: bool = False
) -> AliasChange:
    """Remove a name from a person's aliases.

    Raises:
        NotFoundError: Nobody is called `person`, or their list does not contain `name`.
        UsageError: Several people are, or a line of the list contains other names as well.
        RefusedError: The file is protected, or was changed meanwhile; nothing was changed.
    """
    with _find_person(familiar, person) as (names, slug):
        draft = without_name(familiar.memory, slug, name)
        return _change_alias(familiar, names, slug, name, draft, dry_run=dry_run)


def merge(familiar: Familiar, text: str, other: str, *, dry_run: bool = False) -> PeopleChange:
    """Merge the file of `other` into that of `text`.

    Raises:
        NotFoundError: Nobody has this name; `other` has neither a file nor turns.
        UsageError: Several people have the name, or they are merged already.
        RefusedError: A file is protected; nothing was changed.
    """
    with _find_person(familiar, text) as (names, slug):
        person = find_person(familiar, names, other)
        titles = _person_titles(familiar)
        draft = merge_files(familiar.memory, slug, person, familiar.phrases, titles)
        message = f"merge {person} into {slug}"
        return _carry_out(familiar, names, draft, slug, person, message=message, dry_run=dry_run)


def split(familiar: Familiar, other: str, *, dry_run: bool = False) -> PeopleChange:
    """Give a merged person a file of their own again.

    Raises:
        NotFoundError: Nobody has this name.
        UsageError: Several people have it, or the person was never merged.
        RefusedError: A file is protected; nothing was changed.
    """

    def said_by(turn_id: int) -> str | None:
        turn = familiar.history.turn(turn_id)
        return turn.author.slug if turn and turn.author else None

    with _find_person(familiar, other) as (names, slug):
        memory, titles, numbering = familiar.memory, _person_titles(familiar), familiar.numbering
        draft = split_draft(memory, slug, said_by, familiar.phrases, titles, numbering=numbering)
        message = f"split {slug}"
        return _carry_out(familiar, names, draft, slug, "", message=message, dry_run=dry_run)


def rename(
    familiar: Familiar, person: str, old: str, new: str, *, dry_run: bool = False
) -> PeopleChange:
    """Rename a person from `old` to `new`, in their file and in links to it.

    Raises:
        NotFoundError: Nobody is called `person`, or that person is not called `old`.
        UsageError: Several people are, or `new` is not valid.
        RefusedError: A file is protected; nothing was changed.
    """
    with _find_person(familiar, person) as (names, slug):
        draft = rename_files(familiar.memory, slug, old, new, familiar.phrases)
        message = f"rename {old!r} of {slug}"
        return _carry_out(familiar, names, draft, slug, old, message=message, dry_run=dry_run)


@contextmanager
def _find_person(familiar: Familiar, person: str) -> Iterator[tuple[Aliases, str]]:
    """Open the index of names, and resolve `person`."""
    with closing(familiar.names()) as names:
        names.refresh(thorough=True)
        yield names, find_person(familiar, names, person)


def _change_alias(
    familiar: Familiar, names: Aliases, slug: str, name: str, draft: PeopleDraft, *, dry_run: bool
) -> AliasChange:
    message = f"alias {name!r} of {slug}"
    change = _carry_out(familiar, names, draft, slug, name, message=message, dry_run=dry_run)
    shared = () if dry_run else shared_names(names, slug)
    changed, path = bool(change.files), people_path(slug)
    return AliasChange(slug, path, name, changed, change.diff, shared, change.notices, dry_run)


def _carry_out(
    familiar: Familiar,
    names: Aliases,
    draft: PeopleDraft,
    slug: str,
    other: str,
    *,
    message: str,
    dry_run: bool,
) -> PeopleChange:
    # All files are prepared before the transaction, which refuses them if they changed meanwhile.
    diff = draft.draft.diff()
    files = apply_draft(familiar.memory, draft, message, dry_run=dry_run)
    notices = () if dry_run else publish_names(names)
    return PeopleChange(slug, other, files, draft.moved, diff, notices, dry_run)


def _new_page(familiar: Familiar, slug: str) -> str:
    """Return the beginning of a file about somebody who is known from turns only."""
    title = _person_titles(familiar).get(slug)
    return f"# {title}\n" if title else ""


def _person_titles(familiar: Familiar) -> dict[str, str]:
    """Return titles for the files of speakers, by slug: a name known in public, or the account."""
    me = familiar.me()
    titles = {}
    for slug, speaker in speakers_of(familiar, familiar.privacy.program()).items():
        owner, author = me.owner(speaker.author), speaker.author
        name = (owner and owner.name) or author.display_name or author.username
        titles[slug] = one_line(name or me.handle(slug))
    return titles
