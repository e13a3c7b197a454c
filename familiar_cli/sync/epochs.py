"""Forget orders that travel with a memory, and detection of refs that predate them.

The first commit of an epoch names its order, and all its descendants belong to the epoch. A version
that lacks an order carried out here is never merged, or the person's data would come back. Turns
list their orders in a separate file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from familiar_cli.base.errors import OlderEpochError
from familiar_cli.base.text import bare_lines
from familiar_cli.store.history.forgetting import ForgetOrder
from familiar_cli.store.journal.repository import (
    Repository,
    file_id,
    parents_of,
    tree_and_parent,
    walk_ancestors,
)
from familiar_cli.sync.journal_epochs import dead_commits, first_id, orders_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Read = Callable[[str], bytes]

_BEHIND = (
    "it is from before somebody was forgotten by order, or a file too large to sync was taken out "
    "of the history; that machine has to sync first, and nothing of it was taken"
)


def orders_path(instance: str) -> str:
    """Return the path of the file, beside its turns, that lists an instance's orders."""
    return f"forgotten/{instance}.txt"


def first_commit(read: Read, head: str) -> str:
    """Return the original id of a familiar's first commit, which identifies it."""
    at = head
    while before := tree_and_parent(read(at))[1]:
        at = before
    return first_id(at, read(at))


def memory_orders(read: Read, head: str) -> tuple[ForgetOrder, ...]:
    """Return the orders that a version of the memory complies with."""
    found = {
        order.id: order
        for id_ in walk_ancestors([head], lambda one: parents_of(read(one)))
        for order in map(ForgetOrder.from_line, orders_in(read(id_)))
    }
    return tuple(found.values())


def turn_orders(read: Read, head: str, instance: str) -> tuple[ForgetOrder, ...]:
    """Return the orders that an instance's turns comply with."""
    id_ = file_id(read, tree_and_parent(read(head))[0], orders_path(instance))
    lines = bare_lines(read(id_).decode(errors="replace")) if id_ else ()
    return tuple(map(ForgetOrder.from_line, lines))


class EpochCheck(Struct, frozen=True):
    """Tells versions of this epoch from older ones, and finds orders of a newer one.

    Args:
        repository: The journal.
        orders: The orders that were carried out here.
    """

    repository: Repository
    orders: Collection[ForgetOrder] = ()

    def new_in_memory(self, read: Read, head: str) -> tuple[ForgetOrder, ...]:
        """Return the orders in a version that were not carried out here yet.

        Raises:
            OlderEpochError: It lacks a known order, or descends from a replaced version.
        """
        found = memory_orders(read, head)
        self._check(found)
        dead = dead_commits(self.repository)
        if dead and not dead.isdisjoint(walk_ancestors([head], lambda one: parents_of(read(one)))):
            raise OlderEpochError(_BEHIND)
        return self._new(found)

    def check_turns(self, read: Read, head: str, instance: str) -> None:
        """Refuse turns that lack an order carried out here.

        Raises:
            OlderEpochError: They do.
        """
        self._check(turn_orders(read, head, instance))

    def _check(self, found: Collection[ForgetOrder]) -> None:
        if {order.id for order in self.orders} - {order.id for order in found}:
            raise OlderEpochError(_BEHIND)

    def _new(self, found: Collection[ForgetOrder]) -> tuple[ForgetOrder, ...]:
        known = {order.id for order in self.orders}
        return tuple(order for order in found if order.id not in known)
