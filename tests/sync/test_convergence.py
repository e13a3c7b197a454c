"""Whatever three machines do, by hand and at any time, they come to the same files."""

from __future__ import annotations

import pytest

from benchmarks.converge import World, run
from benchmarks.kills import SSHD, Machine, make_hub, sshd_running

pytestmark = pytest.mark.posix


def test_machines_come_to_the_same_files_or_list_what_differs(tmp_path) -> None:
    found = run(45, seed=100, where=str(tmp_path))
    assert (found.errors, found.differing, found.unfinished) == ([], [], 0)


def test_machines_that_share_an_encrypted_folder_do_so_too(tmp_path) -> None:
    pytest.importorskip("pyrage")
    found = run(20, seed=7, where=str(tmp_path), over="age")
    assert (found.errors, found.differing, found.unfinished) == ([], [], 0)


@pytest.mark.skipif(not SSHD.exists(), reason="there is no sshd")
def test_a_real_sshd_is_a_way_to_a_server(tmp_path) -> None:
    with sshd_running():
        hub = make_hub(tmp_path, "ssh")
        first = Machine(tmp_path / "laptop", hub)
        first.append("notes.md", "- tea\n")
        first.sync()
        second = Machine(tmp_path / "desk", hub, began="laptop")
    assert second.text()["notes.md"] == "- tea\n"


def test_a_difference_that_nobody_lists_is_found(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(World, "_listed", lambda *_: set())

    def put(_: World, machine: Machine) -> None:
        (machine.root / "memory" / "CON.md").write_text("odd\n")

    found = run(1, seed=1, where=str(tmp_path), act=put)
    assert [one.rpartition(": ")[2] for one in found.differing] == ["'CON.md'"]
