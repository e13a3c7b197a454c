"""The page of `familiar memory links`: what a file is linked with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.ui.terminal import columns, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from familiar_cli.memory.pages.links import Step


def links_page(steps: Iterable[Step]) -> RenderableType:
    """Return the files that were reached, one a line, with the link that led there."""
    rows = [
        [
            plain(step.distance, "dim"),
            plain(step.rel_path),
            plain(f"{step.link.source} {_verb(step.link.kind)} {step.link.target}", "dim"),
        ]
        for step in steps
    ]
    return columns(rows)


def _verb(kind: str) -> str:
    return "links to" if kind == "link" else "names"
