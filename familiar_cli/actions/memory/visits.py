"""When a person last looked at the pages of a familiar."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.files import read_object, write_whole
from familiar_cli.base.times.clock import iso, now

if TYPE_CHECKING:
    from pathlib import Path

_VISITS_LOCK: Final = threading.Lock()
_VISIT: Final = timedelta(minutes=30)
_VISIT_NOTED: Final = timedelta(minutes=1)


def last_visit(root: Path) -> datetime | None:
    """Note that a person looks at the page now; return the end of their last visit, or None."""
    path, key, at = cache_dir() / "visits.json", str(root), now()
    with _VISITS_LOCK, suppress(OSError):
        visits = read_object(path)
        value = visits.get(key)
        pair = value if isinstance(value, list) and len(value) == 2 else [None, None]  # noqa: PLR2004
        since, last = map(_read_moment, pair)
        if last and last - at > _VISIT_NOTED:  # the clock was wrong then
            last = since = None
        if last and at - last > _VISIT:
            since = last
        if last is None or at - last > _VISIT_NOTED:
            visits[key] = [since and iso(since), iso(at)]
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(visits), durable=False)
        return since
    return None


def _read_moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
