"""The privacy rules in effect for a familiar, and its viewers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.config.channel_kinds import PRIVATE_KINDS, SHARED_KINDS, check_kind
from familiar_cli.base.errors import RefusedError
from familiar_cli.base.who.identity import NEUTRAL, Author, parse_author
from familiar_cli.base.who.visibility import OWNERS, PUBLIC, PrivacyRules, Viewer, channel_scope
from familiar_cli.store.history import selection

if TYPE_CHECKING:
    from familiar_cli.base.config.channel import ChannelConfigs
    from familiar_cli.base.who.visibility import Evidence
    from familiar_cli.store.history.store import HistoryStore


OPENED: Final = (
    "Several people speak here now: from now on, everybody can see what is said in this "
    "conversation; what was said before stays private"
)
"""The notice to whoever makes a group of a one-to-one conversation, and to its owner afterwards."""

JOINED: Final = (
    "Somebody else has spoken here: from now on, they can see what is said in this conversation; "
    "what was said before stays private"
)
"""The notice to an owner when another person has joined their conversation."""


class KeptRules(Struct):
    """Cached rules, valid until speakers, a channel's file or an account change."""

    newest: tuple[Mapping[str, str], object, PrivacyRules] | None = None


class _OneToOne(Mapping[str, str]):
    """The scopes of `PrivacyRules.one_to_one`, read one by one: most turns are about one channel.

    Args:
        history: The turns.
        rules: The rules without these scopes.
    """

    def __init__(self, history: HistoryStore, rules: PrivacyRules) -> None:
        self._history = history
        self._rules = rules
        self._known: dict[str, str] = {}

    def __getitem__(self, channel_id: str) -> str:
        if channel_id not in self._known and "_all" not in self.__dict__:
            match = self._read(channel_id).get(channel_id, PUBLIC)
            self._known[channel_id] = match
        if scope := self._known.get(channel_id):
            return scope
        raise KeyError(channel_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @cached_property
    def _all(self) -> Mapping[str, str]:
        self._known = self._read()
        return self._known

    def _read(self, channel_id: str | None = None) -> dict[str, str]:
        rules = self._rules
        return {
            channel: scope
            for channel, who in selection.only_speakers(self._history, channel_id).items()
            if channel not in rules.private
            and channel not in rules.public
            and (scope := rules.scope_of_person(who.slug)) != PUBLIC
        }


class Privacy(Struct, frozen=True):
    """Reads the privacy rules of a familiar.

    Args:
        channels: The settings of its channels.
        history: Its turns.
        own: Slugs of the owners' accounts.
        shares: Whether what is learned in private is shared everywhere.
        owner_shares: Whether what the owner says in private is public.
        notes_are_owners: Whether text of memory that cites no turn is the owner's.
        kept: Cached rules.
        evidence: Builds the evidence of memory under some rules.
    """

    channels: ChannelConfigs
    history: HistoryStore
    own: frozenset[str]
    shares: bool
    owner_shares: bool
    notes_are_owners: bool
    kept: KeptRules
    evidence: Callable[[PrivacyRules], Evidence]

    def rules(self) -> PrivacyRules:
        """Read the current privacy rules.

        Raises:
            ConfigError: The directory of channels cannot be read.
        """
        kinds = self.channels.kinds()
        switches = self.shares, self.owner_shares, self.notes_are_owners
        stamp = self.own, switches, selection.speakers_stamp(self.history)
        kept = self.kept.newest
        if kept is None or kept[0] is not kinds or kept[1] != stamp:
            kept = self.kept.newest = kinds, stamp, self._read_rules()
        return kept[2]

    def _read_rules(self) -> PrivacyRules:
        rules = PrivacyRules(
            self.own,
            public=self.channels.public(),
            shares=self.shares,
            owner_shares=self.owner_shares,
            notes_are_owners=self.notes_are_owners,
        )
        parents = {branch.channel_id: branch.parent for branch in self.history.branches()}
        pasts = {channel: _past(channel, parents) for channel in self.channels.private()}
        people = selection.people_in(self.history, {one for past in pasts.values() for one in past})
        kinds, scopes = self.channels.kinds(), {}
        for channel, past in pasts.items():
            slugs = {slug for one in past for slug in people.get(one, ())}
            persons = set(map(rules.scope_of_person, slugs - self.own or slugs))
            is_shared = kinds.get(past[-1]) in SHARED_KINDS
            is_person = len(persons) == 1 and not is_shared
            scopes[channel] = persons.pop() if is_person else channel_scope(past[-1])
        rules = replace(rules, private=scopes)
        rules = replace(rules, one_to_one={} if self.shares else _OneToOne(self.history, rules))
        return replace(rules, evidence=self.evidence(rules))

    def program(self, channel_id: str = "") -> Viewer:
        """Build the viewer for a program: only public data and its own channel."""
        return self.viewer_in(channel_id) if channel_id else Viewer(self.rules(), frozenset())

    def owner(self) -> Viewer:
        """Build the viewer for the owner's programs: without other people's private text."""
        return Viewer(self.rules(), frozenset({OWNERS}))

    def of_token(self, users: Collection[str], *, by_owner: bool) -> Viewer:
        """Build the viewer for a program with a token.

        Args:
            users: The people it may speak for. It acts as the only one, if it is named.
            by_owner: Whether it is the owner's.
        """
        if by_owner:
            return self.owner()
        if len(users) != 1 or any(char in next(iter(users)) for char in "*?["):
            return self.program()
        rules = self.rules()
        scope = rules.scope_of_person(parse_author(next(iter(users))).slug)
        return Viewer(rules, frozenset({scope} - {PUBLIC}))

    def of_person(self, accounts: Collection[Author]) -> Viewer:
        """Build the viewer for somebody with these accounts, wherever they have spoken."""
        rules, slugs = self.rules(), {account.slug for account in accounts}
        people = selection.people_in(self.history, tuple(rules.private))
        scopes = {scope for one, scope in rules.private.items() if slugs & people.get(one, set())}
        scopes |= set(map(rules.scope_of_person, slugs))
        return Viewer(rules, frozenset(scopes - {PUBLIC}))

    def glance(self) -> Viewer:
        """Build the viewer for the owner, excluding other channels declared private."""
        return Viewer(replace(self.rules(), shares=True), frozenset({OWNERS}))

    def undescribed(self) -> list[str]:
        """Return public channels of no declared kind where only one other person spoke."""
        rules, people = (
            self.rules(),
            selection.people_in(self.history, selection.spoken_in(self.history)),
        )
        return sorted(
            channel
            for channel, slugs in people.items()
            if len(slugs - self.own) == 1
            and not {channel} & (rules.private_channels | rules.public)
        )

    def enter(self, channel_id: str, author: Author | None, kind: str) -> tuple[str, ...]:
        """Record a conversation's kind before its first turn, and check who speaks.

        Returns:
            What to tell the speaker once: that more people can see their words than before.

        Args:
            author: Speaker.
            kind: Kind stated by the client; empty for none. For an existing conversation, a
                participant can only declare it private.

        Raises:
            UsageError: No such kind.
            RefusedError: As `check_member`.
            ConfigError: The channel's file cannot be read or written.
        """
        if new := self.new_kind(channel_id, author, kind):
            self.channels.set_values(channel_id, {"kind": new})
        self.check_member(channel_id, author, kind)
        if author and author.slug in self.own:
            return self._news_for_owner(channel_id)
        return (OPENED,) if self._opens(channel_id, author) else ()

    def _news_for_owner(self, channel_id: str) -> tuple[str, ...]:
        """Return the notice if others have entered a channel since the owner last spoke there."""
        before = selection.owner_was_told_to(self.history, channel_id)
        if before is None or self.shares:
            return ()
        rules, (_, only) = self.rules(), selection.only_speaker(self.history, channel_id)
        if rules.scope_said(channel_id, only) == PUBLIC:
            return () if rules.scope_said(channel_id, before) == PUBLIC else (OPENED,)
        is_joined = before.slug in self.own and only and only.slug not in self.own
        is_own = channel_id == NEUTRAL.platform  # whoever a command spoke as
        return (JOINED,) if is_joined and not (is_own or channel_id in rules.private) else ()

    def _opens(self, channel_id: str, author: Author | None) -> bool:
        """Tell whether a person makes a group of somebody else's one-to-one conversation."""
        if author is None or self.shares:
            return False
        _, only = selection.only_speaker(self.history, channel_id)
        if only is None or only.slug in {author.slug, *self.own}:
            return False
        return not self.channels.declared_kind(channel_id)

    def new_kind(self, channel_id: str, author: Author | None, kind: str) -> str:
        """Return `kind` if the speaker may give it to the channel, else an empty string."""
        if not kind or not check_kind(kind) or self.channels.declared_kind(channel_id):
            return ""
        has_begun, _ = selection.only_speaker(self.history, channel_id)
        if not has_begun:
            return kind
        if author is None or kind not in PRIVATE_KINDS:
            return ""
        people = selection.people_in(self.history, (channel_id,)).get(channel_id, set())
        same = self.own if author.slug in self.own else frozenset({author.slug})
        return kind if people & same and (kind in SHARED_KINDS or people <= same) else ""

    def viewer_in(self, channel_id: str, author: Author | None = None, kind: str = "") -> Viewer:
        """Build the viewer for content shown in a channel.

        Args:
            author: Current speaker, in addition to earlier ones; None for no one else.
            kind: Kind stated by the client, as for `enter`.

        Raises:
            UsageError: No such kind.
            ConfigError: As for `rules`.
        """
        rules = self.rules()
        if new := self.new_kind(channel_id, author, kind):
            if new in SHARED_KINDS or new not in PRIVATE_KINDS:
                return Viewer(rules, frozenset({channel_scope(channel_id)}), channel_id)
        elif author and not self.is_member(channel_id, author, kind):
            return Viewer(rules, frozenset(), channel_id)
        persons = self._people_alone(channel_id, author, rules)
        scopes = {channel_scope(channel_id), rules.private.get(channel_id, PUBLIC), *persons}
        return Viewer(rules, frozenset(scopes - {PUBLIC}), channel_id)

    def unprompted(self, channel_id: str) -> Viewer:
        """Build the viewer for what the familiar says by itself: before anybody, to the owner."""
        has_begun, _ = selection.only_speaker(self.history, channel_id)
        return self.viewer_in(channel_id, None if has_begun else NEUTRAL)

    def _people_alone(
        self, channel_id: str, author: Author | None, rules: PrivacyRules
    ) -> frozenset[str]:
        """Return the scope of the only person in a channel, or nothing if there are several.

        An owner counts only where nobody else is.
        """
        if channel_id in rules.public or self.channels.declared_kind(channel_id) in SHARED_KINDS:
            return frozenset()
        if channel_id == NEUTRAL.platform and author and author.slug in self.own:
            return frozenset({OWNERS})  # their own room, whoever a command spoke as
        has_begun, only = selection.only_speaker(self.history, channel_id)
        people = {who.slug for who in (only, author) if who}
        if has_begun and not only:
            people |= selection.people_in(self.history, (channel_id,)).get(channel_id, set())
        persons = frozenset(map(rules.scope_of_person, people - self.own or people))
        is_known = not has_begun or only or people <= self.own or channel_id in rules.private
        return persons if len(persons) == 1 and is_known else frozenset()

    def is_member(self, channel_id: str, author: Author, kind: str = "") -> bool:
        """Tell whether someone may speak in a channel.

        A private one admits earlier speakers. A client that states its kind knows the channel:
        where several people are among themselves, it may add another.
        """
        if self.shares or channel_id not in self.rules().private:
            return True
        if kind in SHARED_KINDS and kind == self.channels.declared_kind(channel_id):
            return True
        known = selection.people_in(self.history, (channel_id,)).get(channel_id, set())
        return not known or bool(known & (self.own if author.slug in self.own else {author.slug}))

    def is_barred(self, channel_id: str, author: Author) -> bool:
        """Tell whether a channel is a room of the owner's own that a stranger has never been in."""
        if author.slug in self.own or self.channels.declared_kind(channel_id):
            return False
        _, only = selection.only_speaker(self.history, channel_id)
        is_own = only and only.slug in self.own and only.platform == NEUTRAL.platform
        if not is_own and channel_id != NEUTRAL.platform:
            return False
        known = selection.people_in(self.history, (channel_id,)).get(channel_id, set())
        return author.slug not in known

    def check_member(self, channel_id: str, author: Author | None, kind: str = "") -> None:
        """Refuse someone who may not speak in a channel; see `is_member`.

        Raises:
            RefusedError: It is private, and this person has never spoken there.
        """
        if author and not self.is_member(channel_id, author, kind):
            raise RefusedError(
                f"Channel {channel_id!r} is private, and this speaker has never spoken there",
                hint="Use another channel; nothing was saved.",
            )


def _past(channel_id: str, parents: Mapping[str, str]) -> list[str]:
    """Return a channel, its parent and so on."""
    items = [channel_id]
    while (parent := parents.get(items[-1])) and parent not in items:
        items.append(parent)
    return items
