from __future__ import annotations

import errno
import os
import subprocess

import pytest

from familiar_cli.base.errors import RemoteKeyError, RemoteRefusedError, RemoteUnreachableError
from familiar_cli.base.files import Disk
from familiar_cli.sync.begin import Sender, forget_folder, open_transport
from familiar_cli.sync.remotes import read_address
from tests.support.journals import HAS_GIT

posix = pytest.mark.posix
needs_git = pytest.mark.skipif(not HAS_GIT, reason="needs the git program")


@pytest.fixture
def laptop(machines):
    return machines("laptop-7f3a")


@pytest.fixture
def desktop(machines):
    return machines("desktop-0b1c")


def test_what_one_machine_pushes_another_fetches(laptop, desktop) -> None:
    head = laptop.note("tea")
    assert laptop.push() == []
    assert desktop.pull() == {laptop.ref: head, "refs/heads/main": head}
    assert desktop.file_at(head, "notes/tea.md") == b"- tea\n"


def test_a_push_with_nothing_new_writes_nothing(laptop) -> None:
    laptop.note("tea")
    laptop.push()
    before = laptop.bundles()
    assert laptop.push() == []
    assert laptop.bundles() == before


def test_a_second_push_holds_only_what_is_new(laptop, desktop) -> None:
    laptop.commit("much", notes="- one\n" + os.urandom(50_000).hex())
    laptop.push()
    laptop.note("tea")
    laptop.push()
    first, second = (laptop.folder / name for name in laptop.bundles())
    assert second.stat().st_size < first.stat().st_size / 20
    assert desktop.pull()[laptop.ref] == laptop.head


@needs_git
def test_git_reads_a_bundle_of_the_folder(laptop, tmp_path) -> None:
    laptop.note("tea")
    laptop.push()
    (name,) = laptop.bundles()
    subprocess.run(["git", "clone", "-q", laptop.folder / name, tmp_path / "clone"], check=True)
    assert (tmp_path / "clone/notes/tea.md").read_text() == "- tea\n"


def test_a_bundle_whose_predecessor_has_not_arrived_waits(laptop, desktop) -> None:
    first = laptop.note("one")
    laptop.push()
    laptop.note("two")
    laptop.push()
    third = laptop.note("three")
    laptop.push()
    missing = laptop.folder / laptop.bundles()[1]
    away = missing.rename(laptop.folder.parent / missing.name)
    assert desktop.pull()[laptop.ref] == first
    assert "waits" in desktop.told[0]
    away.rename(missing)
    assert desktop.pull()[laptop.ref] == third


def test_half_a_bundle_is_passed_over_and_named(laptop, desktop) -> None:
    first = laptop.note("one")
    laptop.push()
    laptop.note("two")
    laptop.push()
    second = laptop.folder / laptop.bundles()[1]
    whole = second.read_bytes()
    second.write_bytes(whole[: len(whole) // 2])
    assert desktop.pull()[laptop.ref] == first
    (told,) = desktop.told
    assert "has not arrived completely" in told
    assert repr(second.name) in told
    second.write_bytes(whole)
    assert desktop.pull()[laptop.ref] == laptop.head


def test_a_bundle_of_ours_that_broke_is_sent_again(laptop, desktop) -> None:
    laptop.note("one")
    laptop.push()
    (laptop.folder / laptop.bundles()[0]).write_bytes(b"torn")
    with pytest.raises(RemoteUnreachableError):
        laptop.push()
    (laptop.root / "journal.git/familiar-folders/stick.json").unlink()
    laptop.push()
    assert desktop.pull()[laptop.ref] == laptop.head


@pytest.mark.parametrize(
    "name",
    [
        ".DS_Store",
        "laptop-7f3a.000001.0123456789abcdef (conflicted copy 2026-11-22).bundle",
        "laptop-7f3a.000001.0123456789abcdef.bundle.tmp",
        "notes.md",
    ],
)
def test_foreign_files_are_passed_over_and_named(laptop, desktop, name) -> None:
    laptop.note("one")
    laptop.push()
    (laptop.folder / name).write_bytes(b"x")
    assert desktop.pull()[laptop.ref] == laptop.head
    assert len(desktop.told) == 1
    assert repr(name) in desktop.told[0]


def test_a_directory_with_the_name_of_a_bundle_is_passed_over(laptop, desktop) -> None:
    laptop.note("one")
    laptop.push()
    (laptop.folder / "laptop-7f3a.000002.0123456789abcdef.bundle").mkdir()
    assert desktop.pull()[laptop.ref] == laptop.head


def test_names_in_capitals_are_the_same_names(laptop, desktop) -> None:
    laptop.note("one")
    laptop.push()
    path = laptop.folder / laptop.bundles()[0]
    path.rename(path.with_name(path.name.upper()))
    assert desktop.pull()[laptop.ref] == laptop.head


def test_many_pushes_leave_few_bundles_and_lose_nothing(laptop, desktop) -> None:
    for n in range(60):
        laptop.note(f"n{n}")
        laptop.push()
        if n % 7 == 0:
            assert desktop.pull()[laptop.ref] == laptop.head
    assert len(laptop.bundles()) < 16
    assert desktop.pull()[laptop.ref] == laptop.head


def test_a_new_machine_reads_a_folded_folder(laptop, machines) -> None:
    for n in range(20):
        laptop.note(f"n{n}")
        laptop.push()
    third = machines("tablet-9999")
    assert third.pull()[laptop.ref] == laptop.head


def test_nobody_takes_away_the_bundles_of_another(laptop, desktop) -> None:
    laptop.note("one")
    laptop.push()
    mine = laptop.own_bundles()
    desktop.pull()
    for n in range(20):
        desktop.note(f"n{n}")
        desktop.push()
    assert laptop.own_bundles() == mine


def test_what_was_merged_is_whole_without_the_other_machines_bundles(
    laptop, desktop, machines
) -> None:
    theirs = laptop.note("one")
    laptop.push()
    desktop.note("two")
    desktop.pull()
    desktop.merged(theirs)
    desktop.push()
    for name in laptop.own_bundles():
        (laptop.folder / name).unlink()
    third = machines("tablet-9999")
    assert third.pull()[desktop.ref] == desktop.head
    assert third.file_at(theirs, "notes/one.md") == b"- one\n"


def test_a_bundle_with_commits_that_only_it_holds_stays_when_others_are_folded(
    laptop, machines, tmp_path
) -> None:
    for n in range(10):
        laptop.note(f"n{n}")
    laptop.push()
    twin = machines("twin-0000")  # a restored backup: the same id, and a past of its own
    twin.instance = laptop.instance
    twin.note("only-here")
    with twin.transport() as transport:
        transport.refs()
        transport._write(laptop.instance, {twin.ref: twin.head})
    (only,) = set(twin.bundles()) - set(laptop.bundles()[:1])
    for n in range(20):
        laptop.note(f"m{n}")
        with laptop.transport() as transport:
            transport.refs()
            transport._write(laptop.instance, {laptop.ref: laptop.head})
    assert only in laptop.bundles()


def test_a_twin_that_pushed_under_our_id_is_told_by_the_ref(laptop, machines) -> None:
    laptop.note("one")
    laptop.push()
    twin = machines("twin-0000")
    twin.instance = laptop.instance
    other = twin.note("two")
    with twin.transport() as transport:
        transport.refs()
        transport._write(laptop.instance, {twin.ref: other})
    laptop.note("three")
    with laptop.transport() as transport:
        assert transport.refs()[laptop.ref] == other
    assert laptop.push() != []


def test_a_ref_never_moves_back(laptop) -> None:
    old = laptop.note("one")
    laptop.note("two")
    laptop.push()
    assert laptop.push(old) != []
    assert laptop.pull()[laptop.ref] == laptop.head


def test_a_missing_folder_is_unreachable(laptop) -> None:
    laptop.note("one")
    laptop.folder.rmdir()
    with pytest.raises(RemoteUnreachableError, match="does not exist"):
        laptop.push()


def test_the_empty_directory_under_a_stick_that_was_pulled_out_is_not_written(laptop) -> None:
    laptop.note("one")
    laptop.push()
    laptop.folder.rename(laptop.folder.parent / "pulled-out")
    laptop.folder.mkdir()
    laptop.note("two")
    with pytest.raises(RemoteUnreachableError, match="held bundles before"):
        laptop.push()
    assert list(laptop.folder.iterdir()) == []


class Failing(Disk):
    """A medium that refuses to be written."""

    def __init__(self, error: int) -> None:
        self.error = error

    def create(self, path, content, **more) -> None:
        raise OSError(self.error, os.strerror(self.error), path)


@pytest.mark.parametrize("error", [errno.EROFS, errno.ENOSPC, errno.EIO, errno.EFBIG])
def test_a_medium_that_cannot_be_written_is_as_it_was(laptop, desktop, error) -> None:
    first = laptop.note("one")
    laptop.push()
    before = laptop.bundles()
    laptop.note("two")
    with pytest.raises(RemoteRefusedError, match="could not be written"):
        laptop.push(disk=Failing(error))
    assert laptop.bundles() == before
    assert desktop.pull()[laptop.ref] == first
    laptop.push()
    assert desktop.pull()[laptop.ref] == laptop.head


@posix
@pytest.mark.skipif(os.name != "nt" and os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_to_write_can_be_read(laptop, desktop) -> None:
    laptop.note("one")
    laptop.push()
    laptop.folder.chmod(0o555)
    try:
        assert desktop.pull()[laptop.ref] == laptop.head
        desktop.note("two")
        with pytest.raises(RemoteRefusedError):
            desktop.push()
    finally:
        laptop.folder.chmod(0o755)


class Torn(Disk):
    """A medium that keeps other bytes than it was given."""

    def create(self, path, content, **more) -> None:
        super().create(path, b"".join(content)[:-1] + b"?", **more)


def test_what_reads_back_differently_is_not_kept(laptop) -> None:
    laptop.note("one")
    with pytest.raises(RemoteRefusedError, match="reads back differently"):
        laptop.push(disk=Torn())
    assert list(laptop.folder.iterdir()) == []


class NoLongerThere(Disk):
    """A process that ends before its file has its name."""

    def replace(self, old, new) -> None:
        os._exit(9)


@posix
def test_a_killed_push_leaves_one_temporary_file_that_the_next_takes_away(laptop, desktop) -> None:
    laptop.note("one")
    child = os.fork()
    if not child:
        laptop.push(disk=NoLongerThere())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert len(list(laptop.folder.iterdir())) == 1
    assert desktop.pull() == {}
    laptop.push()
    assert desktop.pull()[laptop.ref] == laptop.head
    assert len(list(laptop.folder.iterdir())) == 1


def test_bundles_are_read_once(laptop, desktop) -> None:
    laptop.note("one")
    laptop.push()
    desktop.pull()
    (name,) = laptop.bundles()
    path = laptop.folder / name
    path.write_bytes(b"x" * path.stat().st_size)  # not looked at again: its size tells
    assert desktop.pull()[laptop.ref] == laptop.head
    assert desktop.told == []


def test_a_folder_is_opened_by_its_address(laptop, desktop) -> None:
    head = laptop.note("one")
    address = read_address(f"dir:{laptop.folder}")
    transport = open_transport(address, laptop.exchange, Sender(), name="stick")
    assert [one.refused for one in transport.push({laptop.ref: head})] == [""]
    transport.close()
    assert desktop.pull()[laptop.ref] == head


def test_a_folder_that_begins_anew_is_forgotten_first(laptop) -> None:
    laptop.note("one")
    laptop.push()
    (laptop.folder / laptop.bundles()[0]).unlink()
    forget_folder(str(laptop.root / "journal.git"), "stick")
    assert laptop.push() == []


def test_a_git_remote_gets_no_plain_text_when_all_is_to_be_encrypted(laptop, tmp_path) -> None:
    sender = Sender(encrypt=("passphrase",))
    with pytest.raises(RemoteKeyError, match="plain text"):
        open_transport(read_address(str(tmp_path / "hub.git")), laptop.exchange, sender)


def test_of_a_bundle_only_what_is_wanted_is_received(laptop, desktop) -> None:
    head, later = laptop.note("tea"), laptop.note("coffee")
    with laptop.transport() as transport:
        transport.push({f"refs/heads/turns/{laptop.instance}": head, laptop.ref: later})
    with desktop.transport() as transport, desktop.exchange.incoming() as incoming:
        transport.refs()
        transport.fetch([head], (), incoming)
        incoming.accept([head])
    assert desktop.exchange.has(head)
    assert not desktop.exchange.has(later)
