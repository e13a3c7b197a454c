"""The character reaches the prompt field by field, and nothing else of a card does."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest

from familiar_cli.base.errors import UsageError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import NOBODY
from familiar_cli.context.character import read_character
from familiar_cli.context.providers.character import CharacterProvider
from familiar_cli.context.request import ContextRequest
from familiar_cli.context.types import Layer, Modality, PromptSpan, Subject
from familiar_cli.store.memory.pages.front_matter import field_markdown
from familiar_cli.store.memory.store.store import MemoryStore

GLOBAL = "Write {{char}}'s reply to {{user}}."


@pytest.fixture
def store(tmp_path):
    return MemoryStore(tmp_path / "memory")


def write(store, **fields) -> None:
    card = fields.pop("card", None)
    for field, text in fields.items():
        store.write_file(f"self/{field}.md", field_markdown(field, text))
    if card is not None:
        store.write_file("self/card.json", json.dumps({"spec": "x", "data": card}))


def request(author=None, **more) -> ContextRequest:
    return ContextRequest(
        familiar_id="aria",
        channel_id="cli",
        author=author,
        utterance="hi",
        modality=Modality.text,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        budget_tokens=1000,
        viewer=NOBODY,
        **more,
    )


def provider(store, *, name="", **more) -> CharacterProvider:
    character = read_character(store, name=name, fallback_name="aria")
    return CharacterProvider(character, system_prompt=GLOBAL, **more)


def offered(store, author=None, **more):
    return asyncio.run(provider(store, **more).contribute(request(author)))


def at(pieces, place):
    return [piece.text for piece in pieces if piece.place is place]


def test_each_field_stands_at_its_place_with_its_file(store) -> None:
    write(
        store,
        description="D of {{char}}",
        personality="P",
        scenario="S",
        system_prompt="Main.",
        post_history_instructions="After.",
        mes_example="<START>\n{{user}}: a",
        card={"name": "Aria", "extensions": {"depth_prompt": {"prompt": "Deep."}}},
    )

    assert [(p.place.value, p.text, p.rel_path) for p in offered(store)] == [
        ("main", "Main.", "self/system_prompt.md"),
        ("description", "D of Aria", "self/description.md"),
        ("personality", "P", "self/personality.md"),
        ("scenario", "S", "self/scenario.md"),
        ("example", "user: a", "self/mes_example.md"),
        ("depth", "Deep.", "self/card.json"),
        ("post_history", "After.", "self/post_history_instructions.md"),
    ]


def test_creator_notes_the_greeting_and_tags_go_nowhere(store) -> None:
    write(
        store,
        description="D",
        first_mes="GREETING",
        card={
            "name": "Aria",
            "creator_notes": "NOTES",
            "creator": "CREATOR",
            "tags": ["TAG"],
            "character_version": "VERSION",
            "alternate_greetings": ["OTHER"],
        },
    )
    text = json.dumps([piece.text for piece in offered(store)])

    for word in ("GREETING", "NOTES", "CREATOR", "TAG", "VERSION", "OTHER"):
        assert word not in text


def test_without_a_prompt_of_its_own_the_global_one_is_expanded(store) -> None:
    write(store, description="D", card={"name": "Aria"})

    assert at(offered(store), PromptSpan.main) == ["Write Aria's reply to User."]


def test_a_cards_prompt_can_include_the_global_one(store) -> None:
    write(store, system_prompt="{{original}} Be brief.", card={"name": "Aria"})

    assert at(offered(store), PromptSpan.main) == ["Write Aria's reply to User. Be brief."]


@pytest.mark.parametrize(
    ("card", "setting", "name"),
    [
        ({"name": "Aria Vale", "nickname": "Ari"}, "", "Ari"),
        ({"name": "Aria Vale", "nickname": " "}, "", "Aria Vale"),
        ({"name": "Aria Vale", "nickname": "Ari"}, "Boss", "Boss"),
        ({"name": 7}, "", "aria"),
        (None, "", "aria"),
    ],
)
def test_char_is_the_setting_the_nickname_the_name_or_the_id(store, card, setting, name) -> None:
    write(store, description="{{char}}", card=card)

    assert at(offered(store, name=setting), PromptSpan.description) == [name]


@pytest.mark.parametrize(
    ("author", "user"),
    [
        (Author("discord", "1", "zoe99", "Zoë"), "Zoë"),
        (Author("discord", "1", "zoe99"), "Friend"),
        (None, "Friend"),
    ],
)
def test_user_is_the_display_name_or_the_setting(store, author, user) -> None:
    write(store, description="{{user}}")

    assert at(offered(store, author, user_name="Friend"), PromptSpan.description) == [user]


@pytest.mark.parametrize(
    ("found", "depth", "role"),
    [
        ({"prompt": "x"}, 4, "system"),
        ({"prompt": "x", "depth": 0, "role": "assistant"}, 0, "assistant"),
        ({"prompt": "x", "depth": "2", "role": "USER"}, 2, "user"),
        ({"prompt": "x", "depth": None, "role": 2}, 4, "assistant"),
        ({"prompt": "x", "depth": -1, "role": ["?"]}, 0, "system"),
    ],
)
def test_a_depth_prompt_is_read_leniently(store, found, depth, role) -> None:
    write(store, card={"extensions": {"depth_prompt": found}})

    (piece,) = [p for p in offered(store) if p.place is PromptSpan.depth]

    assert (piece.layer, piece.depth, piece.role) == (Layer.depth_inject, depth, role)


@pytest.mark.parametrize("found", [None, [], "x", {}, {"prompt": None}, {"prompt": " "}])
def test_an_empty_depth_prompt_is_none(store, found) -> None:
    write(store, card={"extensions": {"depth_prompt": found}})

    assert at(offered(store), PromptSpan.depth) == []


def test_an_unreadable_file_is_told_and_the_rest_stays(store) -> None:
    write(store, description="D", personality="P")
    (store.root / "self" / "personality.md").write_bytes(b"\xff\xfe broken")

    pieces = offered(store)

    assert at(pieces, PromptSpan.main)
    assert [p.rel_path for p in pieces if p.problem] == ["self/personality.md"]


def test_a_broken_card_json_is_told_and_the_rest_stays(store) -> None:
    write(store, description="D of {{char}}")
    store.write_file("self/card.json", "[1, 2")

    pieces = offered(store)

    assert "D of aria" in at(pieces, PromptSpan.description)
    assert [p.rel_path for p in pieces if p.problem] == ["self/card.json"]


def test_no_character_at_all_is_told(store) -> None:
    pieces = offered(store)

    assert [p.problem for p in pieces if p.problem] == ["there is no character in self/"]
    assert at(pieces, PromptSpan.main) == ["Write aria's reply to User."]


def test_greetings_are_the_first_message_and_its_alternatives(store) -> None:
    write(store, first_mes="Hi {{user}}.", card={"alternate_greetings": ["Ho.", 3, "", "Hey."]})
    greeting = provider(store).opening

    assert [greeting(request(), n) for n in (None, 1, 2, 3)] == [
        "Hi User.",
        "Hi User.",
        "Ho.",
        "Hey.",
    ]


@pytest.mark.parametrize("number", [0, 2, -1])
def test_a_greeting_that_does_not_exist_is_a_usage_error(store, number) -> None:
    write(store, first_mes="Hi.")

    with pytest.raises(UsageError, match="has 1"):
        provider(store).opening(request(), number)


def test_without_a_greeting_a_channel_opens_in_silence(store) -> None:
    assert provider(store).opening(request()) == ""


def test_each_piece_knows_the_lines_and_the_hash_of_its_file(store) -> None:
    write(
        store, description="One\ntwo\n", mes_example="<START>\n{{user}}: a\n\n<START>\n{{user}}: b"
    )
    store.write_file("self/scenario.md", "No heading\nhere\n")

    found = {piece.text: piece for piece in offered(store)}
    assert found["One\ntwo\n"].lines == (3, 4)
    assert found["No heading\nhere\n"].lines == (1, 2)
    assert (found["user: a"].lines, found["user: b"].lines) == ((4, 4), (7, 7))
    assert found["One\ntwo\n"].sha256 == store.sha256("self/description.md")


@pytest.mark.parametrize(
    ("rel_path", "reason"),
    [
        ("people/cli-anna.md", None),
        ("self/description.md", ""),
        ("self/scenario.md", "has no text below its heading"),
        ("self/first_mes.md", "it is the greeting"),
        ("self/personality.md", "not UTF-8"),
        ("self/card.json", "only its depth prompt"),
        ("self/diary.md", "in self/, only these are read: description.md"),
    ],
)
def test_it_says_why_a_file_of_the_character_is_not_in_a_prompt(store, rel_path, reason) -> None:
    write(store, description="D", scenario=" ", first_mes="Ahoy.", card={})
    (store.root / "self" / "personality.md").write_bytes(b"\xff")

    said = provider(store).why_not(Subject(rel_path), request())
    assert said == reason if not reason else reason in said


def test_it_knows_nothing_of_turns(store) -> None:
    assert provider(store).why_not(Subject(turn_id=1), request()) is None
