"""An import says when others will be able to hear a chat."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.imports import import_chat
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.imports import Appender
from familiar_cli.store.history.selection import TurnFilter, select_turns
from tests.support.world import data, home, live, run

GROUP = (
    "28.03.25, 21:25 <Cy> The stove needs a new pipe.\n"
    "28.03.25, 21:26 <Robin> I will bring one.\n"
    "28.03.25, 21:27 <Ada> At six.\n"
)
ARGS = ("--me", "Robin", "--character", "Ada", "--dates", "dmy")


def test_a_group_is_heard_by_everybody_and_the_import_says_how_to_make_it_private(tmp_path) -> None:
    live("ada")
    path = tmp_path / "stove.txt"
    path.write_text(GROUP, encoding="utf-8")
    told = "heard by everybody"
    assert told in " ".join(run("import", str(path), *ARGS, "--dry-run").stdout.split())
    assert told in " ".join(run("import", str(path), *ARGS).stdout.split())
    stranger = ("ask", "What does the stove need?", "--as", "discord:9", "--channel", "pub")
    assert "new pipe" in str(data(*stranger, "--dry-run"))
    assert run("channel", "set", "stove", "--kind", "dm").exit_code == 0
    assert "new pipe" not in str(data(*stranger, "--dry-run"))


def test_a_chat_of_two_says_that_only_they_hear_it(tmp_path) -> None:
    live("ada")
    path = tmp_path / "two.txt"
    path.write_text(GROUP.partition("\n")[2], encoding="utf-8")
    assert "heard by only you" in " ".join(run("import", str(path), *ARGS).stdout.split())


def test_a_directory_names_each_chat_of_which_nobody_said_whose_it_is(tmp_path) -> None:
    live("ada")
    for name in ("Bo", "Cy"):
        text = GROUP.partition("\n")[2].replace("Robin", name)
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    command = ("import", str(tmp_path), "--character", "Ada", "--dates", "dmy")
    refused = run(*command)
    assert refused.exit_code == 2
    said = f"{tmp_path / 'Bo.txt'} --dates dmy --character Ada"
    assert f"`familiar import {said} --as chat:Bo`" in refused.stderr
    run("me", "--name", "Bo")
    partial = run(*command)
    assert partial.exit_code == 7
    assert "--me Cy" in partial.output


def test_the_command_to_type_names_the_familiar_and_standard_input() -> None:
    live("ada")
    live("bo")
    text = GROUP.partition("\n")[2]
    for command in ("import", "import-chat"):
        words = (command, "-", "--familiar", "ada", "--character", "Ada", "--dates", "dmy")
        refused = run(*words, stdin=text)
        assert "'Robin' speaks in 'stdin'" in refused.stderr
        said = f"familiar {command} --familiar ada - --dates dmy --character Ada --me Robin"
        assert f"`{said}`" in refused.stderr


def test_a_group_of_characters_is_a_conversation_of_the_owner_alone(tmp_path) -> None:
    live("ada")
    lines = [
        {"name": "Galahad", "is_user": True, "mes": "A zebra lives here.", "send_date": 1.7e12},
        {"name": "Ada", "is_user": False, "mes": "A zebra!", "send_date": 1.7e12 + 9},
        {"name": "Bors", "is_user": False, "mes": "Two zebras.", "send_date": 1.7e12 + 99},
    ]
    path = tmp_path / "group.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    assert "heard by only you" in " ".join(run("import", str(path)).stdout.split())
    stranger = ("ask", "Which animal lives here?", "--as", "discord:9", "--channel", "pub")
    assert "zebra" not in str(data(*stranger, "--dry-run"))
    assert "Two zebras" in str(data("ask", "Which animal lives here?", "--dry-run"))


WORDS = {"Bo": "The stove needs a new pipe.", "Cy": "Yes, a pipe.", "Di": "At six."}


def whatsapp(names: str) -> str:
    lines = (f"28.03.25, 21:2{n} - {name}: {WORDS[name]}\n" for n, name in enumerate(names.split()))
    return "".join(lines)


def telegram(names: str, kind: str) -> str:
    messages = [
        {
            "id": n,
            "type": "message",
            "date_unixtime": str(1_700_000_000 + n),
            "from": name,
            "from_id": f"user{name}",
            "text": WORDS[name],
        }
        for n, name in enumerate(names.split())
    ]
    return json.dumps({"name": "Bo", "type": kind, "id": 5, "messages": messages}, indent=1)


def discord(names: str, kind: str) -> str:
    messages = [
        {
            "id": str(n),
            "type": "Default",
            "timestamp": f"2025-03-28T21:2{n}:00+00:00",
            "content": WORDS[name],
            "author": {"id": name, "name": name},
        }
        for n, name in enumerate(names.split())
    ]
    channel = {"id": "9", "type": kind, "name": "Bo"}
    return json.dumps({"guild": {"id": "0"}, "channel": channel, "messages": messages})


def messenger(names: str) -> str:
    messages = [
        {"sender_name": name, "timestamp_ms": 1_700_000_000_000 + n, "content": WORDS[name]}
        for n, name in enumerate(names.split())
    ]
    people = [{"name": name} for name in names.split()]
    return json.dumps({"participants": people, "title": "Bo", "messages": messages})


@pytest.mark.parametrize(
    ("text", "is_public"),
    [
        (whatsapp("Bo Cy"), False),
        (whatsapp("Bo Cy Di"), False),
        (messenger("Bo Cy"), False),
        (messenger("Bo Cy Di"), False),
        (telegram("Bo Cy", "personal_chat"), False),
        (telegram("Bo Cy Di", "private_supergroup"), False),
        (telegram("Bo Cy", "public_supergroup"), True),
        (discord("Bo Cy", "DirectTextChat"), False),
        (discord("Bo Cy Di", "DirectGroupTextChat"), False),
        (discord("Bo Cy Di", "GuildTextChat"), True),
    ],
)
def test_a_chat_without_the_familiar_is_as_private_as_its_file(tmp_path, text, is_public) -> None:
    live("ada")
    path = tmp_path / ("chat.json" if text.startswith("{") else "chat.txt")
    path.write_text(text, encoding="utf-8")
    done = run("import", str(path), "--character", "-", "--dates", "dmy")
    told = "everybody; `familiar channel set " if is_public else "only you; `familiar channel set "
    assert f"heard by {told}" in " ".join(done.stdout.split())
    assert data("channel", "list")["channels"][0]["heard_by"] == told.partition(";")[0]
    stranger = ("ask", "What does the stove need?", "--as", "discord:9", "--channel", "pub")
    assert ("new pipe" in str(data(*stranger, "--dry-run"))) is is_public


def test_a_private_group_can_be_opened_to_its_speakers(tmp_path) -> None:
    live("ada")
    path = tmp_path / "chat.json"
    path.write_text(telegram("Bo Cy Di", "private_group"), encoding="utf-8")
    run("import", str(path), "--character", "-")
    question = ("ask", "What does the stove need?", "--dry-run", "--channel")
    member, stranger = ((*question, "bo", "--as", f"telegram:{who}") for who in ("Cy", "Zed"))
    assert "new pipe" not in str(data(*member))
    run("channel", "set", "bo", "--kind", "group_dm")
    assert "new pipe" in str(data(*member))
    assert run(*stranger).exit_code == 5
    assert "new pipe" not in str(data(*question, "pub", "--as", "telegram:Cy"))


def test_what_is_added_to_a_private_chat_is_private_although_its_channel_is_public_now(
    tmp_path,
) -> None:
    live("ada")
    path = tmp_path / "chat.json"
    for names in ("Bo Cy", "Bo Cy Di"):
        path.write_text(telegram(names, "private_group"), encoding="utf-8")
        assert "Imported" in run("import", str(path), "--character", "-").stdout
        for who in ("1", "2"):
            said = ("hear", f"Who lights the fire, {who}?", "--as", f"discord:{who}")
            run(*said, "--channel", "bo", "--at", "2023-11-14T22:13:21.5Z")
    told = str(data("ask", "Fire at six?", "--as", "discord:9", "--channel", "pub", "--dry-run"))
    assert ("the fire, 2" in told, "At six." in told) == (True, False)


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_chat_of_two_is_private_also_if_its_import_was_interrupted(
    tmp_path, monkeypatch, batches
) -> None:
    live("ada")
    path = tmp_path / "chat.txt"
    path.write_text(whatsapp("Bo Cy Bo Cy"), encoding="utf-8")
    command = ("import", str(path), "--character", "-", "--dates", "dmy")
    append, left = Appender.add, [None] * batches

    def add(*args, **options):
        left.pop()
        return append(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(import_chat, "_BATCH", 1)
        patch.setattr(Appender, "add", add)
        assert isinstance(run(*command).exception, IndexError)
    for turns in (batches, 4):
        with closing(HistoryStore(home() / "ada" / "history.db")) as store:
            kept = list(select_turns(store, TurnFilter(OWNER)))
        assert len(kept) == turns
        assert None not in [one.turn.one_to_one for one in kept]
        assert run(*command).exit_code == 0
    assert data("channel", "list")["channels"][0]["heard_by"] == "only you"
