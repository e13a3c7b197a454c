"""What scripts read: the envelope, and the keys of `data`. Keys are added, never taken away."""

from __future__ import annotations

import json
import re
import sys

import pytest

from familiar_cli.context.trace import write_trace
from familiar_cli.store.history.store import HistoryStore
from tests.contracts.test_command_tree import LEAVES
from tests.support import pages
from tests.support.remotes import bare_by_hand
from tests.support.traces import trace
from tests.support.world import data, live, run, spawn

ENVELOPE = {"familiar", "command", "status", "data", "errors"}


@pytest.fixture
def root():
    root = live("ada", notes="x", tasks="- [ ] Mend\n", reminders="- [ ] Call\n")
    store = HistoryStore(root / "history.db")
    store.append("cli", "user", "hi")
    store.close()
    write_trace(root / "traces", trace(1))
    return root


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("list", []),
        ("use", ["ada"]),
        ("me", []),
        ("me", ["--name", "Anna"]),
        ("status", []),
        ("doctor", []),
        ("why", []),
        ("context", ["--last"]),
        ("todo ls", []),
        ("todo add", ["Sing", "--at", "every friday", "--dry-run"]),
        ("todo done", ["t1", "--dry-run"]),
        ("todo drop", ["r1", "--dry-run"]),
        ("todo note", []),
        ("help", ["--all"]),
        ("help", ["undo"]),
        ("remind ls", []),
        ("remind add", ["Call Anna", "--at", "friday"]),
        ("task add", ["Mend", "--dry-run"]),
        ("task ls", ["--all"]),
        ("remind done", ["1", "--dry-run"]),
        ("task done", ["1", "--dry-run"]),
        ("task drop", ["1", "--dry-run"]),
        ("scratch show", []),
        ("scratch add", ["x"]),
        ("scratch clear", ["--dry-run"]),
        ("job add", ["every day 8:00", "--say", "Hello", "--dry-run"]),
        ("job ls", []),
        ("consolidate", []),
        ("consolidate", ["--dry-run"]),
        ("distill short", ["--dry-run"]),
        ("distill status", []),
        ("remember", ["The sea", "--dry-run"]),
        ("housekeep", []),
        ("init", ["bo", "--template", "keeper", "--dry-run"]),
        ("init", ["bo", "--template", "companion", "--dry-run"]),
        ("import-memories", ["MEMORIES", "--dry-run"]),
        ("import", ["MEMORIES", "--dry-run"]),
        ("export", ["everything", "--dry-run"]),
        ("memory mv", ["notes.md", "x.md", "--dry-run"]),
        ("people ls", []),
        ("graph", []),
        ("people alias", ["cli:anna", "Anna", "--dry-run"]),
        ("channel ls", []),
        ("channel show", ["cli"]),
        ("channel set", ["cli", "--name", "x"]),
        ("history ls", []),
        ("history show", []),
        ("history edit", ["1", "hey"]),
        ("history withdraw", ["1"]),
        ("history restore", ["1"]),
        ("history search", ["hi"]),
        ("history stats", []),
        ("history export", []),
        ("config show", []),
        ("config show", ["llm.preset"]),
        ("config get", ["llm.preset"]),
        ("config set", ["name", "b"]),
        ("config path", []),
    ],
)
def test_every_command_prints_one_envelope_on_one_line(root, command, arguments) -> None:
    memories = str(pages.ROOT / "examples" / "memories")
    given = [memories if word == "MEMORIES" else word for word in arguments]
    result = run(*command.split(), *given, "--json")
    printed = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    assert set(printed) == ENVELOPE
    assert (printed["familiar"], printed["command"]) == (1, command)
    assert (printed["status"], printed["errors"], result.exit_code) == ("ok", [], 0)


def test_the_page_names_the_keys_of_every_command() -> None:
    told = set()
    page = (pages.ROOT / "docs/reference/json-and-exit-codes.md").read_text("utf-8")
    for row in re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE):
        names = [name.split(" --")[0] for name in re.findall("`([^`]+)`", row)]
        nouns = {name.rpartition(" ")[0] for name in names}
        told |= {*names, *(f"{noun} {name}" for noun in nouns for name in names)}
    assert [leaf for leaf in map(" ".join, LEAVES) if leaf not in told] == []


def test_a_command_is_called_the_same_however_python_started_it(root) -> None:
    assert json.loads(spawn("list", "--json").stdout)["command"] == "list"


@pytest.mark.parametrize(
    ("argv", "code", "exit_code"),
    [
        (["config", "get", "llm.prset"], "configuration", 3),
        (["context", "99"], "not_found", 4),
        (["use", "bob"], "not_found", 4),
        (["context", "1", "--last"], "usage", 2),
        (["config", "set", "name"], "usage", 2),
    ],
)
def test_a_failure_prints_the_same_envelope(root, argv, code, exit_code) -> None:
    result = run(*argv, "--json")
    printed = json.loads(result.stdout)
    assert set(printed) == ENVELOPE
    assert (printed["status"], printed["data"], result.exit_code) == ("error", {}, exit_code)
    (error,) = printed["errors"]
    assert set(error) == {"code", "message", "hint"}
    assert error["code"] == code
    assert error["message"]


def test_status(root) -> None:
    found = data("status")
    wanted = {
        "familiar",
        "memory_files",
        "turns",
        "unsummarised_turns",
        "unindexed_files",
        "last_turn",
        "written",
        "failures",
        "summary",
        "language",
        "language_is_set",
    }
    assert set(found) >= wanted
    assert set(found["audience"]) == {"is_room_open", "notes", "withheld"}
    assert set(found["written"]) == {"last_turn", "at"}
    assert set(found["summary"]) >= {"last_turn", "behind", "cut", "failed", "failed_at", "private"}
    assert set(found["last_turn"]) >= {"id", "at", "channel", "role", "author", "partial"}


def test_context(root) -> None:
    found = data("context", "--last")
    keys = {"turn", "layers", "contributions", "providers", "messages", "model", "usage"}
    assert set(found) >= keys
    assert set(found["layers"][0]) >= {"name", "budget_tokens", "used_tokens"}
    assert set(found["contributions"][0]) >= {
        "layer",
        "priority",
        "source",
        "rel_path",
        "tokens",
        "kept",
        "reason",
    }
    assert set(found["providers"][0]) >= {"name", "verdict", "elapsed_ms"}
    assert set(found["messages"][0]) == {"role", "content"}


def test_doctor(root) -> None:
    for check in data("doctor")["checks"]:
        assert set(check) == {"name", "verdict", "detail", "mend"}
        assert check["verdict"] in {"ok", "warn", "fail"}


def test_list(root) -> None:
    found = data("list")
    assert set(found) >= {"home", "familiars"}
    assert set(found["familiars"][0]) >= {"id", "name", "turns", "memory_files", "chosen"}


def test_people(root) -> None:
    done = data("people", "alias", "cli:anna", "Anna")
    assert set(done) >= {"slug", "rel_path", "name", "changed", "diff", "collisions", "notices"}
    found = data("people", "ls")
    assert set(found) >= {"people", "collisions"}
    keys = {"slug", "name", "aliases", "turns", "last_seen", "size_bytes"}
    assert set(found["people"][0]) >= keys
    shown = data("people", "show", "anna")
    assert set(shown) >= {"slug", "rel_path", "text", "sha256", "names", "collisions"}
    exported = data("people", "export", "anna", str(root / "for-anna"))
    keys = {"directory", "turns", "replies", "pictures", "lines", "files", "remaining", "shared"}
    assert set(exported) == keys


def test_channels(root) -> None:
    keys = {"id", "label", "kind", "mode", "private", "turns", "last_at", "subscribed", "problem"}
    keys |= {"withdrawn", "parent", "parent_turn"}
    assert set(data("channel", "ls")["channels"][0]) >= keys
    shown = data("channel", "show", "cli")
    assert set(shown) >= {*keys, "path", "budget", "settings"}
    assert set(shown["budget"]) >= {"total", "layers"}
    assert set(shown["settings"][0]) >= {"key", "value", "source"}
    done = data("channel", "set", "cli", "--name", "x")
    assert set(done) >= {"channel", "changed", "diff", "subscribed"}
    turn = str(data("history", "show")["turns"][0]["turn"])
    made = data("channel", "branch", "b", "--from", turn)
    assert set(made) == {"channel", "parent", "parent_turn", "private", "changed"}


def test_config(root) -> None:
    keys = {"key", "value", "source", "default", "allowed", "meaning"}
    assert set(data("config", "get", "llm.preset")) >= keys
    assert set(data("config", "show")["settings"][0]) >= keys
    assert set(data("config", "set", "name", "b")) >= {"key", "path", "changed", "diff"}
    assert set(data("config", "path")) >= {"path", "exists"}


def test_the_memorys_past(root) -> None:
    data("memory", "append", "notes.md", "y")
    (newest, *_) = data("memory", "log")["commits"]
    keys = {"id", "time", "source", "message", "run_id"}
    assert set(newest) >= {*keys, "paths", "touched"}
    assert set(newest["touched"][0]) == {"kind", "rel_path"}
    shown = data("memory", "show", newest["id"][:8])
    assert set(shown) >= {*keys, "paths", "touched", "files"}
    assert set(shown["files"][0]) == {"rel_path", "kind", "diff"}
    assert set(data("memory", "diff")) >= {"from", "to", "files"}
    (line, *_) = data("memory", "blame", "notes.md")["lines"]
    assert (set(line), set(line["commit"])) == ({"line", "text", "commit", "turns"}, keys)
    changed = {"commit", "written", "unchanged", "deleted", "dry_run"}
    assert set(data("memory", "undo")) >= changed
    assert set(data("memory", "restore", "notes.md", "--at", newest["id"])) >= changed
    packed = {"objects", "bytes_before", "bytes_after", "dry_run"}
    assert set(data("memory", "compact", "--dry-run")) >= packed


def test_history(root) -> None:
    turn = {"turn", "channel", "role", "author", "at", "content", "source", "partial", "hidden"}
    turn |= {"reply_to", "message_id", "id"}
    heard = {"turn", "id", "channel", "at", "is_new", "notices"}
    assert set(data("hear", "Hi", "--id", "1")) == heard
    assert set(data("history", "ls")["channels"][0]) >= {"channel", "turns", "first_at", "last_at"}
    assert set(data("history", "show")["turns"][0]) >= turn | {"origin"}
    assert set(data("history", "search", "hi")["hits"][0]) >= turn | {"score", "marks", "around"}
    assert set(data("history", "stats")) >= {"turns", "tokens", "channels", "authors", "months"}
    assert set(data("history", "export")) >= {"format", "lines", "text"}


def test_import_chat(root, tmp_path) -> None:
    chat = tmp_path / "c.jsonl"
    chat.write_text('{"role": "user", "content": "Hi"}\n[]\n', "utf-8")
    found = data("import-chat", str(chat), code=7)
    assert set(found) >= {"imported", "already_there", "skipped", "channel", "chats", "files"}
    assert set(found["skipped"][0]) == {"line", "reason"}


def test_import_sillytavern(root) -> None:
    found = data("import-sillytavern", str(pages.ROOT / "examples" / "sillytavern"), "--dry-run")
    assert set(found) == {"folder", "familiars", "files", "dry_run"}
    keys = {
        "id",
        "name",
        "character",
        "outcome",
        "turns",
        "already_there",
        "channels",
        "memories",
        "warnings",
    }
    assert set(found["familiars"][0]) == keys
    assert {"path", "kind", "outcome", "reason", "familiars"} <= set(found["files"][0])


def test_consolidate(root) -> None:
    (root / "memory" / "sessions").mkdir()
    for day in ("2024-04-08", "2024-04-09"):
        session = root / "memory" / "sessions" / f"{day}-evening.md"
        session.write_text("# x\n\n## Highlights\n\n- Tea.\n", "utf-8")
    found = data("consolidate", "--dry-run")
    assert set(found) >= {"done", "waiting", "stale", "coverage"}
    assert set(found["done"][0]) >= {"period", "rel_path", "sources"}
    assert set(found["coverage"]) == {"daily", "weekly", "monthly", "yearly"}
    assert set(found["coverage"]["daily"]) >= {"days", "of", "missing", "rests_on"}
    assert set(data("consolidate")["waiting"][0]) >= {"period", "reason"}

    made = data("distill", "short")
    assert set(made) >= {"name", "rel_path", "outcome", "tokens", "sources", "plan_id", "dry_run"}
    keys = {"name", "tokens", "budget_tokens", "made_at", "input_hash", "due", "rejected"}
    tiers = data("distill", "status")["tiers"]
    assert [tier["name"] for tier in tiers] == ["short", "mid", "long"]
    assert all(set(tier) >= keys for tier in tiers)


def test_remember() -> None:
    live("ada")
    assert set(data("remember", "The sea.")) >= {"rel_path", "title", "date", "written"}


def test_housekeep(root) -> None:
    (root / "memory" / "topics").mkdir()
    (root / "memory" / "topics" / "sea.md").write_text("# Sea\n\n[gone](boat.md)\n", "utf-8")
    found = data("housekeep", "--propose")
    assert set(found) >= {"findings", "checks", "files", "proposed", "skipped"}
    for finding in found["findings"]:
        assert set(finding) >= {"check", "paths", "evidence", "plan_id"}
        assert finding["paths"]
        assert set(finding["evidence"][0]) >= {"rel_path", "line", "text"}
    assert found["findings"]


ACCOUNT = {
    "in_every_prompt",
    "found_when_it_fits",
    "written",
    "unchanged",
    "overwritten",
    "edited",
    "deleted",
    "removed",
    "kept_unmapped",
    "left_out",
    "warnings",
}


def test_what_was_brought_in() -> None:
    familiar = {"id", "name", "path", "is_new", *ACCOUNT}
    ember = str(pages.ROOT / "examples" / "personas" / "noor" / "persona" / "ember")
    found = data("init", "--from-persona", ember)
    assert (set(found), found["dry_run"]) == ({"familiars", "dry_run"}, False)
    assert set(found["familiars"][0]) >= familiar
    assert set(data("init", "bo", "--template", "keeper")["familiars"][0]) >= familiar
    assert set(data("init", "cy", "--template", "companion")) >= {*familiar, "dry_run"}
    memories = str(pages.ROOT / "examples" / "memories")
    found = data("import-memories", memories, "--familiar", "ember")
    assert set(found) >= {"tiers", "dry_run", *ACCOUNT}
    assert set(found["tiers"]) == {"daily", "weekly", "monthly", "yearly", "significant"}


def test_the_desk(root, monkeypatch) -> None:
    item = {"number", "text", "mark", "due", "at", "is_due", "line"}
    for noun in ("remind", "task"):
        listed = data(noun, "ls")
        assert set(listed) >= {"rel_path", "items", "open", "due"}
        assert set(listed["items"][0]) >= item
        done = data(noun, "done", "1")
        assert set(done) >= {"rel_path", "item", "changed", "diff", "dry_run"}
        assert set(done["item"]) >= item
    assert set(data("scratch")) >= {"rel_path", "text"}
    monkeypatch.setenv("EDITOR", f'"{sys.executable}" -c pass')
    for words in (("add", "x"), ("edit",), ("clear",)):
        changed = {"rel_path", "text", "before", "changed", "diff", "dry_run"}
        assert set(data("scratch", *words)) >= changed


def test_sync(root, tmp_path) -> None:
    hub = bare_by_hand(tmp_path / "hub.git")
    assert set(data("sync", "remote", "add", "hub", str(hub))) == {"name", "address"}
    assert set(data("sync", "remote", "ls")["remotes"][0]) == {"name", "address"}
    counts = {"pulled", "pushed", "turns_in", "turns_out"}
    done = data("sync")
    assert set(done) >= {*counts, "conflicts", "refused", "notes", "remotes", "dry_run"}
    assert set(done["remotes"][0]) == {"name", "address", *counts, "error"}
    found = data("sync", "status")
    assert set(found) >= {"instance", "began", "remotes", "instances", "conflicts", "problem"}
    assert set(found["instances"][0]) == {"id", "is_own", "last_at", "behind", "forgotten"}
    assert data("sync", "resolve") == {"conflicts": []}
