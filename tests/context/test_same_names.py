"""Two people of one name, and one who is called like the familiar, are told apart."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from familiar_cli.base.who.identity import Author, Labels, Me
from familiar_cli.store.history import HistoryStore
from tests.support.cases import each
from tests.support.server import ChatServer
from tests.support.world import data, live, run
from tests.writing.writer.support import World, op, reply

ALEX = Author("discord", "42", "alex", "Alex")
OTHER = Author("twitch", "7", "lex", "ＡＬＥＸ")


def label(author: Author, *people: Author, familiar: str = "Aria") -> str:
    return Labels(frozenset({author, *people}), familiar).of(author)


def test_one_alone_goes_by_the_name() -> None:
    assert label(ALEX, Author("discord", "7", None, "Bo")) == "Alex"


def test_who_shares_a_name_goes_by_name_and_account() -> None:
    assert label(ALEX, OTHER) == "Alex (discord 42)"


def test_one_person_with_two_names_shares_with_nobody() -> None:
    assert label(ALEX, Author("discord", "42", None, "Lex")) == "Alex"


@each("familiar", ["Aria", "Bo"])
@each(
    "name",
    [
        *("Aria", "ARIA", "A\u200bria", "Ａria", "Aria\u200d", "*Aria*", "Aria (you)", "A r i a"),
        *("Аriа", "Arіa", "Αrιa", "Ꭺria", "Aria 🌸", "Ar1a", "Arla"),
    ],
)
def test_nobody_goes_by_a_name_like_the_familiars_or_an_owners_alone(name, familiar) -> None:
    labels = Labels(familiar=familiar, me=Me(name="Aria"))
    assert labels.of(Author("discord", "3", None, name)).endswith(" (discord 3)")


def test_a_title_that_names_the_account_is_ambiguous_no_more() -> None:
    labels = Labels(familiar="Aria")
    assert labels.distinct("Aria", "discord-3") == "Aria (discord 3)"
    assert labels.distinct("Aria (discord 3)", "discord-3") == "Aria (discord 3)"


@each("name", ["Aria", "Ariadne", "Мария", "Lise-Marie", "愛", "Bo (she/her)"])
def test_other_names_and_an_owners_own_stay_as_they_are(name) -> None:
    labels = Labels(familiar="Ada", me=Me(name="Aria"))
    assert labels.of(Author("cli", "user", None, name)) == name
    assert name == "Aria" or labels.of(Author("discord", "3", None, name)) == name


def test_a_name_cannot_pose_as_somebody_elses_account() -> None:
    assert label(Author("discord", "3", None, "Alex (discord 42)"), ALEX, OTHER) == (
        "Alex (discord 42) (discord 3)"
    )


@pytest.fixture
def root():
    root = live("ada")
    (root / "character.toml").write_text('name = "Aria"\n', encoding="utf-8")
    (root / "channels").mkdir()
    (root / "channels" / "cli.toml").write_text('kind = "text"\n', encoding="utf-8")
    people = root / "memory" / "people"
    people.mkdir()
    for slug, fact in (("discord-42", "Bakes."), ("twitch-7", "Sails.")):
        (people / f"{slug}.md").write_text(f"# Alex\n\n{fact}\n", encoding="utf-8")
    with closing(HistoryStore(root / "history.db")) as history:
        for n in range(30):
            history.append("cli", "user", f"turn {n}", author=OTHER if n == 0 else ALEX)
    return root


def prompt(*argv: str) -> str:
    return json.dumps(data("ask", *argv, "--dry-run")["messages"], ensure_ascii=False)


def test_files_and_turns_are_told_apart_as_long_as_both_are_known_here(root) -> None:
    run("config", "set", "history.recent_turns", "4")
    sent = prompt("Hello Alex", "--as", "discord:42", "--name", "Alex")
    assert "# Alex (discord 42)\\n\\nBakes." in sent
    assert "# Alex (twitch 7)\\n\\nSails." in sent


def test_the_familiars_name_as_a_users_is_told_apart(root) -> None:
    (root / "character.toml").write_text(
        'name = "Aria"\nsystem_prompt = "You are {{char}} and talk to {{user}}."\n', "utf-8"
    )
    sent = prompt("Hello", "--as", "discord:9", "--name", "aria")
    assert "You are Aria and talk to aria (discord 9)." in sent
    assert "aria (discord 9): Hello" in sent


def test_memory_says_which_of_two_said_so(tmp_path) -> None:
    world = World(tmp_path)
    world.say("I sail.", OTHER)
    world.say("I bake.", ALEX)
    world.write(reply(op(file="topics/bread.md", lines=["Somebody bakes."], turns=[2])))
    assert "Alex (discord 42): I bake." in world.prompt
    assert "Somebody bakes. (Alex (discord 42))" in world.read("topics/bread.md")
    world.history.close()


def test_the_file_of_the_familiars_namesake_says_so_and_has_no_such_alias(tmp_path) -> None:
    world = World(tmp_path)
    world.say("I bake.", Author("discord", "5", "baker", "Aria"))
    world.write(reply(op(file="people/discord-5.md", lines=["Bakes."])))
    text = world.read("people/discord-5.md")
    assert text.startswith("# Aria (discord 5)\n")
    assert ("- baker\n" in text, "- Aria\n" in text) == (True, False)
    world.history.close()


def test_a_summary_tells_them_apart(root, serve) -> None:
    run("config", "set", "history.recent_turns", "4")
    server: ChatServer = serve("Hello.", "They counted.")
    run("ask", "Hi", "--as", "discord:42", "--name", "Alex")
    told = server.requests[1].json()["messages"][1]["content"]
    assert "ALEX (twitch 7): turn 0" in told or "ＡＬＥＸ (twitch 7): turn 0" in told
    assert "Alex (discord 42): turn 1" in told


def test_who_says_no_name_is_called_as_before() -> None:
    named, nameless = Author("discord", "5", display_name="Dora"), Author("discord", "5")
    labels = Labels(frozenset({named, nameless, Author("discord", "6")}), "ada")
    assert (labels.of(nameless), labels.of(Author("discord", "6"))) == ("Dora", "6")
