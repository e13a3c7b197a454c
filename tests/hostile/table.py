"""The table of what is tried: kept as counted by the runner, and shown in the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.hostile.servers import MODES
from tests.hostile.targets import TARGETS

if TYPE_CHECKING:
    from tests.hostile.run import Tally

RECORD = Path(__file__).with_name("record.json")
_CORPUS = Path(__file__).resolve().parents[1] / "corpus"
_HEAD = "| what is damaged | cases | failed |\n|---|---|---|"


def keep(tally: Tally, seed: int) -> None:
    """Write down what became of the cases of each target, in place of its last run."""
    kept = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    for name in TARGETS:
        cases = sum(n for end, n in tally.outcomes.items() if end.startswith(f"{name}: "))
        failed = sum(failure.target == name for failure in tally.failures)
        if cases:
            kept[name] = {"seed": seed, "cases": cases, "failed": failed}
    RECORD.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def table() -> str:
    """Return the last run of each target, and how many servers and files there are beside them."""
    kept = json.loads(RECORD.read_text("utf-8"))
    files = sum(
        path.is_file() and path.suffix not in {".py", ".pyc"} and path.parent != _CORPUS
        for path in _CORPUS.rglob("*")
    )
    rows = [
        f"| {target.what} | {kept[name]['cases']:,} | {kept[name]['failed']:,} |"
        for name, target in TARGETS.items()
    ]
    also = (
        f"In addition, there are {len(MODES)} malicious model servers and {files} malformed files "
        "that were found or made by hand."
    )
    return "\n".join([_HEAD, *rows, "", also])
