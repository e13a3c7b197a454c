"""HTML templates, and SVG elements built from Python values; plain text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime, tzinfo
from functools import cache, lru_cache
from html import escape
from itertools import groupby
from typing import Final

import jinja2

from familiar_cli.base.text import counted, one_line, size_words
from familiar_cli.base.times.clock import to_zone
from familiar_cli.base.times.when import day_words

# Controls, lone surrogates, and marks that reorder or hide text are shown by their numbers. Joiners
# are not among them, since emoji and several scripts need them.
_UNSEEN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069"
    r"\ufeff\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9:-]*")
_BARE: Final = frozenset({"title", "text", "tspan"})  # they contain no HTML elements


class Html(str):
    """Markup that is already escaped."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return it, for templates."""
        return self


def el(name: str, /, *children: str, **attributes: object) -> Html:
    """Build one element.

    Args:
        children: Its content: markup stays, other text is escaped.
        attributes: None and False omit an attribute, True gives it no value. `class_` is `class`,
            and underscores become hyphens.
    """
    shown = _escape_text if name in _BARE else text
    inner = "".join(child if isinstance(child, Html) else shown(child) for child in children)
    start = f"<{name}{''.join(_attribute_text(key, value) for key, value in attributes.items())}>"
    if name == "pre":
        inner = f"\n{inner}"  # a browser drops the first newline, which must not be the text's own
    return Html(f"{start}{inner}</{name}>")


def joined(*parts: Html) -> Html:
    """Concatenate elements."""
    return Html("\n".join(parts))


def text(value: str) -> Html:
    """Escape text, showing invisible characters by their numbers."""
    seen = escape(value.replace("\r\n", "\n"), quote=True)
    return Html(
        _UNSEEN.sub(lambda match: f'<span class="unseen">{_short_number(match)}</span>', seen)
    )


def _escape_text(value: str) -> Html:
    return Html(escape(plain(value), quote=True))


def plain(value: str) -> str:
    """Convert text for an attribute or a title, where markup is impossible."""
    return _UNSEEN.sub(lambda match: f"[{_short_number(match)}]", value.replace("\r\n", "\n"))


def _short_number(match: re.Match[str]) -> str:
    return f"U+{ord(match[0]):04X}"


def _attribute_text(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not an attribute")
    shown = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f" {name}" if value is True else f' {name}="{escape(plain(shown), quote=True)}"'


def layer_class(layer: object) -> str:
    """Return the CSS class for a layer's colour."""
    return f"layer-{str(layer).replace('_', '-')}"


def _finalize(value: object) -> object:
    """Convert a value for a template, showing hidden and reordering marks by their numbers."""
    if value is None:
        return ""
    return value if hasattr(value, "__html__") else plain(str(value))


# The element for each style of a terminal; a quotation brings its own marks.
_TAGS: Final = {"bold": "strong", "italic": "em", "cyan": "q", "green": "code"}


@lru_cache(maxsize=2048)
def spoken(value: str) -> Html:
    """Render speech, with actions, quotes, bold, code and lists as on a terminal."""
    from familiar_cli.pages.stream import spoken_runs  # Rich

    return speech_html(spoken_runs(value.replace("\r\n", "\n")))


def speech_html(runs: Iterable[tuple[str, str]]) -> Html:
    """Render styled text; `static/talk.js` draws what streams in the same way."""
    from familiar_cli.pages.stream import BAR, LINES  # Rich

    lines = []
    for line, alike in groupby(runs, key=lambda run: next(iter(LINES & set(run[1].split())), "")):
        pieces = [_styled_piece(piece.replace(BAR, "") if line else piece, style)
                  for piece, style in alike]  # fmt: skip
        lines.append(el("span", *pieces, class_=line) if line else Html("".join(pieces)))
    return Html("".join(lines))


def _styled_piece(piece: str, style: str) -> Html:
    html = text(piece)
    for name in style.split():
        if name in _TAGS:
            html = el(_TAGS[name], html)
    return html


def _exact(value: str) -> Html:
    """Escape a text for a form field, so that it is sent back unchanged."""
    return Html(escape(value, quote=True))


def _moment(at: datetime | None, zone: tzinfo | None, form: str = "long") -> str:
    """Format a time in the familiar's timezone; empty if there is none.

    `day` gives `25 August 2026`, and `long` the time as well; any other form is `strftime`'s.
    """
    if at is None:
        return ""
    local = to_zone(at, zone)
    if form in {"day", "long"}:
        return day_words(local) + (f", {local:%H:%M}" if form == "long" else "")
    return local.strftime(form)


def _day(day: date | str) -> str:
    return day_words(date.fromisoformat(day[:10]) if isinstance(day, str) else day)


def _unlink_text(value: str) -> str:
    from familiar_cli.store.memory.pages.links import words_of_links  # loads more than needed

    return words_of_links(value)


@cache
def environment(package: str) -> jinja2.Environment:
    """Build the template environment of a package; a missing name is an error."""
    result = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
        auto_reload=False,
    )
    result.filters |= {
        "seen": text,
        "bare": _escape_text,
        "spoken": spoken,
        "exact": _exact,
        "counted": counted,
        "day": _day,
        "layer_class": layer_class,
        "one_line": one_line,
        "moment": _moment,
        "size": size_words,
        "unlinked": _unlink_text,
        "thousands": lambda number: f"{number:,}",
    }
    return result
