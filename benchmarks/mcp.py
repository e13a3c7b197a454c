"""What `familiar mcp` costs: its start, and what a call takes beside its work.

Starting, saying hello and ending is compared with `python -c "import mcp.server"`, in turns, so
that a drift in machine speed affects both alike; the ratio is the median over the pairs. Then one
client calls tools over standard input and output; the same work is done in this process, and the
difference of the medians is what the call adds. Search is by words, as it is without a model.
`python -m benchmarks.mcp [--runs 10] [--calls 100] [--json]`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.familiar import Familiar
from familiar_cli.servers.mcp.catalogue import TOOLS
from familiar_cli.servers.mcp.tool import Caller

if TYPE_CHECKING:
    from collections.abc import Callable

START_LIMIT = 1.5
CALL_LIMIT_MS = 10.0
_FILES = 200
_CALLS = {
    "memory_search": {"query": "a warm drink"},
    "memory_read": {"path": "notes/7.md"},
    "memory_list": {"limit": 20},
    "recent": {},
}


def _message(method: str, number: int | None = None, **params: object) -> bytes:
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(body if number is None else {**body, "id": number}).encode() + b"\n"


def _begin() -> bytes:
    client = {"name": "benchmark", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    return _message("initialize", 0, **hello) + _message("notifications/initialized")


def _seconds(argv: list[str], env: dict[str, str], said: bytes = b"") -> float:
    begin = time.perf_counter()
    subprocess.run(argv, env=env, input=said, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def measure_start(env: dict[str, str], runs: int) -> dict[str, float]:
    """Return the medians of a whole server and of an import, in ms, and of the paired ratios."""
    server = [sys.executable, "-m", "familiar_cli", "mcp"]
    baseline = [sys.executable, "-c", "import mcp.server"]
    _seconds(server, env, _begin()), _seconds(baseline, env)  # warm the file cache
    pairs = [(_seconds(server, env, _begin()), _seconds(baseline, env)) for _ in range(runs)]
    return {
        "ms": statistics.median(a for a, _ in pairs) * 1000,
        "import_ms": statistics.median(b for _, b in pairs) * 1000,
        "ratio": statistics.median(a / b for a, b in pairs),
    }


def measure_calls(home: str, env: dict[str, str], calls: int) -> dict[str, dict[str, float]]:
    """Return for each tool how long its work and a call of it take, in ms."""
    tools = {tool.name: tool for tool in TOOLS}
    found = {}
    argv = [sys.executable, "-m", "familiar_cli", "mcp"]
    pipe = subprocess.PIPE
    with (
        Familiar.load_from_disk(home, "ada") as familiar,
        subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe) as server,
    ):
        assert server.stdin
        assert server.stdout
        _said(server, _begin())
        caller = Caller(familiar)
        for name, arguments in _CALLS.items():
            call = _message("tools/call", 1, name=name, arguments=arguments)
            work, called = [], []
            for _ in range(calls):
                work.append(_ms(lambda: tools[name].run(caller, dict(arguments))))  # noqa: B023
                called.append(_ms(lambda: _said(server, call)))  # noqa: B023
            ms = {"work_ms": statistics.median(work), "call_ms": statistics.median(called)}
            found[name] = {**ms, "added_ms": ms["call_ms"] - ms["work_ms"]}
        server.stdin.close()
    return found


def _said(server: subprocess.Popen[bytes], words: bytes) -> bytes:
    """Send words to which there is one answer, and return it."""
    assert server.stdin
    assert server.stdout
    server.stdin.write(words)
    server.stdin.flush()
    return server.stdout.readline()


def _ms(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1000


def main() -> None:
    """Measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        notes = Path(home, "ada", "memory", "notes")
        notes.mkdir(parents=True)
        for number in range(_FILES):
            text = f"# Note {number}\n\n- Ada drinks green tea on day {number}.\n"
            (notes / f"{number}.md").write_text(text, encoding="utf-8")
        settings = Path(home, "ada", "character.toml")
        settings.write_text('[embedding]\nmodel = "none"\n', encoding="utf-8")
        env = {**os.environ, "FAMILIAR_HOME": home}
        found = {
            "start": measure_start(env, given.runs),
            "calls": measure_calls(home, env, given.calls),
        }
    if given.json:
        print(json.dumps(found))
        return
    start = found["start"]
    print(f"start {start['ms']:.0f} ms, import mcp.server {start['import_ms']:.0f} ms")
    print(f"  ratio {start['ratio']:.2f} (limit {START_LIMIT})")
    for name, ms in found["calls"].items():
        print(
            f"{name:16} work {ms['work_ms']:6.1f} ms, call {ms['call_ms']:6.1f} ms, "
            f"added {ms['added_ms']:5.1f} ms (limit {CALL_LIMIT_MS:g})"
        )


if __name__ == "__main__":
    main()
