"""What a heading or a label says, in whatever language it was written."""

from __future__ import annotations

from functools import cache
from typing import Final

from familiar_cli.folding import fold_letters
from familiar_cli.languages import ENGLISH, tables

_AROUND: Final = " \t:：*_"


def section_key(title: str) -> str:
    """Return what is equal for two titles of one section: `Facts`, `fakten:`, `**Datos**`."""
    key = _folded(title)
    return key if key in ENGLISH.headings else _kinds().get(key, key)


def heading_in(title: str) -> str:
    """Return what the section with that title holds, e.g. `aliases`; empty: it is no usual one."""
    key = section_key(title)
    return key if key in ENGLISH.headings else ""


@cache
def leads(field: str) -> tuple[str, ...]:
    """Return what a label begins with in each language, folded; `field` is one of a table."""
    return tuple(_folded(getattr(table, field).partition("{}")[0]) for table in tables())


def begins_with(text: str, field: str) -> bool:
    """Return whether a text begins as a label of any language does."""
    return _folded(text).startswith(leads(field))


@cache
def _kinds() -> dict[str, str]:
    return {_folded(title): kind for table in tables() for kind, title in table.headings.items()}


def _folded(title: str) -> str:
    return fold_letters(title).strip(_AROUND)
