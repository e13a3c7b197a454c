"""Pinned files: those whose front matter says `pinned: true`, and how that is set and unset.

Whatever else the front matter holds stays, byte for byte.
"""

from __future__ import annotations

from typing import Final

from familiar_cli.errors import BadInputError
from familiar_cli.markdown import newline_of
from familiar_cli.memory.pages.front_matter import read_front_matter, value_of

PIN: Final = "---\npinned: true\n---\n"
"""The front matter of a file that has no other."""

_KEY: Final = "pinned"
_TRUE: Final = frozenset({"true", "yes", "on"})
_FALSE: Final = frozenset({"false", "no", "off", "null", "~", ""})
_NO_LIST_OF_KEYS: Final = ("{", "[", "?", "&", "!", "%")
_BOM: Final = "\ufeff"


def is_pinned(text: str) -> bool:
    """Tell whether the front matter of a file says that it is pinned."""
    return _word(value_of(text, _KEY)) in _TRUE


def with_pin(text: str, rel_path: str) -> str:
    """Return the text of the file at `rel_path` with `pinned: true` in its front matter.

    Raises:
        BadInputError: Its front matter cannot take the key, or uses it for something else.
    """
    if is_pinned(text):
        return text
    if _word(value_of(text, _KEY)) not in {None, *_FALSE}:
        raise _cannot(rel_path, "uses `pinned` for something other than true or false")
    text = without_pin(text)
    front = read_front_matter(text)
    said = _said(text[front.start : front.end]) if front else ""
    if front is None or (said and not front.entries and not said.startswith(_NO_LIST_OF_KEYS)):
        bom = _BOM if text.startswith(_BOM) else ""
        return bom + PIN.replace("\n", newline_of(text)) + text.removeprefix(_BOM)
    if said and not front.entries:
        raise _cannot(rel_path, "is not a plain list of keys")
    newline = newline_of(text[: front.end])
    pinned = f"{text[: front.end]}{front.indent}pinned: true{newline}{text[front.end :]}"
    if not is_pinned(pinned):
        raise _cannot(rel_path, "is not a plain list of keys")
    return pinned


def without_pin(text: str) -> str:
    """Return the text of a file without `pinned`, and without front matter that held only that."""
    front = read_front_matter(text) if _KEY in text else None
    pins = [e for e in front.entries if e.key == _KEY] if front else []
    pins = [entry for entry in pins if _word(entry.value) in _TRUE | _FALSE]
    if front is None or not pins:
        return text
    parts, at = [], 0
    for entry in pins:
        parts.append(text[at : entry.start])
        at = entry.end
    left = "".join((*parts, text[at:]))
    rest = read_front_matter(left)
    if rest and not left[rest.start : rest.end].strip():
        below = left.find("\n", rest.end) + 1 or len(left)
        return (_BOM if text.startswith(_BOM) else "") + left[below:]
    return left


def _word(value: object) -> str | None:
    """Return a value in lower case; a list or a map is no word, and no value is none."""
    return value.strip().lower() if isinstance(value, str) else None if value is None else "…"


def _said(head: str) -> str:
    """Return front matter from its first line on that says something."""
    bare = head.lstrip()
    while bare.startswith("#"):
        bare = bare.partition("\n")[2].lstrip()
    return bare


def _cannot(rel_path: str, what: str) -> BadInputError:
    return BadInputError(
        f"The front matter of {rel_path!r} {what}; nothing was changed",
        hint="Add the line `pinned: true` to it by hand.",
    )
