"""Give the program hostile input by the hundred thousand.

    python -m tests.hostile.run --cases 200000 --seed 7
    python -m tests.hostile.run --seconds 60 --only card,tree
    python -m tests.hostile.run --seconds 60 --only card --record
    python -m tests.hostile.run --table
    python -m tests.hostile.run --server

A case is made of its seed and its number alone, so each can be had again: `--from N --cases 1`.
The outcome of a case is a result or one of our errors, within a time limit, and nothing outside the
home has changed. Whatever else happens is written down, with its input, below `--keep`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from familiar_cli.base.errors import FamiliarError
from tests.hostile import server_run, table
from tests.hostile.targets import TARGETS, World, empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LIMIT_S = 10.0
MEMORY_STEP_MIB = 400


class TooSlow(BaseException):
    """A case took longer than `LIMIT_S`."""


@dataclass
class Failure:
    """A case that ended otherwise than it should."""

    target: str
    seed: int
    number: int
    what: str
    raw: bytes

    def __str__(self) -> str:
        again = f"--only {self.target} --seed {self.seed} --from {self.number} --cases 1"
        return f"python -m tests.hostile.run {again}\n{self.what}"


@dataclass
class Tally:
    """What became of the cases."""

    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    slowest_s: float = 0.0
    slowest: str = ""


def run(numbers: Iterable[int], seed: int, names: list[str], seconds: float | None = None) -> Tally:
    """Run the cases `numbers` on the targets `names` in turn, for at most `seconds`."""
    tally, begun = Tally(), time.monotonic()
    with playground() as world, _time_limits():
        before = snapshot(world)
        for number in numbers:
            if seconds is not None and time.monotonic() - begun > seconds:
                break
            target = names[number % len(names)]
            failure = _case(tally, world, target, seed, number)
            if failure is None and snapshot(world) != before:
                failure = Failure(target, seed, number, "something outside the home changed", b"")
                before = snapshot(world)
            if failure:
                tally.failures.append(failure)
    return tally


def _case(tally: Tally, world: World, name: str, seed: int, number: int) -> Failure | None:
    rng, raw, begun = Random(f"{seed}:{name}:{number}"), b"", time.perf_counter()
    used_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    outcome = "a result"
    try:
        raw = TARGETS[name].make(rng, world)
        TARGETS[name].use(raw, rng, world)
    except FamiliarError as error:
        outcome = type(error).__name__
        if len(str(error)) > 5000:
            return Failure(name, seed, number, f"an endless message: {str(error)[:300]}", raw)
    except (Exception, TooSlow):  # noqa: BLE001  # whatever is no error of ours is a finding
        return Failure(name, seed, number, traceback.format_exc(), raw)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _count(tally, name, outcome, time.perf_counter() - begun, number)
    more_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used_kib) // 1024
    if more_mib > MEMORY_STEP_MIB:
        return Failure(name, seed, number, f"took {more_mib} MiB of memory", raw)
    return None


def _count(tally: Tally, name: str, outcome: str, took_s: float, number: int) -> None:
    tally.cases += 1
    tally.outcomes[f"{name}: {outcome}"] += 1
    if took_s > tally.slowest_s:
        tally.slowest_s, tally.slowest = took_s, f"{name} {number}"


@contextmanager
def playground() -> Iterator[World]:
    """Give a directory with a home in it, and beside it what nobody may touch."""
    where = "/dev/shm" if Path("/dev/shm").is_dir() else None
    root = Path(tempfile.mkdtemp(prefix="hostile-", dir=where))
    world, here = World(root), Path.cwd()
    (world.outside / "below").mkdir(parents=True)
    (world.outside / "kept.md").write_text("do not touch", encoding="utf-8")
    (root / "cwd").mkdir()
    os.chdir(root / "cwd")
    try:
        yield world
    finally:
        os.chdir(here)
        empty(world.home)
        shutil.rmtree(root, ignore_errors=True)


def snapshot(world: World) -> list[tuple[str, int, int]]:
    """Return name, size and time of everything beside the home."""
    found = []
    for directory, below, files in os.walk(world.root):
        if directory == str(world.root):
            below[:] = [name for name in below if name != world.home.name]
        for path in (directory, *(os.path.join(directory, name) for name in files)):
            status = os.lstat(path)
            changed = 0 if path == str(world.root) else status.st_mtime_ns
            found.append((path, status.st_size if path != directory else 0, changed))
        if directory == str(world.root):
            found.append((",".join(sorted(set(os.listdir(directory)) - {"home"})), 0, 0))
    return sorted(found)


@contextmanager
def _time_limits() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlow(f"longer than {LIMIT_S} s")

    old = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, old)


def _main() -> int:
    asked = _arguments()
    if asked.server:
        return server_run.main(asked.only)
    if asked.table:
        print(table.table())
        return 0
    os.environ["FAMILIAR_OFFLINE"] = "1"
    os.environ["FAMILIAR_CACHE"] = "/nonexistent"
    sys.setrecursionlimit(1000)
    names = asked.only.split(",") if asked.only else list(TARGETS)
    numbers = range(asked.start, asked.start + asked.cases)
    begun = time.monotonic()
    tally = run(numbers, asked.seed, names, asked.seconds)
    if asked.record:
        table.keep(tally, asked.seed)
    for failure in tally.failures:
        print(failure, flush=True)
        if asked.keep:
            asked.keep.mkdir(parents=True, exist_ok=True)
            place = asked.keep / f"{failure.target}-{failure.seed}-{failure.number}"
            place.write_bytes(failure.raw)
    print(json.dumps(dict(sorted(tally.outcomes.items())), indent=1))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{tally.cases} cases, seed {asked.seed}, {len(tally.failures)} failures, "
        f"{time.monotonic() - begun:.0f} s; slowest {tally.slowest_s:.2f} s ({tally.slowest}); "
        f"peak {peak_mib} MiB"
    )
    return 1 if tally.failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="start", type=int, default=0)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--only", help=f"some of {','.join(TARGETS)}")
    parser.add_argument("--server", action="store_true", help="model servers that mean harm")
    parser.add_argument("--table", action="store_true", help="print what the last runs counted")
    parser.add_argument("--record", action="store_true", help="count this run in the table")
    parser.add_argument("--keep", type=Path, help="where inputs of failed cases go")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(_main())
