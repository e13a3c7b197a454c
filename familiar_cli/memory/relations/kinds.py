"""What a relation is the other way round: a table, to which `relations.md` of a memory adds.

| relation | the other way round |
|---|---|
| coach of | coached by |
| bandmate of | bandmate of |
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from familiar_cli.text import fold, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALIKE: Final = (
    "sibling of",
    "twin of",
    "cousin of",
    "spouse of",
    "married to",
    "engaged to",
    "partner of",
    "ex-partner of",
    "divorced from",
    "friend of",
    "best friend of",
    "knows",
    "neighbour of",
    "neighbor of",
    "roommate of",
    "lives with",
    "works with",
    "colleague of",
    "classmate of",
    "bandmate of",
    "rival of",
    "enemy of",
    "related to",
)
_PAIRS: Final = (
    ("parent of", "child of"),
    ("mother of", "child of"),
    ("father of", "child of"),
    ("son of", "parent of"),
    ("daughter of", "parent of"),
    ("grandparent of", "grandchild of"),
    ("grandmother of", "grandchild of"),
    ("grandfather of", "grandchild of"),
    ("sister of", "sibling of"),
    ("brother of", "sibling of"),
    ("wife of", "spouse of"),
    ("husband of", "spouse of"),
    ("aunt of", "niece or nephew of"),
    ("uncle of", "niece or nephew of"),
    ("niece of", "aunt or uncle of"),
    ("nephew of", "aunt or uncle of"),
    ("boss of", "reports to"),
    ("employs", "works for"),
    ("teacher of", "student of"),
    ("mentor of", "mentored by"),
    ("owner of", "belongs to"),
    ("owns", "owned by"),
    ("pet of", "owner of"),
    ("member of", "has as a member"),
    ("part of", "has as a part"),
    ("lives in", "home of"),
    ("born in", "birthplace of"),
    ("works at", "workplace of"),
    ("located in", "location of"),
)
_ORDERS: Final = {
    "family": (
        (
            *("parent of", "mother of", "father of"),
            *("grandparent of", "grandmother of", "grandfather of"),
        ),
        ("child of", "son of", "daughter of", "grandchild of"),
    ),
    "work": (("boss of",), ("reports to",)),
    "part": (("has as a part",), ("part of",)),
    "place": (("location of",), ("located in",)),
}
_STEPS: Final = {
    relation: (order, down)
    for order, ways in _ORDERS.items()
    for relations, down in zip(ways, (True, False), strict=True)
    for relation in relations
}
_ROW: Final = re.compile(r"^\s{0,3}\|([^|\n]{1,200})\|([^|\n]{1,200})\|\s*$", re.MULTILINE)
_MOST_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class Kinds:
    """What is known of relations.

    Args:
        inverses: What each, folded, is the other way round.
    """

    inverses: Mapping[str, str] = field(default_factory=dict)

    @property
    def known(self) -> frozenset[str]:
        """The relations of the table, folded."""
        return frozenset(self.inverses)

    def inverse(self, relation: str) -> str:
        """Return what the other is to the one; empty: the table does not say."""
        return self.inverses.get(fold(relation), "")

    def are_alike(self, relation: str, other: str) -> bool:
        """Tell whether two relations, of one to the other and back, say the same."""
        return fold(self.inverse(relation)) == fold(other) or fold(self.inverse(other)) == fold(
            relation
        )

    def is_symmetric(self, relation: str) -> bool:
        """Tell whether it is the same both ways."""
        return fold(self.inverse(relation)) == fold(relation)

    def step(self, relation: str) -> tuple[str, bool] | None:
        """Return in which order the one stands above (True) or below the other; None: in none.

        No order can go round in a circle: nobody is an ancestor of their own parents.
        """
        return _STEPS.get(fold(relation))


def kinds_of(text: str = "") -> Kinds:
    """Return the table, with what a page adds to it; a line of the page wins."""
    inverses = {one: one for one in _ALIKE}
    for one, other in _PAIRS:
        inverses[one] = other
        inverses.setdefault(other, one)
    for row in _ROW.finditer(text):
        one, other = (one_line(cell, _MOST_CHARS).strip(" `*_") for cell in row.groups())
        is_rule = not any(map(str.isalpha, one + other))
        if one and other and not is_rule:
            inverses[fold(one)] = other
            inverses.setdefault(fold(other), one)
    return Kinds(inverses)
