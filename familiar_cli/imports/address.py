"""Fetch the file at an address, within limits of size and time."""

from __future__ import annotations

import re
import time
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import httpx

from familiar_cli.base.errors import BadInputError, FamiliarError
from familiar_cli.imports.foreign_files import MAX_FILE_BYTES, MIB

_SILENCE_S: Final = 20.0
_WHOLE_S: Final = 120.0
_REDIRECTS: Final = 5
_NAME_CHARS: Final = 60  # a letter takes up to four bytes, and a name has at most 255
_PAGES: Final = "/characters/"  # of a site whose addresses show pages; its API has the card
_SITE: Final = "chub"


def fetch_file(address: str, directory: Path) -> Path:
    """Fetch a file into a directory, which is made; return its path.

    Raises:
        BadInputError: It is not there, is too large, or takes too long.
        FamiliarError: The address cannot be reached.
    """
    name = re.sub(r"[^\w.-]", "_", unquote(PurePosixPath(parse_address(address).path).name))
    path = directory / (name[-_NAME_CHARS:].lstrip(".") or "file")
    try:
        content = _fetch(address)
    except httpx.HTTPStatusError as error:
        raise BadInputError(
            f"{address!r} answered {error.response.status_code}; nothing was imported",
            hint="Check the address, or download the file and import that.",
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise FamiliarError(
            f"{address!r} cannot be reached: {error or type(error).__name__}; nothing was imported",
            hint="Check the network, or download the file elsewhere and import that.",
        ) from error
    directory.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def parse_address(address: str) -> SplitResult:
    """Split an address into its parts.

    Raises:
        BadInputError: It is not valid.
    """
    try:
        return urlsplit(address)
    except ValueError as error:
        raise BadInputError(
            f"{address!r} is not an address: {error}; nothing was imported"
        ) from error


def _fetch(address: str) -> bytes:
    raw, until = bytearray(), time.monotonic() + _WHOLE_S
    with (
        httpx.Client(follow_redirects=True, max_redirects=_REDIRECTS, timeout=_SILENCE_S) as client,
        client.stream("GET", _file_address(address)) as reply,
    ):
        reply.raise_for_status()
        for part in reply.iter_bytes():
            raw += part
            if len(raw) > MAX_FILE_BYTES:
                raise BadInputError(
                    f"{address!r} is larger than {MAX_FILE_BYTES // MIB} MiB; nothing was imported"
                )
            if time.monotonic() > until:
                raise BadInputError(f"{address!r} takes too long; nothing was imported")
    return bytes(raw)


def _file_address(address: str) -> str:
    """Return where the file is that a page shows."""
    parts = urlsplit(address)
    host = (parts.hostname or "").removeprefix("www.")
    is_page = _SITE in host.split(".") and parts.path.startswith(_PAGES)
    return f"https://api.{host}/api{parts.path}?full=true" if is_page else address
