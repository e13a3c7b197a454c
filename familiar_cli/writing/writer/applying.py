"""Apply accepted operations: to sections of files, to a draft, and one transaction per step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from familiar_cli.base import markdown
from familiar_cli.base.errors import FamiliarError, LimitError, UnsafePathError, UsageError
from familiar_cli.base.files import append, check_own, read_plain, write_own
from familiar_cli.base.languages import ENGLISH, Phrases, heading_in, section_key
from familiar_cli.base.text import one_line, sha256_of
from familiar_cli.base.times.clock import iso
from familiar_cli.base.who.identity import handle_of
from familiar_cli.store.history import WRITER
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.aliases import with_alias
from familiar_cli.store.memory.pages.facts import ended_on, heading_of, superseded
from familiar_cli.store.memory.pages.lines import (
    PLAIN,
    Numbering,
    as_private,
    citation_comment,
    citations_in,
    normal_line,
    normal_lines,
    number_spans,
    private_scope,
    turn_ids,
    without_references,
)
from familiar_cli.store.memory.pages.links import link_targets, way_to
from familiar_cli.store.memory.store.transactions import Transaction, retry_on_conflict
from familiar_cli.sync import turns_outgoing as outgoing
from familiar_cli.writing.review.pending import Draft
from familiar_cli.writing.writer.contract import REWRITES, Operation, ProposedLine, Refusal
from familiar_cli.writing.writer.grounds import Grounds, session_title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from familiar_cli.store.history.rows import Turn
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.memory.pages.lines import Cited, Numbering
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.writing.writer.rails import JudgedBatch

DEEPEST: Final = 2
"""The lowest headings that begin a part; those below belong to it."""


def summary_of(text: str) -> str:
    """Return the text between the H1 and the first H2."""
    section = _summary_section(text)
    return text[
        max(section.end - len(section.body), markdown.body_start(text)) : section.end
    ].strip()


def section_of(text: str, heading: str) -> str | None:
    """Return the text below the H2 that matches `heading`, or None without one."""
    section = _find_section(text, heading)
    return None if section is None else section.body


def new_file(title: str) -> str:
    """Return a file that contains only its H1."""
    return f"# {title}\n"


def with_title(text: str, old: str, new: str) -> str:
    """Replace the H1 of `text`, also in its underlined form."""
    said = [line for line in markdown.scan(text) if not line.in_code and old in line.text]
    for line in sorted(said, key=lambda line: line.level != 1):
        if old in {line.title, markdown.heading_text(line.text.lstrip("\ufeff"))}:
            return text[: line.start] + line.text.replace(old, new, 1) + text[line.end :]
    return text


def with_bullets(text: str, heading: str, bullets: Sequence[str]) -> str:
    """Append `bullets` to a section, which is created if missing.

    Args:
        text: Markdown.
        heading: The H2 in Markdown, e.g. `## Facts`.
        bullets: Complete lines without line ends.
    """
    newline = markdown.newline_of(text)
    items = "".join(item + newline for item in bullets)
    section = _find_section(text, heading)
    if section is None:
        return _with_newline(text, newline) + newline + heading + newline + newline + items
    said = [line for line in section.lines if line.text.strip()]
    gap = "" if len(said) > 1 and _is_of_list(said[-1].text) else newline
    tail = text[said[-1].end : section.end] or _gap_below(text, section)
    kept = _with_newline(text[: said[-1].end], newline)
    return kept + gap + items + tail + text[section.end :]


def with_section(text: str, heading: str, bullets: Sequence[str]) -> str:
    """Replace the contents of a section by `bullets`."""
    section = _find_section(text, heading)
    if section is not None:
        head = _with_newline(text[: section.lines[0].end], markdown.newline_of(text))
        text = head + _gap_below(text, section) + text[section.end :]
    return with_bullets(text, heading, bullets)


def with_summary(text: str, paragraphs: Sequence[str]) -> str:
    """Replace the text between the H1 and the first H2 by `paragraphs`.

    Anything before the H1 (front matter) is kept.
    """
    newline = markdown.newline_of(text)
    section = _summary_section(text)
    head = text[: section.lines[0].end if section.level else markdown.body_start(text)]
    head = _with_newline(head, newline) + newline if head else ""
    body = (newline * 2).join(paragraphs) + newline
    return head + body + _gap_below(text, section) + text[section.end :]


def _summary_section(text: str) -> markdown.Section:
    """Return the section with the summary: the first H1's, else the text without a heading."""
    found = list(markdown.sections(text, DEEPEST))
    return next((section for section in found if section.level == 1), found[0])


def _find_section(text: str, heading: str) -> markdown.Section | None:
    """Find the section of `heading`: by its channel if private, else by title."""
    channel, title = private_scope(heading), markdown.heading_text(heading.lstrip("# "))
    wanted, are_wishes = section_key(title), heading_in(title) == "wishes"
    for section in markdown.sections(text, DEEPEST):
        if section.level != DEEPEST or private_scope(section.lines[0].text) != channel:
            continue
        if channel is None:
            is_it = section_key(section.title) == wanted
        else:  # a private section is found by its channel
            is_it = (heading_of(section) == "wishes") == are_wishes
        if is_it:
            return section
    return None


def _is_of_list(line: str) -> bool:
    return line.startswith((" ", "\t")) or markdown.bullet(line) is not None


def _gap_below(text: str, section: markdown.Section) -> str:
    """Return the blank line needed between a section and the next one, if any."""
    return markdown.newline_of(text) if section.end < len(text) else ""


def _with_newline(text: str, newline: str) -> str:
    return text if not text or text.endswith("\n") else text + newline


# A part shorter than this may shrink freely: "Likes tea." says all of "She said …".
_LEAST_PART_CHARS: Final = 120
_HALF: Final = 0.5


def apply_operation(
    text: str,
    operation: Operation,
    private_heading: str = "",
    phrases: Phrases = ENGLISH,
    numbering: Numbering = PLAIN,
) -> str:
    """Apply one operation to `text`.

    Args:
        text: The file, with at least its H1.
        operation: The operation.
        private_heading: The section to write to instead, if it was said in private.
        phrases: Language of the heading of a new list of names.
        numbering: How turns are cited.
    """
    heading = private_heading or f"## {operation.section}"
    match operation.op:
        case "add_aliases":
            for line in operation.lines:
                text = with_alias(text, line.text, phrases.heading("aliases"))
            return text
        case "set_summary" | "create":
            return with_summary(text, _summary_paragraphs(text, operation.lines, numbering))
        case "supersede":
            (line,) = operation.lines
            new = _bullet_text(line.text, numbering.cite(line.turns))
            indent = operation.replaces[: -len(operation.replaces.lstrip())]
            assert operation.until is not None
            made = superseded(text, operation.replaces, indent + new, operation.until, phrases)
            return text if made is None else made
        case "replace_section":
            lines = _rewrite_section(text, heading, operation.lines, numbering)
            return with_section(text, heading, lines)
        case _:
            section = section_of(text, heading) or ""
            there = normal_lines(section) | normal_lines(summary_of(text))
            fresh = [line for line in operation.lines if normal_line(line.text) not in there]
            bullets = [_bullet_text(line.text, numbering.cite(line.turns)) for line in fresh]
            return with_bullets(text, heading, bullets) if bullets else text


def shrinks_by_half(before: str, after: str, operation: Operation) -> bool:
    """Tell whether an operation removes more than half of a file, or of a longer part."""
    if _text_size(after) < _HALF * _text_size(before):
        return True
    match operation.op:
        case "set_summary":
            parts = summary_of(before), summary_of(after)
        case "replace_section":
            heading = f"## {operation.section}"
            parts = tuple(section_of(t, heading) or "" for t in (before, after))  # type: ignore[assignment]
        case _:
            return False
    old, new = map(_text_size, parts)
    return old >= _LEAST_PART_CHARS and new < _HALF * old


def _text_size(text: str) -> int:
    return len("".join(without_references(text).split()))


def _bullet_text(text: str, turns: Sequence[Cited]) -> str:
    return f"- {text} {citation_comment(turns)}".rstrip()


def _summary_paragraphs(
    text: str, lines: Sequence[ProposedLine], numbering: Numbering
) -> list[str]:
    """Render a summary that cites its turns and those of the summary it replaces."""
    old = citations_in(summary_of(text))
    turns = [*old, *numbering.cite(n for line in lines for n in line.turns)]
    texts = [line.text for line in lines]
    return [*texts[:-1], f"{texts[-1]} {citation_comment(turns)}"]


def _rewrite_section(
    text: str, heading: str, lines: Sequence[ProposedLine], numbering: Numbering
) -> list[str]:
    """Return the bullets of a section; existing ones keep their citations.

    Bullets that have ended are kept, since the model was not shown them.
    """
    body = section_of(text, heading) or ""
    old = {normal_line(line): line for line in markdown.split_lines(body) if normal_line(line)}
    ended = [line.rstrip() for line in old.values() if ended_on(line)]
    new = [
        _bullet_text(line.text, citations_in(old[normal_line(line.text)]))
        if normal_line(line.text) in old
        else _bullet_text(line.text, numbering.cite(line.turns))
        for line in lines
    ]
    return [*new, *ended]


_SHOWN_CHARS: Final = 200
_TITLE_CHARS: Final = 80


class Applying(Struct):
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
        done = [operation for operation in operations if self._one(operation)]
        self._link(done)
        self._name()

    def hold(self, other: Draft) -> None:
        """Copy the operations that await approval to another draft."""
        for operation in self.held:
            text = other.text(operation.rel_path) or self._new(operation)
            other.put(operation.rel_path, self._edited(text, operation))

    def _edited(self, text: str, operation: Operation) -> str:
        grounds = self.grounds
        is_session = operation.rel_path in grounds.sessions  # the whole file is private
        is_apart = grounds.batch.private is not None and not is_session
        heading = grounds.private_heading(operation.section) if is_apart else ""
        return apply_operation(text, operation, heading, grounds.phrases, grounds.numbering)

    def _one(self, operation: Operation) -> bool:
        rel_path = operation.rel_path
        try:
            text = self._opened(rel_path)
            if text is None:
                text = self._new(operation)
            elif operation.op == "create":
                operation = replace(operation, op="add_bullets")
            elif operation.op in REWRITES and not self._may_rewrite(operation):
                return False
            after = self._edited(text, operation)
        except FamiliarError as error:
            return self._refuse(operation, "unreadable", str(error))
        if operation.op in REWRITES and shrinks_by_half(text, after, operation):
            self.held.append(operation)
            return self._refuse(operation, "shrink", "more than half of it would be gone; held")
        if after == text and operation.op == "supersede":
            return self._refuse(operation, "changed", "the line was changed meanwhile")
        if after == text and operation.op == "add_bullets":
            return self._refuse(operation, "duplicate", "the file already says so")
        return self._put(operation, after)

    def _put(self, operation: Operation, after: str) -> bool:
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
        return True

    def _opened(self, rel_path: str) -> str | None:
        """Return a file, recording whether it is still as the model was shown it."""
        text = self.draft.text(rel_path)
        if rel_path not in self._touched:
            self._touched.add(rel_path)
            shown = self.grounds.shown.get(rel_path)
            if shown is not None and self.draft.sha256(rel_path) != shown.sha256:
                self._stale.add(rel_path)
            if shown is None and text is not None:
                self._stale.add(rel_path)
        return text

    def _may_rewrite(self, operation: Operation) -> bool:
        if operation.rel_path not in self._stale:
            return True
        if operation.rel_path in self.grounds.shown:
            return self._refuse(operation, "changed", "the file was changed meanwhile")
        return self._refuse(operation, "not_shown", "the model had not seen the file")

    def _new(self, operation: Operation) -> str:
        """Return a new file with its H1, and a person's names."""
        person = self.grounds.roster.at(operation.rel_path)
        title = self._title(operation)
        text = new_file(title)
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

    def _link(self, done: Sequence[Operation]) -> None:
        """Link each topic to its sessions and people, and each person to their topics."""
        heading = self.grounds.phrases.heading
        for operation in done:
            if not operation.rel_path.startswith(f"{layout.TOPICS_DIR}/"):
                continue
            turns = set(operation.turns)
            met = [path for path, ids in self.grounds.sessions.items() if turns & set(ids)]
            people = [p.rel_path for p in self.grounds.roster.who_said(turns)]
            self._add_links(operation.rel_path, heading("sessions"), met)
            self._add_links(operation.rel_path, heading("people"), people)
            for rel_path in people:
                self._add_links(rel_path, heading("topics"), [operation.rel_path])

    def _add_links(self, rel_path: str, heading: str, targets: Sequence[str]) -> None:
        """Add missing links to files that exist, or will."""
        try:
            text = self.draft.text(rel_path)
            fresh = {t: self.draft.text(t) for t in targets}
        except FamiliarError:
            return  # already refused by name, or nothing depends on it
        linked = set(link_targets(text or "", rel_path))
        items = [
            f"- [{_link_text(said, target)}]({way_to(target, rel_path)})"
            for target, said in fresh.items()
            if said and target not in linked
        ]
        if text is not None and items:
            self._follow_up(rel_path, with_bullets(text, heading, items))

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
                    after = with_title(text, markdown.title_of(text), person.title)
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
    works = [Applying(draft, one.grounds, max_file_bytes, held=list(one.held)) for one in verdicts]
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
    it had not been proposed. What only lacks room is held.
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
    held = [o for o in verdict.operations if (r := refused.get(o.rel_path)) and r.rail == LIMIT]
    return replace(verdict, operations=kept, held=(*verdict.held, *held))


LIMIT: Final = "limit"


def _refused_by(store: MemoryStore, draft: Draft) -> Iterator[Refusal]:
    for file in draft:
        try:
            with store.transaction(layout.MEMORY_WRITER, "check", dry_run=True) as tx:
                tx.write(file.rel_path, file.after)
        except LimitError as error:
            yield Refusal(file.rel_path, LIMIT, f"{error}; held")
        except UnsafePathError as error:
            yield Refusal(file.rel_path, "path", str(error))


SUFFIX: Final = ".jsonl"


class Runs:
    """Storage of run records and unusable replies.

    Args:
        directory: Directory of the records.
        quarantine: Directory of the replies.
    """

    def __init__(self, directory: Path, quarantine: Path) -> None:
        self._directory = directory
        self._quarantine = quarantine

    def note(self, run: str, entry: dict[str, Any]) -> None:
        """Append a line to a record.

        Raises:
            FamiliarError: The disk failed.
        """
        line = json.dumps(entry, ensure_ascii=True, default=_plain_value) + "\n"
        path = self._directory / f"{run}{SUFFIX}"
        try:
            append(path, line.encode())
        except OSError as error:
            raise FamiliarError(f"The record {str(path)!r} cannot be written: {error}") from error

    def read(self, run: str) -> list[dict[str, Any]]:
        """Return the lines of a record; empty if it does not exist."""
        check_own(self._directory)
        path = self._directory / f"{run}{SUFFIX}"
        if not path.exists():
            return []
        lines = read_plain(path).decode("utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def keep_reply(self, run: str, text: str) -> Path:
        """Store an unusable reply verbatim; return its path.

        Raises:
            FamiliarError: The disk failed.
        """
        check_own(self._quarantine)
        number = 1 + sum(1 for _ in self._quarantine.glob(f"{run}-*.txt"))
        path = self._quarantine / f"{run}-{number}.txt"
        try:
            write_own(path, text.encode("utf-8", errors="surrogatepass"))
        except OSError as error:
            raise FamiliarError(
                f"An unusable reply could not be kept in {str(path)!r}: {error}"
            ) from error
        return path


def _plain_value(value: object) -> object:
    if isinstance(value, Struct):
        return asdict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def marker_text(run: str, piece: Sequence[Turn], *, instance: str = "") -> str:
    """Return the content of the marker file after a step.

    Args:
        run: The pass.
        piece: The turns of the step.
        instance: The instance that wrote; empty: it has no id.
    """
    last = piece[-1]
    told = {"run": run, "through": last.id, "turn": _turn_digest(last)}
    where = {"instance": instance} if instance else {}
    return json.dumps(told | where | {"turns": number_spans(t.id for t in piece)}) + "\n"


def reconcile_history(store: MemoryStore, history: HistoryStore, instance: str = "") -> int:
    """Mark turns as read that memory records as done; return their number.

    Args:
        store: The memory.
        history: The history.
        instance: This instance; another one's marker does not apply to its turns.

    Raises:
        FamiliarError: The history cannot be written.
    """
    try:
        value = json.loads(store.read_file(layout.WRITER_JSON))
        through, digest, part = int(value["through"]), value["turn"], value.get("turns")
        is_own = value.get("instance", instance) == instance
    except (FamiliarError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return 0  # none, or not ours: keep the watermark
    last = history.turn(through)
    if not is_own or last is None or _turn_digest(last) != digest:
        return 0
    before = history.unsummarised_count()
    if part is not None:
        outgoing.mark_read(history, turn_ids(f"<!-- turns {part} -->", PLAIN))
    elif through > history.watermark(WRITER):
        history.move_watermark(WRITER, through)  # an older version's file
    return before - history.unsummarised_count()


def _turn_digest(turn: Turn) -> str:
    who = turn.author.slug if turn.author else ""
    parts = (turn.channel_id, who, iso(turn.at), turn.content)
    return sha256_of("\x00".join(parts))


class WriterSettings(Struct, frozen=True):
    """Settings of the writer.

    Args:
        batch_turns: Maximum turns per question.
        batch_tokens: Maximum tokens of turns per question; less for a small model.
        quiet_gap_s: A silence this long ends a conversation.
        reply_tokens: Maximum tokens of a reply.
        temperature: Sampling temperature; None: the model's setting.
        structured: `auto`, `on` or `off`: whether to request constrained replies.
        numbering: How turns are cited.
    """

    batch_turns: int = 60
    batch_tokens: int = 4000
    quiet_gap_s: float = 1800.0
    reply_tokens: int = 1024
    temperature: float | None = None
    structured: str = "auto"
    numbering: Numbering = PLAIN


# As requested in prompts: a summary of some sentences per
# session, and a fact about each person every few turns.
_SUMMARY_CHARS: Final = 300
_LINE: Final = "- " + "a fact that is told in so many words " * 3 + "\n"
_TURNS_OF_FACT: Final = 8
_MOST_FACTS: Final = 3


def expect_reply(draft: Draft, grounds: Grounds) -> None:
    """Grow a batch's files in `draft` by the expected size of a model's output."""
    facts = min(1 + len(grounds.batch.turns) // _TURNS_OF_FACT, _MOST_FACTS)
    summary = (_LINE * 3)[:_SUMMARY_CHARS]
    for rel_path, more in (
        *((path, summary) for path in grounds.sessions),
        *((person.rel_path, _LINE * facts) for person in grounds.roster.people),
    ):
        try:
            text = draft.text(rel_path) or new_file(rel_path)
            draft.put(rel_path, f"{text}\n{more}")
        except FamiliarError:
            continue  # unreadable, so it is not shown either
