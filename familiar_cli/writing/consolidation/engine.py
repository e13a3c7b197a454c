"""Make a file from its sources as a plan, preserving a person's edits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.times.clock import iso, now
from familiar_cli.base.who.visibility import NOBODY
from familiar_cli.store.memory.layout import CONSOLIDATION, pass_trailers, path_in_scope
from familiar_cli.store.memory.pages.visible_lines import visible_in
from familiar_cli.store.memory.store.files import MISSING
from familiar_cli.store.memory.store.transactions import Transaction, retry_on_conflict
from familiar_cli.writing import pending
from familiar_cli.writing.consolidation.composing import Composer, plan_text
from familiar_cli.writing.consolidation.pages import (
    MadePage,
    PageBlock,
    Record,
    blocks,
    page_text,
    read_page,
)
from familiar_cli.writing.consolidation.periods import FileResult, PlannedDigest, Rejection

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.writing.consolidation.library import PrivateShelf


def plan_id(name: str) -> str:
    """Return the name of the plan for a period or a digest."""
    return f"consolidate-{name}"


def plan_for(
    name: str, file: pending.PlannedFile, why: pending.Why, *, model: str, run: str
) -> pending.ReviewPlan:
    """Return the plan for the file of a period or a digest.

    Args:
        name: Name of the period or digest.
        file: The file before and after.
        why: Why it awaits approval.
        model: The model that wrote it.
        run: The run that made it.
    """
    made_of = read_page(file.after).record or Record({})
    return pending.ReviewPlan(
        id=plan_id(name),
        run=run,
        created=iso(now()),
        why=why,
        model=model,
        turns=(0, 0),
        files=(file,),
        source=CONSOLIDATION,
        rests_on=made_from(name, len(made_of.sources)),
        grounds=made_of.input_hash,
    )


def made_from(name: str, sources: int) -> str:
    """Describe the sources of a period or a digest."""
    return f"{name} from {sources} {'file' if sources == 1 else 'files'}"


_START = -1


class Run(Struct, frozen=True):
    """Consecutive blocks that a person wrote.

    Args:
        before: Mark of the generated block above; empty: none.
        behind: Mark of the generated block below.
        heading: The heading above them, if it is generated.
    """

    blocks: tuple[PageBlock, ...]
    before: str
    behind: str
    heading: PageBlock | None = None


class PersonalEdit(Struct, frozen=True):
    """A person's edits of a generated file.

    Args:
        added: The blocks they wrote.
        removed: Marks of generated blocks that they removed or changed.
    """

    added: tuple[Run, ...]
    removed: frozenset[str]

    @property
    def blocks(self) -> tuple[PageBlock, ...]:
        """All blocks that they wrote."""
        return tuple(block for run in self.added for block in run.blocks)


def hand_in(body: str, marks: Sequence[str]) -> PersonalEdit:
    """Compare a text with the generated blocks, and return a person's edits."""
    there, _ = blocks(body)
    added: list[Run] = []
    removed: set[str] = set()
    heading: PageBlock | None = None
    steps = SequenceMatcher(None, list(marks), [b.mark for b in there], autojunk=False)
    for tag, i, j, a, b in steps.get_opcodes():
        if tag == "equal":
            heading = next(filter(_is_heading, reversed(there[a:b])), heading)
            continue
        removed.update(marks[i:j])
        if b > a:
            before = marks[i - 1] if i else ""
            behind = marks[j] if j < len(marks) else ""
            above = None if _is_heading(there[a]) else heading
            added.append(Run(there[a:b], before, behind, above))
    # A block that was only moved now counts as theirs, where they put it.
    return PersonalEdit(tuple(added), frozenset(removed))


def made_again(fresh: str, hand: PersonalEdit) -> tuple[str, tuple[str, ...]]:
    """Merge a person's edits into a new text; return it with the marks to store.

    A person's blocks go below the block that was above them, else above the one that was below,
    else to the end. A file entirely theirs goes first, below the title, and so do the contents of a
    section that is gone, with the heading. Removed blocks stay removed, and recorded as such.
    Nothing they wrote is repeated, and a section of theirs is extended by new text for the same
    heading.

    Args:
        fresh: The newly generated text.
        hand: A person's edits of the previous one.
    """
    keys = {block.key for block in hand.blocks if not _is_section(block)}
    made, tail = blocks(fresh)
    own = [b for b in made if b.mark not in hand.removed and b.key not in keys]
    text = (
        "".join(b.gap + b.text for b in _space_blocks(_join_blocks(_place_blocks(own, hand), hand)))
        + tail
    )
    return text, tuple(block.mark for block in made)


def _place_blocks(own: Sequence[PageBlock], hand: PersonalEdit) -> Iterator[PageBlock]:
    marks = [block.mark for block in own]
    has_title = bool(own) and _is_title(own[0])
    after: dict[int, list[PageBlock]] = {}
    end: list[PageBlock] = []
    repeated: PageBlock | None = None
    for run in hand.added:
        top = 0 if has_title and not _is_title(run.blocks[0]) else _START
        heading = run.heading
        if heading is not None and _is_section(heading) and heading.mark not in marks:
            lead = () if heading is repeated else (heading,)
            after.setdefault(top, []).extend((*lead, *run.blocks))
            repeated = None if any(map(_is_heading, run.blocks)) else heading
        elif run.before in marks:
            after.setdefault(marks.index(run.before), []).extend(run.blocks)
        elif run.behind in marks:
            after.setdefault(marks.index(run.behind) - 1, []).extend(run.blocks)
        elif not run.before and not run.behind:
            after.setdefault(top, []).extend(run.blocks)
        else:
            end.extend(run.blocks)
    yield from after.get(_START, ())
    for at, block in enumerate(own):
        yield block
        yield from after.get(at, ())
    yield from end


def _join_blocks(placed: Iterable[PageBlock], hand: PersonalEdit) -> Iterator[PageBlock]:
    """Yield the blocks, appending those of a section that a person also has to theirs."""
    of_hand = {id(block) for block in hand.blocks}
    sections: list[list[PageBlock]] = [[]]
    theirs: dict[str, list[PageBlock]] = {}
    for block in placed:
        if _is_heading(block):
            sections.append([])
            if id(block) in of_hand and _is_section(block):
                theirs.setdefault(block.key, sections[-1])
        sections[-1].append(block)
    shown: list[list[PageBlock]] = []
    for section in sections:
        same = theirs.get(section[0].key) if section and _is_section(section[0]) else None
        if same is None or id(section[0]) in of_hand:
            shown.append(section)
        else:
            same += section[1:]
    return chain.from_iterable(shown)


def _is_heading(block: PageBlock) -> bool:
    return block.kind == "heading"


def _is_section(block: PageBlock) -> bool:
    return _is_heading(block) and not _is_title(block)


def _is_title(block: PageBlock) -> bool:
    return block.text.startswith("# ")


def _space_blocks(placed: Iterable[PageBlock]) -> Iterator[PageBlock]:
    """Yield the blocks with blank lines where they would otherwise merge."""
    above: PageBlock | None = None
    for block in placed:
        gap, text = block.gap, block.text
        if above is None:
            gap = gap if gap.strip("\n\r \t") else ""
        elif not gap and not (above.kind == block.kind == "item"):
            gap = "\n"
        text = text if text.endswith("\n") else text + "\n"
        above = replace(block, gap=gap, text=text)
        yield above


_TRIES: Final = 3
_HALF: Final = 0.5
# A text shorter than this may shrink freely: there is little to lose.
_LEAST_CHARS: Final = 400


class FileMaker(Struct):
    """Makes generated files.

    Args:
        composer: Returns the composer, called when a model is needed.
        run: The run recorded in its plans.
        review: Hold all model output for approval.
        dry_run: Write nothing.
        shelf: The private scope of the files; None: public.
    """

    store: MemoryStore
    composer: Callable[[], Composer]
    run: str = ""
    review: bool = False
    dry_run: bool = False
    shelf: PrivateShelf | None = None

    @property
    def pages(self) -> MemoryStore | PrivateShelf:
        """The view from which files are read."""
        return self.shelf or self.store

    @property
    def tag(self) -> str:
        """Suffix of plan names; empty for public files."""
        return self.shelf.tag if self.shelf else ""

    def place(self, rel_path: str) -> str:
        """Return the path where a file is stored."""
        return path_in_scope(rel_path, self.shelf.scope) if self.shelf else rel_path

    async def make(self, wanted: PlannedDigest) -> FileResult:
        """Make a file, or a plan for it, and return the result.

        Raises:
            ModelError: The model could not be asked, or its reply is unusable.
            ConfigError: There is no model, or its context is too small.
            ConflictError: Another writer keeps changing the file.
            FamiliarError: The disk failed or a limit was exceeded. Nothing was changed in any of
                these cases.
        """
        body, refused = await self._body(wanted)
        # Merge with what a person wrote in the meantime.
        return retry_on_conflict(
            lambda: self._write_page(wanted, self._merge_body(wanted, body, refused)), _TRIES
        )

    async def _body(self, digest: PlannedDigest) -> tuple[str, tuple[Rejection, ...]]:
        if digest.body is not None:
            return digest.body, ()
        page = self._hand(digest.rel_path)[0]
        texts = [block.text for block in _hand_of(page, visible_in(page.body, NOBODY)).blocks]
        tagged = replace(digest, name=f"{digest.name}{self.tag}")
        plan = await self.composer().compose(tagged, texts)
        return f"# {digest.title}\n\n{plan_text(plan)}", plan.refused

    def _merge_body(
        self, digest: PlannedDigest, body: str, refused: tuple[Rejection, ...]
    ) -> FileResult:
        """Return the new file merged with the current one."""
        page, hand, before, expect = self._hand(digest.rel_path)
        text, marks = made_again(body, hand)
        if "\r\n" in page.body:
            text = text.replace("\n", "\r\n")
        record = Record(digest.sources, marks, digest.made_at)
        after = page_text(MadePage(text, record, page.front))
        file = pending.PlannedFile(digest.rel_path, before, after, has_record=True)
        return FileResult(file, expect, refused)

    def _hand(self, rel_path: str) -> tuple[MadePage, PersonalEdit, str | None, str]:
        """Return the current file: its page, a person's edits, its text and hash."""
        there = self.pages.read(rel_path) if self.pages.exists(rel_path) else None
        page = read_page(there.text if there else "")
        hand = _hand_of(page, page.body)
        if there is None:
            return page, hand, None, MISSING
        return page, hand, there.text, there.sha256

    def _write_page(self, digest: PlannedDigest, page: FileResult) -> FileResult:
        by_model = digest.body is None
        too_short = shrinks_by_half(page.file) and not digest.may_shrink
        waits = by_model and changes_text(page.file) and (self.review or too_short)
        message = made_from(digest.name, len(digest.sources))
        kept = self.shelf.kept(page.file) if self.shelf else page.file
        name, held = f"{digest.name}{self.tag}", ""
        with self.store.transaction(
            CONSOLIDATION, message, dry_run=self.dry_run, trailers=pass_trailers(self.run)
        ) as tx:
            if waits:
                held = self._hold(tx, name, kept)
            else:
                tx.write(kept.rel_path, kept.after, expect=page.expect)
                pending.forget_rejected(tx, self.store, plan_id(name))
        if by_model:
            self.composer().forget(name)
        return FileResult(page.file, page.expect, page.refused, held)

    def _hold(self, tx: Transaction, name: str, file: pending.PlannedFile) -> str:
        """Stage a plan that awaits approval, and return its id."""
        why: pending.Why = "review" if self.review else "held"
        plan = plan_for(name, file, why, model=self.composer().model.name, run=self.run)
        pending.stage_plan(tx, self.store, plan)
        return plan.id


def _hand_of(page: MadePage, body: str) -> PersonalEdit:
    """Return a person's edits in `body`, all or part of a page."""
    return hand_in(body.replace("\r\n", "\n"), page.record.marks if page.record else ())


def changes_text(file: pending.PlannedFile) -> bool:
    """Tell whether a change affects more than the record, so that it needs a decision."""
    return file.before is None or read_page(file.before).body != read_page(file.after).body


def shrinks_by_half(file: pending.PlannedFile) -> bool:
    """Tell whether a change removes more than half of a file's text."""
    old, new = (_text_size(text) for text in (file.before or "", file.after))
    return old >= _LEAST_CHARS and new < _HALF * old


def _text_size(text: str) -> int:
    return len("".join(read_page(text).body.split()))
