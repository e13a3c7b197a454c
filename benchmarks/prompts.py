"""Share of the evidence that reaches the model, on LoCoMo's questions.

`python -m benchmarks.prompts FILE [--chat] [--window 8192] [--tokens 800 1200 3000]
[--model lexical|minilm|bge-small] [--json]` takes any file in LoCoMo's format. Each conversation
becomes a familiar of its own: its sessions are memory files, as the program writes them, or with
`--chat` they are imported as chats and memory is empty. Each question of categories 1 to 4 is then
asked with a dry run in a new channel, and its evidence turns are looked for, word for word, in the
messages that would be sent. No model is called.

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
from typing import TYPE_CHECKING, Any

from benchmarks.locomo import MODELS, Conversation, conversation, turn_id, when
from familiar_cli.actions.talk import assemble
from familiar_cli.bootstrap.chats.bringing import ChatImportOptions
from familiar_cli.bootstrap.import_chat import import_chats
from familiar_cli.config.home import cache_dir
from familiar_cli.context.types import Layer, Said
from familiar_cli.familiar import Familiar
from familiar_cli.identity import Author
from familiar_cli.index.embedder import open_embedder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from familiar_cli.context.trace import Trace

ASKER = Author("cli", "asker", display_name="Asker")


@dataclass(frozen=True)
class Asked:
    """A question and the words of its evidence turns."""

    text: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """The result of one question."""

    found: float
    tokens: int
    ms: float


def questions(sample: dict[str, Any]) -> list[Asked]:
    """Return the questions of categories 1 to 4 whose evidence names turns."""
    said = {turn_id(turn["dia_id"]): words(turn) for turn in turns(sample)}
    found = []
    for asked in sample["qa"]:
        named = [turn_id(one) for entry in asked.get("evidence") or [] for one in ids(str(entry))]
        evidence = tuple(dict.fromkeys(said[one] for one in named if one in said))
        if int(asked["category"]) <= 4 and evidence:
            found.append(Asked(str(asked["question"]), evidence))
    return found


def ids(text: str) -> list[str]:
    """Return the turn ids in a field such as `D8:6; D9:17`."""
    return [part for part in text.replace(";", " ").replace(",", " ").split() if ":" in part]


def turns(sample: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the turns of a conversation, oldest first, each with its session's time as `at`."""
    said = sample["conversation"]
    for number in range(1, 1 + len(said)):
        if said.get(f"session_{number}"):
            at = when(said[f"session_{number}_date_time"])
            for turn in said[f"session_{number}"]:
                yield {**turn, "at": at}


def words(turn: dict[str, Any]) -> str:
    """Return the text of a turn, as the program stores it."""
    said = " ".join(str(turn.get("text", "")).split())
    return said + (f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else "")


def write_files(root: Path, made: Conversation) -> None:
    """Write the sessions as memory files."""
    for rel_path, text in made.files.items():
        path = root / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def write_chat(root: Path, familiar: Familiar, sample: dict[str, Any]) -> None:
    """Import the sessions as one chat; the second speaker is the familiar."""
    own = sample["conversation"].get("speaker_b")
    lines = [
        {
            "role": "assistant" if turn["speaker"] == own else "user",
            "content": words(turn),
            "at": turn["at"].isoformat(),
            **({} if turn["speaker"] == own else {"name": turn["speaker"]}),
        }
        for turn in turns(sample)
    ]
    source = root / "chat.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    import_chats(familiar.history, source, ChatImportOptions(familiar.chat_reading(), "past"))


def measure(sample: dict[str, Any], options: argparse.Namespace, tokens: int) -> list[Row]:
    """Make a familiar of one conversation and ask it all questions."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory, "who")
        (root / "memory").mkdir(parents=True)
        (root / "character.toml").write_text(settings(sample, options, tokens), encoding="utf-8")
        with Familiar.load_from_disk(Path(directory), "who") as familiar:
            if options.chat:
                write_chat(root, familiar, sample)
            else:
                write_files(root / "memory", conversation(sample, 0))
            build(familiar)
            return [ask(Path(directory), question) for question in questions(sample)]


def settings(sample: dict[str, Any], options: argparse.Namespace, tokens: int) -> str:
    """Return the familiar's `character.toml`."""
    content = f"content = {tokens}\n" if tokens else ""
    return (
        f"name = {json.dumps(sample['conversation'].get('speaker_b') or 'Familiar')}\n"
        f'[llm]\npreset = "custom"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "none"\n'
        f"context_tokens = {options.window}\nmax_tokens = {options.window // 8}\n"
        f"[budget]\n{content}"
        f'[embedding]\nmodel = "{MODELS[options.model]}"\n'
        "[context]\nprovider_deadline_s = 30.0\n"
    )


def build(familiar: Familiar) -> None:
    """Index everything, as `familiar index build` does."""
    familiar.index.build_if_stale(familiar.embedder.embedder)
    familiar.embed_turns()


def ask(home: Path, question: Asked) -> Row:
    """Assemble the prompt for a question, and look for its evidence."""
    with Familiar.load_from_disk(home, "who") as familiar:
        start = time.perf_counter()
        trace = _assembled(familiar, Said(question.text, ASKER, channel_id="new"))
        elapsed_ms = (time.perf_counter() - start) * 1000
    said = "\n".join(message.content for message in trace.messages)
    found = sum(evidence in said for evidence in question.evidence) / len(question.evidence)
    tokens = sum(p.tokens for p in trace.contributions if p.kept and p.layer == Layer.content)
    return Row(found, tokens, elapsed_ms)


def _assembled(familiar: Familiar, said: Said) -> Trace:
    made = assemble(familiar, said)
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
    parser.add_argument("--window", type=int, default=8192, help="tokens the model can read")
    parser.add_argument("--tokens", type=int, nargs="*", default=[], help="sizes of budget.content")
    parser.add_argument("--model", choices=MODELS, default="lexical")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    opened = open_embedder(MODELS[options.model], cache_dir())
    if options.model != "lexical" and opened.embedder is None:
        sys.exit(f"{opened.reason}: run `{opened.hint}`.")
    samples = json.loads(options.file.read_text(encoding="utf-8"))
    found = {}
    for tokens in options.tokens or [0]:
        rows = [row for sample in samples for row in measure(sample, options, tokens)]
        found[tokens] = summary(rows)
    if options.json:
        rest = {"budgets": {str(n): made for n, made in found.items()}} if options.tokens else {}
        print(json.dumps({**next(iter(found.values())), **rest}))
        return
    for tokens, made in found.items():
        print(f"{tokens or 'default'}: " + "  ".join(f"{k} {v}" for k, v in made.items()))


if __name__ == "__main__":
    main()
