"""Files that are, or soon will be, too long to be written to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.types import Check, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Corpus, Options

NEAR: Final = 0.8
"""From which share of the largest size on a file is named."""


def check_size(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each file near or over the largest size."""
    most = options.max_file_bytes
    for note in corpus.notes:
        if note.size_bytes >= NEAR * most:
            share = round(100 * note.size_bytes / most)
            state = "is full" if note.size_bytes > most else "is nearly full"
            yield Finding(
                CHECK.name,
                (note.rel_path,),
                f"{state}: {note.size_bytes:,} bytes, {share} % of what a file may hold",
                (),
                hint="Move part of it to a new file, and link the two.",
            )


CHECK: Final = Check("size", "Long files", check_size)
