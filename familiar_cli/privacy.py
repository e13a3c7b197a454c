"""What is private in one familiar now, and the viewers that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from familiar_cli.config.channel_kinds import PRIVATE_KINDS, SHARED_KINDS
from familiar_cli.errors import RefusedError
from familiar_cli.history.one_to_one import only_speaker, people_in
from familiar_cli.visibility import PrivacyRules, Viewer, channel_scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.config.channel import ChannelConfigs
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.identity import Author


@dataclass(frozen=True, slots=True)
class Privacy:
    """Reads the privacy rules of a familiar.

    Args:
        channels: The settings of its channels.
        history: Its turns.
        own: Slugs of the owner's accounts.
        shares: What is learned in private is shared everywhere.
    """

    channels: ChannelConfigs
    history: HistoryStore
    own: frozenset[str]
    shares: bool

    def rules(self) -> PrivacyRules:
        """Read what is private, and to whom.

        Raises:
            ConfigError: The directory of channels cannot be read.
        """
        rules = PrivacyRules(self.own, public=self.channels.public(), shares=self.shares)
        parents = {branch.channel_id: branch.parent for branch in self.history.branches()}
        pasts = {channel: _past(channel, parents) for channel in self.channels.private()}
        people = people_in(self.history, {one for past in pasts.values() for one in past})
        scopes = {}
        for channel, past in pasts.items():
            persons = {rules.scope_of_person(s) for one in past for s in people.get(one, ())}
            is_shared = self.channels.declared_kind(past[-1]) in SHARED_KINDS
            is_person = len(persons) == 1 and not is_shared
            scopes[channel] = persons.pop() if is_person else channel_scope(channel)
        return replace(rules, private=scopes)

    def program(self, channel_id: str = "") -> Viewer:
        """Build the viewer for a program: nothing private, but what its own channel may show."""
        return self.viewer_in(channel_id) if channel_id else Viewer(self.rules(), frozenset())

    def viewer_in(self, channel_id: str, author: Author | None = None) -> Viewer:
        """Build the viewer of what is shown in a channel.

        Args:
            channel_id: The channel.
            author: Who speaks there now, besides whoever did before; None: nobody else.

        Raises:
            ConfigError: As `rules`.
        """
        rules = self.rules()
        declared = rules.private.get(channel_id)
        if declared is not None:
            scopes = {declared, channel_scope(channel_id)}
            if declared == channel_scope(channel_id) and author and self._is_new(channel_id):
                scopes.add(rules.scope_of_person(author.slug))
            return Viewer(rules, frozenset(scopes), channel_id)
        if channel_id in rules.public:
            return Viewer(rules, frozenset(), channel_id)
        has_begun, only = only_speaker(self.history, channel_id)
        people = {who.slug for who in (only, author) if who}
        persons = {rules.scope_of_person(slug) for slug in people}
        if not has_begun or only:
            return Viewer(rules, frozenset(persons if len(persons) == 1 else ()), channel_id)
        everybody = people | people_in(self.history, (channel_id,)).get(channel_id, set())
        owners = everybody and everybody <= self.own
        return Viewer(rules, frozenset(persons if owners else ()), channel_id)

    def check_member(self, channel_id: str, author: Author | None) -> None:
        """Make sure that somebody may speak in a channel that is declared private.

        Raises:
            RefusedError: Others spoke there, and this person never did.
        """
        if author is None or self.channels.declared_kind(channel_id) not in PRIVATE_KINDS:
            return
        known = people_in(self.history, (channel_id,)).get(channel_id, set())
        if known and not ({author.slug} if author.slug not in self.own else self.own) & known:
            raise RefusedError(
                f"Channel {channel_id!r} is private, and this speaker has never spoken there",
                hint="Use another channel; nothing was kept.",
            )

    def _is_new(self, channel_id: str) -> bool:
        """Return whether a one-to-one channel has no person's words yet."""
        is_shared = self.channels.declared_kind(channel_id) in SHARED_KINDS
        return not is_shared and not people_in(self.history, (channel_id,))


def _past(channel_id: str, parents: Mapping[str, str]) -> list[str]:
    """Return a channel, its parent and so on."""
    found = [channel_id]
    while (parent := parents.get(found[-1])) and parent not in found:
        found.append(parent)
    return found
