"""When the disk says no: one clear error, and every file as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import Disk, patiently
from familiar_cli.familiar import Familiar
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.cases import IS_NIGHT

linux_root = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.geteuid() != 0, reason="needs root on Linux"
)


def contents(root) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def filled(store):
    with store.transaction("test", "fill") as tx:
        tx.write("a.md", "old a")
        tx.write("b.md", "old b")
        tx.write("gone.md", "old c")
    return store


def change_all(store, size: int) -> None:
    with store.transaction("test", "all") as tx:
        tx.write("a.md", "new a")
        tx.write("new/dir/x.md", "new x")
        tx.delete("gone.md")
        tx.write("b.md", "b" * size)


LIMITED = """
import resource, signal, sys
from pathlib import Path
from familiar_cli.base.errors import FamiliarError
from familiar_cli.store.memory.store.store import MemoryStore
store = MemoryStore(Path(sys.argv[1]), lock_path=Path(sys.argv[2]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with store.transaction("test", "all") as tx:
        tx.write("a.md", "new a")
        tx.write("new/dir/x.md", "new x")
        tx.delete("gone.md")
        tx.write("z.md", "z" * 5000)
except FamiliarError as error:
    print(error)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of file size")
def test_a_write_that_fails_in_the_middle_changes_no_file(filled) -> None:
    before = contents(filled.root)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(filled.root), str(filled.lock_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "'z.md' could not be changed: File too large; no file was changed\n"
    assert contents(filled.root) == before
    assert not (filled.root / "new").exists()


@linux_root
def test_a_full_disk_changes_no_file(tmp_path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("this machine does not let us mount a disk")
    try:
        store = MemoryStore(disk / "memory", lock_path=tmp_path / "lock")
        for name in ("a.md", "b.md", "gone.md"):
            store.write_file(name, f"old {name}")
        before = contents(store.root)
        with pytest.raises(FamiliarError, match="No space left on device") as caught:
            change_all(store, 100_000)
        assert contents(store.root) == before
        assert "Free some space" in str(caught.value.hint)
        store.write_file("a.md", "there is room again")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(FamiliarError, match="Read-only file system"):
            store.write_file("a.md", "x")
        assert store.read_file("a.md") == "there is room again"
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@linux_root
def test_what_was_already_renamed_is_put_back(filled) -> None:
    last = filled.root / "b.md"
    if not immovable(last, on=True):
        pytest.skip("this file system cannot make a file immutable")
    before, inode = contents(filled.root), (filled.root / "a.md").stat().st_ino
    try:
        with pytest.raises(
            FamiliarError, match=r"'b\.md' could not be changed.*; no file was changed"
        ):
            change_all(filled, 10)
        assert contents(filled.root) == before
        assert (filled.root / "a.md").stat().st_ino == inode
    finally:
        immovable(last, on=False)
    change_all(filled, 10)
    assert filled.read_file("b.md") == "b" * 10


def immovable(path, *, on: bool) -> bool:
    """Set the flag that lets no one, not even root, change or rename a file."""
    import fcntl
    import struct

    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, 0x40086602, struct.pack("l", 0x10 * on))  # FS_IOC_SETFLAGS
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_a_lock_that_cannot_be_made_is_one_clear_error(tmp_path) -> None:
    (tmp_path / "file").touch()
    store = MemoryStore(tmp_path / "memory", lock_path=tmp_path / "file" / "lock")
    with pytest.raises(FamiliarError, match="cannot be written to"):
        store.write_file("a.md", "x")


def test_a_memory_that_is_a_file_is_one_clear_error(tmp_path) -> None:
    (tmp_path / "memory").touch()
    store = MemoryStore(tmp_path / "memory")
    with pytest.raises(FamiliarError):
        store.write_file("a.md", "x")
    with pytest.raises(FamiliarError):
        store.read_file("a.md")


class TestWindowsHoldsAFileForAMoment:
    def action(self, failures: int, winerror: int):
        def act(name):
            calls.append(name)
            if len(calls) <= failures:
                error = PermissionError(13, "in use")
                error.winerror = winerror
                raise error

        calls: list[str] = []
        return act, calls

    def test_so_a_rename_is_retried(self) -> None:
        act, calls = self.action(3, 32)
        patiently(act, "x")
        assert calls == ["x"] * 4

    def test_but_not_for_ever(self) -> None:
        act, _ = self.action(1000, 32)
        begun = time.perf_counter()
        with pytest.raises(PermissionError):
            patiently(act, "x")
        assert time.perf_counter() - begun < 5

    def test_and_not_for_other_reasons(self) -> None:
        act, calls = self.action(1000, 112)
        with pytest.raises(PermissionError):
            patiently(act, "x")
        assert calls == ["x"]


def leave_on_a_full_disk(disk: Path, room: int, count: int) -> set[Path] | None:
    """Return what three writes that did not fit left there; None if the last one did."""
    familiar = Familiar(FamiliarPaths(disk / "ada"))

    def files() -> set[Path]:
        found = disk.rglob("*")
        return {p for p in found if p.is_file() and not p.name.startswith(".lock")}

    def write(name: str) -> None:
        with familiar.memory.transaction("human", "x") as tx:
            for n in range(count):
                tx.write(f"topics/{name}{n}.md", os.urandom(2000).hex())

    familiar.memory.write_file("notes.md", "first")
    with (disk / "filler").open("wb", buffering=0) as filler:
        with suppress(OSError):
            while filler.write(bytes(4096)):
                pass
        os.truncate(disk / "filler", filler.tell() - room)
    before = files()
    is_written = False
    for _ in range(3):
        try:
            write("a")
            is_written = True
        except FamiliarError as error:
            if "No space left" not in str(error):
                raise
    left = files() - before
    (disk / "filler").unlink()
    write("b")
    assert familiar.past.log()
    familiar.memory.delete_file("topics/b0.md")
    assert familiar.past.undo().changes
    familiar.close()
    return None if is_written else left


ROOMS = (0, 4096, 16384, 28672, 100_000, 160_000)[:: 1 if IS_NIGHT else 2]


@linux_root
@pytest.mark.parametrize("count", [1, 40], ids=["one file", "many files, in a pack"])
def test_a_full_disk_is_left_no_fuller(tmp_path, count) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount a disk")
    try:
        for room in ROOMS:
            assert not leave_on_a_full_disk(disk, room, count), room
            for entry in disk.iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


MANY = 40


class Settling(Disk):
    """A disk that notes when files were made durable together, and may refuse that."""

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails
        self.settled: set[str] = set()
        self.named_too_early: list[str] = []

    def settle(self, paths) -> None:
        if self._fails:
            raise OSError(28, "No space left on device")
        super().settle(paths)
        self.settled.update(paths)

    def replace(self, old: str, new: str) -> None:
        if old.endswith(".new") and old not in self.settled:
            self.named_too_early.append(new)
        super().replace(old, new)


def change_many(root, disk: Disk) -> None:
    store = MemoryStore(root / "memory", lock_path=root / ".lock", disk=disk)
    with store.transaction("test", "many") as tx:
        for n in range(MANY):
            tx.write(f"topics/{n}.md", f"new {n}")


def test_many_files_are_durable_before_any_has_its_name(tmp_path) -> None:
    disk = Settling()
    change_many(tmp_path, disk)

    assert len(disk.settled) >= MANY
    assert disk.named_too_early == []
    assert contents(tmp_path / "memory")["topics/7.md"] == b"new 7"


def test_many_files_are_as_they_were_when_the_disk_does_not_keep_them(tmp_path) -> None:
    change_many(tmp_path, Disk())
    before = contents(tmp_path / "memory")
    (tmp_path / "memory" / "topics" / "7.md").write_text("by hand", encoding="utf-8")

    with pytest.raises(FamiliarError, match="no file was changed"):
        change_many(tmp_path, Settling(fails=True))

    assert contents(tmp_path / "memory") == {**before, "topics/7.md": b"by hand"}


def test_a_file_that_nobody_may_write_is_changed_among_many(tmp_path) -> None:
    change_many(tmp_path, Disk())
    page = tmp_path / "memory" / "topics" / "7.md"
    page.write_text("older", encoding="utf-8")
    page.chmod(0o444)

    with MemoryStore(tmp_path / "memory").transaction("test", "many") as tx:
        for n in range(MANY):
            tx.write(f"topics/{n}.md", f"newer {n}")

    assert page.read_text("utf-8") == "newer 7"
    assert page.stat().st_mode & 0o222 == 0
