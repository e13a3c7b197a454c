"""`Engine`: sync with one remote: fetch, check, merge and apply, import turns, push, verify.

Each step is atomic and idempotent, so that the next sync completes one that broke off. There is no
send queue: what to send is whatever the journal has and the remote lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from msgspec import Struct

from familiar_cli.base import errors
from familiar_cli.base.config.home import Instance, replace_id
from familiar_cli.base.text import counted
from familiar_cli.store.history.forgetting import ForgetOrder
from familiar_cli.store.journal.exchange import JournalExchange
from familiar_cli.store.journal.packs import MOST_OBJECT_BYTES
from familiar_cli.store.journal.repository import Repository, translate_errors, walk_ancestors
from familiar_cli.store.memory.store.store import MemoryStore, hold_lock
from familiar_cli.sync import remotes
from familiar_cli.sync.begin import Sender, open_transport
from familiar_cli.sync.divergence import end_parting, parted_names, rename_citations
from familiar_cli.sync.fetching import RemoteFetch, shown_ref
from familiar_cli.sync.git_remotes import PathRemote
from familiar_cli.sync.joining import AncestryWalk, Outcome, join_heads
from familiar_cli.sync.journal_epochs import EpochCheck, drop_large_files
from familiar_cli.sync.journal_past import JournalPast
from familiar_cli.sync.participants import LargeDeletion, PendingDeletions, SyncParticipants, Trust
from familiar_cli.sync.turns import HistoryConversations, take_turns, turns_commit, turns_since
from familiar_cli.sync.turns_incoming import rename_instance


class SyncResult(Struct, frozen=True):
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
    outcome: Outcome = Outcome()
    instances: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()


class SyncOptions(Struct, frozen=True):
    """Sync options.

    Args:
        pull: Receive changes.
        push: Send changes.
        dry_run: Only report. Objects are fetched, but no file is changed.
        ask: Whether a user may be asked for a password.
        adopt: Ref of a git branch to go on from, whatever its history; empty for none.
    """

    pull: bool = True
    push: bool = True
    dry_run: bool = False
    ask: bool = False
    adopt: str = ""


class NewOrders(Exception):  # noqa: N818  # no error: the run begins again once they are done
    """Another machine has ordered to forget a person.

    Args:
        orders: Orders not carried out here yet.
        heads: Commits that give them.
    """

    def __init__(self, orders: tuple[ForgetOrder, ...], heads: tuple[str, ...]) -> None:
        super().__init__()
        self.orders = orders
        self.heads = heads


@dataclass(eq=False)
class SyncEngine:
    """Syncs one familiar with its remotes, one after another.

    Args:
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

    store: MemoryStore
    repository: Repository
    instance_path: Path
    instance: Callable[[], Instance]
    _: KW_ONLY
    turns: HistoryConversations | None = None
    participants: SyncParticipants | None = None
    sender: Sender = field(default_factory=Sender)
    progress: Callable[[str], None] = lambda _: None
    orders: Callable[[], Collection[ForgetOrder]] = tuple
    forget: Callable[[ForgetOrder, Collection[str]], None] | None = None
    exchange: JournalExchange = field(init=False)

    def __post_init__(self) -> None:
        store = self.store
        self.exchange = JournalExchange(
            self.repository, lambda: hold_lock(store.lock_path, store.lock_timeout_s)
        )

    def sync(
        self,
        name: str,
        address: remotes.Address,
        how: SyncOptions = SyncOptions(),  # noqa: B008  # frozen
    ) -> SyncResult:
        """Sync with one remote.

        Raises:
            RemoteUnreachableError: It cannot be reached.
            AnotherFamiliarError: It belongs to another familiar.
            FamiliarError: Another failure; the next sync continues.
        """
        self._begin_journal()
        self.store.catch_up()
        if self.repository.head() is None:
            raise errors.RefusedError(
                "The memory is empty, so there is nothing to sync; nothing was changed",
                hint="Start a second machine with `familiar init --from-remote ADDRESS`.",
            )
        self.exchange.finish()
        parts = [] if how.dry_run else self._drop_large_files()
        if self.turns and not how.dry_run:
            for old in parted_names(self.turns.history):
                rename_citations(self.store, self.turns.history, self.instance(), old)
        self.progress(f"contacting {address}")
        with closing(
            open_transport(address, self.exchange, self.sender, name=name, ask=how.ask)
        ) as transport:
            while True:
                try:
                    return _Run(self, name, transport, how, parts).run()
                except NewOrders as result:
                    self._carry_out(result)

    def _carry_out(self, found: NewOrders) -> None:
        """Carry out other machines' forget orders before merging.

        Raises:
            RefusedError: No one can do that here.
        """
        if self.forget is None:
            raise errors.RefusedError("A request to forget a person is pending; nothing was merged")
        for order in found.orders:
            self.progress("forgetting a person, by order of another machine")
            self.forget(order, found.heads)

    def _drop_large_files(self) -> list[str]:
        """Make a history that other machines cannot receive one that they can; return notes."""
        with hold_lock(self.store.lock_path, self.store.lock_timeout_s):
            if not drop_large_files(self.repository):
                return []
        what = f"A file of more than {MOST_OBJECT_BYTES:,} bytes was taken out of the history"
        return [f"{what}, as other machines cannot receive it; later commits have new ids"]

    def _begin_journal(self) -> None:
        """Create the journal of a memory that was only edited by hand."""
        store, repository = self.store, self.repository
        if not repository.exists and store.root.is_dir():
            with (
                hold_lock(store.lock_path, store.lock_timeout_s),
                translate_errors(repository.path),
            ):
                if not repository.exists:
                    repository.create()

    def take_known_turns(self, name: str) -> int:
        """Import turns already fetched from a remote, and return their number."""
        if self.turns is None:
            return 0
        heads = remotes.heads_in(remotes.SeenRefs(self.repository, name).all(), remotes.TURNS_REFS)
        own = self.instance().id
        return sum(
            take_turns(self.repository, self.turns, own, instance, id_)
            for instance, id_ in sorted(heads.items())
        )

    def rekey(self, name: str, address: remotes.Address) -> bool:
        """Re-encrypt this instance's bundles in a folder; tell whether there were any.

        Raises:
            FamiliarError: The folder cannot be read or written.
        """
        from familiar_cli.sync.folder import FolderTransport

        with closing(open_transport(address, self.exchange, self.sender, name=name)) as transport:
            if not isinstance(transport, FolderTransport):
                return False
            return transport.rewrite(self.instance().id)

    def accept(self, waiting: Iterable[LargeDeletion]) -> Outcome:
        """Merge changes that were held back for deleting a large part of the memory.

        Raises:
            FamiliarError: As `join`.
        """
        self.store.catch_up()
        heads = {one.instance: one.commit for one in waiting}
        began, accepted = self.instance().began, frozenset(heads.values())
        outcome = join_heads(self.store, self.repository, heads, began=began, accepted=accepted)
        PendingDeletions(self.repository).note(outcome.waiting, accepted)
        return outcome


class _Run:
    """One sync with one remote."""

    def __init__(
        self,
        engine: SyncEngine,
        name: str,
        transport: remotes.Transport,
        how: SyncOptions,
        told: Iterable[str] = (),
    ) -> None:
        self._engine = engine
        self._store = engine.store
        self._repository = engine.repository
        self._turns = engine.turns
        self._progress = engine.progress
        self._exchange = engine.exchange
        self._name = name
        self._transport = transport
        self._how = how
        self._seen = remotes.SeenRefs(self._repository, name)
        self._fetch = RemoteFetch(
            exchange=engine.exchange,
            transport=transport,
            name=name,
            instance=engine.instance,
            participants=engine.participants,
            epoch=EpochCheck(engine.exchange.repository, engine.orders()),
            progress=engine.progress,
            dry_run=how.dry_run,
            adopt=how.adopt,
        )
        self._notes = self._fetch.notes
        self._notes += told

    def run(self) -> SyncResult:
        before = self._seen.all()
        self._repair()
        there = self._fetch.fetch(before)
        if self._fetch.new_orders and self._how.dry_run:
            self._notes.append("A sync would forget a person, by order of another machine")
            there = {}
        elif self._fetch.new_orders:
            raise NewOrders(tuple(self._fetch.new_orders.values()), tuple(self._fetch.new_heads))
        self._check_own_id(there)
        shared = self._fetch.fetch_branches(before, there)
        heads = {**remotes.heads_in(there), **shared}
        pulled = self._count(heads.values(), before.values())
        outcome, turns_in = Outcome(), 0
        heads.pop(self._own, None)
        if self._how.pull:
            self._progress("merging")
            outcome = join_heads(
                self._store,
                self._repository,
                heads,
                began=self._engine.instance().began,
                dry_run=self._how.dry_run,
            )
            turns_in = self._take_turns(there)
            if self._turns and not self._how.dry_run:
                end_parting(self._turns.history)
        if not self._how.dry_run:
            self._seen.note_aside(self._fetch.aside)
            PendingDeletions(self._repository).note(outcome.waiting, heads.values())
        pushed, turns_out = self._push(there) if self._how.push else (0, 0)
        return SyncResult(
            self._name,
            self._transport.address,
            pulled,
            pushed,
            turns_in,
            turns_out,
            outcome,
            remotes.heads_in(there),
            tuple(self._notes),
        )

    def _repair(self) -> None:
        """Restore lost objects to a damaged remote."""
        if self._how.dry_run or not isinstance(self._transport, PathRemote):
            return
        turns = remotes.local_ref(self._repository, remotes.TURNS_REFS + self._own)
        count = self._transport.repair([str(self._repository.head()), *([turns] if turns else [])])
        if count:
            self._notes.append(f"{self._name!r} was damaged; {count:,} objects were repaired")

    @property
    def _own(self) -> str:
        return self._engine.instance().id

    @property
    def _past(self) -> JournalPast:
        return JournalPast(self._repository, self._engine.instance().began)

    def _check_own_id(self, there: Mapping[str, str]) -> None:
        """Take a new id if another machine uses this one, as after restoring a backup."""
        own = self._own
        for ref, here in (
            (remotes.MEMORY_REFS + own, self._repository.head()),
            (
                remotes.TURNS_REFS + own,
                remotes.local_ref(self._repository, remotes.TURNS_REFS + own),
            ),
        ):
            now = there.get(ref)
            if now is None or (here and self._exchange.leads_to(now, here)):
                continue
            if here is None and self._repairs_turns(ref, now):
                continue
            if self._how.dry_run:
                self._notes.append(f"The id {own!r} is used twice; a sync would take a new one")
                return
            self._take_new_id(own, there.get(remotes.TURNS_REFS + own))
            return

    def _take_new_id(self, own: str, text: str | None) -> None:
        """Part from another machine with this id, whose turns a commit holds, if any.

        Turns that differ get the new name, also where the memory cites them.
        """
        instance, renamed = replace_id(self._engine.instance_path, own), 0
        if self._turns:
            history = self._turns.history
            rename_instance(history, own, instance.id, 0 if text else history.newest_id())
            if text:
                take_turns(self._repository, self._turns, instance.id, own, text)
                renamed = rename_citations(self._store, history, instance, own)
        cited = f"; {counted(renamed, 'file')} citing its turns changed" if renamed else ""
        self._notes.append(
            f"The id {own!r} is also used by another copy of this familiar, perhaps a restored"
            f" backup; this one is now {instance.id!r}{cited}"
        )

    def _repairs_turns(self, ref: str, now: str) -> bool:
        """Restore our turns ref if a crash interrupted writing it; tell whether we did."""
        memory = self._seen.all().get(remotes.MEMORY_REFS + self._own)
        head = self._repository.head()
        if memory is None or head is None or not self._exchange.leads_to(memory, head):
            return False
        if not self._how.dry_run:
            remotes.set_local_ref(self._repository, ref, now)
        return True

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
        untrusted = self._fetch.admission.ids(Trust.new, Trust.waiting, Trust.blocked)
        self._turns.restrict(self._own, untrusted)
        count = 0
        for instance, id_ in sorted(remotes.heads_in(there, remotes.TURNS_REFS).items()):
            if instance == self._own:
                continue
            if remotes.MEMORY_REFS + instance not in there:  # which proves whose turns they are
                reason = "there is no memory of this familiar beside these turns"
                ref, aside = remotes.TURNS_REFS + instance, self._fetch.aside
                memory = aside.get(remotes.MEMORY_REFS + instance)
                if memory and memory.code == errors.OrderWaitsError.code:
                    reason = "its memory waits as well"
                aside.setdefault(ref, remotes.RefAside(ref, id_, reason, is_final=False))
                continue
            self._progress(f"reading turns of {instance}")
            try:
                count += take_turns(self._repository, self._turns, self._own, instance, id_)
            except errors.BadInputError as error:  # a damaged one does not stop the others
                self._notes.append(f"Not all turns of {instance!r} could be read: {error}")
        return count

    def _push(self, there: Mapping[str, str]) -> tuple[int, int]:
        head = str(self._repository.head())
        own = self._own
        refs = {remotes.MEMORY_REFS + own: head}
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
                refs[remotes.TURNS_REFS + own] = turns
                sent = there.get(remotes.TURNS_REFS + own, "")
                before = sent if sent and self._exchange.has(sent) else None
                turns_out += turns_since(self._repository, own, before, turns)
        id_s = [id_ for id_ in remotes.heads_in(there).values() if self._exchange.has(id_)]
        past = self._past
        pushed = (
            len(AncestryWalk(past.parents, [[head], id_s]).only(0))
            if id_s
            else sum(1 for _ in walk_ancestors([head], past.parents))
        )
        if self._how.dry_run:
            return pushed, turns_out
        is_known = all(there.get(ref) == id_ for ref, id_ in refs.items())
        branches = dict.fromkeys(self._behind(head, id_s), head)
        if is_known and not branches:
            return 0, 0
        if not self._transport.shared_refs:
            branches[remotes.MAIN_REF] = head
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
        leads_to, matches = self._exchange.leads_to, []
        for ref, id_ in self._fetch.branches.items():
            if id_ is None or (id_ != head and leads_to(id_, head)):
                matches.append(ref)
            elif not any(leads_to(id_, tip) for tip in (head, *known)):
                self._notes.append(
                    f"{shown_ref(ref)} at {self._name!r} has commits that are not merged here yet,"
                    " so it was not updated"
                )
        return matches

    def _send(self, refs: Mapping[str, str]) -> None:
        for pushed in self._transport.push(refs):
            if not pushed.refused:
                continue
            if pushed.ref not in {remotes.MAIN_REF, *self._transport.shared_refs}:
                raise errors.RemoteRefusedError(
                    f"The remote {self._transport.address!r} rejected"
                    f" {shown_ref(pushed.ref)}: {pushed.refused}",
                    hint="Sync again; if it keeps failing, check that you have write access.",
                )
            if self._transport.shared_refs:  # in a folder, nobody reads another machine's `main`
                self._notes.append(
                    f"{shown_ref(pushed.ref)} at {self._name!r} was not updated: {pushed.refused}"
                )

    def _verify(self, refs: Mapping[str, str], head: str) -> None:
        """Check that the remote names what was pushed, and HEAD a valid branch."""
        now = self._transport.refs()
        wrong = next((ref for ref, id_ in refs.items() if now.get(ref) != id_), None)
        if wrong:
            raise errors.RemoteRefusedError(
                f"The remote {self._transport.address!r} does not show what was just pushed to"
                f" {shown_ref(wrong)}",
                hint="Sync again; if it keeps failing, another copy of this familiar pushes there.",
            )
        late = {ref: head for ref in self._transport.shared_refs if ref not in now}
        if late:
            self._send(late)
        with translate_errors(self._repository.path):
            self._seen.note(refs)
