"""While the server runs, it does what is due for familiars that nobody asks anything."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.servers import connection
from familiar_cli.servers.chat_api.server import JobNews, Server
from familiar_cli.servers.limits import StreamSlots
from familiar_cli.servers.running import tell_of_read_only
from tests.support.remotes import HAS_GIT, bare, git
from tests.support.serving import serving, user
from tests.support.world import home, live, run
from tests.support.writing import ANNAS, answer, point_at, talked

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(is_done: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < until
        time.sleep(0.1)


def held_by(hub) -> str:
    known = git(hub, "for-each-ref", "refs/heads/main")
    return git(hub, "ls-tree", "-r", "--name-only", "main") if known else ""


@pytest.mark.skipif(not HAS_GIT, reason="needs git")
def test_it_syncs_when_the_server_begins_and_when_it_ends(tmp_path) -> None:
    live(**{"topics/tea": "- green\n"})
    hub = bare(tmp_path / "hub.git")
    run("sync", "remote", "add", "hub", str(hub))
    with serving(background=True):
        wait_until(lambda: "topics/tea.md" in held_by(hub))
        run("sync", "--dry-run")  # waits until the first sync is over
        run("memory", "append", "topics/coffee.md", "- black")
    assert "topics/coffee.md" in held_by(hub)


def test_turns_that_waited_are_written_after_a_restart(serve, monkeypatch) -> None:
    roots = [talked(6, name=name) for name in ("ada", "bo", "cy", "di", "ed")]
    point_at(serve(*[answer("Anna keeps bees.", turns=(1,))] * 30), monkeypatch)
    with serving(background=True):
        for root in roots:
            wait_until(lambda at=root / "memory" / ANNAS: at.is_file())
        passes = [t for t in threading.enumerate() if t.name.startswith("familiar-passes")]
        assert len(passes) == 1


def next_event(lines):
    return json.loads(next(one for one in lines if one.startswith("data: ")).removeprefix("data: "))


def test_what_a_job_wrote_reaches_programs_that_poll_or_listen(serve, monkeypatch) -> None:
    monkeypatch.setattr(connection, "_LOOK_S", 0.05)
    live("ada")
    serve("Good morning!", "Good night!", "Good evening!")
    job = ("job", "add", "every day 8:00", "--channel", "dm-1", "--say")
    run("channel", "set", "dm-1", "--kind", "dm")
    run(*job, "Morning", "--id", "morning")
    with serving() as server:
        asked = {"model": "ada", "channel": "dm-1", "user": "42"}
        server.post(
            messages=[user("Hello")],
            headers={"X-Familiar-Channel": "dm-1", "X-Familiar-User": "serve:42"},
        )
        run("job", "run", "morning")
        (event,) = server.client.get("/familiar/events", params=asked).json()["events"]
        assert (event["text"], event["channel"]) == ("Good night!", "dm-1")
        later = {**asked, "user": "serve:42", "after": str(event["turn"])}
        assert server.client.get("/familiar/events", params=later).json() == {"events": []}
        stream = {"accept": "text/event-stream"}
        listen = partial(server.client.stream, "GET", "/familiar/events", headers=stream)
        with listen(params=asked) as all_of_it, listen(params=later) as what_follows:
            lines, later_lines = all_of_it.iter_lines(), what_follows.iter_lines()
            assert next_event(lines) == event
            assert next(later_lines) == "retry: 3000"
            run("job", "run", "morning")
            new = next_event(later_lines)
            assert new["text"] == "Good evening!"
            assert next_event(lines) == new
        stranger = {**asked, "user": "7"}
        assert server.client.get("/familiar/events", params=stranger).status_code == 403
        for wrong in ({"model": "ada"}, {**asked, "after": "x"}, {**asked, "channel": "a\nb"}):
            assert server.client.get("/familiar/events", params=wrong).status_code == 400
        assert server.client.get("/familiar/events", params={"model": "bo"}).status_code == 404


def test_a_disk_that_takes_no_writing_is_named_at_the_start(monkeypatch) -> None:
    live("ada")
    told: list[str] = []
    tell_of_read_only(home(), told.append)
    assert told == []
    monkeypatch.setattr("os.access", lambda *_: False)
    tell_of_read_only(home(), told.append)
    assert [line for line in told if "ada" in line and "cannot be written to" in line] == told != []


async def test_who_stops_listening_does_not_stop_another_stream_of_theirs(monkeypatch) -> None:
    server, may_read = Server(None, asyncio.Event(), None, StreamSlots()), asyncio.Event()

    async def read(*_):
        await may_read.wait()
        return [{"turn": 1}]

    monkeypatch.setattr(server, "_written_in", read)
    news = [JobNews(0, frozenset({"hall"}))]
    listen = partial(server._told_to, news, "ada", "hall", Author("discord", "7"))
    leaving, staying = asyncio.create_task(listen()), asyncio.create_task(listen())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    may_read.set()
    assert await staying == [{"turn": 1}]
