"""Front matter, and structured pages: pinned files, lore, files of `self/`.

A lorebook entry has front matter if pinned, an H1 title, a bullet per key, `- **Disabled**` if
disabled, a comment with the id of its settings, a blank line, then the text unchanged. A file of
`self/` is one H1, a blank line, and the field's text exactly as in the card; other fields are in
`self/card.json`, and the original card is `self/.original.<suffix>`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import BadInputError
from familiar_cli.base.markdown import (
    body_start,
    bullet,
    newline_of,
    replace_spans,
    split_lines,
    without_marker,
)
from familiar_cli.store.memory.layout import SELF_DIR

Value = str | list[Any] | dict[str, Any]
"""A scalar as written, without quotes; or nested lists and maps."""

_KEY: Final = re.compile(
    r"""([ \t]*)(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"'#\[\]{}?&!%-][^#\n]*?))[ \t]*:(?:[ \t]+(.*))?"""
)
_COMMENT: Final = re.compile(r"(?:^|[ \t]+)#.*")
_QUOTES: Final = "\"'"


class FrontKey(Struct, frozen=True):
    """A top-level key with its value.

    Args:
        value: Its value; of duplicate keys the last counts.
        start: Offset of its first line in the page.
        end: Offset of the line after its value.
    """

    key: str
    value: Value
    start: int
    end: int


class FrontMatter(Struct, frozen=True):
    """The front matter of a page.

    Args:
        start: Offset of the line after the first `---`.
        end: Offset of the last `---`.
        entries: Its keys; empty if it is not a list of keys.
        indent: Indentation of each key.
    """

    start: int
    end: int
    entries: tuple[FrontKey, ...]
    indent: str = ""

    def get(self, key: str) -> Value | None:
        """Return the value of a key, or None."""
        return next((entry.value for entry in reversed(self.entries) if entry.key == key), None)


def read_front_matter(text: str) -> FrontMatter | None:
    """Return the front matter of a page, or None."""
    body = body_start(text) if text.startswith(("---", "\ufeff---")) else 0
    if not body:
        return None
    start = text.index("\n") + 1
    end = text[:body].rstrip().rfind("\n") + 1
    try:
        entries = tuple(_key_lines(text, start, end))
    except (ValueError, RecursionError):
        entries = tuple(_by_line(text, start, end))
    line = text[entries[0].start : entries[0].end] if entries else ""
    return FrontMatter(start, end, entries, line[: len(line) - len(line.lstrip(" \t"))])


def value_of(text: str, key: str) -> Value | None:
    """Return the value of a key in the front matter of a page; fast if absent."""
    if key not in text[: body_start(text)]:
        return None
    front = read_front_matter(text)
    return front.get(key) if front else None


def _key_lines(text: str, start: int, end: int) -> Iterator[FrontKey]:
    """Parse YAML front matter and yield its entries.

    Raises:
        ValueError: Not valid YAML.
    """
    import yaml  # few files need it

    head = text[start:end]
    try:
        root = yaml.compose(head, Loader=yaml.BaseLoader)  # keep a hash of digits as text
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
            yield FrontKey(key.value, _node_value(value, known), start + first, until)


def _node_value(node: Any, known: dict[int, Value]) -> Value:  # noqa: ANN401  # PyYAML has no types
    """Return the value of a node, resolving each anchor only once."""
    if id(node) not in known:
        if isinstance(node.value, str):
            known[id(node)] = node.value
        elif node.id == "sequence":
            items: list[Value] = []
            known[id(node)] = items
            items.extend(_node_value(item, known) for item in node.value)
        else:
            pairs: dict[str, Value] = {}
            known[id(node)] = pairs
            pairs.update((str(_node_value(k, known)), _node_value(v, known)) for k, v in node.value)
    return known[id(node)]


def _by_line(text: str, start: int, end: int) -> Iterator[FrontKey]:
    """Yield the entries of nearly valid YAML: keys with their continuation lines."""
    at, indent = start, None
    items: list[tuple[str, str, int]] = []
    more: dict[int, list[str]] = {}
    for line in split_lines(text[start:end]):
        bare = line.rstrip("\r\n")
        key = _KEY.fullmatch(bare)
        if key and indent in {None, key[1]}:
            indent = key[1]
            items.append((key[2] or key[3] or key[4] or "", key[5] or "", at))
        elif items and _COMMENT.sub("", bare).strip():
            more.setdefault(len(items) - 1, []).append(bare.strip())
        at += len(line)
    ends = [*(place for _, _, place in items), end][1:]
    for number, ((name, value, place), until) in enumerate(zip(items, ends, strict=True)):
        below = more.get(number)
        texts = [_unquote(item.removeprefix("- ")) for item in below or ()]
        single = text.find("\n", place) + 1 or end
        told: Value = [*filter(None, [_unquote(value)]), *texts] if below else _unquote(value)
        yield FrontKey(name, told, place, until if below else single)


def _unquote(value: str) -> str:
    bare = _COMMENT.sub("", value).strip()
    is_quoted = len(bare) > 1 and bare[0] == bare[-1] and bare[0] in _QUOTES
    return bare[1:-1] if is_quoted else bare


def listed_aliases(markdown: str) -> tuple[str, ...]:
    """Return the names in `aliases:` of the front matter, on one line or as a list."""
    value = value_of(markdown, "aliases")
    if isinstance(value, str):
        value = value.strip("[]").split(",")
    names = (name.strip(" \t\"'") for name in value or () if isinstance(name, str))
    return tuple(name for name in names if name)


PIN: Final = "---\npinned: true\n---\n"
"""Front matter to add to a file without one."""

_PIN_KEY: Final = "pinned"
_TRUE: Final = frozenset({"true", "yes", "on"})
_FALSE: Final = frozenset({"false", "no", "off", "null", "~", ""})
_NO_LIST_OF_KEYS: Final = ("{", "[", "?", "&", "!", "%")
_BOM: Final = "\ufeff"


def is_pinned(text: str) -> bool:
    """Tell whether a file is pinned by its front matter."""
    return _word_value(value_of(text, _PIN_KEY)) in _TRUE


def with_pin(text: str, rel_path: str) -> str:
    """Return the text of the file at `rel_path` with `pinned: true` in its front matter.

    Raises:
        BadInputError: Its front matter cannot take the key, or uses it for something else.
    """
    if is_pinned(text):
        return text
    if _word_value(value_of(text, _PIN_KEY)) not in {None, *_FALSE}:
        raise _cannot_pin(rel_path, "uses `pinned` for something other than true or false")
    text = without_pin(text)
    front = read_front_matter(text)
    said = _first_key_on(text[front.start : front.end]) if front else ""
    if front is None or (said and not front.entries and not said.startswith(_NO_LIST_OF_KEYS)):
        bom = _BOM if text.startswith(_BOM) else ""
        return bom + PIN.replace("\n", newline_of(text)) + text.removeprefix(_BOM)
    if said and not front.entries:
        raise _cannot_pin(rel_path, "is not a plain list of keys")
    newline = newline_of(text[: front.end])
    pinned = f"{text[: front.end]}{front.indent}pinned: true{newline}{text[front.end :]}"
    if not is_pinned(pinned):
        raise _cannot_pin(rel_path, "is not a plain list of keys")
    return pinned


def without_pin(text: str) -> str:
    """Return the text of a file without `pinned`, dropping front matter left empty."""
    front = read_front_matter(text) if _PIN_KEY in text else None
    pins = [e for e in front.entries if e.key == _PIN_KEY] if front else []
    pins = [entry for entry in pins if _word_value(entry.value) in _TRUE | _FALSE]
    if front is None or not pins:
        return text
    left = replace_spans(text, ((entry.start, entry.end, "") for entry in pins))
    rest = read_front_matter(left)
    if rest and not left[rest.start : rest.end].strip():
        below = left.find("\n", rest.end) + 1 or len(left)
        return (_BOM if text.startswith(_BOM) else "") + left[below:]
    return left


def _word_value(value: object) -> str | None:
    """Return a scalar in lower case, or None for anything else."""
    return value.strip().lower() if isinstance(value, str) else None if value is None else "…"


def _first_key_on(head: str) -> str:
    """Return front matter without leading blank lines and comments."""
    bare = head.lstrip()
    while bare.startswith("#"):
        bare = bare.partition("\n")[2].lstrip()
    return bare


def _cannot_pin(rel_path: str, what: str) -> BadInputError:
    return BadInputError(
        f"The front matter of {rel_path!r} {what}; nothing was changed",
        hint="Add the line `pinned: true` to it by hand.",
    )


# Characters a bullet cannot show as they are: controls, line separators, bidi marks, surrogates.
_HIDDEN: Final = (
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_H1: Final = re.compile(r"#(?:[ \t]+(.*))?")
_DISABLED: Final = re.compile(r"[*_]*disabled[*_]*", re.IGNORECASE)
_MARK: Final = re.compile(r"<!-- *lorebook entry ([0-9a-f]{8,64}) *-->")
_REGEX_KEY: Final = re.compile(r"/.+/[a-z]*", re.DOTALL)
_EXPRESSION: Final = re.compile(r"/.+/[dgimsuvy]*", re.DOTALL)


class LorePage(Struct, frozen=True):
    """The editable part of a lore entry.

    Args:
        title: The H1, or None without one.
        keys: Trigger keywords.
        enabled: False if marked as disabled.
        entry_id: Id of its settings, or None in a file created by a person.
        body: Text below. A written file always ends in a newline, which may not be part of it.
        pinned: Whether it is in every prompt.
    """

    title: str | None
    keys: tuple[str, ...] = ()
    enabled: bool = True
    entry_id: str | None = None
    body: str = ""
    pinned: bool = False


def render_lore(page: LorePage) -> str:
    """Render the file for `page`; `parse_lore` reads it back."""
    bullets = [f"- {quote_value(key)}\n" for key in page.keys]
    if not page.enabled:
        bullets.append("- **Disabled**\n")
    mark = f"<!-- lorebook entry {page.entry_id} -->\n" if page.entry_id else ""
    ending = "" if not page.body or page.body.endswith("\n") else "\n"
    parts = (f"# {page.title or ''}".rstrip() + "\n", "".join(bullets), mark, page.body + ending)
    return (PIN if page.pinned else "") + "\n".join(part for part in parts if part)


def parse_lore(text: str) -> LorePage:
    """Parse a lore file, tolerating edits by hand."""
    page = _parse_page(split_lines(text[_entry_start(text) :]))
    return replace(page, pinned=True) if is_pinned(text) else page


def _entry_start(text: str) -> int:
    """Return the offset of the entry, below any front matter."""
    return body_start(text) or len(text) - len(text.removeprefix("\ufeff"))


def _parse_page(lines: list[str]) -> LorePage:
    top = _skip_blank(lines, 0)
    heading = _H1.fullmatch(_bare_title(lines[top])) if top < len(lines) else None
    title = (heading[1] or "").strip() if heading else None
    first = _skip_blank(lines, top + 1 if heading else top)
    last, bullets = _read_bullets(lines, first)
    below = _skip_blank(lines, last)
    mark = _MARK.fullmatch(_bare_title(lines[below])) if below < len(lines) else None
    if mark:
        blank = below + 1 < len(lines) and not _bare_title(lines[below + 1])
        return _make_page(title, bullets, mark[1], lines[below + 1 + blank :])
    return _read_unmarked(title, bullets, lines[first:last], lines[below:])


def aside_spans(text: str) -> list[tuple[int, int]]:
    """Return the ranges of a file that are keys or marks rather than the entry's text."""
    page, skipped = parse_lore(text), _entry_start(text)
    lines = split_lines(text[skipped:])
    starts = [*accumulate(map(len, lines), initial=skipped)]
    spans = [
        (starts[n], starts[n + 1])
        for n, line in enumerate(lines)
        if _MARK.fullmatch(_bare_title(line))
    ]
    if page.keys or not page.enabled:
        top = _skip_blank(lines, 0)
        first = _skip_blank(lines, top + 1) if page.title is not None else top
        spans.append((starts[first], starts[_read_bullets(lines, first)[0]]))
    return sorted(spans)


def is_expression(key: str) -> bool:
    """Tell whether a key or title is a JavaScript regular expression."""
    return _EXPRESSION.fullmatch(key.strip()) is not None


def quote_value(key: str) -> str:
    """Quote `key` on one line for `unquote_value`: plain, as code, or as a JSON string."""
    if not key or key != key.strip() or re.search(_HIDDEN, key):
        return _as_json(key)
    if _REGEX_KEY.fullmatch(key) and "`" not in key:
        return f"`{key}`"
    if key[0] in '`"' or _DISABLED.fullmatch(key) or not _is_bullet(f"- {key}"):
        return _as_json(key)
    return key


def unquote_value(line: str) -> str:
    """Return the key in the text of a bullet."""
    inner = line[1:-1]
    if len(line) > 2 and line[0] == line[-1] == "`" and "`" not in inner:  # noqa: PLR2004  # two ticks
        return inner
    if (inner and line[0] == line[-1] == '"') or line == '""':
        try:
            return str(json.loads(line))
        except ValueError:
            return line
    return line


def _as_json(key: str) -> str:
    text = json.dumps(key, ensure_ascii=False)
    return re.sub(_HIDDEN, lambda match: f"\\u{ord(match[0]):04x}", text)


def _read_unmarked(
    title: str | None, bullets: list[str], listed: list[str], rest: list[str]
) -> LorePage:
    """Parse a file whose mark was moved, removed or never there."""
    marks = [n for n, line in enumerate(rest) if _MARK.fullmatch(_bare_title(line))]
    if marks:
        match = _MARK.fullmatch(_bare_title(rest[marks[0]]))
        assert match
        return _make_page(title, bullets, match[1], rest[: marks[0]] + rest[marks[0] + 1 :])
    if not rest:  # a list with nothing below it is the text
        return _make_page(title, [], None, listed)
    return _make_page(title, bullets, None, rest)


def _make_page(
    title: str | None, bullets: list[str], entry_id: str | None, body: list[str]
) -> LorePage:
    keys = tuple(unquote_value(text) for text in bullets if not _DISABLED.fullmatch(text))
    return LorePage(title, keys, len(keys) == len(bullets), entry_id, "".join(body))


def _read_bullets(lines: list[str], at: int) -> tuple[int, list[str]]:
    """Return the line after a list starting at `at`, and its items with continuation lines."""
    items: list[str] = []
    while at < len(lines):
        if _is_bullet(lines[at]):
            items.append(without_marker(_bare_title(lines[at])).strip())
        elif items and lines[at][0] in " \t" and _bare_title(lines[at]):
            items[-1] += " " + _bare_title(lines[at]).strip()
        elif _bare_title(lines[at]) or not _list_goes_on(lines, at):
            break
        at += 1
    return at, [item for item in items if item]


def _list_goes_on(lines: list[str], at: int) -> bool:
    """Tell whether only blank lines separate `at` from another bullet."""
    after = _skip_blank(lines, at)
    return after < len(lines) and _is_bullet(lines[after])


def _is_bullet(line: str) -> bool:
    found = bullet(line)
    return found is not None and not found.indent and not found.marker[:-1]


def _skip_blank(lines: list[str], at: int) -> int:
    while at < len(lines) and not _bare_title(lines[at]):
        at += 1
    return at


def _bare_title(line: str) -> str:
    """Return a line without leading white space and newline."""
    return line.rstrip(" \t\r\n")


PERSONA_DIR: Final = f"{SELF_DIR}/.persona"
"""Where the original files of an imported persona are kept."""

TIERS_NOTE: Final = f"{PERSONA_DIR}/CONTEXT_TIERS.md"
"""The persona's own description of its tiers."""

ORIGINAL_STEM: Final = ".original"  # the suffix names the container format: .png .json .yaml .charx


class SelfFile(Struct, frozen=True):
    """A card field with its own file.

    Args:
        field: The field's name in a V3 card.
        title: H1 of the file.
    """

    field: str
    title: str

    @property
    def rel_path(self) -> str:
        """Path of the file, below the memory root."""
        return f"{SELF_DIR}/{self.field}.md"


SELF_FILES: Final = (
    SelfFile("description", "Description"),
    SelfFile("personality", "Personality"),
    SelfFile("scenario", "Scenario"),
    SelfFile("first_mes", "First message"),
    SelfFile("mes_example", "Example messages"),
    SelfFile("system_prompt", "System prompt"),
    SelfFile("post_history_instructions", "Post-history instructions"),
)


def self_file(field: str) -> SelfFile:
    """Return the file that holds `field`.

    Raises:
        KeyError: The field has no file.
    """
    for entry in SELF_FILES:
        if entry.field == field:
            return entry
    raise KeyError(field)


def field_markdown(field: str, text: str) -> str:
    """Return the content of the file that holds `text` as `field`."""
    return f"# {self_file(field).title}\n\n{text}"


def field_text(markdown: str) -> str:
    """Return the field's text: everything below the H1 and one blank line, unchanged.

    Front matter above the H1 is skipped. Without an H1, the text starts at the first line.
    """
    below = markdown[body_start(markdown) :]
    first, newline, rest = (below if below.startswith("# ") else markdown).partition("\n")
    if not first.startswith("# "):
        return markdown
    if not newline:
        return ""
    for blank in ("\n", "\r\n"):
        if rest.startswith(blank):
            return rest[len(blank) :]
    return rest
