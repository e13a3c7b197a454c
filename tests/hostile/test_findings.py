"""What the hostile cases have found, each as a test of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from familiar_cli.base.errors import BadInputError, FileTooLargeError
from familiar_cli.imports.export_card import export_card
from familiar_cli.imports.export_lorebook import export_book
from familiar_cli.imports.import_lorebook import import_lorebook
from familiar_cli.imports.reading import read_book
from familiar_cli.llm.reply import ServerEvent, StreamedReply
from familiar_cli.store.memory.store.files import MAX_READ_BYTES
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.cards import as_json, v2
from tests.support.lorebooks import INTO, lore, world
from tests.support.processes import run_process
from tests.support.world import live, run

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev/full")


@pytest.fixture
def store(tmp_path) -> MemoryStore:
    return MemoryStore(tmp_path / "memory")


def test_a_cost_beyond_every_number_is_passed_over() -> None:
    reply = StreamedReply()
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "cost": 10**400}
    value = {"choices": [{"delta": {"content": "Hi"}}], "usage": usage}
    reply.take(ServerEvent(json.dumps(value), value))
    assert reply.finished("m").usage.cost is None


class TestAFileOfGigabytes:
    @pytest.fixture(autouse=True)
    def _huge(self, store) -> None:
        store.write_file("plain.md", "needle")
        with (store.root / "huge.md").open("wb") as file:
            file.truncate(MAX_READ_BYTES + 1)

    def test_is_not_read(self, store) -> None:
        for read in (store.read, store.read_bytes, store.sha256):
            with pytest.raises(FileTooLargeError, match=r"'huge\.md' has 268,435,457 bytes"):
                read("huge.md")

    def test_is_named_by_a_search_that_goes_on(self, store) -> None:
        found = store.search("needle")
        assert [hit.rel_path for hit in found.hits] == ["plain.md"]
        assert [(s.rel_path, "are not read" in s.reason) for s in found.skipped] == [
            ("huge.md", True)
        ]

    def test_is_not_overwritten_unseen(self, store) -> None:
        with pytest.raises(FileTooLargeError):
            store.write_file("huge.md", "small")
        assert (store.root / "huge.md").stat().st_size == MAX_READ_BYTES + 1


ENTRY_DAMAGE = [
    ("raw", "a text"),
    ("raw", {"key": 5}),
    ("raw", {"key": [1]}),
    ("raw", {"key": [], "probability": float("nan")}),
    ("place", "first"),
    ("path", None),
    ("shape", "other"),
    ("book", []),
]


@pytest.mark.parametrize(("name", "value"), ENTRY_DAMAGE)
def test_kept_settings_of_a_wrong_kind_are_one_clear_error(store, name, value) -> None:
    import_lorebook(store, read_book(world(lore("Castle")), origin="w.json"), into=INTO)
    place = store.root / INTO / ".lorebook.json"
    kept = json.loads(place.read_bytes())
    next(iter(kept["entries"].values()))[name] = value
    place.write_text(json.dumps(kept))
    with pytest.raises(BadInputError, match="is damaged"):
        export_book(store, book_format="v3")


@pytest.mark.parametrize(
    "kept",
    [
        b'{"data": {}, "repeated": {"name": {}}}',
        b'{"data": {"x": NaN}}',
        b'{"data": {"x": 1e999}}',
    ],
)
def test_a_kept_card_of_a_wrong_kind_is_one_clear_error(store, kept) -> None:
    store.write_file("self/card.json", kept)
    with pytest.raises(BadInputError, match=r"self/card\.json"):
        export_card(store, "json", default_name="x")


def test_a_card_as_deep_as_allowed_goes_out_again(tmp_path) -> None:
    deep: object = "x"
    for _ in range(125):
        deep = [deep]
    card = tmp_path / "deep.json"
    card.write_bytes(as_json(v2() | {"deep": deep}))
    assert run("init", "ada", "--from-card", str(card)).exit_code == 0
    out = json.loads(run("card", "export", "--format", "json").stdout)
    assert out["deep"] == deep


def command(*argv: str, **streams) -> subprocess.CompletedProcess[bytes]:
    return run_process([sys.executable, "-m", "familiar_cli", *argv], **streams)


@linux
@pytest.mark.parametrize("argv", [("list",), ("list", "--json"), ("--help",), ("memory", "ls")])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_stdout_is_one_clear_error(argv, unbuffered) -> None:
    live("ada", notes="x")
    with open("/dev/full", "wb") as full:
        env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = command(*argv, stdout=full, stderr=subprocess.PIPE, env=env)
    assert done.returncode == 1
    told = b"error: The answer could not be written: No space left on device\n"
    assert done.stderr == told


@linux
def test_errors_that_nobody_can_read_keep_their_exit_code() -> None:
    live("ada")
    with open("/dev/full", "wb") as full:
        assert command("memory", "cat", "nope", stderr=full).returncode == 4


@pytest.mark.skipif(sys.platform == "win32", reason="a shell closes the streams")
@pytest.mark.parametrize(("closed", "code"), [("<&-", 0), (">&-", 0), ("2>&-", 0)])
def test_a_closed_stream_stops_nothing(closed, code) -> None:
    root = live("ada")
    words = f"{sys.executable} -m familiar_cli memory append notes.md - {closed}"
    done = subprocess.run(
        ["sh", "-c", words], input=b"more", capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False)
    assert (root / "memory" / "notes.md").exists() or closed == "<&-"


def test_a_damaged_row_is_damage_wherever_it_is_read(tmp_path) -> None:
    import sqlite3

    from familiar_cli.store.history import HistoryStore
    from familiar_cli.store.history.rows import unpack

    store = HistoryStore(tmp_path / "history.db")
    store.append("cli", "user", "Hi")
    store.close()
    connection = sqlite3.connect(tmp_path / "history.db")
    connection.execute("DROP TRIGGER turns_are_never_changed")
    connection.execute("UPDATE turns SET at_ms = 'now'")
    connection.commit()
    connection.close()
    with pytest.raises(BadInputError, match=r"history\.db' is damaged .*a time is not a number"):
        store.last_turn()
    store.close()
    with pytest.raises(BadInputError, match="The history is damaged"):
        unpack(7)
