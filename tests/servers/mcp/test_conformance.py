"""What others' programs make of the server: the protocol's own suite, and its inspector."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import installed, is_new_enough, node
from tests.support.serving import serving
from tests.support.suite_server import SuiteServer
from tests.support.world import home, live

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(not is_new_enough(), reason="there is no Node that is new enough"),
]

EXPECTED = Path(__file__).with_name("expected_failures.yaml")
ROOT = Path(__file__).resolve().parents[3]
BO = {"people/bo": "# Bo\n\n- Bo likes green tea.\n"}


@pytest.fixture(scope="session")
def programs(request) -> Path:
    """Where the programs are; a machine fetches them once."""
    found = installed(Path(request.config.cache.mkdir("node")))
    if found is None:
        pytest.skip("the package index of Node cannot be reached")
    return found / ".bin"


def played(program: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [node(), str(program), *argv],
        capture_output=True,
        encoding="utf-8",
        timeout=180,
        cwd=home(),
        check=False,
    )


def test_the_protocol_s_own_suite_fails_where_we_expect_it_only(programs, monkeypatch):
    monkeypatch.setattr("familiar_cli.servers.mcp.transports.MemoryServer", SuiteServer)
    live(**BO)
    with serving() as server:
        options = ("--url", f"{server.url}/mcp", "--expected-failures", str(EXPECTED))
        told = played(programs / "conformance", "server", *options)
    assert told.returncode == 0, told.stdout[-4000:]
    assert "Baseline check passed" in told.stdout


def inspected(programs: Path, method: str, *argv: str) -> Any:
    env = {"FAMILIAR_HOME": str(home()), "PYTHONPATH": str(ROOT)}
    given = [part for name, value in env.items() for part in ("-e", f"{name}={value}")]
    start = [sys.executable, "-m", "familiar_cli", "mcp"]
    told = played(programs / "mcp-inspector", "--cli", *given, *start, "--method", method, *argv)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def test_the_inspector_calls_over_stdio(programs):
    live(**BO)
    call = ("--tool-name", "memory_search", "--tool-arg", "query=green tea")
    found = inspected(programs, "tools/call", *call)
    assert found["structuredContent"]["results"][0]["path"] == "people/bo.md"


def test_the_inspector_finds_no_fault_with_the_tools(programs):
    live(**BO)
    tools = inspected(programs, "tools/list", "--strict")["tools"]
    assert {"memory_search", "memory_read"} <= {tool["name"] for tool in tools}


def test_the_inspector_reads_a_file_as_a_resource(programs):
    live(**BO)
    uri = "familiar://ada/memory/people/bo.md"
    found = inspected(programs, "resources/read", "--uri", uri)
    assert "green tea" in found["contents"][0]["text"]
