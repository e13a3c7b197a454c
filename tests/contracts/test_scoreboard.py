"""The scoreboard: the formats it reads, and the numbers it writes."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET

import pytest

from benchmarks import scoreboard, scoreboard_page
from benchmarks.datasets import read_dataset
from tests.contracts.test_benchmarks import SAMPLE

TALK = [
    {"role": "user", "content": "My cat is called Pluto."},
    {"role": "assistant", "content": "A fine name."},
]
HIKE = [{"role": "user", "content": "I climbed a mountain in Peru."}]


def put(tmp_path, data, name="data.json"):
    path = tmp_path / name
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_locomos_categories_have_names(tmp_path) -> None:
    name, (made,) = read_dataset(put(tmp_path, [SAMPLE]))
    assert name == "LoCoMo"
    assert [q.kind for q in made.questions] == ["single-hop", "multi-hop", "adversarial"]


def test_realtalk_has_sessions_at_the_top(tmp_path) -> None:
    data = {
        "session_1_date_time": "30.12.2023, 10:15:00",
        "session_1": [{"clean_text": "Hello.", "speaker": "Ada", "dia_id": "D1:1"}],
        "qa": [{"question": "Who said hello?", "evidence": ["D1:1"], "category": 1}],
    }
    name, (made,) = read_dataset(put(tmp_path, data))
    assert (name, made.questions[0].turns) == ("REALTALK", {(1, 1)})


def test_longmemeval_marks_turns_or_sessions(tmp_path) -> None:
    entry = {
        "question_id": "q1",
        "question_type": "multi-session",
        "question": "What is the cat called?",
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:21"],
        "haystack_session_ids": ["a", "b"],
        "haystack_sessions": [[TALK[0] | {"has_answer": True}, TALK[1]], HIKE],
        "answer_session_ids": ["a"],
    }
    bare = entry | {"haystack_sessions": [TALK, HIKE], "question_id": "q2_abs"}
    name, (marked, whole) = read_dataset(put(tmp_path, [entry, bare]))
    assert name == "LongMemEval"
    assert (marked.questions[0].turns, marked.questions[0].kind) == ({(1, 1)}, "multi-session")
    assert (whole.questions[0].turns, whole.questions[0].kind) == ({(1, 1), (1, 2)}, "abstention")
    assert [s.at.day for s in marked.sessions] == [20, 21]


@pytest.mark.parametrize("ids", [[7], {"first": [7], "second": [[7]]}, [[7]]])
def test_beams_source_ids_have_many_shapes(tmp_path, ids) -> None:
    turns = [one | {"id": number} for number, one in enumerate(TALK, 7)]
    asked = {"knowledge_update": [{"question": "Which cat?", "source_chat_ids": ids}]}
    for chat, probing in (([turns], repr(asked)), ([{"turns": [turns]}], asked)):
        entry = {"conversation_id": "1", "chat": chat, "probing_questions": probing}
        name, (made,) = read_dataset(put(tmp_path, [entry]))
        (question,) = made.questions
        assert (name, question.turns, question.kind) == ("BEAM", {(1, 1)}, "knowledge_update")


def test_personamem_counts_the_newest_turn_of_the_right_taste(tmp_path) -> None:
    said = [
        {"role": "system", "content": "persona"},
        {"role": "user", "content": "I love jazz."},
        {"role": "user", "content": "Now jazz bores me, I love fado."},
        {"role": "user", "content": "Fado again, later."},
    ]
    (tmp_path / "shared_contexts_32k.jsonl").write_text(json.dumps({"c": said}) + "\n")
    path = tmp_path / "questions_32k.csv"
    with path.open("w", newline="") as file:
        rows = csv.DictWriter(
            file,
            [
                "shared_context_id",
                "question_type",
                "user_question_or_message",
                "correct_answer",
                "all_options",
                "end_index_in_shared_context",
            ],
        )
        rows.writeheader()
        options = "['(a) some jazz', '(b) some fado']"
        values = ("c", "k", "Music?", "(b)", options, 3)
        rows.writerow(dict(zip(rows.fieldnames, values, strict=True)))
    name, (made,) = read_dataset(path)
    assert (name, made.questions[0].turns) == ("PersonaMem", {(1, 2)})


def test_a_file_of_another_form_is_refused_in_one_line(tmp_path) -> None:
    with pytest.raises(SystemExit, match="none of the known formats"):
        read_dataset(put(tmp_path, {"a": 1}))


def test_all_methods_are_measured_over_the_same_questions(tmp_path, monkeypatch) -> None:
    results = tmp_path / "results"
    results.mkdir()
    out = results / "result.json"
    args = [str(put(tmp_path, [SAMPLE])), "--model", "lexical", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["scoreboard", *args])
    scoreboard.main()
    made = json.loads(out.read_text())
    assert made.keys() >= {"commit", "date", "model", "machine", "peak_mb", "sets"}
    (found,) = made["sets"].values()
    assert list(found["methods"]) == ["grep", "bm25 turns", "bm25 pairs", "words"]
    for numbers in found["methods"].values():
        assert numbers["all"].keys() >= {"n", "r5", "r10", "mrr", "turns_r10", "evidence"}
        assert list(numbers["all"]["evidence"]) == ["500", "1000", "2000", "4000"]
        assert numbers["kinds"]["single-hop"]["n"] == 1
        assert numbers["kinds"]["single-hop"]["r5"] == 1.0
        assert numbers["kinds"]["single-hop"]["evidence"]["500"] == 1.0
    monkeypatch.setattr(scoreboard_page, "RESULTS", results)
    assert "familiar, words" in scoreboard_page.tables()
    assert "| evidence in 1,000 tokens | 1.000 |" in scoreboard_page.summary()
    assert ET.fromstring(scoreboard_page.chart()).tag.endswith("svg")


def test_a_plain_method_stops_where_its_tokens_are_used() -> None:
    texts = {(1, 1): "x" * 40, (1, 2): "y" * 4000, (1, 3): "z"}
    assert scoreboard.packed(texts, texts, 500) == [(1, 1)]


def test_the_chart_that_is_checked_in_is_of_the_newest_result() -> None:
    assert scoreboard_page.CHART.read_text("utf-8") == scoreboard_page.chart()
