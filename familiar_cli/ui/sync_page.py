"""What `familiar sync` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.clock import parse_iso
from familiar_cli.text import counted, one_line
from familiar_cli.ui.page import Columns, Stack, local_time, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

    from familiar_cli.actions.sync import InstanceStatus, SyncReport, SyncStatus
    from familiar_cli.actions.sync_decisions import DeviceTrust, OpenConflict, SettledConflicts
    from familiar_cli.sync.engine import Synced
    from familiar_cli.sync.joining import Outcome
    from familiar_cli.sync.participants import LargeDeletion
    from familiar_cli.ui.page import PagePart


def report_text(report: SyncReport) -> str:
    """Return what a sync did, a line for each remote and each conflict."""
    lines = [_remote_line(one, dry_run=report.dry_run) for one in report.done]
    lines += [f"conflict: {one.path} (the other version: {one.copy})" for one in report.conflicts]
    lines += _refused_lines(report.refused)
    lines += map(one_line, report.pending.lines())
    return "".join(f"{line}\n" for line in lines)


def _refused_lines(refused: Mapping[str, str]) -> list[str]:
    return [f"skipped: {one_line(path)}: {one_line(why)}" for path, why in refused.items()]


def _remote_line(one: Synced, *, dry_run: bool) -> str:
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


def status_page(found: SyncStatus, zone: tzinfo | None) -> PagePart:
    """Return remotes, instances and conflicts."""
    remotes = Columns(
        [
            plain(one.name, "cyan"),
            one.address,
            f"synced {_time_words(one.synced_at, zone)}" if one.synced_at else "never synced",
            plain(f"{counted(one.ahead, 'commit')} to push", "yellow")
            if one.ahead
            else plain("up to date" if one.synced_at else ""),
        ]
        for one in found.remotes
    )
    instances = Columns(
        [
            plain(one.id, "cyan"),
            _state_words(one),
            plain(f"last change {_time_words(one.last_at, zone)}" if one.last_at else "", "dim"),
        ]
        for one in found.instances
    )
    embodiments = Columns(
        [
            plain(one.id, "cyan"),
            "embodiment",
            plain(f"synced {_time_words(one.last_sync, zone)}" if one.last_sync else "", "dim"),
        ]
        for one in found.embodiments
    )
    key = [plain(f"encrypted bundles are signed with the key {found.signing_key}", "dim")]
    problem = f"The last sync failed: {found.problem}" if found.problem else ""
    conflicts = [plain(f"conflict: {one.path} ({one.copy})", "red") for one in found.conflicts]
    conflicts += [plain(line, "yellow") for line in _refused_lines(found.refused)]
    pending = [plain(line, "yellow") for line in found.pending.lines()]
    problems = [plain(problem, "red")] if problem else []
    return Stack(
        remotes,
        instances,
        embodiments,
        *(key if found.signing_key else ()),
        *pending,
        *conflicts,
        *problems,
    )


def devices_text(found: Sequence[DeviceTrust]) -> str:
    """Render each machine with its trust, one per line."""
    return "".join(f"{one.id}\t{_trust_words(one)}\n" for one in found)


def accepted_text(waited: Sequence[LargeDeletion], outcome: Outcome) -> str:
    """Render the result of accepting large deletions."""
    names = ", ".join(sorted({one.instance for one in waited}))
    written, deleted = len(outcome.written), len(outcome.deleted)
    return f"Merged {names}: wrote {counted(written, 'file')}, deleted {counted(deleted, 'file')}\n"


def _trust_words(one: DeviceTrust) -> str:
    if one.is_own:
        return "this machine"
    return f"{one.trust}, not looked at before" if one.new and one.trust != "new" else one.trust


def conflicts_text(found: Sequence[OpenConflict]) -> str:
    """Return conflicts with what the other version of each has instead."""
    return "\n".join(
        f"{one.path}: the version of {one.theirs or 'another machine'} is {one.copy}\n{one.diff}"
        for one in found
    )


def settled_text(settled: SettledConflicts) -> str:
    """Return what became of conflicts."""
    verb = "would be resolved" if settled.dry_run else "resolved"
    lines = [
        f"{verb}: {one.path}{'' if one.changed else ' (unchanged)'}\n{one.diff}"
        for one in settled.files
    ]
    lines += [f"skipped: {copy}: {one_line(why)}\n" for copy, why in settled.skipped.items()]
    left = f"{counted(settled.left, 'conflict')} left\n" if settled.left else ""
    return "".join(lines) + left


def _state_words(one: InstanceStatus) -> str:
    if one.is_own:
        return "this machine"
    if one.forgotten:
        return "forgotten"
    return f"{counted(one.behind, 'commit')} to merge" if one.behind else "up to date"


def _time_words(at: str, zone: tzinfo | None) -> str:
    return local_time(parse_iso(at), zone)
