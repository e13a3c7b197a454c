"""Who speaks in a request, and in which conversation, as far as the chat program says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from familiar_cli.actions.me import speaker
from familiar_cli.identity import Author, parse_author

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.familiar import Familiar
    from familiar_cli.serve.asking import Asked

CHANNEL: Final = "x-familiar-channel"
USER: Final = "x-familiar-user"
USER_NAME: Final = "x-familiar-user-name"
MESSAGE: Final = "x-familiar-message"
_OPEN_WEBUI: Final = "open_webui"
_CHATS: Final = {  # header -> what its channels begin with
    "x-openwebui-chat-id": "open-webui",
    "x-librechat-conversation-id": "librechat",
}
_MOST_CHARS: Final = 200


def header(headers: Mapping[str, str], name: str) -> str:
    """Return what a header says; a placeholder that a program did not fill in says nothing."""
    value = unquote(headers.get(name, "")).strip()
    return "" if value.startswith("{{") or not value.isprintable() else value[:_MOST_CHARS]


def channel_of(headers: Mapping[str, str]) -> str:
    """Return the channel that a request names; empty: none."""
    named = header(headers, CHANNEL)
    if named:
        return named
    for name, program in _CHATS.items():
        if chat := header(headers, name):
            return f"{program}-{chat}"
    return ""


def speaker_of(familiar: Familiar, headers: Mapping[str, str], asked: Asked) -> Author:
    """Return who speaks: whom the program names, else the one whose home it is.

    Raises:
        UsageError: The header names nobody.
    """
    name = header(headers, USER_NAME) or header(headers, "x-openwebui-user-name") or None
    if account := header(headers, USER):
        return parse_author(account, display_name=name)
    if user_id := header(headers, "x-openwebui-user-id"):
        return Author(_OPEN_WEBUI, user_id, display_name=name)
    if asked.person and asked.person.isprintable():
        return Author("serve", asked.person[:_MOST_CHARS], display_name=name)
    return speaker(familiar, channel_of(headers), name=name)
