"""The page of `familiar search`: hits, best first, each below its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from familiar_cli.index.types import Hit
from familiar_cli.text import one_line
from familiar_cli.ui.page import Indented, PagePart, Words, plain

if TYPE_CHECKING:
    from familiar_cli.actions.search import PastFound, PastHit
    from familiar_cli.index.types import SearchResult, Signals


def search_page(
    found: SearchResult | None,
    said: PastFound | None = None,
    *,
    k: int,
    lines: bool = False,
    explain: bool = False,
) -> list[PagePart]:
    """Return the `k` best: the text below the place and the headings, or one line each."""
    every: list[Hit | PastHit] = [*(found.hits if found else ()), *(said.hits if said else ())]
    page: list[PagePart] = []
    for number, hit in enumerate(sorted(every, key=lambda hit: -hit.score)[:k]):
        if lines:
            page.append(plain(f"{_address(hit)}:{one_line(hit.text, 10_000)}"))
        else:
            page += [plain("")] * (number > 0) + [_place(hit), _words(hit)]
        if explain and isinstance(hit, Hit):
            page.append(Indented(plain(_signals(hit.signals), "dim")))
    return page


def search_data(found: SearchResult | None, said: PastFound | None, query: str) -> dict[str, Any]:
    """Return a result as `--json` prints it."""
    from dataclasses import asdict

    data = asdict(found) if found else {"query": query, "method": said.method if said else ""}
    if said:
        past = [asdict(hit) | {"at": hit.at.isoformat()} for hit in said.hits]
        data |= {"past": past, "turns_waiting": said.waiting}
    return data


def _address(hit: Hit | PastHit) -> str:
    if not isinstance(hit, Hit):
        return f"{hit.channel}:{hit.turns[0]}"
    return f"{hit.rel_path}:{hit.line}"


def _place(hit: Hit | PastHit) -> PagePart:
    if isinstance(hit, Hit):
        is_told = not hit.day or hit.day in hit.rel_path
        about = one_line(hit.heading if is_told else f"{hit.heading} ({hit.day})", 200)
    else:
        about = f"{one_line(hit.speaker, 60)}, {hit.at:%Y-%m-%d %H:%M}"
    return Words([(_address(hit), "bold"), (f"  {hit.score:.2f}", "dim"), (f"  {about}", "cyan")])


def _words(hit: Hit | PastHit) -> PagePart:
    """Return the text, indented, with the best line of it standing out."""
    if not isinstance(hit, Hit):
        return Indented(plain(hit.text))
    start = max(hit.text.find(hit.best), 0)
    end = start + len(hit.best)
    spans = [(hit.text[:start], ""), (hit.text[start:end], "bold"), (hit.text[end:], "")]
    return Indented(Words(spans))


def _maxsim(signals: Signals) -> tuple[str, ...]:
    if signals.maxsim_line is None or signals.maxsim_passage is None:
        return ()
    return (
        f"tokens {signals.maxsim_line:.3f} in the line, {signals.maxsim_passage:.3f} around it",
    )


def _signals(signals: Signals) -> str:
    shown = [
        f"relevance {signals.relevance:.3f}",
        f"words {signals.lexical:.3f}",
        "meaning -" if signals.dense is None else f"meaning {signals.dense:.3f}",
        *_maxsim(signals),
        "cosine -" if signals.cosine is None else f"cosine {signals.cosine:.3f}",
        f"coverage {signals.coverage:.2f}",
        f"speaker {_yes(signals.speaker)}",
        f"people {signals.people:.2f}",
        f"time {signals.time:.2f}",
        f"recency {signals.recency:.3f}",
        f"linked {_yes(signals.linked)}",
        f"instance {_yes(signals.same_instance)}",
    ]
    return "  ".join(shown)


def _yes(flag: bool) -> str:  # noqa: FBT001
    return "yes" if flag else "no"
