"""A plan is read as sentences, reworded where it is wrong, and applied."""

from __future__ import annotations

import re
from html import unescape

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.familiar import Familiar
from familiar_cli.writing.pending import PlannedFile, ReviewPlan, stage_plan
from tests.support.browsing import looking
from tests.support.world import live

PLAN = "20260131T120000-a1b2c3"


@pytest.fixture
def client():
    live("ada", **{"topics/tea": "# Tea\n\n- Anna drinks milk.\n"})
    with Familiar.load_from_disk() as familiar:
        for text in ("I drink green tea.", "And the weather?", "No coffee for me."):
            familiar.history.append("cli", "user", text, author=Author("cli", "anna", None, "Anna"))
        cited = [f"<!-- turns {familiar.instance.id}:{number} -->" for number in (1, 3)]
        before = familiar.memory.read_file("topics/tea.md")
        after = f"# Tea\n\n- Anna drinks black tea. {cited[0]}\n- Anna hates coffee. {cited[1]}\n"
        file = PlannedFile("topics/tea.md", before, after)
        at = "2026-01-31T12:00:00Z"
        made = ReviewPlan(PLAN, PLAN, at, "review", "scripted-1", (1, 3), (file,))
        with familiar.memory.transaction("human", "a plan") as tx:
            stage_plan(tx, familiar.memory, made)
    with looking() as found:
        yield found


def words(answer) -> str:
    body = answer.text.partition("<main")[2].partition("</main>")[0]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def memory() -> str:
    with Familiar.load_from_disk() as familiar:
        return familiar.memory.read_file("topics/tea.md")


def test_a_piece_is_sentences_without_marks(client) -> None:
    page = client.get(f"/review/{PLAN}")
    assert "<del>Anna drinks milk.</del>" in page.text
    assert "Anna drinks black tea.</textarea>" in page.text
    assert not re.search(r"^[+-]", page.text, re.MULTILINE)
    assert "<!-- turns" not in unescape(page.text)
    assert words(page).count("Tea") == 1


def test_only_the_turns_it_rests_on_stand_beside_it(client) -> None:
    page = words(client.get(f"/review/{PLAN}"))
    assert "I drink green tea." in page
    assert "No coffee for me." in page
    assert "weather" not in page


def test_a_reworded_piece_is_applied_with_its_evidence(client) -> None:
    form = {
        "piece-1": "take",
        "words-1-1": "Anna drinks green tea.",
        "words-1-2": "Anna hates coffee.",
    }
    assert client.post(f"/review/{PLAN}", data=form).status_code == 303
    assert re.search(r"- Anna drinks green tea\. <!-- turns \S+:1 -->\n- Anna hates", memory())
    assert "black" not in memory()


def test_new_words_of_a_piece_that_waits_change_nothing(client) -> None:
    client.post(f"/review/{PLAN}", data={"piece-1": "reject", "words-1-1": "Anna drinks beer."})
    assert memory() == "# Tea\n\n- Anna drinks milk.\n"


def test_markdown_in_new_words_stays_one_line(client) -> None:
    form = {"piece-1": "take", "words-1-1": "Anna drinks tea.\r\n# Not a heading"}
    client.post(f"/review/{PLAN}", data=form)
    assert "- Anna drinks tea. # Not a heading <!-- turns" in memory()


def test_words_that_leave_nothing_to_change_are_refused(client) -> None:
    with Familiar.load_from_disk() as familiar:
        before = "# Tea\n\n- Anna drinks milk.\n"
        file = PlannedFile("topics/tea.md", before, before.replace("milk", "tea"))
        at = "2026-01-31T12:00:00Z"
        made = ReviewPlan("a-1", "a-1", at, "review", "m", (0, 0), (file,))
        with familiar.memory.transaction("human", "a plan") as tx:
            stage_plan(tx, familiar.memory, made)
    form = {"piece-1": "take", "words-1-1": "Anna drinks milk."}
    answer = client.post("/review/a-1", data=form)
    assert (answer.status_code, "no longer changes anything" in answer.text) == (400, True)
    assert "drinks milk" in memory()
