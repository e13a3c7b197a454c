"""Who took part in a batch. The platform's id tells who is who; nothing that was said does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import UsageError
from familiar_cli.identity import NO_LABELS, Labels
from familiar_cli.memory.layout import people_path
from familiar_cli.memory.people.alias_section import checked
from familiar_cli.memory.people.mentions import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from familiar_cli.history.types import Turn
    from familiar_cli.identity import Author, Me

_MOST_NAMES: Final = 6


@dataclass(frozen=True, slots=True)
class Person:
    """Someone who took part.

    Args:
        slug: Who.
        account: Their account, as a text names it.
        label: What they are called here, told apart from others of the name.
        title: The H1 of their file, if it is new.
        given: The names that the platform gave, as far as everybody may know them.
        names: What they are called here, and in their file.
        turns: The ids of what they said.
    """

    slug: str
    account: str
    label: str
    title: str
    given: tuple[str, ...]
    names: tuple[str, ...]
    turns: frozenset[int]

    @property
    def rel_path(self) -> str:
        """Their file."""
        return people_path(self.slug)


@dataclass(frozen=True, slots=True)
class Roster:
    """Everyone who took part in a batch, the most talkative first."""

    people: tuple[Person, ...]

    def at(self, rel_path: str) -> Person | None:
        """Return whose file `rel_path` is, or None."""
        return next((p for p in self.people if p.rel_path == rel_path), None)

    def who_said(self, turn_ids: Iterable[int]) -> tuple[Person, ...]:
        """Return who said any of these turns; the familiar is not among them."""
        wanted = set(turn_ids)
        return tuple(p for p in self.people if p.turns & wanted)


def roster_of(
    turns: Iterable[Turn],
    names_in: Callable[[str], tuple[str, ...]],
    main_slug: Callable[[str], str] = lambda slug: slug,
    public: Callable[[Author], Author] = lambda author: author,
    labels: Labels = NO_LABELS,
) -> Roster:
    """Return who wrote `turns`.

    Args:
        turns: A batch.
        names_in: Gives the names in a person's file, by its path.
        main_slug: Gives whose file an account belongs to.
        public: Gives an author with the names that everybody may know.
        labels: What people are called.
    """
    authors: dict[str, list[Author]] = {}
    said: dict[str, set[int]] = {}
    mains: dict[str, str] = {}
    for turn in turns:
        if turn.author:
            slug = mains.setdefault(turn.author.slug, "") or main_slug(turn.author.slug)
            mains[turn.author.slug] = slug
            authors.setdefault(slug, []).append(turn.author)
            said.setdefault(slug, set()).add(turn.id)
    people = []
    for slug, seen in authors.items():
        names, given = _names_of(seen, labels.me), _names_of(map(public, seen), labels.me)
        account = labels.me.handle(slug)
        title = given[0] if given else account
        person = Person(
            slug,
            account,
            labels.of(seen[-1]),
            f"{title} ({account})" if labels.is_familiars(title) else title,
            given,
            _distinct([*(names or [account]), *names_in(people_path(slug))]),
            frozenset(said[slug]),
        )
        people.append(person)
    return Roster(tuple(sorted(people, key=lambda p: -len(p.turns))))


def _names_of(authors: Iterable[Author], me: Me) -> tuple[str, ...]:
    """Return the names of one person, the latest first."""
    named = [me.named(author) for author in authors]
    return _distinct(n for a in reversed(named) for n in (a.display_name, a.username) if n)


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    by_key: dict[str, str] = {}
    for name in names:
        try:
            shown = checked(name)
        except UsageError:  # a name of emoji only, or of a hundred words
            continue
        by_key.setdefault(key_of(shown), shown)
    return tuple(by_key.values())[:_MOST_NAMES]
