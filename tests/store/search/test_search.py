"""Searching: by words, by meaning, by both, and by reading when there is nothing else."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from datetime import date
from pathlib import Path

import pytest

from familiar_cli.base import sqlite
from familiar_cli.base.errors import NotFoundError, UsageError
from familiar_cli.base.who.visibility import NOBODY, OWNER
from familiar_cli.store.search import rank, schema, search
from familiar_cli.store.search.embedder import EmbedderChoice
from familiar_cli.store.search.search import asked_apart, search_memory
from familiar_cli.store.search.types import BATCH, EmbedderError, SearchOptions
from tests.support.embedders import BrokenEmbedder, WordEmbedder
from tests.support.processes import Process

ROOT = Path(__file__).resolve().parents[3]
DRINKS = (("tea", "beverage", "drink"), ("cat", "pet"))


def talk(*turns: str) -> str:
    return "# Talk\n" + "".join(
        f"\n**{'Ada' if n % 2 else 'Bo'}:** {t}\n" for n, t in enumerate(turns)
    )


@pytest.fixture
def meaning() -> WordEmbedder:
    return WordEmbedder(alike=DRINKS)


def test_new_files_are_searchable_without_a_restart(world) -> None:
    world.put("a.md", "tea")
    assert world.paths("ale") == []
    world.put("b.md", "ale")
    assert world.paths("ale") == ["b.md"]


def test_files_that_are_not_indexed_yet_are_searched_for_the_words(world) -> None:
    for name in "abc":
        world.put(f"{name}.md", "# Note\n\nOld tea.\n")
    world.index.refresh()
    world.put("z.md", "# New\n\nThe quokka sleeps. It likes tea.\n")
    found = world.ask("quokka", refresh_s=0.0)
    (hit,) = found.hits
    assert (hit.rel_path, "The quokka sleeps." in hit.best) == ("z.md", True)
    assert (found.direct > 0, found.unread) == (True, 0)
    assert " of 4 files are indexed; " in found.notes[-1]
    assert found.hint == "familiar index build"


@pytest.mark.parametrize("method", ["lexical", "grep"])
def test_order_does_not_tell_others_which_pages_stand_apart_from_private_ones(
    world, method
) -> None:
    for name in ("sessions/m.md", "sessions/@all/x.md"):
        world.put(name, "# Evening\n\nThe quokka sleeps.\n")
    how = {"method": method, "viewer": NOBODY}
    assert world.paths("quokka", **how) == ["sessions/m.md", "sessions/@all/x.md"]
    assert world.paths("quokka", **how, exclude=["sessions/@all/x.md"]) == ["sessions/m.md"]


def test_others_are_not_told_how_many_files_there_are(world) -> None:
    world.put("a.md", "# Note\n\nOld tea.\n")
    found = world.ask("quokka", refresh_s=0.0, viewer=NOBODY)
    assert (found.direct, found.notes) == (0, ())


def test_indexed_and_other_files_are_found_together(world) -> None:
    world.put("a.md", "# Old\n\nGreen tea.\n")
    world.index.refresh()
    world.put("z.md", "# New\n\nBlack tea.\n")
    assert sorted(world.paths("tea", refresh_s=0.0)) == ["a.md", "z.md"]


def test_reading_directly_ends_in_time_and_counts_what_is_left(world, monkeypatch) -> None:
    monkeypatch.setattr(search, "LEAST_DIRECT_S", 0.0)
    for number in range(4):
        world.put(f"{number}.md", f"tea {number}")
    os.utime(world.index.store.root / "2.md", (4e9, 4e9))
    found = world.ask("tea", refresh_s=0.0)
    assert (found.direct, found.unread) == (1, 3)
    assert [hit.rel_path for hit in found.hits] == ["2.md"]  # the newest comes first


def test_what_matches_best_is_split_into_lines_first(world, monkeypatch) -> None:
    monkeypatch.setattr(search, "_SPLIT_S", -60.0)
    for name in ("a", "b", "c"):
        world.put(f"{name}.md", "green tea" if name == "b" else "tea")
    assert world.paths("green tea", refresh_s=0.0) == ["b.md"]


def test_the_next_search_goes_on_where_indexing_stopped(world) -> None:
    for number in range(4):
        world.put(f"{number}.md", f"tea {number}")
    world.ask("tea", refresh_s=0.0)
    assert world.ask("tea").direct == 0
    assert len(world.paths("tea")) == 4


def test_files_left_out_are_not_read_directly(world) -> None:
    world.put("sub/a.md", "tea")
    world.put("z.md", "tea")
    assert world.paths("tea", refresh_s=0.0, exclude=frozenset({"sub/a.md"})) == ["z.md"]
    assert world.paths("tea", within="sub", refresh_s=60.0) == ["sub/a.md"]


def test_without_a_model_words_answer_and_it_is_said_once(world) -> None:
    world.put("a.md", "# Alice\n\nLikes tea.\n")
    none = EmbedderChoice(None, "no embedding model is on disk", "familiar model pull x")
    found = search_memory(world.index, "tea", SearchOptions(viewer=OWNER), none)
    assert (found.method, [h.rel_path for h in found.hits]) == ("lexical", ["a.md"])
    assert len(found.notes) == 1
    assert found.hint == "familiar model pull x"


def test_meaning_finds_what_shares_no_word(world, meaning) -> None:
    world.put("a.md", "# Alice\n\nLikes tea.\n")
    world.put("b.md", "# Bob\n\nPlays chess.\n")
    world.index.build_if_stale(meaning)
    found = world.ask("favourite beverage", meaning)
    assert (found.method, found.model, found.hits[0].rel_path) == ("hybrid", "words", "a.md")
    assert world.paths("favourite beverage") == []


def test_unrelated_things_are_not_found_by_meaning(world, meaning) -> None:
    world.put("a.md", "# Alice\n\nLikes tea.\n")
    world.index.build_if_stale(meaning)
    assert world.paths("quantum chromodynamics", meaning) == []


def test_a_search_waits_for_the_newest_lines_only(world, meaning) -> None:
    world.put("a.md", "# Alice\n\nLikes tea.\n")
    world.index.build_if_stale(meaning)
    meaning.read.clear()
    world.put("b.md", "".join(f"- Stone {number}.\n" for number in range(BATCH)))
    world.put("c.md", "- Likes tea.\n")
    found = world.ask("beverage", meaning)
    assert {hit.rel_path for hit in found.hits} == {"a.md", "c.md"}
    assert (len(meaning.read), found.waiting) == (BATCH, 1)
    assert any("1 piece " in note for note in found.notes)


def test_a_search_leaves_a_backlog_to_others_unless_a_line_is_newer(world, meaning) -> None:
    world.put("a.md", "# Alice\n\nLikes tea.\n")
    world.index.build_if_stale(meaning)
    world.put("b.md", "".join(f"- Stone {number}.\n" for number in range(3 * BATCH)))
    world.ask("beverage", meaning)
    meaning.read.clear()
    assert world.ask("beverage", meaning).waiting == 2 * BATCH
    assert meaning.read == []
    world.put("c.md", "- Likes tea.\n")
    assert "c.md" in world.paths("beverage", meaning)


def test_a_small_memory_is_found_by_meaning_at_its_first_question(world, meaning) -> None:
    world.put("a.md", "- Likes tea.\n")
    assert world.paths("beverage", meaning) == ["a.md"]


def test_where_every_core_embeds_already_words_answer_and_the_next_search_embeds(
    world, meaning, monkeypatch
) -> None:
    world.put("a.md", "- Likes tea.\n")
    cores = threading.BoundedSemaphore(1)
    monkeypatch.setattr("familiar_cli.store.search.build._CORES", cores)
    with cores:
        assert world.paths("tea", meaning) == ["a.md"]
        assert (world.paths("beverage", meaning), meaning.read) == ([], [])
    assert world.paths("beverage", meaning) == ["a.md"]
    assert cores.acquire(blocking=False)


def test_vectors_of_another_model_are_left_to_a_build(world, meaning) -> None:
    world.put("a.md", "tea")
    world.index.build_if_stale(WordEmbedder("other"))
    assert world.ask("tea", meaning).method == "lexical"
    assert world.index.status().model == "other"


def test_an_embedder_that_fails_is_mentioned_every_time(world, meaning) -> None:
    world.put("a.md", "tea")
    world.index.build_if_stale(meaning)
    for _ in range(2):
        found = world.ask("tea", BrokenEmbedder(meaning.model))
        assert found.method == "lexical"
        assert "the model is broken" in found.notes[0]


def test_asking_for_meaning_where_there_is_none_is_an_error(world) -> None:
    world.put("a.md", "- tea\n" + "".join(f"- Stone {number}.\n" for number in range(BATCH)))
    with pytest.raises(EmbedderError, match="--method hybrid"):
        world.ask("tea", None, method="hybrid")
    with pytest.raises(EmbedderError, match="nothing has been embedded yet"):
        world.ask("tea", WordEmbedder(), method="dense")


def test_long_messages_are_asked_sentence_by_sentence_five_at_most() -> None:
    message = "Hi! I had a long day. Where did Alice put the tea? " + "So so. " * 9
    parts = asked_apart(message)
    assert len(parts) <= 5
    assert "Where did Alice put the tea" in parts
    assert asked_apart("tea") == ["tea"]


def test_the_best_sentence_counts(world, meaning) -> None:
    world.put("a.md", "# Alice\n\nLikes tea.\n")
    world.put("b.md", "# Weather\n\nRain and wind today, again.\n")
    world.index.build_if_stale(meaning)
    question = "What a day with rain and wind. By the way, which beverage suits her?"
    assert "a.md" in world.paths(question, meaning, method="dense")
    assert len(meaning.asked) >= 2


def test_a_hit_is_its_files_text_to_the_character(world) -> None:
    text = (
        "# Größe 🦊\n\n" + "Fülltext über nichts. " * 200 + "\n\n## Tee\n\nEr mag Pfefferminztee.\n"
    )
    world.put("a.md", text.replace("\n", "\r\n"))
    (hit,) = world.ask("Pfefferminztee").hits
    whole = (world.root / "a.md").read_bytes().decode()
    assert hit.text == whole[hit.char_start : hit.char_end]
    assert "Pfefferminztee" in whole[hit.best_start : hit.best_end]
    assert hit.heading == "Größe 🦊 > Tee"
    assert whole.splitlines()[hit.line - 1].startswith("## Tee")


def test_short_files_come_whole_and_long_ones_as_a_passage(world) -> None:
    world.put("short.md", "# S\n\nmarmalade\n\n## More\n\nother\n")
    world.put("long.md", "# L\n\n" + "filler text. " * 400 + "\n\n## Food\n\nmarmalade\n")
    hits = {hit.rel_path: hit for hit in world.ask("marmalade").hits}
    assert hits["short.md"].text == "# S\n\nmarmalade\n\n## More\n\nother"
    assert hits["long.md"].text == "## Food\n\nmarmalade"


def test_snippets_keep_to_their_tokens_and_hold_the_best_line(world) -> None:
    from familiar_cli.llm.tokens import heuristic

    turns = [f"turn {n} about the weather and the long road home" for n in range(40)]
    turns[21] = "I hid the marmalade behind the clock"
    world.put("sessions/2026-01-03-evening.md", talk(*turns))
    (hit,) = world.ask("marmalade clock", snippet_tokens=60).hits
    assert heuristic().count(hit.text) <= 60
    assert "marmalade" in hit.text


def test_lines_come_one_by_one(world) -> None:
    world.put("a.md", talk("tea is fine", "nothing here", "more tea please"))
    hits = world.ask("tea", lines=True).hits
    assert sorted(hit.line for hit in hits[:2]) == [1, 7]
    assert all(hit.text.count("**") == 2 for hit in hits)


def test_what_a_named_speaker_said_comes_first(world) -> None:
    world.put("a.md", talk("I painted a lake", "I painted a horse", "nice", "thanks"))
    (hit, *_) = world.ask("What did Ada paint?", lines=True).hits
    assert ("horse" in hit.text, hit.signals.speaker) == (True, True)


@pytest.mark.parametrize("restricted", ["IN", "NOT IN"])
def test_files_that_are_left_out_do_not_make_the_words_be_looked_up_for_each_of_the_others(
    world, restricted
) -> None:
    world.put("a.md", "tea")
    world.put("b.md", "tea")
    asked: list[str] = []

    def watched(connection):
        connection.execute("CREATE TEMP TABLE listed (id INTEGER PRIMARY KEY)")
        connection.set_trace_callback(asked.append)
        rank.word_scores(world.index.pieces(connection, OWNER), "tea", restricted)
        connection.set_trace_callback(None)
        asks = [statement for statement in asked if "bm25" in statement]
        plans = [connection.execute(f"EXPLAIN QUERY PLAN {ask}").fetchall() for ask in asks]
        return [row[-1] for plan in plans for row in plan if "VIRTUAL TABLE" in row[-1]]

    world.index.refresh()
    scans = world.index.use(watched)
    assert len(scans) == 3
    assert not [scan for scan in scans if ":=" in scan]  # how FTS5 tells of a look-up by row


def test_common_words_rank_what_a_rarer_word_found(world, monkeypatch) -> None:
    world.put("a.md", "zanzibar")
    world.put("b.md", "zanzibar tea")
    for name in "cdefgh":
        world.put(f"{name}.md", "tea")
    before = {hit.rel_path: hit.score for hit in world.ask("zanzibar tea").hits}
    monkeypatch.setattr(rank, "MOST_RANKED", 3)
    after = {hit.rel_path: hit.score for hit in world.ask("zanzibar tea").hits}
    assert set(after) == {"a.md", "b.md"}
    assert after == {path: before[path] for path in after}


def test_of_words_that_are_all_common_some_files_are_found(world, monkeypatch) -> None:
    monkeypatch.setattr(rank, "MOST_RANKED", 3)
    for name in "abcdefgh":
        world.put(f"{name}.md", "tea")
    assert [hit.rel_path for hit in world.ask("tea").hits][:3] == ["h.md", "g.md", "f.md"]


def test_what_is_excluded_is_not_found(world, meaning) -> None:
    for name in ("a", "b"):
        world.put(f"{name}.md", "tea")
    world.index.build_if_stale(meaning)
    for embedder in (None, meaning):
        assert world.paths("tea", embedder, exclude=frozenset({"a.md"})) == ["b.md"]
    assert world.paths("tea", method="grep", exclude=frozenset({"a.md"})) == ["b.md"]


def test_a_directory_or_a_day_narrows_the_search(world, meaning) -> None:
    world.put("sessions/2026-01-03-evening.md", "tea")
    world.put("sessions/2025-01-03-evening.md", "tea")
    world.put("lore/tea.md", "tea")
    world.index.build_if_stale(meaning)
    for method in ("lexical", "hybrid", "grep"):
        embedder = meaning if method == "hybrid" else None
        assert len(world.paths("tea", embedder, method=method, within="sessions")) == 2
        found = world.paths(
            "tea", embedder, method=method, within="sessions/", since=date(2026, 1, 1)
        )
        assert found == ["sessions/2026-01-03-evening.md"]


def test_a_directory_that_is_not_there_is_said(world) -> None:
    world.put("a.md", "tea")
    with pytest.raises(NotFoundError):
        world.ask("tea", within="nowhere")


def test_files_linked_with_a_person_who_is_named_are_preferred(world) -> None:
    world.put("people/alice.md", "# Alice\n\nA friend. See [the trip](../sessions/one.md).\n")
    world.put("sessions/one.md", "# Trip\n\nWe went to Rome.\n")
    world.put("sessions/two.md", "# Trip\n\nWe went to Rome.\n")
    hits = [h for h in world.ask("Alice in Rome").hits if h.rel_path.startswith("sessions")]
    assert [h.rel_path for h in hits] == ["sessions/one.md", "sessions/two.md"]
    assert [h.signals.linked for h in hits] == [True, False]


def test_a_name_that_is_a_common_word_boosts_nothing_in_small_letters(world) -> None:
    world.put("people/will.md", "# Will\n\n[x](../a.md)\n")
    world.put("a.md", "tea")
    assert not world.ask("will there be tea").hits[0].signals.linked
    assert world.ask("Is there tea for Will").hits[0].signals.linked


def test_newer_memories_win_a_tie(world) -> None:
    world.put("daily/2020-01-03.md", "tea")
    world.put("daily/2026-01-03.md", "tea")
    assert world.paths("tea") == ["daily/2026-01-03.md", "daily/2020-01-03.md"]


def test_equal_hits_come_in_the_order_of_their_names(world) -> None:
    for name in "cab":
        world.put(f"daily/2026-01-03_{name}.md", "tea")
    assert [path[-4] for path in world.paths("tea")] == ["a", "b", "c"]


def test_the_same_instance_wins_a_tie(world) -> None:
    world.put("daily/2026-01-03_laptop.md", "tea")
    world.put("daily/2026-01-03_phone.md", "tea")
    assert world.paths("tea", instance="phone")[0] == "daily/2026-01-03_phone.md"
    assert world.paths("tea", instance="laptop")[0] == "daily/2026-01-03_laptop.md"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("日本語", "彼女は日本語を勉強した"),
        ("东京", "我去了东京"),
        ("Zoë", "Zoe came"),
        ("แมว", "ฉันรักแมว"),
    ],
)
def test_ascii_only_tokenising_is_over_every_script_is_found(world, query, text) -> None:
    world.put("other.md", "nothing of the sort")
    world.put("a.md", text)
    assert world.paths(query) == ["a.md"]
    if query != "Zoë":
        assert world.paths(query, method="grep") == ["a.md"]


@pytest.mark.parametrize(
    "query", ['"tea', "tea AND", "tea*", "NEAR(tea)", "tea -milk", "t:tea", "(tea", "tea'"]
)
def test_punctuation_in_a_question_is_no_syntax(world, query) -> None:
    world.put("a.md", "tea")
    assert world.paths(query) == ["a.md"]


@pytest.mark.parametrize("query", ["", "?!", " "])
def test_a_question_without_a_word_is_a_usage_error(world, query) -> None:
    with pytest.raises(UsageError):
        world.ask(query)


def test_an_empty_or_missing_memory_finds_nothing(tmp_path, world) -> None:
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.store.search.build import EmbeddingIndex

    assert world.paths("tea") == []
    index = EmbeddingIndex(MemoryStore(tmp_path / "none"))
    assert search_memory(index, "tea", SearchOptions(viewer=OWNER)).hits == ()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_memory_that_cannot_be_written_is_read_instead(world) -> None:
    world.put("a.md", "tea")
    world.root.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        found = world.ask("tea")
    finally:
        world.root.chmod(stat.S_IRWXU)
    assert (found.method, [h.rel_path for h in found.hits]) == ("grep", ["a.md"])
    assert found.notes


def test_an_index_that_cannot_be_made_is_said_and_every_file_is_read(world) -> None:
    world.put("a.md", "tea")
    world.put(".index", "a file where the directory should be")
    found = world.ask("tea")
    assert (found.method, [h.rel_path for h in found.hits]) == ("grep", ["a.md"])
    assert "memory is untouched" in " ".join(found.notes) + found.hint


def test_threads_search_while_another_builds(world, meaning) -> None:
    for number in range(60):
        world.put(f"{number}.md", f"# N{number}\n\nword{number} tea\n")
    world.index.refresh()
    problems: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(5):
                assert world.paths("tea", meaning, k=60)
        except BaseException as error:  # noqa: BLE001  # shown in the test's own thread
            problems.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    threads.append(threading.Thread(target=lambda: world.index.build_if_stale(meaning)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_processes_build_and_search_at_once(world) -> None:
    for number in range(40):
        world.put(f"{number}.md", f"# N{number}\n\nword{number} tea\n")
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from familiar_cli.store.search.build import EmbeddingIndex\n"
        "from familiar_cli.store.search.embedder import EmbedderChoice\n"
        "from familiar_cli.store.search.search import search_memory\n"
        "from familiar_cli.store.search.types import SearchOptions\n"
        "from familiar_cli.store.memory.store.store import MemoryStore\n"
        "from familiar_cli.base.who.visibility import OWNER\n"
        "from tests.support.embedders import WordEmbedder\n"
        "index = EmbeddingIndex(MemoryStore(Path(sys.argv[1])))\n"
        "index.build_if_stale(WordEmbedder())\n"
        "choice = EmbedderChoice(WordEmbedder())\n"
        "found = search_memory(index, 'tea', SearchOptions(k=40, viewer=OWNER), choice)\n"
        "print(len(found.hits), *found.notes)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    children = [
        Process([sys.executable, "-c", code, str(world.root)], stdout=subprocess.PIPE, env=env)
        for _ in range(2)
    ]
    said = [child.communicate(timeout=60)[0].decode() for child in children]
    assert [line.split()[0] for line in said] == ["40"] * 2
    assert world.rows("SELECT COUNT(*) FROM documents") == [(40,)]
    assert world.index.status().waiting == 0


def test_the_same_question_has_the_same_answer(world, meaning) -> None:
    for number in range(20):
        world.put(f"{number}.md", "tea and more tea")
    world.index.build_if_stale(meaning)
    assert world.paths("tea", meaning, k=20) == world.paths("tea", meaning, k=20)


def test_an_index_that_another_process_made_anew_is_read_anew(world) -> None:
    short, long = "# A\n\ntea\n", "# B\n\n" + talk("tea", "ale", "rum")
    world.put("a.md", short)
    world.put("b.md", long)
    assert world.paths("rum") == ["b.md"]
    state = world.index.use(schema.state_of)
    schema.clear_index(world.index.directory)
    world.put("a.md", long)
    world.put("b.md", short)
    assert world.paths("rum") == ["a.md"]
    again = world.index.use(schema.state_of)
    assert {key for key, _ in {*state} ^ {*again}} == {"made"}


def test_a_question_reads_only_the_pieces_that_no_question_before_it_read(world, meaning) -> None:
    world.put("a.md", talk("tea", "ale", "rum"))
    world.index.build_if_stale(meaning)
    world.paths("tea", meaning)
    read = world.index.use(lambda c: dict(world.index.pieces(c, OWNER)._read))
    world.paths("tea", meaning)
    assert world.index.use(lambda c: world.index.pieces(c, OWNER)._read) == read != {}
    world.put("b.md", "tea")
    world.index.refresh()
    assert world.index.use(lambda c: world.index.pieces(c, OWNER)._read) == {}


def test_the_fallback_counts_words_and_shows_the_best_place(world) -> None:
    world.put("a.md", "# A\n\n" + "filler. " * 400 + "\n\ngreen tea with honey\n")
    world.put("b.md", "tea\n")
    hits = world.ask("green tea honey", method="grep").hits
    assert [h.rel_path for h in hits] == ["a.md", "b.md"]
    assert "honey" in hits[0].text
    assert hits[0].signals.coverage == 1.0


def test_a_giant_message_is_answered_in_moments(world, meaning) -> None:
    for number in range(100):
        world.put(
            f"{number}.md", talk(*(f"tea {n}" for n in range(8))).replace("Bo", f"Bo{number}")
        )
    world.index.build_if_stale(meaning)
    message = (
        "Tell me of the Tea we had. " + "Alice and Will went on and on about the weather. " * 4000
    )
    start = time.perf_counter()
    assert len(world.paths(message, meaning)) == 10
    assert time.perf_counter() - start < 10


def test_one_question_opens_the_index_once(world, monkeypatch) -> None:
    world.put("a.md", "tea")
    world.index.refresh()
    world.put("b.md", "tea and ale")
    opened = []
    connect = sqlite.connect_derived
    monkeypatch.setattr(
        sqlite, "connect_derived", lambda *args: opened.append(args) or connect(*args)
    )
    assert sorted(world.paths("tea")) == ["a.md", "b.md"]
    assert len(opened) == 1


HIDDEN = "# Boats\n\n- Boats sail at nine.\n\n## Anna <!-- private @discord%2Danna -->\n\n- {}\n"


@pytest.mark.parametrize("method", ["lexical", "grep", "auto"])
@pytest.mark.parametrize("lines", [False, True])
def test_hidden_words_change_no_answer(world, meaning, method, lines) -> None:
    world.put("topics/ships.md", "# Ships\n\n- Ships and boats are painted red.\n")
    for number in range(30):
        world.put(f"topics/{number}.md", f"# Tales\n\n- A tale of {number} kings.\n")
    model, answers, scores = meaning if method == "auto" else None, [], []
    for hidden in ("Red boats sink in zanzibar.", "She paints walls on Sunday. " * 90):
        world.put("topics/boats.md", HIDDEN.format(hidden))
        options = {"method": method, "lines": lines, "viewer": NOBODY}
        hits = world.ask("Do red boats sail to zanzibar?", model, **options).hits
        answers.append([(hit.rel_path, hit.text, hit.best, hit.signals.coverage) for hit in hits])
        scores.append([hit.score for hit in hits])
    assert answers[0] == answers[1]
    assert scores[0] == scores[1]
    assert len(scores[0]) == 2


def test_a_line_below_lines_of_others_is_shown_without_them(world) -> None:
    private = "## In private <!-- private @cli%2Duser -->\n\n- Rows to the mill.\n"
    world.put("topics/bo.md", f"# Bo\n\n## Also\n\n- Bobby.\n\n{private}")
    (hit,) = (one for one in world.ask("mill", lines=True).hits if "mill" in one.text)
    assert (hit.line, "Bobby" in hit.text, "Bobby" in hit.best) == (7, False, False)
