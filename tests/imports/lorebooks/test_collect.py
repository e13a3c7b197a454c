"""What a person does to the files comes out in the export, and nothing else changes."""

from __future__ import annotations

import pytest

from familiar_cli.base.errors import NotFoundError
from familiar_cli.imports.export_lorebook import collect_lore
from tests.support.lorebooks import INTO, book_entry, bring, edit, exported, lore, world

CITADEL = lore("Citadel", "It stands.\r\nStill.", ["citadel", "/old (a|b)/i"], order=7, mine=[1])
PATH = f"{INTO}/citadel.md"


@pytest.fixture
def imported(store):
    bring(store, world(CITADEL, lore("Inn")))
    return store


def entry(store):
    return exported(store)["entries"]["0"]


def changed(store, original=CITADEL):
    """Return what of the exported entry is not as it was imported."""
    return {n: v for n, v in entry(store).items() if n in original and original[n] != v}


def test_an_edited_title_comes_out(imported) -> None:
    edit(imported, PATH, "# Citadel\n", "# The Ruin\n")

    assert changed(imported) == {"comment": "The Ruin"}


def test_edited_keys_come_out(imported) -> None:
    edit(imported, PATH, "- citadel\n", "- citadel\n- keep, tower\n- 城\n")

    assert changed(imported) == {"key": ["citadel", "keep, tower", "城", "/old (a|b)/i"]}


def test_an_edited_text_comes_out(imported) -> None:
    edit(imported, PATH, "Still.", "No more.")

    assert changed(imported) == {"content": "It stands.\r\nNo more."}


def test_a_person_switches_an_entry_off_and_on(imported) -> None:
    edit(imported, PATH, "- citadel\n", "- citadel\n- Disabled\n")
    assert entry(imported)["disable"] is True

    edit(imported, PATH, "- Disabled\n", "")
    assert entry(imported)["disable"] is False


def test_decorators_stay_when_the_text_is_edited(store) -> None:
    bring(store, world(CITADEL | {"content": "@@depth 4\n\nIt stands."}))
    edit(store, PATH, "It stands.", "It fell.")

    assert entry(store)["content"] == "@@depth 4\n\nIt fell."


def test_an_editor_that_changes_line_ends_changes_nothing(imported) -> None:
    text = (imported.root / PATH).read_bytes().replace(b"\r\n", b"\n")
    (imported.root / PATH).write_bytes(text.replace(b"\n", b"\r\n"))

    assert changed(imported) == {}


@pytest.mark.parametrize("to", ["lore/imported/other-name.md", "notes/deep/inside.md", "top.md"])
def test_a_renamed_or_moved_file_keeps_its_settings(imported, to) -> None:
    edit(imported, PATH, "It stands.", "It fell.")
    imported.move_file(PATH, to)

    assert changed(imported) == {"content": "It fell.\r\nStill."}


def test_a_file_that_lost_its_mark_keeps_its_settings_where_it_was(imported) -> None:
    lines = (imported.root / PATH).read_text(encoding="utf-8").split("\n")
    kept = [line for line in lines if "lorebook entry" not in line]
    (imported.root / PATH).write_text("\n".join(kept), encoding="utf-8")

    assert changed(imported).keys() <= {"content"}
    assert entry(imported)["mine"] == [1]


def test_a_deleted_file_is_an_entry_less_and_is_reported(imported) -> None:
    imported.delete_file(PATH)
    book = collect_lore(imported, INTO)

    assert [found.title for found in book.entries] == ["Inn"]
    assert book.warnings == (f"{PATH}: its file no longer exists, so the entry is left out",)


def test_a_file_begun_by_hand_is_an_entry_more_and_is_reported(imported) -> None:
    imported.write_file(f"{INTO}/well.md", "# The Well\n\n- well\n- 井\n\nIt is deep.\n")
    book = collect_lore(imported, INTO)

    new = book.entries[-1]
    assert (new.title, new.keys, new.content) == ("The Well", ("well", "井"), "It is deep.")
    assert book.warnings == (f"{INTO}/well.md: created by hand, exported with default settings",)
    assert exported(imported)["entries"]["2"]["uid"] == 2


def test_a_directory_of_hand_made_files_is_a_book(store) -> None:
    store.write_file("lore/own/well.md", "# The Well\n\n- well\n\nIt is deep.\n")

    (only,) = exported(store, "v3", directory="lore/own")["data"]["entries"]
    assert (only["comment"], only["keys"]) == ("The Well", ["well"])


def test_a_copied_file_is_a_new_entry_with_the_same_settings(imported) -> None:
    text = imported.read_file(PATH)
    imported.write_file(f"{INTO}/copy.md", text.replace("# Citadel", "# Second"))
    entries = exported(imported)["entries"].values()

    assert [found["comment"] for found in entries] == ["Citadel", "Inn", "Second"]
    assert [found.get("order") for found in entries] == [7, 100, 7]
    assert len({found["uid"] for found in entries}) == 3


def test_half_a_character_comes_back_when_the_text_is_left_alone(store) -> None:
    bring(store, world(CITADEL | {"content": "half \ud83d"}))
    edit(store, PATH, "# Citadel", "# Ruin")

    assert entry(store)["content"] == "half \ud83d"
    assert "half \ufffd" in store.read_file(PATH)


def test_a_file_that_is_not_text_stops_nothing(imported) -> None:
    (imported.root / INTO / "broken.md").write_bytes(b"\xff\xfe\x00")
    book = collect_lore(imported, INTO)

    assert len(book.entries) == 2
    assert book.warnings == (f"{INTO}/broken.md: not UTF-8 text: left out",)


def test_an_empty_memory_has_no_lore(store) -> None:
    with pytest.raises(NotFoundError, match="no lore in 'lore/imported'"):
        exported(store)


def test_several_books_come_out_as_one_with_numbers_of_their_own(store) -> None:
    bring(store, world(lore("A"), lore("B")), origin="one.json")
    bring(store, world(lore("C")), origin="two.json")
    found = exported(store, directory=INTO)["entries"]

    assert {slot: (e["uid"], e["comment"]) for slot, e in found.items()} == {
        "0": (0, "A"),
        "1": (1, "B"),
        "2": (2, "C"),
    }


def test_a_card_takes_only_the_book_that_came_with_one(store) -> None:
    bring(store, {"name": "hers", "entries": [book_entry("A")]}, origin="mira.png: character_book")
    bring(store, world(lore("B")), origin="other.json")

    assert [e["name"] for e in exported(store, "card", directory=INTO)["entries"]] == ["A"]
    assert len(exported(store, "v3", directory=INTO)["data"]["entries"]) == 2


def test_what_is_exported_is_the_same_book_to_the_importer(imported) -> None:
    done = bring(imported, exported(imported))

    assert (done.written, done.warnings) == ((), ())


def test_what_is_exported_as_v3_is_the_same_book_to_the_importer(store) -> None:
    data = {"name": "hers", "entries": [{"keys": ["a"], "content": "A."}]}
    bring(store, data)

    assert bring(store, exported(store, "v3")).written == ()
