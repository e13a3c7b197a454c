"""What somebody is called in private alone stands in no title, no alias and no list."""

from __future__ import annotations

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import NOBODY, OWNER
from familiar_cli.store.memory.pages.visible_lines import visible_in
from tests.support.viewers import viewer_in
from tests.writing.writer.support import World, op, reply

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
    assert labels == ["4", "Sparrow"]
    assert [s.author.label for s in private.history.speakers(OWNER)] == [
        "Veiled",
        "Robert Realname",
    ]


def test_a_title_that_is_private_names_nobody(private) -> None:
    from familiar_cli.store.memory.aliases import names_of

    assert names_of("# Robert <!-- private dm -->\n\n- hi\n") == ()
