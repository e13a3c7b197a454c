"""Memory files as resources: `familiar://<id>/memory/<path>`."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit

from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.mcp_server.pages import is_readable, see
from familiar_cli.text import framed, harmless

if TYPE_CHECKING:
    from familiar_cli.mcp_server.tool import Caller

SCHEME: Final = "familiar"
MIME: Final = "text/markdown"
MOST_TOKENS: Final = 20_000
"""Most tokens of one resource; clients refuse results above 25,000."""

_DIRECTORY: Final = "/memory/"
_PAGE: Final = 200
_CUT: Final = "\n\n[Cut here. `memory_read` pages through the whole file.]\n"


def template(familiar_id: str) -> str:
    """Return what the addresses of a familiar's files look like."""
    return uri_of(familiar_id, "") + "{path}"


def uri_of(familiar_id: str, rel_path: str) -> str:
    """Return the address of a file."""
    return f"{SCHEME}://{quote(familiar_id)}{_DIRECTORY}{quote(rel_path)}"


def path_in(uri: str, familiar_id: str) -> str:
    """Return the path of the file at an address.

    Raises:
        NotFoundError: The address is none of this familiar's.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = urlsplit("")
    is_ours = parts.scheme == SCHEME and unquote(parts.netloc) == familiar_id
    if not is_ours or not parts.path.startswith(_DIRECTORY):
        raise NotFoundError(
            f"There is no resource {framed(uri, 200)!r}",
            hint=f"Resources look like {template(familiar_id)}.",
        )
    return unquote(parts.path.removeprefix(_DIRECTORY))


def read(caller: Caller, uri: str) -> str:
    """Return what the caller may see of the file at an address, or as much as clients take.

    Raises:
        NotFoundError: There is no such file.
        UnsafePathError: Its path leads outside the memory.
    """
    seen = see(caller, path_in(uri, caller.familiar.paths.id))
    text, counter = harmless(seen.text), caller.familiar.counter
    if counter.count(text) <= MOST_TOKENS:
        return text
    kept: list[str] = []
    room = MOST_TOKENS
    for line in text.split("\n"):
        room -= counter.count(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(kept) + _CUT


def paths(caller: Caller) -> list[str]:
    """Return the paths of all files, sorted."""
    try:
        files = caller.familiar.memory.walk().files
    except NotFoundError:
        return []
    return [entry.rel_path for entry in files if is_readable(entry.rel_path)]


def page_of(paths: list[str], cursor: str | None) -> tuple[list[str], str | None]:
    """Return a page of a sorted list, and the cursor of the next one.

    Raises:
        UsageError: The cursor is none.
    """
    start = 0
    if cursor:
        try:
            after = base64.urlsafe_b64decode(cursor.encode("ascii")).decode()
        except ValueError:
            raise UsageError("The cursor is not valid") from None
        start = next((n for n, path in enumerate(paths) if path > after), len(paths))
    found = paths[start : start + _PAGE]
    if start + _PAGE >= len(paths):
        return found, None
    return found, base64.urlsafe_b64encode(found[-1].encode()).decode()
