"""One search of everything: people, pages, sentences, and what was said."""

from __future__ import annotations

import re
from html import unescape

import pytest

from familiar_cli.actions.memory.moments import FoundMoments, Moment
from familiar_cli.base.times.clock import now
from familiar_cli.base.who.identity import Author
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.search.types import SearchResult
from tests.support.browsing import looking
from tests.support.world import live

PAGES = "familiar_cli.servers.web.search_pages"
ANNA = Author("discord", "7", "anna", "Anna")


@pytest.fixture
def client():
    live("ada", **{"people/discord-1001": "# Jon\n\n- Jon is a plumber.\n"})
    with Familiar.load_from_disk() as familiar:
        history = familiar.history
        history.append("hall", "user", "I keep bees on the roof.", author=ANNA)
        history.append("hall", "user", "They sting.", author=Author("discord", "1001", None, None))
        history.append("hall", "assistant", "How *many* hives?")
        line = f"- Anna keeps bees on a roof. <!-- turns {familiar.instance.id}:1 -->\n"
        with familiar.memory.transaction("memory_writer", "1 turn") as tx:
            for path in ("people/discord-7.md", "topics/bees.md", "daily/2026-01-31.md"):
                tx.write(path, f"# {'Anna' if 'people' in path else 'Bees'}\n\n{line}")
    with looking() as found:
        yield found


def moments(answer) -> list[str]:
    """Return what a reader sees of each result."""
    found = answer.text.split('<li class="moment">')[1:]
    cut = (one.partition("<details>")[0] for one in found)
    return [" ".join(unescape(re.sub(r"<[^>]*>", " ", one)).split()) for one in cut]


def test_a_fact_of_three_pages_and_a_turn_is_one_result(client) -> None:
    found = moments(client.get("/search?q=bees on the roof"))
    assert sum("on a roof" in one or "on the roof" in one for one in found) == 1
    assert found[0].startswith("Anna keeps bees on a roof . Anna")
    assert "I keep bees on the roof" in found[0]


def test_lore_that_its_book_keeps_back_is_shown_and_marked(client) -> None:
    with Familiar.load_from_disk() as familiar:
        familiar.memory.write_file("lore/keep.md", "# Keep\n\n- **Disabled**\n\nThe keep fell.\n")
    found = moments(client.get("/search?q=the keep fell"))
    assert any("its book holds it back now: it is disabled" in one for one in found)


def test_the_words_are_marked(client) -> None:
    assert "<mark>bees</mark>" in client.get("/search?q=bees").text


def test_a_neighbour_that_was_found_itself_is_marked_as_well() -> None:
    made = [
        Turn(n, "hall", None, "user", "It does.", now(), "text", "cli", False) for n in range(3)
    ]
    moment = Moment(1.0, turn=made[0], around=tuple(made), also_found=frozenset({0, 1}))
    assert [moment.answers(one) for one in moment.around] == [True, True, False]


def test_what_was_said_without_a_fact_is_found_with_its_neighbours(client) -> None:
    found = moments(client.get("/search?q=hives"))
    assert "How many hives ?" in found[0]
    assert "They sting." in found[0]


def test_one_whose_messages_have_no_name_has_that_of_their_page(client) -> None:
    answer = client.get("/search?q=sting")
    assert "<b>Jon:</b>" in answer.text
    assert "1001:" not in answer.text


def test_people_and_pages_of_the_site_are_offered_by_name(client) -> None:
    assert '<a href="/people/discord-1001" dir="auto">Jon</a>' in client.get("/search?q=Jon").text
    assert '<a href="/desk">Go to Reminders</a>' in client.get("/search?q=remind").text


@pytest.mark.parametrize("path", ["/", "/chat", "/people", "/asof", "/search?q=x", "/settings"])
def test_each_page_has_the_search_in_its_header(client, path) -> None:
    header = client.get(path).text.partition('<header class="top">')[2].partition("</header>")[0]
    assert header.count('type="search"') == 1


def test_what_has_no_word_is_no_error_page(client) -> None:
    assert client.get("/search", params={"q": "?!"}).status_code == 200


def test_while_files_are_read_there_is_a_bar_and_no_empty_page(client, monkeypatch) -> None:
    behind = FoundMoments(memory=SearchResult("lexical", "zanzibar", unread=12))
    monkeypatch.setattr(f"{PAGES}.search_everything", lambda *_, **__: behind)
    monkeypatch.setattr(f"{PAGES}.finish_reading", lambda _: None)
    text = client.get("/search?q=zanzibar").text
    assert "<progress>" in text
    assert "Still reading 12 files" in text
    assert "Nothing has these words" not in text


@pytest.mark.parametrize("name", ["Bo Smith", "Bo_Smith", "friends/bo"])
def test_every_file_of_people_has_a_page(client, name) -> None:
    with Familiar.load_from_disk() as familiar:
        path = familiar.memory.root / f"people/{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text("# Bo\n", "utf-8")
    answer = client.get(f"/people/{name}", follow_redirects=True)
    assert (answer.status_code, "Bo" in answer.text) == (200, True)
