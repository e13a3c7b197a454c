"""Memory's tests, again, on a disk of Linux that folds names; where none can be had, skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.folding_disk import REAL

# Each makes the directory `$1` fold names, where the machine lets anybody do so.
WAYS = {
    "ext4": 'chattr +F "$1"',
    "tmpfs": 'mount -t tmpfs -o casefold none "$1" && mkdir "$1/x" && chattr +F "$1/x"',
    "ciopfs": 'mkdir "$1.plain" && ciopfs "$1.plain" "$1"',
}
NO = 99
SCRIPT = """
{{ {prepare}; }} 2>&1 || exit {NO}
d=$1; [ ! -d "$1/x" ] || d=$1/x
touch "$d/a"; [ -e "$d/A" ] || exit {NO}
shift; exec "$@" --basetemp "$d/tests"
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="elsewhere disks fold names anyway"
)
@pytest.mark.parametrize("way", WAYS)
def test_memorys_tests_pass_on_a_disk_that_folds_names(way, tmp_path) -> None:
    alone = [] if way == "ext4" else ["unshare", "-rm"]  # mounts are seen, and end, in there only
    if alone and not shutil.which(alone[0]):
        pytest.skip("there is no unshare")
    disk = tmp_path / "disk"
    disk.mkdir()
    tests = [str(Path(__file__).with_name(name)) for name in ("store", "test_twins.py")]
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    script = SCRIPT.format(prepare=WAYS[way], NO=NO)
    done = subprocess.run(
        [*alone, "sh", "-c", script, "sh", str(disk), *pytest_],
        env={**os.environ, "FAMILIAR_TEST_FOLDED": REAL},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == NO or "unshare" in done.stderr:
        pytest.skip(f"no {way} folds names here: {(done.stdout + done.stderr).strip()[:100]}")
    assert done.returncode == 0, done.stdout[-2000:]
