"""The part of an import's page that tells what becomes of each field and setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group

from familiar_cli.text import one_line
from familiar_cli.ui.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

_MOST: Final = 20
_CHARS: Final = 120


def effects_page(
    in_every_prompt: Sequence[str], found_when_it_fits: Sequence[str], kept: Sequence[str]
) -> RenderableType:
    """Return the three groups, each below its heading; empty ones are left out."""
    groups = (
        ("In every prompt", in_every_prompt),
        ("Found when it fits", found_when_it_fits),
        ("Kept for export, without effect here", kept),
    )
    return Group(*(part for title, names in groups if names for part in _group(title, names)))


def _group(title: str, names: Sequence[str]) -> Iterator[RenderableType]:
    yield plain(title, "bold")
    yield from (plain(f"  {one_line(name, _CHARS)}", "dim") for name in names[:_MOST])
    if len(names) > _MOST:
        yield plain(f"  … and {len(names) - _MOST} more; `--json` lists all", "dim")
