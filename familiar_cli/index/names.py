"""What a text names: the titles of people and topics, the titles and keys of lore, aliases."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli import fts
from familiar_cli.memory.layout import LORE_DIR
from familiar_cli.sqlite import rows_among

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

_NAME_WORDS: Final = 4
_ASKED_WORDS: Final = 300  # of a long message the first ones are looked up as names
_MOST_NAMES: Final = 100  # of one file


def names_of(rel_path: str, title: str, text: str) -> set[str]:
    """Return by which names a text may mean a file: words in lower case, with spaces between."""
    from familiar_cli.memory.pages import lore_page  # noqa: PLC0415  # asking needs none of these
    from familiar_cli.memory.pages.links import NAMED_DIRS  # noqa: PLC0415
    from familiar_cli.memory.pages.listed_aliases import listed_aliases  # noqa: PLC0415

    top, _, below = rel_path.partition("/")
    if not below or top not in (*NAMED_DIRS, LORE_DIR):
        return set()
    told = [title, re.sub(r"\([^)]*\)", "", title), *listed_aliases(text)]
    if top == LORE_DIR:
        told += (key for key in lore_page.parse(text).keys if not lore_page.is_expression(key))
    return {name for one in told[:_MOST_NAMES] if (name := " ".join(fts.words(one)))}


def named_in(connection: sqlite3.Connection, text: str) -> dict[int, int]:
    """Return the documents that a text names, as whole words, and at which word they are named."""
    asked = fts.words(text)[:_ASKED_WORDS]
    telling = set(fts.content_words(text))
    grams: dict[str, int] = {}
    for start in range(len(asked)):
        for count in range(1, _NAME_WORDS + 1):
            if telling.intersection(asked[start : start + count]):
                grams.setdefault(" ".join(asked[start : start + count]), start)
    found: dict[int, int] = {}
    select = "SELECT name, document_id FROM names WHERE name IN"
    for name, document in (*rows_among(connection, select, grams), *_unspaced(connection, asked)):
        place = grams.get(name, next((n for n, word in enumerate(asked) if name in word), 0))
        found[document] = min(place, found.get(document, place))
    return found


def _unspaced(connection: sqlite3.Connection, asked: list[str]) -> Iterator[tuple[str, int]]:
    """Yield the names within words of scripts that are written without spaces."""
    for word in asked:
        if fts.is_unspaced(word):
            sql = "SELECT name, document_id FROM names WHERE length(name) > 1 AND instr(?, name)"
            yield from connection.execute(sql, (word,))
