"""What messengers write themselves, under a person's name or about somebody: nobody's words."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from typing import Final

from familiar_cli.base.text import bare_lines

_MARK: Final = "\u200e"
_PLACEHOLDER: Final = re.compile(r"<(?!attached\b)[^<>:]{3,80}>")
_ATTACHED: Final = re.compile(r"<[^<>]{1,40}:[^<>]{1,200}>")
_EDIT_MARK: Final = re.compile(r"\s(\u200e?)<([^<>:]{5,60})>$")


@cache
def _table() -> dict[str, list[str]]:
    text = (resources.files(__package__) / "notices.toml").read_text("utf-8")
    return {
        name: [part for line in bare_lines(lines.strip()) for part in line.split("|")]
        for name, lines in tomllib.loads(text).items()
    }


@cache
def _texts() -> frozenset[str]:
    return frozenset(_table()["texts"])


@cache
def _edits() -> frozenset[str]:
    return frozenset(_table()["edits"])


@cache
def _starts() -> tuple[str, ...]:
    return tuple(_table()["starts"])


@cache
def _deeds() -> re.Pattern[str]:
    return re.compile(rf"\S.{{0,60}}? (?:{'|'.join(_table()['deeds'])})(?:\W|$)", re.IGNORECASE)


def is_notice(text: str) -> bool:
    """Tell whether a message's text is the messenger's own: by its mark, else by its wording."""
    if text.lstrip(" ").startswith(_MARK):
        return not _ATTACHED.match(text.lstrip(f" {_MARK}"))
    plain = text.replace(_MARK, "").strip()
    if _PLACEHOLDER.fullmatch(plain):
        return True
    low = plain.casefold()
    return low.rstrip(".。") in _texts() or low.startswith(_starts())


def is_about_somebody(name: str) -> bool:
    """Tell whether a text before a colon is a sentence about a member of a group, not a name."""
    return bool(_deeds().match(name))


def without_edit_mark(text: str) -> str:
    """Return a text without the remark that it was edited, which the messenger added."""
    found = _EDIT_MARK.search(text)
    if not found or not (found[1] or found[2].casefold().rstrip(".。") in _edits()):
        return text
    return text[: found.start()]
