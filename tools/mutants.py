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
        "of_block = page | scopes if scopes else page",
        "of_block = page",
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
        "pass\n",
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
        'return "" if self.trust.unsigned else "not signed"',
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
        "if operation.op in REWRITES and file is not None and not file.holds(section):",
        "if operation.op in REWRITES and file is None:",
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
    Mutant(
        "a reply that broke off counts as whole",
        "return (self.done or self.finish_reason is not None) and not self._has_failed",
        "return True",
        "llm",
    ),
    Mutant(
        "another choice than the first is read",
        '== "0"), {})',
        '!= "0"), {})',
        "llm",
    ),
    Mutant(
        "reasoning is part of the reply",
        "self._block += [text] if text else []\n            return ",
        "self._text.append(text)\n            return ",
        "llm",
    ),
    Mutant(
        "a page from elsewhere may use the server",
        "if not allowed and (origin.lower() != own or site not in _OWN_SITE):",
        "if not allowed and site not in _OWN_SITE:",
        "servers/chat_api/test_guard.py",
    ),
    Mutant(
        "a server answers under any host name",
        "if len(hosts) != 1 or hosts[0]",
        "if not hosts or hosts[0] and not hosts[0]",
        "servers/chat_api/test_guard.py",
    ),
    Mutant(
        "a token for some people opens the pages of all",
        'is_for_all = scope["path"].startswith(OPEN_TO_PROGRAMS) and "*" not in grant.users',
        "is_for_all = False",
        "servers/chat_api/test_tenants.py servers/chat_api/test_guard.py",
    ),
    Mutant(
        "a temporary chat is kept",
        'return "a temporary chat of Open WebUI"',
        'return ""',
        "servers/chat_api/test_unkept.py servers/chat_api/test_clients.py",
    ),
    Mutant(
        "messages with different ids are the same",
        "return one == name if name else None",
        "return one == name or None",
        "store/history/test_same_message.py",
    ),
    Mutant(
        "a chat that is imported twice stands there twice",
        "LineMatch.of_known(earlier, turn) if earlier else",
        "LineMatch.of_known(earlier, turn) if earlier is turn else",
        "imports/chats",
    ),
    Mutant(
        "a history that was replaced uses its numbers again",
        "is_behind = newest < cursor",
        "is_behind = False",
        "cli/test_sync_copies.py sync/test_copy_laws.py",
    ),
    Mutant(
        "a line of memory goes on citing a number that another machine uses",
        "text = rename_turns(found.text, former, instance.id, own)",
        "text = found.text",
        "cli/test_sync_copies.py sync/test_copy_laws.py",
    ),
    Mutant(
        "a machine that is not trusted replaces the words of another",
        "is_refused = not scope.is_trusted and self._replaces(name, line)",
        "is_refused = False",
        "cli/test_sync_trust.py",
    ),
    Mutant(
        "the owner can be forgotten",
        "owner = next(filter(None, map(me.owner, accounts)), None)",
        "owner = None",
        "cli/test_forget.py cli/test_forget_links.py",
    ),
    Mutant(
        "a name that others have, too, is forgotten with a person",
        "others = {tuple(words_of(name)) for name in taken}",
        "others = set[tuple[str, ...]]()",
        "store/history/test_likeness.py",
    ),
    Mutant(
        "a program makes a private part of a file public",
        "if Counter(_PUBLISHED.findall(new)) - Counter(_PUBLISHED.findall(seen)):",
        "if not text:",
        "store/memory/pages servers/mcp/test_editing.py cli/test_owner_privacy.py",
    ),
    Mutant(
        "a private part of a page counts in the searches of others",
        "[one for one in audiences if not viewer.sees(json.loads(one))]",
        "[one for one in audiences if not (json.loads(one) or viewer.sees(json.loads(one)))]",
        "store/search contracts/test_visibility.py",
    ),
    Mutant(
        "an archive may write outside its directory",
        'if path.is_absolute() or ".." in path.parts or drive',
        "if path.is_absolute() or drive",
        "imports",
    ),
    Mutant(
        "a damaged file of a backup is restored",
        "if len(content) != file.size or sha256(content).hexdigest() != file.sha256:",
        "if len(content) != file.size:",
        "actions/share",
    ),
    Mutant(
        "a private line ends a public one",
        "if scopes == lines[newest[1]][1] and line.is_item",
        "if line.is_item",
        "writing/housekeeping",
    ),
    Mutant(
        "a lorebook's entry is shown although a word that forbids it was said",
        'return f"{held[0]!r} was said (NOT ANY)" if held else ""',
        'return f"{held[0]!r} was said (NOT ANY)" if len(held) > 1 else ""',
        "cli/test_lore_gates.py",
    ),
    Mutant(
        "a file that somebody changed meanwhile is overwritten",
        "elif sha256_of(content) != step.expect.lower():",
        "elif not content:",
        "store/memory/store",
    ),
    Mutant(
        "a day is summarised before it is over",
        'if state in {"due", "stale"} and not self.today.is_over(day):',
        'if state == "due" and self.today.is_over(day):',
        "writing/consolidation",
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
    options = ["-q", "-x", "-n", "2", "--reruns=0"]
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
    parser.add_argument("--list", action="store_true", help="print the titles, and make no fault")
    args = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if args.word in mutant.title]
    if args.list:
        print("\n".join(mutant.title for mutant in chosen))
        return
    problems = 0
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch)
        for name in COPIED:
            shutil.copytree(ROOT / name, copy / name)
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
            shutil.copy(ROOT / name, copy / name)
        models = Path(".pytest_cache", "d", "familiar")
        if (ROOT / models).exists():  # each copy would download them
            (copy / models).parent.mkdir(parents=True)
            (copy / models).symlink_to(ROOT / models)
        for mutant in chosen:
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
