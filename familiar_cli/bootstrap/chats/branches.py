"""A conversation as a tree: the branch that is shown, and what stands on the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def shown_branch(parents: Mapping[str, str | None], leaf: str) -> list[str]:
    """Return the nodes from the root to `leaf`; a parent that is nowhere, or a loop, is the root.

    Args:
        parents: The parent of each node.
        leaf: The last node that is shown.
    """
    branch: list[str] = []
    seen: set[str] = set()
    node: str | None = leaf
    while node is not None and node in parents and node not in seen:
        seen.add(node)
        branch.append(node)
        node = parents[node]
    return branch[::-1]
