"""What the machine knows: who is logged in, what it is called, and the timezones."""

from __future__ import annotations

import getpass
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from familiar_cli.identity import NEUTRAL, Author, clean_name, parse_author

if TYPE_CHECKING:
    from datetime import tzinfo


def who_speaks(given: str | None = None, name: str | None = None, me: Author = NEUTRAL) -> Author:
    """Return the author that `PLATFORM:ID` names, or the one whose home it is.

    Args:
        given: `PLATFORM:ID`, or None.
        name: What they are called, or None.
        me: Who speaks where nobody is named.

    Raises:
        UsageError: `given` names nobody.
    """
    shown = clean_name(name)
    if given is not None:
        return parse_author(given, display_name=shown)
    return replace(me, display_name=shown or me.display_name)


def login_account() -> Author:
    """Return the account under which earlier versions kept what was said here."""
    try:
        return Author(NEUTRAL.platform, getpass.getuser().strip() or NEUTRAL.user_id)
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return NEUTRAL


def is_alive(pid: int) -> bool:
    """Tell whether a process of that number runs here; where that cannot be told, it does."""
    if os.name == "nt":  # there, asking with a signal would end it
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def zone_of(name: str) -> tzinfo | None:
    """Return the timezone of that name; None, which stands for the system's, when it is empty."""
    if not name:
        return None
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # only who has one pays for it

    return ZoneInfo(name)
