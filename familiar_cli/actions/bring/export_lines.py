"""`familiar export --format mem|text`: what a familiar remembers, for other programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from familiar_cli import __version__
from familiar_cli.actions.bring.export_everything import check_target, staged_directory
from familiar_cli.base import markdown
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.text import counted, one_line
from familiar_cli.base.who.visibility import Viewer
from familiar_cli.familiar import Familiar
from familiar_cli.imports.contract import ForeignMemory
from familiar_cli.imports.foreign_files import write_result
from familiar_cli.imports.formats import memory_text, portable_memory
from familiar_cli.imports.memory_lists import build_memories, resolve_days
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.pages.facts import ended_on, heading_of
from familiar_cli.store.memory.pages.items import bullet_items
from familiar_cli.store.memory.pages.lines import normal_line, readable_text
from familiar_cli.store.memory.pages.visible_lines import visible_in

MemoryFormat = Literal["mem", "text"]
"""Formats of exported memories: a bundle of Portable Memory, or dated lines of text."""

# Who it is, its world, and what is made of the other pages.
_APART: Final = (
    *(layout.SELF_DIR, layout.LORE_DIR, layout.SESSIONS_DIR, layout.DIGEST_DIR),
    *layout.PERIOD_DIRS,
)
_NO_MEMORIES: Final = ("aliases", "sessions", "people", "topics")
_DATED: Final = re.compile(r"(\d{4}-\d{2}-\d{2}): (?=\S)")


class ExportedLines(Struct, frozen=True):
    """Exported memories.

    Args:
        memories: The memories.
        files: The bytes of each file of the export, by its path below it.
        warnings: What could not be exported, and why.
    """

    memories: tuple[ForeignMemory, ...]
    files: dict[str, bytes]
    warnings: tuple[str, ...]


def export_lines(
    familiar: Familiar, memory_format: MemoryFormat, *, public: bool = False
) -> ExportedLines:
    """Export the memories about people and topics in a format.

    What is private to other people than the owner is left out: another program gets it.

    Args:
        familiar: The familiar.
        memory_format: The format; text is one file without a name.
        public: Leave out what is private to the owner, too.
    """
    warnings: list[str] = []
    everybody = familiar.privacy.program()
    viewer = everybody if public else familiar.privacy.owner()
    own = {layout.people_path(slug) for slug in familiar.me().slugs}
    found: list[ForeignMemory] = []
    left_out = 0
    listing = familiar.memory.walk()
    warnings += [f"{one_line(one.rel_path)}: {one.reason}" for one in listing.skipped]
    for file in listing.files:
        path = file.rel_path
        if path.split("/")[0] in _APART or not layout.is_page(path):
            continue
        try:
            whole = familiar.memory.read_file(path)
            text = visible_in(whole, viewer, path)
            left_out += text != whole
        except FamiliarError as error:
            warnings.append(f"{one_line(path)}: {error}")
            continue
        about = markdown.title_of(text)
        is_own = path in own or about == familiar.me().name
        is_public = everybody.sees((layout.scope_of_path(path),))
        heard = _items_on(visible_in(text, everybody, path)) if is_public else frozenset[str]()
        found += _memories_on(familiar, path, text, "" if is_own else about, viewer, heard=heard)
    if left_out and not public:
        pages = counted(left_out, "page has lines", "pages have lines")
        warnings.append(f"What other people said in private is left out: {pages} based on it")
    memories = build_memories("familiar", "", found).memories
    if memory_format == "mem":
        files = portable_memory.write_bundle(memories, f"familiar {__version__}")
    else:
        files = {"": memory_text.write_text(memories).encode()}
    return ExportedLines(memories, files, tuple(warnings))


def write_lines(lines: ExportedLines, path: Path, *, force: bool = False) -> None:
    """Write exported memories: a bundle as a directory, text as a file.

    Raises:
        ConflictError: `path` contains something else, or an export, without `force`.
        FamiliarError: It cannot be written; everything is as before.
    """
    if "" in lines.files:
        write_result(path, lines.files[""], force=force)
        return
    check_target(path, portable_memory.MANIFEST, force=force)
    with staged_directory(path, keep=True) as staging:
        for rel_path, content in lines.files.items():
            (staging / rel_path).parent.mkdir(mode=0o700, exist_ok=True)
            write_result(staging / rel_path, content)


def _items_on(text: str) -> frozenset[str]:
    """Return the bullets and paragraphs of a page, normalized."""
    sections = markdown.sections(markdown.split_front_matter(text)[1], 2)
    return frozenset(normal_line(item) for one in sections for item in bullet_items(one.body))


def _memories_on(
    familiar: Familiar,
    rel_path: str,
    text: str,
    about: str,
    viewer: Viewer,
    *,
    heard: frozenset[str],
) -> Iterator[ForeignMemory]:
    """Yield the bullets and paragraphs of a page, each with the newest day it rests on.

    Those are private that are not among `heard`, the ones that everybody may hear.
    """
    dated = layout.dated_name(rel_path)
    page_day = dated[1] if dated else ""
    for section in markdown.sections(markdown.split_front_matter(text)[1], 2):
        if heading_of(section) in _NO_MEMORIES:
            continue
        items = [
            item
            for item in bullet_items(section.body)
            if normal_line(item) and not ended_on(item) and not item.startswith("#")
        ]
        for item, cited in zip(items, familiar.numbering.newest_days(items, viewer), strict=True):
            said = markdown.without_marker(readable_text(item).strip())
            stated = _DATED.match(said)
            day = _day(stated[1]) if stated else cited or _day(page_day)
            said = said[stated.end() :] if stated and day else said
            words = resolve_days(" ".join(said.split()), day)
            is_private = normal_line(item) not in heard
            yield ForeignMemory(words, 0, day, about, is_private=is_private)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
