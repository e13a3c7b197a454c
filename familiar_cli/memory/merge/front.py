"""Two versions of front matter and what both began with: key by key, as one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.merge.sections import in_one_order, pick
from familiar_cli.memory.pages.front_matter import read_front_matter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.memory.merge.sections import Findings, Settle

_FLOW: Final = re.compile(r"([^\n:]*:[ \t]*)\[([^\[\]{}#\n]*)\]([ \t]*\n)")
_ITEM: Final = re.compile(r"[ \t]*-[ \t].*\n")
_SPLIT: Final = re.compile(r"""((?:"[^"]*"|'[^']*'|[^,])+)""")
_OPEN: Final = "---\n"


def merge_front(base: str, ours: str, theirs: str, settle: Settle, findings: Findings) -> str:
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
    key: str, versions: Sequence[str | None], settle: Settle, findings: Findings
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
