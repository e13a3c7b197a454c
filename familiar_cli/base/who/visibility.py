"""Visibility: private scopes, and the `Viewer` that every read takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import Final, Protocol

from msgspec import Struct, field

from familiar_cli.base.text import sha256_of
from familiar_cli.base.who.identity import NEUTRAL, Author

PUBLIC: Final = ""
"""Scope of public data."""

_PERSON: Final = "@"
_CHANNEL: Final = "#"
_OR: Final = "\n"  # in no slug, and in no channel id


class Utterance(Protocol):
    """A turn, as far as its visibility goes: its channel, and the only other person there."""

    @property
    def channel_id(self) -> str:
        """Channel in which it was said."""

    @property
    def one_to_one(self) -> Author | None:
        """The person of a one-to-one channel; None elsewhere."""


def person_scope(slug: str) -> str:
    """Build the private scope of a person, by the slug of their account."""
    return f"{_PERSON}{slug}"


def channel_scope(channel_id: str) -> str:
    """Build the private scope of a channel."""
    return f"{_CHANNEL}{channel_id}"


def either_scope(one: str, other: str) -> str:
    """Build the scope of text that the people of either scope may see."""
    return f"{one}{_OR}{other}"


def split_scope(scope: str) -> tuple[str, str]:
    """Split a scope into `person`, `channel` or an empty string, and the slug or channel id."""
    kind = {_PERSON: "person", _CHANNEL: "channel"}.get(scope[:1], "")
    return kind, scope[1:] if kind else ""


OWNERS: Final = person_scope(NEUTRAL.slug)
"""The private scope that all owners share."""

SHARED: Final = person_scope("all")
"""Scope of the public version of a page whose plain path holds the owner's; no slug is `all`."""


EVERYBODY: Final = "everybody"
_MOST_NAMES: Final = 3


def audience_words(names: Sequence[str]) -> str:
    """Describe an audience to the owner, given the names of the others."""
    if not names:
        return "only you"
    more = len(names) - _MOST_NAMES
    shown = [*names[:_MOST_NAMES], *([f"{more} more"] if more > 0 else [])]
    return f"{', '.join(['you', *shown[:-1]])} and {shown[-1]}"


class Evidence(Struct, frozen=True):
    """The private scopes of the turns that text of memory rests on.

    Args:
        cited: Returns the private scopes of the turns that each text cites.
        between: Returns the owner's scope if the owner said something in private on these days, of
            which the last is included.
        imported: Tells whether a page, by its path and text, came from elsewhere.
        names: Returns the owners' names that are used in public, folded.
        stamp: Returns a text that changes when any of it may be answered differently.
    """

    cited: Callable[[Sequence[str]], list[frozenset[str]]]
    between: Callable[[date, date], frozenset[str]]
    imported: Callable[[str, str], bool]
    names: Callable[[], frozenset[str]] = frozenset
    stamp: Callable[[], str] = str


class PrivacyRules(Struct, frozen=True):
    """Snapshot of a familiar's privacy rules.

    Args:
        own: Slugs of the owners' accounts. Owners share one private scope.
        private: Private channels with the scope of their turns.
        public: Channels declared public.
        one_to_one: Other channels with a single speaker, or with one besides the owner, with that
            person's scope.
        shares: Whether what is learned in private is shared everywhere (`memory_writer.dm =
            "share"`).
        owner_shares: Whether the owner's scope is public (`privacy.owner = "share"`).
        notes_are_owners: Whether text without citations is the owner's (`privacy.notes = "owner"`).
        evidence: What memory rests on; None: unknown, and citations are ignored.
    """

    own: frozenset[str] = frozenset({NEUTRAL.slug})
    private: Mapping[str, str] = field(default_factory=dict)
    public: frozenset[str] = frozenset()
    one_to_one: Mapping[str, str] = field(default_factory=dict)
    shares: bool = False
    owner_shares: bool = False
    notes_are_owners: bool = False
    evidence: Evidence | None = None

    def scope_of_person(self, slug: str) -> str:
        """Return the scope of a person; all accounts of owners share one."""
        if slug not in self.own:
            return person_scope(slug)
        return PUBLIC if self.owner_shares else OWNERS

    def stamp(self) -> str:
        """Return a text that changes when pages may belong to other scopes than before."""
        switches = self.shares, self.owner_shares, self.notes_are_owners
        known = sorted(self.own), sorted(self.private.items()), sorted(self.public), switches
        return sha256_of(repr((known, self.evidence and self.evidence.stamp())))

    @property
    def private_channels(self) -> frozenset[str]:
        """Channels whose new turns are private."""
        return frozenset(self.private.keys() | self.one_to_one.keys())

    def scope_of_channel(self, channel_id: str) -> str:
        """Return the scope of new turns in a channel."""
        return self.private.get(channel_id) or self.one_to_one.get(channel_id, PUBLIC)

    def scope_of_turn(self, turn: Utterance) -> str:
        """Return the scope of a turn."""
        return self.scope_said(turn.channel_id, turn.one_to_one)

    def scope_said(self, channel_id: str, only: Author | None) -> str:
        """Return the scope of a turn in a channel where `only` had spoken; None: several people."""
        if channel_id in self.private:
            return self.private[channel_id]
        if only is None or channel_id in self.public or self.shares:
            return PUBLIC
        return self.scope_of_person(only.slug)

    def resolve(self, scope: str) -> str:
        """Map a stored `scope` to the current one.

        A one-to-one channel maps to its person, and an owner's account to the owner.
        """
        kind, name = split_scope(scope)
        if scope == SHARED:
            return PUBLIC
        if kind == "person":
            return self.scope_of_person(name)
        return self.private.get(name, scope) if kind == "channel" else scope


class Viewer(Struct, frozen=True):
    """Reader for whom data is read: the owner, a channel with its people, or a program.

    Args:
        rules: Privacy rules in effect.
        scopes: Visible private scopes; None for all.
        channel_id: Channel of the viewer; empty for none.
    """

    rules: PrivacyRules
    scopes: frozenset[str] | None
    channel_id: str = ""

    @property
    def sees_everything(self) -> bool:
        """Whether nothing is hidden."""
        return self.scopes is None

    def sees(self, scopes: Iterable[str]) -> bool:
        """Tell whether memory text that belongs to all of `scopes` may be shown."""
        if self.scopes is None or self.rules.shares:
            return True
        return all(any(map(self._is_in, scope.split(_OR))) for scope in scopes)

    def _is_in(self, scope: str) -> bool:
        resolved = self.rules.resolve(scope)
        return resolved == PUBLIC or resolved in (self.scopes or ())

    def sees_turn(self, turn: Utterance) -> bool:
        """Tell whether a turn may be shown."""
        if self.scopes is None:
            return True
        scope = self.rules.scope_of_turn(turn)
        return scope == PUBLIC or scope in self.scopes

    def sees_channel(self, channel_id: str) -> bool:
        """Tell whether the existence of a channel may be disclosed."""
        scope = self.rules.scope_of_channel(channel_id)
        return self.scopes is None or scope == PUBLIC or scope in self.scopes

    @property
    def hidden_channels(self) -> frozenset[str]:
        """Channels declared private that are hidden entirely."""
        if self.scopes is None:
            return frozenset()
        private = self.rules.private.items()
        return frozenset(channel for channel, scope in private if scope not in self.scopes)

    @property
    def visible_people(self) -> frozenset[str]:
        """Slugs of the people whose one-to-one turns may be shown."""
        people = (split_scope(scope) for scope in self.scopes or ())
        items = frozenset(name for kind, name in people if kind == "person")
        return items | self.rules.own if self.is_owner or self.rules.owner_shares else items

    @property
    def page_scopes(self) -> tuple[str, ...]:
        """Scopes whose pages of periods and digests are for the viewer, plain paths first."""
        return (PUBLIC, *(() if self.is_owner else (SHARED,)), *sorted(self.scopes or ()))

    @property
    def is_owner(self) -> bool:
        """Whether the owner's private scope is visible."""
        return self.scopes is None or OWNERS in self.scopes


class ViewerRecord(Struct, frozen=True, kw_only=True):
    """A record for one viewer, who is always given by name."""

    viewer: Viewer


OWNER: Final = Viewer(PrivacyRules(), None)
"""Sees everything: a person at the terminal or in the browser."""

NOBODY: Final = Viewer(PrivacyRules(), frozenset())
"""Sees only public data: for text shown to everyone."""
