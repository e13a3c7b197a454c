"""The pages of people: everyone, and each with what is known of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from familiar_cli.actions.memory.facts import facts_in, newest_facts, person_themes
from familiar_cli.actions.memory.graph import neighbourhood
from familiar_cli.actions.people import change_people, people
from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.servers.web.asking import PageRequest, PageView, Redirect, WebPage
from familiar_cli.servers.web.drawing import render_markdown
from familiar_cli.servers.web.fact_rows import fact_rows
from familiar_cli.servers.web.memory_pages import recent_changes
from familiar_cli.servers.web.relation_pages import READ_S, draw_graph, read_names
from familiar_cli.store.history.rows import ChannelSummary
from familiar_cli.store.history.selection import people_in
from familiar_cli.store.memory.aliases import main_account
from familiar_cli.store.memory.layout import PEOPLE_DIR
from familiar_cli.writing.writer.page_text import summary_of

_PEOPLE_A_PAGE: Final = 200


def show_people(request: PageRequest) -> PageView:
    """Return everyone known."""
    unread = read_names(request)
    found = people.people_of(request.familiar, thorough=False, within_s=0)
    start = request.number("from") or 0
    shown = found.people[start : start + _PEOPLE_A_PAGE]
    more = start + _PEOPLE_A_PAGE if len(found.people) > start + _PEOPLE_A_PAGE else None
    values = {"people": shown, "shared": found.collisions, "more": more, "unread": unread}
    return PageView("people", values)


def show_one_person(request: PageRequest) -> PageView | Redirect:
    """Return a person: facts, relations, and channels; a file of another kind as a file."""
    familiar, viewer = request.familiar, request.viewer
    unread = read_names(request, thorough=True)
    try:
        person = people.show_person(familiar, request.path["person"], within_s=0)
    except FamiliarError:
        if rel_path := _file_of_person(request):
            return Redirect(request.to("memory", rel_path))
        raise
    related = {}
    if person.text:
        near = neighbourhood(
            familiar,
            person.rel_path,
            viewer=familiar.privacy.owner(),
            links=False,
            thorough=False,
            within_s=0 if unread else READ_S,
        )
        related = draw_graph(request, near)
    facts = facts_in(familiar, person.rel_path, person.text, viewer)
    public = [fact for fact in facts if not fact.is_private]
    private = [fact for fact in facts if fact.is_private]
    themes = [(name, fact_rows(request, some)) for name, some in person_themes(public).items()]
    summary = summary_of(person.text)
    return PageView(
        "person",
        {
            "person": person,
            "unread": unread,
            "summary": render_markdown(
                summary, person.rel_path, request.base, familiar.numbering, viewer
            ),
            "themes": themes,
            "private": fact_rows(request, newest_facts(private)),
            "related": related,
            "channels": _channels_of(request, person.slug),
            "main": main_account(person.text),
        },
    )


def _file_of_person(request: PageRequest) -> str:
    """Return the file below `people/` that an address names, or once named; or empty."""
    name = f"{PEOPLE_DIR}/{request.path['person']}"
    with suppress(FamiliarError):
        paths = (name, f"{name}.md")
        is_there = request.familiar.memory.exists
        known = next((path for path in paths if is_there(path)), "")
        return known or next((path for path in paths if recent_changes(request, 1, path)), "")
    return ""


def _channels_of(request: PageRequest, slug: str) -> list[tuple[ChannelSummary, bool]]:
    """Return the channels in which a person spoke, and whether each is private."""
    history, private = request.familiar.history, request.familiar.channels.private()
    channels = [one for one in history.channels() if request.viewer.sees_channel(one.channel_id)]
    spoke = people_in(history, [one.channel_id for one in channels])
    return [
        (one, one.channel_id in private)
        for one in channels
        if slug in spoke.get(one.channel_id, ())
    ]


def change_person(request: PageRequest) -> Redirect:
    """Add or remove a person's name, or merge or split people."""
    familiar, person, name = request.familiar, request.path["person"], request.sent("name").strip()
    match request.sent("do"):
        case "add":
            change_people.add_alias(familiar, person, name)
            text = f"{person} is now also called {name!r}."
        case "remove":
            change_people.remove_alias(familiar, person, name)
            text = f"{person} is no longer called {name!r}."
        case "merge":
            change_people.merge(familiar, person, name)
            text = f"Merged {name} into {person}."
        case "split":
            change_people.split(familiar, person)
            text = f"{person} has a file of their own again."
        case other:
            raise UsageError(f"Unknown action for a person: {other[:40]!r}")
    return Redirect(request.to("people", person), (text, "The journal can undo it."))


PAGES: Final = (
    WebPage("/people", show_people),
    WebPage("/people/{person:path}", show_one_person),
    WebPage("/people/{person:path}", change_person, "POST"),
)
