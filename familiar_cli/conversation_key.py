"""The key under which a conversation of a chat program is kept, whichever way its lines come."""

from __future__ import annotations

import unicodedata
from hashlib import blake2b
from typing import Final

from familiar_cli.errors import UsageError
from familiar_cli.text import harmless, one_line, slugify

SILLY_TAVERN: Final = "sillytavern"
GROUP: Final = "group"
"""The `character` of a chat of a group in SillyTavern."""

_SLUG_CHARS: Final = 60
_DIGEST_BYTES: Final = 4
_MOST_CHARS: Final = 255  # of a file's name
_PARTS: Final = 3


def conversation_key(client: str, character: str, chat: str) -> str:
    """Return the channel id of one chat in a chat program.

    Importer, extension, server and command line all use this, so that the same chat has the same
    channel. The id ends in a digest of the exact parts, since several may have one slug.

    Args:
        client: The program, in lower case, e.g. `sillytavern`.
        character: SillyTavern: the stem of the character's picture, which also names its folder in
            `chats/` (`Ada` of `chats/Ada/` and `Ada.png`); `GROUP` for a chat of a group.
        chat: SillyTavern: the stem of the chat's file (`Ada - 2026-1-31@12h00m00s000ms`), which
            `getContext().chatId` gives.
    """
    parts = [unicodedata.normalize("NFC", part) for part in (client, character, chat)]
    digest = blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES)
    slugs = [slugify(part, max_chars=_SLUG_CHARS) for part in parts]
    if slugs[2].startswith(f"{slugs[1]}-"):  # SillyTavern names chats after their character
        del slugs[1]
    return "-".join([*filter(None, slugs), digest.hexdigest()])


def parse_conversation(path: str) -> str | None:
    """Return the key that `sillytavern/CHARACTER/CHAT` stands for; None: it is a plain channel id.

    The extension sends that as `X-Familiar-Channel`, percent-encoded. Neither part can contain a
    slash, since both are names of files.

    Raises:
        UsageError: A part is no file name: empty, too long, or with control characters.
    """
    client, *names = path.split("/")
    if client != SILLY_TAVERN or len(names) != _PARTS - 1:
        return None
    for name in names:
        if not name.strip() or len(name) > _MOST_CHARS or harmless(name) != name:
            raise UsageError(f"{one_line(repr(name))} cannot name a chat or its character")
    return conversation_key(client, *names)
