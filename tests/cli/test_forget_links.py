"""Forgetting follows links, not likeness, and takes a name out of names as well."""

from __future__ import annotations

from contextlib import closing

import pytest
from dulwich.repo import Repo

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
    for what in (f"Ask {NAME}", "Ask about the weather"):
        assert run("job", "add", "every day 8:00", "--say", what).exit_code == 0
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


def test_jobs_about_others_still_run(root) -> None:
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    assert [job["id"] for job in data("job", "list")["jobs"]] == ["ask-about-the-weather"]


def test_a_damaged_file_of_jobs_is_one_error_before_anything_goes(root) -> None:
    (root / "jobs.toml").write_text("[[job]\n")
    told = run("people", "forget", NAME, "--yes")
    assert told.exit_code == 3
    assert "jobs.toml" in told.output
    assert (root / "memory" / "people" / "discord-555.md").exists()


def test_a_file_whose_name_they_lose_replaces_no_other_file(root) -> None:
    topics = root / "memory" / "topics"
    (topics / "boat.md").write_text("# Boat\n\nIt is red.\n")
    for name in (f"{NAME}-boat", f"{NAME}s-boat"):
        (topics / f"{name}.md").write_text(f"# Boat\n\nFrom {len(name)}.\n")
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    assert (topics / "boat.md").read_text() == "# Boat\n\nIt is red.\n"
    others = {(topics / f"boat-{number}.md").read_text() for number in (2, 3)}
    assert others == {"# Boat\n\nFrom 15.\n", "# Boat\n\nFrom 16.\n"}
    with closing(Repo(str(root / "journal.git"))) as repo:
        was = repo[repo[repo.head()].parents[0]]
        _, topics_id = repo[was.tree][b"topics"]
        assert {b"boat.md", b"boat-2.md", b"boat-3.md"} <= set(repo[topics_id])


def test_a_directory_of_every_memory_keeps_its_name(root) -> None:
    harbour = root / "memory" / "lore" / "harbour.md"
    harbour.parent.mkdir(exist_ok=True)
    harbour.write_text("# Harbour\n\nIt is old.\n")
    say(root, "888", "Lore", "Hello, I am Lore", CATCHPHRASE)
    assert run("people", "forget", "discord:888", "--yes").exit_code == 0
    assert harbour.exists()


def test_settings_whose_names_are_also_theirs_stay(root) -> None:
    say(root, "777", "Max", "Hello, I am Max", CATCHPHRASE)
    assert run("config", "set", "memory.max_results", "77").exit_code == 0
    assert run("people", "forget", "discord:777", "--yes").exit_code == 0
    assert "max_results = 77" in (root / "character.toml").read_text()


def test_what_the_owner_says_in_their_room_stays(root) -> None:
    assert run("hear", "I baked bread", "--channel", "room-555").exit_code == 0
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    with closing(HistoryStore(root / "history.db")) as history:
        channels = [one.channel_id for one in history.channels()]
        turns = [turn for one in channels for turn in history.recent(one, 99, viewer=OWNER)]
    assert "I baked bread" in [turn.content for turn in turns]
