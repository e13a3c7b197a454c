"""Which lines of an imported chat are mine."""

from __future__ import annotations

import pytest

from familiar_cli.identity import NEUTRAL, Author
from familiar_cli.imports.foreign_chat import Cast
from tests.support.cases import each
from tests.support.chats import HEAD, robin, save, yuzu
from tests.support.world import data, live, run

ANNA = Author("cli", "user", display_name="Anna")
ROBIN = Author("sillytavern", "Robin", display_name="Robin")


def authors(channel: str) -> list[tuple[str, str, str]]:
    turns = data("history", "show", "--channel", channel)["turns"]
    found = [turn["author"] for turn in turns if turn["author"]]
    return [(a["platform"], a["user_id"], a["display_name"]) for a in found]


@pytest.fixture
def ada():
    root = live("ada")
    (root / "character.toml").write_text('name = "Yuzu"\n', encoding="utf-8")
    return root


def bring(tmp_path, *lines, options=()):
    save(tmp_path / "c.jsonl", *lines)
    return run("import-chat", str(tmp_path / "c.jsonl"), *options)


def test_the_user_of_a_chat_is_me_under_the_name_of_the_chat(ada, tmp_path) -> None:
    run("me", "--name", "Anna")
    bring(tmp_path, HEAD, yuzu("Hi"), robin("Hello"), robin("I am a knight.", name="Galahad"))

    assert authors("c") == [("cli", "user", "Robin"), ("cli", "user", "Galahad")]


def test_of_several_people_i_am_who_i_say(ada, tmp_path) -> None:
    lines = [HEAD, robin("Hello"), robin("I am Bo.", name="Bo")]
    refused = bring(tmp_path, *lines, options=["--me", "Eve"])
    bring(tmp_path, *lines, options=["--me", "robin"])

    assert (refused.exit_code, "'Bo', 'Robin'" in refused.stderr) == (5, True)
    assert authors("c") == [("cli", "user", "Robin"), ("sillytavern", "Bo", "Bo")]


def test_who_was_imported_before_goes_on_under_that_account() -> None:
    cast = Cast(me=NEUTRAL, before=frozenset({ROBIN.slug}))

    assert cast.person("Robin", ROBIN) == ROBIN
    assert Cast(me=NEUTRAL).person("Robin", ROBIN).user_id == "user"
    assert Cast(user=Author("discord", "7"), before=cast.before).person("", ROBIN).user_id == "7"


def test_of_plain_lines_with_several_names_mine_are_those_with_my_name(ada, tmp_path) -> None:
    run("me", "--name", "Anna")
    said = [("Anna", "a"), ("Bo", "b"), ("", "c")]
    lines = [{"role": "user", "name": name, "content": text} for name, text in said]
    assert bring(tmp_path, *lines).exit_code == 0

    assert authors("c") == [
        ("cli", "user", "Anna"),
        ("chat", "Bo", "Bo"),
        ("cli", "user", "Anna"),
    ]


@each("cast", [Cast(), Cast(me=ANNA), Cast(me=ANNA, mine=("Robin",))])
@each("name", ["", "Robin", "Bo"])
def test_somebody_always_said_it(cast, name) -> None:
    found = cast.person(name, ROBIN, is_one_of_many=True)
    assert found in {ROBIN, Author("cli", "user", display_name=name or "Anna")}
