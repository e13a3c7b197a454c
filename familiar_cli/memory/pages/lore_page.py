"""The Markdown form of one entry of a lorebook.

Front matter when it is pinned, an H1 with the title, a bullet for each key, `- **Disabled**` when
it is switched off, a comment with the id of its settings, a blank line, then the text as it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from familiar_cli.markdown import body_start, bullet, split_lines, without_marker
from familiar_cli.memory.pages.pins import PIN, is_pinned

# What no bullet shows as it is: controls, line separators, marks that reorder text, surrogates.
_HIDDEN: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_H1: Final = re.compile(r"#(?:[ \t]+(.*))?")
_DISABLED: Final = re.compile(r"[*_]*disabled[*_]*", re.IGNORECASE)
_MARK: Final = re.compile(r"<!-- *lorebook entry ([0-9a-f]{8,64}) *-->")
_REGEX_KEY: Final = re.compile(r"/.+/[a-z]*", re.DOTALL)
_EXPRESSION: Final = re.compile(r"/.+/[dgimsuvy]*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LorePage:
    """What a person sees of one entry.

    Args:
        title: The H1, or None when there is none.
        keys: The words that call it up.
        enabled: False when it is marked as disabled.
        entry_id: The id of its settings, or None in a file that a person began.
        body: The text below. A written file always ends in a newline, so one may be the file's own.
        pinned: It is in every prompt.
    """

    title: str | None
    keys: tuple[str, ...] = ()
    enabled: bool = True
    entry_id: str | None = None
    body: str = ""
    pinned: bool = False


def render(page: LorePage) -> str:
    """Return the file for `page`; `parse` reads it back."""
    bullets = [f"- {quote(key)}\n" for key in page.keys]
    if not page.enabled:
        bullets.append("- **Disabled**\n")
    mark = f"<!-- lorebook entry {page.entry_id} -->\n" if page.entry_id else ""
    ending = "" if not page.body or page.body.endswith("\n") else "\n"
    parts = (f"# {page.title or ''}".rstrip() + "\n", "".join(bullets), mark, page.body + ending)
    return (PIN if page.pinned else "") + "\n".join(part for part in parts if part)


def parse(text: str) -> LorePage:
    """Return what a file says, however a person left it."""
    page = _parsed(split_lines(text[_start(text) :]))
    return replace(page, pinned=True) if is_pinned(text) else page


def _start(text: str) -> int:
    """Return where the entry begins, below any front matter."""
    return body_start(text) or len(text) - len(text.removeprefix("\ufeff"))


def _parsed(lines: list[str]) -> LorePage:
    top = _skip_blank(lines, 0)
    heading = _H1.fullmatch(_bare(lines[top])) if top < len(lines) else None
    title = (heading[1] or "").strip() if heading else None
    first = _skip_blank(lines, top + 1 if heading else top)
    last, bullets = _bullets(lines, first)
    below = _skip_blank(lines, last)
    mark = _MARK.fullmatch(_bare(lines[below])) if below < len(lines) else None
    if mark:
        blank = below + 1 < len(lines) and not _bare(lines[below + 1])
        return _page(title, bullets, mark[1], lines[below + 1 + blank :])
    return _unmarked(title, bullets, lines[first:last], lines[below:])


def aside_spans(text: str) -> list[tuple[int, int]]:
    """Return which parts of a file are not the entry's own words: the keys, and the mark."""
    page, skipped = parse(text), _start(text)
    lines = split_lines(text[skipped:])
    starts = [*accumulate(map(len, lines), initial=skipped)]
    spans = [
        (starts[n], starts[n + 1]) for n, line in enumerate(lines) if _MARK.fullmatch(_bare(line))
    ]
    if page.keys or not page.enabled:
        top = _skip_blank(lines, 0)
        first = _skip_blank(lines, top + 1) if page.title is not None else top
        spans.append((starts[first], starts[_bullets(lines, first)[0]]))
    return sorted(spans)


def is_expression(key: str) -> bool:
    """Tell whether a key, or a title, is a regular expression as JavaScript writes it."""
    return _EXPRESSION.fullmatch(key.strip()) is not None


def quote(key: str) -> str:
    """Return `key` as one line that `unquote` reads back: plain, as code, or as a JSON string."""
    if not key or key != key.strip() or _HIDDEN.search(key):
        return _as_json(key)
    if _REGEX_KEY.fullmatch(key) and "`" not in key:
        return f"`{key}`"
    if key[0] in '`"' or _DISABLED.fullmatch(key) or not _is_bullet(f"- {key}"):
        return _as_json(key)
    return key


def unquote(line: str) -> str:
    """Return the key that the text of a bullet names."""
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
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _unmarked(
    title: str | None, bullets: list[str], listed: list[str], rest: list[str]
) -> LorePage:
    """Read a file whose mark a person moved or took away, or which never had one."""
    marks = [n for n, line in enumerate(rest) if _MARK.fullmatch(_bare(line))]
    if marks:
        found = _MARK.fullmatch(_bare(rest[marks[0]]))
        assert found
        return _page(title, bullets, found[1], rest[: marks[0]] + rest[marks[0] + 1 :])
    if not rest:  # a list with nothing below it is the text
        return _page(title, [], None, listed)
    return _page(title, bullets, None, rest)


def _page(title: str | None, bullets: list[str], entry_id: str | None, body: list[str]) -> LorePage:
    keys = tuple(unquote(text) for text in bullets if not _DISABLED.fullmatch(text))
    return LorePage(title, keys, len(keys) == len(bullets), entry_id, "".join(body))


def _bullets(lines: list[str], at: int) -> tuple[int, list[str]]:
    """Return the line after a list that begins at `at`, and its items; indented lines continue."""
    items: list[str] = []
    while at < len(lines):
        if _is_bullet(lines[at]):
            items.append(without_marker(_bare(lines[at])).strip())
        elif items and lines[at][0] in " \t" and _bare(lines[at]):
            items[-1] += " " + _bare(lines[at]).strip()
        elif _bare(lines[at]) or not _list_goes_on(lines, at):
            break
        at += 1
    return at, [item for item in items if item]


def _list_goes_on(lines: list[str], at: int) -> bool:
    """Say whether only blank lines stand between `at` and another bullet."""
    after = _skip_blank(lines, at)
    return after < len(lines) and _is_bullet(lines[after])


def _is_bullet(line: str) -> bool:
    found = bullet(line)
    return found is not None and not found.indent and not found.marker[:-1]


def _skip_blank(lines: list[str], at: int) -> int:
    while at < len(lines) and not _bare(lines[at]):
        at += 1
    return at


def _bare(line: str) -> str:
    """Return a line without its ending and the white space before it."""
    return line.rstrip(" \t\r\n")
