"""A slice of the hostile cases, the same each time; `python -m tests.hostile.run` has the rest."""

from __future__ import annotations

import os
import sys

import pytest

from tests.hostile import run
from tests.hostile.targets import TARGETS, Target
from tests.support.cases import IS_NIGHT, each

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signals and named pipes")

SEED = int(os.environ.get("HOSTILE_SEED", "20"))
SECONDS = float(os.environ.get("HOSTILE_SECONDS", "3" if IS_NIGHT else "0.3"))


@each("target", TARGETS)
def test_hostile_input_ends_in_a_result_or_in_one_of_our_errors(target) -> None:
    tally = run.run(range(5000), SEED, [target], SECONDS)
    assert tally.cases > 0
    assert not tally.failures, "\n".join(map(str, tally.failures))


def test_a_case_is_made_of_its_seed_and_number_alone(tmp_path) -> None:
    world = run.World(tmp_path)
    for target in ("card", "lorebook", "settings", "trace", "reply"):
        first, again = (TARGETS[target].make(run.Random(f"1:{target}:3"), world) for _ in range(2))
        assert first == again


def test_the_runner_sees_what_it_looks_for(monkeypatch) -> None:
    def outside(raw, rng, world):
        (world.outside / "evil").write_bytes(b"")

    def broken(raw, rng, world):
        raise KeyError(raw)

    def endless(raw, rng, world):
        while True:
            pass

    monkeypatch.setattr(run, "LIMIT_S", 0.1)
    for use, told in ((outside, "outside the home"), (broken, "KeyError"), (endless, "TooSlow")):
        monkeypatch.setitem(TARGETS, "card", Target(_nothing, use))
        (failure,) = run.run([1], 0, ["card"]).failures
        assert told in failure.what
        assert "--only card --seed 0 --from 1 --cases 1" in str(failure)


def _nothing(rng, world) -> bytes:
    return b"x"
