"""Make small faults in a copy of the package, one after another, and see whether a test notices.

Run `python -m tools.mutants` in the repository, after tests were shortened. It exits with 1 when a
fault stays unnoticed or cannot be made any more; then its line below has to follow the code.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
COPIED = ("familiar_cli", "tests", "examples", "integrations", "docs", "benchmarks", "tools")
TIMEOUT_S = 600


class Mutant(NamedTuple):
    """One fault.

    Args:
        title: What the program does wrong with it.
        right: Text that stands once in the package.
        wrong: What it becomes.
        tests: The files or directories below `tests` that should notice.
    """

    title: str
    right: str
    wrong: str
    tests: str


MUTANTS = (
    Mutant(
        "another person's private turn is shown",
        "scope = self.rules.scope_of_turn(turn)\n        return scope == PUBLIC or",
        "scope = self.rules.scope_of_turn(turn)\n        return True or",
        "base/who/test_visibility.py contracts/test_visibility.py",
    ),
    Mutant(
        "one visible scope of several is enough to show a line",
        "return all(any(map(self._is_in, scope.split(_OR)))",
        "return any(any(map(self._is_in, scope.split(_OR)))",
        "base/who/test_visibility.py contracts/test_visibility.py",
    ),
    Mutant(
        "what the owner said in private is told to everybody",
        "return PUBLIC if self.owner_shares else OWNERS",
        "return PUBLIC",
        "base/who/test_visibility.py cli/test_owner_privacy.py",
    ),
    Mutant(
        "a line is shown although it cites a private turn",
        "page if line.level else page | scopes",
        "page",
        "cli/test_owner_privacy.py",
    ),
    Mutant(
        "a path may climb out of the memory",
        'if name == "..":\n        return "leads outside',
        'if name == "...":\n        return "leads outside',
        "store/memory/store",
    ),
    Mutant(
        "a path may be absolute",
        'if rel_path.startswith("/") or re.match("[A-Za-z]:", rel_path):',
        'if re.match("[A-Za-z]:", rel_path):',
        "store/memory/store",
    ),
    Mutant(
        "a required piece that does not fit is left out silently",
        "if offered.fit is Fit.required:\n            raise _too_long",
        "if offered.fit is Fit.required and not cost:\n            raise _too_long",
        "context",
    ),
    Mutant(
        "a piece of exactly the free size is not taken",
        "if cost <= free:",
        "if cost < free:",
        "context",
    ),
    Mutant(
        "less important text is taken after more important text did not fit",
        "if offered.priority < self.closed_below.get(scope, -math.inf):\n                return 0",
        "if offered.priority < self.closed_below.get(scope, -math.inf):\n                break",
        "context",
    ),
    Mutant(
        "both versions of a front matter key differ and nobody is told",
        'findings.clashes[f"key {key!r}"] = None\n',
        "",
        "store/memory/merge",
    ),
    Mutant(
        "an item that one side took out of a list comes back",
        "gone = {one for one in base if one not in ours or one not in theirs}",
        "gone = {one for one in base if one not in ours and one not in theirs}",
        "store/memory/merge",
    ),
    Mutant(
        "a change of the same place overwrites the other one",
        "return None if merged.clashes or merged.kept else merged.content",
        "return merged.content",
        "store/memory writing/writer cli",
    ),
    Mutant(
        "an unsigned bundle is accepted",
        'return "" if self._trust.unsigned else "not signed"',
        'return ""',
        "sync",
    ),
    Mutant(
        "a bundle signed with a foreign key is accepted",
        'if signer == self.read():\n            return ""',
        'if signer:\n            return ""',
        "sync",
    ),
    Mutant(
        "a line that names no turn is written",
        'if not known:\n        why = "none of',
        'if known is None:\n        why = "none of',
        "writing/writer",
    ),
    Mutant(
        "what was said in private is written into a topic",
        'if grounds.batch.private is not None:\n            raise _RefusedError("private", "what',
        'if grounds.batch.private == "":\n            raise _RefusedError("private", "what',
        "writing/writer",
    ),
    Mutant(
        "a rewrite of a file that was shown in part is accepted",
        "if operation.op in REWRITES and shown is not None and not shown.holds(section):",
        "if operation.op in REWRITES and shown is None:",
        "writing/writer",
    ),
    Mutant(
        "a withdrawn channel stays",
        'if value:\n            connection.execute("INSERT INTO channels_set_aside',
        'if not value:\n            connection.execute("INSERT INTO channels_set_aside',
        "store/history",
    ),
    Mutant(
        "summaries that rest on a changed turn are kept",
        "DELETE FROM summaries WHERE last_turn_id >= ? AND",
        "DELETE FROM summaries WHERE last_turn_id > ? AND",
        "store/history context",
    ),
    Mutant(
        "objects that were being moved when a sync ended are dropped",
        "incoming.take_over()\n            incoming.close()",
        "incoming.close()",
        "sync/test_what_goes_wrong.py",
    ),
    Mutant(
        "a line typed into a half-applied file is overwritten",
        "edited[rel_path] = now\n        self.is_edited",
        "self.changes.append(files.StoredChange(rel_path, now, after))\n        self.is_edited",
        "sync/test_what_goes_wrong.py sync/test_kills.py",
    ),
    Mutant(
        "a change that was decided and not applied is forgotten",
        "if head not in {mark.base, mark.commit}:",
        "if head != mark.commit:",
        "store/journal/test_crashes.py",
    ),
)


def find_file(package: Path, text: str) -> Path | None:
    """Return the only file below `package` that holds `text`, which stands in it once."""
    holding = [path for path in package.rglob("*.py") if text in path.read_text(encoding="utf-8")]
    if len(holding) != 1 or holding[0].read_text(encoding="utf-8").count(text) != 1:
        return None
    return holding[0]


def is_noticed(copy: Path, tests: str) -> bool:
    """Run tests in a copy of the repository; tell whether one of them fails."""
    paths = [f"tests/{name}" for name in tests.split()]
    options = ["-q", "-x", "-n", "2", "--reruns=0", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *paths]
    try:
        done = subprocess.run(
            command, cwd=copy, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    if done.returncode and b" failed" not in done.stdout:
        raise SystemExit(done.stdout.decode() + done.stderr.decode())
    return done.returncode != 0


def main() -> None:
    """Try every mutant, or those whose title holds a word."""
    parser = argparse.ArgumentParser(description="See whether tests notice small faults.")
    parser.add_argument("word", nargs="?", default="", help="only faults whose title holds it")
    word = parser.parse_args().word
    problems = 0
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        for name in COPIED:
            shutil.copytree(ROOT / name, copy / name)
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
            shutil.copy(ROOT / name, copy / name)
        for mutant in MUTANTS:
            if word not in mutant.title:
                continue
            path = find_file(copy / "familiar_cli", mutant.right)
            if path is None:
                verdict = "CANNOT BE MADE"
            else:
                right = path.read_text(encoding="utf-8")
                path.write_text(right.replace(mutant.right, mutant.wrong), encoding="utf-8")
                verdict = "noticed" if is_noticed(copy, mutant.tests) else "NOT NOTICED"
                path.write_text(right, encoding="utf-8")
            problems += verdict != "noticed"
            print(f"{verdict:14}  {mutant.title}", flush=True)
    sys.exit(problems > 0)


if __name__ == "__main__":
    main()
