"""Settings of a channel: its own file, then `character.toml`, then the defaults of its mode."""

from __future__ import annotations

import json
import os
import re
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from familiar_cli.base.config import schema, settings
from familiar_cli.base.config.channel_kinds import (
    MODES,
    OF_MODALITY,
    PRIVATE_KINDS,
    ChannelContext,
    ChannelMode,
)
from familiar_cli.base.config.home import ME_FILE
from familiar_cli.base.errors import ConfigError, FamiliarError, UsageError
from familiar_cli.base.files import read_plain, read_record, status_of, write_own, write_whole
from familiar_cli.base.text import sha256_of
from familiar_cli.base.times.clock import stopwatch_s

if TYPE_CHECKING:
    from familiar_cli.base.config.edit import Edit
    from familiar_cli.base.config.values import Value

SUFFIX: Final = ".toml"
_MOST_CHARS: Final = 200  # of a file name without its suffix; file systems hold 255 bytes
_LABEL_CHARS: Final = 60  # prefix kept of a longer name, before its digest
_DIGEST: Final = "~"  # separator; a name that holds the whole id has none
_HEADING: Final = "channel: "
_OF_DIGEST: Final = re.compile(rf".{{1,60}}{_DIGEST}[0-9a-f]{{32}}")
_KINDS: Final = ".kinds.json"  # derived cache of the kinds in channel files

_MANY: Final = 100  # each process re-reads fewer changed files than this
_LOOK_S: Final = 0.1  # one request asks several times; a file that is replaced is seen at once
_FRESH_NS: Final = 1_000_000_000
_UNSET: Final = settings.FileSettings(schema.ChannelConfig(), {})
_USUAL: Final = schema.CharacterConfig()
_ReadKind = tuple[tuple[int, ...], str, str]  # how a file looked, its channel, and the kind
_DEVICE: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(?![a-z0-9_-])")


class ChannelConfigs:
    """The files of a familiar's channels.

    Args:
        directory: Their directory; it need not exist.
        parents: Returns the channels that are branches, with their parents.
        patterns: Patterns of channels that are one-to-one unless their file overrides it, such as
            `dm-*`; case-sensitive.
        spoken_in: Returns the channels that have turns.
    """

    def __init__(
        self,
        directory: Path,
        parents: Callable[[], Mapping[str, str]] = dict,
        patterns: Sequence[str] = (),
        spoken_in: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.directory = directory
        self._within = f"{directory}{os.sep}"
        self._parents = parents
        self._patterns = tuple(patterns)
        self._spoken_in = spoken_in
        self._read_kinds: dict[str, _ReadKind] | None = None
        self._kinds: dict[str, str] = {}
        self._looked = -_LOOK_S, 0

    def path(self, channel_id: str) -> Path:
        """Return the path of a channel's file, which may not exist.

        Raises:
            UsageError: The id is empty.
        """
        return self.directory / (file_stem(channel_id) + SUFFIX)

    def label(self, channel_id: str) -> str:
        """Return the label of a channel, e.g. `#general`; its id if its file is unreadable."""
        try:
            config = self.read(channel_id).settings
        except ConfigError:
            return ChannelContext(channel_id).label
        return ChannelContext(config.name or channel_id, config.kind, config.parent).label

    def read(self, channel_id: str) -> settings.FileSettings[schema.ChannelConfig]:
        """Return a channel's own settings; all defaults without a file.

        Raises:
            ConfigError: The file is unreadable or not valid TOML, or a key or value is invalid.
        """
        try:
            os.lstat(f"{self._within}{file_stem(channel_id)}{SUFFIX}")
        except (UsageError, FileNotFoundError):  # it has no name, or no file, as most have
            return _UNSET
        except OSError:  # reading tells why
            pass
        return settings.load_written(self.path(channel_id), schema.ChannelConfig)

    def known(self) -> Iterator[str]:
        """Yield the ids of all channels that have a file, sorted by file name.

        Raises:
            ConfigError: The directory, or a file that is known by its first line, cannot be read.
        """
        for name, _ in self._files():
            channel_id = self._id_by_name(name)
            if channel_id is not None:
                yield channel_id

    def kinds(self) -> Mapping[str, str]:
        """Return the kinds of channels with a file; empty if unset.

        A channel with an unreadable file counts as private, to be safe. Only changed files are read
        again; large numbers are cached for other processes.

        Raises:
            ConfigError: As `known`.
        """
        looked = stopwatch_s(), self._directory_mtime_ns()
        if looked[0] - self._looked[0] < _LOOK_S and looked[1] == self._looked[1]:
            return self._kinds
        if self._read_kinds is None:
            self._read_kinds = _load_kinds(self.directory / _KINDS)
        fresh_ns, result, new = time.time_ns() - _FRESH_NS, dict[str, _ReadKind](), 0
        for name, stamp in self._files():
            kept = self._read_kinds.get(name)
            if kept is None or kept[0] != stamp:
                channel_id = self._id_by_name(name)
                if channel_id is None:
                    continue
                # Two changes within a tick of the clock look alike.
                kept = stamp if stamp[2] < fresh_ns else (), channel_id, self._own_kind(channel_id)
                new += bool(kept[0])
            result[name] = kept
        self._read_kinds = result
        if new >= _MANY:
            _keep_kinds(self.directory / _KINDS, result)
        kinds = {channel_id: kind for _, channel_id, kind in result.values()}
        if kinds != self._kinds:
            self._kinds = kinds
        self._looked = looked
        return self._kinds

    def _directory_mtime_ns(self) -> int:
        status = status_of(self.directory)
        return status.st_mtime_ns if status else -1

    def _files(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the file names, sorted, with their stat signatures."""
        try:
            with os.scandir(self.directory) as entries:
                return sorted((e.name, _file_look(e)) for e in entries if e.name.endswith(SUFFIX))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(
                f"{str(self.directory)!r} cannot be read: {error.strerror or error}",
                hint="Check its permissions; it says which channels are private.",
            ) from error

    def _id_by_name(self, name: str) -> str | None:
        stem = name.removesuffix(SUFFIX)
        return self._id_inside(stem) if _DIGEST in stem else _id_of(stem)

    def private(self) -> frozenset[str]:
        """Return the private channels.

        A channel with an unreadable file counts as private, to be safe, and so does a branch of a
        private channel, whatever its own settings.
        """
        kinds = self.kinds()
        channel_ids = {channel_id for channel_id, kind in kinds.items() if kind in PRIVATE_KINDS}
        if self._patterns:
            undeclared = (i for i in {*kinds, *self._spoken_in()} if not kinds.get(i))
            channel_ids.update(filter(self._fits_pattern, undeclared))
        if not channel_ids:
            return frozenset()
        for branch, parent in self._parents().items():  # parents come before their branches
            if parent in channel_ids:
                channel_ids.add(branch)
        return frozenset(channel_ids)

    def public(self) -> frozenset[str]:
        """Return the channels declared public by their file."""
        kinds = self.kinds().items()
        return frozenset(i for i, kind in kinds if kind and kind not in PRIVATE_KINDS)

    def declared_kind(self, channel_id: str) -> str:
        """Return the kind set by a channel's file or a pattern; empty if there is none.

        A channel whose file cannot be read counts as private.
        """
        own = self._own_kind(channel_id)
        return own or ("dm" if self._fits_pattern(channel_id) else "")

    def _own_kind(self, channel_id: str) -> str:
        try:
            written = self.read(channel_id)
        except ConfigError:
            return "private"
        return written.settings.kind if "kind" in written.tables else ""

    def _fits_pattern(self, channel_id: str) -> bool:
        return any(fnmatchcase(channel_id, pattern) for pattern in self._patterns)

    def set_values(
        self, channel_id: str, texts: Mapping[str, str], *, dry_run: bool = False
    ) -> Edit:
        """Change settings of a channel atomically, preserving comments.

        Raises:
            ConfigError: No such setting, or an invalid value; nothing was changed.
        """
        from familiar_cli.base.config.edit import set_values  # noqa: PLC0415  # loads a TOML editor

        path = self.path(channel_id)
        heading = _table_heading(channel_id) if _DIGEST in path.stem else ""
        return set_values(path, texts, dry_run=dry_run, root=schema.ChannelConfig, heading=heading)

    def copy(self, source: str, target: str) -> None:
        """Copy a channel's settings except its name to a channel without settings.

        Raises:
            ConfigError: A file cannot be read or written.
        """
        from familiar_cli.base.config.edit import put_values  # noqa: PLC0415  # loads a TOML editor

        path, tables = self.path(target), dict(self.read(source).tables)
        tables.pop("name", None)
        if tables and not path.exists():
            heading = _table_heading(target) if _DIGEST in path.stem else ""
            put_values(path, tables, schema.ChannelConfig, heading)

    def unset(self, channel_id: str, key: str, *, dry_run: bool = False) -> Edit:
        """Remove a setting from a channel's file.

        Raises:
            NotFoundError: The file does not set it.
        """
        from familiar_cli.base.config.edit import unset_values  # noqa: PLC0415

        path = self.path(channel_id)
        return unset_values(path, (key,), dry_run=dry_run, root=schema.ChannelConfig)

    def _id_inside(self, stem: str) -> str | None:
        """Return the id in the first line of a file whose name is a digest.

        Raises:
            ConfigError: It is missing, so it is unknown which channel may be private.
        """
        path = self.directory / (stem + SUFFIX)
        try:
            first = read_plain(path).decode("utf-8-sig").partition("\n")[0]
            channel_id = json.loads(first.partition(_HEADING)[2])
            if isinstance(channel_id, str) and file_stem(channel_id) == stem:
                return channel_id
        except (OSError, ValueError, RecursionError) as error:
            reason = str(error)
        else:
            reason = "it names another channel"
        if not _OF_DIGEST.fullmatch(stem):
            return None  # named by a person
        raise ConfigError(
            f"The first line of {str(path)!r} does not say which channel it is for ({reason})",
            hint=f'Let it begin with `# {_HEADING}"ID"`, or delete the file; the channel may be '
            "private.",
        )


def _file_look(entry: os.DirEntry[str]) -> tuple[int, ...]:
    """Return a file's stat signature; -1 for a broken link."""
    try:
        status = entry.stat()
    except FileNotFoundError:
        return (-1, -1, 0, 0)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _load_kinds(path: Path) -> dict[str, _ReadKind]:
    """Read the cached kinds, skipping invalid entries."""
    rows = read_record(path, list[tuple[str, tuple[int, ...], str, str]]) or ()
    return {name: (stamp, channel_id, kind) for name, stamp, channel_id, kind in rows}


def _keep_kinds(path: Path, kinds: Mapping[str, _ReadKind]) -> None:
    rows = [(name, *kept) for name, kept in kinds.items() if kept[0]]
    with suppress(OSError, FamiliarError):  # the cache is optional
        write_own(path, json.dumps(rows).encode(), durable=False)


def _id_of(stem: str) -> str | None:
    """Return the id encoded by `file_stem`, or None for another file name."""
    try:
        channel_id = unquote(stem, errors="surrogatepass")
        return channel_id if file_stem(channel_id) == stem else None
    except (UnicodeError, UsageError):
        return None


@lru_cache(maxsize=1024)  # the channels of a prompt are labelled
def file_stem(channel_id: str) -> str:
    """Encode an id as a unique file name without suffix, valid on every system.

    Ids that are too long are truncated and get a digest. Capitals are encoded too, so that `A` and
    `a` differ even where the file system ignores case.

    Raises:
        UsageError: The id is empty.
    """
    if not channel_id:
        raise UsageError("The channel name is empty", hint="Omit `--channel` to use 'cli'.")
    plain = quote(channel_id, safe="", errors="surrogatepass")
    stem = re.sub(r"%..|[A-Z.~]", lambda found: _quote_key(found[0]), plain)
    if _DEVICE.match(stem):
        stem = _quote_key(stem[0]) + stem[1:]
    if len(stem) > _MOST_CHARS:
        digest = sha256_of(channel_id)
        return f"{stem[:_LABEL_CHARS]}{_DIGEST}{digest[:32]}"
    return stem


def _table_heading(channel_id: str) -> str:
    return f"{_HEADING}{json.dumps(channel_id)}"


def _quote_key(match: str) -> str:
    return match if match.startswith("%") else f"%{ord(match):02X}"


AUTO: Final = "auto"
_FILES: Final = ("channel", "character.toml")
# By setting or table, the value that defers to the more general settings.
_LEFT_OPEN: Final = {
    "greeting": AUTO,
    "datetime": AUTO,
    "recent_turns": 0,
    "tier": 0,
    "budget": 0,
    "processors": AUTO,
}


class EffectiveValue(Struct, frozen=True):
    """The effective value of a channel's setting.

    Args:
        key: The setting.
        value: The effective value.
        source: `channel`, `character.toml`, `me.toml`, `mode <mode>` or `default`.
    """

    key: str
    value: Value
    source: str


class Channel(Struct, frozen=True):
    """A channel with its effective settings.

    Args:
        config: Its own file.
        context: Description of the channel.
        greets: Whether the character's greeting opens the conversation.
        tells_time: Whether prompts include the date and time.
        recent_turns: Maximum number of recent turns in a prompt.
        tier: How much of the memory a prompt includes.
        budget: Budget settings; 0 for the mode's default.
        processors: Which processors are enabled, by name.
        author_note: The author's note; its text may be empty.
        inject: Texts inserted between turns, by name.
        me: The default speaker.
        held: Each setting with its source.
    """

    id: str
    config: schema.ChannelConfig
    mode: ChannelMode
    context: ChannelContext
    greets: bool
    tells_time: bool
    recent_turns: int
    tier: int
    budget: schema.BudgetSettings
    processors: Mapping[str, bool]
    author_note: schema.NoteSettings
    inject: Mapping[str, schema.InjectSettings]
    me: schema.MeSettings
    held: tuple[EffectiveValue, ...]

    def with_usual_tier(self, tier: int, source: str) -> Channel:
        """Return the channel with another default tier."""
        if next(one.source for one in self.held if one.key == "tier") != "default":
            return self
        usual = EffectiveValue("tier", tier, source)
        values = tuple(usual if one.key == "tier" else one for one in self.held)
        return replace(self, tier=tier, held=values)


@lru_cache(maxsize=256)
def effective_channel(
    channel_id: str,
    own: settings.FileSettings[schema.ChannelConfig],
    everywhere: settings.FileSettings[schema.CharacterConfig],
    modality: str = "text",
    at_home: settings.FileSettings[schema.HomeSettings] | None = None,
) -> Channel:
    """Resolve the effective settings of a channel.

    Args:
        own: Its file.
        everywhere: `character.toml`.
        modality: Modality of its messages: `text` or `voice`.
        at_home: `me.toml`, or None.
    """
    return _Merge(own, everywhere, modality, at_home).channel(channel_id)


class _Merge:
    """Resolves settings: the channel's file, then `character.toml`, the mode, the default."""

    def __init__(
        self,
        own: settings.FileSettings[schema.ChannelConfig],
        everywhere: settings.FileSettings[schema.CharacterConfig],
        modality: str,
        at_home: settings.FileSettings[schema.HomeSettings] | None,
    ) -> None:
        self._own, self._everywhere, self._at_home = own, everywhere, at_home
        is_set = own.settings.mode != AUTO
        self._mode = ChannelMode(own.settings.mode) if is_set else OF_MODALITY[modality]
        source = "channel" if is_set else f"{modality} turns"
        self._held = [EffectiveValue("mode", str(self._mode), source)]
        usual = MODES[self._mode]
        self._of_mode: dict[str, Value] = {
            "recent_turns": usual.recent_turns,
            "budget.total": usual.total_tokens,
            "processors.stepped_thinking": "on" if usual.stepped_thinking else "off",
            "processors.recast": "on" if usual.recast else "off",
        }

    def channel(self, channel_id: str) -> Channel:
        config = self._own.settings
        for key in ("name", "kind", "parent"):
            self._resolve(key)
        greeting = self._resolve("greeting", "context.greeting").value
        tells_time = self._resolve("datetime", "context.datetime").value
        recent_turns: Any = self._resolve("recent_turns", "history.recent_turns").value
        tier: Any = self._resolve("tier", "context.tier").value
        # Of the budget, the mode's default stays 0: the model may have a smaller one.
        budget: dict[str, Any] = {
            name: found.value if found.source in _FILES else 0
            for name, found in self._section("budget").items()
        }
        switches = self._section("processors")
        note: dict[str, Any] = {k: one.value for k, one in self._section("author_note").items()}
        me: dict[str, Any] = {k: one.value for k, one in self._section("me").items()}
        return Channel(
            id=channel_id,
            config=config,
            mode=self._mode,
            context=ChannelContext(config.name or channel_id, config.kind, config.parent),
            greets=greeting == "on",
            tells_time=tells_time == "on",
            recent_turns=recent_turns,
            tier=tier,
            budget=schema.BudgetSettings(**budget),
            processors={name: found.value == "on" for name, found in switches.items()},
            author_note=schema.NoteSettings(**note),
            inject=self._inject(),
            me=schema.MeSettings(**me),
            held=tuple(self._held),
        )

    def _section(self, name: str) -> dict[str, EffectiveValue]:
        """Resolve each setting of a table present in both files, by name."""
        return {
            entry.name: self._resolve(f"{name}.{entry.name}", f"{name}.{entry.name}")
            for entry in fields(getattr(self._own.settings, name))
        }

    def _resolve(self, key: str, general: str = "") -> EffectiveValue:
        """Resolve a setting, and record its source.

        Args:
            key: Its key in the channel's file.
            general: Its key in `character.toml`; empty if it has none there.
        """
        value = self._find_in_files(key, general)
        if value is None and key in self._of_mode:
            value = EffectiveValue(key, self._of_mode[key], f"mode {self._mode}")
        elif value is None:
            default = settings.value_at(_USUAL if general else _UNSET.settings, general or key)
            value = EffectiveValue(key, default, "default")
        self._held.append(value)
        return value

    def _find_in_files(self, key: str, general: str) -> EffectiveValue | None:
        section, _, name = key.partition(".")
        at_home = self._at_home if section == "me" else None
        places = (
            (self._own, key, "channel"),
            (self._everywhere, general, "character.toml"),
            (at_home, name, ME_FILE),
        )
        for file, at, source in places:
            if file is not None and settings.is_written(file.tables, at):
                value = settings.value_at(file.settings, at)
                # In the channel's own file, this value defers to the next source.
                if at != key or value != _LEFT_OPEN.get(section):
                    return EffectiveValue(key, value, source)
        return None

    def _inject(self) -> dict[str, schema.InjectSettings]:
        own, general = self._own.settings.inject, self._everywhere.settings.inject
        merged = {**general, **own}
        for name, entry in merged.items():
            source = "channel" if name in own else "character.toml"
            self._held += [
                EffectiveValue(f"inject.{name}.{f.name}", getattr(entry, f.name), source)
                for f in fields(entry)
            ]
        return merged


MODALITIES: Final = ("text", "voice")
_HINT: Final = "Fix the file by hand, or move it away: the familiar then listens to no channels."


class Subscription(Struct, frozen=True, order=True):
    """A subscribed channel and its modality, `text` or `voice`."""

    channel_id: str
    modality: str = "text"


class SubscriptionRegistry:
    """The channels a familiar subscribes to. Safe across processes.

    Args:
        path: The file, created with the first subscription.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def all(self) -> list[Subscription]:
        """Return all subscriptions, sorted.

        Raises:
            ConfigError: The file is unreadable or not a list of subscriptions.
        """
        text = settings.read_text(self.path)
        try:
            entries = tomllib.loads(text).get("subscription", [])
            subscriptions = {Subscription(**entry) for entry in entries}
        except (tomllib.TOMLDecodeError, RecursionError, TypeError) as error:
            raise self._broken(str(error)) from error
        for entry in subscriptions:
            if not isinstance(entry.channel_id, str) or entry.modality not in MODALITIES:
                raise self._broken(f"{entry.channel_id!r} with modality {entry.modality!r}")
        return sorted(subscriptions)

    def add(self, channel_id: str, modality: str = "text") -> bool:
        """Subscribe to a channel. Returns whether that is new.

        Raises:
            ConfigError: As for `all`, or the file cannot be written; it is unchanged.
        """
        return self._change({Subscription(channel_id, modality)}, set())

    def remove(self, channel_id: str) -> bool:
        """Unsubscribe from a channel in all modalities. Returns whether it was subscribed.

        Raises:
            ConfigError: As for `add`.
        """
        return self._change(set(), {Subscription(channel_id, m) for m in MODALITIES})

    def listens_to(self, channel_id: str) -> tuple[str, ...]:
        """Return the subscribed modalities of a channel."""
        return tuple(entry.modality for entry in self.all() if entry.channel_id == channel_id)

    def _change(self, more: set[Subscription], less: set[Subscription]) -> bool:
        from familiar_cli.base.config.edit import locked  # noqa: PLC0415  # loads a TOML editor

        with locked(self.path):
            before = set(self.all())
            after = (before | more) - less
            if after != before:
                self._write(sorted(after))
            return after != before

    def _write(self, entries: list[Subscription]) -> None:
        import tomli_w  # noqa: PLC0415  # only who changes something pays for it

        write_whole(
            self.path, tomli_w.dumps({"subscription": [to_builtins(entry) for entry in entries]})
        )

    def _broken(self, what: str) -> ConfigError:
        return ConfigError(
            f"{str(self.path)!r} is not a valid list of subscriptions: {what}", hint=_HINT
        )
