"""Merge two versions of one file: front matter key by key, then the page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import ConflictError
from familiar_cli.memory.merge.blocks import MergePage, normal, put_together, reads_back, take_apart
from familiar_cli.memory.merge.long_lists import LongLists
from familiar_cli.memory.merge.sections import MergeFindings, in_one_order, merge_sections, pick
from familiar_cli.memory.pages.front_matter import read_front_matter
from familiar_cli.memory.pages.privacy import may_hide, visible_in
from familiar_cli.text import sha256_of, typed
from familiar_cli.visibility import NOBODY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.memory.merge.sections import Settle
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.transactions import Transaction


_FLOW: Final = re.compile(r"([^\n:]*:[ \t]*)\[([^\[\]{}#\n]*)\]([ \t]*\n)")
_ITEM: Final = re.compile(r"[ \t]*-[ \t].*\n")
_SPLIT: Final = re.compile(r"""((?:"[^"]*"|'[^']*'|[^,])+)""")
_OPEN: Final = "---\n"


def merge_front(base: str, ours: str, theirs: str, settle: Settle, findings: MergeFindings) -> str:
    """Return two versions of the front matter of a page, with its frame, as one.

    What is no list of keys is the same on both sides or a clash.
    """
    whole, agree = pick(base, ours, theirs)
    if agree:
        return whole
    parts = [_entries(text) for text in (base, ours, theirs)]
    if any(part is None for part in parts):
        findings.clashes["front matter"] = None
        return theirs if settle == "theirs" else ours
    began, mine, other = (part or {} for part in parts)
    made: dict[str, str] = {}
    for key in {**began, **mine, **other}:
        text = _one(key, [part.get(key) for part in (began, mine, other)], settle, findings)
        if text is not None:
            made[key] = text
    order = in_one_order(
        list(began), [key for key in mine if key in made], [key for key in other if key in made]
    )
    frame = ours or theirs
    first, last = frame.index("\n") + 1, frame.rstrip("\n").rfind("\n") + 1
    return f"{frame[:first]}{''.join(made[key] for key in order)}{frame[last:]}" if made else ""


def _entries(front: str) -> dict[str, str] | None:
    """Return the lines of each key; None: it is no list of keys, or says one twice."""
    if not front:
        return {}
    read = read_front_matter(front)
    if read is None or len({entry.key for entry in read.entries}) != len(read.entries):
        return None
    found, at = dict[str, str](), read.start
    for entry in read.entries:
        if not at <= entry.start <= entry.end or entry.end - 1 >= len(front):
            return None
        found[entry.key] = front[at : entry.end]
        at = entry.end
    rest = front[at : read.end]
    if rest.strip() and not found:
        return None
    if rest:
        found[""] = rest  # comments below the last key
    return found


def _one(
    key: str, versions: Sequence[str | None], settle: Settle, findings: MergeFindings
) -> str | None:
    """Return the lines of one key; None: there is no such key any more."""
    base, ours, theirs = versions
    text, agree = pick(base, ours, theirs)
    if agree:
        return text
    if ours is None or theirs is None:
        findings.kept += 1
        return ours or theirs
    merged = _lists(base or "", ours, theirs)
    if merged is not None:
        return merged
    findings.clashes[f"key {key!r}"] = None
    return theirs if settle == "theirs" else ours


def _lists(base: str, ours: str, theirs: str) -> str | None:
    """Return two versions of a list as one; None: they are no lists that are written alike."""
    flows = [_FLOW.fullmatch(text) for text in (base, ours, theirs)]
    if flows[1] and flows[2] and (flows[0] or not base):
        began, mine, other = (
            [one.strip() for one in _SPLIT.findall(flow[2]) if one.strip()] if flow else []
            for flow in flows
        )
        return f"{flows[1][1]}[{', '.join(_items(began, mine, other))}]{flows[1][3]}"
    if not all(_is_block(text) for text in (ours, theirs) if text) or (
        base and not _is_block(base)
    ):
        return None
    began, mine, other = (text.splitlines(keepends=True)[1:] for text in (base, ours, theirs))
    return ours.splitlines(keepends=True)[0] + "".join(_items(began, mine, other))


def _items(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Return what either side added, without what either took out."""
    gone = {one for one in base if one not in ours or one not in theirs}
    return in_one_order(
        list(dict.fromkeys(base)),
        [one for one in dict.fromkeys(ours) if one not in gone],
        [one for one in dict.fromkeys(theirs) if one not in gone],
    )


def _is_block(text: str) -> bool:
    first, *items = text.splitlines(keepends=True)
    return first.rstrip().endswith(":") and bool(items) and all(map(_ITEM.fullmatch, items))


_MARKDOWN: Final = frozenset({".md", ".markdown", ".txt"})
WHOLE: Final = "file"
"""The kind of place of a clash that nothing smaller than the file can settle."""


@dataclass(frozen=True, slots=True)
class MergedContent:
    """A file that both sides changed.

    Args:
        content: With what either side changed, and our side where they differ.
        clashes: The kinds of places where they do, each once; none: nothing is left to settle.
        kept: How many parts stand in it that one side took out and the other changed.
    """

    content: bytes
    clashes: tuple[str, ...] = ()
    kept: int = 0


def merge_content(
    path: str, base: bytes, ours: bytes, theirs: bytes, settle: Settle = "ours"
) -> MergedContent:
    """Return both versions of a file as one.

    Args:
        path: Its name says whether it is Markdown.
        base: What both began with; empty where there was no such file.
        ours: The version that is shown first.
        theirs: The other one.
        settle: What stands where they differ.
    """
    whole, agree = pick(base, ours, theirs)
    if agree:
        return MergedContent(whole)
    either = MergedContent(theirs if settle == "theirs" else ours, (WHOLE,))
    if PurePosixPath(path).suffix.lower() not in _MARKDOWN:
        return either
    try:
        texts = [content.decode("utf-8") for content in (base, ours, theirs)]
        return _merge_text(texts, settle) or either
    except (UnicodeDecodeError, RecursionError):  # it is not text, or nested a thousand deep
        return either


def merge_onto(path: str, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Merge `theirs`, made from `base`, into the current version; None on conflict.

    Something that one side removed and the other changed is a clash here, too.
    """
    merged = merge_content(path, base, ours, theirs)
    return None if merged.clashes or merged.kept else merged.content


def stage_merged(
    tx: Transaction, store: MemoryStore, rel_path: str, base: bytes, content: str | bytes
) -> None:
    """Stage new content of a file, merged with changes since its base.

    Args:
        tx: The transaction.
        store: The memory.
        rel_path: The file.
        base: The content that `content` was made from.
        content: What is to be written.

    Raises:
        ConflictError: The same place was changed, or the file was deleted.
    """
    there = store.read_bytes(rel_path) if store.exists(rel_path) else None
    new = content.encode() if isinstance(content, str) else content
    merged = None if there is None else merge_onto(rel_path, base, there, new)
    if merged is None:
        raise ConflictError(
            f"{rel_path!r} has changed since it was read, in the same place; it was not"
            " overwritten",
            hint=f"Read it again: `familiar memory cat {typed(rel_path)}`.",
        )
    tx.write(rel_path, merged, expect=sha256_of(there or b""))


def _merge_text(texts: list[str], settle: Settle) -> MergedContent | None:
    """Return two versions of a page as one; None: that would not be safe."""
    newlines = [_newline(text) for text in texts]
    plain = "" not in newlines
    if plain:
        texts = [text.replace("\r\n", "\n") for text in texts]
    lists, findings = LongLists(texts), MergeFindings()
    merged = _merge_pages(lists.texts, settle, findings)
    text = merged and lists.restored(merged)
    if text is None and lists.is_short:
        findings = MergeFindings()
        text = _merge_pages(texts, settle, findings)
    if text is None:
        return None
    newline = pick(*newlines)[0] if plain else "\n"
    content = (text if newline == "\n" else text.replace("\n", newline)).encode()
    return MergedContent(content, tuple(findings.clashes), findings.kept)


def _merge_pages(texts: list[str], settle: Settle, findings: MergeFindings) -> str | None:
    base, ours, theirs = map(take_apart, texts)
    merged = MergePage(
        merge_sections(base.root, ours.root, theirs.root, settle, findings),
        merge_front(base.front, ours.front, theirs.front, settle, findings),
        pick(base.bom, ours.bom, theirs.bom)[0],
        pick(base.tail, ours.tail, theirs.tail)[0],
    )
    text = put_together(merged)
    return text if _reads_back(merged, text) and not _shows_more(text, texts) else None


def _newline(text: str) -> str:
    """Return what ends all lines; empty: some end so and some otherwise."""
    returns = text.count("\r\n")
    if not returns:
        return "\n"
    return "\r\n" if returns == text.count("\n") else ""


def _reads_back(page: MergePage, text: str) -> bool:
    """Return whether a page is taken apart into the blocks that it was put together of."""
    again = take_apart(text)
    return again.front == page.front and reads_back(page.root, again.root)


def _shows_more(text: str, texts: list[str]) -> bool:
    """Return whether everybody sees a line that one side keeps private.

    What the other side said in public by itself is no secret.
    """
    if not any(map(may_hide, texts)):
        return False
    every = [_said(one) for one in texts]
    shown = [_said(visible_in(one, NOBODY)) for one in texts]
    hidden = [here - seen for here, seen in zip(every, shown, strict=True)]
    if not any(hidden):
        return False
    now = _said(visible_in(text, NOBODY))
    said = [seen - shown[0] for seen in shown]
    return bool(now & ((hidden[1] - said[2]) | (hidden[2] - said[1])))


def _said(text: str) -> set[str]:
    return {said for line in text.split("\n") if (said := normal(line).lstrip("-*+ "))}
