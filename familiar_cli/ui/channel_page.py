"""The pages of `familiar channel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.text import one_line
from familiar_cli.ui.settings_page import written
from familiar_cli.ui.terminal import columns, local, plain
from familiar_cli.ui.widgets import Name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from rich.console import RenderableType

    from familiar_cli.actions.channels import ListedChannel, ShownChannel

_VALUE_CHARS = 60


def channels_page(rows: Sequence[ListedChannel], zone: tzinfo | None) -> RenderableType:
    """Return the channels as a table."""
    body: list[list[RenderableType]] = [
        [
            Name(row.id, "bold"),
            plain(row.label),
            plain("?" if row.problem else row.mode),
            plain(", ".join(_state(row))),
            plain(row.turns),
            plain(local(row.last_at, zone)),
            plain(", ".join(row.subscribed), "dim"),
        ]
        for row in rows
    ]
    head = ("id", "label", "mode", "", "turns", "last turn", "listens")
    return columns(body, head, right=(4,))


def _state(row: ListedChannel) -> list[str]:
    states = (("private", row.private), ("withdrawn", row.withdrawn))
    branch = [] if row.parent is None else [_branch(row)]
    return [*branch, *(name for name, holds in states if holds)]


def _branch(row: ListedChannel) -> str:
    at = "" if row.parent_turn is None else f" at turn {row.parent_turn}"
    return one_line(f"branch of {row.parent}{at}", _VALUE_CHARS)


def channel_page(shown: ShownChannel, zone: tzinfo | None) -> RenderableType:
    """Return what holds in one channel."""
    row = shown.listed
    last = f"{row.turns:,} turns, the last at {local(row.last_at, zone)}"
    said = last if row.turns else "no turns yet"
    stays = "; its turns are not shown in other channels" if row.private else ""
    branch = [] if row.parent is None else [_cells("branch", _branch(row), "")]
    body = [
        _cells("label", row.label + stays, ""),
        *branch,
        _cells("turns", said, ""),
        _cells("file", shown.path, ""),
        _cells("prompt", f"{shown.total_tokens} tokens: {shown.reason}", ""),
    ]
    body += [
        _cells(held.key, one_line(written(held.value), _VALUE_CHARS), held.source)
        for held in shown.channel.held
    ]
    return columns(body, ("setting", "value", "from"))


def _cells(name: str, value: str, source: str) -> list[RenderableType]:
    own = source == "channel"
    return [plain(name, "bold" if own else ""), plain(value), plain(source, "" if own else "dim")]
