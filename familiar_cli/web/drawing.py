"""HTML of the pages: templates, Markdown, charts as SVG, and the one page that is exported."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from math import sqrt
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from familiar_cli.clock import now
from familiar_cli.errors import FamiliarError, NotFoundError
from familiar_cli.memory.pages.lines import TAG, is_reference, number_spans
from familiar_cli.memory.pages.links import resolve_target
from familiar_cli.text import counted
from familiar_cli.ui.html.elements import Html, el, environment, joined, plain, text
from familiar_cli.visibility import OWNER
from familiar_cli.when import MONTHS, day_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    from familiar_cli.actions.past import DatedFile, DayCount, Lane, Timeline
    from familiar_cli.actions.sent import PromptLayers
    from familiar_cli.familiar import Familiar
    from familiar_cli.memory.pages.lines import Numbering
    from familiar_cli.visibility import Viewer

_PACKAGE: Final = "familiar_cli.web"


def draw_page(template: str, values: Mapping[str, Any]) -> str:
    """Return the page that `template` makes of `values`.

    Args:
        template: Its name, without `.html`.
        values: What stands in it; a name that is missing is an error, not an empty string.
    """
    return environment(_PACKAGE).get_template(f"{template}.html").render(values)


@cache
def stylesheet() -> bytes:
    """Return the one stylesheet; that of the printed pages is its first part."""
    return files("familiar_cli.ui.html").joinpath("page.css").read_bytes() + static_file("web.css")


@cache
def static_file(name: str) -> bytes:
    """Return a file that every page may load."""
    return files(_PACKAGE).joinpath(f"static/{name}").read_bytes()


_WIKI: Final = re.compile(r"\[\[([^\[\]\n|#]{1,200})(#[^\[\]\n|]*)?(?:\|([^\[\]\n]{1,200}))?\]\]")
_WEB: Final = re.compile(r"https?://", re.IGNORECASE)
_MOST_DAYS: Final = 3
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)


def render_markdown(
    markdown: str, rel_path: str, base: str, numbering: Numbering, viewer: Viewer = OWNER
) -> Html:
    """Render the Markdown of a file as HTML.

    Args:
        markdown: The text, without its front matter.
        rel_path: The file, since links in it begin there.
        base: What the addresses of the familiar's pages begin with.
        numbering: Which turns it cites.
        viewer: Who will see it: turns that are hidden from them give no evidence.
    """
    comments = [comment for comment in set(_COMMENT.findall(markdown)) if is_reference(comment)]
    days = dict(zip(comments, numbering.cited_days(comments, viewer), strict=True))
    try:
        made = _make_parser().render(markdown, {"rel_path": rel_path, "base": base, "days": days})
    except RecursionError:
        return el("pre", markdown, dir="auto")
    return Html(made)


def render_inline(words: str, rel_path: str, base: str) -> Html:
    """Render one line of a page as HTML, without a paragraph around it."""
    env = {"rel_path": rel_path, "base": base, "days": {}}
    return Html(_make_parser().renderInline(words, env))


@cache
def _make_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005  # `_link` decides
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _text(_: Any, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:  # noqa: ANN401
    pieces, end, content = [], 0, TAG.sub("", tokens[at].content)
    for found in _WIKI.finditer(content):
        name = found[1].strip()
        href = f"{env['base']}/find?name={quote(name)}&from={quote(env['rel_path'])}"
        pieces += [text(content[end : found.start()]), el("a", found[3] or name, href=href)]
        end = found.end()
    return "".join([*pieces, text(content[end:])])


def _code_token(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:  # noqa: ANN401
    return el("code", tokens[at].content)


def _block_token(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:  # noqa: ANN401
    return el("pre", tokens[at].content, dir="auto", tabindex="0")


def _html_token(_: Any, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:  # noqa: ANN401
    """Return raw HTML as the text that it is; comments are for the program, or name turns."""
    content, pieces, end = tokens[at].content, [], 0
    for comment in _COMMENT.finditer(content):
        pieces += [
            text(content[end : comment.start()].strip("\n")),
            evidence_links(env["days"].get(comment[0]), env["base"]),
        ]
        end = comment.end()
    return "".join([*pieces, text(content[end:].strip("\n"))])


def evidence_links(days: Mapping[date, Sequence[int]] | None, base: str) -> Html:
    """Return links to the words that a line rests on, such as `said on 25 August`.

    Args:
        days: The turns that it cites, by day; None: it cites none.
        base: What the addresses of the familiar's pages begin with.
    """
    if days is None:
        return Html("")
    if not days:
        return el("span", "said elsewhere", class_="evidence", title="The turns are not kept here")
    year, links = now().year, []
    for number, day in enumerate(sorted(days)[-_MOST_DAYS:]):
        said = day_words(day) if day.year != year else day_words(day)[: -len(f" {year}")]
        href = f"{base}/turns/{days[day][0]}"
        told = f"turn {number_spans(days[day])}"
        links.append(el("a", f"{'' if number else 'said on '}{said}", href=href, title=told))
    return el("span", Html(", ".join(links)), class_="evidence")


def _image_token(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:  # noqa: ANN401
    source = tokens[at].attrs.get("src", "")
    return el("span", f"image: {tokens[at].content} ({source})", class_="image")


def _open_link(_: Any, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:  # noqa: ANN401
    href = str(tokens[at].attrs.get("href", ""))
    if _WEB.match(href):
        away = plain(quote(href, safe=":/?#[]@!$&'()*+,;=%~-._"))
        return Html(el("a", href=away, rel="noreferrer noopener", class_="away")[: -len("</a>")])
    there = resolve_target(href, env["rel_path"])
    if there is None:
        return Html(el("a", title=f"leads nowhere: {href}", class_="dead")[: -len("</a>")])
    return Html(el("a", href=f"{env['base']}/memory/{quote(there)}")[: -len("</a>")])


def _cell_token(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:  # noqa: ANN401
    return f"<{tokens[at].tag}>"


_RULES: Final = {
    "text": _text,
    "code_inline": _code_token,
    "code_block": _block_token,
    "fence": _block_token,
    "html_inline": _html_token,
    "html_block": _html_token,
    "image": _image_token,
    "link_open": _open_link,
    "th_open": _cell_token,
    "td_open": _cell_token,
}


_WIDTH: Final = 1000.0
_HEIGHT: Final = 300.0
_FOOT: Final = 24.0


def layers_chart(
    prompts: Sequence[PromptLayers], to_turn: Callable[[int], str], height: float = _HEIGHT
) -> Html:
    """Return the prompts as stacked bars, one a turn; each leads to its turn."""
    if not prompts:
        return Html("")
    used = max(sum(prompt.tokens.values()) for prompt in prompts)
    top = max(used * 1.15, 1.0)  # what prompts may hold is shown where it is not far above
    step = _WIDTH / len(prompts)
    room = height - _FOOT
    bars = []
    for number, prompt in enumerate(prompts):
        x, y = number * step, room
        pieces = []
        for layer, tokens in prompt.tokens.items():
            tall = room * tokens / top
            y -= tall
            lost = prompt.lost_tokens.get(layer, 0)
            told = f"turn {prompt.turn}, {layer}: {tokens:,} tokens"
            told += f", {lost:,} had no room" if lost else ""
            pieces.append(
                _bar_element((x, y, step, tall), told, f"bar layer-{layer.replace('_', '-')}")
            )
        limit = room - room * prompt.budget_tokens / top
        if limit >= 0:
            pieces.append(el("line", x1=x, x2=x + step, y1=limit, y2=limit, class_="limit"))
        if number % max(len(prompts) // 10, 1) == 0:
            label = el("text", str(prompt.turn), x=x + step / 2, y=height - 6, class_="tick")
            pieces.append(label)
        bars.append(el("a", *pieces, href=to_turn(prompt.turn)))
    return el(
        "svg",
        *bars,
        viewBox=f"0 0 {_WIDTH:g} {height:g}",
        class_="chart",
        role="img",
        aria_label=f"What {len(prompts)} prompts were made of, turn by turn; the table says it too",
    )


def _bar_element(place: tuple[float, float, float, float], told: str, class_: str) -> Html:
    x, y, step, tall = place
    wide = max(step - min(step * 0.2, 4), 0.5)
    return el("rect", el("title", told), x=x, y=y, width=wide, height=tall, class_=class_)


_TIMELINE_WIDTH: Final = 1080
_LEFT: Final = 132  # where the first day begins; labels stand before it
_RIGHT: Final = 1068
_TOP: Final = 24  # names of months stand above
_BARS: Final = 96
_ROW: Final = 26
_BAND: Final = 14
_GAP: Final = 14
_MOST_LABEL: Final = 18
_DAY: Final = timedelta(days=1)
_ROWS: Final = {
    "sessions": "sessions",
    "daily": "days",
    "weekly": "weeks",
    "monthly": "months",
    "yearly": "years",
    "significant": "significant",
}


@dataclass(frozen=True, slots=True)
class _Scale:
    first: date
    days: int

    def at(self, day: date) -> float:
        share = (day - self.first).days / self.days
        return _LEFT + (_RIGHT - _LEFT) * min(max(share, 0.0), 1.0)


def timeline_picture(line: Timeline, to: Callable[..., str]) -> Html:
    """Return the picture of a timeline.

    Args:
        line: The timeline.
        to: Makes the address of a page.
    """
    scale = _Scale(line.first, (line.last - line.first).days + 1)
    parts = list(_bars(line, scale, to))
    y = float(_TOP + _BARS + _GAP)
    for directory, label in _ROWS.items():
        parts += [_band_label(label, y), *_file_band(line.rows[directory], scale, y, directory, to)]
        y += _ROW
    if line.lanes:
        y += _GAP
    for lane in line.lanes:
        parts += [_lane_label(lane, y, to), *_day_ticks(lane.days, scale, y, lane.name, to)]
        y += _ROW
    turns = sum(day.turns for day in line.days)
    label = f"{counted(turns, 'turn')} from {day_words(line.first)} to {day_words(line.last)}"
    return el(
        "svg",
        joined(*_month_marks(line, scale, y), *parts),
        class_="timeline",
        viewBox=f"0 0 {_TIMELINE_WIDTH} {y:.0f}",
        role="group",
        aria_label=label,
    )


def _month_marks(line: Timeline, scale: _Scale, bottom: float) -> Iterator[Html]:
    day = line.first
    while day <= line.last:
        x = scale.at(day)
        is_month = day.day == 1
        yield el(
            "line", x1=f"{x:.1f}", y1=_TOP - 6, x2=f"{x:.1f}", y2=f"{bottom:.0f}", class_="grid"
        )
        name = MONTHS[day.month - 1][:3] if is_month else str(day.day)
        yield el("text", name, x=f"{x + 4:.1f}", y=_TOP - 8, class_="axis")
        after = day.replace(day=28) + 4 * _DAY
        if line.span == "month":
            day += 7 * _DAY
        else:
            day = after.replace(day=1)


def _bars(line: Timeline, scale: _Scale, to: Callable[..., str]) -> Iterator[Html]:
    most = max((day.turns for day in line.days), default=1)
    base = _TOP + _BARS
    yield _band_label("turns a day", base - _BAND)
    yield el("line", x1=_LEFT, y1=base, x2=_RIGHT, y2=base, class_="axis-line")
    for day in line.days:
        height = max(2.0, sqrt(day.turns / most) * _BARS)
        x, end = scale.at(day.day), scale.at(day.day + _DAY)
        box = _box_element("bar", x, base - height, _text_width(x, end), height)
        said = f"{day_words(day.day)}: {counted(day.turns, 'turn')}"
        yield _link_to(to("turns", day.first), said, box)


def _file_band(
    marks: tuple[DatedFile, ...], scale: _Scale, y: float, kind: str, to: Callable[..., str]
) -> Iterator[Html]:
    for mark in marks:
        x, end = scale.at(mark.first), scale.at(mark.last + _DAY)
        box = _box_element(f"band {kind}", x, y, _text_width(x, end), _BAND)
        yield _link_to(to("memory", mark.rel_path), mark.rel_path, box)


def _day_ticks(
    days: tuple[DayCount, ...], scale: _Scale, y: float, name: str, to: Callable[..., str]
) -> Iterator[Html]:
    for day in days:
        x, end = scale.at(day.day), scale.at(day.day + _DAY)
        said = f"{name}, {day_words(day.day)}: {counted(day.turns, 'turn')}"
        yield _link_to(
            to("turns", day.first), said, _box_element("tick", x, y, _text_width(x, end), _BAND)
        )


def _lane_label(lane: Lane, y: float, to: Callable[..., str]) -> Html:
    label = _band_label(lane.name, y)
    return _link_to(to("memory", lane.rel_path), lane.name, label) if lane.rel_path else label


def _band_label(name: str, y: float) -> Html:
    short = name if len(name) <= _MOST_LABEL else f"{name[: _MOST_LABEL - 1]}…"
    return el("text", short, x=_LEFT - 10, y=f"{y + _BAND - 3:.0f}", class_="row-label")


def _box_element(kind: str, x: float, y: float, width: float, height: float) -> Html:
    return el(
        "rect",
        class_=kind,
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        width=f"{width:.1f}",
        height=f"{height:.1f}",
        rx=2 if width > 4 else None,  # noqa: PLR2004  # px
    )


def _link_to(address: str, said: str, shape: Html) -> Html:
    return el("a", el("title", said), shape, href=address, aria_label=said)


def _text_width(x: float, end: float) -> float:
    return max(1.6, end - x - (1 if end - x > 4 else 0.4))  # noqa: PLR2004  # px


_MOST_TURNS: Final = 200
_MOST_FILES: Final = 500
_MOST_FILE_BYTES: Final = 40_000
_MOST_CHANGES: Final = 100
_INSIDE: Final = "#"  # addresses of pages become places in this one


def export_page(familiar: Familiar) -> str:
    """Return the page: it needs no server and no network, and holds no script."""
    from familiar_cli.actions.sent import layers_over_time
    from familiar_cli.actions.status import status_of
    from familiar_cli.clock import now
    from familiar_cli.history.selection import TurnFilter, newest_turns
    from familiar_cli.web.asking import with_speakers

    said = [kept.turn for kept in newest_turns(familiar.history, TurnFilter(OWNER), _MOST_TURNS)]
    files, left_out = _page_files(familiar)
    values: dict[str, Any] = {
        "name": familiar.name,
        "status": status_of(familiar),
        "made_at": now(),
        "zone": familiar.zone,
        "turns": with_speakers(familiar, said),
        "chart": layers_chart(layers_over_time(familiar), lambda turn: f"#/turns/{turn}"),
        "files": files,
        "left_out": left_out,
        "changes": _recent_changes(familiar),
        "style": Html(stylesheet().decode("utf-8")),
        "to": lambda *parts: "#/" + "/".join(map(str, parts)),
    }
    return draw_page("export", values)


def _page_files(familiar: Familiar) -> tuple[list[tuple[str, Html]], int]:
    """Return the pages of the memory, and how many there are besides."""
    from familiar_cli.markdown import split_front_matter
    from familiar_cli.memory.pages.links import is_page

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
        made.append(
            (rel_path, render_markdown(split_front_matter(text)[1], rel_path, _INSIDE, numbering))
        )
    return made, len(found) - len(made)


def _recent_changes(familiar: Familiar) -> list[Any]:
    try:
        return list(familiar.past.log(limit=_MOST_CHANGES))
    except NotFoundError:
        return []
