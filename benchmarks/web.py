"""How long each page of `familiar web` takes on the server, for a large familiar.

The familiar has files of people, one with a long past, and turns spread over two years; nothing is
loaded that a page does not show. Each page is asked for a few times over one connection on
loopback, in turns, so what is measured includes the connection; the first request, which reads what
the server then keeps, is told apart. Processor time is that of the whole process, so it can be
compared between machines that are busy.
`python -m benchmarks.web [--files 10000] [--turns 1000000] [--runs 7] [--json]`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sqlite3
import statistics
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from msgspec.structs import replace

from benchmarks.assemble import ANNA, SETTINGS, text
from familiar_cli.familiar import Familiar
from familiar_cli.servers.running import ListenOptions, serve_until
from familiar_cli.servers.web.site import Door
from familiar_cli.store.history.rows import COLUMNS, to_row
from familiar_cli.store.history.store import HistoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_MS = 150.0
BEGAN = datetime(2024, 1, 1, 9, tzinfo=UTC)
SPAN = timedelta(days=730)
PATHS = (
    "/",
    "/turns",
    "/turns?before={half}",
    "/turns?q=harbour+light",
    "/turns/{half}",
    "/turns/layers",
    "/memory",
    "/memory/people",
    "/memory/people?after=cli-5.md",
    "/memory/people/cli-7.md",
    "/memory/people/cli-7.md?view=blame",
    "/memory/people/cli-7.md?view=history",
    "/memory/people/cli-7.md?view=links",
    "/memory/people/cli-7.md?view=edit",
    "/memory/",
    "/find?path=people/cli-7.md",
    "/as-of",
    "/asof",
    "/asof?at={day}",
    "/asof/files",
    "/asof/files/people/cli-7.md",
    "/review",
    "/chat",
    "/chat?channel=cli",
    "/chat?channel=new",
    "/search",
    "/search?q=harbour+light",
    "/search?q=harbour+light&in=memory",
    "/search?q=harbour+light&in=past",
    "/search?q=Nick7",
    "/import",
    "/timeline",
    "/diary",
    "/diary/{day}",
    "/journal",
    "/journal/HEAD",
    "/people",
    "/people?from=200",
    "/people/cli-7",
    "/people/Nick7",
    "/graph",
    "/graph?name=people/cli-7.md&depth=2",
    "/desk",
    "/distill",
    "/distill/status",
    "/sessions/search?q=harbour",
    "/sync",
    "/settings",
    "/settings/download",
    "/doctor",
    "/setup",
    "/setup/persona",
    "/portrait/card",
    "/attachments/none.png",
    "/review/none",
    "/turns/{half}/raw",
    "/people/nobody",
    "/favicon.ico",
    "/static/page.css",
    "/static/page.js",
    "/static/talk.js",
    "/static/relations.js",
    "/static/d3-force.js",
)
ABSENT = ("/portrait/", "/attachments/", "/review/", "/people/nobody", "/turns/{half}/raw")
"""The beginnings of addresses of what this familiar lacks, which is an answer, too."""


def make(home: Path, files: int, turns: int) -> Path:
    """Write the familiar, and return its directory."""
    root, chance = home / "large", random.Random(7)
    people = root / "memory" / "people"
    people.mkdir(parents=True)
    (root / "character.toml").write_text(SETTINGS, encoding="utf-8")
    for number in range(files):
        page = f"# Person {number}\n\n{text(chance, 60)}\n\n## Aliases\n\n- Nick{number}\n"
        (people / f"cli-{number}.md").write_text(page, encoding="utf-8")
    _fill(root / "history.db", chance, turns)
    with Familiar.load_from_disk(home, "large") as familiar:
        for number in range(20):
            with familiar.memory.transaction("human", f"change {number}") as tx:
                tx.append("people/cli-7.md", f"- fact {number}", on_new_line=True)
        with closing(familiar.names()) as names:
            names.refresh()
        familiar.finder.index_words()
        familiar.index.refresh()
    return root


def _fill(path: Path, chance: random.Random, count: int) -> None:
    with closing(HistoryStore(path)) as store:
        first = store.append("cli", "user", text(chance, 40), author=ANNA, at=BEGAN)
    marks = ", ".join("?" * len(COLUMNS))
    with closing(sqlite3.connect(path)) as database, database:
        database.executemany(
            f"INSERT INTO turns ({', '.join(COLUMNS)}) VALUES ({marks})",
            (
                to_row(replace(first, at=BEGAN + SPAN * (number / count)))
                for number in range(1, count)
            ),
        )


@contextmanager
def served(home: Path) -> Iterator[httpx.Client]:
    """Run the server in a thread, and lend a client that came through the link."""
    door, found, is_ready = Door(), {}, threading.Event()

    async def work() -> None:
        found["stop"], found["loop"] = asyncio.Event(), asyncio.get_running_loop()

        def ready(url: str) -> None:
            found["url"] = url
            is_ready.set()

        listening = ListenOptions("127.0.0.1", 0, background=False, api=False, door=door)
        await serve_until(found["stop"], home, listening, on_ready=ready)

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    is_ready.wait()
    try:
        with httpx.Client(base_url=found["url"], timeout=600, trust_env=False) as client:
            client.get(door.link)
            yield client
    finally:
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join()


def measure(client: httpx.Client, path: str, runs: int, absent: tuple[str, ...]) -> dict[str, Any]:
    """Return how long the first answer took, and the others, on the clock and of the processor."""
    taken, worked = [], []
    for _ in range(runs + 1):
        start, busy = time.perf_counter(), time.process_time()
        answer = client.get(path)
        taken.append((time.perf_counter() - start) * 1000)
        worked.append((time.process_time() - busy) * 1000)
    expected = {404} if path.startswith(absent) else {200, 303}
    assert answer.status_code in expected, (path, answer.status_code)
    rest = taken[1:]
    return {
        "path": path,
        "first_ms": round(taken[0], 1),
        "p50_ms": round(statistics.median(rest), 1),
        "max_ms": round(max(rest), 1),
        "first_cpu_ms": round(worked[0], 1),
        "p50_cpu_ms": round(statistics.median(worked[1:]), 1),
        "bytes": len(answer.content),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--home", help="use this directory, and keep it")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(given.home or directory)
        if not (home / "large").exists():
            make(home, given.files, given.turns)
        where = {"half": given.turns // 2, "day": (BEGAN + SPAN / 2).date().isoformat()}
        absent = tuple(path.format(**where) for path in ABSENT)
        with served(home) as client:
            rows = [measure(client, path.format(**where), given.runs, absent) for path in PATHS]
    if given.json:
        print(json.dumps({"limit_ms": LIMIT_MS, "pages": rows}, indent=2))
        return
    for row in rows:
        mark = "" if row["p50_ms"] <= LIMIT_MS else "  over"
        print(
            f"{row['path']:<48} first {row['first_ms']:>8,.1f}  median {row['p50_ms']:>7,.1f}"
            f"  most {row['max_ms']:>8,.1f} ms  cpu {row['first_cpu_ms']:>7,.1f}"
            f" {row['p50_cpu_ms']:>7,.1f}  {row['bytes']:>9,} bytes{mark}"
        )


if __name__ == "__main__":
    main()
