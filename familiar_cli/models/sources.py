"""Fetch files from whichever kind of source is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.config import environment
from familiar_cli.errors import FetchError
from familiar_cli.models import hub, index
from familiar_cli.models.catalog import Hub

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from familiar_cli.models.catalog import File, Source
    from familiar_cli.models.progress import Progress


def fetch(
    source: Source, files: tuple[File, ...], into: Path, report: Callable[[Progress], None]
) -> None:
    """Put `files` from `source` into the directory `into`, each one whole and checked.

    Raises:
        FetchError: The source cannot be reached, lacks a file, or has another one by that name.
    """
    if environment.offline():
        raise FetchError(f"{environment.OFFLINE} is set, so nothing is fetched")
    if isinstance(source, Hub):
        for file in files:
            hub.fetch_file(source, file, into, report)
    else:
        index.fetch_files(source, files, into, report)
