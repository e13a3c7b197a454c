"""A pass: what it covers, what it leaves, and what happens when it is cut short."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from familiar_cli.base.errors import ConfigError, FamiliarError, LockedError, RequestRefusedError
from familiar_cli.base.who.identity import Who
from familiar_cli.llm import tokens
from familiar_cli.llm.types import Completion, ScriptedModel, Usage
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.memory.layout import WRITER_JSON
from familiar_cli.store.memory.pages.lines import PLAIN, Numbering, turn_ids
from familiar_cli.store.memory.store.store import Limits, MemoryStore
from familiar_cli.store.passes import exclusive
from familiar_cli.sync.turns_outgoing import UnreadFilter
from familiar_cli.writing.pending import read_pending
from familiar_cli.writing.writer import runs
from familiar_cli.writing.writer.runs import Runs
from tests.support.cases import IS_NIGHT
from tests.support.processes import run_process
from tests.writing.writer.support import (
    ANNA,
    ANNAS,
    BOB,
    EVENING,
    NOTHING,
    SESSION,
    World,
    op,
    rails,
    reply,
)

SUMMARY = op("set_summary", SESSION, ["Anna told of her bees."])


def test_one_pass_writes_session_person_and_topic_linked_to_each_other(world):
    world.say()
    topic = op("create", "topics/Bee Keeping.md", ["Anna keeps bees."], title="Bee keeping")

    report = world.write(reply(SUMMARY, op(), topic))

    assert world.read(SESSION) == (
        "# 2026-04-07, evening\n\nAnna told of her bees. <!-- turns 1 -->\n"
    )
    assert world.read(ANNAS) == (
        "# Anna\n\n## Aliases\n\n- Anna\n\n## Facts\n\n- Anna keeps bees. <!-- turns 1 -->\n"
        "\n## Topics\n\n- [Bee keeping](../topics/bee-keeping.md) <!-- turns 1 -->\n"
    )
    assert world.read("topics/bee-keeping.md") == (
        "# Bee keeping\n\nAnna keeps bees. <!-- turns 1 -->\n\n## Sessions\n\n"
        "- [2026-04-07, evening](../sessions/2026-04-07-evening.md) <!-- turns 1 -->\n"
        "\n## People\n\n- [Anna](../people/discord-42.md) <!-- turns 1 -->\n"
    )
    assert [f.operation for f in report.files.values()] == ["create"] * 3


def test_names_are_harvested_into_the_index_of_names(world):
    world.say("Call me Bee.")

    world.write(reply(op(), op("add_aliases", lines=["Bee"])))

    assert json.loads(world.read("people/_aliases.json")) == {
        "anna": "discord-42",
        "bee": "discord-42",
    }


def test_a_new_display_name_is_appended_to_the_same_file(world):
    world.say()
    world.write(reply(op()))
    world.say("Hi again.", type(ANNA)("discord", "42", "anna", "Anna Bell"))

    world.write(NOTHING)

    assert "## Aliases\n\n- Anna\n- Anna Bell\n" in world.read(ANNAS)


def test_a_session_file_is_merged_and_never_forked(world):
    world.say()
    world.write(reply(SUMMARY))
    world.say("And I sell honey.")

    merged = op("set_summary", SESSION, ["Anna told of her bees and sells honey."], [2])
    report = world.write(reply(merged))

    assert world.store.glob("sessions/*") == [SESSION]
    assert turn_ids(world.read(SESSION), PLAIN) == (1, 2)
    assert report.files[SESSION].operation == "update"


def test_the_session_is_that_of_the_turns_not_of_the_pass(world):
    world.say(at=datetime(2020, 2, 29, 3, tzinfo=UTC))

    world.write(NOTHING)

    assert "sessions/2020-02-29-night.md: turns 1" in world.prompt


def test_a_relative_date_is_written_as_the_date_that_it_means(world):
    world.say("I moved to Oslo yesterday, and Tom comes tomorrow.")
    lines = ["Anna moved to Oslo yesterday.", "Anna expects Tom tomorrow."]

    world.write(
        reply(op("set_summary", SESSION, ["Yesterday Anna moved to Oslo."]), op(lines=lines))
    )

    assert "\nOn 2026-04-06 Anna moved to Oslo. <!--" in world.read(SESSION)
    assert "- Anna moved to Oslo on 2026-04-06. <!--" in world.read(ANNAS)
    assert "- Anna expects Tom on 2026-04-08. <!--" in world.read(ANNAS)


def test_it_is_the_day_of_the_turn_that_says_so(world):
    world.say("I moved yesterday.")
    world.say("It went well.", at=EVENING + timedelta(days=3))
    world.say("The cat ran away.")

    world.write(reply(op(lines=["Anna moved yesterday."], turns=[1, 2])))

    assert "- Anna moved on 2026-04-06. <!--" in world.read(ANNAS)


def test_where_two_days_may_be_meant_the_words_stay(world):
    world.say("I moved yesterday.")
    world.say("Yes, yesterday!", at=EVENING + timedelta(days=3))

    world.write(reply(op(lines=["Anna moved yesterday."], turns=[1, 2])))

    assert "- Anna moved yesterday. <!--" in world.read(ANNAS)


def test_the_model_reads_each_turn_with_its_weekday_in_the_order_of_time(world):
    world.say("Second.")
    world.say("First.", at=EVENING - timedelta(hours=1))

    world.write(NOTHING)

    turns = world.prompt.partition("<turns>\n")[2]
    assert turns.startswith("[2] Tue 2026-04-07 17:00 Anna: First.\n[1] Tue 2026-04-07 18:01 Anna")
    assert f"{SESSION}: turns 1" in world.prompt


def test_the_same_turns_are_never_read_twice(world):
    world.talk(3)
    world.write(reply(op()))

    report = world.write()

    assert (report.outcome, report.spent.calls, report.turns_covered) == ("nothing", 0, 0)


def test_what_was_written_before_a_failure_stays_and_the_rest_waits(world):
    world.talk(20)

    report = world.write(reply(op()), "no", "no", batch_turns=10)

    assert (report.outcome, report.batches) == ("wrote", 1)
    assert (report.turns_covered, report.remaining) == (world.watermark, 20 - world.watermark)
    assert report.error is not None


class Killed(HistoryStore):
    """A history whose process dies just when the watermark is to move."""

    def note_read(self, connection, turn_id) -> None:
        raise KeyboardInterrupt


def test_a_crash_between_commit_and_watermark_writes_nothing_twice(world):
    world.talk(3)
    dying = Killed(world.history.path)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(world.writer(reply(op(), SUMMARY), history=dying).run())
    dying.close()
    before = {path: world.read(path) for path in world.files()}
    assert world.watermark == 0
    assert "Anna keeps bees." in before[ANNAS]

    report = world.write()

    assert (report.spent.calls, report.outcome, world.watermark) == (0, "nothing", 3)
    assert {p: world.read(p) for p in before} == before
    assert "was interrupted" in report.notices[0]


def test_a_crash_after_a_part_is_made_up_for_and_the_rest_goes_on_waiting(world):
    world.say(channel="garden")
    world.say(channel="kitchen")
    world.say(channel="garden")
    dying, kitchen = Killed(world.history.path), UnreadFilter(frozenset({"kitchen"}))
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(world.writer(reply(op(turns=[2])), history=dying).run(which=kitchen))
    dying.close()
    assert world.history.unsummarised_count() == 3

    report = world.write(NOTHING, run={"which": UnreadFilter(frozenset({"garden"}))})

    assert (report.turns_covered, world.history.unsummarised_count()) == (2, 0)
    assert "was interrupted" in report.notices[0]


def test_the_cost_of_a_long_backlog_is_concluded_from_its_beginning(world):
    world.talk(100)
    whole = world.writer(batch_turns=10).estimate()

    some = world.writer(batch_turns=10).estimate(from_turns=30)

    assert (some["turns"], whole["turns"]) == (100, 100)
    assert some["batches"] == pytest.approx(whole["batches"], rel=0.25)
    assert some["estimated_tokens"] == pytest.approx(whole["estimated_tokens"], rel=0.25)


class Diligent(ScriptedModel):
    """Sums every session up, and notes two of the words that each person said as facts."""

    async def complete(self, request, on_text=None):
        asked = json.loads(request.body)["messages"][1]["content"]
        said = re.findall(r"^\[(\d+)\] \S+ \S+ \S+ (\w+): (.*)$", asked, re.MULTILINE)
        sessions = re.findall(r"^- (sessions/\S+):", asked, re.MULTILINE)
        tale = [" ".join(words for *_, words in said)[:300]]
        told = [op("set_summary", path, tale, [int(said[0][0])]) for path in sessions]
        for path, name in re.findall(r"^- (people/\S+): (\w+)", asked, re.MULTILINE):
            theirs = [(int(n), words) for n, who, words in said if who == name][:2]
            told += [op(file=path, lines=[words], turns=[n]) for n, words in theirs]
        self._replies = [reply(*told)]
        return await super().complete(request, on_text)


def test_the_estimate_is_within_a_quarter_of_what_the_run_costs(world):
    for n in range(160):
        tale = f"On walk {n} along the harbour I saw {n} gulls and the keeper of boat {n}."
        world.say(tale, ANNA if n % 2 else BOB, at=EVENING + timedelta(hours=n))
    writer = world.writer(context_tokens=8192, reply_tokens=2048, batch_turns=16)
    told = writer.estimate()
    model = Diligent([], context_tokens=8192, max_tokens=2048)
    writer.model = model

    report = asyncio.run(writer.run())

    assert (report.turns_covered, report.batches) == (160, told["batches"])
    assert told["estimated_tokens"] == pytest.approx(report.spent.estimated_tokens, rel=0.25)
    assert report.files.keys() >= {ANNAS}


def test_one_channel_is_written_and_the_others_go_on_waiting(world):
    world.say("I keep bees.", channel="garden")
    world.say("I bake bread.", channel="kitchen")

    report = world.write(reply(op(turns=[2])), run={"which": UnreadFilter(frozenset({"kitchen"}))})

    assert (report.turns_covered, report.remaining) == (1, 0)
    assert "I bake bread." in world.prompt
    assert "I keep bees." not in world.prompt
    assert world.history.unsummarised_count() == 1
    assert world.write(NOTHING).turns_covered == 1


def test_a_killed_process_is_made_up_for_by_the_next(world):
    world.talk(2)
    script = f"""
import asyncio, os
from pathlib import Path
from tests.writing.writer.support import World, op, reply
world = World(Path({str(world.root)!r}))
world.history.note_read = lambda *_: os._exit(9)
world.write(reply(op()))
"""
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}

    done = run_process([sys.executable, "-c", script], env=environment)

    assert done.returncode == 9
    assert not world.store.exists("people/_aliases.json")
    assert (world.write().spent.calls, world.watermark) == (0, 2)
    assert world.read(ANNAS).count("keeps bees") == 1
    assert "anna" in json.loads(world.read("people/_aliases.json"))


def test_a_marker_of_another_history_means_nothing(world, tmp_path):
    world.talk(3)
    world.write(reply(op()))
    other = World(tmp_path / "other")
    other.store.write_file(WRITER_JSON, world.store.read_file(WRITER_JSON))
    for _ in range(3):
        other.say("Something else entirely.", BOB)

    other.write("no", "no")

    assert other.watermark == 0
    other.history.close()


def test_a_person_who_edits_while_the_model_thinks_wins(world):
    world.store.write_file(ANNAS, "# Anna\n\nA baker. <!-- turns 1 -->\n")
    world.say()
    writer = world.writer(reply(op("set_summary", lines=["Anna keeps bees."]), op()))
    complete = world.model.complete

    async def edit_meanwhile(request, on_text=None):
        world.store.write_file(ANNAS, "# Anna\n\nA baker, and my sister.\n")
        return await complete(request, on_text)

    world.model.complete = edit_meanwhile
    report = asyncio.run(writer.run())

    assert rails(report) == ["changed"]
    assert "A baker, and my sister.\n" in world.read(ANNAS)
    assert "- Anna keeps bees." in world.read(ANNAS)


def test_a_file_that_appears_between_reading_and_writing_is_not_overwritten(world):
    world.say()
    writer = world.writer(reply(SUMMARY))
    transaction, raced = world.store.transaction, []

    def race(source, message, **more):
        if source == "memory_writer" and not more.get("dry_run") and not raced:
            raced.append(True)
            world.store.write_file(SESSION, "# Mine\n\nMy own words.\n")
        return transaction(source, message, **more)

    world.store.transaction = race
    report = asyncio.run(writer.run())

    assert world.read(SESSION) == "# Mine\n\nMy own words.\n"
    assert rails(report) == ["not_shown"]


def test_two_runs_at_once_wait_for_each_other(world):
    world.talk(2)
    lock = world.root / ".writer.lock"
    order = []

    async def go(name, hold_s):
        async with exclusive(lock, 5):
            order.append(f"{name} in")
            await asyncio.sleep(hold_s)
            order.append(f"{name} out")

    async def both():
        await asyncio.gather(go("first", 0.3), go("second", 0))

    asyncio.run(both())

    assert order == ["first in", "first out", "second in", "second out"]


def test_whoever_will_not_wait_is_told_and_loses_nothing(world):
    lock = world.root / ".writer.lock"

    async def go():
        async with exclusive(lock, 1), exclusive(lock, 0):
            raise AssertionError

    with pytest.raises(LockedError, match="did not start"):
        asyncio.run(go())


def test_at_most_one_question_a_batch_and_one_repair(world):
    world.talk(20)

    report = world.write("bad", NOTHING, "bad", NOTHING, NOTHING, batch_turns=8)

    assert (report.spent.calls, report.spent.repairs) == (report.batches + 2, 2)


def test_a_server_that_knows_no_schema_is_asked_in_words(world):
    world.talk(20)

    report = world.write(RequestRefusedError("no response_format"), *[NOTHING] * 3, batch_turns=8)

    asked = [json.loads(request.body) for request in world.model.requests]
    assert ["response_format" in body for body in asked] == [True, *[False] * 3]
    assert (report.spent.calls, report.error) == (3, None)


def test_what_it_cost_is_added_up(world):
    world.talk(12)
    said = Completion(NOTHING, "stop", "m", Usage(100, 5, 0.25))

    report = world.write(said, said, batch_turns=8)

    assert (report.spent.prompt_tokens, report.spent.completion_tokens) == (200, 10)
    assert report.spent.cost == 0.5
    assert report.to_json()["estimated_tokens_per_turn"] > 0


def test_hidden_turns_are_passed_over_and_read_by_nobody(world):
    world.say("visible words")
    with world.history.use(create=True) as connection:
        connection.execute(
            "INSERT INTO turns (channel_id, role, content, at_ms, modality, source, hidden) "
            "VALUES ('cli', 'system', 'hidden words', 0, 'text', 'x', 1)"
        )

    world.write(NOTHING)

    assert "hidden words" not in world.prompt
    assert (world.watermark, world.history.unsummarised_count()) == (2, 0)


def test_since_reads_old_turns_again_and_skips_no_waiting_one(world):
    world.talk(2)
    world.write(NOTHING)
    world.say("waits", at=EVENING + timedelta(days=1))
    late = EVENING + timedelta(days=2)
    world.say("late", at=late)

    report = world.write(NOTHING, run={"since": late})

    assert (report.turns_covered, world.watermark) == (1, 2)
    assert "waits" not in world.prompt
    report = world.write(NOTHING, run={"again": True})
    assert (report.turns_covered, world.watermark) == (4, 4)


def test_a_dry_run_asks_and_changes_nothing(world):
    world.talk(2)

    report = world.write(reply(op(), SUMMARY), mode="dry_run")

    assert (report.outcome, world.files(), world.watermark) == ("wrote", [], 0)
    assert f"+++ b/{ANNAS}\n" in report.diff
    assert "+- Anna keeps bees. <!-- turns 1 -->\n" in report.diff
    assert not (world.root / "runs").exists()


def test_an_estimate_asks_nobody(world):
    world.talk(20)
    told = world.writer(batch_turns=8).estimate()

    assert (told["turns"], world.model.requests) == (20, [])
    assert told["batches"] >= 3
    assert told["estimated_tokens"] > 0


def test_a_record_holds_what_was_refused_and_why(world):
    world.say()

    report = world.write(reply(op(file="x.sh"), op()))

    start, step, end = Runs(world.root / "runs", world.root).read(report.run)
    assert start["model"] == "scripted"
    assert (step["turns"], step["refused"][0]["rail"]) == ([1, 1], "path")
    assert step["refused"][0]["text"] == "Anna keeps bees."
    assert end["outcome"] == "wrote"


def test_context_lists_the_channels_and_unknown_ones_are_left_out(world):
    world.say(channel="general")

    world.write(NOTHING)

    assert "## Context\n\n- #general\n" in world.prompt


def test_a_model_that_reads_too_little_is_told_of_before_anything_is_asked(world):
    world.talk(1)

    with pytest.raises(ConfigError, match="too few to write memory"):
        world.write(context_tokens=1200)


def test_a_full_disk_moves_nothing(world, monkeypatch):
    world.talk(1)

    def refuse(*_args, **_more):
        raise FamiliarError("no space left")

    monkeypatch.setattr("familiar_cli.writing.writer.memory_writer.commit_step", refuse)
    report = world.write(reply(op()))

    assert (report.outcome, world.watermark) == ("failed", 0)


def test_a_long_backlog_runs_in_bounded_memory_and_goes_on_after_a_break(world):
    count = 10_000 if IS_NIGHT else 2_000
    rows = [
        ("cli", "discord", "42", None, "Anna", "user", f"Remark {n} of the day.", n * 60_000)
        for n in range(count)
    ]
    world.say()
    with world.history.use(create=True) as connection:
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO turns (channel_id, author_platform, author_user_id, author_username, "
            "author_display_name, role, content, at_ms, modality, source) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'text', 'x')",
            rows,
        )
        connection.execute("COMMIT")
    writer = world.writer(*[NOTHING] * 400)
    tracemalloc.start()

    async def broken_off():
        half = asyncio.Event()
        task = asyncio.ensure_future(
            writer.run(on_step=lambda r: half.set() if r.turns_covered > count / 2 else None)
        )
        await half.wait()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(broken_off())
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (writer.report.interrupted, world.watermark) == (True, writer.report.turns_covered)
    left = count + 1 - world.watermark
    report = world.write(*[NOTHING] * 400)
    assert (report.turns_covered, report.remaining) == (left, 0)
    assert peak_bytes < 6_000 * count  # each prompt is remembered by the double


def voice_in(world) -> str:
    return world.prompt.partition("<voice>\n")[2].partition("\n</voice>")[0]


@pytest.mark.parametrize(
    ("sentence", "end"),
    [
        ("Aria tends a lighthouse, and Dr. Smith once lived there. ", "there."),
        ("アリアは灯台を守っている。", "いる。"),
    ],
)
def test_a_long_voice_ends_with_a_sentence(tmp_path, sentence, end):
    world = World(tmp_path)
    world.who = Who("Aria", sentence * 60)
    world.talk()
    world.write(NOTHING)
    voice = voice_in(world)
    assert voice.endswith(end)
    assert (sentence * 60).startswith(voice)
    assert 75 < tokens.heuristic().count(voice) <= 150
    world.history.close()


@pytest.mark.parametrize(
    ("text", "last"), [("lighthouse keeper " * 300, ("lighthouse", "keeper")), ("灯" * 900, "灯")]
)
def test_a_long_voice_without_a_sentence_ends_with_a_whole_word(tmp_path, text, last):
    world = World(tmp_path)
    world.who = Who("Aria", text)
    world.talk()
    world.write(NOTHING)
    voice = voice_in(world)
    assert voice.endswith(last)
    assert 75 < tokens.heuristic().count(voice) <= 150
    world.history.close()


def test_a_voice_that_fits_is_shown_as_it_is(tmp_path):
    world = World(tmp_path)
    world.who = Who("Aria", "Dry wit. Never explains a joke and")
    world.talk()
    world.write(NOTHING)
    assert voice_in(world) == "Dry wit. Never explains a joke and"
    world.history.close()


def test_nothing_links_to_a_topic_that_the_memory_refuses(tmp_path):
    world = World(tmp_path)
    world.store = MemoryStore(tmp_path / "memory", limits=Limits(max_dir_files=4))
    for name in ("one", "two", "three", "four"):
        world.store.write_file(f"topics/{name}.md", "# T\n")
    world.say("I keep bees behind the house.")

    report = world.write(
        reply(op(), op("create", "topics/beekeeping.md", ["Bees live behind the house."]))
    )

    assert [refusal.rel_path for refusal in report.refused] == ["topics/beekeeping.md"]
    assert report.held == ["topics/beekeeping.md"]  # and waits until there is room
    assert "Bees live behind the house." in read_pending(world.store, report.pending).files[0].after
    assert "keeps bees" in world.read(ANNAS)
    assert "beekeeping" not in world.read(ANNAS)
    world.history.close()


def test_what_a_folder_in_capitals_keeps_from_being_written_is_held(world):
    world.store.write_file("People/Paula.md", "# Paula\n")
    world.say()
    report = world.write(reply(op()))
    assert (report.files, report.held, rails(report)) == ({}, [ANNAS], ["path"])
    assert "keeps bees" in read_pending(world.store, report.pending).files[0].after


def test_a_folder_of_sessions_in_capitals_fails_the_pass_and_no_turn_counts_as_read(world):
    world.store.write_file("Sessions/a.md", "# A\n")
    world.say()
    report = world.write(reply(op()))
    assert "familiar doctor" in (report.error.hint or "")
    assert (report.turns_covered, report.remaining) == (0, 1)


@pytest.mark.parametrize("named", ["topics/bees.md", "topics/Bees.md", "topics/garden/Bees.md"])
def test_a_topic_in_a_subfolder_is_shown_and_written_where_it_is(world, named):
    world.store.write_file("topics/garden/Bees.md", "# Bees\n\n## Notes\n\n- They hum.\n")
    world.say()
    report = world.write(reply(op("create", named, ["Anna keeps bees."])))
    assert report.refused == []
    assert "- Anna keeps bees. <!-- turns 1 -->" in world.read("topics/garden/Bees.md")
    assert [path for path in world.files() if "bees" in path.lower()] == ["topics/garden/Bees.md"]
    assert '<memory file="topics/garden/Bees.md" complete="yes">' in world.prompt


def test_a_new_topic_may_go_into_a_directory_that_there_is(world):
    world.store.write_file("topics/garden/Green Tea.md", "# Green Tea\n")
    world.say("I keep bees, and I drink green tea.")
    bees = op("create", "topics/garden/bees.md", ["Anna keeps bees."])
    again = op("add_bullets", "topics/bees.md", ["Her bees live behind the house."])
    report = world.write(reply(bees, again, op("create", "topics/new/x.md", ["A thing."])))
    assert [refusal.rel_path for refusal in report.refused] == ["topics/new/x.md"]
    assert "Green Tea.md" in world.prompt
    assert "- Her bees live behind the house." in world.read("topics/garden/bees.md")
    assert "topics/bees.md" not in world.files()
    world.say("The tea is from Uji.")
    world.write(
        reply(
            op(file="topics/green-tea.md", lines=["It is from Uji."], turns=[2]),
            op(lines=["Anna drinks green tea."], turns=[2]),
        )
    )
    assert "- It is from Uji." in world.read("topics/garden/Green Tea.md")
    assert "](../topics/garden/Green%20Tea.md)" in world.read(ANNAS)


def test_what_the_reply_may_name_holds_topics_in_subfolders(world):
    world.store.write_file("topics/garden/Green Tea.md", "# Green Tea\n")
    world.say()
    world.write(NOTHING)
    assert "topics/garden/Green Tea.md" in json.dumps(json.loads(world.model.requests[-1].body))


HERE = Numbering("desk-9c2d", "laptop-7f3a", lambda *_: {}, lambda _: dict(ELSEWHERE))
ELSEWHERE = {1: ("laptop-7f3a", 31)}


def test_what_is_written_names_the_instance_that_a_turn_came_from(world):
    world.say()
    world.say("And a cat.")

    world.write(reply(op(lines=["Anna keeps bees and a cat."], turns=[1, 2])), numbering=HERE)

    assert "a cat. <!-- turns desk-9c2d:2; laptop-7f3a:31 -->" in world.read(ANNAS)
    assert "desk-9c2d" not in world.prompt


def test_a_summary_keeps_the_turns_that_are_not_held_here(world):
    world.store.write_file(SESSION, "# 2026-04-07, evening\n\nOld. <!-- turns 9; server-1:4 -->\n")
    world.say()

    world.write(reply(SUMMARY), numbering=HERE)

    assert world.read(SESSION).endswith("bees. <!-- turns 9; laptop-7f3a:31; server-1:4 -->\n")


def test_how_far_another_instance_has_come_says_nothing_here(world):
    world.say()
    world.write(reply(SUMMARY), numbering=HERE)
    told = json.loads(world.read(WRITER_JSON))
    assert told["instance"] == "desk-9c2d"
    world.say("And a cat.")
    told |= {"through": 2, "turns": "2", "turn": runs._turn_digest(world.history.turn(2))}
    world.store.write_file(WRITER_JSON, json.dumps(told))

    assert runs.reconcile_history(world.store, world.history, "laptop-7f3a") == 0
    assert runs.reconcile_history(world.store, world.history, "desk-9c2d") == 1


RELATED = {"file": ANNAS, "section": "Relations"}


def test_a_relation_is_written_with_a_link_to_who_is_meant(world):
    world.say("Bob is my brother, since forever.")
    world.say("Hi!", BOB)
    lines = ["sister of Bob (since 2001)", "brother of Zed", "is fond of Bob", "sister of Anna"]

    report = world.write(reply(op(lines=lines, **RELATED)))

    bobs = "sister of [Bob](discord-7.md) (since 2001)"
    assert f"## Relations\n\n- {bobs}" in world.read(ANNAS)
    assert "Zed" not in world.read(ANNAS)
    assert rails(report) == ["relation", "relation", "relation"]


def test_a_relation_in_play_is_none(world):
    world.say("*He is her king.*")
    world.say("Hi!", BOB)

    report = world.write(reply(op(lines=["boss of Bob"], kind="play", **RELATED)))

    assert rails(report) == ["relation"]


DATED = Numbering(days=lambda ids, _: {n: EVENING.date() for n in ids})


def test_the_model_sees_when_a_line_was_said_and_a_copy_of_the_day_is_left_out(world):
    world.store.write_file(ANNAS, "# Anna\n\n## Facts\n\n- Anna keeps bees. <!-- turns 1 -->\n")
    world.say()
    world.write(NOTHING, numbering=DATED)
    world.say("Now I have a cat, too.")
    world.say("It is called Smoke since 2020.")
    lines = ["Anna keeps bees. (April 2026)", "Anna has a cat.", "Smoke is her cat. (April 2020)"]
    rewrite = op("replace_section", lines=lines, turns=[2, 3], section="Facts")

    world.write(reply(rewrite), numbering=DATED)

    assert "- Anna keeps bees. (April 2026)\n" in world.prompt
    assert world.read(ANNAS).startswith(
        "# Anna\n\n## Facts\n\n- Anna keeps bees. <!-- turns 1 -->\n"
        "- Anna has a cat. <!-- turns 2-3 -->\n"
        "- Smoke is her cat. (April 2020) <!-- turns 2-3 -->\n"
    )
