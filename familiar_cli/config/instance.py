"""What the machine that a familiar lives on is called."""

from __future__ import annotations

import platform
from typing import Final

from familiar_cli.text import slugify

_NAMELESS: Final = "here"


def instance_id(chosen: str) -> str:
    """Return the name in the settings, else the machine's own as a slug."""
    return chosen or slugify(platform.node().partition(".")[0]) or _NAMELESS
