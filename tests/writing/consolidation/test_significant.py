"""What a person wants remembered is kept in a file of its own and never touched again."""

from __future__ import annotations

from datetime import date

import pytest

from familiar_cli.base.errors import UsageError
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.consolidation.pages import remember_text

DAY = date(2026, 4, 7)


@pytest.fixture
def store(tmp_path):
    return MemoryStore(tmp_path / "memory")


def test_it_is_kept_under_its_day_and_title(store) -> None:
    kept = remember_text(store, "We saw the sea.\n\nIt was *cold*.", DAY, "The sea")
    assert kept.rel_path == "significant/2026-04-07_the-sea.md"
    assert store.read_file(kept.rel_path) == "# The sea\n\nWe saw the sea.\n\nIt was *cold*.\n"


def test_its_first_words_are_its_title_in_any_script(store) -> None:
    assert remember_text(store, "海を見た。", DAY).rel_path == "significant/2026-04-07_海を見た.md"
    assert remember_text(store, "🎉", DAY).rel_path == "significant/2026-04-07_memory.md"


def test_one_that_is_there_is_never_touched(store) -> None:
    first = remember_text(store, "One.", DAY, "Sea")
    second = remember_text(store, "Two.", DAY, "Sea")
    assert second.rel_path == "significant/2026-04-07_sea-2.md"
    assert store.read_file(first.rel_path) == "# Sea\n\nOne.\n"


def test_keeping_the_same_twice_is_keeping_it_once(store) -> None:
    first, again = remember_text(store, "One.", DAY), remember_text(store, "One.", DAY)
    assert (again.rel_path, again.unchanged) == (first.rel_path, True)


def test_nothing_is_nothing_to_remember(store) -> None:
    with pytest.raises(UsageError):
        remember_text(store, " \n", DAY)
