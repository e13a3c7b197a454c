"""File names come from what an entry says, in any script, and never from where it stands."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.text import fold
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.cases import each
from tests.support.lorebooks import bring, lore, texts, through_json


def files_of(entries):
    with tempfile.TemporaryDirectory() as directory:
        store = MemoryStore(Path(directory) / "memory")
        bring(store, {"entries": entries})
        return {file.rel_path: store.read_bytes(file.rel_path) for file in store.walk().files}


def names_of(*entries):
    return [path.rpartition("/")[2] for path in files_of(list(entries))]


some_entries = st.lists(
    st.builds(lore, texts, texts, st.lists(texts, max_size=2)), min_size=1, max_size=6
)


@given(some_entries.flatmap(lambda found: st.tuples(st.just(found), st.permutations(found))))
def test_the_order_of_entries_changes_no_file(orders) -> None:
    first, second = through_json(orders)

    assert files_of(first) == files_of(second)


@given(some_entries)
def test_no_two_entries_share_a_file_on_any_system(entries) -> None:
    names = list(files_of(through_json(entries)))

    assert len({fold(name) for name in names}) == len(names) == len(entries)


def test_numbering_entries_anew_changes_no_file() -> None:
    def numbered(*uids):
        return [lore("Twin", f"text {n}") | {"uid": uid} for n, uid in enumerate(uids)]

    assert files_of(numbered(0, 1, 2)) == files_of(numbered(7, 3, 5))


@each(
    ("title", "name"),
    [
        ("The Old Citadel", "the-old-citadel.md"),
        ("日本の城", "日本の城.md"),
        ("Замок", "замок.md"),
        ("Zoë's Müller-Straße", "zoë-s-müller-straße.md"),
        ("../../etc/passwd", "etc-passwd.md"),
        ("C:\\Windows", "c-windows.md"),
        ("con", "con-entry.md"),
        ("COM1", "com1-entry.md"),
        ("a.md", "a-md.md"),
    ],
)
def test_a_name_is_the_title_in_its_own_script(title, name) -> None:
    assert names_of(lore(title)) == [name]


@each("title", ["../../../x", "/etc/x", "..\\x", "a/b/x", "x\0", "~/x", "C:x"])
def test_names_from_the_other_side_never_become_paths(title) -> None:
    (path,) = files_of([lore(title)])

    assert path.startswith("lore/imported/")
    assert path.count("/") == 2


def test_an_empty_title_falls_back_to_a_key() -> None:
    assert names_of(lore("  ", keys=["???", "Old Fort"])) == ["old-fort.md"]


def test_without_title_and_keys_the_number_is_the_name() -> None:
    assert names_of({"uid": 12, "content": "x"}) == ["entry-12.md"]


def test_equal_titles_all_get_a_suffix() -> None:
    names = names_of(lore("Guard", "one"), lore("guard", "two"), lore("Inn", "three"))

    assert [name for name in names if not name.startswith("guard-")] == ["inn.md"]


def test_entries_that_are_the_very_same_all_get_a_file() -> None:
    assert len(names_of(*[lore("Guard")] * 3)) == 3


def test_a_title_without_end_becomes_a_short_name() -> None:
    (name,) = names_of(lore("字" * 5000))

    assert len(name.encode()) < 255
