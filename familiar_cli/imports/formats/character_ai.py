"""Dumps of Character.AI: a character with its histories, or the turns of a chat."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from familiar_cli.base.text import str_or_empty
from familiar_cli.imports.cards import Card, build_card
from familiar_cli.imports.contract import ForeignItem, Format, Reading
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, read_conversations
from familiar_cli.imports.foreign_files import (
    as_object,
    object_at,
    object_list,
    objects_at,
    text_at,
)
from familiar_cli.imports.source import ForeignFile, Skip

_PROGRAM: Final = Program("character_ai", "character.ai")


def _character(value: dict[str, Any]) -> dict[str, Any]:
    return object_at(object_at(value, "info"), "character") or object_at(value, "character")


def _histories(value: dict[str, Any]) -> list[dict[str, Any]]:
    histories = value.get("histories")
    return object_list(as_object(histories).get("histories") or histories)


def _is_chat(source: ForeignFile) -> bool:
    value = source.first
    turns = objects_at(value, "turns")
    is_chat = bool(turns and "candidates" in turns[0])
    chats = objects_at(value, "chats")
    is_chat = is_chat or bool(chats and "turns" in chats[0])
    return is_chat or any("msgs" in one for one in _histories(value))


def _read(source: ForeignFile, reading: Reading) -> Iterator[ForeignItem | Skip]:
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
            partial(_messages, objects_at(history, "msgs"), name),
            name=name,
            id=text_at(history, "external_id"),
            began=history.get("created"),
        )
    for chat in (value, *objects_at(value, "chats")):
        turns = objects_at(chat, "turns")
        if turns:
            turns = sorted(turns, key=lambda turn: text_at(turn, "create_time"))
            chat_id = text_at(chat, "chat_id", "id")
            yield SourceChat(partial(map, _turn, turns), name=name, id=chat_id)


def _messages(messages: list[dict[str, Any]], name: str) -> Iterator[SourceMessage]:
    for message in messages:
        writer = object_at(message, "src")
        is_human = bool(writer.get("is_human"))
        text = text_at(writer, "name") or text_at(object_at(writer, "user"), "name")
        yield SourceMessage(
            text_at(message, "text"),
            "user" if is_human else "assistant",
            speaker=text or ("" if is_human else name),
            time=message.get("created"),
            raw=message,
        )


def _turn(turn: dict[str, Any]) -> SourceMessage:
    writer, chosen = object_at(turn, "author"), turn.get("primary_candidate_id")
    candidates = objects_at(turn, "candidates")
    texts = {one.get("candidate_id"): text_at(one, "raw_content") for one in candidates}
    return SourceMessage(
        texts.get(chosen) or next(iter(texts.values()), ""),
        "user" if writer.get("is_human") else "assistant",
        speaker=text_at(writer, "name"),
        time=turn.get("create_time"),
        raw=turn,
        others=tuple(texts.values()) if len(texts) > 1 else (),
    )


FORMAT: Final = Format("character_ai", "Character.AI", ("chat", "card"), _is_chat, _read)
