"""`familiar people forget`: afterwards nothing of a person is left, here, there and on the hub."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from dulwich.repo import Repo

from familiar_cli.base.files import remove
from familiar_cli.familiar import Familiar
from familiar_cli.sync import journal_epochs as epochs
from tests.cli.test_sync import Home, make_hub, prepare
from tests.support.cases import Prepared, at_night
from tests.support.remotes import (
    HAS_GIT,
    HAS_OPENSSL,
    certificate,
    git,
    http_server,
    ssh_stand_in,
)

GROUP = "Quibbrax flurmed the zantholite yesterday"
DM = "My vexlorn is hidden under the plimbuck tree"
IMPORTED = "I once rode a glonterpuff to Skravnik"
NAME = "Zyphrandra"
WORDS = ("quibbrax", "flurmed", "zantholite", "vexlorn", "plimbuck", "glonterpuff", "skravnik")
SECRETS = (*WORDS, "wimbleyarn", NAME.lower(), "9911223344")
ACCOUNT = "discord:9911223344"
SLUG = "discord-9911223344"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Prepared]:
    return prepare(tmp_path_factory, first=_make_first, second=_make_both)


@pytest.fixture
def place(request, address_kind, tmp_path, made) -> Path:
    """Where the hub and the homes of a test are."""
    if address_kind == "path":
        return made["second" if "second" in request.fixturenames else "first"].renew()
    make_hub(tmp_path)
    return tmp_path


@pytest.fixture
def hub(place) -> Path:
    return place / "hub.git"


@pytest.fixture(params=["path"])
def address_kind(request) -> str:
    return request.param


@pytest.fixture
def address(address_kind, hub, tmp_path, monkeypatch):
    """How the hub is reached; a test may name other ways."""
    if address_kind == "path":
        yield str(hub)
        return
    if not HAS_GIT:
        pytest.skip("there is no git program")
    if address_kind == "ssh":
        monkeypatch.setenv("GIT_SSH_COMMAND", ssh_stand_in(tmp_path))
        yield f"ssh://localhost{hub}"
        return
    git(hub, "config", "http.receivepack", "true")
    encrypted_by = None
    if address_kind == "https":
        if not HAS_OPENSSL:
            pytest.skip("there is no openssl program")
        encrypted_by = certificate(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", str(encrypted_by))
    with http_server(tmp_path, encrypted_by=encrypted_by) as url:
        yield f"{url}/{hub.name}"


@pytest.fixture
def first(place, address, address_kind) -> Home:
    return Home(place / "first") if address_kind == "path" else _make_first(place, address)


@pytest.fixture
def second(place, first, address, address_kind) -> Home:
    return Home(place / "second") if address_kind == "path" else _make_second(place, address)


def _make_first(place: Path, address: str = "") -> Home:
    address = address or str(make_hub(place))
    home = Home(place / "first")
    home.run("init", "ada", "--template", "companion")
    _say(home, "group", GROUP)
    home.run("hear", "Nice weather in Lisbon", "--channel", "group", "--as", "discord:77")
    _say(home, "dm-9911223344", DM)
    chat = place / f"{NAME}.jsonl"
    lines = [
        {"user_name": NAME, "character_name": "Ada", "create_date": "2026-01-01@10h00m00s"},
        {"name": NAME, "is_user": True, "send_date": "2026-01-01 10:00", "mes": IMPORTED},
        {"name": "Ada", "is_user": False, "send_date": "2026-01-01 10:01",
         "mes": "A glonterpuff! To Skravnik?"},
    ]  # fmt: skip
    chat.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    home.run("import-chat", str(chat), "--as", ACCOUNT)
    root = home.path / "ada"
    with Familiar.load_from_disk(home.path, "ada") as familiar:
        turns = familiar.history.after(0, 99)
        said = next(turn.id for turn in turns if turn.content == GROUP)
        familiar.history.append("group", "assistant", "Quibbrax? Oh my!", reply_to=said)
        other = next(turn.id for turn in turns if "Lisbon" in turn.content)
        gossip = f"In Lisbon? {NAME} told me: {GROUP}."
        familiar.history.append("group", "assistant", gossip, reply_to=other)
    home.append(f"people/{SLUG}.md", f"# {NAME}\n\n- flurmed things <!-- turns {said} -->\n")
    home.append(f"people/@all/{SLUG}.md", "# A sailor\n\n- Keeps wimbleyarn.\n")
    home.append(
        "topics/weather.md", f"# Weather\n\n- mild in Lisbon\n- [{NAME}](../people/{SLUG}.md)\n"
    )
    home.append("daily/2026-01-01.md", f"# Day\n\n- a zantholite <!-- turns {said} -->\n- rain\n")
    home.append("digest/short.md", f"# Short\n\n- {NAME} came by\n\n- Lisbon is mild\n")
    home.run("memory", "append", "notes.md", f"- call {NAME}")
    home.run("memory", "undo")
    home.run("remind", "add", f"ask {NAME} about it", "--at", "2030-01-01 10:00")
    home.run("search", "zantholite")
    (root / "traces").mkdir(exist_ok=True)
    (root / "traces" / "900.json").write_text(json.dumps({"sent": GROUP}))
    (root / "quarantine").mkdir(exist_ok=True)
    (root / "quarantine" / "x.txt").write_text(DM)
    home.run("sync", "remote", "add", "hub", address)
    home.run("sync")
    return home


def _make_both(place: Path) -> None:
    _make_first(place)
    _make_second(place, str(place / "hub.git"))


def _make_second(place: Path, address: str) -> Home:
    home = Home(place / "second")
    home.run("init", "ada", "--from-remote", address)
    _say(home, "group", "The vexlorn flurmed again")
    home.append("topics/late.md", f"# Late\n\n- {NAME} wrote from here\n- tea is green\n")
    home.run("search", "vexlorn")
    return home


def _say(home: Home, channel: str, text: str) -> None:
    home.run("hear", text, "--channel", channel, "--as", ACCOUNT, "--name", NAME)


def _leftovers(home: Home) -> list[str]:
    """Return where a word of the person stands in a home, in raw and inflated bytes."""
    found = []
    for path in sorted(home.path.rglob("*")):
        if path.is_file():
            where = path.relative_to(home.path).as_posix()
            content = path.read_bytes().lower().decode("latin-1")
            found += [f"{where}: {s}" for s in SECRETS if s in content]
            found += [f"name {where}" for s in SECRETS if s in where.lower()]
    journal = home.path / "ada" / "journal.git"
    log = git(journal, "log", "-p", "--all").lower() if HAS_GIT else ""
    return found + [f"git log -p: {s}" for s in SECRETS if s in log] + _in_objects(journal)


def _in_objects(path, *, reachable: bool = False) -> list[str]:
    with closing(Repo(str(path))) as repo:
        ids = set(repo.object_store)
        if reachable:
            heads = [id_ for ref, id_ in repo.get_refs().items() if ref != b"HEAD"]
            ids = _reach(repo, heads)
        texts = ((id_, repo[id_].as_raw_string().lower()) for id_ in ids)
        return [f"object {id_!r}: {s}" for id_, t in texts for s in SECRETS if s.encode() in t]


def _reach(repo, heads) -> set[bytes]:
    seen, waiting = set(), list(heads)
    while waiting:
        id_ = waiting.pop()
        if id_ in seen:
            continue
        seen.add(id_)
        one = repo[id_]
        if one.type_name == b"commit":
            waiting += [one.tree, *one.parents]
        elif one.type_name == b"tree":
            waiting += [entry.sha for entry in one.items()]
    return seen


@pytest.mark.parametrize(
    "address_kind", ["path", "ssh", pytest.param("http", marks=at_night), "https"], indirect=True
)
def test_nothing_is_left_on_two_machines_and_their_hub(first, second, hub) -> None:
    assert _leftovers(first) != []
    first.run("people", "forget", NAME, "--yes")
    assert _leftovers(first) == []
    first.run("sync", exit_code=0)
    second.run("sync")
    assert _leftovers(second) == []
    first.run("sync")
    assert _leftovers(first) == []
    second.run("sync")
    assert _in_objects(hub, reachable=True) == []
    assert _leftovers(second) == []
    assert first.turns() == second.turns()
    assert first.files() == second.files()
    assert "- tea is green" in (first.memory / "topics/late.md").read_text()
    assert "- mild in Lisbon" in (first.memory / "topics/weather.md").read_text()


def test_a_person_who_was_forgotten_is_not_written_down_again(first, place) -> None:
    first.run("people", "forget", ACCOUNT, "--yes")
    before = first.turns()
    refused = first.run(
        "hear", DM, "--channel", "group", "--as", ACCOUNT, "--name", NAME, exit_code=5
    )
    assert "forgotten" in refused.stderr
    again = first.run("import-chat", str(place / f"{NAME}.jsonl"), "--as", ACCOUNT)
    assert "a person who was forgotten" in again.stdout
    assert first.turns() == before
    assert not any(word in str(first.turns()).lower() for word in WORDS)


def test_turns_keep_their_place_and_those_of_others_their_bytes(first) -> None:
    before = first.turns()
    first.run("people", "forget", NAME, "--yes")
    after = first.turns()
    assert [(role, at) for _, role, _, at in after] == [(role, at) for _, role, _, at in before]
    assert [t for t in after if "[forgotten]" not in t[2]] == [t for t in before if "Nice" in t[2]]
    assert "In Lisbon? [forgotten] told me: [forgotten]." in [t[2] for t in after]


def test_nobody_is_forgotten_without_a_yes(first) -> None:
    before = first.turns(), first.files()
    first.run("people", "forget", NAME, exit_code=5)
    told = first.data("people", "forget", NAME, "--dry-run")
    assert told["turns"] == 3
    assert told["replies"] == 2
    assert told["order"] == ""
    assert f"people/{SLUG}.md" in told["files"]
    assert (first.turns(), first.files()) == before


def test_a_record_goes_only_if_it_has_their_words_and_the_greeting_is_not_theirs(first) -> None:
    with Familiar.load_from_disk(first.path, "ada") as familiar:
        greeting = familiar.character().greetings[0]
        familiar.history.append("dm-9911223344", "assistant", greeting)
    traces = first.path / "ada" / "traces"
    (traces / "901.json").write_text(json.dumps({"sent": f"{greeting} Nice weather in Lisbon"}))
    assert first.data("people", "forget", NAME, "--dry-run")["records_of_others"] == 1
    shown = first.run("people", "forget", NAME, "--yes").stdout
    assert "1 of replies to others" in shown
    assert "renamed  channel dm-9911223344 to forgotten-" in shown
    assert [path.name for path in traces.iterdir()] == ["901.json"]
    (traces / "901.json").unlink()
    assert "when the person was forgotten" in first.run("context", exit_code=4).stderr
    assert "forgetting somebody" in first.run("context", "1", exit_code=4).stderr


def test_the_owner_is_not_forgotten(first) -> None:
    first.run("hear", "it is me", "--channel", "cli")
    with Familiar.load_from_disk(first.path, "ada") as familiar:
        me = familiar.me().author
    first.run("people", "forget", f"{me.platform}:{me.user_id}", "--yes", exit_code=5)


def test_a_branch_from_before_the_order_is_never_merged(first, second, hub) -> None:
    second.run("sync")
    second.append("topics/late.md", f"\n- {NAME} wrote again\n")
    with closing(Repo(str(hub))) as repo:
        stale = dict(repo.get_refs())
    first.run("people", "forget", NAME, "--yes")
    done = first.run("sync", exit_code=7)
    assert "aside" in done.stderr
    assert _leftovers(first) == []
    second.run("sync")
    with closing(Repo(str(hub))) as repo:  # a person pushes with force what they still have
        old = next(id_ for ref, id_ in stale.items() if ref == b"refs/heads/main")
        repo.refs[b"refs/heads/main"] = old
    first.run("sync", exit_code=7)
    assert _leftovers(first) == []
    assert _leftovers(second) == []


def test_a_machine_that_begins_later_knows_whom_to_forget(first, hub, tmp_path) -> None:
    first.run("people", "forget", NAME, "--yes")
    first.run("sync")
    third = Home(tmp_path / "third")
    third.run("init", "ada", "--from-remote", str(hub))
    assert third.turns() == first.turns()
    assert _leftovers(third) == []
    third.run("hear", DM, "--channel", "group", "--as", ACCOUNT, exit_code=5)


def test_a_restored_backup_forgets_again(first, tmp_path) -> None:
    first.run("backup", str(tmp_path / "backups"))
    first.run("people", "forget", NAME, "--yes")
    (first.path / "ada").rename(tmp_path / "lost")
    orders = first.path / ".forgotten.json"
    known = orders.read_bytes()
    orders.write_bytes(known[:-9])
    refused = first.run("restore", str(tmp_path / "backups"), exit_code=5)
    assert "'.forgotten.json' in the home is damaged" in refused.stderr
    assert not (first.path / "ada").exists()
    orders.write_bytes(known)
    first.run("restore", str(tmp_path / "backups"))
    assert _leftovers(first) == []
    first.run("sync")
    assert _leftovers(first) == []


def test_a_folder_holds_nothing_after_all_have_synced(first, tmp_path) -> None:
    folder = tmp_path / "stick"
    folder.mkdir()
    first.run("sync", "remote", "add", "stick", f"dir:{folder}")
    first.run("sync")
    old = {path.name for path in folder.iterdir()}
    first.run("people", "forget", NAME, "--yes")
    first.run("sync")
    assert _leftovers(first) == []
    assert not old & {path.name for path in folder.iterdir() if path.name.endswith(".bundle")}


def test_quoting_turns_are_named_and_forgotten_only_on_request(first) -> None:
    first.run("hear", f"{NAME} said so", "--channel", "group", "--as", "discord:77")
    told = first.data("people", "forget", NAME, "--dry-run")
    (quoting,) = told["quoting"]
    first.run("people", "forget", NAME, "--turn", str(quoting), "--yes")
    assert _leftovers(first) == []


def test_a_line_that_a_namesake_hides_goes_on_every_machine_when_it_is_named(first, second) -> None:
    first.run("hear", "Hello", "--channel", "group", "--as", "discord:78", "--name", NAME)
    first.append("topics/mill.md", f"# Mill\n\n- {NAME} keeps bees.\n- {NAME} is tall.\n")
    first.run("sync")
    second.run("sync")
    told = first.data("people", "forget", ACCOUNT, "--line", "topics/mill.md:3", "--yes")
    assert "topics/mill.md:3" in told["remaining"]  # the next line, now in its place
    first.run("sync", exit_code=7)
    carried_out = second.run("sync").stderr
    assert "A person was forgotten, and these may still name them" in carried_out
    for home in (first, second):
        text = (home.path / "ada" / "memory" / "topics" / "mill.md").read_text()
        assert text == f"# Mill\n\n- {NAME} is tall.\n"


def test_a_person_is_given_everything(first, tmp_path) -> None:
    first.run("people", "export", NAME, str(tmp_path / "out"))
    written = "".join(p.read_text() for p in (tmp_path / "out").rglob("*") if p.is_file())
    assert all(text in written for text in (GROUP, DM, IMPORTED, "a zantholite"))
    assert "mild in Lisbon" not in written
    assert "Nice weather" not in written


def test_what_others_did_can_still_be_undone_and_seen(first) -> None:
    first.append("notes.md", "- buy bread\n")
    first.run("memory", "ls")
    first.run("memory", "append", "notes.md", "- buy milk")
    first.run("people", "forget", NAME, "--yes")
    log = first.run("memory", "log").stdout
    assert "forget a person" in log
    assert NAME not in log
    assert "buy milk" in first.run("memory", "blame", "notes.md").stdout
    assert first.run("doctor").exit_code == 0


@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_break_while_old_history_goes_loses_nothing_else(first, step, monkeypatch) -> None:
    calls = 0

    def breaks(path) -> None:
        nonlocal calls
        calls += 1
        if calls == step:
            raise KeyboardInterrupt
        remove(path)

    monkeypatch.setattr(epochs, "remove", breaks)
    first.run("people", "forget", ACCOUNT, "--yes", exit_code=130)
    assert calls == step
    monkeypatch.undo()
    assert len(first.data("memory", "log")["commits"]) > 1
    first.run("people", "forget", ACCOUNT, "--yes")
    assert "mild in Lisbon" in first.run("memory", "cat", "topics/weather.md").stdout
    assert _leftovers(first) == []
