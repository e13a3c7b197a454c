"""Branches that hold more than any memory: set aside and named, while the others are synced."""

from __future__ import annotations

import os
import resource
import time
import zlib
from contextlib import nullcontext
from functools import cache

import pytest

from familiar_cli.base.errors import RemoteDamagedError
from familiar_cli.store.journal import exchange as journal_exchange
from familiar_cli.store.journal import packs
from familiar_cli.store.journal.exchange import SIZES_FILE, JournalExchange
from familiar_cli.store.journal.objects import git_object
from familiar_cli.store.journal.repository import rewrite_tree
from familiar_cli.sync import journal_epochs
from familiar_cli.sync.engine import SyncEngine
from familiar_cli.sync.remotes import SeenRefs
from tests.support.cases import IS_NIGHT
from tests.support.forging import commit_of, head_of, put, tree_of
from tests.support.instances import Machine, adopt
from tests.support.remotes import HAS_GIT, bare, bare_by_hand, http_server

EVIL = "memory/evil-0000"
HUGE = "a" * 40
NEEDS_GIT = pytest.mark.skipif(not HAS_GIT, reason="there is no git program")


@cache
def empty_name():
    blob = git_object("blob", b"x")
    return [blob, tree_of([("100644", b"", blob.id)])]


@cache
def deep(levels: int = 1500):
    made = [git_object("blob", b"x")]
    made.append(tree_of([("100644", b"a.md", made[0].id)]))
    for _ in range(levels):
        made.append(tree_of([("40000", b"d", made[-1].id)]))
    return made


@cache
def wide():
    """Return 81 objects with 10 ** 80 files."""
    made = [git_object("blob", b"x")]
    made.append(tree_of([("100644", f"{n}.md".encode(), made[0].id) for n in range(10)]))
    for _ in range(79):
        made.append(tree_of([("40000", f"{n}".encode(), made[-1].id) for n in range(10)]))
    return made


@cache
def long_row():
    """Return one directory with more files than `most_files`."""
    blob = git_object("blob", b"x")
    rows = range(packs._MOST_FILES * 5 // 4)
    return [blob, tree_of([("100644", b"%07d.md" % n, blob.id) for n in rows])]


@cache
def huge():
    return [tree_of([("100644", b"huge.md", HUGE)])]


FORGED = {"no-name": empty_name, "deep": deep, "wide": wide, "long": long_row, "huge": huge}


@pytest.fixture(autouse=True)
def most_files(monkeypatch) -> None:
    """Have a memory be too large with a tenth of the files, except at night."""
    if not IS_NIGHT:
        monkeypatch.setattr(packs, "_MOST_FILES", 20_000)


@pytest.fixture
def hub(tmp_path):
    return bare(tmp_path / "hub.git") if HAS_GIT else bare_by_hand(tmp_path / "hub.git")


@pytest.fixture
def laptop(tmp_path, hub):
    machine = Machine(tmp_path / "laptop", "laptop")
    machine.commit("first", topics__tea="# Tea\n")
    machine.sync(hub)
    yield machine
    machine.journal.repository.close()


@pytest.fixture
def desk(tmp_path, laptop, hub):
    machine = Machine(tmp_path / "desk", "desk", began=laptop.instance.id)
    adopt(machine, hub)
    yield machine
    machine.journal.repository.close()


def forge(hub, kind: str) -> None:
    objects = FORGED[kind]()
    put(hub, EVIL, objects, commit_of(objects[-1].id, [head_of(hub, "main")]))
    if kind == "huge":
        path = hub / "objects" / HUGE[:2] / HUGE[2:]
        path.parent.mkdir(exist_ok=True)
        packer = zlib.compressobj(1)
        with path.open("wb") as file:
            file.write(packer.compress(b"blob %d\0" % 2**31))
            for _ in range(64):
                file.write(packer.compress(bytes(2**20)))


@pytest.mark.parametrize("kind", FORGED)
@pytest.mark.parametrize("scheme", ["", "file"])
def test_a_branch_beyond_all_bounds_is_set_aside_and_stops_no_other(
    laptop, desk, hub, kind, scheme
) -> None:
    desk.commit("theirs", notes="# Notes\n")
    desk.sync(hub)
    laptop.commit("ours", other="# Other\n")
    forge(hub, kind)
    begun, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = laptop.sync(f"file://{hub}" if scheme else hub)
    laptop.sync(hub)
    assert time.process_time() - begun < 10
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 300 * 1024
    (aside,) = SeenRefs(laptop.journal.repository, "hub").aside().values()
    assert aside.name == EVIL
    assert aside.reason
    assert done.pushed
    assert "notes.md" in laptop.files()
    assert not laptop.journal.repository.objects.has(aside.id)


@pytest.mark.parametrize("kind", FORGED)
def test_a_new_machine_begins_beside_a_branch_beyond_all_bounds(
    laptop, hub, tmp_path, kind
) -> None:
    forge(hub, kind)
    machine = Machine(tmp_path / "third", "third", began=laptop.instance.id)
    adopt(machine, hub)
    assert machine.files() == laptop.files()


@pytest.mark.parametrize("kind", FORGED)
def test_a_remote_with_nothing_else_is_named_when_a_machine_begins(hub, tmp_path, kind) -> None:
    objects = FORGED[kind]()
    put(hub, EVIL, objects, commit_of(objects[-1].id))
    machine = Machine(tmp_path / "third", "third", began="third-0000")
    with pytest.raises(RemoteDamagedError, match=r"hub\.git") as raised:
        adopt(machine, hub)
    assert "journal" not in f"{raised.value}{raised.value.hint}"


def test_a_damaged_remote_is_said_to_be_the_remote(laptop, desk, hub) -> None:
    desk.commit("theirs", notes="# Notes\n")
    desk.sync(hub)
    commit = head_of(hub, f"memory/{desk.instance.id}")
    path = hub / "objects" / commit[:2] / commit[2:]
    path.chmod(0o644)
    path.write_bytes(b"broken")
    with pytest.raises(RemoteDamagedError) as raised:
        laptop.sync(hub)
    assert "journal" not in f"{raised.value}{raised.value.hint}"


def test_a_commit_whose_past_did_not_come_is_the_fault_of_the_remote(laptop) -> None:
    exchange = JournalExchange(laptop.journal.repository, nullcontext)
    commit = commit_of(tree_of([]).id, ["1234567890" * 4])
    with exchange.incoming() as incoming:
        incoming.add_objects([tree_of([]), commit])
        with pytest.raises(RemoteDamagedError) as raised:
            incoming.goes_on(commit.id)
    assert "journal" not in f"{raised.value}{raised.value.hint}"


def test_a_damaged_remote_is_repaired_by_the_machine_that_has_the_objects(
    laptop, desk, hub
) -> None:
    desk.commit("theirs", notes="# Notes\n")
    desk.sync(hub)
    commit = head_of(hub, f"memory/{desk.instance.id}")
    path = hub / "objects" / commit[:2] / commit[2:]
    path.chmod(0o644)
    path.write_bytes(b"broken")
    with pytest.raises(RemoteDamagedError):
        laptop.sync(hub)
    assert "repaired" in desk.sync(hub).notes[0]
    laptop.sync(hub)
    assert "notes.md" in laptop.files()
    assert desk.sync(hub).notes == ()


def hold_large_file(machine) -> None:
    """Let a history hold a file that others refuse, as an earlier version made it."""
    repository = machine.journal.repository
    head, blob = repository.head(), git_object("blob", os.urandom(40_000))
    tree, made = rewrite_tree(repository.tree, repository.tree_of(head), {"big.bin": blob.id})
    first = commit_of(tree, [head])
    objects = [blob, *made, first, commit_of(repository.tree_of(head), [first.id])]
    repository.objects.write(objects)
    repository.objects.keep()
    repository.set_head(objects[-1].id)
    (machine.root / "journal.git" / SIZES_FILE).unlink()


@pytest.mark.parametrize("over_http", [False, pytest.param(True, marks=NEEDS_GIT)])
def test_a_history_that_others_cannot_receive_becomes_one_that_they_can(
    laptop, desk, hub, monkeypatch, over_http
) -> None:
    for module in (packs, journal_epochs):
        monkeypatch.setattr(module, "MOST_OBJECT_BYTES", 10_000)
    monkeypatch.setattr(journal_exchange, "WORTH_GIT_BYTES", 0)
    with http_server(hub.parent) if over_http else nullcontext() as url:
        address = f"{url}/hub.git" if url else hub
        laptop.sync(address)
        hold_large_file(laptop)
        laptop.commit("ours", topics__tea="# Tea\n\n- green\n")
        with monkeypatch.context() as patch:
            patch.setattr(SyncEngine, "_drop_large_files", lambda _: [])
            laptop.sync(address)
            desk.sync(address)
        desk.commit("theirs", notes="# Notes\n")
        notes = [note for _ in range(2) for note in laptop.sync(address).notes]
        for machine in (desk, laptop, desk, laptop):
            machine.sync(address)
    assert len([note for note in notes if note.startswith("A file of more")]) == 1
    assert laptop.files() == desk.files()
    assert {"topics/tea.md", "notes.md"} <= laptop.files().keys()
    for machine in (laptop, desk):
        assert not SeenRefs(machine.journal.repository, "hub").aside()
        assert machine.journal.repository.objects.largest_bytes() < 10_000
