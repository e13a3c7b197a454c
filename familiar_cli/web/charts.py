"""Charts and the timeline as SVG without scripts; every bar has a title."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from math import sqrt
from typing import TYPE_CHECKING, Final

from familiar_cli.text import counted
from familiar_cli.ui.html.elements import Html, el, joined
from familiar_cli.when import MONTHS, day_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from familiar_cli.actions.past import DatedFile, DayCount, Lane, Timeline
    from familiar_cli.actions.sent import PromptLayers


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
            pieces.append(_bar((x, y, step, tall), told, f"bar layer-{layer.replace('_', '-')}"))
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


def _bar(place: tuple[float, float, float, float], told: str, class_: str) -> Html:
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


def svg(line: Timeline, to: Callable[..., str]) -> Html:
    """Return the picture of a timeline.

    Args:
        line: The timeline.
        to: Makes the address of a page.
    """
    scale = _Scale(line.first, (line.last - line.first).days + 1)
    parts = list(_bars(line, scale, to))
    y = float(_TOP + _BARS + _GAP)
    for directory, label in _ROWS.items():
        parts += [_label(label, y), *_band(line.rows[directory], scale, y, directory, to)]
        y += _ROW
    if line.lanes:
        y += _GAP
    for lane in line.lanes:
        parts += [_lane_label(lane, y, to), *_ticks(lane.days, scale, y, lane.name, to)]
        y += _ROW
    turns = sum(day.turns for day in line.days)
    label = f"{counted(turns, 'turn')} from {day_words(line.first)} to {day_words(line.last)}"
    return el(
        "svg",
        joined(*_months(line, scale, y), *parts),
        class_="timeline",
        viewBox=f"0 0 {_TIMELINE_WIDTH} {y:.0f}",
        role="group",
        aria_label=label,
    )


def _months(line: Timeline, scale: _Scale, bottom: float) -> Iterator[Html]:
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
    yield _label("turns a day", base - _BAND)
    yield el("line", x1=_LEFT, y1=base, x2=_RIGHT, y2=base, class_="axis-line")
    for day in line.days:
        height = max(2.0, sqrt(day.turns / most) * _BARS)
        x, end = scale.at(day.day), scale.at(day.day + _DAY)
        box = _box("bar", x, base - height, _width(x, end), height)
        said = f"{day_words(day.day)}: {counted(day.turns, 'turn')}"
        yield _link(to("turns", day.first), said, box)


def _band(
    marks: tuple[DatedFile, ...], scale: _Scale, y: float, kind: str, to: Callable[..., str]
) -> Iterator[Html]:
    for mark in marks:
        x, end = scale.at(mark.first), scale.at(mark.last + _DAY)
        box = _box(f"band {kind}", x, y, _width(x, end), _BAND)
        yield _link(to("memory", mark.rel_path), mark.rel_path, box)


def _ticks(
    days: tuple[DayCount, ...], scale: _Scale, y: float, name: str, to: Callable[..., str]
) -> Iterator[Html]:
    for day in days:
        x, end = scale.at(day.day), scale.at(day.day + _DAY)
        said = f"{name}, {day_words(day.day)}: {counted(day.turns, 'turn')}"
        yield _link(to("turns", day.first), said, _box("tick", x, y, _width(x, end), _BAND))


def _lane_label(lane: Lane, y: float, to: Callable[..., str]) -> Html:
    label = _label(lane.name, y)
    return _link(to("memory", lane.rel_path), lane.name, label) if lane.rel_path else label


def _label(name: str, y: float) -> Html:
    short = name if len(name) <= _MOST_LABEL else f"{name[: _MOST_LABEL - 1]}…"
    return el("text", short, x=_LEFT - 10, y=f"{y + _BAND - 3:.0f}", class_="row-label")


def _box(kind: str, x: float, y: float, width: float, height: float) -> Html:
    return el(
        "rect",
        class_=kind,
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        width=f"{width:.1f}",
        height=f"{height:.1f}",
        rx=2 if width > 4 else None,  # noqa: PLR2004  # px
    )


def _link(address: str, said: str, shape: Html) -> Html:
    return el("a", el("title", said), shape, href=address, aria_label=said)


def _width(x: float, end: float) -> float:
    return max(1.6, end - x - (1 if end - x > 4 else 0.4))  # noqa: PLR2004  # px
