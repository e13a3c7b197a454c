"""Generated files: their blocks, front matter and bullets, and significant moments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct, field

from familiar_cli.base.errors import UsageError
from familiar_cli.base.languages import ENGLISH
from familiar_cli.base.markdown import (
    TextLine,
    bullet,
    comments,
    newline_of,
    replace_spans,
    scan,
    split_front_matter,
    split_lines,
    without_marker,
)
from familiar_cli.base.text import fold, one_line, sha256_of, slugify
from familiar_cli.base.who.visibility import NOBODY
from familiar_cli.store.memory.layout import SIGNIFICANT_DIR, path_without_scope
from familiar_cli.store.memory.pages import lines as memory_lines
from familiar_cli.store.memory.pages import visible_lines
from familiar_cli.store.memory.pages.front_matter import read_front_matter
from familiar_cli.store.memory.pages.items import tag_value
from familiar_cli.store.memory.store.files import MISSING
from familiar_cli.store.memory.store.store import MemoryStore

Kind = Literal["heading", "item", "paragraph", "code"]


_INDENTED: Final = re.compile(r"(?: {2,}|\t)\S")


_MARK_CHARS: Final = 8


class PageBlock(Struct, frozen=True):
    """A block with the blank lines above it.

    Args:
        gap: The blank lines above it.
        text: Its lines with their line ends.
    """

    kind: Kind
    gap: str
    text: str

    @property
    def mark(self) -> str:
        """Hash that identifies the block regardless of line wrapping."""
        words = " ".join(self.text.split())
        return sha256_of(words)[:_MARK_CHARS]

    @property
    def key(self) -> str:
        """Equal for two blocks with the same text, whatever their tags."""
        return sentence_key(without_marker(self.text))


def sentence_key(text: str) -> str:
    """Normalise `text` for comparison without dropping any word."""
    shown = memory_lines.TAG.sub("", memory_lines.without_references(text))
    return " ".join(fold(shown).split()).strip(" .")


def blocks(text: str) -> tuple[tuple[PageBlock, ...], str]:
    """Split `text` into blocks and the blank lines at its end; joined, they are `text`."""
    found: list[PageBlock] = []
    gap, is_inside = "", False
    for line in scan(text):
        if not (is_inside or line.text.strip()):
            gap += line.text
            continue
        if is_inside or (found and _continues(found[-1], gap, line)):
            last = found.pop()
            found.append(PageBlock(last.kind, last.gap, last.text + gap + line.text))
        else:
            found.append(PageBlock(_line_kind(line), gap, line.text))
        gap, is_inside = "", is_inside ^ line.is_fence
    return tuple(found), gap


def _continues(last: PageBlock, gap: str, line: TextLine) -> bool:
    """Tell whether a line belongs to the block above it."""
    if last.kind == "item" and _INDENTED.match(line.text):
        return True
    return last.kind in {"item", "paragraph"} and not gap and _line_kind(line) == "paragraph"


def _line_kind(line: TextLine) -> Kind:
    if line.in_code:
        return "code"
    if line.level:
        return "heading"
    item = bullet(line.text)
    return "item" if item and item.indent in {"", " "} else "paragraph"


MADE_BY: Final = "made_by: familiar"
_KEYS: Final = ("made_by", "made_at", "sources", "blocks")
_OURS: Final = re.compile(rf"({'|'.join(_KEYS)})[ \t]*:[ \t]*(.*?)[ \t\r]*")
_CONTINUED: Final = frozenset({" ", "\t", "-"})  # what a line within a block begins with
_MARKS: Final = re.compile(r"(?:[0-9a-f]{8}(?: |\Z))*")
_DIGEST_CHARS: Final = 16


class Record(Struct, frozen=True):
    """What a file was made from.

    Args:
        sources: The hash of each source.
        marks: The marks of the generated blocks, in order.
        made_at: When, ISO 8601; empty if irrelevant.
    """

    sources: Mapping[str, str]
    marks: tuple[str, ...] = ()
    made_at: str = ""

    @property
    def input_hash(self) -> str:
        """A single hash of all sources."""
        named = ((path_without_scope(path), digest) for path, digest in self.sources.items())
        text = "\n".join(f"{path} {digest}" for path, digest in sorted(named))
        return sha256_of(text)[:_DIGEST_CHARS] if text else ""


class MadePage(Struct, frozen=True):
    """A parsed file.

    Args:
        body: Its text without the front matter.
        record: What it was made from; None: a person wrote it.
        front: The other lines of the front matter.
    """

    body: str
    record: Record | None = None
    front: tuple[str, ...] = field(default=())

    @property
    def digest(self) -> str:
        """Hash of its readable text."""
        return digest_of(self.body)


def digest_of(body: str) -> str:
    """Hash a text's readable part, independent of its line endings."""
    text = "\n".join(
        line.rstrip() for line in split_lines(visible_lines.visible_in(body, NOBODY))
    ).strip()
    return sha256_of(text)[:_DIGEST_CHARS]


def readable_text(text: str) -> str:
    """Return a file as a model may read it: without record, comments and private parts."""
    body = visible_lines.visible_in(read_page(text).body, NOBODY)
    return memory_lines.shown_between(body, 0, len(body), comments(body))


def below_title(text: str) -> str:
    """Return a text without its leading H1."""
    first, _, rest = text.partition("\n")
    return rest.strip() if first.startswith("# ") else text.strip()


def read_page(text: str) -> MadePage:
    """Parse a file. A damaged record counts as none."""
    head, body = split_front_matter(text)
    if head is None:
        return MadePage(body)
    lines = head.split("\n")
    ours = {m[1]: m[2] for line in lines if (m := _OURS.fullmatch(line))}
    goes_on = any(
        _OURS.fullmatch(line) and below[:1] in _CONTINUED for line, below in pairwise(lines)
    )
    record = None if goes_on else _read_record(ours)
    if record is None:
        record, rest = _foreign_record(text)
        return MadePage(body, record, tuple(line.rstrip("\r") for line in rest if line.strip()))
    front = tuple(line.rstrip("\r") for line in lines if not _OURS.fullmatch(line) and line.strip())
    return MadePage(body, record, front)


def page_text(page: MadePage) -> str:
    """Render a page as a file, preserving CRLF line endings."""
    record = page.record
    ours = [] if record is None else [MADE_BY, *_record_lines(record)]
    lines = [*page.front, *ours]
    newline = newline_of(page.body)
    body = re.sub(r"\r?\n", newline, page.body) if newline == "\r\n" else page.body
    head = newline.join(["---", *lines, "---", ""]) if lines else ""
    return head + body


def _foreign_record(text: str) -> tuple[Record | None, list[str]]:
    """Return the record in front matter rewritten by another program, and all other lines."""
    front = read_front_matter(text)
    if front is None:
        return None, []
    record = _record_of({entry.key: entry.value for entry in front.entries})
    ours = [one for one in front.entries if one.key in _KEYS] if record else []
    left = replace_spans(text[: front.end], ((one.start, one.end, "") for one in ours))
    return record, left[front.start :].split("\n")


def _record_of(values: Mapping[str, object]) -> Record | None:
    """Build the record from front matter values; None if damaged or not ours."""
    sources, blocks = values.get("sources"), values.get("blocks")
    if isinstance(blocks, list) and all(isinstance(mark, str) for mark in blocks):
        blocks = " ".join(blocks)
    if isinstance(sources, dict) and all(isinstance(one, str) for one in sources.values()):
        sources = json.dumps(sources)
    if not isinstance(blocks, str) or not isinstance(sources, str):
        return None
    told = {key: str(values[key]) for key in ("made_by", "made_at") if key in values}
    return _read_record(told | {"sources": sources or "{}", "blocks": " ".join(blocks.split())})


def _record_lines(record: Record) -> list[str]:
    sources = json.dumps(dict(sorted(record.sources.items())), ensure_ascii=False)
    made_at = [f"made_at: {record.made_at}"] if record.made_at else []
    return [*made_at, f"sources: {sources}", f"blocks: {' '.join(record.marks)}".rstrip()]


def _read_record(ours: Mapping[str, str]) -> Record | None:
    if ours.get("made_by") != "familiar" or not _MARKS.fullmatch(ours.get("blocks", "-")):
        return None
    try:
        sources = json.loads(ours["sources"])
    except (ValueError, KeyError, RecursionError):
        return None
    if not isinstance(sources, dict) or not all(isinstance(v, str) for v in sources.values()):
        return None
    return Record(sources, tuple(ours["blocks"].split()), ours.get("made_at", ""))


_FALSE_TAG: Final = re.compile(r"\[(?=(?:chat|via):)")
_SESSION: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")
_INDENT: Final = "  "


class EventBullet(Struct, frozen=True):
    """One event.

    Args:
        text: Its text; continuations are on lines of their own.
        chats: The channels it comes from.
        via: The instance that wrote it.
        turns: The turns it cites.
    """

    text: str
    chats: tuple[str, ...] = ()
    via: str = ""
    turns: tuple[memory_lines.TurnRange, ...] = ()

    @property
    def key(self) -> tuple[frozenset[str], str]:
        """Equal for two bullets with the same text about the same channels."""
        return frozenset(self.chats), sentence_key(self.text)

    @property
    def names_its_session(self) -> bool:
        """Whether it names its session because no channel is known."""
        return bool(self.chats) and all(map(_SESSION.match, self.chats))

    def markdown(self) -> str:
        """Render it as Markdown."""
        first, _, rest = self.text.partition("\n")
        tags = [f"[chat:{chat}]" for chat in self.chats]
        tags += [f"[via:{self.via}]"] if self.via else []
        head = " ".join(
            part for part in [first, *tags, memory_lines.citation_comment(self.turns)] if part
        )
        more = "".join(f"{_INDENT}{line}\n" if line else "\n" for line in rest.split("\n") if rest)
        return f"- {head}\n{more}"


def bullets_of(body: str) -> tuple[EventBullet, ...]:
    """Return the bullets of a daily file; a person's paragraph counts as one, too."""
    found, _ = blocks(visible_lines.visible_in(body, NOBODY))
    return tuple(
        bullet
        for b in found
        if b.kind != "heading" and (bullet := _tag_bullet(b.text)).text.strip()
    )


def bullets_from_session(
    body: str,
    session: str,
    via: str,
    chats_of: Callable[[Sequence[memory_lines.TurnRange]], tuple[str, ...]],
    code_label: str = ENGLISH.code_block,
) -> tuple[EventBullet, ...]:
    """Return the bullets of a session file.

    Args:
        body: Its text. Private sections are ignored.
        session: Its name, used if the channel is unknown.
        via: The instance that reads it.
        chats_of: Returns the known channels of turns.
        code_label: Label for a block of code.
    """
    found, _ = blocks(visible_lines.visible_in(body, NOBODY))
    bullets = []
    for block in found:
        text = _block_words(block.text)
        if block.kind == "heading" or not text.strip():
            continue
        turns = tuple(memory_lines.citations_in(block.text))
        chats = chats_of(turns) or (session,)
        if block.kind == "code":
            text = f"{code_label}\n{text}"
        safe = _FALSE_TAG.sub(r"\\[", text)
        bullets.append(EventBullet(safe, tuple(map(tag_value, chats)), tag_value(via), turns))
    return merge_bullets([bullets])


def merge_bullets(days: Iterable[Iterable[EventBullet]]) -> tuple[EventBullet, ...]:
    """Merge bullets, dropping duplicates with the same channels and text.

    A bullet that names its session for lack of a channel is dropped if one with a known channel has
    the same text.
    """
    found: dict[tuple[frozenset[str], str], EventBullet] = {}
    for bullets in days:
        for one in bullets:
            found.setdefault(one.key, one)
    placed = {one.key[1] for one in found.values() if not one.names_its_session}
    return tuple(
        one for one in found.values() if not one.names_its_session or one.key[1] not in placed
    )


def _tag_bullet(text: str) -> EventBullet:
    turns = tuple(memory_lines.citations_in(text))
    tags = memory_lines.TAG.findall(text)
    chats = tuple(dict.fromkeys(value for name, value in tags if name == "chat"))
    via = next((value for name, value in tags if name == "via"), "")
    return EventBullet(_block_words(memory_lines.TAG.sub("", text)), chats, via, turns)


def _block_words(text: str) -> str:
    """Return a block's text without marker and references, its continuation dedented."""
    first, *rest = memory_lines.without_references(text).rstrip().split("\n")
    lines = [without_marker(first).strip(), *(line.removeprefix(_INDENT).rstrip() for line in rest)]
    return "\n".join(lines)


_TITLE_CHARS: Final = 80
_SLUG_CHARS: Final = 40
_MOST_NAMES: Final = 1000


class StoredMemory(Struct, frozen=True):
    """A stored memory. `unchanged`: an identical one existed before."""

    rel_path: str
    title: str
    text: str
    unchanged: bool = False


def remember_text(
    store: MemoryStore, text: str, day: date, title: str = "", *, dry_run: bool = False
) -> StoredMemory:
    """Store a memory in a file of its own; existing ones are never touched.

    Args:
        text: The text to remember, Markdown.
        day: When it happened.
        title: Its title; empty: its first words.
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
    rel_path, there = _free_path(
        store, f"{SIGNIFICANT_DIR}/{day.isoformat()}_{_title_slug(called)}", content
    )
    if there:
        return StoredMemory(rel_path, called, content, unchanged=True)
    with store.transaction("human", f"remember {called}", dry_run=dry_run) as tx:
        tx.write(rel_path, content, expect=MISSING)
    return StoredMemory(rel_path, called, content)


def _title_slug(title: str) -> str:
    return slugify(title, max_chars=_SLUG_CHARS) or "memory"


def _free_path(store: MemoryStore, stem: str, content: str) -> tuple[str, bool]:
    """Return a path that is free, or already holds identical content."""
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
