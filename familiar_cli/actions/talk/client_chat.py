"""Store whole chats as chat programs show them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.config.home import who_speaks
from familiar_cli.base.config.schema import ChannelConfig
from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.base.text import slugify, typed
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.familiar import Familiar
from familiar_cli.imports.cast import NO_CHARACTER, SILLY_TAVERN, Cast, known_names
from familiar_cli.imports.contract import Reading
from familiar_cli.imports.foreign_files import object_at
from familiar_cli.imports.formats.silly_tavern import author_note_of
from familiar_cli.imports.import_chat import ChatImportOptions, ImportedChat, import_chat_files
from familiar_cli.store.history.selection import names_used_by

_MAX_NAME_CHARS: Final = 200


class ClientChat(Struct, frozen=True):
    """A chat as its program shows it.

    Args:
        name: Stem of its file name.
        directory: Its directory in `chats`; empty for a group chat.
        group: Name of the group, if it is a group chat.
        lines: The lines of the file, header first.
        remember: The one of them that memory should hold; None: none.
    """

    name: str
    directory: str
    group: str | None
    lines: tuple[Mapping[str, Any], ...]
    remember: int | None = None

    @property
    def remembered_text(self) -> str | None:
        """The text of the line to remember, if any."""
        return None if self.remember is None else str(self.lines[self.remember].get("mes", ""))


def parse_client_chat(body: Mapping[str, Any]) -> ClientChat:
    """Parse the chat in a request.

    Raises:
        UsageError: It contains none.
    """
    name, directory, group = body.get("chat"), body.get("directory") or "", body.get("group")
    lines = body.get("lines")
    if not isinstance(name, str) or not isinstance(directory, str):
        raise UsageError("The request names no 'chat'; nothing was saved")
    for part in (name, directory):
        if Path(part).name != part or "\\" in part or len(part) > _MAX_NAME_CHARS:
            raise UsageError(f"{part[:_MAX_NAME_CHARS]!r} is not a file name; nothing was saved")
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        raise UsageError("'lines' must be the lines of the chat, as objects; nothing was saved")
    if not name or (group is not None and not isinstance(group, str)):
        raise UsageError("The request names no 'chat'; nothing was saved")
    remember = body.get("remember")
    if remember is not None and not (type(remember) is int and 0 < remember < len(lines)):
        raise UsageError("'remember' must be the number of a line; nothing was saved")
    return ClientChat(name, directory, group, tuple(lines), remember)


def keep_client_chat(familiar: Familiar, chat: ClientChat) -> ImportedChat:
    """Update the history to what a chat program shows.

    Raises:
        FamiliarError: The history cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="familiar-") as scratch:
        place = Path(scratch, chat.directory or "group chats")
        place.mkdir(exist_ok=True)
        path = place / f"{chat.name}.jsonl"
        text = "".join(json.dumps(line) + "\n" for line in chat.lines)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        options = ChatImportOptions(aside=True, is_current=True)
        reading = _read_options(familiar, chat)
        done = import_chat_files(familiar.history, [(path, reading)], options)
    if done.failed:
        raise done.failed[0].error
    return done.chats[0]


def adopt_notes(familiar: Familiar, chats: Iterable[ImportedChat], *, dry_run: bool) -> None:
    """Let the author's notes of SillyTavern's chats apply in their channels, and note it."""
    for chat in chats:
        if chat.format == SILLY_TAVERN and chat.head:
            about = object_at(json.loads(chat.head), "chat_metadata")
            chat.notes += tuple(adopt_note(familiar, chat, about, dry_run=dry_run))


def adopt_note(
    familiar: Familiar, chat: ImportedChat, about: Mapping[str, Any], *, dry_run: bool
) -> Iterator[str]:
    """Let a chat's author's note apply in its channel if that is new; yield what was done."""
    note, channel, there = author_note_of(about), chat.channel, ChannelConfig()
    with suppress(FamiliarError):  # `doctor` names a damaged file
        there = familiar.channels.read(channel).settings
    if not note or not channel or there.author_note.text:
        return
    own = f"{typed(channel)} --familiar {familiar.paths.id}"
    if chat.is_new:
        with suppress(FamiliarError, OSError):
            removes = f"; `familiar channel set --unset author_note.text {own}` removes it"
            if not dry_run:
                familiar.channels.set_values(channel, note)
            is_off = note.get("author_note.interval") == "0"
            words = ("would be set", "is set") if is_off else ("would apply", "applies")
            told, off = words[not dry_run], ", but switched off, as it was" if is_off else ""
            yield f"its author's note {told} in the channel{off}{'' if dry_run else removes}"
            return
    commands = (
        f"familiar channel set {own} {key} {typed(value)}"
        for key, value in note.items()
        if value != str(getattr(there.author_note, key.partition(".")[2]))
    )
    yield f"its author's note is not used; `{' && '.join(commands)}` sets it"


def _read_options(familiar: Familiar, chat: ClientChat) -> Reading:
    reading = chat_reading(familiar)
    if chat.group is None:
        return solo_reading(reading)
    return group_reading(reading, chat.name, chat.group)


def chat_reading(
    familiar: Familiar,
    person: str | None = None,
    character: tuple[str, ...] = (),
    mine: tuple[str, ...] = (),
) -> Reading:
    """Build the options for reading foreign chats.

    Args:
        person: The account of the person who speaks to the character, as `PLATFORM:ID`.
        character: Names of the familiar in the chats; empty for its usual ones. With `NO_CHARACTER`
            it may say nothing in them; alone, that tells that nobody there is the familiar.
        mine: The owner's names in them; empty for whoever is the chats' user; `NO_CHARACTER` if the
            owner may say nothing in them.

    Raises:
        UsageError: `person` is not an account.
    """
    memory, history = familiar.memory, familiar.history
    known = known_names(memory, familiar_id=familiar.paths.id, name=familiar.config.name)
    me = familiar.me()
    names = tuple(name for name in character if name != NO_CHARACTER)
    cast = Cast(
        known,
        names,
        who_speaks(person, me=me) if person else None,
        me=me.author,
        mine=tuple(name for name in mine if name != NO_CHARACTER),
        is_absent=NO_CHARACTER in mine,
        unnamed="refuse" if names == character else "others" if names else "nobody",
        before=frozenset(speaker.author.slug for speaker in history.speakers(OWNER)),
        also=me.slugs,
        my_names=names_used_by(history, me.slugs),
    )
    return Reading(cast, familiar.zone)


def solo_reading(reading: Reading) -> Reading:
    """Build the options for one-to-one chats, whose unnamed speaker is the familiar."""
    return replace(reading, cast=replace(reading.cast, unnamed="familiar"))


def group_reading(reading: Reading, chat: str, group: str) -> Reading:
    """Build the options for group chats, whose unnamed speakers are the others."""
    stem = slugify(chat) or "chat"
    name = slugify(group, max_chars=40)
    return replace(
        reading,
        cast=replace(reading.cast, unnamed="others"),
        channels=(f"{name}-{stem}", stem) if name else (stem,),
    )
