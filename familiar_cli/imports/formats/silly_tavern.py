"""Files of SillyTavern: chats, read and written with their swipes, and its user's personas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.errors import BadInputError, NotFoundError, UsageError
from familiar_cli.base.text import fold, typed
from familiar_cli.base.times.clock import iso, to_zone
from familiar_cli.base.who.identity import CHARACTERS, Me
from familiar_cli.imports import contract, conversation
from familiar_cli.imports.cast import SILLY_TAVERN
from familiar_cli.imports.chat_times import read_time
from familiar_cli.imports.foreign_files import as_object, json_line, object_at, read_json, text_at
from familiar_cli.imports.memory_lists import build_memories
from familiar_cli.imports.source import MAX_LINE_BYTES, Skip, json_lines, read_object, readable_rows
from familiar_cli.store.history.marks import marked_count, turn_statuses
from familiar_cli.store.history.selection import (
    SourcedTurn,
    TurnFilter,
    imported_from,
    kept_turns,
    select_turns,
)

if TYPE_CHECKING:
    from familiar_cli.base.who.visibility import Viewer
    from familiar_cli.imports.contract import ForeignItem, Reading
    from familiar_cli.imports.source import ForeignFile, Row
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.store.history.store import HistoryStore

_PROGRAM: Final = conversation.Program(SILLY_TAVERN)
_OF_EXTENSIONS: Final = (b'"qvink_memory"', b'"memory"')  # MessageSummarize, Summarize
_MOST_NOTE: Final = 10_000  # as SillyTavern limits depths
_HEAD_KEYS: Final = frozenset(("user_name", "character_name", "chat_metadata"))


def _is_head(value: Mapping[str, Any]) -> bool:
    return "mes" not in value and not _HEAD_KEYS.isdisjoint(value)


def _sniff(source: ForeignFile) -> contract.Sighting:
    if source.shape == "object" and ("mes" in source.first or _is_head(source.first)):
        return contract.certain_if(source.first, "", "chat", "memories")
    settings = _settings(source)
    is_backup = settings is source.value
    what = "a backup of SillyTavern's personas" if is_backup else "SillyTavern's settings"
    return contract.certain_if(settings is not None, what, "settings")


def _settings(source: ForeignFile) -> dict[str, Any] | None:
    """Return what a `settings.json`, or a backup of personas, says of them; None for others."""
    value = as_object(source.value)
    if isinstance(value.get("power_user"), dict):
        return object_at(value, "power_user")
    is_backup = isinstance(value.get("personas"), dict) and "persona_descriptions" in value
    return value if is_backup else None


def _read(source: ForeignFile, reading: Reading) -> Iterator[ForeignItem]:
    if _settings(source) is not None:
        yield read_settings(source.value)
        return
    first = list(readable_rows(islice(json_lines(source), 2)))
    head = first[0] if first and _is_head(first[0][2]) else None
    began = (value.get("create_date") or value.get("send_date") for *_, value in first)
    about = head[2] if head else {}
    chat = conversation.SourceChat(
        partial(_lines, source, head),
        name=source.stem,
        began=next(filter(None, began), None),
        about=head[1] if head else None,
        parent=text_at(object_at(about, "chat_metadata"), "main_chat"),
        is_whole=True,
        users=(text_at(about, "user_name"),),
    )
    name = text_at(about, "character_name") or source.stem
    if memories := list(_summaries(source, f"Chats with {name}")):
        yield build_memories("SillyTavern", source.stem, memories)
    yield conversation.build_chat(source, reading, _PROGRAM, chat)


_NOTE_NUMBERS: Final = {
    "place": {0: "scenario", 1: "depth", 2: "scenario"},
    "role": {0: "system", 1: "user", 2: "assistant"},
}


def author_note_of(about: Mapping[str, Any]) -> dict[str, str]:
    """Return the author's note in a chat's metadata as settings; empty if it has none."""
    text = text_at(about, "note_prompt").strip()
    keys = {"place": "position", "depth": "depth", "role": "role", "interval": "interval"}
    note = {"author_note.text": text} if text else {}
    for name, key in keys.items() if text else ():
        value = about.get(f"note_{key}")
        if isinstance(value, int | float) and 0 <= value <= _MOST_NOTE:
            known = _NOTE_NUMBERS.get(name)
            note[f"author_note.{name}"] = str(known.get(int(value), "") if known else int(value))
    return {key: value for key, value in note.items() if value}


def _summaries(source: ForeignFile, about: str) -> Iterator[contract.ForeignMemory]:
    """Yield what extensions noted in a chat: of each message, and the newest summary of it all."""
    newest: contract.ForeignMemory | None = None
    with source.open() as stream:
        for number, raw in enumerate(stream, 1):
            if len(raw) > MAX_LINE_BYTES or not any(mark in raw for mark in _OF_EXTENSIONS):
                continue
            row = read_object(number, raw)
            if isinstance(row, Skip):
                continue
            extra, moment = object_at(row[2], "extra"), read_time(row[2].get("send_date"), None)
            day = to_zone(moment, None).date() if moment else None
            own = object_at(extra, "qvink_memory")
            if (text := text_at(own, "memory")) and not own.get("exclude"):
                yield contract.ForeignMemory(text, number, day, about)
            if text := text_at(extra, "memory"):
                newest = contract.ForeignMemory(text, number, day, about)
    if newest:
        yield newest


def _lines(source: ForeignFile, head: Row | None) -> Iterator[conversation.SourceMessage | Skip]:
    # The header was readable before, so it is again.
    for row in json_lines(source):
        if row != head:
            yield row if isinstance(row, Skip) else _line(*row)


def _line(number: int, raw: str, value: dict[str, Any]) -> conversation.SourceMessage | Skip:
    text = value.get("mes")
    if not isinstance(text, str):
        return Skip(number, _no_message(value))
    is_narrator = object_at(value, "extra").get("type") == "narrator"
    return conversation.SourceMessage(
        text,
        "user" if value.get("is_user") else "assistant",
        speaker=text_at(value, "name"),
        time=value.get("send_date"),
        raw=raw,
        others=conversation.swipes_of(value),
        hidden=bool(value.get("is_system")),
        line=number,
        aside=not value.get("is_user") and bool(value.get("is_system") or is_narrator),
    )


def _no_message(value: Mapping[str, Any]) -> str:
    if _is_head(value):
        return "it is a chat header, but not the first line"
    if "mes" not in value:
        return "it is not a message: there is no 'mes'"
    return f"it is not a message: 'mes' is {type(value['mes']).__name__}, not text"


_AT_ONCE: Final = 200
_OF_ONE: Final = ("gen_started", "gen_finished")  # metadata of the swipe that is shown


def with_others(
    history: HistoryStore, turns: Iterable[SourcedTurn]
) -> Iterator[tuple[SourcedTurn, tuple[SourcedTurn, ...]]]:
    """Yield each turn with all non-withdrawn turns at its place, itself included."""
    if not marked_count(history):
        yield from ((kept, (kept,)) for kept in turns)
        return
    rest = iter(turns)
    while some := list(islice(rest, _AT_ONCE)):
        became = turn_statuses(history, [kept.turn.id for kept in some])
        wanted = {i for status in became.values() for i in status.alternatives}
        withdrawn = {i for i, found in turn_statuses(history, wanted).items() if found.withdrawn}
        others = kept_turns(history, wanted - withdrawn)
        for selection in some:
            group = became[selection.turn.id].alternatives
            yield selection, tuple(others[i] for i in group if i in others) or (selection,)


def as_message(
    selection: SourcedTurn, group: Sequence[SourcedTurn], made: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Build the message for a turn and its alternatives; None if the imported one is unchanged.

    Args:
        selection: The turn.
        group: All turns at its place, in order of arrival.
        made: The turn as a newly built message.
    """
    records = ((one.turn.id, one.record_of(SILLY_TAVERN)) for one in group)
    imported = {turn_id: json.loads(record) for turn_id, record in records if record}
    own = imported.get(selection.turn.id)
    base: dict[str, Any] = own or next(iter(imported.values()), {})
    if selection.turn.role != "assistant":
        return None if own else {**made, **base, "mes": selection.turn.content}
    swipes: dict[str, dict[str, Any]] = {}
    for one in group:
        for text, info in _swipe_texts(one, imported.get(one.turn.id, {})):
            swipes.setdefault(text, info)
    if own and swipes.keys() <= {text for text, _ in _swipe_texts(selection, own)}:
        return None
    if len(swipes) == 1:
        return dict(made)
    told = {key: value for key, value in base.items() if own or key not in _OF_ONE}
    return {
        **made,
        **told,
        "send_date": base["send_date"] if own and "send_date" in base else made["send_date"],
        "mes": selection.turn.content,
        "extra": base.get("extra", {}) if own else made["extra"],
        "swipes": list(swipes),
        "swipe_id": list(swipes).index(selection.turn.content),
        "swipe_info": list(swipes.values()),
    }


def _swipe_texts(
    selection: SourcedTurn, raw: Mapping[str, Any]
) -> list[tuple[str, dict[str, Any]]]:
    """Return the texts of one turn, with the metadata of each."""
    texts = conversation.swipes_of(raw)
    if selection.turn.content not in texts:
        date = raw.get("send_date") or iso(selection.turn.at)
        return [(selection.turn.content, {"send_date": date, "extra": raw.get("extra") or {}})]
    swipe_info = raw.get("swipe_info")
    infos = (
        swipe_info
        if isinstance(swipe_info, list) and len(swipe_info) == len(texts)
        else [None] * len(texts)
    )
    otherwise: dict[str, Any] = {
        "send_date": raw.get("send_date") or iso(selection.turn.at),
        "extra": {},
    }
    pairs = zip(texts, infos, strict=True)
    return [(text, info if isinstance(info, dict) else otherwise) for text, info in pairs]


def write_lines(
    history: HistoryStore, channel_id: str, name: str, me: Me, viewer: Viewer
) -> Iterator[str]:
    """Yield the lines of a channel, without line ends."""
    made = [one.original() for one in imported_from(history, channel_id)]
    heads = [head for chat_format, head in made if chat_format == SILLY_TAVERN]
    headless = heads and not heads[0]  # its file had no header either
    if not headless:
        yield heads[0] if heads else json_line(_chat_head(history, channel_id, name, me, viewer))
    for selection, group in with_others(
        history, select_turns(history, TurnFilter(viewer, channel_id))
    ):
        record = selection.record_of(SILLY_TAVERN)
        if record and len(group) == 1:
            yield record
            continue
        message = as_message(selection, group, _chat_message(selection.turn, name, me))
        yield record if message is None else json_line(message)


def _chat_head(
    history: HistoryStore, channel_id: str, name: str, me: Me, viewer: Viewer
) -> dict[str, object]:
    first = next(select_turns(history, TurnFilter(viewer, channel_id)), None)
    people = history.recent_distinct_authors(channel_id, 1, viewer=viewer)
    if not people and first and first.turn.author:
        people = [first.turn.author]
    return {
        "user_name": me.name_of(people[0]) if people else "User",
        "character_name": name,
        "create_date": iso(first.turn.at) if first else "",
        "chat_metadata": {},
    }


def _chat_message(turn: Turn, name: str, me: Me) -> dict[str, object]:
    """Convert a turn that was not imported from SillyTavern to a message."""
    person = turn.author is not None and turn.author.platform != CHARACTERS
    speaker = name if turn.role == "assistant" else "System"
    if turn.author is not None:
        speaker = me.name_of(turn.author)
    extra = {"type": "narrator"} if turn.role == "system" else {}
    return {
        "name": speaker,
        "is_user": person or (turn.role == "user" and turn.author is None),
        "is_system": turn.hidden,
        "send_date": iso(turn.at),
        "mes": turn.content,
        "extra": extra,
    }


def read_settings(settings: dict[str, Any]) -> contract.ForeignSettings:
    """Read the personas in a `settings.json` or a backup of personas."""
    power_user = object_at(settings, "power_user") or settings
    described = object_at(power_user, "persona_descriptions")
    current = text_at(settings, "user_avatar")
    default = text_at(power_user, "default_persona")
    return contract.ForeignSettings(
        tuple(
            contract.ForeignPersona(
                name.strip(),
                text_at(object_at(described, avatar), "description").strip(),
                is_current=avatar == current,
                is_default=avatar == default,
            )
            for avatar, name in object_at(power_user, "personas").items()
            if isinstance(name, str) and name.strip()
        )
    )


def read_personas(raw: bytes, *, origin: str) -> tuple[contract.ForeignPersona, ...]:
    """Read the personas in a `settings.json` or a backup of personas, in order.

    Args:
        raw: The file's bytes.
        origin: Its name, for messages.

    Raises:
        BadInputError: It is neither.
    """
    settings = as_object(read_json(raw, origin=origin)[0])
    power_user = object_at(settings, "power_user") or settings
    if not isinstance(power_user.get("personas"), dict):
        raise BadInputError(
            f"{origin!r} has no SillyTavern personas",
            hint="Give its `settings.json`, or a backup from its Persona Management page.",
        )
    return read_settings(settings).personas


def choose_persona(
    personas: tuple[contract.ForeignPersona, ...], name: str = "", *, origin: str
) -> contract.ForeignPersona:
    """Return the persona called `name`, by default the user's default one.

    Raises:
        NotFoundError: There is no persona, or none of that name.
        UsageError: The choice is ambiguous.
    """
    listed = ", ".join(repr(persona.name) for persona in personas)
    if not personas:
        raise NotFoundError(f"{origin!r} holds no persona; nothing was changed")
    called = [p for p in personas if fold(p.name) == fold(name)] if name else []
    if name and not called:
        raise NotFoundError(
            f"{origin!r} holds no persona called {name!r}; it has {listed}",
            hint=f"Try `--name {typed(personas[0].name)}`.",
        )
    if len(called) == 1 or len(personas) == 1:
        return (called or personas)[0]
    among = called or personas
    chosen = [p for p in among if p.is_current] or [p for p in among if p.is_default]
    if len(chosen) != 1:
        raise UsageError(
            f"{origin!r} holds several personas, and does not say which one is selected: {listed}",
            hint=f"Choose one: `--name {typed(personas[0].name)}`.",
        )
    return chosen[0]


FORMAT: Final = contract.Format(
    SILLY_TAVERN, "SillyTavern", ("chat", "memories", "settings"), _sniff, _read, write_lines
)
