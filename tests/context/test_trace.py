"""The record of a turn comes back byte for byte, holds no key, and is found by both ids."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.base.errors import BadInputError, FamiliarError, NotFoundError, RefusedError
from familiar_cli.context.trace import (
    TRACE_VERSION,
    Trace,
    TracedMessage,
    TraceEncoder,
    files_shown,
    latest_trace,
    read_trace,
    trace_ids,
    write_trace,
)
from familiar_cli.llm.types import PreparedRequest
from tests.support.cases import each
from tests.support.traces import piece, trace


def test_a_record_comes_back_as_it_was_written(tmp_path) -> None:
    write_trace(tmp_path, trace(7))

    assert read_trace(tmp_path, 7) == trace(7)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8")))
def test_the_body_comes_back_byte_for_byte(body) -> None:
    sent = trace(1, request=PreparedRequest("u", "m", True, body))

    assert Trace.from_json(json.loads(json.dumps(sent.to_json()))).request.body == body


def test_a_body_that_is_text_stays_readable_in_the_file() -> None:
    assert "Hello, 日本" in trace(1).to_json()["request"]["body"]["text"]


def test_the_id_of_the_reply_leads_to_the_same_record(tmp_path) -> None:
    write_trace(tmp_path, trace(7, reply_turn=12))
    write_trace(tmp_path, trace(9, reply_turn=10))

    assert read_trace(tmp_path, 12).turn == 7


def test_the_newest_record_is_the_one_with_the_highest_number(tmp_path) -> None:
    for turn in (9, 10, 2):
        write_trace(tmp_path, trace(turn))

    assert latest_trace(tmp_path).turn == 10


def test_only_the_newest_records_are_kept(tmp_path) -> None:
    for turn in range(8, 13):
        write_trace(tmp_path, trace(turn), keep=3)

    assert trace_ids(tmp_path) == {10, 11, 12}


def test_keep_nothing_said_keeps_all(tmp_path) -> None:
    for turn in range(5):
        write_trace(tmp_path, trace(turn), keep=0)

    assert len(trace_ids(tmp_path)) == 5


def test_writing_again_replaces_the_whole_file(tmp_path) -> None:
    write_trace(tmp_path, trace(7))
    write_trace(tmp_path, trace(7, error="gone"))

    assert read_trace(tmp_path, 7).error == "gone"
    assert [entry.name for entry in tmp_path.iterdir()] == ["7.json"]


def test_what_was_encoded_before_the_reply_is_used_again(tmp_path) -> None:
    encoder, asked = TraceEncoder(), trace(7)
    write_trace(tmp_path / "turn", asked, encoder=encoder)
    answered = replace(asked, reply_turn=8, model="m", notices=("one",))
    for other in (answered, replace(answered, contributions=(piece("else"),))):
        write_trace(tmp_path / "turn", other, encoder=encoder)
        write_trace(tmp_path / "anew", other)
        turn, anew = ((tmp_path / name / "7.json").read_bytes() for name in ("turn", "anew"))
        assert turn == anew


def test_the_files_that_prompts_contained_are_found_by_their_turns(tmp_path) -> None:
    shown = replace(piece("lore"), rel_path="lore/castle.md", kept=True)
    out = replace(shown, rel_path="lore/moat.md", kept=False)
    write_trace(tmp_path, trace(7, contributions=(shown, out)))
    write_trace(tmp_path, trace(9, contributions=(replace(shown, rel_path="topics/lore/x.md"),)))
    (tmp_path / "10.json").write_text("lore/{", encoding="utf-8")
    assert files_shown(tmp_path, [7, 8, 9, 10], "lore/") == ["lore/castle.md"]
    assert files_shown(tmp_path, [8, 9], "lore/") == []


def test_no_record_is_a_clear_error(tmp_path) -> None:
    with pytest.raises(NotFoundError, match="No trace of turn 3"):
        read_trace(tmp_path / "none", 3)
    with pytest.raises(NotFoundError, match="Nothing has been sent"):
        latest_trace(tmp_path / "none")


def test_other_files_in_the_directory_are_passed_over(tmp_path) -> None:
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / ".7.99.tmp").write_text("{")
    write_trace(tmp_path, trace(7))

    assert trace_ids(tmp_path) == {7}


def change(**keys) -> bytes:
    return json.dumps({**trace(7).to_json(), **keys}).encode()


@each(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"{}",
        b'{"trace": 1}',
        change(layers=3),
        change(at="yesterday"),
        change(contributions=[{"layer": "no such layer"}]),
        change(request={"url": "u"}),
        change(request={"url": "u", "model": "m", "stream": True, "body": {"base64": "!"}}),
        change(used_tokens=True),
        change(messages=[{"role": "wizard", "content": ""}]),
    ],
)
def test_a_file_that_is_no_record_is_a_clear_error(tmp_path, content) -> None:
    (tmp_path / "7.json").write_bytes(content)

    with pytest.raises(BadInputError, match="is not a trace"):
        read_trace(tmp_path, 7)


def test_a_damaged_record_does_not_hide_another(tmp_path) -> None:
    write_trace(tmp_path, trace(7, reply_turn=9))
    (tmp_path / "8.json").write_text("{")

    assert read_trace(tmp_path, 9).turn == 7


def test_a_record_of_a_newer_program_is_refused(tmp_path) -> None:
    (tmp_path / "7.json").write_bytes(change(trace=TRACE_VERSION + 1))

    with pytest.raises(RefusedError, match="newer"):
        read_trace(tmp_path, 7)


def test_keys_of_a_later_minor_version_are_passed_over() -> None:
    assert Trace.from_json({**trace(7).to_json(), "mood": "bright"}) == trace(7)


def test_a_record_that_cannot_be_written_is_a_clear_error(tmp_path) -> None:
    (tmp_path / "traces").write_text("in the way")

    with pytest.raises(FamiliarError, match="could not be written"):
        write_trace(tmp_path / "traces", trace(7))


def test_a_dry_run_has_no_file(tmp_path) -> None:
    with pytest.raises(ValueError, match="dry run"):
        write_trace(tmp_path, replace(trace(7), turn=None))


NEW_KEYS = {"lines", "sha256", "score"}


def test_a_record_of_the_first_version_still_loads(tmp_path) -> None:
    old = {**trace(7).to_json(), "trace": 1}
    del old["program"]
    old["contributions"] = [
        {k: v for k, v in piece.items() if k not in NEW_KEYS} for piece in old["contributions"]
    ]
    (tmp_path / "7.json").write_text(json.dumps(old), encoding="utf-8")

    assert read_trace(tmp_path, 7) == replace(trace(7), trace=1, program="")


LONG = "The lighthouse of Ilmari stands where the two currents meet, and nobody minds. "


def long_trace(text: str):
    sent = json.dumps({"model": "m", "messages": [{"role": "system", "content": text}]})
    return trace(
        7,
        messages=(TracedMessage("system", text),),
        contributions=(
            piece("a", text=text),
            piece("b", text=text[:90]),
            piece("c", text="x" * 99),
        ),
        request=PreparedRequest("u", "m", True, sent.encode()),
    )


@each("text", [LONG * 9, "灯台の光が海を照らしている。" * 40, "\ud800" + LONG * 9])
def test_the_file_holds_no_text_twice_and_comes_back_whole(tmp_path, text) -> None:
    write_trace(tmp_path, long_trace(text))

    assert read_trace(tmp_path, 7) == long_trace(text)
    stored = json.loads((tmp_path / "7.json").read_bytes())
    assert stored["messages"] is None
    assert [type(one["text"]) for one in stored["contributions"]] == [dict, dict, str]


def test_a_file_is_not_much_larger_than_what_was_sent(tmp_path) -> None:
    write_trace(tmp_path, long_trace(LONG * 300))

    assert (tmp_path / "7.json").stat().st_size < 1.2 * len(LONG) * 300


def test_messages_that_are_not_in_the_bytes_are_kept_as_they_are(tmp_path) -> None:
    odd = (PreparedRequest("u", "m", True, body) for body in (b"{}", b""))
    for request in (None, *odd):
        write_trace(tmp_path, trace(7, request=request))
        assert read_trace(tmp_path, 7).messages == trace(7).messages


@each(
    "pointer",
    [{}, {"message": 9, "start": 0, "chars": 1}, {"message": 0, "start": 0, "chars": 10_000}],
)
def test_a_text_that_is_not_where_the_file_says_is_a_clear_error(tmp_path, pointer) -> None:
    record = trace(7).to_json()
    record["contributions"][0]["text"] = pointer
    (tmp_path / "7.json").write_text(json.dumps(record), encoding="utf-8")

    with pytest.raises(BadInputError, match="not where it says"):
        read_trace(tmp_path, 7)


def test_the_record_just_written_is_never_removed(tmp_path) -> None:
    for turn in (100, 102, 104, 2):  # a history that was begun anew counts from 1 again
        write_trace(tmp_path, trace(turn), keep=2)

    assert trace_ids(tmp_path) == {2, 104}


def test_of_many_records_the_oldest_are_not_looked_for_every_time(tmp_path, monkeypatch) -> None:
    for turn in range(1, 2001, 2):
        (tmp_path / f"{turn}.json").touch()
    listed = []
    monkeypatch.setattr(
        "familiar_cli.context.trace._remove_oldest", lambda *given: listed.append(given)
    )

    for turn in range(2001, 2201, 2):
        write_trace(tmp_path, trace(turn), keep=1000)

    assert len(listed) == 5


def test_a_reply_is_found_without_reading_every_older_record(tmp_path, monkeypatch) -> None:
    for turn in range(1, 2001, 2):
        (tmp_path / f"{turn}.json").touch()
    parsed = []
    monkeypatch.setattr(
        "familiar_cli.context.trace._parse_trace", lambda *given: parsed.append(given)
    )

    with pytest.raises(NotFoundError):
        read_trace(tmp_path, 1998)
    assert parsed == []
