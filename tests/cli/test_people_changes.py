"""`familiar people merge | split | rename-alias`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json

import pytest

from tests.support.world import data, live, run
from tests.support.writing import memory


@pytest.fixture
def root():
    made = live()
    run("memory", "write", "people/discord-42.md", "# Anna\n\n## Facts\n\n- Keeps bees.\n")
    run("memory", "write", "people/twitch-9.md", "# Annie\n\n## Facts\n\n- Sells honey.\n")
    run("memory", "write", "topics/bees.md", "# Bees\n\n[Annie](../people/twitch-9.md)\n")
    return made


def test_a_merge_across_platforms_puts_all_into_one_file(root):
    done = run("people", "merge", "discord:42", "twitch:9")

    assert done.exit_code == 0
    assert "+- Sells honey." in done.stdout
    assert "../people/discord-42.md" in memory(root, "topics/bees.md")
    assert data("people", "show", "Annie")["slug"] == "discord-42"
    assert data("people", "ls")["collisions"] == []


def test_a_dry_run_shows_the_diff_and_changes_nothing(root):
    done = run("people", "merge", "discord:42", "twitch:9", "--dry-run")

    assert "+- Sells honey." in done.stdout
    assert "honey" not in memory(root, "people/discord-42.md")


def test_a_split_takes_the_merge_back(root):
    run("people", "merge", "discord:42", "twitch:9")

    done = run("people", "split", "twitch-9")

    assert done.exit_code == 0
    assert memory(root, "people/twitch-9.md").startswith("# Annie\n")
    assert run("people", "split", "twitch-9").exit_code == 2


def test_a_renamed_person_is_called_so_in_links(root):
    found = data("people", "rename-alias", "twitch:9", "Annie", "Anne")

    assert found["files"] == ["people/twitch-9.md", "topics/bees.md"]
    assert "[Anne](../people/twitch-9.md)" in memory(root, "topics/bees.md")
    assert data("people", "show", "Anne")["slug"] == "twitch-9"


def test_nobody_of_that_name_is_not_found(root):
    assert run("people", "merge", "discord:42", "nobody").exit_code == 4
    assert run("people", "merge", "discord:42", "discord:42").exit_code == 2


@pytest.fixture
def heard():
    """Return the root of a familiar that knows two accounts by what they said only."""
    made = live()
    run("hear", "I keep bees.", "--as", "discord:42", "--name", "Anna")
    run("hear", "I sell honey.", "--as", "twitch:9", "--name", "Annie")
    return made


def test_accounts_that_have_no_file_yet_become_one_person(heard, serve):
    run("people", "merge", "Anna", "Annie")
    fact = {"op": "add_bullets", "section": "Facts", "kind": "said", "turns": [2]}
    fact |= {"file": "people/discord-42.md", "lines": ["Annie sells honey."]}
    server = serve(json.dumps({"operations": [fact]}))
    assert run("write-memory").exit_code == 0

    assert "people/twitch-9.md" not in server.last.body.decode()
    assert "sells honey" in memory(heard, "people/discord-42.md")
    assert data("people", "show", "Annie")["slug"] == "discord-42"
    assert {path.stem for path in (heard / "memory/people").glob("*-*")} == {
        "discord-42",
        "twitch-9",
    }


def test_merging_them_is_one_change_that_undo_takes_back(heard):
    before = data("people", "ls")["people"]
    run("people", "merge", "discord:42", "twitch:9")

    (merge,) = (c["id"] for c in data("memory", "log")["commits"] if "merge" in c["message"])
    assert run("memory", "undo", merge).exit_code == 0
    assert data("people", "ls")["people"] == before
    assert not list((heard / "memory/people").glob("*.md"))


def test_splitting_them_gives_each_a_file(heard):
    unmerged = run("people", "split", "Annie")
    run("people", "merge", "Anna", "Annie")

    assert (unmerged.exit_code, "has not been merged" in unmerged.stderr) == (2, True)
    assert run("people", "split", "twitch:9").exit_code == 0
    assert memory(heard, "people/twitch-9.md").startswith("# Annie\n")
    assert data("people", "show", "Annie")["slug"] == "twitch-9"
    assert run("people", "split", "twitch:9").exit_code == 2


@pytest.mark.parametrize("pair", [("discord:42", "x:1"), ("x:1", "discord:42"), ("x:1", "x:2")])
def test_who_is_not_known_at_all_is_not_merged(heard, pair):
    done = run("people", "merge", *pair)

    assert (done.exit_code, "nothing was changed" in done.stderr) == (4, True)
    assert not (heard / "memory/people").exists()
