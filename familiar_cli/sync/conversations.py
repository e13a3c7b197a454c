"""`HistoryConversations`: the history as what a sync sends and takes in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from familiar_cli.config.channel_kinds import PRIVATE_KINDS
from familiar_cli.errors import BadInputError
from familiar_cli.history.incoming import release, rename
from familiar_cli.history.provenance import FactScope, count_held
from familiar_cli.sync.turn_files import Since, new_lines, since, take_in, taken_through

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from familiar_cli.config.channel import ChannelConfigs
    from familiar_cli.history.store import HistoryStore


class HistoryConversations:
    """Turns the history into files, and files of others into turns.

    Args:
        history: The turns.
        configs: What is set for each channel; among it, whether it is private.
        about: What a machine that begins must know of the familiar, as JSON.
    """

    def __init__(self, history: HistoryStore, configs: ChannelConfigs, about: bytes = b"") -> None:
        self._history = history
        self._configs = configs
        self._about = about
        self._untrusted: Collection[str] = ()
        self._existing_through: int | None = None

    def restrict(self, own: str, untrusted: Collection[str]) -> None:
        """From now on, accept facts about others from trusted instances only.

        What waited for trust is applied.

        Args:
            own: The instance that this is.
            untrusted: Those that may state facts about their own turns and channels only.
        """
        self._untrusted = untrusted
        self._existing_through = self._history.newest_id()
        for instance in count_held(self._history).keys() - set(untrusted):
            release(self._history, own, instance)

    def count_held(self) -> Mapping[str, int]:
        """Return how many facts about others wait, by the instance that states them."""
        return count_held(self._history)

    def about(self) -> bytes:
        """Encode the familiar's settings for a new machine; empty if there are none."""
        return self._about

    def new_lines(self, own: str, rel_path: str, data: bytes) -> tuple[str, bytes]:
        """Return the file that grows, and the lines that are new; empty: nothing is.

        Args:
            own: The instance that this is.
            rel_path: The newest file of this instance; empty: there is none yet.
            data: Its bytes.
        """
        before = since(rel_path, data) if rel_path else Since()
        path, lines = new_lines(self._history, own, before)
        return path, b"".join(lines)

    def take_in(self, own: str, rel_path: str, data: bytes) -> int:
        """Import what is new in a file of another instance; return how many turns it was.

        Raises:
            FamiliarError: Something in it makes no sense; what stands before it was imported.
        """
        instance = rel_path.split("/")[1]
        through = taken_through(self._history, instance, rel_path)
        if through >= len(data):
            return 0
        new = data[through:]
        scope_of = self._scope_of
        return take_in(self._history, own, rel_path, new, through, scope_of=scope_of).turns

    def channels(self) -> bytes:
        """Encode which channels are private here; sorted, so that equal settings give equal bytes.

        Raises:
            ConfigError: A channel's file cannot be read.
        """
        found = {}
        private = self._configs.private()
        for channel_id in sorted(private):
            kind = self._configs.read(channel_id).settings.kind
            found[channel_id] = kind if kind in PRIVATE_KINDS else min(PRIVATE_KINDS)
        if not found:
            return b""
        return (json.dumps(found, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()

    def take_channels(self, data: bytes) -> None:
        """Make channels private here that are private elsewhere, unless a person said otherwise.

        Raises:
            BadInputError: It makes no sense, so nobody knows what may be private.
            ConfigError: A channel's file cannot be read or written.
        """
        try:
            told = json.loads(data or b"{}")
            rows = {str(channel): str(kind) for channel, kind in told.items()}
        except (ValueError, AttributeError, RecursionError) as error:
            raise BadInputError("What it tells of its channels makes no sense") from error
        for channel_id, kind in rows.items():
            is_set = channel_id.strip() and "kind" in self._configs.read(channel_id).tables
            if channel_id.strip() and not is_set and kind in PRIVATE_KINDS:
                self._configs.set_values(channel_id, {"kind": kind})

    def _scope_of(self, instance: str) -> FactScope:
        return FactScope(instance not in self._untrusted, self._existing_through)

    def renamed(self, old: str, new: str) -> None:
        """Go on under another name; what both copies said before they parted keeps the old one."""
        rename(self._history, old, new)
