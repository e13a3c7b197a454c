"""Visibility: private scopes, and the `Viewer` that every read takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct, field

from familiar_cli.base.who.identity import NEUTRAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from familiar_cli.base.who.identity import Author

PUBLIC: Final = ""
"""Scope of public data."""

_PERSON: Final = "@"
_CHANNEL: Final = "#"


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


def split_scope(scope: str) -> tuple[str, str]:
    """Split a scope into `person`, `channel` or an empty string, and the slug or channel id."""
    kind = {_PERSON: "person", _CHANNEL: "channel"}.get(scope[:1], "")
    return kind, scope[1:] if kind else ""


class PrivacyRules(Struct, frozen=True):
    """Snapshot of a familiar's privacy rules.

    Args:
        own: Slugs of the owners' accounts. Owners share one private scope.
        private: Private channels with the scope of their turns.
        public: Channels declared public.
        one_to_one: Other channels with a single speaker who is not the owner, with that person's
            scope.
        shares: Whether what is learned in private is shared everywhere (`memory_writer.dm =
            "share"`).
    """

    own: frozenset[str] = frozenset({NEUTRAL.slug})
    private: Mapping[str, str] = field(default_factory=dict)
    public: frozenset[str] = frozenset()
    one_to_one: Mapping[str, str] = field(default_factory=dict)
    shares: bool = False

    def scope_of_person(self, slug: str) -> str:
        """Return the scope of a person; all accounts of owners share one."""
        return person_scope(NEUTRAL.slug if slug in self.own else slug)

    @property
    def private_channels(self) -> frozenset[str]:
        """Channels whose new turns are private."""
        return frozenset(self.private.keys() | self.one_to_one.keys())

    def scope_of_channel(self, channel_id: str) -> str:
        """Return the scope of new turns in a channel."""
        return self.private.get(channel_id) or self.one_to_one.get(channel_id, PUBLIC)

    def scope_of_turn(self, turn: Utterance) -> str:
        """Return the scope of a turn."""
        if turn.channel_id in self.private:
            return self.private[turn.channel_id]
        only = turn.one_to_one
        if only is None or turn.channel_id in self.public or only.slug in self.own:
            return PUBLIC
        return PUBLIC if self.shares else person_scope(only.slug)

    def resolve(self, scope: str) -> str:
        """Map a stored `scope` to the current one.

        A one-to-one channel maps to its person, and an owner's account to the owner.
        """
        kind, name = split_scope(scope)
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
        return all(scope == PUBLIC or self.rules.resolve(scope) in self.scopes for scope in scopes)

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
        return self.rules.own | {name for kind, name in people if kind == "person"}


class Viewed(Struct, frozen=True, kw_only=True):
    """A record for one viewer, who is always given by name."""

    viewer: Viewer


OWNER: Final = Viewer(PrivacyRules(), None)
"""Sees everything: a person at the terminal or in the browser."""

NOBODY: Final = Viewer(PrivacyRules(), frozenset())
"""Sees only public data: for text shown to everyone."""
