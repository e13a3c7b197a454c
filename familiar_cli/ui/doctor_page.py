"""The page of `familiar doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.ui.terminal import columns, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from familiar_cli.actions.doctor.types import Diagnosis

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor_page(checks: Sequence[Diagnosis]) -> RenderableType:
    """Return what was found, one line each; below what is not well, what mends it."""
    rows: list[list[RenderableType]] = []
    for check in checks:
        verdict = plain(check.verdict, _STYLES[check.verdict])
        rows.append([verdict, plain(check.name), plain(check.detail)])
        if check.mend:
            rows.append([plain(""), plain(""), plain(f"-> {check.mend}", "bold")])
    return columns(rows)
