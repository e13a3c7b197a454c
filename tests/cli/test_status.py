"""`familiar status`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.pages.page import local_time
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.passes import PassCosts
from tests.support.cases import each
from tests.support.server import ChatServer, Fail
from tests.support.world import data, home, live, run
from tests.support.writing import NOTHING, answer, point_at, talked


def test_a_new_familiar_has_nothing_and_says_what_to_do() -> None:
    root = live("ada")
    result = run("status")
    assert result.exit_code == 0
    assert 'familiar ask "Hello"' in result.stdout
    assert "familiar memory write" in result.stdout
    assert sorted(path.name for path in root.iterdir()) == ["memory"]


def test_everything_is_counted() -> None:
    root = live("ada", notes="a", more="b")
    (root / "memory" / "self").mkdir()
    (root / "memory" / "self" / "card.json").write_text("{}", encoding="utf-8")
    store = HistoryStore(root / "history.db")
    store.append("cli", "user", "hi", author=Author("discord", "42"))
    store.append("cli", "assistant", "ho", partial=True)
    store.close()
    found = data("status")
    assert (found["familiar"], found["memory_files"], found["unindexed_files"]) == ("ada", 3, 2)
    assert (found["turns"], found["unsummarised_turns"]) == (2, 2)
    last = found["last_turn"]
    assert (last["id"], last["channel"], last["role"], last["partial"]) == (
        2,
        "cli",
        "assistant",
        True,
    )
    assert "interrupted: `familiar continue`" in run("status").stdout


def test_the_model_is_the_one_that_would_answer(monkeypatch) -> None:
    live("ada")
    assert data("status")["preset"] == "local"
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("FAMILIAR_LLM_MODEL", "other")
    found = data("status")
    assert (found["preset"], found["model"]) == ("custom", "other")


def test_without_history_there_is_no_last_turn() -> None:
    live("ada")
    assert data("status")["last_turn"] is None


@pytest.mark.parametrize("place", ["--home", "--familiar"])
def test_what_is_not_there_is_named(place) -> None:
    live("ada")
    result = run("status", place, "nowhere")
    assert result.exit_code == 4
    assert "nowhere" in result.stderr


def test_a_damaged_history_is_an_error_and_no_traceback() -> None:
    (live("ada") / "history.db").write_bytes(b"this is no database, but long enough to be read")
    result = run("status")
    assert result.exit_code == 5
    assert "history" in result.stderr


def test_a_name_full_of_escapes_cannot_steer_the_terminal() -> None:
    root = live("ada")
    (root / "character.toml").write_text('name = "\\u001b[31m[/b]x"\n', encoding="utf-8")
    page = run("status").stdout
    assert "\x1b" not in page
    assert "[31m[/b]x" in page
    assert home().name in page


def test_a_message_without_a_reply_is_told_with_the_command_that_asks_again(serve) -> None:
    live("ada")
    serve(Fail(401, "bad key"), "Hello.")
    run("ask", "Hello", "--channel", "den")
    assert "bad key" in data("status")["last_turn"]["failed"]
    assert "Run `familiar again --channel den`." in run("status").stdout
    run("again", "--channel", "den")
    assert data("status")["last_turn"]["failed"] == ""


def test_a_pass_that_failed_is_told_with_when_why_and_what_tries_it_again(monkeypatch) -> None:
    talked()
    with ChatServer([Fail(401, "bad key"), NOTHING]) as server:
        point_at(server, monkeypatch)
        assert run("write-memory").exit_code == 6

        (failure,) = data("status")["failures"]
        page = run("status").stdout

        assert (failure["command"], failure["code"]) == ("familiar write-memory", "model_key")
        assert local_time(failure["at"], None) in page
        assert "bad key" in page
        assert "nothing yet; 2 turns wait: `familiar write-memory`" in page

        assert run("write-memory").exit_code == 0
        found = data("status")
        assert (found["failures"], found["written"]["last_turn"]) == ([], 2)
        assert (
            f"up to turn 2, said at {local_time('2026-04-07T18:01:00.000Z', None)}\n"
            in run("status").stdout
        )


def test_a_pass_that_could_not_even_begin_is_told(monkeypatch) -> None:
    root = talked(settings='[llm]\npreset = "openai"\nmodel = "x"\n')
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert run("write-memory").exit_code == 3
    (failure,) = data("status")["failures"]
    assert failure["code"] == "configuration"
    assert "write-memory" in run("doctor").stdout
    assert [path.name for path in (root / "runs" / "failed").iterdir()] == ["write-memory.json"]


def test_a_pass_that_changes_nothing_leaves_no_word_of_its_failure(monkeypatch) -> None:
    root = talked()
    with ChatServer([Fail(401, "bad key")]) as server:
        point_at(server, monkeypatch)
        assert run("write-memory", "--dry-run").exit_code == 6
    assert not (root / "runs").exists()


def test_a_digest_that_failed_is_told_until_it_is_made(monkeypatch) -> None:
    root = talked()
    (root / "memory" / "digest").mkdir()
    (root / "memory" / "digest" / "short.md").write_text("# The latest sessions\n\n- Bees.\n")
    with ChatServer([Fail(401, "bad key")]) as server:
        point_at(server, monkeypatch)
        assert run("distill", "mid").exit_code == 6
    assert "`familiar distill mid`" in run("status").stdout


@each("text", ["", "[1]", "{}", '{"at": "now", "code": 1}', "\xff", "[" * 9999])
def test_a_damaged_word_of_a_failure_counts_for_none(text) -> None:
    failed = live("ada") / "runs" / "failed"
    failed.mkdir(parents=True)
    (failed / "write-memory.json").write_text(text, encoding="latin-1")
    assert data("status")["failures"] == []


def test_what_passes_cost_is_told_for_a_hundred_turns(monkeypatch) -> None:
    talked(4)
    assert data("status")["costs"] == []
    with ChatServer([answer("Keeps bees.", turns=(1,))]) as server:
        point_at(server, monkeypatch)
        written = data("write-memory", "--newest")
    (cost,) = data("status")["costs"]
    assert (cost["command"], cost["calls"]) == ("write-memory", 1)
    assert cost["tokens_read"] == written["usage"]["prompt_tokens"] > 0
    assert cost["read_per_100_turns"] == round(100 * cost["tokens_read"] / 4)
    read, wrote = cost["read_per_100_turns"], cost["written_per_100_turns"]
    line = f"for 100 turns: write-memory {read:,} read, {wrote:,} written"
    assert line in run("status").stdout


def test_costs_add_up_and_a_damaged_file_counts_for_none(tmp_path) -> None:
    costs = PassCosts(tmp_path / "runs" / "spent")
    (tmp_path / "runs").mkdir()
    for read, written in ((100, 10), (50, 5)):
        costs.add("summary", read, written)
    costs.add("write-memory", turns=20)
    assert [(c.name, c.calls, c.tokens_read, c.tokens_written, c.turns) for c in costs.all()] == [
        ("write-memory", 0, 0, 0, 20),
        ("summary", 2, 150, 15, 0),
    ]
    (tmp_path / "runs" / "spent" / "summary.json").write_text("{", encoding="utf-8")
    assert costs.of("summary").calls == 0
