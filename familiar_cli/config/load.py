"""Read `character.toml` into a `CharacterConfig`, or say exactly what is wrong with it."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from familiar_cli.config.fields import OF_PRESET, switched, wrong
from familiar_cli.config.schema import CharacterConfig
from familiar_cli.config.settings import did_you_mean, is_name, setting_of
from familiar_cli.config.toml_text import HINT, line_of, parse, read_text
from familiar_cli.errors import ConfigError
from familiar_cli.text import nearest

if TYPE_CHECKING:
    from dataclasses import Field
    from pathlib import Path

T = TypeVar("T")
_UNKNOWN_TABLE = "is not a known table"
_UNKNOWN_SETTING = "is not a known setting"


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing wrong in the file: at which key, and what."""

    key: tuple[str, ...]
    message: str
    hint: str = HINT


@dataclass(frozen=True, slots=True)
class FileSettings(Generic[T]):
    """Settings, and the tables of the file as they stand there: what is not in them is default."""

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
        self._looks.setdefault(path, _look(path))

    @property
    def have_changed(self) -> bool:
        """Whether a file that was read has since been changed, created or removed."""
        return any(_look(path) != look for path, look in self._looks.items())


def _look(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def load_config(path: Path) -> CharacterConfig:
    """Return the settings in the file at `path`; all defaults when there is no such file.

    Raises:
        ConfigError: The file is unreadable or no TOML, or a key or value in it is wrong.
    """
    return load_settings(path, CharacterConfig)


def load_settings(path: Path, root: type[T]) -> T:
    """Return the settings of kind `root` in the file at `path`, as `load_config` does.

    Raises:
        ConfigError: As `load_config`.
    """
    return load_written(path, root).settings


def load_written(path: Path, root: type[T]) -> FileSettings[T]:
    """Return the settings of kind `root` in the file at `path`, and what of them it sets.

    Raises:
        ConfigError: As `load_config`.
    """
    text = read_text(path)
    tables = parse(text, path)
    config, problems = build(tables, root)
    if not problems:
        return FileSettings(config, tables)
    raise _error(path, text, problems)


def build(data: dict[str, Any], root: type[T]) -> tuple[T, list[ConfigProblem]]:
    """Return the settings that `data` gives, and what is wrong in it; wrong values are left out."""
    problems: list[ConfigProblem] = []
    values = _values(root, data, (), problems)
    return root(**values), [_with_guess(problem, root) for problem in problems]


def _values(
    section: type[Any], data: dict[str, Any], at: tuple[str, ...], problems: list[ConfigProblem]
) -> dict[str, Any]:
    known = {entry.name: entry for entry in fields(section)}
    problems += [_unknown((*at, name), data[name]) for name in data if name not in known]
    given: dict[str, Any] = {}
    for name, entry in known.items():
        if name not in data:
            continue
        if entry.default is not MISSING:
            _add_scalar(entry, data[name], (*at, name), given, problems)
        elif not isinstance(data[name], dict):
            problems.append(ConfigProblem((*at, name), "is a table, written as [" + name + "]"))
        elif "each" in entry.metadata:
            given[name] = _each(entry, data[name], (*at, name), given, problems)
        else:
            factory: Any = entry.default_factory
            given[name] = factory(**_values(factory, data[name], (*at, name), problems))
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
    complaint = wrong(setting, value)
    if complaint is None:
        kind = type(setting.default)
        given[entry.name] = kind(value) if kind in {float, tuple} else value  # type: ignore[arg-type]
        return
    example = setting.choices[0] if setting.choices else "VALUE"
    hint = f"Fix it: `familiar config set {setting.key} {example}`, or `unset` it for the default."
    problems.append(ConfigProblem(at, complaint, hint))


def _each(
    entry: Field[Any],
    data: dict[str, Any],
    at: tuple[str, ...],
    parent: dict[str, Any],
    problems: list[ConfigProblem],
) -> dict[str, Any]:
    """Return the named tables of one kind; each takes from `parent` what it does not set."""
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
            own = _values(kind, table, (*at, name), problems)
            made[name] = kind(**_inherited(kind, own, parent), **own)
    return made


def _inherited(kind: type[Any], own: dict[str, Any], parent: dict[str, Any]) -> dict[str, Any]:
    names = {entry.name for entry in fields(kind)} - own.keys()
    if own.get("preset", parent.get("preset")) != parent.get("preset"):
        names -= set(OF_PRESET)
    return {name: value for name, value in parent.items() if name in names}


def _unknown(at: tuple[str, ...], value: object) -> ConfigProblem:
    # The value is never quoted: it may be an API key under a name of the user's own.
    what = _UNKNOWN_TABLE if isinstance(value, dict) else _UNKNOWN_SETTING
    hint = HINT
    if at[-1] in {"api_key", "key", "token"}:
        hint = (
            "Keep keys out of this file: put the key in an environment variable and run "
            "`familiar config set llm.api_key_env NAME`."
        )
    return ConfigProblem(at, what, hint)


def _with_guess(problem: ConfigProblem, root: type[Any]) -> ConfigProblem:
    if problem.message not in {_UNKNOWN_TABLE, _UNKNOWN_SETTING}:
        return problem
    return replace(problem, message=problem.message + did_you_mean(".".join(problem.key), root))


def _error(path: Path, text: str, problems: list[ConfigProblem]) -> ConfigError:
    first = problems[0]
    line = line_of(text, first.key)
    where = f"{str(path)!r}, line {line}" if line else repr(str(path))
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    message = f"{where}: {'.'.join(first.key)!r} {first.message}{more}"
    return ConfigError(message, hint=first.hint)
