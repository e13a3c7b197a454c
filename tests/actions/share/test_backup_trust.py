"""A backup from outside costs what it holds, and restores nothing that git would run."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from itertools import repeat

import pytest

from familiar_cli.actions.share import backup
from familiar_cli.actions.share.backup import BackedUpFile, BackupTarget, Manifest
from familiar_cli.base.config.home import FamiliarPaths, ensure_instance
from familiar_cli.base.errors import RemoteDamagedError
from familiar_cli.base.files import inflate
from familiar_cli.store.journal.repository import Repository
from familiar_cli.sync.sealing import FileCipher
from tests.support.world import home, own, run
from tests.support.writing import talked

OF_GIT = "[core]\n\tfsmonitor = touch /tmp/owned\n"


@pytest.fixture
def copy(tmp_path):
    """A backup of a familiar whose journal has settings of somebody else."""
    root = talked(4)
    ensure_instance(root / "instance.id")
    run("memory", "append", "topics/tea.md", "- Ada drinks green tea.")
    run("me", "--name", "Robin")
    (root / "journal.git" / "config").write_text(OF_GIT)
    hook = root / "journal.git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")
    (root / "journal.git" / "info" / "attributes").write_text("* filter=x\n")
    assert run("backup", str(tmp_path / "copy")).exit_code == 0
    return tmp_path / "copy"


def manifest_of(copy):
    (path,) = copy.glob("*/*.manifest")
    return path


def test_only_objects_and_refs_of_the_journal_are_restored(copy, tmp_path) -> None:
    new = tmp_path / "new"
    assert run("restore", str(copy), "--home", str(new)).exit_code == 0
    (root,) = (path for path in new.iterdir() if path.is_dir())
    assert "fsmonitor" not in (root / "journal.git" / "config").read_text()
    assert not (root / "journal.git" / "hooks").exists()
    assert sorted(p.name for p in (root / "journal.git" / "info").iterdir()) == ["exclude"]
    assert Repository(str(root / "journal.git")).head()
    assert run("memory", "log", "--home", str(new)).exit_code == 0


def test_who_the_owner_is_is_restored_only_on_request(copy, tmp_path) -> None:
    shown = run("restore", str(copy), "--home", str(tmp_path / "new"))
    assert "me.toml was left out" in shown.output
    assert not FamiliarPaths(tmp_path / "new" / "ada").me.exists()
    assert run("restore", str(copy), "--home", str(tmp_path / "other"), "--me").exit_code == 0
    assert FamiliarPaths(tmp_path / "other" / "ada").me.exists()


@pytest.mark.parametrize(
    ("head", "piece", "count", "why"),
    [
        (b"", b" " * 1000, 10**5, "unpacks to more than"),
        (b'{"format":1,"files":[', b"[]," * 1000, 10**5, "unpacks to more than"),
        (
            b'{"format":1,"familiar":"ada","at":"","files":[{"path":"","size":0,"sha256":"'
            + b"0" * 64
            + b'","pieces":[',
            b'{"pack":"a","start":0,"length":0,"sha256":""},',
            10**5,
            "is damaged",
        ),
    ],
    ids=["spaces", "files", "pieces"],
)
def test_a_manifest_bomb_is_one_error(copy, head, piece, count, why) -> None:
    pack = zlib.compressobj(1)
    packed = [pack.compress(part) for part in (head, *repeat(piece, count))]
    manifest_of(copy).write_bytes(b"".join([*packed, pack.flush()]))
    tracemalloc.start()
    shown = run("backup", "verify", str(copy))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert shown.exit_code != 0
    assert why in shown.output
    assert peak_bytes < 200 * 1024 * 1024


def test_a_piece_is_unpacked_to_its_size_at_most() -> None:
    with pytest.raises(ValueError, match="more than 10 bytes"):
        inflate(zlib.compress(b"x" * 11), 10)
    assert inflate(zlib.compress(b"x" * 10), 10) == b"x" * 10


@pytest.mark.parametrize("path", ["../out.txt", "a/../../out", "/etc/x", "a\\..\\b", "./a", "C:x"])
def test_a_file_outside_the_familiar_is_refused(copy, path, tmp_path) -> None:
    told = json.loads(zlib.decompress(manifest_of(copy).read_bytes()))
    told["files"][0]["path"] = path
    manifest_of(copy).write_bytes(zlib.compress(json.dumps(told).encode()))
    shown = run("restore", str(copy), "--home", str(tmp_path / "new"))
    assert shown.exit_code != 0
    assert "names a file outside" in shown.output
    assert not (tmp_path / "new" / "ada").exists()


def test_pieces_that_make_another_file_than_was_saved_are_not_restored(copy, tmp_path) -> None:
    told = json.loads(zlib.decompress(manifest_of(copy).read_bytes()))
    told["files"][0]["sha256"] = "0" * 64
    manifest_of(copy).write_bytes(zlib.compress(json.dumps(told).encode()))
    shown = run("restore", str(copy), "--home", str(tmp_path / "new"))
    assert (shown.exit_code != 0, "damaged" in shown.output) == (True, True)
    assert not (tmp_path / "new" / "ada").exists()


def test_a_manifest_names_nothing_outside_its_target(copy) -> None:
    odd = Manifest("../else", "2026-01-01", (BackedUpFile("a", 0, "0" * 64, ()),))
    with pytest.raises(RemoteDamagedError, match="not the name of a file"):
        Manifest.from_bytes(odd.to_bytes())
    target = BackupTarget(str(copy), FileCipher((), lambda: ""))
    assert target.familiars() == ["ada"]
    assert home().is_dir()


@pytest.mark.parametrize("step", ["_settle", "replace"])
def test_what_is_restored_appears_with_an_id_of_its_own_or_not_at_all(
    copy, step, tmp_path, monkeypatch
) -> None:
    def breaks(*_, **__) -> None:
        raise KeyboardInterrupt

    new = tmp_path / "new"
    with monkeypatch.context() as patch:
        if step == "replace":
            patch.setattr(backup.Path, "replace", breaks)
        else:
            patch.setattr(backup, step, breaks)
        patch.setattr(backup.shutil, "rmtree", lambda *_, **__: None)  # a kill tidies nothing up
        assert run("restore", str(copy), "--home", str(new)).exit_code == 130
    assert run("list", "--home", str(new)).stdout == ""
    monkeypatch.setattr("familiar_cli.base.config.home.is_alive", lambda _: False)
    assert run("restore", str(copy), "--home", str(new)).exit_code == 0
    assert own(new / "ada") != own(home() / "ada")
    assert [path.name for path in new.iterdir() if path.is_dir()] == ["ada"]


def test_a_move_that_is_cut_off_before_its_backup_leaves_the_familiar_as_it_was(
    copy, tmp_path, monkeypatch
) -> None:
    def is_killed(*_, **__) -> None:
        raise SystemExit(9)

    monkeypatch.setattr(backup, "remove", lambda _: None)  # a kill tidies nothing up
    target = str(tmp_path / "other")
    steps = {"_read_files": backup, "write": BackupTarget, "_retire": backup}
    for step, place in steps.items():
        with monkeypatch.context() as patch:
            patch.setattr(place, step, is_killed)
            assert run("backup", target, "--move", "two.example", "--keep", "1").exit_code == 9
        shown = run("status")
        assert (shown.exit_code == 0) is (step != "_retire"), step
        if step == "_retire":
            assert "delete 'moved.txt'" in shown.output
            assert "delete 'moved.txt'" in run("doctor").output
    assert backup.list_backups(BackupTarget(target, FileCipher((), lambda: "")))
