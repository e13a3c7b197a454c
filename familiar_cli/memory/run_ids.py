"""The ids of passes, by which a change in the journal is joined with the record of its pass."""

from __future__ import annotations

import os
import re
from typing import Final

from familiar_cli import clock

RUN_ID: Final = "Run-Id"
"""The line of a commit that names what it belongs together with."""

_FORM: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}", re.ASCII)


def new_run_id() -> str:
    """Return an id that sorts as passes happen, e.g. `20260131T235959-a1b2c3`."""
    return f"{clock.now():%Y%m%dT%H%M%S}-{os.urandom(3).hex()}"


def is_run_id(text: str) -> bool:
    """Tell whether `text` is the id of a pass."""
    return bool(_FORM.fullmatch(text))


def noting(run: str) -> dict[str, str]:
    """Return the trailers of a transaction that belongs to the pass `run`; none for other text."""
    return {RUN_ID: run} if is_run_id(run) else {}
