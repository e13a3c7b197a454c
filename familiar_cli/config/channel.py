"""A channel's own settings: `channels/<channel_id>.toml`, written on the first change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from familiar_cli.config.load import Written, load_written
from familiar_cli.config.schema import ChannelConfig
from familiar_cli.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from familiar_cli.config.edit import Edit

SUFFIX: Final = ".toml"
_MOST_CHARS: Final = 200  # of a file name without its suffix; file systems hold 255 bytes
_DEVICE: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(?![a-z0-9_-])")


class ChannelConfigs:
    """The files of a familiar's channels.

    Args:
        directory: Where they are; it need not exist.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, channel_id: str) -> Path:
        """Return the file of a channel; it need not exist.

        Raises:
            UsageError: The id is empty, or too long for a file name.
        """
        return self.directory / (file_stem(channel_id) + SUFFIX)

    def read(self, channel_id: str) -> Written[ChannelConfig]:
        """Return a channel's own settings; all defaults when it has no file.

        Raises:
            ConfigError: The file is unreadable or no TOML, or a key or value in it is wrong.
        """
        try:
            path = self.path(channel_id)
        except UsageError:  # no file can bear its name, so it has none
            return Written(ChannelConfig(), {})
        return load_written(path, ChannelConfig)

    def known(self) -> Iterator[str]:
        """Yield the ids of all channels that have a file, sorted by file name.

        Raises:
            ConfigError: The directory cannot be read.
        """
        try:
            names = sorted(entry.name for entry in self.directory.iterdir())
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(
                f"{str(self.directory)!r} cannot be read: {error.strerror or error}",
                hint="Look at its permissions: it says which channels are private.",
            ) from error
        for name in names:
            channel_id = _id_of(name.removesuffix(SUFFIX)) if name.endswith(SUFFIX) else None
            if channel_id is not None:
                yield channel_id

    def private(self) -> frozenset[str]:
        """Return the channels whose words stay there.

        One whose file cannot be read counts as private: it may be.
        """
        return frozenset(channel_id for channel_id in self.known() if self._is_private(channel_id))

    def set_values(
        self, channel_id: str, texts: Mapping[str, str], *, dry_run: bool = False
    ) -> Edit:
        """Change settings of a channel, all or none; comments in its file stay.

        Raises:
            ConfigError: There is no such setting, or it may not be that; nothing was changed.
        """
        from familiar_cli.config.edit import set_values  # noqa: PLC0415  # loads a TOML editor

        return set_values(self.path(channel_id), texts, dry_run=dry_run, root=ChannelConfig)

    def unset(self, channel_id: str, key: str, *, dry_run: bool = False) -> Edit:
        """Take a setting out of a channel's file.

        Raises:
            NotFoundError: The file does not set it.
        """
        from familiar_cli.config.edit import unset_value  # noqa: PLC0415

        return unset_value(self.path(channel_id), key, dry_run=dry_run, root=ChannelConfig)

    def _is_private(self, channel_id: str) -> bool:
        try:
            return self.read(channel_id).settings.private
        except ConfigError:
            return True


def _id_of(stem: str) -> str | None:
    """Return the id that `file_stem` was given; None for a file that a person named otherwise."""
    try:
        channel_id = unquote(stem, errors="surrogatepass")
        return channel_id if file_stem(channel_id) == stem else None
    except (UnicodeError, UsageError):
        return None


def file_stem(channel_id: str) -> str:
    """Return a file name without suffix that holds the whole id on every system.

    Capitals are encoded too: where a file system ignores case, `A` and `a` stay two channels.

    Raises:
        UsageError: The id is empty, or too long for a file name.
    """
    if not channel_id:
        raise UsageError("A channel needs a name", hint="Leave `--channel` out to use 'cli'.")
    plain = quote(channel_id, safe="", errors="surrogatepass")
    stem = re.sub(r"%..|[A-Z.~]", lambda found: _encoded(found[0]), plain)
    if _DEVICE.match(stem):
        stem = _encoded(stem[0]) + stem[1:]
    if len(stem) > _MOST_CHARS:
        raise UsageError(f"The channel id {channel_id[:40]!r}… is too long to have settings")
    return stem


def _encoded(found: str) -> str:
    return found if found.startswith("%") else f"%{ord(found):02X}"
