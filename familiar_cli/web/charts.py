"""Charts as SVG, drawn here: no script, every bar has a title, and a table says the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.ui.html.elements import Html, el

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from familiar_cli.actions.layers import PromptLayers

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
