"""Taking back: one change by a new one, or none when something is in the way."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from familiar_cli.errors import ConflictError, NotFoundError
from tests.support.journals import World


def contents(world) -> dict[str, bytes]:
    root = world.store.root
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_one_transaction_is_reversed_by_a_new_one(world) -> None:
    world.commit("first", a="1\n", gone="g\n", d__m="m\n")
    before = contents(world)
    with world.store.transaction("writer", "all kinds") as tx:
        tx.write("a.md", "2\n")
        tx.write("new/x.md", "x\n")
        tx.delete("gone.md")
        tx.move("d/m.md", "e/m.md")
    done = world.past.undo()
    assert contents(world) == before
    assert not (world.store.root / "new").exists()
    assert done.result.written == ("a.md", "d/m.md", "gone.md")
    assert done.result.deleted == ("e/m.md", "new/x.md")
    assert world.messages()[0] == f"undo {done.commit.id[:10]}: all kinds"
    assert world.past.log()[0].commit.undoes == done.commit.id
    world.check()


def test_later_edits_elsewhere_stay(world) -> None:
    first = "".join(f"{n}\n" for n in range(9))
    world.commit("first", a=first)
    middle = world.commit("middle", a=first.replace("4\n", "four\n"))
    world.commit("later", a=first.replace("4\n", "four\n").replace("0\n", "zero\n"), b="b")
    world.by_hand("a.md", (world.store.root / "a.md").read_text() + "by hand\n")
    world.past.undo(middle)
    assert world.store.read_file("a.md") == first.replace("0\n", "zero\n") + "by hand\n"
    assert world.store.exists("b.md")
    assert world.sources()[:2] == ["human", "human"]


def test_a_list_that_grew_can_lose_the_line_before(world) -> None:
    world.commit("first", a="# A\n")
    for item in ("tea", "ska", "bob"):
        world.store.append_file("a.md", f"- {item}\n")
    world.past.undo("HEAD~1")
    assert world.store.read_file("a.md") == "# A\n- tea\n- bob\n"


def test_the_same_lines_stop_it_and_nothing_changes(world) -> None:
    world.commit("first", a="x\nlikes tea\n", b="1\n")
    middle = world.commit("middle", a="x\nlikes coffee\n", b="2\n")
    world.commit("later", a="x\nlikes water\n")
    before, log = contents(world), world.messages()
    with pytest.raises(ConflictError) as caught:
        world.past.undo(middle)
    assert contents(world) == before
    assert world.messages() == log
    assert str(caught.value) == (
        f"Later changes touch what {middle[:10]} changed; nothing was undone\n"
        "a.md:2\n"
        "<<<<<<< now\nlikes water\n"
        f"||||||| after {middle[:10]}\nlikes coffee\n"
        f"======= before {middle[:10]}\nlikes tea\n"
        ">>>>>>>"
    )
    assert "restore" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("change", "later"),
    [
        ({"a": "2\n"}, {"a": None}),  # changed, and gone since
        ({"a": None}, {"a": "other\n"}),  # deleted, and made anew since
        ({"p": "\0bin"}, {"p": "\0other"}),  # no text
    ],
)
def test_what_cannot_be_merged_stops_it(world, change, later) -> None:
    world.commit("first", a="1\n", b="b")
    middle = world.commit("middle", **change)
    world.commit("later", **later)
    before = contents(world)
    with pytest.raises(ConflictError):
        world.past.undo(middle)
    assert contents(world) == before


def test_undoing_again_goes_one_step_further_back(world) -> None:
    for n in range(4):
        world.commit(f"{n}", a=f"{n}\n")
    for n in (2, 1, 0):
        world.past.undo()
        assert world.store.read_file("a.md") == f"{n}\n"
    with pytest.raises(NotFoundError, match="nothing left to undo"):
        world.past.undo()


def test_an_undo_can_be_undone_by_its_id_and_what_it_undid_is_in_effect_again(world) -> None:
    world.commit("0", a="0\n")
    one = world.commit("1", a="1\n")
    world.past.undo()
    undo = world.past.log()[0].commit.id
    world.past.undo(undo)
    assert world.store.read_file("a.md") == "1\n"
    assert world.past.undo().commit.id == one
    assert world.store.read_file("a.md") == "0\n"


def test_undoing_what_is_undone_does_nothing(world) -> None:
    world.commit("0", a="0\n")
    one = world.commit("1", a="1\n")
    world.past.undo()
    log = world.messages()
    assert world.past.undo(one).changes == ()
    assert world.messages() == log


def test_the_first_commit_is_undone_only_by_name(world) -> None:
    first = world.commit("0", a="0\n")
    with pytest.raises(NotFoundError):
        world.past.undo()
    world.past.undo(first)
    assert contents(world) == {".gitignore": b".index/\n"} or contents(world) == {}


def test_a_human_edit_can_be_undone(world) -> None:
    world.commit("0", a="0\n")
    world.by_hand("a.md", "by hand\n")
    assert world.past.undo().commit.source == "human"
    assert world.store.read_file("a.md") == "0\n"


def test_a_dry_run_changes_nothing_and_finds_conflicts(world) -> None:
    world.commit("0", a="0\n")
    one = world.commit("1", a="1\n")
    assert world.past.undo(dry_run=True).result.written == ("a.md",)
    assert world.store.read_file("a.md") == "1\n"
    assert world.messages() == ["1", "0"]
    world.commit("2", a="2\n")
    with pytest.raises(ConflictError):
        world.past.undo(one, dry_run=True)


def test_over_cap_files_come_back_too(world) -> None:
    world.by_hand("big.md", "x\n" * 200_000)
    world.commit("first", a="1")
    world.store.delete_file("big.md")
    world.past.undo()
    assert world.store.read_file("big.md") == "x\n" * 200_000


class TestRestore:
    def test_a_file_as_it_was(self, world) -> None:
        first = world.commit("first", a="1\n", b="b")
        world.commit("second", a="2\n")
        world.past.restore("a.md", first)
        assert world.store.read_file("a.md") == "1\n"
        assert world.messages()[0] == f"restore a.md as of {first[:10]}"

    def test_also_one_that_is_gone(self, world) -> None:
        first = world.commit("first", d__a="1\n")
        world.commit("second", d__a=None)
        assert world.past.restore("d/a.md", first, dry_run=True).result.written == ("d/a.md",)
        assert not world.store.exists("d/a.md")
        world.past.restore("d/a.md", first)
        assert world.store.read_file("d/a.md") == "1\n"

    def test_what_was_not_there(self, world) -> None:
        first = world.commit("first", a="1\n")
        world.commit("second", b="1\n")
        for path in ("b.md", "d"):
            with pytest.raises(NotFoundError, match=f"There was no file '{path}' at {first[:10]}"):
                world.past.restore(path, first)


def test_someone_who_writes_at_the_last_moment_is_not_overwritten(world, monkeypatch) -> None:
    world.commit("first", a="1\n")
    world.commit("second", a="2\n")
    real = world.store.transaction

    def late(*args, **options):
        world.by_hand("a.md", "by hand\n")
        return real(*args, **options)

    monkeypatch.setattr(world.store, "transaction", late)
    with pytest.raises(ConflictError):
        world.past.undo()
    assert world.store.read_file("a.md") == "by hand\n"


STEPS = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "b", "d__a"]),
        st.sampled_from(["", "x\n", "x\ny\n", "z", "\0"]),
        min_size=1,
    ),
    min_size=2,
    max_size=4,
)


@given(STEPS)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_undoing_everything_leads_back_to_the_beginning(tmp_path_factory, steps) -> None:
    world = World(tmp_path_factory.mktemp("undo"))
    world.commit("begin", begin="x")
    before = contents(world)
    for n, step in enumerate(steps):
        world.commit(f"{n}", **step)
    while len(world.past.log()) > 1:
        try:
            world.past.undo()
        except NotFoundError:
            break
    assert contents(world) == before
