"""Words of a model on their way into a Markdown file."""

from __future__ import annotations

from typing import Final

from familiar_cli.markdown import as_paragraph, bullet
from familiar_cli.text import harmless

_MOST_MARKER_CHARS: Final = 4  # "1999. That year" is no item of a list


def as_line(text: str) -> str:
    """Return `text` as one line that cannot change the structure of a Markdown file."""
    line = " ".join(harmless(text).replace("<!--", "‹!--").replace("-->", "--›").split())
    line = line.removeprefix("• ")
    while (item := bullet(line)) and len(item.marker) <= _MOST_MARKER_CHARS:
        line = line[item.text_at :].removeprefix("• ")
    return as_paragraph(line)
