"""`FolderTransport`: a folder of bundles as a remote.

Each instance's bundles are a chain of their own, whole without the others': the first needs
nothing, and each names what the one before it ended with. Nobody but an instance itself takes its
bundles away, and only when a new one, written and read back, holds all that they held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.errors import RemoteDamagedError, RemoteKeyError, UsageError
from familiar_cli.sync import bundle
from familiar_cli.sync.bundle import Header
from familiar_cli.sync.remotes import newest_seen
from familiar_cli.sync.transport import MAIN_REF, MEMORY_REFS, TURNS_REFS, PushedRef, objection

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from familiar_cli.memory.journal.exchange import IncomingObjects, JournalExchange
    from familiar_cli.sync.bundle_folder import BundleFolder
    from familiar_cli.sync.signing import BundleFile

_FOLD_FROM: Final = 8  # so many bundles of one instance stay apart


class FolderTransport:
    """A folder as a remote. See `Transport`.

    Args:
        folder: The bundles in it.
        exchange: The journal.
    """

    def __init__(self, folder: BundleFolder, exchange: JournalExchange) -> None:
        self.address = f"dir:{folder.path}"
        self.shared_refs: tuple[str, ...] = ()
        self._folder = folder
        self._exchange = exchange
        self._bundles: list[BundleFile] = []

    def refs(self) -> Mapping[str, str]:
        """See `Transport`. Of what has not arrived yet, nothing is told."""
        self._bundles = self._usable(self._folder.look(self._is_vouched_for))
        if not self._bundles and self._folder.refused and self._exchange.repository.head() is None:
            raise RemoteKeyError(
                f"No bundle in {self.address!r} is signed, so anybody could have written them;"
                " nothing was taken",
                hint="Update `familiar` on a machine that has the memory, and run `familiar sync`"
                " there. If none is left: add `--unsigned` to the command.",
            )
        refs = dict.fromkeys(ref for b in self._bundles for ref in b.header.refs if ref != "HEAD")
        return {ref: self._main() if ref == MAIN_REF else self._named_by(ref) for ref in refs}

    def fetch(
        self, wants: Collection[str], haves: Collection[str], incoming: IncomingObjects
    ) -> None:
        """See `Transport`."""
        del haves  # the journal itself tells
        for one in self._leading_to(wants):
            with self._folder.opened(one.name) as file:
                bundle.read_header(file)
                incoming.add_pack(file)

    def push(self, refs: Mapping[str, str]) -> list[PushedRef]:
        """See `Transport`. All that is new goes into one bundle, of one instance.

        Raises:
            RemoteRefusedError: The folder cannot be written.
            RemoteKeyError: It is encrypted, and what is sent would not be.
            UsageError: The refs are not those of one instance.
        """
        instance = _instance_of(refs)
        there = self.refs()
        self._check_open()
        outcome = [
            PushedRef(ref, id_, objection(self._exchange, there.get(ref), id_))
            for ref, id_ in refs.items()
        ]
        taken = {one.ref: one.id for one in outcome if not one.refused}
        is_new = any(there.get(ref) != id_ for ref, id_ in taken.items())
        if is_new or self._replaceable(instance, taken):
            own = {MEMORY_REFS + instance, TURNS_REFS + instance, MAIN_REF}
            kept = {ref: id_ for ref, id_ in there.items() if ref in own}
            self._write(instance, {**kept, **taken})
        return outcome

    def rewrite(self, instance: str) -> bool:
        """Put all bundles of an instance into one, encrypted as is set now.

        Returns:
            Whether there was anything of that instance.

        Raises:
            RemoteRefusedError: The folder cannot be written; what was there is as it was.
        """
        there = self.refs()
        own = {MEMORY_REFS + instance, TURNS_REFS + instance, MAIN_REF}
        named = {ref for one in self._of(instance) for ref in one.header.refs}
        refs = {ref: id_ for ref, id_ in there.items() if ref in own & named}
        if refs:
            self._write(instance, refs, is_whole=True)
        return bool(refs)

    def close(self) -> None:
        """See `Transport`."""
        self._folder.close()

    def _usable(self, found: list[BundleFile]) -> list[BundleFile]:
        """Return the bundles of which all that they need is there, in the order of reading."""
        usable: list[BundleFile] = []
        reached: set[str] = set()
        waiting = found
        while ready := [b for b in waiting if self._can_be_read(b, reached)]:
            usable += ready
            reached |= {id_ for b in ready for id_ in b.header.refs.values()}
            waiting = [b for b in waiting if b not in ready]
        usable.sort(key=lambda b: (b.number, b.instance, b.name))
        newest = {b.instance: b.number for b in usable}
        self._folder.say(
            "an earlier bundle has not arrived yet, so this one waits",
            [b.name for b in waiting if b.number > newest.get(b.instance, 0)],
        )
        return usable

    def _can_be_read(self, one: BundleFile, reached: set[str]) -> bool:
        return all(id_ in reached or self._exchange.has(id_) for id_ in one.header.needs)

    def _named_by(self, ref: str) -> str:
        """Return the commit that a ref of an instance names.

        When a backup was restored and goes on under the same id, two do not follow from each
        other. Then the one that is not here yet is told, so that it is noticed.
        """
        tips = list(
            dict.fromkeys(b.header.refs[ref] for b in self._bundles if ref in b.header.refs)
        )
        top = tips[-1]
        if not self._exchange.has(top):
            return top
        return next((id_ for id_ in tips if not self._exchange.has(id_)), top)

    def _main(self) -> str:
        """Return the commit of `main`: of all that instances pushed, one that no other follows."""
        pushed = [b for b in self._bundles if MAIN_REF in b.header.refs]
        last = {b.instance: b.header.refs[MAIN_REF] for b in pushed}
        tips = list(dict.fromkeys(last.values()))
        missing = [id_ for id_ in tips if not self._exchange.has(id_)]
        if missing:
            return missing[0]
        leads_to = self._exchange.leads_to
        return next((t for t in tips if not any(o != t and leads_to(t, o) for o in tips)), tips[0])

    def _leading_to(self, wants: Collection[str]) -> list[BundleFile]:
        """Return the bundles that hold commits, and those these need, in the order of reading."""
        needed = set(wants)
        chosen: list[BundleFile] = []
        for one in reversed(self._bundles):
            if needed & set(one.header.refs.values()):
                chosen.append(one)
                needed |= {id_ for id_ in one.header.needs if not self._exchange.has(id_)}
        return chosen[::-1]

    def _check_open(self) -> None:
        """Refuse plain text where somebody encrypts what they put."""
        if not self._folder.seals and any(b.is_sealed for b in self._bundles):
            raise RemoteKeyError(
                f"{self.address!r} is encrypted, and sync.encrypt is not set here;"
                " nothing was sent",
                hint="Run `familiar config set sync.encrypt passphrase`, or set the recipients.",
            )

    def _of(self, instance: str) -> list[BundleFile]:
        return [b for b in self._bundles if b.instance == instance]

    def _is_vouched_for(self, one: BundleFile) -> bool:
        """Tell whether a bundle may bring the signing key to a machine without one.

        On first use any may. Where machines synced before bundles were signed, it holds the newest
        commit that is known of its machine, whose id never left a machine but encrypted.
        """
        known = newest_seen(self._exchange.repository)
        try:
            with self._exchange.incoming() as incoming, self._folder.opened(one.name) as file:
                bundle.read_header(file)
                incoming.add_pack(file)
                return not known or any(map(incoming.came, known.get(one.instance, ())))
        except RemoteDamagedError:
            return False

    def _replaceable(self, instance: str, refs: Mapping[str, str]) -> list[BundleFile]:
        """Return our bundles that others no longer take, and that what is sent now holds, too."""
        old = [one for one in self._of(instance) if self._folder.is_outdated(one)]
        refused = [one for one in self._folder.refused if one.instance == instance]
        return old + [one for one in refused if self._are_in(one, refs)]

    def _write(self, instance: str, refs: Mapping[str, str], *, is_whole: bool = False) -> None:
        """Add a bundle, and take those away whose place it takes."""
        own = self._of(instance)
        replaceable = self._replaceable(instance, refs)
        kept, folded = ([], own) if is_whole or replaceable else self._folding(own)
        folded = [*folded, *(one for one in replaceable if one not in folded)]
        needs = tuple(sorted(set(kept[-1].header.refs.values()))) if kept else ()
        new = self._exchange.new_ids(set(refs.values()), needs)
        count, objects = self._exchange.packed(new)
        # With a HEAD, `git clone` of the first bundle checks something out.
        named = {**refs, "HEAD": refs[MAIN_REF]} if MAIN_REF in refs else dict(refs)
        header = Header(named, needs)
        content = bundle.encode(header, count, objects)
        self._bundles.append(self._folder.bring(instance, content, header))
        for one in folded:
            if self._are_in(one, refs):
                self._folder.remove(one.name)

    def _folding(self, own: list[BundleFile]) -> tuple[list[BundleFile], list[BundleFile]]:
        """Return which of our bundles stay, and which become part of the next one.

        Once there are many, those go whose successors together are hardly smaller; so they stay
        few, and each commit is written again only a few times.
        """
        at = len(own)
        if len(own) >= _FOLD_FROM:
            after_bytes = own[-1].size_bytes
            while at and own[at - 1].size_bytes <= 2 * after_bytes:
                at -= 1
                after_bytes += own[at].size_bytes
        return own[:at], own[at:]

    def _are_in(self, one: BundleFile, refs: Mapping[str, str]) -> bool:
        has, leads_to = self._exchange.has, self._exchange.leads_to
        return all(
            has(id_) and any(leads_to(id_, tip) for tip in set(refs.values()))
            for id_ in one.header.refs.values()
        )


def _instance_of(refs: Mapping[str, str]) -> str:
    """Return the one instance whose refs these are."""
    found = {
        ref.removeprefix(prefix)
        for ref in refs
        for prefix in (MEMORY_REFS, TURNS_REFS)
        if ref.startswith(prefix)
    }
    if len(found) != 1:
        raise UsageError("A folder takes the refs of one instance at a time; nothing was written")
    return found.pop()
