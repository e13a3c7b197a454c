"""Machines that share one memory: they edit it, and hear of each other's versions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from familiar_cli.sync.joining import merge_heads, newest_commits
from tests.support.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Sequence

START: Final = {
    "people/anna.md": b"---\naliases: [Anna]\nrole: friend\n---\n# Anna\n\n- fact-a\n- fact-b\n\n"
    b"## Work\n- fact-c\n- fact-d\n\n## In private <!-- private dm -->\n- secret-e\n",
    "topics/bees.md": b"# Bees\n\nA paragraph\nof two lines.\n\n- fact-f\n  - fact-g\n- fact-h\n",
    "notes.md": b"- fact-i\r\n- fact-j\r\n- fact-k",
}
FACT: Final = re.compile(r"(?:fact|secret)-\w+")


@dataclass
class Machine:
    """One machine: its newest version, and the newest it has seen of the others."""

    name: str
    head: str
    seen: dict[str, str] = field(default_factory=dict)


class Machines:
    """All of them, and what every fact went through."""

    def __init__(self, count: int) -> None:
        self.past = Versions()
        root = self.past.add(START, instance="m0")
        self.all = [Machine(f"m{at}", root) for at in range(count)]
        self.taken_out: set[str] = set()
        self.changed: set[str] = set()
        self.added = {fact for content in START.values() for fact in FACT.findall(content.decode())}
        self._next = 0

    def files(self, machine: Machine) -> dict[str, bytes]:
        return self.past.files(self.past.tree(machine.head))

    def edit(self, at: int, what: int, where: int, which: int) -> None:
        """Do one of several things to one file of a machine."""
        machine = self.all[at % len(self.all)]
        files = self.files(machine)
        paths = sorted(path for path in files if not path.startswith("conflicts/"))
        edits = [
            self._append, self._append, self._append, self._change, self._take_out, self._move,
            self._section, self._drop_section, self._key, self._paragraph, self._make, self._delete,
            self._append_private, self._rename,
        ]  # fmt: skip
        path = paths[where % len(paths)] if paths else "notes.md"
        edits[what % len(edits)](files, path, which)
        source = "human" if which % 5 == 0 else "memory_writer"
        machine.head = self.past.add(files, [machine.head], instance=machine.name, source=source)

    def learn(self, at: int, of: int) -> None:
        """Let one machine see what another one has, and merge it."""
        machine, other = self.all[at % len(self.all)], self.all[of % len(self.all)]
        self.see(machine, other)
        self.merge(machine)

    @staticmethod
    def see(machine: Machine, other: Machine) -> None:
        if machine is not other:
            machine.seen[other.name] = other.head

    def merge(self, machine: Machine) -> bool:
        """Merge what a machine has seen; tell whether that changed anything."""
        heads = newest_commits(self.past.parents, [machine.head, *machine.seen.values()])
        made = merge_heads(heads, self.past)
        if made.files == self.past.tree(machine.head):
            return False
        parents = [machine.head, *(head for head in heads if head != machine.head)]
        files = self.past.files(made.files, made.blobs)
        machine.head = self.past.add(files, parents, instance=machine.name, source="sync")
        return True

    def settle(self, order: Sequence[int], most: int = 6) -> int:
        """Let all machines see and merge everything until nothing changes; return the rounds."""
        for number in range(most):
            for machine in self.all:
                for other in self.all:
                    self.see(machine, other)
            ranked = sorted(self.all, key=lambda one: order[self.all.index(one) % len(order)])
            if sum(self.merge(machine) for machine in ranked) == 0:
                return number
        raise AssertionError("the machines never agree")

    def _new(self, kind: str = "fact") -> str:
        self._next += 1
        self.added.add(fact := f"{kind}-{self._next}")
        return fact

    def _append(self, files: dict[str, bytes], path: str, which: int) -> None:
        lines = _lines(files, path)
        places = [at for at, line in enumerate(lines) if "fact-" in line]
        at = places[which % len(places)] if places else len(lines) - 1
        turns = f" <!-- turns {which} -->" if which % 2 else ""
        lines.insert(at + 1, f"- {self._new()}{turns}{_end(lines)}")
        _write(files, path, lines)

    def _append_private(self, files: dict[str, bytes], path: str, _: int) -> None:
        text = files.get(path, b"").decode()
        begun = "## In private <!-- private dm -->\n"
        if begun not in text:
            text = f"{text.rstrip()}\n\n{begun}"
        files[path] = text.replace(begun, f"{begun}- {self._new('secret')}\n", 1).encode()

    def _change(self, files: dict[str, bytes], path: str, which: int) -> None:
        lines = _lines(files, path)
        places = [at for at, line in enumerate(lines) if FACT.search(line)]
        if places:
            at = places[which % len(places)]
            fact = FACT.findall(lines[at])[0]
            self.changed.add(fact)
            lines[at] = lines[at].replace(fact, f"{fact} as of {self._next}.{which}", 1)
            self._next += 1
            _write(files, path, lines)

    def _take_out(self, files: dict[str, bytes], path: str, which: int) -> None:
        lines = _lines(files, path)
        places = [at for at, line in enumerate(lines) if FACT.search(line)]
        if places:
            self.taken_out.update(FACT.findall(lines.pop(places[which % len(places)])))
            _write(files, path, lines)

    def _move(self, files: dict[str, bytes], path: str, which: int) -> None:
        lines = _lines(files, path)
        places = [at for at, line in enumerate(lines) if line.startswith("- fact")]
        if len(places) > 1:
            line = lines.pop(places[which % len(places)])
            lines.insert(places[0], line)
            _write(files, path, lines)

    def _section(self, files: dict[str, bytes], path: str, which: int) -> None:
        text = files.get(path, b"").decode()
        level = "#" * (2 + which % 2)
        files[path] = f"{text.rstrip()}\n\n{level} S{which % 3}\n- {self._new()}\n".encode()

    def _drop_section(self, files: dict[str, bytes], path: str, which: int) -> None:
        lines = _lines(files, path)
        starts = [at for at, line in enumerate(lines) if line.startswith("##")]
        if starts:
            start = starts[which % len(starts)]
            end = next((at for at in range(start + 1, len(lines)) if lines[at][0] == "#"), None)
            gone = lines[start:end]
            if "private" not in gone[0]:
                self.taken_out.update(FACT.findall("".join(gone)))
                del lines[start:end]
                _write(files, path, lines)

    def _key(self, files: dict[str, bytes], path: str, which: int) -> None:
        text = files.get(path, b"").decode()
        if text.startswith("---\n"):
            files[path] = text.replace("role: ", f"k{which % 3}: {which}\nrole: ", 1).encode()

    def _paragraph(self, files: dict[str, bytes], path: str, which: int) -> None:
        files[path] = files.get(path, b"").rstrip() + f"\n\nSaid {which}.\n".encode()

    def _make(self, files: dict[str, bytes], _: str, which: int) -> None:
        path = f"topics/new{which % 3}.md"
        if path not in files:
            files[path] = f"# New\n\n- {self._new()}\n".encode()
        files.setdefault("self/card.json", f'{{"n": {which}}}'.encode())

    def _delete(self, files: dict[str, bytes], path: str, _: int) -> None:
        self.taken_out.update(FACT.findall(files.pop(path, b"").decode()))

    def _rename(self, files: dict[str, bytes], path: str, which: int) -> None:
        text = files.get(path, b"").decode()
        files[path] = text.replace("## Work", f"## Work {which % 4}", 1).encode()


def _lines(files: dict[str, bytes], path: str) -> list[str]:
    return files.get(path, b"").decode().splitlines(keepends=True)


def _end(lines: list[str]) -> str:
    return "\r\n" if lines and lines[0].endswith("\r\n") else "\n"


def _write(files: dict[str, bytes], path: str, lines: list[str]) -> None:
    end = _end(lines)
    whole = [
        line if line.endswith("\n") or at == len(lines) - 1 else line + end
        for at, line in enumerate(lines)
    ]
    files[path] = "".join(whole).encode()
