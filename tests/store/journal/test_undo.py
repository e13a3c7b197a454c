"""Taking back: one change by a new one, or none when something is in the way."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from familiar_cli.base.errors import ConflictError, NotFoundError
from familiar_cli.store.memory.layout import ALIASES_JSON, WRITER_JSON, pass_trailers
from tests.support.journals import World

RUN = "20260131T235959-a1b2c3"


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
    assert world.past.log()[0].commit.undoes == (done.commit.id,)
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
        f"Later changes of a.md touch what {middle[:10]} changed; nothing was undone\n"
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
    with pytest.raises(NotFoundError, match="no changes left to undo"):
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


def test_an_edit_by_hand_is_undone_only_by_its_id(world) -> None:
    world.commit("0", a="0\n")
    world.by_hand("a.md", "by hand\n")
    with pytest.raises(NotFoundError, match="no changes left to undo"):
        world.past.undo()
    assert world.past.undo("HEAD").commit.source == "human"
    assert world.store.read_file("a.md") == "0\n"


def test_what_is_derived_neither_counts_nor_clashes(world) -> None:
    world.commit("0", a="0\n")
    for n in (1, 2):
        with world.store.transaction("writer", f"{n}", trailers=pass_trailers(RUN)) as tx:
            tx.write("a.md", "0\n" + "more\n" * n)
            tx.write(WRITER_JSON, f"{n}")
    world.store.write_file(ALIASES_JSON, "{}", source="aliases")
    world.past.undo()
    assert world.store.read_file("a.md") == "0\nmore\n"
    assert world.store.read_file(WRITER_JSON) == "2"
    assert world.past.undo(run=RUN).result.written == ("a.md",)
    assert world.store.read_file("a.md") == "0\n"
    assert world.past.undo(run=RUN).changes == ()
    world.check()


def test_a_run_goes_back_past_what_came_between(world) -> None:
    first = "".join(f"{n}\n" for n in range(9))
    world.commit("first", a=first)
    for old, new in (("1\n", "one\n"), ("one\n", "uno\n")):
        with world.store.transaction("writer", new, trailers=pass_trailers(RUN)) as tx:
            tx.write("a.md", world.store.read_file("a.md").replace(old, new))
        world.by_hand("a.md", world.store.read_file("a.md") + "by hand\n")
        world.commit(f"other {new}", b=new)
    world.past.undo(run=RUN)
    assert world.store.read_file("a.md") == first + "by hand\nby hand\n"
    assert world.store.read_file("b.md") == "uno\n"


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
@settings(max_examples=20)
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


class Person:
    """A random mix of what the program and a person do; the person's lines are all different."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.typed: dict[str, set[str]] = {}
        self.count = 0

    def program(self, stem: str, place: int, run: int) -> None:
        """Put a line into a file, or take one of the program's own out."""
        lines = self.lines(stem)
        own = [n for n, line in enumerate(lines) if line.startswith("p")]
        if place % 3 == 0 and own:
            del lines[own[place % len(own)]]
        else:
            lines.insert(place % (len(lines) + 1), self.line("p"))
        with self.world.store.transaction("writer", "w", trailers={"Run-Id": f"r{run}"}) as tx:
            tx.write(f"{stem}.md", "".join(lines))

    def by_hand(self, stem: str, place: int, _: int) -> None:
        lines = self.lines(stem)
        line = self.line("h")
        lines.insert(place % (len(lines) + 1), line)
        self.world.by_hand(f"{stem}.md", "".join(lines))
        self.typed.setdefault(stem, set()).add(line)

    def undo(self, _: str, place: int, run: int) -> None:
        """Undo the newest change, a run, or any change that is not a person's."""
        log = [c.commit for c in self.world.past.log()[:-1] if not c.commit.by_hand]
        how = [{}, {"run": f"r{run}"}] + [{"word": c.id} for c in log]
        before, count = contents(self.world), len(self.world.past.log())
        try:
            done = self.world.past.undo(**how[place % len(how)])
        except (ConflictError, NotFoundError):
            assert contents(self.world) == before
            assert len(self.world.past.log()) == count
            return
        if len(done.commits) == 1 and done.changes:
            self.undo_the_undo(before)

    def undo_the_undo(self, before: dict[str, bytes]) -> None:
        after = contents(self.world)
        self.world.past.undo("HEAD")
        assert contents(self.world) == before
        self.world.past.undo("HEAD")
        assert contents(self.world) == after

    def line(self, who: str) -> str:
        self.count += 1
        return f"{who}{self.count}\n"

    def lines(self, stem: str) -> list[str]:
        if not self.world.store.exists(f"{stem}.md"):
            return []
        return self.world.store.read_file(f"{stem}.md").splitlines(keepends=True)


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["program", "program", "by_hand", "undo"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 50),
        st.integers(0, 2),
    ),
    max_size=14,
)


@given(ACTS)
def test_no_undo_loses_what_a_person_typed(tmp_path_factory, acts) -> None:
    world = World(tmp_path_factory.mktemp("undo"))
    world.commit("begin", begin="x")
    person = Person(world)
    for act, *how in acts:
        getattr(person, act)(*how)
        for stem, typed in person.typed.items():
            assert typed <= set(person.lines(stem))
    world.check()
