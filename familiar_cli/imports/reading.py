"""Read a file in one of the common forms, by whichever format recognises it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from familiar_cli.base.errors import BadInputError, FamiliarError, RefusedError, UsageError
from familiar_cli.base.text import typed
from familiar_cli.imports.cards import Card
from familiar_cli.imports.cast import Cast
from familiar_cli.imports.contract import (
    ForeignChat,
    ForeignMemories,
    Reading,
    Recognition,
    form_of,
    load_format,
    load_formats,
    recognise,
)
from familiar_cli.imports.foreign_files import as_object, check_depth
from familiar_cli.imports.formats.world_info import read_embedded
from familiar_cli.imports.lorebook import Lorebook
from familiar_cli.imports.lorebook_reading import check_size, is_of_card, not_a_lorebook
from familiar_cli.imports.source import DOCUMENTS, ForeignFile, Skip, as_source, first_object

if TYPE_CHECKING:
    from familiar_cli.imports.contract import ForeignItem, Form, Format

TRANSCRIPT: Final = "transcript"

_HINTS: Final[dict[Form, str]] = {
    "card": "Make a familiar from it: `familiar init --from-card {}`.",
    "lorebook": "Import it with `familiar import-lorebook {}`.",
    "chat": "Import it: `familiar import-chat {}`.",
    "memories": "Import it: `familiar import {}`.",
    "settings": "To use your persona from it: `familiar me --from-sillytavern {}`.",
}


def hint_for(form: Form, path: str) -> str:
    """Return what imports a file of a form."""
    return _HINTS[form].format(typed(path))


def read_card(raw: bytes, *, origin: str) -> Card:
    """Read the character card in a file, of any program and in any container.

    Args:
        raw: The file's bytes.
        origin: The file's name: for messages, and as the name of a nameless card.

    Raises:
        BadInputError: It contains no card, or is damaged or too large.
    """
    source = ForeignFile(None, origin, raw)
    for recognition in recognise(source):
        if "card" in recognition.forms:
            for value in recognition.format.read(source, Reading()):
                if isinstance(value, Card):
                    return value
        raise BadInputError(
            f"{origin!r} is {recognition.title}, not a character card",
            hint=hint_for(recognition.form, origin),
        )
    if isinstance(source.card_file, FamiliarError):
        raise source.card_file
    if not isinstance(source.card_file.value, dict):
        what = _describe_value(source.card_file.value)
        raise BadInputError(f"{origin!r} is {what}, not a character card", hint=_CARD_HINT)
    raise BadInputError(
        f"{origin!r} is not a character card: it has none of a card's fields", hint=_CARD_HINT
    )


_CARD_HINT: Final = "A card has at least a name and a description or a first message."


def _describe_value(value: object) -> str:
    """Describe a JSON value that is not an object."""
    if isinstance(value, list):
        return "a JSON list" if value else "an empty JSON list"
    return f"a JSON {'string' if isinstance(value, str) else 'value'}"


def load_book(raw: bytes, *, origin: str) -> Lorebook:
    """Read the lorebook in a file: JSON, or any card that contains one.

    Raises:
        BadInputError: It contains none; the message says what the file is instead.
        LimitError: The book has too many entries.
    """
    source = ForeignFile(None, origin, raw)
    what = {"empty": "empty", "text": "text", "binary": "binary data"}.get(source.shape, "")
    if isinstance(source.card_file, FamiliarError) and not (what and source.value is None):
        raise source.card_file
    if source.value is None:
        raise BadInputError(
            f"{origin!r} is {what or 'null'}, not a lorebook; nothing was imported",
            hint="A lorebook is a JSON file, or a card that contains one.",
        )
    opened = source.card_file
    notes = () if isinstance(opened, FamiliarError) else opened.notes
    book = read_book(source.value, origin=origin)
    return replace(book, warnings=(*notes, *book.warnings))


def read_book(data: Any, *, origin: str) -> Lorebook:  # noqa: ANN401  # JSON holds anything
    """Read the lorebook in a JSON value, in any format, or in any card.

    Args:
        data: A whole file's value.
        origin: Its source, for messages; its stem names a book without a name.

    Raises:
        BadInputError: It is not a lorebook; the message says what it is.
        LimitError: It has too many entries.
    """
    check_depth(data, origin=origin)
    for place in (as_object(as_object(data).get("data")), as_object(data)):
        if "character_book" in place:
            return read_card_book(place["character_book"], origin=origin)
    source = ForeignFile(None, origin, value=data)
    for recognition in recognise(source):
        if "lorebook" in recognition.forms:
            return check_size(_first_book(recognition, source), origin)
        if "card" in recognition.forms:
            return _book_of_card(recognition, source)
        if recognition.is_certain:
            raise BadInputError(
                f"{origin!r} is not a lorebook but {recognition.title}; nothing was imported",
                hint=hint_for(recognition.form, origin),
            )
    raise not_a_lorebook(data, origin)


def _first_book(recognition: Recognition, source: ForeignFile) -> Lorebook:
    for value in recognition.format.read(source, Reading()):
        if isinstance(value, Lorebook):
            return value
    raise BadInputError(
        f"{source.name!r} holds memories and no lore; nothing was imported",
        hint=f"Import them: `familiar import {typed(source.name)}`.",
    )


def _book_of_card(recognition: Recognition, source: ForeignFile) -> Lorebook:
    for value in recognition.format.read(source, Reading()):
        if isinstance(value, Card) and "character_book" in value.data:
            return read_card_book(value.data["character_book"], origin=source.name)
    raise BadInputError(
        f"{source.name!r} is a character card without a lorebook; nothing was imported",
        hint=f"For the character itself: `familiar init --from-card {typed(source.name)}`.",
    )


def read_card_book(data: Any, *, origin: str) -> Lorebook:  # noqa: ANN401  # JSON holds anything
    """Read the book of a card, of any program.

    Raises:
        BadInputError: It is not a lorebook.
        LimitError: It has too many entries.
    """
    check_depth(data, origin=origin)
    source = ForeignFile(None, origin, value=data)
    recognitions = [] if is_of_card(data) or not data else recognise(source, "lorebook")
    if recognitions and recognitions[0].is_certain:
        book = _first_book(recognitions[0], source)
    else:
        book = read_embedded(data, origin, "a card's character_book")
    return check_size(book, origin)


NO_CHAT: Final = (
    "Chats of SillyTavern, ChatGPT, Claude, Discord, Telegram, WhatsApp and other programs can be "
    "imported, plain JSON Lines, and texts in which each message begins with `Name:`."
)


def read_chats(
    source: ForeignFile, reading: Reading
) -> Iterator[ForeignChat | ForeignMemories | Skip]:
    """Yield the chats in `source`, what is remembered of them, and a `Skip` for anything else.

    Raises:
        BadInputError: It contains no chat of a known format, or of the requested one.
        RefusedError: Which speaker is the familiar is ambiguous.
    """
    format_ = _chat_format(source, reading)
    for value in format_.read(source, reading):
        if isinstance(value, ForeignChat | ForeignMemories | Skip):
            yield value


def _chat_format(source: ForeignFile, reading: Reading) -> Format:
    if reading.format == TRANSCRIPT:
        return load_format(TRANSCRIPT)
    if reading.format and reading.format not in chat_formats():
        raise UsageError(
            f"There is no format {reading.format!r}; nothing was imported",
            hint=f"Formats of chats: {', '.join(chat_formats())}.",
        )
    recognitions = recognise(source, "chat")
    if not recognitions:
        raise describe_unknown(source)
    if reading.format and reading.format not in [one.format.name for one in recognitions]:
        raise BadInputError(
            f"{source.name!r} is not a chat in the format {reading.format!r}: it looks like "
            f"{recognitions[0].title}",
            hint=f"Omit `--format`, or add `--format {recognitions[0].format.name}`.",
        )
    return next(
        (one.format for one in recognitions if one.format.name == reading.format),
        recognitions[0].format,
    )


def describe_unknown(source: ForeignFile) -> BadInputError:
    """Return the error for a file that is not a chat in a known format."""
    value = source.value
    if isinstance(value, dict) and str(value.get("spec", "")).startswith("chara_card"):
        text = f"{source.name!r} is marked as a character card, but has none of a card's fields"
        return BadInputError(text, hint=_CARD_HINT)
    if isinstance(value, list) and not any(isinstance(one, dict) for one in value):
        text = f"{source.name!r} is {_describe_value(value)}, not a chat"
        return BadInputError(text, hint=NO_CHAT)
    if source.shape in ("object", "array"):
        try:
            keys = ", ".join(repr(key) for key in list(first_object(source))[:4])
        except BadInputError as error:
            return type(error)(str(error), hint=error.hint or NO_CHAT)
        known = f"not a chat in a known format, but JSON with {keys}"
        what = known if keys else "an empty JSON object"
        return BadInputError(f"{source.name!r} is {what}", hint=NO_CHAT)
    return BadInputError(f"{source.name!r} is {_describe(source)}, not a chat", hint=NO_CHAT)


def _describe(source: ForeignFile) -> str:
    if source.shape == "empty":
        return "empty"
    if source.shape == "archive":
        return "a zip archive"
    is_page = re.match(rb"<(?:!doctype|html)", source.start, re.IGNORECASE)
    if is_page or source.start.startswith(DOCUMENTS):
        kind = "a web page" if is_page else "a document"
        return f"{kind} (save what it says as plain text, or export the chat as JSON instead)"
    return "a binary file" if source.shape in ("binary", "picture") else "text"


def chat_formats() -> list[str]:
    """Return the names of the formats that hold chats."""
    return [format_.name for format_ in load_formats("chat")]


def title_of_format(name: str) -> str:
    """Return the program of a format, for people."""
    return load_format(name).program


def forms_in(path: Path, forms: Sequence[str]) -> list[str]:
    """Return those of several forms that a file really has.

    Raises:
        FamiliarError: It cannot be read.
    """
    with as_source(path) as source:
        there = {form_of(value) for value in _values_in(recognise(source)[0].format, source)}
    return [form for form in forms if form in there or (form == "chat" and None in there)]


def _values_in(format_: Format, source: ForeignFile) -> Iterator[ForeignItem | Skip | None]:
    """Yield what a file holds; None, and nothing after it, for a chat with somebody else."""
    try:
        yield from format_.read(source, Reading(Cast(unnamed="familiar")))
    except BadInputError:
        raise
    except RefusedError:  # as the importer of chats will say
        yield None


def memories_in(path: Path) -> list[ForeignMemories]:
    """Return what another program remembers in a file; empty if nothing, or if it is damaged."""
    try:
        with as_source(path) as source:
            recognitions = recognise(source)
            values = list(_values_in(recognitions[0].format, source)) if recognitions else []
    except FamiliarError:
        return []
    return [one for one in values if isinstance(one, ForeignMemories)]


def read_memories(source: ForeignFile) -> list[ForeignMemories]:
    """Read what another program remembers.

    Raises:
        BadInputError: The file holds no memories.
    """
    recognitions = recognise(source, "memories")
    if not recognitions and source.shape != "text":
        raise BadInputError(
            f"{source.name!r} holds no memories from a known program; nothing was imported"
        )
    format_ = recognitions[0].format if recognitions else load_format("memory-text")
    values = list(_values_in(format_, source))
    damaged = next((one for one in values if isinstance(one, Skip) and one.damaged), None)
    memories = [one for one in values if isinstance(one, ForeignMemories)]
    if damaged or not memories:
        why = f"line {damaged.line}: {damaged.reason}" if damaged else "it holds none"
        raise BadInputError(
            f"{source.name!r} has memories that cannot be read: {why}; nothing was imported"
        )
    return memories
