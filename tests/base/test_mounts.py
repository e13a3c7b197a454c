"""A home on a network file system is found in what the system says of its mounts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from familiar_cli.base import files
from familiar_cli.base.files import network_file_system
from tests.support.cases import each
from tests.support.world import home, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mountinfo is Linux's")
ROOT = "22 1 0:20 / / rw - ext4 /dev/sda1 rw"


@pytest.fixture
def mounted(tmp_path, monkeypatch):
    def write(*lines: str) -> None:
        (tmp_path / "mountinfo").write_text("\n".join((ROOT, *lines, "", "odd")), "utf-8")
        monkeypatch.setattr(files, "MOUNTINFO", tmp_path / "mountinfo")

    return write


@each("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "davfs", "ceph"])
def test_a_network_file_system_is_named(mounted, kind) -> None:
    mounted(f"36 22 0:32 / /srv/far rw shared:2 master:1 - {kind} server:/x rw")
    assert network_file_system(Path("/srv/far/homes/familiars")) == kind
    assert network_file_system(Path("/srv/farther")) == network_file_system(Path("/srv")) == ""


def test_the_innermost_and_topmost_mount_decides(mounted) -> None:
    mounted(
        "36 22 0:32 / /srv rw - nfs4 server:/x rw",
        "37 36 8:17 / /srv/disk rw - xfs /dev/sdb1 rw",
        r"38 22 0:33 / /media/my\040share rw - cifs //nas/share rw",
        "39 22 0:34 / /twice rw - nfs server:/y rw",
        "40 39 8:18 / /twice rw - ext4 /dev/sdc1 rw",
    )
    assert network_file_system(Path("/srv/disk/home")) == ""
    assert network_file_system(Path("/srv/other")) == "nfs4"
    assert network_file_system(Path("/media/my share/home")) == "cifs"
    assert network_file_system(Path("/twice/home")) == ""


def test_where_nothing_is_known_nothing_is_said(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(files, "MOUNTINFO", tmp_path / "missing")
    assert network_file_system(tmp_path) == ""


@each("argv", [("init", "ada", "--template", "companion"), ("daemon", "--once")])
def test_it_is_said_at_the_start(mounted, argv) -> None:
    run("init", "bo", "--template", "companion")
    mounted(f"36 22 0:32 / {home()} rw - nfs4 server:/x rw")
    started = run(*argv, "--familiar", "bo") if argv[0] == "daemon" else run(*argv)
    assert started.exit_code == 0
    assert "is on a network file system (nfs4)" in started.stderr
    assert "(nfs4)" in run("doctor").stdout
