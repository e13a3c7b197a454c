"""The page of `familiar me`, and what it says with `--json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from familiar_cli.ui.page import Columns, plain

if TYPE_CHECKING:
    from familiar_cli.actions.me import ShownMe
    from familiar_cli.config.edit import Edit
    from familiar_cli.ui.page import PagePart


def me_page(shown: ShownMe) -> PagePart:
    """Return who somebody is, and where each part of it is said."""
    values = {
        "name": shown.name or f"none; {shown.label} in prompts",
        "pronouns": shown.pronouns,
        "description": shown.description.rstrip("\n"),
    }
    rows = [
        [plain(name, "dim"), plain(value), plain(shown.sources[name], "dim")]
        for name, value in values.items()
    ]
    accounts = ", ".join((shown.account, *shown.also))
    rows.append([plain("account", "dim"), plain(accounts), plain("")])
    return Columns(rows)


def me_data(shown: ShownMe, edit: Edit | None = None, *, dry_run: bool = False) -> dict[str, Any]:
    """Return the same as `--json` shows it, and what was changed."""
    return asdict(shown) | {
        "changed": bool(edit and edit.changes and not dry_run),
        "path": str(edit.path) if edit else None,
        "diff": edit.diff if edit else "",
    }
