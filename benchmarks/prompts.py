"""Share of the evidence that reaches the model, on LoCoMo's questions.

`python -m benchmarks.prompts FILE [--chat] [--summaries] [--window 8192] [--tokens 800 1200 3000]
[--heard N] [--model lexical|minilm|bge-small] [--json]` takes any file in LoCoMo's format. Each
conversation becomes a familiar of its own: its sessions are memory files, as the program writes
them, or with `--chat` they are imported as chats and memory is empty. With `--summaries` memory
holds what a writer leaves of the sessions, each line with the turns it rests on. Each question of
categories 1 to 4 is then asked with a dry run in a new channel, and its evidence turns are looked
for, word for word, in the messages that would be sent. No model is called. With `--heard N`, N
messages of other people were heard in that channel just before, and nobody answered them; they are
the same for every question.

`evidence_in_prompt` is the share of a question's evidence turns that are found, averaged over
questions; `whole` and `none` are the shares of questions with all and with none of them.
`memory_tokens` is the cost of memory and past turns in a prompt, and `prompt_ms_p50` the median
time to assemble one. With `--tokens`, `budget.content` is set to each number in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.conversations import pages, read
from benchmarks.locomo import ADVERSARIAL, MODELS, write
from familiar_cli.actions.talk import channels, talk
from familiar_cli.actions.talk.client_chat import chat_reading
from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.context.types import Layer, Said
from familiar_cli.familiar import Familiar
from familiar_cli.imports.import_chat import ChatImportOptions, import_chats
from familiar_cli.store.search.embedder import open_embedder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.conversations import Conversation
    from familiar_cli.context.trace import Trace

ASKER = Author("cli", "asker", display_name="Asker")
CHATTERS = tuple(Author("cli", name.lower(), display_name=name) for name in ("Imre", "Sunniva"))
CHATTER = (
    "has anybody tried the bakery at the corner since it opened again?",
    "my train stood in the middle of nowhere for an hour this morning",
    "lol same, and nobody told us why",
    "I am painting the hallway next week, it will be green I think",
    "we could play something on Friday, I have a new board game about lighthouses",
    "only if my sister can come, she is visiting until Sunday",
    "the cat brought in a frog again and let it go under the sofa",
    "that concert was much louder than I thought, my ears still ring",
    "does somebody know a good dentist? I keep putting it off",
    "I finished the book you lent me, the ending made me angry",
    "they moved my exam to Thursday, so I have two days more for it",
    "who wants the last piece of that lemon cake before I eat it",
)
"""What people say in a busy room; it goes round when more is wanted."""


@dataclass(frozen=True)
class Row:
    """The result of one question."""

    found: float
    tokens: int
    ms: float


def write_chat(root: Path, familiar: Familiar, made: Conversation) -> None:
    """Import the sessions as one chat; the second speaker is the familiar."""
    lines = [
        {
            "role": "assistant" if turn.speaker == made.familiar else "user",
            "content": turn.text,
            "at": session.at.isoformat(),
            **({} if turn.speaker == made.familiar else {"name": turn.speaker}),
        }
        for session in made.sessions
        for turn in session.turns
    ]
    source = root / "chat.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    reading = chat_reading(familiar, mine=tuple({line["name"] for line in lines if "name" in line}))
    import_chats(familiar.history, source, ChatImportOptions(reading, "past"))


def measure(made: Conversation, options: argparse.Namespace, tokens: int) -> list[Row]:
    """Make a familiar of one conversation and ask it all questions."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, "who")
        (root / "memory").mkdir(parents=True)
        (root / "character.toml").write_text(settings(made, options, tokens), encoding="utf-8")
        with Familiar.load_from_disk(Path(directory), "who") as familiar:
            asker = ASKER
            if options.chat:
                write_chat(root, familiar, made)
                asker = familiar.history.speakers(OWNER)[0].author  # others are not told it
            if options.summaries or not options.chat:
                write(root / "memory", pages(made, summaries=options.summaries))
            build(familiar)
            for number in range(options.heard):
                text = CHATTER[number % len(CHATTER)]
                channels.hear(familiar, Said(text, CHATTERS[number % 2], channel_id="new"))
            said = {turn.id: turn.text for session in made.sessions for turn in session.turns}
            asked = [question for question in made.questions if question.category != ADVERSARIAL]
            return [
                ask(Path(directory), question.text, {said[turn] for turn in question.turns}, asker)
                for question in asked
            ]


def settings(made: Conversation, options: argparse.Namespace, tokens: int) -> str:
    """Return the familiar's `character.toml`."""
    content = f"content = {tokens}\n" if tokens else ""
    return (
        f"name = {json.dumps(made.familiar)}\n"
        f'[llm]\npreset = "custom"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "none"\n'
        f"context_tokens = {options.window}\nmax_tokens = {options.window // 8}\n"
        f"[budget]\n{content}"
        f'[embedding]\nmodel = "{MODELS[options.model]}"\n'
        "[context]\nprovider_deadline_s = 30.0\n"
    )


def build(familiar: Familiar) -> None:
    """Index everything, as `familiar index build` does."""
    familiar.index.build_if_stale(familiar.finder.embedder.embedder)
    familiar.finder.embed_turns()


def ask(home: Path, question: str, evidence: set[str], asker: Author = ASKER) -> Row:
    """Assemble the prompt for a question, and look for its evidence."""
    with Familiar.load_from_disk(home, "who") as familiar:
        start = time.perf_counter()
        trace = _assembled(familiar, Said(question, asker, channel_id="new"))
        elapsed_ms = (time.perf_counter() - start) * 1000
    said = "\n".join(message.content for message in trace.messages)
    found = sum(turn in said for turn in evidence) / len(evidence)
    tokens = sum(p.tokens for p in trace.contributions if p.kept and p.layer == Layer.content)
    return Row(found, tokens, elapsed_ms)


def _assembled(familiar: Familiar, said: Said) -> Trace:
    made = talk.assemble(familiar, said)
    return asyncio.run(made) if asyncio.iscoroutine(made) else made


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Return the numbers, as `--json` prints them."""
    return {
        "evidence_in_prompt": round(statistics.fmean(row.found for row in rows), 4),
        "whole": round(statistics.fmean(row.found == 1 for row in rows), 4),
        "none": round(statistics.fmean(row.found == 0 for row in rows), 4),
        "memory_tokens": round(statistics.fmean(row.tokens for row in rows), 1),
        "prompt_ms_p50": round(statistics.median(row.ms for row in rows), 2),
        "n": len(rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("file", type=Path, help="LoCoMo data, a JSON list of conversations")
    parser.add_argument("--chat", action="store_true", help="import the sessions as chats")
    parser.add_argument("--summaries", action="store_true", help="write files as a writer does")
    parser.add_argument("--window", type=int, default=8192, help="tokens the model can read")
    parser.add_argument("--tokens", type=int, nargs="*", default=[], help="sizes of budget.content")
    parser.add_argument("--heard", type=int, default=0, help="messages of others heard before")
    parser.add_argument("--model", choices=MODELS, default="lexical")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    opened = open_embedder(MODELS[options.model], cache_dir())
    if options.model != "lexical" and opened.embedder is None:
        sys.exit(f"{opened.reason}: run `{opened.hint}`.")
    conversations = read(options.file)
    found = {}
    for tokens in options.tokens or [0]:
        rows = [row for made in conversations for row in measure(made, options, tokens)]
        found[tokens] = summary(rows)
    if options.json:
        rest = {"budgets": {str(n): made for n, made in found.items()}} if options.tokens else {}
        print(json.dumps({**next(iter(found.values())), **rest}))
        return
    for tokens, made in found.items():
        print(f"{tokens or 'default'}: " + "  ".join(f"{k} {v}" for k, v in made.items()))


if __name__ == "__main__":
    main()
