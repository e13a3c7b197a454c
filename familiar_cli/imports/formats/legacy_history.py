"""Read the history of an earlier program: an SQLite file in which each turn has a speaker.

A speaker becomes the display name of an author on the platform `legacy-discord`.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.errors import BadInputError
from familiar_cli.base.who.identity import Author
from familiar_cli.imports.cast import Cast, with_my_names
from familiar_cli.imports.chat_times import read_time, stated_time
from familiar_cli.imports.contract import ForeignChat, ForeignMessage, Format, Reading
from familiar_cli.imports.foreign_files import json_line
from familiar_cli.store.history.schema import APPLICATION_ID, legacy_table

if TYPE_CHECKING:
    from familiar_cli.imports.source import ForeignFile
    from familiar_cli.store.history.rows import Role

    Values = dict[str, Any]  # of a turn, by column in lower case

_SQLITE_START: Final = b"SQLite format 3\0"
PLATFORM: Final = "legacy-discord"
_LEGACY: Final = "legacy-history"
NO_CHANNEL: Final = "legacy"

_ROLES: Final[dict[str, Role]] = {"assistant": "assistant", "system": "system"}
_TIMES: Final = ("timestamp", "at_ms", "at", "created_at", "time")


def _read(source: ForeignFile, reading: Reading) -> Iterator[ForeignChat]:
    """Yield the conversation of each channel.

    Raises:
        BadInputError: The file is another database, or damaged.
        RefusedError: Nobody in it has the owner's name.
    """
    people: dict[str, dict[str, Author]] = {}
    for values in _turns(source):
        author = _author(values)
        here = people.setdefault(_channel(values), {})
        if author:
            here[_name(author)] = author
    for channel, authors in people.items():
        cast = with_my_names(reading.cast, authors, origin=source.name)
        roles = cast.roles_of(authors, is_one_of_many=True)
        messages = partial(_messages, source, cast, channel)
        yield ForeignChat(
            format=_LEGACY,
            name=channel,
            channels=reading.channels if len(people) == 1 and reading.channels else (channel,),
            began=next((message.at for message in messages() if message.at), None),
            head=lambda: "",
            messages=messages,
            key=f"{_LEGACY}:{channel}",
            is_apart=True,
            notes=cast.note_strangers(roles, authors),
            roles=cast.shown_roles(roles),
        )


def _messages(source: ForeignFile, cast: Cast, channel: str) -> Iterator[ForeignMessage]:
    here = (values for values in _turns(source) if _channel(values) == channel)
    return (_message(number, values, cast) for number, values in enumerate(here, 1))


def _message(number: int, values: Values, cast: Cast) -> ForeignMessage:
    stated = next((values[name] for name in _TIMES if values.get(name) is not None), None)
    author = _author(values)
    name = _name(author) if author else ""
    said_in = str(values.get("modality") or values.get("mode"))
    return ForeignMessage(
        line=number,
        role=_role(values),
        author=author and cast.person(name, author, is_one_of_many=True),
        speaker=name,
        text=str(values["content"] or ""),
        stated=stated_time(stated),
        at=read_time(stated, UTC),
        raw=json_line(values),
        modality="voice" if "voice" in said_in else "text",
    )


def _role(values: Values) -> Role:
    return _ROLES.get(str(values["role"]).lower(), "user")


def _author(values: Values) -> Author | None:
    """Return the author of a person's turn; None without a name or an account."""
    platform, user_id = values.get("author_platform"), values.get("author_user_id")
    username = values.get("author_username")
    shown = values.get("author_display_name") or values.get("speaker")
    if platform is None or user_id is None:
        platform, user_id = PLATFORM, shown or username
    if user_id is None or _role(values) != "user":
        return None
    names = (None if name is None else str(name) for name in (username, shown))
    return Author(str(platform), str(user_id), *names)


def _name(author: Author) -> str:
    return author.display_name or author.username or author.user_id


def _channel(values: Values) -> str:
    channel = values.get("channel_id")
    return NO_CHANNEL if channel is None else str(channel)


def _turns(source: ForeignFile) -> Iterator[Values]:
    """Yield all turns in the order of their ids."""
    with _open_file(source) as connection:
        table = '"' + legacy_table(connection).replace('"', '""') + '"'
        rows = connection.execute(f"SELECT * FROM {table}")  # noqa: S608  # a quoted name
        names = [column[0].lower() for column in rows.description]
        order = "id" if "id" in names else "rowid"
        for row in connection.execute(f"SELECT * FROM {table} ORDER BY {order}"):  # noqa: S608
            yield dict(zip(names, map(_cell, row), strict=True))


def _cell(value: object) -> object:
    """Return a value as JSON can hold it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def _open_file(source: ForeignFile) -> Iterator[sqlite3.Connection]:
    """Open the file for reading; refuse anything but a history with speakers."""
    try:
        assert source.path
        address = f"{source.path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            if connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,):
                raise BadInputError(
                    f"{source.name!r} is the history of a familiar, not a chat",
                    hint="To move all of it here, restore a backup: `familiar restore DIR`.",
                )
            if not legacy_table(connection):
                raise BadInputError(
                    f"{source.name!r} is a database without a table of turns, which has the "
                    "columns `role`, `content` and `speaker`"
                )
            yield connection
    except sqlite3.Error as error:
        raise BadInputError(f"{source.name!r} cannot be read as a database: {error}") from error


FORMAT: Final = Format(
    _LEGACY,
    "history of an earlier program",
    ("chat",),
    lambda source: source.path and source.start.startswith(_SQLITE_START),
    _read,
)
