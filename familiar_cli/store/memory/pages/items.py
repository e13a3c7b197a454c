"""The items of a daily file: unique bullets with tags.

Tags as in `- text [chat:id] [via:instance]` name the conversation and the instance that recorded
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from familiar_cli.base.markdown import TextLine, as_paragraph, bullet, replace_spans, scan
from familiar_cli.base.text import split_sentences
from familiar_cli.store.memory.pages.lines import normal_line, without_references

_PLAIN: Final = ":/@.,+-_#!~"
_TAG: Final = re.compile(r"\[(chat|via):([^\]\n]*)\]")
_HEADING: Final = re.compile(r"#{1,6}[ \t]")
_DOT: Final = re.compile(r"^(?:[•·‣◦–—])[ \t]+(?=\S)", re.MULTILINE)  # other bullet styles
_STOPS: Final = ".!?…:;。！？\"'”’)]"
_WRAPPED_CHARS: Final = 60  # a shorter line was broken on purpose
_VIA: Final = re.compile(r"[ \t]{0,9}\[via:[^\]\n]*\]")

Key = tuple[tuple[str, ...], str]


def bullet_items(text: str) -> list[str]:
    """Return the bullets, paragraphs and headings of a text, with continuation lines."""
    return ["".join(line.text for line in lines) for lines in _item_lines(text)]


def key_of(item: str) -> Key:
    """Return the key that identifies equal items: their chats and words.

    The same words from two chats differ; the recording instance does not matter.
    """
    chats = tuple(sorted({value.strip() for kind, value in _TAG.findall(item) if kind == "chat"}))
    return chats, normal_line(_TAG.sub(" ", item))


def merge_day(there: str, new: str, *, via: str = "", chats: Sequence[str] = ()) -> str:
    """Append what a daily file lacks of a text, as tagged bullets.

    Paragraphs become bullets. If a sentence of one is a duplicate, its other sentences become
    bullets of their own.

    Args:
        there: The daily file; empty for a new one.
        new: Markdown in any form.
        via: Recording instance; empty for no tags.
        chats: Conversations it came from.
    """
    tags = tuple(sorted(map(tag_value, chats)))
    known = {key_of(item) for item in bullet_items(there)}
    for item in bullet_items(there):
        said_in, _ = key_of(item)
        known |= {(said_in, normal_line(one)) for one in split_sentences(_TAG.sub(" ", item))}
    items: list[str] = []
    for item in _plain_items(_DOT.sub("- ", new)):
        sentences = split_sentences(item) if _is_paragraph(item) else []
        keys = [key if key[0] else (tags, key[1]) for key in map(key_of, sentences)]
        if len(set(keys)) == len(keys) and known.isdisjoint(keys):
            items.append(_as_bullet(item))
            continue
        for sentence, key in zip(sentences, keys, strict=True):
            if key not in known:
                known.add(key)
                items.append(_as_bullet(sentence))
    text = "".join(items)
    return merge_bullets(there, tag_bullets(text, via=via, chats=chats) if via else text)


def _plain_items(text: str) -> Iterator[str]:
    """Yield bullets, paragraphs and headings, splitting off lines broken on purpose."""
    for lines in _item_lines(text):
        held = ""
        for line in lines:
            words = line.text.rstrip("\r\n")
            is_below = bullet(held) is not None and words[:1].isspace()
            if not held or is_below or line.in_code or not _is_paragraph(words):
                held = f"{held}\n{words}" if held else words
            elif _is_wrapped(held.rpartition("\n")[2]):
                held = f"{held} {words.strip()}"
            else:
                yield held
                held = words
        yield held


def _is_paragraph(item: str) -> bool:
    """Tell whether an item is plain text: not a bullet, heading, code, quotation or table."""
    words = item.strip()
    return bool(normal_line(words)) and bullet(words) is None and as_paragraph(words) == words


def _is_wrapped(line: str) -> bool:
    """Tell whether the next line continues a wrapped paragraph."""
    return len(line) >= _WRAPPED_CHARS and line[-1] not in _STOPS


def _as_bullet(item: str) -> str:
    """Return an item as a bullet if it is plain text or uses another bullet style."""
    words = item.strip("\r\n")
    mark = bullet(words)
    if mark and not mark.indent and mark.marker != "-":
        words = f"- {words[mark.text_at :]}"
    elif _is_paragraph(words):
        words = f"- {words}"
    return f"{words}\n"


def merge_bullets(there: str, new: str) -> str:
    """Append the items of `new` that `there` lacks, without a second title."""
    keys = {key_of(item) for item in bullet_items(there)}
    lacking: list[str] = []
    for item in bullet_items(new):
        key, is_heading = key_of(item), bool(_HEADING.match(item))
        if key[1] and key not in keys and not (there and item.startswith("# ")):
            keys.add(key)
            ended = item if item.endswith("\n") else f"{item}\n"
            apart = "\n" if lacking and is_heading else ""
            lacking.append(f"{apart}{ended}{is_heading * chr(10)}")
    if not lacking:
        return there
    gap = "" if not there or there.endswith("\n") else "\n"
    last = there.rstrip().rpartition("\n")[2]
    if gap == "" and last and _is_paragraph(last) and not there.endswith("\n\n"):
        gap = "\n"
    return there + gap + "".join(lacking)


def tag_bullets(
    text: str, *, via: str, chats: Sequence[str] = (), known: Mapping[str, str] | None = None
) -> str:
    """Add tags to each bullet without an instance tag.

    Args:
        text: Markdown.
        via: Recording instance.
        chats: Conversations, for bullets without them.
        known: Existing bullets by their untagged text (`bare_items`); these are kept unchanged.
    """
    edits: list[tuple[int, int, str]] = []
    for lines in _item_lines(text):
        item = "".join(line.text for line in lines)
        kinds = {kind for kind, _ in _TAG.findall(item)}
        if "via" in kinds or not _is_fact_item(lines[0].text):
            continue
        if known and (there := known.get(_bare_item(item))):
            edits.append((lines[0].start, lines[0].start + len(item), there))
            continue
        tags = [] if "chat" in kinds else [f"[chat:{tag_value(chat)}]" for chat in chats]
        first = lines[0].text.rstrip("\r\n")
        bare = without_references(first).rstrip()
        place = lines[0].start + len(bare if first.startswith(bare) else first)
        edits.append((place, place, " ".join(["", *tags, f"[via:{tag_value(via)}]"])))
    return replace_spans(text, edits)


def bare_items(text: str) -> dict[str, str]:
    """Map the untagged text of each bullet to the bullet with its newline."""
    result = {}
    for lines in _item_lines(text):
        item = "".join(line.text for line in lines)
        if _is_fact_item(lines[0].text):
            result[_bare_item(item)] = item if item.endswith("\n") else f"{item}\n"
    return result


def _bare_item(item: str) -> str:
    """Return a bullet without instance tag and citations."""
    text = _VIA.sub("", without_references(item))
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))


def chats_in(text: str) -> tuple[str, ...]:
    """Return the chats tagged in a text, unique and in order."""
    return tuple(dict.fromkeys(v.strip() for kind, v in _TAG.findall(text) if kind == "chat"))


def tag_value(name: str) -> str:
    """Encode a channel or instance id for use in a tag."""
    is_plain = name.isprintable() and not re.search(r"[\s\[\]<>%]", name)
    return name if is_plain else quote(name, safe=_PLAIN, errors="surrogatepass")


def _item_lines(text: str) -> Iterator[list[TextLine]]:
    current: list[TextLine] = []
    is_heading = False
    for line in scan(text):
        begins = line.level or (not line.in_code and _is_fact_item(line.text))
        if current and (begins or is_heading or not line.text.strip()):
            yield current
            current = []
        if line.text.strip():
            is_heading = line.level > 0
            current.append(line)
    if current:
        yield current


def _is_fact_item(line: str) -> bool:
    marker = bullet(line)
    return marker is not None and not marker.indent and bool(line[marker.text_at :].strip())
