"""No path leads out of the memory, and no name is written that some system cannot hold."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import (
    BadInputError,
    FamiliarError,
    NotFoundError,
    RefusedError,
    UnsafePathError,
)
from familiar_cli.store.memory.store.files import Tree
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.cases import each

OUTSIDE = [
    "..",
    "../x.md",
    "people/../../x.md",
    "people/..",
    "/etc/passwd",
    "//server/share",
    "C:/x.md",
    "c:x.md",
    "..\\x.md",
    "people\\x.md",
    "a\0b.md",
    "a\nb.md",
    "a\x1b[2J.md",
    "a\x85b.md",
    "\ud800.md",
]
NOT_EVERYWHERE = [
    "con",
    "NUL.md",
    "people/com1.txt",
    "lpt¹",
    "aux .md",
    "people/a.",
    "a ",
    " a",
    "dir /a.md",
    "dir./a.md",
    "a:b",
    "what?.md",
    'a"b',
    "a|b",
    "a*b",
    "<a>",
    "x" * 256,
    "é" * 128,
    "d/" * 600 + "x",
    "a\u202eb.md",
    "a\u2028b.md",
]
OURS = [
    ".index/embeddings.sqlite",
    ".INDEX/x",
    ".index",
    "people/.index/x",
    ".git/hooks/pre-commit",
    ".GIT/config",
    ".g\u200bit/config",
    ".tmp-familiar-1.new",
    "people/.tmp-familiar-1.old",
]
NO_FILE = ["", ".", "people/", "./"]


@each("path", [*OUTSIDE, *NOT_EVERYWHERE, *OURS, *NO_FILE])
def test_such_a_path_is_never_written(store, path) -> None:
    with pytest.raises(UnsafePathError) as caught:
        store.write_file(path, "x")
    assert caught.value.hint
    assert not store.root.exists()


@each("path", OUTSIDE)
def test_such_a_path_is_not_even_read(store, path) -> None:
    for use in (store.read_file, store.list_dir, store.walk, store.exists, store.glob):
        with pytest.raises(UnsafePathError):
            use(path)
    with pytest.raises(UnsafePathError):
        store.grep("x", path)


@each("path", [*OUTSIDE, *OURS])
def test_such_a_path_is_neither_deleted_nor_moved(store, path) -> None:
    store.write_file("a.md", "x")
    with pytest.raises(UnsafePathError):
        store.delete_file(path)
    with pytest.raises(UnsafePathError):
        store.move_file(path, "b.md")
    with pytest.raises(UnsafePathError):
        store.move_file("a.md", path)


@pytest.mark.parametrize(
    "path",
    ["self/.original.png", ".gitignore", "lore/.lorebook.json", "Zoë/日本.md", "a b.md"],
)
def test_such_a_path_may_be_written(store, path) -> None:
    store.write_file(path, "x")
    assert store.read_file(path).startswith("x")


@pytest.mark.parametrize(
    ("there", "new"),
    [
        ("people/alice.md", "people/Alice.md"),
        ("people/alice.md", "People/bob.md"),
        ("Zo\u00eb.md", "Zoe\u0308.md"),
        ("straße.md", "STRASSE.md"),
        ("a/b/c.md", "a/B/d.md"),
    ],
)
def test_names_that_differ_only_in_case_or_unicode_normalisation(store, there, new) -> None:
    store.write_file(there, "x")
    with pytest.raises(UnsafePathError, match="the same file on some systems"):
        store.write_file(new, "y")
    assert [e.rel_path for e in store.walk().files] == [there]


def test_two_new_names_of_one_transaction_may_not_collide_either(store) -> None:
    with pytest.raises(UnsafePathError), store.transaction("test", "two") as tx:
        tx.write("new/A.md", "x")
        tx.write("new/a.md", "y")
    assert store.walk().files == ()


def test_a_name_may_change_its_case(store) -> None:
    store.write_file("alice.md", "x")
    store.move_file("alice.md", "Alice.md")
    assert sorted(path.name for path in store.root.iterdir()) == [".gitignore", "Alice.md"]


def test_a_file_that_a_person_gave_an_unportable_name_can_be_read_and_renamed(store, root) -> None:
    (root / "what?.md").write_text("x", encoding="utf-8")
    assert store.read_file("what?.md") == "x"
    store.move_file("what?.md", "what.md")
    assert store.read_file("what.md") == "x"


def test_one_path_has_one_spelling(store) -> None:
    store.write_file("./people//a.md", "x")
    assert store.read("people/./a.md").rel_path == "people/a.md"


@pytest.mark.posix
class TestLinks:
    @pytest.fixture
    def outside(self, root, tmp_path):
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret.md").write_text("secret", encoding="utf-8")
        (root / "file.md").symlink_to(outside / "secret.md")
        (root / "dir").symlink_to(outside)
        return outside

    @pytest.mark.parametrize("path", ["file.md", "dir/secret.md", "dir/new/x.md"])
    def test_a_link_that_leads_out_is_not_followed(self, store, outside, path) -> None:
        with pytest.raises(UnsafePathError, match="through a link"):
            store.read_file(path)
        for change in (store.append_file, store.write_file):
            with pytest.raises(UnsafePathError, match="through a link"):
                change(path, "x")
        with pytest.raises(UnsafePathError, match="through a link"):
            store.delete_file(path)
        assert [p.name for p in outside.iterdir()] == ["secret.md"]
        assert (outside / "secret.md").read_text(encoding="utf-8") == "secret"

    @pytest.mark.usefixtures("outside")
    def test_no_search_goes_through_it(self, store) -> None:
        assert store.grep("secret") == []
        assert store.glob("**/*.md") == []
        assert store.list_dir() == []

    def test_a_link_inside_is_read_but_never_replaced(self, store) -> None:
        store.write_file("people/discord-1.md", "x")
        (store.root / "alice.md").symlink_to("people/discord-1.md")
        assert store.read_file("alice.md") == "x"
        with pytest.raises(RefusedError, match="is a link to 'people/discord-1"):
            store.write_file("alice.md", "y")
        assert store.read_file("people/discord-1.md") == "x"

    def test_links_in_a_circle_are_one_clear_error(self, store, root) -> None:
        (root / "a").symlink_to("b")
        (root / "b").symlink_to("a")
        with pytest.raises(FamiliarError):
            store.read_file("a")
        with pytest.raises(FamiliarError):
            store.write_file("a/x.md", "x")

    def test_the_memory_itself_may_be_a_link(self, tmp_path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "memory").symlink_to("real")
        store = MemoryStore(tmp_path / "memory")
        store.write_file("a/b.md", "x")
        assert store.grep("x")[0].rel_path == "a/b.md"
        assert (tmp_path / "real" / "a" / "b.md").exists()


PIECES = st.sampled_from(
    [
        *("..", ".", "", "a", "A", "out", "out.md", "in", "x.md", "é", "*", "**"),
        *("~", "C:", "\\", "..\\", "\0", "con", "\u2025", "．．", "%2e%2e", ".index"),
    ]
)
PATHS = st.one_of(st.lists(PIECES, max_size=5).map("/".join), st.text(max_size=12))


@given(path=PATHS, other=PATHS)
@pytest.mark.posix
def test_whatever_the_path_nothing_outside_is_touched(path, other) -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        (base / "x.md").write_bytes(b"secret")
        (base / "memory" / "in").mkdir(parents=True)
        (base / "memory" / "out").symlink_to(base)
        (base / "memory" / "out.md").symlink_to(base / "x.md")
        store = MemoryStore(base / "memory", lock_path=base / "lock")
        for use in (
            lambda: store.write_file(path, "new"),
            lambda: store.append_file(path, "new"),
            lambda: store.move_file(path, other),
            lambda: store.delete_file(path),
            lambda: store.glob(path),
            lambda: store.list_dir(path),
            lambda: store.walk(path),
        ):
            _try(use)
        assert "secret" not in str(_try(lambda: store.read_file(path)))
        assert {p.name for p in base.iterdir()} <= {"x.md", "memory", "lock", "lock.next"}
        assert (base / "x.md").read_bytes() == b"secret"


def _try(use):
    try:
        return use()
    except FamiliarError as error:
        return error


def test_a_reader_of_many_files_checks_each_path(store, tmp_path) -> None:
    store.write_file("people/alice.md", "# Alice\r\n")
    (tmp_path / "secret.md").write_text("outside", encoding="utf-8")
    (store.root / "bad.md").write_bytes(b"\xff")
    read = store.reader()
    assert read("people/alice.md") == store.read_file("people/alice.md") == "# Alice\r\n"
    store.write_file("people/alice.md", "# Alice, again\n")
    assert read("people/alice.md") == "# Alice, again\n"
    for path, error in (
        ("../secret.md", UnsafePathError),
        ("people/bob.md", NotFoundError),
        ("people", NotFoundError),
        ("bad.md", BadInputError),
    ):
        with pytest.raises(error):
            read(path)
    if os.name != "nt":
        (store.root / "link.md").symlink_to(tmp_path / "secret.md")
        with pytest.raises(UnsafePathError):
            read("link.md")


@pytest.mark.posix
def test_a_root_that_is_a_link_is_followed_wherever_it_leads_now(tmp_path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(name, "utf-8")
    root = tmp_path / "memory"
    root.symlink_to(tmp_path / "one", target_is_directory=True)
    tree = Tree(root)
    assert tree.read_text("a.md") == "one"
    root.unlink()
    root.symlink_to(tmp_path / "two", target_is_directory=True)
    assert tree.read_text("a.md") == "two"
    (tmp_path / "two").rename(tmp_path / "three")
    root.unlink()
    root.symlink_to(tmp_path / "three", target_is_directory=True)
    assert (tree.read_text("a.md"), tree.real) == ("two", str((tmp_path / "three").resolve()))
