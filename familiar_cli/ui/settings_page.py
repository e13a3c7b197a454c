"""The page of `familiar config show`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from familiar_cli.text import one_line
from familiar_cli.ui.terminal import columns, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

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
