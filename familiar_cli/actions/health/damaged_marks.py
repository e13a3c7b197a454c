"""Find damaged marks in a page: front matter and comments that the program reads."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final

from familiar_cli.base.markdown import scan, split_front_matter, split_lines
from familiar_cli.store.memory.pages.lines import BODY
from familiar_cli.store.memory.pages.visible_lines import is_damaged
from familiar_cli.writing.consolidation.pages import read_page

_COMMENT: Final = re.compile(r"<!--\s*([^\s<>-]*)[^\n]*?(?:-->|$)")
_WHOLE: Final = {
    "turns": re.compile(rf"<!-- turns? {BODY} -->"),
    "private": re.compile(r"<!-- private [^\s<>]+ -->"),
    "same": re.compile(r"<!-- same person as [^\s<>]{1,255} -->"),
    "lorebook": re.compile(r"<!-- *lorebook entry [0-9a-f]{8,64} *-->"),
    "from": re.compile(r"<!-- from [^<>]* -->"),
}
_ALIKE: Final = 0.75
_RECORD: Final = re.compile(r"(?:made_by|sources|blocks)\b")
_KEY: Final = re.compile(r"[\w-]+[ \t]*:")


def damage_in(text: str) -> list[tuple[int, str]]:
    """Return the damaged machine-readable parts of a file: line and problem."""
    return [*_front_problems(text), *_comment_problems(text)]


def _front_problems(text: str) -> Iterator[tuple[int, str]]:

    lines = split_lines(text.removeprefix("\ufeff"))
    if not lines or lines[0].strip() != "---":
        return
    head, _ = split_front_matter(text)
    if head is None:
        if len(lines) > 1 and _KEY.match(lines[1]):
            yield 1, "front matter without a closing `---`; it is read as text"
        return
    ours = [n for n, line in enumerate(head.split("\n"), 2) if _RECORD.match(line)]
    if ours and read_page(text).record is None:
        yield ours[0], "a record of sources that cannot be read; the file counts as yours"
    elif not ours and (line := _bad_yaml(head)) is not None:
        yield line, "front matter that is not YAML"


def _bad_yaml(head: str) -> int | None:
    import yaml

    try:
        yaml.safe_load(head)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return 2 + (mark.line if mark else 0)
    except (ValueError, RecursionError):  # such as an impossible date
        return 2
    return None


def _comment_problems(text: str) -> Iterator[tuple[int, str]]:
    for line in scan(text):
        if is_damaged(line.text):
            yield line.number, "a private mark that cannot be read; its section stays hidden"
            continue
        for comment in () if line.in_code else _COMMENT.finditer(line.text):
            kind = difflib.get_close_matches(comment[1], [*_WHOLE, "turn"], n=1, cutoff=_ALIKE)
            whole = _WHOLE["turns" if kind == ["turn"] else kind[0]] if kind else None
            if whole and kind != ["private"] and not whole.match(comment[0]):
                yield line.number, f"a comment that cannot be read: {comment[0].strip()[:60]!r}"
