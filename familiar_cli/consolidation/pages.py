"""A file made by consolidation: its text, and in its front matter what it was made of.

    ---
    made_by: familiar
    sources: {"daily/2026-04-07_laptop.md": "0123456789abcdef"}
    blocks: 1a2b3c4d 5e6f7a8b
    ---

`sources` holds the hash of each source as it was read, `blocks` the marks of what the program
wrote. Other lines of the front matter are a person's and stay. Another program may rewrite it: in
blocks, with other quotes, in another order; it is read as the YAML that it is, and written as here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from familiar_cli.markdown import comments, newline_of, split_front_matter, split_lines
from familiar_cli.memory.pages.front_matter import read_front_matter
from familiar_cli.memory.pages.machine_text import shown_between
from familiar_cli.memory.pages.privacy import visible_in
from familiar_cli.text import sha256_of
from familiar_cli.visibility import NOBODY

if TYPE_CHECKING:
    from collections.abc import Mapping

MADE_BY: Final = "made_by: familiar"
_KEYS: Final = ("made_by", "made_at", "sources", "blocks")
_OURS: Final = re.compile(rf"({'|'.join(_KEYS)})[ \t]*:[ \t]*(.*?)[ \t\r]*")
_CONTINUED: Final = frozenset({" ", "\t", "-"})  # what a line begins with that is in a block
_MARKS: Final = re.compile(r"(?:[0-9a-f]{8}(?: |\Z))*")
_DIGEST_CHARS: Final = 16


@dataclass(frozen=True, slots=True)
class Record:
    """What a file was made of.

    Args:
        sources: The hash of each source.
        marks: Of the blocks that the program wrote, in order.
        made_at: When, ISO 8601; empty where that does not matter.
    """

    sources: Mapping[str, str]
    marks: tuple[str, ...] = ()
    made_at: str = ""

    @property
    def input_hash(self) -> str:
        """One hash of all sources."""
        told = "\n".join(f"{path} {digest}" for path, digest in sorted(self.sources.items()))
        return sha256_of(told)[:_DIGEST_CHARS] if told else ""


@dataclass(frozen=True, slots=True)
class MadePage:
    """A file, taken apart.

    Args:
        body: Its text without the front matter.
        record: What it was made of; None: a person made it.
        front: The lines of the front matter that are not the record's.
    """

    body: str
    record: Record | None = None
    front: tuple[str, ...] = field(default=())

    @property
    def digest(self) -> str:
        """The hash of what it says."""
        return digest_of(self.body)


def digest_of(body: str) -> str:
    """Return the hash of a text as it may be read everywhere, however its lines end."""
    said = "\n".join(line.rstrip() for line in split_lines(visible_in(body, NOBODY))).strip()
    return sha256_of(said)[:_DIGEST_CHARS]


def readable(text: str) -> str:
    """Return a file as a model may read it: no record, no comments, nothing private."""
    body = visible_in(read_page(text).body, NOBODY)
    return shown_between(body, 0, len(body), comments(body))


def below_title(text: str) -> str:
    """Return a text without the H1 that it begins with."""
    first, _, rest = text.partition("\n")
    return rest.strip() if first.startswith("# ") else text.strip()


def read_page(text: str) -> MadePage:
    """Return a file's text, taken apart. A record that is damaged is none."""
    head, body = split_front_matter(text)
    if head is None:
        return MadePage(body)
    lines = head.split("\n")
    ours = {m[1]: m[2] for line in lines if (m := _OURS.fullmatch(line))}
    goes_on = any(
        _OURS.fullmatch(line) and below[:1] in _CONTINUED for line, below in pairwise(lines)
    )
    record = None if goes_on else _record(ours)
    if record is None:
        record, rest = _rewritten(text)
        return MadePage(body, record, tuple(line.rstrip("\r") for line in rest if line.strip()))
    front = tuple(line.rstrip("\r") for line in lines if not _OURS.fullmatch(line) and line.strip())
    return MadePage(body, record, front)


def page_text(page: MadePage) -> str:
    """Return a page as the file that it is. A file that ended its lines in CRLF goes on to."""
    record = page.record
    ours = [] if record is None else [MADE_BY, *_told(record)]
    lines = [*page.front, *ours]
    newline = newline_of(page.body)
    body = re.sub(r"\r?\n", newline, page.body) if newline == "\r\n" else page.body
    head = newline.join(["---", *lines, "---", ""]) if lines else ""
    return head + body


def _rewritten(text: str) -> tuple[Record | None, list[str]]:
    """Return the record in front matter as another program wrote it, and the lines of all else."""
    front = read_front_matter(text)
    if front is None:
        return None, []
    record = _record_of({entry.key: entry.value for entry in front.entries})
    parts, at = [], front.start
    for entry in front.entries if record else ():
        if entry.key in _KEYS:
            parts.append(text[at : entry.start])
            at = entry.end
    return record, "".join((*parts, text[at : front.end])).split("\n")


def _record_of(values: Mapping[str, object]) -> Record | None:
    """Return the record that front matter holds as values; None: it is damaged, or none of ours."""
    sources, blocks = values.get("sources"), values.get("blocks")
    if isinstance(blocks, list) and all(isinstance(mark, str) for mark in blocks):
        blocks = " ".join(blocks)
    if isinstance(sources, dict) and all(isinstance(one, str) for one in sources.values()):
        sources = json.dumps(sources)
    if not isinstance(blocks, str) or not isinstance(sources, str):
        return None
    told = {key: str(values[key]) for key in ("made_by", "made_at") if key in values}
    return _record(told | {"sources": sources or "{}", "blocks": " ".join(blocks.split())})


def _told(record: Record) -> list[str]:
    sources = json.dumps(dict(sorted(record.sources.items())), ensure_ascii=False)
    made_at = [f"made_at: {record.made_at}"] if record.made_at else []
    return [*made_at, f"sources: {sources}", f"blocks: {' '.join(record.marks)}".rstrip()]


def _record(ours: Mapping[str, str]) -> Record | None:
    if ours.get("made_by") != "familiar" or not _MARKS.fullmatch(ours.get("blocks", "-")):
        return None
    try:
        sources = json.loads(ours["sources"])
    except (ValueError, KeyError, RecursionError):
        return None
    if not isinstance(sources, dict) or not all(isinstance(v, str) for v in sources.values()):
        return None
    return Record(sources, tuple(ours["blocks"].split()), ours.get("made_at", ""))
