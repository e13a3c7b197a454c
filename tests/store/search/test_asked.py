"""What a question asks for, in seven languages, and which turns answer it."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.languages import CODES, LATIN, questions
from familiar_cli.base.times.spans import Span, folded
from familiar_cli.base.who.identity import Author
from familiar_cli.store.history.recall import RecallHit
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.search.who_when import (
    asked_by,
    is_standing_wish,
    latest_scores,
    spread_scores,
    wish_words,
)
from tests.support.cases import each

TODAY = date(2024, 3, 14)
START = datetime(2024, 1, 1, 20, tzinfo=UTC)
ANNA = Author("test", "anna", display_name="Anna")


def turn(number: int, text: str, days: float) -> RecallHit:
    at = START + timedelta(days=days)
    return RecallHit(
        Turn(number, "den", ANNA, "user", text, at, "text", "test", partial=False), 0.5, None
    )


@each(
    ("query", "kind", "topic"),
    [
        ("In which order did I bring up my garden plans?", "order", "garden plans"),
        ("Walk me through my dance studio, please.", "order", "dance studio"),
        ("Give me a complete summary of how my bakery developed.", "summary", "bakery"),
        ("Summarize my life over the past months.", "summary", ""),
        ("In welcher Reihenfolge habe ich von meinem Garten erzählt?", "order", "garten"),
        ("Fasse mein Gartenprojekt zusammen.", "summary", "gartenprojekt"),
        ("Dans quel ordre ai-je parlé de mon jardin ?", "order", "jardin"),
        ("Résume mon projet", "summary", "projet"),
        ("¿En qué orden hablé de mi jardín?", "order", "jardin"),
        ("Resume mi proyecto", "summary", "proyecto"),
        ("旅行はどの順番？", "order", "旅行"),
        ("总结一下我的创业项目", "summary", "创业项目"),
        ("بأي ترتيب ذكرت الحديقة؟", "order", "الحديقه"),
    ],
)
def test_a_wide_question_has_a_kind_and_a_topic(query, kind, topic) -> None:
    asked = asked_by(query, TODAY)
    assert asked.is_wide
    assert asked.in_order
    assert kind in asked.kinds
    assert asked.topic == topic


@each(
    ("query", "kind"),
    [
        ("When did Anna last go swimming?", "latest"),
        ("What was the most recent film?", "latest"),
        ("How many times did Anna move?", "count"),
        ("Wann war Anna zuletzt schwimmen?", "latest"),
        ("Wie oft ist Anna umgezogen?", "count"),
        ("Combien de fois Anna a-t-elle déménagé ?", "count"),
        ("¿Cuántas veces se mudó Anna?", "count"),
        ("アンナは何回引っ越した？", "count"),
        ("安娜搬过几次家？", "count"),
        ("كم مرة انتقل عمر؟", "count"),
    ],
)
def test_what_is_asked_of_a_few_things_has_a_kind_and_is_not_wide(query, kind) -> None:
    asked = asked_by(query, TODAY)
    assert kind in asked.kinds
    assert asked.in_order
    assert not asked.is_wide


@each(
    "query",
    [
        *("What changed in Anna's life since spring?", "Was hat sich bei Anna seit Mai geändert?"),
        *("¿Qué ha cambiado desde la primavera?", "春から何が変わった？", "自春天以来有什么变化？"),
        *("Qu'est-ce qui a changé depuis le printemps ?", "ما الذي تغير منذ الربيع؟"),
    ],
)
def test_what_changed_since_a_time_is_a_wide_question_of_that_time(query) -> None:
    asked = asked_by(query, TODAY)
    assert asked.is_wide
    ((first, last),) = asked.between_ms(UTC)
    assert first < last
    assert last == int(datetime(2024, 3, 15, tzinfo=UTC).timestamp() * 1000)


@each(
    "text",
    [
        *("Always add examples when I ask about code.", "I prefer light libraries."),
        *("Please don't mention my ex.", "From now on, call me Captain.", "Never suggest seafood."),
        *("When I ask about money, mention the risks.", "Antworte mir bitte immer auf Deutsch."),
        *("Ich möchte lieber kurze Antworten.", "Réponds-moi toujours en français."),
        *("Je préfère les réponses courtes.", "Responde siempre en español.", "Prefiero el tren."),
        *(
            "いつも短く答えてください",
            "短い答えのほうがいい",
            "请以后用中文回答",
            "我更喜欢简短的回答",
        ),
        "أجبني دائما بالعربية",
    ],
)
def test_a_standing_wish_is_known_and_holds_a_word_by_which_it_is_found(text) -> None:
    assert is_standing_wish(text)
    spoken = folded(text).replace("'", " ")
    assert any(folded(words) in spoken for words in wish_words())
    assert len(wish_words()) > len(wish_words("en")) > 0


@each(
    "text",
    [
        *("I never eat breakfast.", "I always forget my keys.", "He prefers tea.", "", "Please!"),
        *("Do you prefer tea?", "Ich gehe immer spazieren.", "We went to the sea."),
    ],
)
def test_a_habit_is_no_standing_wish(text) -> None:
    assert not is_standing_wish(text)


@each(
    "query",
    [
        *("In which order did you suggest films?", "What did you recommend for my garden?"),
        *(
            "Was hast du mir empfohlen?",
            "Qu'est-ce que tu m'as conseillé ?",
            "¿Qué me recomendaste?",
        ),
        *("君が勧めてくれた本は？", "你推荐的书是什么？", "ماذا اقترحت؟"),
    ],
)
def test_what_the_familiar_said_is_not_asked_of_people(query) -> None:
    assert not asked_by(query, TODAY).of_people


@each(
    "query",
    [
        *("Can you tell me where I parked?", "Could you list my trips in order?", "Wo wohne ich?"),
        *("Où est-ce que j'habite ?", "¿Dónde vivo yo?", "私はどこに住んでる？", "我住在哪里？"),
    ],
)
def test_what_is_asked_of_who_speaks_is_asked_of_people(query) -> None:
    asked = asked_by(query, TODAY)
    assert asked.of_people
    assert asked.of_myself


@each(
    "query",
    [
        *("Where does Anna live?", "In order to sleep, I read.", "Write a story.", "", "?"),
        *("What changed your mind?", "Who is my doctor?", "Wo wohne ich?", "私はどこに住んでる？"),
    ],
)
def test_any_other_message_is_not_wide(query) -> None:
    asked = asked_by(query, TODAY)
    assert not asked.is_wide
    assert not asked.in_order


@each(
    "query",
    [
        *("What did we talk about in the first week of January?", "And in spring?"),
        *("What was going on in June 2022?", "Was war letzte Woche?", "先週は？"),
    ],
)
def test_what_was_in_a_time_is_a_wide_question(query) -> None:
    assert asked_by(query, TODAY).is_wide


@each(
    "query",
    [
        *("Where does Anna live?", "Do you remember my rabbit?", "What did I eat yesterday?"),
        *("Summarise what I told you of the old dinghy.", "What was going on in June 2022?"),
        *("In which order did I move, sing and row?", "Wo wohnt Anna?"),
    ],
)
def test_turns_answer_a_question_of_something_or_of_long_ago(query) -> None:
    assert asked_by(query, TODAY).is_for_turns


@each(
    "query",
    [
        *("I live in Bergen now.", "How have you been?", "What was going on last week?"),
        *("Summarise our conversations.", "Was war letzte Woche?", ""),
    ],
)
def test_digests_answer_what_asks_for_the_last_weeks_or_nothing_certain(query) -> None:
    assert not asked_by(query, TODAY).is_for_turns


def test_a_time_of_any_year_is_that_of_each_year_until_now() -> None:
    spans = asked_by("What did we do in the first week of January?", TODAY).between_ms(UTC)
    first, last = (datetime.fromtimestamp(ms / 1000, UTC).date() for ms in spans[-1])
    assert (first, last) == (date(2024, 1, 1), date(2024, 1, 8))
    assert len(spans) == 21
    asked = asked_by("What did I do on 3 June 2023?", TODAY)
    assert asked.times == (Span(date(2023, 6, 3), date(2023, 6, 3)),)


@given(st.text(max_size=200), st.dates())
def test_any_question_is_read(query, today) -> None:
    asked = asked_by(query, today)
    assert all(first <= last for first, last in asked.between_ms(UTC))


found = st.lists(
    st.tuples(st.text(st.sampled_from("tea lamp cat\n"), max_size=20), st.floats(0, 400)),
    max_size=12,
)


@given(found, st.data())
def test_each_turn_has_a_score(said, data) -> None:
    turns = [turn(n, text, days) for n, (text, days) in enumerate(said)]
    scores = data.draw(st.lists(st.floats(0, 1), min_size=len(said), max_size=len(said)))
    for scored in (spread_scores(turns, scores), latest_scores(turns, scores)):
        assert len(scored) == len(turns)
        assert all(-1 < score < 3 for score in scored)


def test_every_session_has_its_best_before_the_second_best_of_another() -> None:
    first = [turn(1, "The lamp broke.", 0), turn(2, "The lamp broke again.", 0.01)]
    then = [turn(3, "The lamp was mended.", 30)]
    one, two, other = spread_scores([*first, *then], [1.0, 0.9, 0.8])
    assert one > two
    assert other > two


def test_what_is_new_comes_before_what_was_said_before() -> None:
    said = ["I bake bread.", "I bake bread again.", "My oven broke.", "The oven broke, bread too."]
    scores = spread_scores([turn(n, text, 30 * n) for n, text in enumerate(said)], [0.0] * 4)
    assert scores[0] > scores[1]
    assert scores[2] > scores[3]


def test_the_order_of_words_in_memory_changes_no_score() -> None:
    made = (
        "from datetime import UTC, datetime\n"
        "from familiar_cli.store.search.who_when import _novelty\n"
        "said = [' '.join(f'w{n}' * (n % k == 0) for n in range(1, 200)) for k in (2, 3, 5, 7)]\n"
        "print(_novelty(said, [datetime(2024, 1, n, tzinfo=UTC) for n in range(1, 5)]))"
    )
    of_seeds = {
        subprocess.run(
            [sys.executable, "-c", made],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in range(3)
    }
    assert len(of_seeds) == 1


def test_of_what_fits_well_the_last_comes_first() -> None:
    turns = [turn(n, "We went swimming.", 10 * n) for n in range(3)]
    scores = latest_scores([*turns, turn(9, "Tea?", 40)], [1.0, 0.9, 0.95, 0.1])
    assert max(range(4), key=scores.__getitem__) == 2
    assert scores[3] == pytest.approx(0.1)


@each("code", sorted(set(CODES) - set(LATIN)))
def test_questions_in_another_script_are_asked_in_that_script(code) -> None:
    table = questions(code)
    listed = (getattr(table, name).split("|") for name in table.__struct_fields__)
    assert not any(words.isascii() for alternatives in listed for words in alternatives)
