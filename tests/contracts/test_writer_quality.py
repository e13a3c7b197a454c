"""The benchmark of written memory: a scripted model, and what it keeps of the answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import writer_quality
from benchmarks.writer_quality import Line, Lines, spelled
from tests.support.cases import each
from tests.support.server import ChatServer, Fail, Say
from tests.support.writing import environment

SAMPLE = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "My cat is called Pluto."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "I climbed a mountain yesterday."},
        ],
    },
    "qa": [
        {"question": "Whose cat?", "answer": "Pluto", "evidence": ["D1:1"], "category": 4},
        {
            "question": "When did Ben climb?",
            "answer": "7 May 2023",
            "evidence": ["D1:2"],
            "category": 2,
        },
        {"question": "How high?", "answer": "3000 metres", "evidence": ["D1:2"], "category": 1},
        {"question": "Who fell?", "evidence": ["D1:2"], "category": 5},
    ],
}


def reply(*lines: str, turns=(1,), file="people/locomo-ada.md", also=()) -> str:
    operation = {"op": "add_bullets", "file": file, "lines": lines, "turns": turns}
    return json.dumps({"operations": [operation, *also]})


@pytest.fixture
def data(tmp_path) -> Path:
    path = tmp_path / "data.json"
    path.write_text(json.dumps([SAMPLE]), encoding="utf-8")
    return path


def measured(data: Path, capsys, *script) -> tuple[dict, str]:
    with ChatServer(script) as server:
        options = ["--url", server.base_url, "--model", "scripted-1", "--json"]
        writer_quality.main([str(data), *options])
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


def test_an_answer_that_was_written_down_is_held(data, capsys) -> None:
    climbed = {"op": "add_bullets", "file": "people/locomo-ben.md", "turns": [2]}
    both = reply("Ada has a cat, Pluto.", also=[{**climbed, "lines": ["Ben climbed yesterday."]}])
    made, told = measured(data, capsys, both)
    assert (made["n"], made["held"], made["in_turns"]) == (3, 0.6667, 0.6667)
    assert made["categories"]["single-hop"]["held_cited"] == 1
    assert made["categories"]["temporal"] == {
        "held": 1,
        "held_cited": 1,
        "answer_words": 1,
        "in_turns": 1,
        "n": 1,
    }
    assert (made["turns"], made["calls"], made["errors"]) == (2, 1, [])
    assert (made["prompt_tokens"], made["completion_tokens"]) == (11, 3)
    assert "conv-1: 2 of 2 turns" in told


def test_a_memory_without_them_holds_none(data, capsys) -> None:
    made, _ = measured(data, capsys, '{"operations": []}')
    assert (made["held"], made["held_cited"], made["answer_words"]) == (0, 0, 0)
    assert made["memory_tokens"] == 0


def test_a_failing_model_is_told_and_ends_with_1(data) -> None:
    with ChatServer([Fail(400, "no such engine")]) as server:
        options = ["--url", server.base_url, "--model", "scripted-1"]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.writer_quality", str(data), *options],
            env=environment(),
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert "no such engine" in done.stdout
    assert "Traceback" not in done.stderr


def test_familiars_are_kept_where_one_asks_and_nothing_is_overwritten(data, capsys, tmp_path):
    with ChatServer([Say(reply("Ada has a cat, Pluto."))]) as server:
        options = [
            str(data),
            "--url",
            server.base_url,
            "--model",
            "m",
            "--keep",
            str(tmp_path / "k"),
        ]
        writer_quality.main(options)
        text = (tmp_path / "k/conv-1/memory/people/locomo-ada.md").read_text("utf-8")
        with pytest.raises(SystemExit, match="is not empty"):
            writer_quality.main(options)
    assert "Pluto" in text
    capsys.readouterr()


@each(
    ("line", "answer", "share"),
    [
        ("She painted a sunrise.", "painting sunrises", 1),
        ("It was on 2023-05-07.", "7 May 2023", 1),
        ("It was on May 7th, 2023.", "7 May, 2023", 1),
        ("It was on 2023-05-07.", "May 2023", 1),
        ("It was in May 2023.", "7 May 2023", 0),
        ("Four years ago.", "4 years", 1),
        ("A cat.", "cat and dog", 0.5),
    ],
)
def test_words_and_dates_are_compared_whatever_their_form(line, answer, share) -> None:
    lines = Lines([Line(line, frozenset())])
    assert lines.best(answer) == share
    lines.close()


def test_a_line_that_cites_other_turns_is_no_evidence() -> None:
    lines = Lines([Line("A cat.", frozenset({3}))])
    assert [lines.best("cat", frozenset({n})) for n in (2, 3)] == [0, 1]
    lines.close()


def test_a_date_stands_for_its_month_in_a_line_only() -> None:
    assert spelled("7 May 2023", whole=True) == "d20230507 m202305 2023"
    assert spelled("7 May 2023", whole=False) == "d20230507"
