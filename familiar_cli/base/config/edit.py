"""Change `character.toml` and keep what its owner wrote: comments, order, line ends.

Every change is planned as a value first (`Edit`), checked as a whole, and written atomically.
Nothing is written when the result would have a problem that the file did not have before.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from familiar_cli.base import files
from familiar_cli.base.config import settings
from familiar_cli.base.config.schema import CharacterConfig
from familiar_cli.base.config.values import Setting, Value, switched, value_problem
from familiar_cli.base.errors import ConfigError, ConflictError, FamiliarError, NotFoundError
from familiar_cli.base.files import read_plain, write_hint, write_whole
from familiar_cli.base.text import unified

_LOCK_WAIT_S = 10.0


class Edit(Struct, frozen=True):
    """A change of the whole file: its text before and after."""

    path: Path
    before: str
    after: str

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        return unified(self.before, self.after, self.path.name)


def set_values(
    path: Path,
    texts: Mapping[str, str],
    *,
    dry_run: bool = False,
    root: type[Any] = CharacterConfig,
    heading: str = "",
) -> Edit:
    """Parse texts by each setting's type, and store them: all or none.

    Args:
        texts: The settings by dotted key, as typed.
        dry_run: Write nothing.
        root: What the file holds.
        heading: A one-line comment to begin the file with.

    Raises:
        ConfigError: No such setting, or an invalid value; the file is unchanged.
    """
    look = "config show {}" if root is CharacterConfig else "channel show CHANNEL"
    values = {
        key: parse_value(settings.find_setting(key, root), text, look.format(key))
        for key, text in texts.items()
    }
    return put_values(path, values, root, heading, dry_run=dry_run)


def put_values(
    path: Path,
    values: Mapping[str, Any],
    root: type[Any],
    heading: str = "",
    *,
    dry_run: bool = False,
) -> Edit:
    """Set values, or whole tables, by dotted key; see `set_values`."""

    def change(document: Any) -> None:  # noqa: ANN401
        for key, value in values.items():
            _put_value(document, key.split("."), value)

    return _edit_file(path, change, root, dry_run=dry_run, heading=heading)


def unset_values(
    path: Path, keys: Iterable[str], *, dry_run: bool = False, root: type[Any] = CharacterConfig
) -> Edit:
    """Remove keys from the file, known or not, so that defaults apply.

    Raises:
        NotFoundError: The file does not set one of them; it is unchanged.
    """

    def change(document: Any) -> None:  # noqa: ANN401
        for key in keys:
            _take_value(document, key, path, root)

    return _edit_file(path, change, root, dry_run=dry_run)


def new_config(values: Mapping[str, Value] | None = None) -> str:
    """Return the text of a familiar's first `character.toml`.

    Args:
        values: Its settings by dotted key; all others keep their defaults.

    Raises:
        ConfigError: A key or value is not allowed.
    """
    import tomlkit  # noqa: PLC0415

    document = tomlkit.document()
    for line in _GREETING:
        document.add(tomlkit.comment(line))
    document.add(tomlkit.nl())
    for key, value in sorted((values or {}).items(), key=lambda item: "." in item[0]):
        _check_value(settings.find_setting(key), value)
        _put_value(document, key.split("."), value)
    return document.as_string()


def write_new(path: Path, values: Mapping[str, Value] | None = None) -> None:
    """Write a familiar's first `character.toml`.

    Raises:
        ConflictError: There is one already; it is unchanged.
        ConfigError: A key or value is not allowed.
        FamiliarError: The file cannot be written.
    """
    text = new_config(values)
    with locked(path):
        if path.exists():
            raise ConflictError(
                f"{str(path)!r} already exists; it was not changed",
                hint="Change it with `familiar config set KEY VALUE`.",
            )
        write_whole(path, text.encode())


def parse_value(setting: Setting, text: str, look: str = "") -> Value:
    """Parse `text` as a value of the setting's type.

    Args:
        setting: Which.
        text: As typed.
        look: The command that shows the current value.

    Raises:
        ConfigError: It is none, or not allowed.
    """
    is_list = isinstance(setting.default, tuple)
    kind: Callable[[str], Value] = _parse_words if is_list else type(setting.default)
    try:
        value = kind(switched(setting, text))
    except ValueError:
        raise ConfigError(
            f"{setting.key!r} must be {setting.allowed}, not {text!r}; nothing was changed",
            hint=_setting_meaning(setting, look),
        ) from None
    _check_value(setting, value, look)
    return value


_GREETING = (
    "Settings of this familiar. Whatever is not set here keeps its default.",
    "`familiar config show` lists every setting; `familiar config set KEY VALUE` changes one.",
)


def _check_value(setting: Setting, value: Value, look: str = "") -> None:
    complaint = value_problem(setting, value)
    if complaint:
        raise ConfigError(
            f"{setting.key!r} {complaint}; nothing was changed",
            hint=_setting_meaning(setting, look),
        )


def _setting_meaning(setting: Setting, look: str) -> str:
    return f"{setting.doc}." + (f" `familiar {look}` shows the current value." if look else "")


def _edit_file(
    path: Path, change: Callable[[Any], None], root: type[Any], *, dry_run: bool, heading: str = ""
) -> Edit:
    with locked(path):
        before = settings.read_text(path)
        had = settings.build_settings(settings.parse(before, path), root)[1]
        after = _change_text(before, path, change)
        if heading and not after.startswith(f"# {heading}\n"):
            after = f"# {heading}\n{after}"
        edit = Edit(path, before, _with_line_ends(before, after))
        _check_edit(edit, had, root)
        if edit.changes and not dry_run:
            write_whole(path, _encode_text(path, edit.after))
    return edit


def _change_text(text: str, path: Path, change: Callable[[Any], None]) -> str:
    import tomlkit  # noqa: PLC0415
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    try:
        document = tomlkit.parse(text)
        change(document)
        changed = document.as_string()
        tomllib.loads(changed)
    except (TOMLKitError, ValueError) as error:
        raise ConfigError(
            f"{str(path)!r} cannot be edited safely: {error}; nothing was changed",
            hint="Edit the file by hand; `familiar config path` prints where it is.",
        ) from error
    return changed


def _check_edit(edit: Edit, had: list[settings.ConfigProblem], root: type[Any]) -> None:
    """Refuse an edit whose result has a problem that was not there before."""
    problems = settings.build_settings(tomllib.loads(edit.after), root)[1]
    fresh = [problem for problem in problems if problem not in had]
    if fresh:
        key = ".".join(fresh[0].key)
        raise ConfigError(f"{key!r} {fresh[0].message}; nothing was changed", hint=fresh[0].hint)


def _put_value(document: Any, parts: list[str], value: Value) -> None:  # noqa: ANN401
    import tomlkit  # noqa: PLC0415
    from tomlkit.items import InlineTable  # noqa: PLC0415

    table = document
    for depth, part in enumerate(parts[:-1]):
        if part not in table:
            # A table that only holds other tables needs no header of its own.
            only_tables = depth < len(parts) - 2
            inside = isinstance(table, InlineTable)
            table[part] = tomlkit.inline_table() if inside else tomlkit.table(only_tables)
        table = table[part]
        if not isinstance(table, dict):
            name = ".".join(parts[: depth + 1])
            raise ConfigError(
                f"{name!r} is a single value, but must be a table; nothing was changed",
                hint=f"Remove it first: `familiar config unset {name}`.",
            )
    table[parts[-1]] = list(value) if isinstance(value, tuple) else _lines_of(value)


def _lines_of(value: Value) -> Any:  # noqa: ANN401  # an item of tomlkit, or the value
    """Convert a text of several lines to a multi-line TOML string."""
    import tomlkit  # noqa: PLC0415

    if not isinstance(value, str) or "\n" not in value:
        return value
    item = tomlkit.string(value, multiline=True)
    try:
        is_same = tomllib.loads(f"x = {item.as_string()}")["x"] == value
    except ValueError:
        is_same = False
    return item if is_same else value


def _parse_words(text: str) -> tuple[str, ...]:
    """Parse a list typed as JSON or as shell words.

    Raises:
        ValueError: It is neither.
    """
    import json  # noqa: PLC0415

    from familiar_cli.base.config.environment import command_words  # noqa: PLC0415

    if not text.lstrip().startswith("["):
        return tuple(command_words(text))
    value = json.loads(text)
    if not all(isinstance(word, str) for word in value):
        raise ValueError(text)
    return tuple(value)


def _take_value(document: Any, key: str, path: Path, root: type[Any]) -> None:  # noqa: ANN401
    *tables, last = key.split(".")
    table = document
    for part in tables:
        table = table.get(part) if isinstance(table, dict) else None
    if not isinstance(table, dict) or last not in table:
        raise NotFoundError(
            f"{str(path)!r} does not set {key!r}; nothing was changed{_guess_setting(key, root)}",
            hint="`familiar config show` lists what the file sets.",
        )
    del table[last]


def _guess_setting(key: str, root: type[Any]) -> str:

    return "" if key in settings.all_settings(root) else settings.did_you_mean(key, root)


def _with_line_ends(before: str, after: str) -> str:
    """Give `after` the line endings used throughout `before`."""
    if before.count("\n") and before.count("\n") == before.count("\r\n"):
        return after.replace("\r\n", "\n").replace("\n", "\r\n")
    return after


def _encode_text(path: Path, text: str) -> bytes:
    """Encode `text` as UTF-8, with a byte order mark if the file had one."""
    mark = b"\xef\xbb\xbf"
    had = path.exists() and read_plain(path, len(mark)) == mark
    return (mark if had else b"") + text.encode()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the file at `path` against other processes, and convert system errors to ours.

    Raises:
        LockedError: Another process has been changing it for too long.
        FamiliarError: The system denied the change.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.locked(path.with_name(f".{path.name}.lock"), _LOCK_WAIT_S, what=str(path)):
            yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FamiliarError(
            f"{str(path)!r} could not be changed: {reason}", hint=write_hint(error.errno)
        ) from error
