"""The turns that came through the server, as `familiar serve log` shows them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import read_plain, status_of, write_own
from familiar_cli.base.text import bare_lines
from familiar_cli.base.times.clock import iso, now, parse_iso
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.history.selection import newest_from, turns_from

SOURCE: Final = "serve"
"""The source of every turn that came through the server."""

_LOOK_S: Final = 0.5
_BATCH: Final = 200


class ServedLine(Struct, frozen=True):
    """A turn in the server's log, or a request of which nothing was saved.

    Args:
        familiar: The familiar.
        turn: The turn; of a request that was not kept, only its time is known.
        who: Who said it.
        reason: Why it was not kept; empty if it was.
    """

    familiar: str
    turn: Turn
    who: str
    reason: str = ""

    @property
    def match(self) -> str:
        """How it was matched: new, a reply, or an edit of a turn."""
        return f"not kept: {self.reason}" if self.reason else match_of(self.turn)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "familiar": self.familiar,
            "turn": self.turn.id,
            "at": iso(self.turn.at),
            "channel": self.turn.channel_id,
            "who": self.who,
            "text": self.turn.content,
            "partial": self.turn.partial,
            "reply_to": self.turn.reply_to,
            "match": self.match,
        }


class ServedLog:
    """The turns that come through the server, of some familiars of a home.

    Each is opened only while it is read, so any number can be followed.

    Args:
        home: Where they live.
        list_ids: Lists them; asked again at each look.
        tell: Told once about each that cannot be read.
    """

    def __init__(
        self, home: Path, list_ids: Callable[[], Sequence[str]], tell: Callable[[str], None]
    ) -> None:
        self._home = home
        self._list_ids = list_ids
        self._tell = tell
        self._seen: dict[str, int] = {}
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._unread: set[str] = set()
        self._unkept_since: dict[str, str] = {}

    def newest(self, limit: int) -> list[ServedLine]:
        """Return the newest `limit` turns, oldest first."""
        lines = sorted(self._read_changed(limit), key=lambda line: line.turn.at)
        return lines[len(lines) - limit :] if limit < len(lines) else lines

    def follow(self) -> Iterator[ServedLine]:
        """Yield each turn that comes after `newest`, until the caller stops asking."""
        while True:
            time.sleep(_LOOK_S)
            yield from sorted(self._read_changed(_BATCH), key=lambda line: line.turn.at)

    def _read_changed(self, limit: int) -> Iterator[ServedLine]:
        """Read the familiars whose history has changed; of a new one, the newest `limit` turns."""
        for familiar_id in self._list_ids():
            database = self._home / familiar_id / "history.db"
            files = ("history.db", "history.db-wal", UNKEPT)
            stamp = tuple(_mtime_ns(database.with_name(name)) for name in files)
            if self._stamps.get(familiar_id) == stamp:
                continue
            self._stamps[familiar_id] = stamp
            try:
                with Familiar.load_from_disk(self._home, familiar_id) as familiar:
                    yield from self._read(familiar, limit)
            except FamiliarError as error:
                if familiar_id not in self._unread:
                    self._unread.add(familiar_id)
                    self._tell(f"{familiar_id}: {error}")

    def _read(self, familiar: Familiar, limit: int) -> Iterator[ServedLine]:
        history, familiar_id = familiar.history, familiar.paths.id
        seen, turns = self._seen.get(familiar_id), list[Turn]()
        if seen is None:
            seen = history.newest_id()
            turns = newest_from(history, SOURCE, limit)
            seen = max([seen, *(turn.id for turn in turns)])
        while rows := turns_from(history, SOURCE, seen, _BATCH):
            turns += filter(None, (history.turn(turn_id) for turn_id, *_ in rows))
            seen = rows[-1][0]
        self._seen[familiar_id] = seen
        name = familiar.name if turns else ""
        yield from (ServedLine(familiar_id, turn, _speaker(turn, name)) for turn in turns)
        path = familiar.paths.root / UNKEPT
        unkept = _read_unkept(path, self._unkept_since.get(familiar_id, ""))
        if unkept:
            self._unkept_since[familiar_id] = unkept[-1][0]
        for at, reason in unkept[max(len(unkept) - limit, 0) :]:
            turn = Turn(0, "", None, "user", "", parse_iso(at), "text", SOURCE, partial=False)
            yield ServedLine(familiar_id, turn, "", reason)


UNKEPT: Final = "unkept.jsonl"
"""The file of a familiar with the requests of which nothing was saved: when, and why."""

_MOST_UNKEPT_BYTES: Final = 64 * 1024
_UNKEPT_LOCK: Final = threading.Lock()  # requests end in threads of one server


def note_unkept(root: Path, reason: str) -> None:
    """Note that a request was not kept, and why; nothing of the request itself.

    A failure to write is ignored: it only costs a line of the log.
    """
    path = root / UNKEPT
    line = json.dumps({"at": iso(now()), "reason": reason})
    with suppress(OSError, FamiliarError), _UNKEPT_LOCK:
        known = read_plain(path).decode("utf-8", "replace") if path.exists() else ""
        write_own(path, f"{known[-_MOST_UNKEPT_BYTES:]}{line}\n".encode(), durable=False)


def _read_unkept(path: Path, since: str) -> list[tuple[str, str]]:
    """List the times and reasons of requests that were not kept after a time."""
    items = []
    with suppress(OSError):
        for line in bare_lines(read_plain(path).decode("utf-8", "replace")):
            with suppress(ValueError, LookupError, TypeError):
                record = json.loads(line)
                parse_iso(record["at"])
                items.append((record["at"], str(record["reason"])))
    return [one for one in items if one[0] > since]


def _mtime_ns(path: Path) -> int:
    status = status_of(path)
    return status.st_mtime_ns if status else 0


def _speaker(turn: Turn, name: str) -> str:
    if turn.role == "assistant":
        return name
    return turn.author.label if turn.author else ""


def match_of(turn: Turn) -> str:
    """Describe how a turn was matched when it came: new, a reply, or an edit."""
    if turn.place is not None and turn.place != turn.id:
        return f"in place of turn {turn.place}"
    return "new" if turn.reply_to is None else f"reply to turn {turn.reply_to}"
