"""Other gits take part: what they commit to `main` is merged, and what is sent can be cloned."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.instances import Machine, adopt
from tests.support.remotes import HAS_GIT, bare, git

pytestmark = pytest.mark.skipif(not HAS_GIT, reason="there is no git program")
TEA = "# Tea\n\n- green\n- black\n"


@pytest.fixture
def hub(tmp_path):
    return bare(tmp_path / "hub.git")


@pytest.fixture
def laptop(tmp_path):
    machine = Machine(tmp_path / "laptop", "laptop")
    machine.commit("first", topics__tea=TEA)
    yield machine
    machine.journal.repository.close()


@pytest.fixture
def desk(tmp_path, laptop, hub):
    laptop.sync(hub)
    machine = Machine(tmp_path / "desk", "desk", began=laptop.instance.id)
    adopt(machine, hub)
    machine.sync(hub)
    yield machine
    machine.journal.repository.close()


@pytest.fixture
def clone(tmp_path, hub, laptop):
    """A clone in which a person edits and commits, as an editor's plugin for git does."""
    laptop.sync(hub)
    return Clone(hub, tmp_path / "clone")


class Clone:
    def __init__(self, hub, path) -> None:
        git(hub.parent, "clone", "-q", str(hub), str(path))
        self.path = path

    def commit(self, rel_path: str, content: str | bytes) -> str:
        file = self.path / rel_path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        git(self.path, "add", "-A")
        git(self.path, *self.who, "commit", "-q", "-m", "edit on the web")
        return git(self.path, "rev-parse", "HEAD").strip()

    def push(self, *how: str) -> None:
        git(self.path, "push", "-q", *how, "origin", "HEAD")

    who = ("-c", "user.name=Anna Web", "-c", "user.email=anna@example.org")


def test_a_commit_on_main_arrives_everywhere_with_its_author(laptop, desk, hub, clone) -> None:
    id_ = clone.commit("topics/tea.md", TEA + "- from the web\n")
    clone.push()
    for machine in (laptop, desk):
        machine.sync(hub)
        assert "from the web" in machine.files()["topics/tea.md"]
        assert machine.sync(hub).notes == ()
    assert f"{id_} Anna Web" in git(hub, "log", "--format=%H %an", "main").splitlines()


def test_a_commit_on_main_beside_our_own_is_merged_and_main_goes_on(
    laptop, desk, hub, clone
) -> None:
    clone.commit("topics/tea.md", TEA + "- from the web\n")
    clone.push()
    laptop.commit("ours", topics__tea=TEA.replace("- green", "- white\n- green"))
    desk.commit("theirs", notes="# Notes\n")
    for machine in (laptop, desk, laptop, desk):
        machine.sync(hub)
    assert laptop.files() == desk.files()
    assert laptop.files()["topics/tea.md"] == "# Tea\n\n- white\n- green\n- black\n- from the web\n"
    git(clone.path, "pull", "-q", "--ff-only")
    assert (clone.path / "topics/tea.md").read_text() == laptop.files()["topics/tea.md"]


def test_what_a_person_settled_in_a_merge_of_their_own_stays(laptop, hub, clone) -> None:
    clone.commit("topics/tea.md", TEA.replace("green", "sencha"))
    laptop.commit("ours", topics__tea=TEA.replace("green", "gunpowder"))
    laptop.sync(hub)
    git(clone.path, "fetch", "-q")
    git(clone.path, *clone.who, "merge", "-q", "-s", "ours", "origin/main", "-m", "mine")
    clone.commit("notes.md", "later\n")
    clone.push()
    laptop.sync(hub)
    assert "sencha" in laptop.files()["topics/tea.md"]
    assert "gunpowder" not in laptop.files()["topics/tea.md"]


def test_an_amended_commit_that_was_pushed_by_force_is_merged_and_told(laptop, hub, clone) -> None:
    clone.commit("a.md", "a\n")
    clone.push()
    laptop.sync(hub)
    git(clone.path, "reset", "-q", "--hard", "HEAD~1")
    clone.commit("b.md", "b\n")
    clone.push("--force")
    done = laptop.sync(hub)
    assert any("rewritten" in note for note in done.notes)
    assert {"a.md", "b.md"} <= laptop.files().keys()
    assert git(hub, "rev-parse", "main").strip() == laptop.journal.repository.head()


def test_a_main_that_the_server_refuses_is_told(laptop, hub) -> None:
    laptop.sync(hub)
    before = git(hub, "rev-parse", "main").strip()
    (hub / "refs" / "heads" / "main.lock").write_text("")
    laptop.commit("later", a="a\n")
    done = laptop.sync(hub)
    assert any("main" in note and "not updated" in note for note in done.notes)
    assert git(hub, "rev-parse", "main").strip() == before


def test_lines_belong_to_who_wrote_them_on_any_machine_and_in_any_git(
    laptop, desk, hub, clone
) -> None:
    clone.commit("topics/tea.md", TEA + "- from the web\n")
    clone.push()
    desk.commit("by desk", "memory_writer", topics__tea=TEA.replace("- green", "- white\n- green"))
    laptop.commit("by laptop", topics__tea=TEA.replace("# Tea", "# All teas"))
    for machine in (laptop, desk, laptop):
        machine.sync(hub)
    messages = {
        "# All teas": "by laptop",
        "- white": "by desk",
        "- from the web": "edit on the web",
    }
    for machine in (laptop, desk):
        wrote = {one.text: one.commit.message for one in machine.past.blame("topics/tea.md")}
        assert wrote == {"": "first", "- green": "first", "- black": "first", **messages}
        told = [one.commit.message for one in machine.past.log("topics/tea.md")]
        assert set(told) > {"first", *messages.values()}
        assert sorted(told) == sorted(set(told))
        every = [one.commit.id for one in machine.past.log()]
        assert len(every) == len(set(every))
        assert {machine.past.show(id_)[0].commit.id for id_ in every} == set(every)


def test_a_rename_beside_an_append_is_one_file_whose_lines_keep_their_authors(
    laptop, desk, hub
) -> None:
    desk.commit("append", topics__tea=TEA + "- white\n")
    with laptop.store.transaction("human", "rename") as tx:
        tx.move("topics/tea.md", "topics/Tea.md")
    for machine in (laptop, desk, laptop):
        machine.sync(hub)
    assert laptop.files() == desk.files()
    assert laptop.files()["topics/Tea.md"] == TEA + "- white\n"
    for machine in (laptop, desk):
        wrote = {one.text: one.commit.message for one in machine.past.blame("topics/Tea.md")}
        assert (wrote["- white"], wrote["- green"]) == ("append", "first")


@pytest.fixture
def sshd(tmp_path, monkeypatch):
    """A real ssh daemon on this machine; gives the beginning of an address."""
    daemon = shutil.which("sshd") or "/usr/sbin/sshd"
    if not (Path(daemon).exists() and shutil.which("ssh") and shutil.which("ssh-keygen")):
        pytest.skip("there is no ssh daemon")
    for name in ("host", "key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(command, check=True)
    (tmp_path / "allowed").write_text((tmp_path / "key.pub").read_text())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": tmp_path / "host",
        "AuthorizedKeysFile": tmp_path / "allowed",
        "StrictModes": "no",
        "PermitRootLogin": "yes",
        "PidFile": "none",
    }
    config = tmp_path / "sshd_config"
    config.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    options = f"-i {tmp_path / 'key'} -o StrictHostKeyChecking=no -o BatchMode=yes"
    monkeypatch.setenv("GIT_SSH_COMMAND", f"ssh {options} -o UserKnownHostsFile=/dev/null -q")
    command = [daemon, "-D", "-e", "-f", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as running:
        try:
            if not any(b"listening" in line for line in running.stderr or ()):
                pytest.skip("the ssh daemon does not start here")
            yield f"ssh://{getpass.getuser()}@127.0.0.1:{port}"
        finally:
            running.terminate()


@pytest.mark.parametrize("branch", ["main", "master"])
def test_a_clone_of_a_remote_behind_ssh_shows_the_memory(laptop, tmp_path, sshd, branch) -> None:
    there = bare(tmp_path / "there.git", "-b", branch)
    address = f"{sshd}{there}"
    assert laptop.sync(address).notes == ()
    laptop.commit("later", notes="- later\n")
    laptop.sync(address)
    git(tmp_path, "clone", "-q", address, "clone")
    assert (tmp_path / "clone" / "notes.md").read_text() == "- later\n"
    clone = Clone.__new__(Clone)
    clone.path = tmp_path / "clone"
    clone.commit("topics/tea.md", TEA + "- over ssh\n")
    clone.push()
    laptop.sync(address)
    assert "over ssh" in laptop.files()["topics/tea.md"]


def hosted(path: Path, *how: str) -> Path:
    """Make a repository as a hosting site does: with a first commit of its own."""
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    for name in ("README.md", "LICENSE"):
        (path / name).write_text(f"{name}\n")
    git(path, "add", "-A")
    git(path, *Clone.who, "commit", "-q", "-m", "Initial commit")
    if how:
        git(path.parent, "clone", "-q", *how, str(path), f"{path.name}-bare.git")
        return path.parent / f"{path.name}-bare.git"
    return path


@pytest.mark.parametrize("how", [("--bare",), ()], ids=["on a server", "checked out"])
def test_a_repository_with_a_first_commit_of_its_own_is_taken_in(laptop, tmp_path, how) -> None:
    site = hosted(tmp_path / "site", *how)
    told = laptop.sync(site)
    assert any("commits from elsewhere" in note for note in told.notes)
    assert not told.outcome.refused
    assert laptop.sync(site).notes == ()
    assert git(site, "show", "main:README.md") == "README.md\n"
    assert git(site, "show", "main:topics/tea.md") == TEA
    assert git(site, "status", "--porcelain") == "" if not how else True
    assert {"README.md", "LICENSE"}.isdisjoint(laptop.files())
    desk = Machine(tmp_path / "desk", "desk", began=laptop.instance.id)
    adopt(desk, site)
    assert desk.files() == laptop.files()
    desk.commit("later", notes="- later\n")
    desk.sync(site)
    laptop.sync(site)
    assert laptop.files()["notes.md"] == "- later\n"
    assert git(site, "show", "main:LICENSE") == "LICENSE\n"
    desk.journal.repository.close()


def test_a_memory_with_a_name_like_that_of_a_notice_arrives(laptop, desk, hub) -> None:
    laptop.commit("advice", security="# Security\n\n- locks the door twice\n")
    laptop.sync(hub)
    desk.sync(hub)
    assert desk.files()["security.md"] == laptop.files()["security.md"]


def test_a_hook_of_another_repository_does_not_change_which_one_is_meant(
    laptop, tmp_path, monkeypatch
) -> None:
    site, other = hosted(tmp_path / "site"), hosted(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    laptop.sync(site)
    monkeypatch.delenv("GIT_DIR")
    assert git(site, "show", "main:topics/tea.md") == TEA
    assert git(other, "log", "--format=%s") == "Initial commit\n"


def test_settings_of_a_repository_that_name_a_program_keep_its_branch_as_it_is(
    laptop, tmp_path
) -> None:
    site = hosted(tmp_path / "site")
    git(site, "config", "core.fsmonitor", f"touch {tmp_path / 'ran'}")
    told = laptop.sync(site)
    assert any("settings of its own" in note for note in told.notes)
    assert not (tmp_path / "ran").exists()


def test_markers_that_a_plugin_committed_become_a_conflict(laptop, desk, hub, clone) -> None:
    marked = "# Tea\n\n<<<<<<< HEAD\n- green\n=======\n- white\n>>>>>>> origin/main\n- black\n"
    clone.commit("topics/tea.md", marked)
    clone.push()
    told = laptop.sync(hub)
    assert [one.path for one in told.outcome.conflicts] == ["topics/tea.md"]
    for _ in range(2):
        desk.sync(hub)
        laptop.sync(hub)
    assert laptop.files() == desk.files()
    assert laptop.files()["topics/tea.md"] == TEA
    assert laptop.files()["conflicts/topics/tea.md"] == "# Tea\n\n- white\n- black\n"
    assert not any("<<<<<<<" in text for text in laptop.files().values())


def test_a_pointer_of_git_lfs_replaces_no_picture(laptop, hub, clone) -> None:
    laptop.store.write_file("self/face.png", b"\x89PNG picture")
    laptop.sync(hub)
    git(clone.path, "pull", "-q", "--ff-only")
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    clone.commit("self/face.png", pointer)
    clone.push()
    told = laptop.sync(hub)
    assert "pointer of Git LFS" in told.outcome.refused["self/face.png"]
    assert (laptop.root / "memory" / "self" / "face.png").read_bytes() == b"\x89PNG picture"


def test_links_submodules_and_modes_stay_as_a_git_user_made_them(laptop, desk, hub, clone) -> None:
    (clone.path / "tools").mkdir()
    (clone.path / "latest.md").symlink_to("topics/tea.md")
    (clone.path / "tools" / "run.sh").write_text("#!/bin/sh\n")
    (clone.path / "tools" / "run.sh").chmod(0o755)
    head = clone.commit("notes.md", "- from the web\n")
    git(clone.path, "update-index", "--add", "--cacheinfo", f"160000,{head},vendor")
    git(clone.path, *Clone.who, "commit", "-q", "-m", "submodule")
    clone.push()
    wanted = {"latest.md": "120000", "tools/run.sh": "100755", "vendor": "160000"}
    for number in range(2):
        laptop.commit("ours", topics__tea=TEA + f"- number {number}\n")
        for machine in (laptop, desk):
            told = machine.sync(hub)
            assert not told.outcome.refused
            rows = git(hub, "ls-tree", "-r", "main").splitlines()
            modes = {row.split("\t")[1]: row.split()[0] for row in rows}
            assert {path: modes.get(path) for path in wanted} == wanted
    assert laptop.files() == desk.files()
    assert "latest.md" not in laptop.files()
    git(clone.path, "pull", "-q", "--ff-only")
    (clone.path / "latest.md").unlink()
    clone.commit("notes.md", "- again\n")
    clone.push()
    laptop.sync(hub)
    laptop.commit("later", topics__tea=TEA)
    laptop.sync(hub)
    assert "latest.md" not in git(hub, "ls-tree", "-r", "--name-only", "main").split()


def test_a_squashed_main_is_adopted_and_keeps_what_each_side_had(laptop, desk, hub, clone) -> None:
    laptop.commit("ours", notes="- of the laptop\n")
    git(clone.path, "checkout", "-q", "--orphan", "squashed")
    (clone.path / "people").mkdir()
    (clone.path / "people" / "anna.md").write_text("# Anna\n")
    git(clone.path, "add", "-A")
    message = "all in one\n\nRun-Id: abc\nFiles: 1\nBytes-After: 1"
    git(clone.path, *Clone.who, "commit", "-q", "-m", message)
    git(clone.path, "push", "-q", "--force", "origin", "HEAD:main")
    told = laptop.sync(hub)
    assert any("does not continue" in note for note in told.notes)
    laptop.sync(hub, adopt="refs/heads/main")
    for machine in (desk, laptop):
        machine.sync(hub)
    assert laptop.files() == desk.files()
    assert laptop.files()["people/anna.md"] == "# Anna\n"
    assert laptop.files()["notes.md"] == "- of the laptop\n"
    assert laptop.sync(hub).notes == ()
    assert git(hub, "rev-parse", "main").strip() == laptop.journal.repository.head()
