"""Time of a whole `familiar` process, as a ratio to importing its libraries alone.

Commands that read are compared with `python -c "import typer"`, a search by meaning with
`python -c "import onnxruntime, tokenizers"`, and `familiar mcp` until it answers its first request
with `python -c "import mcp"`, where that is installed. Two processes alternate, A B A B, so that a
drift in machine speed affects both alike; the ratio is the median over the pairs. All have their
bytecode, which the first process, not counted, writes where it is missing. The search by
meaning needs a model (`familiar model pull minilm-l6-v2`); otherwise it is left out.
`python -m benchmarks.startup [--runs 20] [--json]`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from familiar_cli.actions.talk.talk import assemble
from familiar_cli.base.who.identity import Author
from familiar_cli.context.trace import write_trace
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar

if TYPE_CHECKING:
    from collections.abc import Callable

COMMANDS = {
    "--help": (["--help"], 2.5),
    "memory cat": (["memory", "cat", "notes.md"], 1.5),
    "memory ls": (["memory", "ls"], 1.6),
    "context --last": (["context", "--last"], 1.7),
    "search by words": (["search", "--method", "lexical", "a warm drink"], 2.0),
    "hear": (["hear", "Good morning."], 1.8),
}
BY_MEANING, BY_MEANING_LIMIT = ["search", "--method", "hybrid", "a warm drink"], 2.2
MCP_LIMIT = 1.6
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "startup", "version": "1"},
    },
}


def seconds(argv: list[str], env: dict[str, str]) -> float:
    """Return the wall time of one process, in seconds."""
    start = time.perf_counter()
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def seconds_until_ready(argv: list[str], env: dict[str, str]) -> float:
    """Return the time until an MCP server over standard input answers its first request."""
    pipe = subprocess.PIPE
    start = time.perf_counter()
    with subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write(json.dumps(HELLO) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        elapsed_s = time.perf_counter() - start
        server.stdin.close()
    if "result" not in json.loads(answer):
        raise SystemExit(f"The MCP server answered {answer!r}.")
    return elapsed_s


def measure(
    argv: list[str],
    runs: int,
    env: dict[str, str],
    modules: str = "typer",
    timed: Callable[[list[str], dict[str, str]], float] = seconds,
) -> dict[str, float]:
    """Return the medians of a command and of an import, in ms, and of the paired ratios."""
    baseline = [sys.executable, "-c", f"import {modules}"]
    timed(argv, env), seconds(baseline, env)  # warm the file cache
    pairs = [(timed(argv, env), seconds(baseline, env)) for _ in range(runs)]
    return {
        "ms": statistics.median(a for a, _ in pairs) * 1000,
        f"import_{modules.replace(', ', '_')}_ms": statistics.median(b for _, b in pairs) * 1000,
        "ratio": statistics.median(a / b for a, b in pairs),
    }


def build(home: str) -> bool:
    """Index the memory and keep the trace of a turn; tell whether there is a model of meaning."""
    with Familiar.load_from_disk(home, "ada") as familiar:
        embedder = familiar.finder.embedder.embedder
        familiar.index.build_if_stale(embedder)
        trace = asyncio.run(assemble(familiar, Said("Is there any tea?", Author("cli", "1"))))
        write_trace(familiar.paths.traces, replace(trace, turn=1))
        return embedder is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        memory = Path(home, "ada", "memory")
        memory.mkdir(parents=True)
        (memory / "notes.md").write_text("# Notes\n\nAda drinks green tea.\n", encoding="utf-8")
        env = {**os.environ, "FAMILIAR_HOME": home}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # the libraries have theirs from installing
        familiar, found = [sys.executable, "-m", "familiar_cli"], {}
        has_model = build(home)
        for name, (argv, limit) in COMMANDS.items():
            found[name] = {**measure([*familiar, *argv], given.runs, env), "at_most": limit}
        if has_model:
            row = measure([*familiar, *BY_MEANING], given.runs, env, "onnxruntime, tokenizers")
            found["search"] = {**row, "at_most": BY_MEANING_LIMIT}
        if find_spec("mcp"):
            row = measure([*familiar, "mcp"], given.runs, env, "mcp", seconds_until_ready)
            found["mcp, ready"] = {**row, "at_most": MCP_LIMIT}
    if given.json:
        print(json.dumps(found))
        return
    for name, row in found.items():
        ms, alone, ratio, limit = row.values()
        print(
            f"familiar {name:<16} {ms:7.1f} ms   imports {alone:7.1f} ms"
            f"   ratio {ratio:.2f} (at most {limit})"
        )


if __name__ == "__main__":
    main()
