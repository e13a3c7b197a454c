"""What remotes, disks, clocks and backups do wrong: no commit is lost, and nothing is blocked."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time

import pytest

from familiar_cli.base.errors import FamiliarError, RemoteDamagedError, RemoteUnreachableError
from familiar_cli.base.times import clock
from familiar_cli.store.journal.exchange import IncomingObjects
from familiar_cli.store.journal.objects import Objects, git_object
from familiar_cli.store.journal.packs import MOST_OBJECT_BYTES
from familiar_cli.sync.remotes import SeenRefs
from tests.support.cases import IS_NIGHT
from tests.support.dying import DIED, Dying
from tests.support.instances import Machine, adopt
from tests.support.processes import Process
from tests.support.remotes import HAS_GIT, bare, bare_by_hand

needs_git = pytest.mark.skipif(not HAS_GIT, reason="there is no git program")
posix = pytest.mark.posix


@pytest.fixture
def hub(tmp_path):
    return bare(tmp_path / "hub.git") if HAS_GIT else bare_by_hand(tmp_path / "hub.git")


@pytest.fixture
def stick(tmp_path):
    (tmp_path / "stick").mkdir()
    return f"dir:{tmp_path / 'stick'}"


@pytest.fixture(params=["hub", "stick"])
def remote(request):
    """Any remote: a repository, or a folder."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def laptop(tmp_path):
    machine = Machine(tmp_path / "laptop", "laptop")
    machine.commit("first", topics__tea="# Tea\n\n- green\n- black\n")
    yield machine
    machine.journal.repository.close()


@pytest.fixture
def second(laptop, tmp_path):
    """Makes another machine that has what a remote holds."""
    made = []

    def make(remote, name: str = "desk", **options) -> Machine:
        machine = Machine(tmp_path / name, name, began=laptop.instance.id, **options)
        adopt(machine, remote)
        made.append(machine)
        return machine

    yield make
    for machine in made:
        machine.journal.repository.close()


def head(machine) -> str:
    return str(machine.journal.repository.head())


def settle(remote, *machines) -> None:
    for _ in range(2):
        for machine in machines:
            machine.sync(remote)
    assert all(machine.files() == machines[0].files() for machine in machines)


def memory_ref(hub, machine):
    return hub / "refs" / "heads" / "memory" / machine.instance.id


def in_past(machine, commit: str) -> bool:
    from familiar_cli.store.journal.exchange import JournalExchange

    exchange = JournalExchange(machine.journal.repository, lambda: None)
    try:
        return exchange.leads_to(commit, head(machine))
    finally:
        machine.journal.repository.close()


# Refs that move as they should not


def test_our_own_ref_that_was_moved_back_is_moved_forward_again(laptop, hub) -> None:
    first = head(laptop)
    laptop.sync(hub)
    laptop.commit("later", a="a\n")
    laptop.sync(hub)
    memory_ref(hub, laptop).write_text(f"{first}\n")
    laptop.sync(hub)
    assert memory_ref(hub, laptop).read_text().strip() == head(laptop)


def test_a_force_push_over_all_refs_loses_no_commit_of_anybody(laptop, second, hub) -> None:
    laptop.sync(hub)
    desk = second(hub)
    desk.commit("theirs", notes="# Notes\n")
    settle(hub, desk, laptop)
    before = [head(laptop), head(desk)]
    objects = Objects(str(hub / "objects"))
    tree = git_object("tree", b"")
    alien = git_object("commit", f"tree {tree.id}\nauthor x <x> 1 +0000\n\nwiped\n".encode())
    objects.write([tree, alien])
    objects.close()
    for ref in (hub / "refs" / "heads").rglob("*"):
        if ref.is_file():
            ref.write_text(f"{alien.id}\n")
    (hub / "packed-refs").unlink(missing_ok=True)
    for machine, commit in zip((laptop, desk), before, strict=True):
        files = machine.files()
        with pytest.raises(FamiliarError):
            machine.sync(hub)
        assert machine.files() == files
        assert in_past(machine, commit)


# Remotes that are not whole


def test_an_empty_remote_is_filled_and_empties_nothing(laptop, second, remote) -> None:
    files = laptop.files()
    laptop.sync(remote)
    assert laptop.files() == files
    assert second(remote).files() == files


def test_a_ref_whose_objects_have_not_come_stops_nothing_for_good(laptop, second, hub) -> None:
    laptop.sync(hub)
    desk = second(hub)
    desk.sync(hub)
    there = memory_ref(hub, desk).read_text()
    memory_ref(hub, desk).write_text("1234567890" * 4 + "\n")
    laptop.commit("ours", a="a\n")
    files = laptop.files()
    with pytest.raises(FamiliarError):
        laptop.sync(hub)
    assert laptop.files() == files
    memory_ref(hub, desk).write_text(there)
    laptop.sync(hub)
    assert memory_ref(hub, laptop).read_text().strip() == head(laptop)


def test_a_remote_that_lost_an_object_is_refused_and_the_journal_stays_whole(
    laptop, second, hub
) -> None:
    laptop.sync(hub)
    desk = second(hub)
    desk.commit("theirs", notes="# Notes\n")
    desk.sync(hub)
    id_ = desk.journal.repository.commit(head(desk)).tree
    (hub / "objects" / id_[:2] / id_[2:]).unlink()
    with pytest.raises(FamiliarError):
        laptop.sync(hub)
    laptop.commit("goes on", a="a\n")
    laptop.check()


@needs_git
def test_a_remote_with_sha256_names_is_refused_clearly(laptop, tmp_path) -> None:
    hub = bare(tmp_path / "other.git", "--object-format=sha256")
    with pytest.raises(RemoteDamagedError, match="SHA-256"):
        laptop.sync(hub)


# Trees that no journal would write


def commit_of(hub, parent: str, rows: list[tuple[str, bytes, bytes]], instance: str) -> str:
    """Push a commit with a tree of these rows (mode, name, content or id) as another instance."""
    objects = Objects(str(hub / "objects"))
    made = []
    tree = b""
    for mode, name, content in sorted(rows, key=lambda row: row[1]):
        if mode == "40000":
            blob = git_object("blob", content)
            inner = git_object("tree", b"100644 inside.md\0" + bytes.fromhex(blob.id))
            made += [blob, inner]
            id_ = inner.id
        elif mode == "160000":
            id_ = hashlib.sha1(content).hexdigest()
        else:
            blob = git_object("blob", content)
            made.append(blob)
            id_ = blob.id
        tree += f"{mode} ".encode() + name + b"\0" + bytes.fromhex(id_)
    root = git_object("tree", tree)
    text = (
        f"tree {root.id}\nparent {parent}\nauthor x <x@y> 1700000000 +0000\n"
        "committer x <x@y> 1700000000 +0000\n\nhostile\n"
    )
    commit = git_object("commit", text.encode())
    objects.write([*made, root, commit])
    objects.close()
    ref = hub / "refs" / "heads" / "memory" / instance
    ref.parent.mkdir(parents=True, exist_ok=True)
    ref.write_text(f"{commit.id}\n")
    return commit.id


HOSTILE = [
    ("100644", b"..", b"out\n"),
    ("100644", b".", b"here\n"),
    ("40000", b"..", b"out\n"),
    ("40000", b".git", b"[core]\n"),
    ("40000", b".GIT", b"[core]\n"),
    ("100644", b"a/../../out.md", b"out\n"),
    ("100644", b"/etc/out.md", b"out\n"),
    ("100644", b"..\\out.md", b"out\n"),
    ("100644", b"C:out.md", b"out\n"),
    ("100644", b"CON.md", b"x\n"),
    ("100644", b"nul", b"x\n"),
    ("100644", b"trailing.", b"x\n"),
    ("100644", b"trailing ", b"x\n"),
    ("100644", b"esc\x1b[2J.md", b"x\n"),
    ("100644", b"\xff\xfe.md", b"x\n"),
    ("100644", b"n" * 300, b"x\n"),
    ("120000", b"link.md", b"/etc/passwd"),
    ("120000", b"memory", b".."),
    ("160000", b"module", b"x"),
    ("100644", b"big.md", b"x" * 2_000_000),
    ("40000", b".index", b"x\n"),
    ("100644", b".gitignore", b"*\n"),
]
TEA = ("100644", b"good.md", b"- good\n")


def everything_outside(machine) -> set[str]:
    """Return all files beside the memory, without the journal's own."""
    return {
        path.relative_to(machine.root.parent).as_posix()
        for path in machine.root.parent.rglob("*")
        if path.is_file()
        and "journal.git" not in path.parts
        and "hub.git" not in path.parts
        and "memory" not in path.parts
    }


@pytest.mark.parametrize("row", HOSTILE, ids=lambda row: f"{row[0]} {row[1][:20]!r}")
def test_a_hostile_name_stops_no_other_file_and_leads_nowhere(laptop, hub, row) -> None:
    laptop.sync(hub)
    before = everything_outside(laptop)
    commit_of(hub, head(laptop), [row, TEA], "evil-0000")
    for _ in range(2):
        laptop.sync(hub)
        assert laptop.files()["good.md"] == "- good\n"
        assert everything_outside(laptop) == before
        assert not any(p.is_symlink() for p in (laptop.root / "memory").rglob("*"))
        laptop.commit("goes on", a=f"{time.monotonic_ns()}\n")
        assert laptop.messages()
        laptop.past.show("HEAD")
    own = head(laptop)
    laptop.sync(hub)
    assert head(laptop) == own


def test_names_that_differ_only_in_case_are_both_kept_by_the_journal(laptop, hub) -> None:
    laptop.sync(hub)
    rows = [("100644", b"Note.md", b"- one\n"), ("100644", b"note.md", b"- two\n"), TEA]
    commit_of(hub, head(laptop), rows, "other-0000")
    laptop.sync(hub)
    laptop.sync(hub)
    kept = {laptop.at_head("Note.md"), laptop.at_head("note.md")}
    assert kept == {b"- one\n", b"- two\n"}


def test_a_file_of_hundreds_of_megabytes_is_refused_before_it_is_held(
    laptop, hub, monkeypatch
) -> None:
    laptop.sync(hub)
    size = MOST_OBJECT_BYTES + 1
    commit_of(hub, head(laptop), [("100644", b"huge.md", bytes(size)), TEA], "evil-0000")
    files = laptop.files()
    laptop.sync(hub)
    assert laptop.files() == files
    (aside,) = SeenRefs(laptop.journal.repository, "hub").aside().values()
    assert aside.name == "memory/evil-0000"


# Clocks, backups, several remotes


@pytest.mark.parametrize("years", [-40, 60])
def test_a_clock_that_is_wrong_by_years_decides_nothing(
    laptop, second, remote, years, monkeypatch
) -> None:
    laptop.sync(remote)
    desk = second(remote)
    now = clock.now
    laptop.commit("old", topics__tea="# Tea\n\n- green\n- black\n- white\n")
    laptop.sync(remote)
    monkeypatch.setattr(clock, "now", lambda: now().replace(year=now().year + years))
    desk.sync(remote)
    desk.commit("later", topics__tea="# Tea\n\n- green\n- white\n")
    desk.sync(remote)
    monkeypatch.setattr(clock, "now", now)
    laptop.sync(remote)
    assert laptop.files()["topics/tea.md"] == "# Tea\n\n- green\n- white\n"
    settle(remote, laptop, desk)


def test_two_machines_restored_from_one_backup_lose_nothing(laptop, tmp_path, remote) -> None:
    laptop.sync(remote)
    laptop.journal.repository.close()
    copies = []
    for name in ("one", "two"):
        shutil.copytree(laptop.root, tmp_path / name)
        copy = Machine(tmp_path / name, name)
        copy.commit(f"on {name}", **{name: f"- {name}\n"})
        copies.append(copy)
    settle(remote, *copies)
    assert {"one.md", "two.md"} <= set(copies[0].files())
    assert copies[0].instance.id != copies[1].instance.id
    for copy in copies:
        copy.journal.repository.close()


def test_one_machine_syncs_with_two_remotes(laptop, second, hub, stick) -> None:
    for remote in (hub, stick):
        laptop.sync(remote)
    at_home, away = second(hub, "at-home"), second(stick, "away")
    at_home.commit("at home", home="- home\n")
    away.commit("away", away="- away\n")
    at_home.sync(hub)
    away.sync(stick)
    for _ in range(2):
        for machine, remote in ((laptop, hub), (laptop, stick), (at_home, hub), (away, stick)):
            machine.sync(remote)
    assert at_home.files() == away.files() == laptop.files()
    assert {"home.md", "away.md"} <= set(laptop.files())


def test_an_instance_that_never_comes_back_keeps_nobody_waiting(laptop, second, remote) -> None:
    laptop.sync(remote)
    lost = second(remote, "lost")
    lost.commit("last words", words="- last\n")
    lost.sync(remote)
    desk = second(remote)
    settle(remote, laptop, desk)
    assert laptop.files()["words.md"] == "- last\n"


# Disks that fail, and processes that end


def attempt(machine, remote, disk: Dying) -> int:
    """Sync in a child process whose disk fails at a step, and return how it ended."""
    child = os.fork()
    if not child:
        code = 1
        try:
            dying = Machine(machine.root, machine.name, disk=disk)
            dying.sync(remote)
            code = 0
        except FamiliarError:
            code = 3
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@posix
@pytest.mark.parametrize("how", ["before", "full", "gone"])
def test_a_sync_that_ends_at_any_step_is_carried_on_by_the_next(
    laptop, second, tmp_path, remote, how
) -> None:
    laptop.sync(remote)
    desk = second(remote)
    codes = set()
    step = 3 if IS_NIGHT else 15
    for last in range(1, 200, step):
        desk.commit(f"theirs {last}", **{f"theirs{last}": f"- {last}\n"})
        desk.store.append_file("shared.md", f"- theirs {last}\n")
        desk.sync(remote)
        laptop.commit(f"ours {last}", **{f"ours{last}": f"- {last}\n"})
        ours = head(laptop)
        laptop.journal.repository.close()
        code = attempt(laptop, remote, Dying(last, how))
        codes.add(code)
        shared = laptop.files().get("shared.md", "")
        laptop.by_hand("shared.md", f"{shared}- typed {last}\n")
        laptop = Machine(laptop.root, "laptop")
        laptop.sync(remote)
        lines = laptop.files()["shared.md"].splitlines()
        assert {
            f"- {who} {n}" for who in ("theirs", "typed") for n in range(1, last + 1, step)
        } == {*lines}
        assert in_past(laptop, ours)
        desk.sync(remote)
        assert laptop.files() == desk.files()
        if code == 0:
            break
    assert codes <= {0, 3, DIED}
    assert len(codes) > 1
    laptop.check()


@posix
def test_what_was_being_moved_in_when_the_process_ended_is_moved_in_whole(
    laptop, second, remote, monkeypatch
) -> None:
    """A commit may come before what it leads to, and is then taken for all of it."""
    laptop.sync(remote)
    desk = second(remote)
    disk, move_in, loose = Dying(0, "before"), IncomingObjects.take_over, Objects.loose
    monkeypatch.setattr(  # in the worst order that they may have
        Objects, "loose", lambda own: sorted(loose(own), key=lambda i: own.get(i).kind != "commit")
    )
    last, code = 0, DIED
    while code == DIED:
        last += 1 if IS_NIGHT else 3
        desk.commit(f"theirs {last}", **{f"room{n}__{last}": f"- {last}\n" for n in range(3)})
        desk.sync(remote)
        laptop.journal.repository.close()
        disk.left = sys.maxsize
        with monkeypatch.context() as patches:
            patches.setattr(
                IncomingObjects,
                "take_over",
                lambda incoming, at=last: setattr(disk, "left", at) or move_in(incoming),
            )
            code = attempt(laptop, remote, disk)
        laptop = Machine(laptop.root, "laptop")
        laptop.sync(remote)
        assert laptop.files() == desk.files()
    assert last > 10
    assert code == 0
    laptop.check()


KILLED = """
import sys
from pathlib import Path
from tests.support.instances import Machine
machine = Machine(Path(sys.argv[1]), "laptop")
print("ready", flush=True)
machine.sync(sys.argv[2])
"""


@posix
def test_kill_9_at_any_moment_leaves_both_sides_whole(laptop, second, remote) -> None:
    laptop.sync(remote)
    desk = second(remote)
    kills = 10 if IS_NIGHT else 3
    for n in range(kills):
        desk.commit(f"theirs {n}", **{f"theirs{n}": f"- {n}\n"})
        desk.sync(remote)
        laptop.commit(f"ours {n}", **{f"ours{n}": f"- {n}\n" * 50})
        laptop.journal.repository.close()
        command = [sys.executable, "-c", KILLED, str(laptop.root), str(remote)]
        with Process(command, stdout=subprocess.PIPE) as child:
            assert child.stdout
            child.stdout.readline()
            time.sleep(0.3 / kills * n)
            child.kill()
        laptop.sync(remote)
        desk.sync(remote)
        assert laptop.files() == desk.files()
    assert len(laptop.files()) >= 1 + 2 * kills
    laptop.check()


@posix
@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.geteuid() != 0, reason="needs root on Linux"
)
@pytest.mark.parametrize("kind", ["hub", "stick"])
def test_a_full_disk_at_the_remote_loses_nothing(laptop, second, tmp_path, kind) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        remote = f"dir:{place}" if kind == "stick" else bare_by_hand(place / "hub.git")
        laptop.sync(remote)
        laptop.commit("much", **{f"much{n}": f"- {os.urandom(90_000).hex()}\n" for n in range(4)})
        ours = head(laptop)
        with pytest.raises(FamiliarError, match="No space left"):
            laptop.sync(remote)
        assert head(laptop) == ours
        desk = second(remote)
        assert desk.files()["topics/tea.md"] == laptop.files()["topics/tea.md"]
        subprocess.run(["mount", "-o", "remount,size=4m", place], check=True)
        laptop.sync(remote)
        desk.sync(remote)
        assert "much3.md" in desk.files()
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_a_missing_remote_keeps_nothing_from_going_on(laptop, tmp_path) -> None:
    for address in (tmp_path / "none.git", f"dir:{tmp_path / 'none'}"):
        with pytest.raises(RemoteUnreachableError):
            laptop.sync(address)
    laptop.commit("goes on", a="a\n")
    assert laptop.files()["a.md"] == "a\n"
