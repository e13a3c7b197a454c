"""What failed is remembered until it succeeds, and retried later and later."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from familiar_cli.base.errors import FamiliarError, LockedError, ModelError
from familiar_cli.store.passes import (
    CONSOLIDATING,
    RETRY_AFTER,
    WRITING,
    Failures,
    as_failure,
    summary_name,
)
from tests.support.passes import set_back


@pytest.fixture
def failures(tmp_path):
    return Failures(tmp_path / "runs" / "failed")


def aged(failures, name, by) -> float:
    """Return in how many seconds `name` is retried when it failed `by` ago."""
    set_back(failures, name, by)
    return failures.of(name).retry_in_s


def test_a_failure_is_kept_on_disk_with_all_that_a_person_should_know(failures, tmp_path) -> None:
    failures.record(WRITING, ModelError("no answer", hint="start it"))

    (kept,) = Failures(tmp_path / "runs" / "failed").all()

    assert (kept.command, kept.code) == ("familiar write-memory", "model")
    assert (kept.message, kept.hint, kept.attempts) == ("no answer", "start it", 1)
    assert [path.name for path in (tmp_path / "runs" / "failed").iterdir()] == ["write-memory.json"]


def test_waiting_for_a_lock_is_no_failure(failures) -> None:
    failures.record(WRITING, LockedError("somebody else writes"))
    assert failures.all() == ()

    failures.record(WRITING, ModelError("no"))
    failures.record(WRITING, LockedError("somebody else writes"))
    assert (failures.of(WRITING).message, failures.of(WRITING).attempts) == ("no", 1)


def test_each_failure_in_a_row_is_retried_later_than_the_one_before(failures) -> None:
    waits = []
    for _ in range(len(RETRY_AFTER) + 2):
        failures.record(CONSOLIDATING, ModelError("no"))
        waits.append(round(failures.of(CONSOLIDATING).retry_in_s / 60))

    assert waits == [1, 2, 5, 10, 15, 15, 15]


def test_success_begins_the_waits_anew(failures) -> None:
    for _ in range(3):
        failures.record(WRITING, ModelError("no"))
    failures.clear(WRITING)
    assert failures.of(WRITING) is None

    failures.record(WRITING, ModelError("no"))
    assert round(failures.of(WRITING).retry_in_s) == 60


def test_its_time_comes(failures) -> None:
    failures.record(CONSOLIDATING, ModelError("no"))

    assert 0 < aged(failures, CONSOLIDATING, timedelta(seconds=50)) <= 10
    assert aged(failures, CONSOLIDATING, timedelta(seconds=10)) == 0


def test_a_clock_that_was_set_back_holds_nothing_up(failures) -> None:
    failures.record(WRITING, ModelError("no"))

    assert aged(failures, WRITING, -timedelta(days=365)) == 0


def test_a_failure_of_an_earlier_version_counts_as_the_first(failures, tmp_path) -> None:
    failures.record(WRITING, ModelError("no"))
    path = tmp_path / "runs" / "failed" / "write-memory.json"
    fields = json.loads(path.read_text())
    del fields["attempts"]
    path.write_text(json.dumps(fields))

    assert failures.of(WRITING).attempts == 1


@pytest.mark.parametrize("attempts", ['"x"', "null", "1e999", "[]", "-3", "1.5", "9" * 30])
def test_a_damaged_number_of_attempts_stops_nothing(failures, tmp_path, attempts) -> None:
    failures.record(WRITING, ModelError("no"))
    path = tmp_path / "runs" / "failed" / "write-memory.json"
    path.write_text(path.read_text().replace('"attempts": 1', f'"attempts": {attempts}'))

    assert all(0 <= kept.retry_in_s <= 900 for kept in failures.all())
    failures.record(WRITING, ModelError("no"))
    assert failures.of(WRITING) is not None


def test_each_scope_has_a_summary_pass_of_its_own_whose_name_tells_no_channel() -> None:
    names = [summary_name(scope) for scope in ("", "dm", "dm \ud83d", "../x")]

    assert names[0] == "summary"
    assert len(set(names)) == 4
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in names)


def test_an_exception_that_nobody_expected_is_told_in_one_line() -> None:
    told = as_failure(RuntimeError("two\nlines\x1b[31m" + "x" * 1000))

    assert isinstance(told, FamiliarError)
    assert (told.exit_code, "\n" in str(told), "\x1b" in str(told)) == (1, False, False)
    assert len(str(told)) < 400


def test_an_error_of_ours_stays_itself() -> None:
    error = ModelError("no")
    assert as_failure(error) is error
