"""Branches that somebody with write access pushes to a remote by hand, object by object."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from familiar_cli.store.journal.objects import Objects, git_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

AUTHOR = "mallory <mallory@x> 1700000000 +0000"


def tree_of(rows: Iterable[tuple[str, bytes, str]]):
    """Return a tree object from rows of mode, name and id, exactly as given."""
    content = b"".join(
        mode.encode() + b" " + name + b"\0" + bytes.fromhex(id_) for mode, name, id_ in rows
    )
    return git_object("tree", content)


def commit_of(tree: str, parents: Iterable[str] = (), message: str = "forged"):
    lines = [f"tree {tree}", *(f"parent {p}" for p in parents)]
    lines += [f"author {AUTHOR}", f"committer {AUTHOR}", "", message, ""]
    return git_object("commit", "\n".join(lines).encode())


def put(repository: Path, ref: str, objects: Iterable, commit) -> None:
    """Write objects into a repository, and make a ref name a commit."""
    store = Objects(str(repository / "objects"))
    for one in objects:
        store.write([one])
    store.write([commit])
    store.close()
    path = repository / "refs" / "heads" / ref
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{commit.id}\n")


def directory(files: Mapping[str, bytes]):
    """Return the objects of a directory with files by path, the tree itself last."""
    made, rows = [], []
    below: dict[str, dict[str, bytes]] = {}
    for path, content in files.items():
        name, slash, rest = path.partition("/")
        if slash:
            below.setdefault(name, {})[rest] = content
            continue
        blob = git_object("blob", content)
        made.append(blob)
        rows.append((f"{name}", "100644", blob.id))
    for name, inside in below.items():
        objects = directory(inside)
        made += objects
        rows.append((name, "40000", objects[-1].id))
    rows.sort(key=lambda row: row[0] + "/" * (row[1] == "40000"))
    return [*made, tree_of((mode, name.encode(), id_) for name, mode, id_ in rows)]


def head_of(repository: Path, ref: str) -> str:
    return (repository / "refs" / "heads" / ref).read_text().strip()


def forge(
    repository: Path, instance: str, lines: Iterable[Mapping], files: Mapping | None = None
) -> None:
    """Push turns of an instance, with a memory that goes on with what is in the repository."""
    parent = head_of(repository, "main")
    objects = Objects(str(repository / "objects"))
    tree = objects.read(parent).split(b"\n")[0].split()[1].decode()
    objects.close()
    put(repository, f"memory/{instance}", [], commit_of(tree, [parent], f"begin on {instance}"))
    rows = [{"v": 1, **line} for line in lines]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    made = directory({f"turns/{instance}/2026-11.jsonl": data, **(files or {})})
    put(repository, f"turns/{instance}", made, commit_of(made[-1].id))


AT = "2026-11-01T10:00:00.000Z"
"""When everything forged is said to have happened."""


def turn(number: int, content: str, channel: str, **more) -> dict:
    """Return a line that says a turn was said, by the owner."""
    author = {"platform": "cli", "user_id": "user"}
    row = {"kind": "turn", "id": number, "channel": channel, "role": "user", "author": author}
    return row | {"content": content, "at": AT, "modality": "text", "source": "cli"} | more
