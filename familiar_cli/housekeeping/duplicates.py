"""Files that say the same, word for word or nearly, and lines that a file says twice."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.sketch import groups_alike, words_of
from familiar_cli.housekeeping.types import DERIVED, Check, Edit, Finding, Quote
from familiar_cli.memory.likeness import normal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Corpus, Note, Options

_LEAST_WORDS: Final = 8
_LEAST_CHARS: Final = 20
_BULLET: Final = re.compile(r"(?P<indent>\s*)(?:[-*+]|\d{1,9}[.)])[ \t]+\S")
_MARKDOWN: Final = (".md", ".markdown", ".txt")


def check_duplicates(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield what stands in the memory more than once."""
    notes = [n for n in corpus.notes if _counts(n)]
    words = {note.rel_path: words_of(note.text) for note in notes}
    by_path = {note.rel_path: note for note in notes}
    said: dict[bytes, list[str]] = defaultdict(list)
    for path, listed in words.items():
        if len(listed) >= _LEAST_WORDS:
            said[_digest(listed)].append(path)
    for paths in said.values():
        if len(paths) > 1:
            yield _finding(by_path, paths, "say the same, word for word")
    once = {paths[0]: words[paths[0]] for paths in said.values()}
    for paths, share in groups_alike(once, options.likeness):
        yield _finding(by_path, paths, f"say nearly the same ({share:.0%} of their runs of words)")
    for note in notes:
        yield from _said_twice(note)


def _counts(note: Note) -> bool:
    is_text = note.rel_path.lower().endswith(_MARKDOWN)
    return is_text and note.directory not in (*DERIVED, "self")


def _digest(words: list[str]) -> bytes:
    return hashlib.sha256("\n".join(words).encode("utf-8", errors="surrogatepass")).digest()


def _finding(notes: dict[str, Note], paths: list[str], what: str) -> Finding:
    return Finding(
        CHECK.name,
        tuple(paths),
        f"{len(paths)} files {what}",
        tuple(_begins(notes[path]) for path in paths),
        hint="Keep the one that others link to; `familiar memory rm PATH` takes one away.",
    )


def _begins(note: Note) -> Quote:
    lines = enumerate(note.text.splitlines(), 1)
    number, line = next(((n, t) for n, t in lines if t.strip() and not t.startswith("#")), (1, ""))
    return Quote(note.rel_path, number, line)


def _said_twice(note: Note) -> Iterator[Finding]:
    """Yield a finding where bullets of one list say the same; headings part the lists."""
    lines = note.text.splitlines(keepends=True)
    seen: dict[str, int] = {}
    again: list[int] = []
    firsts: list[int] = []
    fence = False
    for at, line in enumerate(lines):
        if line.lstrip().startswith(("```", "~~~")):
            fence = not fence
        elif line.startswith("#"):
            seen = {}
        elif not fence and _BULLET.match(line) and not _goes_on(lines, at):
            key = normal(line)
            if len(key) >= _LEAST_CHARS and key in seen:
                again.append(at)
                firsts.append(seen[key])
            elif key:
                seen.setdefault(key, at)
    if again:
        gone = set(again)
        after = "".join(line for at, line in enumerate(lines) if at not in gone)
        numbers = sorted({*again, *firsts})
        yield Finding(
            CHECK.name,
            (note.rel_path,),
            "says the same twice in one list",
            tuple(Quote(note.rel_path, at + 1, lines[at].rstrip("\r\n")) for at in numbers),
            repair=(Edit(note.rel_path, note.text, after),),
            hint="`--propose` makes a plan that keeps the first.",
        )


def _goes_on(lines: list[str], at: int) -> bool:
    """Tell whether a bullet has more than its line, so that it cannot be taken out alone."""
    following = lines[at + 1] if at + 1 < len(lines) else ""
    if not following.strip() or following.startswith("#"):
        return False
    mine, next_one = _BULLET.match(lines[at]), _BULLET.match(following)
    return next_one is None or len(next_one["indent"]) > len(mine["indent"] if mine else "")


CHECK: Final = Check(
    "duplicates", "files that say the same or nearly, and lines said twice", check_duplicates
)
