"""Load and validate settings files, look up settings, and trace where values come from."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache, lru_cache, reduce
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.config.schema import ANY_NAME, OF_PRESET, CharacterConfig
from familiar_cli.base.config.values import Setting, Value, shown_value, switched, value_problem
from familiar_cli.base.errors import ConfigError
from familiar_cli.base.files import read_plain, status_of
from familiar_cli.base.text import nearest

_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def setting_of(section: Field[Any], prefix: str) -> Setting:
    """Return the setting that a field of a section's dataclass declares."""
    about: dict[str, Any] = {**section.metadata}
    if prefix.startswith("llm.slots."):  # the variables speak of the main model alone
        about["env"] = ""
    default: Any = section.default
    return Setting(f"{prefix}{section.name}", default, **about)


def all_settings(root: type[object] = CharacterConfig) -> Mapping[str, Setting]:
    """Return every setting of a file by its dotted key, in the order of the schema.

    Tables with user-defined names appear once, under the name `NAME`.
    """
    hashable: Any = root
    return _all_of(hashable)


@cache
def _all_of(root: Any) -> Mapping[str, Setting]:  # noqa: ANN401
    return {setting.key: setting for setting in _walk_section(root, "")}


def find_setting(key: str, root: type[Any] = CharacterConfig) -> Setting:
    """Return the setting with the key `key`.

    Raises:
        ConfigError: No such setting; the error suggests the nearest.
    """
    settings = all_settings(root)
    if key in settings:
        return settings[key]
    pattern = _pattern_of(key, settings)
    if pattern:
        return replace(settings[pattern], key=key)
    where = "config show" if root is CharacterConfig else "channel show CHANNEL"
    raise ConfigError(
        f"No such setting: {key!r}{did_you_mean(key, root)}",
        hint=f"Run `familiar {where}` to list all settings.",
    )


def did_you_mean(key: str, root: type[Any] = CharacterConfig) -> str:
    """Return `; did you mean '…'?` with the known key most like `key`, or an empty string."""
    guess = nearest_key(key, root)
    return f"; did you mean {guess!r}?" if guess else ""


def is_name(text: str) -> bool:
    """Tell whether `text` is valid as the name of a table."""
    return bool(_NAME.fullmatch(text))


def nearest_key(key: str, root: type[Any] = CharacterConfig) -> str | None:
    """Return the known key most like `key`: by its last word first, then as a whole."""
    settings = all_settings(root)
    last_first = list(reversed(list(settings)))
    section, _, leaf = key.rpartition(".")
    beside = {k.rpartition(".")[2]: k for k in last_first if k.rpartition(".")[0] == section}
    anywhere = {k.rpartition(".")[2]: k for k in last_first}
    if (guess := nearest(leaf, beside)) is not None:
        return beside[guess]
    return anywhere.get(leaf) or nearest(key, settings)


def _pattern_of(key: str, settings: Mapping[str, Setting]) -> str | None:
    """Return the known key that matches `key`, with `NAME` for user-defined names."""
    parts = key.split(".")
    for at, part in enumerate(parts):
        pattern = ".".join([*parts[:at], ANY_NAME, *parts[at + 1 :]])
        if pattern in settings and is_name(part):
            return pattern
    return None


def _walk_section(section: type[Any], prefix: str) -> Iterator[Setting]:
    for entry in _written_fields(section):
        if entry.default is not MISSING:
            yield setting_of(entry, prefix)
        elif "each" in entry.metadata:
            for name in entry.metadata["names"] or (ANY_NAME,):
                yield from _walk_section(entry.metadata["each"], f"{prefix}{entry.name}.{name}.")
        else:
            factory: Any = entry.default_factory
            yield from _walk_section(factory, f"{prefix}{entry.name}.")


def _written_fields(section: type[Any]) -> Iterator[Field[Any]]:
    """Yield the fields that a file may contain, without those set by the loader."""
    return (entry for entry in fields(section) if "loader" not in entry.metadata)


HINT = "`familiar config path` prints where the file is; `familiar config show` lists all settings."
MAX_CONFIG_BYTES: Final = 1024 * 1024
MAX_KEY_PARTS: Final = 100  # maximum parts of a key; the parser is quadratic in them

# Possessive repeats keep the search fast.
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = rf"(?<![\w.-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MAX_KEY_PARTS}}}"

Key = tuple[str, ...]
# A multi-line value is tried at each line that could end it; a file of such lines only is
# not worth the time.
_MOST_TRIES = 1000
_MOST_PARTS = 10
_ENDS = ("]", "}", '"""', "'''")


def check_bounds(text: str, path: Path) -> None:
    """Refuse a text that would keep a TOML parser busy for long.

    Raises:
        ConfigError: It is larger than `MAX_CONFIG_BYTES`, or has a key of too many parts.
    """
    if len(text) > MAX_CONFIG_BYTES:
        what = f"is larger than {MAX_CONFIG_BYTES:,} bytes"
    elif text.count(".") >= MAX_KEY_PARTS and re.search(_LONG_KEY, text):
        what = f"has a key of more than {MAX_KEY_PARTS} parts"
    else:
        return
    raise ConfigError(f"{str(path)!r} {what}; it was not read", hint="Open it in an editor.")


def read_text(path: Path) -> str:
    """Return the text of the file at `path`; empty if it does not exist.

    Raises:
        ConfigError: It cannot be read, or is not UTF-8.
    """
    try:
        raw = read_plain(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{str(path)!r} cannot be read: {reason}", hint=HINT) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{str(path)!r}, line {line}: this is not UTF-8 text",
            hint="Save the file as UTF-8 in your editor.",
        ) from error


def parse(text: str, path: Path) -> dict[str, Any]:
    """Parse a TOML text.

    Raises:
        ConfigError: Not valid TOML; the message names `path` and the line.
    """
    check_bounds(text, path)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        what = "nested too deeply"
        if isinstance(error, ValueError):
            is_toml = isinstance(error, tomllib.TOMLDecodeError)
            what = str(error) if is_toml else "a number in it has too many digits"
        raise ConfigError(f"{str(path)!r} is not valid TOML: {what}", hint=HINT) from error


# Locating a setting is slow and exact; it is used only for error messages.


def line_of(text: str, key: Key) -> int | None:
    """Return the 1-based line where `key` is set, or where its nearest table begins.

    None if it is missing, or the search would take too long.

    Args:
        text: Valid TOML.
        key: The parts of a dotted key.
    """
    best: tuple[int, int] | None = None
    for line, path in _key_places(text):
        shared = _shared_parts(path, key)
        if shared and (best is None or shared > best[0]):
            best = (shared, line)
    return best[1] if best else None


def _key_places(text: str) -> Iterator[tuple[int, Key]]:
    table: Key = ()
    for line, statement, value in _read_statements(text):
        for path in _value_paths(value):
            if statement.lstrip().startswith("["):
                table = path
                yield line, table
            else:
                yield line, table + path


def _read_statements(text: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield the first line, the text and the value of each header or `key = value`."""
    pending: list[str] = []
    tries = 0
    for number, line in enumerate(text.split("\n"), start=1):
        pending.append(line + "\n")
        if len(pending) > 1 and not any(end in line for end in _ENDS):
            continue
        statement = "".join(pending)
        value = _value_of(statement)
        if value is None:
            tries += 1
        else:
            yield number - len(pending) + 1, statement, value
            pending = []
        if tries > _MOST_TRIES:
            return


def _value_of(text: str) -> dict[str, Any] | None:
    """Parse TOML text; None if it is invalid or incomplete."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _value_paths(value: dict[str, Any]) -> Iterator[Key]:
    """Yield the path of each value, down to a depth that no setting reaches."""
    waiting: list[tuple[Key, Any]] = [((), value)]
    while waiting:
        path, inner = waiting.pop()
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            inner = inner[0]  # a header in double brackets
        if isinstance(inner, dict) and inner and len(path) < _MOST_PARTS:
            waiting += [((*path, name), below) for name, below in reversed(inner.items())]
        elif path:
            yield path


def _shared_parts(path: Key, key: Key) -> int:
    """Return how many leading parts two keys share."""
    count = 0
    for mine, theirs in zip(path, key, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


T = TypeVar("T")
_UNKNOWN_TABLE = "is not a known table"
_UNKNOWN_SETTING = "is not a known setting"


class ConfigProblem(Struct, frozen=True):
    """An error in the file, and its key."""

    key: tuple[str, ...]
    message: str
    hint: str = HINT


class FileSettings(Struct, Generic[T], frozen=True, eq=False):
    """Settings, and the file's own tables; values missing there are defaults."""

    settings: T
    tables: dict[str, Any]


class SettingsFiles:
    """Loader of settings files that detects later changes to them."""

    def __init__(self) -> None:
        self._looks: dict[Path, tuple[int, ...]] = {}

    def load(self, path: Path, root: type[T]) -> FileSettings[T]:
        """Load the settings of kind `root` from the file at `path`, as `load_written` does.

        Raises:
            ConfigError: As `load_config`.
        """
        self.note(path)
        return load_written(path, root)

    def note(self, path: Path) -> None:
        """Record the state of a file that is about to be read by other means."""
        self._looks.setdefault(path, _file_stamp(path))

    @property
    def have_changed(self) -> bool:
        """Whether a file that was read has since been changed, created or removed."""
        return any(_file_stamp(path) != look for path, look in self._looks.items())


def _file_stamp(path: Path) -> tuple[int, ...]:
    seen = status_of(path)
    return (seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns) if seen else ()


def load_config(path: Path) -> CharacterConfig:
    """Return the settings in the file at `path`; all defaults if it does not exist.

    Raises:
        ConfigError: The file is unreadable or not valid TOML, or a key or value is invalid.
    """
    return load_settings(path, CharacterConfig)


def load_settings(path: Path, root: type[T]) -> T:
    """Return the settings of kind `root` in the file at `path`, as `load_config` does.

    Raises:
        ConfigError: As `load_config`.
    """
    return load_written(path, root).settings


def load_written(path: Path, root: type[T]) -> FileSettings[T]:
    """Return the settings in the file at `path`, and which of them it sets.

    Raises:
        ConfigError: As `load_config`.
    """
    settings: FileSettings[T] = _load_text(read_text(path), path, root)  # type: ignore[arg-type]
    return settings


@lru_cache(maxsize=256)
def _load_text(text: str, path: Path, root: type[T]) -> FileSettings[T]:
    tables = parse(text, path)
    config, problems = build_settings(tables, root)
    if not problems:
        return FileSettings(config, tables)
    raise _config_error(path, text, problems)


def build_settings(data: dict[str, Any], root: type[T]) -> tuple[T, list[ConfigProblem]]:
    """Build settings from `data`, and list its errors; invalid values are left out."""
    problems: list[ConfigProblem] = []
    values = _section_values(root, data, (), problems)
    return root(**values), [_with_hint(problem, root) for problem in problems]


def _section_values(
    section: type[Any], data: dict[str, Any], at: tuple[str, ...], problems: list[ConfigProblem]
) -> dict[str, Any]:
    known = {entry.name: entry for entry in _written_fields(section)}
    problems += [_unknown_setting((*at, name), data[name]) for name in data if name not in known]
    given: dict[str, Any] = {}
    for name, entry in known.items():
        if name not in data:
            continue
        if entry.default is not MISSING:
            _add_scalar(entry, data[name], (*at, name), given, problems)
        elif not isinstance(data[name], dict):
            problems.append(ConfigProblem((*at, name), "is a table, written as [" + name + "]"))
        elif "each" in entry.metadata:
            given[name] = _named_tables(entry, data[name], (*at, name), given, problems)
        else:
            factory: Any = entry.default_factory
            given[name] = factory(**_section_values(factory, data[name], (*at, name), problems))
    return given


def _add_scalar(
    entry: Field[Any],
    value: object,
    at: tuple[str, ...],
    given: dict[str, Any],
    problems: list[ConfigProblem],
) -> None:
    setting = setting_of(entry, "".join(f"{part}." for part in at[:-1]))
    value = switched(setting, value)
    complaint = value_problem(setting, value)
    if complaint is None:
        kind = type(setting.default)
        given[entry.name] = kind(value) if kind in {float, tuple} else value  # type: ignore[arg-type]
        return
    example = setting.choices[0] if setting.choices else "VALUE"
    hint = f"Fix it: `familiar config set {setting.key} {example}`, or `unset` it for the default."
    problems.append(ConfigProblem(at, complaint, hint))


def _named_tables(
    entry: Field[Any],
    data: dict[str, Any],
    at: tuple[str, ...],
    parent: dict[str, Any],
    problems: list[ConfigProblem],
) -> dict[str, Any]:
    """Build the named tables of one kind; each inherits unset values from `parent`, if any."""
    names, kind = entry.metadata["names"], entry.metadata["each"]
    made = {}
    for name, table in data.items():
        if not names and not is_name(name):
            what = "is not a valid name: use up to 60 letters a-z, digits, '_' and '-'"
            problems.append(ConfigProblem((*at, name), what))
        elif names and name not in names:
            guess = nearest(name, names) or ", ".join(names)
            problems.append(ConfigProblem((*at, name), f"is unknown; did you mean {guess!r}?"))
        elif not isinstance(table, dict):
            problems.append(
                ConfigProblem((*at, name), f"is a table, written as [{'.'.join(at)}.{name}]")
            )
        else:
            own = _section_values(kind, table, (*at, name), problems)
            inherits = entry.metadata.get("inherits", True)
            inherited = _inherit_values(kind, own, parent) if inherits else {}
            if any(entry.name == "written" for entry in fields(kind)):
                inherited["written"] = frozenset(own)
            made[name] = kind(**inherited, **own)
    return made


def _inherit_values(kind: type[Any], own: dict[str, Any], parent: dict[str, Any]) -> dict[str, Any]:
    names = {entry.name for entry in _written_fields(kind)} - own.keys()
    if own.get("preset", parent.get("preset")) != parent.get("preset"):
        names -= set(OF_PRESET)
    return {name: value for name, value in parent.items() if name in names}


def _unknown_setting(at: tuple[str, ...], value: object) -> ConfigProblem:
    # The value is never quoted: it may be an API key under a user-defined name.
    what = _UNKNOWN_TABLE if isinstance(value, dict) else _UNKNOWN_SETTING
    hint = HINT
    if at[-1] in {"api_key", "key", "token"}:
        hint = (
            "Keep keys out of this file: put the key in an environment variable and run "
            "`familiar config set llm.api_key_env NAME`."
        )
    return ConfigProblem(at, what, hint)


def _with_hint(problem: ConfigProblem, root: type[Any]) -> ConfigProblem:
    """Add a guess at an unknown key, and the hint that fits the kind of file."""
    if root is not CharacterConfig and "environment variable" not in problem.hint:
        problem = replace(problem, hint="Correct the line in that file, or remove it.")
    if problem.message not in {_UNKNOWN_TABLE, _UNKNOWN_SETTING}:
        return problem
    return replace(problem, message=problem.message + did_you_mean(".".join(problem.key), root))


def _config_error(path: Path, text: str, problems: list[ConfigProblem]) -> ConfigError:
    first = problems[0]
    line = line_of(text, first.key)
    where = f"{str(path)!r}, line {line}" if line else repr(str(path))
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    message = f"{where}: {'.'.join(first.key)!r} {first.message}{more}"
    return ConfigError(message, hint=first.hint)


_SLOTS = "llm.slots."


class Effective(Struct, frozen=True):
    """The effective value of a setting.

    Args:
        value: The effective value; a password in an address is left out.
        source: `default`, `file`, `[llm]` (inherited by a slot), or the name of the environment
            variable that overrides it.
        effective: Resolved value if `value` depends on the mode, the model or the machine; None for
            `value` itself.
        effective_source: What decides it.
    """

    setting: Setting
    value: Value
    source: str
    effective: Value | None = None
    effective_source: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return everything about the setting as plain values."""
        return {
            "key": self.setting.key,
            "value": self.value,
            "source": self.source,
            "effective": self.value if self.effective is None else self.effective,
            "effective_source": self.effective_source or self.source,
            "default": self.setting.default,
            "allowed": self.setting.allowed,
            "meaning": self.setting.doc,
        }


def effective_settings(path: Path) -> list[Effective]:
    """Return the effective value of every setting, including slots in the file.

    Raises:
        ConfigError: The file is invalid.
    """
    file = load_written(path, CharacterConfig)
    given = [s for s in all_settings().values() if _is_effective(s.key, file.settings)]
    return [
        _effective_value(s, file)
        for setting in given
        for s in _settings_by_name(setting, file.settings)
    ]


def effective_value(path: Path, key: str) -> Effective:
    """Return the effective value of the setting `key`.

    Raises:
        ConfigError: No such setting, or the file is invalid.
    """
    setting = find_setting(key)
    file = load_written(path, CharacterConfig)
    if not _is_effective(key, file.settings):  # an unset slot uses the main model
        main = effective_value(path, f"llm.{key.rpartition('.')[2]}")
        return Effective(setting, main.value, "[llm]")
    try:
        return _effective_value(setting, file)
    except KeyError:  # an absent table has its defaults
        return Effective(setting, setting.default, "default")


def _settings_by_name(setting: Setting, config: CharacterConfig) -> list[Setting]:
    """Return the setting, or one per user-defined table name."""
    table, match, leaf = setting.key.partition(f".{ANY_NAME}.")
    if not match:
        return [setting]
    names = value_at(config, table)
    return [replace(setting, key=f"{table}.{name}.{leaf}") for name in names]


def _is_effective(key: str, config: CharacterConfig) -> bool:
    return not key.startswith(_SLOTS) or key.split(".")[2] in config.llm.slots


def _effective_value(setting: Setting, file: FileSettings[CharacterConfig]) -> Effective:
    override = os.environ.get(setting.env) if setting.env else None
    if override:
        return Effective(setting, shown_value(setting, override), setting.env)
    value = value_at(file.settings, setting.key)
    if setting.rule == "url":
        value = shown_value(setting, value)
    if is_written(file.tables, setting.key):
        return Effective(setting, value, "file")
    taken = setting.key.startswith(_SLOTS) and value != setting.default
    return Effective(setting, value, "[llm]" if taken else "default")


def value_at(settings: Any, key: str) -> Any:  # noqa: ANN401
    """Return the value or table at a dotted key of settings."""
    return reduce(_attribute_or_key, key.split("."), settings)


def _attribute_or_key(value: Any, name: str) -> Any:  # noqa: ANN401
    return value[name] if isinstance(value, dict) else getattr(value, name)


def is_written(data: Any, key: str) -> bool:  # noqa: ANN401
    """Tell whether a file's tables contain a dotted key."""
    for part in key.split("."):
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return True
