"""`familiar sync` from the command line to the exit code, with a bare repository between homes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from familiar_cli.cli.app import app
from familiar_cli.familiar import Familiar
from tests.support.cases import Prepared
from tests.support.remotes import HAS_GIT, bare, bare_by_hand, git


class Home:
    """One machine's home with one familiar."""

    def __init__(self, path) -> None:
        self.path = path

    def run(self, *argv: str, exit_code: int = 0):
        done = CliRunner().invoke(app, ["--home", str(self.path), *argv])
        assert done.exit_code == exit_code, f"{done.output}{done.stderr}"
        return done

    def data(self, *argv: str, exit_code: int = 0) -> dict:
        return json.loads(self.run(*argv, "--json", exit_code=exit_code).stdout)["data"]

    @property
    def memory(self):
        return self.path / "ada" / "memory"

    def files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.memory).as_posix(): path.read_bytes()
            for path in sorted(self.memory.rglob("*"))
            if path.is_file() and ".index" not in path.parts
        }

    def append(self, rel_path: str, text: str) -> None:
        """Edit a file as a person does, with an editor."""
        path = self.memory / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + text)

    def turns(self) -> list[tuple]:
        with Familiar.load_from_disk(self.path, "ada") as familiar:
            return [(t.channel_id, t.role, t.content, t.at) for t in familiar.history.after(0, 99)]


def make_hub(place: Path) -> Path:
    return (bare if HAS_GIT else bare_by_hand)(place / "hub.git")


def _make_first(place: Path) -> None:
    hub, home = make_hub(place), Home(place / "first")
    home.run("init", "ada", "--template", "companion")
    home.append("topics/tea.md", "# Tea\n\n- green\n")
    home.run("hear", "I drink tea", "--channel", "cli")
    home.run("sync", "remote", "add", "hub", str(hub))


def _make_both(place: Path) -> None:
    _make_first(place)
    Home(place / "first").run("sync")
    Home(place / "second").run("init", "ada", "--from-remote", str(place / "hub.git"))


def prepare(factory, **makes: Callable[[Path], None]) -> dict[str, Prepared]:
    """Return a hub with homes for tests that have a fixture, by its name."""
    return {name: Prepared(factory.mktemp(name) / "all", make) for name, make in makes.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Prepared]:
    return prepare(tmp_path_factory, first=_make_first, second=_make_both)


@pytest.fixture
def hub(request, tmp_path, made):
    """The hub of the homes that the test has; an empty one if it has none."""
    for name in ("second", "first"):
        if name in request.fixturenames:
            return made[name].renew() / "hub.git"
    return make_hub(tmp_path)


@pytest.fixture
def first(hub) -> Home:
    return Home(hub.with_name("first"))


@pytest.fixture
def second(hub) -> Home:
    return Home(hub.with_name("second"))


def test_a_second_machine_has_the_same_memory_and_the_same_turns(first, second) -> None:
    assert second.files() == first.files()
    assert second.turns() == first.turns() != []


def test_a_second_machine_has_the_list_of_names_too(first, hub, tmp_path) -> None:
    first.append("people/discord-42.md", "# Mika\n")
    first.run("people", "alias", "discord-42", "Mi")
    assert b'"mi": "discord-42"' in first.files()["people/_aliases.json"]
    first.run("sync")
    home = Home(tmp_path / "second")
    home.run("init", "ada", "--from-remote", str(hub))
    assert home.files() == first.files()
    home.run("people", "alias", "discord-42", "Mimi")
    assert "edited by hand" not in home.run("memory", "log", "people/_aliases.json").stdout


def test_both_machines_keep_both_bullets(first, second) -> None:
    first.append("topics/tea.md", "- white\n")
    second.append("topics/tea.md", "- oolong\n")
    done = [home.data("sync") for home in (first, second, first)]
    assert [one["conflicts"] for one in done] == [[], [], []]
    assert first.files() == second.files()
    text = first.files()["topics/tea.md"].decode()
    assert sorted(text.splitlines()[2:]) == ["- green", "- oolong", "- white"]


def test_a_file_that_three_machines_changed_is_one_file_in_conflict(
    first, second, hub, tmp_path
) -> None:
    third = Home(tmp_path / "third")
    assert "files and 1 turn from" in third.run("init", "--from-remote", str(hub), "ada").stdout
    for number, home in enumerate((first, second, third)):
        home.run("memory", "write", "topics/tea.md", f"# Tea\n\n- tea {number}\n")
    first.run("sync")
    second.run("sync", exit_code=7)
    done = third.run("sync", exit_code=7)
    assert "1 file in conflict: topics/tea.md" in done.stderr
    assert len(third.data("sync", exit_code=7)["conflicts"]) == 2


def test_a_conversation_goes_on_on_the_other_machine(first, second) -> None:
    second.run("hear", "and coffee", "--channel", "cli")
    assert second.data("sync", "--dry-run")["turns_out"] == 1
    assert second.data("sync")["turns_out"] == 1
    assert first.data("sync")["turns_in"] == 1
    assert first.turns() == second.turns()
    assert [turn[2] for turn in first.turns()] == ["I drink tea", "and coffee"]


def test_what_a_sync_did_is_counted(first, second) -> None:
    second.append("notes.md", "# Notes\n")
    pushed = second.data("sync")
    assert pushed["pushed"] == 2  # it began, and was edited
    pulled = first.data("sync")
    assert pulled["pulled"] == 2
    assert pulled["written"] == ["notes.md"]
    assert pulled["remotes"][0]["name"] == "hub"
    nothing = second.data("sync"), first.data("sync"), second.data("sync")
    assert [(one["pulled"], one["pushed"]) for one in nothing[1:]] == [(0, 0), (0, 0)]


def test_turns_can_stay_at_home(first, tmp_path, hub) -> None:
    first.run("config", "set", "sync.turns", "off")
    assert first.data("sync")["turns_out"] == 0
    home = Home(tmp_path / "second")
    home.run("init", "ada", "--from-remote", str(hub))
    assert home.turns() == []


def test_without_a_remote_the_command_that_adds_one_is_named(tmp_path) -> None:
    home = Home(tmp_path / "alone")
    home.run("init", "ada", "--template", "companion")
    for argv in (["sync"], ["sync", "pull"], ["sync", "push"]):
        assert "sync remote add" in home.run(*argv, exit_code=4).stderr
    assert home.data("sync", "status")["remotes"] == []


def test_a_remote_that_cannot_be_reached_ends_with_1_and_is_a_line_in_status(first, hub) -> None:
    shutil.rmtree(hub)
    done = first.run("sync", "--json", exit_code=1)
    envelope = json.loads(done.stdout)
    assert envelope["status"] == "error"
    assert envelope["errors"][0]["code"] == "remote_unreachable"
    assert envelope["data"]["remotes"][0]["error"]["code"] == "remote_unreachable"
    assert "nothing at" in first.data("sync", "status")["problem"]
    assert "familiar sync" in first.run("status").output


def test_one_remote_that_fails_does_not_stop_the_other(first, tmp_path) -> None:
    first.run("sync", "remote", "add", "gone", str(tmp_path / "gone.git"))
    data = first.data("sync", exit_code=1)
    assert data["pushed"] > 0
    assert [one["error"] is None for one in data["remotes"]] == [True, False]


def test_a_dry_run_tells_and_changes_nothing(first, second) -> None:
    second.append("notes.md", "# Notes\n")
    second.run("sync")
    before = first.files()
    data = first.data("sync", "--dry-run")
    assert data["dry_run"]
    assert data["written"] == ["notes.md"]
    assert first.files() == before


def test_a_sync_is_undone_as_one_change_by_its_id_and_with_a_yes(first, second) -> None:
    second.append("notes.md", "# Notes\n")
    second.run("sync")
    first.append("own.md", "- own\n")
    before = first.files()
    first.run("sync")
    refused = first.run("memory", "undo", "HEAD", exit_code=5)
    assert "notes.md" in refused.stderr
    assert "--yes" in refused.stderr
    assert first.data("memory", "undo", "HEAD", "--dry-run")["deleted"] == ["notes.md"]
    first.run("memory", "undo", "HEAD", "--yes")
    assert first.files() == before


def test_undo_after_a_sync_takes_back_nothing_of_another_machine(first, second) -> None:
    """Plain undo goes past what came from elsewhere to the newest change made here."""
    second.run("memory", "append", "notes.md", "- theirs")
    second.run("sync")
    first.run("memory", "append", "own.md", "- own")
    first.run("sync")
    first.run("memory", "undo")
    assert "own.md" not in first.files()
    assert "notes.md" in first.files()
    second.run("sync")
    second.run("memory", "undo")
    assert "notes.md" not in second.files()


def test_the_same_line_changed_on_both_is_a_conflict_and_nothing_is_lost(first, second) -> None:
    tea = "# Tea\n\n- green tea in the {}\n"
    for home, when in ((first, "morning"), (second, "evening")):
        (home.memory / "topics" / "tea.md").write_text(tea.format(when))
    first.run("sync")
    data = second.data("sync", exit_code=7)
    (conflict,) = data["conflicts"]
    assert conflict["path"] == "topics/tea.md"
    both = second.files()["topics/tea.md"] + second.files()[conflict["theirs"]]
    assert b"morning" in both
    assert b"evening" in both
    first.run("sync", exit_code=7)
    assert first.files() == second.files()


def test_status_tells_of_the_other_machine(first, second) -> None:
    second.append("notes.md", "# Notes\n")
    second.run("sync")
    first.run("sync", "pull", "--dry-run")
    first.run("sync")
    found = first.data("sync", "status")
    own, other = found["instances"]
    assert own["is_own"]
    assert not other["is_own"]
    assert other["behind"] == 0
    assert found["remotes"][0]["ahead"] == 0
    assert other["id"] in first.run("sync", "status").stdout


def test_a_machine_that_never_comes_back_is_forgotten_until_it_does(first, second) -> None:
    second.run("sync")
    first.run("sync")
    other = first.data("sync", "status")["instances"][1]["id"]
    first.run("sync", "forget", other)
    assert first.data("sync", "status")["instances"][1]["forgotten"]
    first.run("sync", "forget", "nobody-0000", exit_code=4)
    second.append("notes.md", "# Notes\n")
    second.run("sync")
    first.run("sync")
    assert not first.data("sync", "status")["instances"][1]["forgotten"]
    assert "notes.md" in first.files()


def test_remotes_are_added_listed_and_removed(first, hub, tmp_path) -> None:
    first.run("sync", "remote", "add", "hub", str(hub), exit_code=5)
    first.run("sync", "remote", "add", "Bad Name", str(tmp_path), exit_code=2)
    plain = first.run("sync", "remote", "add", "stick", str(tmp_path), exit_code=1)
    assert f"`dir:{tmp_path}`" in plain.stderr
    first.run("sync", "remote", "add", "web", "https://me:secret@example.org/x", exit_code=2)
    assert "https://" in first.run("sync", "remote", "add", "web", "https://example.org/x").stdout
    assert [one["name"] for one in first.data("sync", "remote", "ls")["remotes"]] == ["hub", "web"]
    first.run("sync", "remote", "rm", "web")
    first.run("sync", "remote", "rm", "web", exit_code=4)
    assert "secret" not in (first.path / "ada" / "sync.toml").read_text()


def test_a_copied_home_gets_an_id_of_its_own_and_no_turn_twice(first, tmp_path) -> None:
    first.run("sync")
    shutil.copytree(first.path, tmp_path / "copy")
    copy = Home(tmp_path / "copy")
    first.run("hear", "here", "--channel", "cli")
    done = copy.run("hear", "there", "--channel", "cli")
    assert "is now" in done.stderr
    for home, word in ((first, "here"), (copy, "there")):
        home.append("notes.md", f"- {word}\n")
    for home in (first, copy, first):
        home.run("sync")
    assert first.files() == copy.files()
    assert first.turns() != []
    assert sorted(turn[2] for turn in copy.turns()) == ["I drink tea", "here", "there"]
    assert sorted(turn[2] for turn in first.turns()) == ["I drink tea", "here", "there"]


def test_init_from_an_empty_remote_leaves_nothing_behind(tmp_path, hub) -> None:
    home = Home(tmp_path / "second")
    assert "no memory yet" in home.run("init", "--from-remote", str(hub), exit_code=4).stderr
    assert not home.path.exists() or list(home.path.iterdir()) == []


def test_init_does_not_touch_a_familiar_of_that_name(first, tmp_path, hub) -> None:
    first.run("sync")
    before = first.files()
    first.run("init", "ada", "--from-remote", str(hub), exit_code=5)
    assert first.files() == before


@pytest.mark.skipif(not HAS_GIT, reason="there is no git program")
def test_a_plain_clone_is_readable(first, second, tmp_path, hub) -> None:
    second.run("sync")
    git(tmp_path, "clone", "-q", str(hub), "clone")
    assert (tmp_path / "clone" / "topics" / "tea.md").read_text() == "# Tea\n\n- green\n"
    branches = git(hub, "branch", "--format=%(refname:short)").split()
    assert sum(name.startswith("memory/") for name in branches) == 2
    assert sum(name.startswith("turns/") for name in branches) >= 1


def test_the_folder_of_a_stick_works_as_a_remote(first, tmp_path) -> None:
    first.run("sync", "remote", "rm", "hub")
    stick = tmp_path / "stick"
    stick.mkdir()
    first.run("sync", "remote", "add", "stick", f"dir:{stick}")
    first.run("sync")
    home = Home(tmp_path / "second")
    home.run("init", "ada", "--from-remote", f"dir:{stick}")
    assert home.files() == first.files()
    home.append("topics/tea.md", "- oolong\n")
    home.run("sync")
    first.run("sync")
    assert home.files() == first.files()


def test_a_private_channel_is_private_on_the_other_machine_before_its_turns_are_there(
    first, tmp_path, hub
) -> None:
    first.run("channel", "set", "dm-1", "--kind", "dm")
    first.run("hear", "between us", "--channel", "dm-1")
    first.run("sync")
    home = Home(tmp_path / "second")
    home.run("init", "ada", "--from-remote", str(hub))
    assert home.data("channel", "show", "dm-1")["private"]
    home.run("channel", "set", "dm-1", "--kind", "text")
    first.run("hear", "again", "--channel", "dm-1")
    first.run("sync")
    home.run("sync")
    assert not home.data("channel", "show", "dm-1")["private"]  # as the person there said


def test_a_conversation_goes_on_elsewhere_in_one_order(first, second) -> None:
    first.run("hear", "begun on the first", "--channel", "tea")
    first.run("sync")
    second.run("sync")
    second.run("hear", "gone on on the second", "--channel", "tea")
    first.run("hear", "and at the same time on the first", "--channel", "tea")
    for home in (second, first, second):
        home.run("sync")
    exported = [
        home.run("history", "export", "--format", "jsonl").stdout for home in (first, second)
    ]
    assert exported[0] == exported[1]
    assert exported[0].index("begun on") < exported[0].index("gone on on the second")


def unread(home) -> int:
    return home.data("status")["unsummarised_turns"]


def test_turns_that_a_forgotten_machine_had_not_read_wait_here(first, second) -> None:
    second.run("hear", "nobody has read this", "--channel", "tea")
    second.run("sync")
    first.run("sync")
    before = unread(first)
    first.run("sync", "forget", first.data("sync", "status")["instances"][1]["id"])
    assert unread(first) == before + 1
    second.append("notes.md", "# Notes\n")
    second.run("sync")
    first.run("sync")
    assert unread(first) == before


def test_a_second_machine_keeps_the_familiar_s_id_and_the_remote_s_name(tmp_path, hub) -> None:
    first, second = Home(tmp_path / "one"), Home(tmp_path / "two")
    first.run("init", "night-owl", "--template", "companion")
    first.run("hear", "I drink tea", "--channel", "cli")
    first.run("sync", "remote", "add", "github", str(hub))
    first.run("sync")
    made = second.data("init", "--from-remote", str(hub))
    assert (made["id"], made["remote"]) == ("night-owl", "github")
    assert second.data("sync")["pulled"] == 0
    (remote,) = second.data("sync", "status")["remotes"]
    assert (remote["name"], remote["ahead"]) == ("github", 0)
    assert "up to date" in second.run("sync", "status").stdout


def test_a_second_machine_knows_the_name_of_the_character(tmp_path, hub) -> None:
    card = tmp_path / "card.json"
    fields = {"name": "Maren Holm", "description": "Keeps the lock.", "first_mes": "Mind the gate."}
    card.write_text(json.dumps({"spec": "chara_card_v2", "data": fields}), encoding="utf-8")
    one, other = Home(tmp_path / "one"), Home(tmp_path / "other")
    one.run("init", "--from-card", str(card))
    one.run("sync", "remote", "add", "hub", str(hub))
    one.run("sync")
    other.run("init", "--from-remote", str(hub))
    assert [one["name"] for one in other.data("list")["familiars"]] == ["Maren Holm"]
