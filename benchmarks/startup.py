"""How long a whole `familiar` process takes, as a ratio to `python -c "import typer"`.

The two run in turn, A B A B, so that a machine whose speed drifts disturbs both alike; the ratio is
the median over the pairs. `python -m benchmarks.startup [--runs 20] [--json]`.
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

LIMITS = {"--help": 2.5, "memory cat": 3.0}


def seconds(argv: list[str], env: dict[str, str]) -> float:
    """Return the wall time of one process, in seconds."""
    start = time.perf_counter()
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def measure(argv: list[str], runs: int, env: dict[str, str]) -> dict[str, float]:
    """Return the medians of both commands, in ms, and the median of the paired ratios."""
    baseline = [sys.executable, "-c", "import typer"]
    seconds(argv, env), seconds(baseline, env)  # warm the file cache
    pairs = [(seconds(argv, env), seconds(baseline, env)) for _ in range(runs)]
    return {
        "ms": statistics.median(a for a, _ in pairs) * 1000,
        "import_typer_ms": statistics.median(b for _, b in pairs) * 1000,
        "ratio": statistics.median(a / b for a, b in pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        memory = Path(home, "ada", "memory")
        memory.mkdir(parents=True)
        (memory / "notes.md").write_text("# Notes\n", encoding="utf-8")
        env = {**os.environ, "FAMILIAR_HOME": home}
        familiar = [sys.executable, "-m", "familiar_cli"]
        found = {
            "--help": measure([*familiar, "--help"], given.runs, env),
            "memory cat": measure([*familiar, "memory", "cat", "notes.md"], given.runs, env),
        }
    if given.json:
        print(json.dumps(found))
        return
    for name, row in found.items():
        print(
            f"familiar {name:<11} {row['ms']:6.1f} ms"
            f"   import typer {row['import_typer_ms']:6.1f} ms"
            f"   ratio {row['ratio']:.2f} (at most {LIMITS[name]})"
        )


if __name__ == "__main__":
    main()
