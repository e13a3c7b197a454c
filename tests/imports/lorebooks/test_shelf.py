"""One directory a book: which one it gets, and where a book is known again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadInputError, NotFoundError, UsageError
from familiar_cli.imports import lorebook_shelf
from familiar_cli.imports.create import plan_unpack
from familiar_cli.imports.export_card import current_value
from familiar_cli.imports.export_lorebook import choose_book
from familiar_cli.imports.reading import read_card
from tests.support.cards import as_json, v2
from tests.support.lorebooks import INTO, book_entry, bring, exported, file_of, lore, world

TOWN = [lore("Square", "Pigeons.", ["square"]), lore("Well", "Deep.", ["well"])]


def put(store, data, origin="world.json", **options):
    """Import as the command does: into the book's own directory."""
    return bring(store, data, origin=origin, into=None, **options)


def unpack(store, book):
    card = read_card(as_json(v2(character_book=book)), origin="ilse.json")
    plan = plan_unpack(card, store)
    with store.transaction("init", "unpack") as tx:
        plan.stage(tx)
    return plan


def as_card_book(entries, **frame):
    """Return entries of World Info as SillyTavern puts them into a card."""
    return {
        "extensions": {},
        **frame,
        "entries": [
            {
                "id": number,
                "keys": entry["key"],
                "secondary_keys": [],
                "comment": entry["comment"],
                "content": entry["content"],
                "constant": False,
                "selective": True,
                "insertion_order": 100,
                "enabled": True,
                "position": "before_char",
                "use_regex": True,
                "extensions": {"position": 0, "depth": 4, "role": None, "probability": 100},
            }
            for number, entry in enumerate(entries)
        ],
    }


def test_two_books_with_the_same_titles_have_two_directories(store) -> None:
    first = put(store, world(lore("Castle", "North.")), "north.json")
    second = put(store, world(lore("Castle", "South.")), "south.json")

    assert (first.directory, second.directory) == (f"{INTO}/north", f"{INTO}/south")
    assert (first.written, second.written) == (
        (f"{INTO}/north/castle.md",),
        (f"{INTO}/south/castle.md",),
    )
    assert [book.record.name for book in lorebook_shelf.shelved_books(store)] == ["north", "south"]


def test_each_book_comes_out_alone(store) -> None:
    north, south = world(lore("Castle", "North.")), world(lore("Castle", "South."))
    put(store, north, "north.json")
    put(store, south, "south.json")

    for name, book in (("north", north), ("SOUTH", south)):
        assert [e.raw for e in choose_book(store, name=name).entries] == [book["entries"]["0"]]
    with pytest.raises(UsageError, match=r"2 lorebooks are imported: 'north' \(lore/imported/n"):
        exported(store)
    with pytest.raises(NotFoundError, match="called 'west'"):
        choose_book(store, name="west")


def test_what_lies_right_in_the_old_directory_is_known_there(store) -> None:
    bring(store, world(*TOWN), origin="town.json")
    again = put(store, world(*TOWN, lore("Inn")), "town.json")

    assert (again.directory, again.written) == (INTO, (f"{INTO}/inn.md",))
    assert len(again.unchanged) == 2


def test_the_old_directory_does_not_own_the_books_below_it(store) -> None:
    bring(store, world(*TOWN), origin="town.json")
    put(store, world(lore("Castle")), "north.json")

    assert len(exported(store, directory=INTO)["entries"]) == 2
    assert bring(store, world(*TOWN), origin="town.json").written == ()


def test_a_namesake_is_kept_apart_and_known_again(store) -> None:
    town = world(*TOWN, lore("Inn"))
    put(store, town, "world.json")
    other = world(lore("Moon"), lore("Mars"), lore("Square", "Red dust."))
    done = put(store, other, "world.json")

    assert done.directory == f"{INTO}/world-2"
    assert "kept apart" in done.warnings[0]
    assert put(store, other, "world.json").written == ()
    assert put(store, town, "world.json").written == ()
    with pytest.raises(UsageError, match=r"2 lorebooks called 'world'") as unsure:
        choose_book(store, name="world")
    assert "--from DIR" in unsure.value.hint


def test_names_that_differ_in_case_are_one_name_and_never_twins_on_disk(store) -> None:
    put(store, world(*TOWN), "World.json")
    done = put(store, world(lore("Moon"), lore("Mars")), "WORLD.json")

    assert done.directory == f"{INTO}/world-2"


def test_a_renamed_copy_is_the_same_book(store) -> None:
    put(store, world(*TOWN), "town.json")
    done = put(store, world(*TOWN, lore("Inn")), "copy of town.json")

    assert done.directory == f"{INTO}/town"
    assert done.warnings == (f"'copy of town' is the book 'town' in {INTO}/town, imported before",)


@pytest.mark.parametrize("frame", [{}, {"name": "Town"}, {"name": "Ilse's book"}])
def test_the_book_of_the_card_and_of_the_file_are_one(store, frame) -> None:
    unpack(store, as_card_book(TOWN, **frame))
    done = put(store, world(*TOWN), "town.json")

    assert done.written == ()
    assert len(lorebook_shelf.book_directories(store)) == 1


def test_a_setting_that_differs_between_card_and_file_is_told(store) -> None:
    unpack(store, as_card_book(TOWN, name="town"))
    one = world(TOWN[0], TOWN[1] | {"probability": 40})

    with pytest.raises(Exception, match=r"the settings of lore/imported/town/well\.md"):
        put(store, one, "town.json")


def test_a_file_that_came_first_is_the_cards_book_too(store) -> None:
    put(store, world(*TOWN), "town.json")
    plan = unpack(store, as_card_book(TOWN, name="town"))

    assert {"lore/imported/town/square.md", "lore/imported/town/well.md"} <= {
        *plan.report.unchanged
    }
    assert not any(path.startswith("lore/") for path in plan.report.written)
    assert unpack(store, as_card_book(TOWN, name="town")).is_noop


def test_a_card_takes_only_its_own_book_along(store) -> None:
    book = {"name": "town", "extensions": {}, "entries": [book_entry("Square", "Pigeons.")]}
    unpack(store, book)
    put(store, world(lore("Castle")), "north.json")
    (store.root / INTO / "stray.md").write_text("# Stray\n\nMine.\n")

    card = current_value(store, default_name="Ilse")
    assert [e["name"] for e in card["data"]["character_book"]["entries"]] == ["Square"]


def test_of_an_old_shared_directory_a_card_takes_its_own_book(store) -> None:
    hers = {"name": "town", "extensions": {}, "entries": [book_entry("Square", "Pigeons.")]}
    other = {"name": "sea", "entries": [book_entry("Whale", "Big.")]}
    bring(store, {"data": {"character_book": hers}}, origin="ilse.json")
    bring(store, {"data": {"character_book": other}}, origin="sea.png")
    unpack(store, hers)
    assert json.loads(store.read_file("self/card.json"))["book"] == INTO

    card = current_value(store, default_name="Ilse")
    assert [e["name"] for e in card["data"]["character_book"]["entries"]] == ["Square"]


def test_an_entry_that_is_gone_is_not_found_in_the_namesake(store) -> None:
    put(store, world(*TOWN), "town.json")
    bring(store, world(*TOWN), origin="town.json", into="lore/twin")
    (store.root / "lore/twin/square.md").unlink()
    done = bring(store, world(*TOWN), origin="town.json", into="lore/twin")

    assert done.warnings == ("lore/twin/square.md: deleted by hand; `--force` restores it",)


def test_damaged_settings_never_double_a_book(store) -> None:
    put(store, world(*TOWN), "town.json")
    (store.root / INTO / "town/.lorebook.json").write_text("{")

    with pytest.raises(BadInputError, match="is damaged"):
        put(store, world(*TOWN), "other.json")
    assert not (store.root / INTO / "other").exists()


def test_a_directory_that_is_somebody_elses_is_not_used(store) -> None:
    store.write_file(f"{INTO}/town/mine.md", "# Mine\n")

    assert put(store, world(*TOWN), "town.json").directory == f"{INTO}/town-2"


def test_an_edit_by_hand_stays_with_its_book(store) -> None:
    put(store, world(*TOWN), "town.json")
    path = file_of(store, "Well")
    store.write_file(path, store.read_file(path).replace("Deep.", "Shallow."))

    assert put(store, world(*TOWN), "town.json").written == ()
    assert "Shallow." in json.dumps(exported(store))


@given(st.text(max_size=300) | st.sampled_from(("../x", "..", "/", "con", "a/b", "ß", "日本")))
def test_a_directory_name_is_one_safe_part(name) -> None:
    made = lorebook_shelf.directory_name(name)

    assert made == lorebook_shelf.directory_name(made)
    assert made not in (".", "..")
    assert not set(made) & set('/\\<>:"|?*. \0')
    assert 0 < len(made.encode()) < 250
