"""Where the program can be installed, and what it does where some libraries cannot."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from familiar_cli.base.config.environment import install_command
from familiar_cli.llm import tokens
from tests.support.cases import IS_NIGHT
from tests.support.world import run

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NOT_EVERYWHERE = ("onnxruntime", "tokenizers", "fastembed", "tiktoken")
EVERYTHING = ["pyproject.toml", "--extra", "local", "--extra", "mcp"]
UV = shutil.which("uv")
SLIM = """
import json, sys
sys.modules.update(dict.fromkeys(("onnxruntime", "tokenizers", "tiktoken", "xllamacpp")))
from tests.support.world import run
ended = [run(*argv) for argv in json.loads(sys.argv[1])]
print(json.dumps([(one.exit_code, one.stdout, one.stderr) for one in ended]))
"""


def name_of(requirement: str) -> str:
    return re.match(r"[\w-]+", requirement)[0]


def test_the_slim_requirements_are_the_others_without_what_has_no_wheels() -> None:
    lines = (ROOT / "requirements-slim.txt").read_text(encoding="utf-8").splitlines()
    slim = [line for line in lines if not line.startswith("#")]
    assert slim == [r for r in PROJECT["dependencies"] if name_of(r) not in NOT_EVERYWHERE]


@pytest.mark.skipif(not UV, reason="uv is not installed")
@pytest.mark.skipif(os.environ.get("FAMILIAR_TEST_OFFLINE") == "1", reason="no package index")
def test_a_wheel_is_built_with_what_the_build_asks_for_alone(tmp_path) -> None:
    argv = [UV, "build", "-q", "--wheel", "--out-dir", str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert len([*tmp_path.glob("familiar_memory-*.whl")]) == 1


@pytest.mark.skipif(not UV, reason="uv is not installed")
@pytest.mark.skipif(os.environ.get("FAMILIAR_TEST_OFFLINE") == "1", reason="no package index")
@pytest.mark.parametrize(
    ("platform", "python", "what"),
    [
        ("x86_64-apple-darwin", "3.11", EVERYTHING),
        ("x86_64-apple-darwin", "3.14", EVERYTHING),
        ("aarch64-pc-windows-msvc", "3.12", EVERYTHING),
        ("x86_64-unknown-linux-gnu", "3.14", EVERYTHING),
        ("x86_64-unknown-linux-musl", "3.12", ["requirements-slim.txt"]),
    ][:: 1 if IS_NIGHT else 4],
)
def test_the_pinned_versions_can_be_installed_there(platform, python, what, tmp_path) -> None:
    file, *options = what
    machine = ["--python-platform", platform, "--python-version", python]
    wheels = ["--only-binary", ":all:"]
    argv = [UV, "pip", "compile", "-q", *machine, *wheels, "-c", "constraints.txt", file, *options]
    done = subprocess.run(
        [*argv, "-o", str(tmp_path / "pins.txt")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if re.search(r"[Ff]ailed to fetch|error sending request|network|connect", done.stderr):
        pytest.skip("no package index")
    assert done.returncode == 0, done.stderr
    assert "rich==" in (tmp_path / "pins.txt").read_text(encoding="utf-8")


def test_without_them_all_else_works_and_names_what_is_missing(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_CACHE", str(tmp_path / "cache"))
    commands = (
        ("init", "ada", "--template", "companion"),
        ("memory", "write", "notes.md", "Bob plays ska."),
        ("search", "ska"),
        ("ask", "Do you know Bob?", "--dry-run"),
        ("index", "build"),
        ("ask", "Do you know Bob?"),
    )
    argv = [sys.executable, "-c", SLIM, json.dumps(commands)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    codes, printed, told = zip(*json.loads(done.stdout), strict=True)
    assert codes == (0, 0, 0, 0, 0, 6)
    assert "notes.md" in printed[2]
    assert "onnxruntime and tokenizers are not installed" in told[2]
    assert install_command(packages=["onnxruntime", "tokenizers"]) in told[2]
    assert "Bob plays ska." in printed[3]
    assert "error: " in told[5]
    assert "Traceback" not in "".join(told)


def test_without_tiktoken_tokens_are_estimated_and_doctor_says_so(tmp_path, monkeypatch) -> None:
    ranks = tmp_path / "cl100k_base.tiktoken"
    ranks.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.setattr("familiar_cli.llm.models.store.encoding_path", lambda _: ranks)
    assert tokens.load(ranks).name == "estimate"
    assert "tiktoken is not installed" in run("doctor").stdout


EACH_COMMAND = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[2:]))
from tests.golden.record import play
from tests.support.world import run
ended = [done for script in sys.argv[1].split() for done in play(script)]
run("init", "ada", "--template", "companion")
for line in ("help", "chat", "mcp", "daemon --once", "model pull x", "scratch edit"):
    ended.append(run(*line.split(), stdin=""))
wrong = ("Unexpected error", "Traceback")
print([done for done in ended if any(word in done.output for word in wrong)])
"""


@pytest.mark.posix
def test_no_command_ends_in_a_traceback_where_a_native_library_is_missing(monkeypatch) -> None:
    ended = {}
    monkeypatch.setenv("EDITOR", "true")
    others = (*NOT_EVERYWHERE, "xllamacpp")
    each_alone = [[library] for library in (*others, "numpy")]
    scripts = "small synced" if IS_NIGHT else "small"
    for missing in each_alone if IS_NIGHT else ([*others, "numpy"],):
        argv = [sys.executable, "-c", EACH_COMMAND, scripts, *missing]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
        if (done.returncode, done.stdout) != (0, "[]\n"):
            ended[*missing] = (done.stdout, done.stderr[-2000:])
    assert ended == {}


def test_a_check_that_needs_a_missing_library_is_named(monkeypatch) -> None:
    run("init", "ada", "--template", "companion")
    monkeypatch.setitem(sys.modules, "numpy", None)
    result = run("housekeep")
    assert "the check needs numpy" in result.output
