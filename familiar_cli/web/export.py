"""One page that holds a familiar: its memory, its last turns and prompts, and how it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import FamiliarError, NotFoundError
from familiar_cli.visibility import OWNER
from familiar_cli.web.rendering import draw, stylesheet

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.ui.html.elements import Html

_MOST_TURNS: Final = 200
_MOST_FILES: Final = 500
_MOST_FILE_BYTES: Final = 40_000
_MOST_CHANGES: Final = 100
_INSIDE: Final = "#"  # addresses of pages become places in this one


def exported(familiar: Familiar) -> str:
    """Return the page: it needs no server and no network, and holds no script."""
    from familiar_cli.actions.sent import layers_over_time
    from familiar_cli.actions.status import status_of
    from familiar_cli.clock import now
    from familiar_cli.history.selection import TurnFilter, newest
    from familiar_cli.ui.html.elements import Html
    from familiar_cli.web.asking import with_speakers
    from familiar_cli.web.charts import layers_chart

    said = [kept.turn for kept in newest(familiar.history, TurnFilter(OWNER), _MOST_TURNS)]
    files, left_out = _files(familiar)
    values: dict[str, Any] = {
        "name": familiar.name,
        "status": status_of(familiar),
        "made_at": now(),
        "zone": familiar.zone,
        "turns": with_speakers(familiar, said),
        "chart": layers_chart(layers_over_time(familiar), lambda turn: f"#/turns/{turn}"),
        "files": files,
        "left_out": left_out,
        "changes": _changes(familiar),
        "style": Html(stylesheet().decode("utf-8")),
        "to": lambda *parts: "#/" + "/".join(map(str, parts)),
    }
    return draw("export", values)


def _files(familiar: Familiar) -> tuple[list[tuple[str, Html]], int]:
    """Return the pages of the memory, and how many there are besides."""
    from familiar_cli.markdown import split_front_matter
    from familiar_cli.memory.pages.links import is_page
    from familiar_cli.web.rendering import rendered

    try:
        found = familiar.memory.walk().files
    except NotFoundError:
        return [], 0
    pages = [entry.rel_path for entry in found if is_page(entry.rel_path)]
    made, numbering = [], familiar.numbering
    for rel_path in pages[:_MOST_FILES]:
        try:
            text = familiar.memory.read_head(rel_path, _MOST_FILE_BYTES).text
        except FamiliarError:
            continue
        made.append((rel_path, rendered(split_front_matter(text)[1], rel_path, _INSIDE, numbering)))
    return made, len(found) - len(made)


def _changes(familiar: Familiar) -> list[Any]:
    try:
        return list(familiar.past.log(limit=_MOST_CHANGES))
    except NotFoundError:
        return []
