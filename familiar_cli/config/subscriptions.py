"""`SubscriptionRegistry`: the channels that a familiar listens to, in `subscriptions.toml`."""

from __future__ import annotations

import os
import tomllib
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.config.toml_text import read_text
from familiar_cli.errors import ConfigError, LockedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODALITIES: Final = ("text", "voice")
_LOCK_WAIT_S: Final = 10.0
_HINT: Final = "Mend the file by hand, or move it away: then the familiar listens to no channel."


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

    def __init__(self, path: Path) -> None:
        self.path = path

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
        with self._locked():
            before = set(self.all())
            after = (before | more) - less
            if after != before:
                self._write(sorted(after))
            return after != before

    def _write(self, entries: list[Subscription]) -> None:
        import tomli_w  # noqa: PLC0415  # only who changes something pays for it

        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                tomli_w.dump({"subscription": [asdict(entry) for entry in entries]}, file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock, Timeout  # noqa: PLC0415

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=_LOCK_WAIT_S):
                yield
        except Timeout as error:
            raise LockedError(
                f"Another program has been changing {str(self.path)!r} for {_LOCK_WAIT_S:g} s; "
                "nothing was changed",
                hint="Try again when it is done.",
            ) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(
                f"{str(self.path)!r} could not be changed: {reason}",
                hint="Look at the permissions of the file and its directory.",
            ) from error

    def _broken(self, what: str) -> ConfigError:
        return ConfigError(f"{str(self.path)!r} is no list of subscriptions: {what}", hint=_HINT)
