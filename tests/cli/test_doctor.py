"""`familiar doctor`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from contextlib import closing
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from familiar_cli.actions.health import doctor
from familiar_cli.base.times.clock import now
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.journal.repository import Repository
from familiar_cli.store.memory.store.store import hold_lock
from tests.support.forging import commit_of
from tests.support.world import data, home, live, run


def found(*argv: str, code: int = 0) -> dict[str, tuple[str, str, str]]:
    checks = data("doctor", *argv, code=code)["checks"]
    return {c["name"]: (c["verdict"], c["detail"], c["mend"]) for c in checks}


def configure(text: str) -> None:
    (live("ada") / "character.toml").write_text(text, encoding="utf-8")


@pytest.fixture
def server(monkeypatch):
    """A server that answers as the test says, and remembers what it was asked."""
    asked: list[tuple[str, str | None]] = []
    answer = {"status": 200, "body": b'{"data": [{"id": "big"}]}'}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("authorization")))
            self.send_response(answer["status"])
            self.send_header("content-length", str(len(answer["body"])))
            self.end_headers()
            self.wfile.write(answer["body"])

        def log_message(self, *args) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", f"http://127.0.0.1:{listening.server_port}/v1")
        monkeypatch.setenv("FAMILIAR_LLM_MODEL", "big")
        yield answer, asked
        listening.shutdown()
        thread.join()


def test_without_a_familiar_it_works_and_says_how_to_make_one() -> None:
    checks = found()
    assert checks["familiar"][0] == "warn"
    assert "familiar init" in checks["familiar"][2]
    assert checks["home"][0] == "warn"


def test_what_only_can_be_added_is_no_failure() -> None:
    live("ada")
    checks = found()
    assert checks["model"][0] == "warn"
    assert "familiar model pull smollm2-135m-instruct" in checks["model"][2]
    assert "familiar model pull cl100k_base" in checks["tokenizer"][2]


def test_looking_changes_nothing() -> None:
    root = live("ada", notes="x")
    found()
    assert sorted(path.name for path in root.iterdir()) == ["memory"]


def test_a_folder_that_keeps_the_memory_from_writing_is_named_with_the_command_to_move_it() -> None:
    live("ada")
    run("memory", "write", "Topics/a b.md", "x")
    (check,) = (c for c in data("doctor")["checks"] if "'Topics'" in c["detail"])
    assert check["detail"] == "'Topics' keeps 'topics' from being written"
    assert "`familiar memory mv 'Topics/a b.md' 'notes/Topics/a b.md'`" in check["mend"]


def test_a_familiar_that_is_not_there_fails() -> None:
    live("ada")
    assert found("--familiar", "bob", code=7)["familiar"][0] == "fail"


def test_a_wrong_setting_fails_with_its_line_and_the_rest_goes_on() -> None:
    configure("[llm]\nprset = 'x'\n")
    checks = found(code=7)
    assert checks["settings"][0] == "fail"
    assert "line 2" in checks["settings"][1]
    assert checks["memory"][0] == "ok"


def test_the_settings_of_the_home_and_of_channels_are_checked_too() -> None:
    root = live("ada")
    (root / "channels").mkdir()
    for path, text in (
        (root.parent / "me.toml", "name = [1]"),
        (root / "channels/a.toml", "x = 1"),
    ):
        path.write_text(text)
    wrong = [c["detail"] for c in data("doctor", code=7)["checks"] if c["verdict"] == "fail"]
    assert ["me.toml" in wrong[0], "a.toml" in wrong[1]] == [True, True]


def test_a_clock_that_is_ahead_of_another_machines_is_told() -> None:
    root = live("ada")
    run("memory", "write", "topics/a.md", "x")
    with closing(Repository(str(root / "journal.git"))) as journal:
        head = journal.head()
        earlier = commit_of(journal.commit(head).tree, [head])  # of 2023
        journal.objects.write([earlier])
        journal.set_head(earlier.id)
    with closing(HistoryStore(root / "history.db")) as history:
        history.append("cli", "user", "Hello", at=now() + timedelta(days=400))
    told = [c["detail"] for c in data("doctor")["checks"] if c["name"] == "clock"]
    assert "with a time in the future" in told[0]
    assert "comes before one of mallory at 2023-" in told[1]


def test_failures_end_with_7_and_name_what_failed() -> None:
    configure("[llm]\npreset = 'openai'\n")
    result = run("doctor")
    assert result.exit_code == 7
    assert "error: Checks failed: model, key\n" in result.stderr
    assert "OPENAI_API_KEY is not set" in result.stdout


def test_the_envelope_says_partial_when_something_failed() -> None:
    live("ada")
    envelope = json.loads(run("doctor", "--familiar", "bob", "--json").stdout)
    assert (envelope["status"], envelope["errors"][0]["code"]) == ("partial", "partial")


@pytest.mark.parametrize("left", [None, b"", "older"])
def test_turns_that_the_history_lacks_are_missed_before_the_next(left) -> None:
    run("init", "ada", "--template", "companion")
    root = home() / "ada"
    run("hear", "One.")
    older = (root / "history.db").read_bytes()
    run("hear", "Two.")
    assert found()["history"][0] == "ok"
    for path in root.glob("history.db*"):
        path.unlink()
    if left is not None:
        (root / "history.db").write_bytes(older if left == "older" else left)
    verdict, detail, _ = found(code=7)["history"]
    assert (verdict, "lacks turns up to 2" in detail) == ("fail", True)
    assert data("status")["problems"] == [detail]
    assert detail in run("history", "list").stderr
    if left != "older":
        assert f"hint: {detail}" in run("history", "show").stderr
    run("hear", "Three.")  # a new history
    assert (found()["history"][0], data("status")["problems"]) == ("ok", [])


def test_a_server_that_answers_is_well(server) -> None:
    live("ada")
    assert found()["server"][0] == "ok"
    assert server[1] == [("/v1/models", None)]


def test_a_model_that_the_server_does_not_list_is_pointed_out(server, monkeypatch) -> None:
    live("ada")
    monkeypatch.setenv("FAMILIAR_LLM_MODEL", "small")
    verdict, detail, _ = found()["server"]
    assert verdict == "warn"
    assert "does not list 'small'; it has big" in detail


def test_a_refused_key_fails_and_is_never_shown(server, monkeypatch) -> None:
    server[0]["status"] = 401
    monkeypatch.setenv("FAMILIAR_LLM_API_KEY", "sk-secret")
    live("ada")
    result = run("doctor")
    assert result.exit_code == 7
    assert "rejects the key" in result.stdout
    assert "FAMILIAR_LLM_API_KEY is set" in result.stdout
    assert "sk-secret" not in result.output
    assert server[1] == [("/v1/models", "Bearer sk-secret")]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[" * 100_000, b'{"data": [1]}'])
def test_a_strange_list_of_models_stops_nothing(server, body) -> None:
    server[0]["body"] = body
    live("ada")
    assert found()["server"][0] == "ok"


def test_a_server_in_trouble_is_pointed_out(server) -> None:
    server[0]["status"] = 503
    live("ada")
    assert found()["server"][0] == "warn"


def test_a_server_that_is_not_there_fails_and_says_how_to_start_it() -> None:
    configure("[llm]\npreset = 'ollama'\nmodel = 'x'\nbase_url = 'http://127.0.0.1:9/v1'\n")
    verdict, detail, mend = found(code=7)["server"]
    assert verdict == "fail"
    assert "http://127.0.0.1:9/v1" in detail
    assert "ollama serve" in mend


def test_a_server_that_is_slow_is_no_failure(monkeypatch) -> None:
    monkeypatch.setattr(doctor, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        configure(f"[llm]\npreset = 'custom'\nmodel = 'x'\nbase_url = '{url}'\n")
        verdict, detail, mend = found()["server"]
    assert (verdict, "sent nothing for 0.05 s" in detail) == ("warn", True)
    assert "`familiar model test`" in mend


def test_nothing_is_asked_when_the_network_is_forbidden(monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_OFFLINE", "1")
    configure("[llm]\npreset = 'custom'\nbase_url = 'http://192.0.2.1/v1'\n")
    assert "was not checked" in found()["server"][1]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_what_the_memory_leaves_out_is_named() -> None:
    root = live("ada", notes="x")
    (root / "memory" / "broken.md").symlink_to(root / "nowhere")
    checks = data("doctor")["checks"]
    memory = [c for c in checks if c["name"] == "memory"]
    assert [c["verdict"] for c in memory] == ["ok", "warn"]
    assert "broken.md" in memory[1]["detail"]


def test_a_file_over_the_limit_is_named() -> None:
    live("ada", notes="x" * 300_000)
    memory = [c for c in data("doctor")["checks"] if c["name"] == "memory"]
    assert "notes.md" in memory[1]["detail"]


def test_a_held_lock_names_its_holder() -> None:
    root = live("ada")
    with hold_lock(root / ".lock", 1):
        verdict, detail, _ = found()["lock"]
    assert (verdict, str(os.getpid()) in detail) == ("warn", True)


def test_a_lock_that_a_dead_process_left_is_free() -> None:
    root = live("ada")
    (root / ".lock").write_text("", encoding="utf-8")
    assert found()["lock"][:2] == ("ok", "free")


def test_a_whole_history_is_counted() -> None:
    store = HistoryStore(live("ada") / "history.db")
    store.append("cli", "user", "hi")
    store.close()
    assert found()["history"][:2] == ("ok", "1 turn, no damage")


def test_a_damaged_history_fails_and_is_left_alone() -> None:
    path = live("ada") / "history.db"
    store = HistoryStore(path)
    for _ in range(200):
        store.append("cli", "user", "word " * 100)
    store.close()
    raw = bytearray(path.read_bytes())
    raw[8192:12288] = b"\xff" * 4096
    path.write_bytes(raw)
    assert found(code=7)["history"][0] == "fail"
    assert path.read_bytes() == bytes(raw)
    for command in (("status",), ("ask", "Hello", "--dry-run")):
        assert "is damaged" in run(*command).output


def test_a_home_that_is_a_file_fails() -> None:
    home().parent.mkdir(parents=True, exist_ok=True)
    home().write_text("", encoding="utf-8")
    assert found(code=7)["home"][0] == "fail"


@pytest.mark.skipif(sys.platform == "win32" or os.getuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written_to_fails() -> None:
    home().mkdir(parents=True)
    home().chmod(0o500)
    assert found(code=7)["home"][0] == "fail"


class TestJournal:
    def checks(self, *, code: int = 0) -> list[tuple[str, str]]:
        rows = data("doctor", code=code)["checks"]
        return [(c["verdict"], c["detail"]) for c in rows if c["name"] == "journal"]

    def test_before_the_first_change_it_is_empty(self) -> None:
        live("ada", notes="x")
        assert self.checks() == [("ok", "empty until the first change")]

    def test_its_commits_are_counted_and_edits_by_hand_named(self) -> None:
        root = live("ada")
        run("memory", "write", "notes.md", "x")
        assert self.checks()[0][1].startswith("1 commit in ")
        run("memory", "append", "notes.md", "y")
        (verdict, detail) = self.checks()[0]
        assert verdict == "ok"
        assert detail.startswith("2 commits in ")
        (root / "memory" / "notes.md").write_text("by hand", encoding="utf-8")
        assert self.checks()[1][1].startswith("changed by hand since the last commit: notes.md;")
        assert len(data("memory", "log")["commits"]) == 3

    def test_a_change_that_broke_off_is_named_and_left_alone(self) -> None:
        root = live("ada", notes="x")
        run("memory", "append", "notes.md", "y")
        mark = root / "journal.git" / "familiar-pending"
        head = data("memory", "log")["commits"]
        mark.write_text(json.dumps({"base": head[1]["id"], "commit": head[0]["id"]}))
        assert ("warn", "a change was interrupted before it was saved to disk") in self.checks()
        assert mark.exists()
        run("memory", "ls")
        assert not mark.exists()

    def test_a_damaged_one_fails(self) -> None:
        root = live("ada", notes="x")
        run("memory", "append", "notes.md", "y")
        (root / "journal.git" / "refs" / "heads" / "main").write_text("rubbish")
        (verdict, detail) = self.checks(code=7)[-1]
        assert verdict == "fail"
        assert "journal is damaged" in detail

    def test_many_small_files_are_pointed_out(self, monkeypatch) -> None:
        live("ada", notes="x")
        run("memory", "append", "notes.md", "y")
        monkeypatch.setattr("familiar_cli.store.journal.exchange.WORTH_IT", 3)
        assert self.checks()[-1][0] == "warn"
        run("memory", "compact")
        assert len(self.checks()) == 1


def test_the_bounds_of_the_writer_are_told_and_no_model_name_changes_them() -> None:
    configure('[llm]\npreset = "custom"\nbase_url = "http://127.0.0.1:9/v1"\n')
    verdict, first, _ = found(code=7)["writer"]
    bounds = "default reads 8,192 tokens and writes at most 2,048 at temperature 0.2"
    assert (verdict, first) == ("ok", f"{bounds}; it gets the full prompt")
    run("config", "set", "llm.slots.memory_writer.model", "small")
    assert found(code=7)["writer"][1] == first.replace("default", "small", 1)


def test_a_page_that_is_not_utf_8_is_named() -> None:
    root = live("ada", odd="tea\n")
    (root / "memory" / "odd.md").write_bytes(b"tea \xff")
    assert "1 not in UTF-8: odd.md" in run("doctor").stdout
