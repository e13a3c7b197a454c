"""What one call reads and writes."""

from __future__ import annotations

import hashlib
import stat

import pytest

from familiar_cli.base.errors import (
    BadInputError,
    ConflictError,
    DirectoryFullError,
    FileTooLargeError,
    NotFoundError,
    RefusedError,
    TooManyResultsError,
)
from familiar_cli.store.memory.store.files import MISSING
from familiar_cli.store.memory.store.store import Limits, MemoryStore


def small(tmp_path) -> MemoryStore:
    limits = Limits(max_file_bytes=10, max_results=3, max_dir_files=4)
    return MemoryStore(tmp_path / "memory", limits=limits)


def test_text_comes_back_byte_for_byte(store) -> None:
    text = "\ufeff# Zoë\r\n\r\n日本語\ntrailing  \n\n\x0b\u2028end"
    store.write_file("a.md", text)
    assert store.read_file("a.md") == text
    assert store.read_bytes("a.md") == text.encode()
    assert (store.root / "a.md").read_bytes() == text.encode()


def test_bytes_are_written_as_they_are(store) -> None:
    store.write_file("self/.original.png", b"\x89PNG\r\n\x1a\n\xff")
    assert store.read_bytes("self/.original.png") == b"\x89PNG\r\n\x1a\n\xff"


def test_half_a_character_is_refused(store) -> None:
    with pytest.raises(BadInputError, match="half a character"):
        store.write_file("a.md", "x\ud800")


def test_the_hash_is_that_of_the_bytes(store) -> None:
    store.write_file("a.md", "é")
    expected = hashlib.sha256("é".encode()).hexdigest()
    assert store.sha256("a.md") == store.read("a.md").sha256 == expected
    assert store.sha256("b.md") is None


def test_append_puts_text_exactly_at_the_end(store) -> None:
    store.append_file("a.md", "one")
    store.append_file("a.md", "two")
    assert store.read_file("a.md") == "onetwo"


def test_a_memory_that_is_not_there_is_empty(store) -> None:
    assert store.list_dir() == []
    assert store.walk().files == ()
    assert store.grep("x") == []
    assert store.glob("**") == []
    assert not store.exists("a.md")
    assert not store.root.exists()


def test_reading_what_is_not_there_names_what_is(store) -> None:
    store.write_file("people/alice.md", "x")
    with pytest.raises(NotFoundError) as caught:
        store.read_file("people/alcie.md")
    assert "people/alice.md" in str(caught.value.hint)


@pytest.mark.parametrize("use", ["walk", "list_dir"])
def test_a_directory_that_is_not_there_is_an_error(store, use) -> None:
    store.write_file("people/alice.md", "x")
    with pytest.raises(NotFoundError) as caught:
        getattr(store, use)("peple")
    assert "'people'" in str(caught.value.hint)


def test_a_directory_is_no_file(store) -> None:
    store.write_file("people/alice.md", "x")
    with pytest.raises(NotFoundError, match="is a directory"):
        store.read_file("people")
    with pytest.raises(RefusedError, match="is a directory"):
        store.write_file("people", "x")
    with pytest.raises(RefusedError, match="is a directory"):
        store.delete_file("people")
    with pytest.raises(RefusedError, match="is a file"):
        store.write_file("people/alice.md/x.md", "x")


def test_a_file_that_is_not_utf_8_says_so_and_still_gives_its_bytes(store, root) -> None:
    (root / "a.md").write_bytes(b"caf\xe9")
    with pytest.raises(BadInputError, match="not UTF-8"):
        store.read_file("a.md")
    assert store.read_bytes("a.md") == b"caf\xe9"


def test_list_dir_gives_files_and_directories_by_name(store) -> None:
    for path in ("b.md", "a/x.md", "c.md", ".hidden"):
        store.write_file(path, "12345")
    entries = store.list_dir()
    assert [(e.rel_path, e.is_dir, e.size_bytes) for e in entries] == [
        ("a", True, 0),
        ("b.md", False, 5),
        ("c.md", False, 5),
    ]
    assert entries[0].modified.tzinfo is not None
    assert [e.rel_path for e in store.list_dir(hidden=True)][:2] == [".gitignore", ".hidden"]
    assert [e.rel_path for e in store.list_dir("a")] == ["a/x.md"]


def test_what_deleting_or_moving_leaves_empty_goes_too(store) -> None:
    store.write_file("a/b/c.md", "x")
    store.move_file("a/b/c.md", "d.md")
    assert [e.rel_path for e in store.list_dir()] == ["d.md"]


def test_moving_onto_a_file_is_refused(store) -> None:
    store.write_file("a.md", "a")
    store.write_file("b.md", "b")
    with pytest.raises(RefusedError, match="already exists"):
        store.move_file("a.md", "b.md")
    assert (store.read_file("a.md"), store.read_file("b.md")) == ("a", "b")


@pytest.mark.parametrize("change", ["delete_file", "move_file"])
def test_what_is_not_there_is_neither_deleted_nor_moved(store, change) -> None:
    store.write_file("alice.md", "x")
    args = ["alicia.md"] + ["b.md"] * (change == "move_file")
    with pytest.raises(NotFoundError) as caught:
        getattr(store, change)(*args)
    assert "'alice.md'" in str(caught.value.hint)


@pytest.mark.posix
def test_permissions_stay(store) -> None:
    store.write_file("a.md", "x")
    (store.root / "a.md").chmod(0o600)
    store.append_file("a.md", "y")
    assert stat.S_IMODE((store.root / "a.md").stat().st_mode) == 0o600


class TestExpect:
    def test_a_persons_edit_wins(self, store) -> None:
        store.write_file("a.md", "read")
        seen = store.read("a.md").sha256
        (store.root / "a.md").write_text("edited by hand", encoding="utf-8")
        for change in (
            lambda: store.write_file("a.md", "new", expect=seen),
            lambda: store.delete_file("a.md", expect=seen),
            lambda: store.move_file("a.md", "b.md", expect=seen),
        ):
            with pytest.raises(ConflictError, match="has changed since it was read"):
                change()
        assert store.read_file("a.md") == "edited by hand"

    def test_what_was_read_may_be_replaced(self, store) -> None:
        store.write_file("a.md", "read")
        store.write_file("a.md", "new", expect=store.sha256("a.md"))
        assert store.read_file("a.md") == "new"

    def test_missing_means_that_nothing_is_there(self, store) -> None:
        store.write_file("a.md", "x", expect=MISSING)
        with pytest.raises(ConflictError, match="already exists"):
            store.write_file("a.md", "y", expect=MISSING)
        assert store.read_file("a.md") == "x"

    def test_a_file_that_is_gone_is_a_conflict(self, store) -> None:
        store.write_file("a.md", "x")
        seen = store.sha256("a.md")
        store.delete_file("a.md")
        with pytest.raises(ConflictError, match="was deleted"):
            store.write_file("a.md", "y", expect=seen)


class TestLimits:
    def test_a_file_over_the_cap_is_not_written(self, tmp_path) -> None:
        store = small(tmp_path)
        store.write_file("a.md", "1234567890")
        with pytest.raises(FileTooLargeError):
            store.append_file("a.md", "1")
        with pytest.raises(FileTooLargeError):
            store.write_file("b.md", "é" * 6)
        assert [(e.rel_path, e.size_bytes) for e in store.walk().files] == [("a.md", 10)]

    def test_an_over_cap_file_is_readable_searchable_and_can_be_trimmed(self, tmp_path) -> None:
        store = small(tmp_path)
        store.root.mkdir()
        (store.root / "a.md").write_text("a person wrote much", encoding="utf-8")
        assert store.read_file("a.md") == "a person wrote much"
        assert len(store.grep("person")) == 1
        with pytest.raises(FileTooLargeError):
            store.append_file("a.md", "!")
        with pytest.raises(FileTooLargeError):
            store.write_file("a.md", "a person wrote")
        store.move_file("a.md", "b.md")
        store.write_file("b.md", "a person")
        assert store.read_file("b.md") == "a person"

    def test_originals_may_be_of_any_size(self, tmp_path) -> None:
        store = small(tmp_path)
        with store.transaction("init", "card") as tx:
            tx.write("self/.original.png", b"x" * 1000, any_size=True)
        assert len(store.read_bytes("self/.original.png")) == 1000

    def test_the_files_of_people_are_not_counted(self, tmp_path) -> None:
        store = small(tmp_path)
        with store.transaction("human", "many") as tx:
            for number in range(9):
                tx.write(f"people/cli-{number}.md", "x")
        store.write_file("people/cli-9.md", "x")
        assert len(store.walk("people").files) == 10
        with pytest.raises(DirectoryFullError, match="'people/cli'"):
            for number in range(9):
                store.write_file(f"people/cli/{number}.md", "x")

    def test_a_full_directory_takes_no_new_file_but_every_edit(self, tmp_path) -> None:
        store = small(tmp_path)
        for name in "abcd":
            store.write_file(f"d/{name}.md", "x")
        with pytest.raises(DirectoryFullError, match="'d'"):
            store.write_file("d/e.md", "x")
        store.write_file("d/a.md", "y")
        with store.transaction("test", "swap") as tx:
            tx.delete("d/a.md")
            tx.write("d/e.md", "x")
        assert len(store.walk("d").files) == 4

    def test_a_memory_that_a_person_filled_can_still_be_edited(self, tmp_path) -> None:
        store = small(tmp_path)
        store.root.mkdir()
        for name in "abcdef":
            (store.root / f"{name}.md").touch()
        store.write_file("a.md", "x")
        assert store.read_file("a.md") == "x"

    def test_too_many_results_are_a_typed_error_and_never_a_random_part(self, tmp_path) -> None:
        store = small(tmp_path)
        store.root.mkdir()
        for name in "dbca":
            (store.root / f"{name}.md").write_text("x", encoding="utf-8")
        for use in (
            lambda: store.glob("*.md"),
            lambda: store.grep("x"),
            store.list_dir,
        ):
            with pytest.raises(TooManyResultsError):
                use()
        found = store.search("x")
        assert found.truncated
        assert [hit.rel_path for hit in found.hits] == ["a.md", "b.md", "c.md"]

    def test_a_walk_sees_every_file(self, tmp_path) -> None:
        store = MemoryStore(tmp_path / "memory", limits=Limits(max_results=3))
        for n in range(12):
            store.write_file(f"d{n % 4}/{n}.md", "x")
        assert len(store.walk().files) == 12


class TestGitignore:
    def test_the_first_write_names_the_index(self, store) -> None:
        store.write_file("a.md", "x")
        assert (store.root / ".gitignore").read_bytes() == b".index/\n"

    def test_a_persons_lines_stay(self, store, root) -> None:
        (root / ".gitignore").write_bytes(b"*.bak")
        store.write_file("a.md", "x")
        store.write_file("b.md", "x")
        assert (root / ".gitignore").read_bytes() == b"*.bak\n.index/\n"

    @pytest.mark.parametrize("line", [b"/.index", b".index", b"  .index/\r\n"])
    def test_other_spellings_count(self, store, root, line) -> None:
        (root / ".gitignore").write_bytes(line)
        store.write_file("a.md", "x")
        assert (root / ".gitignore").read_bytes() == line

    def test_reading_writes_nothing(self, store, root) -> None:
        store.grep("x")
        assert list(root.iterdir()) == []


def test_the_head_of_a_file_ends_before_half_a_character(store) -> None:
    store.write_file("a.md", "zoë and anna")
    head = store.read_head("a.md", 3)
    assert (head.text, head.is_whole, head.size_bytes, head.sha256) == ("zo", False, 13, "")


def test_the_head_of_a_short_file_is_all_of_it(store) -> None:
    store.write_file("a.md", "zoë")
    head = store.read_head("a.md", 4)
    assert (head.text, head.is_whole, head.sha256) == ("zoë", True, store.sha256("a.md"))
