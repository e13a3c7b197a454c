"""Cut turns into batches at quiet moments: who took part, and which session file they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import to_zone
from familiar_cli.errors import UsageError
from familiar_cli.identity import NO_LABELS, Labels
from familiar_cli.languages import ENGLISH
from familiar_cli.languages.phrases import SLOTS
from familiar_cli.memory.layout import SESSIONS_DIR, people_path
from familiar_cli.memory.people.alias_section import checked
from familiar_cli.memory.people.mentions import key_of
from familiar_cli.visibility import PUBLIC, Viewer
from familiar_cli.writer.types import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime, tzinfo

    from familiar_cli.history.types import Turn
    from familiar_cli.identity import Author, Me
    from familiar_cli.languages import Phrases
    from familiar_cli.visibility import PrivacyRules


# A batch this full ends at the next quiet gap; an emptier one takes the next conversation in, too,
# so that a question is not asked for every single remark of a slow day.
_ENOUGH: Final = 4


@dataclass(frozen=True, slots=True)
class Caps:
    """How large one step may be.

    Args:
        turns: Most turns.
        tokens: Most tokens of turns.
        quiet_gap_s: A silence this long ends a conversation.
    """

    turns: int
    tokens: int
    quiet_gap_s: float


def steps(
    turns: Iterable[Turn], caps: Caps, cost: Callable[[Turn], int]
) -> Iterator[tuple[Turn, ...]]:
    """Yield `turns` in pieces within `caps`, in order and none left out.

    Only one piece is in memory at a time. A turn that is longer than a piece may be is a piece by
    itself.

    Args:
        turns: In the order of their ids.
        caps: How large a piece may be.
        cost: The tokens of a turn.
    """
    held: list[Turn] = []
    costs: list[int] = []
    for turn in turns:
        price = min(cost(turn), caps.tokens)
        while held and (len(held) >= caps.turns or sum(costs) + price > caps.tokens):
            at = _quietest([*(t.at for t in held), turn.at])
            yield tuple(held[:at])
            del held[:at], costs[:at]
        if held and _is_break(held[-1], turn, caps) and _is_enough(costs, caps):
            yield tuple(held)
            held, costs = [], []
        held.append(turn)
        costs.append(price)
    if held:
        yield tuple(held)


def by_privacy(turns: Sequence[Turn], rules: PrivacyRules) -> tuple[Batch, ...]:
    """Split turns into a public batch and one for each private scope.

    The turns of a batch are in the order of their time: an imported chat is older than its ids.
    """
    found: dict[str, list[Turn]] = {}
    for turn in sorted(turns, key=lambda turn: (turn.at, turn.id)):
        scope = PUBLIC if rules.shares else rules.scope_of_turn(turn)
        found.setdefault(scope, []).append(turn)
    return tuple(
        Batch(tuple(of_one), scope or None, viewer=Viewer(rules, frozenset({scope} - {PUBLIC})))
        for scope, of_one in found.items()
    )


def _quietest(times: Sequence[datetime]) -> int:
    """Return before which turn of the second half the longest silence was; the last of equals."""
    size = len(times) - 1
    places = range(max(1, size // 2), size + 1)
    return max(places, key=lambda n: (abs((times[n] - times[n - 1]).total_seconds()), n))


def _is_break(before: Turn, after: Turn, caps: Caps) -> bool:
    """Return whether another conversation begins; imported chats also jump back in time."""
    return abs((after.at - before.at).total_seconds()) >= caps.quiet_gap_s


def _is_enough(costs: Sequence[int], caps: Caps) -> bool:
    return len(costs) * _ENOUGH >= caps.turns or sum(costs) * _ENOUGH >= caps.tokens


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


_HOURS: Final = 6


def slot_of(at: datetime, zone: tzinfo | None) -> str:
    """Return e.g. `2026-04-07-evening`; night is 0-6, morning 6-12, afternoon 12-18, evening 18-24.

    Args:
        at: A moment with a timezone.
        zone: The familiar's timezone; None is the system's.
    """
    local = to_zone(at, zone)
    return f"{local:%Y-%m-%d}-{SLOTS[local.hour // _HOURS]}"


def session_path(slot: str) -> str:
    """Return the memory file of a slot."""
    return f"{SESSIONS_DIR}/{slot}.md"


def session_title(rel_path: str, phrases: Phrases = ENGLISH) -> str:
    """Return the H1 of a session file, e.g. `2026-04-07, evening`; its name is in no language."""
    date, _, part = rel_path.removeprefix(f"{SESSIONS_DIR}/").removesuffix(".md").rpartition("-")
    return f"{date}{phrases.comma}{phrases.part(part)}"


def session_files(turns: Iterable[Turn], zone: tzinfo | None) -> dict[str, tuple[int, ...]]:
    """Return the session files that `turns` belong to, each with its turns' ids."""
    found: dict[str, list[int]] = {}
    for turn in turns:
        found.setdefault(session_path(slot_of(turn.at, zone)), []).append(turn.id)
    return {rel_path: tuple(ids) for rel_path, ids in found.items()}
