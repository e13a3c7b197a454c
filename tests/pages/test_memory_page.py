"""The pages of `familiar memory`."""

from __future__ import annotations

from datetime import UTC, datetime

from familiar_cli.pages.memory_pages import hits_page, skipped_text, tree_page
from familiar_cli.pages.terminal import as_plain
from familiar_cli.store.memory.store.files import GrepHit, MemoryEntry, Omission

AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def entry(path: str, size: int = 10) -> MemoryEntry:
    return MemoryEntry(path, is_dir=False, size_bytes=size, modified=AT)


def test_files_stand_below_their_directories() -> None:
    page = as_plain(
        tree_page([entry("a.md"), entry("b/c/d.md"), entry("b/c/e.md"), entry("b/f")], UTC)
    )
    assert [line[:10].rstrip() for line in page.splitlines()] == [
        "a.md",
        "b/",
        "  c/",
        "    d.md",
        "    e.md",
        "  f",
    ]


def test_names_and_lines_never_become_markup_or_escapes() -> None:
    assert "[bold]x.md" in as_plain(tree_page([entry("[bold]x.md")], UTC))
    page = as_plain(hits_page([GrepHit("a.md", 7, "x [/b] \x1b[2Jtea", 13, 16)]))
    assert page.splitlines()[1].split(maxsplit=1) == ["7", "x [/b] [2Jtea"]


def test_many_skipped_files_are_summed_up() -> None:
    shown = skipped_text(tuple(Omission(f"{n}.md", "is binary") for n in range(8)))
    assert shown.splitlines()[0] == "skipped '0.md': it is binary"
    assert shown.splitlines()[-1] == "and 3 more; --json names all"
