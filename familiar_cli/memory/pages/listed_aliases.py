"""The names that the front matter of a page lists, as Obsidian and others write them."""

from __future__ import annotations

import re
from typing import Final

from familiar_cli.markdown import split_front_matter

_LISTED: Final = re.compile(r"^aliases:[ \t]*(.*(?:\n[ \t]*-[^\n]*)*)", re.MULTILINE)


def listed_aliases(markdown: str) -> tuple[str, ...]:
    """Return the names below `aliases:` in the front matter, in one line or in a list."""
    front, _ = split_front_matter(markdown)
    found = _LISTED.search(front) if front else None
    if not found:
        return ()
    items = re.split(r"[,\n]", found[1].strip("[] \t"))
    names = (item.strip(" \t[]\"'").removeprefix("- ").strip(" \"'") for item in items)
    return tuple(name for name in names if name)
