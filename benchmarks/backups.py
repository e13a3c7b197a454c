"""Back up while somebody talks, kill half of the backups at some write, and restore all others.

Each backup runs in a process of its own. Of those that end, every one has to hold the turns that
were said up to a moment, in order and unchanged, and all that were said before it began.

`python -m benchmarks.backups [100] [--seed 1] [--dir DIR]`
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path

from familiar_cli.actions.share.backup import BackupTarget, back_up, restore, verify_backups
from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.sync.sealing import FileCipher

DIED = 9


class DyingTarget(BackupTarget):
    """Ends the process at the n-th write, half of the times with half of the file there."""

    def __init__(self, address: str, writes_left: int) -> None:
        super().__init__(address, FileCipher((), str))
        self.writes_left = writes_left

    def write(self, familiar_id: str, name: str, content: bytes) -> str:
        """Write a file, unless it is the one at which the process ends."""
        self.writes_left -= 1
        if self.writes_left == 0:
            if len(content) % 2:
                super().write(familiar_id, f"{name}.part", content[: len(content) // 2])
            os._exit(DIED)
        return super().write(familiar_id, name, content)


def run(count: int, where: Path, seed: int = 1) -> dict[str, int]:
    """Make `count` backups, and return what became of them; `lost` and `differing` must be 0."""
    chance, paths = random.Random(seed), FamiliarPaths(where / "home" / "ada")
    paths.memory.mkdir(parents=True)
    store = MemoryStore(paths.memory, lock_path=paths.lock)
    is_done, said = threading.Event(), [0]

    def talk() -> None:
        with closing(HistoryStore(paths.history)) as history:
            while not is_done.is_set():
                history.append("cli", "user", f"Said {said[0]}")
                said[0] += 1
                is_done.wait(0.002)

    thread = threading.Thread(target=talk)
    thread.start()
    killed, least = 0, {}
    try:
        for number in range(count):
            store.append_file("notes.md", f"- note {number} {chance.random()}\n")
            before = said[0]
            dies_at = chance.choice((1, 2)) if number % 2 else 0  # the pack, or the manifest
            argv = [str(paths.root), str(where / "copies"), str(dies_at)]
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.backups", "--child", *argv],
                capture_output=True,
                text=True,
                check=False,
                cwd=Path(__file__).resolve().parents[1],
            )
            if done.returncode == DIED:
                killed += 1
            elif done.returncode:
                raise RuntimeError(done.stderr)
            else:
                least[done.stdout.strip()] = before
    finally:
        is_done.set()
        thread.join()
    return {"backups": count, "killed": killed, **_compare(paths, where, least)}


def _compare(paths: FamiliarPaths, where: Path, least: dict[str, int]) -> dict[str, int]:
    """Restore each backup and compare its turns with the familiar's."""
    target = BackupTarget(str(where / "copies"), FileCipher((), str))
    whole = _turns(paths.history)
    lost = differing = 0
    for name, before in least.items():
        restore(target, where / name, paths.id, backup=name)
        kept = _turns(where / name / paths.id / "history.db")
        lost += len(kept) < before
        differing += kept != whole[: len(kept)]
    damaged = len(verify_backups(target).problems)
    return {
        "restored": len(least),
        "turns": len(whole),
        "lost": lost,
        "differing": differing,
        "damaged": damaged,
    }


def _turns(history: Path) -> list[tuple[int, str]]:
    with closing(HistoryStore(history)) as store:
        return [(turn.id, turn.content) for turn in store.after(0, 10_000_000)]


def _back_up_once(root: str, copies: str, dies_at: str) -> None:
    made = back_up(FamiliarPaths(Path(root)), DyingTarget(copies, int(dies_at)))
    sys.stdout.write(made.name)


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        _back_up_once(*given.child)
        return
    with tempfile.TemporaryDirectory(dir=given.dir) as directory:
        sys.stdout.write(json.dumps(run(given.count, Path(directory), given.seed)) + "\n")


if __name__ == "__main__":
    main()
