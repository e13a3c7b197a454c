"""Forgetting follows links, not likeness, and takes a name out of names as well."""

from __future__ import annotations

from contextlib import closing

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history.store import HistoryStore
from tests.support.world import data, live, run

CATCHPHRASE = "Wonderful splendiferous morning, wanderer! Whatever shall we discover today?"
NAME = "Zyphrandra"


def say(root, account: str, name: str, words: str, reply: str) -> None:
    with closing(HistoryStore(root / "history.db")) as history:
        author = Author("discord", account, display_name=name)
        turn = history.append(f"room-{account}", "user", words, author=author)
        history.append(f"room-{account}", "assistant", reply, reply_to=turn.id)


def replies(root) -> dict[int, str]:
    with closing(HistoryStore(root / "history.db")) as history:
        channels = [one.channel_id for one in history.channels()]
        turns = [turn for one in channels for turn in history.recent(one, 99, viewer=OWNER)]
        return {turn.id: turn.content for turn in turns if turn.role == "assistant"}


@pytest.fixture
def root():
    root = live(
        **{
            "topics/cat": f"# {NAME}'s cat\n\nIt is grey.\n",
            f"significant/2026-01-02_{NAME.lower()}s-cat": "# The cat\n\nIt came.\n",
            "people/discord-555": f"# {NAME}\n\nRows.\n",
        }
    )
    (root / "jobs.toml").write_text(
        f'[jobs.ask-{NAME.lower()}]\nrun = "message"\nevery = "1d"\nabout = "Ask {NAME}"\n'
    )
    for number in range(6):
        say(root, f"10{number}", f"Guest {number}", f"Hello, I am Guest {number}", CATCHPHRASE)
    say(root, "555", NAME, f"Hello, I am {NAME}", CATCHPHRASE)
    return root


def test_replies_to_others_stay_byte_for_byte(root) -> None:
    before = replies(root)
    assert data("people", "forget", NAME, "--dry-run")["to_others"] == []
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    after = replies(root)
    changed = [turn for turn, text in before.items() if after.get(turn) != text]
    assert len(changed) == 1


def test_a_quotation_that_nobody_else_said_is_told_before_and_goes(root) -> None:
    say(root, "100", "Guest 0", "What did she say?", f"She said: Hello, I am {NAME}")
    told = data("people", "forget", NAME, "--dry-run")
    assert len(told["to_others"]) == 1
    shown = run("people", "forget", NAME, "--dry-run")
    assert "are to others, but name or quote them" in shown.output


def test_no_name_of_a_file_and_no_content_has_the_name(root) -> None:
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    files = [path for path in root.rglob("*") if path.is_file()]
    assert [path for path in files if NAME.lower() in str(path).lower()] == []
    assert [path for path in files if NAME.lower().encode() in path.read_bytes().lower()] == []


def test_what_the_owner_says_in_their_room_stays(root) -> None:
    assert run("hear", "I baked bread", "--channel", "room-555").exit_code == 0
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    with closing(HistoryStore(root / "history.db")) as history:
        channels = [one.channel_id for one in history.channels()]
        turns = [turn for one in channels for turn in history.recent(one, 99, viewer=OWNER)]
    assert "I baked bread" in [turn.content for turn in turns]
