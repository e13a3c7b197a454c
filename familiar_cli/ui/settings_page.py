"""Pages of `familiar config show` and `familiar channel`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from familiar_cli.text import one_line
from familiar_cli.ui.page import Name
from familiar_cli.ui.terminal import columns, local, plain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from rich.console import RenderableType

    from familiar_cli.actions.channels import ListedChannel, ShownChannel
    from familiar_cli.config.origin import Effective


_VALUE_CHARS = 48


def settings_page(
    rows: Sequence[Effective], where: Sequence[tuple[str, str, str]]
) -> RenderableType:
    """Return all settings as a table: what holds, and where that comes from.

    Args:
        rows: The settings.
        where: Further rows `(name, value, source)` to show first, with values in full.
    """
    body = [_cells(name, value, source) for name, value, source in where]
    body += [_row(row) for row in rows]
    return columns(body, ("setting", "value", "from"))


def setting_page(row: Effective) -> RenderableType:
    """Return everything about one setting."""
    setting = row.setting
    lines = [
        ("value", written(row.value)),
        ("from", row.source),
        *([("in effect", _in_effect(row))] if row.effective is not None else []),
        ("default", written(setting.default)),
        ("allowed", setting.allowed),
        ("meaning", setting.doc),
    ]
    if setting.env:
        lines.append(("variable", f"{setting.env} overrides the file"))
    return columns([[plain(name, "dim"), plain(value)] for name, value in lines])


def written(value: object) -> str:
    """Return a value as text; an empty text is shown as such."""
    if isinstance(value, tuple | list):
        return json.dumps(list(value), ensure_ascii=False)
    return '""' if value == "" else str(value)


def _in_effect(row: Effective) -> str:
    return f"{written(row.effective)} ({row.effective_source})"


def _row(row: Effective) -> list[RenderableType]:
    if row.effective is not None:
        value = one_line(written(row.effective), _VALUE_CHARS)
        return _cells(row.setting.key, value, f"{row.effective_source}, {row.source}")
    value = one_line(written(row.value), _VALUE_CHARS)
    source = row.source
    if row.value != row.setting.default:
        source += f", default {one_line(written(row.setting.default), _VALUE_CHARS)}"
    return _cells(row.setting.key, value, source, own=row.source != "default")


def _cells(name: str, value: str, source: str, *, own: bool = False) -> list[RenderableType]:
    return [plain(name, "bold" if own else ""), plain(value), plain(source, "" if own else "dim")]


_CHANNEL_VALUE_CHARS = 60


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
    return one_line(f"branch of {row.parent}{at}", _CHANNEL_VALUE_CHARS)


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
        _cells(
            held.key,
            one_line(written(held.value), _CHANNEL_VALUE_CHARS),
            held.source,
            own=held.source == "channel",
        )
        for held in shown.channel.held
    ]
    return columns(body, ("setting", "value", "from"))
