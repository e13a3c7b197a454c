"""Packing: less room, nothing lost, and a crash leaves at most copies."""

from __future__ import annotations

import threading

import pytest

from familiar_cli.base.errors import FamiliarError, LockedError
from familiar_cli.store.journal.exchange import _MOST_PACKS
from familiar_cli.store.memory.store.store import hold_lock
from tests.support.journals import Hasty, World


@pytest.fixture
def grown(world) -> World:
    for n in range(30):
        world.store.append_file(f"people/{n % 7}.md", f"- {n}: something that was said\n")
    world.by_hand("self/.original.png", bytes(range(256)) * 400)
    world.store.catch_up()
    return world


def everything(world) -> list[tuple[str, str]]:
    found = []
    for change in world.past.log():
        _, files = world.past.show(change.commit.id)
        found.append((change.commit.id, "".join(file.diff for file in files)))
    return found


def test_everything_is_still_there_and_takes_less_room(grown) -> None:
    before = everything(grown)
    done = grown.past.compact()
    assert done.objects > 100
    assert done.bytes_after < done.bytes_before / 2
    assert grown.journal.repository.objects.loose() == []
    assert everything(grown) == before
    grown.check()


def test_again_there_is_nothing_to_do(grown) -> None:
    grown.past.compact()
    done = grown.past.compact()
    assert (done.objects, done.bytes_after) == (0, done.bytes_before)


def test_a_dry_run_only_counts(grown) -> None:
    loose = grown.journal.repository.objects.loose()
    done = grown.past.compact(dry_run=True)
    assert (done.objects, done.bytes_after) == (len(loose), None)
    assert grown.journal.repository.objects.loose() == loose


def test_without_a_journal_there_is_nothing_to_do(world) -> None:
    assert world.past.compact().objects == 0


def test_writing_and_undoing_go_on(grown) -> None:
    grown.past.compact()
    grown.store.append_file("people/3.md", "after\n")
    assert grown.past.undo().commit.message == "append people/3.md"
    assert "after" not in grown.store.read_file("people/3.md")
    grown.check()


def test_many_packs_become_one(grown) -> None:
    for n in range(_MOST_PACKS + 2):
        grown.store.append_file("people/1.md", f"{n}\n")
        grown.past.compact()
    packs = list((grown.root / "journal.git" / "objects" / "pack").glob("*.pack"))
    assert 1 <= len(packs) <= _MOST_PACKS
    assert len(grown.messages()) == 30 + 1 + _MOST_PACKS + 2
    grown.check()


def test_it_waits_for_its_turn(grown) -> None:
    grown.store.lock_timeout_s = 0.1
    with hold_lock(grown.store.lock_path, 1), pytest.raises(LockedError):
        grown.past.compact()


def test_a_reader_that_began_before_is_not_disturbed(grown) -> None:
    log = grown.again().past
    before = [c.commit.id for c in log.log()]
    packer = threading.Thread(target=grown.past.compact)
    packer.start()
    while packer.is_alive():
        assert [c.commit.id for c in log.log("people/1.md")]
    packer.join()
    assert [c.commit.id for c in log.log()] == before


class Failing(Hasty):
    """A disk that takes nothing away after the n-th time."""

    def __init__(self, left: int) -> None:
        self.left = left

    def unlink(self, path: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")
        super().unlink(path)


@pytest.mark.parametrize("left", [0, 50])
def test_what_breaks_off_leaves_only_copies(grown, left) -> None:
    before = everything(grown)
    broken = World(grown.root, Failing(left))
    with pytest.raises(FamiliarError, match="could not be written"):
        broken.past.compact()
    assert everything(grown) == before
    grown.check()
    grown.past.compact()
    assert everything(grown) == before
    grown.check()


def test_a_half_written_pack_of_a_crash_goes_but_not_what_git_is_writing(grown) -> None:
    objects = grown.root / "journal.git" / "objects"
    own = ["pack/tmp_pack_0123456789ab", "pack/tmp_pack_0123456789ab.idx"]
    gits = ["pack/tmp_pack_aB3xY9", "pack/multi-pack-index.lock", "tmp_obj_aB3xY9"]
    for name in (*own, *gits):
        (objects / name).write_bytes(b"half")
    grown.past.compact()
    assert [(objects / name).exists() for name in (*own, *gits)] == [False] * 2 + [True] * 3
    grown.check()
