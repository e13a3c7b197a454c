"""What a person wants remembered for ever: `significant/2026-04-07_first-day-at-sea.md`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import UsageError
from familiar_cli.memory.layout import SIGNIFICANT_DIR
from familiar_cli.memory.store.types import MISSING
from familiar_cli.text import one_line, slugify

if TYPE_CHECKING:
    from datetime import date

    from familiar_cli.memory.store.store import MemoryStore

_TITLE_CHARS: Final = 80
_SLUG_CHARS: Final = 40
_MOST_NAMES: Final = 1000


@dataclass(frozen=True, slots=True)
class Remembered:
    """What was kept, or would be. `unchanged`: the very same was kept before."""

    rel_path: str
    title: str
    text: str
    unchanged: bool = False


def remember(
    store: MemoryStore, text: str, day: date, title: str = "", *, dry_run: bool = False
) -> Remembered:
    """Keep a memory in a file of its own; one that is there is never touched.

    Args:
        store: The memory.
        text: What to remember, Markdown.
        day: When it happened.
        title: What to call it; empty: its first words.
        dry_run: Change nothing.

    Raises:
        UsageError: The text is empty; nothing was changed.
        FamiliarError: The memory cannot be written; nothing was changed.
    """
    body = text.strip()
    if not body:
        raise UsageError(
            "The text is empty; nothing was changed",
            hint='Run `familiar remember "We met today."`.',
        )
    called = one_line(title or body.lstrip("#").strip().split("\n")[0], _TITLE_CHARS)
    content = f"# {called}\n\n{body}\n"
    rel_path, there = _free(store, f"{SIGNIFICANT_DIR}/{day.isoformat()}_{_slug(called)}", content)
    if there:
        return Remembered(rel_path, called, content, unchanged=True)
    with store.transaction("human", f"remember {called}", dry_run=dry_run) as tx:
        tx.write(rel_path, content, expect=MISSING)
    return Remembered(rel_path, called, content)


def _slug(title: str) -> str:
    return slugify(title, max_chars=_SLUG_CHARS) or "memory"


def _free(store: MemoryStore, stem: str, content: str) -> tuple[str, bool]:
    """Return a path where nothing is yet, or where the very same is already."""
    for number in range(1, _MOST_NAMES):
        rel_path = f"{stem}.md" if number == 1 else f"{stem}-{number}.md"
        if not store.exists(rel_path):
            return rel_path, False
        if store.read_bytes(rel_path) == content.encode("utf-8", errors="replace"):
            return rel_path, True
    raise UsageError(
        f"There are already {_MOST_NAMES} memories called {stem!r}; nothing was changed",
        hint="Choose another --title.",
    )
