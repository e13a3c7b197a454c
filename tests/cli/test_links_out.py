"""A link in place of a directory that only the program writes leads nowhere: it is refused."""

from __future__ import annotations

import json
import sys

import pytest

from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.base.errors import FamiliarError, UnsafePathError
from familiar_cli.store.passes import WRITING, Failures
from familiar_cli.writing.writer.runs import Runs
from tests.support.server import ChatServer
from tests.support.world import data, live, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")


@pytest.fixture
def outside(tmp_path):
    found = tmp_path / "outside"
    found.mkdir()
    (found / "kept.json").write_text("{}", encoding="utf-8")
    return found


@pytest.fixture
def root():
    return live()


def untouched(outside) -> bool:
    return [path.name for path in outside.rglob("*")] == ["kept.json"]


def verdicts(name: str) -> list[str]:
    checks = json.loads(run("doctor", "--json").stdout)["data"]["checks"]
    return [f"{check['verdict']} {check['detail']}" for check in checks if check["name"] == name]


def test_traces_are_neither_written_nor_read_behind_a_link(root, outside, monkeypatch) -> None:
    (root / "traces").symlink_to(outside, target_is_directory=True)
    with ChatServer("Hello there.") as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        said = data("ask", "Hello")
    assert said["reply"] == "Hello there."
    assert any("is a link" in notice for notice in said["notices"])
    assert untouched(outside)
    result = run("context", "--last", "--json")
    assert (result.exit_code, "is a link" in result.stdout) == (5, True)
    assert any("fail" in told and "is a link" in told for told in verdicts("traces"))


def test_a_trace_that_is_a_link_is_replaced(root, outside, monkeypatch) -> None:
    (root / "traces").mkdir()
    (root / "traces" / "1.json").symlink_to(outside / "kept.json")
    with ChatServer("Hello there.") as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        data("ask", "Hello")
    assert (outside / "kept.json").read_text("utf-8") == "{}"
    assert not (root / "traces" / "1.json").is_symlink()


@pytest.mark.parametrize("name", ["runs", "quarantine"])
def test_records_and_unusable_replies_do_not_leave_the_familiar(root, outside, name) -> None:
    (root / name).symlink_to(outside, target_is_directory=True)
    paths = FamiliarPaths(root)
    runs, failures = Runs(paths.runs, paths.quarantine), Failures(paths.failures)
    with pytest.raises(UnsafePathError, match="is a link"):
        runs.note("r", {}) if name == "runs" else runs.keep_reply("r", "text")
    failures.record(WRITING, UnsafePathError("no"))
    failures.clear(WRITING)
    assert untouched(outside)
    assert any("fail" in told and "is a link" in told for told in verdicts("keeping"))


def test_what_failed_is_not_kept_behind_a_link(root, outside) -> None:
    (root / "runs").mkdir()
    (root / "runs" / "failed").symlink_to(outside, target_is_directory=True)
    (outside / "write-memory.json").write_text("{}", encoding="utf-8")
    failures = Failures(FamiliarPaths(root).failures)
    failures.record(WRITING, UnsafePathError("no"))
    assert failures.of(WRITING) is None
    failures.clear(WRITING)
    assert (outside / "write-memory.json").read_text("utf-8") == "{}"


def test_a_record_that_is_a_link_is_not_written(root, outside) -> None:
    (root / "runs").mkdir()
    (root / "runs" / "r.jsonl").symlink_to(outside / "kept.json")
    paths = FamiliarPaths(root)
    with pytest.raises(FamiliarError, match="cannot be written") as caught:
        Runs(paths.runs, paths.quarantine).note("r", {})
    assert "permissions" in caught.value.hint
    assert (outside / "kept.json").read_text("utf-8") == "{}"
