"""Digests in a prompt: what is newest stays longest, and the same text stands there every turn."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from familiar_cli.base.who.visibility import channel_scope
from familiar_cli.context.budget import PROMPT_TOKENS, Budgeter
from familiar_cli.context.providers.memory_files import DeskProvider, DigestsProvider
from familiar_cli.context.types import Contribution, Fit, Layer, PromptSpan, Subject
from familiar_cli.llm import tokens
from familiar_cli.store.memory.pages.visible_lines import private_heading
from familiar_cli.store.memory.store.store import MemoryStore
from tests.context.support import request

DAY = "He walked to the harbour and talked about the weather with a friend. " * 3


@pytest.fixture
def store(tmp_path):
    return MemoryStore(tmp_path / "memory")


def offered(store, **asked):
    return asyncio.run(
        DigestsProvider(store, tokens.heuristic().count).contribute(request(**asked))
    )


def short(store, days=4) -> None:
    sections = "".join(f"## 2026-01-0{day}\n\nDay {day}. {DAY}\n\n" for day in range(1, days + 1))
    store.write_file("digest/short.md", f"# Lately\n\n{sections}")


def test_each_session_is_a_piece_with_its_lines(store) -> None:
    short(store, 2)
    pieces = offered(store)
    assert [(p.text[:13], p.lines) for p in pieces] == [
        ("## 2026-01-01", (3, 5)),
        ("## 2026-01-02", (7, 9)),
    ]


def test_of_the_latest_sessions_the_oldest_go_first(store) -> None:
    short(store)
    pieces = offered(store)
    budgeter = Budgeter(tokens.heuristic())
    room = budgeter.cost(pieces[0]) * 2 + 10
    kept = budgeter.fill(pieces, {Layer.digest: room}, room + PROMPT_TOKENS).fragments
    assert [fragment.kept for fragment in kept] == [False, False, True, True]
    assert "one after it did not fit" in kept[0].reason


def test_a_digest_changes_seldom_while_the_chat_grows(store) -> None:
    store.write_file("digest/mid.md", f"# Weeks\n\n{DAY * 6}")
    budgeter = Budgeter(tokens.heuristic())
    limits = {Layer.digest: 300, Layer.recent_history: 250}
    shown = []
    for turns in range(30):
        chat = [
            Contribution(
                Layer.recent_history, 80, "word " * 5, "t", PromptSpan.chat, turn_id=n, fit=Fit.run
            )
            for n in range(turns)
        ]
        filled = budgeter.fill([*offered(store), *chat], limits, 400)
        assert filled.fragments[0].kept
        shown.append(filled.fragments[0].text)
    assert sum(one != other for one, other in pairwise(shown)) <= 4


def test_comments_of_the_program_and_private_words_of_other_channels_are_left_out(store) -> None:
    hidden = private_heading("DM:anna", channel_scope("dm-1"))
    text = (
        f"# Weeks\n<!-- made from: abc -->\nOpen words. <!-- turns 1-4 -->\n\n{hidden}\n\nSecret.\n"
    )
    store.write_file("digest/mid.md", text)
    (here,) = offered(store)
    assert here.text == "# Weeks\n\nOpen words."
    assert not here.shortened
    assert "Secret." in offered(store, channel_id="dm-1")[0].text


def test_what_it_was_made_of_is_left_out(store) -> None:
    front = "---\nmade_by: familiar\nsources: {}\n---\n"
    for name in ("short", "mid"):
        store.write_file(f"digest/{name}.md", f"{front}# Lately\n\n## Monday\n\nHe came.\n")
    mid, newest = offered(store)
    assert (mid.text, mid.lines) == ("# Lately\n\n## Monday\n\nHe came.", (5, 9))
    assert (newest.text, newest.lines) == ("## Monday\n\nHe came.", (7, 9))


def test_a_digest_that_cannot_be_read_is_told(store) -> None:
    store.write_file("digest/mid.md", b"\xff\xfe")
    (piece,) = offered(store)
    assert "UTF-8" in piece.problem


@pytest.mark.parametrize(
    ("rel_path", "reason"),
    [
        ("digest/long.md", "tier 2 does not load it; tier 3 and above do"),
        ("digest/mid.md", "it is empty"),
        ("digest/other.md", "only short.md, mid.md and long.md"),
        ("notes.md", None),
    ],
)
def test_why_a_digest_is_not_there(store, rel_path, reason) -> None:
    found = DigestsProvider(store, tokens.heuristic().count).why_not(Subject(rel_path), request())
    assert found == reason or (reason and reason in (found or ""))


@pytest.mark.parametrize(
    ("rel_path", "text", "tier", "reason"),
    [
        ("reminders.md", "- [ ] a @2030-01-01", 2, "nothing in it is due yet"),
        ("reminders.md", "- [x] a", 2, "nothing in it is open"),
        ("reminders.md", "- [ ] a", 2, ""),
        ("tasks.md", "- [ ] a", 3, "tier 3 does not load it, tier 4 does"),
        ("tasks.md", "- [ ] a", 4, ""),
        ("scratch.md", " ", 4, "it is empty"),
        ("notes.md", "x", 4, None),
    ],
)
def test_why_a_file_of_the_desk_is_not_there(store, rel_path, text, tier, reason) -> None:
    store.write_file(rel_path, text)
    desk = DeskProvider(store, None)
    assert desk.why_not(Subject(rel_path), request(tier=tier)) == reason


def test_a_private_reminder_is_shown_in_its_channel_only(store) -> None:
    hidden = private_heading("DM:anna", channel_scope("dm-1"))
    store.write_file("reminders.md", f"- [ ] open\n\n{hidden}\n\n- [ ] secret\n")
    desk = DeskProvider(store, None)
    texts = [
        asyncio.run(desk.contribute(request(channel_id=channel)))[0].text
        for channel in ("cli", "dm-1")
    ]
    assert ["secret" in text for text in texts] == [False, True]


def test_what_goes_on_below_an_open_task_is_shown_with_it(store) -> None:
    tasks = "- [ ] lamp\n  room: 3\n  - [ ] bulb\n    40 W\n- [x] door\n* boat\r\n\tleaks\r\n\n"
    store.write_file("tasks.md", tasks)
    (piece,) = asyncio.run(DeskProvider(store, None).contribute(request(tier=4)))
    assert piece.text.splitlines()[1:] == [
        "- lamp",
        "  room: 3",
        "- bulb",
        "    40 W",
        "- boat",
        "\tleaks",
    ]


def test_what_is_private_below_a_task_is_not_shown_elsewhere(store) -> None:
    hidden = private_heading("DM:anna", channel_scope("dm-1"))
    store.write_file("tasks.md", f"- [ ] lamp\n  room\n\n{hidden}\n\n- [ ] secret\n  secret room\n")
    (piece,) = asyncio.run(DeskProvider(store, None).contribute(request(tier=4)))
    assert piece.text.splitlines()[1:] == ["- lamp", "  room"]


def test_all_three_digests_are_there_however_long_one_is(store) -> None:
    short(store, 9)
    store.write_file("digest/mid.md", f"# Weeks\n\n{DAY * 20}")
    store.write_file("digest/long.md", f"# Years\n\n{DAY * 20}")
    limits = {Layer.digest: 400}
    pieces = offered(store, tier=4, layer_tokens=limits)
    filled = Budgeter(tokens.heuristic()).fill(pieces, limits, 410)
    kept = {f.rel_path for f in filled.fragments if f.kept}
    assert kept == {"digest/short.md", "digest/mid.md", "digest/long.md"}
    newest = next(f for f in filled.fragments if "2026-01-09" in f.text)
    assert newest.kept


def test_what_one_digest_leaves_is_there_for_the_others(store) -> None:
    short(store, 1)
    store.write_file("digest/mid.md", f"# Weeks\n\n{DAY * 4}")
    store.write_file("digest/long.md", "# Years\n\nLong ago.")
    pieces = offered(store, tier=4, layer_tokens={Layer.digest: 2000})
    assert {p.priority for p in pieces} == {57, 58, 59}
