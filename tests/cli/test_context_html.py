"""`familiar context --html`, from argv to the file, stdout and exit code."""

from __future__ import annotations

import pytest

from familiar_cli.context.trace import write_trace
from tests.servers.web.html.reading import Reading
from tests.support.traces import trace
from tests.support.world import data, live, run, spawn


@pytest.fixture
def root():
    root = live("ada")
    write_trace(root / "traces", trace(7))
    return root


def test_a_page_is_written_and_its_size_told(root, tmp_path) -> None:
    path = tmp_path / "turn.html"
    result = run("context", "7", "--html", str(path))
    assert (result.exit_code, result.stdout) == (
        0,
        f"Wrote {path} ({path.stat().st_size:,} bytes)\n",
    )
    assert "What was sent: turn 7" in Reading(path.read_text("utf-8")).words


def test_a_dash_means_stdout(root) -> None:
    printed = spawn("context", "--html", "-").stdout
    assert printed.startswith(b"<!DOCTYPE html>\n")
    assert data("context", "--html", "-")["html"].encode() == printed


def test_a_file_that_is_there_is_left_alone_unless_forced(root, tmp_path) -> None:
    path = tmp_path / "turn.html"
    path.write_text("mine")
    result = run("context", "--html", str(path))
    assert (result.exit_code, path.read_text()) == (5, "mine")
    assert "--force" in result.stderr
    assert run("context", "--html", str(path), "--force").exit_code == 0
    assert path.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_as_data_it_is_where_the_page_is(root, tmp_path) -> None:
    path = tmp_path / "turn.html"
    found = data("context", "--html", str(path))
    assert found == {"turn": 7, "path": str(path), "bytes": path.stat().st_size}


def test_a_directory_that_is_not_there_is_an_error(root, tmp_path) -> None:
    result = run("context", "--html", str(tmp_path / "no" / "turn.html"))
    assert result.exit_code == 1
    assert "cannot be written" in result.stderr


@pytest.mark.parametrize(
    "argv", [("--force",), ("--html", "x", "--raw"), ("--html", "x", "--diff", "7")]
)
def test_what_makes_no_sense_is_a_usage_error(root, argv) -> None:
    assert run("context", *argv).exit_code == 2
