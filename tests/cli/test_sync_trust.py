"""Machines that nobody knows yet: announced, allowed, blocked; and what they cannot state."""

# ruff: noqa: F811  # fixtures

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from familiar_cli.familiar import Familiar
from familiar_cli.store.history.events import set_branch
from familiar_cli.sync.fetching import RemoteFetch
from tests.cli.test_sync import Home, first, hub, make_hub, prepare, second  # noqa: F401
from tests.support.cases import Prepared
from tests.support.forging import AT, forge, turn

EVIL = "evil-0000"


def _make_first(place: Path) -> None:
    hub, home = make_hub(place), Home(place / "first")
    home.run("init", "ada", "--template", "companion")
    home.run("channel", "set", "dm-1", "--kind", "dm")
    home.run("hear", "my secret", "--channel", "dm-1")
    home.run("hear", "hello all", "--channel", "public")
    home.run("sync", "remote", "add", "hub", str(hub))
    home.run("sync")


def _make_both(place: Path) -> None:
    _make_first(place)
    home = Home(place / "second")
    home.run("init", "ada", "--from-remote", str(place / "hub.git"))
    home.append("notes.md", "# Notes\n")
    home.run("sync")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Prepared]:
    return prepare(tmp_path_factory, first=_make_first, second=_make_both)


def own_id(home: Home) -> str:
    return home.data("sync", "status")["instance"]


def shown(home: Home, channel: str) -> list[str]:
    found = home.data("history", "show", "--channel", channel)["turns"]
    return [one["content"] for one in found]


def trust(home: Home) -> dict[str, str]:
    return {one["id"]: one["trust"] for one in home.data("sync", "devices")["devices"]}


def test_a_new_machine_is_announced_until_somebody_looked(first, second) -> None:
    name = own_id(second)
    done = first.run("sync")
    assert f"new machine: {name}" in done.stdout
    assert first.data("sync")["new_devices"] == [name]
    assert name in first.run("sync", "status").stdout
    assert name in first.run("doctor").stdout
    assert f"{name}\tnew" in first.run("sync", "devices").stdout
    assert first.data("sync")["new_devices"] == []
    assert "new machine" not in first.run("doctor").stdout
    assert "notes.md" in first.files()
    assert trust(second) == {own_id(first): "known", name: "known"}


def test_with_approve_nothing_is_taken_before_a_machine_is_allowed(first, tmp_path, hub) -> None:
    first.run("config", "set", "sync.approve", "true")
    home = Home(tmp_path / "second")
    home.run("init", "ada", "--from-remote", str(hub))
    home.append("notes.md", "# Notes\n")
    home.run("hear", "from the second", "--channel", "public")
    home.run("sync")
    name = own_id(home)
    first.append("topics/mine.md", "- mine\n")
    done = first.data("sync", exit_code=7)
    assert done["waiting"]["devices"] == [name]
    assert (done["pulled"], done["turns_in"], done["pushed"]) == (0, 0, 1)
    assert "notes.md" not in first.files()
    assert f"familiar sync allow {name}" in first.run("sync", exit_code=7).stderr
    first.run("sync", "allow", name)
    assert first.data("sync")["turns_in"] == 1
    assert "notes.md" in first.files()
    assert "from the second" in shown(first, "public")


def test_a_blocked_machine_adds_nothing_more_and_what_it_added_stays(first, second) -> None:
    name = own_id(second)
    first.run("sync")
    first.run("sync", "block", name)
    second.append("notes.md", "- later\n")
    second.run("sync")
    assert first.data("sync")["pulled"] == 0
    assert first.files()["notes.md"] == b"# Notes\n"
    assert trust(first)[name] == "blocked"
    first.run("sync", "allow", name)
    first.run("sync")
    assert first.files()["notes.md"] == b"# Notes\n- later\n"


def test_an_order_in_a_folder_waits_until_its_machine_is_allowed(first, tmp_path, hub) -> None:
    (tmp_path / "stick").mkdir()
    first.run("sync", "remote", "rm", "hub")
    first.run("sync", "remote", "add", "stick", f"dir:{tmp_path / 'stick'}")
    first.run("hear", "I am Nela", "--as", "discord:42", "--name", "Nela", "--channel", "public")
    first.run("sync")
    home = Home(tmp_path / "third")
    home.run("init", "ada", "--from-remote", f"dir:{tmp_path / 'stick'}")
    home.run("people", "forget", "Nela", "--yes")
    behind = home.run("sync", exit_code=7)
    assert "hint: Run `familiar sync` on the machines that are behind." in behind.stderr
    allow = f"`familiar sync allow {own_id(home)}`"
    for _ in range(2):
        waits = first.run("sync", exit_code=7)
        assert f"asks to forget a person; {allow} lets that happen here as well\n" in waits.stdout
        assert f"then {allow}." in waits.stderr
    first.run("sync", "remote", "add", "hub", str(hub))
    assert first.data("sync", exit_code=7)["pulled"] == 0
    assert "I am Nela" in shown(first, "public")
    first.run("sync", "allow", own_id(home))
    first.run("sync")
    assert shown(first, "public") == ["hello all", "[forgotten]"]
    home.run("sync")


@pytest.fixture
def order(first, second) -> str:
    """The machine of an order to forget Nela, who spoke on the first machine."""
    first.run("hear", "I am Nela", "--as", "discord:42", "--name", "Nela", "--channel", "public")
    for home in (first, second):
        home.run("sync")
    second.run("people", "forget", "Nela", "--yes")
    second.run("sync", exit_code=7)
    return own_id(second)


def test_an_order_that_could_not_be_carried_out_is_tried_again(first, order) -> None:
    first.run("sync", "allow", order)
    orders = first.path / ".forgotten.json"
    orders.write_text("{")
    assert "is damaged" in first.run("sync", exit_code=5).stderr
    orders.unlink()
    assert shown(first, "public") == ["hello all", "I am Nela"]
    first.run("sync")
    assert shown(first, "public") == ["hello all", "[forgotten]"]


def test_an_order_of_a_blocked_machine_does_not_come_by_way_of_main(first, order) -> None:
    first.run("sync", "allow", order)
    assert "would forget a person" in first.run("sync", "--dry-run").stderr
    first.run("sync", "block", order)
    assert first.data("sync")["pulled"] == 0
    assert shown(first, "public") == ["hello all", "I am Nela"]


def test_an_order_merged_without_being_carried_out_is_found(first, order, hub, monkeypatch) -> None:
    with monkeypatch.context() as before:  # a mistake of an earlier version
        before.setattr(RemoteFetch, "_without_waiting", lambda _, there: dict(there))
        first.run("sync")
    assert shown(first, "public") == ["hello all", "I am Nela"]
    assert "was merged, but never carried out" in first.run("doctor", exit_code=7).stdout
    waits = first.run("sync", exit_code=7)
    assert f"`familiar sync allow {order}` lets that happen here" in waits.stdout
    for kind in ("memory", "turns"):
        (hub / "refs" / "heads" / kind / order).unlink()
    waits = first.run("sync", exit_code=7)
    assert f"`familiar sync allow {order}` lets that happen here" in waits.stdout
    assert shown(first, "public") == ["hello all", "I am Nela"]
    first.run("sync", "allow", order)
    first.run("sync")
    assert shown(first, "public") == ["hello all", "[forgotten]"]
    first.run("sync")


def test_only_a_known_machine_is_allowed_or_blocked(first) -> None:
    first.run("sync", "allow", "nobody-0000", exit_code=4)
    first.run("sync", "block", "nobody-0000", exit_code=4)
    first.run("sync", "block", own_id(first), exit_code=5)
    first.run("sync", "accept", exit_code=4)


def branch(channel: str, parent: str, number: int = 1) -> dict:
    row = {"kind": "branch", "id": number, "clock": 10**9, "channel": channel, "parent": parent}
    return row | {"at": AT}


@pytest.mark.parametrize("channel", ["public", "fresh"])
def test_a_forged_branch_puts_no_private_channel_under_another(first, hub, channel) -> None:
    me = own_id(first)
    forge(hub, EVIL, [turn(1, "hi", channel), branch(channel, "dm-1") | {"turn": f"{me}:1"}])
    first.run("sync", exit_code=7)
    prompt = first.run("ask", "what do you know?", "--dry-run", "--channel", channel).stdout
    assert "my secret" not in prompt
    assert "my secret" not in shown(first, channel)
    assert shown(first, "dm-1") == ["my secret"]


def test_a_known_machine_puts_no_existing_channel_under_another(first, second, hub) -> None:
    name = own_id(second)
    second.run("hear", "mine too", "--channel", "public")
    second.run("sync")
    first.run("sync")
    first.run("sync", "allow", name)
    with Familiar.load_from_disk(second.path, "ada") as familiar:
        dm = next(t for t in familiar.history.after(0, 99) if t.channel_id == "dm-1")
        with familiar.history.change() as connection:
            set_branch(connection, "public", "dm-1", dm.id)
    second.run("sync")
    first.run("sync")
    assert "my secret" not in shown(first, "public")
    assert "hello all" in shown(first, "public")


def test_a_chat_that_both_machines_imported_waits_for_nobody(first, second, tmp_path) -> None:
    chat = tmp_path / "tea.txt"
    chat.write_text("Robin: hello\n\nAda: hi\n\nRobin: lol\n\nRobin: lol\n")
    for home in (first, second):
        home.run("import-chat", str(chat), "--me", "Robin", "--channel", "tea")
    second.run("sync")
    assert first.data("sync")["waiting"]["facts"] == {}
    assert shown(first, "tea") == ["hello", "hi", "lol", "lol"]


def test_a_new_machine_moves_no_chat_of_another(first, hub, tmp_path) -> None:
    chat = tmp_path / "tea.txt"
    chat.write_text("Robin: hello\n\nAda: hi\n")
    first.run("import-chat", str(chat), "--me", "Robin", "--channel", "tea")
    moved = {
        "kind": "chat", "id": 1, "clock": 10**9, "channel": "public", "key": "transcript:tea:tea",
        "chat_kind": "import", "format": "transcript", "name": "tea",
    }  # fmt: skip
    forge(hub, EVIL, [moved])
    assert first.data("sync", exit_code=7)["waiting"]["facts"] == {EVIL: 1}


def hide(home: Home) -> dict:
    return {
        "kind": "mark", "id": 1, "clock": 10**9, "turn": f"{own_id(home)}:2", "mark": "withdrawn",
        "value": 1, "at": AT,
    }  # fmt: skip


def test_a_forged_mark_hides_no_message_before_its_machine_is_allowed(first, hub) -> None:
    forge(hub, EVIL, [hide(first)])
    done = first.data("sync", exit_code=7)
    assert done["waiting"]["facts"] == {EVIL: 1}
    assert shown(first, "public") == ["hello all"]
    first.run("sync", "block", EVIL)
    assert first.data("sync")["waiting"]["facts"] == {}
    assert shown(first, "public") == ["hello all"]


def test_what_is_withdrawn_on_one_machine_is_withdrawn_on_the_one_that_trusts_it(
    first, second
) -> None:
    second.run("history", "withdraw", "2")
    second.run("sync")
    first.run("sync", exit_code=7)
    assert shown(first, "public") == ["hello all"]
    first.run("sync", "allow", own_id(second))
    first.run("history", "show", "--channel", "public", exit_code=4)
    assert first.data("sync")["waiting"]["facts"] == {}


def test_a_forged_line_with_the_id_of_a_real_message_does_not_take_its_place(first, hub) -> None:
    first.run("hear", "the real one", "--channel", "public", "--id", "m1")
    forge(hub, "aaa-0000", [turn(1, "the false one", "public", message_id="m1")])
    first.run("sync", exit_code=7)
    assert shown(first, "public") == ["hello all", "the real one"]


def test_turns_without_a_memory_of_this_familiar_are_not_taken(first, hub) -> None:
    forge(hub, EVIL, [turn(1, "buy my coin", "public")])
    (hub / "refs" / "heads" / "memory" / EVIL).unlink()
    done = first.data("sync", exit_code=7)
    assert done["turns_in"] == 0
    assert done["aside"][0]["ref"] == f"turns/{EVIL}"
    assert "buy my coin" not in shown(first, "public")


def test_a_private_mark_from_outside_is_taken_at_once(first, hub) -> None:
    forge(hub, EVIL, [], {f"channels/{EVIL}.json": json.dumps({"public": "dm"}).encode()})
    first.run("sync")
    assert first.data("channel", "show", "public")["private"]


def test_a_merge_that_deletes_much_waits_until_it_is_accepted(first, second) -> None:
    for number in range(20):
        first.append(f"topics/t{number}.md", f"# {number}\n")
    first.run("sync")
    second.run("sync")
    shutil.rmtree(second.memory / "topics")
    second.append("notes.md", "- and a line\n")
    second.run("sync")
    before = first.files()
    done = first.data("sync", exit_code=7)
    (waiting,) = done["waiting"]["deletions"]
    assert (waiting["instance"], waiting["deleted"]) == (own_id(second), 20)
    assert first.files() == before
    first.append("notes2.md", "- still synced\n")
    assert first.data("sync", exit_code=7)["pushed"] == 1
    assert "would delete 20" in first.run("doctor").stdout
    assert "deleted 20 files" in first.run("sync", "accept").stdout
    assert not any(path.startswith("topics/t") for path in first.files())
    assert first.data("sync")["waiting"]["deletions"] == []


def test_a_folder_that_is_renamed_deletes_nothing(first, second) -> None:
    for number in range(20):
        first.append(f"topics/t{number}.md", f"# {number}\n")
    first.run("sync")
    second.run("sync")
    (second.memory / "topics").rename(second.memory / "subjects")
    second.run("sync")
    first.run("sync")
    assert "subjects/t1.md" in first.files()


def test_the_key_of_a_folder_is_changed_and_older_bundles_stay_readable(first, tmp_path) -> None:
    pyrage = pytest.importorskip("pyrage")
    (tmp_path / "stick").mkdir()
    first.run("sync", "remote", "rm", "hub")
    first.run("sync", "remote", "add", "stick", f"dir:{tmp_path / 'stick'}")
    first.run("sync", "rekey", exit_code=5)
    keys = []
    for name in ("old", "new"):
        made = pyrage.x25519.Identity.generate()
        path = tmp_path / f"{name}.key"
        path.write_text(f"{made}\n")
        path.chmod(0o600)
        keys.append((str(made.to_public()), str(path)))
    (old, old_file), (new, new_file) = keys
    first.run("config", "set", "sync.encrypt", old)
    first.run("config", "set", "sync.key_file", old_file)
    first.run("sync")
    first.append("notes.md", "- more\n")
    first.run("sync")
    first.run("config", "set", "sync.encrypt", new)
    first.run("config", "set", "sync.key_file", new_file)
    first.run("config", "set", "sync.old_key_files", old_file)
    assert first.data("sync", "rekey")["rekeyed"] == ["stick"]
    first.run("config", "unset", "sync.old_key_files")
    assert first.data("sync")["pushed"] == 0
    assert len(list((tmp_path / "stick").iterdir())) == 1
