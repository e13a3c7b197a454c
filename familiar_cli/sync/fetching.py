"""`RemoteFetch`: fetch what a remote has, check it, and set aside what cannot be accepted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from familiar_cli.base import errors
from familiar_cli.base.config.home import Instance
from familiar_cli.store.history.forgetting import ForgetOrder
from familiar_cli.store.journal.exchange import IncomingObjects, JournalExchange
from familiar_cli.store.journal.repository import decode_commit, translate_errors, walk_ancestors
from familiar_cli.sync import remotes
from familiar_cli.sync.git_remotes import PathRemote
from familiar_cli.sync.journal_epochs import EpochCheck, dead_commits, first_commit
from familiar_cli.sync.participants import Admission, SyncParticipants, Trust

# Another try would fail as well.
_FINAL: Final = (errors.RefLimitError, errors.AnotherFamiliarError, errors.OlderEpochError)
_TRIES: Final = 3  # retries when refs vanish after being listed, while others push


class RemoteFetch(Struct, kw_only=True):
    """Fetches from one remote.

    Args:
        exchange: The journal.
        transport: The remote.
        name: The remote's name.
        instance: Returns this instance.
        participants: Instances whose changes are accepted; None for all.
        epoch: Forget orders carried out here.
        progress: Callback for short progress messages.
        dry_run: Record nothing.
        adopt: Ref of a branch to go on from, whatever its history; empty for none.
        branches: Branches of git users, by ref; None: it has yet to be created.
        aside: Refs that cannot be accepted.
        admission: Instances whose changes are accepted.
        new_orders: Forget orders not carried out here yet, by id.
        new_heads: Commits that give them.
        notes: User-facing notes.
    """

    exchange: JournalExchange
    transport: remotes.Transport
    name: str
    instance: Callable[[], Instance]
    participants: SyncParticipants | None
    epoch: EpochCheck
    progress: Callable[[str], None]
    dry_run: bool
    adopt: str = ""
    branches: dict[str, str | None] = field(default_factory=dict)
    aside: dict[str, remotes.RefAside] = field(default_factory=dict)
    admission: Admission = field(default_factory=Admission)
    new_orders: dict[str, ForgetOrder] = field(default_factory=dict)
    new_heads: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def _seen_refs(self) -> remotes.SeenRefs:
        return remotes.SeenRefs(self.exchange.repository, self.name)

    def fetch(self, before: Mapping[str, str]) -> dict[str, str]:
        """Fetch everything, and return the remote's trusted refs."""
        for left in reversed(range(_TRIES)):
            there = self._accepted_refs(self._ours(self.transport.refs()))
            try:
                there = self._fetch_refs(there, is_last=not left)
            except errors.RemoteDamagedError:
                if not left:
                    if isinstance(self.transport, PathRemote):
                        self.transport.report_damage()
                    raise
            else:
                break
        there = self._without_rollbacks(self._without_waiting(there), before)
        if not (self.dry_run or self.new_orders):
            with translate_errors(self.exchange.repository.path):
                self._seen_refs.note(there)
        return there

    def _accepted_refs(self, there: Mapping[str, str]) -> dict[str, str]:
        """Return the refs of this instance and of accepted ones."""
        self._admit(set(map(_instance_of, there)))
        return {r: id_ for r, id_ in there.items() if self.admission.is_admitted(_instance_of(r))}

    def _admit(self, items: set[str]) -> None:
        """Decide what to accept from instances, and record new ones."""
        if self.participants is not None:
            self.admission = self.participants.admit(
                items - {self.instance().id},
                remotes.instances_seen(self.exchange.repository),
                dry_run=self.dry_run,
            )

    def _fetch_refs(self, there: Mapping[str, str], *, is_last: bool) -> dict[str, str]:
        """Fetch refs, and return those that are complete here.

        Invalid refs are set aside without affecting others.

        Raises:
            AnotherFamiliarError: All memories there belong to another familiar.
            RemoteDamagedError: No new ref is readable; retry.
        """
        now = {**there, **self.branches}
        self.aside = {
            ref: one
            for ref, one in self._seen_refs.aside().items()
            if one.is_final and now.get(ref) == one.id and ref != self.adopt
        }
        there = {ref: id_ for ref, id_ in there.items() if ref not in self.aside}
        new = {ref: id_ for ref, id_ in there.items() if not self.exchange.has(id_)}
        if not new:
            return there
        self.progress(f"fetching from {self.transport.address}")
        try:
            self._fetch(new)
            if isinstance(self.transport, PathRemote):
                self.transport.report_damage(is_damaged=False)
        except (errors.RemoteDamagedError, errors.AnotherFamiliarError) as error:
            if not is_last and not isinstance(error, _FINAL):
                raise  # while others push, a ref may appear before its objects
            self._fetch_apart(new, has_known=len(new) < len(there), error=error)
        return {ref: id_ for ref, id_ in there.items() if ref not in self.aside}

    def _fetch(self, refs: Mapping[str, str]) -> None:
        wants = sorted(set(refs.values()))
        with self.exchange.incoming() as incoming:
            self.transport.fetch(wants, self._haves(), incoming)
            self._check_familiar(remotes.heads_in(refs).values(), incoming)
            for ref, id_ in refs.items():
                if ref.startswith(remotes.TURNS_REFS):
                    self.epoch.check_turns(incoming.read, id_, _instance_of(ref))
                else:
                    self.epoch.check_memory(incoming.read, id_)
            incoming.accept(wants)

    def _without_waiting(self, there: Mapping[str, str]) -> dict[str, str]:
        """Set aside the refs whose orders to forget wait, and note the orders that need not wait.

        All that may be merged passes here, whether or not its objects were here before. What was
        merged already is looked at again, in case an order in it was never carried out.
        """
        head = str(self.exchange.repository.head())
        heads = {remotes.MEMORY_REFS + one: id_ for one, id_ in remotes.heads_in(there).items()}
        heads.pop(remotes.MEMORY_REFS + self.instance().id, None)
        read = self.exchange.repository.objects.read
        waiting: dict[str, str] = {}
        for commit, order in self.epoch.unmet(read, {head, *heads.values()}).items():
            refs = {ref: id_ for ref, id_ in heads.items() if self.exchange.leads_to(commit, id_)}
            if self.exchange.leads_to(commit, head):
                giver = decode_commit(commit, read(commit)).instance or self.instance().began
                refs[remotes.MEMORY_REFS + giver] = commit
            if any(map(self._may_order, refs)):
                self.new_orders[order.id] = order
                self.new_heads.append(commit)
            else:
                waiting |= refs
        for ref, id_ in waiting.items():
            reason = (
                f"it asks to forget a person; `familiar sync allow {_instance_of(ref)}` lets that "
                "happen here as well"
            )
            self.aside[ref] = remotes.RefAside(
                ref, id_, reason, is_final=False, code=errors.OrderWaitsError.code
            )
        return {ref: id_ for ref, id_ in there.items() if ref not in waiting}

    def _may_order(self, ref: str) -> bool:
        return self.admission.trust.get(_instance_of(ref), Trust.known) is Trust.known

    def fetch_branches(self, before: Mapping[str, str], there: Mapping[str, str]) -> dict[str, str]:
        """Fetch commits made with git on `main`, and return it if it continues this memory.

        Rewriting such a branch removes nothing: what was merged is pushed again.

        Args:
            before: The refs that were seen last.
            there: The trusted refs.
        """
        result = {}
        heads = [str(self.exchange.repository.head()), *remotes.heads_in(there).values()]
        for ref, id_ in list(self.branches.items()):
            if id_ is None:
                continue
            known = {id_} if id_ in heads else set(walk_ancestors(heads, self.exchange.parents))
            if id_ not in known and not self._fetch_commit(ref, id_, known):
                continue
            result[ref] = id_
            old = before.get(ref)
            if old and self.exchange.has(old) and not self.exchange.leads_to(old, id_):
                self.notes.append(
                    f"{shown_ref(ref)} at {self.name!r} was rewritten ({old[:10]} to {id_[:10]});"
                    " both are part of the memory"
                )
        if not self.dry_run:
            with translate_errors(self.exchange.repository.path):
                self._seen_refs.note(result)
        return result

    def _fetch_commit(self, ref: str, id_: str, known: Container[str]) -> bool:
        """Fetch a commit made with git; tell whether it continues this memory.

        Args:
            ref: The branch.
            id_: The commit.
            known: Commits that need no check.
        """
        if ref in self.aside:
            del self.branches[ref]
            return False
        self.progress(f"fetching {shown_ref(ref)} from {self.transport.address}")
        problem, is_final, code = "it does not continue this memory", False, ""
        try:
            with self.exchange.incoming() as incoming:
                wants = [] if self.exchange.has(id_) else [id_]
                if wants:
                    self.transport.fetch(wants, self._haves(), incoming)
                if is_plain := self._is_plain(ref, id_, incoming):
                    self.notes.append(
                        f"{shown_ref(ref)} at {self.name!r} had commits from elsewhere; they are"
                        " part of the memory's history now"
                    )
                if is_plain or incoming.goes_on(id_):
                    if not is_plain:
                        self.epoch.check_memory(incoming.read, id_)
                    if not self._admits(incoming.instances(id_, known)) or self.epoch.unmet(
                        incoming.read, [id_]
                    ):  # the machine that gives an order will push it itself
                        del self.branches[ref]
                        return False
                    if wants:
                        incoming.accept(wants)
                    return True
        except errors.RemoteDamagedError as error:
            problem, code = str(error), error.code
            is_final = isinstance(error, _FINAL)
        self.notes.append(f"{shown_ref(ref)} at {self.name!r} was ignored: {problem}")
        self.aside[ref] = remotes.RefAside(ref, id_, problem, is_final, code)
        del self.branches[ref]
        return False

    def _is_plain(self, ref: str, id_: str, incoming: IncomingObjects) -> bool:
        """Tell whether a history begins apart from this one, and no familiar began it.

        A person may adopt one that a familiar began, such as a squashed one.
        """
        root = incoming.root(id_)
        if self.exchange.has(root) or incoming.goes_on(id_):
            return False
        return ref == self.adopt or not decode_commit(root, incoming.read(root)).trailers

    def _admits(self, items: Collection[str]) -> bool:
        """Tell whether the changes of all these instances, or git authors, are accepted."""
        names = {name or self.instance().began for name in items}
        self._admit(names)
        return all(map(self.admission.is_admitted, names))

    def _fetch_apart(
        self, refs: Mapping[str, str], *, has_known: bool, error: errors.FamiliarError
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
            except (errors.RemoteDamagedError, errors.AnotherFamiliarError) as reason:
                is_final = isinstance(reason, _FINAL)
                self.aside[ref] = remotes.RefAside(ref, id_, str(reason), is_final, reason.code)
        aside = [self.aside[ref] for ref in refs if ref in self.aside]
        is_foreign = isinstance(error, errors.AnotherFamiliarError)
        if len(aside) == len(refs) and (
            (is_foreign and not has_known) or not any(one.is_final for one in aside)
        ):
            raise error

    def _haves(self) -> list[str]:
        items = [self.exchange.repository.head(), *self._seen_refs.all().values()]
        return [id_ for id_ in dict.fromkeys(items) if id_ and self.exchange.has(id_)]

    def _check_familiar(self, heads: Iterable[str], incoming: IncomingObjects) -> None:
        """Refuse a remote whose memories have another first commit."""
        if not all(incoming.goes_on(head) or self._is_ours(head, incoming) for head in heads):
            raise errors.AnotherFamiliarError(
                f"The remote {self.transport.address!r} holds the memory of another familiar;"
                " nothing was changed on either side",
                hint="Give each familiar a remote of its own. To start from that remote instead: "
                f"`familiar init --from-remote {self.transport.address} NEW-ID`.",
            )

    def _is_ours(self, head: str, incoming: IncomingObjects) -> bool:
        """Tell whether a history of another epoch has the same origin as this one."""
        own = first_commit(
            self.exchange.repository.objects.read, str(self.exchange.repository.head())
        )
        return first_commit(incoming.read, head) == own

    def _ours(self, refs: Mapping[str, str]) -> dict[str, str]:
        """Return a remote's refs that belong to a familiar, without replaced ones."""
        dead = dead_commits(self.exchange.repository)
        refs = {ref: id_ for ref, id_ in refs.items() if id_ not in dead}
        self.branches = {r: refs.get(r) for r in self.transport.shared_refs}
        return remotes.refs_of_familiars(refs)

    def _without_rollbacks(
        self, there: Mapping[str, str], before: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the refs without those that moved backwards; vanished ones keep their value."""
        believed = {}
        for ref, id_ in there.items():
            old = before.get(ref)
            if old and self.exchange.has(old) and not self.exchange.leads_to(old, id_):
                if ref.endswith(f"/{self.instance().id}"):  # what is missing there is pushed again
                    believed[ref] = id_
                    continue
                self.notes.append(
                    f"{shown_ref(ref)} at {self.name!r} was rewritten ({old[:10]} to {id_[:10]});"
                    " the rewrite was ignored, and what had been fetched is kept"
                )
                believed[ref] = old
            else:
                believed[ref] = id_
        for ref, old in before.items():
            is_ours = ref.startswith((remotes.MEMORY_REFS, remotes.TURNS_REFS))
            if not is_ours or not self.admission.is_admitted(_instance_of(ref)):
                continue
            if ref in self.aside:
                believed[ref] = old
            elif ref not in there and not ref.endswith(f"/{self.instance().id}"):
                self.notes.append(
                    f"{shown_ref(ref)} was deleted from {self.name!r}; what was fetched is kept"
                )
                believed[ref] = old
        return believed


def shown_ref(ref: str) -> str:
    """Return a ref as it is displayed."""
    return ref.removeprefix("refs/heads/")


def _instance_of(ref: str) -> str:
    return ref.rpartition("/")[2]
