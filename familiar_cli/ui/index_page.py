"""The pages of `familiar index`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.text import harmless
from familiar_cli.ui.terminal import columns, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from familiar_cli.actions.index import IndexBuilt, TurnsStatus
    from familiar_cli.index.build import IndexStatus
    from familiar_cli.index.embedder import Opened


def built_text(built: IndexBuilt) -> str:
    """Return what a build did, in a few lines."""
    done, made = built.refreshed, built.embedded
    lines = [f"rebuilt: {done.rebuilt}"] if done.rebuilt else []
    lines.append(
        f"files: {len(done.changed)} read, {len(done.removed)} removed, {done.unchanged} unchanged"
    )
    if made.replaced_model:
        lines.append(f"vectors from {made.replaced_model} were discarded")
    if made.busy:
        lines.append("vectors: another process is making them")
    else:
        lines.append(f"vectors: {made.done} made, {made.waiting} waiting")
    if built.turns.busy:
        lines.append("vectors of turns: another process is making them")
    elif built.turns.done or built.turns_waiting:
        lines.append(f"vectors of turns: {built.turns.done} made, {built.turns_waiting} waiting")
    return harmless("\n".join(lines))


def status_page(status: IndexStatus, turns: TurnsStatus, opened: Opened) -> RenderableType:
    """Return how the index is."""
    return columns(
        [[plain(name, "dim"), plain(value)] for name, value in _lines(status, turns, opened)]
    )


def _lines(status: IndexStatus, turns: TurnsStatus, opened: Opened) -> Iterator[tuple[str, str]]:
    if not status.exists:
        yield "index", "none yet: `familiar index build`, or search for something"
    else:
        stale = f", {status.stale_files} changed since" if status.stale_files else ""
        yield "files", f"{status.files}{stale}"
        yield "pieces", f"{status.passages} passages, {status.lines} lines"
        waiting = f", {status.waiting} waiting: `familiar index build`" if status.waiting else ""
        of_model = f" of {status.model}" if status.model else ""
        of_tokens = f", {status.token_vectors} of tokens" if status.vectors else ""
        yield "vectors", f"{status.vectors}{of_model}{of_tokens}{waiting}"
        yield "size", f"{status.size_bytes / 1e6:.1f} MB"
    if turns.turns:
        unread = f", {turns.unread} not read yet" if turns.unread else ""
        yield "turns", f"{turns.turns}{unread}"
        waiting = f", {turns.waiting} waiting: `familiar index build`" if turns.waiting else ""
        of_tokens = f", {turns.token_vectors} of tokens" if turns.vectors else ""
        size = f"{turns.size_bytes / 1e6:.1f} MB"
        yield "their vectors", f"{turns.vectors}{of_tokens}{waiting}, {size}"
    yield "model", opened.embedder.model if opened.embedder else _none(opened)
    for problem in status.problems:
        yield "left out", f"{problem.rel_path}: {problem.reason}"


def _none(opened: Opened) -> str:
    return f"none: {opened.reason}" + (f": `{opened.hint}`" if opened.hint else "")
