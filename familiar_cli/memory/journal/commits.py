"""A commit as a value: who changed what, when and why, and the text git keeps of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from familiar_cli.clock import since_1970
from familiar_cli.memory.journal.objects import damaged, git_object
from familiar_cli.memory.layout import RUN_ID, is_run_id
from familiar_cli.text import one_line, slugify

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from familiar_cli.memory.journal.objects import GitObject

HUMAN: Final = "human"
UNDOES: Final = "Undoes"
INSTANCE: Final = "Instance"
"""Which instance made a commit; left out where the familiar began."""

LENGTHS: Final = "Bytes"
"""`5>7 ->12`: how long each file was before and after, in the order in which they are named."""

_MAX_SUBJECT_CHARS = 200
_MAX_SOURCE_CHARS = 80
_NOT_IN_MAIL = re.compile(r"[^A-Za-z0-9._-]+")
_AUTHOR = re.compile(rb"author (.*?) ?<[^>]*> (-?\d+) ([+-]\d{4})")
_OURS = re.compile(rb"author ([^\n]*<[^>\n]*@familiar>[^\n]*)\ncommitter \1(?:\n|$)")
_TRAILER = re.compile(r"([A-Za-z][A-Za-z-]*): (.*)")
_PAIR: Final = re.compile(r"(\d{1,18}|-)>(\d{1,18}|-)", re.ASCII)
_KINDS: Final = {"Added": "added", "Changed": "changed", "Deleted": "deleted"}


@dataclass(frozen=True, slots=True)
class Touched:
    """One file that a commit changed."""

    kind: Literal["added", "changed", "deleted"]
    rel_path: str


@dataclass(frozen=True, slots=True)
class Length:
    """How many bytes a file had before and after a commit; None where it was not there."""

    rel_path: str
    bytes_before: int | None
    bytes_after: int | None


@dataclass(frozen=True, slots=True)
class Commit:
    """One change of the memory.

    Args:
        id: 40 hexadecimal digits.
        tree: The id of the memory's state after it.
        parent: The commit before it; None for the first.
        merged: Further parents: what came from other instances.
        is_ours: Whether this program made it, on any machine, rather than another git.
        source: Who changed it.
        time: When, in UTC.
        message: What for, in one line.
        trailers: What else is noted of it.
        touched: The files it names itself; None when there are too many, or git made it.
    """

    id: str
    tree: str
    parent: str | None
    source: str
    time: datetime
    message: str
    trailers: Mapping[str, str]
    touched: tuple[Touched, ...] | None
    merged: tuple[str, ...] = ()
    is_ours: bool = True

    @property
    def run_id(self) -> str | None:
        """What belongs together with it, e.g. all that one run of the memory writer did."""
        return self.trailers.get(RUN_ID)

    @property
    def run(self) -> str | None:
        """The id of the pass that made it; None when no pass did."""
        return self.run_id if self.run_id and is_run_id(self.run_id) else None

    @property
    def lengths(self) -> tuple[Length, ...]:
        """How long each file was before and after; empty when the commit does not say."""
        pairs = [_PAIR.fullmatch(pair) for pair in self.trailers.get(LENGTHS, "").split()]
        if self.touched is None or len(pairs) != len(self.touched):
            return ()
        return tuple(
            Length(touched.rel_path, *(int(n) if n.isdigit() else None for n in pair.groups()))
            for touched, pair in zip(self.touched, pairs, strict=True)
            if pair
        )

    @property
    def instance(self) -> str:
        """The instance that made it; empty: the one on which the familiar was created.

        A commit of another git has no instance; its author takes the place of one.
        """
        told = self.trailers.get(INSTANCE, "")
        return told if told or self.is_ours else slugify(self.source) or "git"

    @property
    def undoes(self) -> tuple[str, ...]:
        """The ids of the commits that it takes back."""
        return tuple(self.trailers.get(UNDOES, "").split())

    @property
    def by_hand(self) -> bool:
        """Whether a person made it with an editor, or with git; the program names a run."""
        return self.run_id is None or not self.is_ours


def encode(
    tree: str,
    parent: str | None,
    source: str,
    message: str,
    *,
    at: datetime,
    trailers: Iterable[tuple[str, str]],
    merged: Iterable[str] = (),
) -> GitObject:
    """Return the commit object. `at` carries the timezone that git is to show."""
    who = author(source)
    when = f"{int(at.timestamp())} {at.strftime('%z')[:5]}"
    lines = [
        f"tree {tree}",
        *([f"parent {parent}"] if parent else []),
        *(f"parent {other}" for other in merged),
        f"author {who} {when}",
        f"committer {who} {when}",
        "",
        one_line(message, _MAX_SUBJECT_CHARS) or "change the memory",
        "",
        *(f"{key}: {_flat(value)}" for key, value in trailers),
    ]
    text = "\n".join(lines) + "\n"
    return git_object("commit", text.encode("utf-8", errors="surrogateescape"))


def author(source: str) -> str:
    """Return `source` as git names an author."""
    name = one_line(source.replace("<", " ").replace(">", " "), _MAX_SOURCE_CHARS).strip(" .,;'\"")
    name = name or "unknown"
    return f"{name} <{_NOT_IN_MAIL.sub('-', name).strip('-.') or 'unknown'}@familiar>"


def decode(id_: str, content: bytes) -> Commit:
    """Return the commit with that content; also one that git itself made.

    Raises:
        FamiliarError: It is no commit.
    """
    head, _, body = content.partition(b"\n\n")
    written_by = _AUTHOR.search(head)
    if not content.startswith(b"tree ") or written_by is None:
        raise damaged(f"object {id_} is not a commit")
    tree, parent = tree_and_parent(content)
    try:
        time = since_1970(int(written_by[2]))
    except (ValueError, OverflowError, OSError) as error:
        raise damaged(f"commit {id_} has an invalid time") from error
    subject, _, rest = body.decode("utf-8", errors="surrogateescape").partition("\n")
    pairs = [(m[1], m[2]) for line in rest.split("\n") if (m := _TRAILER.fullmatch(line))]
    is_ours = _OURS.search(head) is not None
    return Commit(
        id=id_,
        tree=tree,
        parent=parent,
        source=written_by[1].decode("utf-8", errors="replace"),
        time=time,
        message=subject,
        trailers=dict(pairs),
        touched=_touched(pairs) if is_ours else None,  # an amended commit keeps the old names
        merged=parents(content)[1:],
        is_ours=is_ours,
    )


def tree_and_parent(content: bytes) -> tuple[str, str | None]:
    """Return the ids that a commit begins with."""
    parent = content[53:93].decode() if content[46:53] == b"parent " else None
    return content[5:45].decode(), parent


def parents(content: bytes) -> tuple[str, ...]:
    """Return the ids of all commits that one follows, the one before it first."""
    found = []
    at = 46  # after `tree <40 digits>`
    while content[at : at + 7] == b"parent ":
        found.append(content[at + 7 : at + 47].decode("ascii", errors="replace"))
        at += 48
    return tuple(found)


def _touched(pairs: list[tuple[str, str]]) -> tuple[Touched, ...] | None:
    found = tuple(Touched(_KINDS[k], value) for k, value in pairs if k in _KINDS)  # type: ignore[arg-type]
    promised = dict(pairs).get("Files")
    return found if promised is not None and promised == str(len(found)) else None


def _flat(value: str) -> str:
    return value.replace("\n", " ").replace("\0", "")
