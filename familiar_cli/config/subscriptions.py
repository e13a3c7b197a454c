"""`SubscriptionRegistry`: the channels that a familiar listens to, in `subscriptions.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from familiar_cli.config.edit import locked
from familiar_cli.config.toml_text import read_text
from familiar_cli.errors import ConfigError
from familiar_cli.files import write_whole

MODALITIES: Final = ("text", "voice")
_HINT: Final = "Fix the file by hand, or move it away: then the familiar listens to no channels."


@dataclass(frozen=True, slots=True, order=True)
class Subscription:
    """One channel that is listened to, and how: as `text` or as `voice`."""

    channel_id: str
    modality: str = "text"


class SubscriptionRegistry:
    """The channels that a familiar listens to. Safe to use from several processes.

    Args:
        path: The file; it is made at the first subscription.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def all(self) -> list[Subscription]:
        """Return all subscriptions, sorted.

        Raises:
            ConfigError: The file is unreadable, or is no list of subscriptions.
        """
        text = read_text(self.path)
        try:
            entries = tomllib.loads(text).get("subscription", [])
            found = {Subscription(**entry) for entry in entries}
        except (tomllib.TOMLDecodeError, RecursionError, TypeError) as error:
            raise self._broken(str(error)) from error
        for entry in found:
            if not isinstance(entry.channel_id, str) or entry.modality not in MODALITIES:
                raise self._broken(f"{entry.channel_id!r} with modality {entry.modality!r}")
        return sorted(found)

    def add(self, channel_id: str, modality: str = "text") -> bool:
        """Listen to a channel. Returns whether that is new.

        Raises:
            ConfigError: As `all`, or the file cannot be written; it stays as it was.
        """
        return self._change({Subscription(channel_id, modality)}, set())

    def remove(self, channel_id: str) -> bool:
        """Listen to a channel no more, neither as text nor as voice. Returns whether one did.

        Raises:
            ConfigError: As `add`.
        """
        return self._change(set(), {Subscription(channel_id, m) for m in MODALITIES})

    def listens_to(self, channel_id: str) -> tuple[str, ...]:
        """Return the modalities in which a channel is listened to."""
        return tuple(entry.modality for entry in self.all() if entry.channel_id == channel_id)

    def _change(self, more: set[Subscription], less: set[Subscription]) -> bool:
        with locked(self.path):
            before = set(self.all())
            after = (before | more) - less
            if after != before:
                self._write(sorted(after))
            return after != before

    def _write(self, entries: list[Subscription]) -> None:
        import tomli_w  # noqa: PLC0415  # only who changes something pays for it

        write_whole(
            self.path, tomli_w.dumps({"subscription": [asdict(entry) for entry in entries]})
        )

    def _broken(self, what: str) -> ConfigError:
        return ConfigError(
            f"{str(self.path)!r} is not a valid list of subscriptions: {what}", hint=_HINT
        )
