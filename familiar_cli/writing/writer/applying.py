"""Apply the accepted operations of a step to a draft, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base import markdown
from familiar_cli.base.errors import FamiliarError, LimitError, UnsafePathError, UsageError
from familiar_cli.base.text import one_line
from familiar_cli.base.who.identity import handle_of
from familiar_cli.base.who.visibility import SHARED, Viewer
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.aliases import with_alias
from familiar_cli.store.memory.pages.lines import citation_comment, citations_in
from familiar_cli.store.memory.pages.links import link_targets, way_to
from familiar_cli.store.memory.pages.visible_lines import as_private, may_hide, visible_in
from familiar_cli.store.memory.store.transactions import Transaction, retry_on_conflict
from familiar_cli.writing.pending import Draft
from familiar_cli.writing.writer import page_text
from familiar_cli.writing.writer.contract import REWRITES, Operation, Refusal
from familiar_cli.writing.writer.grounds import Grounds, ShownFile, own_session, session_title

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.writing.writer.rails import JudgedBatch


_SHOWN_CHARS: Final = 200
_TITLE_CHARS: Final = 80


class BatchApplier(Struct):
    """Applies the operations of one batch to a draft.

    Args:
        draft: The changes so far.
        grounds: The evidence for the batch.
        max_file_bytes: Size limit of a file.

    Attributes:
        refused: Operations that could not be applied.
        held: Operations that await approval.
    """

    draft: Draft
    grounds: Grounds
    max_file_bytes: int
    refused: list[Refusal] = field(default_factory=list)
    held: list[Operation] = field(default_factory=list)
    _touched: set[str] = field(default_factory=set)
    _stale: set[str] = field(default_factory=set)

    def run(self, operations: Sequence[Operation]) -> None:
        """Apply `operations` to the draft, then the links and names that follow from them."""
        done = [operation for operation in operations if self._one(self._for_readers(operation))]
        self._link(done)
        self._name()

    def hold(self, other: Draft) -> None:
        """Copy the operations that await approval to another draft."""
        for operation in self.held:
            text = other.text(operation.rel_path) or self._new(operation)
            other.put(operation.rel_path, self._edit_text(text, operation))

    def _edit_text(self, text: str, operation: Operation) -> str:
        grounds = self.grounds
        is_session = operation.rel_path in grounds.sessions  # the whole file is private
        is_apart = grounds.batch.private is not None and not is_session
        heading = grounds.private_heading(operation.section) if is_apart else ""
        return page_text.apply_operation(
            text,
            operation,
            heading,
            grounds.phrases,
            grounds.numbering,
            seen=lambda text: grounds.seen(text, operation.rel_path),
        )

    def _one(self, operation: Operation) -> bool:
        rel_path = operation.rel_path
        try:
            text = self._open_file(rel_path)
            self._keep_public(rel_path, text)
            if text is None:
                text = self._new(operation)
            elif operation.op == "create":
                operation = replace(operation, op="add_bullets")
            elif operation.op in REWRITES and not self._may_rewrite(operation):
                return False
            after = self._edit_text(self._retitle_topic(text, operation), operation)
        except FamiliarError as error:
            return self._refuse(operation, "unreadable", str(error))
        if operation.op in REWRITES and page_text.shrinks_by_half(text, after, operation):
            self.held.append(operation)
            return self._refuse(operation, "shrink", "more than half of it would be removed; held")
        if after == text and operation.op == "supersede":
            return self._refuse(operation, "changed", "the line was changed meanwhile")
        if after == text and operation.op == "add_bullets":
            return self._refuse(operation, "duplicate", "the file already says so")
        return self._put_file(operation, after)

    def _put_file(self, operation: Operation, after: str) -> bool:
        if len(after.encode("utf-8", errors="replace")) > self.max_file_bytes:
            self.held.append(operation)
            why = (
                f"the file would be larger than {self.max_file_bytes:,} bytes; trim it first; held"
            )
            return self._refuse(operation, "too_large", why)
        try:
            self.draft.put(operation.rel_path, after)
        except FamiliarError as error:
            return self._refuse(operation, "unreadable", str(error))
        if layout.scope_of_path(operation.rel_path) == SHARED:
            return self._one(self._for_owner(operation))
        return True

    def _keep_public(self, rel_path: str, text: str | None) -> None:
        """Keep a public session as a file of its own before the owner's lines join it."""
        batch, public = self.grounds.batch, layout.path_in_scope(rel_path, SHARED)
        if text is None or rel_path not in self.grounds.sessions or not batch.viewer.is_owner:
            return
        everyone = Viewer(batch.viewer.rules, frozenset())
        is_public = citations_in(text) and visible_in(text, everyone, rel_path) == text
        if is_public and self.draft.text(public) is None:
            self.draft.put(public, text)

    def _for_readers(self, operation: Operation) -> Operation:
        """Return the operation on the public file where the session has become the owner's."""
        rel_path, batch = operation.rel_path, self.grounds.batch
        if rel_path not in self.grounds.sessions:
            return operation
        try:
            text = self.draft.text(rel_path)
        except FamiliarError:
            return operation  # refused by name when it is opened
        return replace(operation, rel_path=own_session(rel_path, batch, text))

    def _for_owner(self, operation: Operation) -> Operation:
        """Return the same addition to the session file of the owner's view."""
        rel_path = layout.path_without_scope(operation.rel_path)
        section = operation.section or self.grounds.phrases.headings["highlights"]
        return replace(operation, op="add_bullets", rel_path=rel_path, section=section)

    def _open_file(self, rel_path: str) -> str | None:
        """Return a file, recording whether it is still as the model was shown it."""
        text = self.draft.text(rel_path)
        if rel_path not in self._touched:
            self._touched.add(rel_path)
            file = self._shown_file(rel_path)
            if text is not None if file is None else self.draft.sha256(rel_path) != file.sha256:
                self._stale.add(rel_path)
        return text

    def _shown_file(self, rel_path: str) -> ShownFile | None:
        shown = self.grounds.shown
        return shown.get(rel_path) or shown.get(layout.path_without_scope(rel_path))

    def _may_rewrite(self, operation: Operation) -> bool:
        if operation.rel_path not in self._stale:
            return True
        if self._shown_file(operation.rel_path):
            return self._refuse(operation, "changed", "the file was changed meanwhile")
        return self._refuse(operation, "not_shown", "the model had not seen the file")

    def _new(self, operation: Operation) -> str:
        """Return a new file with its H1, and a person's names."""
        person = self.grounds.roster.at(operation.rel_path)
        title = self._title(operation)
        text = page_text.new_file(title)
        if operation.rel_path in self.grounds.sessions and self.grounds.batch.private is not None:
            return as_private(text, self.grounds.batch.private, title)
        for name in person.given if person else ():
            text = with_alias(text, name, self._aliases)
        return text

    @property
    def _aliases(self) -> str:
        return self.grounds.phrases.heading("aliases")

    def _title(self, operation: Operation) -> str:
        directory, _, name = operation.rel_path.partition("/")
        person = self.grounds.roster.at(operation.rel_path)
        if person:
            return person.title
        if directory == layout.SESSIONS_DIR:
            return session_title(operation.rel_path, self.grounds.phrases)
        stem = name.rpartition("/")[2].removesuffix(".md").replace("-", " ")
        return one_line(operation.title, _TITLE_CHARS) or stem[:1].upper() + stem[1:]

    def _retitle_topic(self, text: str, operation: Operation) -> str:
        """Return a topic under a new title if readers of the batch see nothing of it so far.

        Its title may say what only others were told.
        """
        rel_path, old = operation.rel_path, markdown.title_of(text)
        is_topic = rel_path.startswith(f"{layout.TOPICS_DIR}/") and not may_hide(text, rel_path)
        if not (is_topic and old) or self.grounds.seen(text, rel_path).strip():
            return text
        return page_text.with_title(text, old, self._title(operation))

    def _link(self, operations: Sequence[Operation]) -> None:
        """Link each topic to its sessions and people, and each person to their topics.

        A link cites the turns of its operation: who may not read those is not told of it.
        """
        heading = self.grounds.phrases.heading
        for operation in operations:
            if not operation.rel_path.startswith(f"{layout.TOPICS_DIR}/"):
                continue
            turns = set(operation.turns)
            sessions = self.grounds.sessions.items()
            met = [layout.path_without_scope(path) for path, ids in sessions if turns & set(ids)]
            people = [p.rel_path for p in self.grounds.roster.who_said(turns)]
            cited = citation_comment(self.grounds.numbering.cite(turns))
            self._add_links(operation.rel_path, heading("sessions"), met, cited)
            self._add_links(operation.rel_path, heading("people"), people, cited)
            for rel_path in people:
                self._add_links(rel_path, heading("topics"), [operation.rel_path], cited)

    def _add_links(self, rel_path: str, heading: str, targets: Sequence[str], cited: str) -> None:
        """Add links to files that exist, or will, where readers of the batch see none yet."""
        try:
            text = self.draft.text(rel_path)
            fresh = {t: self.draft.text(t) for t in targets}
        except FamiliarError:
            return  # already refused by name, or nothing depends on it
        linked = set(link_targets(self.grounds.seen(text or "", rel_path), rel_path))
        items = [
            f"- [{_link_text(self.grounds.seen(said, target), target)}]"
            f"({way_to(target, rel_path)}) {cited}"
            for target, said in fresh.items()
            if said and target not in linked
        ]
        if text is not None and items:
            self._follow_up(rel_path, page_text.with_bullets(text, heading, items))

    def _name(self) -> None:
        """Add the names given by the platform to the files of people.

        Names that are used only in private are left out.
        """
        if self.grounds.batch.private is not None:
            return
        for person in self.grounds.roster.people:
            try:
                text = self.draft.text(person.rel_path)
                if text is None:
                    continue
                after = text
                if person.given and markdown.title_of(text) in {
                    handle_of(person.slug),
                    person.account,
                }:
                    after = page_text.with_title(text, markdown.title_of(text), person.title)
                for name in person.given:
                    after = with_alias(after, name, self._aliases)
            except (UsageError, FamiliarError):
                continue
            if after != text:
                self._follow_up(person.rel_path, after)

    def _follow_up(self, rel_path: str, after: str) -> None:
        if len(after.encode("utf-8", errors="replace")) <= self.max_file_bytes:
            self.draft.put(rel_path, after)

    def _refuse(self, operation: Operation, rail: str, reason: str) -> bool:
        text = one_line(" / ".join(line.text for line in operation.lines), _SHOWN_CHARS)
        self.refused.append(Refusal(operation.rel_path, rail, reason, text, operation.turns))
        return False


def _link_text(text: str, rel_path: str) -> str:
    title = one_line(markdown.title_of(text), _TITLE_CHARS) or rel_path.rpartition("/")[
        2
    ].removesuffix(".md")
    return title.replace("[", "(").replace("]", ")")


_TRIES: Final = 3


class StepOutcome(Struct):
    """Result of a step.

    Args:
        draft: The changed files.
        held: The same, including changes that await approval.
        refused: Operations that could not be applied.
        has_held: Whether anything awaits approval.
    """

    draft: Draft
    held: Draft
    refused: list[Refusal] = field(default_factory=list)
    has_held: bool = False


def applied_to(draft: Draft, verdicts: Sequence[JudgedBatch], max_file_bytes: int) -> StepOutcome:
    """Apply judged batches to `draft`."""
    applied = StepOutcome(draft, draft)
    works = [
        BatchApplier(draft, one.grounds, max_file_bytes, held=list(one.held)) for one in verdicts
    ]
    for work, verdict in zip(works, verdicts, strict=True):
        work.run(verdict.operations)
        applied.refused += work.refused
    if any(work.held for work in works):
        applied.held, applied.has_held = draft.copy(), True
        for work in works:
            work.hold(applied.held)
    return applied


def commit_step(
    store: MemoryStore,
    verdicts: Sequence[JudgedBatch],
    message: str,
    run: str,
    also: Callable[[Transaction, StepOutcome], None],
) -> StepOutcome:
    """Write a step's changes in one transaction, with whatever `also` stages.

    If a person has changed a file meanwhile, the step is recomputed on top of that.

    Raises:
        ConflictError: Another writer keeps changing the files; nothing was changed.
        FamiliarError: The disk failed; nothing was changed.
    """

    def commit() -> StepOutcome:
        applied = _taken_by(store, verdicts)
        if applied.draft or applied.has_held:
            with store.transaction(
                layout.MEMORY_WRITER, message, trailers=layout.pass_trailers(run)
            ) as tx:
                applied.draft.stage(tx)
                also(tx, applied)
        return applied

    return retry_on_conflict(commit, _TRIES)


def _taken_by(store: MemoryStore, verdicts: Sequence[JudgedBatch]) -> StepOutcome:
    """Apply judged batches to a draft, leaving out files that memory would reject.

    Such a file does not affect the others, and nothing links to it: everything is recomputed as if
    it had not been proposed. What lacks room or a usable path is held.
    """
    refused: dict[str, Refusal] = {}
    while True:
        left = [_without_refused(verdict, refused) for verdict in verdicts]
        applied = applied_to(Draft(store), left, store.limits.max_file_bytes)
        new = {r.rel_path: r for r in _refused_by(store, applied.draft)}
        if new.keys() <= refused.keys():
            break
        refused |= new
    for rel_path in new:  # changed only by links from other files
        applied.draft.drop(rel_path)
    applied.refused += refused.values()
    return applied


def _without_refused(verdict: JudgedBatch, refused: Mapping[str, Refusal]) -> JudgedBatch:
    kept = tuple(o for o in verdict.operations if o.rel_path not in refused)
    held = [o for o in verdict.operations if o.rel_path in refused]
    return replace(verdict, operations=kept, held=(*verdict.held, *held))


def _refused_by(store: MemoryStore, draft: Draft) -> Iterator[Refusal]:
    for file in draft:
        try:
            with store.transaction(layout.MEMORY_WRITER, "check", dry_run=True) as tx:
                tx.write(file.rel_path, file.after)
        except (LimitError, UnsafePathError) as error:
            rail = "limit" if isinstance(error, LimitError) else "path"
            yield Refusal(file.rel_path, rail, f"{error}; held")
