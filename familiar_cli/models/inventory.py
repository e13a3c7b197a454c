"""All models there are, and which of them are on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.models import store
from familiar_cli.models.catalog import CATALOG

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.models.catalog import Kind
    from familiar_cli.models.store import State


@dataclass(frozen=True, slots=True)
class Listed:
    """One model of the catalog.

    Args:
        name: Its name.
        kind: What reads it.
        size_bytes: Its size; about, where only the hub knows it.
        licence: Its licence, as an SPDX name.
        state: `ready` when all its files are on disk, `partial` when some are, else `absent`.
        path: Its file or directory, if it is ready.
        purpose: What it is for.
        sources: Where it comes from, in the order they are tried.
        broken: Files whose content is wrong; looked at only when asked.
    """

    name: str
    kind: Kind
    size_bytes: int
    licence: str
    state: State
    path: Path | None
    purpose: str
    sources: tuple[str, ...]
    broken: tuple[str, ...]


def listing(cache_dir: Path, *, check: bool = False) -> list[Listed]:
    """Return all models; with `check` every byte on disk is read and held against its checksum."""
    return [
        Listed(
            name,
            model.kind,
            model.size_bytes,
            model.licence,
            store.state(model, cache_dir),
            store.path_of(name, cache_dir),
            model.purpose,
            tuple(dict.fromkeys(s.name for part in model.parts for s in part.sources)),
            tuple(store.broken_files(model, cache_dir)) if check else (),
        )
        for name, model in CATALOG.items()
    ]
