"""`person`: who somebody is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.actions.people.read import show_person
from familiar_cli.mcp_server.sight import see
from familiar_cli.mcp_server.tool import TEXT, TEXTS, Answer, Tool
from familiar_cli.text import framed

if TYPE_CHECKING:
    from familiar_cli.mcp_server.tool import Arguments, Caller


def person(caller: Caller, arguments: Arguments) -> Answer:
    """Return what is known of a person.

    Raises:
        NotFoundError: Nobody is called so.
        UsageError: Several people are.
    """
    found = show_person(caller.familiar, arguments["name"])
    more = {
        "slug": found.slug,
        "names": [framed(name) for name in found.names],
        "turns": found.turns,
        **({"lastSeen": found.last_seen} if found.last_seen else {}),
    }
    notes = [
        f"{framed(shared.name)} is also what {', '.join(shared.slugs)} are called."
        for shared in found.collisions
    ]
    if not found.sha256:
        return Answer((), [*notes, "No file tells of this person yet."], more)
    seen = see(caller, found.rel_path)
    return Answer(list(seen.items()), notes, more, stamp=found.sha256[:12])


TOOLS: Final = (
    Tool(
        "person",
        "What is known of a person, by any of their names.",
        {"name": TEXT},
        person,
        needs=("name",),
        gives={"slug": TEXT, "names": TEXTS},
        pages=True,
    ),
)
