"""The record of a turn comes back byte for byte, holds no key, and is found by both ids."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from familiar_cli.context.trace import (
    Trace,
    TracedRequest,
    latest,
    read_trace,
    trace_ids,
    write_trace,
)
from familiar_cli.errors import BadInputError, FamiliarError, NotFoundError, RefusedError
from tests.support.traces import trace


def test_a_record_comes_back_as_it_was_written(tmp_path) -> None:
    write_trace(tmp_path, trace(7))

    assert read_trace(tmp_path, 7) == trace(7)


@settings(max_examples=60)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8")))
def test_the_body_comes_back_byte_for_byte(body) -> None:
    sent = trace(1, request=TracedRequest("u", "m", True, body))

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

    assert latest(tmp_path).turn == 10


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


def test_no_record_is_a_clear_error(tmp_path) -> None:
    with pytest.raises(NotFoundError, match="no trace of turn 3"):
        read_trace(tmp_path / "none", 3)
    with pytest.raises(NotFoundError, match="Nothing was sent"):
        latest(tmp_path / "none")


def test_other_files_in_the_directory_are_passed_over(tmp_path) -> None:
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / ".7.99.tmp").write_text("{")
    write_trace(tmp_path, trace(7))

    assert trace_ids(tmp_path) == {7}


def change(**keys) -> bytes:
    return json.dumps({**trace(7).to_json(), **keys}).encode()


@pytest.mark.parametrize(
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
    (tmp_path / "7.json").write_bytes(change(trace=2))

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
