"""What `NAME+memory` adds to a client's own prompt: facts from earlier chats, no repetition.

`python -m benchmarks.complement FILE [--questions 30] [--json]` takes a file in LoCoMo's format. Of
each conversation, all sessions but the last are imported as earlier chats. A client then sends what
SillyTavern would: the card, a lorebook of forty entries, which the familiar has as lore, too, and
the last session as the chat, with a question at its end. A scripted server receives what
`familiar serve` makes of it.

`overlap` is the share of the added characters that are part of eight words in a row of the client's
own request; `evidence` the share of a question's evidence turns that stand in the prompt, averaged
over questions about earlier sessions; `tokens` the mean size of what was added, in characters / 4.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from benchmarks.conversations import read
from benchmarks.locomo import ADVERSARIAL
from benchmarks.prompts import build, write_chat
from familiar_cli.familiar import Familiar
from familiar_cli.servers.running import ListenOptions, serve_until
from familiar_cli.store.history.recall import index_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.conversations import Conversation, Question

_ENTRIES = 40
_RUN = 8
"""Words in a row that are no coincidence."""
_WORD = re.compile(r"\w+")


class _Upstream(ThreadingHTTPServer):
    """A model's server that keeps the messages of the last request."""

    received: list[dict[str, str]]


class _Handler(BaseHTTPRequestHandler):
    server: _Upstream

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received = body["messages"]
        message = {"role": "assistant", "content": "Let me think."}
        choice = {"index": 0, "message": message, "delta": message, "finish_reason": "stop"}
        answer = json.dumps({"model": "m", "choices": [choice]})
        stream = body.get("stream")
        sent = (f"data: {answer}\n\ndata: [DONE]\n\n" if stream else answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if stream else "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        """Keep the terminal clean."""


@contextmanager
def _upstream() -> Iterator[_Upstream]:
    server = _Upstream(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def _serving(home: Path) -> Iterator[str]:
    """Run `familiar serve` in a thread; yield its address."""
    ready, found = threading.Event(), {}

    async def work() -> None:
        found["stop"], found["loop"] = asyncio.Event(), asyncio.get_running_loop()

        def tell(url: str) -> None:
            found["url"] = url
            ready.set()

        listening = ListenOptions(host="127.0.0.1", port=0, background=False)
        await serve_until(found["stop"], home, listening, on_ready=tell)

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    ready.wait(60)
    try:
        yield found["url"]
    finally:
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join(60)


def overlap(added: str, request: str) -> tuple[int, int]:
    """Count the characters of added text that repeat a request, and all of its characters."""
    words = list(_WORD.finditer(added))
    lower = [word[0].lower() for word in words]
    sent = _WORD.findall(request.lower())
    runs = {tuple(sent[n : n + _RUN]) for n in range(len(sent) - _RUN + 1)}
    repeated: set[int] = set()
    for n in range(len(lower) - _RUN + 1):
        if tuple(lower[n : n + _RUN]) in runs:
            repeated |= set(range(words[n].start(), words[n + _RUN - 1].end()))
    return len(repeated), len(added)


def _lore(made: Conversation) -> list[str]:
    """Return lore about what is talked of: each entry ends with the words of an old line."""
    lines = [turn.text for session in made.sessions[:-1] for turn in session.turns]
    step = max(1, len(lines) // _ENTRIES)
    return [
        f"The chronicle of {made.familiar}, page {n}, tells of this: {line[:40]}, and of no more."
        for n, line in enumerate(lines[::step][:_ENTRIES])
    ]


def _familiar(home: Path, made: Conversation, lore: list[str], base_url: str) -> None:
    root = home / "who"
    (root / "memory" / "lore").mkdir(parents=True)
    model = f'preset = "custom"\nbase_url = "{base_url}"\nmodel = "m"\ncontext_tokens = 16384\n'
    patience = "[context]\nprovider_deadline_s = 30.0\n"
    (root / "character.toml").write_text(
        f"name = {json.dumps(made.familiar)}\n[llm]\n{model}{patience}",
        encoding="utf-8",
    )
    for n, entry in enumerate(lore):
        path = root / "memory" / "lore" / f"page-{n}.md"
        path.write_text(f"# Page {n}\n\n{entry}\n", encoding="utf-8")
    with Familiar.load_from_disk(home, "who") as familiar:
        write_chat(root, familiar, replace(made, sessions=made.sessions[:-1]))
        build(familiar)
        index_words(familiar.history)


def _request(made: Conversation, lore: list[str]) -> list[dict[str, str]]:
    """Return the messages of the client before the question."""
    card = f"Write {made.familiar}'s next reply. {made.familiar} is kind.\n" + "\n".join(lore)
    chat = [
        {
            "role": "assistant" if turn.speaker == made.familiar else "user",
            "content": turn.text,
        }
        for turn in made.sessions[-1].turns
    ]
    return [{"role": "system", "content": card}, *chat]


def _asked(made: Conversation, count: int) -> list[Question]:
    """Return questions whose evidence lies in earlier sessions, evenly chosen."""
    now = {turn.id for turn in made.sessions[-1].turns}
    found = [
        q for q in made.questions if q.category != ADVERSARIAL and q.turns and not q.turns & now
    ]
    return found[:: max(1, len(found) // count)][:count]


def measure(made: Conversation, questions: int) -> list[tuple[float, int, int]]:
    """Ask through a client with its own prompt: evidence, repeated and added characters."""
    rows = []
    lore, said = _lore(made), {turn.id: turn.text for s in made.sessions for turn in s.turns}
    with tempfile.TemporaryDirectory() as directory, _upstream() as upstream:
        home = Path(directory)
        os.environ["FAMILIAR_HOME"] = str(home)
        _familiar(home, made, lore, f"http://127.0.0.1:{upstream.server_port}/v1")
        before = _request(made, lore)
        with _serving(home) as url, httpx.Client(timeout=120, trust_env=False) as client:
            for question in _asked(made, questions):
                asked = [*before, {"role": "user", "content": question.text}]
                body: dict[str, Any] = {"model": "who+memory", "messages": asked}
                headers = {"X-Familiar-Keep": "no"}
                reply = client.post(f"{url}/v1/chat/completions", json=body, headers=headers)
                reply.raise_for_status()
                sent = "\n".join(message["content"] for message in upstream.received)
                own = "\n".join(message["content"] for message in asked)
                added = sent
                for message in asked:
                    added = added.replace(message["content"], "", 1)
                evidence = statistics.fmean(said[turn] in sent for turn in question.turns)
                rows.append((evidence, *overlap(added, own)))
    return rows


def main(argv: list[str] | None = None) -> None:
    """Measure all conversations of a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--questions", type=int, default=30, help="of each conversation")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    rows = []
    for made in read(options.file):
        rows += measure(made, options.questions)
        print(f"{made.name}: {len(rows)} questions so far", file=sys.stderr)
    figures = {
        "questions": len(rows),
        "overlap": round(sum(row[1] for row in rows) / max(1, sum(row[2] for row in rows)), 4),
        "evidence": round(statistics.fmean(row[0] for row in rows), 4),
        "tokens": round(statistics.fmean(row[2] for row in rows) / 4),
    }
    print(
        json.dumps(figures) if options.json else "  ".join(f"{k} {v}" for k, v in figures.items())
    )


if __name__ == "__main__":
    main()
