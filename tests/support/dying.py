"""Let a transaction die at every step it takes on disk, and look what is left each time.

Run as a script: `dying.py DIR STRIDE "HOW KIND"...`. A child process makes the transaction on a
disk that ends the child (or fails) at step 1; then again at step 2 (or, with a longer stride, at a
later one), and so on until it gets through all of them. After each death the memory is opened anew,
half of the times for reading first. Prints one JSON line, for each HOW and KIND: the number of
steps, how often the child ended how, and what was wrong.

HOW is `before` (a step ends the process), `torn` (it also leaves half a file), `once` (a step
fails), `full` (from that step on nothing new can be written) or `gone` (nothing works any more).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import Disk
from familiar_cli.store.journal.git import GitJournal
from familiar_cli.store.journal.history import History
from familiar_cli.store.memory.store.store import MemoryStore

DIED, DONE, REFUSED = 9, 0, 3
STEPS = {"once": 120}  # some steps may fail without harm, so the first success is not the last step
FIRST = {"a.md": "a 1\n", "gone.md": "gone\n", "from/m.md": "m\n", "kept.md": "kept\n"}
BY_HAND = {"a.md": "a 1\nby hand\n", "kept.md": "kept by hand\n"}
AFTER = {
    "a.md": "a 1\nby hand\na 2\n",
    "kept.md": "kept by hand\n",
    "to/deep/m.md": "m\n",
    "new/x.md": "x" * 5000,
    ".gitignore": ".index/\n",
}
BEFORE = {**FIRST, **BY_HAND, ".gitignore": ".index/\n"}


class Dying(Disk):
    """A disk whose n-th step does not happen: the process ends, or the system refuses."""

    def __init__(self, last: int, how: str) -> None:
        self.left, self.how = last, how

    def _step(self, *, needs_room: bool = True) -> None:
        self.left -= 1
        if self.left == 0 and self.how in {"before", "torn"}:
            os._exit(DIED)
        fails = {
            "once": self.left == 0,
            "full": self.left <= 0 and needs_room,
            "gone": self.left <= 0,
        }
        if fails.get(self.how):
            raise OSError(28, "No space left on device")

    def create(self, path: str, content: bytes, **more) -> None:
        if self.left == 1 and self.how == "torn":
            Path(path).write_bytes(content[: len(content) // 2])
        self._step()
        super().create(path, content, **more)

    def replace(self, old: str, new: str) -> None:
        self._step(needs_room=False)
        super().replace(old, new)

    def unlink(self, path: str) -> None:
        self._step(needs_room=False)
        super().unlink(path)

    def link(self, path: str, second: str) -> None:
        self._step()
        super().link(path, second)

    def mkdir(self, path: str) -> None:
        self._step()
        super().mkdir(path)

    def sync_dir(self, path: str) -> None:
        if self.how in {"before", "torn"}:  # a refusal is never told
            self._step()
        super().sync_dir(path)


def store_at(root: Path, disk: Disk | None = None) -> MemoryStore:
    journal = GitJournal(root / "journal.git", root / "memory", disk=disk)
    return MemoryStore(root / "memory", lock_path=root / "lock", journal=journal, disk=disk)


def prepare(root: Path, kind: str) -> None:
    """Make a memory: with a journal, or (`found`) one that no journal knows yet."""
    if kind == "known":
        with store_at(root).transaction("test", "first") as tx:
            for path, text in FIRST.items():
                tx.write(path, text)
    else:
        for path, text in {**FIRST, ".gitignore": ".index/\n"}.items():
            (root / "memory" / path).parent.mkdir(parents=True, exist_ok=True)
            (root / "memory" / path).write_text(text, encoding="utf-8")
    for path, text in BY_HAND.items():
        (root / "memory" / path).write_text(text, encoding="utf-8")


def change(store: MemoryStore) -> None:
    with store.transaction("memory_writer", "the change") as tx:
        tx.append("a.md", "a 2\n")
        tx.write("new/x.md", "x" * 5000)
        tx.delete("gone.md")
        tx.move("from/m.md", "to/deep/m.md")


def attempt(root: Path, last: int, how: str) -> int:
    """Make the change in a child process, and return how it ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            change(store_at(root, Dying(last, how)))
            code = DONE
        except FamiliarError:
            code = REFUSED
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def contents(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in root.rglob("*")
        if path.is_file()
    }


def wrong(root: Path, code: int, *, read_first: bool) -> str:
    """Open the memory again and return what is wrong with it; empty when nothing is."""
    store = store_at(root)
    if code == REFUSED and contents(root / "memory") != BEFORE and not store._journal.pending():
        return "refused, but files differ"
    if read_first:
        seen = {e.rel_path: store.read_file(e.rel_path) for e in store.walk(hidden=True).files}
        if seen not in (BEFORE, AFTER):
            return f"a reader saw half: {seen}"
    store.append_file("later.md", "later\n")
    now = contents(root / "memory")
    now.pop("later.md", None)
    if now not in (BEFORE, AFTER):
        return f"half, or leftovers: {now}"
    if code == DONE and now != AFTER:
        return "acknowledged and lost"
    return _wrong_journal(root, now)


def _wrong_journal(root: Path, now: dict[str, str]) -> str:
    store = store_at(root)
    store.catch_up()
    repository = store._journal.repository
    log = [(c.commit.source, c.commit.message) for c in History(repository).log()]
    if (("memory_writer", "the change") in log) != (now == AFTER):
        return f"the journal tells something else: {log}"
    tree = History(repository).find("HEAD")
    if {p: repository.file_at(tree.id, p) for p in now} != {p: t.encode() for p, t in now.items()}:
        return "the journal holds something else"
    if not all(repository.file_at(tree.id, p) for p in BY_HAND):
        return "what was written by hand is gone"
    if store._journal.pending():
        return "still pending"
    repository.close()
    return ""


def _fsck(root: Path) -> str:
    if not shutil.which("git"):
        return ""
    argv = ["git", "--git-dir", str(root / "journal.git"), "fsck", "--strict", "--no-dangling"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def break_off(where: str, how: str, kind: str, stride: int) -> dict[str, object]:
    found: list[str] = []
    codes: dict[int, int] = {}
    last = 1 - stride
    while True:
        last += stride
        root = Path(where, str(last))
        prepare(root, kind)
        code = attempt(root, last, how)
        codes[code] = codes.get(code, 0) + 1
        problem = wrong(root, code, read_first=bool(last % 2)) or (
            _fsck(root) if last % 5 == 0 else ""
        )
        if problem:
            found.append(f"step {last}, ended with {code}: {problem}")
        shutil.rmtree(root)
        if last > STEPS.get(how, 0) and code == DONE:
            break
    return {"steps": last, "codes": codes, "wrong": found}


def main(where: str, stride: str, *deaths: str) -> None:
    told = {death: break_off(where, *death.split(), int(stride)) for death in deaths}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
