"""Declarations of settings, and validation of their values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from datetime import date, datetime, time
from typing import Any, ClassVar, Final, TypeVar, dataclass_transform
from urllib.parse import urlsplit

from msgspec import Struct

from familiar_cli.base.errors import UsageError
from familiar_cli.base.text import MOST_NUMBER, is_visible, slugify, without_secrets

ON_OFF = ("on", "off")
_MOST_NAME_CHARS = 200
_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number", tuple: "a list of texts"}


Value = str | int | float | tuple[str, ...]


T = TypeVar("T")


def setting(
    default: Any,  # noqa: ANN401
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    rule: str = "",
    env: str = "",
) -> Any:  # noqa: ANN401
    """Declare a dataclass field as a setting with its default and description.

    Its metadata holds `doc`, and `choices`, `minimum`, `maximum`, `rule` (one of `_RULES`) or `env`
    (the variable that overrides it) where they apply.
    """
    about = {"doc": doc, "choices": choices, "minimum": minimum, "rule": rule, "env": env}
    return field(default=default, metadata={**about, "maximum": maximum})


@dataclass_transform(frozen_default=True)
class SettingsTable:
    """A table of settings: a frozen dataclass whose methods are shared, which is quicker to define.

    Args:
        given: Its settings and tables in order; others have their defaults.
        values: The same by name.
    """

    _defaults: ClassVar[dict[str, object]]
    _factories: ClassVar[dict[str, Callable[[], object]]]

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False, match_args=False)(cls)
        made = {f.name: f.default_factory for f in fields(cls) if f.default is MISSING}  # type: ignore[arg-type]
        tables = {name: factory() for name, factory in made.items() if _is_table(factory)}  # type: ignore[operator]
        cls._factories = {n: f for n, f in made.items() if n not in tables}  # type: ignore[misc]
        cls._defaults = {f.name: tables.get(f.name, f.default) for f in fields(cls)}  # type: ignore[arg-type]

    def __init__(self, *given: object, **values: object) -> None:
        usual = self._defaults
        if len(given) > len(usual) or values.keys() - usual.keys():
            raise TypeError(f"{type(self).__name__} takes {', '.join(usual)}")
        made = {name: factory() for name, factory in self._factories.items()}
        self.__dict__.update(usual | made | dict(zip(usual, given, strict=False)) | values)

    def __setattr__(self, name: str, _: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    def __repr__(self) -> str:
        text = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({text})"


def _is_table(factory: object) -> bool:
    """Tell whether a factory makes a table, which is immutable and can be shared."""
    return isinstance(factory, type) and issubclass(factory, SettingsTable)


_SWITCHES: Final = {True: "on", False: "off", "true": "on", "false": "off"}


def switched(setting: Setting, value: T) -> T | str:
    """Convert true or false to `on` or `off` where a setting takes these; keep other values."""
    is_switch = set(ON_OFF) <= set(setting.choices) and isinstance(value, bool | str)
    return _SWITCHES.get(value, value) if is_switch else value


def value_problem(setting: Setting, value: object) -> str | None:
    """Describe why `value` is invalid for `setting`, or return None.

    A value that may hold a secret is never quoted.
    """
    if isinstance(value, int | float) and value > MOST_NUMBER:  # first: it may be too long to print
        return f"is too large: at most {setting.maximum or MOST_NUMBER:,}"
    if not _is_of_type(setting, value):
        return f"is {describe_value(value)}, but must be {setting.allowed}"
    is_of_hub = setting.rule == "hub_name" and is_hub_name(str(value))
    if setting.choices and value not in setting.choices and not is_of_hub:
        return f"is {value!r}, but must be {setting.allowed}"
    if isinstance(value, int | float) and not _is_within(setting, value):
        return f"is {value!r}, but must be {setting.allowed}"
    if setting.choices or not setting.rule or value == "":
        return None
    return _RULES[setting.rule](value)


def _is_within(setting: Setting, value: float) -> bool:
    below = setting.minimum is not None and value < setting.minimum
    return not below and (setting.maximum is None or value <= setting.maximum)


def shown_value(setting: Setting, value: object) -> str:
    """Return `value` for display: an address without possible keys."""
    return without_secrets(str(value)) if setting.rule == "url" else str(value)


def _is_of_type(setting: Setting, value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(setting.default, float):
        return isinstance(value, int | float) and math.isfinite(value)
    if isinstance(setting.default, tuple):
        return isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)
    return isinstance(value, type(setting.default))


def describe_value(value: object) -> str:
    """Describe a value of a settings file by its kind, or a number by itself."""
    kinds = {bool: "true or false", dict: "a table", list: "a list", str: "text"}
    kinds |= dict.fromkeys((datetime, date, time), "a time without quotes")
    return kinds.get(type(value), repr(value))


def _url_problem(value: Any) -> str | None:  # noqa: ANN401
    try:
        parts = urlsplit(value)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return "is not a valid address; expected e.g. http://127.0.0.1:8080/v1"
    if not good:
        return "is not a valid address; expected e.g. http://127.0.0.1:8080/v1"
    # The address is shown in traces and errors, so a password in it would be, too; not quoted here.
    return "must not contain a user or password" if "@" in parts.netloc else None


def _variable_problem(value: Any) -> str | None:  # noqa: ANN401
    # The value is not quoted: people put the key itself here.
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        return None
    return "must be the name of an environment variable such as OPENAI_API_KEY, not the key itself"


def _timezone_problem(value: Any) -> str | None:  # noqa: ANN401
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # only who sets one pays for it

    try:
        ZoneInfo(value)
    except (ValueError, OSError, KeyError):
        return f"is {value!r}, which is not a valid time zone; expected e.g. Europe/Oslo"
    return None


def _slug_problem(value: Any) -> str | None:  # noqa: ANN401
    if slugify(value) == value:
        return None
    return f"is {value!r}, but must be lower-case letters and digits, separated by '-'"


def _schedule_problem(value: Any) -> str | None:  # noqa: ANN401
    from familiar_cli.base.times.recurrence import parse_recurrence  # noqa: PLC0415  # as above

    rule = parse_recurrence(value)
    if rule is not None and rule.hour is not None:
        return None
    return f"is {value!r}, but must look like `daily 03:00` or `weekly sun 03:30`"


def _accounts_problem(value: Any) -> str | None:  # noqa: ANN401
    from familiar_cli.base.who.identity import parse_author  # noqa: PLC0415  # only who sets one pays

    try:
        for account in value:
            parse_author(account)
    except UsageError as error:
        return f"holds {account!r}, but {error}"
    return None


def is_hub_name(value: str) -> bool:
    """Tell whether a text has the form `owner/name` of the model hub."""
    return re.fullmatch(r"(?a)[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", value) is not None


def _hub_name_problem(value: object) -> str | None:
    """Describe an invalid value for a setting that allows `owner/name` or one of the choices."""
    return None if is_hub_name(str(value)) else "is not a name on the model hub"


def _embedder_problem(value: object) -> str | None:
    """Describe an invalid name of an embedding model, here, on the hub or at a server."""
    name = str(value)
    if name.isprintable() and name == name.strip() and len(name) <= _MOST_NAME_CHARS:
        return None
    return "must be the name of a model"


def _name_problem(value: Any) -> str | None:  # noqa: ANN401
    return None if is_visible(value) else f"is {value!r}, which has no visible characters"


_RULES = {
    "embedder": _embedder_problem,
    "hub_name": _hub_name_problem,
    "name": _name_problem,
    "accounts": _accounts_problem,
    "schedule": _schedule_problem,
    "slug": _slug_problem,
    "url": _url_problem,
    "variable": _variable_problem,
    "timezone": _timezone_problem,
}


class Setting(Struct, frozen=True):
    """One setting.

    Args:
        key: Its dotted name, e.g. `llm.preset`.
        default: Default value, which also determines the type.
        doc: Description in one line.
        choices: Allowed values, if limited.
        minimum: Minimum, if any.
        maximum: Maximum, if any.
        rule: Name of a further rule, one of `_RULES`.
        env: The environment variable that overrides it, or an empty string.
    """

    key: str
    default: Value
    doc: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    rule: str = ""
    env: str = ""
    maximum: float | None = None

    @property
    def section(self) -> str:
        """Dotted name of its table; empty at the top level."""
        return self.key.rpartition(".")[0]

    @property
    def allowed(self) -> str:
        """Description of the allowed values."""
        if self.choices:
            or_hub = ", or `owner/name` of the model hub" if self.rule == "hub_name" else ""
            return "one of " + ", ".join(self.choices) + or_hub
        words = _TYPE_NAMES[type(self.default)]
        if self.minimum is None:
            return words
        if self.maximum is not None:
            return f"{words} from {self.minimum:g} to {self.maximum:g}"
        return f"{words}, at least {self.minimum:g}"
