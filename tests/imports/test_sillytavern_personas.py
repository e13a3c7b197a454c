"""Who a user of SillyTavern is, as its settings and their backups say."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadInputError, FamiliarError, NotFoundError, UsageError
from familiar_cli.imports.formats.silly_tavern import choose_persona, read_personas
from tests.support.cases import each

ANNA = "1700-anna.png"
KNIGHT = "1701-knight.png"
BACKUP = {
    "personas": {ANNA: "Anna", KNIGHT: "Sir Galahad"},
    "persona_descriptions": {
        ANNA: {"description": "{{user}} is a nurse.\n", "position": 0},
        KNIGHT: {
            "description": "A knight.",
            "position": 9,
            "connections": [{"type": "character", "id": "Yuzu.png"}, {"type": "group", "id": "1"}],
        },
    },
    "default_persona": KNIGHT,
}


def read(value: object) -> Any:
    return read_personas(json.dumps(value).encode(), origin="settings.json")


def test_settings_and_backups_hold_the_same_personas():
    settings = {"username": "Anna", "user_avatar": ANNA, "power_user": BACKUP}

    anna, knight = read(settings)

    assert (anna.name, anna.description, anna.is_current) == ("Anna", "{{user}} is a nurse.", True)
    assert (knight.name, knight.is_default) == ("Sir Galahad", True)
    assert [persona.name for persona in read(BACKUP)] == ["Anna", "Sir Galahad"]


def test_the_current_persona_is_chosen_before_the_default_one():
    current = read({"user_avatar": ANNA, "power_user": BACKUP})

    assert choose_persona(current, origin="x").name == "Anna"
    assert choose_persona(read(BACKUP), origin="x").name == "Sir Galahad"
    assert choose_persona(read(BACKUP), "anna", origin="x").name == "Anna"


def test_where_nobody_is_chosen_the_names_are_listed():
    unchosen = read({**BACKUP, "default_persona": None})

    with pytest.raises(UsageError, match="'Anna', 'Sir Galahad'"):
        choose_persona(unchosen, origin="x")
    with pytest.raises(NotFoundError, match="called 'Bo'"):
        choose_persona(unchosen, "Bo", origin="x")
    with pytest.raises(NotFoundError, match="holds no persona"):
        choose_persona(read({"personas": {}}), origin="x")


@each("value", [[], {}, {"power_user": {"personas": []}}, "x", None])
def test_another_file_is_told_from_settings(value):
    with pytest.raises(BadInputError, match=r"no SillyTavern personas"):
        read(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["personas", "persona_descriptions", "default_persona", "power_user"]),
        JSON | st.dictionaries(st.just(ANNA), JSON),
    )
)
def test_whatever_stands_there_it_is_read_or_refused(value):
    try:
        found = read(value)
    except FamiliarError:
        return
    assert all(persona.name for persona in found)
