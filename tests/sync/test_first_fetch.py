"""A first clone: one connection, as little as git needs, and the same with or without git."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from familiar_cli.base.errors import RemoteDamagedError
from familiar_cli.store.journal import exchange as journal_exchange
from familiar_cli.store.journal import git_program
from familiar_cli.sync import begin
from tests.support import remotes
from tests.support.instances import Machine, adopt
from tests.support.remotes import HAS_GIT, bare, git, http_server

pytestmark = pytest.mark.skipif(not HAS_GIT, reason="there is no git program")


@pytest.fixture
def hub(tmp_path):
    return bare(tmp_path / "hub.git")


@pytest.fixture
def laptop(tmp_path, hub):
    machine = Machine(tmp_path / "laptop", "laptop")
    for number in range(20):
        machine.commit(f"change {number}", notes=f"- fact {number}\n" * 40)
    machine.sync(hub)
    desk = Machine(tmp_path / "desk", "desk", began=machine.instance.id)
    adopt(desk, hub)
    desk.commit("of the desk", topics__tea="# Tea\n\n- green\n")
    desk.sync(hub)
    desk.journal.repository.close()
    yield machine
    machine.journal.repository.close()


@pytest.fixture
def phone(tmp_path, laptop):
    machine = Machine(tmp_path / "phone", "phone", began=laptop.instance.id)
    yield machine
    machine.journal.repository.close()


def test_all_branches_come_over_one_connection(hub, phone, tmp_path, monkeypatch) -> None:
    connections, sent = [], []
    handle, write = remotes.ThreadingHTTPServer.process_request, remotes._Handler._serve

    def count(self, request, address):
        connections.append(address)
        handle(self, request, address)

    def weigh(self, body):
        sent.append(self.path)
        write(self, body)

    monkeypatch.setattr(remotes.ThreadingHTTPServer, "process_request", count)
    monkeypatch.setattr(remotes._Handler, "_serve", weigh)
    with http_server(tmp_path) as url:
        adopt(phone, f"{url}/hub.git")
    assert len(connections) == 1
    assert sum("git-upload-pack" in path for path in sent) <= 3
    assert phone.files()["topics/tea.md"] == "# Tea\n\n- green\n"


@pytest.mark.parametrize("program", [True, False], ids=["with git", "without git"])
def test_the_journal_is_the_same_with_and_without_git(
    hub, phone, tmp_path, monkeypatch, program
) -> None:
    packed(hub)
    with_git(monkeypatch, program=program)
    adopt(phone, hub)
    journal = tmp_path / "phone" / "journal.git"
    assert git(journal, "fsck", "--strict") == ""
    assert phone.files()["notes.md"] == "- fact 19\n" * 40
    phone.commit("of the phone", people__anna="# Anna\n")
    phone.sync(hub)
    assert git(hub, "log", "-1", "--format=%s", f"memory/{phone.instance.id}").strip()


@pytest.mark.parametrize("program", [True, False], ids=["with git", "without git"])
def test_a_pack_that_lacks_an_object_is_refused(hub, phone, tmp_path, monkeypatch, program) -> None:
    lost = git(hub, "rev-parse", "main:notes.md").strip()
    every = git(hub, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    left = "\n".join(one for one in every if one != lost)
    pack = hub / "objects" / "pack"
    made = subprocess.run(
        ["git", "-C", str(hub), "pack-objects", "-q", str(tmp_path / "pack")],
        input=left, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    for directory in (hub / "objects").iterdir():
        shutil.rmtree(directory)
    pack.mkdir()
    for suffix in ("pack", "idx"):
        shutil.move(tmp_path / f"pack-{made}.{suffix}", pack)
    with_git(monkeypatch, program=program)
    with pytest.raises(RemoteDamagedError):
        adopt(phone, hub)
    assert phone.files() == {}


def test_a_journal_below_a_directory_with_a_colon_is_known_to_git(hub, tmp_path, laptop) -> None:
    home = tmp_path / 'a:b "c\\d'
    shutil.copytree(hub, home)
    program = git_program.GitProgram("git", str(tmp_path / "new"), str(home / "objects"))
    program.check_connected([git(hub, "rev-parse", "main").strip()], [])


def test_a_remote_of_machines_that_all_have_yet_to_forget_is_one_error(
    hub, phone, monkeypatch
) -> None:
    monkeypatch.setattr(begin._FirstFetch, "_outdated", lambda self, _: set(self._refs))
    with pytest.raises(RemoteDamagedError, match="must forget a person first"):
        adopt(phone, hub)
    assert phone.files() == {}


def packed(hub) -> None:
    """Make one pack, as large hubs are."""
    git(hub, "repack", "-adq")


def with_git(monkeypatch, *, program: bool) -> None:
    """Let packs of any size be indexed by git, or none."""
    monkeypatch.setattr(journal_exchange, "WORTH_GIT_BYTES", 0)
    if not program:
        monkeypatch.setattr(journal_exchange, "find_git_program", lambda: "")
    assert git_program.find_git_program()
