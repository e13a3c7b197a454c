"""On macOS and Windows, names that differ only in case or in Unicode form are one file."""

from __future__ import annotations

import unicodedata

import pytest

from familiar_cli.base.errors import NotFoundError, UnsafePathError
from tests.support.cases import each
from tests.support.dying import Dying
from tests.support.folding_disk import FOLDED, REAL, FoldingDisk
from tests.support.journals import World
from tests.support.world import live, run

CAFE, CAFE_NFD = (unicodedata.normalize(form, "café.md") for form in ("NFC", "NFD"))
TWINS = [("alice.md", "Alice.md"), (CAFE, CAFE_NFD), ("日記", "日記.MD"), ("é", "É")]


@pytest.fixture(params=["twins keep their name", "like Windows"])
def world(request, tmp_path, monkeypatch) -> World:
    (tmp_path / "memory").mkdir()
    if FOLDED != REAL:
        FoldingDisk(tmp_path, monkeypatch, like_windows=request.param == "like Windows")
    return World(tmp_path)


def names(world: World) -> list[str]:
    return sorted(path.name for path in world.store.root.glob("*.md"))


def respelled(world: World, old: str, new: str) -> None:
    (world.store.root / old).rename(world.store.root / new)
    world.past.log()  # the hand's edit is committed


def in_head(world: World) -> list[str]:
    return sorted(name for name in ("alice.md", "Alice.md", CAFE, CAFE_NFD) if world.at_head(name))


@pytest.mark.parametrize(("old", "new"), TWINS[:2])
def test_a_file_renamed_by_hand_survives_an_undo(world, old, new) -> None:
    world.commit("begin", other="text\n")
    world.store.write_file(old, "one of a kind\n", source="memory_writer")
    respelled(world, old, new)
    with pytest.raises(NotFoundError, match="no changes left to undo"):
        world.past.undo()
    world.past.log()
    assert names(world) == [new, "other.md"]
    assert in_head(world) == [new]
    assert world.store.read_file(new) == "one of a kind\n"


@pytest.mark.parametrize(("old", "new"), TWINS[:2])
def test_a_rename_by_hand_is_taken_back(world, old, new) -> None:
    world.store.write_file(old, "text\n")
    respelled(world, old, new)
    by_hand = next(c.commit.id for c in world.past.log() if c.commit.by_hand)
    world.past.undo(by_hand)
    assert names(world) == [old]
    assert in_head(world) == [old]
    assert world.store.read_file(old) == "text\n"


@pytest.mark.parametrize(("old", "new"), TWINS[:2])
def test_a_move_changes_the_spelling(world, old, new) -> None:
    world.store.write_file(old, "text\n")
    world.store.move_file(old, new)
    assert names(world) == [new]
    assert in_head(world) == [new]
    world.past.undo()
    assert names(world) == [old]
    assert in_head(world) == [old]


def test_a_twin_is_not_there(world) -> None:
    world.store.write_file("people/alice.md", "text\n")
    for twin in ("people/Alice.md", "People/alice.md"):
        assert not world.store.exists(twin)
        assert world.store.sha256(twin) is None
        with pytest.raises(NotFoundError) as missing:
            world.store.read(twin)
        assert missing.value.hint == "Did you mean 'people/alice.md'?"
        with pytest.raises(NotFoundError):
            world.store.walk(twin)
        with pytest.raises(UnsafePathError, match="the same file"):
            world.store.write_file(twin, "other")
    with pytest.raises(NotFoundError):
        world.store.list_dir("People")
    assert world.store.read_file("people/alice.md") == "text\n"


@pytest.mark.parametrize(("name", "twin"), TWINS)
def test_a_twin_is_told_from_the_file_whatever_the_script(world, name, twin) -> None:
    (world.store.root / name).write_text("text\n", encoding="utf-8")
    assert (world.store.exists(name), world.store.exists(twin)) == (True, False)


@each("step", range(1, 16))
def test_a_move_that_fails_half_way_leaves_the_file_as_it_was(tmp_path, monkeypatch, step) -> None:
    (tmp_path / "memory").mkdir()
    if FOLDED != REAL:
        FoldingDisk(tmp_path, monkeypatch)
    first = World(tmp_path)
    first.store.write_file("alice.md", "one of a kind\n")
    broken = World(tmp_path, Dying(step, "once"))
    try:
        broken.store.move_file("alice.md", "Alice.md")
    except Exception:  # noqa: BLE001  # whatever the store makes of it
        assert step
    again = World(tmp_path)
    again.past.log()
    assert len(names(again)) == 1
    assert in_head(again) == names(again)
    assert again.store.read_file(*names(again)) == "one of a kind\n"


def test_the_commands_keep_a_file_that_was_renamed_by_hand(monkeypatch) -> None:
    home = live("ada")
    FoldingDisk(home, monkeypatch)
    for name in ("notes.md", "alice.md"):
        run("memory", "write", name, "one of a kind\n")
    (home / "memory" / "alice.md").rename(home / "memory" / "Alice.md")
    assert "edited by hand: 2 files" in run("memory", "log").stdout
    run("memory", "undo")
    assert run("memory", "cat", "Alice.md").stdout == "one of a kind\n"
    assert run("memory", "mv", "Alice.md", "alice.md").exit_code == 0
    assert "alice.md" in [path.name for path in (home / "memory").iterdir()]
