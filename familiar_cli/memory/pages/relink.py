"""Point Markdown links at another file, and leave every other byte as it is."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from familiar_cli.memory.pages.links import targets, without_code

if TYPE_CHECKING:
    from re import Match

_LINK: Final = re.compile(
    r"(?P<text>\[(?:[^\]\\\n]|\\.){0,300}\])(?P<rest>\([^)\n]{0,2000}\)|:[^\n]{0,2000})"
)
_TARGET: Final = re.compile(r"<[^>\n]+>|[^\s()<>]+")


def relinked(
    text: str, rel_path: str, old: str, new: str, *, label: str | None = None, said: str = ""
) -> str:
    """Return `text` with each link to `old` leading to `new`.

    Args:
        text: The file at `rel_path`.
        rel_path: Where it is; links are relative to it.
        old: A memory path.
        new: Another.
        label: What such links say from now on; None: what they said.
        said: Only links that say this get the label; empty: all.
    """
    bare = without_code(text)

    def changed(link: Match[str]) -> str:
        if bare[link.start()] != "[" or targets(link[0], rel_path) != [old]:
            return link[0]
        relabel = label is not None and said in {"", link["text"][1:-1]}
        shown = f"[{label}]" if relabel else link["text"]
        path = quote(posixpath.relpath(new, posixpath.dirname(rel_path) or "."))
        first, rest = link["rest"][0], link["rest"][1:]
        if old != new:
            rest = _TARGET.sub(lambda _: path, rest, count=1)
        return f"{shown}{first}{rest}"

    return _LINK.sub(changed, text)
