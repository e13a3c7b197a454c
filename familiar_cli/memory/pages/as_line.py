"""Words of a model on their way into a Markdown file."""

from __future__ import annotations

import re
from typing import Final

from familiar_cli.text import harmless

_MARKER: Final = re.compile(r"^\s*(?:(?:[-*+•]|\d{1,3}[.)])\s+)+")
_BLOCK: Final = re.compile(r"^(#{1,6}(?=\s|$)|>|```|~~~|[-*_=]{3,}\s*$|\|)")


def as_line(text: str) -> str:
    """Return `text` as one line that cannot change the structure of a Markdown file."""
    line = " ".join(harmless(text).replace("<!--", "‹!--").replace("-->", "--›").split())
    line = _MARKER.sub("", line)
    return _BLOCK.sub(lambda found: "\\" + found[0], line)
