"""Look up people: everybody known, a person's page, and whom a name means."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.base.text import fold_word, nearest, one_line, typed
from familiar_cli.base.times.clock import iso
from familiar_cli.base.who import identity
from familiar_cli.base.who.visibility import OWNER, Viewer
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.rows import Speaker
from familiar_cli.store.history.selection import names_used_by
from familiar_cli.store.memory.aliases import Aliases, SharedName, main_slug, names_of, slug_in
from familiar_cli.store.memory.layout import people_path
from familiar_cli.store.memory.mentions import without_honorific


class KnownPerson(Struct, frozen=True):
    """A person.

    Args:
        slug: Stem of their file.
        name: Their name: the H1 of the file, else the name they last used in public.
        aliases: Number of names.
        turns: Number of their turns.
        last_seen: Time of their last turn, if any.
        size_bytes: Size of their file, if any.
        problem: Why the file could not be read; empty otherwise.
    """

    slug: str
    name: str
    aliases: int
    turns: int
    last_seen: str | None
    size_bytes: int | None
    problem: str = ""


class KnownPeople(Struct, frozen=True):
    """Everyone a familiar knows, latest speaker first, and the names that several share."""

    people: tuple[KnownPerson, ...]
    collisions: tuple[SharedName, ...]


class PersonPage(Struct, frozen=True):
    """A person's file, verbatim, with their names and those they share with others."""

    slug: str
    rel_path: str
    text: str
    sha256: str
    names: tuple[str, ...]
    collisions: tuple[SharedName, ...]
    turns: int
    last_seen: str | None


def people_of(familiar: Familiar, *, thorough: bool = True, within_s: float = inf) -> KnownPeople:
    """List everyone who has a file or has spoken.

    Args:
        familiar: The familiar.
        thorough: Check every file; otherwise only those in directories that have changed, without
            sizes.
        within_s: Stop reading changed files after this many seconds.
    """
    with closing(familiar.names()) as names:
        names.refresh(thorough=thorough, within_s=within_s)
        files = {person.slug: person for person in names.people()}
        collisions = tuple(names.collisions())
    speakers, labels = speakers_of(familiar), familiar.labels()
    known = []
    for slug in [*speakers, *sorted(files.keys() - speakers.keys())]:
        person, speaker = files.get(slug), speakers.get(slug)
        label = speaker.author.label if speaker else slug
        shown = one_line(_shown_name(slug, person.names if person else (), label))
        known.append(
            KnownPerson(
                slug=slug,
                name=labels.distinct(shown, slug),
                aliases=len(person.names) if person else 0,
                turns=speaker.turns if speaker else 0,
                last_seen=iso(speaker.last_at) if speaker else None,
                size_bytes=person.size_bytes if person and thorough else None,
                problem=person.problem if person else "",
            )
        )
    return KnownPeople(tuple(known), collisions)


def _shown_name(slug: str, names: Sequence[str], label: str) -> str:
    """Return the name in a person's file, unless that only repeats their account."""
    if not names or names[0] == identity.handle_of(slug):
        return identity.title_of_account(slug, label)
    return names[0]


def show_person(
    familiar: Familiar, person: str, *, within_s: float = inf, viewer: Viewer = OWNER
) -> PersonPage:
    """Return a person's file; `person` is a slug, `platform:id` or any name.

    A name may have an honorific that the file lacks, or the reverse: `Saraさん`. People without a
    file have an empty one.

    Args:
        familiar: The familiar.
        person: A slug, `platform:id` or a name.
        within_s: Stop reading changed files after this many seconds.
        viewer: Who will see the names.

    Raises:
        NotFoundError: Nobody has this name.
        UsageError: Several people have it.
    """
    with closing(familiar.names()) as names:
        names.refresh(thorough=True, within_s=within_s)
        slug = find_person(familiar, names, person, loosely=True, viewer=viewer)
        shared = shared_names(names, slug)
    rel_path = people_path(slug)
    speaker = speakers_of(familiar, viewer).get(slug)
    file = familiar.memory.read(rel_path) if familiar.memory.exists(rel_path) else None
    if file is None and speaker is None:
        raise NotFoundError(
            f"No file about {slug!r} yet",
            hint=f"Create one: `familiar memory write {typed(rel_path)} TEXT`.",
        )
    shown = (familiar.labels().distinct(one_line(speaker.author.label), slug),) if speaker else ()
    return PersonPage(
        slug=slug,
        rel_path=rel_path,
        text=file.text if file else "",
        sha256=file.sha256 if file else "",
        names=(names_of(file.text) if file else ()) or shown,
        collisions=shared,
        turns=speaker.turns if speaker else 0,
        last_seen=iso(speaker.last_at) if speaker else None,
    )


def find_person(
    familiar: Familiar,
    names: Aliases,
    person: str,
    *,
    loosely: bool = False,
    viewer: Viewer = OWNER,
) -> str:
    """Resolve `person`: a slug, `platform:id`, or a name.

    Args:
        names: The names it knows.
        person: The text typed.
        loosely: If nobody matches, ignore honorifics such as `さん`.
        viewer: Who asks: names that others used in private are unknown to programs.

    Raises:
        NotFoundError: Nobody matches.
        UsageError: Several people match.
    """
    speakers = speakers_of(familiar, viewer)
    known = names.slugs() | speakers.keys()
    slug = _slug_of(person)
    if person in known or slug in known:
        return person if person in known else str(slug)
    if _has_file(familiar, person):  # it has not been read yet
        return person
    target = fold_word(one_line(person))
    called = {match for match in known if fold_word(match) == target}.union(
        names.called(person),
        (
            main_slug(familiar.memory, s)
            for s in speakers
            if target in _names_of(speakers[s].author)
        ),
    )
    entries = () if called or slug else names.people()
    if loosely and not called and not slug:
        bare = without_honorific(person)
        called = {
            entry.slug for entry in entries if bare in map(without_honorific, entry.names)
        }.union(
            s for s in speakers if bare in map(without_honorific, _names_of(speakers[s].author))
        )
    own = familiar.me().slugs
    if not called and viewer.sees_everything and target in _private_names(familiar, own):
        return identity.NEUTRAL.slug
    if called & own and called <= own:
        return identity.NEUTRAL.slug if identity.NEUTRAL.slug in called else min(called)
    if len(called) > 1:
        listed = ", ".join(sorted(called))
        raise UsageError(
            f"{person!r} is shared by several people: {listed}", hint="Use the slug of one of them."
        )
    if called or slug:
        return next(iter(called), slug or "")
    everyone = [name for entry in entries for name in (entry.slug, *entry.names)]
    guess = nearest(person, [*everyone, *(speaker.author.label for speaker in speakers.values())])
    hint = f"Did you mean {guess!r}?" if guess else "Run `familiar people list`."
    raise NotFoundError(f"No person is called {person!r}", hint=hint)


def _names_of(author: identity.Author) -> set[str]:
    """Return a person's case-folded names on their platform."""
    names = (author.display_name, author.username, author.label, identity.handle_of(author.slug))
    return {fold_word(one_line(name)) for name in names if name}


def _private_names(familiar: Familiar, own: Collection[str]) -> set[str]:
    """Return the owner's case-folded names anywhere, which their file does not tell others."""
    return {fold_word(one_line(name)) for name in names_used_by(familiar.history, own)}


def _has_file(familiar: Familiar, slug: str) -> bool:
    path = people_path(slug)
    with suppress(FamiliarError):
        return slug_in(path) == slug and familiar.memory.exists(path)
    return False


def _slug_of(person: str) -> str | None:
    try:
        return identity.parse_author(person).slug
    except UsageError:
        return None


def shared_names(names: Aliases, slug: str) -> tuple[SharedName, ...]:
    """Return the names that a person shares with others."""
    return tuple(named for named in names.collisions() if slug in named.slugs)


def speakers_of(familiar: Familiar, viewer: Viewer = OWNER) -> dict[str, Speaker]:
    """Return everyone who has spoken, by slug, latest first; see `HistoryStore.speakers`."""
    me, said = familiar.me(), familiar.history.speakers(viewer)
    seen = familiar.history.last_times() if viewer.sees_everything else {}
    name = me.named if viewer.is_owner else lambda author: author  # others may not know theirs
    people = [
        replace(s, author=name(s.author), last_at=seen.get(s.author.slug, s.last_at)) for s in said
    ]
    return {s.author.slug: s for s in sorted(people, key=lambda s: s.last_at, reverse=True)}


def publish_names(names: Aliases) -> tuple[str, ...]:
    """Update the list of names, and return notices."""
    try:
        return names.publish()
    except FamiliarError as error:  # the next turn tries again
        return (f"The list of names is unchanged: {error}",)
