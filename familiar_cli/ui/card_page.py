"""The pages of `familiar card`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Group
from rich.panel import Panel

from familiar_cli.text import counted, harmless, one_line
from familiar_cli.ui.terminal import columns, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from familiar_cli.bootstrap.card_findings import CardFinding
    from familiar_cli.bootstrap.card_summary import CardSummary, EntrySummary

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
    """Return a card as a page of a picture book; without frames it suits a pipe."""
    parts = [_title(summary, framed=framed)]
    parts += [
        _part(field.title, f"{field.tokens} tokens", field.text, framed=framed)
        for field in summary.fields
    ]
    parts += _greetings(summary, framed=framed)
    if summary.depth_prompt:
        given = summary.depth_prompt
        where = f"depth {given['depth']}, as {given['role']}"
        parts.append(_part("Depth prompt", one_line(where), given["prompt"], framed=framed))
    if summary.book:
        parts.append(_book(summary, framed=framed))
    parts.append(columns([[plain(name, "dim"), plain(value)] for name, value in _rest(summary)]))
    return Group(*parts)


def findings_page(findings: Sequence[CardFinding]) -> RenderableType:
    """Return what is wrong or unusual in a card, one line each."""
    return columns(
        [
            plain(f.severity, _STYLES[f.severity]),
            plain(one_line(f.where)),
            plain(one_line(f.message, 400)),
        ]
        for f in findings
    )


def _title(summary: CardSummary, *, framed: bool) -> RenderableType:
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


def _part(title: str, fact: str, text: str, *, framed: bool) -> RenderableType:
    """Return one text of the card: its length, and how it begins."""
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


def _greetings(summary: CardSummary, *, framed: bool) -> list[RenderableType]:
    others = summary.greetings[1:]
    return [
        _part(f"Greeting {number}", f"of {len(summary.greetings)}", text, framed=framed)
        for number, text in enumerate(others, start=2)
    ]


def _book(summary: CardSummary, *, framed: bool) -> RenderableType:
    name = f" “{one_line(summary.book_name)}”" if summary.book_name else ""
    title = f"Book{name}, {counted(len(summary.book), 'entry', 'entries')}"
    table = columns(
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


def _rest(summary: CardSummary) -> Iterator[tuple[str, str]]:
    yield "", ""
    yield "in every prompt", f"{summary.sent_tokens} tokens (counted by {summary.counter})"
    if summary.example_blocks:
        yield "example talk", counted(summary.example_blocks, "block")
    for kind, name, uri in summary.assets:
        yield "asset", one_line(f"{kind} {name}: {uri}", _LINE_CHARS)
    for path, size in summary.members:
        yield "carries", f"{one_line(path, _LINE_CHARS)} ({size} bytes)"
    if summary.other:
        yield "kept for others", one_line(", ".join(summary.other), 400)
