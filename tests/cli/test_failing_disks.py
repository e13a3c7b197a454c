"""A disk that is full or read-only gives one clear error, and every old file is as it was."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from familiar_cli.base.errors import ConfigError
from tests.support.cards import as_json, v3
from tests.support.cases import IS_NIGHT, each
from tests.support.lorebooks import book_entry
from tests.support.remotes import bare_by_hand
from tests.support.server import ChatServer, Say
from tests.support.world import run, spawn

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.geteuid() != 0, reason="needs root on Linux"
)
OURS = {".lock", ".lock.holder", ".character.toml.lock", ".forgetting.lock", ".gitignore"}
BOOK = {"entries": [book_entry("Square", "Pigeons.")]}
WRITES = {
    "memory write": ("memory", "write", "notes.md", "x" * 200_000),
    "memory append": ("memory", "append", "self/description.md", "x" * 200_000),
    "memory mv": ("memory", "mv", "self/description.md", "moved/description.md"),
    "init": ("init", "bea", "--from-card", "CARD"),
    "init --overwrite": ("init", "ada", "--from-card", "OTHER", "--overwrite"),
    "config set": ("config", "set", "name", "x" * 100_000),
    "ask": ("ask", "Hello " * 30_000),
    "card export": ("card", "export", "--out", "DISK/card.png", "--force"),
    "card export --format": ("card", "export", "--format", "json", "--out", "DISK/new.json"),
    "export-lorebook": ("export-lorebook", "--out", "DISK/book.json", "--force"),
    "import-lorebook": ("import-lorebook", "OTHER", "--into", "lore/other"),
    "use": ("use", "ada"),
    "people forget": ("people", "forget", "Nela", "--yes"),
}


@pytest.fixture(scope="module")
def cards(tmp_path_factory):
    place = tmp_path_factory.mktemp("cards")
    (place / "card.json").write_bytes(as_json(v3(character_book=BOOK)))
    big = BOOK["entries"] * 30
    other = v3(description="other " * 20_000, character_book={"entries": big})
    (place / "other.json").write_bytes(as_json(other))
    return place


@pytest.fixture(scope="module")
def mounted(tmp_path_factory):
    """A disk of its own, of two megabytes."""
    disk = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount a disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def make_read_only(disk) -> None:
    """Let nothing be written; a disk is busy while a file that was written to is still open."""
    argv = ["mount", "-o", "remount,ro", str(disk)]
    for _ in range(100):
        gc.collect()
        if not subprocess.run(argv, capture_output=True, check=False).returncode:
            return
        time.sleep(0.2)
    entries = [entry for entry in Path("/proc/self/fd").iterdir() if entry.exists()]
    open_files = [str(entry.readlink()) for entry in entries]
    pytest.fail(f"busy: {[file for file in open_files if file.startswith(str(disk))]}")


@pytest.fixture
def disk(mounted, cards, monkeypatch):
    """The disk with a familiar on it, and the results of earlier exports."""
    gc.collect()  # a file that is deleted and still open takes its space
    for entry in mounted.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    monkeypatch.setenv("FAMILIAR_HOME", str(mounted / "home"))
    assert run("init", "ada", "--from-card", str(cards / "card.json")).exit_code == 0
    (mounted / "card.png").write_bytes(b"an earlier export")
    (mounted / "book.json").write_bytes(b"an earlier export")
    with ChatServer([Say("Hi.")]) as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        monkeypatch.setenv("FAMILIAR_LLM_MODEL", "m")
        assert run("ask", "Hello", "--as", "discord:7", "--name", "Nela").exit_code == 0
        yield mounted


def contents(disk) -> dict[str, bytes]:
    """Return what the user's files hold; of the journal, where its branch stands."""
    found = {}
    for path in sorted(disk.rglob("*")):
        if "journal.git" in path.parts and "refs" not in path.parts:
            continue
        if (
            path.is_file()
            and path.name not in OURS
            and not path.name.endswith(("history.db", "-shm", "-wal"))
        ):
            found[str(path.relative_to(disk))] = path.read_bytes()
    return found


def fill(disk) -> None:
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"\0" * 4096)
        except OSError:
            return


def words(name, disk, cards) -> list[str]:
    places = {"CARD": str(cards / "card.json"), "OTHER": str(cards / "other.json")}
    return [places.get(word, word.replace("DISK", str(disk))) for word in WRITES[name]]


def is_one_clear_error(result) -> bool:
    lines = result.stderr.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    return len(errors) == 1 and "Traceback" not in result.output


@pytest.mark.parametrize("name", WRITES)
def test_a_full_disk(name, disk, cards) -> None:
    fill(disk)
    before = contents(disk)
    result = run(*words(name, disk, cards))
    if result.exit_code == 0:  # it needed no room at all
        return
    assert is_one_clear_error(result), (result.output, result.exception)
    assert "ermissions" not in result.stderr
    assert result.exit_code != ConfigError.exit_code
    assert contents(disk) == before
    (disk / "filler").unlink()
    assert run("status").exit_code == 0


@each("name", WRITES)
def test_a_read_only_disk(name, disk, cards) -> None:
    make_read_only(disk)
    try:
        before = contents(disk)
        result = run(*words(name, disk, cards))
        assert result.exit_code != 0
        assert is_one_clear_error(result), (result.output, result.exception)
        assert "ermissions" not in result.stderr
        assert result.exit_code != ConfigError.exit_code
        assert contents(disk) == before
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


READS = (
    ("list",),
    ("status",),
    ("memory", "ls"),
    ("memory", "cat", "self/description.md"),
    ("memory", "grep", "e"),
    ("config", "show"),
    ("card", "export", "--format", "json"),
    ("export-lorebook",),
    ("history", "show"),
    ("backup", "COPY"),
    ("context",),
    ("ask", "Hello", "--dry-run"),
    ("memory", "write", "notes.md", "x", "--dry-run"),
    ("doctor",),
    ("search", "Hello"),
    ("history", "search", "Hello"),
    ("graph", "Nela"),
)


@each("argv", READS, ids=" ".join)
def test_what_only_reads_works_on_a_read_only_disk(argv, disk, tmp_path) -> None:
    make_read_only(disk)
    try:
        result = run(*(word.replace("COPY", str(tmp_path / "copy")) for word in argv))
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert result.exit_code in ({0, 7} if argv[0] == "doctor" else {0}), result.output
    assert "is damaged" not in result.stderr
    assert "Checks failed" not in result.stderr or "history" not in result.stderr
    assert isinstance(result.exception, SystemExit | None)


def test_a_home_on_a_full_disk_is_shown_and_backed_up(disk, tmp_path) -> None:
    fill(disk)
    assert "Hello" in run("history", "show").stdout
    assert "Hello" in run("search", "hello").stdout
    assert "Hello" in run("history", "search", "hello").stdout
    assert run("backup", str(tmp_path / "copy")).exit_code == 0
    assert run("restore", str(tmp_path / "copy"), "--home", str(tmp_path / "new")).exit_code == 0
    assert "Hello" in run("history", "show", "--home", str(tmp_path / "new")).stdout


KEY = "AGE-SECRET-KEY-1Y3QF9AXR4F4Q2RST8MDJRSA233A4A6KAR4LHZR69AN9CHEJDKFRQXW85ER"
LARGE = {
    f"memory/topics/large{n}.md": "".join(
        f"- {Random(n * 90 + i).randbytes(990).hex()}\n" for i in range(90)
    )
    for n in range(3)
}


@pytest.fixture(params=["git", "age"])
def shared(request, tmp_path):
    """A familiar on a disk of its own, and what is new at its remote, which is elsewhere."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(mounted)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount a disk")
    settings: list[tuple[str, ...]] = []
    address = str(bare_by_hand(tmp_path / "hub.git"))
    if request.param == "age":
        pyrage = pytest.importorskip("pyrage")
        (tmp_path / "key").write_text(f"{KEY}\n")
        (tmp_path / "key").chmod(0o600)
        (tmp_path / "stick").mkdir()
        address = f"dir:{tmp_path / 'stick'}"
        recipient = str(pyrage.x25519.Identity.from_str(KEY).to_public())
        settings = [("encrypt", recipient), ("key_file", str(tmp_path / "key"))]
    first, second = tmp_path / "first", mounted / "home"

    def at(home, *argv: str):
        return run("--home", str(home), *argv)

    at(first, "init", "ada", "--template", "companion")
    for name, value in settings:
        at(first, "config", "set", f"sync.{name}", value)
    at(first, "sync", "remote", "add", "hub", address)
    assert at(first, "sync").exit_code == 0
    key_file = {"FAMILIAR_SYNC_KEY_FILE": str(tmp_path / "key")} if settings else {}
    assert spawn("--home", str(second), "init", "ada", "--from-remote", address, **key_file)
    for name, value in settings:
        at(second, "config", "set", f"sync.{name}", value)
    assert at(second, "sync").exit_code == 0
    for path, text in LARGE.items():
        (first / "ada" / path).parent.mkdir(exist_ok=True)
        (first / "ada" / path).write_text(text)
    at(first, "hear", "x" * 50_000, "--channel", "public")
    assert at(first, "sync").exit_code == 0
    yield mounted, lambda: at(second, "sync")
    subprocess.run(["umount", "-l", str(mounted)], check=True)


ROOMS_BYTES = (40_000, 300_000, 700_000, 1_100_000, 1_500_000, 2_000_000)


def test_a_full_disk_is_ours_and_not_the_remotes(shared) -> None:
    disk, sync = shared
    before = contents(disk)
    kept = [path for path in before if path.startswith("home/ada/memory/")]
    too_small = []
    for room_bytes in ROOMS_BYTES[:: 1 if IS_NIGHT else 3]:
        fill(disk)
        with (disk / "filler").open("r+b") as filler:
            filler.truncate(max(0, filler.seek(0, os.SEEK_END) - room_bytes))
        done = sync()
        (disk / "filler").unlink()
        gc.collect()
        if done.exit_code:
            too_small.append(room_bytes)
            assert is_one_clear_error(done), done.output
            assert done.exit_code == 1
            assert any(why in done.stderr for why in ("No space left", "is full", "disk I/O"))
            assert str(disk) in done.stderr or "topics/large" in done.stderr
            assert re.search("free (some|disk) space", done.stderr, re.IGNORECASE)
            assert "remote" not in done.stderr.lower()
            assert "skipped" not in done.stderr
            now = contents(disk)
            assert [path for path in kept if now.get(path) != before[path]] == []
    assert too_small
    done = sync()
    assert done.exit_code == 0, done.output
    files = disk / "home" / "ada"
    assert {path: (files / path).read_text() for path in LARGE} == LARGE
