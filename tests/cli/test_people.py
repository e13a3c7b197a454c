"""`familiar people`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from familiar_cli.base.who.identity import Author
from familiar_cli.store.history import HistoryStore
from tests.support.world import data, live, run

ANNA = "# Anna Bell\n\nBakes.\n\n## Aliases\n\n- Nicky\n\n## Likes\n\n- tea\n"


@pytest.fixture
def root():
    root = live("ada")
    people = root / "memory" / "people"
    people.mkdir()
    (people / "discord-42.md").write_bytes(ANNA.encode())
    (people / "discord-7.md").write_bytes(b"# Bo\n\n## Aliases\n\n- nicky\n")
    with closing(HistoryStore(root / "history.db")) as history:
        for who in ("42", "42", "99"):
            history.append("cli", "user", "hi", author=Author("discord", who, display_name="Zoë"))
    return root


def test_times_are_the_familiars_to_the_minute(root) -> None:
    run("config", "set", "timezone", "Asia/Tokyo")
    with closing(HistoryStore(root / "history.db")) as history:
        at = datetime(2099, 1, 31, 22, 5, 9, tzinfo=UTC)
        history.append("cli", "user", "hi", author=Author("discord", "8"), at=at)
    for page in (("people", "ls"), ("channel", "ls"), ("channel", "show", "cli")):
        assert "2099-02-01 07:05" in run(*page).stdout


def test_an_older_chat_that_came_in_later_makes_nobody_seen_earlier(root) -> None:
    long_ago = datetime(2001, 1, 31, tzinfo=UTC)
    with closing(HistoryStore(root / "history.db")) as history:
        who = Author("discord", "99", display_name="Zoë")
        history.append("old", "user", "hi", author=who, at=long_ago)
    assert data("people", "list")["people"][0]["last_seen"] > "2001-02"
    assert data("status")["last_turn"]["at"] > "2001-02"
    assert "last by Zoë in" in run("status").stdout


def test_ls_lists_who_spoke_last_first(root) -> None:
    result = run("people", "ls")
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        "person",
        "discord-99",
        "discord-42",
        "discord-7",
    ]
    assert lines[1].split()[1:4] == ["Zoë", "0", "1"]
    assert "'nicky' is shared by discord-42, discord-7" in result.stderr


def test_who_is_called_like_the_owner_is_listed_with_the_account() -> None:
    live("ada")
    run("me", "--name", "Robin")
    for account in ("cli:user", "discord:5"):
        run("hear", "hi", "--as", account, "--name", "Robin", "--channel", "den")
    names = {one["slug"]: one["name"] for one in data("people", "list")["people"]}
    assert names == {"cli-user": "Robin", "discord-5": "Robin (discord 5)"}
    assert data("people", "show", "discord:5")["names"] == ["Robin (discord 5)"]


def test_who_only_spoke_in_private_is_found_by_name(root) -> None:
    with closing(HistoryStore(root / "history.db")) as history:
        history.append("dm", "user", "hi", author=Author("discord", "5", display_name="Mei"))
    assert run("people", "ls").stdout.splitlines()[1].split()[:2] == ["discord-5", "Mei"]
    assert data("people", "show", "mei")["slug"] == "discord-5"


def test_ls_as_json(root) -> None:
    found = data("people", "ls")
    by_slug = {person["slug"]: person for person in found["people"]}
    assert by_slug["discord-42"] | {"last_seen": ""} == {
        "slug": "discord-42",
        "name": "Anna Bell",
        "aliases": 2,
        "turns": 2,
        "last_seen": "",
        "size_bytes": len(ANNA),
        "problem": "",
    }
    assert by_slug["discord-99"]["size_bytes"] is None
    assert found["collisions"] == [{"name": "nicky", "slugs": ["discord-42", "discord-7"]}]


def test_where_nobody_is_ls_says_what_to_do() -> None:
    live("ada")
    result = run("people", "ls")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "familiar people alias" in result.stderr


@pytest.mark.parametrize("person", ["discord-42", "discord:42", "anna bell", "ANNA-BELL"])
def test_show_prints_the_very_file(root, person) -> None:
    result = run("people", "show", person)
    assert result.stdout == ANNA
    assert "discord-42 is called Anna Bell, Nicky" in result.stderr
    assert "'nicky' is shared by" in result.stderr


def test_show_as_json(root) -> None:
    found = data("people", "show", "discord:42")
    assert found["text"] == ANNA
    assert found["names"] == ["Anna Bell", "Nicky"]
    assert set(found) == {
        "slug",
        "rel_path",
        "text",
        "sha256",
        "names",
        "collisions",
        "turns",
        "last_seen",
    }


def test_a_name_of_several_lists_them(root) -> None:
    result = run("people", "show", "Nicky")
    assert result.exit_code == 2
    assert "discord-42, discord-7" in result.stderr
    assert "slug of one" in result.stderr


def test_a_name_of_nobody_is_answered_with_the_nearest(root) -> None:
    result = run("people", "show", "Ana Bell")
    assert result.exit_code == 4
    assert "Did you mean 'Anna Bell'?" in result.stderr


def test_who_has_no_file_is_told_so(root) -> None:
    result = run("people", "show", "discord:99")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "discord-99 is called Zoë" in result.stderr
    assert "familiar memory write people/discord-99.md" in result.stderr
    assert run("people", "show", "discord:100").exit_code == 4


@pytest.mark.parametrize("name", ["ＡＮＮＡ bell", "DISCORD-42", "straße", "STRASSE", "the_baker"])
def test_show_finds_whoever_is_listed_by_any_name_in_any_case(root, name) -> None:
    with closing(HistoryStore(root / "history.db")) as history:
        history.append("cli", "user", "hi", author=Author("discord", "42", "the_baker", "Straße"))
    assert run("people", "show", name).stdout == ANNA


def test_a_display_name_of_several_lists_them(root) -> None:
    result = run("people", "show", "zoë")
    assert result.exit_code == 2
    assert "discord-42, discord-99" in result.stderr


def test_an_alias_joins_the_list_and_nothing_else_changes(root) -> None:
    result = run("people", "alias", "discord:42", "Captain Bell")
    path = root / "memory" / "people" / "discord-42.md"
    assert path.read_bytes() == ANNA.replace("- Nicky\n", "- Nicky\n- Captain Bell\n").encode()
    assert "+- Captain Bell" in result.stdout
    known = json.loads((path.parent / "_aliases.json").read_bytes())
    assert known["captain bell"] == "discord-42"


def test_an_alias_goes_again(root) -> None:
    run("people", "alias", "discord:42", "Captain")
    result = run("people", "alias", "captain", "Captain", "--remove")
    assert result.exit_code == 0
    assert (root / "memory" / "people" / "discord-42.md").read_bytes() == ANNA.encode()


def test_an_alias_begins_a_file_with_the_name_they_have_where_they_spoke(root) -> None:
    assert run("people", "alias", "discord:99", "Zed").exit_code == 0
    text = (root / "memory" / "people" / "discord-99.md").read_bytes()
    assert text.decode() == "# Zoë\n\n## Aliases\n\n- Zed\n"


@pytest.mark.parametrize(("slug", "title"), [("cli-user", "Nim"), ("discord-5", "discord 5")])
def test_a_file_is_not_titled_by_a_name_used_in_private(root, slug, title) -> None:
    run("me", "--name", "Nim")
    secret = replace(Author.from_slug(slug), display_name="Sir Secret")
    with closing(HistoryStore(root / "history.db")) as history:
        history.append("dm", "user", "hi", author=secret)
    assert run("people", "alias", "Sir Secret", "Zed").exit_code == 0
    text = (root / "memory" / "people" / f"{slug}.md").read_text("utf-8")
    assert text == f"# {title}\n\n## Aliases\n\n- Zed\n"
    assert f"# {title}\n" in run("people", "show", "sir secret").stdout


def test_an_owner_is_found_by_each_name_used_in_private(root) -> None:
    (root / "memory" / "people" / "cli-user.md").write_text("# Nim\n", "utf-8")
    with closing(HistoryStore(root / "history.db")) as history:
        for channel, name in (("sea", "Captain Vex"), ("dm", "Sir Secret")):
            who = Author("cli", "user", display_name=name)
            history.append(channel, "user", "hi", author=who)
    assert run("people", "show", "captain vex").stdout == "# Nim\n"


def test_an_alias_begins_a_file_for_who_never_spoke(root) -> None:
    assert data("people", "alias", "cli:eve", "Eve")["rel_path"] == "people/cli-eve.md"
    assert (root / "memory/people/cli-eve.md").read_bytes() == b"## Aliases\n\n- Eve\n"


def test_a_dry_run_shows_the_change_and_makes_none(root) -> None:
    before = sorted(path.name for path in (root / "memory" / "people").iterdir())
    result = run("people", "alias", "discord:42", "Captain", "--dry-run")
    assert "+- Captain" in result.stdout
    assert "Nothing was changed" in result.stderr
    assert (root / "memory" / "people" / "discord-42.md").read_bytes() == ANNA.encode()
    assert sorted(path.name for path in (root / "memory" / "people").iterdir()) == before


def test_an_alias_that_is_there_is_no_change(root) -> None:
    result = run("people", "alias", "discord:42", "NICKY")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "already" in result.stderr


def test_a_name_that_somebody_else_has_is_told(root) -> None:
    result = run("people", "alias", "discord:7", "Anna Bell")
    assert "'anna bell' is shared by discord-42, discord-7" in result.stderr


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["discord:42", "..."], 2, "cannot be a name"),
        (["discord:42", "Eve", "--remove"], 4, "does not list"),
        (["discord:42", "Anna Bell", "--remove"], 4, "does not list"),
        (["cli:eve", "Eve", "--remove"], 4, "No file"),
        (["nobody", "Eve"], 4, "No person is called"),
    ],
)
def test_what_cannot_be_done_changes_nothing(root, argv, code, words) -> None:
    result = run("people", "alias", *argv)
    assert result.exit_code == code
    assert words in result.stderr
    assert (root / "memory" / "people" / "discord-42.md").read_bytes() == ANNA.encode()


def test_a_file_that_is_no_text_is_told_and_not_touched(root) -> None:
    path = root / "memory" / "people" / "discord-42.md"
    path.write_bytes(b"\xff")
    assert "UTF-8" in run("people", "ls").stderr
    result = run("people", "alias", "discord:42", "Captain")
    assert result.exit_code == 5
    assert path.read_bytes() == b"\xff"


def test_doctor_tells_of_shared_names(root) -> None:
    result = run("doctor", "--json")
    checks = {c["detail"] for c in json.loads(result.stdout)["data"]["checks"]}
    assert "shared names: 'nicky' (discord-42, discord-7)" in checks


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("花", "花さん"),
        ("花", "花ちゃん"),
        ("花さん", "花"),
        ("花さん", "花ちゃん"),
        ("Sara", "Saraさん"),
        ("지훈", "지훈님"),
        ("محمد", "أبو محمد"),
        ("أحمد", "ابو احمد"),
        ("モカ", "もかちゃん"),
    ],
)
def test_show_finds_a_name_with_another_title(root, written, asked) -> None:
    (root / "memory" / "people" / "discord-5.md").write_text(f"# {written}\n", "utf-8")
    result = run("people", "show", asked)
    assert (result.exit_code, result.stdout) == (0, f"# {written}\n")


def test_who_is_called_exactly_so_comes_first_and_changes_need_the_name_itself(root) -> None:
    people = root / "memory" / "people"
    (people / "discord-5.md").write_text("# عمر\n", "utf-8")
    (people / "discord-6.md").write_text("# أبو عمر\n", "utf-8")
    assert run("people", "show", "أبو عمر").stdout == "# أبو عمر\n"
    assert run("people", "show", "عمر").stdout == "# عمر\n"
    (people / "discord-6.md").unlink()
    assert run("people", "show", "أبو عمر").stdout == "# عمر\n"
    assert run("people", "alias", "أبو عمر", "Omar").exit_code == 4
