"""Dumps of Character.AI: a character with its histories, or the turns of a chat."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.text import str_or_empty
from familiar_cli.imports.cards import Card, build_card
from familiar_cli.imports.contract import Format, Sighting, certain_if
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, read_conversations
from familiar_cli.imports.foreign_files import as_object, object_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.imports.contract import Imported
    from familiar_cli.imports.foreign_chat import Reading
    from familiar_cli.imports.source import ForeignFile, Skip

_PROGRAM: Final = Program("character_ai", "character.ai")


def _character(value: dict[str, Any]) -> dict[str, Any]:
    return as_object(as_object(value.get("info")).get("character")) or as_object(
        value.get("character")
    )


def _histories(value: dict[str, Any]) -> list[dict[str, Any]]:
    found = value.get("histories")
    return object_list(as_object(found).get("histories") or found)


def _sniff(source: ForeignFile) -> Sighting:
    value = source.first
    turns = object_list(value.get("turns"))
    is_chat = bool(turns and "candidates" in turns[0])
    chats = object_list(value.get("chats"))
    is_chat = is_chat or bool(chats and "turns" in chats[0])
    return certain_if(is_chat or any("msgs" in one for one in _histories(value)))


def _read(source: ForeignFile, reading: Reading) -> Iterator[Imported | Skip]:
    about = _character(source.first)
    if about.get("name") and (about.get("description") or about.get("definition")):
        yield _card(about, source)
    yield from read_conversations(source, reading, _PROGRAM, _parse)


def _card(about: dict[str, Any], source: ForeignFile) -> Card:
    names = {"name": "name", "description": "description", "greeting": "first_mes"}
    fields: dict[str, Any] = {ours: about[key] for key, ours in names.items() if about.get(key)}
    if about.get("definition"):
        fields["mes_example"] = about["definition"]
    if about.get("title"):
        fields["creator_notes"] = about["title"]
    rest = {
        key: value for key, value in about.items() if key not in (*names, "definition", "title")
    }
    return build_card(source, "character_ai", {**fields, "extensions": {"character_ai": rest}}, [])


def _parse(value: dict[str, Any]) -> Iterator[SourceChat]:
    name = str_or_empty(_character(value).get("name"))
    for history in _histories(value):
        yield SourceChat(
            partial(_messages, object_list(history.get("msgs")), name),
            name=name,
            id=str_or_empty(history.get("external_id")),
            began=history.get("created"),
        )
    for chat in (value, *object_list(value.get("chats"))):
        turns = object_list(chat.get("turns"))
        if turns:
            turns = sorted(turns, key=lambda turn: str_or_empty(turn.get("create_time")))
            chat_id = str_or_empty(chat.get("chat_id")) or str_or_empty(chat.get("id"))
            yield SourceChat(partial(map, _turn, turns), name=name, id=chat_id)


def _messages(messages: list[dict[str, Any]], name: str) -> Iterator[SourceMessage]:
    for message in messages:
        writer = as_object(message.get("src"))
        is_human = bool(writer.get("is_human"))
        said = str_or_empty(writer.get("name")) or str_or_empty(
            as_object(writer.get("user")).get("name")
        )
        yield SourceMessage(
            str_or_empty(message.get("text")),
            "user" if is_human else "assistant",
            speaker=said or ("" if is_human else name),
            time=message.get("created"),
            raw=message,
        )


def _turn(turn: dict[str, Any]) -> SourceMessage:
    writer, chosen = as_object(turn.get("author")), turn.get("primary_candidate_id")
    candidates = object_list(turn.get("candidates"))
    texts = {one.get("candidate_id"): str_or_empty(one.get("raw_content")) for one in candidates}
    return SourceMessage(
        texts.get(chosen) or next(iter(texts.values()), ""),
        "user" if writer.get("is_human") else "assistant",
        speaker=str_or_empty(writer.get("name")),
        time=turn.get("create_time"),
        raw=turn,
        others=tuple(texts.values()) if len(texts) > 1 else (),
    )


FORMAT: Final = Format(
    name="character_ai",
    program="Character.AI",
    forms=("chat", "card"),
    sniff=_sniff,
    read=_read,
)
