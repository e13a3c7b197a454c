"""Pages of `familiar status`, `list`, `doctor`, `model`, `daemon`, `serve log` and settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.actions.memory.due_work import waiting_words
from familiar_cli.base.text import (
    bare_lines,
    channel_option,
    counted,
    one_line,
    shorten_list,
    size_words,
    whole_line,
)
from familiar_cli.base.times.clock import iso, now
from familiar_cli.pages.emit import Output, write_json
from familiar_cli.pages.page import Columns, Name, PagePart, Stack, local_time, named_values, plain
from familiar_cli.store.passes import WRITING, Event, PassFailure

if TYPE_CHECKING:
    from familiar_cli.actions.health.doctor_checks import Diagnosis
    from familiar_cli.actions.health.status import (
        CostStatus,
        DeskStatus,
        FamiliarStatus,
        LastTurn,
        ListedFamiliar,
        SummaryStatus,
    )
    from familiar_cli.actions.memory.audience import Audience
    from familiar_cli.actions.share.sync import InstanceStatus, SyncReport, SyncStatus
    from familiar_cli.actions.share.sync_decisions import (
        DeviceTrust,
        OpenConflict,
        SettledConflicts,
    )
    from familiar_cli.actions.talk.channels import ListedChannel, ShownChannel
    from familiar_cli.actions.talk.served_log import ServedLine
    from familiar_cli.base.config.settings import Effective
    from familiar_cli.base.errors import FamiliarError
    from familiar_cli.llm.models.store import ListedModel
    from familiar_cli.llm.open import Probe
    from familiar_cli.sync.engine import SyncResult
    from familiar_cli.sync.joining import Outcome
    from familiar_cli.sync.participants import LargeDeletion
    from familiar_cli.writing.writer.contract import WriterReport

MOST_DUE = 5  # reminders or conflicting files listed in a status


def status_page(status: FamiliarStatus, zone: tzinfo | None = None) -> PagePart:
    """Render the state of one familiar in its timezone; empty parts say what to do next."""
    return named_values(_status_lines(status, zone))


def list_page(rows: Sequence[ListedFamiliar]) -> PagePart:
    """Render the familiars as a table; `*` marks the default."""
    body = [
        [
            "*" if row.chosen else " ",
            plain(row.id, "bold" if row.chosen else ""),
            row.name,
            "?" if row.problem else row.turns,
            "?" if row.problem else row.memory_files,
        ]
        for row in rows
    ]
    return Columns(body, ("", "id", "name", "turns", "files"), right=(3, 4))


def _status_lines(status: FamiliarStatus, zone: tzinfo | None) -> Iterator[tuple[str, str]]:
    name = f" ({status.name})" if status.name else ""
    yield "familiar", status.familiar + name
    yield from (("problem", problem) for problem in status.problems)
    yield from _waiting_lines(status, zone)
    yield "directory", status.root
    model = status.model or "none chosen: `familiar config set llm.model NAME`"
    yield "model", f"{model}, preset {status.preset}"
    if status.language:
        how = "as set" if status.language_is_set else "detected from turns and character"
        yield "language", f"{status.language}, {how}"
    yield "memory", _memory_words(status)
    yield from _audience_lines(status.audience)
    yield "turns", _turn_counts(status, zone)
    if status.turns:
        yield "written", _written_words(status, zone)
        yield "summary", _summary_words(status.summary, zone)
    yield from _cost_lines(status.costs)


def _audience_lines(audience: Audience) -> Iterator[tuple[str, str]]:
    if audience.is_room_open:
        how = "several people have spoken there; `--channel NAME` begins another"
        yield "heard by", f"everybody, in channel cli: {how}"
    where = "; `familiar doctor` names them"
    if audience.notes:
        yield "public", f"{counted(len(audience.notes), 'page')} that others can see{where}"
    if audience.withheld:
        yield (
            "private",
            f"{counted(len(audience.withheld), 'page')} of which others see only a part{where}",
        )


def _waiting_lines(status: FamiliarStatus, zone: tzinfo | None) -> Iterator[tuple[str, str]]:
    """Yield what waits for the person, or for a command."""
    from familiar_cli.pages.writing_pages import yours_told

    if status.plans:
        yield "review", waiting_words(status.plans, status.turns_in_review)
    if status.last_turn and status.last_turn.failed:
        yield "failed", _unanswered(status.last_turn)
    for failure in status.failures:
        yield "failed", _failure_words(failure, zone)
    if status.rewritten:
        yield from (("yours", line) for line in yours_told(status.rewritten, zone))
    yield from _desk_lines(status.desk)
    if status.unindexed_files:
        yield "unindexed", counted(status.unindexed_files, "file")
    if waiting := status.turns_without_vector:
        yield "index", f"{counted(waiting, 'turn')} found by words only: `familiar index build`"


def _cost_lines(costs: Sequence[CostStatus]) -> Iterator[tuple[str, str]]:
    parts = [
        f"{one.command} {one.read_per_100_turns:,} read, {one.written_per_100_turns:,} written"
        for one in costs
        if one.read_per_100_turns is not None
    ]
    if parts:
        yield "tokens", f"for 100 turns: {'; '.join(parts)}"


def _desk_lines(desk: DeskStatus) -> Iterator[tuple[str, str]]:
    if desk.reminders or desk.problem:
        yield "reminders", _reminder_words(desk)
    if desk.tasks:
        yield "tasks", f"{desk.tasks} open"
    if desk.conflicts:
        paths = shorten_list(desk.conflicts, MOST_DUE)
        yield "conflicts", f"two versions each of {paths}: `familiar sync resolve`"


def _reminder_words(desk: DeskStatus) -> str:
    if desk.problem:
        return desk.problem
    if not desk.due:
        return f"{desk.reminders} open, none due"
    return f"{len(desk.due)} due: {shorten_list(desk.due, MOST_DUE, '; ')}"


def _written_words(status: FamiliarStatus, zone: tzinfo | None) -> str:
    done, imported = status.written, status.imported_turns
    here = status.unsummarised_turns - imported
    at = f", said at {local_time(done.at, zone)}" if done.at else ""
    reaches = f"up to turn {done.last_turn:,}{at}" if done.last_turn else "nothing yet"
    kinds = ((here, "turn"), (imported, "imported turn"))
    wait = [f"{n:,} {kind}{'s wait' if n > 1 else ' waits'}" for n, kind in kinds if n]
    more = f"; {', '.join(wait)}: `familiar write-memory`" if wait else ""
    return reaches + more


def _failure_words(failure: PassFailure, zone: tzinfo | None) -> str:
    """Describe a failure: time, reason, remedy, and what retries it."""
    hint = failure.hint
    again = "" if "again" in hint else "Then run it again." if hint else "Run it again."
    mend = " ".join(part for part in (hint, again) if part)
    times = f", {failure.attempts} times in a row" if failure.attempts > 1 else ""
    at = local_time(failure.at, zone)
    return f"`{failure.command}` at {at}{times}: {failure.message}. {mend}"


def _summary_words(summary: SummaryStatus, zone: tzinfo | None) -> str:
    parts = [f"up to turn {summary.last_turn}" if summary.last_turn else "none yet"]
    if summary.behind:
        parts.append(f"{counted(summary.behind, 'turn')} behind")
    if summary.cut:
        parts.append("it was too long and was cut off")
    if summary.failed:
        parts.append(f"failed at {local_time(summary.failed_at, zone)}: {summary.failed}")
    if summary.private:
        parts.append(f"{summary.private} of private channels in addition")
    return "; ".join(parts)


def _memory_words(status: FamiliarStatus) -> str:
    if not status.memory_files:
        return "no files yet: `familiar memory write notes.md TEXT`"
    skipped = f", {status.skipped} skipped: `familiar doctor`" if status.skipped else ""
    return f"{status.memory_files} file{'s' if status.memory_files > 1 else ''}{skipped}"


def _turn_counts(status: FamiliarStatus, zone: tzinfo | None) -> str:
    last = status.last_turn
    if last is None:
        return "none" if status.problems else 'no turns yet: `familiar ask "Hello"`'
    broken = f", interrupted: `familiar continue{channel_option(last.channel)}`"
    broken = broken if last.partial and last.role == "assistant" else ""
    at = local_time(last.at, zone)
    who, channel = one_line(last.name, 60), one_line(last.channel, 60)
    return f"{status.turns:,}, the last by {who} in {channel} at {at}{broken}"


def _unanswered(last: LastTurn) -> str:
    mend = f"Run `familiar again{channel_option(last.channel)}`."
    return f"the last message has no reply: {whole_line(last.failed)}. {mend}"


_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor_page(checks: Sequence[Diagnosis]) -> PagePart:
    """List the findings, one line each, with the remedy below each problem."""
    rows: list[list[object]] = []
    for check in checks:
        verdict = plain(check.verdict, _STYLES[check.verdict])
        rows.append([verdict, check.name, check.detail])
        if check.mend:
            rows.append(["", "", plain(f"-> {check.mend}", "bold")])
    return Columns(rows)


_STATES = {"ready": "yes", "partial": "in part", "absent": "no"}


def models_page(models: Sequence[ListedModel]) -> PagePart:
    """Render the models as a table."""
    rows = [
        [
            plain(model.name, "bold" if model.state == "ready" else ""),
            model.kind,
            size_words(model.size_bytes),
            size_words(model.memory_bytes) if model.memory_bytes else "",
            model.licence,
            plain("broken", "red") if model.broken else _STATES[model.state],
            model.purpose,
        ]
        for model in models
    ]
    return Columns(
        rows, ("name", "kind", "size", "memory", "licence", "on disk", "used for"), right=(2, 3)
    )


def probe_page(slot: str, where: str, probe: Probe, window_tokens: int = 0) -> PagePart:
    """Render the result of a model test, with the context size reported by the server."""
    return named_values(_speed_lines(slot, where, probe, window_tokens))


def _speed_lines(
    slot: str, where: str, probe: Probe, window_tokens: int
) -> Iterator[tuple[str, str]]:
    yield "slot", slot
    yield "server", where
    yield "model", probe.model
    yield "first text", f"{probe.first_text_s:.2f} s"
    if probe.tokens_per_s is not None:
        yield "speed", f"{probe.tokens_per_s:.0f} tokens/s"
    cut = " (cut off at the token limit)" if probe.finish_reason == "length" else ""
    yield "reply", " ".join(probe.reply.split()) + cut
    if window_tokens:
        yield "reads", f"{window_tokens:,} tokens"


class Narrator:
    """Prints events: for people on stderr, and with `--json` one line each on stdout.

    Args:
        out: The command's output.
        once: It does what is due and ends: with `--json` there is only the answer, and errors are
            reported at the end.

    Attributes:
        passes: The passes of the memory writer that did something, as `--json` shows them.
    """

    def __init__(self, out: Output, *, once: bool) -> None:
        self._out = out
        self._once = once
        self.passes: list[dict[str, Any]] = []

    def report(self, report: WriterReport) -> None:
        """Print what a pass of the memory writer did, if anything."""
        if not report.turns_covered and report.error is None:
            return
        from familiar_cli.pages.writing_pages import pass_notices, pass_text

        self.passes.append(report.to_json())
        lines = [*bare_lines(pass_text(report)), *pass_notices(report)]
        data = {"report": report.to_json()}
        self.event(Event("wrote", "\n".join(lines), WRITING, data))

    def event(self, event: Event) -> None:
        """Print an event."""
        if self._out.as_json and not self._once:
            write_json(event.to_json(iso(now())))
        if not (event.error and self._once):
            self._out.note(f"error: {event.message}" if event.error else event.message)

    def end(self, data: dict[str, Any], errors: Sequence[FamiliarError]) -> None:
        """Print the answer, and the errors."""
        imported = data["imported"]
        waiting = data["remaining"] - imported
        text = "All turns have been processed."
        if waiting:
            text = f"{counted(waiting, 'turn')} {'is' if waiting == 1 else 'are'} waiting."
        self._out.note(text)
        if imported:
            wait = "waits" if imported == 1 else "wait"
            text = f"{counted(imported, 'imported turn')} {wait} for `familiar write-memory`."
            self._out.note(text)
        self._out.answer(data, None, errors, exit_code=0)  # it was asked to stop


_TEXT_CHARS: Final = 160


def line_of(line: ServedLine, zone: tzinfo | None, *, names_familiar: bool = False) -> str:
    """Render a turn as one line: time, number, channel, how it was matched, speaker, text."""
    turn = line.turn
    if line.reason:
        name = f" {line.familiar}" if names_familiar else ""
        return f"{turn.at.astimezone(zone):%H:%M:%S}{name} ({line.match})"
    cut = " (broke off)" if turn.partial else ""
    text = one_line(turn.content, _TEXT_CHARS)
    channel = one_line(turn.channel_id, 40)
    familiar = f" {line.familiar}" if names_familiar else ""
    head = f"{turn.at.astimezone(zone):%H:%M:%S}{familiar} {turn.id} {channel} ({line.match})"
    return f"{head} {one_line(line.who, 40)}: {text}{cut}"


_VALUE_CHARS = 48


def settings_page(rows: Sequence[Effective], where: Sequence[tuple[str, str, str]]) -> PagePart:
    """Render all settings as a table with values and sources.

    Args:
        rows: The settings.
        where: Further rows `(name, value, source)` to show first, with values in full.
    """
    body = [_setting_cells(name, value, source) for name, value, source in where]
    body += [_setting_row(row) for row in rows]
    return Columns(body, ("setting", "value", "from"))


def setting_page(row: Effective) -> PagePart:
    """Render everything about one setting."""
    setting = row.setting
    lines = [("value", value_words(row.value)), ("from", row.source)]
    if row.effective is not None:
        lines.append(("in effect", f"{value_words(row.effective)} ({row.effective_source})"))
    lines += [
        ("default", value_words(setting.default)),
        ("allowed", setting.allowed),
        ("meaning", setting.doc),
    ]
    if setting.env:
        lines.append(("variable", f"{setting.env} overrides the file"))
    return named_values(lines)


def value_words(value: object) -> str:
    """Format a value; an empty text is shown as such."""
    if isinstance(value, tuple | list):
        return json.dumps(list(value), ensure_ascii=False)
    return '""' if value == "" else str(value)


def _setting_row(row: Effective) -> list[object]:
    if row.effective is not None:
        value = one_line(value_words(row.effective), _VALUE_CHARS)
        return _setting_cells(row.setting.key, value, f"{row.effective_source}, {row.source}")
    value = one_line(value_words(row.value), _VALUE_CHARS)
    source = row.source
    if row.value != row.setting.default:
        source += f", default {one_line(value_words(row.setting.default), _VALUE_CHARS)}"
    return _setting_cells(row.setting.key, value, source, own=row.source != "default")


def _setting_cells(name: str, value: str, source: str, *, own: bool = False) -> list[object]:
    return [plain(name, "bold" if own else ""), value, plain(source, "" if own else "dim")]


_CHANNEL_VALUE_CHARS = 60


def short_channels_page(rows: Sequence[ListedChannel], zone: tzinfo | None) -> PagePart:
    """Render the channels in rows of at most 80 columns."""
    body: list[list[object]] = [
        [
            plain(one_line(row.id, 28), "bold"),
            one_line(row.heard_by, 22),
            row.turns,
            local_time(row.last_at, zone),
        ]
        for row in rows
    ]
    return Columns(body, ("id", "heard by", "turns", "last turn"), right=(2,))


def channels_page(rows: Sequence[ListedChannel], zone: tzinfo | None) -> PagePart:
    """Render the channels as a table."""
    body: list[list[object]] = [
        [
            Name(row.id, "bold"),
            row.label,
            "?" if row.problem else row.mode,
            ", ".join(_channel_states(row)),
            row.heard_by,
            row.turns,
            local_time(row.last_at, zone),
            plain(", ".join(row.subscribed), "dim"),
        ]
        for row in rows
    ]
    head = ("id", "label", "mode", "", "heard by", "turns", "last turn", "listens")
    return Columns(body, head, right=(5,))


def _channel_states(row: ListedChannel) -> list[str]:
    states = (("private", row.private), ("withdrawn", row.withdrawn))
    branch = [] if row.parent is None else [_branch_words(row)]
    return [*branch, *(name for name, holds in states if holds)]


def _branch_words(row: ListedChannel) -> str:
    at = "" if row.parent_turn is None else f" at turn {row.parent_turn}"
    return one_line(f"branch of {row.parent}{at}", _CHANNEL_VALUE_CHARS)


def channel_page(shown: ShownChannel, zone: tzinfo | None) -> PagePart:
    """Render the settings of one channel."""
    row = shown.listed
    last = f"{counted(row.turns, 'turn')}, the last at {local_time(row.last_at, zone)}"
    text = last if row.last_at else "no turns yet"
    stays = "; its turns are not shown in other channels" if row.private else ""
    branch = [] if row.parent is None else [_setting_cells("branch", _branch_words(row), "")]
    body = [
        _setting_cells("label", row.label + stays, ""),
        *branch,
        _setting_cells("heard by", row.heard_by, ""),
        _setting_cells("turns", text, ""),
        _setting_cells("file", shown.path, ""),
        _setting_cells("prompt", f"{shown.total_tokens} tokens: {shown.reason}", ""),
    ]
    body += [
        _setting_cells(
            held.key,
            one_line(value_words(held.value), _CHANNEL_VALUE_CHARS),
            held.source,
            own=held.source == "channel",
        )
        for held in shown.channel.held
    ]
    return Columns(body, ("setting", "value", "from"))


def report_text(report: SyncReport) -> str:
    """Describe a sync, one line for each remote and each conflict."""
    lines = [_remote_line(one, dry_run=report.dry_run) for one in report.done]
    lines += [f"conflict: {one.path} (the other version: {one.copy})" for one in report.conflicts]
    lines += _refused_lines(report.refused)
    lines += map(whole_line, report.pending.lines())
    return "".join(f"{line}\n" for line in lines)


def _refused_lines(refused: Mapping[str, str]) -> list[str]:
    return [f"skipped: {whole_line(path)}: {whole_line(why)}" for path, why in refused.items()]


def _remote_line(one: SyncResult, *, dry_run: bool) -> str:
    written, deleted = len(one.outcome.written), len(one.outcome.deleted)
    parts = [
        ("pull", "pulled", {"commit": one.pulled, "turn": one.turns_in}),
        ("write", "wrote", {"file": written}),
        ("delete", "deleted", {"file": deleted}),
        ("push", "pushed", {"commit": one.pushed, "turn": one.turns_out}),
    ]
    told = [
        f"{do if dry_run else done} {_count_words(counts)}"
        for do, done, counts in parts
        if any(counts.values())
    ]
    return f"{one.remote}: {'would ' if dry_run and told else ''}{', '.join(told) or 'nothing new'}"


def _count_words(counts: Mapping[str, int]) -> str:
    return " and ".join(counted(count, what) for what, count in counts.items() if count)


def sync_status_page(status: SyncStatus, zone: tzinfo | None) -> PagePart:
    """Render remotes, instances and conflicts."""
    remotes = Columns(
        [
            plain(one.name, "cyan"),
            one.address,
            f"synced {local_time(one.synced_at, zone)}" if one.synced_at else "never synced",
            plain(f"{counted(one.ahead, 'commit')} to push", "yellow")
            if one.ahead
            else plain("up to date" if one.synced_at else ""),
        ]
        for one in status.remotes
    )
    instances = Columns(
        [
            plain(one.id, "cyan"),
            _state_words(one),
            plain(f"last change {local_time(one.last_at, zone)}" if one.last_at else "", "dim"),
        ]
        for one in status.instances
    )
    embodiments = Columns(
        [
            plain(one.id, "cyan"),
            "embodiment",
            plain(f"synced {local_time(one.last_sync, zone)}" if one.last_sync else "", "dim"),
        ]
        for one in status.embodiments
    )
    parts: list[PagePart] = [remotes, instances, embodiments]
    if status.signing_key:
        signed = f"encrypted bundles are signed with the key {status.signing_key}"
        parts.append(plain(signed, "dim"))
    parts += [plain(line, "yellow") for line in status.pending.lines()]
    parts += [plain(f"conflict: {one.path} ({one.copy})", "red") for one in status.conflicts]
    parts += [plain(line, "yellow") for line in _refused_lines(status.refused)]
    if status.problem:
        parts.append(plain(f"The last sync failed: {status.problem}", "red"))
    return Stack(*parts)


def devices_text(items: Sequence[DeviceTrust]) -> str:
    """Render each machine with its trust, one per line."""
    return "".join(f"{one.id}\t{_trust_words(one)}\n" for one in items)


def accepted_text(waited: Sequence[LargeDeletion], outcome: Outcome) -> str:
    """Render the result of accepting large deletions; without any, lost turns were accepted."""
    if not waited:
        return "Lost turns are no longer reported.\n"
    names = ", ".join(sorted({one.instance for one in waited}))
    written, deleted = len(outcome.written), len(outcome.deleted)
    return f"Merged {names}: wrote {counted(written, 'file')}, deleted {counted(deleted, 'file')}\n"


def _trust_words(one: DeviceTrust) -> str:
    if one.is_own:
        return "this machine"
    return f"{one.trust}, not listed before" if one.new and one.trust != "new" else one.trust


def conflicts_text(conflicts: Sequence[OpenConflict]) -> str:
    """Render conflicts with the differing lines of the other version."""
    return "\n".join(
        f"{one.path}: the version of {one.theirs or 'another machine'} is {one.copy}\n{one.diff}"
        for one in conflicts
    )


def settled_text(settled: SettledConflicts) -> str:
    """Describe the outcome of settling conflicts."""
    verb = "would be resolved" if settled.dry_run else "resolved"
    lines = [
        f"{verb}: {one.path}{'' if one.changed else ' (unchanged)'}\n{one.diff}"
        for one in settled.files
    ]
    lines += [f"skipped: {copy}: {whole_line(why)}\n" for copy, why in settled.skipped.items()]
    left = f"{counted(settled.left, 'conflict')} left\n" if settled.left else ""
    return "".join(lines) + left


def _state_words(one: InstanceStatus) -> str:
    if one.is_own:
        return "this machine"
    if one.forgotten:
        return "forgotten"
    return f"{counted(one.behind, 'commit')} to merge" if one.behind else "up to date"
