"""All changes of a transaction are made, or none."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import ConflictError, FamiliarError, NotFoundError, RefusedError
from familiar_cli.base.text import sha256_of
from familiar_cli.store.memory.store.files import MISSING, StoredChange, WriteResult
from familiar_cli.store.memory.store.store import MemoryStore


def contents(store) -> dict[str, bytes]:
    return {e.rel_path: store.read_bytes(e.rel_path) for e in store.walk().files}


def everything(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*")}


def test_the_result_says_what_was_done(store) -> None:
    store.write_file("old.md", "x")
    store.write_file("same.md", "x")
    with store.transaction("test", "several") as tx:
        tx.write("new.md", "x")
        tx.write("same.md", "x")
        tx.move("old.md", "moved.md")
        tx.append("moved.md", "y")
        tx.write("gone.md", "x")
        tx.delete("gone.md")
    assert tx.result == WriteResult(("moved.md", "new.md"), ("same.md",), ("old.md",))
    assert contents(store) == {"moved.md": b"xy", "new.md": b"x", "same.md": b"x"}


def test_writing_the_same_again_touches_no_file(store) -> None:
    store.write_file("a.md", "x")
    before = (store.root / "a.md").stat()
    store.write_file("a.md", "x")
    assert (store.root / "a.md").stat() == before


def test_an_exception_inside_changes_nothing(store) -> None:
    with pytest.raises(ZeroDivisionError), store.transaction("test", "fails") as tx:
        tx.write("a.md", "x")
        1 / 0  # noqa: B018
    assert not store.root.exists()
    with pytest.raises(FamiliarError, match="was not applied"):
        _ = tx.result


def test_one_refused_change_refuses_all(store) -> None:
    with pytest.raises(NotFoundError), store.transaction("test", "fails") as tx:
        tx.write("a.md", "x")
        tx.delete("b.md")
    assert not store.root.exists()


def test_a_dry_run_checks_and_tells_but_changes_nothing(store, tmp_path) -> None:
    with store.transaction("test", "dry", dry_run=True) as tx:
        tx.write("a/b.md", "x")
    assert tx.result == WriteResult(written=("a/b.md",))
    with pytest.raises(NotFoundError), store.transaction("test", "dry", dry_run=True) as tx:
        tx.delete("b.md")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_transaction_does_nothing(store, tmp_path) -> None:
    with store.transaction("test", "nothing") as tx:
        pass
    assert tx.result == WriteResult()
    assert list(tmp_path.iterdir()) == []


def test_a_file_does_not_turn_into_a_directory_at_once(store) -> None:
    store.write_file("a", "x")
    with pytest.raises(RefusedError, match="cannot change"), store.transaction("t", "t") as tx:
        tx.delete("a")
        tx.write("a/b.md", "x")
    assert contents(store) == {"a": b"x"}


def test_a_name_is_either_a_file_or_a_directory(store) -> None:
    for first, second in (("a", "a/b.md"), ("a/b.md", "a")):
        with pytest.raises(RefusedError), store.transaction("t", "t") as tx:
            tx.write(first, "x")
            tx.write(second, "x")
    assert contents(store) == {}


def test_no_temporary_file_is_left(store) -> None:
    with store.transaction("test", "several") as tx:
        tx.write("a.md", "1")
        tx.write("d/b.md", "1")
    with store.transaction("test", "several") as tx:
        tx.write("a.md", "2")
        tx.delete("d/b.md")
    assert everything(store.root) == {".gitignore", "a.md"}


def test_what_a_crash_left_half_written_is_never_seen_and_goes_with_the_next_write(store) -> None:
    store.write_file("d/a.md", "x")
    for name in (".tmp-familiar-1-0123456789ab.new", ".tmp-familiar-1.new"):
        (store.root / "d" / name).write_text("half", encoding="utf-8")
    assert store.grep("half") == []
    assert [e.rel_path for e in store.walk(hidden=True).files] == [".gitignore", "d/a.md"]
    store.append_file("d/a.md", "y")
    others = "d/.tmp-familiar-1.new"  # another program may be writing it
    assert everything(store.root) == {".gitignore", "d", "d/a.md", others}


class Diary:
    """A journal that remembers what it was told; `meanwhile` happens before files are touched."""

    def __init__(self, meanwhile=lambda: None) -> None:
        self.told: list[object] = []
        self._meanwhile = meanwhile

    def pending(self) -> bool:
        return False

    def state(self) -> None:
        return None

    def begin(self, *, look=False) -> None:
        self.told.append("begin")

    def prepare(self, source, message, changes, trailers, joined=None) -> None:
        self.told.append((source, message, changes))
        self._meanwhile()

    def applied(self, changes) -> None:
        self.told.append("applied")

    def abandoned(self, changes) -> None:
        self.told.append("abandoned")


def journaled(tmp_path, diary) -> MemoryStore:
    store = MemoryStore(tmp_path / "memory")
    store.write_file("a.md", "old a")
    store.write_file("b.md", "old b")
    return MemoryStore(tmp_path / "memory", journal=diary)


def write_both(store) -> None:
    with store.transaction("writer", "both") as tx:
        tx.write("a.md", "new a")
        tx.write("b.md", "new b")
        tx.write("c/d.md", "new d")


class TestJournal:
    def test_it_is_told_before_and_after(self, tmp_path) -> None:
        store = journaled(tmp_path, diary := Diary())
        store.append_file("a.md", "!", source="writer")
        changes = (StoredChange("a.md", b"old a", b"old a!"),)
        assert diary.told == ["begin", ("writer", "append a.md", changes), "applied"]

    def test_it_is_not_told_of_nothing(self, tmp_path) -> None:
        store = journaled(tmp_path, diary := Diary())
        store.write_file("a.md", "old a")
        assert diary.told == ["begin"]

    def test_what_it_raises_stops_everything(self, tmp_path) -> None:
        def fail():
            raise FamiliarError("the journal is full")

        store = journaled(tmp_path, Diary(fail))
        with pytest.raises(FamiliarError, match="journal is full"):
            write_both(store)
        assert contents(store) == {"a.md": b"old a", "b.md": b"old b"}


class TestSomeoneElseMeanwhile:
    """What happens between the checks and the first rename."""

    def test_an_edit_at_the_last_moment_wins_and_all_is_put_back(self, tmp_path) -> None:
        edit = tmp_path / "memory" / "b.md"
        diary = Diary(lambda: edit.write_text("by hand", encoding="utf-8"))
        store = journaled(tmp_path, diary)
        kept = (tmp_path / "memory" / "a.md").stat()
        with pytest.raises(ConflictError, match="another program"):
            write_both(store)
        assert contents(store) == {"a.md": b"old a", "b.md": b"by hand"}
        assert (tmp_path / "memory" / "a.md").stat().st_mtime_ns == kept.st_mtime_ns
        assert everything(store.root) == {".gitignore", "a.md", "b.md"}
        assert diary.told[-1] == "abandoned"

    def test_a_new_file_at_the_last_moment_is_not_overwritten(self, tmp_path) -> None:
        def meanwhile():
            (tmp_path / "memory" / "c").mkdir()
            (tmp_path / "memory" / "c" / "d.md").write_text("by hand", encoding="utf-8")

        store = journaled(tmp_path, Diary(meanwhile))
        with pytest.raises(ConflictError):
            write_both(store)
        assert contents(store) == {"a.md": b"old a", "b.md": b"old b", "c/d.md": b"by hand"}


PATHS = st.sampled_from(["a.md", "b.md", "d/a.md", "d/e/f.md", "d/é.md"])
TEXTS = st.sampled_from(["", "x", "x\n", "long\nér"])
EXPECTS = st.sampled_from([None, None, None, MISSING, "x", "x\n"])
STEPS = st.one_of(
    st.tuples(st.just("write"), PATHS, TEXTS, EXPECTS),
    st.tuples(st.just("append"), PATHS, TEXTS),
    st.tuples(st.just("delete"), PATHS, EXPECTS),
    st.tuples(st.just("move"), PATHS, PATHS, EXPECTS),
)


@given(st.lists(st.lists(STEPS, min_size=1, max_size=4), max_size=5))
def test_transactions_do_what_a_dict_would(transactions) -> None:
    with tempfile.TemporaryDirectory() as name:
        store = MemoryStore(Path(name) / "memory")
        model: dict[str, bytes] = {}
        for steps in transactions:
            after = _on_a_dict(dict(model), steps)
            if after is None:
                with pytest.raises(FamiliarError):
                    _on_disk(store, steps)
            else:
                _on_disk(store, steps)
                model = after
            assert contents(store) == model


def _on_disk(store, steps) -> None:
    with store.transaction("test", "law") as tx:
        for kind, *args in steps:
            if kind == "append":
                tx.append(*args)
            else:
                getattr(tx, kind)(*args[:-1], expect=_hash(args[-1]))


def _hash(expect):
    return expect if expect in {None, MISSING} else sha256_of(expect.encode())


def _on_a_dict(files, steps):
    """Return the files afterwards, or None when a step must be refused."""
    for kind, path, *rest in steps:
        if kind == "append":
            files[path] = files.get(path, b"") + rest[0].encode()
            continue
        expect = rest[-1]
        there = files.get(path)
        if expect == MISSING and there is not None:
            return None
        if expect not in {None, MISSING} and there != expect.encode():
            return None
        if kind == "write":
            files[path] = rest[0].encode()
            continue
        if there is None:
            return None
        del files[path]
        if kind == "move":
            if rest[0] in files:
                return None
            files[rest[0]] = there
    return files
