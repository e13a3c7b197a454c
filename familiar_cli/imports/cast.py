"""Identities of the speakers of foreign chats: the familiar, the owner, and everybody else."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base import errors
from familiar_cli.base.text import fold, join_names, nearest, one_line, slugify, typed
from familiar_cli.base.who.identity import CHARACTERS, NEUTRAL, Author
from familiar_cli.store.memory.layout import CARD_JSON
from familiar_cli.store.memory.store.store import MemoryStore


class Cast(Struct, frozen=True):
    """Identities of the speakers in the chats that are imported.

    Args:
        known: All names of the familiar.
        character: Names of the familiar in these chats; empty: `known`.
        user: The author for every person; None: as `person` decides.
        me: The owner's identity; None: people have the names the source gives them.
        mine: The owner's names in these chats; empty: whoever the source says is its user.
        before: Slugs of previous speakers, whose accounts are reused.
        also: Slugs of the owner's other accounts.
        is_mine: Whether the chats come from the owner's own program, so that its user is the owner.
        my_names: Other names under which the owner has spoken.
        others: Case-folded names of people who are known not to be the owner.
        is_absent: Whether the owner says nothing in these chats.
        namesakes: Case-folded names that do not show who the owner is, whoever bears them.
        unnamed: How to treat the characters of a chat in which none has a name of the familiar's:
            refuse the chat, take them for the familiar, or for others. `nobody`: whatever their
            names, none is the familiar.
    """

    known: tuple[str, ...] = ()
    character: tuple[str, ...] = ()
    user: Author | None = None
    unnamed: Literal["refuse", "familiar", "others", "nobody"] = "refuse"
    me: Author | None = None
    mine: tuple[str, ...] = ()
    before: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    is_mine: bool = False
    my_names: tuple[str, ...] = ()
    others: frozenset[str] = frozenset()
    is_absent: bool = False
    namesakes: frozenset[str] = frozenset()

    def is_me(self, name: str, otherwise: Author, *, is_one_of_many: bool = False) -> bool:
        """Tell whether a speaker other than the familiar is the owner.

        A speaker with a different name is somebody else, unless a person says otherwise.

        Args:
            name: Their name there; empty: the source gives none.
            otherwise: The author to use if they are not the owner.
            is_one_of_many: Whether there are several people and the source does not mark its user.
        """
        if fold(name) in map(fold, self.mine) or otherwise.slug in self.also:
            return True
        if self.mine or self.is_absent:
            return False
        is_user = self.user or self.is_mine or not name or self._is_user(name)
        if is_user or self.bears_my_name(name):
            return True
        is_other = fold(name) in self.others or otherwise.slug in self.before
        has_name = bool(self.me and self.me.display_name)
        return not (is_other or has_name or is_one_of_many)

    def bears_my_name(self, name: str) -> bool:
        """Tell whether a speaker has one of the owner's names, as nobody else would there."""
        if fold(name) in self.namesakes:
            return False
        own = (self.me and self.me.display_name) or ""
        return fold(name) in map(fold, filter(None, (own, *self.my_names)))

    def _is_user(self, name: str) -> bool:
        return fold(name) in _PERSONS - self.namesakes

    def find_stranger(
        self, roles: Mapping[str, SpeakerRole], people: Mapping[str, Author]
    ) -> Author | None:
        """Return the account of the only person in a chat if nobody said whose that is.

        Args:
            roles: The role of each speaker.
            people: The accounts of everyone but the owner, by name.
        """
        names = [name for name, role in roles.items() if role in ("me", "person")]
        is_said = self.user or self.mine or self.is_mine or self.is_absent
        if is_said or self.me is None or len(names) != 1:
            return None
        name = names[0]
        known = not name or fold(name) in self.others or self.bears_my_name(name)
        known = known or (is_role(name) and fold(name) not in self.namesakes)
        return None if known or people[name].slug in self.before | self.also else people[name]

    def shown_roles(self, roles: Mapping[str, SpeakerRole]) -> dict[str, SpeakerRole]:
        """Return the roles in which nobody is the owner if the chats' user is somebody else."""
        if self.user is None or self.user.slug in self.also | {NEUTRAL.slug}:
            return dict(roles)
        return {name: "person" if role == "me" else role for name, role in roles.items()}

    def roles_of(
        self, people: Mapping[str, Author], *, is_one_of_many: bool = False
    ) -> dict[str, SpeakerRole]:
        """Return the role of each person in a chat, by name; see `is_me`.

        Args:
            people: Their accounts if they are not the owner, by name.
            is_one_of_many: As for `is_me`.
        """
        return {
            name: "me" if self.is_me(name, who, is_one_of_many=is_one_of_many) else "person"
            for name, who in people.items()
        }

    def my_account(self, name: str, otherwise: Author) -> Author:
        """Return the account for the owner's lines, with the name used in the chat.

        Args:
            name: The owner's name there; empty: the source gives none.
            otherwise: The account to use if none is known, or if the owner used it before.
        """
        author = self.user or self.me
        if author is None or (self.user is None and otherwise.slug in self.before | self.also):
            return otherwise
        return replace(author, display_name=name or author.display_name)

    def person(self, name: str, otherwise: Author, *, is_one_of_many: bool = False) -> Author:
        """Return the author of a speaker other than the familiar; see `is_me`."""
        if self.is_me(name, otherwise, is_one_of_many=is_one_of_many):
            return self.my_account(name, otherwise)
        return otherwise

    def note_strangers(
        self, roles: Mapping[str, SpeakerRole], people: Mapping[str, Author]
    ) -> tuple[str, ...]:
        """Note that nobody in a chat was identified as the owner, if that is doubtful.

        Args:
            roles: The role of each speaker.
            people: The accounts of everyone but the owner, by name.
        """
        names = [name for name, role in roles.items() if role == "person" and name]
        own_name = (self.me and self.me.display_name) or ""
        own = self.mine or ((own_name,) if own_name else ())
        is_known = self.user or self.is_absent or "me" in roles.values()
        if is_known or not (own and names):
            return ()
        mine = join_names(map(repr, own), "or")
        if likely := [name for name in names if fold(name) in map(fold, own)]:
            names = likely[:1]
        if len(names) > 1:
            return (f"no speaker in it is treated as you, {mine}; `--me NAME` says who you are",)
        (name,) = names
        account = typed(f"{people[name].platform}:{people[name].user_id}")
        text = f"{one_line(name)!r} is treated as someone other than you, {mine}"
        if likely:
            text = f"{one_line(name)!r} has your name, and is treated as somebody else all the same"
        remedy = f"add `--me {typed(name)}`, or afterwards `familiar me --also {account}`"
        return (f"{text}; if it is you, {remedy}",)

    @property
    def names(self) -> tuple[str, ...]:
        """The familiar's names in these chats."""
        return self.character or self.known


SpeakerRole = Literal["familiar", "me", "person", "note"]
"""What a speaker is: the familiar, whoever imports the chat, somebody else, or nobody."""

PLATFORM: Final = "chat"
"""The platform of people of whom only the name is known."""

SILLY_TAVERN: Final = "sillytavern"
"""The platform of people who are known by their name in such a chat, and its format."""

NO_CHARACTER: Final = "-"
"""Stands for the name of the familiar, or of the owner, who says nothing in a chat."""

_MOST_NAMED: Final = 8
_FAMILIARS: Final = frozenset(("assistant", "ai", "bot", "model", "familiar", "chatgpt", "claude"))
_PERSONS: Final = frozenset(("user", "human", "me", "you", "myself"))


def known_names(memory: MemoryStore, *, familiar_id: str, name: str) -> tuple[str, ...]:
    """Return all names of a familiar: in its settings, on its card, and its id."""
    card = _card_fields(memory)
    found = (name, card.get("name"), card.get("nickname"), familiar_id)
    return tuple(dict.fromkeys(n for n in found if isinstance(n, str) and n.strip()))


def familiars_names(cast: Cast, names: Collection[str], *, origin: str) -> frozenset[str]:
    """Return the case-folded ones of `names` that are the familiar's.

    Args:
        cast: Identities of the speakers.
        names: Everyone in the chat except the person, in order of appearance.
        origin: The chat, for messages.

    Raises:
        RefusedError: None of them is the familiar.
    """
    if cast.unnamed == "nobody":
        return frozenset()
    targets = {fold(name) for name in cast.character or cast.known}
    slugs = {slugify(name) for name in cast.character or cast.known} - {""}
    items = frozenset(fold(n) for n in names if fold(n) in targets or slugify(n) in slugs)
    if items or not names or cast.unnamed == "others":
        return items or frozenset(targets)
    if cast.unnamed == "familiar":
        return frozenset(map(fold, names))
    listed = _as_strings(names)
    others = [name for name in names if not cast.bears_my_name(name)] or list(names)
    if cast.character:
        hint = f"Try `--character {typed(_likely_familiar(cast, others, cast.character))}`."
        raise _not_called("speaker", cast.character, names, origin, hint)
    likely = _likely_familiar(cast, others, cast.known)
    own = {slugify(name) or name: name for name in reversed(cast.known)}  # the id is a slug
    error = errors.RefusedError(
        f"{origin!r} is a chat with {listed}, and this familiar is "
        f"{join_names([repr(name) for name in reversed(own.values())], 'or')}; "
        "nothing was imported",
        hint=f"If {one_line(likely)!r} is the familiar, add `--character {typed(likely)}`; if the "
        f"familiar says nothing there, add `--character {NO_CHARACTER}`. Another character needs a "
        "familiar of its own: `familiar init ID`, then `--familiar ID`.",
    )
    others.sort(key=lambda name: (name != likely, name))
    choices = [(name, f"{one_line(name)} is the familiar") for name in others[:8]]
    error.question = "--character", (*choices, (NO_CHARACTER, "the familiar says nothing in it"))
    raise error


def _likely_familiar(cast: Cast, names: Collection[str], typed_names: Iterable[str]) -> str:
    """Guess which speaker is the familiar: a similar name, else whoever answers the first one.

    Args:
        cast: Identities of the speakers.
        names: The speakers, in order of appearance.
        typed_names: The familiar's names.
    """
    similar = _similar(names, typed_names)
    if similar:
        return similar
    strangers = [one for one in names if Author(PLATFORM, one).slug not in cast.before]
    first_two = (strangers or list(names))[:2]
    return first_two[-1]


def _similar(names: Collection[str], typed_names: Iterable[str]) -> str:
    """Return the name that is most like one of those typed; empty if none is."""
    by_fold = {fold(name): name for name in names}
    items = (nearest(fold(name), by_fold) for name in typed_names)
    return next((by_fold[one] for one in items if one), "")


def check_owner(user: Author, owner: Author, *, origin: str) -> None:
    """Check that the account that a person gives for a file's user is its owner's.

    Raises:
        RefusedError: The file belongs to another account.
    """
    if user.slug != owner.slug:
        said, account = (f"{one.platform}:{one.user_id}" for one in (user, owner))
        raise errors.RefusedError(
            f"{origin!r} is an export of {account!r}, not of {said!r}; nothing was imported",
            hint=f"If it is yours, leave out `--as`; if not, use `--as {typed(account)}`.",
        )


def with_my_names(cast: Cast, names: Collection[str], *, origin: str) -> Cast:
    """Adapt `cast` to a chat with the people in `names`.

    Raises:
        RefusedError: There are several, and none is the owner.
    """
    is_there = not {fold(n) for n in names}.isdisjoint(map(fold, cast.mine))
    if not cast.mine or is_there or len(names) <= 1:
        return cast
    hint = f"Try `--me {typed(_similar(names, cast.mine) or next(iter(names)))}`."
    raise _not_called("person", cast.mine, names, origin, hint)


def _not_called(
    whom: str, wanted: Iterable[str], names: Collection[str], origin: str, hint: str | None
) -> errors.RefusedError:
    called = join_names(map(repr, wanted), "or")
    return errors.RefusedError(
        f"No {whom} in {origin!r} is called {called}; it has {_as_strings(names)}. "
        "Nothing was imported",
        hint=hint,
    )


def is_role(name: str) -> bool:
    """Tell whether a name is a role in a chat with a model: `User`, `AI`."""
    return fold(name) in _FAMILIARS | _PERSONS


def is_model(name: str) -> bool:
    """Tell whether a name is that of a model in a chat: `AI`, `Bot`."""
    return fold(name) in _FAMILIARS


def another_character(name: str) -> Author:
    """Return the account of a character that is not the familiar; empty: it has no name."""
    name = name or "assistant"
    return Author(CHARACTERS, name, display_name=name)


def people_on(platform: str, names: Iterable[str]) -> dict[str, Author]:
    """Return accounts for people known only by name."""
    return {name: Author(platform, name or "user", display_name=name or None) for name in names}


def cast_speakers(
    cast: Cast, people: Mapping[str, Author], *, origin: str
) -> dict[str, SpeakerRole]:
    """Return the role of each speaker of a transcript, by name.

    The familiar is whoever has one of its names, else whoever is called `AI` or the like. The owner
    is whoever has the owner's name, else whoever is called `Me` or the like, else the only other
    speaker, unless the owner has a different name.

    Args:
        cast: Identities across all chats.
        people: The account of each speaker who is neither the familiar nor the owner, by name.
        origin: The chat, for messages.

    Raises:
        RefusedError: Nobody is the familiar, or several speakers could be the owner.
    """
    speakers = tuple(people)
    my_names = {fold(name) for name in cast.mine}
    mine = {name for name in speakers if fold(name) in my_names}
    own = {fold(name) for name in cast.names}
    strangers = [name for name in speakers if name not in mine and fold(name) not in own]
    if my_names and not mine:
        likely = strangers and (_similar(strangers, cast.mine) or strangers[0])
        hint = f"Try `--me {typed(likely)}`." if likely else None
        raise _not_called("speaker", cast.mine, speakers, origin, hint)
    others = [name for name in speakers if name not in mine]
    by_role = not cast.character and cast.unnamed != "nobody"
    named = set(filter(is_model, others)) if by_role else set()
    if not named or {fold(name) for name in others} & {fold(name) for name in cast.known}:
        folded = familiars_names(cast, others, origin=origin)
        named = {name for name in others if fold(name) in folded}
    rest = [name for name in others if name not in named]
    several = len(rest) > 1
    alone = replace(cast, user=None) if several else cast
    mine = mine or {
        name for name in rest if alone.is_me(name, people[name], is_one_of_many=several)
    }
    if cast.user and not mine and rest:
        account = f"{cast.user.platform}:{cast.user.user_id}"
        error = errors.RefusedError(
            f"Several people speak in {origin!r}: {_as_strings(rest)}. It is unclear which of"
            f" them is {account!r}; nothing was imported",
            hint=f"Add `--me NAME`, for example `--me {typed(rest[0])}`.",
        )
        choices = ((name, f"{one_line(name)} is {account}") for name in rest[:8])
        error.question = "--me", tuple(choices)
        raise error
    roles: dict[str, SpeakerRole] = dict.fromkeys(rest, "person")
    roles.update(dict.fromkeys(mine, "me"))
    roles.update(dict.fromkeys(named, "familiar"))
    return roles


def _as_strings(names: Collection[str]) -> str:
    shown = [repr(name) for name in sorted(names)[:_MOST_NAMED]]
    more = len(names) - len(shown)
    return join_names([*shown, f"{more:,} more"] if more else shown)


def _card_fields(memory: MemoryStore) -> dict[str, Any]:
    try:
        data = json.loads(memory.read_file(CARD_JSON))["data"]
    except (errors.FamiliarError, ValueError, KeyError, TypeError, RecursionError):
        return {}  # no card, or a damaged one that `doctor` reports
    return data if isinstance(data, dict) else {}
