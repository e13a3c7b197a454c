"""The page that needs no server: memory, turns, relations, time and prompts of a familiar."""

from __future__ import annotations

from typing import Any, Final

from familiar_cli.actions.memory.graph import overview
from familiar_cli.actions.memory.past import timeline
from familiar_cli.base.errors import FamiliarError, NotFoundError
from familiar_cli.base.markdown import split_front_matter
from familiar_cli.base.times.clock import now, to_zone
from familiar_cli.base.who.visibility import NOBODY, OWNER
from familiar_cli.familiar import Familiar
from familiar_cli.servers.web import drawing
from familiar_cli.servers.web.asking import with_speakers
from familiar_cli.servers.web.html.elements import Html
from familiar_cli.servers.web.html.pictures import ego_svg
from familiar_cli.servers.web.relation_pages import nearest_pages
from familiar_cli.store.history.selection import TurnFilter, newest_turns
from familiar_cli.store.memory.layout import is_page

_MOST_TURNS: Final = 200
_MOST_FILES: Final = 500
_MOST_FILE_BYTES: Final = 40_000
_MOST_CHANGES: Final = 100
_INSIDE: Final = "#"  # links between pages become anchors


def export_page(familiar: Familiar) -> str:
    """Render the export page: self-contained, without scripts or network access."""
    from familiar_cli.actions.health.status import status_of
    from familiar_cli.actions.talk.sent import layers_over_time

    turns = [
        selection.turn
        for selection in newest_turns(familiar.history, TurnFilter(OWNER), _MOST_TURNS)
    ]
    files, left_out = _page_files(familiar)
    values: dict[str, Any] = {
        "name": familiar.name,
        "status": status_of(familiar),
        "made_at": now(),
        "zone": familiar.zone,
        "turns": with_speakers(familiar, turns),
        "prompts": layers_over_time(familiar),
        "files": files,
        "left_out": left_out,
        "changes": _recent_changes(familiar),
        "style": Html(drawing.stylesheet().decode("utf-8")),
        "to": lambda *parts: "#/" + "/".join(map(str, parts)),
    }
    values |= _pictures(familiar, values)
    return drawing.draw_page("export", values)


def _pictures(familiar: Familiar, values: dict[str, Any]) -> dict[str, Any]:
    """Return the charts of relations and time, linked within the page."""
    there = {f"#/memory/{path}" for path, _ in values["files"]}
    there |= {f"#/turns/{turn.id}" for turn, _ in values["turns"]}
    days: dict[str, str] = {}
    for turn, _ in values["turns"]:
        days.setdefault(f"#/diary/{to_zone(turn.at, familiar.zone).date()}", f"#/turns/{turn.id}")

    def to(*parts: object) -> str:
        address = f"#/{'/'.join(map(str, parts))}"
        return days.get(address) or (address if address in there else "")

    line, graph = timeline(familiar), overview(familiar, viewer=NOBODY)
    near = nearest_pages(graph)
    picture = ego_svg(near, lambda node: to("memory", node.path)) if graph.edges else Html("")
    return {
        "line": line if line.days else None,
        "to_kept": to,
        "relations": picture,
        "more_related": len(graph.nodes) - len(near.nodes),
    }


def _page_files(familiar: Familiar) -> tuple[list[tuple[str, Html]], int]:
    """Return the memory pages, and the number left out."""
    try:
        entries = familiar.memory.walk().files
    except NotFoundError:
        return [], 0
    pages = [entry.rel_path for entry in entries if is_page(entry.rel_path)]
    items, numbering = [], familiar.numbering
    for rel_path in pages[:_MOST_FILES]:
        try:
            text = familiar.memory.read_head(rel_path, _MOST_FILE_BYTES).text
        except FamiliarError:
            continue
        items.append(
            (
                rel_path,
                drawing.render_markdown(split_front_matter(text)[1], rel_path, _INSIDE, numbering),
            )
        )
    return items, len(entries) - len(items)


def _recent_changes(familiar: Familiar) -> list[Any]:
    try:
        return list(familiar.past.log(limit=_MOST_CHANGES))
    except NotFoundError:
        return []
