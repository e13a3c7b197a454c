"""A journal that is damaged, or another's, is told of in one error; the memory is never harmed."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zlib

import pytest
from dulwich.repo import Repo

from familiar_cli.base.errors import FamiliarError
from familiar_cli.store.journal.objects import Objects, git_object
from tests.support.world import home, live, run

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes")
COMMANDS = (
    ("memory", "ls"),
    ("memory", "log"),
    ("memory", "show", "HEAD"),
    ("memory", "undo", "--dry-run"),
    ("memory", "write", "notes.md", "New."),
    ("memory", "compact"),
    ("doctor",),
)


@pytest.fixture
def root():
    """A familiar with three changes, of which two are packed."""
    made = live("ada")
    for number in range(2):
        assert run("memory", "write", "notes.md", f"Note {number}.").exit_code == 0
    assert run("memory", "compact").exit_code == 0
    assert run("memory", "write", "topics/tea.md", "Green.").exit_code == 0
    return made


def memory(root) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in (root / "memory").rglob("*.md")}


def all_are_told_of(root) -> None:
    """Run every command: each does its work, or says in one error what to do."""
    for argv in COMMANDS:
        before = memory(root)
        done = run(*argv)
        assert isinstance(done.exception, SystemExit | None), (argv, done.exception)
        if done.exit_code not in {0, 7}:
            assert done.stderr.count("error: ") == 1, (argv, done.stderr)
            assert "hint: " in done.stderr, argv
            assert memory(root) == before, argv
    assert {path.name for path in home().iterdir()} == {"ada"}


def loose(root) -> list:
    return sorted((root / "journal.git" / "objects").glob("??/*"))


def write_object(root, kind, content) -> str:
    one = git_object(kind, content)
    place = root / "journal.git" / "objects" / one.id[:2] / one.id[2:]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(zlib.compress(f"{kind} {len(content)}\0".encode() + content))
    return one.id


def branch(root, text) -> None:
    (root / "journal.git" / "refs" / "heads" / "main").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("content", [b"", b"\0", zlib.compress(b"blob 3\0abc")])
def test_an_object_with_other_bytes(root, content) -> None:
    for path in loose(root):
        path.chmod(0o644)
        path.write_bytes(content)
    assert "is damaged" in run("memory", "log").stderr
    all_are_told_of(root)


def test_an_object_in_the_place_of_another_is_not_taken_for_it(tmp_path) -> None:
    objects = Objects(str(tmp_path))
    one, other = git_object("blob", b"one"), git_object("blob", b"other")
    objects.write([one, other])
    (tmp_path / one.id[:2] / one.id[2:]).write_bytes(
        (tmp_path / other.id[:2] / other.id[2:]).read_bytes()
    )
    with pytest.raises(FamiliarError, match="does not match its id"):
        objects.read(one.id)


def test_objects_that_are_gone(root) -> None:
    for path in loose(root):
        path.unlink()
    all_are_told_of(root)


@pytest.mark.parametrize("suffix", [".pack", ".idx"])
def test_a_pack_with_other_bytes(root, suffix) -> None:
    (pack,) = (root / "journal.git" / "objects" / "pack").glob(f"*{suffix}")
    pack.chmod(0o644)
    content = pack.read_bytes()
    pack.write_bytes(content[:12] + b"\xff" * (len(content) - 12))
    all_are_told_of(root)


@posix
def test_a_pack_that_is_a_pipe_is_not_waited_for(root) -> None:
    (pack,) = (root / "journal.git" / "objects" / "pack").glob("*.pack")
    pack.unlink()
    os.mkfifo(pack)
    assert "is not a regular file" in run("memory", "log").stderr
    all_are_told_of(root)


@pytest.mark.parametrize("text", ["", "0" * 40, "main", "ref: refs/heads/main", "\0" * 41])
def test_a_branch_that_leads_nowhere(root, text) -> None:
    branch(root, text)
    all_are_told_of(root)


@pytest.mark.parametrize("name", ["refs", "objects", "HEAD", "config", "refs/heads/main"])
def test_a_part_that_is_gone(root, name) -> None:
    path = root / "journal.git" / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    all_are_told_of(root)


def test_a_repository_with_a_work_tree(root) -> None:
    shutil.rmtree(root / "journal.git")
    Repo.init(str(root / "journal.git"), mkdir=True).close()
    all_are_told_of(root)


@pytest.mark.parametrize("content", [b"", b"gitdir: elsewhere\n"])
def test_a_file_in_its_place(root, content) -> None:
    shutil.rmtree(root / "journal.git")
    (root / "journal.git").write_bytes(content)
    all_are_told_of(root)


@pytest.mark.parametrize("name", [b"../evil.md", b"..", b"a/b.md", b""])
def test_a_tree_whose_names_lead_out_changes_nothing(root, name) -> None:
    blob = write_object(root, "blob", b"evil")
    tree = write_object(root, "tree", b"100644 " + name + b"\0" + bytes.fromhex(blob))
    who = "Somebody <s@example.org> 1700000000 +0100"
    head = f"tree {tree}\nauthor {who}\ncommitter {who}\n\nhello\n"
    commit = write_object(root, "commit", head.encode())
    branch(root, commit)
    mark = json.dumps({"base": None, "commit": commit})
    (root / "journal.git" / "familiar-pending").write_text(mark, encoding="utf-8")
    before = memory(root)
    all_are_told_of(root)
    assert memory(root) == before


@pytest.mark.parametrize("base", ["HEAD", None, "x", 7])
def test_a_mark_of_an_older_change_does_not_bring_it_back(root, base) -> None:
    """Only a commit right after its base can have broken off."""
    ids = [c["id"] for c in json.loads(run("memory", "log", "--json").stdout)["data"]["commits"]]
    mark = json.dumps({"base": ids[0] if base == "HEAD" else base, "commit": ids[1]})
    (root / "journal.git" / "familiar-pending").write_text(mark, encoding="utf-8")
    before = memory(root)
    done = run("memory", "ls")
    assert memory(root) == before
    assert (done.exit_code, done.stderr.count("is damaged")) == (0, 1)
    assert run("memory", "append", "notes.md", "more").exit_code == 1
    assert memory(root) == before


GARBAGE = pytest.mark.parametrize("content", [b"garbage", b"", b"[]", b"\xff\0", b'{"base": 7}'])


@GARBAGE
@pytest.mark.parametrize(
    "argv", [("cat", "topics/tea.md"), ("ls",), ("grep", "Green"), ("glob", "**/*.md")]
)
def test_a_mark_of_garbage_stops_no_reader_and_is_told_of_once(root, content, argv) -> None:
    expected = run("memory", *argv)
    (root / "journal.git" / "familiar-pending").write_bytes(content)

    done = run("memory", *argv)

    assert (done.exit_code, done.stdout) == (0, expected.stdout)
    assert done.stderr.count("warning: Files are read as they are") == 1
    assert done.stderr.count("is damaged") == 1


@GARBAGE
def test_a_mark_of_garbage_stops_every_writer_and_doctor_says_how_to_mend_it(root, content) -> None:
    mark = root / "journal.git" / "familiar-pending"
    mark.write_bytes(content)
    before = memory(root)

    done = run("memory", "append", "notes.md", "more")

    assert (done.exit_code, memory(root)) == (1, before)
    assert "hint: Delete 'familiar-pending' in journal.git" in done.stderr
    assert "Delete 'familiar-pending' in journal.git" in run("doctor").stdout
    mark.unlink()
    assert run("memory", "append", "notes.md", "more").exit_code == 0


def test_doctor_knows_a_mark_of_an_older_change(root) -> None:
    ids = [c["id"] for c in json.loads(run("memory", "log", "--json").stdout)["data"]["commits"]]
    mark = json.dumps({"base": ids[0], "commit": ids[1]})
    (root / "journal.git" / "familiar-pending").write_text(mark, encoding="utf-8")
    assert "Delete 'familiar-pending' in journal.git" in run("doctor").stdout
