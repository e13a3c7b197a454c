"""Files of KoboldAI Lite: saved sessions with their story as a chat, and world info."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from familiar_cli.imports.contract import ForeignItem, Format, Reading, Sighting, certain_if
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, build_chat
from familiar_cli.imports.foreign_files import as_object, object_at, object_list, text_at, text_list
from familiar_cli.imports.lorebook_reading import OFF, BookMapping
from familiar_cli.imports.source import ForeignFile

_PROGRAM: Final = Program("kobold")
_SIGNS: Final = ("widisabled", "keyanti", "wigroup")
_MAPPING: Final = BookMapping(
    source="KoboldAI Lite",
    tool="kobold",
    known={
        "comment": "name",
        "content": "content",
        "key": "keys",
        "keysecondary": "secondary_keys",
        "constant": "constant",
        "selective": "selective",
    },
    order=lambda _: 100,
    off={**OFF, "widisabled": (True, "true", "1"), "probability": (0, "0")},
    comma_lists=("key", "keysecondary"),
)
_INPUTS: Final = ("{{[INPUT]}}", "### Instruction:", "<|im_start|>user", "[INST]", "USER:")
_OUTPUTS: Final = (
    "{{[OUTPUT]}}",
    "### Response:",
    "<|im_start|>assistant",
    "[/INST]",
    "ASSISTANT:",
)
_ENDS: Final = re.compile(r"\{\{\[(?:INPUT|OUTPUT)_END\]\}\}|<\|im_end\|>")


def _sniff(source: ForeignFile) -> Sighting:
    if source.first.keys() >= {"gamestarted", "actions"}:
        return certain_if(source.first)
    is_world = any(key in item for item in object_list(source.value) for key in _SIGNS)
    return certain_if(is_world, "world info of KoboldAI Lite", "lorebook")


def _read(source: ForeignFile, reading: Reading) -> Iterator[ForeignItem]:
    value = as_object(source.value)
    world = value.get("worldinfo", source.value)
    if isinstance(world, list) and world:
        yield _MAPPING.read({"name": source.stem, "entries": world}, source.name)
    lines = list(_lines(value))
    if any(line.role == "user" for line in lines):
        keys = ("memory", "authorsnote")
        about = {key: value[key] for key in keys if value.get(key)}
        notes = ("its memory and its author's note are kept, without effect",) if about else ()
        chat = SourceChat(lambda: iter(lines), about=about or None, notes=notes)
        yield build_chat(source, reading, _PROGRAM, chat)


def _lines(value: dict[str, Any]) -> Iterator[SourceMessage]:
    settings = object_at(value, "savedsettings")
    person, other = (text_at(settings, key) for key in ("chatname", "chatopponent"))
    other = other.split("||$||")[0]
    text = "".join([text_at(value, "prompt"), *text_list(value.get("actions"))])
    inputs = (*_tag(settings, "instruct_starttag"), *_INPUTS)
    outputs = (*_tag(settings, "instruct_endtag"), *_OUTPUTS)
    if any(tag in text for tag in (*inputs, *outputs)):
        yield from _split(text, inputs, outputs, (person, other))
    elif person or other:
        tags = [tuple(f"\n{name}:" for name in (one,) if name) for one in (person, other)]
        yield from _split(f"\n{text}", tags[0], tags[1], (person, other))


def _tag(settings: dict[str, Any], name: str) -> tuple[str, ...]:
    match = text_at(settings, name).replace("\\n", "\n").strip()
    return (match,) if match else ()


def _split(
    text: str, inputs: tuple[str, ...], outputs: tuple[str, ...], names: tuple[str, str]
) -> Iterator[SourceMessage]:
    """Yield what stands behind each tag, and what stands before the first as a note."""
    pattern = re.compile("|".join(map(re.escape, (*inputs, *outputs))))
    parts, end = [], 0
    tag = ""
    for match in pattern.finditer(text):
        parts.append((tag, text[end : match.start()]))
        tag, end = match[0], match.end()
    parts.append((tag, text[end:]))
    line = partial(_line, inputs, names)
    yield from (line(tag, said) for tag, part in parts if (said := _ENDS.sub("", part).strip()))


def _line(inputs: tuple[str, ...], names: tuple[str, str], tag: str, text: str) -> SourceMessage:
    raw = {"tag": tag.strip(), "text": text}
    if not tag:
        return SourceMessage(text, "system", raw=raw)
    is_user = tag in inputs
    return SourceMessage(
        text, "user" if is_user else "assistant", speaker=names[not is_user], raw=raw
    )


FORMAT: Final = Format("kobold", "KoboldAI Lite", ("chat", "lorebook"), _sniff, _read)
