"""For tests of background passes: time that has gone by since a failure."""

from __future__ import annotations

import json
from datetime import timedelta

from familiar_cli.base.times import clock
from familiar_cli.store.passes import Failures


def set_back(failures: Failures, name: str, by: timedelta) -> None:
    """Let the last failure of a pass have happened earlier than it did."""
    path = failures._path(name)
    fields = json.loads(path.read_text(encoding="utf-8"))
    fields["at"] = clock.iso(clock.parse_iso(fields["at"]) - by)
    path.write_text(json.dumps(fields), encoding="utf-8")
