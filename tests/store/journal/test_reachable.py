from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from familiar_cli.store.journal.exchange import new_rows
from familiar_cli.store.journal.packs import tree_rows

_names = st.one_of(
    st.text("ab.", min_size=1, max_size=4),
    st.sampled_from(["40000 x", "100644 y", "a100644 y", "x.md", "y.md", "z" * 300]),
)
_ids = st.one_of(
    st.sampled_from([bytes(20), b"100644 x.md" + bytes(9), b"\0" * 6 + b"40000 x" + b"\1" * 7]),
    st.binary(min_size=20, max_size=20),
)
_trees = st.dictionaries(_names, st.tuples(st.sampled_from(["40000", "100644", "120000"]), _ids))


def encoded(entries) -> bytes:
    rows = sorted(entries.items())
    return b"".join(f"{mode} {name}\0".encode() + id_ for name, (mode, id_) in rows)


def changed(old, new) -> set:
    return set(tree_rows(encoded(new))) - set(tree_rows(encoded(old)))


@given(_trees, _trees)
def test_only_what_changed_is_found_however_names_and_ids_look(old, changes) -> None:
    new = {name: entry for name, entry in {**old, **changes}.items() if entry[1] != bytes(20)}
    found = new_rows(encoded(new), [tree_rows(encoded(old))])
    assert set(found) == changed(old, new)


@given(st.integers(0, 40), st.integers(0, 40), st.binary(min_size=20, max_size=20))
@example(0, 0, bytes(20))
def test_one_change_in_a_large_directory_is_found(size, place, id_) -> None:
    old = {f"{n:03}.md": ("100644", bytes([n]) * 20) for n in range(size)}
    new = {**old, f"{place:03}.md": ("100644", id_)}
    assert set(new_rows(encoded(new), [tree_rows(encoded(old))])) == changed(old, new)
