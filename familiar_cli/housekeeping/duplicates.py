"""Files that have the same text or nearly, and lines that a file says twice."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.lines import bullet_indent, goes_on
from familiar_cli.housekeeping.sketch import Sketches, words_of
from familiar_cli.housekeeping.types import DERIVED, Check, Finding, Quote
from familiar_cli.markdown import scan, without_marker
from familiar_cli.memory.layout import SELF_DIR
from familiar_cli.memory.pages.evidence import cited, reference, without_references
from familiar_cli.review.pending import PlannedFile
from familiar_cli.text import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Corpus, Note, Options

_LEAST_WORDS: Final = 8
_LEAST_CHARS: Final = 20
# A mark at the end of a sentence, a comma and how a word is set say nothing; a question mark does.
_NO_MATTER: Final = str.maketrans(dict.fromkeys(".,;:!*_\"'`", " "))
_MARKDOWN: Final = (".md", ".markdown", ".txt")


def check_duplicates(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield what stands in the memory more than once."""
    notes = {note.rel_path: note for note in corpus.notes if _counts(note)}
    said: dict[str, list[str]] = defaultdict(list)
    sketches = Sketches(options.similarity)
    for path, note in notes.items():
        words = words_of(note.folded)
        if len(words) >= _LEAST_WORDS:
            same = said[_digest(words)]
            same.append(path)
            if len(same) == 1:
                sketches.add(path, words)
        yield from _said_twice(note)
    for paths in said.values():
        if len(paths) > 1:
            yield _finding(notes, paths, "have the same text")
    for paths, share in sketches.groups():
        yield _finding(notes, paths, f"have nearly the same text ({share:.0%} of word sequences)")


def _counts(note: Note) -> bool:
    is_text = note.rel_path.lower().endswith(_MARKDOWN)
    return is_text and note.directory not in (*DERIVED, SELF_DIR)


def _digest(words: list[str]) -> str:
    return sha256_of("\n".join(words))


def _finding(notes: dict[str, Note], paths: list[str], what: str) -> Finding:
    shared = set(_keys(notes[paths[0]])).intersection(*(_keys(notes[path]) for path in paths[1:]))
    longest = max(shared, key=lambda key: (len(key), key), default="")
    return Finding(
        CHECK.name,
        tuple(paths),
        f"{len(paths)} files {what}",
        tuple(_line_of(notes[path], longest) for path in paths),
        hint="Keep the one that others link to; `familiar memory rm PATH` deletes the other.",
    )


def _keys(note: Note) -> list[str]:
    return [_key(line) for line in note.text.split("\n")]


def _line_of(note: Note, key: str) -> Quote:
    """Return the line of a file that says `key`, which all alike say; else where it begins."""
    keys = _keys(note)
    at = keys.index(key) if key in keys else 0
    return Quote(note.rel_path, at + 1, note.text.split("\n", at + 1)[at])


def _key(line: str) -> str:
    """Return what a line says: no mark of a list, no turns, no marks that say nothing."""
    return " ".join(
        without_references(without_marker(line)).casefold().translate(_NO_MATTER).split()
    )


def _said_twice(note: Note) -> Iterator[Finding]:
    """Yield a finding where bullets of one list say the same, and would lose nothing."""
    if not _may_repeat(note.folded):
        return
    lines = note.text.split("\n")
    again: dict[int, int] = {}
    for bullets in _lists(note.text, lines):
        first: dict[str, int] = {}
        for at in bullets:
            key = _key(lines[at])
            if first.setdefault(key, at) != at and len(key) >= _LEAST_CHARS:
                again[at] = first[key]
    if again:
        yield Finding(
            CHECK.name,
            (note.rel_path,),
            "has the same entry twice in one list",
            tuple(
                Quote(note.rel_path, at + 1, lines[at]) for at in sorted({*again, *again.values()})
            ),
            repair=(PlannedFile(note.rel_path, note.text, _once(lines, again)),),
            hint="`--propose` plans to keep the first.",
        )


def _may_repeat(folded: str) -> bool:
    """Tell whether looking closer is worth it: two bullets have the same words."""
    comment = "<!--".translate(_NO_MATTER)
    said = [
        " ".join(line.partition(comment)[0].lstrip("-+ \t").split())
        for line in folded.translate(_NO_MATTER).split("\n")
    ]
    long = [text for text in said if len(text) >= _LEAST_CHARS]
    return len(set(long)) < len(long)


def _lists(text: str, lines: list[str]) -> Iterator[list[int]]:
    """Yield the bullets that stand below each other with one indent, and are one line each.

    What is not a bullet ends all lists; a bullet of a smaller indent ends those within it.
    """
    opened: dict[int, list[int]] = {}
    for at, line in enumerate(scan(text)):
        indent = None if line.in_code else bullet_indent(line.text)
        if indent is not None:
            for deeper in [known for known in opened if known > indent]:
                yield opened.pop(deeper)
            bullets = opened.setdefault(indent, [])
            if not goes_on(lines, at, indent):
                bullets.append(at)
        elif line.text.strip() and not (opened and line.text.startswith((" ", "\t"))):
            yield from opened.values()
            opened = {}
    yield from opened.values()


def _once(lines: list[str], again: dict[int, int]) -> str:
    """Return the text without the bullets that say the same again; their turns are kept."""
    kept = list(lines)
    alike: dict[int, set[str]] = defaultdict(set)
    for at, first in again.items():
        alike[first].add(lines[at])
    for first, others in alike.items():
        known = cited(lines[first])
        both = reference([*known, *(turns for line in others for turns in cited(line))])
        if both != reference(known):
            end = "\r" if lines[first].endswith("\r") else ""
            bare = without_references(lines[first]).rstrip()
            kept[first] = f"{bare} {both}{end}"
    return "\n".join(line for at, line in enumerate(kept) if at not in again)


CHECK: Final = Check("duplicates", "Duplicates", check_duplicates)
