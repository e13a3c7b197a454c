"""Which files are pinned is known at once, whatever the index has read."""

from __future__ import annotations

import os

import pytest

from familiar_cli.store.search import build
from familiar_cli.store.search.build import find_pins
from familiar_cli.store.search.schema import IndexUnusableError

PINNED = "---\npinned: true\n---\n# Rules\n"


@pytest.fixture
def rules(world):
    world.put("rules.md", PINNED)
    world.put("notes.md", "# Notes\n\nNothing.\n")
    return world


def found(world, **limits) -> tuple[str, ...]:
    return find_pins(world.index, **limits).rel_paths


def test_a_memory_that_is_not_there_has_none(tmp_path, world) -> None:
    world.root.rmdir()
    assert found(world) == ()


def test_a_file_pinned_by_hand_counts_at_once(rules) -> None:
    assert found(rules) == ("rules.md",)
    rules.put("notes.md", "---\ntitle: N\npinned: yes\n---\n# Notes\n")
    assert found(rules) == ("notes.md", "rules.md")
    rules.put("rules.md", "# Rules\n")
    assert found(rules) == ("notes.md",)
    (rules.root / "notes.md").unlink()
    assert found(rules) == ()


def test_what_the_store_writes_counts_at_once(rules) -> None:
    rules.index.refresh()
    rules.store.write_file("notes.md", PINNED)
    rules.store.delete_file("rules.md")
    assert found(rules) == ("notes.md",)


def test_an_index_that_had_no_time_loses_no_pin(rules) -> None:
    pins_ = find_pins(rules.index, refresh_s=0.0)
    assert pins_.fresh.unread == 2
    assert (pins_.rel_paths, pins_.unread) == (("rules.md",), 0)


def test_an_index_behind_the_files_is_corrected_by_them(rules) -> None:
    rules.index.refresh()
    rules.put("rules.md", "# Rules, unpinned\n")
    rules.put("notes.md", PINNED)
    assert found(rules, refresh_s=0.0) == ("notes.md",)


def test_files_without_time_for_a_look_are_counted(rules) -> None:
    pins_ = find_pins(rules.index, refresh_s=0.0, within_s=0.0)
    assert (pins_.rel_paths, pins_.unread) == ((), 2)


def test_front_matter_longer_than_the_first_look_is_read(rules) -> None:
    long = "\n".join(f"key{n}: {'x' * 80}" for n in range(200))
    rules.put("long.md", f"---\n{long}\npinned: true\n---\n# Long\n")
    assert found(rules, refresh_s=0.0) == ("long.md", "rules.md")


def test_without_an_index_the_files_are_looked_at(rules, monkeypatch) -> None:
    def fail(_):
        raise IndexUnusableError("no")

    rules.put(".hidden/secret.md", PINNED)
    rules.put("picture.png", b"---\npinned: true\n---\n")
    monkeypatch.setattr(rules.index, "use", fail)
    assert found(rules) == ("rules.md",)


def test_a_page_that_is_not_utf_8_is_pinned_like_any_other(rules) -> None:
    rules.put("odd.md", b"---\npinned: true\n---\n\xff\xfe")
    assert found(rules) == ("odd.md", "rules.md")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read_is_named(rules) -> None:
    (rules.root / "rules.md").chmod(0)
    pins_ = find_pins(rules.index)
    assert [path for path, _ in pins_.problems] == ["rules.md"]


def test_files_known_to_be_pinned_or_not_are_not_opened_again(rules, monkeypatch) -> None:
    find_pins(rules.index)
    monkeypatch.setattr(build, "_is_pinned", lambda *_: pytest.fail("opened"))
    assert found(rules) == ("rules.md",)
