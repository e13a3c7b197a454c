"""The pages of `familiar people`: everyone, and the names that several share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.ui.memory_page import size_text
from familiar_cli.ui.terminal import columns, local, plain
from familiar_cli.ui.widgets import Name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from rich.console import RenderableType

    from familiar_cli.actions.people.read import KnownPerson
    from familiar_cli.memory.people.aliases import Named

_HEADER = ("person", "name", "names", "turns", "last seen", "file")


def people_page(people: Iterable[KnownPerson], zone: tzinfo | None) -> RenderableType:
    """Return everyone as a table, who spoke last first."""
    return columns((_row(person, zone) for person in people), _HEADER, right=(2, 3, 5))


def shared_line(named: Named) -> str:
    """Return that several people have a name, in words."""
    return f"{named.name!r} is shared by {', '.join(named.slugs)}"


def _row(person: KnownPerson, zone: tzinfo | None) -> list[RenderableType]:
    size = "none" if person.size_bytes is None else size_text(person.size_bytes)
    return [
        Name(person.slug, "bold"),
        plain(person.name),
        plain(person.aliases),
        plain(person.turns),
        plain(local(person.last_seen, zone) or "never", "dim"),
        plain(f"{size} (cannot be read)" if person.problem else size, "dim"),
    ]
