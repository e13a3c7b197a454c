"""How much of a settings file is read: more than anyone writes, and soon done."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

MAX_CONFIG_BYTES: Final = 1024 * 1024
MAX_KEY_PARTS: Final = 100  # the parser's time grows with the square of them

# Possessive repeats, so that the search itself is soon done.
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w.-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MAX_KEY_PARTS}}}")


def check_bounds(text: str, path: Path) -> None:
    """Refuse a text that would keep a TOML parser busy.

    Raises:
        ConfigError: It is larger than `MAX_CONFIG_BYTES`, or has a key of too many parts.
    """
    if len(text) > MAX_CONFIG_BYTES:
        what = f"is larger than {MAX_CONFIG_BYTES:,} bytes"
    elif _LONG_KEY.search(text):
        what = f"has a key of more than {MAX_KEY_PARTS} parts"
    else:
        return
    raise ConfigError(f"{str(path)!r} {what}; it was not read", hint="Look at it in an editor.")
