"""Templates: every text is escaped, and what cannot be seen in it is shown by its number."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import jinja2

from familiar_cli.clock import to_zone
from familiar_cli.text import counted, one_line
from familiar_cli.ui.html.elements import Html, plain, text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, tzinfo

_ROOM: Final = files("familiar_cli.web")


def draw(template: str, values: Mapping[str, Any]) -> str:
    """Return the page that `template` makes of `values`.

    Args:
        template: Its name, without `.html`.
        values: What stands in it; a name that is missing is an error, not an empty string.
    """
    return _environment().get_template(f"{template}.html").render(values)


@cache
def stylesheet() -> bytes:
    """Return the one stylesheet; that of the printed pages is its first part."""
    shared = files("familiar_cli.ui.html").joinpath("page.css").read_bytes()
    return shared + _ROOM.joinpath("static/web.css").read_bytes()


@cache
def static(name: str) -> bytes:
    """Return a file that every page may load."""
    return _ROOM.joinpath(f"static/{name}").read_bytes()


def moment(at: datetime | None, zone: tzinfo | None, form: str = "%Y-%m-%d %H:%M") -> str:
    """Return a time as people read it where the familiar lives; empty: there is none."""
    return "" if at is None else to_zone(at, zone).strftime(form)


def _finalize(value: object) -> object:
    """Return what stands for a value: marks that hide or reorder text are shown by number."""
    if value is None:
        return ""
    return value if hasattr(value, "__html__") else plain(str(value))


def _exact(value: str) -> Html:
    """Return a text for a field of a form, which sends it back to the character."""
    return Html(escape(value, quote=True))


def _size(size_bytes: int) -> str:
    from familiar_cli.ui.memory_pages import size_text  # it loads more than needed

    return size_text(size_bytes)


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("familiar_cli.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
        auto_reload=False,
    )
    made.filters |= {
        "seen": text,
        "exact": _exact,
        "counted": counted,
        "one_line": one_line,
        "moment": moment,
        "size": _size,
        "thousands": lambda number: f"{number:,}",
    }
    return made
