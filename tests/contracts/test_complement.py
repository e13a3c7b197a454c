"""The benchmark of `NAME+memory` beside a client's own prompt."""

from __future__ import annotations

import json

from benchmarks import complement


def test_words_that_the_request_holds_already_are_counted() -> None:
    request = "The harbour was closed for three days after the storm of May."
    again = "and THE harbour was closed, for three days after!"
    repeated, all_of_it = complement.overlap(f"- New: {again}", request)
    assert (repeated, all_of_it) == (len("THE harbour was closed, for three days after"), 56)
    assert complement.overlap("The harbour was closed for two days.", request)[0] == 0


def test_a_fact_from_an_earlier_session_reaches_the_prompt(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_HOME", str(tmp_path))
    lines = [("Ada", "I sing."), ("Ben", "My boat is called the Heron."), ("Ada", "A good name.")]
    later = [("Ben", "It rains."), ("Ada", "It does, in the hills.")]
    talk = {"speaker_a": "Ben", "speaker_b": "Ada"}
    for number, (day, said) in enumerate((("8", lines), ("9", later)), 1):
        talk[f"session_{number}_date_time"] = f"1:56 pm on {day} May, 2023"
        talk[f"session_{number}"] = [
            {"speaker": who, "dia_id": f"D{number}:{n}", "text": text}
            for n, (who, text) in enumerate(said, 1)
        ]
    asked = {"question": "Which boat?", "answer": "Heron", "evidence": ["D1:2"], "category": 4}
    sample = {"sample_id": "conv-1", "conversation": talk, "qa": [asked]}
    path = tmp_path / "data.json"
    path.write_text(json.dumps([sample]), encoding="utf-8")
    complement.main([str(path), "--json"])
    figures = json.loads(capsys.readouterr().out)
    assert (figures["questions"], figures["evidence"], figures["overlap"]) == (1, 1.0, 0.0)
