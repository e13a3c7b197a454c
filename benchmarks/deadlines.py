"""Delay of a prompt beyond its providers' deadline when some of them misbehave.

There are five providers: one hangs, one raises, one sleeps without awaiting, one computes without
awaiting, and one answers at once. The prompt is complete when all verdicts are in and the messages
are made. `python -m benchmarks.deadlines [--runs 40] [--deadline-s 0.2] [--json]`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time

from familiar_cli.base.times.clock import now
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.context.pipeline import ContextPipeline
from familiar_cli.context.request import ContextRequest
from familiar_cli.context.types import Contribution, Layer, Modality, PromptSpan
from familiar_cli.llm import tokens

LIMIT_MS = 50
WANTED = {
    "hangs": "late",
    "raises": "failed",
    "sleeps": "late",
    "computes": "late",
    "answers": "answered",
}


class Provider:
    """A provider that does what its name says."""

    def __init__(self, name: str, deadline_s: float) -> None:
        self.name = name
        self.deadline_s = deadline_s

    async def contribute(self, _: ContextRequest) -> list[Contribution]:
        """Misbehave, or offer a piece."""
        match self.name:
            case "hangs":
                await asyncio.sleep(60)
            case "raises":
                raise OSError("the disk is gone")
            case "sleeps":
                time.sleep(3 * self.deadline_s)  # noqa: ASYNC251  # that is what it is for
            case "computes":
                end = time.perf_counter() + 3 * self.deadline_s
                while time.perf_counter() < end:
                    sum(range(1000))
        return [Contribution(Layer.core, 50, "Here I am.", self.name, PromptSpan.main)]


def request() -> ContextRequest:
    return ContextRequest(
        "ada", "cli", None, "Hello", Modality.text, now(), budget_tokens=1000, viewer=OWNER
    )


def overrun_ms(deadline_s: float) -> float:
    """Return how much later than the deadline one prompt is complete."""
    pipeline = ContextPipeline([Provider(n, deadline_s) for n in WANTED], tokens.heuristic())
    assembled = asyncio.run(_timed(pipeline))
    found = {report.name: report.verdict for report in assembled[0].providers}
    assert found == WANTED, found
    assert "Here I am." in assembled[0].messages[0]["content"]
    time.sleep(3 * deadline_s)  # until those who did not listen have ended
    return (assembled[1] - deadline_s) * 1000


async def _timed(pipeline: ContextPipeline):  # noqa: ANN202
    start = time.perf_counter()
    assembled = await pipeline.assemble(request())
    return assembled, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--deadline-s", type=float, default=0.2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    overruns = sorted(overrun_ms(given.deadline_s) for _ in range(given.runs))
    found = {
        "deadline_ms": given.deadline_s * 1000,
        "p50_ms": statistics.median(overruns),
        "p95_ms": statistics.quantiles(overruns, n=20)[-1],
        "max_ms": overruns[-1],
        "within": sum(overrun <= LIMIT_MS for overrun in overruns),
        "runs": given.runs,
    }
    if given.json:
        print(json.dumps(found))
        return
    print(
        f"complete {found['p50_ms']:.1f} ms after the deadline of {found['deadline_ms']:.0f} ms "
        f"(p95 {found['p95_ms']:.1f}, max {found['max_ms']:.1f}; at most {LIMIT_MS}); "
        f"{found['within']} of {given.runs} within"
    )


if __name__ == "__main__":
    main()
