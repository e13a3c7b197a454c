"""Importing again: what is written, what is refused, and what is left alone."""

from __future__ import annotations

import pytest

from familiar_cli.base.errors import BadInputError, ConflictError, RefusedError, UnsafePathError
from familiar_cli.imports.import_lorebook import plan_import
from familiar_cli.imports.reading import read_book
from familiar_cli.store.memory.store.store import MISSING
from tests.support.lorebooks import INTO, book_entry, bring, edit, exported, file_of, lore, world

CITADEL = lore("Citadel", "It stands.", ["citadel"])
INN = lore("Inn", "It is warm.", ["inn"])


def everything(store):
    return {
        file.rel_path: store.read_bytes(file.rel_path) for file in store.walk(hidden=True).files
    }


def test_each_entry_becomes_one_file(store) -> None:
    done = bring(store, world(CITADEL, INN))

    assert done.written == (f"{INTO}/citadel.md", f"{INTO}/inn.md")
    text = store.read_file(f"{INTO}/citadel.md")
    assert text.startswith("# Citadel\n\n- citadel\n\n<!-- lorebook entry ")
    assert text.endswith(" -->\n\nIt stands.\n")


def test_the_same_again_is_a_no_op(store) -> None:
    bring(store, world(CITADEL, INN))
    before = everything(store)
    done = bring(store, world(CITADEL, INN))

    assert (done.written, len(done.unchanged), everything(store)) == ((), 2, before)


def test_the_same_in_another_order_is_a_no_op(store) -> None:
    bring(store, {"entries": [CITADEL | {"uid": 0}, INN | {"uid": 1}]})
    done = bring(store, {"entries": [INN | {"uid": 1}, CITADEL | {"uid": 0}]})

    assert done.written == ()


def test_the_same_after_hand_edits_is_a_no_op(store) -> None:
    bring(store, world(CITADEL))
    edit(store, f"{INTO}/citadel.md", "It stands.", "It fell.")

    assert bring(store, world(CITADEL)).written == ()
    assert "It fell." in store.read_file(f"{INTO}/citadel.md")


def test_the_same_book_from_a_renamed_file_is_a_no_op(store) -> None:
    bring(store, world(CITADEL), origin="a.json")

    assert bring(store, world(CITADEL), origin="b.json").written == ()


def test_a_changed_source_is_refused_and_names_the_files(store) -> None:
    bring(store, world(CITADEL, INN))
    before = everything(store)

    with pytest.raises(RefusedError, match=f"{INTO}/citadel.md; nothing") as refused:
        bring(store, world(CITADEL | {"content": "New."}, INN))
    assert "--update" in str(refused.value.hint)
    assert everything(store) == before


def test_update_writes_what_changed_in_place(store) -> None:
    bring(store, world(CITADEL, INN))
    done = bring(store, world(CITADEL | {"content": "New."}, INN), update=True)

    assert (done.written, done.unchanged) == ((f"{INTO}/citadel.md",), (f"{INTO}/inn.md",))
    assert store.read_file(f"{INTO}/citadel.md").endswith("\n\nNew.\n")


def test_update_finds_a_file_that_was_renamed_and_moved(store) -> None:
    bring(store, world(CITADEL))
    store.move_file(f"{INTO}/citadel.md", "topics/keep.md")
    done = bring(store, world(CITADEL | {"content": "New."}), update=True)

    assert done.written == ("topics/keep.md",)
    assert not store.exists(f"{INTO}/citadel.md")


def test_an_entry_with_a_new_title_keeps_its_file(store) -> None:
    bring(store, world(CITADEL, INN))
    done = bring(store, world(CITADEL | {"comment": "Ruin"}, INN), update=True)

    assert done.written == (f"{INTO}/citadel.md",)
    assert file_of(store, "Ruin") == f"{INTO}/citadel.md"


def test_update_of_a_hand_edited_file_is_refused_with_the_diff(store) -> None:
    bring(store, world(CITADEL, INN))
    edit(store, f"{INTO}/citadel.md", "It stands.", "It fell.")
    before = everything(store)
    changed = world(CITADEL | {"content": "New."}, INN | {"content": "Cold."})

    with pytest.raises(ConflictError) as refused:
        bring(store, changed, update=True)
    message = str(refused.value)
    assert f"{INTO}/citadel.md" in message.splitlines()[0]
    assert f"{INTO}/inn.md" not in message
    assert {"-It fell.", "+New."} <= set(message.splitlines())
    assert everything(store) == before


def test_force_replaces_a_hand_edit_and_says_so(store) -> None:
    bring(store, world(CITADEL))
    edit(store, f"{INTO}/citadel.md", "It stands.", "It fell.")
    done = bring(store, world(CITADEL | {"content": "New."}), force=True)

    assert store.read_file(f"{INTO}/citadel.md").endswith("\n\nNew.\n")
    assert done.warnings == (f"{INTO}/citadel.md: edited by hand; the edit was replaced",)


def test_a_hand_edit_equal_to_the_new_source_is_no_conflict(store) -> None:
    bring(store, world(CITADEL))
    edit(store, f"{INTO}/citadel.md", "It stands.", "New.")
    bring(store, world(CITADEL | {"content": "New."}), update=True)

    assert exported(store)["entries"]["0"]["content"] == "New."


def test_new_settings_alone_leave_a_hand_edited_file_alone(store) -> None:
    bring(store, world(CITADEL))
    edit(store, f"{INTO}/citadel.md", "It stands.", "It fell.")
    done = bring(store, world(CITADEL | {"order": 7}), update=True)

    assert done.written == (f"{INTO}/.lorebook.json",)
    entry = exported(store)["entries"]["0"]
    assert (entry["order"], entry["content"]) == (7, "It fell.")


def test_new_settings_alone_are_refused_without_update(store) -> None:
    bring(store, world(CITADEL))

    with pytest.raises(RefusedError, match=r"the settings of lore/imported/citadel\.md"):
        bring(store, world(CITADEL | {"order": 7}))


def test_what_left_the_source_stays_and_is_reported(store) -> None:
    bring(store, world(CITADEL, INN))
    done = bring(store, world(CITADEL))

    assert done.warnings == (f"{INTO}/inn.md: no longer in the source; it is kept",)
    assert store.exists(f"{INTO}/inn.md")
    assert len(exported(store)["entries"]) == 2


def test_what_is_new_in_the_source_is_added_without_asking(store) -> None:
    bring(store, world(CITADEL))

    assert bring(store, world(CITADEL, INN)).written == (f"{INTO}/inn.md",)


def test_a_deleted_file_stays_deleted_until_forced(store) -> None:
    bring(store, world(CITADEL, INN))
    store.delete_file(f"{INTO}/inn.md")
    done = bring(store, world(CITADEL, INN), update=True)

    assert done.warnings == (f"{INTO}/inn.md: deleted by hand; `--force` restores it",)
    assert bring(store, world(CITADEL, INN), force=True).written == (f"{INTO}/inn.md",)


def test_a_file_of_ones_own_is_never_in_the_way(store) -> None:
    store.write_file(f"{INTO}/citadel.md", "mine\n")
    (written,) = bring(store, world(CITADEL)).written

    assert written.startswith(f"{INTO}/citadel-")
    assert store.read_file(f"{INTO}/citadel.md") == "mine\n"


def test_two_books_share_a_directory(store) -> None:
    bring(store, world(CITADEL), origin="north.json")
    done = bring(store, world(CITADEL | {"content": "Another."}), origin="south.json")

    assert len(done.written) == 1
    assert bring(store, world(CITADEL), origin="north.json").written == ()
    both = exported(store, directory=INTO)["entries"].values()
    assert [e["content"] for e in both] == ["It stands.", "Another."]


def test_renumbered_entries_are_still_the_same(store) -> None:
    bring(store, world(CITADEL, INN))
    done = bring(store, world(INN, CITADEL), update=True)

    assert done.written == (f"{INTO}/.lorebook.json",)


def test_an_entry_that_took_a_number_over_is_another_entry(store) -> None:
    bring(store, world(CITADEL, INN))
    done = bring(store, world(CITADEL, lore("Well", "Deep.", ["well"])), update=True)

    assert done.written == (f"{INTO}/well.md",)
    assert "It is warm." in store.read_file(f"{INTO}/inn.md")


def test_disabled_entries_are_imported_and_marked(store) -> None:
    bring(store, world(CITADEL | {"disable": True}))

    assert "\n- **Disabled**\n" in store.read_file(f"{INTO}/citadel.md")


def test_decorators_are_kept_off_the_text_and_reported(store) -> None:
    done = bring(store, world(CITADEL | {"content": "@@depth 4\n@@@role user\nIt stands."}))

    assert "@@" not in store.read_file(f"{INTO}/citadel.md")
    assert {"@@depth places 1 entry", "@@role places 1 entry"} <= set(done.found_when_it_fits)


def test_what_markdown_does_not_show_is_reported_but_defaults_are_not(store) -> None:
    entry = CITADEL | {"order": 100, "probability": 40, "sticky": None, "myTool": {"x": 1}}
    done = bring(store, world(entry, INN | {"probability": 5}, originalData={"a": 1}))

    assert done.kept_unmapped == (
        "the book's originalData",
        "myTool of 1 entry",
    )
    assert "probability may keep back 2 entries" in done.found_when_it_fits


@pytest.mark.parametrize("into", ["../out", "/tmp/x", "", ".", "lore/../..", ".hidden", "a/.b"])
def test_no_import_leads_out_of_the_memory_or_hides(store, into) -> None:
    with pytest.raises(UnsafePathError):
        bring(store, world(CITADEL), into=into)
    assert not store.root.exists()


def test_a_dry_run_writes_nothing(store) -> None:
    done = bring(store, world(CITADEL), dry_run=True)

    assert done.written == (f"{INTO}/citadel.md",)
    assert not store.root.exists()


def test_damaged_settings_are_one_clear_error(store) -> None:
    store.write_file(f"{INTO}/.lorebook.json", "{")

    with pytest.raises(BadInputError, match="damaged"):
        bring(store, world(CITADEL))


def test_a_file_changed_between_plan_and_write_is_not_overwritten(store) -> None:
    plan = plan_import(read_book(world(CITADEL), origin="w.json"), store, into=INTO)
    store.write_file(f"{INTO}/citadel.md", "mine\n", expect=MISSING)

    with pytest.raises(ConflictError), store.transaction("test", "late") as tx:
        plan.stage(tx)
    assert store.read_file(f"{INTO}/citadel.md") == "mine\n"


def test_a_book_that_comes_again_in_another_format_is_the_same_book(store) -> None:
    bring(store, world(CITADEL, name="North"))
    data = {"name": "North", "entries": [book_entry("Citadel", "It stands.", ["citadel"])]}
    done = bring(store, data, update=True)

    assert done.written == (f"{INTO}/.lorebook.json",)
    assert exported(store, "v3")["data"]["entries"][0]["name"] == "Citadel"


def test_world_info_and_the_copy_in_a_card_are_no_changed_source_of_each_other(store) -> None:
    copy = {"name": "North", "entries": [book_entry("Citadel", "It stood.", ["citadel"])]}
    live = world(CITADEL, INN, name="North")
    bring(store, copy)
    assert bring(store, live).written == (f"{INTO}/citadel.md", f"{INTO}/inn.md")
    again = bring(store, copy)
    assert (again.written, bring(store, live).written) == ((), ())
    assert [line for line in again.warnings if "World Info has a different text" in line]
    assert bring(store, copy, update=True).written == (f"{INTO}/citadel.md",)
