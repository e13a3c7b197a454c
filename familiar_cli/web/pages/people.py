"""People: who is known, what they are called, merge and split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.errors import UsageError
from familiar_cli.web.asking import Redirect, Shown, WebPage

if TYPE_CHECKING:
    from familiar_cli.web.asking import PageRequest

_A_PAGE: Final = 200


def show(asked: PageRequest) -> Shown:
    """Return everyone who is known."""
    from familiar_cli.actions.people import people_of

    found = people_of(asked.familiar, thorough=False)
    start = asked.number("from") or 0
    shown = found.people[start : start + _A_PAGE]
    more = start + _A_PAGE if len(found.people) > start + _A_PAGE else None
    return Shown("people", {"people": shown, "shared": found.collisions, "more": more})


def one(asked: PageRequest) -> Shown:
    """Return one person, and how they are related."""
    from familiar_cli.actions.graph import around
    from familiar_cli.actions.people import show_person
    from familiar_cli.web.pages.graph import drawn

    person = show_person(asked.familiar, asked.path["person"])
    related = {}
    if person.text:
        viewer = asked.familiar.privacy.program()
        near = around(asked.familiar, person.rel_path, viewer=viewer, links=False, thorough=False)
        related = drawn(asked, near)
    return Shown("person", {"person": person, "related": related})


def change(asked: PageRequest) -> Redirect:
    """Give a person a name, take one away, or make one person of two, or two of one."""
    from familiar_cli.actions.people import add_alias, merge, remove_alias, split

    familiar, person, name = asked.familiar, asked.path["person"], asked.sent("name").strip()
    match asked.sent("do"):
        case "add":
            add_alias(familiar, person, name)
            told = f"{person} is now also called {name!r}."
        case "remove":
            remove_alias(familiar, person, name)
            told = f"{person} is no longer called {name!r}."
        case "merge":
            merge(familiar, person, name)
            told = f"Merged {name} into {person}."
        case "split":
            split(familiar, person)
            told = f"{person} has a file of their own again."
        case other:
            raise UsageError(f"Unknown action for a person: {other[:40]!r}")
    return Redirect(asked.to("people", person), (told, "The journal can undo it."))


PAGES: Final = (
    WebPage("/people", show),
    WebPage("/people/{person}", one),
    WebPage("/people/{person}", change, "POST"),
)
