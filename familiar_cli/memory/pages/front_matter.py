"""Front matter: the YAML at the top of a page, and the names it lists."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.markdown import body_start, split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator


Value = str | list[Any] | dict[str, Any]
"""A scalar as it is written, without its quotes; or lists and maps of such."""

_KEY: Final = re.compile(
    r"""([ \t]*)(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"'#\[\]{}?&!%-][^#\n]*?))[ \t]*:(?:[ \t]+(.*))?"""
)
_COMMENT: Final = re.compile(r"(?:^|[ \t]+)#.*")
_QUOTES: Final = "\"'"


@dataclass(frozen=True, slots=True)
class FrontKey:
    """One key at the top, with its value.

    Args:
        key: The key.
        value: What it says; the last of several entries with one key counts.
        start: Where its first line begins, in characters of the page.
        end: Where the line below its value begins.
    """

    key: str
    value: Value
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The front matter of a page.

    Args:
        start: Where the line below the first `---` begins.
        end: Where the last `---` begins.
        entries: What stands between; none when that is no list of keys.
        indent: What stands before each key.
    """

    start: int
    end: int
    entries: tuple[FrontKey, ...]
    indent: str = ""

    def get(self, key: str) -> Value | None:
        """Return the value of a key; None: there is none."""
        return next((entry.value for entry in reversed(self.entries) if entry.key == key), None)


def read_front_matter(text: str) -> FrontMatter | None:
    """Return the front matter of a page; None: it has none."""
    body = body_start(text) if text.startswith(("---", "\ufeff---")) else 0
    if not body:
        return None
    start = text.index("\n") + 1
    end = text[:body].rstrip().rfind("\n") + 1
    try:
        entries = tuple(_entries(text, start, end))
    except (ValueError, RecursionError):
        entries = tuple(_by_line(text, start, end))
    line = text[entries[0].start : entries[0].end] if entries else ""
    return FrontMatter(start, end, entries, line[: len(line) - len(line.lstrip(" \t"))])


def value_of(text: str, key: str) -> Value | None:
    """Return the value of a key in the front matter of a page; quick where it has no such key."""
    if key not in text[: body_start(text)]:
        return None
    front = read_front_matter(text)
    return front.get(key) if front else None


def _entries(text: str, start: int, end: int) -> Iterator[FrontKey]:
    """Yield the entries of YAML.

    Raises:
        ValueError: It is none.
    """
    import yaml  # hardly any file needs it

    head = text[start:end]
    try:
        root = yaml.compose(head, Loader=yaml.BaseLoader)  # a hash of digits is no number
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        return
    known: dict[int, Value] = {}
    for key, value in root.value:
        if isinstance(key, yaml.ScalarNode):
            first = head.rfind("\n", 0, key.start_mark.index) + 1
            last = max(value.end_mark.index, key.end_mark.index + 1)
            below = last if head[last - 1 : last] == "\n" else head.find("\n", last) + 1
            until = start + below if below else end
            yield FrontKey(key.value, _plain(value, known), start + first, until)


def _plain(node: Any, known: dict[int, Value]) -> Value:  # noqa: ANN401  # PyYAML has no types
    """Return the value of a node; what an anchor names is made once, however often it is used."""
    if id(node) not in known:
        if isinstance(node.value, str):
            known[id(node)] = node.value
        elif node.id == "sequence":
            items: list[Value] = []
            known[id(node)] = items
            items.extend(_plain(item, known) for item in node.value)
        else:
            pairs: dict[str, Value] = {}
            known[id(node)] = pairs
            pairs.update((str(_plain(k, known)), _plain(v, known)) for k, v in node.value)
    return known[id(node)]


def _by_line(text: str, start: int, end: int) -> Iterator[FrontKey]:
    """Yield the entries of what is nearly YAML: keys, and the lines that go on with each."""
    at, indent = start, None
    found: list[tuple[str, str, int]] = []
    more: dict[int, list[str]] = {}
    for line in split_lines(text[start:end]):
        bare = line.rstrip("\r\n")
        key = _KEY.fullmatch(bare)
        if key and indent in {None, key[1]}:
            indent = key[1]
            found.append((key[2] or key[3] or key[4] or "", key[5] or "", at))
        elif found and _COMMENT.sub("", bare).strip():
            more.setdefault(len(found) - 1, []).append(bare.strip())
        at += len(line)
    ends = [*(place for _, _, place in found), end][1:]
    for number, ((name, value, place), until) in enumerate(zip(found, ends, strict=True)):
        below = more.get(number)
        said = [_unquoted(item.removeprefix("- ")) for item in below or ()]
        single = text.find("\n", place) + 1 or end
        told: Value = [*filter(None, [_unquoted(value)]), *said] if below else _unquoted(value)
        yield FrontKey(name, told, place, until if below else single)


def _unquoted(value: str) -> str:
    bare = _COMMENT.sub("", value).strip()
    is_quoted = len(bare) > 1 and bare[0] == bare[-1] and bare[0] in _QUOTES
    return bare[1:-1] if is_quoted else bare


def listed_aliases(markdown: str) -> tuple[str, ...]:
    """Return the names below `aliases:` in the front matter, in one line or in a list."""
    found = value_of(markdown, "aliases")
    if isinstance(found, str):
        found = found.strip("[]").split(",")
    names = (name.strip(" \t\"'") for name in found or () if isinstance(name, str))
    return tuple(name for name in names if name)
