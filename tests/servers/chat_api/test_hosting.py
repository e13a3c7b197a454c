"""What the page for hosts shows is taken by those who are to read it."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from familiar_cli.servers.guard import OPEN_PATHS
from tests.support.world import run

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/how-to/host-many.md").read_text("utf-8")
INSTRUCTIONS = {
    *("FROM", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"),
    *("ENTRYPOINT", "CMD", "WORKDIR", "ARG", "LABEL", "ADD"),
}


def block(kind: str, start: str) -> str:
    found = re.search(rf"```{kind}\n({re.escape(start)}.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


def check_environment(text: str) -> dict[str, str]:
    """Return the variables of lines, each of which the program reads."""
    read = run("serve", "--help").stdout + (ROOT / "docs/reference/settings.md").read_text("utf-8")
    found = dict(word.split("=", 1) for word in shlex.split(text))
    assert found
    assert [name for name in found if name not in read] == []
    return found


def test_the_unit_is_one_that_ends_after_the_replies() -> None:
    class Repeated(dict):
        def __setitem__(self, key, value) -> None:
            known = self.get(key) if isinstance(value, list) else None
            super().__setitem__(key, [*known, *value] if known else value)

    unit = configparser.ConfigParser(strict=False, interpolation=None, dict_type=Repeated)
    unit.optionxform = str
    unit.read_string(block("ini", "[Unit]"))
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    found = check_environment(service["Environment"].replace("\n", " "))
    assert len(found) == 6
    assert int(service["TimeoutStopSec"]) > int(found["FAMILIAR_SERVE_DRAIN"])
    _, *argv = shlex.split(service["ExecStart"])
    assert run(*argv, "--help").exit_code == 0


def test_the_container_runs_what_there_is() -> None:
    lines = [line.split(maxsplit=1) for line in block("dockerfile", "FROM").splitlines()]
    assert [name for name, _ in lines if name not in INSTRUCTIONS] == []
    assert lines[0][0] == "FROM"
    given = dict(lines)
    found = check_environment(" ".join(value for name, value in lines if name == "ENV"))
    assert given["VOLUME"] == found["FAMILIAR_HOME"]
    entry, command = json.loads(given["ENTRYPOINT"]), json.loads(given["CMD"])
    assert entry == ["familiar"]
    assert run(*command, "--help").exit_code == 0
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert "familiar" in project["scripts"]
    extras = re.search(r"/src\[(.*?)\]", given["RUN"])[1].split(",")
    assert set(extras) <= project["optional-dependencies"].keys()
    assert (ROOT / "constraints.txt").is_file()
    python, option, code = json.loads(given["HEALTHCHECK"].removeprefix("CMD "))
    assert (python, option) == ("python", "-c")
    compile(code, "HEALTHCHECK", "exec")
    port, path = re.search(r"127\.0\.0\.1:(\d+)(/\w+)", code).groups()
    assert port == given["EXPOSE"] == "8765"
    assert path in OPEN_PATHS


@pytest.mark.skipif(not shutil.which("caddy"), reason="Caddy reads its own configuration")
def test_caddy_takes_its_file(tmp_path) -> None:
    path = tmp_path / "Caddyfile"
    path.write_text(block("text", "chat.example"), "utf-8")
    argv = ["caddy", "adapt", "--config", str(path), "--adapter", "caddyfile"]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count('"handler":"reverse_proxy"') == 2
