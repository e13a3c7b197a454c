"""Questions for one fact, for a list and for an inference are weighted differently."""

from __future__ import annotations

import pytest

from familiar_cli.store.search.weights import (
    INFERENCES,
    LINES,
    LISTS,
    WEIGHTS,
    kind_asked,
    weights_for,
)
from tests.support.embedders import TokenWordEmbedder


@pytest.mark.parametrize(
    "query",
    [
        "What events has Caroline been to?",
        "What books are on her shelf?",
        "Which of his hobbies are quiet?",
        "Where has Melanie camped?",
        "What do Jon and Gina both like?",
        "How many times did they meet?",
        "Hey, what instruments do you play?",
        "What kinds of tea do I like?",
    ],
)
def test_a_list_is_recognised(query) -> None:
    assert weights_for(query) == LISTS


@pytest.mark.parametrize(
    "query",
    [
        "Would Ada enjoy a concert?",
        "What might Bo say about it?",
        "Is she likely to move?",
        "What personality does he have?",
    ],
)
def test_an_inference_is_recognised(query) -> None:
    assert weights_for(query) == INFERENCES


@pytest.mark.parametrize(
    "query",
    [
        "When did Caroline go to the museum?",
        "What does his brother do?",
        "What is the dog called?",
        "I would have liked some tea, we both would.",
        "tea and both cups",
        "",
        "Was trinkt Anna gern?",
    ],
)
def test_anything_else_asks_for_a_fact(query) -> None:
    assert weights_for(query) == WEIGHTS


def test_single_lines_that_ask_count_a_little_less_for_any_question() -> None:
    assert weights_for("When did she go?", lines=True) == LINES
    assert weights_for("What has she made?", lines=True) == LISTS
    assert (LINES.asking, WEIGHTS.asking) == (0.05, 0.0)


@pytest.mark.parametrize(
    ("query", "word", "thing"),
    [
        ("What activities does Ada like?", "activities", "camping"),
        ("Which countries or towns has she seen?", "towns", "London"),
        ("What card games have they played?", "games", "chess"),
        ("What kinds of music do I like?", "music", "jazz"),
        ("Hey, how many pets have you had?", "pets", "dog"),
        ("What LGBTQ+ events has she been to?", "events", "parade"),
        ("What personality traits might she have?", "traits", "patient"),
        ("How does he like to unwind?", "unwind", "yoga"),
        ("What does she do for a living?", "living", "nurse"),
    ],
)
def test_the_kind_of_thing_that_a_list_is_of_is_known_with_things_of_it(query, word, thing) -> None:
    found = kind_asked(query)
    assert found is not None
    assert found.word == word
    assert thing in found.things.split(", ")


@pytest.mark.parametrize(
    "query",
    [
        "When did she buy the car?",
        "What has Ada painted?",  # it names no kind
        "What did she say of her pets?",
        "What pleases her about the games?",
        "Her hobbies, which she has had for years, are quiet.",
        "Was haben sie für Hobbys?",
    ],
)
def test_other_questions_ask_for_no_kind(query) -> None:
    assert kind_asked(query) is None


def test_a_list_of_a_kind_finds_what_is_of_that_kind(world) -> None:
    world.put("a.md", talk("The bread was stale."))
    world.put("b.md", talk("We went camping."))
    world.put("c.md", talk("The letter came."))
    embedder = TokenWordEmbedder()
    world.index.build_if_stale(embedder)
    found = world.ask("What activities has Ada done?", embedder)
    assert found.hits[0].rel_path == "b.md"
    assert found.hits[0].score > found.hits[1].score


def test_for_a_list_a_line_about_two_such_things_comes_before_a_line_about_one(world) -> None:
    world.put("a.md", talk("We went camping, letters came."))
    world.put("b.md", talk("We went camping, then hiking."))
    embedder = TokenWordEmbedder()
    world.index.build_if_stale(embedder)
    question = "What activities has Ada done?"
    (first, a), (_, b) = ((h.rel_path, h.score) for h in world.ask(question, embedder).hits)
    assert (first, a > b) == ("b.md", True)
    lines = [h.score for h in world.ask(question, embedder, lines=True).hits]
    assert lines[0] == pytest.approx(lines[1], abs=0.02)


def talk(*turns: str) -> str:
    return "# Talk\n" + "".join(f"\n**Ada:** {turn}\n" for turn in turns)


def test_for_a_list_a_line_that_only_asks_comes_later(world) -> None:
    world.put("a.md", talk("Paintings of boats, made by Ada?"))
    world.put("b.md", talk("Paintings of boats, made by Ada."))
    found = {h.rel_path: h.score for h in world.ask("What boats has Ada made?", lines=True).hits}
    assert found["b.md"] - found["a.md"] == pytest.approx(0.8 * LISTS.asking, abs=0.01)


def test_for_a_list_two_lines_of_a_file_count_more_than_one(world) -> None:
    world.put("a.md", talk("My paintings hang there.", "Bread."))
    world.put("b.md", talk("My paintings hang there.", "My paintings hang there."))
    scores = {h.rel_path: h.score for h in world.ask("What paintings has Ada made?").hits}
    assert scores["b.md"] > scores["a.md"]


def test_lines_keep_their_own_score(world) -> None:
    world.put("b.md", talk("My paintings hang there.", "My paintings, again."))
    embedder = TokenWordEmbedder()
    world.index.build_if_stale(embedder)
    found = world.ask("What paintings has Ada made?", embedder, lines=True)
    assert all(hit.score <= 0.8 * hit.signals.relevance + 0.2 for hit in found.hits)
