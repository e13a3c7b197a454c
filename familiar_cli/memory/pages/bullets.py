"""Bullets such as `- text [chat:id] [via:instance]`: what one file has and another lacks.

`chat` says where it was said, `via` which instance wrote it down.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from familiar_cli.markdown import bullet, scan
from familiar_cli.memory.pages.evidence import without_references
from familiar_cli.memory.pages.similarity import normal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from familiar_cli.markdown import TextLine

_PLAIN: Final = ":/@.,+-_#!~"
_TAG: Final = re.compile(r"\[(chat|via):([^\]\n]*)\]")
_VIA: Final = re.compile(r"[ \t]{0,9}\[via:[^\]\n]*\]")

Key = tuple[tuple[str, ...], str]


def items(text: str) -> list[str]:
    """Return the bullets, paragraphs and headings of a text, each whole: later lines included."""
    return ["".join(line.text for line in lines) for lines in _items(text)]


def key_of(item: str) -> Key:
    """Return what makes two items one: the chats they are from, and their words.

    Which instance heard it does not matter; that two chats said it does.
    """
    chats = tuple(sorted({value.strip() for kind, value in _TAG.findall(item) if kind == "chat"}))
    return chats, normal(_TAG.sub(" ", item))


def merged(there: str, new: str) -> str:
    """Return `there`, unchanged, and below it the items of `new` that it lacks."""
    known = {key_of(item) for item in items(there)}
    lacking: list[str] = []
    for item in items(new):
        key = key_of(item)
        if key[1] and key not in known and not _is_title(item):
            known.add(key)
            lacking.append(item if item.endswith("\n") else f"{item}\n")
    if not lacking:
        return there
    gap = "" if not there or there.endswith("\n") else "\n"
    return there + gap + "".join(lacking)


def tagged(
    text: str, *, via: str, chats: Sequence[str] = (), known: Mapping[str, str] | None = None
) -> str:
    """Return `text` with tags at each bullet that does not say which instance wrote it down.

    Args:
        text: Markdown.
        via: The instance that wrote it.
        chats: Where it was said, for bullets that do not say that either.
        known: Bullets that are there already, by what is left of them without tags (`bare_items`):
            such a one stays as it is.
    """
    parts, at = [], 0
    for lines in _items(text):
        item = "".join(line.text for line in lines)
        kinds = {kind for kind, _ in _TAG.findall(item)}
        if "via" in kinds or not _is_item(lines[0].text):
            continue
        if known and (there := known.get(_bare(item))):
            parts += [text[at : lines[0].start], there]
            at = lines[0].start + len(item)
            continue
        tags = [] if "chat" in kinds else [f"[chat:{tag_value(chat)}]" for chat in chats]
        first = lines[0].text.rstrip("\r\n")
        bare = without_references(first).rstrip()
        place = lines[0].start + len(bare if first.startswith(bare) else first)
        parts += [text[at:place], " ", " ".join([*tags, f"[via:{tag_value(via)}]"])]
        at = place
    return "".join((*parts, text[at:]))


def bare_items(text: str) -> dict[str, str]:
    """Return the bullets of a text, each with its line end, by what is left without their tags."""
    found = {}
    for lines in _items(text):
        item = "".join(line.text for line in lines)
        if _is_item(lines[0].text):
            found[_bare(item)] = item if item.endswith("\n") else f"{item}\n"
    return found


def _bare(item: str) -> str:
    """Return a bullet without the tag of its instance, and without what it rests on."""
    told = _VIA.sub("", without_references(item))
    return "\n".join(line.rstrip() for line in told.rstrip().split("\n"))


def chats_in(text: str) -> tuple[str, ...]:
    """Return the chats that a text names, each once, in their order."""
    return tuple(dict.fromkeys(v.strip() for kind, v in _TAG.findall(text) if kind == "chat"))


def tag_value(name: str) -> str:
    """Return a channel's or an instance's id as it stands in a tag: nothing in it can end it."""
    is_plain = name.isprintable() and not re.search(r"[\s\[\]<>%]", name)
    return name if is_plain else quote(name, safe=_PLAIN, errors="surrogatepass")


def _is_title(item: str) -> bool:
    return item.startswith("# ")


def _items(text: str) -> Iterator[list[TextLine]]:
    current: list[TextLine] = []
    is_heading = False
    for line in scan(text):
        begins = line.level or (not line.in_code and _is_item(line.text))
        if current and (begins or is_heading or not line.text.strip()):
            yield current
            current = []
        if line.text.strip():
            is_heading = line.level > 0
            current.append(line)
    if current:
        yield current


def _is_item(line: str) -> bool:
    found = bullet(line)
    return found is not None and not found.indent and bool(line[found.text_at :].strip())
