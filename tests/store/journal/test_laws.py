"""Laws: trees, differences and merges, against dulwich and against themselves."""

from __future__ import annotations

from dulwich.objects import Blob, ObjectID
from dulwich.objects import Tree as DulwichTree
from dulwich.pack import apply_delta
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.store.journal.objects import git_object, make_delta, object_id
from familiar_cli.store.journal.repository import (
    Entry,
    changed_files,
    decode_tree,
    encode_tree,
    entry_of,
    file_id,
    rewrite_tree,
    tree_files,
    with_entry,
)
from familiar_cli.store.memory.merge.blocks import merge_lines
from tests.support.cases import each

NAMES = st.sampled_from(["a", "a-", "a.md", "a0", "b", "é", "40000 b", "b 100644 a", "0", "z" * 30])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
IDS = st.integers(0, 3).map(lambda n: object_id("blob", str(n).encode()))
CHANGES = st.lists(st.dictionaries(PATHS, IDS | st.none(), max_size=25), max_size=4)
LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"", b"x\r"]), max_size=8)
TEXTS = st.builds(lambda rows, end: b"\n".join(rows) + end, LINES, st.sampled_from([b"", b"\n"]))


class Store:
    """Trees in a dictionary."""

    def __init__(self) -> None:
        self.trees = {}

    def rewrite(self, tree, changes):
        root, new = rewrite_tree(self.trees.__getitem__, tree, changes)
        self.trees |= {o.id: o.content for o in new}
        return root

    def files(self, tree):
        return dict(tree_files(self.trees.__getitem__, tree))


def without_clashes(files, changes):
    """Return the changes that a file system could hold: no file is also a directory."""
    after = {p: i for p, i in {**files, **changes}.items() if i}
    dirs = {p[:n] for p in after for n, c in enumerate(p) if c == "/"}
    return {p: i for p, i in changes.items() if p not in dirs or i is None}, after, dirs


@given(CHANGES)
def test_a_rewritten_tree_holds_what_was_written(steps) -> None:
    store, tree, files = Store(), None, {}
    for step in steps:
        changes, after, dirs = without_clashes(files, step)
        if dirs & after.keys():
            continue
        before, tree = tree, store.rewrite(tree, changes)
        expected = {p: i for p, i in {**files, **changes}.items() if i}
        assert store.files(tree) == expected
        found = list(changed_files(store.trees.__getitem__, before, tree))
        assert {p: (was, now) for p, was, now in found} == {
            p: (files.get(p), expected.get(p))
            for p in files | expected
            if files.get(p) != expected.get(p)
        }
        files = expected
        for path in [*files, "nothing", "a/nothing"]:
            assert file_id(store.trees.__getitem__, tree, path) == files.get(path)


@given(st.dictionaries(NAMES, st.tuples(st.booleans(), IDS), max_size=9))
def test_a_tree_is_the_one_that_dulwich_makes(names) -> None:
    theirs, ours = DulwichTree(), b""
    for name, (is_dir, id_) in names.items():
        theirs.add(name.encode(), 0o40000 if is_dir else 0o100644, ObjectID(id_.encode()))
        ours = with_entry(ours, name, Entry(is_dir, id_))
    assert ours == theirs.as_raw_string()
    assert git_object("tree", ours).id == theirs.id.decode()
    assert encode_tree(decode_tree(ours)) == ours
    for name, (is_dir, id_) in names.items():
        assert entry_of(ours, name) == Entry(is_dir, id_)
        ours = with_entry(ours, name, None)
    assert ours == b""


@given(st.binary(max_size=300))
def test_a_blob_has_the_id_that_dulwich_gives(content) -> None:
    assert object_id("blob", content) == Blob.from_string(content).id.decode()


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(1, 400), st.integers(0, 9999))
def test_a_difference_makes_the_text_again(base, middle, times, cut) -> None:
    base = base * times
    cut = min(cut, len(base))
    for target in (middle, base[:cut] + middle + base[cut:], base[cut:], base, b""):
        assert b"".join(apply_delta(base, make_delta(base, target))) == target


def test_what_was_added_to_a_large_text_is_a_short_difference() -> None:
    base = b"line\n" * 50_000
    assert len(make_delta(base, base + b"one more\n")) < 100
    assert len(make_delta(base, b"x" + base)) < 100


@given(TEXTS, TEXTS, TEXTS)
def test_merging_with_no_change_changes_nothing(base, ours, theirs) -> None:
    assert merge_lines(base, ours, base).content == ours
    assert merge_lines(base, base, theirs).content == theirs
    same = merge_lines(base, ours, ours)
    assert (same.content, same.clashes) == (ours, ())


@given(TEXTS, TEXTS, TEXTS)
def test_a_merge_without_clashes_is_the_same_from_both_sides(base, ours, theirs) -> None:
    one, other = merge_lines(base, ours, theirs), merge_lines(base, theirs, ours)
    assert bool(one.clashes) == bool(other.clashes)
    if not one.clashes:
        assert one.content.rstrip(b"\n") == other.content.rstrip(b"\n")


@given(LINES, LINES, LINES, LINES)
def test_edits_with_a_line_between_them_never_clash(before, after, one, other) -> None:
    def text(first, last):
        return b"\n".join([*first, b"=== fixed ===", *last]) + b"\n"

    merged = merge_lines(text(before, after), text(one, after), text(before, other))
    assert (merged.content, merged.clashes) == (text(one, other), ())


@each(
    ("base", "ours", "theirs", "merged"),
    [
        ("x\nA\n", "x\nA\nB\n", "x\n", "x\nB\n"),  # a list grew after the line that goes
        ("x\nA", "x\nA\nB", "x\n", "x\nB\n"),  # also without a newline at its end
        ("A\n", "A\nB\n", "", "B\n"),
        ("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n"),
        ("a\nb\n", "A\nb\n", "a\nB\n", "A\nB\n"),  # neighbours
        ("a\r\nb\r\n", "a\r\nb\r\nc\r\n", "a\r\n", "a\r\nc\r\n"),
    ],
)
def test_merges(base, ours, theirs, merged) -> None:
    found = merge_lines(base.encode(), ours.encode(), theirs.encode())
    assert (found.content.decode(), found.clashes) == (merged, ())


@each(
    ("base", "ours", "theirs", "line"),
    [
        ("a\nb\n", "a\nX\n", "a\nY\n", 2),
        ("a\nb\n", "a\nb\nX\n", "a\nb\nY\n", 3),
        ("a\nb\nc\n", "n\na\nb1\nc\n", "a\nc\n", 3),
        ("a\nb\nc\n", "a\nb\nnew\nc\n", "z\n", 1),
    ],
)
def test_clashes(base, ours, theirs, line) -> None:
    found = merge_lines(base.encode(), ours.encode(), theirs.encode())
    assert [clash.line for clash in found.clashes] == [line]
    assert found.content.decode() == ours
