"""Who speaks at a terminal, when nobody says."""

from __future__ import annotations

import getpass
from typing import Final

from familiar_cli.identity import Author, parse_author

PLATFORM: Final = "cli"


def who_speaks(given: str | None = None, name: str | None = None) -> Author:
    """Return the author that `PLATFORM:ID` names, or whoever is logged in here.

    Args:
        given: `PLATFORM:ID`, or None.
        name: What they are called, or None.

    Raises:
        UsageError: `given` names nobody.
    """
    shown = (name or "").strip() or None
    if given is not None:
        return parse_author(given, display_name=shown)
    return Author(PLATFORM, _login(), display_name=shown)


def _login() -> str:
    try:
        return getpass.getuser().strip() or "user"
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return "user"
