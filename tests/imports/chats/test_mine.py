"""Which lines of an imported chat are mine."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.base.text import fold
from familiar_cli.base.who.identity import NEUTRAL, Author
from familiar_cli.familiar import Familiar
from familiar_cli.imports.cast import Cast
from tests.support.cases import each
from tests.support.chats import HEAD, robin, save, yuzu
from tests.support.sillytavern import lived_in
from tests.support.world import data, live, run

ANNA = Author("cli", "user", display_name="Anna")
ROBIN = Author("sillytavern", "Robin", display_name="Robin")


def authors(channel: str) -> list[tuple[str, str, str]]:
    turns = data("history", "show", "--channel", channel)["turns"]
    found = [turn["author"] for turn in turns if turn["author"]]
    return [(a["platform"], a["user_id"], a["display_name"]) for a in found]


@pytest.fixture
def ada():
    root = live("ada")
    (root / "character.toml").write_text('name = "Yuzu"\n', encoding="utf-8")
    return root


def bring(tmp_path, *lines, options=()):
    save(tmp_path / "c.jsonl", *lines)
    return run("import-chat", str(tmp_path / "c.jsonl"), *options)


@each("name", ["", "robin"])
def test_the_user_of_a_chat_is_me_under_the_names_of_the_chat(ada, tmp_path, name) -> None:
    if name:
        run("me", "--name", name)
    bring(tmp_path, HEAD, yuzu("Hi"), robin("Hello"), robin("I am a knight.", name="Galahad"))

    assert authors("c") == [("cli", "user", "Robin"), ("cli", "user", "Galahad")]


def discord_line(number: int, name: str, text: str) -> dict[str, object]:
    author = {"id": str(number), "name": name.lower(), "nickname": name}
    at = f"2024-02-01T10:00:0{number}Z"
    return {"type": "Default", "timestamp": at, "content": text, "author": author}


DISCORD = [discord_line(7, "Jon", "Hi"), discord_line(8, "Yuzu", "Hello.")]
FORMS = {
    "c.jsonl": '{"name": "Jon", "is_user": true, "mes": "Hi"}\n{"name": "Yuzu", "mes": "Hello."}\n',
    "c.txt": "Jon: Hi\nYuzu: Hello.\nJon: Are you there?\nYuzu: I am.\n",
    "c.json": '[{"role": "user", "name": "Jon", "content": "Hi"}]',
    "d.json": json.dumps({"guild": {"id": "1"}, "channel": {"id": "2"}, "messages": DISCORD}),
}


@pytest.mark.parametrize("file", FORMS)
def test_nobody_of_another_name_is_taken_for_me(ada, tmp_path, file) -> None:
    run("me", "--name", "Caroline")
    path = tmp_path / file
    path.write_text(FORMS[file], "utf-8")
    is_of_silly_tavern = file == "c.jsonl"  # its user is the owner, whatever the persona
    refused = run("import-chat", str(path))
    if is_of_silly_tavern:
        assert refused.exit_code == 0
        assert authors("c") == [("cli", "user", "Jon")]
        return
    name = json.loads(path.read_text())["messages"][0]["author"]["id"] if file == "d.json" else ""
    account = f"discord:{name}" if name else "chat:Jon"
    assert refused.exit_code == 2
    for said in (f"{path} --me Jon", f"{path} --as {account}"):
        assert f"`familiar import-chat {said}`" in refused.stderr
    mine = data("import-chat", str(path), "--dry-run", "--me", "jon")["chats"][0]
    assert ("Jon", "me") in {(one["name"], one["role"]) for one in mine["speakers"]}

    found = data("import-chat", str(path), "--as", account)
    assert found["chats"][0]["heard_by"] == "you and Jon"
    channel = found["channel"]
    assert {":".join(one[:2]) for one in authors(channel)} == {account}
    with Familiar.load_from_disk() as loaded:
        viewer = loaded.privacy.viewer_in("elsewhere", loaded.me().author)
        assert not loaded.history.recent(channel, 9, viewer=viewer)

    assert data("import-chat", str(path), "--dry-run")["chats"][0]["imported"] == 0  # asked once
    run("me", "--also", account)
    again = data("import-chat", str(path), "--dry-run")["chats"][0]
    assert (again["notes"], again["imported"]) == ([], 0)


def test_two_accounts_with_one_name_are_two_people_of_whom_nobody_is_asked(ada, tmp_path) -> None:
    run("me", "--name", "Caroline")
    lines = [discord_line(7, "Jon", "Hi"), discord_line(8, "Jon", "Hello.")]
    channel = {"id": "2", "type": "GuildTextChat", "name": "den"}
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"guild": {"id": "1"}, "channel": channel, "messages": lines}))
    run("me", "--name", "")
    refused = run("import-chat", str(path), "--character", "-", "--me", "jon")
    assert refused.exit_code == 5
    assert "several accounts in" in refused.stderr
    assert "`familiar me --also discord:7`" in refused.stderr
    chat = data("import-chat", str(path), "--character", "-")["chats"][0]
    assert (chat["heard_by"], chat["imported"]) == ("everybody", 2)
    assert [(one["name"], one["role"]) for one in chat["speakers"]] == [("Jon", "person")]
    assert authors("den") == [("discord", "7", "Jon"), ("discord", "8", "Jon")]


ROLES = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]


@pytest.mark.parametrize("text", [*FORMS.values(), json.dumps(ROLES), "Jon: Hi\nAI: Hello.\n" * 2])
def test_nobody_is_the_familiar_if_that_is_said(ada, tmp_path, text) -> None:
    path = tmp_path / "c.txt"
    path.write_text(text, "utf-8")
    told = data("import-chat", str(path), "--character", "-", "--me", "Jon")
    turns = data("history", "show", "--channel", told["channel"])["turns"]
    assert {turn["role"] for turn in turns} == {"user"}
    assert len({turn["author"]["display_name"] for turn in turns}) == len(turns[:2])


def test_the_user_of_a_folder_is_me_whatever_its_personas_are_called(tmp_path) -> None:
    folder = lived_in(tmp_path / "default-user")
    folder.put("settings.json", {"power_user": {"personas": {"a.png": "Jon"}}})
    run("me", "--name", "Caroline")
    told = data("import-sillytavern", str(folder.root), "--dry-run", code=7)["familiars"]
    assert told == data("import-sillytavern", str(folder.root), code=7)["familiars"]
    assert not any("someone other than you" in str(one["warnings"]) for one in told)


def test_of_several_people_i_am_who_i_say(ada, tmp_path) -> None:
    lines = [HEAD, robin("Hello"), robin("I am Bo.", name="Bo")]
    refused = bring(tmp_path, *lines, options=["--me", "Eve"])
    bring(tmp_path, *lines, options=["--me", "robin"])

    assert (refused.exit_code, "'Bo' and 'Robin'" in refused.stderr) == (5, True)
    assert authors("c") == [("cli", "user", "Robin"), ("sillytavern", "Bo", "Bo")]


def test_who_was_imported_before_goes_on_under_that_account() -> None:
    cast = Cast(me=NEUTRAL, before=frozenset({ROBIN.slug}))

    assert cast.person("Robin", ROBIN) == ROBIN
    assert cast.person("Robin", ROBIN, is_one_of_many=True) == ROBIN
    assert Cast(me=NEUTRAL).person("Robin", ROBIN).user_id == "user"
    assert Cast(user=Author("discord", "7"), before=cast.before).person("", ROBIN).user_id == "7"


def test_of_plain_lines_with_several_names_mine_are_those_with_my_name(ada, tmp_path) -> None:
    run("me", "--name", "Anna")
    said = [("Anna", "a"), ("Bo", "b"), ("", "c")]
    lines = [{"role": "user", "name": name, "content": text} for name, text in said]
    assert bring(tmp_path, *lines).exit_code == 0

    assert authors("c") == [
        ("cli", "user", "Anna"),
        ("chat", "Bo", "Bo"),
        ("cli", "user", "Anna"),
    ]


GROUP = [("Anna", "We meet at the lighthouse."), ("Bo", "At six.")]


def test_a_name_alone_makes_nobody_me_but_the_command_that_does_is_printed(ada, tmp_path) -> None:
    lines = [{"role": "user", "name": name, "content": text} for name, text in GROUP]
    assert bring(tmp_path, *lines).exit_code == 0
    assert authors("c")[0] == ("chat", "Anna", "Anna")
    run("hear", "I am Cy", "--as", "discord:5", "--name", "Cy", "--channel", "town")
    told = run("me", "--name", "Anna", "--also", "discord:9")
    assert "has your name too; if that is you: `familiar me --also chat:Anna`" in told.stderr
    with Familiar.load_from_disk() as loaded:
        assert not loaded.me().is_me(Author("chat", "Anna"))
    assert "has your name" not in run("me", "--name", "Cy").stderr  # who has spoken live


@pytest.mark.parametrize("kind", ["GuildTextChat", "DirectGroupTextChat"])
def test_in_public_an_account_with_my_name_is_somebody_else(ada, tmp_path, kind) -> None:
    run("me", "--name", "Jon")
    lines = [*DISCORD, discord_line(9, "Bo", "Hey")]
    value = {"guild": {"id": "1"}, "channel": {"id": "2", "type": kind}, "messages": lines}
    path = tmp_path / "d.json"
    path.write_text(json.dumps(value), "utf-8")
    for name in ("-", "Jon"):
        shown = data("import-chat", str(path), "--me", name, "--dry-run")["chats"][0]
        is_mine = ("Jon", "me") in {(one["name"], one["role"]) for one in shown["speakers"]}
        assert is_mine is (name == "Jon")
    told = " ".join(run("import-chat", str(path)).stdout.split())
    mine = kind != "GuildTextChat"
    assert ("you Jon; if that is somebody else" in told) is mine
    assert ("'Jon' has your name, and is treated as somebody else" in told) is not mine
    assert (("discord", "7", "Jon") in authors("d-2")) is not mine


def test_an_account_with_the_name_of_another_one_of_mine_is_somebody_else(ada, tmp_path) -> None:
    run("me", "--name", "Jon", "--also", "discord:1")
    lines = [*DISCORD, discord_line(1, "Jon", "It is I.")]
    value = {"channel": {"id": "2", "type": "DirectGroupTextChat"}, "messages": lines}
    (tmp_path / "d.json").write_text(json.dumps(value), "utf-8")
    channel = data("import-chat", str(tmp_path / "d.json"))["channel"]
    assert sorted(authors(channel)) == [("discord", "1", "Jon"), ("discord", "7", "Jon")]


def telegram_chat(kind: str, *senders: tuple[str, str]) -> dict[str, object]:
    messages = [
        {"id": n, "type": "message", "date_unixtime": "1714608000", "from": name, "from_id": who}
        | {"text": f"{kind} {n}"}
        for n, (name, who) in enumerate(senders)
    ]
    return {"name": kind, "type": kind, "id": sum(map(ord, kind)), "messages": messages}


@pytest.mark.parametrize("name", ["", "Jon"])
def test_an_export_of_an_account_says_who_i_am(ada, tmp_path, name) -> None:
    me, twin, bo = ("Jon", "user1"), ("Jon", "user9"), ("Bo", "user5")
    chats = [
        telegram_chat("saved_messages", me),
        telegram_chat("private_group", twin, bo, me),
        telegram_chat("public_channel", ("News", "channel9")),
        telegram_chat("private_channel", ("Club", "channel8")),
    ]
    value = {"personal_information": {"user_id": 1}, "chats": {"list": chats}}
    path = tmp_path / "result.json"
    path.write_text(json.dumps(value), "utf-8")
    if name:
        run("me", "--name", name)
    options = (str(path), "--character", "-")
    refused = run("import", *options, "--as", "telegram:channel9")
    assert (refused.exit_code, "use `--as telegram:1`" in refused.stderr) == (5, True)
    done = run("import", *options)
    assert done.exit_code == 0, done.output
    heard = {c["id"]: c["heard_by"] for c in data("channel", "list")["channels"]}
    assert heard.pop("public-channel") == "everybody"
    assert set(heard.values()) == {"only you"}
    assert authors("saved-messages")[0][:2] == ("cli", "user")
    group = [one[:2] for one in authors("private-group")]
    assert group == [("telegram", "9"), ("telegram", "5"), ("cli", "user")]
    again = data("import", *options)
    assert "skipped_count': 0" in str(again)


NAMES = st.text(st.characters(categories=("L", "N", "Zs")), min_size=1, max_size=12)


@given(own=NAMES, name=NAMES, several=st.booleans())
def test_whoever_bears_my_name_is_me_and_nobody_else_is(own, name, several) -> None:
    cast = Cast(me=replace(ANNA, display_name=own))
    other = Author("chat", name, display_name=name)
    meant = fold(own) == fold(name) or fold(name) in {"me", "you", "user", "human", "myself"}
    assert cast.is_me(name, other, is_one_of_many=several) is meant
    assert replace(cast, mine=(name,)).is_me(name, other)
    assert replace(cast, also=frozenset({other.slug})).is_me(name, other)


@each("cast", [Cast(), Cast(me=ANNA), Cast(me=ANNA, mine=("Robin",))])
@each("name", ["", "Robin", "Bo"])
def test_somebody_always_said_it(cast, name) -> None:
    found = cast.person(name, ROBIN, is_one_of_many=True)
    assert found in {ROBIN, Author("cli", "user", display_name=name or "Anna")}
