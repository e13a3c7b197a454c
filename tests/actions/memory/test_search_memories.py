"""Searching for whoever asks through a program: several questions, and nothing private."""

from __future__ import annotations

import pytest

from familiar_cli.actions.memory.search import cited_turns, search_memories
from familiar_cli.base.errors import UsageError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import NOBODY
from familiar_cli.familiar import Familiar
from familiar_cli.store.memory.pages.visible_lines import visible_in
from tests.support.viewers import viewer_in
from tests.support.world import data, home, live

ANNA = """# Anna

- Anna keeps bees. <!-- turns 3-4 -->

## In private: DM:anna <!-- private dm%2D42 -->

- Anna hides the honey in the cellar. <!-- turns 9 -->
"""


@pytest.fixture
def ada():
    live(anna=ANNA, tea="# Tea\n\nAlice likes green tea.\n", cat="# Cat\n\nThe cat is Tom.\n")
    with Familiar.load_from_disk(home(), "ada") as familiar:
        yield familiar


def paths(found) -> list[str]:
    return [memory.rel_path for memory in found.hits]


def test_each_of_several_questions_finds_its_memory(ada) -> None:
    found = search_memories(ada, ["green tea", "what is the cat called?"], viewer=NOBODY)
    assert set(paths(found)) == {"tea.md", "cat.md"}
    assert found.method == "lexical"


def test_a_memory_has_the_best_of_its_scores(ada) -> None:
    alone = search_memories(ada, "green tea", viewer=NOBODY).hits[0].score
    assert search_memories(ada, ["tea", "green tea"], viewer=NOBODY).hits[0].score >= alone


def test_more_than_five_questions_are_refused(ada) -> None:
    with pytest.raises(UsageError, match="1 to 5"):
        search_memories(ada, [f"tea {n}" for n in range(6)], viewer=NOBODY)


def test_no_more_come_than_are_wanted_and_none_below_the_least_score(ada) -> None:
    assert len(search_memories(ada, ["green tea", "cat"], max_results=1, viewer=NOBODY).hits) == 1
    assert paths(search_memories(ada, "green tea", min_score=1.5, viewer=NOBODY)) == []


def test_what_was_said_in_private_is_neither_shown_nor_found(ada) -> None:
    for n in range(4):
        ada.history.append("lobby", "user", "Bees", author=Author("discord", str(n % 2)))
    stranger = ada.privacy.viewer_in("lobby", Author("discord", "5"))
    found = search_memories(ada, "Anna's bees", viewer=stranger)
    assert "bees" in found.hits[0].text
    assert "honey" not in found.hits[0].text
    assert cited_turns(ada, found.hits[0], stranger) == (3, 4)
    assert paths(search_memories(ada, "honey in the cellar", viewer=stranger)) == []


def test_the_private_channel_itself_may_be_searched(ada) -> None:
    found = search_memories(ada, "honey in the cellar", viewer=viewer_in("dm-42"))
    assert paths(found) == ["anna.md"]


def test_the_asking_instance_finds_its_own_memories_first() -> None:
    text = "# Day\n\n- Ada saw a heron.\n"
    root = live() / "memory" / "daily"
    root.mkdir()
    for instance in ("laptop", "phone"):
        (root / f"2026-01-31_{instance}.md").write_text(text)
    with Familiar.load_from_disk(home(), "ada") as ada:
        found = search_memories(ada, "heron", instance="phone", viewer=NOBODY)
    assert paths(found)[0] == "daily/2026-01-31_phone.md"
    assert found.hits[0].day == "2026-01-31"


def test_the_command_leaves_out_what_scores_less() -> None:
    live(tea="# Tea\n\nAlice likes green tea.\n")
    assert len(data("search", "green tea", "--min-score", "0.1")["hits"]) == 1
    assert data("search", "green tea", "--min-score", "1.5")["hits"] == []


def test_links_alone_do_not_show_others_a_page_made_from_private_talk(ada) -> None:
    path = "topics/cannery.md"
    turn = ada.history.append("cli", "user", "I will quit at the cannery.")
    body = f"- Robin will quit. <!-- turns {turn.id} -->\n\n## People\n\n- [Robin](../people/r.md)"
    ada.memory.write_file(path, f"# Quitting the cannery\n\n{body}\n")
    page = f"# Robin\n\n## Aliases\n\n- Robin\n\n{body.replace('people/r', 'topics/cannery')}\n"
    assert visible_in(page, ada.privacy.viewer_in("lobby"), "people/r.md").count("\n- ") == 1
    stranger = ada.privacy.viewer_in("lobby", Author("discord", "5"))
    assert visible_in(ada.memory.read_file(path), stranger, path) == ""
    assert paths(search_memories(ada, "quitting the cannery", viewer=stranger)) == []
    assert paths(search_memories(ada, "cannery", viewer=ada.privacy.owner())) == [path]
