"""What a setting is: a field that knows its meaning and its bounds, and whether a value fits it.

Its metadata holds `doc`, and `choices`, `minimum`, `maximum`, `rule` (one of `_RULES`) or `env`
(the variable that overrides it) where they apply.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from familiar_cli.errors import UsageError
from familiar_cli.languages import CODES

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
    """Return a field that is a setting, with its default and its meaning."""
    about = {"doc": doc, "choices": choices, "minimum": minimum, "rule": rule, "env": env}
    return field(default=default, metadata={**about, "maximum": maximum})


# The words that settings may be set to, and the names of slots.
PRESETS = ("local", "openrouter", "openai", "ollama", "lmstudio", "llamacpp", "custom")
SLOTS = (
    "main",
    "history_summary",
    "memory_writer",
    "content_filter",
    "stepped_thinking",
    "recast",
    "consolidation",
)
EMBEDDERS = ("auto", "none", "bge-small-en-v1.5", "bge-base-en-v1.5", "minilm-l6-v2")
ROLES = ("system", "user", "assistant")
NOTE_PLACES = ("depth", "scenario")
SWITCH = ("auto", "on", "off")
TIME_PLACES = ("chat", "start")
FRAMES = ("auto", "short", "full")
LANGUAGES = ("auto", *CODES)
ON_OFF = ("on", "off")
PRIVACY = ("private", "share")
# What a slot with a preset of its own must not take from `[llm]`: a key or an address meant for one
# server never reaches another.
OF_PRESET = ("base_url", "model", "api_key_env", "context_tokens", "max_tokens")

TIERS: Final = (1, 2, 3, 4)
DEFAULT_TIER: Final = 2
"""The usual one: a whole character, who takes part, and digests of what was."""

ANY_NAME = "NAME"
"""Stands in a dotted key for the name that a person gives a table."""


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


_SWITCHES: Final = {True: "on", False: "off", "true": "on", "false": "off"}


def switched(setting: Setting, value: T) -> T | str:
    """Convert true or false to `on` or `off` where a setting takes these; keep other values."""
    is_switch = set(ON_OFF) <= set(setting.choices) and isinstance(value, bool | str)
    return _SWITCHES.get(value, value) if is_switch else value


def wrong(setting: Setting, value: object) -> str | None:
    """Return what is wrong with `value` for `setting`, in words, or None.

    A value that may hold a secret is never quoted.
    """
    if not _fits(setting, value):
        return f"is {_named(value)}, but must be {setting.allowed}"
    if setting.choices and value not in setting.choices:
        return f"is {value!r}, but must be {setting.allowed}"
    if isinstance(value, int | float) and not _within(setting, value):
        return f"is {value!r}, but must be {setting.allowed}"
    return _RULES[setting.rule](value) if setting.rule and value != "" else None


def _within(setting: Setting, value: float) -> bool:
    below = setting.minimum is not None and value < setting.minimum
    return not below and (setting.maximum is None or value <= setting.maximum)


def shown(setting: Setting, value: object) -> str:
    """Return `value` as it may be shown: an address without what may be a key."""
    return without_secrets(str(value)) if setting.rule == "url" else str(value)


def without_secrets(address: str) -> str:
    """Return an address, or what should be one, without its user, password, query and fragment."""
    address = re.sub(r"([?#]).*", r"\1***", address, flags=re.DOTALL)
    return re.sub(r"^([\w+.-]*://)?.*@", r"\1***@", address, flags=re.DOTALL)


def _fits(setting: Setting, value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(setting.default, float):
        return isinstance(value, int | float) and math.isfinite(value)
    if isinstance(setting.default, tuple):
        return isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)
    return isinstance(value, type(setting.default))


def _named(value: object) -> str:
    kinds = {bool: "true or false", dict: "a table", list: "a list", str: "text"}
    return kinds.get(type(value), repr(value))


def _url(value: Any) -> str | None:  # noqa: ANN401
    try:
        parts = urlsplit(value)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return "is not a valid address; expected e.g. http://127.0.0.1:8080/v1"
    if not good:
        return "is not a valid address; expected e.g. http://127.0.0.1:8080/v1"
    # The address stands in traces and errors, so a password in it would, too; not quoted here.
    return "must not contain a user or password" if "@" in parts.netloc else None


def _variable(value: Any) -> str | None:  # noqa: ANN401
    # The value is not quoted: people put the key itself here.
    if _VARIABLE.fullmatch(value):
        return None
    return "must be the name of an environment variable such as OPENAI_API_KEY, not the key itself"


def _timezone(value: Any) -> str | None:  # noqa: ANN401
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # only who sets one pays for it

    try:
        ZoneInfo(value)
    except (ValueError, OSError, KeyError):
        return f"is {value!r}, which is not a valid time zone; expected e.g. Europe/Oslo"
    return None


def _slug(value: Any) -> str | None:  # noqa: ANN401
    from familiar_cli.text import slugify  # noqa: PLC0415  # only who sets one pays for it

    fits = slugify(value) == value
    return (
        None
        if fits
        else f"is {value!r}, but must be lower-case letters and digits, separated by '-'"
    )


def _schedule(value: Any) -> str | None:  # noqa: ANN401
    from familiar_cli.config.schedule import parse_schedule  # noqa: PLC0415  # as above

    fits = parse_schedule(value) is not None
    return None if fits else f"is {value!r}, but must look like `daily 03:00` or `weekly sun 03:30`"


def _accounts(value: Any) -> str | None:  # noqa: ANN401
    from familiar_cli.identity import parse_author  # noqa: PLC0415  # only who sets one pays

    try:
        for account in value:
            parse_author(account)
    except UsageError as error:
        return f"holds {account!r}, but {error}"
    return None


_RULES = {
    "accounts": _accounts,
    "schedule": _schedule,
    "slug": _slug,
    "url": _url,
    "variable": _variable,
    "timezone": _timezone,
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Args:
        key: Its dotted name, e.g. `llm.preset`.
        default: What holds when nobody sets it; its type is the setting's type.
        doc: What it means, in one line.
        choices: The only values allowed, if there are such.
        minimum: The least value allowed, if there is one.
        maximum: The greatest value allowed, if there is one.
        rule: The name of a further rule, see `config.fields`.
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
        """The dotted name of the table it stands in; empty at the top."""
        return self.key.rpartition(".")[0]

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        words = _TYPE_NAMES[type(self.default)]
        if self.minimum is None:
            return words
        if self.maximum is not None:
            return f"{words} from {self.minimum:g} to {self.maximum:g}"
        return f"{words}, at least {self.minimum:g}"
