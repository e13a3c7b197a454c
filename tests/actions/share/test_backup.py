"""Backups hold all of a familiar, restore it whole or not at all, and grow by what is new."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import closing
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from zoneinfo import ZoneInfo

import pytest

from benchmarks.backups import run as run_with_kills
from familiar_cli.actions.share.backup import (
    BackupTarget,
    Manifest,
    back_up,
    manifest_names,
    restore,
    verify_backups,
)
from familiar_cli.actions.talk.channels import hear
from familiar_cli.actions.talk.talk import take_turn
from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.base.errors import FamiliarError, RefusedError, RemoteDamagedError
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar
from familiar_cli.store.history import HistoryStore
from familiar_cli.sync.sealing import FileCipher
from tests.support.serving import serving, user
from tests.support.world import data, home, run
from tests.support.writing import ANNA, talked


def target(address: object, *recipients: str, key: str = "") -> BackupTarget:
    return BackupTarget(str(address), FileCipher(recipients, lambda: key))


@pytest.fixture
def ada() -> FamiliarPaths:
    root = talked(6)
    run("memory", "append", "topics/tea.md", "- Ada drinks green tea.")
    run("me", "--name", "Robin")
    return FamiliarPaths(root)


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def test_a_backup_from_the_future_counts_as_the_oldest() -> None:
    names = ["20260101T000000000000Z-a.manifest", "20380119T000000000000Z-b.manifest"]
    assert manifest_names(names) == names[::-1]


def test_what_is_restored_is_equal(ada, tmp_path) -> None:
    copy, new = str(tmp_path / "copy"), str(tmp_path / "new")
    assert run("backup", copy).exit_code == 0
    assert run("restore", copy, "--home", new, "--me").exit_code == 0

    history = ("history", "export", "--format", "jsonl")
    assert run(*history, "--home", new).stdout == run(*history).stdout != ""
    wanted = {k: v for k, v in contents(ada.memory).items() if not k.startswith(".index/")}
    assert contents(Path(new, "ada", "memory")) == wanted
    for name in ("character.toml", "channels/cli.toml"):
        assert Path(new, "ada", name).read_bytes() == (ada.root / name).read_bytes()
    assert Path(new, "me.toml").read_bytes() == ada.me.read_bytes()
    assert run("memory", "log", "--home", new).stdout == run("memory", "log").stdout
    assert run("memory", "append", "notes.md", "- more", "--home", new).exit_code == 0


def test_only_what_is_new_is_written_and_old_backups_can_be_removed(ada, tmp_path) -> None:
    place = target(tmp_path / "copy")
    first, second = back_up(ada, place), back_up(ada, place)
    assert first.written_bytes > 0 == second.written_bytes
    run("memory", "append", "topics/tea.md", "- and oolong")
    third = back_up(ada, place, keep=2)
    assert third.removed == (first.name,)
    assert 0 < third.written_bytes < first.written_bytes
    assert verify_backups(place).whole == [f"ada/{second.name}", f"ada/{third.name}"]
    restore(place, tmp_path / "new", "ada", backup=second.name)
    assert "oolong" not in (tmp_path / "new/ada/memory/topics/tea.md").read_text("utf-8")


def test_an_encrypted_backup_shows_nothing_and_needs_its_identity(ada, tmp_path) -> None:
    pyrage = pytest.importorskip("pyrage")
    identity, other = (pyrage.x25519.Identity.generate() for _ in range(2))
    copy = str(tmp_path / "copy")
    for name, one in (("key", identity), ("other", other)):
        (tmp_path / name).write_text(f"{one}\n", "utf-8")
        (tmp_path / name).chmod(0o600)
    assert run("backup", copy, "--recipient", str(identity.to_public())).exit_code == 0
    assert all(b"green tea" not in content for content in contents(tmp_path / "copy").values())
    assert all(name.endswith(".age") for name in contents(tmp_path / "copy"))

    for argv in ([], ["--identity", str(tmp_path / "other")]):
        refused = run("restore", copy, "--home", str(tmp_path / "new"), *argv)
        assert refused.exit_code == 1
        assert not (tmp_path / "new/ada").exists()
    key = ["--identity", str(tmp_path / "key")]
    assert run("backup", "verify", copy, *key).exit_code == 0
    assert run("restore", copy, "--home", str(tmp_path / "new"), *key).exit_code == 0
    assert "green tea" in (tmp_path / "new/ada/memory/topics/tea.md").read_text("utf-8")


def test_damage_is_found_and_nothing_of_it_is_restored(ada, tmp_path) -> None:
    place = target(tmp_path / "copy")
    made = back_up(ada, place)
    (pack,) = (tmp_path / "copy/ada").glob("*.pack")
    content = bytearray(pack.read_bytes())
    content[len(content) // 2] ^= 1
    pack.write_bytes(content)

    found = run("backup", "verify", str(tmp_path / "copy"))
    assert (found.exit_code, f"damaged  ada/{made.name}" in found.stdout) == (7, True)
    with pytest.raises(RemoteDamagedError):
        restore(place, tmp_path / "new", "ada")
    assert list((tmp_path / "new").iterdir()) == []

    run("init", "bea", "--template", "companion")
    run("backup", str(tmp_path / "copy"), "--familiar", "bea")
    restored = data("restore", str(tmp_path / "copy"), "--home", str(tmp_path / "json"), code=7)
    assert [one["familiar"] for one in restored["restored"]] == ["bea"]
    result = run("restore", str(tmp_path / "copy"), "--home", str(tmp_path / "new"))
    assert (result.exit_code, "Restored bea" in result.stdout) == (7, True)
    assert "error: ada: " in result.stderr


def test_damage_of_an_older_version_of_a_file_leaves_newer_backups_whole(ada, tmp_path) -> None:
    place = target(tmp_path / "copy")
    first = back_up(ada, place)
    run("memory", "append", "topics/tea.md", "- and oolong")
    second, third = back_up(ada, place), back_up(ada, place)
    (path,) = (tmp_path / "copy/ada").glob(f"{first.name}*.manifest")
    files = {file.path: file for file in Manifest.from_bytes(path.read_bytes()).files}
    (piece,) = files["memory/topics/tea.md"].pieces
    pack = tmp_path / "copy/ada" / piece.pack
    content = bytearray(pack.read_bytes())
    content[piece.start + piece.length // 2] ^= 1
    pack.write_bytes(content)
    next((tmp_path / "copy/ada").glob(f"{third.name}*.manifest")).write_bytes(b"")

    found = data("backup", "verify", str(tmp_path / "copy"), code=7)
    assert (found["whole"], list(found["problems"])) == (
        [f"ada/{second.name}"],
        [f"ada/{first.name}", f"ada/{third.name}"],
    )
    assert found["files"] == {f"ada/{first.name}": ["memory/topics/tea.md"]}
    listed = data("backup", "list", str(tmp_path / "copy"))["backups"]
    assert [bool(one["problem"]) for one in listed] == [False, False, True]
    assert restore(place, tmp_path / "new", "ada", backup=second.name).files == second.files


def test_a_backup_that_breaks_off_is_none(ada, tmp_path) -> None:
    class Full(BackupTarget):
        def write(self, familiar_id: str, name: str, content: bytes) -> str:
            if name.endswith(".manifest"):
                raise FamiliarError("The disk is full")
            return super().write(familiar_id, name, content)

    place = target(tmp_path / "copy")
    made = back_up(ada, place)
    run("memory", "append", "topics/tea.md", "- and oolong")
    with pytest.raises(FamiliarError, match="full"):
        back_up(ada, Full(str(tmp_path / "copy"), FileCipher((), str)))
    assert verify_backups(place).whole == [f"ada/{made.name}"]
    assert back_up(ada, place).written_bytes > 0


def test_what_is_said_meanwhile_is_in_it_up_to_a_moment(ada, tmp_path) -> None:
    is_done = threading.Event()

    def talk() -> None:
        with closing(HistoryStore(ada.history)) as history:
            number = 0
            while not is_done.is_set():
                history.append("cli", "user", f"Said {number}", author=ANNA)
                number += 1

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        names = [back_up(ada, target(tmp_path / "copy")).name for _ in range(5)]
    finally:
        is_done.set()
        thread.join()
    with closing(HistoryStore(ada.history)) as history:
        whole = [(turn.id, turn.content) for turn in history.after(0, 100_000)]
    counts = []
    for name in names:
        restore(target(tmp_path / "copy"), tmp_path / name, "ada", backup=name)
        with closing(HistoryStore(tmp_path / name / "ada/history.db")) as history:
            kept = [(turn.id, turn.content) for turn in history.after(0, 100_000)]
        assert kept == whole[: len(kept)]
        counts.append(len(kept))
    assert counts == sorted(counts)


def test_an_address_of_fsspec_is_a_place_too(ada, tmp_path) -> None:
    place = target("memory://familiars")
    made = back_up(ada, place)
    assert verify_backups(target("memory://familiars")).whole == [f"ada/{made.name}"]
    assert restore(place, tmp_path, "ada").files == made.files


@pytest.fixture
def s3(monkeypatch) -> str:
    """A server on loopback that speaks S3, with an empty bucket; return the bucket's address."""
    servers = pytest.importorskip("moto.server", reason="moto is not installed")
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    server = servers.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    s3fs.S3FileSystem.clear_instance_cache()
    bucket = f"copies-{token_hex(4)}"  # what moto holds outlives its server
    s3fs.S3FileSystem().mkdir(bucket)
    yield f"s3://{bucket}/familiars"
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_bucket_of_s3_holds_backups(ada, s3, tmp_path) -> None:
    first = back_up(ada, target(s3))
    run("memory", "append", "topics/tea.md", "- and oolong")
    assert run("backup", s3, "--keep", "1").exit_code == 0
    (second,) = data("backup", "ls", s3)["backups"]
    assert second["backup"] != first.name
    assert run("backup", "verify", s3).stdout == f"whole    ada/{second['backup']}\n"
    assert run("restore", s3, "--home", str(tmp_path / "new")).exit_code == 0
    export = ("history", "export", "--format", "jsonl")
    assert run(*export, "--home", str(tmp_path / "new")).stdout == run(*export).stdout != ""
    assert "oolong" in (tmp_path / "new/ada/memory/topics/tea.md").read_text("utf-8")


def test_a_bucket_that_is_not_there_is_one_clear_error(ada, s3) -> None:
    refused = run("backup", "s3://missing/familiars")
    assert refused.exit_code == 1
    assert "no backup was finished" in refused.stderr


def test_backups_beside_killed_ones_restore_with_equal_turns(tmp_path) -> None:
    found = run_with_kills(6, tmp_path)
    assert (found["killed"], found["restored"]) == (3, 3)
    assert found["lost"] == found["differing"] == found["damaged"] == 0


def test_a_moved_familiar_answers_in_one_place_only(ada, serve, tmp_path) -> None:
    serve("Hello.")
    copy, new, occupied = str(tmp_path / "copy"), str(tmp_path / "new"), tmp_path / "full"
    occupied.mkdir()
    (occupied / ada.id).write_text("not a directory", "utf-8")
    assert run("backup", str(occupied), "--move", "nowhere").exit_code == 1
    with serving() as server, Familiar(ada) as session:
        assert server.post(messages=[user("Before")]).status_code == 200
        assert run("backup", copy, "--move", "two.example").exit_code == 0
        refused = server.post(messages=[user("After")])
        assert refused.status_code == 409
        assert "'ada' was moved to two.example" in refused.json()["error"]["message"]
        with pytest.raises(RefusedError, match=r"two\.example"):
            asyncio.run(take_turn(session, Said("After", None, "cli")))
        with pytest.raises(RefusedError, match=r"two\.example"):
            hear(session, Said("After", None, "cli"))
        with pytest.raises(RefusedError, match=r"two\.example"):
            session.memory.write_file("topics/after.md", "# After\n")
    for argv in (["ask", "After"], ["sync"], ["backup", copy, "--move", "three.example"]):
        result = run(*argv)
        assert (result.exit_code, "two.example" in result.stderr) == (5, True)
    assert run("restore", copy, "--home", new).exit_code == 0
    assert run("ask", "Later", "--home", new).exit_code == 0
    turns = run("history", "export", "--format", "jsonl", "--home", new).stdout
    assert ["Before" in turns, "After" in turns, "Later" in turns] == [True, False, True]


def test_what_cannot_be_is_one_clear_error(ada, tmp_path) -> None:
    copy = str(tmp_path / "copy")
    assert run("backup", copy).exit_code == 0
    a_file = tmp_path / "copy.zip"
    a_file.write_bytes(b"PK")
    refused = {
        ("backup", str(ada.root / "here")): 2,
        ("backup", "nosuch://x"): 2,
        ("backup", "verify"): 2,
        ("backup", copy, "more"): 2,
        ("backup", str(a_file)): 2,
        ("restore", str(a_file), "--home", str(tmp_path / "new")): 2,
        ("restore", str(a_file / "below"), "--home", str(tmp_path / "new")): 2,
        ("restore", str(tmp_path / "nothing"), "--home", str(tmp_path / "new")): 4,
        ("backup", "verify", str(tmp_path / "nothing")): 4,
        ("backup", "list", str(tmp_path / "nothing")): 4,
        ("restore", copy): 5,
        ("restore", copy, "bo", "--home", str(tmp_path / "new")): 4,
        ("restore", copy, "--backup", "19990101T000000Z", "--home", str(tmp_path / "new")): 4,
    }
    assert {argv: run(*argv).exit_code for argv in refused} == refused
    (listed,) = data("backup", "list", copy)["backups"]
    run("config", "set", "timezone", "Asia/Tokyo")
    there = datetime.fromisoformat(listed["at"]).astimezone(ZoneInfo("Asia/Tokyo"))
    assert run("backup", "list", copy).stdout.endswith(f"  {there:%Y-%m-%d %H:%M}\n")
    assert home().is_dir()
