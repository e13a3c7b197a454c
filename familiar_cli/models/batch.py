"""Several models at once: a wrong name stops all before it begins, a failure stops only its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.errors import FetchError, UsageError
from familiar_cli.models import fetch, store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from familiar_cli.models.fetch import Pulled
    from familiar_cli.models.progress import Progress
    from familiar_cli.models.store import Removed

SOURCES = ("hub", "index")


def pull_all(
    names: Sequence[str],
    cache_dir: Path,
    progress: Callable[[Progress], None],
    *,
    source: str | None = None,
) -> tuple[list[Pulled], list[FetchError]]:
    """Fetch models one after another; return what is here now, and what could not be fetched.

    Raises:
        NotFoundError: A name is unknown; nothing was fetched.
        UsageError: There is no such source.
        FetchError: Not one could be fetched.
    """
    if source is not None and source not in SOURCES:
        raise UsageError(f"There is no source {source!r}", hint="Sources: hub, index.")
    wanted = list(dict.fromkeys(store.find(name).name for name in names))
    pulled: list[Pulled] = []
    errors: list[FetchError] = []
    for name in wanted:
        try:
            pulled.append(fetch.pull(name, cache_dir, progress, source=source))
        except FetchError as error:
            errors.append(error)
    if not pulled:
        raise errors[0]
    return pulled, errors


def remove_all(names: Sequence[str], cache_dir: Path) -> list[Removed]:
    """Delete the files of models.

    Raises:
        NotFoundError: A name is unknown; nothing was deleted.
        FamiliarError: A file could not be deleted.
    """
    wanted = list(dict.fromkeys(store.find(name).name for name in names))
    return [store.remove(name, cache_dir) for name in wanted]
