"""`MemoryWriter`: reads the turns since its last pass, and writes what matters to memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta, tzinfo
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError, RefusedError
from familiar_cli.base.text import one_line, split_sentences
from familiar_cli.base.times.clock import iso, now
from familiar_cli.base.who.identity import Author, Labels, Me, Who
from familiar_cli.base.who.visibility import PrivacyRules, Viewer
from familiar_cli.llm.asking import Asker
from familiar_cli.store.history.events import END
from familiar_cli.store.history.rows import Turn, place_of
from familiar_cli.store.memory.aliases import Aliases
from familiar_cli.store.memory.layout import MEMORY_WRITER, WRITER_JSON, new_run_id, pass_trailers
from familiar_cli.sync import turns_outgoing as outgoing
from familiar_cli.sync.turns_outgoing import ALL, UnreadFilter
from familiar_cli.writing import pending
from familiar_cli.writing.writer.applying import StepOutcome, applied_to, commit_step
from familiar_cli.writing.writer.contract import (
    Batch,
    Operation,
    ProposedLine,
    WriterReport,
    WriterSettings,
    parse_reply,
)
from familiar_cli.writing.writer.grounds import (
    Grounds,
    by_privacy,
    expect_reply,
    split_steps,
    stems_of,
)
from familiar_cli.writing.writer.prompts import SHAPE, Questions
from familiar_cli.writing.writer.rails import JudgedBatch, judge_operations
from familiar_cli.writing.writer.runs import Runs, marker_text, reconcile_history

if TYPE_CHECKING:
    from familiar_cli.llm.tokens import TokenCounter
    from familiar_cli.llm.types import ChatModel
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.store.memory.store.transactions import Transaction

__all__ = ["MemoryWriter", "Mode", "WriterSettings"]

Mode = Literal["apply", "review", "dry_run"]
_PAGE: Final = 200


@dataclass(slots=True)
class MemoryWriter:
    """Turns history into memory, one transaction per step.

    Args:
        model: The model to ask.
        counter: Counts tokens.
        runs: Storage of run records.
        who: The familiar's identity.
        settings: Writer settings.
        zone: The familiar's timezone; None: the system's.
        rules: The current privacy rules.
        channel_context_lookup: Returns a channel's display name, e.g. `#general`; None: unknown.
        me: The owner's identity.
        on_answer: Called for each answer with the tokens of the prompt and of the reply.
        lore_shown: Returns the files of lore in the prompts of turns, by their numbers.

    Attributes:
        report: The report of the current or last pass.
    """

    store: MemoryStore
    history: HistoryStore
    model: ChatModel
    counter: TokenCounter
    runs: Runs
    _: KW_ONLY
    who: Who
    settings: WriterSettings = field(default_factory=WriterSettings)
    zone: tzinfo | None = None
    rules: Callable[[], PrivacyRules] = PrivacyRules
    channel_context_lookup: Callable[[str], str | None] = lambda _: None
    me: Me = field(default_factory=Me)
    on_answer: Callable[[int, int], None] = lambda *_: None
    lore_shown: Callable[[Sequence[int]], Iterable[str]] = lambda _: ()
    report: WriterReport = field(default_factory=lambda: WriterReport(""), init=False)

    async def run(
        self,
        mode: Mode = "apply",
        *,
        which: UnreadFilter = ALL,
        since: datetime | None = None,
        again: bool = False,
        newest: bool = False,
        most_steps: int | None = None,
        on_step: Callable[[WriterReport], None] = lambda _: None,
    ) -> WriterReport:
        """Process the unread turns, and return the report.

        Completed steps persist if a later one fails or the pass is cancelled. Model failures are
        reported, not raised.

        Args:
            mode: `apply` writes; `review` keeps a plan for a person; `dry_run` changes nothing.
            which: Only these turns; the others stay unread.
            since: Only turns from then on, including those read before.
            again: All turns, including those read before.
            newest: Include the newest exchange of each conversation although it may still change,
                until something follows or it is settled (`WriterSettings.quiet_gap_s`). `again`
                includes it, too.
            most_steps: Stop after this many steps.
            on_step: Called after each step.

        Raises:
            ConfigError: The model's context is too small for this work.
            FamiliarError: The history, the memory or the record cannot be used.
        """
        writer_pass = _WriterPass(self, mode, which, newest=newest or again)
        self.report = writer_pass.report
        if mode != "dry_run" and reconcile_history(
            self.store, self.history, self.settings.numbering.own
        ):
            writer_pass.report.notices.append(
                "An earlier pass was interrupted right after writing; this was recorded."
            )
        try:
            await writer_pass.read(writer_pass.turns(since, again=again), most_steps, on_step)
        except asyncio.CancelledError:
            writer_pass.report.interrupted = True
            raise
        finally:
            writer_pass.end()
        return writer_pass.report

    def remember(self, turn: Turn) -> str:
        """Write a message to memory, word for word and without a model; return the file.

        Raises:
            RefusedError: A rule refuses it; the message says which.
            FamiliarError: The memory cannot be used.
        """
        writer_pass = _WriterPass(self, "apply", ALL, newest=True)
        try:
            return writer_pass.remember(turn)
        finally:
            writer_pass.aliases.close()

    def estimate(
        self,
        *,
        which: UnreadFilter = ALL,
        since: datetime | None = None,
        again: bool = False,
        newest: bool = False,
        from_turns: int = 0,
    ) -> dict[str, Any]:
        """Estimate a pass without asking a model: turns, batches, and prompt tokens.

        Files grow from batch to batch and are part of the next prompt, assuming typical replies.

        Args:
            which: As for `run`; likewise `since` and `again`.
            since: Only turns from then on.
            again: All turns, including those read before.
            newest: Include the newest exchange of each conversation.
            from_turns: Extrapolate from about this many turns; 0: read all.
        """
        writer_pass = _WriterPass(self, "dry_run", which, newest=newest or again)
        batches = turns = tokens = 0
        last = 0.0
        read = writer_pass.turns(since, again=again)
        for piece in split_steps(read, writer_pass.questions.caps, writer_pass.questions.cost):
            turns += len(piece)
            before = tokens
            for batch in writer_pass.batches(piece):
                question = writer_pass.questions.about(batch, writer_pass.draft)
                batches += 1
                tokens += self.counter.count(question.system) + self.counter.count(question.user)
                expect_reply(writer_pass.draft, question.grounds)
            last = (tokens - before) / len(piece)
            if 0 < from_turns <= turns:
                break
        writer_pass.aliases.close()
        if (
            turns
            and (every := outgoing.count_unread_turns(self.history, which))
            > turns
            >= from_turns
            > 0
        ):
            batches = round(batches * every / turns)
            tokens += round(last * (every - turns))  # the files have grown by then
            turns = every
        most = batches * self.settings.reply_tokens
        per_turn = round(tokens / turns, 1) if turns else None
        return {
            "turns": turns,
            "batches": batches,
            "estimated_tokens": tokens,
            "estimated_tokens_per_turn": per_turn,
            "most_reply_tokens": most,
        }


class _WriterPass:
    """One pass: the turns it reads, and its progress.

    Args:
        writer: The writer that runs it.
        mode: As for `MemoryWriter.run`.
        which: Only these turns.
        newest: Include the newest exchange of each conversation.

    Raises:
        ConfigError: The model's context is too small for this work.
    """

    def __init__(
        self, writer: MemoryWriter, mode: Mode, which: UnreadFilter, *, newest: bool
    ) -> None:
        settings = writer.settings
        self._store, self._history, self._model = writer.store, writer.history, writer.model
        self._runs, self._rules, self._own = writer.runs, writer.rules, settings.numbering.own
        self._me = writer.me
        self._mode, self._which = mode, which
        quiet = timedelta(seconds=settings.quiet_gap_s)
        self._fresh = {} if newest else outgoing.fresh_exchanges(self._history, now() - quiet)
        self._first_id, self._may_move = 0, True
        self.draft = pending.Draft(self._store)
        self._is_weak = False
        self.report = WriterReport(new_run_id())
        self.aliases = Aliases(self._store)
        self.questions = Questions(
            self._store,
            self._model,
            writer.counter.count,
            writer.who,
            settings,
            writer.zone,
            writer.channel_context_lookup,
            self.aliases.called,
            self._publicly,
            lambda: self._labels,
            writer.lore_shown,
        )
        self._asker = Asker(
            self._model,
            writer.counter.count,
            None if mode == "dry_run" else partial(self._runs.keep_reply, self.report.run),
            "memory_writer",
            reply_tokens=settings.reply_tokens,
            temperature=settings.temperature,
            structured=settings.structured,
            unchanged="nothing was written, and the turns are kept for the next run",
            on_answer=writer.on_answer,
        )
        _ = self.questions.caps  # report a model that is too small before asking anything
        self.aliases.refresh(thorough=True)

    def end(self) -> None:
        """Complete the report and the record."""
        report = self.report
        report.spent = self._asker.spent
        report.quarantined = self._asker.quarantined
        if self._mode == "apply":  # also for an earlier pass that was killed before this
            try:
                report.notices += self.aliases.publish()
            except FamiliarError as error:  # derived: rebuilt on demand
                report.notices.append(f"The name index was not updated: {error}")
        self.aliases.close()
        report.remaining = outgoing.count_unread_turns(self._history, self._which)
        if self._mode != "apply":
            report.diff = self.draft.diff()
        report.outcome = _pass_outcome(report, self._mode)
        if report.batches or report.error or self._asker.spent.calls:
            self._note({"end": iso(now()), **_record_end(report)})

    def remember(self, turn: Turn) -> str:
        """Write a message as a quote, with itself as evidence; see `MemoryWriter.remember`."""
        for batch in self.batches([turn]):
            grounds = self.questions.about(batch, self.draft).grounds
            judged = judge_operations([quote_turn(grounds, turn)], grounds)
            for refusal in judged.refused:
                raise RefusedError(f"Turn {turn.id} was not written to memory: {refusal.reason}")
            message = f"remember turn {turn.id}, run {self.report.run}"
            commit_step(self._store, [judged], message, self.report.run, lambda *_: None)
            return judged.operations[0].rel_path
        raise RefusedError(f"Turn {turn.id} was replaced or withdrawn; nothing was written")

    async def read(
        self, turns: Iterator[Turn], most: int | None, on_step: Callable[[WriterReport], None]
    ) -> None:
        """Process `turns` step by step, until a step fails."""
        for number, piece in enumerate(
            split_steps(turns, self.questions.caps, self.questions.cost)
        ):
            if most is not None and number >= most:
                break
            if number == 0:
                self._first_id = piece[0].id
                self._note({"start": iso(now()), "mode": self._mode, "model": self._model.name})
            try:
                await self._step(piece)
            except FamiliarError as error:
                self.report.error = error
                self._note({"turns": [piece[0].id, piece[-1].id], "failed": str(error)})
                break
            on_step(self.report)
            await asyncio.sleep(0)  # a point for interruption, however fast the model is

    def turns(self, since: datetime | None, *, again: bool) -> Iterator[Turn]:
        """Yield the turns to read, except those that may still change."""
        for turn in self._selected_turns(since, again=again):
            if place_of(turn) >= self._fresh.get(turn.channel_id, END):
                self.report.newest_left += turn.stands
            else:
                yield turn

    def _selected_turns(self, since: datetime | None, *, again: bool) -> Iterator[Turn]:
        """Yield the selected turns, a page at a time.

        Other turns stay unread. If turns from before `since` are unread, nothing is marked as read,
        so turns read now will be read again with them.
        """
        if since is None and not again:
            yield from outgoing.unread_turns(self._history, self._which)
            return
        after = 0
        if since is not None:
            first = self._history.first_since(since)
            if first is None:
                return
            after = first - 1
            oldest = next(outgoing.unread_turns(self._history), None)
            self._may_move = oldest is None or oldest.id >= first
        while page := self._history.after(after, _PAGE):
            after = page[-1].id
            ids = [turn.id for turn in page]
            ours, unread = outgoing.read_here(self._history, ids), None
            for turn in page:
                if turn.id not in ours:
                    continue
                if since is not None and turn.at < since:
                    unread = outgoing.unread_among(self._history, ids) if unread is None else unread
                    self._may_move = self._may_move and turn.id not in unread
                elif self._which.takes(turn):
                    yield turn

    async def _step(self, piece: Sequence[Turn]) -> None:
        """Ask about some turns, and commit the result together with the watermark."""
        verdicts = [await self._ask(batch) for batch in self.batches(piece)]
        if not self._is_weak and any(map(is_weak, verdicts)):
            self._note_weak()
        if self._mode == "apply":
            applied = self._commit(piece, verdicts)
        else:
            limit = self._store.limits.max_file_bytes
            applied = applied_to(self.draft.copy(), verdicts, limit)
            shows_doubtful = self._mode == "review" and not self._is_weak
            self.draft = applied.held if shows_doubtful else applied.draft
            if self._mode == "review":
                self._keep_plan(piece)
        self._tell(piece, verdicts, applied)

    def _note_weak(self) -> None:
        """From now on, only propose lines that the turns support, for review."""
        self._is_weak, will = True, "would wait" if self._mode == "dry_run" else "waits"
        if self._mode == "apply":
            self._mode, self.draft = "review", pending.Draft(self._store)
        self.report.notices.append(
            f"{self._model.name} is too weak to write on its own: it only proposes what the turns "
            f"themselves say, which {will} for review."
        )

    def batches(self, piece: Sequence[Turn]) -> tuple[Batch, ...]:
        """Return the batches of a step. Turns that do not stand are covered, but never shown."""
        return by_privacy([turn for turn in piece if turn.stands], self._rules())

    def _publicly(self, author: Author) -> Author:
        """Return an author with the names used outside private channels."""
        return self._people.get(author.slug) or Author(author.platform, author.user_id)

    @cached_property
    def _labels(self) -> Labels:
        return Labels(frozenset(self._people.values()), self.questions.who.name, self._me)

    @cached_property
    def _people(self) -> dict[str, Author]:
        """Everyone who ever spoke, by slug, with publicly known names."""
        speakers = self._history.speakers(Viewer(self._rules(), frozenset()))
        return {speaker.author.slug: speaker.author for speaker in speakers}

    async def _ask(self, batch: Batch) -> JudgedBatch:
        question = self.questions.about(batch, self.draft)
        self.report.notices += [
            f"Turn {n} is longer than this model can read; its end was left out."
            for n in question.cut_turns
        ]
        parsed = await self._asker.ask(
            question.system, question.user, schema=question.schema, shape=SHAPE, read=parse_reply
        )
        self.report.batches += 1
        quoted = quote_people(question.grounds) if question.grounds.strict else []
        judged = judge_operations([*parsed.operations, *quoted], question.grounds)
        return replace(judged, refused=(*parsed.malformed, *judged.refused))

    def _commit(self, piece: Sequence[Turn], verdicts: Sequence[JudgedBatch]) -> StepOutcome:
        def also(tx: Transaction, applied: StepOutcome) -> None:
            if self._may_move:
                tx.write(WRITER_JSON, marker_text(self.report.run, piece, instance=self._own))
            if applied.has_held:
                pending.stage_plan(tx, self._store, self._held_plan(piece, applied))

        message = f"turns {piece[0].id}-{piece[-1].id}, run {self.report.run}"
        applied = commit_step(self._store, verdicts, message, self.report.run, also)
        self._move(piece)
        return applied

    def _keep_plan(self, piece: Sequence[Turn]) -> None:
        """Store the plan of the whole pass so far, so that its turns count as read."""
        if self.draft:
            files = tuple(pending.PlannedFile(f.rel_path, f.before, f.after) for f in self.draft)
            plan = self._plan(self.report.run, "review", (self._first_id, piece[-1].id), files)
            trailers = pass_trailers(self.report.run)
            with self._store.transaction(MEMORY_WRITER, f"plan {plan.id}", trailers=trailers) as tx:
                pending.stage_plan(tx, self._store, plan)
                if self._may_move:
                    tx.write(WRITER_JSON, marker_text(self.report.run, piece, instance=self._own))
            self.report.pending = plan.id
        self._move(piece)

    def _held_plan(self, piece: Sequence[Turn], applied: StepOutcome) -> pending.ReviewPlan:
        made = {file.rel_path: file.after for file in applied.draft}
        files = tuple(
            pending.PlannedFile(f.rel_path, made.get(f.rel_path, f.before), f.after)
            for f in applied.held
            if f.after != made.get(f.rel_path, f.before)
        )
        name = f"{self.report.run}-{piece[0].id}"
        self.report.pending = name
        self.report.held += [f.rel_path for f in files if f.rel_path not in self.report.held]
        return self._plan(name, "held", (piece[0].id, piece[-1].id), files)

    def _plan(
        self,
        name: str,
        why: pending.Why,
        turns: tuple[int, int],
        files: tuple[pending.PlannedFile, ...],
    ) -> pending.ReviewPlan:
        at = iso(now())
        return pending.ReviewPlan(name, self.report.run, at, why, self._model.name, turns, files)

    def _move(self, piece: Sequence[Turn]) -> None:
        if self._may_move:
            outgoing.mark_read(self._history, [turn.id for turn in piece])

    def _tell(
        self, piece: Sequence[Turn], verdicts: Sequence[JudgedBatch], applied: StepOutcome
    ) -> None:
        """Add a step to the report and the record."""
        report = self.report
        refused = [r for verdict in verdicts for r in verdict.refused] + applied.refused
        changes = [file.change for file in applied.draft]
        report.turns_covered += len(piece)
        report.refused += refused
        if self._mode == "apply":
            for change in changes:
                report.files[change.rel_path] = _add_changes(
                    report.files.get(change.rel_path), change
                )
        else:
            report.files = {file.rel_path: file.change for file in self.draft}
        self._note(
            {
                "turns": [piece[0].id, piece[-1].id],
                "count": len(piece),
                "batches": len(verdicts),
                "files": changes,
                "refused": refused,
                "calls": self._asker.spent.calls,
            }
        )

    def _note(self, entry: dict[str, Any]) -> None:
        if self._mode != "dry_run":
            self._runs.note(self.report.run, entry)


_LEAST_JUDGED: Final = 4


def is_weak(judged: JudgedBatch) -> bool:
    """Tell whether a model must not write alone: it is small, or invents most of its lines."""
    invented = sum(one.rail in _INVENTED for one in judged.refused)
    lines = invented + sum(len(one.lines) for one in judged.operations)
    return judged.grounds.strict or (lines >= _LEAST_JUDGED and 3 * invented > 2 * lines)


_INVENTED: Final = frozenset({"unsupported", "language"})


def _pass_outcome(report: WriterReport, mode: Mode) -> Any:  # noqa: ANN401
    if report.error and not report.turns_covered:
        return "failed"
    if mode == "review" and report.pending:
        return "review"
    if report.files:
        return "wrote"
    if report.error:
        return "failed"
    return "review" if report.pending else "nothing"


def _add_changes(change: pending.FileChange | None, new: pending.FileChange) -> pending.FileChange:
    if change is None:
        return new
    return replace(change, added=change.added + new.added, removed=change.removed + new.removed)


def _record_end(report: WriterReport) -> dict[str, Any]:
    """Return the end of a record: the report without what its steps already recorded."""
    told = report.to_json()
    for key in ("refused", "diff", "files"):
        told.pop(key)
    return {**told, "error": str(report.error) if report.error else None}


_TURNS_OF_QUOTE: Final = 5
_MOST_CHARS: Final = 500
_LEAST_STEMS: Final = 3
_CHARS: Final = range(20, 200)
_SELF: Final = re.compile(r"\b(?:I|I['’]\w+|my|we|our)\b", re.IGNORECASE)
_ASKS: Final = re.compile(r"[?？؟]\W*\Z")


def quote_people(grounds: Grounds) -> list[Operation]:
    """Return additions to the files of people: the sentences that say most about them.

    About one for five turns, each with the turn as its evidence.
    """
    ranked = sorted(
        ((_weight(sentence), -turn.id, sentence, turn) for turn, sentence in _statements(grounds)),
        key=lambda one: one[:2],
        reverse=True,
    )
    most = 1 + len(grounds.batch.turns) // _TURNS_OF_QUOTE
    selection = [(turn, text) for weight, _, text, turn in ranked[:most] if weight >= _LEAST_STEMS]
    selection.sort(key=lambda one: one[0].id)
    return [quote_turn(grounds, turn, text) for turn, text in selection]


def quote_turn(grounds: Grounds, turn: Turn, text: str = "") -> Operation:
    """Return the addition of a quote to its author's file, or to that of the session.

    Args:
        grounds: The evidence, which includes the turn.
        turn: The turn.
        text: The part to quote; empty for all.
    """
    quote = f"“{one_line(text or turn.content, _MOST_CHARS)}”"
    people = [person.rel_path for person in grounds.roster.who_said((turn.id,))]
    path = next(iter((*people, *grounds.sessions)))
    return Operation("add_bullets", path, (ProposedLine(quote, (turn.id,)),))


def _statements(grounds: Grounds) -> list[tuple[Turn, str]]:
    """List the sentences in which people speak of themselves; in other languages, all."""
    is_english = grounds.phrases.code == "en"
    return [
        (turn, sentence.strip())
        for turn in grounds.batch.turns
        if turn.role == "user"
        for sentence in split_sentences(turn.content)
        if len(sentence.strip()) in _CHARS
        and not _ASKS.search(sentence)
        and (not is_english or _SELF.search(sentence))
    ]


def _weight(sentence: str) -> int:
    return len(stems_of(sentence))
