"""Speed of importing chats and of finding turns.

Importing is a ratio: a whole SillyTavern file through `import_chats`, to `executemany` of the same
rows into the same tables in the same run, with a history's triggers and indexes, and into bare
tables without any. Searching and the recent window are times in ms.
`python -m benchmarks.chats [--turns 100000] [--json]`; `--memorybank FILE` imports that data set as
well, and `--files 2500 5000` so many chats of one line each, in ms of processor time a chat.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.imports.cast import Cast
from familiar_cli.imports.contract import Reading
from familiar_cli.imports.import_chat import ChatImportOptions, import_chats
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.recall import search
from familiar_cli.store.history.selection import TurnFilter

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = [
    *("the", "a", "of", "and", "she", "he", "they", "likes", "hates", "plays", "said", "about"),
    *("again", "never", "maybe", "tea", "coffee", "garden", "music", "guitar", "concert", "rainy"),
    *("evening", "game", "tired", "happy", "Alice", "Bob", "Carol", "mountain", "river", "letter"),
    *("umbrella", "platform", "winter", "kitchen", "window", "promise", "lantern", "harbour"),
]
RARE = [f"word{number}" for number in range(20_000)]
EVERYONE = TurnFilter(viewer=OWNER)
QUERIES = {
    "rare word": "zanzibar",
    "one of 20,000 words": "word123",
    "five such words": "word1 word22 word333 word4444 word15555",
    "a common and a rare word": "guitar zanzibar",
    "three common words": "guitar kitchen lantern",
    "no space": "日本語",
}
HEAD = '{"user_name": "Robin", "character_name": "Yuzu", "chat_metadata": {}}\n'
READING = Reading(Cast(known=("Yuzu",)))


def write_chat(path: Path, turns: int) -> None:
    """Write a SillyTavern chat with messages of about 200 characters."""
    dice = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        file.write(HEAD)
        for number in range(turns):
            said = [*dice.choices(WORDS, k=28), *dice.choices(RARE, k=6)]
            said += ["Zanzibar", "日本語のメモ"] if number % 10_000 == 0 else []
            line: dict[str, Any] = {
                "name": "Yuzu" if number % 2 else "Robin",
                "is_user": not number % 2,
                "is_system": False,
                "send_date": 1_700_000_000_000 + number * 60_000,
                "mes": " ".join(said),
                "extra": {"api": "example", "token_count": 40},
            }
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def copied(source: Path, target: Path, *, bare: bool) -> float:
    """Return how long `executemany` takes for the rows of `source`, in batches of 5,000."""
    HistoryStore(target).close()
    with closing(sqlite3.connect(source)) as old:
        tables = ("turns", "turn_extras")
        rows = {name: old.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
    with closing(HistoryStore(target)) as store, store.use(create=True) as new:
        if bare:
            for name, kind in new.execute(
                "SELECT name, type FROM sqlite_master WHERE type IN ('trigger', 'index') "
                "AND sql IS NOT NULL"
            ).fetchall():
                new.execute(f"DROP {kind} {name}")
        new.execute("PRAGMA cache_size = -65536")
        start = time.perf_counter()
        for first in range(0, len(rows["turns"]), 5000):
            new.execute("BEGIN IMMEDIATE")
            for name, all_rows in rows.items():
                part = all_rows[first : first + 5000]
                marks = ", ".join("?" * len(part[0]))
                new.executemany(f"INSERT INTO {name} VALUES ({marks})", part)
            new.execute("COMMIT")
        return time.perf_counter() - start


def median_ms(action: Callable[[], object], runs: int = 9) -> float:
    return statistics.median(seconds(action) for _ in range(runs)) * 1000


def measure(directory: Path, turns: int) -> dict[str, Any]:
    chat = directory / "yuzu.jsonl"
    write_chat(chat, turns)
    path = directory / "history.db"
    with closing(HistoryStore(path)) as store:
        before_mb = peak_mb()
        first_s = seconds(lambda: import_chats(store, chat, ChatImportOptions(READING)))
        peak = peak_mb()
        again_s = seconds(lambda: import_chats(store, chat, ChatImportOptions(READING)))
        index_s = seconds(lambda: search(store, "nothing", EVERYONE))
        searches = {
            name: median_ms(lambda q=query: search(store, q, EVERYONE))
            for name, query in QUERIES.items()
        }
        recent_ms = median_ms(lambda: store.recent("yuzu", 40, viewer=OWNER), 99)
    return {
        "turns": turns,
        "import_s": first_s,
        "turns_per_s": turns / first_s,
        "ratio": first_s / copied(path, directory / "copy.db", bare=False),
        "ratio_bare": first_s / copied(path, directory / "bare.db", bare=True),
        "again_s": again_s,
        "peak_mb": peak,
        "peak_before_mb": before_mb,
        "fill_search_s": index_s,
        "search_ms": searches,
        "recent_ms": recent_ms,
        "file_mb": chat.stat().st_size / 1e6,
        "history_mb": path.stat().st_size / 1e6,
    }


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memorybank(file: Path, directory: Path) -> dict[str, Any]:
    """Import the chats of the MemoryBank data set, converted to plain lines."""
    people = json.loads(file.read_text("utf-8"))
    chats = directory / "memorybank"
    chats.mkdir()
    for name, person in people.items():
        lines: list[dict[str, Any]] = [{"familiar_chat": 1, "id": name.strip()}]
        for day, pairs in person["history"].items():
            for number, pair in enumerate(pairs):
                at = f"{day}T{9 + number // 60:02}:{number % 60:02}:00Z"
                lines.append(
                    {"role": "user", "name": name.strip(), "content": pair["query"], "at": at}
                )
                lines.append({"role": "assistant", "content": pair["response"], "at": at})
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (chats / f"{name.strip()}.jsonl").write_text(text, "utf-8")
    with closing(HistoryStore(directory / "memorybank.db")) as store:
        took_s = seconds(lambda: import_chats(store, chats, ChatImportOptions(READING)))
        hits = search(store, "Which painters did you recommend to me?", EVERYONE, limit=3)
        return {
            "channels": [c.channel_id for c in store.channels()],
            "turns": store.count(),
            "import_s": took_s,
            "found": [hit.turn.content[:80] for hit in hits],
        }


def many_files(directory: Path, count: int) -> float:
    """Import so many chats of one line each; return ms of processor time a chat."""
    chats = directory / f"chats-{count}"
    chats.mkdir()
    for number in range(count):
        at = f"2026-01-{1 + number % 28:02}T10:00:00Z"
        line = {"name": "Robin", "is_user": True, "send_date": at, "mes": f"Line {number}"}
        (chats / f"{number}.jsonl").write_text(f"{HEAD}{json.dumps(line)}\n", "utf-8")
    with closing(HistoryStore(directory / f"{count}.db")) as store:
        began_s = time.process_time()
        import_chats(store, chats, ChatImportOptions(READING))
        assert store.count() == count
        return 1000 * (time.process_time() - began_s) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--memorybank", type=Path)
    parser.add_argument("--files", type=int, nargs="+", default=[])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = measure(Path(directory), given.turns)
        found["ms_per_file"] = {n: many_files(Path(directory), n) for n in given.files}
        if given.memorybank:
            found["memorybank"] = memorybank(given.memorybank, Path(directory))
    print(json.dumps(found) if given.json else json.dumps(found, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
