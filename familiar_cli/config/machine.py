"""What the machine knows: who is logged in, what it is called, and the timezones."""

from __future__ import annotations

import getpass
import os
import platform
from typing import TYPE_CHECKING, Final

from familiar_cli.identity import Author, parse_author
from familiar_cli.text import slugify

if TYPE_CHECKING:
    from datetime import tzinfo


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


_NAMELESS: Final = "here"


def instance_id(chosen: str) -> str:
    """Return the name in the settings, else the machine's own as a slug."""
    return chosen or slugify(platform.node().partition(".")[0]) or _NAMELESS


def zone_of(name: str) -> tzinfo | None:
    """Return the timezone of that name; None, which stands for the system's, when it is empty."""
    if not name:
        return None
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # only who has one pays for it

    return ZoneInfo(name)
