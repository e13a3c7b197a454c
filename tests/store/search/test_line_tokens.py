"""Token vectors of memory: made with the index, kept through crashes, and left aside when gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from familiar_cli.store.search import token_vectors, vectors
from familiar_cli.store.search.build import EmbeddingIndex
from tests.support.cases import IS_NIGHT
from tests.support.embedders import TokenWordEmbedder, WordEmbedder
from tests.support.processes import Process

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def embedder() -> TokenWordEmbedder:
    return TokenWordEmbedder()


def fill(world, first: int = 0, last: int = 30) -> None:
    for number in range(first, last):
        world.put(f"{number:03}.md", f"# N{number}\n\nword{number} and tea{number}\n")


def files(world) -> list[Path]:
    return list(world.index.directory.glob("tokens-*"))


def held(world) -> dict[str, list[list[int]]]:
    """Return the rows of every line, by its text."""

    def read(connection):
        rows = token_vectors.map_rows(connection, world.index.directory)
        found = connection.execute(
            "SELECT text, rows_from, rows_count FROM chunks WHERE rows_count IS NOT NULL"
        )
        return {text: rows[start : start + count].tolist() for text, start, count in found}

    return world.index.use(read)


def meant(world, embedder) -> dict[str, list[list[int]]]:
    """Return the rows that every line should have."""
    found = {}
    for number in range(len(held(world))):
        words = [f"n{number}", f"word{number}", f"tea{number}"]
        rows = token_vectors.quantise_vectors(np.array([embedder.token(word) for word in words]))
        found[f"# N{number}\n\nword{number} and tea{number}\n"] = rows.tolist()
    return found


def test_every_line_has_the_vectors_of_its_words(world, embedder) -> None:
    fill(world)
    world.index.build_if_stale(embedder)
    assert len(files(world)) == 1
    assert held(world) == meant(world, embedder)


def test_only_lines_are_read_by_the_model(world, embedder) -> None:
    world.put("a.md", "# A\n\nOne paragraph.\n\nAnother one.\n")
    world.index.build_if_stale(embedder)
    assert len(embedder.read) == 2
    assert world.index.status().waiting == 0


def test_adding_files_later_comes_to_the_same_as_building_at_once(world, embedder) -> None:
    for last in (7, 8, 30):
        fill(world, 0, last)
        world.index.refresh()
        while world.index.embed_waiting(embedder, at_most=5).done:
            pass
    assert len(files(world)) == 1
    assert held(world) == meant(world, embedder)


def test_a_moved_file_keeps_its_rows(world, embedder) -> None:
    fill(world)
    world.index.build_if_stale(embedder)
    size, embedder.read = files(world)[0].stat().st_size, []
    (world.root / "003.md").rename(world.root / "moved.md")
    world.put("003.md", "# Other\n\nnothing\n")
    world.index.build_if_stale(embedder)
    assert "# N3\n\nword3 and tea3\n" in held(world)
    assert files(world)[0].stat().st_size < size + 32 * 5


def test_the_line_whose_tokens_are_nearest_comes_first(world) -> None:
    embedder = TokenWordEmbedder(alike=[("parasol", "umbrella"), ("stolen", "theft")])
    world.put("a.md", "# A\n\nThe theft of my umbrella.\n")
    world.put("b.md", "# B\n\nAn umbrella in the rain.\n")
    world.put("c.md", "# C\n\nBread and butter.\n")
    world.index.build_if_stale(embedder)
    first, second = world.ask("stolen parasol", embedder).hits[:2]
    assert (first.rel_path, second.rel_path) == ("a.md", "b.md")
    assert first.signals.maxsim_line == first.signals.maxsim_passage == 1
    assert second.signals.maxsim_line < 1


def test_a_model_without_token_vectors_goes_by_whole_texts(world) -> None:
    fill(world)
    world.index.build_if_stale(WordEmbedder())
    assert files(world) == []
    (hit, *_) = world.ask("word17", WordEmbedder(), method="dense").hits
    assert (hit.rel_path, hit.signals.maxsim_line, hit.signals.maxsim_passage) == (
        "017.md",
        None,
        None,
    )


@pytest.mark.parametrize("other", [{"token_version": "words-2"}, {"width": 16}, {"model": "other"}])
def test_another_version_or_model_is_read_anew(world, embedder, other) -> None:
    fill(world)
    world.index.build_if_stale(embedder)
    changed = TokenWordEmbedder(**({"token_version": "words-2"} | other))
    assert world.ask("word17", changed).method == "lexical"
    world.index.build_if_stale(changed)
    assert len(changed.read) == 30
    assert len(files(world)) == 1
    assert held(world) == meant(world, changed)
    assert world.ask("word17", changed).hits[0].signals.maxsim_line == 1


@pytest.mark.parametrize("damage", ["missing", "short", "foreign"])
def test_a_damaged_file_is_left_aside_and_made_again(world, embedder, damage) -> None:
    fill(world)
    world.index.build_if_stale(embedder)
    (path,) = files(world)
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[:-5] if damage == "short" else b"x" * len(content))
    world.index = EmbeddingIndex(world.store)
    (hit, *_) = world.ask("word17", embedder).hits
    assert (hit.rel_path, hit.signals.maxsim_line) == ("017.md", None)
    world.index.build_if_stale(embedder)
    assert held(world) == meant(world, embedder)


def test_what_nobody_needs_is_left_behind_when_it_is_most(world, embedder, monkeypatch) -> None:
    monkeypatch.setattr(token_vectors, "_DEAD_ROWS", 10)
    monkeypatch.setattr(token_vectors, "_COPIED_ROWS", 7)
    fill(world)
    world.index.build_if_stale(embedder)
    (old,) = files(world)
    seen = world.index.use(lambda c: token_vectors.map_rows(c, world.index.directory))
    before = seen.copy()
    for number in range(20):
        (world.root / f"{number + 10:03}.md").unlink()
    world.index.build_if_stale(embedder)
    (new,) = files(world)
    assert new != old
    assert new.stat().st_size < old_size(before)
    assert held(world) == meant(world, embedder)
    assert (seen == before).all()  # whoever had the old file mapped still reads it


def old_size(rows) -> int:
    return rows.nbytes // 2


def test_a_search_notices_rows_that_another_index_object_added(world, embedder) -> None:
    fill(world)
    world.index.build_if_stale(embedder)
    world.ask("word17", embedder)
    world.put("new.md", "# New\n\nmarmalade\n")
    EmbeddingIndex(world.store).build_if_stale(embedder)
    (hit, *_) = world.ask("marmalade", embedder).hits
    assert (hit.rel_path, hit.signals.maxsim_line) == ("new.md", 1)


KILLED = """
import sys, time
from pathlib import Path
from familiar_cli.store.search.build import EmbeddingIndex
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.embedders import TokenWordEmbedder

class Slow(TokenWordEmbedder):
    def read_passages(self, texts):
        print("batch", flush=True)
        return super().read_passages(texts)

EmbeddingIndex(MemoryStore(Path(sys.argv[1]))).build_if_stale(Slow())
"""


@pytest.mark.parametrize("batches", [1, 2, 3, 5, 8] if IS_NIGHT else [2, 5])
def test_a_killed_build_leaves_an_index_that_opens_and_continues(world, embedder, batches) -> None:
    fill(world, 0, 200)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", KILLED, str(world.root)]
    with Process(argv, stdout=subprocess.PIPE, env=env) as child:
        for _ in range(batches):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL if os.name != "nt" else signal.SIGTERM)
    assert world.index.status().vectors < 200
    assert world.ask("word7", embedder).hits[0].rel_path == "007.md"
    had = world.index.status().vectors
    built = world.index.build_if_stale(embedder)
    assert (built.embedded.done, built.embedded.waiting) == (200 - had, 0)
    assert held(world) == meant(world, embedder)
    assert len(files(world)) == 1


def test_a_crash_between_rows_and_their_places_is_overwritten(world, embedder, monkeypatch) -> None:
    fill(world, 0, 40)
    world.index.refresh()
    given = token_vectors.note_extents

    def crash(*_):
        raise KeyboardInterrupt

    world.index.embed_waiting(embedder, at_most=16)
    monkeypatch.setattr(token_vectors, "note_extents", crash)
    with pytest.raises(KeyboardInterrupt):
        world.index.embed_waiting(embedder)
    monkeypatch.setattr(token_vectors, "note_extents", given)
    assert world.index.status().vectors == 16
    world.index.build_if_stale(embedder)
    assert held(world) == meant(world, embedder)


@pytest.mark.parametrize("read_bytes", [0, 1 << 24], ids=["mapped", "read"])
def test_a_file_that_is_cut_short_under_a_running_program_ends_nothing(
    world, embedder, read_bytes, monkeypatch
) -> None:
    monkeypatch.setattr(vectors, "_READ_BYTES", read_bytes)
    fill(world)
    world.index.build_if_stale(embedder)
    assert world.paths("tea17", embedder, method="dense")[0] == "017.md"
    (cut,) = files(world)
    os.truncate(cut, 100)
    assert "017.md" in world.paths("tea17", embedder, method="dense")
    world.index.build_if_stale(embedder)
    assert held(world) == meant(world, embedder)
