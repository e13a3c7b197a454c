"""Pinned files: those whose front matter says `pinned: true`, and how that is set and unset.

Front matter is YAML that people and other programs write; whatever else it holds stays, byte for
byte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from familiar_cli.errors import BadInputError
from familiar_cli.markdown import body_start, newline_of, split_lines

PIN: Final = "---\npinned: true\n---\n"
"""The front matter of a file that has no other."""

_TRUE: Final = frozenset({"true", "yes", "on"})
_FALSE: Final = frozenset({"false", "no", "off", "null", "~", ""})
_PIN: Final = re.compile(
    r"""(?P<indent>[ \t]*)(?P<mark>["']?)pinned(?P=mark)[ \t]*:(?:[ \t]+(?P<value>.*))?"""
)
_COMMENT: Final = re.compile(r"(?:^|[ \t]+)#.*")
_NAME: Final = re.compile(r"""[ \t]*(?:"[^"]*"|'[^']*'|[^\s"'#][^#]*?)[ \t]*:(?:[ \t].*)?""")
_NO_LIST_OF_KEYS: Final = ("{", "[", "?", "&", "!", "%")
_BOM: Final = "\ufeff"


def is_pinned(text: str) -> bool:
    """Tell whether the front matter of a file says that it is pinned."""
    front = _Front.of(text)
    return bool(front.pins) and front.value_of(front.pins[-1]) in _TRUE


def with_pin(text: str, rel_path: str) -> str:
    """Return the text of the file at `rel_path` with `pinned: true` in its front matter.

    Raises:
        BadInputError: Its front matter cannot take the key, or uses it for something else.
    """
    front = _Front.of(text)
    if front.pins:
        if is_pinned(text):
            return text
        if not all(front.value_of(number) in _FALSE for number in front.pins):
            raise _cannot(rel_path, "uses `pinned` for something other than true or false")
        text = without_pin(text)
        front = _Front.of(text)
    if front.is_prose:
        bom = _BOM if text.startswith(_BOM) else ""
        return bom + PIN.replace("\n", newline_of(text)) + text.removeprefix(_BOM)
    if front.first.lstrip().startswith(_NO_LIST_OF_KEYS):
        raise _cannot(rel_path, "is not a plain list of keys")
    newline = newline_of(front.lines[0])
    line = f"{front.indent}pinned: true{newline}"
    return "".join([*front.lines[:-1], line, front.lines[-1], text[front.end :]])


def without_pin(text: str) -> str:
    """Return the text of a file without `pinned`, and without front matter that held only that."""
    front = _Front.of(text)
    pins = {n for n in front.pins if front.value_of(n) in _TRUE | _FALSE}
    if not pins:
        return text
    left = [line for number, line in enumerate(front.lines) if number not in pins]
    if not any(line.strip() for line in left[1:-1]):
        left = [_BOM] if text.startswith(_BOM) else []
    return "".join(left) + text[front.end :]


@dataclass(frozen=True, slots=True)
class _Front:
    """The front matter of a file.

    Args:
        lines: Its lines, the marks around it included; none where there is no front matter.
        first: The first of them that says something.
        pins: The numbers of the lines with the key `pinned`.
        end: Where the text below it begins.
    """

    lines: tuple[str, ...] = ()
    first: str = ""
    pins: tuple[int, ...] = ()
    end: int = 0

    @classmethod
    def of(cls, text: str) -> _Front:
        end = body_start(text) if text.startswith(("---", f"{_BOM}---")) else 0
        lines = tuple(split_lines(text[:end]))
        telling = (line for line in lines[1:-1] if _COMMENT.sub("", _bare(line)).strip())
        first = next(telling, "")
        indent = _indent(first)
        pins = [
            number
            for number, line in enumerate(lines)
            if "pinned" in line and (found := _PIN.fullmatch(_bare(line)))
            if found["indent"] == indent
        ]
        return cls(lines, first, tuple(pins), end)

    @property
    def indent(self) -> str:
        """What stands before each key."""
        return _indent(self.first)

    @property
    def is_prose(self) -> bool:
        """Whether there is no front matter, only perhaps text between two rules."""
        if not self.lines:
            return True
        is_keys = not self.first or _NAME.fullmatch(_bare(self.first))
        return not is_keys and not self.first.lstrip().startswith(_NO_LIST_OF_KEYS)

    def value_of(self, number: int) -> str:
        """Return the value in a line in lower case; what goes on below it is part of it."""
        found = _PIN.fullmatch(_bare(self.lines[number]))
        assert found
        value = _COMMENT.sub("", found["value"] or "").strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        below = self.lines[number + 1]
        goes_on = len(_indent(below)) > len(self.indent) or below.lstrip().startswith("- ")
        return f"{value}\n{below}" if goes_on and below.strip() else value.lower()


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _bare(line: str) -> str:
    return line.rstrip("\r\n")


def _cannot(rel_path: str, what: str) -> BadInputError:
    return BadInputError(
        f"The front matter of {rel_path!r} {what}; nothing was changed",
        hint="Add the line `pinned: true` to it by hand.",
    )
