"""Give the program model servers that mean harm: what `python -m tests.hostile.run --server` does.

Each mode meets a command in a process of its own, which may have 1 GB of memory and 60 s. Modes
that play for time meet a familiar with short limits; that the limits one has without asking are
finite is told beside the table.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from familiar_cli.base.config.environment import BASE_URL
from familiar_cli.base.config.schema import LLMSettings
from tests.hostile.servers import MODES, HostileServer, Mode

LIMIT_MB = 1024
LIMIT_S = 60.0
SHORT = {"llm.timeout_s": "2", "llm.deadline_s": "5"}
_PARTIAL, _MODEL_FAILED = 7, 6
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Outcome:
    """What became of one mode."""

    mode: str
    seconds: float
    peak_mb: float
    told: str
    wrong: str = ""

    def __str__(self) -> str:
        end = f"WRONG: {self.wrong}; {self.told}" if self.wrong else self.told
        return f"{self.mode:36} {self.seconds:6.1f} {self.peak_mb:6.0f}  {end[:120]}"


def run(names: list[str], env: Mapping[str, str]) -> Iterator[Outcome]:
    """Let the modes `names` meet the familiars of `env`, two at a time."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield from pool.map(lambda name: _meet(name, MODES[name], env), names)


def _meet(name: str, mode: Mode, env: Mapping[str, str]) -> Outcome:
    with HostileServer(mode) as server:
        who = "quick" if mode.pause_s else "plain"
        return _outcome(name, mode, {**env, "FAMILIAR_ID": who, BASE_URL: server.base_url})


def _outcome(name: str, mode: Mode, env: Mapping[str, str]) -> Outcome:
    argv = ["doctor"] if mode.asks == "doctor" else ["ask", "Hello."]
    limited = ["sh", "-c", f'ulimit -v {LIMIT_MB * 1024}; exec "$@"', "-"]
    command = [*limited, sys.executable, "-m", "familiar_cli", *argv, "--json"]
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, cwd=_ROOT, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        code, peak_mb = _end_of(process, begun + LIMIT_S)
        out.seek(0)
        err.seek(0)
        stdout, stderr = out.read(), err.read().decode(errors="replace")
    seconds = time.monotonic() - begun
    told, wrong = _judge(mode, code, stdout, stderr)
    if peak_mb > LIMIT_MB:
        wrong = f"more than {LIMIT_MB} MB"
    if seconds > LIMIT_S:
        wrong = f"more than {LIMIT_S:g} s"
    return Outcome(name, seconds, peak_mb, told, wrong)


def _judge(mode: Mode, code: int, stdout: bytes, stderr: str) -> tuple[str, str]:
    """Return what the command told, and what is wrong with how it ended."""
    if "Traceback" in stderr:
        return stderr.strip().splitlines()[-1], "a traceback"
    try:
        said = json.loads(stdout)
    except ValueError:
        return stderr, f"exit code {code} and no JSON"
    if mode.asks == "doctor":
        (check,) = [check for check in said["data"]["checks"] if check["name"] == "server"]
        told = f"{check['verdict']}: {check['detail']}"
        return told, "" if code in {0, _PARTIAL} else f"exit code {code}"
    if code == 0 and mode.may_answer:
        return "a reply", ""
    told = "; ".join(error["message"] for error in said["errors"]) or "a reply"
    return told, "" if code == _MODEL_FAILED else f"exit code {code}"


def _end_of(process: subprocess.Popen[bytes], until_s: float) -> tuple[int, float]:
    """Wait for a process, but not for ever; return its code and the most memory it held, in MB."""
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, used.ru_maxrss / 1024
        if time.monotonic() > until_s:
            process.kill()
        time.sleep(0.02)


@contextmanager
def familiars() -> Iterator[dict[str, str]]:
    """Make a familiar with the limits that one has, and one with short ones; give their `env`."""
    root = Path(tempfile.mkdtemp(prefix="hostile-server-"))
    env = {key: value for key, value in os.environ.items() if not key.startswith("FAMILIAR_")}
    env |= {"FAMILIAR_HOME": str(root / "home"), "FAMILIAR_CACHE": str(root / "cache")}
    env |= {"FAMILIAR_LLM_MODEL": "m", "PYTHONPATH": str(_ROOT)}
    try:
        for name in ("plain", "quick"):
            _familiar(env, "init", name, "--template", "companion")
        for key, value in SHORT.items():
            _familiar({**env, "FAMILIAR_ID": "quick"}, "config", "set", key, value)
        yield env
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _familiar(env: Mapping[str, str], *argv: str) -> None:
    command = [sys.executable, "-m", "familiar_cli", *argv]
    subprocess.run(command, cwd=_ROOT, env=dict(env), check=True, capture_output=True)


def main(only: str | None = None) -> int:
    """Run the modes and print a table; return the exit code."""
    names = [name for name in MODES if not only or name in only.split(",")]
    usual = LLMSettings()
    finite = all(map(isfinite, (usual.timeout_s, usual.deadline_s)))
    print(f"{'mode':36} {'s':>6} {'MB':>6}  how it ended")
    wrong = 0
    with familiars() as env:
        for outcome in run(names, env):
            print(outcome, flush=True)
            wrong += bool(outcome.wrong)
    print(
        f"{len(names)} modes, {wrong} wrong; limits without asking: {usual.timeout_s:g} s of "
        f"silence, {usual.deadline_s:g} s in all"
    )
    return 1 if wrong or not finite else 0
