"""Exports of Discord, as DiscordChatExporter writes them, become turns."""

from __future__ import annotations

import json

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.imports.cast import Cast
from familiar_cli.imports.contract import Reading
from familiar_cli.store.history.selection import TurnFilter, select_turns
from tests.support.chats import READING, bring, only, said

ROBIN = {"id": "4711", "name": "robin.b", "nickname": "Robin", "isBot": False}
YUZU = {"id": "9000", "name": "yuzu-bot", "nickname": "Yuzu", "isBot": True}
GONE = {"id": "456226577798135808", "name": "Deleted User", "nickname": "Deleted User"}


def message(number, author, content, **more):
    return {
        "id": str(number),
        "type": "Default",
        "timestamp": f"2024-03-01T12:{number:02}:00.123+01:00",
        "timestampEdited": None,
        "isPinned": False,
        "content": content,
        "author": author,
        "attachments": [],
        "embeds": [],
        "stickers": [],
        "reactions": [],
        "mentions": [],
        **more,
    }


MESSAGES = [
    message(1, ROBIN, "Is the ferry in?"),
    message(2, YUZU, "It is late.", type="Reply", reference={"messageId": "1"}),
    message(3, ROBIN, "", attachments=[{"id": "1", "fileName": "ferry [1].png"}]),
    message(4, ROBIN, "", stickers=[{"name": "Wave"}]),
    message(5, ROBIN, "Changed the channel icon.", type="ChannelIconChange"),
    message(6, GONE, "bye", timestampEdited="2024-03-01T13:00:00+01:00"),
    message(7, YUZU, "See:", embeds=[{"title": "Timetable", "description": "12:40", "url": ""}]),
]


def export(path, messages=MESSAGES, **more):
    value = {
        "guild": {"id": "1", "name": "Home"},
        "channel": {
            "id": "2",
            "type": "GuildTextChat",
            "name": "harbour",
            "topic": '"messages": [',
        },
        "dateRange": {"after": None, "before": None},
        "exportedAt": "2026-01-01T00:00:00+00:00",
        "messages": messages,
        "messageCount": len(messages),
    }
    path.write_text(json.dumps(value | more, indent=2), encoding="utf-8")
    return path


def turns(store, channel="harbour"):
    return [kept.turn for kept in select_turns(store, TurnFilter(OWNER, channel))]


def test_messages_become_turns_with_accounts_and_times(store, tmp_path) -> None:
    chat = only(bring(store, export(tmp_path / "e.json")))
    assert (chat.format, chat.name, chat.channel, chat.imported) == (
        "discord",
        "harbour",
        "harbour",
        7,
    )
    first, second = turns(store)[:2]
    assert first.author == Author("discord", "4711", "robin.b", "Robin")
    assert first.at.isoformat() == "2024-03-01T11:01:00.123000+00:00"
    assert (second.role, second.author, second.content) == ("assistant", None, "It is late.")


def test_what_is_no_text_is_named_in_the_text(store, tmp_path) -> None:
    bring(store, export(tmp_path / "e.json"))
    assert said(store, "harbour")[2:] == [
        "[attachment: ferry [1].png]",
        "[sticker: Wave]",
        "Robin: Changed the channel icon.",
        "bye",
        "See:\n[embed: Timetable – 12:40]",
    ]


def test_what_discord_tells_is_no_model_shown(store, tmp_path) -> None:
    chat = only(bring(store, export(tmp_path / "e.json")))
    assert (chat.hidden, turns(store)[4].hidden, turns(store)[4].role) == (1, True, "system")
    assert turns(store)[5].author == Author("discord", GONE["id"], "Deleted User", "Deleted User")


def test_a_longer_export_adds_its_end_and_an_edit_is_named(store, tmp_path) -> None:
    bring(store, export(tmp_path / "e.json", MESSAGES[:5]))
    chat = only(bring(store, export(tmp_path / "later.json", exportedAt="2027")))
    assert (chat.channel, chat.imported, chat.already_there) == ("harbour", 2, 5)
    edited = [message(1, ROBIN, "Is the ferry there?"), *MESSAGES[1:]]
    chat = only(bring(store, export(tmp_path / "e.json", edited)))
    assert (chat.imported, chat.changed) == (0, 1)


def test_my_account_may_be_another(store, tmp_path) -> None:
    cast = Cast(("Yuzu",), user=Author("telegram", "1"), mine=("Robin",))
    bring(store, export(tmp_path / "e.json"), Reading(cast, READING.zone))
    assert turns(store)[0].author == Author("telegram", "1", display_name="Robin")


@pytest.mark.parametrize("cut", [40, 300, 700, 2000])
def test_an_export_that_is_cut_off_is_one_clear_error(store, tmp_path, cut) -> None:
    path = export(tmp_path / "e.json")
    path.write_bytes(path.read_bytes()[:cut])
    done = bring(store, path)
    assert done.problem is not None


def test_the_text_export(store, tmp_path) -> None:
    rule = "=" * 62
    (tmp_path / "Home - harbour.txt").write_text(
        f"{rule}\nGuild: Home\nChannel: Text / harbour\n{rule}\n\n"
        "[03/13/2024 12:30 PM] Robin\nHello\n\nNote: there\n\n"
        "[03/13/2024 12:31 PM] Yuzu (pinned)\nGood evening.\n\n{Attachments}\nhttps://x/ferry.png\n\n\n"
        "[03/13/2024 12:32 PM] Robin\nChanged the channel icon.\n\n"
        f"{rule}\nExported 3 message(s)\n{rule}\n",
        encoding="utf-8",
    )
    chat = only(bring(store, tmp_path / "Home - harbour.txt"))
    assert (chat.taken_for, chat.imported, chat.hidden, chat.damaged) == (
        "a text export of Discord, month first",
        3,
        1,
        0,
    )
    assert said(store, chat.channel) == [
        "Hello\n\nNote: there",
        "Good evening.\n\n{Attachments}\nhttps://x/ferry.png",
        "Robin: Changed the channel icon.",
    ]
    assert [skip.line for skip in chat.skipped] == [1, 2, 3, 4, 21, 22, 23]


def test_the_table(store, tmp_path) -> None:
    (tmp_path / "harbour.csv").write_text(
        "AuthorID,Author,Date,Content,Attachments,Reactions\n"
        '"4711","robin.b","2024-03-01T12:01:00.0000000+01:00","Is the ferry\nin, now?","",""\n'
        '"9000","Yuzu","2024-03-01T12:02:00.0000000+01:00","Late.","https://x/f.png?ex=1",""\n',
        encoding="utf-8",
    )
    chat = only(bring(store, tmp_path / "harbour.csv"))
    assert (chat.taken_for, chat.imported) == ("a Discord export as CSV", 2)
    assert said(store, "harbour") == ["Is the ferry\nin, now?", "Late.\n[attachment: f.png]"]
    assert turns(store)[0].author == Author("discord", "4711", "robin.b", "robin.b")
    assert turns(store)[0].at.isoformat() == "2024-03-01T11:01:00+00:00"
