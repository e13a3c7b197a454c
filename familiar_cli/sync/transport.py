"""`Transport`: the way to a remote, whatever lies between.

A remote holds refs that name commits, and the objects these lead to. It belongs to nobody: what it
says is checked before anything of it is believed, and what was sent is looked at again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from familiar_cli.memory.journal.exchange import Exchange, Incoming

_HEADS: Final = "refs/heads/"

MEMORY_REFS: Final = "refs/heads/memory/"
"""Before the id of an instance: the newest commit of its memory."""

TURNS_REFS: Final = "refs/heads/turns/"
"""Before the id of an instance: the newest commit of its turns."""

MAIN_REF: Final = "refs/heads/main"
"""What people see first who look at a remote, and where other gits commit."""


@dataclass(frozen=True, slots=True)
class PushedRef:
    """What became of one ref that was pushed.

    Args:
        ref: Its whole name.
        id: The commit that it was to name.
        refused: Why it does not; empty: it does.
    """

    ref: str
    id: str
    refused: str = ""


class Transport(Protocol):
    """A remote, opened. Whatever it raises is a `FamiliarError`; nothing half done shows.

    Attributes:
        address: Where it is, fit to be shown: without passwords or tokens.
        shared_refs: The branches that any git may commit to, `main` and what HEAD names there; as
            of the last `refs`. None where only this program writes.
    """

    address: str
    shared_refs: tuple[str, ...]

    def refs(self) -> Mapping[str, str]:
        """Return all branches as they are now: the whole name of each, and the commit it names.

        Raises:
            RemoteUnreachableError: Nothing is there, or nobody let us in.
            RemoteDamagedError: It is no repository of ours, e.g. one with SHA-256 ids.
        """

    def fetch(self, wants: Collection[str], haves: Collection[str], incoming: Incoming) -> None:
        """Bring commits with all they lead to. `Incoming.accept` is the caller's.

        Args:
            wants: The commits; the remote has named them a moment ago.
            haves: Commits that are here with all they lead to.
            incoming: Where to put what comes.

        Raises:
            RemoteUnreachableError: The connection broke.
            RemoteDamagedError: What came cannot be read.
        """

    def push(self, refs: Mapping[str, str]) -> list[PushedRef]:
        """Make each ref name a commit of the journal, if that only adds to what it named.

        Each is decided at the remote by itself, and what they lead to is there before they name it.

        Raises:
            RemoteUnreachableError: The connection broke; whether something arrived is not known.
            RemoteRefusedError: It takes nothing at all.
        """

    def close(self) -> None:
        """Let go of it."""


def shared_refs(head: str | None) -> tuple[str, ...]:
    """Return the branches that any git may commit to, where HEAD of the remote names `head`."""
    is_branch = head and head.startswith(_HEADS) and not head.startswith((MEMORY_REFS, TURNS_REFS))
    return tuple(dict.fromkeys((MAIN_REF, head))) if head and is_branch else (MAIN_REF,)


def objection(exchange: Exchange, now: str | None, new: str) -> str:
    """Return why a ref that names the commit `now` may not name `new`; empty: it may."""
    if now is None or now == new:
        return ""
    if not exchange.has(now):
        return f"it is at commit {now[:10]}, which is not known here"
    if exchange.leads_to(now, new):
        return ""
    return f"it is at commit {now[:10]}, which is not an ancestor of the new one"
