"""A relation that the model proposes, as a line that leads to a page there is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from familiar_cli.memory.layout import PEOPLE_DIR, people_path
from familiar_cli.memory.pages.links import way_to
from familiar_cli.memory.pages.relations import line_of, relations_in
from familiar_cli.memory.people.mentions import key_of
from familiar_cli.memory.relations.kinds import kinds_of

if TYPE_CHECKING:
    from familiar_cli.writer.grounds import Grounds
    from familiar_cli.writer.types import Operation


class UnrelatedError(Exception):
    """A line says no relation that could be written."""


def as_relation(words: str, operation: Operation, grounds: Grounds) -> str:
    """Return a line of the section Relations with a link to the one page that it means.

    Raises:
        UnrelatedError: It says none, or the page is not there; the reason in words.
    """
    if operation.kind != "said":
        raise UnrelatedError("only what is said is a relation, not play or feelings")
    if not operation.rel_path.startswith(f"{PEOPLE_DIR}/"):
        raise UnrelatedError("only people are given relations")
    page = f"## Relations\n- {words}\n"
    found = relations_in(page, operation.rel_path, kinds_of().known).relations
    if len(found) != 1:
        raise UnrelatedError("it is not a relation to one person: `sister of Robin`")
    (one,) = found
    name = one.name.partition("|")[0]
    target = one.target or _called(name, grounds)
    if target == operation.rel_path:
        raise UnrelatedError("nobody is related to themselves")
    if not _is_there(target, name, grounds):
        raise UnrelatedError(f"there is no file about {name!r}")
    written = replace(one, name=name, evidence=())
    return line_of(written, way_to(target, operation.rel_path)).removeprefix("- ")


def _called(name: str, grounds: Grounds) -> str:
    """Return the file of the one person who is called so; empty: nobody is, or several are."""
    key = key_of(name)
    here = {p.rel_path for p in grounds.roster.people if key in map(key_of, p.names)}
    known = here | {people_path(slug) for slug in grounds.others(name)}
    return known.pop() if len(known) == 1 else ""


def _is_there(rel_path: str, name: str, grounds: Grounds) -> bool:
    if grounds.roster.at(rel_path) or rel_path in grounds.topics or rel_path in grounds.shown:
        return True
    return rel_path in map(people_path, grounds.others(name))
