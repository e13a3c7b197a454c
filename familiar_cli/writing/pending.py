"""Plans that await approval, hunk by hunk, and what a person rejected."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import replace

from familiar_cli.base import errors
from familiar_cli.base.markdown import body_start, bullet, title_of
from familiar_cli.base.text import bare_lines, changed_blocks, nearest, sha256_of, unified_file
from familiar_cli.store.history.imports import withdraw_doubles
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.merge.content import merge_onto
from familiar_cli.store.memory.pages.lines import PLAIN, Numbering, as_line, is_reference
from familiar_cli.store.memory.store.files import MISSING

if TYPE_CHECKING:
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.store.memory.store.transactions import Transaction


DECISION: Final = "review"
"""How the journal's message of a decision on a plan begins."""


class FileChange(Struct, frozen=True):
    """Change of one file: `create` or `update`, and the numbers of lines added and removed."""

    rel_path: str
    operation: Literal["create", "update"]
    added: int
    removed: int


class DraftFile(Struct, frozen=True):
    """A file with a pending change.

    Args:
        before: Its text on disk, or None.
        expect: Its base version: a SHA-256, or `MISSING`.
        after: Its new text.
    """

    rel_path: str
    before: str | None
    expect: str
    after: str

    @property
    def change(self) -> FileChange:
        """How much of it changes."""
        blocks = list(changed_blocks(bare_lines(self.before or ""), bare_lines(self.after)))
        added = sum(d - c for _, _, c, d in blocks)
        removed = sum(b - a for a, b, _, _ in blocks)
        kind = "create" if self.before is None else "update"
        return FileChange(self.rel_path, kind, added, removed)  # type: ignore[arg-type]


class Draft:
    """A set of changed files. Other files are read from the memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._files: dict[str, DraftFile] = {}

    def __iter__(self) -> Iterator[DraftFile]:
        return (f for f in self._files.values() if f.after != f.before)

    def __bool__(self) -> bool:
        return any(True for _ in self)

    def copy(self) -> Draft:
        """Return an independent copy with the same changes."""
        other = Draft(self._store)
        other._files = dict(self._files)
        return other

    def text(self, rel_path: str) -> str | None:
        """Return a file with its pending change, or None if it does not exist.

        Raises:
            FamiliarError: It cannot be read.
        """
        if rel_path in self._files:
            return self._files[rel_path].after
        return self._store.read_file(rel_path) if self._store.exists(rel_path) else None

    def sha256(self, rel_path: str) -> str:
        """Return the hash of a file as it would be, or `MISSING`."""
        text = self.text(rel_path)
        return MISSING if text is None else sha256_of(text)

    def put(self, rel_path: str, text: str) -> None:
        """Change a file. Its base version is the one at the first change.

        Raises:
            FamiliarError: It cannot be read.
        """
        file = self._files.get(rel_path)
        if file is None:
            there = self._store.read(rel_path) if self._store.exists(rel_path) else None
            expect = there.sha256 if there else MISSING
            file = DraftFile(rel_path, there.text if there else None, expect, text)
        self._files[rel_path] = DraftFile(rel_path, file.before, file.expect, text)

    def drop(self, rel_path: str) -> None:
        """Discard the change of a file."""
        self._files.pop(rel_path, None)

    def stage(self, tx: Transaction) -> None:
        """Put all changes into a transaction."""
        for file in self:
            tx.write(file.rel_path, file.after, expect=file.expect)

    def diff(self) -> str:
        """Return all changes as a unified diff."""
        return "".join(unified_file(f.rel_path, f.before, f.after) for f in self)


_REJECTED_VERSION: Final = 1


def note_rejected(tx: Transaction, plan_id: str, grounds: str) -> None:
    """Remember in a transaction that a plan was rejected.

    Args:
        tx: The transaction.
        grounds: Hash of its sources; the plan may be proposed again from different ones.
    """
    text = json.dumps({"version": _REJECTED_VERSION, "grounds": grounds})
    tx.write(_rel_path(plan_id), f"{text}\n", any_size=True)


def forget_rejected(tx: Transaction, store: MemoryStore, plan_id: str) -> None:
    """Withdraw a rejection in a transaction, if there is one."""
    if store.exists(_rel_path(plan_id)):
        tx.delete(_rel_path(plan_id))


def rejected_plans(store: MemoryStore) -> dict[str, str]:
    """Map each rejected plan to a hash of its sources. A damaged entry does not count."""
    result: dict[str, str] = {}
    for file in store.walk(layout.REJECTED_DIR, hidden=True, missing_ok=True).files:
        name = file.rel_path.removeprefix(f"{layout.REJECTED_DIR}/")
        if not name.endswith(".json"):
            continue
        try:
            grounds = json.loads(store.read_bytes(file.rel_path))["grounds"]
        except (errors.FamiliarError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(grounds, str):
            result[name.removesuffix(".json")] = grounds
    return result


def _rel_path(plan_id: str) -> str:
    return f"{layout.REJECTED_DIR}/{plan_id}.json"


_CONTEXT: Final = 2


class Hunk(Struct, frozen=True):
    """One piece of a change.

    Args:
        above: The lines just before it.
        removed: Removed lines.
        added: Added lines.
        below: The lines just after it.
        at: Its start in the old text, in lines from 0.
    """

    above: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    below: tuple[str, ...]
    at: int

    @property
    def text(self) -> str:
        """The piece as a diff shows it."""
        marked = [f"{mark}{line}" for mark, lines in self._parts for line in lines]
        return "".join(line if line.endswith("\n") else line + "\n" for line in marked)

    @property
    def size(self) -> int:
        """Number of lines added or removed."""
        return len(self.removed) + len(self.added)

    def part(self, lines: Collection[int]) -> Hunk | None:
        """Return the hunk with only these of its lines, numbered from 1, removed ones first.

        None if nothing would change.
        """
        old = len(self.removed)
        stay = [line for n, line in enumerate(self.removed, 1) if n not in lines]
        come = [line for n, line in enumerate(self.added, old + 1) if n in lines]
        added = self.added if len(lines) == self.size else (*stay, *come)
        return None if added == self.removed else replace(self, added=added)

    @property
    def _parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return ((" ", self.above), ("-", self.removed), ("+", self.added), (" ", self.below))


def split_hunks(before: str, after: str) -> tuple[Hunk, ...]:
    """Return the hunks that turn `before` into `after`, in order."""
    old, new = lines_of(before), lines_of(after)
    return tuple(
        Hunk(
            above=tuple(old[max(0, a - _CONTEXT) : a]),
            removed=tuple(old[a:b]),
            added=tuple(new[c:d]),
            below=tuple(old[b : b + _CONTEXT]),
            at=a,
        )
        for a, b, c, d in changed_blocks(old, new)
    )


def apply_hunks(text: str, hunks: Iterable[Hunk]) -> str:
    """Apply these hunks to the text that they were made from."""
    lines = lines_of(text)
    for hunk in sorted(hunks, key=lambda h: h.at)[::-1]:
        lines[hunk.at : hunk.at + len(hunk.removed)] = hunk.added
    return "".join(lines)


def lines_of(text: str) -> list[str]:
    """Return the lines of `text`, each with its newline."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


_VERSION: Final = 1
_COMMENT: Final = re.compile(r"<!--.*?-->")
_ID: Final = re.compile(r"[0-9A-Za-z-]{1,80}")
_SOURCE: Final = re.compile(r"[a-z][a-z_-]{0,39}(?::[^\x00-\x1f\x7f<>]{1,60})?")
_MARK: Final = re.compile(r"turn (\d{1,18}) repeats turn (\d{1,18})\n?", re.ASCII)
_DERIVED: Final = tuple(f"{directory}/" for directory in (*layout.PERIOD_DIRS, layout.DIGEST_DIR))
HISTORY: Final = "history.db"
"""In place of a file of the memory: the lines that go name turns to withdraw, see `marks_text`."""

Why = Literal["review", "held"]
"""Why a plan waits: the pass was told to (`review`), or a rule wants a person's yes (`held`)."""


PieceRef = int | tuple[int, int]
"""A piece of a plan, or one line of it; both are numbered from 1."""


class PlannedFile(Struct, frozen=True):
    """A file before and after a planned change.

    Args:
        before: Its text, or None.
        after: Its text with all hunks applied.
        has_record: Its front matter tells what the file was made of.
        deletes: Whether to delete the file once its text is empty.
    """

    rel_path: str
    before: str | None
    after: str
    has_record: bool = False
    deletes: bool = False

    @property
    def hunks(self) -> tuple[Hunk, ...]:
        """The pieces of the change that a person decides on."""
        old, start, new_start = self._cut
        below = lines_of(old[:start])
        pieces = split_hunks(old[start:], self.after[new_start:])
        return tuple(replace(hunk, at=hunk.at + len(below)) for hunk in pieces)

    @property
    def record(self) -> tuple[Hunk, ...]:
        """Change of the record, made with the first accepted hunk."""
        old, start, new_start = self._cut
        return split_hunks(old[:start], self.after[:new_start])

    @property
    def _cut(self) -> tuple[str, int, int]:
        """The old text, and where the text below the record begins in the old and in the new."""
        old = self.before or ""
        return (old, body_start(old), body_start(self.after)) if self.has_record else (old, 0, 0)

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        after = None if self.deletes and not self.after else self.after
        return unified_file(self.rel_path, self.before, after)


class ReviewPlan(Struct, frozen=True):
    """A plan that awaits approval.

    Args:
        id: Its name.
        run: The pass that made it.
        created: When, ISO 8601 in UTC.
        why: Why it awaits approval.
        model: Who proposed it.
        turns: First and last turn it is based on; zeros: none.
        files: The changes.
        source: Who proposed it, as recorded in the journal.
        rests_on: Its sources other than turns.
        grounds: Hash of these. A rejected plan is not proposed again with the same hash; empty: it
            may be.
        scopes: The private scopes that its proposer sees, if that is not the owner; else None.
    """

    id: str
    run: str
    created: str
    why: Why
    model: str
    turns: tuple[int, int]
    files: tuple[PlannedFile, ...]
    source: str = layout.MEMORY_WRITER
    rests_on: str = ""
    grounds: str = ""
    scopes: tuple[str, ...] | None = None

    @property
    def rel_path(self) -> str:
        """Where it is kept."""
        return f"{layout.PENDING_DIR}/{self.id}.json"

    @property
    def hunks(self) -> tuple[tuple[PlannedFile, Hunk], ...]:
        """The pieces of all files, in the order in which they are numbered, from 1."""
        return tuple((file, hunk) for file in self.files for hunk in file.hunks)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as it is stored."""
        return {"version": _VERSION, **to_builtins(self)}


def edit_plan(plan: ReviewPlan, edits: Mapping[tuple[int, int], str]) -> ReviewPlan:
    """Return a plan in which a person has reworded some of its added lines.

    Args:
        plan: The plan.
        edits: New words by hunk and added line, both from 1. A line keeps its marker and what it
            rests on.

    Raises:
        UsageError: An edit leaves nothing to change, or the line does not exist.
    """
    files, number, left = [], 0, dict(edits)
    for file in plan.files:
        hunks = [
            replace(hunk, added=_reword_lines(hunk.added, n, left))
            for n, hunk in enumerate(file.hunks, number + 1)
        ]
        number += len(hunks)
        after = apply_hunks(file.before or "", [*file.record, *hunks])
        files.append(replace(file, after=after))
    edited = replace(plan, files=tuple(files))
    if left or len(edited.hunks) != len(plan.hunks):
        raise errors.UsageError(
            "An edited piece no longer changes anything, or changed meanwhile; nothing was changed",
            hint="Reject that piece instead, or look at the plan again.",
        )
    return edited


def _reword_lines(
    added: tuple[str, ...], number: int, edits: dict[tuple[int, int], str]
) -> tuple[str, ...]:
    lines = []
    for at, line in enumerate(added, 1):
        words = edits.pop((number, at), None)
        if words is None:
            lines.append(line)
            continue
        item = bullet(line)
        references = [value for value in _COMMENT.findall(line) if is_reference(value)]
        marker = line[: item.words_at] if item else ""
        lines.append(" ".join([f"{marker}{as_line(words)}", *references]) + "\n")
    return tuple(lines)


class DecisionResult(Struct, frozen=True):
    """Result of a decision: the files changed or deleted, and the rest of the plan."""

    changed: tuple[str, ...]
    rest: ReviewPlan | None
    deleted: tuple[str, ...] = ()
    withdrawn: tuple[int, ...] = ()


def marks_text(originals: Mapping[int, int]) -> str:
    """Return one line for each doubled turn, with the turn that stays."""
    return "".join(f"turn {one} repeats turn {stays}\n" for one, stays in originals.items())


def stage_plan(tx: Transaction, store: MemoryStore, plan: ReviewPlan) -> None:
    """Stage a plan in a transaction, clearing an earlier rejection."""
    _write_plan(tx, plan)
    forget_rejected(tx, store, plan.id)


def turns_in_review(store: MemoryStore) -> int:
    """Count the turns that plans of the memory writer rest on; other plans rest on none."""
    spans: list[tuple[int, int]] = []
    for plan_id in store.plan_ids():
        with suppress(errors.FamiliarError):  # `review list` names a damaged one
            spans.append(read_pending(store, plan_id).turns)
    counted_to = count = 0
    for first, last in sorted(span for span in spans if span[0] > 0):
        count += max(last - max(first - 1, counted_to), 0)
        counted_to = max(counted_to, last)
    return count


def read_pending(store: MemoryStore, plan_id: str) -> ReviewPlan:
    """Return one plan.

    Raises:
        NotFoundError: There is none of that name.
        BadInputError: Its file is damaged.
    """
    known = store.plan_ids()
    if not _ID.fullmatch(plan_id) or plan_id not in known:
        guess = nearest(plan_id, known)
        raise errors.NotFoundError(
            f"No such plan: {plan_id!r}",
            hint=f"Did you mean {guess!r}?" if guess else "Run `familiar review list`.",
        )
    return parse_plan(plan_id, store.read_bytes(f"{layout.PENDING_DIR}/{plan_id}.json"))


def parse_plan(plan_id: str, content: bytes) -> ReviewPlan:
    """Parse the file of a plan.

    Raises:
        BadInputError: It is damaged.
    """
    try:
        plan = convert(json.loads(content), ReviewPlan)
        source = plan.source if _SOURCE.fullmatch(plan.source) else layout.MEMORY_WRITER
        return replace(plan, id=plan_id, source=source)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise errors.BadInputError(
            f"The plan {plan_id!r} is damaged: {error}; nothing was changed",
            hint=f"Discard it: `familiar review reject {plan_id}`.",
        ) from error


def decide_plan(
    store: MemoryStore,
    plan: ReviewPlan,
    *,
    apply: Collection[PieceRef] = (),
    reject: Collection[PieceRef] = (),
    dry_run: bool = False,
    history: HistoryStore | None = None,
    numbering: Numbering = PLAIN,
) -> DecisionResult:
    """Apply the hunks numbered in `apply`, and discard those in `reject`.

    `(4, 7)` is line 7 of hunk 4, see `Hunk.part`. All others stay pending. Everything is one
    transaction, attributed to the proposer of the plan. If nothing of a plan was applied, its
    rejection is recorded (`ReviewPlan.grounds`). Lines of memory that cite a withdrawn duplicate
    are changed to cite the original. Turns are withdrawn last, once all files can be changed; if
    the transaction then fails, the plan stays pending and may be applied again.

    Raises:
        UsageError: The plan has no such hunk.
        ConflictError: A file has changed since, where the plan changes it, or a turn is no longer
            a double; nothing was changed.
    """
    take, drop = _lines_of(plan, apply), _lines_of(plan, reject)
    left: list[PlannedFile] = []
    number = 0
    doubles: dict[int, int] = {}
    message = f"{DECISION} {plan.id}"
    with store.transaction(
        plan.source, message, dry_run=dry_run, trailers=layout.pass_trailers(plan.run)
    ) as tx:
        for file in plan.files:
            mine = dict(enumerate(file.hunks, number + 1))
            number += len(mine)
            parts = [part for n, hunk in mine.items() if (part := hunk.part(take.get(n, set())))]
            all_of_it = [
                part
                for n, hunk in mine.items()
                if (part := hunk.part(set(range(1, hunk.size + 1)) - drop.get(n, set())))
            ]
            if parts and file.rel_path == HISTORY:
                doubles |= _doubles_of(plan, parts)
            elif parts:
                _stage_file(tx, store, file, [*file.record, *parts], plan)
            if parts != all_of_it:
                left.append(_rest_of_file(file, parts, all_of_it))
        grounds = "" if apply else plan.grounds
        rest = replace(plan, files=tuple(left), grounds=grounds) if left else None
        if apply:
            forget_rejected(tx, store, plan.id)
        if rest is None:
            tx.delete(plan.rel_path)
            if grounds:
                note_rejected(tx, plan.id, grounds)
        elif apply or reject:
            _write_plan(tx, rest)
        if doubles:
            _cite_originals(tx, store, doubles, numbering)
        withdrawn = _withdraw_originals(history, doubles, dry_run=dry_run)
    aside = (layout.PENDING_DIR, layout.REJECTED_DIR)
    changed = tuple(p for p in tx.result.written if not p.startswith(aside))
    deleted = tuple(p for p in tx.result.deleted if not p.startswith(aside))
    return DecisionResult(changed, rest, deleted, withdrawn)


def _withdraw_originals(
    history: HistoryStore | None, originals: Mapping[int, int], *, dry_run: bool
) -> tuple[int, ...]:
    if not originals:
        return ()
    if history is None:
        raise errors.UsageError(
            "The plan withdraws turns, but no history was given; nothing was changed"
        )
    return withdraw_doubles(history, originals, dry_run=dry_run)


def _cite_originals(
    tx: Transaction, store: MemoryStore, originals: Mapping[int, int], numbering: Numbering
) -> None:
    """Stage memory files that cite doubles, except generated ones."""
    for entry in store.walk().files:
        if not layout.is_page(entry.rel_path) or entry.rel_path.startswith(_DERIVED):
            continue
        with suppress(errors.BadInputError):  # not UTF-8, so it cites nothing
            page = store.read(entry.rel_path)
            text = numbering.cite_originals(page.text, originals)
            if text != page.text:
                tx.write(entry.rel_path, text, expect=page.sha256, any_size=True)


def _doubles_of(plan: ReviewPlan, hunks: Sequence[Hunk]) -> dict[int, int]:
    """Return the turn that stays for each turn that pieces withdraw."""
    lines = [line for hunk in hunks for line in hunk.removed if line not in hunk.added]
    matches = [_MARK.fullmatch(line) for line in lines]
    result = {int(match[1]): int(match[2]) for match in matches if match}
    if len(result) < len(lines):
        raise errors.BadInputError(
            f"The plan {plan.id!r} is damaged: a line names no turns; nothing was changed",
            hint=f"Discard it: `familiar review reject {plan.id}`.",
        )
    return result


def drop_damaged(store: MemoryStore, plan_id: str) -> None:
    """Delete a plan whose file is unreadable."""
    store.delete_file(f"{layout.PENDING_DIR}/{plan_id}.json", source=layout.MEMORY_WRITER)


def _write_plan(tx: Transaction, plan: ReviewPlan) -> None:
    text = json.dumps(plan.to_json(), ensure_ascii=False, indent=1) + "\n"
    tx.write(plan.rel_path, text, any_size=True)


def _lines_of(plan: ReviewPlan, refs: Collection[PieceRef]) -> dict[int, set[int]]:
    """Return the selected lines of each selected hunk.

    Raises:
        UsageError: There is no such hunk or line.
    """
    result: dict[int, set[int]] = {}
    for ref in refs:
        piece, line = ref if isinstance(ref, tuple) else (ref, 0)
        size = plan.hunks[piece - 1][1].size if 1 <= piece <= len(plan.hunks) else 0
        if not size or line > size:
            what = f"line {line} in piece {piece}; it has {size}" if size else f"piece {piece}"
            raise errors.UsageError(
                f"Plan {plan.id!r} has no {what}" + ("" if size else f"; it has {len(plan.hunks)}"),
                hint=f"Run `familiar review show {plan.id}`.",
            )
        result.setdefault(piece, set()).update({line} if line else range(1, size + 1))
    return result


def _rest_of_file(
    file: PlannedFile, hunks: Sequence[Hunk], all_of_it: Sequence[Hunk]
) -> PlannedFile:
    """Return the rest of a planned file once the pieces `hunks` are applied."""
    old = file.before or ""
    before = apply_hunks(old, [*file.record, *hunks]) if hunks else file.before
    after = apply_hunks(old, [*file.record, *all_of_it])
    return replace(file, before=before, after=after)


def _stage_file(
    tx: Transaction, store: MemoryStore, file: PlannedFile, hunks: Sequence[Hunk], plan: ReviewPlan
) -> None:
    there = store.read(file.rel_path) if store.exists(file.rel_path) else None
    before, current = file.before or "", there.text if there else ""
    sides = (before, current, apply_hunks(before, hunks))
    same = (there is None) == (file.before is None)
    if there and file.before is None:  # another plan may have created the same page
        same = bool(title_of(current)) and title_of(current) == title_of(sides[2])
    merged = merge_onto(file.rel_path, *(side.encode() for side in sides)) if same else None
    if merged is None:
        raise errors.ConflictError(
            f"{file.rel_path!r} has changed since plan {plan.id!r} was made, in the same place; "
            "nothing was changed",
            hint=f"Compare: `familiar review show {plan.id}`. Apply other pieces with --hunk, or "
            "copy what you want by hand and reject the plan.",
        )
    expect = there.sha256 if there else MISSING
    if file.deletes and not merged:
        tx.delete(file.rel_path, expect=expect)
    else:
        tx.write(file.rel_path, merged, expect=expect)


class Plans(Struct, frozen=True):
    """Snapshot of the plans of one memory.

    Args:
        waiting: The ids of pending plans.
        rejected: Hash of the sources of each rejected plan.
    """

    waiting: Collection[str] = ()
    rejected: Mapping[str, str] = field(default_factory=dict)

    def is_rejected(self, plan_id: str, grounds: str) -> bool:
        """Tell whether a person rejected this plan as made from `grounds`.

        Args:
            grounds: Hash of its sources; empty: none, so it was never rejected.
        """
        return bool(grounds) and self.rejected.get(plan_id) == grounds


def read_plans(store: MemoryStore, *, again: bool = False) -> Plans:
    """Return the plans of a memory.

    Args:
        again: Ignore rejections, so that plans may be proposed again.
    """
    return Plans(frozenset(store.plan_ids()), {} if again else rejected_plans(store))
