"""What `familiar serve` adds to a model's server: latency, lost turns, memory.

A scripted server sends pieces of a reply that say when they were sent. Asked directly and through
`familiar serve`, in turns, the first piece is so much older when it arrives: the difference is what
the server adds. Then many conversations go on at once, and each must hold just its own turns; then
one request follows another, and the server's memory is read from time to time (Linux only). Last,
the processor time of a turn is measured, of a familiar with 600 turns, 120 people and 120 topics
and of a small one, beside that of a client of `httpx` that asks the model itself; `ratio` is how
many such requests a turn costs. Memory is searched by meaning, too, if a model is on disk
(`familiar model pull minilm-l6-v2`), which costs more; `embedder` says which.
`python -m benchmarks.serve [--at-once 50] [--requests 500] [--hostile] [--json]`; `--hostile` sends
bodies up to the limit instead, see `serve_hostile`. `--familiars 1000 [--minutes 10]` serves so
many familiars to `--at-once` clients with `ulimit -n 1024`, each turn to the next of them.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.config.schema import EmbeddingSettings
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.search.finding import choose_embedder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from familiar_cli.store.history.rows import Role

LIMIT_MS = 20.0
_PIECES = 5
_PAUSE_S = 0.01
_PAIRS = 30
_LOOKS = 10
_NOTE = "- Anna keeps bees near the old mill."
_SIZES = {"ada": 120, "small": 4}
_WARM_UP, _TURNS, _CHANNELS = 60, 200, 20
_LISTEN_TURNS, _LISTEN_PAUSE_S = 20, 0.25
_TOPICS = ("honey", "harbour", "lantern", "orchard", "violin", "compass", "thunder", "saffron")
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


async def _reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request with pieces that say when they were sent."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    )
    await reader.readexactly(length)
    writer.write(_HEAD)
    for number in range(_PIECES):
        await asyncio.sleep(_PAUSE_S)
        delta = {"content": f"{time.monotonic_ns()} "}
        end = "stop" if number == _PIECES - 1 else None
        choice = {"index": 0, "delta": delta, "finish_reason": end}
        writer.write(f"data: {json.dumps({'model': 'm', 'choices': [choice]})}\n\n".encode())
        await writer.drain()
    writer.write(b"data: [DONE]\n\n")
    await writer.drain()
    writer.close()


async def _upstream() -> None:
    server = await asyncio.start_server(_reply, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _fill(home: Path, name: str, size: int) -> None:
    """Write a familiar with `size` people and topics, and five times as many turns."""
    memory = home / name / "memory"
    for folder in ("people", "topics", "self"):
        (memory / folder).mkdir(parents=True)
    (home / name / "character.toml").write_text('[llm]\npreset = "custom"\n', "utf-8")
    (memory / "self" / "description.md").write_text("Keeps the harbour's books.\n", "utf-8")
    for n in range(size):
        words = " and ".join(_TOPICS[(n + step) % len(_TOPICS)] for step in (0, 3, 7))
        person = f"# Nick{n} Bell\n\nLikes {words}.\n\n## Aliases\n\n- nick{n}\n"
        (memory / "people" / f"discord-{n}.md").write_text(person, "utf-8")
        (memory / "topics" / f"topic-{n}.md").write_text(f"# Topic {n}\n\n- {words}\n", "utf-8")
    with closing(HistoryStore(home / name / "history.db")) as history:
        for n in range(5 * size):
            role: Role = "assistant" if n % 2 else "user"
            text = f"About the {_TOPICS[n % 8]} and the {_TOPICS[(n + 3) % 8]}, number {n}."
            history.append(f"channel-{n // 2 % _CHANNELS}", role, text)


@contextmanager
def _running(
    home: Path, names: Sequence[str], *, files: int = 0, options: Sequence[str] = ()
) -> Iterator[tuple[str, str, int]]:
    """Run both servers; yield their addresses and the process number of ours."""
    argv = [sys.executable, "-m", "benchmarks.serve", "--upstream"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as upstream:
        assert upstream.stdout
        direct = f"http://127.0.0.1:{upstream.stdout.readline().strip()}/v1"
        env = {**os.environ, "FAMILIAR_HOME": str(home), "FAMILIAR_LLM_BASE_URL": direct}
        env["FAMILIAR_LLM_MODEL"] = "m"
        command = [sys.executable, "-m", "familiar_cli"]
        for name in names:
            _fill(home, name, _SIZES.get(name, 4))
        for name in _SIZES.keys() & set(names):
            note = [*command, "memory", "append", "topics/bees.md", _NOTE]
            for argv in (note, [*command, "index", "build"]):
                argv += ["--familiar", name]
                subprocess.run(argv, env=env, check=True, capture_output=True)
        few = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"] if files else []
        with subprocess.Popen(
            [*few, *command, "serve", "--port", "0", "--json", "--quiet", *options],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        ) as ours:
            assert ours.stdout
            url = json.loads(ours.stdout.readline())["data"]["api"]
            try:
                yield direct, url, ours.pid
            finally:
                ours.send_signal(signal.SIGTERM)
                ours.wait()
                upstream.kill()


async def _ask(
    client: httpx.AsyncClient, url: str, text: str, channel: str = "", name: str = "ada"
) -> list[float]:
    """Return how old each piece of a reply was when it arrived, in milliseconds."""
    body = {"model": name, "stream": True, "messages": [{"role": "user", "content": text}]}
    headers = {"X-Familiar-Channel": channel} if channel else {}
    ages = []
    asked = client.stream("POST", f"{url}/chat/completions", json=body, headers=headers)
    async with asked as reply:
        reply.raise_for_status()
        async for line in reply.aiter_lines():
            now = time.monotonic_ns()
            if not line.startswith("data: {"):
                continue
            choices = json.loads(line.removeprefix("data: "))["choices"]
            said = choices[0]["delta"].get("content") if choices else ""
            ages += [(now - int(word)) / 1e6 for word in (said or "").split()]
    return ages


async def _latency(direct: str, url: str) -> dict[str, float]:
    firsts: dict[str, list[float]] = {"direct": [], "served": []}
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        for number in range(_PAIRS):
            for name, where in (("direct", direct), ("served", url)):
                ages = await _ask(client, where, f"Question {number}", f"latency-{number}")
                firsts[name].append(ages[0])
    middle = {name: statistics.median(ages) for name, ages in firsts.items()}
    slow = {name: sorted(ages)[int(0.95 * len(ages))] for name, ages in firsts.items()}
    return {
        "first_piece_direct_ms": middle["direct"],
        "first_piece_served_ms": middle["served"],
        "added_p50_ms": middle["served"] - middle["direct"],
        "added_p95_ms": slow["served"] - slow["direct"],
    }


async def _at_once(url: str, home: Path, conversations: int) -> dict[str, float]:
    limits = httpx.Limits(max_connections=conversations)
    began = time.monotonic()
    async with httpx.AsyncClient(timeout=120, trust_env=False, limits=limits) as client:
        asked = [_ask(client, url, f"Hello {n}", f"many-{n}") for n in range(conversations)]
        ages = await asyncio.gather(*asked)
    elapsed_s = time.monotonic() - began
    history = HistoryStore(home / "ada" / "history.db")
    whole = 0
    for number in range(conversations):
        turns = history.recent(f"many-{number}", 10, viewer=OWNER)
        roles = [turn.role for turn in turns]
        whole += roles == ["user", "assistant"] and turns[0].content == f"Hello {number}"
    history.close()
    firsts = sorted(age[0] for age in ages)
    return {
        "conversations": conversations,
        "whole": whole,
        "elapsed_s": elapsed_s,
        "first_piece_p50_ms": statistics.median(firsts),
        "first_piece_p95_ms": firsts[int(0.95 * len(firsts))],
    }


async def _memory(url: str, pid: int, requests: int) -> dict[str, Any]:
    sizes = []
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        for number in range(requests):
            if number % max(1, requests // _LOOKS) == 0:
                sizes.append(_resident_mb(pid))
            await _ask(client, url, f"Message {number}", f"channel-{number % 20}")
    return {"requests": requests, "resident_mb": [*sizes, _resident_mb(pid)]}


async def _listen(url: str, pid: int, listeners: int) -> dict[str, Any]:
    """Time turns and `/health` without and with open streams of events."""
    root = url.removesuffix("/v1")
    limits = httpx.Limits(max_connections=listeners + 10)
    found: dict[str, Any] = {"listeners": listeners}
    async with httpx.AsyncClient(timeout=120, trust_env=False, limits=limits) as client:
        found["without"] = await _turns_and_health(client, url, pid)
        ready = asyncio.Semaphore(0)

        async def listen(number: int) -> None:
            asked = {"model": "ada", "channel": f"channel-{number % _CHANNELS}"}
            headers = {"Accept": "text/event-stream"}
            where = f"{root}/familiar/events"
            async with client.stream("GET", where, params=asked, headers=headers) as stream:
                stream.raise_for_status()
                ready.release()
                async for _ in stream.aiter_raw():
                    pass

        streams = [asyncio.create_task(listen(number)) for number in range(listeners)]
        for _ in range(listeners):
            await asyncio.wait_for(ready.acquire(), 60)
        found["with"] = await _turns_and_health(client, url, pid)
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    return found


async def _turns_and_health(client: httpx.AsyncClient, url: str, pid: int) -> dict[str, float]:
    """Take turns one after another while polling `/health`."""
    health: list[float] = []
    turns: list[float] = []
    is_over = asyncio.Event()

    async def ask_health() -> None:
        while not is_over.is_set():
            begun = time.monotonic()
            (await client.get(f"{url.removesuffix('/v1')}/health")).raise_for_status()
            health.append(1_000 * (time.monotonic() - begun))
            await asyncio.sleep(_LISTEN_PAUSE_S)

    asking, before_s = asyncio.create_task(ask_health()), _worked_s(pid)
    for number in range(_LISTEN_TURNS):
        begun = time.monotonic()
        await _ask(client, url, f"Hello {number}", f"channel-{number % _CHANNELS}")
        turns.append(1_000 * (time.monotonic() - begun))
        await asyncio.sleep(_LISTEN_PAUSE_S)
    is_over.set()
    await asking
    return {
        "turn_p50_ms": round(statistics.median(turns), 1),
        "turn_most_ms": round(max(turns), 1),
        "health_p50_ms": round(statistics.median(health), 1),
        "health_most_ms": round(max(health), 1),
        "cpu_s": round(_worked_s(pid) - before_s, 2),
    }


async def _processor(direct: str, url: str, pid: int) -> dict[str, float | str]:
    """Return the processor time of a turn, in milliseconds, and its ratio to a bare request."""
    by = choose_embedder(EmbeddingSettings(), cache_dir()).embedder
    found: dict[str, float | str] = {"embedder": by.model if by else "none"}
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        bare_ms = await _spent_ms(client, direct, "ada", time.process_time)
        for name in _SIZES:
            spent_ms = await _spent_ms(client, url, name, lambda: _worked_s(pid))
            found |= {f"{name}_cpu_ms_per_turn": spent_ms, f"{name}_ratio": spent_ms / bare_ms}
    return {**found, "bare_cpu_ms_per_request": bare_ms, **_size(pid)}


async def _spent_ms(
    client: httpx.AsyncClient, url: str, name: str, worked_s: Callable[[], float]
) -> float:
    """Return the processor time of a request, in milliseconds, once all is warm."""
    for number in range(_WARM_UP + _TURNS):
        if number == _WARM_UP:
            before_s = worked_s()
        topic, who = _TOPICS[number % len(_TOPICS)], number % _SIZES[name]
        text = f"What did nick{who} say about the {topic}?"
        await _ask(client, url, text, f"channel-{number % _CHANNELS}", name)
    return 1_000 * (worked_s() - before_s) / _TURNS


async def _many(url: str, pid: int, names: Sequence[str], clients: int, seconds: float) -> None:
    """Let clients ask one familiar after another, and print what came of it."""
    until, before_s = time.monotonic() + seconds, _worked_s(pid)
    failures: Counter[str] = Counter()
    waits: list[float] = []
    turn, most = itertools.count(), Counter[str]()

    async def talk(client: httpx.AsyncClient) -> None:
        while time.monotonic() < until:
            number, begun = next(turn), time.monotonic()
            name = names[number % len(names)]
            text = f"And the {_TOPICS[number % len(_TOPICS)]}, {number}?"
            try:
                await _ask(client, url, text, f"channel-{number % 3}", name)
            except httpx.HTTPStatusError as error:
                failures[str(error.response.status_code)] += 1
            except (httpx.HTTPError, IndexError) as error:
                failures[type(error).__name__] += 1
            waits.append(time.monotonic() - begun)
            now = _size(pid)
            most.update({key: max(0, value - most[key]) for key, value in now.items()})

    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(timeout=120, trust_env=False, limits=limits) as client:
        await asyncio.gather(*(talk(client) for _ in range(clients)))
    waits.sort()
    found = {
        "familiars": len(names),
        "turns": len(waits),
        "failures": dict(failures),
        "wait_p50_s": round(statistics.median(waits), 2),
        "wait_p95_s": round(waits[int(0.95 * len(waits))], 2),
        "cpu_ms_per_turn": round(1_000 * (_worked_s(pid) - before_s) / len(waits), 1),
        "most": {**most, "resident_mb": round(int(_status(pid, "VmHWM").split()[0]) / 1024, 1)},
    }
    print(json.dumps(found))


def _size(pid: int) -> dict[str, int]:
    """Return how many threads and open files a process has."""
    files = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return {"threads": int(_status(pid, "Threads")), "files": files}


def _worked_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))


def _resident_mb(pid: int) -> float:
    return round(int(_status(pid, "VmRSS").split()[0]) / 1024, 1)


def main() -> None:
    """Measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--hostile", action="store_true", help="bodies up to the limit instead")
    parser.add_argument("--familiars", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--files", type=int, default=1_024, help="with --familiars: ulimit -n")
    parser.add_argument("--listeners", type=int, default=0, help="open streams of events")
    parser.add_argument("--upstream", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.upstream:
        asyncio.run(_upstream())
        return
    if given.familiars > 1:
        names = [f"f{number}" for number in range(given.familiars)]
        with (
            tempfile.TemporaryDirectory() as scratch,
            _running(Path(scratch), names, files=given.files) as (_, url, pid),
        ):
            asyncio.run(_many(url, pid, names, given.at_once, 60 * given.minutes))
        return
    with (
        tempfile.TemporaryDirectory() as scratch,
        _running(Path(scratch), list(_SIZES), options=["--no-background"]) as (direct, url, pid),
    ):
        if given.hostile:
            from benchmarks import serve_hostile

            outcomes = serve_hostile.measure(url, pid)
            if given.json:
                print(json.dumps(serve_hostile.as_data(outcomes)))
            else:
                serve_hostile.show(outcomes)
            sys.exit(not all(one.is_within_limits for one in outcomes))
        if given.listeners:
            print(json.dumps(asyncio.run(_listen(url, pid, given.listeners)), indent=1))
            return
        home = Path(scratch)
        found = {
            "latency": asyncio.run(_latency(direct, url)),
            "at_once": asyncio.run(_at_once(url, home, given.at_once)),
            "memory": asyncio.run(_memory(url, pid, given.requests)),
            "processor": asyncio.run(_processor(direct, url, pid)),
        }
    if given.json:
        print(json.dumps(found))
        return
    for part, numbers in found.items():
        print(part)
        for name, value in numbers.items():
            print(f"  {name:24} {f'{value:.1f}' if isinstance(value, float) else value}")


if __name__ == "__main__":
    main()
