"""The pages of `familiar memory`: listings, links, and files that were written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group

from familiar_cli.text import harmless
from familiar_cli.ui.terminal import columns, local, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import tzinfo

    from rich.console import RenderableType

    from familiar_cli.actions.pins import PinnedFiles
    from familiar_cli.memory.pages.graph import Link, LinkStep
    from familiar_cli.memory.store.types import Applied, GrepHit, MemoryEntry, Skipped


_MOST_NAMED = 5
_KILO = 1024


def tree_page(files: Iterable[MemoryEntry], zone: tzinfo | None) -> RenderableType:
    """Return files below their directories, with size and time of the last change."""
    rows: list[list[RenderableType]] = []
    above: list[str] = []
    for entry in files:
        *directories, name = entry.rel_path.split("/")
        for depth, directory in enumerate(directories):
            if directories[: depth + 1] != above[: depth + 1]:
                rows.append([plain("  " * depth + directory + "/", "bold"), plain(""), plain("")])
        above = directories
        time = local(entry.modified, zone)
        size = plain(size_text(entry.size_bytes), "dim")
        rows.append([plain("  " * len(directories) + name), size, plain(time, "dim")])
    return columns(rows, right=(1,))


def pins_page(found: PinnedFiles) -> RenderableType:
    """Return the pinned files with what they cost, and what prompts have for them."""
    rows = [
        [
            plain(pin.rel_path, "bold"),
            plain(f"{pin.tokens:,} tokens"),
            plain(pin.note, "yellow" if pin.note else "dim"),
        ]
        for pin in found.pins
    ]
    total = f"{found.tokens:,} tokens of the {found.budget_tokens:,} that prompts guarantee to pins"
    return Group(columns(rows, right=(1,)), plain(total, "dim"))


def hits_page(hits: Iterable[GrepHit]) -> RenderableType:
    """Return hits below the file they are in, with what matched standing out."""
    rows: list[list[RenderableType]] = []
    above = ""
    for hit in hits:
        if hit.rel_path != above:
            above = hit.rel_path
            rows.append([plain(hit.rel_path, "bold"), plain("")])
        line = plain(hit.text[: hit.start])
        line.append(harmless(hit.text[hit.start : hit.end]), style="bold yellow")
        line.append(harmless(hit.text[hit.end :]))
        rows.append([plain(f"{hit.line:>6}", "dim"), line])
    return columns(rows)


def hit_line(hit: GrepHit) -> str:
    """Return a hit as other programs read it: `path:line:text`."""
    return f"{hit.rel_path}:{hit.line}:{hit.text}"


def applied_text(done: Applied, *, dry_run: bool) -> str:
    """Return what a change did, one line for each file."""
    wrote, deleted = ("would write", "would delete") if dry_run else ("wrote", "deleted")
    groups = ((wrote, done.written), ("unchanged", done.unchanged), (deleted, done.deleted))
    return "".join(f"{what} {path}\n" for what, paths in groups for path in paths)


def skipped_text(skipped: tuple[Skipped, ...]) -> str:
    """Return what was left out and why, in a few lines."""
    lines = [f"skipped {s.rel_path!r}: it {s.reason}" for s in skipped[:_MOST_NAMED]]
    more = len(skipped) - _MOST_NAMED
    return "\n".join([*lines, *([f"and {more:,} more; --json names all"] if more > 0 else [])])


def size_text(size_bytes: int) -> str:
    """Return a size for people: `312 B`, `4.1 KB`."""
    if size_bytes < _KILO:
        return f"{size_bytes} B"
    return f"{size_bytes / _KILO:,.1f} KB"


def links_page(steps: Iterable[LinkStep]) -> RenderableType:
    """Return the files that were reached, one a line, with the link that led there."""
    rows = [
        [
            plain(step.distance, "dim"),
            plain(step.rel_path),
            plain(f"{step.link.source} {_verb(step.link)} {step.link.target}", "dim"),
        ]
        for step in steps
    ]
    return columns(rows)


def _verb(link: Link) -> str:
    if link.relation:
        return f"is {link.relation}"
    return "links to" if link.kind == "link" else "names"


def files_page(rel_paths: Sequence[str]) -> RenderableType:
    """Return the files that were written into the memory directory, one a line."""
    return Group(*(plain(f"   memory/{rel_path}", "green") for rel_path in rel_paths))
