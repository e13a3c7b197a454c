"""`familiar search`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from familiar_cli.store.search.types import Hit, Signals
from tests.support.terminals import on_terminal
from tests.support.world import data, live, run, spawn

ALICE = "# Alice\n\nAlice likes green tea in the morning.\n"


@pytest.fixture
def memory() -> Path:
    return live("ada", alice=ALICE, notes="# Notes\n\nBuy bread.\n") / "memory"


def test_it_prints_the_place_the_score_and_the_words(memory) -> None:
    result = run("search", "tea")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].startswith("alice.md:1  0.")
    assert lines[1:] == ["    Alice likes green tea in the morning."]


def test_a_number_that_nothing_can_take_is_a_usage_error(memory) -> None:
    for command in (("search", "tea", "-k"), ("history", "show", "--last")):
        result = run(*command, "99999999999999999999")
        assert (result.exit_code, "at most 1,000,000,000" in result.stderr) == (2, True)


def test_another_section_around_the_best_line_keeps_its_heading(memory) -> None:
    (memory / "bo.md").write_text("# Bo\n\n## Aliases\n\n- Bob\n\n## Facts\n\n- likes figs\n")
    lines = [line.strip() for line in run("search", "figs").stdout.splitlines() if line.strip()]
    assert lines[1:] == ["## Facts", "- likes figs", "# Bo", "## Aliases", "- Bob"]


def test_the_best_line_comes_first_and_words_are_marked_not_lines(memory, monkeypatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    text = "# Alice\n\n- plays chess\n- likes green tea\n- keeps bees\n"
    (memory / "alice.md").write_text(text, encoding="utf-8")
    _, shown = on_terminal("search", "teas", "-q")
    best, *around = [line.strip() for line in shown.splitlines()[1:]]
    assert best == "- likes green \x1b[1;33mtea\x1b[0m"
    assert ["chess" in around[0], "bees" in around[1]] == [True, True]


def test_a_missing_model_is_named_once_with_the_command_that_adds_it(memory) -> None:
    result = run("search", "tea")
    assert result.stderr == (
        "Searched by words only: no embedding model is on disk.\n"
        "hint: Run `familiar model pull minilm-l6-v2`.\n"
    )
    assert run("search", "tea", "--quiet").stderr == ""


def test_the_keys_of_json_are_a_contract(memory) -> None:
    found = data("search", "tea")
    assert {"method", "query", "hits", "elapsed_ms"} <= set(found)
    assert (found["method"], found["query"]) == ("lexical", "tea")
    (hit,) = found["hits"]
    wanted = {"rel_path", "heading", "char_start", "char_end", "score", "text", "signals"}
    assert wanted <= set(hit) == {*Hit.__struct_fields__, "kept_back"}
    assert set(hit["signals"]) == set(Signals.__struct_fields__)
    assert hit["text"] == ALICE[hit["char_start"] : hit["char_end"]]


def test_what_a_file_holds_for_the_program_is_not_shown(memory) -> None:
    (memory / "week.md").write_text(
        "---\nmade_by: familiar\nsources: {}\nblocks: 1a2b3c4d\n---\n# Week\n\n"
        "- A zither came. [chat:cli] [via:laptop] <!-- turns 3 -->\n\n<!-- a hurdy-gurdy -->\n",
        "utf-8",
    )
    (hit,) = data("search", "zither")["hits"]
    assert (hit["text"], hit["best"]) == (
        "# Week\n\n- A zither came.",
        "# Week\n\n- A zither came.",
    )
    assert run("search", "zither", "--lines").stdout == "week.md:6:# Week - A zither came.\n"
    assert data("search", "blocks familiar")["hits"] == []
    assert data("search", "gurdy")["hits"] == []
    assert data("search", "laptop", "--method", "grep")["hits"] == []


def test_explain_shows_every_signal(memory) -> None:
    shown = run("search", "tea", "--explain").stdout
    for name in (
        "relevance",
        "words",
        "meaning",
        "cosine",
        "coverage",
        "speaker",
        "recency",
        "linked",
    ):
        assert f"{name} " in shown


def test_lines_are_printed_as_path_line_text(memory) -> None:
    assert run("search", "bread", "--lines").stdout == "notes.md:1:# Notes Buy bread.\n"


def test_the_question_may_come_from_standard_input(memory) -> None:
    assert run("search", "-", stdin="bread").stdout.startswith("notes.md:1")


def test_k_in_and_since_narrow_it(memory) -> None:
    assert len(data("search", "tea bread", "-k", "1")["hits"]) == 1
    assert [h["rel_path"] for h in data("search", "tea bread", "--in", "notes.md")["hits"]] == [
        "notes.md"
    ]
    assert data("search", "tea", "--since", "2999-01-01")["hits"] == []


def test_nothing_found_says_so_and_is_no_failure(memory) -> None:
    result = run("search", "zeppelin")
    assert (result.exit_code, result.stdout) == (0, "")
    assert (
        "Nothing was found in memory by words. --past searches past turns; "
        "`familiar memory list` lists all files." in result.stderr
    )


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["???"], 2),
        (["tea", "--method", "magic"], 2),
        (["tea", "--since", "soon"], 2),
        (["tea", "-k", "0"], 2),
        (["tea", "--in", "nowhere"], 4),
        (["tea", "--in", "../x"], 5),
        (["tea", "--method", "hybrid"], 1),
    ],
)
def test_what_makes_no_sense_is_said_with_a_hint(memory, argv, code) -> None:
    result = run("search", *argv)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("error: ")


def test_text_from_memory_is_no_markup(memory) -> None:
    (memory / "odd.md").write_text("[bold]tea[/bold] [/x] \x1b[31mred\n", encoding="utf-8")
    shown = run("search", "red", "--method", "grep").stdout
    assert "[bold]tea[/bold] [/x]" in shown
    assert "\x1b" not in shown


def test_what_was_just_written_is_found(memory) -> None:
    run("search", "anything")
    run("memory", "write", "b.md", "the marmalade clause")
    assert data("search", "marmalade")["hits"][0]["rel_path"] == "b.md"


def test_reading_every_file_is_the_method_of_last_resort(memory) -> None:
    (memory / ".index").write_text("in the way")
    result = run("search", "tea", "--json")
    found = json.loads(result.stdout)["data"]
    assert (found["method"], found["hits"][0]["rel_path"]) == ("grep", "alice.md")


def test_words_alone_load_neither_numpy_nor_the_model(memory) -> None:
    spawn("search", "tea")
    code = (
        "import sys; from familiar_cli.cli.app import app\n"
        "app(['search', 'tea'], standalone_mode=False); print(*sys.modules)"
    )
    import subprocess
    import sys

    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
    )
    loaded = {m.partition(".")[0] for m in done.stdout.split()}
    assert not loaded & {"numpy", "fastembed", "onnxruntime", "markdown_it", "httpx", "filelock"}
