"""Files: written whole or not at all, locked between processes, and never waited for."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base import files
from familiar_cli.base.errors import LockedError
from familiar_cli.base.files import (
    SETTLED_NS,
    TEMP_PREFIX,
    Disk,
    locked,
    open_patiently,
    path_of,
    read_plain,
    read_record,
    remove,
    stamp_of,
    temp_in,
    write_whole,
)
from familiar_cli.base.times.clock import wall_ns
from tests.support.cases import each
from tests.support.dying import DIED, Dying
from tests.support.processes import Process

POSIX = pytest.mark.skipif(os.name == "nt", reason="the system has no such thing")


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@each(
    ("content", "wanted"),
    [
        ("täglich\n", "täglich\n".encode()),
        ("a\r\nb", b"a\r\nb"),
        ("", b""),
        (b"\xff\x00", b"\xff\x00"),
        ([b"one ", b"two"], b"one two"),
    ],
)
def test_what_is_written_is_read(tmp_path, content, wanted) -> None:
    write_whole(tmp_path / "a.txt", "much longer than what comes next")
    write_whole(tmp_path / "a.txt", content)
    assert (tmp_path / "a.txt").read_bytes() == wanted
    assert names(tmp_path) == ["a.txt"]


@POSIX
@pytest.mark.parametrize("how", ["before", "torn"])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_crash_at_any_step_leaves_the_old_or_the_new(tmp_path, how, step) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    child = os.fork()
    if child == 0:
        Dying(step, how).put(str(path), b"new and longer")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == DIED
    assert path.read_bytes() == (b"old" if step < 3 else b"new and longer")
    assert all(name.startswith(TEMP_PREFIX) for name in names(tmp_path) if name != "a.txt")


@pytest.mark.parametrize("step", [1, 2])
def test_a_refusal_at_any_step_changes_nothing(tmp_path, step) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="No space left"):
        Dying(step, "once").put(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.txt"]


def test_parts_that_fail_half_way_leave_the_old_file(tmp_path) -> None:
    def parts():
        yield b"new"
        raise KeyboardInterrupt

    write_whole(tmp_path / "a.txt", "old")
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a.txt", parts())
    assert (tmp_path / "a.txt").read_bytes() == b"old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(("durable", "synced"), [(True, ["sync", "rename"]), (False, ["rename"])])
def test_content_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch, durable, synced) -> None:
    steps = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda _: steps.append("sync"))
    monkeypatch.setattr(os, "replace", lambda *a: (steps.append("rename"), replace(*a)))
    write_whole(tmp_path / "a.txt", "x", durable=durable)
    assert steps[: len(synced)] == synced
    assert ("sync" in steps) == durable


WRITE_OFTEN = """
import sys
from familiar_cli.base.files import write_whole
for _ in range(200):
    write_whole(sys.argv[1], sys.argv[2] * 5000, durable=False)
"""


def test_two_writers_never_mix_and_a_reader_never_sees_half(tmp_path) -> None:
    path = tmp_path / "a.txt"
    write_whole(path, "a" * 5000)
    argv = [sys.executable, "-c", WRITE_OFTEN, str(path)]
    writers = [Process([*argv, letter]) for letter in "bc"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(path.read_text())
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen <= {"a" * 5000, "b" * 5000, "c" * 5000}
    assert len(seen) > 1
    assert names(tmp_path) == ["a.txt"]


def test_no_two_temporary_names_are_the_same() -> None:
    assert len({temp_in("x", ".new") for _ in range(5000)}) == 5000


@POSIX
def test_permissions_stay(tmp_path) -> None:
    path = tmp_path / "key.toml"
    path.write_text("old")
    path.chmod(0o600)
    write_whole(path, "new")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o600)


@POSIX
def test_a_link_stays_a_link(tmp_path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/a.txt")
    for text in ("first", "second"):
        write_whole(tmp_path / "link", text)
        assert (tmp_path / "there" / "a.txt").read_text() == text
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "there") == ["a.txt"]


@POSIX
@pytest.mark.parametrize("linked", [False, True])
def test_what_is_no_plain_file_is_never_replaced(tmp_path, linked) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        write_whole(link if linked else pipe, "text")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["link", "pipe"]


def test_a_missing_directory_is_not_made(tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "missing" / "a.txt", "x")
    assert names(tmp_path) == []


def test_who_comes_second_is_told_after_a_while(tmp_path) -> None:
    with (
        locked(tmp_path / "lock"),
        pytest.raises(LockedError, match=r"'notes' for 0\.05 s; nothing was changed"),
        locked(tmp_path / "lock", 0.05, what="notes"),
    ):
        pytest.fail("both hold it")
    with locked(tmp_path / "lock", 0):
        pass


def test_a_lock_is_waited_for(tmp_path) -> None:
    order = []

    def second() -> None:
        with locked(tmp_path / "lock", 30):
            order.append("second")

    with locked(tmp_path / "lock"):
        waiting = threading.Thread(target=second)
        waiting.start()
        waiting.join(0.1)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


@pytest.mark.skipif(os.name == "nt", reason="an open file is not deleted there")
def test_a_lock_file_that_is_deleted_meanwhile_is_made_again(tmp_path, monkeypatch) -> None:
    import fcntl

    def lock_too_late(held: int, how: int, lock=fcntl.flock) -> None:
        (tmp_path / "lock").unlink()
        monkeypatch.setattr(fcntl, "flock", lock)
        lock(held, how)

    monkeypatch.setattr(fcntl, "flock", lock_too_late)
    with locked(tmp_path / "lock"), pytest.raises(LockedError), locked(tmp_path / "lock", 0):
        pass


def test_a_crash_frees_the_lock(tmp_path) -> None:
    code = (
        "import os, pathlib, sys; from familiar_cli.base.files import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): os._exit(9)"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "lock")]
    assert subprocess.run(argv, check=False).returncode == 9
    with locked(tmp_path / "lock", 0):
        pass


def test_a_disk_makes_no_file_where_one_is(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(FileExistsError):
        Disk().create(str(tmp_path / "a.txt"), b"new")
    assert (tmp_path / "a.txt").read_text() == "old"


def status(size: int, changed_ns: int, step_ns: int, *, restored: bool = False) -> SimpleNamespace:
    """Return what a file system that tells time in such steps says of a file."""
    first_ns = 123 if step_ns < 10**9 else 0  # a kernel's steps begin anywhere
    told_ns = changed_ns - (changed_ns - first_ns) % step_ns
    return SimpleNamespace(
        st_size=size, st_mtime_ns=0 if restored else told_ns, st_ctime_ns=told_ns, st_dev=0
    )


moments = st.integers(min_value=0, max_value=20_000_000_000)


@given(
    st.lists(moments, min_size=3, max_size=3).map(sorted),
    st.sampled_from([1, 4_000_000, 10_000_000, 1_000_000_000, 2_000_000_000]),
    st.booleans(),
    st.booleans(),
)
def test_no_edit_after_a_look_goes_unseen_whatever_the_steps_of_time(
    order, step, restored, local
) -> None:
    first, looked, second = order
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "is_local_disk", lambda _: local)
        seen = stamp_of(status(7, first, step), looked)
        now = stamp_of(status(7, second, step, restored=restored and os.name != "nt"), 10**12)
    assert not now.shows_no_change_since(seen)


@pytest.mark.parametrize(("step", "settled"), [(10_000_000, True), (1_000_000_000, False)])
def test_fine_times_of_a_local_disk_are_trusted_soon(monkeypatch, step, settled) -> None:
    monkeypatch.setattr(files, "is_local_disk", lambda _: True)
    assert stamp_of(status(7, 10**12, step), 10**12 + 10**9).settled is settled


@given(moments, st.integers(min_value=SETTLED_NS + 1), st.integers(min_value=0))
def test_a_file_that_was_left_alone_shows_it(changed, then, later) -> None:
    seen = stamp_of(status(7, changed, 1), changed + then)
    assert stamp_of(status(7, changed, 1), changed + then + later).shows_no_change_since(seen)


def test_another_size_shows_at_once() -> None:
    seen = stamp_of(status(7, 5, 1), 10**12)
    assert not stamp_of(status(8, 5, 1), 10**12).shows_no_change_since(seen)


def test_an_edit_of_the_same_size_at_the_same_time_shows(tmp_path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    seen = stamp_of(path.stat(), wall_ns())
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_text("two")
    os.utime(path, ns=times)
    assert not stamp_of(path.stat(), wall_ns()).shows_no_change_since(seen)


@pytest.fixture
def windows(monkeypatch):
    """Has files answer as on Windows, and counts how often one was waited for."""
    waited = []
    monkeypatch.setattr("familiar_cli.base.files.ON_WINDOWS", True)
    monkeypatch.setattr("familiar_cli.base.files.time.sleep", waited.append)
    return waited


def held_twice(call, code: int | None = None):
    """Return `call` as it is while another program holds the file: it fails at first."""
    left = [1, 2]

    def held(path, *more, **named):
        if left:
            left.pop()
            error = PermissionError(errno.EACCES, "Permission denied", str(path))
            if code:
                error.winerror = code
            raise error
        return call(path, *more, **named)

    return held


def test_a_file_that_another_program_holds_is_read_in_the_end(
    tmp_path, monkeypatch, windows
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"text")
    monkeypatch.setattr(os, "open", held_twice(os.open))
    assert read_plain(path) == b"text"
    monkeypatch.setattr("builtins.open", held_twice(open))
    with open_patiently(path) as file:
        assert file.read() == b"text"
    assert len(windows) == 4


def test_one_that_is_held_is_replaced_and_removed_in_the_end(
    tmp_path, monkeypatch, windows
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "replace", held_twice(os.replace, 32))
    write_whole(path, "new")
    assert path.read_bytes() == b"new"
    monkeypatch.setattr(os, "unlink", held_twice(os.unlink, 32))
    remove(path)
    assert names(tmp_path) == []
    assert len(windows) == 4


def test_a_directory_is_never_waited_for(tmp_path, monkeypatch, windows) -> None:
    monkeypatch.setattr(os, "open", held_twice(os.open))
    with pytest.raises(PermissionError):
        read_plain(tmp_path)
    assert windows == []


def test_what_is_forbidden_elsewhere_is_not_waited_for(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("familiar_cli.base.files.time.sleep", lambda _: pytest.fail("waited"))
    monkeypatch.setattr(os, "open", held_twice(os.open))
    with pytest.raises(PermissionError):
        read_plain(tmp_path / "a.txt")


def test_a_read_only_file_is_replaced_and_removed(tmp_path, monkeypatch, windows) -> None:
    def unless_read_only(call):
        def checked(*paths):
            if not Path(paths[-1]).stat().st_mode & stat.S_IWRITE:
                error = PermissionError(errno.EACCES, "Access is denied", paths[-1])
                error.winerror = 5
                raise error
            return call(*paths)

        return checked

    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    path.chmod(stat.S_IREAD)
    monkeypatch.setattr(os, "replace", unless_read_only(os.replace))
    monkeypatch.setattr(os, "unlink", unless_read_only(os.unlink))
    write_whole(path, "new")
    assert path.read_bytes() == b"new"
    assert not path.stat().st_mode & stat.S_IWRITE
    remove(path)
    assert names(tmp_path) == []
    remove(path)  # nothing is there: nothing to do


# Where a file that is held stays, and goes another time.
IMPATIENT = {
    "writing/consolidation/composing.py",
    "context/trace.py",
    "base/files.py",
    "store/search/vectors.py",
    "store/journal/exchange.py",
    "store/journal/finish.py",
    "store/journal/git.py",
    "store/journal/objects.py",
    "store/memory/store/transactions.py",
    "store/memory/store/store.py",
}


def test_files_are_renamed_and_removed_in_one_place_which_waits() -> None:
    package = Path(__file__).parents[2] / "familiar_cli"
    calls = re.compile(r"\bos\.(?:replace|rename|unlink|remove)\(|\.unlink\((?!os)|shutil\.move")
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if calls.search(line) and "disk.unlink(" not in line and "Disk().unlink" not in line
    }
    assert found - IMPATIENT == set()


def test_a_record_is_read_as_editors_leave_it_and_is_none_where_it_has_another_form(
    tmp_path,
) -> None:
    path = tmp_path / "record.json"
    for content in (b'\xef\xbb\xbf{"a": ["b"]}', b'{"a": ["\\ud800"]}'):
        path.write_bytes(content)
        assert read_record(path, dict[str, list[str]])
    for content in (b'{"a": "b"}', b"[]", b'{"a": [1]}', b"{", b"[" * 100_000, b"\xff"):
        path.write_bytes(content)
        assert read_record(path, dict[str, list[str]]) is None
    assert read_record(tmp_path / "none.json", dict[str, list[str]]) is None


def test_a_typed_path_is_shown_without_its_way_back(tmp_path, monkeypatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert path_of("../there") == (tmp_path / "there").resolve()
