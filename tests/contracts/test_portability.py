"""The project can be checked out, tested and read on every system."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
ONLY_POSIX = re.compile(
    r"os\.(fork|mkfifo|symlink|getuid|geteuid|seteuid|openpty|waitpid|kill)\(|symlink_to\("
    r"|import (fcntl|pty|termios|resource)|/dev/full|send_signal\(|SIGKILL|SIGHUP"
)
MARKED = re.compile(r"posix|skip|linux|terminal|root", re.IGNORECASE)


def unmarked(source: str) -> list[str]:
    """Return the tests that use what only POSIX has, and are not marked so."""
    if not ONLY_POSIX.search(source):
        return []
    if re.search(r"^pytestmark = .*skipif", source, re.MULTILINE):
        return []
    tree = ast.parse(source)
    return [
        *_in(tree.body),
        *(name for c in tree.body if _is_plain_class(c) for name in _in(c.body)),
    ]


def _is_plain_class(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and not _is_marked(node)


def _is_marked(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return bool(MARKED.search(" ".join(map(ast.unparse, node.decorator_list))))


def _in(body: list[ast.stmt]) -> list[str]:
    return [
        node.name
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not _is_marked(node)
        and ONLY_POSIX.search(text := ast.unparse(node))
        and not re.search(r"pytest\.skip|os\.name|sys\.platform", text)
    ]


def test_tests_that_need_posix_are_marked() -> None:
    files = set(TESTS.rglob("test_*.py")) - {Path(__file__)}
    found = {
        path.relative_to(TESTS).as_posix(): names
        for path in sorted(files)
        if (names := unmarked(path.read_text(encoding="utf-8")))
    }
    assert len(files) > 300
    assert found == {}


def test_one_that_is_not_marked_is_found() -> None:
    source = "def test_a():\n    os.fork()\n@pytest.mark.posix\ndef test_b():\n    os.fork()\n"
    assert unmarked(source) == ["test_a"]


CHECKOUT = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")


@CHECKOUT
def test_text_is_checked_out_with_the_line_ends_that_tests_expect() -> None:
    attributes = (ROOT / ".gitattributes").read_text(encoding="utf-8").splitlines()
    assert attributes[0] == "* text=auto eol=lf"
    listed = subprocess.run(
        ["git", "ls-files", "--eol"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    mixed = [line for line in listed if line.startswith(("i/crlf", "i/mixed"))]
    assert [line for line in mixed if "attr/-text" not in line] == []


@CHECKOUT
def test_the_workflow_covers_each_system_with_what_the_project_installs() -> None:
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    assert [name.partition("-")[0] for name in matrix["os"]] == ["ubuntu", "windows", "macos"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    installs = {row["os"] for row in jobs["install"]["strategy"]["matrix"]["include"]}
    assert installs == {"macos-15-intel", "windows-11-arm"}
    assert "alpine" in jobs["alpine"]["container"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    used = {step["uses"].partition("@")[0] for step in steps if "uses" in step}
    assert used == {"actions/checkout", "actions/setup-python"}
    runs = {step["run"] for step in steps if "run" in step}
    installing = {run for run in runs if " install " in run}
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    assert installing - {"pip install uv"} <= set(page.splitlines())
    assert {run.split()[0] for run in runs} == {"bash", "familiar", "pip", "uv"}
