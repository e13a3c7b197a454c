"""Sync a familiar with its remotes, report its status, and set it up on another machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from itertools import starmap
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from familiar_cli.actions.share.sync_decisions import (
    WAITING,
    PendingDecisions,
    clock_findings,
    participants_of,
    pending_decisions,
    remotes_of,
)
from familiar_cli.base import errors
from familiar_cli.base.config import environment
from familiar_cli.base.config.home import FamiliarPaths, Instance
from familiar_cli.base.config.schema import CharacterConfig
from familiar_cli.base.files import read_object, remove, write_own
from familiar_cli.base.text import counted, sha256_of, shorten_list, slugify
from familiar_cli.base.times import clock
from familiar_cli.base.who.identity import check_familiar_id
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.forgetting import ForgetOrder, note_order, orders_of
from familiar_cli.store.journal.edits import refused_files
from familiar_cli.store.journal.repository import walk_ancestors
from familiar_cli.store.memory.merge.files import Conflict, conflicts_in
from familiar_cli.store.passes import SYNCING, as_failure, exclusive
from familiar_cli.sync.begin import Sender, begin_from, forget_folder
from familiar_cli.sync.engine import SyncEngine, SyncOptions, SyncResult
from familiar_cli.sync.joining import AncestryWalk
from familiar_cli.sync.journal_epochs import memory_orders
from familiar_cli.sync.journal_past import JournalPast
from familiar_cli.sync.remotes import Address, SeenRefs, heads_in, read_address
from familiar_cli.sync.sealing import KEY_FILE, SignatureTrust, SigningKey, no_key, read_key
from familiar_cli.sync.shared_files import Device, Devices
from familiar_cli.sync.turns import HistoryConversations, read_abouts
from familiar_cli.sync.turns_incoming import read_there
from familiar_cli.sync.turns_outgoing import hand_back, hand_over

PATIENCE_S: Final = 120.0
"""How long a command waits for a running sync of the same familiar."""

HUB: Final = "hub"
"""Name of the remote that another machine was set up from."""


class SyncReport(Struct, frozen=True):
    """Result of a sync.

    Args:
        instance: The local instance.
        done: Result for each synced remote.
        failed: Errors of other remotes, by name.
        conflicts: Open conflicts, including older ones.
        absent: Why files of other machines are missing here, by path, including older ones.
        dry_run: Whether nothing was changed.
        pending: Decisions for the user.
    """

    instance: str
    done: tuple[SyncResult, ...]
    failed: dict[str, tuple[Address, errors.FamiliarError]]
    conflicts: tuple[Conflict, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False
    pending: PendingDecisions = field(default_factory=PendingDecisions)

    def to_json(self) -> dict[str, Any]:
        """Return it as `--json` shows it."""
        outcomes = [one.outcome for one in self.done]
        return {
            "instance": self.instance,
            **{name: sum(getattr(one, name) for one in self.done) for name in _COUNTS},
            "written": sorted({path for one in outcomes for path in one.written}),
            "deleted": sorted({path for one in outcomes for path in one.deleted}),
            "conflicts": [conflict_json(one) for one in self.conflicts],
            "refused": _refused_json(self.refused),
            "notes": self.notes,
            "remotes": [*map(_remote_json, self.done), *starmap(_failed_json, self.failed.items())],
            **self.pending.to_json(),
            "dry_run": self.dry_run,
        }

    @property
    def refused(self) -> dict[str, str]:
        """Reasons why files of other machines are not here, by path."""
        new = {path: why for one in self.done for path, why in one.outcome.refused.items()}
        return dict(sorted({**self.absent, **new}.items()))

    @property
    def notes(self) -> list[str]:
        """User-facing notes."""
        parts = [note for one in self.done for note in one.notes]
        kept = [f"{n.path}: {n.text}" for one in self.done for n in one.outcome.notes]
        return list(dict.fromkeys([*parts, *kept]))

    @property
    def error(self) -> errors.FamiliarError | None:
        """The error to exit with, or None on success."""
        if self.failed:
            return next(error for _, error in self.failed.values())
        problems = []
        if self.conflicts:
            count = len({one.path for one in self.conflicts})
            name = shorten_list(sorted({one.path for one in self.conflicts}), _MOST_NAMED)
            problems.append(f"{count} file{'s' * (count != 1)} in conflict: {name}")
        if self.refused:
            problems.append(f"skipped: {shorten_list(sorted(self.refused), _MOST_NAMED)}")
        if self.pending.is_open:
            problems.append("something is pending or was set aside")
        if not problems:
            return None
        hint = "Rename or shorten such files on the machine that has them."
        if self.conflicts:
            hint = "Resolve it with `familiar sync resolve`; both versions are kept until then."
        elif self.pending.commands:
            hint = f"Run `familiar sync status`, then {' or '.join(self.pending.commands)}."
        elif self.pending.bundles:
            hint = (
                "If such a bundle is yours, update `familiar` on the machine that wrote it and sync"
                " there; if not, delete it. See `familiar sync status`."
            )
        elif self.pending.aside:
            hint = self.pending.branch_hint
        return errors.PartialError(f"Synced, but {'; '.join(problems)}", hint=hint)


def conflict_json(one: Conflict) -> dict[str, Any]:
    """Return a conflict as `--json` shows it; `theirs` is the file with the other version."""
    return {"path": one.path, "theirs": one.copy, "instance": one.theirs, "what": list(one.what)}


_MOST_NAMED: Final = 3
_COUNTS: Final = ("pulled", "pushed", "turns_in", "turns_out")


def _remote_json(one: SyncResult) -> dict[str, Any]:
    counts = {name: getattr(one, name) for name in _COUNTS}
    return {"name": one.remote, "address": one.address, **counts, "error": None}


def _failed_json(name: str, failed: tuple[Address, errors.FamiliarError]) -> dict[str, Any]:
    address, error = failed
    told = {"code": error.code, "message": str(error), "hint": error.hint}
    return {"name": name, "address": address.text, **dict.fromkeys(_COUNTS, 0), "error": told}


def _refused_json(refused: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"path": path, "reason": why} for path, why in sorted(refused.items())]


class RemoteStatus(Struct, frozen=True):
    """Status of a remote.

    Args:
        synced_at: Time of the last sync; None for never.
        ahead: Local commits it did not have then.
    """

    name: str
    address: str
    synced_at: str | None
    ahead: int


class InstanceStatus(Struct, frozen=True):
    """Status of an instance.

    Args:
        is_own: Whether it is the local one.
        last_at: Time of its last change, by its own clock.
        behind: Number of its commits not merged here.
        forgotten: Whether it is no longer waited for.
    """

    id: str
    is_own: bool
    last_at: str
    behind: int
    forgotten: bool = False


class SyncStatus(Struct, frozen=True):
    """Sync status of a familiar, without contacting a remote.

    Args:
        instance: The local instance.
        began: The original instance.
        instances: All known instances.
        conflicts: Open conflicts.
        refused: Why files of other machines are missing here, by path.
        problem: Error of the last sync; empty on success.
        problem_at: Time of that error.
        embodiments: Programs that keep a copy of the familiar.
        pending: Decisions for the user.
        signing_key: Fingerprint of the signing key; empty if none.
    """

    instance: str
    began: str
    remotes: tuple[RemoteStatus, ...] = ()
    instances: tuple[InstanceStatus, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    problem_at: str | None = None
    embodiments: tuple[Device, ...] = ()
    pending: PendingDecisions = field(default_factory=PendingDecisions)
    signing_key: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as `--json` shows it."""
        return {
            "instance": self.instance,
            "began": self.began,
            "signing_key": self.signing_key or None,
            "remotes": self.remotes,
            "instances": self.instances,
            "conflicts": [conflict_json(one) for one in self.conflicts],
            "refused": _refused_json(self.refused),
            "problem": self.problem,
            "problem_at": self.problem_at,
            "embodiments": self.embodiments,
            **self.pending.to_json(),
        }


async def sync(
    familiar: Familiar,
    name: str | None,
    how: SyncOptions,
    *,
    wait_s: float = PATIENCE_S,
    progress: Callable[[str], None] = lambda _: None,
    secret: Callable[[], str] | None = None,
    trust: SignatureTrust | None = None,
) -> SyncReport:
    """Sync with one or all remotes; a failure does not stop the others.

    Args:
        name: Name of the remote; None for all.
        how: Sync options.
        wait_s: Maximum wait for a running sync of the same familiar.
        progress: Callback for short progress messages.
        secret: Asks the user for the key of an encrypted folder; None without a user.
        trust: Which encrypted bundles to accept without proof.

    Raises:
        NotFoundError: No remotes, or none with that name.
        LockedError: Another process syncs this familiar for longer than `wait_s`.
    """
    remotes = remotes_of(familiar)
    if not (name or how.dry_run or remotes.all()):
        from familiar_cli.sync.forget_orders import carry_out_known_orders

        if done := carry_out_known_orders(familiar.forget_place):
            familiar.tell(f"Carried out {counted(done, 'order')} to forget a person")
            return SyncReport(familiar.instance.id, (), {}, ())
    addresses = remotes.chosen(name)
    work = familiar.passes.named(SYNCING)
    async with exclusive(work.lock_path, wait_s, progress, WAITING):
        if not how.dry_run:
            familiar.settle_instance()
        report = _sync_all(familiar, addresses, how, engine_of(familiar, progress, secret, trust))
        if not how.dry_run:
            failed = next((error for _, error in report.failed.values()), None)
            if failed:
                work.failures.record(SYNCING, failed)
            elif name is None:
                work.failures.clear(SYNCING)
    return report


def _sync_all(
    familiar: Familiar, addresses: dict[str, Address], how: SyncOptions, engine: SyncEngine
) -> SyncReport:
    outcomes: list[SyncResult] = []
    failed: dict[str, tuple[Address, errors.FamiliarError]] = {}
    try:
        engine.exchange.clear_leftovers()
        for name, address in addresses.items():
            try:
                synced = engine.sync(name, address, how)
            except errors.FamiliarError as error:
                failed[name] = (address, error)
            except Exception as error:  # one remote that breaks stops no other  # noqa: BLE001
                failed[name] = (address, as_failure(error))
            else:
                outcomes.append(synced)
                if not how.dry_run:
                    _record_sync(familiar, synced)
        for finding in clock_findings(familiar):
            familiar.tell(f"{finding}: check the clock of each machine")
    finally:
        familiar.journal.repository.close()
    conflicts = tuple(conflicts_in(familiar.memory))
    missing = refused_files(familiar.journal.repository)
    pending = pending_decisions(familiar, addresses)
    return SyncReport(
        familiar.instance.id, tuple(outcomes), failed, conflicts, missing, how.dry_run, pending
    )


def engine_of(
    familiar: Familiar,
    progress: Callable[[str], None] = lambda _: None,
    secret: Callable[[], str] | None = None,
    trust: SignatureTrust | None = None,
) -> SyncEngine:
    """Build the sync engine of a familiar. The caller closes the journal's repository."""

    def forget(order: ForgetOrder, heads: Collection[str]) -> None:
        from familiar_cli.actions.people.forget import carry_out_order

        carry_out_order(familiar, order, heads)

    about = _describe_familiar(familiar)
    pictures = familiar.paths.root if familiar.config.sync.attachments == "on" else None
    turns = HistoryConversations(familiar.history, familiar.channels, about, pictures)
    return SyncEngine(
        familiar.memory,
        familiar.journal.repository,
        familiar.paths.instance,
        lambda: familiar.instance,
        turns=turns if familiar.config.sync.turns == "on" else None,
        participants=participants_of(familiar),
        sender=sender_of(familiar, secret, trust),
        progress=progress,
        orders=lambda: orders_of(familiar.history),
        forget=forget,
    )


def _describe_familiar(familiar: Familiar) -> bytes:
    """Return the familiar's id and its remotes' names, for a new machine."""
    remotes = {name: sha256_of(at.text) for name, at in sorted(remotes_of(familiar).all().items())}
    return json.dumps({"id": familiar.paths.id, "remotes": remotes}, sort_keys=True).encode()


def _told_names(abouts: Iterable[bytes], address: str) -> tuple[str, str]:
    """Return the familiar's id and the remote's name on other machines; empty if unknown.

    Args:
        abouts: See `_about`; invalid ones are ignored.
        address: The remote here; another machine may use another address.
    """
    ids, names, others = [""], [""], [""]
    for about in abouts:
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            told = json.loads(about)
            ids.append(str(told["id"]))
            remotes = {str(name): str(digest) for name, digest in told["remotes"].items()}
            names += [name for name, digest in remotes.items() if digest == sha256_of(address)]
            others += remotes if len(remotes) == 1 else []
    return ids[-1], names[-1] or others[-1]


def sender_of(
    familiar: Familiar, secret: Callable[[], str] | None = None, trust: SignatureTrust | None = None
) -> Sender:
    """Return how outgoing data is encrypted, and with which key."""
    set_to = familiar.config.sync

    def read(key_file: str) -> str:
        folders = [Path(at.path) for at in remotes_of(familiar).all().values() if at.path]
        return read_key(Path(key_file).expanduser(), away_from=[familiar.paths.root, *folders])

    def key() -> str:
        key_file = environment.variable(environment.SYNC_KEY_FILE) or set_to.key_file
        return read(key_file) if key_file else (secret or no_key)()

    return Sender(
        set_to.encrypt,
        key,
        lambda: [read(one) for one in set_to.old_key_files],
        familiar.tell,
        trust or SignatureTrust(),
    )


def signing_key_of(familiar: Familiar) -> SigningKey:
    """Return the key that signs encrypted bundles."""
    return SigningKey(familiar.paths.root / KEY_FILE)


def rekey(familiar: Familiar, engine: SyncEngine, *, new_signing_key: bool = False) -> list[str]:
    """Encrypt this machine's bundles again with the current settings; return their folders.

    Args:
        engine: Its sync engine.
        new_signing_key: Also use a new signing key, which the other machines must accept.

    Raises:
        RefusedError: Nothing is encrypted.
        NotFoundError: This machine has no bundles in a folder.
        FamiliarError: A folder cannot be read or written.
    """
    if not familiar.config.sync.encrypt:
        raise errors.RefusedError(
            "sync.encrypt is not set; nothing was changed",
            hint="Set it first: `familiar config set sync.encrypt ...`.",
        )
    folders = {n: at for n, at in remotes_of(familiar).all().items() if at.kind == "folder"}
    if new_signing_key:
        signing_key_of(familiar).replace()
    try:
        names = [name for name, address in folders.items() if engine.rekey(name, address)]
    finally:
        familiar.journal.repository.close()
    if not names:
        raise errors.NotFoundError(
            "This machine keeps nothing in an encrypted folder; nothing was changed",
            hint="Add one: `familiar sync remote add NAME dir:PATH`, then `familiar sync`.",
        )
    return names


def status(familiar: Familiar) -> SyncStatus:
    """Return the sync status of a familiar, without contacting a remote.

    Raises:
        ConfigError: A file of it cannot be read.
    """
    instance, remotes = familiar.instance, remotes_of(familiar)
    repository = familiar.journal.repository
    failure = familiar.failures.of(SYNCING)
    try:
        head = repository.head() if repository.exists else None
        past = JournalPast(repository, instance.began)
        seen = {name: SeenRefs(repository, name).all() for name in remotes.all()}
        return SyncStatus(
            instance.id,
            instance.began,
            tuple(
                RemoteStatus(
                    name,
                    address.text,
                    read_object(_note_path(familiar, name)).get("at"),
                    _count_ahead(past, head, seen[name]),
                )
                for name, address in remotes.all().items()
            ),
            _instance_statuses(past, head, instance, seen, remotes.forgotten()),
            tuple(conflicts_in(familiar.memory)),
            refused_files(repository),
            failure.message if failure else "",
            failure.at if failure else None,
            tuple(Devices(familiar.paths.embodiments).all().values()),
            pending_decisions(familiar),
            signing_key_of(familiar).fingerprint(),
        )
    finally:
        repository.close()


def forget(familiar: Familiar, instance: str) -> None:
    """Stop waiting for an instance. Its changes stay; if it returns, it is accepted again.

    Its unread turns are written to memory here. An embodiment that returns must pull before it can
    push.

    Raises:
        NotFoundError: Unknown instance.
        RefusedError: It is this one.
    """
    from familiar_cli.actions.share.embodiments import forget_device

    known = {one.id: one for one in status(familiar).instances}
    if instance == familiar.instance.id:
        raise errors.RefusedError(f"{instance!r} is this machine; nothing was changed")
    was_embodiment = forget_device(familiar, instance)
    if was_embodiment and instance not in known:
        return
    if instance not in known:
        raise errors.NotFoundError(
            f"No machine or embodiment has the id {instance!r}",
            hint="List them: `familiar sync status`.",
        )
    remotes_of(familiar).forget(instance)
    if familiar.history.path.exists():
        hand_over(familiar.history, instance, read_there(familiar.history, instance))


def begin(
    home: Path,
    address: str,
    familiar_id: str | None,
    *,
    ask: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    progress: Callable[[str], None] = lambda _: None,
    secret: Callable[[], str] | None = None,
    settings: Mapping[str, Any] | None = None,
    trust: SignatureTrust | None = None,
) -> tuple[str, Instance]:
    """Set up a familiar that already exists on another machine.

    Args:
        home: The directory of the familiars.
        address: The shared remote.
        familiar_id: Its id here; None for its id elsewhere, or the character's name as a slug.
        ask: Whether a user may be asked for a password.
        tell: Callback for user-facing messages.
        progress: Callback for short progress messages.
        secret: Asks the user for the key of an encrypted folder; None without a user.
        settings: Initial settings, e.g. `[sync]`.
        trust: Which encrypted bundles to accept without proof.

    Returns:
        Its id here, and the new instance.

    Raises:
        ConflictError: A familiar with that id exists.
        FamiliarError: The remote is unreachable or empty; nothing is left here.
    """
    from familiar_cli.base.config.edit import put_values, write_new
    from familiar_cli.imports.import_plan import new_familiar

    meant = read_address(address)
    target = check_familiar_id(familiar_id) if familiar_id else None

    def fill(paths: FamiliarPaths) -> str:
        familiar = Familiar(paths, tell)
        write_new(paths.config, {"name": "", **(settings or {})})
        progress(f"fetching from {meant}")
        begin_from(
            familiar.memory,
            familiar.journal.repository,
            paths.instance,
            meant,
            sender=sender_of(familiar, secret, trust),
            name=HUB,
            ask=ask,
        )
        repository = familiar.journal.repository
        refs = SeenRefs(repository, HUB)
        told_id, told_name = _told_names(read_abouts(repository, refs.all()), meant.text)
        try:
            remotes_of(familiar).add(told_name or HUB, meant.text)
        except errors.UsageError:  # not a valid name
            told_name = HUB
            remotes_of(familiar).add(HUB, meant.text)
        if told_name not in {"", HUB}:
            SeenRefs(repository, told_name).note(refs.all())
            refs.forget()
        for order in memory_orders(repository.objects.read, str(repository.head())):
            note_order(familiar.history, order)
        if familiar.config.sync.turns == "on":
            progress("reading turns")
            engine_of(familiar).take_known_turns(told_name or HUB)
        familiar.journal.repository.close()
        name = "" if familiar.name == paths.id else familiar.name
        familiar.close()
        put_values(paths.config, {"name": name}, CharacterConfig)
        with suppress(errors.FamiliarError):
            if told_id and not target:
                return check_familiar_id(told_id)
        return target or check_familiar_id(slugify(name) or "familiar")

    made = new_familiar(home, fill, target or "familiar")
    familiar = Familiar(made, tell)
    return made.id, familiar.instance


def _record_sync(familiar: Familiar, synced: SyncResult) -> None:
    forgotten = remotes_of(familiar).forgotten()
    if synced.pulled:
        for instance in forgotten & synced.instances.keys():
            if _is_newer(familiar, synced, instance):
                remotes_of(familiar).forget(instance, forgotten=False)
                hand_back(familiar.history, instance)
    told = {"at": clock.iso(clock.now()), "heads": dict(synced.instances)}
    with suppress(OSError):  # `sync status` knows less then
        write_own(_note_path(familiar, synced.remote), json.dumps(told).encode(), durable=False)


def _is_newer(familiar: Familiar, synced: SyncResult, instance: str) -> bool:
    heads = read_object(_note_path(familiar, synced.remote)).get("heads")
    return isinstance(heads, dict) and heads.get(instance) != synced.instances[instance]


def forget_remote(familiar: Familiar, name: str) -> Address:
    """Remove a remote from the list; its contents stay.

    Raises:
        NotFoundError: No remote with that name.
    """
    address = remotes_of(familiar).remove(name)
    SeenRefs(familiar.journal.repository, name).forget()
    with suppress(OSError):
        forget_folder(familiar.journal.path, name)
        remove(_note_path(familiar, name))
    return address


def _note_path(familiar: Familiar, remote: str) -> Path:
    return familiar.paths.runs / "sync" / f"{remote}.json"


def _count_ahead(past: Any, head: str | None, seen: dict[str, str]) -> int:  # noqa: ANN401
    id_s = list(heads_in(seen).values())
    if head is None:
        return 0
    if not id_s:
        return sum(1 for _ in walk_ancestors([head], past.parents))
    return len(AncestryWalk(past.parents, [[head], id_s]).only(0))


def _instance_statuses(
    past: Any,  # noqa: ANN401
    head: str | None,
    own: Instance,
    seen: dict[str, dict[str, str]],
    forgotten: frozenset[str],
) -> tuple[InstanceStatus, ...]:
    heads: dict[str, set[str]] = {own.id: {head} if head else set()}
    for refs in seen.values():
        for instance, id_ in heads_in(refs).items():
            if instance != own.id:
                heads.setdefault(instance, set()).add(id_)
    found = []
    for instance, ids in sorted(heads.items(), key=lambda row: (row[0] != own.id, row[0])):
        behind = 0
        if instance != own.id and head:
            new = AncestryWalk(past.parents, [sorted(ids), [head]]).only(0)
            behind = sum(1 for id_ in new if not past.only_merges(id_))
        last = max((clock.iso(past.commit(id_).time) for id_ in ids), default="")
        is_gone = instance in forgotten
        found.append(InstanceStatus(instance, instance == own.id, last, behind, is_gone))
    return tuple(found)
