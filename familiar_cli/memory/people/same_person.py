"""One person with several accounts: a file that says whose other account it is.

Only a person says so, with `familiar people merge`. `people/twitch-9.md` then holds little more
than `<!-- same person as discord-42 -->`; what concerns twitch-9 is read and written there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from familiar_cli.errors import FamiliarError
from familiar_cli.languages import ENGLISH
from familiar_cli.memory.layout import people_path

if TYPE_CHECKING:
    from familiar_cli.languages import Phrases
    from familiar_cli.memory.store.store import MemoryStore

_SAME: Final = re.compile(r"<!-- same person as ([^\s<>]{1,255}) -->")


def same_as(text: str) -> str | None:
    """Return the slug of the person whose other account a file is about, or None."""
    found = _SAME.search(text)
    return found[1] if found else None


def stub(
    title: str, slug: str, name: str, aliases: tuple[str, ...], phrases: Phrases = ENGLISH
) -> str:
    """Return the file of an account that belongs to somebody else's file."""
    listed = "".join(f"- {alias}\n" for alias in aliases)
    names = f"\n{phrases.heading('aliases')}\n\n{listed}" if listed else ""
    link = f"[{name}]({quote(slug + '.md')})"
    said = phrases.same_person.format(link)
    return f"# {title}\n\n{said} <!-- same person as {slug} -->\n{names}"


def main_slug(store: MemoryStore, slug: str) -> str:
    """Return whose file holds what is known of `slug`: their own, or the one it was merged into.

    A file that cannot be read is its own.
    """
    try:
        rel_path = people_path(slug)
        text = store.read_file(rel_path) if store.exists(rel_path) else ""
    except FamiliarError:
        return slug
    return same_as(text) or slug
