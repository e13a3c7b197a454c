"""Who sends a request, in which conversation and as which message: headers and `user`, checked.

A field that is there and cannot be used is an error that names it. It never counts as missing,
since what is missing has a default: the one whose home it is.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from familiar_cli.actions.me import speaker
from familiar_cli.config.channel_kinds import check_kind
from familiar_cli.errors import UsageError
from familiar_cli.identity import check_id, clean_name, is_placeholder, parse_author
from familiar_cli.serve.failing import ApiError, from_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.datastructures import Headers

    from familiar_cli.familiar import Familiar
    from familiar_cli.identity import Author
    from familiar_cli.serve.asking import Asked

CHANNEL: Final = "X-Familiar-Channel"
USER: Final = "X-Familiar-User"
USER_NAME: Final = "X-Familiar-User-Name"
MESSAGE: Final = "X-Familiar-Message"
CHARACTER: Final = "X-Familiar-Character"
KEEP: Final = "X-Familiar-Keep"
KIND: Final = "X-Familiar-Kind"
_OPEN_WEBUI_USER: Final = "X-OpenWebUI-User-Id"
_OPEN_WEBUI_NAME: Final = "X-OpenWebUI-User-Name"
_CHATS: Final = {  # header -> what its channels begin with
    "X-OpenWebUI-Chat-Id": "open-webui",
    "X-LibreChat-Conversation-Id": "librechat",
}
_SWITCH: Final = {
    **dict.fromkeys(("no", "false", "0", "off"), False),
    **dict.fromkeys(("yes", "true", "1", "on"), True),
}


def resolve_speaker(familiar: Familiar, headers: Headers, asked: Asked) -> Author:
    """Return who speaks: whom the request names, else the one whose home it is.

    Raises:
        ApiError: A field that names the speaker cannot be used.
    """
    name = name_of_speaker(headers)
    for field, platform, value in (
        (USER, "", _header(headers, USER)),
        (_OPEN_WEBUI_USER, "open_webui:", _header(headers, _OPEN_WEBUI_USER)),
        ("user", "serve:", asked.person),
    ):
        if value is not None:
            with _naming(field):
                return parse_author(platform + value, display_name=name, field=field)
    return speaker(familiar, resolve_channel(headers), name=name)


def name_of_speaker(headers: Headers) -> str | None:
    """Return the speaker's display name, or None if the request has none."""
    return clean_name(_header(headers, USER_NAME) or _header(headers, _OPEN_WEBUI_NAME))


def name_of_character(headers: Headers) -> str:
    """Return whose reply is wanted, in the program's words; empty: nobody says."""
    return clean_name(_header(headers, CHARACTER)) or ""


def resolve_channel(headers: Headers) -> str:
    """Return the channel that a request names; empty: none.

    A program that leaves its own chat header unfilled (a temporary chat) names none.

    Raises:
        ApiError: A header that names the channel cannot be used.
    """
    if named := _header(headers, CHANNEL):
        with _naming(CHANNEL):
            return check_id(named, CHANNEL)
    for field, program in _CHATS.items():
        chat = _header(headers, field)
        if chat and not is_placeholder(chat):
            with _naming(field):
                return check_id(f"{program}-{chat}", field)
    return ""


def resolve_message_id(headers: Headers) -> str:
    """Return the message's id on its platform; empty if there is none.

    Raises:
        ApiError: The header cannot be used.
    """
    named = _header(headers, MESSAGE)
    if not named:
        return ""
    with _naming(MESSAGE):
        return check_id(named, MESSAGE)


def resolve_kind(headers: Headers) -> str:
    """Return the conversation's kind as the request states it; empty if it does not.

    Raises:
        ApiError: There is no such kind.
    """
    named = (_header(headers, KIND) or "").strip().lower()
    with _naming(KIND):
        return check_kind(named) if named else ""


def wants_keeping(headers: Headers) -> bool:
    """Return whether a request is to be kept, which it is unless it says otherwise.

    Raises:
        ApiError: The header says neither yes nor no.
    """
    said = (_header(headers, KEEP) or "yes").lower()
    if said not in _SWITCH:
        raise ApiError(400, f"{KEEP} must be 'yes' or 'no'", param=KEEP)
    return _SWITCH[said]


def _header(headers: Headers, name: str) -> str | None:
    """Return a header with its percent-encoding undone; None: it was not sent.

    Programs write UTF-8, percent-encoded or not, and old ones Latin-1.
    """
    values = headers.getlist(name)
    if len(values) > 1:
        raise ApiError(400, f"{name} was sent {len(values)} times; send it once", param=name)
    if not values:
        return None
    raw = unquote_to_bytes(values[0].encode("latin-1"))
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if "%" in values[0]:
            raise ApiError(400, f"{name} is not UTF-8", param=name) from error
        return values[0]


@contextmanager
def _naming(field: str) -> Iterator[None]:
    """Let an error of an id name the field of the request that holds it."""
    try:
        yield
    except UsageError as error:
        refused = from_error(error)
        refused.param = field
        raise refused from error
