"""The README is a contract: its commands work in the environment that its install line makes."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.support import pages
from tests.support.cases import IS_NIGHT

README = (pages.ROOT / "README.md").read_text("utf-8")
INSTALL = re.search(r"`pip install (-c constraints\.txt .*?)`", README)


def test_the_install_line_names_the_exact_versions_and_every_part_the_readme_uses() -> None:
    assert INSTALL
    assert INSTALL[1].startswith('-c constraints.txt ".[')
    assert {"local", "mcp"} <= set(INSTALL[1].partition("[")[2].partition("]")[0].split(","))


@pytest.mark.skipif(not IS_NIGHT, reason="installs everything, for minutes")
@pytest.mark.skipif(os.environ.get("FAMILIAR_TEST_OFFLINE") == "1", reason="no package index")
@pytest.mark.posix
def test_its_commands_work_one_after_the_other_in_a_bare_environment(tmp_path, model_cache) -> None:
    def run(*argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            argv, cwd=work, env=env, input=stdin, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        assert not re.search(r"^(error|warning):", done.stderr, re.MULTILINE), done.stderr
        return done

    work, bare = tmp_path / "work", tmp_path / "bare"
    work.mkdir()
    (work / "examples").symlink_to(pages.ROOT / "examples", target_is_directory=True)
    keep = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG") if name in os.environ}
    env = keep | {"HOME": str(tmp_path), "FAMILIAR_CACHE": str(model_cache)}
    run(sys.executable, "-m", "venv", str(bare))
    env["PATH"] = f"{bare / 'bin'}:{env['PATH']}"
    what = INSTALL[1].replace("constraints.txt", str(pages.ROOT / "constraints.txt"))
    run("bash", "-c", f"pip install -q {what.replace('.[', f'{pages.ROOT}[')}")
    for step in pages.steps(README):
        run("bash", "-c", step.command)
    for more in ("status", "history show", "why", "serve --help", "web --export page.html"):
        run("familiar", *more.split())
