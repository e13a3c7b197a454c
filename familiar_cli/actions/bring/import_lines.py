"""Import what other programs remember: dated lines with their source, as one plan or one change."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from familiar_cli.base.errors import BadInputError
from familiar_cli.base.text import counted, one_line, sha256_of, slugify
from familiar_cli.base.times import clock
from familiar_cli.base.who.identity import NEUTRAL
from familiar_cli.familiar import Familiar
from familiar_cli.imports import import_plan
from familiar_cli.imports.contract import ForeignMemories, ForeignMemory
from familiar_cli.imports.memory_lists import build_memories, resolve_days
from familiar_cli.store.memory.aliases import Aliases
from familiar_cli.store.memory.layout import PEOPLE_DIR, TOPICS_DIR, is_page, people_path
from familiar_cli.store.memory.mentions import common_words, key_of
from familiar_cli.store.memory.pages.lines import normal_line, normal_lines
from familiar_cli.store.memory.pages.visible_lines import source_heading
from familiar_cli.writing import pending
from familiar_cli.writing.housekeeping.hazards import gives_orders
from familiar_cli.writing.writer.page_text import new_file, with_bullets

LEDGER: Final = ".imported/lines.json"
"""Digests of all lines that were imported, so that a deleted one does not come back."""

_SOURCE: Final = "import"
_DIGEST_CHARS: Final = 10
_NAME_CHARS: Final = 60
_MOST_PAGE_CHARS: Final = 60_000  # of up to four bytes; a page has at most 256 KiB
_MARK: Final = re.compile(r"<!-- from [^<>\n]+:\d+ ([0-9a-f]{10}) -->")
_NAME_WORDS: Final = 3  # at the start of a line
_WITHIN: Final = "by"  # a sentence begins with a capital, whatever its first word is
_DOES: Final = re.compile(r"\w+(?:['’]s\b|\s+\w+s\b)")
_VERSION: Final = 1


def import_lines(
    familiar: Familiar,
    memories: ForeignMemories,
    file: str,
    *,
    at_once: bool = False,
    dry_run: bool = False,
) -> import_plan.ImportedLines:
    """Import memories as a plan for review, or at once, in one change.

    They are private to the owner.

    Args:
        familiar: The familiar.
        memories: The memories.
        file: Name of their file, which each line names.
        at_once: Apply them instead of making a plan.
        dry_run: Change nothing.

    Raises:
        BadInputError: Nothing in them can be imported.
        FamiliarError: A file cannot be written; everything is as before.
    """
    if not memories.memories:
        raise BadInputError(f"{file!r} holds no memory; nothing was imported")
    draft = pending.Draft(familiar.memory)
    known = _read_ledger(familiar) | _marks_in(familiar)
    new, refused = list[ForeignMemory](), list[str]()
    for one in memories.memories:
        if (digest := _digest(one)) in known:
            continue
        if gives_orders(one.text):
            where = f"{one.file} line {one.line}".strip()
            refused.append(f"{where} gives orders to a model: {one_line(one.text, 80)}")
            continue
        known.add(digest)
        new.append(one)
    heading = source_heading(memories.program, familiar.phrases)
    added: dict[str, int] = {}
    for (rel_path, title), lines in _lines_by_page(familiar, memories.program, new, file).items():
        for path, part in _spread(draft, rel_path, title, memories.program, lines):
            added[path] = added.get(path, 0) + _add_lines(draft, path, heading, title, part)
    number = sum(added.values())
    done = import_plan.ImportedLines(
        program=memories.program,
        lines=number,
        known=len(memories.memories) - len(refused) - number,
        refused=tuple(refused),
        found_when_it_fits=tuple(_uses(new, added)) if draft else (),
        written=tuple(file.rel_path for file in draft),
        warnings=memories.notes,
    )
    if dry_run or not draft:
        return done
    plan = _plan_of(draft, file)
    if not at_once:
        with familiar.memory.transaction(_SOURCE, f"propose to import {one_line(file, 80)}") as tx:
            pending.stage_plan(tx, familiar.memory, plan)
        return replace(done, plan=plan.id)
    ledger = import_plan.change_ledger(familiar.memory, LEDGER, _dump_ledger(known))
    message = f"import {counted(done.lines, 'memory', 'memories')} from {one_line(file, 80)}"
    with familiar.memory.transaction(_SOURCE, message) as tx:
        draft.stage(tx)
        tx.write(ledger.path, ledger.content or b"", expect=ledger.expect, any_size=True)
        if familiar.memory.exists(plan.rel_path):  # it was proposed before
            tx.delete(plan.rel_path)
    return done


def import_notes(
    familiar: Familiar,
    matches: Iterable[tuple[str, ForeignMemories]],
    name: str,
    *,
    at_once: bool = False,
    dry_run: bool = False,
) -> list[import_plan.ImportedLines]:
    """Import the memories of several files, as one plan or change for each program.

    Args:
        familiar: The familiar.
        matches: The memories, with their files.
        name: Name of all those files together.
        at_once: As for `import_lines`.
        dry_run: Change nothing.
    """
    lines: dict[str, list[ForeignMemory]] = {}
    for file, memories in matches:
        told = (replace(one, file=Path(file).name) for one in memories.memories)
        lines.setdefault(memories.program, []).extend(told)
    wish = {"at_once": at_once, "dry_run": dry_run}
    return [
        import_lines(familiar, build_memories(program, name, some), name, **wish)
        for program, some in lines.items()
    ]


def orders_in(files: Mapping[str, bytes]) -> list[str]:
    """Return a remark for each line of notes that gives orders to a model; they are kept.

    Args:
        files: The bytes of each file, by its path.
    """
    texts = {path: raw.decode("utf-8", "replace") for path, raw in files.items() if is_page(path)}
    return [
        f"{path} line {number} looks like instructions to a model: {one_line(line, 80)}"
        for path, text in texts.items()
        if gives_orders(text)
        for number, line in enumerate(text.split("\n"), 1)
        if gives_orders(line)
    ]


def _digest(one: ForeignMemory) -> str:
    return sha256_of(f"{normal_line(one.text)}\n{one.about.casefold()}")[:_DIGEST_CHARS]


def _lines_by_page(
    familiar: Familiar, program: str, memories: Sequence[ForeignMemory], file: str
) -> dict[tuple[str, str], list[str]]:
    """Return the lines for each page, by its path and title."""
    lines = defaultdict[tuple[str, str], list[str]](list)
    own, owners = familiar.me().slugs, people_path(NEUTRAL.slug)
    with closing(familiar.names()) as names:
        names.refresh()
        has_others = any(person.slug not in own for person in names.people())
        for one in memories:
            slugs: Sequence[str] = ()
            if one.about or has_others:
                slugs = names.called(one.about) if one.about else _person_at_start(names, one.text)
            page, title = f"{TOPICS_DIR}/{slugify(one.about) or 'imported'}.md", one.about
            text = one.text
            if own.intersection(slugs) or not (one.about or slugs):
                page, title = owners, familiar.me().name or "Owner"
            elif len(slugs) == 1:
                page, title = people_path(slugs[0]), one.about or slugs[0]
                text = _as_claim(familiar, program, text)
            lines[page, title].append(_render(one, text, file))
    return lines


def _person_at_start(names: Aliases, text: str) -> Sequence[str]:
    """Return the slug of the known person with whose name a line begins; empty for nobody.

    A name that is also a word must be followed by a verb: "Will likes tea", not "Will travel".
    """
    start = " ".join(text.split(maxsplit=_NAME_WORDS)[:_NAME_WORDS])
    named = next(iter(names.find(f"{_WITHIN} {start}")), None)
    if not named or len(named.slugs) != 1 or not key_of(start).startswith(named.name):
        return ()
    is_word = named.name in common_words() and not _DOES.match(start)
    return () if is_word else named.slugs


def _as_claim(familiar: Familiar, program: str, text: str) -> str:
    """Word a memory about somebody else as what its program says."""
    form, who = familiar.phrases.claim, program[:1].upper() + program[1:]
    is_claim = text.startswith(form.format(who=who, line=""))
    return text if is_claim else form.format(who=who, line=text)


def _render(one: ForeignMemory, text: str, file: str) -> str:
    day = f"{one.day.isoformat()}: " if one.day else ""
    name = one_line(f"{file}/{one.file}" if one.file else file, _NAME_CHARS)
    name = name.replace("--", "-").replace("<", "").replace(">", "")
    text = resolve_days(text, one.day).replace("<!--", "<! --")
    return f"- {day}{text} <!-- from {name}:{one.line} {_digest(one)} -->"


def _marks_in(familiar: Familiar) -> set[str]:
    """Return the digests of the imported lines that are in memory, as after a review."""
    items = set[str]()
    for directory in (PEOPLE_DIR, TOPICS_DIR):
        for file in familiar.memory.walk(directory, missing_ok=True).files:
            if is_page(file.rel_path):
                items.update(
                    _MARK.findall(
                        familiar.memory.read_bytes(file.rel_path).decode("utf-8", "replace")
                    )
                )
    return items


def _spread(
    draft: pending.Draft, rel_path: str, title: str, program: str, lines: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    """Yield a page's lines, and those of further pages if they are too many for one."""
    stem = rel_path.removesuffix(".md")
    if not rel_path.startswith(f"{TOPICS_DIR}/"):
        stem = f"{TOPICS_DIR}/{slugify(f'{title} {program}') or 'imported'}"
    path, part, number = rel_path, list[str](), 1
    room = _MOST_PAGE_CHARS - len(draft.text(path) or "")
    for line in lines:
        while len(line) > room:
            if part:
                yield path, part
            number, part = number + 1, []
            path = f"{stem}-{number}.md"
            room = _MOST_PAGE_CHARS - len(draft.text(path) or "")
        part.append(line)
        room -= len(line)
    if part:
        yield path, part


def _add_lines(
    draft: pending.Draft, rel_path: str, heading: str, title: str, lines: Sequence[str]
) -> int:
    """Add the lines that a page does not have to its section of the program; count them."""
    text = draft.text(rel_path)
    own = normal_lines(text or "")
    fresh = [line for line in lines if normal_line(line) not in own]
    if fresh:
        draft.put(rel_path, with_bullets(text or new_file(title), heading, fresh))
    return len(fresh)


def _uses(new: Sequence[ForeignMemory], added: dict[str, int]) -> Iterator[str]:
    for rel_path, number in sorted(added.items()):
        yield f"{counted(number, 'line')} in {rel_path}"
    undated = sum(one.day is None for one in new)
    if undated:
        yield f"{counted(undated, 'memory', 'memories')} without a date"


def _plan_of(draft: pending.Draft, file: str) -> pending.ReviewPlan:
    files = tuple(pending.PlannedFile(one.rel_path, one.before, one.after) for one in draft)
    text = "\0".join(f"{one.rel_path}\0{one.after}" for one in files)
    return pending.ReviewPlan(
        id=f"import-{sha256_of(text)[:_DIGEST_CHARS]}",
        run=_SOURCE,
        created=clock.iso(clock.now()),
        why="review",
        model=_SOURCE,
        turns=(0, 0),
        files=files,
        source=_SOURCE,
        rests_on=f"the memories in {file}",
    )


def _read_ledger(familiar: Familiar) -> set[str]:
    ledger = import_plan.load_ledger(
        familiar.memory,
        LEDGER,
        lambda data: {str(digest) for digest in data["lines"]},
        keeps="which memories were imported",
        hint="Restore an older copy of it, or delete it; deleted lines may then be imported again.",
    )
    return ledger or set()


def _dump_ledger(digests: set[str]) -> str:
    return json.dumps({"familiar_lines": _VERSION, "lines": sorted(digests)}, indent=0) + "\n"
