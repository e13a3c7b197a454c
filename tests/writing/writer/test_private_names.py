"""What somebody is called in private alone stands in no title, no alias and no list."""

from __future__ import annotations

import asyncio

import pytest

from familiar_cli.base.who.identity import Author, Me
from familiar_cli.base.who.visibility import NOBODY, OWNER, OWNERS, PrivacyRules, person_scope
from familiar_cli.store.memory.aliases import names_of
from familiar_cli.store.memory.pages.visible_lines import visible_in
from tests.support.viewers import viewer_in
from tests.writing.writer.support import ANNA, ANNAS, World, op, rails, reply

ROB = Author("discord", "3", "rob", "Robert Realname")
ROBS = "people/discord-3.md"


@pytest.fixture
def private(tmp_path):
    world = World(tmp_path, private=["dm"])
    yield world
    world.history.close()


def learn(world: World) -> str:
    world.write(
        reply(op(file=ROBS, lines=["Robert keeps bees."], turns=[world.history.newest_id()]))
    )
    return world.read(ROBS)


def test_a_file_begun_in_private_is_titled_by_the_id(private) -> None:
    private.say(author=ROB, channel="dm")
    text = learn(private)
    assert visible_in(text, NOBODY) == "# discord 3\n\n"
    assert "Robert keeps bees." in visible_in(text, viewer_in("dm"))


def test_a_name_that_is_public_too_may_stand_there(private) -> None:
    private.say(author=Author("discord", "3", None, "Sparrow"))
    private.write(reply())
    private.say(author=ROB, channel="dm")
    text = learn(private)
    assert text.startswith("# Sparrow\n\n## Aliases\n\n- Sparrow\n")
    assert "Realname" not in visible_in(text, NOBODY)


def test_a_private_turn_adds_no_name_to_a_file(private) -> None:
    private.store.write_file(ROBS, "# Sparrow\n")
    private.say(author=ROB, channel="dm")
    assert "Realname" not in visible_in(learn(private), NOBODY)


def test_the_first_public_name_takes_the_place_of_the_id(private) -> None:
    private.say(author=ROB, channel="dm")
    learn(private)
    private.say(author=Author("discord", "3", None, "Sparrow"))
    text = learn(private)
    assert text.startswith("# Sparrow\n")
    assert "- Sparrow\n" in text


def test_speakers_are_called_as_they_are_in_public(private) -> None:
    private.say(author=Author("discord", "3", None, "Sparrow"))
    private.say(author=ROB, channel="dm")
    private.say(author=Author("discord", "4", None, "Veiled"), channel="dm")
    labels = [speaker.author.label for speaker in private.history.speakers(viewer_in(None, ["dm"]))]
    assert labels == ["Sparrow", "4"]
    assert [s.author.label for s in private.history.speakers(OWNER)] == [
        "Veiled",
        "Robert Realname",
    ]


def test_a_title_that_is_private_names_nobody(private) -> None:
    assert names_of("# Robert <!-- private dm -->\n\n- hi\n") == ()


OWNERS_PAGE = "people/cli-user.md"


class OwnersWorld(World):
    """A world whose owner, Nim, speaks alone in the channel `cli`."""

    def writer(self, *replies, **settings):
        writer = super().writer(*replies, **settings)
        writer.me = Me(name="Nim")
        writer.rules = lambda: PrivacyRules(public=frozenset({"town"}), one_to_one={"cli": OWNERS})
        return writer

    def call(self, name: str, channel: str = "cli"):
        """Let the owner speak under a name, and write it down; return the report and the page."""
        said = self.say(
            f"{name} dreams of boats.", author=Author("cli", "user", None, name), channel=channel
        )
        lines = op(file=OWNERS_PAGE, lines=["Dreams of boats."], turns=[said.id])
        alias = op("add_aliases", file=OWNERS_PAGE, lines=["Dreams"], turns=[said.id])
        return self.write(reply(lines, alias)), self.read(OWNERS_PAGE)


@pytest.fixture
def alone(tmp_path):
    world = OwnersWorld(tmp_path)
    yield world
    world.history.close()


@pytest.mark.parametrize("before", [None, "# Nim\n", "# cli user\n"])
def test_an_owners_page_lists_no_name_used_in_private(alone, before) -> None:
    if before:
        alone.store.write_file(OWNERS_PAGE, before)
    report, text = alone.call("Sir Secret")
    assert text.startswith("# Nim\n")
    assert names_of(text) == ("Nim",)
    assert rails(report) == ["private"]  # nor does the model add one


def test_a_section_of_a_person_has_their_name_and_not_that_of_one_channel(world) -> None:
    said = world.say("I am ill.", ANNA, channel="dm")
    world.say("Nice weather.", ANNA, channel="garden")
    scope = person_scope(ANNA.slug)
    writer = world.writer(reply(op(lines=["Anna is ill."], turns=[said.id])))
    writer.rules = lambda: PrivacyRules(one_to_one={"dm": scope, "garden": scope})
    asyncio.run(writer.run())
    heading = world.read(ANNAS).split("- Anna is ill.")[0].splitlines()[-2]
    assert heading == "## In private: Anna <!-- private @discord%2D42 -->"


def test_an_owners_page_is_titled_by_the_name_of_the_home(alone) -> None:
    alone.call("Sir Secret")
    _, text = alone.call("Captain", channel="town")
    assert names_of(text) == ("Nim", "Dreams", "Captain")


def test_a_name_used_before_others_came_to_a_channel_is_not_public(alone) -> None:
    alone.say(author=Author("cli", "user", None, "Sir Secret"))
    alone.say(author=ROB)
    labels = {s.author.slug: s.author.label for s in alone.history.speakers(NOBODY)}
    assert labels == {"cli-user": "user", "discord-3": "3"}
