"""`familiar search --past` and `--all`: what was said is found as a prompt finds it."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime

import pytest

from familiar_cli.actions.memory.search import PastHit, PastSearchResult
from familiar_cli.cli.commands.search import search_page
from familiar_cli.familiar import Familiar
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.rows import WRITER
from familiar_cli.store.search.finding import Finder
from tests.support.embedders import EmbedderChoice, WordEmbedder
from tests.support.world import data, live, run


@pytest.fixture
def ada(tmp_path):
    root = live("ada", lost="# Lost\n\nA green umbrella.\n")
    (root / "character.toml").write_text('name = "Ada"\ntimezone = "UTC"\n', "utf-8")
    bring(
        tmp_path,
        "train",
        "I lost my green umbrella.",
        "Then it goes into the ledger.",
        "--me",
        "Robin",
    )
    said_by = ("--as", "discord:9")
    bring(tmp_path, "secret", "My umbrella was a present.", "From whom?", *said_by)
    assert run("channel", "set", "secret", "--kind", "dm").exit_code == 0
    return root


def bring(tmp_path, channel, said, answer, *args) -> None:
    path = tmp_path / f"{channel}.jsonl"
    lines = [
        {"role": "user", "name": "Robin", "content": said, "at": "2023-06-19T20:00:00Z"},
        {"role": "assistant", "content": answer, "at": "2023-06-19T20:01:00Z"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert run("import-chat", str(path), "--channel", channel, *args).exit_code == 0


def texts(*argv) -> list[str]:
    return [hit["text"] for hit in data("search", *argv)["past"]]


def test_the_past_is_searched_by_words(ada) -> None:
    found = data("search", "the umbrella", "--past")
    assert set(found) == {"query", "method", "past", "turns_waiting"}
    hit = found["past"][0]
    assert 0 < hit.pop("score") <= 1
    assert hit == {
        "turns": [1, 1],
        "channel": "train",
        "at": "2023-06-19T20:00:00+00:00",
        "speaker": "Robin",
        "text": "I lost my green umbrella.",
    }


def test_a_page_shows_who_said_it_when_and_where(ada) -> None:
    shown = run("search", "the umbrella", "--past", "-k", "1").stdout
    first, second = shown.splitlines()
    assert first.startswith("train:1  ")
    assert "umbrella" in run("history", "show", "train:1").stdout
    assert run("history", "show", "secret:1").exit_code == 4  # a turn of another channel
    assert first.endswith("  Robin, 2023-06-19 20:00")
    assert second == "    I lost my green umbrella."


def test_private_channels_are_shown_only_when_they_are_named(ada) -> None:
    assert not any("present" in text for text in texts("umbrella", "--past"))
    assert not any("present" in text for text in texts("umbrella", "--all"))
    assert texts("umbrella", "--past", "--channel", "secret")[0] == "My umbrella was a present."
    assert "ledger" not in " ".join(texts("umbrella", "--past", "--channel", "secret"))


def test_a_search_as_somebody_finds_what_they_may_see(ada) -> None:
    assert run("channel", "set", "train", "--kind", "text").exit_code == 0
    private, public = "My umbrella was a present.", "I lost my green umbrella."
    assert set(texts("umbrella", "--past", "--as", "discord:9")) >= {private, public}
    others = texts("umbrella", "--past", "--as", "discord:8")
    assert (public in others, private in others) == (True, False)
    assert texts("umbrella", "--past", "--channel", "secret", "--as", "discord:8") == []
    assert "unwritten" not in data("search", "umbrella", "--as", "discord:8")


def test_what_stands_beside_a_match_is_marked(ada) -> None:
    hits = [
        PastHit((n, n), "train", datetime(2026, 1, n, tzinfo=UTC), "Robin", "Yes.", score)
        for n, score in ((1, 0.4), (2, 0.0))
    ]
    page = search_page(
        None, PastSearchResult(tuple(hits), "lexical", 0), query="tea", zone=UTC, k=2
    )
    assert ["beside a match" in str(part) for part in page if "Robin" in str(part)] == [False, True]


def test_all_is_memory_and_past_in_one_list(ada) -> None:
    found = data("search", "green umbrella", "--all")
    assert found["hits"][0]["rel_path"] == "lost.md"
    assert found["past"][0]["channel"] == "train"
    page = run("search", "green umbrella", "--all", "--lines").stdout
    assert "--past" not in run("search", "green umbrella", "--all").stderr
    assert "lost.md:1:# Lost A green umbrella." in page
    assert "train:1:I lost my green umbrella." in page


def test_what_shares_no_word_is_found_by_meaning(ada, monkeypatch) -> None:
    embedder = WordEmbedder(alike=[("umbrella", "parasol")])
    monkeypatch.setattr(Finder, "embedder", EmbedderChoice(embedder))
    assert texts("parasol", "--past") == []
    assert "index build" in run("search", "parasol", "--past").stderr
    run("index", "build")
    assert texts("parasol", "--past") == ["I lost my green umbrella."]
    assert texts("parasol", "--past", "--method", "lexical") == []


def test_since_leaves_out_what_was_said_before(ada) -> None:
    assert texts("umbrella", "--past", "--since", "2023-06-19")
    assert texts("umbrella", "--past", "--since", "2023-06-20") == []


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["--past", "--all"], 2),
        (["--channel", "train"], 2),
        (["--past", "--in", "topics"], 2),
        (["--past", "--method", "grep"], 2),
        (["--past", "--method", "hybrid"], 1),
    ],
)
def test_what_makes_no_sense_is_refused(ada, argv, code) -> None:
    result = run("search", "umbrella", *argv)
    assert result.exit_code == code
    assert result.stdout == ""


def test_an_empty_past_says_where_to_look(ada) -> None:
    result = run("search", "zeppelin", "--past")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "familiar history list" in result.stderr


def test_turns_that_are_not_in_memory_yet_are_found_beside_it(ada) -> None:
    found = run("search", "umbrella")
    assert "lost.md:1" in found.stdout
    assert "train:1" in found.stdout
    assert "(not in memory yet)" in found.stdout
    assert "4 turns are not in memory yet" in found.stderr
    assert "--past" in found.stderr


def test_turns_without_vectors_are_found_by_words_beside_a_memory_that_has_them(
    ada, monkeypatch
) -> None:
    embedder = EmbedderChoice(WordEmbedder())
    monkeypatch.setattr(Finder, "embedder", embedder)
    with Familiar.load_from_disk(ada.parent, "ada") as familiar:
        familiar.index.build_if_stale(embedder.embedder)
    assert texts("umbrella", "--method", "hybrid")


def test_a_line_that_only_follows_a_match_is_not_shown_beside_memory(ada) -> None:
    assert "Then it goes into the ledger." not in texts("green umbrella")


def test_of_one_result_a_turn_is_shown_rather_than_none(ada) -> None:
    assert run("search", "umbrella", "-k", "1").stdout.startswith("train:1")


def test_what_the_writer_has_read_is_searched_with_past_alone(ada) -> None:
    with closing(HistoryStore(ada / "history.db")) as history:
        history.move_watermark(WRITER, 4)
    found = run("search", "umbrella")
    assert "train" not in found.stdout
    assert "not in memory" not in found.stderr
    assert "train" in run("search", "umbrella", "--past").stdout


def test_nothing_found_names_the_way_to_the_past(ada) -> None:
    assert "--past searches" in run("search", "zeppelin").stderr


def test_only_the_memories_are_said_to_lack_the_words(tmp_path, monkeypatch) -> None:
    live("ada", lost="# Lost\n\nA parasol.\n")
    embedder = WordEmbedder(alike=[("umbrella", "parasol")])
    monkeypatch.setattr(Finder, "embedder", EmbedderChoice(embedder))
    assert run("index", "build").exit_code == 0
    assert "None of these memories" in run("search", "umbrella").stderr
    bring(tmp_path, "train", "I lost my green umbrella.", "Oh.", "--me", "Robin")
    told = run("search", "umbrella", "--all").stderr
    assert "None of these" not in told
    assert "No memory among these contains a word" in told
