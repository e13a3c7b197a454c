"""The names that the front matter of a page lists, as Obsidian and others write them."""

from __future__ import annotations

from familiar_cli.memory.pages.front_matter import value_of


def listed_aliases(markdown: str) -> tuple[str, ...]:
    """Return the names below `aliases:` in the front matter, in one line or in a list."""
    found = value_of(markdown, "aliases")
    if isinstance(found, str):
        found = found.strip("[]").split(",")
    names = (name.strip(" \t\"'") for name in found or () if isinstance(name, str))
    return tuple(name for name in names if name)
