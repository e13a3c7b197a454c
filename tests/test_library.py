"""A familiar inside somebody's own program: in a running event loop, against a real server."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import queue
import re
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import get_type_hints

import pytest
from msgspec import Struct
from msgspec.structs import replace

import familiar_cli
from familiar_cli import (
    AnsweredError,
    Author,
    DueWork,
    Familiar,
    FamiliarError,
    ItemStatus,
    Said,
    SearchOptions,
    add_todo,
    assemble,
    begin_due_work,
    fire_reminders,
    hear,
    import_files,
    mark_todo,
    read_todos,
    take_turn,
)
from familiar_cli.actions.health.daemon import Daemon
from familiar_cli.actions.memory.housekeep import tidy_up
from familiar_cli.actions.talk.replay import replay_trace
from familiar_cli.base.who.visibility import OWNER, person_scope
from familiar_cli.store.memory.pages.visible_lines import as_private
from familiar_cli.store.search.build import count_waiting
from familiar_cli.store.search.embedder import EmbedderChoice
from familiar_cli.store.search.finding import Finder
from tests.support.embedders import BrokenEmbedder, WordEmbedder
from tests.support.pages import ROOT
from tests.support.server import Fail, Say, Stall
from tests.support.world import home, live
from tests.support.writing import answer, environment

ANNA = Author("discord", "1", display_name="Anna")


@pytest.fixture
def ada():
    live("ada", notes="# Notes\n\n- Anna keeps bees.\n")
    return str(home())


def write_after(ada: str, *, turns: int) -> None:
    settings = f'[memory_writer]\nauto = "on"\nturn_threshold = {turns}\n'
    (Path(ada) / "ada" / "character.toml").write_text(settings, "utf-8")


async def test_a_turn_is_taken_in_a_running_loop(ada, serve) -> None:
    server = serve("Fair winds.")
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        pieces = []
        result = await take_turn(familiar, Said("Hello", ANNA, "harbour"), pieces.append)

        assert (result.text, "".join(pieces)) == ("Fair winds.", "Fair winds.")
        assert [t.content for t in familiar.history.recent("harbour", 9, viewer=OWNER)] == [
            "Hello",
            "Fair winds.",
        ]
    assert server.last.json()["messages"][-1] == {"role": "user", "content": "Hello"}


async def test_the_loop_goes_on_while_a_turn_is_taken(ada, serve) -> None:
    serve(Stall("Once upon", seconds=0.3))
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        turn = asyncio.ensure_future(take_turn(familiar, Said("Hello", ANNA, "harbour")))
        ticks = 0
        while not turn.done():
            ticks += 1
            await asyncio.sleep(0.01)
        assert turn.exception() is not None
    assert ticks > 5


async def test_turns_of_several_channels_are_taken_at_once(ada, serve) -> None:
    usual_s = sys.getswitchinterval()
    serve(Say("Fair winds.", pause_s=0.1))
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        channels = [f"channel-{n}" for n in range(4)]
        turns = [take_turn(familiar, Said(f"I am in {c}", ANNA, c)) for c in channels]
        assert [result.text for result in await asyncio.gather(*turns)] == ["Fair winds."] * 4
        for channel in channels:
            kept = [turn.content for turn in familiar.history.recent(channel, 9, viewer=OWNER)]
            assert kept == [f"I am in {channel}", "Fair winds."]
    assert sys.getswitchinterval() == usual_s


async def test_a_cancelled_turn_keeps_what_came_and_tells_who_asks(ada, serve) -> None:
    serve(Stall("Once upon a"))
    kept, begun = [], asyncio.Event()
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        turn = take_turn(
            familiar,
            Said("Hello", ANNA, "harbour"),
            lambda _: begun.set(),
            on_interrupted=kept.append,
        )
        task = asyncio.ensure_future(turn)
        await asyncio.wait_for(begun.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        question, reply = familiar.history.recent("harbour", 9, viewer=OWNER)

    assert (question.content, question.partial) == ("Hello", False)
    assert (reply.partial, "Once upon a".startswith(reply.content.strip())) == (True, True)
    assert [(r.interrupted, r.reply) for r in kept] == [(True, reply)]


async def test_a_message_sent_again_after_a_cancellation_has_one_reply(ada, serve) -> None:
    serve(Stall("Once upon a"), Say("Fair winds."))
    begun = asyncio.Event()
    said = Said("Hello", ANNA, "harbour", message_id="m-1")
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        task = asyncio.ensure_future(take_turn(familiar, said, lambda _: begun.set()))
        await asyncio.wait_for(begun.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await take_turn(familiar, said)
        with pytest.raises(AnsweredError):
            await take_turn(familiar, said)
        shown = familiar.history.recent("harbour", 9, viewer=OWNER)

    assert [turn.content for turn in shown] == ["Hello", "Fair winds."]


async def test_a_turn_within_a_timeout_ends_as_a_timeout(ada, serve) -> None:
    serve(Stall("Once upon a"))
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await take_turn(familiar, Said("Hello", ANNA, "harbour"))
        assert familiar.history.recent("harbour", 9, viewer=OWNER)[0].content == "Hello"


async def test_a_turn_that_is_cancelled_before_anything_is_kept_tells_nobody(ada, serve) -> None:
    server, kept = serve("Hello."), []
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        turn = take_turn(familiar, Said("Hello", ANNA, "harbour"), on_interrupted=kept.append)
        task = asyncio.ensure_future(turn)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert familiar.history.recent("harbour", 9, viewer=OWNER) == []
    assert (kept, server.requests) == ([], [])


async def test_a_prompt_is_assembled_replayed_and_memory_looked_through(ada, serve) -> None:
    serve("Fair winds.", "Foul winds.")
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        said = Said("Hello", ANNA, "harbour")
        assert (await assemble(familiar, said)).messages[-1].content == "Hello"
        result = await take_turn(familiar, said)
        again = await replay_trace(familiar, result.trace)
        assert (again.then.text, again.now.text) == ("Fair winds.", "Foul winds.")
        assert (await tidy_up(familiar)).files == 1


async def test_a_private_past_is_told_in_the_order_of_days_without_marks(ada, serve) -> None:
    serve("I see.")
    scope = person_scope(ANNA.slug)
    pages = {
        "sessions/2025-10-12-evening.md": "2025-10-12, evening",
        "weekly/2025-W20.md": "2025-W20, 12 May 2025 to 18 May 2025",
        "sessions/2025-05-10-evening.md": "2025-05-10, evening",
    }
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        for number, (path, title) in enumerate(pages.items()):
            text = f"# {title}\n\nAnna mended the kayak of neighbour {number}.\n"
            own = path.replace("/", f"/@{ANNA.slug}/")
            familiar.memory.write_file(own, as_private(text, scope, title))
        said = Said("In which order did I mend the kayaks?", ANNA, "dm-1", kind="dm")
        await take_turn(familiar, replace(said, text="Hello"))
        prompt = "\n".join(one.content for one in (await assemble(familiar, said)).messages)
    assert re.findall(r"\[(.+)]\nAnna mended", prompt) == [
        "From memory: 10 May 2025, evening",
        "From memory: 2025-W20, 12 May 2025 to 18 May 2025",
        "12 October 2025, evening",
    ]


async def test_closing_ends_every_model_and_breaks_off_what_is_under_way(ada) -> None:
    ended = []

    class Model:
        async def aclose(self) -> None:
            ended.append(self)

    async with Familiar.load_from_disk(ada, "ada") as familiar:
        familiar.models._opened["one"] = one = Model()
        familiar.jobs.add("a", lambda: asyncio.sleep(30))
        familiar.jobs.start()

    assert ended == [one]
    assert familiar.jobs.names == ()


def test_a_plain_with_is_enough_for_memory_and_history(ada) -> None:
    with Familiar.load_from_disk(ada, "ada") as familiar:
        assert familiar.memory.read("notes.md").text.startswith("# Notes")
        assert familiar.history.recent("harbour", 9, viewer=OWNER) == []


async def test_a_turn_reads_its_channel_and_the_character_once(ada, serve, monkeypatch) -> None:
    from familiar_cli.base.config import channel as effective_channel
    from familiar_cli.context import character

    serve("Fair winds.")
    read = Counter()

    def counted(module, name: str) -> None:
        real = getattr(module, name)

        def call(*args, **more):
            read[name] += args[0] == "harbour" or name == "read_character"  # not the owner's own
            return real(*args, **more)

        monkeypatch.setattr(module, name, call)

    counted(effective_channel, "effective_channel")
    counted(character, "read_character")
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        await take_turn(familiar, Said("Hello", ANNA, "harbour"))
        assert read == {"effective_channel": 1, "read_character": 1}
        await assemble(familiar, Said("Hello", ANNA, "harbour"))
        assert read == {"effective_channel": 2, "read_character": 2}


def test_every_public_name_is_found_where_the_types_say() -> None:
    stub = Path(familiar_cli.__file__).with_suffix(".pyi").read_text("utf-8")
    imported = (node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom))
    typed = {alias.asname: node.module for node in imported for alias in node.names}
    loaded = {name: f"familiar_cli.{where}" for name, where in familiar_cli._MODULE_OF.items()}
    other = familiar_cli._OTHER_NAMES

    assert loaded == typed
    assert sorted([*typed, *other]) == familiar_cli.__all__
    assert all(f"{name} = {of}\n" in stub for name, of in other.items())
    for name in familiar_cli.__all__:
        assert getattr(familiar_cli, name).__name__ == other.get(name, name)
    assert set(familiar_cli.__all__) <= set(dir(familiar_cli))


def test_the_types_of_what_a_familiar_can_do_are_known_at_run_time() -> None:
    public = [getattr(familiar_cli, name) for name in familiar_cli.__all__]
    functions = [one for one in public if inspect.isfunction(one) and "actions" in one.__module__]
    assert take_turn in functions
    for function in functions:
        assert get_type_hints(function)["familiar"] is Familiar


def test_the_signature_of_each_public_record_can_be_asked_for() -> None:
    public = [getattr(familiar_cli, name) for name in familiar_cli.__all__]
    records = [one for one in public if isinstance(one, type) and issubclass(one, Struct)]
    assert Said in records
    for record in records:
        assert [*inspect.signature(record).parameters] == [*record.__struct_fields__]


def test_an_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Ghost'"):
        familiar_cli.Ghost  # noqa: B018


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys; old = set(sys.modules); import familiar_cli; print(set(sys.modules) - old)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) <= {"familiar_cli", "__future__"}


def test_stores_take_paths_as_text(tmp_path) -> None:
    memory = familiar_cli.MemoryStore(f"{tmp_path}/memory", lock_path=f"{tmp_path}/lock")
    memory.write_file("notes.md", "# Notes\n")
    with closing(familiar_cli.HistoryStore(f"{tmp_path}/history.db")) as history:
        history.append("harbour", "user", "Hello", author=ANNA)
    familiar_cli.SubscriptionRegistry(f"{tmp_path}/subscriptions.toml").add("harbour")
    assert {path.name for path in tmp_path.iterdir()} >= {
        "memory",
        "history.db",
        "subscriptions.toml",
    }


def test_reminders_are_added_marked_and_fired(ada) -> None:
    with Familiar.load_from_disk(ada, "ada") as familiar:
        added = add_todo(familiar, "reminders.md", "Call Bo", "2026-01-01 9:00")
        add_todo(familiar, "tasks.md", "Mend the lamp")
        assert [item.text for item in fire_reminders(familiar, "bot")] == ["Call Bo"]
        assert fire_reminders(familiar, "bot") == []
        mark_todo(familiar, "reminders.md", added.item.number, ItemStatus.done)
        marks = [
            i.mark
            for name in ("reminders.md", "tasks.md")
            for i in read_todos(familiar, name).items
        ]
        assert marks == ["done", "open"]


def test_files_are_imported_into_a_familiar(ada, tmp_path) -> None:
    chat = tmp_path / "chat.jsonl"
    line = {"role": "user", "author": "discord:1", "name": "Anna", "content": "I keep bees."}
    chat.write_text(json.dumps(line) + "\n", "utf-8")
    with Familiar.load_from_disk(ada, "ada") as familiar:
        done, failed = import_files(familiar, [str(chat), tmp_path / "missing.txt"])
        assert (done.error, done.familiar, failed.done) == (None, "ada", [])
        assert isinstance(failed.error, FamiliarError)
        assert [turn.content for turn in familiar.history.since(0, 9)] == ["I keep bees."]


async def test_a_first_turn_imports_libraries_beside_the_loop(ada, serve, monkeypatch) -> None:
    serve("Fair winds.")
    threads: list[int] = []
    monkeypatch.setattr(Finder, "load_embedder", lambda _: threads.append(threading.get_ident()))
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        await take_turn(familiar, Said("Hello", ANNA, "harbour"))
    assert threads
    assert threading.get_ident() not in threads


async def test_work_that_a_turn_made_due_is_done_beside_the_loop(ada, serve) -> None:
    plan = answer("Anna keeps bees.", file="people/discord-1.md", turns=(1,))
    server = serve("Fair winds.", plan)
    write_after(ada, turns=1)
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        familiar.history.append("harbour", "user", "I keep bees.", author=ANNA)
        result = await take_turn(familiar, Said("Hello", ANNA, "harbour"))
        work = begin_due_work(familiar, result)
        assert work.written_turns == 1
        done = await familiar.jobs.finish(60)

    assert (done.failed, done.cancelled, len(server.requests)) == ((), (), 2)
    assert "Anna keeps bees." in (Path(ada) / "ada/memory/people/discord-1.md").read_text("utf-8")


@pytest.mark.parametrize(("stays", "waits"), [(True, False), (False, True)])
async def test_what_is_written_gets_its_vectors_from_a_program_that_stays(
    ada, serve, stays, waits
) -> None:
    serve("Fair winds.", answer("Anna keeps bees.", file="people/discord-1.md", turns=(1,)))
    write_after(ada, turns=1)
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        familiar.finder.embedder = EmbedderChoice(WordEmbedder())
        familiar.index.refresh()
        familiar.index.embed_waiting(familiar.finder.embedder.embedder)
        familiar.history.append("harbour", "user", "I keep bees.", author=ANNA)
        result = await take_turn(familiar, Said("Hello", ANNA, "harbour"))
        begin_due_work(familiar, result, stays=stays)
        assert (await familiar.jobs.finish(60)).failed == ()

        found = familiar.finder.search(
            "bees", SearchOptions(method="lexical", refresh=False, viewer=OWNER)
        )
        assert "people/discord-1.md" in {hit.rel_path for hit in found.hits}
        assert (familiar.index.use(count_waiting) > 0) == waits


async def test_the_daemon_gives_vectors_to_what_it_writes(ada, serve) -> None:
    write_after(ada, turns=1)
    serve(answer("Anna keeps bees.", file="people/discord-1.md", turns=(1,)))
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        familiar.finder.embedder = EmbedderChoice(WordEmbedder())
        familiar.index.refresh()
        familiar.index.embed_waiting(familiar.finder.embedder.embedder)
        familiar.history.append("harbour", "user", "I keep bees.", author=ANNA)
        await Daemon(familiar, asyncio.Event(), lambda _: None, lambda _: None).catch_up()

        assert familiar.memory.exists("people/discord-1.md")
        assert familiar.index.use(count_waiting) == 0


async def test_a_daemon_gives_vectors_to_all_turns(ada, serve) -> None:
    serve(answer())
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        familiar.finder.embedder = EmbedderChoice(WordEmbedder())
        for number in range(100):
            familiar.history.append("harbour", "user", f"Ship {number}.", author=ANNA)
        stop = asyncio.Event()
        daemon = Daemon(familiar, stop, lambda _: None, lambda _: None)
        watching = asyncio.create_task(daemon.watch(0.01))
        async with asyncio.timeout(20):
            while familiar.finder.turns_without_vector():  # noqa: ASYNC110  # nobody tells of them
                await asyncio.sleep(0.01)
        stop.set()
        await watching
        assert familiar.finder.near_turns("ship 7").nearest(1) == [8]


async def test_a_turn_opens_the_model_while_other_things_are_read(ada, monkeypatch) -> None:
    opened, read = threading.Event(), Familiar.character

    class Waits(WordEmbedder):
        def load(self, *, optimised=False):
            assert not optimised
            opened.set()

    def character(self):
        assert opened.wait(5)
        return read(self)

    with Familiar.load_from_disk(ada, "ada") as familiar:
        familiar.finder.embedder = EmbedderChoice(Waits())
        monkeypatch.setattr(Familiar, "character", character)
        await assemble(familiar, Said("Hello", ANNA, "harbour"))


def test_the_model_is_opened_once_and_once_more_for_whoever_stays(ada, monkeypatch) -> None:
    with Familiar.load_from_disk(ada, "ada") as familiar:
        embedder, ways = WordEmbedder(), queue.Queue()
        monkeypatch.setattr(embedder, "load", lambda *, optimised=False: ways.put(optimised))
        familiar.finder.embedder = EmbedderChoice(embedder)
        for optimised in (False, False, True, False, True):
            familiar.finder.load_embedder(optimised=optimised)
        assert {ways.get(timeout=5), ways.get(timeout=5)} == {False, True}
        assert ways.empty()


async def test_a_broken_embedder_never_fails_what_is_written(ada) -> None:
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        familiar.finder.embedder = EmbedderChoice(BrokenEmbedder())
        familiar.index.refresh()
        familiar.memory.append_file("notes.md", "- Bo keeps goats.\n")
        await familiar.finder.embed_changes()
        assert familiar.index.use(count_waiting) > 0


async def test_an_interrupted_turn_makes_nothing_due(ada, serve) -> None:
    serve("Fair winds.")
    write_after(ada, turns=1)
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        result = await take_turn(familiar, Said("I keep bees.", ANNA, "harbour"))
        assert begin_due_work(familiar, replace(result, interrupted=True)) == DueWork()
        assert familiar.jobs.names == ()


async def test_a_channel_answers_one_message_at_a_time_within_a_program_too(ada, serve) -> None:
    serve(Say("Fair winds.", pause_s=0.02))
    async with Familiar.load_from_disk(ada, "ada") as familiar:
        asked = [take_turn(familiar, Said(f"Q{n}", ANNA, "harbour")) for n in range(5)]
        hear(familiar, Said("Hello, all!", ANNA, "harbour", message_id="1"))
        results = await asyncio.gather(*asked)
        again = hear(familiar, Said("Hello, all!", ANNA, "harbour", message_id="1"))
        turns = familiar.history.recent("harbour", 99, viewer=OWNER)

    first, *pairs = turns
    assert (first, again.is_new) == (again.turn, False)
    assert [(question.id, reply.reply_to) for question, reply in batched(pairs)] == [
        (question.id, question.id) for question in pairs[::2]
    ]
    assert {result.reply.id for result in results} == {turn.id for turn in pairs[1::2]}


async def test_whoever_stops_waiting_for_a_channel_has_said_nothing(ada, serve) -> None:
    serve(Stall("", 5.0))
    waits = asyncio.Event()

    def told(_notice: str) -> None:
        waits.set()

    async with Familiar.load_from_disk(ada, "ada") as familiar:
        first = asyncio.create_task(take_turn(familiar, Said("First", ANNA, "harbour")))
        await asyncio.sleep(0)
        said = Said("Second", ANNA, "harbour")
        second = asyncio.create_task(take_turn(familiar, said, on_wait=told))
        await waits.wait()
        second.cancel()
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        said = [turn.content for turn in familiar.history.recent("harbour", 9, viewer=OWNER)]
        assert "Second" not in said


def batched(turns):
    return list(zip(turns[::2], turns[1::2], strict=True))


IDS = count(1)


def message(channel: str, user_id: str, name: str, text: str, *, to_me: bool = True) -> str:
    told = {"channel": channel, "user_id": user_id, "name": name, "text": text, "to_me": to_me}
    told |= {"id": str(next(IDS)), "direct": channel.startswith("dm-")}
    return json.dumps(told) + "\n"


def bot(tmp_path, *messages: str) -> subprocess.CompletedProcess[str]:
    """Run the bot of the tutorial."""
    page = (ROOT / "docs/tutorial/a-bot-in-thirty-lines.md").read_text("utf-8")
    code = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 35
    (tmp_path / "bot.py").write_text(code, "utf-8")
    return subprocess.run(
        [sys.executable, "bot.py"],
        cwd=tmp_path,
        env=environment(),
        input="".join(messages),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_bot_of_the_tutorial_replies_remembers_and_ends(ada, serve, tmp_path) -> None:
    plan = answer("Anna keeps bees.", file="people/discord-42.md", turns=(1,))
    server = serve("Hello, Anna.", "A secret.", "Hello, Bo.", plan)
    write_after(ada, turns=3)
    done = bot(
        tmp_path,
        message("general", "42", "Anna", "I keep bees."),
        message("dm-42", "42", "Anna", "Psst."),
        message("general", "7", "Bo", "I do not.", to_me=False),
        message("general", "7", "Bo", "Hello!"),
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert [tuple(json.loads(line).values()) for line in done.stdout.splitlines()] == [
        ("general", "Hello, Anna."),
        ("dm-42", "A secret."),
        ("general", "Hello, Bo."),
    ]
    shown_to_bo = json.dumps(server.requests[2].json()["messages"])
    assert ("I do not." in shown_to_bo, "Psst." in shown_to_bo) == (True, False)
    assert "Anna keeps bees." in (Path(ada) / "ada/memory/people/discord-42.md").read_text("utf-8")


def test_the_bot_of_the_tutorial_survives_a_model_that_fails(ada, serve, tmp_path) -> None:
    serve(Fail(400, "no"), "Hello again.")
    done = bot(tmp_path, *[message("general", "42", "Anna", "Hello")] * 2)

    assert done.returncode == 0
    assert done.stderr.startswith("general: ")
    assert json.loads(done.stdout) == {"channel": "general", "text": "Hello again."}
