"""Trees of memories by day, week, month and year."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadInputError, ConflictError, NotFoundError, RefusedError
from familiar_cli.imports.folders import (
    MEMORIES,
    FolderContents,
    FolderImportOptions,
    import_tree,
    read_tree,
    tier_of,
    vault_tree,
)
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.pages.items import bullet_items, key_of, merge_bullets
from familiar_cli.store.memory.pages.links import move_with_links
from familiar_cli.store.memory.store.store import MemoryStore
from tests.imports.folders.conftest import EXAMPLES
from tests.support.cases import each
from tests.support.imported import originals

DAY = "daily/2026-03-09_harbour.md"


def take(store, files, **wish):
    return import_tree(store, FolderContents(dict(files)), FolderImportOptions(**wish))


def test_the_example_comes_in_as_it_is_and_again_changes_nothing(store) -> None:
    folder = read_tree(EXAMPLES / "memories")
    done = import_tree(store, folder, FolderImportOptions())
    assert done.tiers == {"daily": 3, "weekly": 1, "monthly": 1, "yearly": 1, "significant": 1}
    assert set(done.written) == set(folder.files)
    assert {path: store.read_bytes(path) for path in done.written} == folder.files
    again = import_tree(store, folder, FolderImportOptions())
    assert (again.written, set(again.unchanged)) == ((), set(folder.files))


def test_a_tree_is_found_below_the_data_directory(tmp_path) -> None:
    (tmp_path / "data" / "memories" / "daily").mkdir(parents=True)
    (tmp_path / "data" / "memories" / "daily" / "2026-01-01_a.md").write_text("- x\n")
    assert list(read_tree(tmp_path).files) == ["daily/2026-01-01_a.md"]
    with pytest.raises(BadInputError):
        read_tree(tmp_path / "data" / "memories" / "daily")
    with pytest.raises(NotFoundError):
        read_tree(tmp_path / "no")


@each(
    ("source", "tier"),
    [
        ("daily/2026-02-28.md", "daily"),
        ("daily/2026-02-30_a.md", ""),
        ("weekly/2026-W53.md", "weekly"),
        ("weekly/2025-W53.md", ""),
        ("monthly/2026-13.md", ""),
        ("yearly/2026.md", "yearly"),
        ("significant/2026-01-01_ほたる.md", "significant"),
        ("significant/2026-01-01.md", ""),
        ("daily/deep/2026-01-01_a.md", ""),
        ("notes.md", ""),
    ],
)
def test_which_tier_a_file_is_of(source, tier) -> None:
    assert tier_of(source) == tier


def test_what_belongs_to_no_tier_or_is_no_text_is_kept(store) -> None:
    files = {"daily/2026-01-01_a.md": b"\xff", "core.db": b"\x00", "daily/2026-01-01_a:b.md": b"x"}
    done = take(store, files)
    assert done.written == ()
    assert done.kept_unmapped == tuple(sorted(files))
    assert originals(store, MEMORIES.ledger) == files


def test_of_two_that_differ_in_case_alone_the_second_is_kept_aside_and_told_of(store) -> None:
    files = {"daily/2026-01-01_A.md": b"- a\n", "daily/2026-01-01_a.md": b"- b\n"}
    done = take(store, files)
    assert done.written == ("daily/2026-01-01_A.md",)
    assert done.kept_unmapped == ("daily/2026-01-01_a.md",)
    (warning,) = done.warnings
    assert (
        "daily/2026-01-01_A.md are the same file on some systems; it is kept unchanged" in warning
    )
    assert originals(store, MEMORIES.ledger) == files


def test_merging_days_keeps_every_bullet_of_a_chat_and_its_later_lines(store) -> None:
    """Merging days by `[chat:id]` kept one bullet a chat; bullets of two lines were cut."""
    store.write_file(DAY, "# 2026-03-09\n\n- Tea with Ib [chat:1] [via:phone]\n")
    new = b"# 2026-03-09\n\n- tea with Ib. [chat:1] [via:ship]\n- Bread, which\n  burned [chat:1]\n"
    done = take(store, {DAY: new})
    assert store.read_file(DAY) == (
        "# 2026-03-09\n\n- Tea with Ib [chat:1] [via:phone]\n- Bread, which\n  burned [chat:1]\n"
    )
    assert originals(store, MEMORIES.ledger) == {DAY: new}
    assert done.warnings == (f"{DAY}: already exists; what was missing was added",)
    again = take(store, {DAY: new})
    assert (again.written, again.unchanged) == ((), (DAY,))


def test_a_bullet_that_a_person_took_out_again_stays_out(store) -> None:
    store.write_file(DAY, "- mine\n")
    files = {DAY: b"- theirs [chat:1]\n"}
    take(store, files)
    store.write_file(DAY, "- mine\n")
    assert take(store, files).edited == (DAY,)
    assert store.read_file(DAY) == "- mine\n"


def test_a_week_that_says_something_else_is_a_conflict(store) -> None:
    store.write_file("weekly/2026-W11.md", "Mine.\n")
    with pytest.raises(ConflictError, match="nothing was changed"):
        take(store, {"weekly/2026-W11.md": b"Theirs.\n", DAY: b"- x\n"})
    assert not store.exists(DAY)
    assert take(store, {"weekly/2026-W11.md": b"Theirs.\n"}, force=True).overwritten


def test_a_changed_tree_is_refused_until_update(store) -> None:
    take(store, {"yearly/2025.md": b"a\n"})
    with pytest.raises(RefusedError, match="would change"):
        take(store, {"yearly/2025.md": b"b\n"})
    assert take(store, {"yearly/2025.md": b"b\n"}, update=True).written == ("yearly/2025.md",)


def test_a_note_that_may_have_moved_is_named_with_its_old_copy(store) -> None:
    notes = {"a/tea.md": b"Green.\n", "b/rye.md": b"Rye.\n", "b/oat.md": b"Oat.\n"}
    import_tree(store, FolderContents(notes), FolderImportOptions(), vault_tree("v"))
    moved = {"drinks/tea.md": b"Green, or mint.\n", "b/bread.md": b"Rye.\n"}
    done = import_tree(store, FolderContents(moved), FolderImportOptions(), vault_tree("v"))
    paths = ("a/tea.md", "b/rye.md")
    tea, rye = (f"`familiar memory rm {path}` removes the old one)" for path in paths)
    kept = "is no longer in the folder; its file in memory is kept"
    assert done.warnings == (
        f"'a/tea.md' {kept} (is it now 'drinks/tea.md'? {tea}",
        f"'b/oat.md' {kept}",
        f"'b/rye.md' {kept} (is it now 'b/bread.md'? {rye}",
    )


def test_folders_that_differ_from_the_memorys_own_by_case_move_below_notes_with_links(
    store,
) -> None:
    notes = {
        "People/Paula.md": b"[tea](../topics/tea.md) [[Paula]]\n",
        "TASKS.md": b"x\n",
        "topics/tea.md": b"[Paula](../People/Paula.md) [[People/Paula]]\n",
    }
    done = import_tree(store, FolderContents(notes), FolderImportOptions(), vault_tree("v"))
    assert done.written == ("notes/People/Paula.md", "notes/TASKS.md", "topics/tea.md")
    assert store.read_file("notes/People/Paula.md") == "[tea](../../topics/tea.md) [[Paula]]\n"
    assert "[Paula](../notes/People/Paula.md) [[People/Paula]]" in store.read_file("topics/tea.md")
    assert [warning.partition(",")[0] for warning in done.warnings] == [
        "People is imported as notes/People",
        "TASKS.md is imported as notes/TASKS.md",
    ]
    again = import_tree(store, FolderContents(notes), FolderImportOptions(), vault_tree("v"))
    assert (again.written, again.unchanged) == ((), done.written)


def test_a_note_stays_where_an_earlier_import_put_it(store, monkeypatch) -> None:
    vault = FolderContents({"People/a.md": b"a\n", "Tasks/b.md": b"b\n"})
    with monkeypatch.context() as patch:
        patch.setattr(layout, "standard_name_blocked_by", lambda _: "")
        import_tree(store, vault, FolderImportOptions(), vault_tree("v"))
    move_with_links(store, "People/a.md", "notes/People/a.md", dry_run=False)
    again = import_tree(store, vault, FolderImportOptions(), vault_tree("v"))
    assert (again.written, again.deleted) == ((), ("People/a.md",))
    vault.files |= {"Topics/c.md": b"c\n"}
    import_tree(store, vault, FolderImportOptions(), vault_tree("v"))
    vault.files |= {"Notes/d.md": b"d\n"}
    done = import_tree(store, vault, FolderImportOptions(), vault_tree("v"))
    assert (done.written, "notes/Topics/c.md" in done.unchanged) == ((), True)
    assert "Notes/d.md and notes are the same file on some systems; it is kept unchanged" in str(
        done
    )


def test_a_vault_with_a_folder_called_notes_in_capitals_moves_below_another(store) -> None:
    notes = {"Notes/a.md": b"a\n", "Topics/b.md": b"b\n"}
    done = import_tree(store, FolderContents(notes), FolderImportOptions(), vault_tree("v"))
    assert done.written == ("Notes/a.md", "notes-2/Topics/b.md")


def test_a_dry_run_changes_nothing(store) -> None:
    import_tree(store, read_tree(EXAMPLES / "memories"), FolderImportOptions(), dry_run=True)
    assert not store.root.exists()


def test_a_file_over_the_cap_comes_whole(store) -> None:
    big = b"x" * (store.limits.max_file_bytes + 1)
    assert take(store, {"yearly/2025.md": big}).written == ("yearly/2025.md",)
    assert store.read_bytes("yearly/2025.md") == big


_BULLETS = st.lists(
    st.text(st.characters(categories=("L", "N", "Zs")), min_size=1, max_size=12).map(
        lambda text: f"- {text} [chat:1]\n"
    ),
    max_size=8,
).map("".join)


@example("- 0 [chat:1]\n", "- \xa01 [chat:1]\n")
@given(_BULLETS, _BULLETS)
def test_law_merging_loses_nothing_and_twice_is_once(there, new) -> None:
    once = merge_bullets(there, new)
    assert once.startswith(there)
    assert merge_bullets(once, new) == once
    keys = {key_of(item) for item in bullet_items(once)}
    assert {key_of(i) for i in bullet_items(new) if key_of(i)[1]} <= keys


_NAMES = ("daily/2026-01-01_a.md", "daily/2026-01-01_b.md", "daily/2026-01-02.md", "daily/x.md")
_NAMES = (*_NAMES, "weekly/2026-W01.md", "monthly/2026-01.md", "yearly/2025.md", "core.db")
_NAMES = (*_NAMES, "significant/2026-01-01_é.md", "daily/2026-01-01_A.md", "weekly/con")


@given(
    st.dictionaries(
        st.sampled_from(_NAMES),
        st.binary(max_size=60) | _BULLETS.map(str.encode),
    ),
    st.dictionaries(st.sampled_from(_NAMES[:3]), _BULLETS.map(str.encode)),
)
def test_law_every_file_can_be_found_again_also_where_days_were_there_before(
    tmp_path_factory, files, there
) -> None:
    store = MemoryStore(tmp_path_factory.mktemp("law") / "memory")
    for path, content in there.items():
        store.write_file(path, content)
    take(store, files)
    assert originals(store, MEMORIES.ledger) == files
    before = {f.rel_path: store.read_bytes(f.rel_path) for f in store.walk(hidden=True).files}
    assert take(store, files).written == ()
    after = {f.rel_path: store.read_bytes(f.rel_path) for f in store.walk(hidden=True).files}
    assert after == before
    for path, content in there.items():
        assert after[path].startswith(content)
