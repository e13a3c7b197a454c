"""Index and check large received packs with an installed git, in a quarantine directory.

It needs a fraction of the time and memory. Git reads no settings of the user or of a repository,
runs no hook, and may use limited memory and time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import IO, Final

from familiar_cli.base.errors import RefLimitError
from familiar_cli.base.text import one_line
from familiar_cli.store.journal import packs

WORTH_GIT_BYTES: Final = 1024 * 1024
"""Packs from this size on are indexed by git, if it is installed."""

_MOST_BLOB_BYTES: Final = 512 * 1024 * 1024  # git streams them; none that large is written to disk
_MOST_MEMORY_BYTES: Final = 2 * 1024**3
_MOST_CPU_S: Final = 900
_MESSAGE_CHARS: Final = 200
_SETTINGS: Final = (
    "core.deltaBaseCacheLimit=32m",
    "pack.threads=1",
    "pack.writeReverseIndex=false",
    "core.packedGitLimit=128m",
    "core.packedGitWindowSize=32m",
    f"core.hooksPath={os.devnull}",
)


class GitProgram:
    """Git, working on objects that are in quarantine.

    Args:
        program: Its path.
        quarantine: Directory of the received objects.
        beside: Object directory of the journal.

    Attributes:
        largest_bytes: The size of the largest object in the packs that it indexed.
    """

    def __init__(self, program: str, quarantine: str, beside: str) -> None:
        self.largest_bytes = 0
        self._program = program
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "GIT_DIR": quarantine,
            "GIT_OBJECT_DIRECTORY": quarantine,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _listed(beside),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "LC_ALL": "C",
        }
        os.makedirs(os.path.join(quarantine, "refs"), exist_ok=True)
        with open(os.path.join(quarantine, "HEAD"), "w", encoding="ascii") as file:
            file.write("ref: refs/heads/main\n")

    def index_pack(self, pack: IO[bytes]) -> set[bytes]:
        """Store and index a pack, whose deltas may refer to objects in the journal.

        Returns:
            The ids of all objects in quarantine.

        Raises:
            ValueError: It is damaged.
            RefLimitError: An object in it is too large.
        """
        for _ in self._lines(("index-pack", "--stdin", "--fix-thin"), pack):
            pass
        total, ids = 0, set[bytes]()
        names = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
        words = ("cat-file", names, "--batch-all-objects", "--unordered")
        for line in self._lines(words, is_apart=True):
            id_, kind, size = line.split()
            ids.add(bytes.fromhex(id_.decode()))
            total += int(size)
            self.largest_bytes = max(self.largest_bytes, int(size))
            if kind == b"tree" and int(size) > packs.MOST_TREE_BYTES:
                raise packs.too_wide()
            if int(size) > _MOST_BLOB_BYTES:
                raise packs.too_large(int(size))
            if total > packs.MOST_PACK_BYTES:
                raise RefLimitError(
                    f"it expands to more than {packs.MOST_PACK_BYTES // 1024**3} GB"
                )
        return ids

    def check_connected(self, wants: Collection[str], known: Collection[str]) -> None:
        """Check that everything reachable from commits is there.

        Args:
            wants: The commits.
            known: Commits that are complete.

        Raises:
            ValueError: An object is missing or damaged.
            RefLimitError: A directory is nested too deep.
        """
        revisions = "".join(f"{id_}\n" for id_ in (*wants, *(f"^{id_}" for id_ in known)))
        for line in self._lines(("rev-list", "--objects", "--stdin"), revisions.encode()):
            if line.count(b"/") >= packs.MOST_LEVELS:
                raise packs.too_deep()

    def _lines(
        self, words: tuple[str, ...], given: IO[bytes] | bytes = b"", *, is_apart: bool = False
    ) -> Iterator[bytes]:
        """Run git, and yield what it prints, line by line.

        Args:
            words: The command.
            given: Its input.
            is_apart: Look at the quarantine alone, without the journal.
        """
        beside = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": ""} if is_apart else {}
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        with subprocess.Popen(  # noqa: S603  # git itself
            [self._program, *settings, *words],
            stdin=subprocess.PIPE if isinstance(given, bytes) else given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**self._environment, **beside},
        ) as process:
            _limit(process.pid)
            try:
                if isinstance(given, bytes) and process.stdin and process.stdout:
                    with suppress(BrokenPipeError):
                        process.stdin.write(given)
                        process.stdin.close()
                yield from process.stdout or ()
                said = process.stderr.read() if process.stderr else b""
                process.wait()
            finally:
                if process.poll() is None:
                    process.kill()
        if process.returncode:
            problem = said.decode(errors="replace").strip().rpartition("\n")[2]
            raise ValueError(one_line(problem.removeprefix("fatal: ") or "git failed", 200))


def find_git_program() -> str:
    """Return the path of an installed git; empty if there is none."""
    return shutil.which("git") or ""


def _listed(path: str) -> str:
    """Return a path as one item of a list; unquoted, git would split it at colons."""
    if os.pathsep not in path and not path.startswith('"'):
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _limit(pid: int) -> None:
    """Limit a process's memory and time, where the system can."""
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        resource.prlimit(pid, resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
        resource.prlimit(pid, resource.RLIMIT_CPU, (_MOST_CPU_S, _MOST_CPU_S))
