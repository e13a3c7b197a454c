"""The page of `familiar search`: hits, best first, each below its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from familiar_cli.text import harmless, one_line
from familiar_cli.ui.terminal import indented, plain

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from familiar_cli.index.types import Hit, SearchResult, Signals


def search_page(
    found: SearchResult, *, lines: bool = False, explain: bool = False
) -> list[RenderableType]:
    """Return the hits: the text below the place and the headings, or one line each."""
    page: list[RenderableType] = []
    for number, hit in enumerate(found.hits):
        if lines:
            page.append(plain(f"{hit.rel_path}:{hit.line}:{one_line(hit.text, 10_000)}"))
        else:
            page += [plain("")] * (number > 0) + [_place(hit), _words(hit)]
        if explain:
            page.append(indented(plain(_signals(hit.signals), "dim")))
    return page


def search_data(found: SearchResult) -> dict[str, Any]:
    """Return a result as `--json` prints it."""
    from dataclasses import asdict

    return asdict(found)


def _place(hit: Hit) -> Text:
    line = plain(f"{hit.rel_path}:{hit.line}", "bold")
    line.append(f"  {hit.score:.2f}", style="dim")
    about = hit.heading if not hit.day or hit.day in hit.rel_path else f"{hit.heading} ({hit.day})"
    line.append(f"  {one_line(about, 200)}", style="cyan")
    return line


def _words(hit: Hit) -> RenderableType:
    """Return the text, indented, with the best line of it standing out."""
    start = max(hit.best_start - hit.char_start, 0)
    end = max(min(hit.best_end, hit.char_end) - hit.char_start, start)
    parts = ((hit.text[:start], ""), (hit.text[start:end], "bold"), (hit.text[end:], ""))
    text = plain("")
    for words, style in parts:
        text.append(harmless(words), style=style)
    return indented(text)


def _signals(signals: Signals) -> str:
    shown = [
        f"relevance {signals.relevance:.3f}",
        f"words {signals.lexical:.3f}",
        "meaning -" if signals.dense is None else f"meaning {signals.dense:.3f}",
        "cosine -" if signals.cosine is None else f"cosine {signals.cosine:.3f}",
        f"coverage {signals.coverage:.2f}",
        f"speaker {_yes(signals.speaker)}",
        f"recency {signals.recency:.3f}",
        f"linked {_yes(signals.linked)}",
        f"instance {_yes(signals.same_instance)}",
    ]
    return "  ".join(shown)


def _yes(flag: bool) -> str:  # noqa: FBT001
    return "yes" if flag else "no"
