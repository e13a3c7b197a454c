"""Chats that are kept twice in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.types import Check, Finding
from familiar_cli.review.pending import HISTORY, PlannedFile, marks_text
from familiar_cli.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Corpus, Options


def check_doubles(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each channel that repeats turns of another one."""
    del corpus
    for channel in options.doubles():
        turns = counted(len(channel.originals), "turn")
        repair = PlannedFile(HISTORY, marks_text(channel.originals), "")
        yield Finding(
            CHECK.name,
            (HISTORY,),
            f"channel {channel.channel_id!r} repeats {turns} of channel {channel.original_id!r}, "
            "which stay",
            (),
            repair=(repair,),
            hint="`--propose` makes a plan that withdraws the repeated turns; nothing is deleted.",
        )


CHECK: Final = Check("doubles", "Chats that are kept twice", check_doubles)
