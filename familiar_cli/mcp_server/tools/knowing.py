"""`person` and `relations`: who somebody is, and who and what is around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.errors import NotFoundError
from familiar_cli.mcp_server.sight import see
from familiar_cli.mcp_server.tool import TEXT, TEXTS, Answer, Item, Tool
from familiar_cli.text import framed

if TYPE_CHECKING:
    from familiar_cli.mcp_server.tool import Arguments, Caller
    from familiar_cli.memory.relations.index import Edge


def person(caller: Caller, arguments: Arguments) -> Answer:
    """Return what is known of a person.

    Raises:
        NotFoundError: Nobody is called so, or no file tells of them.
        UsageError: Several people are.
    """
    from familiar_cli.actions.people.read import show_person
    from familiar_cli.memory.people.alias_section import names_of

    found = show_person(caller.familiar, arguments["name"])
    if not found.sha256:
        raise NotFoundError(f"There is no file about {framed(found.slug)!r} yet")
    seen = see(caller, found.rel_path)
    notes = [
        f"The name {framed(shared.name)} is shared by {', '.join(shared.slugs)}."
        for shared in found.collisions
    ]
    more = {"slug": found.slug, "names": [framed(name) for name in names_of(seen.text)]}
    return Answer(list(seen.items()), notes, more, stamp=found.sha256[:12])


def relations(caller: Caller, arguments: Arguments) -> Answer:
    """Return how a page is related to others, or all that is related; nothing private.

    Raises:
        NotFoundError: Nothing is called so.
        UsageError: Several things are.
    """
    from familiar_cli.actions.graph import around, overview

    name = arguments.get("name")
    familiar, viewer = caller.familiar, caller.viewer
    found = around(familiar, name, viewer=viewer) if name else overview(familiar, viewer=viewer)
    edges = found.edges
    notes = [] if edges else ["There are no relations."]
    if found.is_cut:
        notes.append("Not all relations are listed.")
    return Answer([_edge(edge) for edge in edges], notes)


def _edge(edge: Edge) -> Item:
    known = {
        "since": edge.since,
        "until": edge.until,
        "lines": edge.line,
        "turns": ", ".join(edge.evidence),
    }
    about = {"path": edge.source, "relation": edge.relation, "to": edge.target}
    return Item({**about, **{name: value for name, value in known.items() if value}})


TOOLS: Final = (
    Tool(
        "person",
        "What is known of a person, by any of their names.",
        {"name": TEXT},
        person,
        needs=("name",),
        gives={"names": TEXTS},
        pages=True,
    ),
    Tool(
        "relations",
        "Relations of a person, place or topic, or all.",
        {"name": TEXT},
        relations,
        pages=True,
    ),
)
