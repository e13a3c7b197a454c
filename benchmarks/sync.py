"""Cost of sync beside git's: nothing to do, one edit, many files, and a first clone.

Both work with the same repository over HTTP, served by git's own program, in the same run. A row
holds the seconds, CPU seconds, memory, bytes on the wire and connections of whole commands, ours
and then git's; the commands are `sync` against `git fetch` and `git push`, and `init --from-remote`
against `git clone --mirror`, with the branches of one machine and of four. Less memory than this
program itself holds, some 40 MB, does not show. Nothing is deleted before the end, since a file
system may make files slowly where many were deleted a moment ago.

Beside that, two versions of a list of 20,000 lines are merged, in the process, against `git
merge-file`; and a new file of 6 MB is sent and received.

`python -m benchmarks.sync [--files 10000] [--commits 5000] [--changed 1000]
[--lines 20000] [--large-bytes 6000000] [--dir DIR] [--json]`
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins

from benchmarks.journal import Hasty
from familiar_cli.store.journal.git import GitJournal
from familiar_cli.store.memory.merge.content import merge_content
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.remotes import git, http_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TIMES = 5
IN_DIRECTORY = 100


def name(n: int) -> str:
    return f"topics/t{n // IN_DIRECTORY}/{n}.md"


class Cost(Struct, frozen=True):
    """The total cost of consecutive commands."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    wire_bytes: int
    connections: int


class Meter:
    """A proxy that counts bytes and connections."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.bytes = self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop accepting connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        with near, socket.create_connection(("127.0.0.1", self._port)) as far:
            back = threading.Thread(target=self._pass_on, args=(far, near), daemon=True)
            back.start()
            self._pass_on(near, far)
            back.join()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self.bytes += len(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def cost(self, *commands: list[str], **environment: str) -> Cost:
        """Run commands and return their total cost."""
        bytes_before, connections_before = self.bytes, self.connections
        begun, cpu_s, memory_kb = time.perf_counter(), 0.0, 0
        for command in commands:
            child = subprocess.Popen(
                command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL
            )
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            assert child.returncode == 0, command
            cpu_s += used.ru_utime + used.ru_stime
            memory_kb = max(memory_kb, used.ru_maxrss)
        wall_s = time.perf_counter() - begun
        wire = self.bytes - bytes_before, self.connections - connections_before
        return Cost(wall_s, cpu_s, memory_kb / 1024, *wire)


@contextmanager
def metered(root: Path) -> Iterator[Meter]:
    """Serve the repositories below a directory over HTTP, through a meter."""
    with http_server(root) as address, closing(Meter(int(address.rpartition(":")[2]))) as meter:
        yield meter


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


class Place:
    """One machine, whose familiar is called ada."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "ada"

    def run(self, *words: str) -> None:
        """Run one command."""
        environment = {**os.environ, **self.environment}
        subprocess.run(self.command(*words), env=environment, check=True, stdout=subprocess.PIPE)

    @staticmethod
    def command(*words: str) -> list[str]:
        """Return the argument vector of a command."""
        return [sys.executable, "-m", "familiar_cli", *words, "--quiet"]

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of a command."""
        bytecode = {"PYTHONDONTWRITEBYTECODE": ""}  # as where the program is installed
        return {"FAMILIAR_HOME": str(self.home), "FAMILIAR_OFFLINE": "1", **bytecode}

    def sync(self) -> float:
        """Sync, and return the seconds."""
        return seconds(lambda: self.run("sync"))

    def change(self, count: int, line: str) -> None:
        """Append a line to so many files, in one transaction."""
        store = self._store()
        with store.transaction("benchmark", f"change {count} files") as tx:
            for n in range(count):
                tx.append(name(n), line)

    def fill(self, files: int, commits: int) -> None:
        """Make a memory of so many files, with a history of so many changes."""
        for n in range(files):
            path = self.root / "memory" / name(n)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# Note {n}\n\n" + "- Something that was said.\n" * 20, "utf-8")
        store = self._store()
        for n in range(commits):
            store.append_file(name(n * 7 % files), f"- line {n}\n", source="benchmark")

    def _store(self) -> MemoryStore:
        journal = GitJournal(self.root / "journal.git", self.root / "memory", disk=Hasty())
        return MemoryStore(self.root / "memory", journal=journal, disk=Hasty())


def measured(where: Path, files: int, commits: int, changed: int) -> dict[str, dict[str, Cost]]:
    """Measure each kind of sync in a memory of that size, ours and git's."""
    laptop, hub = Place(where / "laptop"), where / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", str(hub)], check=True)
    git(hub, "config", "http.receivepack", "true")
    laptop.run("init", "ada", "--template", "companion")
    laptop.fill(files, commits)
    laptop.run("sync", "remote", "add", "path", str(hub))
    laptop.sync()
    laptop.run("sync", "remote", "remove", "path")
    with metered(where) as meter:
        url = f"{meter.url}/hub.git"
        laptop.run("sync", "remote", "add", "hub", url)
        laptop.sync()  # compiles what it imports
        found = {"clone_1": _clones(where, meter, "one")}
        work = where / "work"
        git(where, "clone", "-q", "-b", "main", url, str(work))
        git(work, "checkout", "-q", "-b", "mine")
        for key, count in (("idle", 0), ("one_edit", 1), ("many_files", changed)):
            if count:
                laptop.change(count, f"- {key}\n")
                for number in range(count):
                    path = work / name(number)
                    path.write_text(f"{path.read_text()}- {key}\n")
                git(work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", key)
            pair = ["git", "-C", str(work), "fetch", "-q"], ["git", "-C", str(work), "push", "-q"]
            pair[1].extend(["origin", "HEAD:refs/heads/other"])
            ours = meter.cost(laptop.command("sync"), **laptop.environment)
            found[key] = {"ours": ours, "git": meter.cost(*pair)}
        git(hub, "branch", "-D", "other")
        for number in range(3):
            place = Place(where / f"machine{number}")
            place.run("init", "--from-remote", url, "ada")
            place.run("memory", "append", name(number), f"- of machine {number}")
            place.sync()
        found["clone_4"] = _clones(where, meter, "four")
    return found


def _clones(where: Path, meter: Meter, to: str) -> dict[str, Cost]:
    url, desk = f"{meter.url}/hub.git", Place(where / f"{to}_ours")
    ours = meter.cost(desk.command("init", "--from-remote", url, "ada"), **desk.environment)
    theirs = meter.cost(["git", "clone", "-q", "--mirror", url, str(where / f"{to}_git")])
    return {"ours": ours, "git": theirs}


def merged_lists(where: Path, lines: int, edits: int) -> dict[str, float]:
    """Merge two versions of a long list, in which so many lines were changed on each side."""
    items = [
        f"- Fact {n}: somebody said something on a day. <!-- turns {n} -->" for n in range(lines)
    ]
    sides = {"base": items, "ours": list(items), "theirs": list(items)}
    for n in range(edits):
        sides["ours"][n * lines // edits] += " One changed this."
        sides["theirs"].insert((2 * n + 1) * lines // edits // 2, f"- The other added {n}.")
    paths = [where / f"{side}.md" for side in ("ours", "base", "theirs")]
    ours, base, theirs = (("\n".join(sides[path.stem]) + "\n").encode() for path in paths)
    for path, content in zip(paths, (ours, base, theirs), strict=True):
        path.write_bytes(content)
    command = ["git", "merge-file", "-p", *map(str, paths)]
    found = {
        "merge_list_s": _fastest(lambda: merge_content("a.md", base, ours, theirs)),
        "git_merge_file_s": _fastest(
            lambda: subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
        ),
    }
    found["merge_list_ratio"] = found["merge_list_s"] / found["git_merge_file_s"]
    return found


def sent_and_received(where: Path, size_bytes: int) -> dict[str, float]:
    """Send and receive a new file of that size."""
    laptop, desk, hub = Place(where / "laptop"), Place(where / "desk"), where / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", str(hub)], check=True)
    laptop.run("init", "ada", "--template", "companion")
    laptop.run("sync", "remote", "add", "hub", str(hub))
    laptop.sync()
    desk.run("init", "--from-remote", str(hub), "ada")
    desk.sync()
    laptop.sync()
    lines = (f"- Line {n}, {n * 7919 % 104_729}\n" for n in range(size_bytes // 20))
    (laptop.root / "memory" / "large.md").write_text("".join(lines), "utf-8")
    found = {"send_large_s": laptop.sync(), "receive_large_s": desk.sync()}
    found["receive_large_ratio"] = found["receive_large_s"] / found["send_large_s"]
    return found


def _fastest(work: Callable[[], object]) -> float:
    return min(seconds(work) for _ in range(TIMES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--commits", type=int, default=5_000)
    parser.add_argument("--changed", type=int, default=1_000)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--large-bytes", type=int, default=6_000_000)
    parser.add_argument("--dir", help="working directory; default: a temporary one")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as where:
        costs = measured(Path(where, "costs"), given.files, given.commits, given.changed)
        files = merged_lists(Path(where), given.lines, given.lines // 500)
        files |= sent_and_received(Path(where), given.large_bytes)
    if given.json:
        print(json.dumps(to_builtins({"costs": costs, "files": files})))
        return
    print(f"{'':20} {'wall s':>8} {'CPU s':>8} {'MB':>8} {'kB':>10} {'conn.':>6}")
    for key, pair in costs.items():
        for who, cost in pair.items():
            print(
                f"{key:12} {who:7} {cost.wall_s:8.2f} {cost.cpu_s:8.2f} {cost.memory_mb:8.0f}"
                f" {cost.wire_bytes / 1000:10.1f} {cost.connections:6}"
            )
    for key, value in files.items():
        print(f"{key:20} {value:9.3f}")


if __name__ == "__main__":
    main()
