"""Which files embodiments share, and what they call them: identity by category, memory by date."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.layout import (
    DAILY_DIR,
    MONTHLY_DIR,
    SELF_DIR,
    SIGNIFICANT_DIR,
    WEEKLY_DIR,
    YEARLY_DIR,
)
from familiar_cli.memory.pages.front_matter import value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

CATEGORIES: Final = (SELF_DIR, "user", "relationship", "custom")
_DAY: Final = r"\d{4}-\d{2}-\d{2}"
_FORMS: Final = {
    DAILY_DIR: re.compile(rf"({_DAY})(?:_(.+))?", re.ASCII),
    WEEKLY_DIR: re.compile(r"(\d{4}-W\d{2})()", re.ASCII),
    MONTHLY_DIR: re.compile(r"(\d{4}-\d{2})()", re.ASCII),
    YEARLY_DIR: re.compile(r"(\d{4})()", re.ASCII),
    SIGNIFICANT_DIR: re.compile(rf"({_DAY})_(.+)", re.ASCII),
}
_NAME: Final = re.compile(r"[^./_][^/]*\.md")


@dataclass(frozen=True, slots=True)
class SharedFile:
    """What a file is to an embodiment: a file of its identity, or a memory.

    Args:
        rel_path: Where it is here.
        category: Of identity; empty: it is a memory.
        filename: Of identity.
        granularity: Of a memory.
        date: Of a memory, e.g. `2026-W05`.
        instance: Of a daily memory: whose it is.
        slug: Of a significant one: what it is called.
    """

    rel_path: str
    category: str = ""
    filename: str = ""
    granularity: str = ""
    date: str = ""
    instance: str = ""
    slug: str = ""


def shared_file(rel_path: str) -> SharedFile | None:
    """Return a file's kind for embodiments, or None if they do not share it."""
    directory, _, name = rel_path.partition("/")
    if not _NAME.fullmatch(name):
        return None
    if directory in CATEGORIES:
        return SharedFile(rel_path, category=directory, filename=name)
    found = _FORMS[directory].fullmatch(name[: -len(".md")]) if directory in _FORMS else None
    if found is None or not _is_date(directory, found[1]):
        return None
    rest = found[2] or ""
    instance, slug = (rest, "") if directory == DAILY_DIR else ("", rest)
    return SharedFile(rel_path, granularity=directory, date=found[1], instance=instance, slug=slug)


def is_shared(rel_path: str) -> bool:
    """Tell whether embodiments have a part in a file."""
    return shared_file(rel_path) is not None


def source_of(file: SharedFile, text: str) -> str:
    """Return which instance a memory is from; empty: nothing says."""
    told = value_of(text, "instance")
    return file.instance or (told if isinstance(told, str) else "")


def participating_in(text: str) -> Sequence[str]:
    """Return which other instances took part in a memory."""
    told = value_of(text, "participating")
    return [str(one) for one in told] if isinstance(told, list) else []


def _is_date(granularity: str, text: str) -> bool:
    missing = {WEEKLY_DIR: "-1", MONTHLY_DIR: "-01", YEARLY_DIR: "-01-01"}.get(granularity, "")
    try:
        date.fromisoformat(text + missing)
    except ValueError:
        return False
    return True
