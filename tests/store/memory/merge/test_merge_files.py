"""Which file of two versions stands, which is kept beside it, and which are never read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.store.memory.layout import CONFLICTS_LIST
from familiar_cli.store.memory.merge.files import listed_conflicts
from familiar_cli.sync.joining import merge_heads
from tests.support.cases import each
from tests.support.versions import Versions

if TYPE_CHECKING:
    from familiar_cli.store.memory.merge.files import MergedTree

LAPTOP, DESK = "a-laptop-7f3a", "desk-11aa"  # in the order in which their versions win
Files = dict[str, bytes]


class Two:
    """A version, and what two machines made of it."""

    def __init__(self, base: Files, laptop: Files, desk: Files, *, desk_source: str = "x") -> None:
        self.past = Versions()
        root = self.past.add(base, instance=LAPTOP)
        self.heads = [
            self.past.add(laptop, [root], instance=LAPTOP),
            self.past.add(desk, [root], instance=DESK, source=desk_source),
        ]

    def merged(self) -> MergedTree:
        return merge_heads(self.heads, self.past)

    def files(self) -> Files:
        made = self.merged()
        return self.past.files(made.files, made.blobs)


def test_what_each_side_alone_did_is_taken_as_it_is() -> None:
    base = {"a.md": b"a\r\n", "b.md": b"b", "c.md": b"c\n", "d.md": b"d\n"}
    two = Two(
        base,
        base | {"a.md": b"\xef\xbb\xbfA\r\n", "new/e.md": b"e"},
        {path: content for path, content in base.items() if path != "c.md"} | {"b.md": b"B"},
    )

    assert two.files() == {
        "a.md": b"\xef\xbb\xbfA\r\n",
        "b.md": b"B",
        "d.md": b"d\n",
        "new/e.md": b"e",
    }


def test_a_deletion_against_a_change_keeps_the_change_and_says_so() -> None:
    two = Two({"a.md": b"a\n"}, {}, {"a.md": b"a\nmore\n"})

    assert two.files() == {"a.md": b"a\nmore\n"}
    (note,) = two.merged().notes
    assert note.text == f"kept: deleted on {LAPTOP}, changed on {DESK}"


def test_the_other_version_of_a_file_in_conflict_is_kept_byte_for_byte() -> None:
    two = Two({"x.json": b"1"}, {"x.json": b"2"}, {"x.json": b"\xff3"})

    files = two.files()

    assert files["x.json"] == b"2"
    assert files["conflicts/x.json"] == b"\xff3"
    (listed_one,) = listed_conflicts(files[CONFLICTS_LIST].decode())
    assert listed_one == two.merged().conflicts[0]
    assert (listed_one.path, listed_one.ours, listed_one.theirs) == ("x.json", LAPTOP, DESK)


def test_who_asks_and_what_came_first_makes_no_difference() -> None:
    two = Two({"x.json": b"1"}, {"x.json": b"2"}, {"x.json": b"3"})

    assert merge_heads(two.heads[::-1], two.past) == two.merged()


def test_a_person_s_version_stands_whichever_machine_comes_first() -> None:
    two = Two({"x.json": b"1"}, {"x.json": b"2"}, {"x.json": b"3"}, desk_source="human")

    assert two.files()["x.json"] == b"3"
    assert two.files()["conflicts/x.json"] == b"2"


def test_a_daily_file_belongs_to_the_machine_in_its_name() -> None:
    path = f"daily/2026-04-07_{DESK}.md"
    two = Two({path: b"- a\n"}, {path: b"- b\n"}, {path: b"- c\n"})

    assert two.files()[path] == b"- c\n"
    assert two.files()[f"conflicts/{path}"] == b"- b\n"


def test_a_daily_file_named_after_the_host_alone_belongs_to_the_machine_there() -> None:
    path = "daily/2026-04-07_desk.md"
    two = Two({path: b"- a\n"}, {path: b"- b\n"}, {path: b"- c\n"})

    assert two.files()[path] == b"- c\n"


def test_a_week_that_both_machines_made_is_no_conflict() -> None:
    path = "weekly/2026-W15.md"
    two = Two({path: b"- a\n"}, {path: b"- b\n"}, {path: b"- c\n"})

    assert two.files() == {path: b"- b\n"}
    assert "made again" in two.merged().notes[0].text


def test_names_that_some_systems_take_for_one_are_one_file() -> None:
    two = Two({}, {"Tea.md": b"- green\n"}, {"tea.md": b"- black\n"})
    assert two.files() == {"Tea.md": b"- green\n- black\n"}


@each(
    "new",
    ["topics/Tea\u0301.md", "Topics/te\u0301a.md", "topics/t\u00e9a.md", "lore/tea.md"],
)
def test_a_rename_beside_an_edit_is_one_file_with_both(new) -> None:
    old, text = "topics/te\u0301a.md", b"# Tea\n\n- green\n- black\n"
    more = text + b"- white\n"
    for first, second in (({new: text}, {old: more}), ({old: more}, {new: text})):
        assert Two({old: text}, first, second).files() == {new: more}
    edited = text.replace(b"# Tea", b"# Teas")
    assert Two({old: text}, {new: edited}, {old: more}).files() == {
        new: more.replace(b"# Tea", b"# Teas")
    }


def test_a_directory_that_one_side_spells_anew_takes_what_the_other_added() -> None:
    two = Two(
        {"topics/a.md": b"a"}, {"Topics/a.md": b"a"}, {"topics/a.md": b"a", "topics/b.md": b"b"}
    )
    assert two.files() == {"Topics/a.md": b"a", "Topics/b.md": b"b"}


def test_a_file_that_both_sides_renamed_differently_is_one_file() -> None:
    base, more = b"# Tea\n\n- green\n", b"# Tea\n\n- green\n- black\n"
    two = Two({"tea.md": base}, {"teas.md": base}, {"drinks.md": more})
    assert two.files() == {"teas.md": more}


def test_a_renamed_file_that_the_other_side_deleted_is_kept() -> None:
    assert Two({"tea.md": b"- tea\n"}, {"teas.md": b"- tea\n"}, {}).files() == {
        "teas.md": b"- tea\n"
    }


def test_a_new_file_that_is_little_like_a_deleted_one_is_no_rename() -> None:
    base = b"# Tea\n\n- green\n- black\n- white\n"
    two = Two(
        {"tea.md": base}, {"bees.md": b"# Bees\n\n- wild\n"}, {"tea.md": base + b"- oolong\n"}
    )
    assert two.files().keys() == {"tea.md", "bees.md"}


def test_a_file_and_a_directory_of_one_name_are_kept_apart() -> None:
    two = Two({}, {"a.md": b"1\n"}, {"a.md/b.md": b"2\n"})

    assert two.files().keys() == {"a.md", "conflicts/a.md/b.md", CONFLICTS_LIST}


def test_a_conflict_of_a_conflict_s_copy_stands_beside_it() -> None:
    path = "conflicts/x.json"
    two = Two({path: b"1"}, {path: b"2"}, {path: b"3"})

    files = two.files()

    assert files[path] == b"2"
    assert files[f"conflicts/x.{DESK}.json"] == b"3"


def test_what_one_machine_settled_is_settled_on_the_other() -> None:
    past = Versions()
    root = past.add({"x.json": b"1"})
    heads = [
        past.add({"x.json": content}, [root], instance=name)
        for content, name in ((b"2", LAPTOP), (b"3", DESK))
    ]
    made = merge_heads(heads, past)
    both = past.add(past.files(made.files, made.blobs), heads, instance=LAPTOP)
    settled = past.add({"x.json": b"3"}, [both], instance=LAPTOP)
    other = past.add(past.files(made.files, made.blobs) | {"y.md": b"y\n"}, [both], instance=DESK)

    merged = merge_heads([settled, other], past)

    assert past.files(merged.files, merged.blobs) == {"x.json": b"3", "y.md": b"y\n"}


def test_only_what_both_changed_is_read() -> None:
    base = {f"people/{n}.md": b"- %d\n" % n for n in range(10_000)}
    two = Two(base, base | {"people/1.md": b"- x\n"}, base | {"people/2.md": b"- y\n"})

    two.merged()

    assert not two.past.read_ids
