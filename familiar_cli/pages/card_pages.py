"""Pages of character cards: their content and their problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel

from familiar_cli.base.text import counted, harmless, one_line
from familiar_cli.pages.terminal import column_table, plain

if TYPE_CHECKING:
    from familiar_cli.imports.card_check import CardFinding, CardSummary, EntrySummary

_PANEL_CHARS: Final = 420
_LINE_CHARS: Final = 88
_KEYS_CHARS: Final = 32
_SPECS: Final = {
    "v1": "card of version 1",
    "v2": "card of version 2",
    "v3": "card of version 3",
    "pygmalion": "Pygmalion card",
    "textgen": "text-generation character",
}
_STYLES: Final = {"error": "bold red", "warning": "yellow", "note": "dim"}


def card_page(summary: CardSummary, *, framed: bool) -> RenderableType:
    """Render a card with frames, or without them for a pipe."""
    parts = [_card_title(summary, framed=framed)]
    parts += [
        _card_part(field.title, counted(field.tokens, "token"), field.text, framed=framed)
        for field in summary.fields
    ]
    parts += [
        _card_part(f"Greeting {number}", f"of {len(summary.greetings)}", text, framed=framed)
        for number, text in enumerate(summary.greetings[1:], start=2)
    ]
    if summary.depth_prompt:
        given = summary.depth_prompt
        where = f"depth {given['depth']}, as {given['role']}"
        parts.append(_card_part("Depth prompt", one_line(where), given["prompt"], framed=framed))
    if summary.book:
        parts.append(_book_part(summary, framed=framed))
    facts = [[plain(name, "dim"), plain(value)] for name, value in _rest_facts(summary)]
    return Group(*parts, column_table(facts))


def findings_page(findings: Sequence[CardFinding]) -> RenderableType:
    """List the problems of a card, one line each."""
    return column_table(
        [
            plain(f.severity, _STYLES[f.severity]),
            plain(one_line(f.where)),
            plain(one_line(f.message, 400)),
        ]
        for f in findings
    )


def _card_title(summary: CardSummary, *, framed: bool) -> RenderableType:
    facts = [f"{_SPECS[summary.spec]}, {summary.container}"]
    if summary.version:
        facts.append(f"version {summary.version}")
    if summary.creator:
        facts.append(f"by {summary.creator}")
    lines = [one_line(" · ".join(facts), 200)]
    if summary.tags:
        lines.append(one_line(", ".join(summary.tags), 200))
    if summary.creator_notes:
        lines.append(f"“{one_line(summary.creator_notes, 240)}”")
    name = one_line(summary.name)
    if summary.nickname:
        name += f", called {one_line(summary.nickname)}"
    if not framed:
        return Group(plain(name), *(plain(line) for line in lines))
    return Panel(
        plain("\n".join(lines)), title=plain(f" {name} ", "bold"), box=box.DOUBLE, style="cyan"
    )


def _card_part(title: str, fact: str, text: str, *, framed: bool) -> RenderableType:
    """Return a text of the card with its length, truncated."""
    if not framed:
        return Group(plain(f"\n{title}, {fact}"), plain(f"  {one_line(text, _LINE_CHARS)}"))
    whole = harmless(text).strip()
    begins = whole if len(whole) <= _PANEL_CHARS else whole[:_PANEL_CHARS].rstrip() + " …"
    return Panel(
        plain(begins),
        title=plain(f" {title} ", "bold"),
        title_align="left",
        subtitle=plain(f" {fact} ", "dim"),
        subtitle_align="right",
        box=box.ROUNDED,
    )


def _book_part(summary: CardSummary, *, framed: bool) -> RenderableType:
    name = f" “{one_line(summary.book_name)}”" if summary.book_name else ""
    title = f"Book{name}, {counted(len(summary.book), 'entry', 'entries')}"
    table = column_table(
        [plain(one_line(e.title, 30), "bold"), plain(_called_by(e)), plain(one_line(e.content, 60))]
        for e in summary.book
    )
    if not framed:
        return Group(plain(f"\n{title}"), table)
    return Panel(table, title=plain(f" {title} ", "bold"), title_align="left", box=box.ROUNDED)


def _called_by(entry: EntrySummary) -> str:
    if not entry.enabled:
        return "(disabled)"
    return "(always)" if entry.constant else one_line(", ".join(entry.keys), _KEYS_CHARS)


def _rest_facts(summary: CardSummary) -> Iterator[tuple[str, str]]:
    yield "", ""
    tokens = counted(summary.sent_tokens, "token")
    yield "in every prompt", f"{tokens} (counted by {summary.counter})"
    if summary.example_blocks:
        yield "example talk", counted(summary.example_blocks, "block")
    for kind, name, uri in summary.assets:
        yield "asset", one_line(f"{kind} {name}: {uri}", _LINE_CHARS)
    for path, size in summary.members:
        yield "carries", f"{one_line(path, _LINE_CHARS)} ({size} bytes)"
    if summary.other:
        yield "kept for others", one_line(", ".join(summary.other), 400)
