"""Import what other programs remember: dated lines with their source, as one plan or one change."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from contextlib import closing
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from familiar_cli.base.errors import BadInputError
from familiar_cli.base.text import counted, one_line, sha256_of, slugify
from familiar_cli.base.times import clock
from familiar_cli.base.who.identity import NEUTRAL
from familiar_cli.base.who.visibility import OWNERS
from familiar_cli.imports import import_plan
from familiar_cli.store.memory.layout import TOPICS_DIR, people_path
from familiar_cli.store.memory.pages.lines import normal_line
from familiar_cli.store.memory.pages.visible_lines import private_heading
from familiar_cli.writing.housekeeping.hazards import gives_orders
from familiar_cli.writing.review import pending
from familiar_cli.writing.writer.page_text import new_file, with_bullets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from familiar_cli.familiar import Familiar
    from familiar_cli.imports.contract import ForeignMemories, ForeignMemory

LEDGER: Final = ".imported/lines.json"
"""Digests of all lines that were imported, so that a deleted one does not come back."""

_SOURCE: Final = "import"
_DIGEST_CHARS: Final = 10
_NAME_CHARS: Final = 60
_VERSION: Final = 1


class ImportedLines(import_plan.ImportReport, frozen=True, kw_only=True):
    """Result of an import of memories.

    Args:
        program: The program they come from.
        lines: Number of new lines.
        known: Number of lines that were imported before.
        plan: The plan that awaits review; empty if none does.
        refused: Lines that are not imported, and why.
    """

    program: str
    lines: int = 0
    known: int = 0
    plan: str = ""
    refused: tuple[str, ...] = ()


def import_lines(
    familiar: Familiar,
    memories: ForeignMemories,
    file: str,
    *,
    at_once: bool = False,
    dry_run: bool = False,
) -> ImportedLines:
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
    pages = _pages_of(familiar, memories)
    draft, known = pending.Draft(familiar.memory), _read_ledger(familiar)
    new, refused = defaultdict[str, list[str]](list), list[str]()
    before = sum(_digest(one) in known for one in memories.memories)
    for one in memories.memories:
        digest = _digest(one)
        if digest in known:
            continue
        if gives_orders(one.text):
            refused.append(f"line {one.line} gives orders to a model: {one_line(one.text, 80)}")
            continue
        known.add(digest)
        new[pages[one.about]].append(_render(one, file, digest))
    titles = {page: about or familiar.me().name or "Owner" for about, page in pages.items()}
    heading = private_heading(memories.program, OWNERS, familiar.phrases)
    there = 0
    for rel_path, lines in new.items():
        there += _put(draft, rel_path, heading, titles[rel_path], lines)
    done = ImportedLines(
        program=memories.program,
        lines=sum(map(len, new.values())) - there,
        known=before + there,
        refused=tuple(refused),
        found_when_it_fits=tuple(_uses(memories.memories, new)) if draft else (),
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


def _digest(one: ForeignMemory) -> str:
    return sha256_of(f"{normal_line(one.text)}\n{one.about.casefold()}")[:_DIGEST_CHARS]


def _pages_of(familiar: Familiar, memories: ForeignMemories) -> dict[str, str]:
    """Return the page of each subject: the owner's, that of somebody known, or a topic's."""
    pages = {"": people_path(NEUTRAL.slug)}
    with closing(familiar.names()) as names:
        names.refresh()
        for about in {one.about for one in memories.memories} - {""}:
            slugs = names.called(about)
            topic = f"{TOPICS_DIR}/{slugify(about) or 'imported'}.md"
            pages[about] = people_path(slugs[0]) if len(slugs) == 1 else topic
    return pages


def _render(one: ForeignMemory, file: str, digest: str) -> str:
    day = f"{one.day.isoformat()}: " if one.day else ""
    name = one_line(file, _NAME_CHARS).replace("--", "-").replace("<", "").replace(">", "")
    text = one.text.replace("<!--", "<! --")
    return f"- {day}{text} <!-- from {name}:{one.line} {digest} -->"


def _put(
    draft: pending.Draft,
    rel_path: str,
    heading: str,
    title: str,
    lines: Sequence[str],
) -> int:
    """Add lines to a page's section of the program; return how many stand there already."""
    text = draft.text(rel_path)
    own = {normal_line(line) for line in (text or "").split("\n")}
    marks = {line.rpartition(" ")[2] for line in (text or "").split(" -->")}
    fresh = [
        line for line in lines if line.split()[-2] not in marks and normal_line(line) not in own
    ]
    if fresh:
        draft.put(rel_path, with_bullets(text or new_file(title), heading, fresh))
    return len(lines) - len(fresh)


def _uses(memories: Sequence[ForeignMemory], new: dict[str, list[str]]) -> Iterator[str]:
    for rel_path, lines in sorted(new.items()):
        yield f"{counted(len(lines), 'line')} in {rel_path}"
    undated = Counter(one.day is None for one in memories)[True]
    if undated and new:
        yield f"{counted(undated, 'memory', 'memories')} without a date"


def _plan_of(draft: pending.Draft, file: str) -> pending.ReviewPlan:
    files = tuple(pending.PlannedFile(one.rel_path, one.before, one.after) for one in draft)
    told = "\0".join(f"{one.rel_path}\0{one.after}" for one in files)
    return pending.ReviewPlan(
        id=f"import-{sha256_of(told)[:_DIGEST_CHARS]}",
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
    found = import_plan.load_ledger(
        familiar.memory,
        LEDGER,
        lambda data: {str(digest) for digest in data["lines"]},
        keeps="which memories were imported",
        hint="Restore an older copy of it, or delete it; deleted lines may then come again.",
    )
    return found or set()


def _dump_ledger(digests: set[str]) -> str:
    return json.dumps({"familiar_lines": _VERSION, "lines": sorted(digests)}, indent=0) + "\n"
