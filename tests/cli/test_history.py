"""`familiar history`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.familiar import Familiar
from familiar_cli.store.history import HistoryStore
from tests.support.cases import each
from tests.support.chats import HEAD, robin, save, yuzu
from tests.support.world import data, live, run, spawn

ANNA = Author("discord", "7", display_name="Anna")
START = datetime(2026, 1, 31, 22, tzinfo=UTC)


@pytest.fixture
def root():
    root = live("yuzu")
    run("config", "set", "timezone", "UTC")
    with closing(HistoryStore(root / "history.db")) as store:
        for minute, text in enumerate(["Hello", "Tea?", "Green tea.", "Good night"]):
            who = {"author": ANNA} if minute % 2 else {}
            role = "user" if minute % 2 else "assistant"
            store.append("cli", role, text, at=START + timedelta(minutes=minute), **who)
        store.append("harbour", "user", "A ship", author=ANNA, at=START + timedelta(days=1))
    return root


def test_ls_lists_channels_with_counts_and_days(root) -> None:
    result = run("history", "ls")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["channel", "turns", "from", "–", "to"],
        ["harbour", "1", "2026-02-01", "–", "2026-02-01"],
        ["cli", "4", "2026-01-31", "–", "2026-01-31"],
    ]


def test_show_reads_like_a_transcript(root) -> None:
    result = run("history", "show", "--channel", "cli", "--last", "2")
    assert result.stdout.splitlines() == [
        "cli, 2026-01-31",
        "  22:02 yuzu #3",
        "    Green tea.",
        "  22:03 Anna #4",
        "    Good night",
    ]


def test_show_without_options_is_the_end_of_the_last_conversation(root) -> None:
    assert [t["content"] for t in data("history", "show")["turns"]] == ["A ship"]


def test_show_of_a_turn_has_its_neighbours(root) -> None:
    assert [t["turn"] for t in data("history", "show", "2")["turns"]] == [1, 2, 3, 4]


def test_show_of_a_time_spans_channels(root) -> None:
    found = data("history", "show", "--since", "2026-01-31T22:03", "--until", "2026-02-02")
    assert [t["turn"] for t in found["turns"]] == [4, 5]


def test_search_finds_groups_by_day_and_shows_neighbours(root) -> None:
    result = run("history", "search", "green tea")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "cli, 2026-01-31",
        "    yuzu: Hello",
        "  22:01 Anna #2",
        "    Tea?",
        "  22:02 yuzu #3",
        "    Green tea.",
        "    Anna: Good night",
    ]


def test_search_with_json_has_marks_and_neighbours(root) -> None:
    (hit,) = data("history", "search", "ship", "--channel", "harbour", "--since", "2026-01-01")[
        "hits"
    ]
    assert (hit["turn"], hit["marks"], hit["around"]) == (5, [[2, 6]], [])


def test_a_search_that_finds_nothing_says_where_to_look(root) -> None:
    result = run("history", "search", "zanzibar")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "familiar history list" in result.stderr


def test_stats_count_by_channel_person_and_month(root) -> None:
    result = run("history", "stats")
    assert result.exit_code == 0
    assert result.stdout.startswith("5 turns, about ")
    assert "by month" in result.stdout
    found = data("history", "stats", "--channel", "harbour")
    assert (found["turns"], found["authors"][0]["author"]["user_id"]) == (1, "7")


def test_stats_tell_people_of_one_name_apart(root) -> None:
    with closing(HistoryStore(root / "history.db")) as store:
        store.append("cli", "user", "Me too", author=Author("irc", "a", display_name="Anna"))
    told = run("history", "stats").stdout
    assert "Anna (discord 7)  3" in told
    assert "Anna (irc a)      1" in told


def test_stats_tell_how_many_channels_they_do_not_list(root) -> None:
    with closing(HistoryStore(root / "history.db")) as store:
        for number in range(30):
            store.append(f"c{number}", "user", "hi", author=ANNA)
    assert "  and 8 more channels; --json has all\n" in run("history", "stats").stdout


def test_export_gives_a_sillytavern_chat(root) -> None:
    result = run("history", "export", "--channel", "harbour")
    head, message = map(json.loads, result.stdout.splitlines())
    assert (head["character_name"], head["user_name"]) == ("yuzu", "Anna")
    assert message == {
        "name": "Anna",
        "is_user": True,
        "is_system": False,
        "send_date": "2026-02-01T22:00:00.000Z",
        "mes": "A ship",
        "extra": {},
    }


def test_import_and_export_give_the_same_bytes(root, tmp_path) -> None:
    lines = [yuzu("B", swipes=["A", "B"]), robin("城\u2028", x={"é": 1.50})]
    chat = save(tmp_path / "c.jsonl", HEAD, *lines)
    run("import-chat", str(chat))
    assert spawn("history", "export", "--channel", "c").stdout == chat.read_bytes()
    out = tmp_path / "out.jsonl"
    assert run("history", "export", "--channel", "c", "--out", str(out)).exit_code == 0
    assert out.read_bytes() == chat.read_bytes()


def test_export_leaves_a_file_alone_unless_forced(root, tmp_path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("mine")
    argv = ["history", "export", "--channel", "cli", "--out", str(out)]
    assert (run(*argv).exit_code, out.read_text()) == (5, "mine")
    assert run(*argv, "--force").exit_code == 0
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]


def test_export_of_all_channels_is_plain_lines(root) -> None:
    lines = data("history", "export", "--format", "jsonl")["text"]
    assert json.loads(lines[0]) == {"familiar_chat": 1, "channels": ["cli", "harbour"]}
    assert json.loads(lines[5])["channel"] == "harbour"


def test_hidden_turns_and_guessed_times_are_marked(root, tmp_path) -> None:
    run(
        "import-chat",
        str(save(tmp_path / "c.jsonl", HEAD, yuzu("a", is_system=True), robin("b", ""))),
    )
    shown = run("history", "show", "--channel", "c").stdout
    assert "(hidden)" in shown
    assert "(time estimated)" in shown


def test_no_escape_sequence_is_shown(root) -> None:
    with closing(HistoryStore(root / "history.db")) as store:
        store.append("esc\x1b[31m", "user", "tea \x1b[31mred", author=Author("cli", "\x1b[1m"))
    for argv in (["ls"], ["show"], ["search", "red"], ["stats"]):
        assert "\x1b" not in run("history", *argv).stdout


@pytest.mark.parametrize("verb", [["ls"], ["stats"]])
def test_an_empty_history_says_so(verb) -> None:
    live("ada")
    result = run("history", *verb)
    assert (result.stdout, result.exit_code) == ("", 0)
    assert "`familiar import-chat FILE`" in result.stderr


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["show", "99"], 4, "No such turn: 99"),
        (["show", "--channel", "nowhere"], 4, "There are no turns in channel 'nowhere'"),
        (["show", "--since", "2030-01-01"], 4, "in that time"),
        (["show", "--since", "soon"], 2, "is not a date or time"),
        (["show", "--last", "0"], 2, "--last"),
        (["show", "x"], 2, "x"),
        (["search"], 2, "Missing argument"),
        (["search", "tea", "--k", "0"], 2, "k"),
        (["export"], 2, "There are 2 channels"),
        (["export", "--channel", "nowhere"], 4, "There are no turns in channel"),
        (["export", "--format", "txt"], 2, "txt"),
    ],
)
def test_every_failure_has_its_exit_code(root, argv, code, message) -> None:
    result = run("history", *argv)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_export_of_an_empty_history_exits_4() -> None:
    live("ada")
    assert run("history", "export").exit_code == 4


@each("query", ["", "(", "  "])
def test_a_search_without_a_word_is_a_usage_error(query) -> None:
    live("ada")
    result = run("history", "search", query)
    assert (result.exit_code, "No word to search for" in result.stderr) == (2, True)


def test_a_turn_is_named_by_its_number_or_by_instance_and_number(root) -> None:
    own = Familiar.load_from_disk().instance.id
    shown = data("history", "show", "2")["turns"]
    name = next(turn["id"] for turn in shown if turn["turn"] == 2)
    instance, _, number = name.rpartition(":")
    assert (instance, number) == (own, "2")
    assert data("history", "show", name)["turns"] == shown
    assert run("history", "withdraw", name).exit_code == 0
    assert [t["turn"] for t in data("history", "show", "--channel", "cli")["turns"]] == [1, 3, 4]
    assert run("history", "restore", "2").exit_code == 0
    hits = data("history", "search", "green")["hits"]
    assert hits[0]["id"] == f"{own}:{hits[0]['turn']}"


@pytest.mark.parametrize(("name", "code"), [("nowhere-1a2b:2", 4), ("two", 2), ("x:y", 2)])
def test_a_name_of_no_turn_is_refused(root, name, code) -> None:
    result = run("history", "edit", name, "Other words")
    assert (result.exit_code, name in result.stderr) == (code, True)
