"""Cards of every shape, right or wrong, are read into one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadInputError
from familiar_cli.imports.cards import KNOWN_FIELDS, Card
from familiar_cli.imports.reading import read_card
from tests.support.cards import V2_DATA, as_json, v2, v3
from tests.support.cases import each

V1 = {key: V2_DATA[key] for key in ("name", "description", "personality", "first_mes")}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


def read(value, origin="card.json") -> Card:
    return read_card(as_json(value), origin=origin)


def test_a_right_v2_card_has_no_warning() -> None:
    card = read(v2())
    assert (card.spec, card.data, card.warnings) == ("v2", V2_DATA, ())


def test_a_right_v3_card_has_no_warning() -> None:
    card = read(v3(nickname="Il", creation_date=0, assets=[]))
    assert (card.spec, card.text("nickname"), card.warnings) == ("v3", "Il", ())


def test_a_v1_card_is_read_flat() -> None:
    card = read(V1 | {"chat": "x"})
    assert (card.spec, card.data, card.top_level) == ("v1", V1, {"chat": "x"})
    assert card.spec_named == ("chara_card_v3", "3.0")


def test_a_pygmalion_card_is_read() -> None:
    card = read(
        {
            "char_name": "Ada",
            "char_persona": "terse",
            "world_scenario": "a lab",
            "char_greeting": "Yes?",
            "example_dialogue": "<START>",
            "metadata": {"tool": 1},
        }
    )
    assert card.spec == "pygmalion"
    assert card.data == {
        "name": "Ada",
        "description": "terse",
        "scenario": "a lab",
        "first_mes": "Yes?",
        "mes_example": "<START>",
    }
    assert card.top_level == {"metadata": {"tool": 1}}


def test_a_text_generation_character_is_read() -> None:
    card = read_card(b"name: Bo\ngreeting: Hi\ncontext: |\n  A cook.\n", origin="bo.yaml")
    assert (card.spec, card.data["description"], card.data["first_mes"]) == (
        "textgen",
        "A cook.\n",
        "Hi",
    )


def test_inside_wins_over_a_top_level_that_differs() -> None:
    card = read(v2() | {"name": "Other", "description": V2_DATA["description"], "fav": True})
    assert card.name == "Ilse"
    assert card.warnings == ("'name' differs inside and outside 'data'; the inner one is used",)
    assert card.top_level == {"name": "Other", "fav": True}
    assert card.repeated == {"description": "description"}


def test_a_book_at_the_top_level_is_read_with_a_warning() -> None:
    card = read(v2() | {"character_book": {"entries": []}})
    assert card.data["character_book"] == {"entries": []}
    assert "outside 'data'" in card.warnings[0]


WRONG_SHAPES = {
    "book null": ({"character_book": None}, "character_book", None),
    "book a list": (
        {"character_book": [{"keys": ["a"]}]},
        "character_book",
        {"entries": [{"keys": ["a"]}]},
    ),
    "greetings a string": ({"alternate_greetings": "Hi"}, "alternate_greetings", ["Hi"]),
    "greetings null": ({"alternate_greetings": None}, "alternate_greetings", []),
    "greetings with numbers": (
        {"alternate_greetings": [1, "b"]},
        "alternate_greetings",
        ["1", "b"],
    ),
    "tags a comma list": ({"tags": "a, b,c ,"}, "tags", ["a", "b", "c"]),
    "text null": ({"scenario": None}, "scenario", ""),
    "text a number": ({"character_version": 1.5}, "character_version", "1.5"),
    "text a list": ({"description": ["a", "b"]}, "description", "a\nb"),
    "text an object": ({"description": {"a": 1}}, "description", {"a": 1}),
    "extensions null": ({"extensions": None}, "extensions", {}),
    "date a string": ({"creation_date": "12"}, "creation_date", 12),
    "assets a string": ({"assets": "x"}, "assets", "x"),
    "greetings with objects": ({"alternate_greetings": [{}]}, "alternate_greetings", [{}]),
}


@each(("change", "field", "read_as"), WRONG_SHAPES.values(), ids=WRONG_SHAPES)
def test_a_wrong_shape_is_read_with_one_warning(change, field, read_as) -> None:
    card = read(v2(**change))
    assert card.data.get(field) == read_as
    assert len(card.warnings) == 1
    assert repr(field) in card.warnings[0]


@each("name", ["", "  ", None])
def test_a_card_without_a_name_is_called_after_its_file(name) -> None:
    card = read(v2(name=name), origin="Old Clock.json")
    assert card.name == "Old Clock"
    assert "named 'Old Clock' after its file" in card.warnings[-1]


@each(
    ("spec", "shape", "named", "warning"),
    [
        ({"spec_version": 2.0}, "v2", ("chara_card_v2", "2.0"), "is a number"),
        ({"spec_version": None}, "v2", ("chara_card_v2", "2.0"), "is None"),
        ({"spec_version": "nan"}, "v2", ("chara_card_v2", "2.0"), "is 'nan'"),
        ({"spec_version": 10**400}, "v2", ("chara_card_v2", "2.0"), "is 1000"),
        ({"spec": None}, "v2", ("chara_card_v2", "2.0"), "'spec' is None"),
        ({"spec": 7, "spec_version": "3.0"}, "v3", ("chara_card_v3", "3.0"), "'spec' is 7"),
        ({"spec_version": "3.0"}, "v2", ("chara_card_v2", "2.0"), "'spec' is used"),
        ({"spec": "chara_card_v4", "spec_version": "4.1"}, "v3", ("chara_card_v4", "4.1"), "newer"),
        ({"spec": "chara_card_v3", "spec_version": "3.5"}, "v3", ("chara_card_v3", "3.5"), "newer"),
    ],
)
def test_an_odd_version_is_read_with_a_warning(spec, shape, named, warning) -> None:
    card = read(v2() | spec)
    assert (card.spec, card.spec_named) == (shape, named)
    assert len(card.warnings) == 1
    assert warning in card.warnings[0]


def test_a_version_above_three_is_compared_as_a_number() -> None:
    assert "newer" in read(v3() | {"spec_version": "10.0"}).warnings[0]


@each(
    "value",
    [
        [],
        {},
        {"name": "only"},
        {"spec": "chara_card_v2"},
        {"data": {"x": 1}},
        {"data": {"name": "row"}},
        {"description": "a schema"},
        {"data": [1]},
        {"entries": {}},
        {"spec": "lorebook_v3", "data": {"name": "Town", "entries": []}},
    ],
    ids=repr,
)
def test_other_json_is_no_card(value) -> None:
    with pytest.raises(BadInputError):
        read(value)


def test_a_lorebook_names_the_command_that_reads_it() -> None:
    with pytest.raises(BadInputError) as caught:
        read({"entries": {}})
    assert "familiar import-lorebook" in str(caught.value.hint)


def test_lone_surrogates_stay_as_they_are() -> None:
    assert read(v2(description="a\ud83d")).data["description"] == "a\ud83d"


@given(st.dictionaries(st.sampled_from(KNOWN_FIELDS), ANYTHING))
def test_whatever_a_field_holds_the_card_is_read_and_its_texts_are_text(changes) -> None:
    card = read_card(as_json(v3(**changes)), origin="any.json")
    assert card.name
    assert isinstance(card.text("description"), str)
    assert all(isinstance(text, str) for text in card.texts("alternate_greetings"))


@given(st.dictionaries(st.text(max_size=4), ANYTHING))
def test_unknown_fields_stay_at_every_level(extra) -> None:
    unknown = {f"x_{key}": value for key, value in extra.items()}
    card = read_card(as_json(v3(**unknown, extensions=unknown) | unknown), origin="any.json")
    assert card.data.items() >= unknown.items()
    assert card.data["extensions"] == unknown
    assert card.top_level == unknown
