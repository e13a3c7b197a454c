"""SillyTavern's common macros are filled, and others are named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from familiar_cli.base.macros import unknown_macros
from familiar_cli.context.character import format_time, in_words
from tests.support.cards import as_json, v2
from tests.support.world import run

AT = datetime(2025, 3, 28, 21, 5, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        ("DD.MM.YYYY", "28.03.2025"),
        ("h:mm A", "9:05 PM"),
        ("dddd, MMMM D", "Friday, March 28"),
        ("[at] HH:mm:ss", "at 21:05:09"),
    ],
)
def test_a_time_is_written_in_a_pattern(pattern, written) -> None:
    assert format_time(AT, pattern) == written


def test_a_duration_is_told_in_its_largest_unit() -> None:
    assert [in_words(timedelta(seconds=n)) for n in (3, 60, 7_300, 90_000)] == [
        "a few seconds",
        "1 minute",
        "2 hours",
        "1 day",
    ]


def made(tmp_path, **fields):
    path = tmp_path / "ilse.json"
    path.write_bytes(as_json(v2(**fields)))
    result = run("init", "--from-card", str(path))
    assert result.exit_code == 0
    return path, result


def test_macros_of_the_turn_are_filled_and_unknown_ones_stay(tmp_path) -> None:
    made(
        tmp_path,
        description="{{char}} is {{personality}}.{{newline}}{{noop}}Said: {{lastUserMessage}} "
        "on {{isodate}} {{datetimeformat YYYY}} {{time_UTC+2}}; {{idle_duration}}; "
        "v{{char_version}};"
        " {{unknownthing}}",
        system_prompt="{{original}} Again: {{description}}",
    )
    prompt = run("ask", "Is {{char}} a macro?", "--dry-run").stdout
    assert "Ilse is exact.\nSaid: Is {{char}} a macro? on 20" in prompt
    assert "; just now; v1; {{unknownthing}}" in prompt
    assert prompt.count("Ilse is exact.") == 2
    for macro in ("isodate", "datetimeformat", "time_UTC", "description"):
        assert f"{{{{{macro}" not in prompt


def test_unknown_macros_are_named_by_check_and_import(tmp_path) -> None:
    path, result = made(tmp_path, description="{{user}} {{// note}} {{getvar::mood}} {{roll:d6}}")
    assert "{{getvar::mood}}" in result.stderr
    checked = run("card", "check", str(path))
    assert (checked.exit_code, "{{getvar::mood}}" in checked.stdout) == (7, True)


def test_only_what_is_not_filled_is_unknown() -> None:
    text = "{{ User }} {{time_UTC-3}} {{random::a::b}} {{setvar::a::b}} {{#if x}}{{/if}} {{model}}"
    assert unknown_macros([text, text]) == ["setvar::a::b", "#if x", "/if", "model"]
