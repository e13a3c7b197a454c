"""What `familiar demo` shows besides the pages of other commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group

from familiar_cli.ui.terminal import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType


def files_page(rel_paths: Sequence[str]) -> RenderableType:
    """Return the files that were written into the memory directory, one a line."""
    return Group(*(plain(f"   memory/{rel_path}", "green") for rel_path in rel_paths))
