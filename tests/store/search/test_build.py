"""The index follows the files: what changed is seen, what did not is left alone."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from familiar_cli.base import files
from familiar_cli.base.who.visibility import OWNER, Viewer, person_scope
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.store.search import build, rank, rows, scan, schema
from familiar_cli.store.search.build import EmbeddingIndex
from familiar_cli.store.search.search import search_memory
from familiar_cli.store.search.types import SearchOptions
from tests.support.cases import IS_NIGHT
from tests.support.embedders import (
    BrokenEmbedder,
    EmbedderChoice,
    TokenWordEmbedder,
    WordEmbedder,
)
from tests.support.processes import Process

ROOT = Path(__file__).resolve().parents[3]


def age(path: Path, seconds: float = 3600) -> None:
    """Make a file look as if it had been left alone for a while."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_all_files_are_taken_in_and_none_is_read_twice(world) -> None:
    world.put("a.md", "# A\n")
    world.put("people/b.md", "# B\n")
    world.put("self/card.json", "{}")
    assert world.index.refresh().changed == ("a.md", "people/b.md")
    assert world.index.refresh().changed == ()


def test_the_room_of_a_deleted_page_is_given_back_once_it_is_most_of_the_index(
    world, monkeypatch
) -> None:
    world.put("a.md", "# Tea\n")
    world.put("b.md", "".join(f"zebra number {number}\n" for number in range(4000)))
    world.index.refresh()
    (world.index.store.root / "b.md").unlink()
    world.index.refresh()
    path = world.index.directory / schema.FILE
    before = world.index.status().size_bytes
    world.index.shrink()
    assert world.index.status().size_bytes == before
    monkeypatch.setattr(schema, "_FREE_BYTES", 0)
    world.index.shrink()
    assert path.stat().st_size < before / 2
    assert world.index.refresh().changed == ()


@pytest.mark.parametrize(("files", "chars", "unread"), [(19, 900, 0), (40, 9, 40), (2, 60_000, 2)])
def test_a_few_small_files_are_read_however_busy_the_machine_is(
    world, files, chars, unread
) -> None:
    for number in range(files):
        world.put(f"{number}.md", "tea " * (chars // 4))
    assert world.index.refresh(within_s=1e-9).unread == unread


def test_the_time_to_read_files_begins_when_they_are_listed(world, monkeypatch) -> None:
    for number in range(40):
        world.put(f"{number}.md", "tea")
    clock, scan_root = [0.0], scan.scan_root

    def scan_slowly(*given):
        clock[0] += 10.0
        return scan_root(*given)

    monkeypatch.setattr(scan, "scan_root", scan_slowly)
    monkeypatch.setattr(build, "stopwatch_s", lambda: clock[0])
    assert world.index.refresh(within_s=0.1).unread == 0


def test_there_is_no_cap_on_the_number_of_files(world) -> None:
    for number in range(1010):
        world.put(f"lore/{number:04}.md", f"# Entry {number}\n")
    assert len(world.index.refresh().changed) == 1010
    assert world.rows("SELECT COUNT(*) FROM documents") == [(1010,)]


@pytest.mark.parametrize("table", ["documents_fts", "passages_fts", "lines_fts"])
def test_a_search_for_a_word_goes_through_few_parts_however_many_files_there_are(
    world, table
) -> None:
    for number in range(15):
        world.put(f"{number}.md", f"# Page {number}\n\n- tea with guest {number}\n")
    world.index.refresh()
    parts = f"SELECT count(DISTINCT id >> 37) FROM {table}_data WHERE id >> 37"
    assert world.rows(parts)[0][0] <= 6
    found = world.rows(f"SELECT count(*) FROM {table} WHERE {table} MATCH 'guest'")
    assert found == [(15,)]


def test_mtime_alone_does_not_decide_so_a_checkout_re_embeds_nothing(world) -> None:
    world.put("a.md", "# A\n\ntea\n")
    embedder = WordEmbedder()
    world.index.build_if_stale(embedder)
    age(world.root / "a.md", 100)
    embedder.read.clear()
    built = world.index.build_if_stale(embedder)
    assert (built.refreshed.changed, built.refreshed.unchanged) == ((), 1)
    assert embedder.read == []


def test_an_edit_within_the_same_second_and_of_the_same_size_is_seen(world) -> None:
    world.put("a.md", "likes tea")
    stat = (world.root / "a.md").stat()
    world.index.refresh()
    world.put("a.md", "likes ale")
    os.utime(world.root / "a.md", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert world.index.refresh().changed == ("a.md",)
    assert world.paths("ale") == ["a.md"]
    assert world.paths("tea") == []


@pytest.fixture
def in_step(world, monkeypatch) -> None:
    """An index that holds `a.md` and `b.md`, and has noted so."""
    monkeypatch.setattr(files, "SETTLED_NS", -1)  # times are trusted at once
    world.put("a.md", "green tea")
    world.put("people/b.md", "black tea")
    world.index.refresh()
    world.index.refresh()
    assert world.rows("SELECT 1 FROM meta WHERE key = 'listing' AND value != ''")


@pytest.mark.usefixtures("in_step")
class TestOfFilesThatWereAllInStep:
    def test_none_is_compared_again(self, world, monkeypatch) -> None:
        monkeypatch.setattr(scan, "_compare_listing", None)
        assert world.index.refresh().unchanged == 2

    def test_an_edit_in_place_of_the_same_size_and_time_is_seen(self, world) -> None:
        status = (world.root / "people/b.md").stat()
        world.put("people/b.md", "white tea")
        os.utime(world.root / "people/b.md", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert world.index.refresh().changed == ("people/b.md",)

    def test_a_new_a_renamed_and_a_vanished_one_are_seen(self, world) -> None:
        world.put("people/c.md", "oolong")
        (world.root / "a.md").rename(world.root / "d.md")
        (world.root / "people/b.md").unlink()
        refreshed = world.index.refresh()
        assert refreshed.changed == ("d.md", "people/c.md")
        assert sorted(refreshed.removed) == ["a.md", "people/b.md"]

    def test_one_that_another_process_took_out_comes_back(self, world) -> None:
        world.index.use(lambda connection: rows.take_out(connection, ["a.md"]))
        assert world.index.refresh().changed == ("a.md",)

    def test_that_is_noted_later_rather_than_waited_for(self, world) -> None:
        world.index.use(lambda connection: rows.take_out(connection, ["a.md"]))
        world.index.refresh()
        held = sqlite3.connect(world.index.directory / schema.FILE, isolation_level=None)
        held.execute("BEGIN IMMEDIATE")
        begun_s = time.monotonic()
        assert world.index.refresh().unchanged == 2
        held.close()
        assert time.monotonic() - begun_s < schema.BUSY_S / 2


def test_vanished_files_are_purged(world) -> None:
    world.put("a.md", "tea")
    world.index.build_if_stale(WordEmbedder())
    (world.root / "a.md").unlink()
    assert world.index.refresh().removed == ("a.md",)
    for table in ("documents", "chunks", "documents_fts", "passages_fts", "lines_fts"):
        assert world.rows(f"SELECT COUNT(*) FROM {table}") == [(0,)]


def test_a_file_that_is_not_utf8_is_searched_as_it_is_shown(world) -> None:
    world.put("bad.md", b"tea \xff bytes")
    (hit,) = world.ask("tea").hits
    assert (hit.rel_path, hit.text) == ("bad.md", "tea \ufffd bytes")


def test_an_over_cap_file_can_be_searched(world) -> None:
    world.put("big.md", "filler words here. " * 20_000 + "\n\nthe marmalade clause\n")
    assert world.paths("marmalade") == ["big.md"]


def test_only_what_changed_in_a_file_is_embedded_again(world) -> None:
    turns = [f"**Ada:** words of turn {n}\n" for n in range(40)]
    world.put("a.md", "# T\n\n" + "\n".join(turns))
    embedder = WordEmbedder()
    world.index.build_if_stale(embedder)
    whole = len(embedder.read)
    embedder.read.clear()
    turns[20] = "**Ada:** something new\n"
    world.put("a.md", "# T\n\n" + "\n".join(turns))
    world.index.build_if_stale(embedder)
    assert 0 < len(embedder.read) < whole / 5


def test_a_moved_file_keeps_its_vectors(world) -> None:
    world.put("people/alice.md", "# Alice\n\nLikes tea.\n")
    embedder = WordEmbedder()
    world.index.build_if_stale(embedder)
    embedder.read.clear()
    world.put("people/discord-1.md", "# Alice\n\nLikes tea.\n")
    world.index.refresh()
    (world.root / "people/alice.md").unlink()
    world.index.build_if_stale(embedder)
    assert embedder.read == []


def test_vectors_are_little_endian_float32_of_length_one(world) -> None:
    world.put("a.md", "tea")
    world.index.build_if_stale(WordEmbedder(dimension=32))
    for (vector,) in world.rows("SELECT vector FROM chunks WHERE level = 1"):
        row = np.frombuffer(vector, "<f4")
        assert row.shape == (32,)
        assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)


def test_the_models_name_is_stored_so_two_of_one_dimension_never_mix(world) -> None:
    world.put("a.md", "tea")
    world.index.build_if_stale(WordEmbedder("one"))
    two = WordEmbedder("two")
    assert world.ask("tea", two).method == "lexical"
    built = world.index.build_if_stale(two)
    assert built.embedded.replaced_model == "one"
    assert (built.embedded.waiting, world.index.status().model) == (0, "two")
    assert world.ask("tea", two).method == "hybrid"


def test_a_model_of_another_dimension_takes_over(world) -> None:
    world.put("a.md", "tea")
    world.index.build_if_stale(WordEmbedder("one", 64))
    world.index.build_if_stale(WordEmbedder("two", 32))
    assert world.paths("tea", WordEmbedder("two", 32)) == ["a.md"]


def test_a_build_can_be_cut_short_and_goes_on_where_it_was(world) -> None:
    for number in range(30):
        world.put(f"{number}.md", f"# N{number}\n\nword{number}\n")
    embedder = WordEmbedder()
    world.index.refresh()
    first = world.index.embed_waiting(embedder, at_most=16)
    rest = world.index.embed_waiting(embedder)
    assert first.done + rest.done == len(world.rows("SELECT id FROM chunks WHERE level = 1"))
    assert rest.waiting == 0
    assert len(embedder.read) == len(set(embedder.read))


def test_a_killed_build_leaves_an_index_that_works_and_goes_on(world) -> None:
    for number in range(60):
        world.put(f"{number:02}.md", f"# N{number}\n\nword{number}\n")
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from familiar_cli.store.search.build import EmbeddingIndex\n"
        "from familiar_cli.store.memory.store.store import MemoryStore\n"
        "from tests.support.embedders import WordEmbedder\n"
        "class Slow(WordEmbedder):\n"
        "    def passages(self, texts):\n"
        "        print('batch', flush=True); time.sleep(0.2); return super().passages(texts)\n"
        "EmbeddingIndex(MemoryStore(Path(sys.argv[1]))).build_if_stale(Slow())\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Process(
        [sys.executable, "-c", code, str(world.root)], stdout=subprocess.PIPE, env=env
    ) as child:
        for _ in range(3):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL if os.name != "nt" else signal.SIGTERM)
    had = world.rows("SELECT COUNT(vector_seq) FROM chunks")[0][0]
    assert 0 < had < 60
    built = world.index.build_if_stale(WordEmbedder())
    assert (built.refreshed.changed, built.embedded.waiting) == ((), 0)
    assert world.paths("word37", WordEmbedder())[0] == "37.md"


def test_an_embedder_that_fails_keeps_what_is_there(world) -> None:
    from familiar_cli.store.search.types import EmbedderError

    world.put("a.md", "tea")
    world.index.refresh()
    with pytest.raises(EmbedderError):
        world.index.embed_waiting(BrokenEmbedder())
    assert world.index.status().waiting == 1
    assert world.paths("tea") == ["a.md"]


@pytest.mark.parametrize(
    "content", [b"", b"no database at all" * 100, b"SQLite format 3\x00" + b"x" * 5000]
)
def test_a_corrupt_index_is_made_anew(world, content) -> None:
    world.put("a.md", "tea")
    world.index.refresh()
    for path in world.index.directory.glob("embeddings.sqlite*"):
        path.unlink()
    (world.index.directory / schema.FILE).write_bytes(content)
    assert world.paths("tea") == ["a.md"]


def test_an_index_damaged_in_its_middle_is_made_anew(world) -> None:
    for number in range(50):
        world.put(f"{number}.md", f"# N{number}\n\nword{number} tea\n")
    world.index.build_if_stale(WordEmbedder())
    path = world.index.directory / schema.FILE
    for wal in world.index.directory.glob("*-wal"):
        wal.unlink()
    content = bytearray(path.read_bytes())
    content[4096 : len(content) - 4096] = b"\x07" * (len(content) - 8192)
    path.write_bytes(content)
    assert world.paths("word7")[0] == "7.md"
    assert world.index.refresh().unchanged == 50


def test_an_old_index_is_made_anew_and_says_so(world) -> None:
    world.put("a.md", "tea")
    world.index.refresh()
    world.rows("UPDATE meta SET value = '0' WHERE key = 'schema'")
    found = world.ask("tea")
    assert [hit.rel_path for hit in found.hits] == ["a.md"]
    assert "another version" in found.notes[0]
    assert world.ask("tea").notes == ()


def test_a_foreign_database_is_made_anew(world) -> None:
    import sqlite3

    world.put("a.md", "tea")
    world.index.directory.mkdir()
    db = sqlite3.connect(world.index.directory / schema.FILE)
    db.execute("CREATE TABLE meta (x)")
    db.close()
    assert world.paths("tea") == ["a.md"]


def test_another_way_of_cutting_makes_the_index_anew(world, monkeypatch) -> None:
    world.put("a.md", "tea")
    world.index.refresh()
    monkeypatch.setattr("familiar_cli.store.search.schema.CHUNKER", "next")
    assert "split" in world.index.refresh().rebuilt


def test_vectors_of_another_model_or_form_are_not_kept(world) -> None:
    for embedder in (WordEmbedder(), WordEmbedder("others"), TokenWordEmbedder("others")):
        world.put("a.md", "# A\n\n- green tea\n- a late train\n")
        assert world.index.build_if_stale(embedder).embedded.done == 2
        world.rows("UPDATE meta SET value = '6' WHERE key = 'schema'")


def test_a_file_that_is_moved_by_hand_keeps_its_vectors(world) -> None:
    embedder = WordEmbedder()
    world.put("b.md", "# A\n\n- green tea\n- a late train\n")
    world.index.build_if_stale(embedder)
    (world.root / "b.md").rename(world.root / "a.md")
    assert world.index.build_if_stale(embedder).embedded.done == 0
    assert world.paths("tea", embedder) == ["a.md"]


def test_a_cleared_index_comes_back_by_itself(world) -> None:
    world.put("a.md", "tea")
    world.index.build_if_stale(WordEmbedder())
    assert world.index.clear()
    assert not world.index.status().exists
    assert world.paths("tea") == ["a.md"]
    assert world.index.clear()
    assert not world.index.clear()


_WORDS = ("tea", "ale", "tea or ale")
_STEPS = ("write", "delete", "other clears", "other builds", "clear", "overwrite", "replace", "ask")


def _answers(index: EmbeddingIndex, *, refresh: bool = True) -> list:
    """Search for one word and for several, as each viewer, with and without a model."""
    viewers = [Viewer(OWNER.rules, frozenset({person_scope(f"discord-{n}")})) for n in (1, 2)]
    return [
        search_memory(index, word, SearchOptions(viewer=viewer, refresh=refresh), choice).hits
        for word in _WORDS[::2]
        for viewer in (OWNER, *viewers)
        for choice in (EmbedderChoice(WordEmbedder()), None)
    ]


def _step(kept: EmbeddingIndex, step: str, number: int) -> None:
    """Let a person or another process change the memory or its index."""
    store, file = kept.store, kept.directory / schema.FILE
    page = store.root / f"{number % 2}.md"
    if step == "write":
        private = "<!-- private @discord-1 -->\n- tea is a secret\n<!-- /private -->\n"
        text = f"# Page\n\n- {_WORDS[number]} {number}\n\n{private * (number % 2)}"
        page.write_text(text, "utf-8")
    elif step == "delete":
        page.unlink(missing_ok=True)
    elif step == "other clears":
        EmbeddingIndex(store).clear()
    elif step == "other builds":
        EmbeddingIndex(store).build_if_stale(WordEmbedder())
    elif step == "clear":
        kept.clear()
    elif step == "ask":
        _answers(kept)
    elif file.exists() and step == "overwrite":
        file.write_bytes(b"no index at all" * number)
    elif file.exists():
        twin = file.with_name("twin")
        twin.write_bytes(file.read_bytes())
        twin.replace(file)


@settings(max_examples=60 if IS_NIGHT else 12)
@example([("write", 0), ("ask", 0), ("other clears", 0)])
@example([("write", 1), ("ask", 0), ("write", 2), ("replace", 0)])
@example([("write", 0), ("ask", 0), ("overwrite", 1)])
@given(st.lists(st.tuples(st.sampled_from(_STEPS), st.integers(0, 1)), max_size=8))
def test_an_index_that_stays_open_answers_as_one_opened_now(steps) -> None:
    # So few rows are ranked that words have to be counted.
    ranked = patch.object(rank, "MOST_RANKED", 1)
    with tempfile.TemporaryDirectory() as directory, ranked:
        store = MemoryStore(Path(directory, "memory"))
        store.root.mkdir()
        kept = EmbeddingIndex(store)
        for step, number in steps:
            _step(kept, step, number)
        for refresh in (False, True):
            now = _answers(kept, refresh=refresh)
            assert now == _answers(EmbeddingIndex(store), refresh=refresh)


def test_the_index_keeps_itself_out_of_git(world) -> None:
    world.put("a.md", "tea")
    world.index.refresh()
    assert (world.index.directory / ".gitignore").read_text("utf-8") == "*\n"


def test_status_makes_nothing_and_counts_what_changed(world) -> None:
    world.put("a.md", "tea")
    assert not world.index.status().exists
    assert not world.index.directory.exists()
    world.index.refresh()
    world.put("a.md", "ale")
    world.put("b.md", "ale")
    assert world.index.status().stale_files == 2


def test_no_memory_directory_is_no_index(tmp_path) -> None:
    from familiar_cli.store.memory.store.store import MemoryStore

    index = EmbeddingIndex(MemoryStore(tmp_path / "none"))
    assert index.build_if_stale(WordEmbedder()).refreshed.changed == ()
    assert not (tmp_path / "none").exists()


def test_progress_counts_to_the_end(world) -> None:
    for number in range(40):
        world.put(f"{number}.md", f"word{number} and more")
    told: list[tuple[str, int, int]] = []
    world.index.build_if_stale(WordEmbedder(), lambda *step: told.append(step))
    read = [step for step in told if step[0] == "files read"]
    made = [step for step in told if step[0] == "vectors made"]
    assert (read[-1][1:], made[-1][1:]) == ((40, 40), (40, 40))
