"""While the server runs, a familiar that has a remote syncs, also when nobody asks it anything."""

from __future__ import annotations

import time

import pytest

from familiar_cli.serve.running import tell_of_read_only
from tests.support.remotes import HAS_GIT, bare, git
from tests.support.serving import serving
from tests.support.world import home, live, run

pytestmark = pytest.mark.skipif(not HAS_GIT, reason="needs git")


def held_by(hub) -> str:
    known = git(hub, "for-each-ref", "refs/heads/main")
    return git(hub, "ls-tree", "-r", "--name-only", "main") if known else ""


def test_it_syncs_when_the_server_begins_and_when_it_ends(tmp_path) -> None:
    live(**{"topics/tea": "- green\n"})
    hub = bare(tmp_path / "hub.git")
    run("sync", "remote", "add", "hub", str(hub))
    with serving(background=True):
        until = time.monotonic() + 30
        while "topics/tea.md" not in held_by(hub) and time.monotonic() < until:
            time.sleep(0.1)
        assert "topics/tea.md" in held_by(hub)
        run("sync", "--dry-run")  # waits until the first sync is over
        run("memory", "append", "topics/coffee.md", "- black")
    assert "topics/coffee.md" in held_by(hub)


def test_a_disk_that_takes_no_writing_is_named_at_the_start(monkeypatch) -> None:
    live("ada")
    told: list[str] = []
    tell_of_read_only(home(), told.append)
    assert told == []
    monkeypatch.setattr("os.access", lambda *_: False)
    tell_of_read_only(home(), told.append)
    assert [line for line in told if "ada" in line and "cannot be written to" in line] == told != []
