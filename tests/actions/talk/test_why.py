"""Why a reply is as it is: the sentence names days, speakers and pages, never files or scores."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from familiar_cli.actions.talk.why import _Topics, explain_reply
from familiar_cli.base.who.identity import Author
from familiar_cli.context.types import Layer, Report
from familiar_cli.familiar import Familiar
from familiar_cli.pages.context_page import reply_page
from familiar_cli.store.history.store import HistoryStore
from tests.support.traces import piece, trace
from tests.support.world import data, home, live, run

ME, BO = Author("cli", "robin"), Author("discord", "7", display_name="Bo")


@pytest.fixture
def familiar():
    root = live("ada", notes="# Notes\n")
    for path, text in {
        "topics/painting.md": "# Painting\n\n- Robin is fond of painting doors.\n",
        "people/discord-7.md": "# Bo\n\n- Bo sails.\n",
        "people/cli-robin.md": "# Robin\n\n- Robin paints.\n",
        "lore/harbour.md": "# The Nine Bells\n\nA harbour.\n",
    }.items():
        file = root / "memory" / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    store = HistoryStore(root / "history.db")
    day = datetime(2021, 8, 25, 12, tzinfo=UTC)
    store.append("harbour", "user", "The boat is blue now.\nAnd wet.", author=ME, at=day)
    store.append("harbour", "assistant", "What a boat!", at=day)
    store.append("harbour", "user", "Bells rang all night", author=BO, at=day)
    store.append("cli", "user", "Is the boat dry?", author=ME)
    store.close()
    with Familiar.load_from_disk(home(), "ada") as opened:
        yield opened


def memory(path, text="", **more):
    return piece("content_search.rag", layer=Layer.content, rel_path=path, text=text, **more)


def window(text, first, last, score=0.8):
    shown = f"[Said: 25 August 2021, #harbour]\n{text}"
    turns = {"turns": (first, last), "origin": "#harbour, 2021-08-25", "score": score}
    return piece("recall.turns", layer=Layer.content, text=shown, **turns)


def explained(familiar, *pieces, question="Is the boat dry?", **more):
    asked = piece("utterance", layer=Layer.recent_history, text=question)
    return explain_reply(familiar, trace(4, contributions=(*pieces, asked), **more))


def test_a_sentence_names_what_was_said_when_and_about_what(familiar) -> None:
    said = window("robin: The boat is blue now.\n  And wet.", 1, 3)
    page = memory("topics/painting.md", "[From memory: Painting]\n- fond of painting", score=0.9)
    found = explained(familiar, page, said)
    assert found.sentence == (
        "I used what you said on 25 August 2021 about the boat, and the page on painting."
    )
    assert [one.label for one in found.memories] == ["the boat, 25 August 2021", "painting"]
    assert found.memories[0].text.startswith("robin: The boat")


@pytest.mark.parametrize(
    ("line", "turn", "phrase"),
    [
        ("Ada: What a boat!", 2, "what I said on 25 August 2021 about the boat"),
        ("Bo: Bells rang all night", 3, "what Bo said on 25 August 2021 (“Bells rang all night”)"),
        ("words that are gone", 3, "what was said on 25 August 2021 (“words that are gone”)"),
    ],
)
def test_a_window_names_who_said_it(familiar, line, turn, phrase) -> None:
    assert explained(familiar, window(line, turn, turn)).memories[0].phrase == phrase


@pytest.mark.parametrize(
    ("path", "phrase"),
    [
        ("people/discord-7.md", "what I know about Bo"),
        ("people/cli-robin.md", "what I know about you"),
        ("lore/harbour.md", "the lore on the Nine Bells"),
        ("reminders.md", "a reminder that is due"),
        ("digest/mid.md", "my summary of the last weeks"),
        ("topics/gone-since.md", "the page on gone-since"),
    ],
)
def test_a_file_is_called_what_a_person_calls_it(familiar, path, phrase) -> None:
    assert explained(familiar, memory(path)).memories[0].phrase == phrase


def test_a_name_keeps_its_capital_however_it_was_typed(familiar) -> None:
    page = memory("people/discord-7.md", "Bo and bo")
    assert explained(familiar, page, question="Who is bo?").memories[0].label == "Bo"


def test_what_is_left_out_is_not_used_and_parts_of_a_file_are_one(familiar) -> None:
    parts = [memory("topics/painting.md", "one"), memory("topics/painting.md", "two")]
    found = explained(familiar, *parts, memory("lore/harbour.md", kept=False))
    assert [one.text for one in found.memories] == ["one\ntwo"]


def test_many_are_counted_and_none_is_said(familiar) -> None:
    many = [memory(f"topics/{letter}.md") for letter in "abcdef"]
    assert explained(familiar, *many).sentence.endswith("the page on c, and 3 more.")
    late = (Report("content_search", "late", 2000.0, "it took more than 2 s"),)
    nothing = explained(familiar, providers=late)
    assert nothing.sentence.startswith("I used nothing from memory")
    assert nothing.problems == ("content_search was late: it took more than 2 s",)


@pytest.mark.parametrize(
    ("question", "text", "topic"),
    [
        ("Tell me, is it still there?", "Tell Sam that it is still there.", ""),
        ("Hi! Tell me about Emily.", "I saw Emily at the door.", "Emily"),
        ("emily is still well?", "Emily is still well.", ""),
        ("How is my dog?", "The dog is asleep.", "your dog"),
        ("Do you like painting?", "He is fond of painting.", "painting"),
        ("Does the red boat leak?", "The red boat leaks.", "the red boat"),
        ("Is that still true?", "That is still true.", ""),
        ("I'm sure I'll go.", "I'm sure, I'll go.", ""),
    ],
)
def test_a_topic_is_a_name_or_a_noun_or_none(question, text, topic) -> None:
    assert _Topics(question, [text]).topic_in(text) == topic


def test_of_two_nouns_the_rarer_one_is_the_topic() -> None:
    texts = ["The harbour and the lantern.", "The harbour.", "A harbour."]
    topics = _Topics("Was the lantern in the harbour?", texts)
    assert topics.topic_in(texts[0]) == "the lantern"


BOATS = """\
# Boats

## The red boat

- Bo bought it in May.
  - It is called Ladybird.

## Plans

- Sail in June.
- Paint the hull blue.
"""


def test_an_excerpt_is_the_best_line_below_its_own_heading(familiar) -> None:
    file = home() / "ada" / "memory" / "topics" / "boats.md"
    file.write_text(BOATS, "utf-8")
    asked = "Which colour gets the hull?"
    whole = memory("topics/boats.md", BOATS)
    [found] = explained(familiar, whole, question=asked).memories
    assert found.excerpt == "## Plans\n- Paint the hull blue."
    run_together = memory("topics/boats.md", "Bo bought it in May. It is called Ladybird.")
    [found] = explained(familiar, run_together, question=asked).memories
    assert found.excerpt == "- Bo bought it in May.\n  - It is called Ladybird."


def shown_at(width, page) -> str:
    buffer = io.StringIO()
    Console(file=buffer, width=width).print(page)
    return buffer.getvalue()


def test_a_page_is_at_most_25_lines_of_80_columns_and_counts_the_rest(familiar) -> None:
    long = "\n".join(f"- {'word ' * 40}{n}" for n in range(9))
    many = [memory(f"topics/{letter}.md", long) for letter in "abcdefghij"]
    found = explained(familiar, *many)
    shown = shown_at(80, reply_page(found)).splitlines()
    assert len(shown) <= 25
    assert max(map(len, shown)) <= 80
    assert any("more memories: `familiar why --all`" in line for line in shown)
    assert long.splitlines()[-1] in shown_at(400, reply_page(found, whole=True))


def test_where_the_model_failed_it_is_said_that_there_is_no_reply(tmp_path) -> None:
    root = live("ada", tea="# Tea\n\nRobin drinks green tea.\n")
    (root / "character.toml").write_text(
        '[llm]\npreset = "custom"\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\nretries = 0\n'
    )
    assert run("ask", "Which tea?").exit_code == 6
    assert data("why")["sentence"].startswith("There is no complete reply: ")
