"""Every transaction is a commit that git itself can read, and nothing else is in there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from familiar_cli.base.errors import ConflictError, UnsafePathError
from familiar_cli.store.journal.repository import Length, decode_commit
from familiar_cli.store.memory.layout import new_run_id, pass_trailers
from tests.support.journals import HAS_GIT

needs_git = pytest.mark.skipif(not HAS_GIT, reason="git is not installed")


def test_a_transaction_is_one_commit_of_its_source(world) -> None:
    world.commit("meet two people", "memory_writer", people__alice="a\n", people__bob="b\n")
    world.store.append_file("people/alice.md", "tea\n", source="human")
    newest, oldest = world.past.log()
    assert (oldest.commit.source, oldest.commit.message) == ("memory_writer", "meet two people")
    assert [t.rel_path for t in oldest.touched] == [
        ".gitignore",
        "people/alice.md",
        "people/bob.md",
    ]
    assert (newest.commit.source, newest.commit.parent) == ("human", oldest.commit.id)


def test_it_notes_run_files_and_lengths(world) -> None:
    world.commit("first", a="12345")
    world.commit("second", a="1234567")
    commit = world.past.log()[0].commit
    assert commit.run_id == world.store.run_id
    assert dict(commit.trailers) == {
        "Run-Id": world.store.run_id,
        "Files": "1",
        "Changed": "a.md",
        "Bytes": "5>7",
        "Bytes-Before": "5",
        "Bytes-After": "7",
    }


def test_lengths_are_told_by_file(world) -> None:
    world.commit("first", a="12345", b="1")
    world.commit("second", a="1234567", b=None, c="", d="ü")
    newest, oldest = world.past.log()
    assert newest.commit.lengths == (
        Length("a.md", 5, 7),
        Length("b.md", 1, None),
        Length("c.md", None, 0),
        Length("d.md", None, 2),
    )
    assert oldest.commit.lengths[1:] == (Length("a.md", None, 5), Length("b.md", None, 1))


@pytest.mark.parametrize("pairs", [None, "", "5>7 5>7", "5", "5>x", "²>1", "->>-"])
def test_a_commit_without_lengths_by_file_is_read_too(world, pairs) -> None:
    world.commit("first", a="12345")
    world.commit("second", a="1234567")
    commit = world.past.log()[0].commit
    trailers = {k: v for k, v in commit.trailers.items() if k != "Bytes"}
    old = replace(commit, trailers=trailers if pairs is None else {**trailers, "Bytes": pairs})
    assert (old.lengths, old.touched) == ((), commit.touched)


def test_only_a_pass_is_a_run(world) -> None:
    world.commit("by a person", a="1")
    run = new_run_id()
    with world.store.transaction("memory_writer", "x", trailers=pass_trailers(run)) as tx:
        tx.write("a.md", "2")
    newest, oldest = world.past.log()
    assert (newest.commit.run, newest.commit.run_id) == (run, run)
    assert (oldest.commit.run, oldest.commit.run_id) == (None, world.store.run_id)
    assert pass_trailers("housekeeping") == {}


def test_a_caller_may_name_the_run(world) -> None:
    with world.store.transaction("writer", "x", trailers={"Run-Id": "run-7"}) as tx:
        tx.write("a.md", "x")
    assert world.past.log()[0].commit.run_id == "run-7"


def test_nothing_is_committed_when_nothing_changes(world) -> None:
    world.commit("one", a="x")
    world.commit("same", a="x")
    with pytest.raises(ConflictError), world.store.transaction("t", "refused") as tx:
        tx.write("a.md", "y", expect="0" * 64)
    with world.store.transaction("t", "dry", dry_run=True) as tx:
        tx.write("a.md", "y")
    assert world.messages() == ["one"]


def test_what_was_there_before_the_journal_is_a_humans(world) -> None:
    world.by_hand("people/old.md", "old\n")
    world.by_hand("empty/../notes.md", "n\n")
    world.commit("first", people__old="new\n")
    assert world.messages() == ["first", "the memory as it was found"]
    assert world.sources() == ["test", "human"]
    assert [t.kind for t in world.past.log("people/old.md")[1].touched] == ["added", "added"]


def test_an_empty_memory_has_no_commit_before_the_first(world) -> None:
    world.commit("first", a="x")
    assert world.messages() == ["first"]


@needs_git
def test_git_shows_when_a_belief_changed(world) -> None:
    world.commit("meet", "memory_writer", people__discord_42="likes tea\n")
    world.commit("correct", "human", people__discord_42="likes coffee\n")
    printed = world.git("log", "-p", "--format=%an: %s", "--", "people/discord_42.md")
    assert "human: correct" in printed
    assert "-likes tea\n+likes coffee" in printed
    assert "memory_writer: meet" in printed
    world.check()


@needs_git
def test_git_finds_nothing_wrong_with_odd_names_and_sources(world) -> None:
    sources = ["", "  ", "a <b@c>", "line\nbreak", "\x1b[31m", "日本語", ".", "<>", "x" * 500]
    for n, source in enumerate(sources):
        with world.store.transaction(source, f"{source}\n\nnot: a trailer\n") as tx:
            tx.write(f"d-{n}/é {n}'#.md", f"{n}")
    world.check()
    assert len(world.past.log()) == len(sources)
    assert set(world.sources()) >= {"unknown", "a b@c", "line break", "日本語"}
    assert world.past.log("d-3/é 3'#.md")[0].commit.message == "line break not: a trailer"


@needs_git
def test_git_and_we_agree_on_every_tree(world) -> None:
    names = ["a", "a-b", "a.b", "a/x", "a0/x", "A/x", "ab/c/d", "ab.c", "ab-c/d"]
    for name in names:
        world.by_hand(name if "/" in name else f"{name}.md", name)
    world.commit("more", a__y="1", zz="2")
    world.commit("fewer", a__y=None)
    listed = world.git("ls-tree", "-r", "--name-only", "main").splitlines()
    assert listed == sorted(
        p.relative_to(world.store.root).as_posix()
        for p in world.store.root.rglob("*")
        if p.is_file()
    )
    world.check()


@pytest.mark.posix
def test_the_index_links_and_half_written_files_never_enter(world) -> None:
    world.by_hand(".index/embeddings.sqlite", b"\0" * 100)
    world.by_hand(".git/config", "x")
    world.by_hand("people/.tmp-familiar-1-2.new", "half")
    world.by_hand("a.md", "a")
    (world.store.root / "link.md").symlink_to("a.md")
    (world.store.root / "out").symlink_to("/")
    world.commit("first", b="b")
    world.store.catch_up()
    found = {t.rel_path for change in world.past.log() for t in change.touched}
    assert found == {"a.md", "b.md", ".gitignore"}


@pytest.mark.parametrize(
    "name", [".git", "git~1", ".GIT", ".gitmodules", "GIT~2", ".git.", "gi7eba~1"]
)
def test_names_that_git_keeps_for_itself_are_neither_written_nor_committed(world, name) -> None:
    with pytest.raises(UnsafePathError):
        world.store.write_file(f"{name}/x.md", "x")
    world.by_hand(f"{name}/x.md", "x")
    world.commit("first", a="x")
    world.store.catch_up()
    assert not any(name in t.rel_path.split("/") for c in world.past.log() for t in c.touched)
    world.check()


def test_over_cap_not_utf8_and_binary_files_are_kept_byte_for_byte(world) -> None:
    contents = {
        "big.md": b"x" * 400_000,
        "latin.md": "café".encode("latin-1"),
        "self/.original.png": bytes(range(256)) * 50,
        "crlf.md": b"a\r\nb\r",
        "empty.md": b"",
    }
    for path, content in contents.items():
        world.by_hand(path, content)
    world.commit("first", a="x")
    assert {path: world.at_head(path) for path in contents} == contents
    world.store.append_file("latin.md", "!")
    assert world.at_head("latin.md") == contents["latin.md"] + b"!"


def test_over_cap_files_do_not_make_every_later_pass_fail(world) -> None:
    world.by_hand("big.md", b"x" * 400_000)
    for n in range(3):
        world.commit(f"pass {n}", a=f"{n}")
    assert world.messages()[:3] == ["pass 2", "pass 1", "pass 0"]


def test_a_hundred_files_at_once_are_one_commit(world) -> None:
    with world.store.transaction("import", "many") as tx:
        for n in range(100):
            tx.write(f"lore/{n}.md", f"{n}")
    (change,) = world.past.log()
    assert len(change.touched) == 101
    assert world.past.log("lore/7.md")[0].commit.id == change.commit.id
    world.check()


def test_a_file_may_become_a_directory_and_back(world) -> None:
    path = world.by_hand("a", "file")
    world.commit("first", x="1")
    path.unlink()
    world.by_hand("a/b.md", "below")
    world.store.catch_up()
    assert world.at_head("a/b.md") == b"below"
    (world.store.root / "a" / "b.md").unlink()
    (world.store.root / "a").rmdir()
    world.by_hand("a", "file again")
    world.store.catch_up()
    assert world.at_head("a") == b"file again"
    world.check()


def test_writing_needs_no_dulwich(tmp_path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from familiar_cli.store.memory.store.store import MemoryStore\n"
        "from familiar_cli.store.journal.git import GitJournal\n"
        f"root = Path({str(tmp_path)!r})\n"
        "journal = GitJournal(root / 'journal.git', root / 'memory')\n"
        "store = MemoryStore(root / 'memory', journal=journal)\n"
        "store.append_file('a.md', 'x'); store.append_file('a.md', 'y')\n"
        "print('dulwich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_dulwich_objects_left_open_made_noise_at_exit(tmp_path) -> None:
    code = (
        "from pathlib import Path\n"
        "from familiar_cli.store.memory.store.store import MemoryStore\n"
        "from familiar_cli.store.journal.git import GitJournal\n"
        "from familiar_cli.store.journal.past import MemoryPast\n"
        f"root = Path({str(tmp_path)!r})\n"
        "journal = GitJournal(root / 'journal.git', root / 'memory')\n"
        "store = MemoryStore(root / 'memory', journal=journal)\n"
        "past = MemoryPast(store, journal)\n"
        "with store.transaction('t', 'many') as tx:\n"
        "    for n in range(40): tx.write(f'{n}.md', 'x')\n"
        "past.compact(); store.append_file('a.md', 'y'); past.log('3.md'); past.blame('a.md')\n"
        "past.undo(); past.show('HEAD'); past.diff([])\n"
    )
    argv = [sys.executable, "-X", "dev", "-W", "error", "-c", code]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_commit_that_git_made_is_read_too(world) -> None:
    raw = (
        f"tree {'a' * 40}\nparent {'b' * 40}\nparent {'c' * 40}\n"
        "author Ann Other <ann@example.org> 1700000000 +0230\n"
        "committer X <x@y> 1700000001 +0000\ngpgsig -----BEGIN\n x\n -----END\n\n"
        "A subject\n\nWith a body: of words\n"
    )
    commit = decode_commit("d" * 40, raw.encode())
    assert (commit.source, commit.message, commit.parent) == ("Ann Other", "A subject", "b" * 40)
    assert (commit.touched, commit.run_id) == (None, None)
    assert commit.time.isoformat() == "2023-11-14T22:13:20+00:00"


@needs_git
def test_after_gits_own_housekeeping_all_goes_on(world) -> None:
    for n in range(5):
        world.commit(f"{n}", a=f"{n}", b=f"{n}")
    subprocess.run(
        ["git", "--git-dir", str(world.root / "journal.git"), "gc", "--quiet", "--prune=now"],
        check=True,
    )
    assert not Path(world.journal.repository.branch_path).exists()  # it is in packed-refs now
    other = world.again()
    other.commit("after", a="after")
    assert other.messages() == ["after", "4", "3", "2", "1", "0"]
    world.check()
