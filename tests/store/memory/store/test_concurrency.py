"""Threads and processes that write at once lose nothing, and know who is in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from familiar_cli.base.errors import ConflictError, LockedError
from familiar_cli.base.files import locked
from familiar_cli.store.memory.store.store import MemoryStore, hold_lock, holder_path, lock_holder
from tests.support.processes import Process

APPEND = """
import sys
from pathlib import Path
from familiar_cli.store.memory.store.store import MemoryStore
root, lock, who, count = sys.argv[1:]
store = MemoryStore(Path(root), lock_path=Path(lock), lock_timeout_s=60)
for n in range(int(count)):
    store.append_file("log.md", f"{who}-{n}\\n", source=who)
"""
HOLD = """
import sys
from pathlib import Path
from familiar_cli.store.memory.store.store import hold_lock
with hold_lock(Path(sys.argv[1]), 5):
    print("held", flush=True)
    sys.stdin.read()
"""


def process(script, *args, **options):
    return Process([sys.executable, "-c", script, *map(str, args)], **options)


def test_rename_without_a_lock_lost_updates_between_processes(store) -> None:
    writers = [process(APPEND, store.root, store.lock_path, f"p{n}", 15) for n in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    lines = store.read_file("log.md").splitlines()
    assert sorted(lines) == sorted(f"p{p}-{n}" for p in range(4) for n in range(15))
    for p in range(4):
        assert [line for line in lines if line.startswith(f"p{p}-")] == [
            f"p{p}-{n}" for n in range(15)
        ]


def test_threads_lose_nothing_either(store) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.append_file("log.md", f"{n}\n"), range(64)))
    assert sorted(map(int, store.read_file("log.md").split())) == list(range(64))


def test_of_two_who_read_the_same_only_one_writes(store) -> None:
    store.write_file("a.md", "0")
    seen = store.sha256("a.md")

    def write(n):
        try:
            store.write_file("a.md", f"by {n}", expect=seen)
        except ConflictError:
            return None
        return f"by {n}"

    with ThreadPoolExecutor(6) as pool:
        written = [text for text in pool.map(write, range(6)) if text]
    assert written == [store.read_file("a.md")]


def test_a_reader_never_sees_half_a_file(store) -> None:
    versions = {"a" * 50_000, "b" * 50_000}
    store.write_file("a.md", "a" * 50_000)
    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(
            lambda: [store.write_file("a.md", c * 50_000) for c in "ab" * 20] and None
        )
        while not writing.done():
            assert store.read_file("a.md") in versions
        writing.result()


class TestLocked:
    @pytest.fixture
    def lock_path(self, tmp_path):
        return tmp_path / ".lock"

    @pytest.fixture
    def other(self, lock_path):
        with process(HOLD, lock_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout.readline().strip() == b"held"
            yield other
            other.kill()

    def test_the_error_names_the_holder(self, tmp_path, lock_path, other) -> None:
        store = MemoryStore(tmp_path / "memory", lock_path=lock_path, lock_timeout_s=0.1)
        with pytest.raises(LockedError, match=f"process {other.pid} on .*nothing was changed"):
            store.write_file("a.md", "x")
        assert not store.root.exists()

    def test_reading_and_dry_runs_need_no_lock(self, tmp_path, lock_path, other) -> None:
        store = MemoryStore(tmp_path / "memory", lock_path=lock_path, lock_timeout_s=0.1)
        assert store.walk().files == ()
        with store.transaction("test", "dry", dry_run=True) as tx:
            tx.write("a.md", "x")
        assert tx.result.written == ("a.md",)

    def test_a_holder_that_dies_sets_it_free(self, tmp_path, lock_path, other) -> None:
        other.kill()
        other.wait()
        MemoryStore(tmp_path / "memory", lock_path=lock_path).write_file("a.md", "x")
        assert lock_holder(lock_path) is None

    def test_a_lock_given_back_leaves_no_name(self, lock_path) -> None:
        with hold_lock(lock_path, 1):
            assert str(os.getpid()) in str(lock_holder(lock_path))
        assert lock_holder(lock_path) is None

    def test_who_does_not_wait_does_not_queue(self, lock_path) -> None:
        queue = lock_path.with_name(f"{lock_path.name}.next")
        with locked(queue), hold_lock(lock_path, 0), pytest.raises(LockedError):
            hold_lock(lock_path, 0).__enter__()

    @pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"pid": 1}), "\x1b[31m"])
    def test_a_broken_name_is_no_name(self, lock_path, content) -> None:
        holder_path(lock_path).write_text(content, encoding="utf-8")
        assert lock_holder(lock_path) is None

    def test_staging_holds_no_lock(self, store) -> None:
        with store.transaction("test", "outer") as tx:
            store.write_file("a.md", "x")
            tx.append("a.md", "y")
        assert store.read_file("a.md") == "xy"
