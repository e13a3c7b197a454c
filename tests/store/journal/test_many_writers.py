"""Processes and threads that write at once: nothing is lost, and every write is one commit."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from benchmarks import writers
from familiar_cli.base.errors import ConflictError
from tests.support.journals import World
from tests.support.processes import Process


def test_processes_that_append_to_one_file_and_to_fifty_lose_nothing(tmp_path, monkeypatch) -> None:
    forked = SimpleNamespace(Popen=Process, PIPE=subprocess.PIPE)
    monkeypatch.setattr(writers, "subprocess", forked)
    for kind in writers.KINDS:
        row = writers.measure(tmp_path / kind, kind, processes=4, appends=25)
        assert (row["lost"], row["doubled"]) == (0, 0)
        assert kind == "history.db" or row["commits"] == 4 * 25


def test_threads_and_several_stores_do_neither(world) -> None:
    stores = [world.again().store for _ in range(4)]

    def write(n: int) -> None:
        stores[n % 4].append_file("log.md", f"{n}\n", source=f"thread-{n % 4}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(80)))
    assert sorted(map(int, world.store.read_file("log.md").split())) == list(range(80))
    assert len(world.past.log("log.md")) == 80
    world.check()


def test_of_two_who_undo_the_same_only_one_does(tmp_path) -> None:
    worlds = [World(tmp_path) for _ in range(4)]
    worlds[0].commit("first", a="1\n")
    commit = worlds[0].commit("second", a="2\n")

    def undo(world: World) -> bool:
        try:
            return bool(world.past.undo(commit).changes)
        except ConflictError:
            return False

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(undo, worlds)) == 1
    assert worlds[0].store.read_file("a.md") == "1\n"
    assert len(worlds[0].messages()) == 3


def test_people_who_edit_meanwhile_lose_nothing(world) -> None:
    world.commit("first", **{f"f{n}": "" for n in range(4)})

    def by_hand(n: int) -> None:
        world.by_hand(f"hand/{n}.md", f"{n}")

    with ThreadPoolExecutor(4) as pool:
        edits = [pool.submit(by_hand, n) for n in range(20)]
        for n in range(20):
            world.again().store.append_file(f"f{n % 4}.md", f"{n}\n", source="program")
        [edit.result() for edit in edits]
    world.store.catch_up()
    for n in range(20):
        # A file that was met between its creation and its first byte has two versions.
        changes = world.past.log(f"hand/{n}.md")
        assert len(changes) <= 2, changes
        assert {change.commit.source for change in changes} == {"human"}
        assert world.at_head(f"hand/{n}.md") == str(n).encode()
