"""`Engine`: sync with one remote: fetch, check, merge and apply, import turns, push, verify.

Each step is atomic and idempotent, so that the next sync completes one that broke off. There is no
send queue: what to send is whatever the journal has and the remote lacks.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from familiar_cli.config.home import Instance, is_instance_id, replace_id
from familiar_cli.errors import (
    AnotherFamiliarError,
    BadInputError,
    FamiliarError,
    OlderEpochError,
    OrderWaitsError,
    RefLimitError,
    RefusedError,
    RemoteDamagedError,
    RemoteRefusedError,
)
from familiar_cli.history.incoming import rename_instance
from familiar_cli.memory.journal.exchange import IncomingObjects, JournalExchange
from familiar_cli.memory.journal.repository import Repository, translate_errors
from familiar_cli.memory.store.store import MemoryStore, hold_lock
from familiar_cli.sync.begin import Sender, open_transport
from familiar_cli.sync.epochs import EpochCheck, first_commit
from familiar_cli.sync.git_remotes import PathRemote
from familiar_cli.sync.joining import AncestryWalk, Outcome, all_before, join_heads
from familiar_cli.sync.journal_past import JournalPast
from familiar_cli.sync.participants import (
    Admission,
    LargeDeletion,
    PendingDeletions,
    SyncParticipants,
    Trust,
)
from familiar_cli.sync.remotes import (
    MAIN_REF,
    MEMORY_REFS,
    TURNS_REFS,
    Address,
    RefAside,
    SeenRefs,
    Transport,
    instances_seen,
    local_ref,
    set_local_ref,
)
from familiar_cli.sync.turns import HistoryConversations, take_turns, turns_commit, turns_since

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from familiar_cli.history.forgetting import ForgetOrder

_TRIES: Final = 3  # retries when refs vanish after being listed, while others push


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync with one remote did, or would do.

    Args:
        remote: Its name.
        address: Its address, safe to display.
        pulled: Number of commits received.
        pushed: Number of commits sent.
        turns_in: Number of turns received.
        turns_out: Number of turns sent.
        outcome: Result for the memory.
        instances: Newest commit of each instance the remote knows.
        notes: User-facing notes.
    """

    remote: str
    address: str
    pulled: int = 0
    pushed: int = 0
    turns_in: int = 0
    turns_out: int = 0
    outcome: Outcome = field(default_factory=Outcome)
    instances: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """Sync options.

    Args:
        pull: Receive changes.
        push: Send changes.
        dry_run: Only report. Objects are fetched, but no file is changed.
        ask: Whether a user may be asked for a password.
    """

    pull: bool = True
    push: bool = True
    dry_run: bool = False
    ask: bool = False


class NewOrders(Exception):  # noqa: N818  # no error: the run begins again once they are done
    """Another machine has ordered to forget a person.

    Args:
        orders: Orders not carried out here yet.
        heads: Versions of the memory that comply with them.
    """

    def __init__(self, orders: tuple[ForgetOrder, ...], heads: tuple[str, ...]) -> None:
        super().__init__()
        self.orders = orders
        self.heads = heads


class SyncEngine:
    """Syncs one familiar with its remotes, one after another.

    Args:
        store: Its memory.
        repository: Its journal. The caller closes it.
        instance_path: File with the id of this instance.
        instance: Returns this instance.
        turns: Its conversations; None to exclude them from sync.
        participants: Instances whose changes are accepted; None for all.
        sender: Encryption of outgoing data.
        progress: Callback for short progress messages.
        orders: Returns the forget orders carried out here.
        forget: Carries out an order, possibly on top of other machines' commits.
    """

    def __init__(  # what a familiar syncs
        self,
        store: MemoryStore,
        repository: Repository,
        instance_path: Path,
        instance: Callable[[], Instance],
        *,
        turns: HistoryConversations | None = None,
        participants: SyncParticipants | None = None,
        sender: Sender = Sender(),  # noqa: B008  # frozen
        progress: Callable[[str], None] = lambda _: None,
        orders: Callable[[], Collection[ForgetOrder]] = tuple,
        forget: Callable[[ForgetOrder, Collection[str]], None] | None = None,
    ) -> None:
        self._store = store
        self._repository = repository
        self._instance_path = instance_path
        self._instance = instance
        self._turns = turns
        self.participants = participants
        self._sender = sender
        self._progress = progress
        self.orders = orders
        self._forget = forget
        self.exchange = JournalExchange(
            repository, lambda: hold_lock(store.lock_path, store.lock_timeout_s)
        )

    def sync(self, name: str, address: Address, how: SyncOptions = SyncOptions()) -> Synced:
        """Sync with one remote.

        Raises:
            RemoteUnreachableError: It cannot be reached.
            AnotherFamiliarError: It belongs to another familiar.
            FamiliarError: Another failure; the next sync continues.
        """
        self._begin_journal()
        self._store.catch_up()
        if self._repository.head() is None:
            raise RefusedError(
                "The memory is empty, so there is nothing to sync; nothing was changed",
                hint="Start a second machine with `familiar init --from-remote ADDRESS`.",
            )
        self.exchange.finish()
        self._progress(f"contacting {address}")
        with closing(
            open_transport(address, self.exchange, self._sender, name=name, ask=how.ask)
        ) as transport:
            while True:
                try:
                    return _Run(self, name, transport, how).run()
                except NewOrders as found:
                    self._carry_out(found)

    def _carry_out(self, found: NewOrders) -> None:
        """Carry out other machines' forget orders before merging.

        Raises:
            RefusedError: No one can do that here.
        """
        if self._forget is None:
            raise RefusedError("Somebody is to be forgotten by order; nothing was merged")
        for order in found.orders:
            self._progress("forgetting a person, by order of another machine")
            self._forget(order, found.heads)

    def _begin_journal(self) -> None:
        """Create the journal of a memory that was only edited by hand."""
        store, repository = self._store, self._repository
        if not repository.exists and store.root.is_dir():
            with (
                hold_lock(store.lock_path, store.lock_timeout_s),
                translate_errors(repository.path),
            ):
                if not repository.exists:
                    repository.create()

    def take_known_turns(self, name: str) -> int:
        """Import turns already fetched from a remote, and return their number."""
        if self._turns is None:
            return 0
        refs = SeenRefs(self._repository, name).all()
        return sum(
            take_turns(
                self._repository, self._turns, self._instance().id, r.removeprefix(TURNS_REFS), id_
            )
            for r, id_ in sorted(refs.items())
            if r.startswith(TURNS_REFS)
        )

    def rekey(self, name: str, address: Address) -> bool:
        """Re-encrypt this instance's bundles in a folder; tell whether there were any.

        Raises:
            FamiliarError: The folder cannot be read or written.
        """
        from familiar_cli.sync.folder import FolderTransport

        with closing(open_transport(address, self.exchange, self._sender, name=name)) as transport:
            if not isinstance(transport, FolderTransport):
                return False
            return transport.rewrite(self._instance().id)

    def accept(self, waiting: Iterable[LargeDeletion]) -> Outcome:
        """Merge changes that were held back for deleting a large part of the memory.

        Raises:
            FamiliarError: As `join`.
        """
        self._store.catch_up()
        heads = {one.instance: one.commit for one in waiting}
        began, accepted = self._instance().began, frozenset(heads.values())
        outcome = join_heads(self._store, self._repository, heads, began=began, accepted=accepted)
        PendingDeletions(self._repository).note(outcome.waiting, accepted)
        return outcome


class _Run:
    """One sync with one remote."""

    def __init__(
        self, engine: SyncEngine, name: str, transport: Transport, how: SyncOptions
    ) -> None:
        self._engine = engine
        self._store = engine._store  # noqa: SLF001  # a part of it
        self._repository = engine._repository  # noqa: SLF001
        self._turns = engine._turns  # noqa: SLF001
        self._progress = engine._progress  # noqa: SLF001
        self._exchange = engine.exchange
        self._name = name
        self._transport = transport
        self._how = how
        self._seen = SeenRefs(self._repository, name)
        self._notes: list[str] = []
        self._branches: dict[str, str | None] = {}
        self._admission = Admission()
        self._aside: dict[str, RefAside] = {}
        self._epoch = EpochCheck(self._repository, engine.orders())
        self._new_orders: dict[str, ForgetOrder] = {}
        self._new_heads: list[str] = []

    def run(self) -> Synced:
        before = self._seen.all()
        self._repair()
        there = self._fetched(before)
        if self._new_orders and self._how.dry_run:
            self._notes.append("A sync would forget a person, by order of another machine")
            there = {}
        elif self._new_orders:
            raise NewOrders(tuple(self._new_orders.values()), tuple(self._new_heads))
        self._check_own_id(there)
        shared = self._shared(before)
        heads = {**self._memory(there), **shared}
        pulled = self._count(heads.values(), before.values())
        outcome, turns_in = Outcome(), 0
        heads.pop(self._own, None)
        if self._how.pull:
            self._progress("merging")
            outcome = join_heads(
                self._store,
                self._repository,
                heads,
                began=self._engine._instance().began,  # noqa: SLF001
                dry_run=self._how.dry_run,
            )
            turns_in = self._take_turns(there)
        if not self._how.dry_run:
            self._seen.note_aside(self._aside)
            PendingDeletions(self._repository).note(outcome.waiting, heads.values())
        pushed, turns_out = self._push(there) if self._how.push else (0, 0)
        return Synced(
            self._name,
            self._transport.address,
            pulled,
            pushed,
            turns_in,
            turns_out,
            outcome,
            self._memory(there),
            tuple(self._notes),
        )

    def _repair(self) -> None:
        """Restore lost objects to a damaged remote."""
        if self._how.dry_run or not isinstance(self._transport, PathRemote):
            return
        turns = local_ref(self._repository, TURNS_REFS + self._own)
        count = self._transport.repair([str(self._repository.head()), *([turns] if turns else [])])
        if count:
            self._notes.append(f"{self._name!r} was damaged; {count:,} objects were repaired")

    @property
    def _own(self) -> str:
        return self._engine._instance().id  # noqa: SLF001

    @property
    def _past(self) -> JournalPast:
        return JournalPast(self._repository, self._engine._instance().began)  # noqa: SLF001

    def _fetched(self, before: Mapping[str, str]) -> dict[str, str]:
        """Fetch everything, and return the remote's trusted refs."""
        for left in reversed(range(_TRIES)):
            there = self._admitted(self._ours(self._transport.refs()))
            try:
                there = self._bring(there, is_last=not left)
            except RemoteDamagedError:
                if not left:
                    if isinstance(self._transport, PathRemote):
                        self._transport.report_damage()
                    raise
            else:
                break
        there = self._believed(there, before)
        if not self._how.dry_run:
            with translate_errors(self._repository.path):
                self._seen.note(there)
        return there

    def _admitted(self, there: Mapping[str, str]) -> dict[str, str]:
        """Return the refs of this instance and of accepted ones."""
        self._admit(set(map(_instance_of, there)))
        return {r: id_ for r, id_ in there.items() if self._admission.is_admitted(_instance_of(r))}

    def _admit(self, found: set[str]) -> None:
        """Decide what to accept from instances, and record new ones."""
        if self._engine.participants is not None:
            self._admission = self._engine.participants.admit(
                found - {self._own}, instances_seen(self._repository), dry_run=self._how.dry_run
            )

    def _bring(self, there: Mapping[str, str], *, is_last: bool) -> dict[str, str]:
        """Fetch refs, and return those that are complete here.

        Invalid refs are set aside without affecting others.

        Raises:
            AnotherFamiliarError: All memories there belong to another familiar.
            RemoteDamagedError: No new ref is readable; retry.
        """
        now = {**there, **self._branches}
        self._aside = {
            ref: one
            for ref, one in self._seen.aside().items()
            if one.is_final and now.get(ref) == one.id
        }
        there = {ref: id_ for ref, id_ in there.items() if ref not in self._aside}
        new = {ref: id_ for ref, id_ in there.items() if not self._exchange.has(id_)}
        if not new:
            return there
        self._progress(f"fetching from {self._transport.address}")
        try:
            self._fetch(new)
            if isinstance(self._transport, PathRemote):
                self._transport.report_damage(is_damaged=False)
        except (RemoteDamagedError, AnotherFamiliarError) as error:
            known = (RefLimitError, AnotherFamiliarError, OlderEpochError, OrderWaitsError)
            if not is_last and not isinstance(error, known):
                raise  # while others push, a ref may appear before its objects
            self._fetch_apart(new, has_known=len(new) < len(there), error=error)
        return {ref: id_ for ref, id_ in there.items() if ref not in self._aside}

    def _fetch(self, refs: Mapping[str, str]) -> None:
        wants = sorted(set(refs.values()))
        heads = [id_ for ref, id_ in refs.items() if ref.startswith(MEMORY_REFS)]
        with self._exchange.incoming() as incoming:
            self._transport.fetch(wants, self._haves(), incoming)
            self._check_familiar(heads, incoming)
            self._check_epoch(refs, incoming)
            incoming.accept(wants)

    def _check_epoch(self, refs: Mapping[str, str], incoming: IncomingObjects) -> None:
        """Find new forget orders, and refuse refs that ignore those carried out here.

        Raises:
            OlderEpochError: A ref ignores an order, or its machine may not give orders yet.
        """
        for ref, id_ in refs.items():
            instance = _instance_of(ref)
            if ref.startswith(TURNS_REFS):
                self._epoch.check_turns(incoming.read, id_, instance)
                continue
            for order in self._epoch.new_in_memory(incoming.read, id_):
                if self._admission.trust.get(instance, Trust.known) is not Trust.known:
                    raise OrderWaitsError(
                        f"it orders that a person is forgotten; `familiar sync allow {instance}` "
                        "lets that happen here as well"
                    )
                self._new_orders[order.id] = order
                self._new_heads.append(id_)

    def _shared(self, before: Mapping[str, str]) -> dict[str, str]:
        """Fetch commits made with git on `main`, and return it if it continues this memory.

        Rewriting such a branch removes nothing: what was merged is pushed again.
        """
        found = {}
        for ref, id_ in list(self._branches.items()):
            if id_ is None or not (self._exchange.has(id_) or self._brought(ref, id_)):
                continue
            found[ref] = id_
            old = before.get(ref)
            if old and self._exchange.has(old) and not self._exchange.leads_to(old, id_):
                self._notes.append(
                    f"{_shown_ref(ref)} at {self._name!r} was rewritten ({old[:10]} to {id_[:10]});"
                    " both are part of the memory"
                )
        if not self._how.dry_run:
            with translate_errors(self._repository.path):
                self._seen.note(found)
        return found

    def _brought(self, ref: str, id_: str) -> bool:
        """Fetch a commit made with git; tell whether it continues this memory."""
        if ref in self._aside:
            del self._branches[ref]
            return False
        self._progress(f"fetching {_shown_ref(ref)} from {self._transport.address}")
        problem, is_final = "it does not continue this memory", False
        try:
            with self._exchange.incoming() as incoming:
                self._transport.fetch([id_], self._haves(), incoming)
                if incoming.goes_on(id_):
                    if not self._admits(incoming.instances(id_)):
                        del self._branches[ref]
                        return False
                    if self._epoch.new_in_memory(incoming.read, id_):
                        del self._branches[ref]  # its machine will push the order itself
                        return False
                    incoming.accept([id_])
                    return True
        except RemoteDamagedError as error:
            problem, is_final = str(error), isinstance(error, (RefLimitError, OlderEpochError))
        self._notes.append(f"{_shown_ref(ref)} at {self._name!r} was ignored: {problem}")
        self._aside[ref] = RefAside(ref, id_, problem, is_final)
        del self._branches[ref]
        return False

    def _admits(self, found: Collection[str]) -> bool:
        """Tell whether the changes of all these instances, or git authors, are accepted."""
        names = {name or self._engine._instance().began for name in found}  # noqa: SLF001
        self._admit(names)
        return all(map(self._admission.is_admitted, names))

    def _fetch_apart(
        self, refs: Mapping[str, str], *, has_known: bool, error: FamiliarError
    ) -> None:
        """Fetch refs one by one; set aside those that cannot be taken.

        Args:
            refs: Refs and their commits.
            has_known: Whether the remote also has refs of this familiar.
            error: Why they could not be fetched together; raised if none can be fetched.
        """
        for ref, id_ in sorted(refs.items()):
            try:
                self._fetch({ref: id_})
            except (RemoteDamagedError, AnotherFamiliarError) as reason:
                is_final = isinstance(
                    reason, (RefLimitError, AnotherFamiliarError, OlderEpochError)
                )
                self._aside[ref] = RefAside(ref, id_, str(reason), is_final)
        aside = [self._aside[ref] for ref in refs if ref in self._aside]
        is_foreign = isinstance(error, AnotherFamiliarError)
        if len(aside) == len(refs) and (
            (is_foreign and not has_known)
            or not (any(o.is_final for o in aside) or isinstance(error, OrderWaitsError))
        ):
            raise error

    def _haves(self) -> list[str]:
        found = [self._repository.head(), *self._seen.all().values()]
        return [id_ for id_ in dict.fromkeys(found) if id_ and self._exchange.has(id_)]

    def _check_familiar(self, heads: Iterable[str], incoming: IncomingObjects) -> None:
        """Refuse a remote whose memories have another first commit."""
        if not all(incoming.goes_on(head) or self._is_ours(head, incoming) for head in heads):
            raise AnotherFamiliarError(
                f"The remote {self._transport.address!r} holds the memory of another familiar;"
                " nothing was changed on either side",
                hint="Give each familiar a remote of its own. To start from that remote instead: "
                f"`familiar init --from-remote {self._transport.address} NEW-ID`.",
            )

    def _is_ours(self, head: str, incoming: IncomingObjects) -> bool:
        """Tell whether a history of another epoch has the same origin as this one."""
        own = first_commit(self._repository.objects.read, str(self._repository.head()))
        return first_commit(incoming.read, head) == own

    def _ours(self, refs: Mapping[str, str]) -> dict[str, str]:
        """Return a remote's refs that belong to a familiar, without replaced ones."""
        refs = {ref: id_ for ref, id_ in refs.items() if not self._epoch.is_dead(id_)}
        self._branches = {r: refs.get(r) for r in self._transport.shared_refs}
        found = {}
        for ref, id_ in refs.items():
            for prefix in (MEMORY_REFS, TURNS_REFS):
                if ref.startswith(prefix) and is_instance_id(ref.removeprefix(prefix)):
                    found[ref] = id_
        return found

    def _believed(self, there: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
        """Return the refs without those that moved backwards; vanished ones keep their value."""
        believed = {}
        for ref, id_ in there.items():
            old = before.get(ref)
            if old and self._exchange.has(old) and not self._exchange.leads_to(old, id_):
                if ref.endswith(f"/{self._own}"):  # what is missing there is pushed again
                    believed[ref] = id_
                    continue
                self._notes.append(
                    f"{_shown_ref(ref)} at {self._name!r} was rewritten ({old[:10]} to {id_[:10]});"
                    " the rewrite was ignored, and what had been fetched is kept"
                )
                believed[ref] = old
            else:
                believed[ref] = id_
        for ref, old in before.items():
            is_branch = not ref.startswith((MEMORY_REFS, TURNS_REFS))  # of git users
            if is_branch or not self._admission.is_admitted(_instance_of(ref)):
                continue
            if ref in self._aside:
                believed[ref] = old
            elif ref not in there and not ref.endswith(f"/{self._own}"):
                self._notes.append(
                    f"{_shown_ref(ref)} was deleted from {self._name!r};"
                    " what had been fetched is kept"
                )
                believed[ref] = old
        return believed

    def _check_own_id(self, there: Mapping[str, str]) -> None:
        """Take a new id if another machine uses this one, as after restoring a backup."""
        own = self._own
        for ref, here in (
            (MEMORY_REFS + own, self._repository.head()),
            (TURNS_REFS + own, local_ref(self._repository, TURNS_REFS + own)),
        ):
            now = there.get(ref)
            if now is None or (here and self._exchange.leads_to(now, here)):
                continue
            if here is None and self._repairs_turns(ref, now):
                continue
            if self._how.dry_run:
                self._notes.append(f"The id {own!r} is used twice; a sync would take a new one")
                return
            made = replace_id(self._engine._instance_path, own)  # noqa: SLF001
            told = there.get(TURNS_REFS + own)
            if self._turns and told:
                rename_instance(self._turns.history, own, made.id)
                take_turns(self._repository, self._turns, made.id, own, told)
            self._notes.append(
                f"The id {own!r} is also used by another copy of this familiar, perhaps a restored"
                f" backup; this one is now {made.id!r}"
            )
            return

    def _repairs_turns(self, ref: str, now: str) -> bool:
        """Restore our turns ref if a crash interrupted writing it; tell whether we did."""
        memory = self._seen.all().get(MEMORY_REFS + self._own)
        head = self._repository.head()
        if memory is None or head is None or not self._exchange.leads_to(memory, head):
            return False
        if not self._how.dry_run:
            set_local_ref(self._repository, ref, now)
        return True

    def _memory(self, there: Mapping[str, str]) -> dict[str, str]:
        return {
            ref.removeprefix(MEMORY_REFS): id_
            for ref, id_ in there.items()
            if ref.startswith(MEMORY_REFS)
        }

    def _count(self, new: Iterable[str], known: Iterable[str]) -> int:
        """Count commits by others reachable from `new`, but not from `known` or ours."""
        past = self._past
        old = [id_ for id_ in known if self._exchange.has(id_)]
        return len(
            AncestryWalk(past.parents, [list(new), [str(self._repository.head()), *old]]).only(0)
        )

    def _take_turns(self, there: Mapping[str, str]) -> int:
        if self._turns is None or self._how.dry_run:
            return 0
        untrusted = self._admission.ids(Trust.new, Trust.waiting, Trust.blocked)
        self._turns.restrict(self._own, untrusted)
        count = 0
        for ref, id_ in sorted(there.items()):
            instance = ref.removeprefix(TURNS_REFS)
            if not ref.startswith(TURNS_REFS) or instance == self._own:
                continue
            if MEMORY_REFS + instance not in there:  # which proves whose turns they are
                reason = "there is no memory of this familiar beside these turns"
                self._aside.setdefault(ref, RefAside(ref, id_, reason, is_final=False))
                continue
            self._progress(f"reading turns of {instance}")
            try:
                count += take_turns(self._repository, self._turns, self._own, instance, id_)
            except BadInputError as error:  # a damaged one does not stop the others
                self._notes.append(f"Not all turns of {instance!r} could be read: {error}")
        return count

    def _push(self, there: Mapping[str, str]) -> tuple[int, int]:
        head = str(self._repository.head())
        own = self._own
        refs = {MEMORY_REFS + own: head}
        turns_out = 0
        if self._turns is not None:
            turns, turns_out = turns_commit(
                self._repository,
                self._turns,
                own,
                lock=lambda: hold_lock(self._store.lock_path, self._store.lock_timeout_s),
                dry_run=self._how.dry_run,
            )
            if turns:
                refs[TURNS_REFS + own] = turns
                sent = there.get(TURNS_REFS + own, "")
                before = sent if sent and self._exchange.has(sent) else None
                turns_out += turns_since(self._repository, own, before, turns)
        known = [id_ for id_ in self._memory(there).values() if self._exchange.has(id_)]
        past = self._past
        pushed = (
            len(AncestryWalk(past.parents, [[head], known]).only(0))
            if known
            else sum(1 for _ in all_before(past.parents, [head]))
        )
        if self._how.dry_run:
            return pushed, turns_out
        is_known = all(there.get(ref) == id_ for ref, id_ in refs.items())
        branches = dict.fromkeys(self._behind(head, known), head)
        if is_known and not branches:
            return 0, 0
        if not self._transport.shared_refs:
            branches[MAIN_REF] = head
        self._progress(f"pushing to {self._transport.address}")
        self._send({**refs, **branches})
        self._verify(refs, head)
        return (0, 0) if is_known else (pushed, turns_out)

    def _behind(self, head: str, known: Iterable[str]) -> list[str]:
        """Return the git branches that can be fast-forwarded to the memory; report the rest.

        Args:
            head: Newest local commit.
            known: Newest commits of all instances; branches contained in one are merged later.
        """
        leads_to, found = self._exchange.leads_to, []
        for ref, id_ in self._branches.items():
            if id_ is None or (id_ != head and leads_to(id_, head)):
                found.append(ref)
            elif not any(leads_to(id_, tip) for tip in (head, *known)):
                self._notes.append(
                    f"{_shown_ref(ref)} at {self._name!r} has commits that are not merged here yet,"
                    " so it was not updated"
                )
        return found

    def _send(self, refs: Mapping[str, str]) -> None:
        for pushed in self._transport.push(refs):
            if not pushed.refused:
                continue
            if pushed.ref not in {MAIN_REF, *self._transport.shared_refs}:
                raise RemoteRefusedError(
                    f"The remote {self._transport.address!r} rejected"
                    f" {_shown_ref(pushed.ref)}: {pushed.refused}",
                    hint="Sync again; if it keeps failing, check that you have write access.",
                )
            self._notes.append(
                f"{_shown_ref(pushed.ref)} at {self._name!r} was not updated: {pushed.refused}"
            )

    def _verify(self, refs: Mapping[str, str], head: str) -> None:
        """Check that the remote names what was pushed, and HEAD a valid branch."""
        now = self._transport.refs()
        wrong = next((ref for ref, id_ in refs.items() if now.get(ref) != id_), None)
        if wrong:
            raise RemoteRefusedError(
                f"The remote {self._transport.address!r} does not show what was just pushed to"
                f" {_shown_ref(wrong)}",
                hint="Sync again; if it keeps failing, another copy of this familiar pushes there.",
            )
        late = {ref: head for ref in self._transport.shared_refs if ref not in now}
        if late:
            self._send(late)
        with translate_errors(self._repository.path):
            self._seen.note(refs)


def _shown_ref(ref: str) -> str:
    return ref.removeprefix("refs/heads/")


def _instance_of(ref: str) -> str:
    return ref.rpartition("/")[2]
