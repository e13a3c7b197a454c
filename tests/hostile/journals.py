"""Journals that are damaged, or are no journals of ours at all."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dulwich.repo import Repo
from typer.testing import CliRunner

from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.cli.app import app
from familiar_cli.familiar import Familiar
from familiar_cli.store.journal.objects import git_object
from tests.hostile.mutations import damage

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

PACKED, LOOSE = 3, 5  # how many changes of the template are packed, and how many stand loose
READS = (
    ("status",),
    ("doctor",),
    ("memory", "ls"),
    ("memory", "cat", "people/cli-me.md"),
    ("memory", "grep", "tea"),
    ("memory", "log"),
    ("memory", "log", "people/cli-me.md"),
    ("memory", "show", "HEAD"),
    ("memory", "show", "HEAD~3"),
    ("memory", "diff", "HEAD~5"),
    ("memory", "blame", "people/cli-me.md"),
    ("memory", "undo", "--dry-run"),
    ("memory", "restore", "notes.md", "--from", "HEAD~2", "--dry-run"),
    ("memory", "compact", "--dry-run"),
    ("search", "tea"),
    ("context",),
)
WRITES = (
    ("memory", "write", "notes.md", "New."),
    ("memory", "append", "people/cli-me.md", "- more"),
    ("memory", "mv", "topics/tea.md", "topics/green/tea.md"),
    ("memory", "rm", "topics/tea.md"),
    ("memory", "compact"),
    ("scratch", "add", "a thought"),
)
BACK = (("memory", "undo"), ("memory", "restore", "notes.md", "--from", "HEAD~2"))


@cache
def template() -> Path:
    """Return a familiar whose journal has packed and loose objects, made once."""
    place = tempfile.mkdtemp(prefix="hostile-template-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    root = Path(place) / "ada"
    (root / "memory").mkdir(parents=True)
    familiar = Familiar(FamiliarPaths(root))
    for number in range(PACKED + LOOSE):
        if number == PACKED:
            familiar.past.compact()
        with familiar.memory.transaction("human", f"change {number}") as tx:
            tx.write("people/cli-me.md", f"# Me\n\nDrinks tea {number}.\n")
            tx.write("topics/tea.md", "Green.\n" * (number + 1))
            tx.write("notes.md", f"Note {number}.\n")
    familiar.close()
    return root


def spoil(journal: Path, rng: Random) -> None:
    """Damage a journal, or put something else in its place."""
    if rng.random() < 0.2:
        rng.choice(_OTHERS)(journal, rng)
        return
    for _ in range(rng.choice((1, 1, 1, 3))):
        files = sorted(path for path in journal.rglob("*") if path.is_file())
        if files:
            with suppress(OSError):
                rng.choice(_HARMS)(rng.choice(files), rng)


def contents(root: Path) -> dict[str, bytes]:
    """Return what the memory holds, without what is made from it."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".index" not in path.parts
    }


def type_(home: Path, *argv: str) -> Any:
    """Run a command on that home."""
    return CliRunner().invoke(app, ["--home", str(home), *argv])


def _bytes(path: Path, rng: Random) -> None:
    old = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(damage(rng, old))


def _one_bit(path: Path, rng: Random) -> None:
    old = bytearray(path.read_bytes())
    path.chmod(0o644)
    if old:
        old[rng.randrange(len(old))] ^= 1 << rng.randrange(8)
    path.write_bytes(old)


def _gone(path: Path, rng: Random) -> None:
    path.unlink()


def _cut(path: Path, rng: Random) -> None:
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size + 1)])


def _swapped(path: Path, rng: Random) -> None:
    """Put another file's bytes in the place of its own."""
    others = sorted(p for p in path.parents[1].rglob("*") if p.is_file())
    path.chmod(0o644)
    path.write_bytes(rng.choice(others).read_bytes())


def _directory(path: Path, rng: Random) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path, rng: Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(path: Path, rng: Random) -> None:
    path.unlink()
    path.symlink_to(rng.choice(("/dev/zero", "missing", path.name, "/", "/etc/passwd")))


def _object(path: Path, rng: Random) -> None:
    """Put a well-formed object of another kind, with odd content, there."""
    kind = rng.choice(("tree", "commit", "blob"))
    entry = rng.choice((b"../../evil.md", b"a/b", b"", b".git", b"x.md", b"\xff"))
    content = rng.choice(
        (b"100644 " + entry + b"\0" + b"\x11" * 20, b"", b"tree x\n\n", b"\0" * 99)
    )
    path.chmod(0o644)
    path.write_bytes(zlib.compress(f"{kind} {len(content)}\0".encode() + content))


def _mark(path: Path, rng: Random) -> None:
    """Say that a change of old had broken off."""
    journal = next(p for p in path.parents if p.name == "journal.git")
    ids = [f.parent.name + f.name for f in (journal / "objects").glob("??/*")] or ["0" * 40]
    base, commit = (rng.choice((*ids, "0" * 40, "x", "", 5, None)) for _ in range(2))
    (journal / "familiar-pending").unlink(missing_ok=True)
    (journal / "familiar-pending").write_text(
        f'{{"base": {_quoted(base)}, "commit": {_quoted(commit)}}}', encoding="utf-8"
    )


def _quoted(value: object) -> str:
    return "null" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


def _no_refs(path: Path, rng: Random) -> None:
    journal = next(p for p in path.parents if p.name == "journal.git")
    shutil.rmtree(journal / rng.choice(("refs", "objects", "refs/heads")))


def _branch(path: Path, rng: Random) -> None:
    journal = next(p for p in path.parents if p.name == "journal.git")
    ids = [f.parent.name + f.name for f in sorted((journal / "objects").glob("??/*"))]
    text = rng.choice((*ids, "0" * 40, "ref: refs/heads/main", "HEAD", "\0" * 41, "é"))
    (journal / "refs/heads/main").unlink(missing_ok=True)
    (journal / "refs/heads/main").write_text(text + "\n", encoding="utf-8")


_HARMS: tuple[Callable[[Path, Random], None], ...] = (
    _bytes,
    _bytes,
    _one_bit,
    _one_bit,
    _gone,
    _cut,
    _swapped,
    _directory,
    _pipe,
    _link,
    _object,
    _mark,
    _no_refs,
    _branch,
)


def _a_file(journal: Path, rng: Random) -> None:
    shutil.rmtree(journal)
    journal.write_bytes(rng.choice((b"", b"gitdir: ../elsewhere\n", b"\0" * 99)))


def _nothing_in_it(journal: Path, rng: Random) -> None:
    shutil.rmtree(journal)
    journal.mkdir()


def _a_pipe(journal: Path, rng: Random) -> None:
    shutil.rmtree(journal)
    os.mkfifo(journal)


def _a_loop(journal: Path, rng: Random) -> None:
    shutil.rmtree(journal)
    journal.symlink_to(journal.name)


def _with_a_work_tree(journal: Path, rng: Random) -> None:
    """Put a repository there that is not bare."""
    shutil.rmtree(journal)
    Repo.init(str(journal), mkdir=True).close()


def _of_somebody_else(journal: Path, rng: Random) -> None:
    """Put a repository there whose branch holds other files, and names that lead out."""
    shutil.rmtree(journal)
    Repo.init_bare(str(journal), mkdir=True).close()
    blob = git_object("blob", b"not ours")
    names = (b"../evil.md", b"..", b"README.md", b".git", b"sub/dir.md", b"notes.md")
    rows = b"".join(b"100644 " + n + b"\0" + bytes.fromhex(blob.id) for n in sorted(names))
    tree = git_object("tree", rows)
    who = b"Somebody <s@example.org> 1700000000 +0100"
    head = f"tree {tree.id}\n".encode() + b"author " + who + b"\ncommitter " + who + b"\n\nhello\n"
    commit = git_object("commit", head)
    for one in (blob, tree, commit):
        place = journal / "objects" / one.id[:2]
        place.mkdir(exist_ok=True)
        raw = f"{one.kind} {len(one.content)}\0".encode() + one.content
        (place / one.id[2:]).write_bytes(zlib.compress(raw))
    (journal / "refs" / "heads" / "main").write_text(commit.id + "\n", encoding="utf-8")
    if rng.random() < 0.5:
        mark = f'{{"base": null, "commit": "{commit.id}"}}'
        (journal / "familiar-pending").write_text(mark, encoding="utf-8")


_OTHERS: tuple[Callable[[Path, Random], None], ...] = (
    _a_file,
    _nothing_in_it,
    _a_pipe,
    _a_loop,
    _with_a_work_tree,
    _of_somebody_else,
    _of_somebody_else,
)
