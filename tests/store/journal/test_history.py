"""Looking back: which changes there were, who wrote which line, what differs."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from familiar_cli.base.errors import BadInputError, NotFoundError, UnsafePathError, UsageError
from familiar_cli.base.times import clock

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


class TestLog:
    def test_of_a_file_a_directory_and_all(self, world) -> None:
        world.commit("one", people__a="1")
        world.commit("two", people__b="1", notes="1")
        world.commit("three", notes="2")
        assert world.messages() == ["three", "two", "one"]
        assert world.messages("people") == ["two", "one"]
        assert world.messages("people/") == ["two", "one"]
        assert world.messages("./people/a.md") == ["one"]

    def test_a_source_a_limit_and_a_time(self, world) -> None:
        for n in range(6):
            world.commit(f"{n}", "even" if n % 2 == 0 else "odd", a=f"{n}")
        assert world.messages(source="even") == ["4", "2", "0"]
        assert world.messages(source="odd", limit=2) == ["5", "3"]
        assert world.messages("a.md", limit=1) == ["5"]
        assert len(world.messages(since=clock.now() - timedelta(hours=1))) == 6
        assert world.messages(since=datetime(2200, 1, 1, tzinfo=UTC)) == []

    def test_a_file_is_followed_through_its_renames(self, world) -> None:
        world.commit("written", a="1\n2\n3\n4\n5\n")
        world.store.move_file("a.md", "people/b.md")
        world.commit("changed", people__b="1\n2\n3\n4\n5\n6\n")
        (world.store.root / "people" / "b.md").rename(world.store.root / "c.md")
        world.by_hand("c.md", "1\n2\n3\n4\n5\n6\n7\n")  # moved and edited between two looks
        found = world.past.log("c.md")
        assert [c.commit.message for c in found] == [
            "edited by hand: 2 files",
            "changed",
            "move a.md to people/b.md",
            "written",
        ]
        assert [c.rel_path for c in found] == ["c.md", "people/b.md", "people/b.md", "a.md"]

    def test_of_two_equal_files_the_namesake_is_followed(self, world) -> None:
        world.commit("both", x__a="same", y__b="same")
        with world.store.transaction("t", "swap") as tx:
            tx.move("x/a.md", "z/b.md")
            tx.move("y/b.md", "z/a.md")
        assert world.past.log("z/b.md")[-1].rel_path == "y/b.md"

    def test_a_new_file_beside_a_deleted_one_is_no_rename(self, world) -> None:
        world.commit("old", a="one\ntwo\nthree\n")
        world.commit("other", a=None, b="something else entirely, and longer\n" * 3)
        assert world.messages("b.md") == ["other"]

    def test_also_what_is_gone(self, world) -> None:
        world.commit("made", a="1")
        world.commit("gone", a=None)
        world.commit("again", a="2")
        assert world.messages("a.md") == ["again", "gone", "made"]

    def test_of_something_unknown(self, world) -> None:
        with pytest.raises(NotFoundError, match="The journal is empty"):
            world.past.log("a.md")
        assert world.past.log() == []
        world.commit("made", a="1")
        with pytest.raises(NotFoundError, match=r"has nothing at 'b\.md'"):
            world.past.log("b.md")
        assert world.past.log("a.md", source="nobody") == []
        with pytest.raises(UnsafePathError):
            world.past.log("../a.md")

    def test_of_one_file_among_thousands_of_commits_takes_less_than_a_second(self, world) -> None:
        for n in range(300):
            world.store.append_file(f"people/{n % 50}.md", f"{n}\n")
        begun = time.process_time()
        assert len(world.past.log("people/7.md")) == 6
        assert time.process_time() - begun < 1.0


class TestFindingACommit:
    def test_by_the_beginning_of_its_id(self, world) -> None:
        ids = [world.commit(f"{n}", a=f"{n}") for n in range(5)]
        for n, id_ in enumerate(ids):
            for word in (id_, id_[:12], id_[:12].upper()):
                assert world.past.show(word)[0].commit.message == f"{n}"

    def test_by_its_distance(self, world) -> None:
        for n in range(4):
            world.commit(f"{n}", a=f"{n}")
        shown = [world.past.show(w)[0].commit.message for w in ("HEAD", "@", "HEAD~", "HEAD~3")]
        assert shown == ["3", "3", "2", "0"]
        with pytest.raises(NotFoundError, match="No such commit: 'HEAD~4'"):
            world.past.show("HEAD~4")

    def test_an_ambiguous_beginning_lists_them(self, world, monkeypatch) -> None:
        world.commit("a", a="1")
        ids = ["abcd1" + "0" * 35, "abcd2" + "0" * 35, "beef" + "0" * 36]
        monkeypatch.setattr("familiar_cli.store.journal.history.History._ids", lambda _: iter(ids))
        with pytest.raises(UsageError, match="2 commits begin with 'abcd': abcd100000, abcd200000"):
            world.past.show("abcd")

    @pytest.mark.parametrize("word", ["", "xyz", "abc", "HEAD^", "main", "--all"])
    def test_what_is_no_id_is_a_usage_error(self, world, word) -> None:
        world.commit("a", a="1")
        with pytest.raises(UsageError, match="is not a commit id"):
            world.past.show(word)

    def test_an_unknown_one(self, world) -> None:
        world.commit("a", a="1")
        with pytest.raises(NotFoundError, match="No commit begins with 'ffff0000'"):
            world.past.show("ffff0000")


class TestDiff:
    def test_the_newest_change_and_the_newest_of_a_path(self, world) -> None:
        world.commit("first", a="1\n", b="1\n")
        world.commit("second", a="2\n")
        assert [f.rel_path for f in world.past.diff([]).files] == ["a.md"]
        found = world.past.diff(["b.md"])
        assert (found.old, found.new.message) == (None, "first")
        assert [f.diff for f in found.files] == ["--- /dev/null\n+++ b/b.md\n@@ -0,0 +1 @@\n+1\n"]

    def test_two_states(self, world) -> None:
        first = world.commit("first", a="1\n", b="1\n")
        second = world.commit("second", a="2\n")
        world.commit("third", b=None)
        kinds = [(f.rel_path, f.kind) for f in world.past.diff([first]).files]
        assert kinds == [("a.md", "changed"), ("b.md", "deleted")]
        assert [f.rel_path for f in world.past.diff([first, second]).files] == ["a.md"]
        assert world.past.diff([first, second, "b.md"]).files == ()
        assert world.past.diff([first, "b.md"]).files[0].kind == "deleted"
        assert world.past.diff([second, first]).files[0].diff.endswith("-2\n+1\n")

    def test_a_file_called_like_an_id(self, world) -> None:
        world.by_hand("cafe", "x\n")
        world.commit("first", a="1")
        world.by_hand("cafe", "y\n")
        assert [f.rel_path for f in world.past.diff(["cafe"]).files] == ["cafe"]

    def test_words_that_make_no_sense(self, world) -> None:
        world.commit("first", a="1")
        with pytest.raises(UsageError):
            world.past.diff(["a.md", "HEAD"])
        with pytest.raises(UsageError, match="at most two"):
            world.past.diff(["HEAD", "HEAD", "HEAD", "a.md"])
        with pytest.raises(NotFoundError):
            world.past.diff(["b.md"])

    def test_ends_without_a_newline_and_binary_files(self, world) -> None:
        world.commit("first", a="1")
        world.commit("second", a="1\n")
        assert world.past.diff([]).files[0].diff == (
            "--- a/a.md\n+++ b/a.md\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+1\n"
        )
        world.by_hand("p.png", b"\x89PNG\0")
        (file,) = world.past.show("HEAD")[1]
        assert file.diff == "Binary files /dev/null and b/p.png differ: 0 -> 5 bytes\n"


class TestBlame:
    def blamed(self, world, path):
        return [(b.commit.message, b.text) for b in world.past.blame(path)]

    def test_each_line_has_its_commit(self, world) -> None:
        world.commit("one", a="first\nsecond\nthird\n")
        world.commit("two", "memory_writer", a="first\nsecond!\nthird\n")
        world.by_hand("a.md", "zeroth\nfirst\nsecond!\nthird\n")
        assert self.blamed(world, "a.md") == [
            ("edited by hand: a.md", "zeroth"),
            ("one", "first"),
            ("two", "second!"),
            ("one", "third"),
        ]
        assert [b.line for b in world.past.blame("a.md")] == [1, 2, 3, 4]

    def test_through_renames(self, world) -> None:
        world.commit("one", a="first\nsecond\n")
        world.store.move_file("a.md", "b.md")
        world.store.append_file("b.md", "third")
        found = self.blamed(world, "b.md")
        assert [m for m, _ in found] == ["one", "one", "append b.md"]

    def test_not_beyond_where_it_was_made_anew(self, world) -> None:
        world.commit("old", a="same\n")
        world.commit("gone", a=None)
        world.commit("new", a="same\n")
        assert self.blamed(world, "a.md") == [("new", "same")]

    def test_lines_that_come_back_and_repeat(self, world) -> None:
        world.commit("1", a="x\nx\n")
        world.commit("2", a="x\ny\nx\n")
        world.commit("3", a="x\ny\nx\nx\n")
        assert len(self.blamed(world, "a.md")) == 4
        assert self.blamed(world, "a.md")[1] == ("2", "y")

    def test_what_has_no_lines(self, world) -> None:
        world.by_hand("p.png", b"\0")
        world.commit("one", a="", b="x")
        assert self.blamed(world, "a.md") == []
        with pytest.raises(BadInputError, match="is not text"):
            world.past.blame("p.png")
        world.commit("two", b=None)
        with pytest.raises(NotFoundError, match=r"no current file 'b\.md'"):
            world.past.blame("b.md")
