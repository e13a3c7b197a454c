"""Who a familiar knows: the files in `people/`, what they are called, and when they last spoke."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from familiar_cli.clock import iso
from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.folding import fold_word
from familiar_cli.identity import handle_of, parse_author
from familiar_cli.memory.layout import PEOPLE_DIR, people_path
from familiar_cli.memory.people.alias_section import main_slug, names_of
from familiar_cli.memory.people.mentions import without_honorific
from familiar_cli.text import nearest, one_line, typed

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.types import Speaker
    from familiar_cli.identity import Author
    from familiar_cli.memory.people.aliases import Aliases, Named


@dataclass(frozen=True, slots=True)
class KnownPerson:
    """One person.

    Args:
        slug: The stem of their file.
        name: What they are called: the H1 of the file, else their name where they last spoke in
            public.
        aliases: How many names they have.
        turns: How many turns they said.
        last_seen: When they last spoke, or None.
        size_bytes: Of their file; None when there is none.
        problem: Why the file could not be read; empty when it could.
    """

    slug: str
    name: str
    aliases: int
    turns: int
    last_seen: str | None
    size_bytes: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class People:
    """Everyone a familiar knows, who spoke last first, and the names that several share."""

    people: tuple[KnownPerson, ...]
    collisions: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class PersonPage:
    """One person's file, word for word, with what they are called and what they share."""

    slug: str
    rel_path: str
    text: str
    sha256: str
    names: tuple[str, ...]
    collisions: tuple[Named, ...]
    turns: int
    last_seen: str | None


def people_of(familiar: Familiar, *, thorough: bool = True) -> People:
    """Return everyone who has a file or ever spoke.

    Args:
        familiar: Whose.
        thorough: Look at every file; if not, only where the directory says that something has
            changed, and tell no sizes.
    """
    with closing(familiar.names()) as names:
        names.refresh(thorough=thorough)
        files = {person.slug: person for person in names.people()}
        collisions = tuple(names.collisions())
    said = speakers_of(familiar)
    sizes = _sizes(familiar) if thorough else {}
    known = []
    silent = sorted(files.keys() - said.keys())
    for slug in [*said, *silent]:  # who spoke stands as the history has it, the latest first
        person, speaker = files.get(slug), said.get(slug)
        label = speaker.author.label if speaker else slug
        known.append(
            KnownPerson(
                slug=slug,
                name=one_line(person.names[0] if person and person.names else label),
                aliases=len(person.names) if person else 0,
                turns=speaker.turns if speaker else 0,
                last_seen=iso(speaker.last_at) if speaker else None,
                size_bytes=sizes.get(people_path(slug)) if person else None,
                problem=person.problem if person else "",
            )
        )
    return People(tuple(known), collisions)


def show_person(familiar: Familiar, person: str) -> PersonPage:
    """Return one person's file; `person` is a slug, `platform:id` or any name.

    A name may have a title that the file does not know, or the other way round: `Saraさん`. Who is
    known by what they said only has an empty one.

    Raises:
        NotFoundError: Nobody is called so.
        UsageError: Several people are.
    """
    with closing(familiar.names()) as names:
        names.refresh(thorough=True)
        slug = find_person(familiar, names, person, loosely=True)
        shared = shared_names(names, slug)
    rel_path = people_path(slug)
    speaker = speakers_of(familiar).get(slug)
    file = familiar.memory.read(rel_path) if familiar.memory.exists(rel_path) else None
    if file is None and speaker is None:
        raise NotFoundError(
            f"No file about {slug!r} yet",
            hint=f"Create one: `familiar memory write {typed(rel_path)} TEXT`.",
        )
    return PersonPage(
        slug=slug,
        rel_path=rel_path,
        text=file.text if file else "",
        sha256=file.sha256 if file else "",
        names=(names_of(file.text) if file else ()) or _shown_names(speaker),
        collisions=shared,
        turns=speaker.turns if speaker else 0,
        last_seen=iso(speaker.last_at) if speaker else None,
    )


def _shown_names(speaker: Speaker | None) -> tuple[str, ...]:
    return (one_line(speaker.author.label),) if speaker else ()


def find_person(familiar: Familiar, names: Aliases, person: str, *, loosely: bool = False) -> str:
    """Return whom `person` means: a slug, `platform:id`, or a name.

    Args:
        familiar: Who knows them.
        names: Their names.
        person: What was typed.
        loosely: Where nobody is called so, take who is but for a title such as `さん`.

    Raises:
        NotFoundError: Nobody.
        UsageError: Several people.
    """
    said = speakers_of(familiar)
    known = {entry.slug for entry in names.people()} | said.keys()
    slug = _slug_of(person)
    if person in known or slug in known:
        return person if person in known else str(slug)
    wanted = fold_word(one_line(person))
    called = {found for found in known if fold_word(found) == wanted}.union(
        names.called(person),
        (main_slug(familiar.memory, s) for s in said if wanted in _names_of(said[s].author)),
    )
    if loosely and not called and not slug:
        bare = without_honorific(person)
        called = {
            entry.slug for entry in names.people() if bare in map(without_honorific, entry.names)
        }.union(s for s in said if bare in map(without_honorific, _names_of(said[s].author)))
    if len(called) > 1:
        listed = ", ".join(sorted(called))
        raise UsageError(
            f"{person!r} is shared by several people: {listed}", hint="Use the slug of one of them."
        )
    if called or slug:
        return next(iter(called), slug or "")
    everyone = [name for entry in names.people() for name in (entry.slug, *entry.names)]
    guess = nearest(person, [*everyone, *(speaker.author.label for speaker in said.values())])
    hint = f"Did you mean {guess!r}?" if guess else "Run `familiar people ls`."
    raise NotFoundError(f"No person is called {person!r}", hint=hint)


def _names_of(author: Author) -> set[str]:
    """Return what somebody is called on their platform, folded."""
    names = (author.display_name, author.username, author.label, handle_of(author.slug))
    return {fold_word(one_line(name)) for name in names if name}


def _slug_of(person: str) -> str | None:
    try:
        return parse_author(person).slug
    except UsageError:
        return None


def shared_names(names: Aliases, slug: str) -> tuple[Named, ...]:
    """Return the names of one person that others have as well."""
    return tuple(named for named in names.collisions() if slug in named.slugs)


def speakers_of(familiar: Familiar) -> dict[str, Speaker]:
    """Return everyone who ever spoke, by slug; who spoke last comes first."""
    me, said = familiar.me(), familiar.history.speakers(familiar.privacy.program())
    return {s.author.slug: replace(s, author=me.named(s.author)) for s in said}


def _sizes(familiar: Familiar) -> dict[str, int]:
    try:
        walk = familiar.memory.walk(PEOPLE_DIR)
    except NotFoundError:
        return {}
    return {entry.rel_path: entry.size_bytes for entry in walk.files}
