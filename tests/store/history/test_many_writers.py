"""Processes that write turns at once lose none, and each turn has a number of its own."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history.store import HistoryStore
from tests.support.processes import Process

APPEND = """
import sys
from pathlib import Path
from familiar_cli.store.history.store import HistoryStore
store = HistoryStore(Path(sys.argv[1]), busy_timeout_s=60)
for n in range(int(sys.argv[3])):
    print(store.append(f"c{n % 3}", "user", f"{sys.argv[2]}-{n}").id)
store.close()
"""


def test_processes_lose_no_turn(tmp_path) -> None:
    path = tmp_path / "history.db"
    writers = [
        Process(
            [sys.executable, "-c", APPEND, str(path), str(who), "40"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for who in range(4)
    ]
    told = [int(line) for writer in writers for line in writer.communicate(timeout=120)[0].split()]
    assert [writer.returncode for writer in writers] == [0] * 4
    assert len(set(told)) == 160
    with closing(HistoryStore(path)) as store:
        turns = [turn for n in range(3) for turn in store.recent(f"c{n}", 1000, viewer=OWNER)]
    assert sorted(turn.id for turn in turns) == sorted(told)
    assert {turn.content for turn in turns} == {f"{w}-{n}" for w in range(4) for n in range(40)}
    for who in range(4):
        own = [
            t.id
            for t in sorted(turns, key=lambda t: int(t.content.split("-")[1]))
            if t.content.startswith(f"{who}-")
        ]
        assert own == sorted(own)
