"""The memory-mapped copy of the vectors is only a copy."""

from __future__ import annotations

import os

import numpy as np
import pytest

from familiar_cli.store.search import vectors
from tests.support.cases import each
from tests.support.embedders import WordEmbedder


@pytest.fixture
def filled(world):
    for number in range(30):
        world.put(f"{number}.md", f"# N{number}\n\nword{number}\n")
    world.index.build_if_stale(WordEmbedder())
    return world


def matrix(world):
    (path,) = world.index.directory.glob("vectors-*")
    return path


def test_a_finished_build_puts_every_vector_into_the_file(filled) -> None:
    parts = filled.index.use(lambda c: vectors.load_vectors(c, filled.index.directory)).parts
    assert [*map(len, parts)] == [30]
    assert matrix(filled).stat().st_size == 16 + 30 * (8 + 1024 * 4)


def test_new_vectors_are_found_before_the_file_is_written_again(filled) -> None:
    filled.put("new.md", "marmalade")
    filled.index.refresh()
    filled.index.embed_waiting(WordEmbedder(), at_most=16)
    parts = filled.index.use(lambda c: vectors.load_vectors(c, filled.index.directory)).parts
    assert [*map(len, parts)] == [30, 1]
    assert filled.paths("marmalade", WordEmbedder(), method="dense")[0] == "new.md"


@pytest.mark.parametrize("damage", ["missing", "short", "foreign"])
def test_a_damaged_file_is_left_aside(filled, damage) -> None:
    path = matrix(filled)
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[:-5] if damage == "short" else b"x" * len(content))
    assert filled.paths("word17", WordEmbedder(), method="dense")[0] == "17.md"


@pytest.mark.parametrize("read_bytes", [0, 1 << 24], ids=["mapped", "read"])
def test_a_file_that_is_cut_short_under_a_running_program_is_made_again(
    filled, read_bytes, monkeypatch
) -> None:
    monkeypatch.setattr(vectors, "_READ_BYTES", read_bytes)
    assert filled.paths("word17", WordEmbedder(), method="dense")[0] == "17.md"
    for left_bytes in (8192, 10, 0):
        cut = matrix(filled)
        os.truncate(cut, left_bytes)
        assert filled.paths("word17", WordEmbedder(), method="dense")[0] == "17.md"
        assert matrix(filled) != cut
        assert matrix(filled).stat().st_size == 16 + 30 * (8 + 1024 * 4)


def test_what_was_deleted_is_not_found_though_the_file_still_has_it(filled) -> None:
    (filled.root / "17.md").unlink()
    assert "17.md" not in filled.paths("word17", WordEmbedder(), method="dense", k=30)


def records(ids, rows):
    kind = [("id", "<i8"), ("vector", "<f4", (rows.shape[1],))]
    return np.array(list(zip(ids, rows, strict=True)), kind)


def test_cosines_are_the_best_over_the_questions() -> None:
    rows = np.eye(3, dtype=np.float32)
    found = vectors.Vectors((records([2, 5, 9], rows),)).cosines(rows[:2])
    assert found.of(np.array([2, 5, 9, 11])) == {2: 1.0, 5: 1.0, 9: 0.0}
    assert sorted(found.top(2)) == [2, 5]
    assert found.top(2, np.array([9], np.int64)) == [9]


def test_parts_whose_ids_cross_are_sorted_together() -> None:
    rows = np.eye(2, dtype=np.float32)
    parts = (records([1, 8], rows), records([4], rows[:1]))
    found = vectors.Vectors(parts).cosines(rows[:1])
    assert found.of(np.array([1, 4, 8])) == {1: 1.0, 4: 1.0, 8: 0.0}


def test_no_vectors_are_near_nothing() -> None:
    found = vectors.Vectors(()).cosines(np.eye(2, dtype=np.float32))
    assert (found.top(3), found.of(np.array([1]))) == ([], {})


def test_a_mapped_file_keeps_what_was_read(filled, monkeypatch) -> None:
    monkeypatch.setattr(vectors, "_READ_BYTES", 0)
    (mapped,) = filled.index.use(lambda c: vectors.load_vectors(c, filled.index.directory)).parts
    before = mapped.copy()
    for number in range(3):  # as many vectors each time, in one process
        filled.put("0.md", f"# N0\n\nother{number}\n")
        filled.index.build_if_stale(WordEmbedder())
    assert (mapped == before).all()
    (found, *_) = filled.ask("other2", WordEmbedder(), method="dense").hits
    assert found.rel_path == "0.md"


def test_a_file_with_many_lines_that_are_gone_is_written_anew(filled, monkeypatch) -> None:
    monkeypatch.setattr(vectors, "DELTA_ROWS", 10)
    names = {matrix(filled).name}
    for number in range(15):
        filled.put(f"{number}.md", f"# N{number}\n\nother{number}\n")
    filled.index.build_if_stale(WordEmbedder())
    names.add(matrix(filled).name)
    assert len(names) == 2
    assert matrix(filled).stat().st_size == 16 + 30 * (8 + 1024 * 4)


def test_rows_are_written_one_after_the_other_over_what_a_crash_left(tmp_path) -> None:
    rows = np.arange(24, dtype=np.int8).reshape(6, 4)
    file = vectors.RowFile(tmp_path / "rows", ("i1", (4,)))
    file.append(0, rows[:2])
    file.append(2, -rows)
    file.append(2, rows[2:])
    assert file.load(6).tolist() == rows.tolist()
    assert file.load(2).tolist() == rows[:2].tolist()


def test_no_two_files_have_one_name() -> None:
    assert len({vectors.new_name("tokens-", ".i8") for _ in range(20)}) == 20


@each("damage", ["missing", "short", "foreign", "empty"])
def test_a_damaged_file_has_no_rows(tmp_path, damage) -> None:
    path = tmp_path / "rows"
    file = vectors.RowFile(path, ("i1", (4,)))
    file.append(0, np.ones((3, 4), np.int8))
    content = {
        "short": path.read_bytes()[:-1],
        "foreign": b"x" * path.stat().st_size,
        "empty": b"",
    }
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[damage])
    assert file.load(3) is None
    assert vectors.RowFile(path, ("i1", (8,))).load(1) is None
