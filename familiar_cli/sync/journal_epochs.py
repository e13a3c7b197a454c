"""Epochs of a journal: its whole past written anew without a person, and the old one gone.

Its first commit names the order; all its descendants belong to the epoch. A version that lacks an
order carried out here is never merged, or the person's data would come back.

Commits that hold nothing of the person keep their ids. Any other names, as `Was`, the ids that it
had in earlier epochs, oldest first. So a familiar is known by what its first commit was called at
first, and a machine that forgets later builds on what others have rewritten already.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.errors import BadInputError, OlderEpochError
from familiar_cli.base.files import read_plain, remove
from familiar_cli.base.text import bare_lines, fold_all
from familiar_cli.base.times import clock
from familiar_cli.store.history.forgetting import ForgetOrder
from familiar_cli.store.journal.edits import LOOKED_FILE, SEEN_FILE, list_absent, note_absent
from familiar_cli.store.journal.exchange import SIZES_FILE, new_objects
from familiar_cli.store.journal.objects import GitObject, delta_objects, git_object, object_batches
from familiar_cli.store.journal.packs import MOST_OBJECT_BYTES, tree_rows
from familiar_cli.store.journal.repository import (
    HUMAN,
    INSTANCE,
    UNDOES,
    Entry,
    Repository,
    author_line,
    decode_tree,
    encode_commit,
    file_id,
    parents_of,
    translate_errors,
    tree_and_parent,
    walk_ancestors,
    with_entry,
)
from familiar_cli.store.memory.pages.erasing import PageEraser, free_path

if TYPE_CHECKING:
    Read = Callable[[str], bytes]

WAS: Final = "Was"
"""The ids that a commit had in earlier epochs, oldest first."""

FORGET: Final = "Forget"
"""The trailer for the order that starts an epoch."""

_BEHIND: Final = (
    "it is from before a person was forgotten, or before a file too large to sync was removed "
    "from the history; that machine has to sync first, and nothing from it was merged"
)
_DEAD: Final = "familiar-dead"
_DROPPED: Final = frozenset(  # everything that names, counts or displays old commits
    [
        "familiar-aside",
        "familiar-deletions.json",
        "familiar-looked",
        "familiar-seen.json",
        "logs",
        "packed-refs",
        "worktrees",
        "FETCH_HEAD",
        "ORIG_HEAD",
        "MERGE_HEAD",
        "COMMIT_EDITMSG",
        "familiar-former",
    ]
)
_PATHS: Final = re.compile(r"(?:Added|Changed|Deleted|Files|Bytes(?:-Before|-After)?): ")
_WAS: Final = re.compile(rb"^Was: ([0-9a-f ]+)$", re.MULTILINE)
_FORGET: Final = re.compile(rb"^Forget: ([0-9a-f]{12} [^\n]+)$", re.MULTILINE)
_ID: Final = re.compile(r"\b[0-9a-f]{40}\b")


def dead_commits(repository: Repository) -> frozenset[str]:
    """Return ids that commits had in earlier epochs; these are never merged again."""
    try:
        return frozenset(read_plain(os.path.join(repository.path, _DEAD)).decode().split())
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()


def earlier_ids(commit: bytes) -> list[str]:
    """Return the ids of a commit in earlier epochs, oldest first."""
    _, _, message = commit.partition(b"\n\n")
    items = _WAS.findall(message)
    return items[-1].decode().split() if items else []


def orders_in(commit: bytes) -> list[str]:
    """Return the orders of the epoch that a commit starts."""
    _, _, message = commit.partition(b"\n\n")
    return [line.decode(errors="replace") for line in _FORGET.findall(message)]


def first_id(root: str, content: bytes) -> str:
    """Return the original id of a familiar's first commit, which never changes.

    Args:
        root: Its present id.
        content: The commit.
    """
    return next(iter(earlier_ids(content)), root)


class EpochWriter:
    """Rewrites the history of a journal. The caller holds the familiar's lock.

    Args:
        repository: The journal.
        eraser: Decides what is removed.
    """

    def __init__(self, repository: Repository, eraser: PageEraser) -> None:
        self._repository = repository
        self._objects = repository.objects
        self._eraser = eraser
        self._trees: dict[tuple[str, str], str | None] = {}
        self._same: dict[str, set[tuple[bytes, bytes, bytes]]] = {}  # entries that stay, by path
        self._blobs: dict[tuple[str, str], str | None] = {}
        self._new: list[GitObject] = []
        self._fresh: dict[str, bytes] = {}
        self._ids: dict[str, str] = {}

    def begin(self, order: str, *, instance: str, built_on: Iterable[str] = ()) -> None:
        """Replace the history with one without the person, and delete everything else.

        Args:
            order: The order, in one line.
            instance: The signing instance; empty for the original one.
            built_on: Commits of the new epoch made by other machines.

        Raises:
            FamiliarError: The journal is damaged; it is unchanged.
            OSError: It cannot be written; it is unchanged, or holds both histories.
        """
        repository = self._repository
        heads = list(built_on)
        known = self._adopt(heads)
        dead = set(dead_commits(repository)) | self._turn_commits()
        head = repository.head()
        if head is not None:
            new = self._rewritten(head, known)
            parent, content = new, self._read(new)
            epoch = encode_commit(
                tree_and_parent(content)[0],
                parent,
                HUMAN,
                "forget a person",
                at=clock.now().astimezone(),
                trailers=[(FORGET, order), *([(INSTANCE, instance)] if instance else [])],
            )
            self._new.append(epoch)
            dead |= {old for old, now in self._ids.items() if old != now}
            for batch in object_batches(self._new):
                self._objects.write(batch)
            self._objects.keep()
            self._note_dead(dead)
            self._map_absent()
            repository.set_head(epoch.id)
            heads.append(epoch.id)
        self._drop_refs()
        keep_reachable(repository, heads)
        repository.close()

    def drop_large_files(self) -> bool:
        """Rewrite the commits that hold a file too large to sync; tell whether there were any.

        Every machine that has them makes the same commits of them.

        Raises:
            FamiliarError: As `begin`.
            OSError: As `begin`.
        """
        repository, head = self._repository, self._repository.head()
        new = self._rewritten(head, {}) if head else head
        if head is None or new is None or new == head:
            return False
        for batch in object_batches(self._new):
            self._objects.write(batch)
        self._objects.keep()
        dead = {old for old, now in self._ids.items() if old != now}
        self._note_dead(dead | dead_commits(repository))
        repository.set_head(new)
        kept = [new]
        for directory, _, names in os.walk(os.path.join(repository.path, "refs")):
            for path in (os.path.join(directory, name) for name in names):
                id_ = read_plain(path).decode("ascii", "replace").strip()
                if id_ in dead:
                    remove(path)
                else:
                    kept.append(id_)
        for name in (SEEN_FILE, LOOKED_FILE):  # what they say of the files is of another commit
            remove(os.path.join(repository.path, name))
        keep_reachable(repository, kept)
        repository.close()
        return True

    def _note_dead(self, dead: Collection[str]) -> None:
        path = os.path.join(self._repository.path, _DEAD)
        self._repository.disk.put(path, "".join(f"{id_}\n" for id_ in sorted(dead)).encode())

    def _map_absent(self) -> None:
        """Record the new contents of absent files."""
        known = list_absent(self._repository)
        new = {path: self._blob(one.id, path) for path, one in known.items()}
        paths = [path for path, id_ in new.items() if id_ is None]
        changed = {path: known[path]._replace(id=id_) for path, id_ in new.items() if id_}
        note_absent(self._repository, changed, paths)

    def _turn_commits(self) -> set[str]:
        """Return all commits that hold conversations; these are rewritten."""
        top = os.path.join(self._repository.path, "refs", "heads", "turns")
        items: set[str] = set()
        for directory, _, names in os.walk(top):
            for name in names:
                id_ = read_plain(os.path.join(directory, name)).decode().strip()
                items.update(self._all_before([id_]))
        return items

    def _adopt(self, heads: Iterable[str]) -> dict[str, str]:
        """Return the new id of each commit that another machine has rewritten or kept."""
        known = {}
        for id_ in self._all_before(heads):
            known[id_] = id_
            known |= dict.fromkeys(earlier_ids(self._objects.read(id_)), id_)
        return known

    def _all_before(self, heads: Iterable[str]) -> Iterator[str]:
        return walk_ancestors(heads, lambda id_: parents_of(self._objects.read(id_)))

    def _rewritten(self, head: str, known: Mapping[str, str]) -> str:
        """Rewrite a commit and all its ancestors, parents first; return its new id."""
        self._ids = dict(known)
        waiting = [head]
        while waiting:
            id_ = waiting[-1]
            if id_ in self._ids:
                waiting.pop()
                continue
            content = self._objects.read(id_)
            missing = [p for p in parents_of(content) if p not in self._ids]
            if missing:
                waiting += missing
            else:
                self._ids[id_] = self._commit(id_, content)
                waiting.pop()
        return self._ids[head]

    def _commit(self, id_: str, content: bytes) -> str:
        tree, _ = tree_and_parent(content)
        new_tree = self._tree(tree, "") or self._keep(git_object("tree", b"")).id
        parents = [self._ids[parent] for parent in parents_of(content)]
        head, _, message = content.partition(b"\n\n")
        after = self._message(message.decode("utf-8", errors="surrogateescape"))
        rest = [
            self._author(line)
            for line in head.decode("utf-8", errors="surrogateescape").split("\n")
            if line.startswith(("author ", "committer ", "encoding "))
        ]
        lines = [f"tree {new_tree}", *(f"parent {parent}" for parent in parents), *rest]
        made = "\n".join([*lines, "", after]).encode("utf-8", errors="surrogateescape")
        if self._is_same(content, new_tree, parents, made):
            return id_
        before = earlier_ids(content)
        bare = _WAS.sub(b"", made).rstrip(b"\n") + b"\n"
        separator = b"" if re.search(rb"\n[A-Za-z-]+: [^\n]*\n\Z", bare) else b"\n"
        was = f"{WAS}: {' '.join([*before, id_])}\n".encode()
        return self._keep(git_object("commit", bare + separator + was)).id

    def _is_same(self, content: bytes, tree: str, parents: list[str], made: bytes) -> bool:
        if tree_and_parent(content)[0] != tree or list(parents_of(content)) != parents:
            return False
        return made == content or b"\ngpgsig" in content.partition(b"\n\n")[0]

    def _author(self, line: str) -> str:
        """Return an author or committer line without the names of forgotten people."""
        kind, _, rest = line.partition(" ")
        who, mail, when = rest.rpartition(">")
        if kind == "encoding" or not self._eraser.mentions(who.replace("<", " ")):
            return line
        return f"{kind} {author_line('somebody')}{when}" if mail else line

    def _message(self, message: str) -> str:
        """Return a commit message without the person's names and words."""
        message = (
            _ID.sub(lambda found: self._ids.get(found[0], found[0]), message)
            if (f"\n{UNDOES}: " in message)
            else message
        )
        if not self._eraser.mentions(message):
            return message
        subject, _, rest = message.partition("\n")
        if self._eraser.mentions(subject):
            subject = "change the memory"
        lines = [line for line in rest.split("\n") if not self._eraser.mentions(line)]
        if len(lines) < rest.count("\n") + 1:
            lines = [line for line in lines if not _PATHS.match(line)]
        return "\n".join([subject, *lines])

    def _tree(self, tree: str, prefix: str) -> str | None:
        """Return the id of a tree without the person's data, or None if it becomes empty."""
        key = (tree, prefix)
        if key in self._trees:
            return self._trees[key]
        before = after = self._repository.tree(tree)
        same = self._same.setdefault(prefix, set())
        rows = sorted(set(tree_rows(before)) - same)  # most of a large directory was seen before
        entries = decode_tree(b"".join(b"%b %b\0%b" % row for row in rows))
        for row, (name, entry) in zip(rows, entries.items(), strict=True):
            path = prefix + name
            inside = self._tree if entry.is_dir else self._blob
            new = inside(entry.id, f"{path}/" if entry.is_dir else path)
            bare = self._eraser.bare_name(name)
            if new == entry.id and bare == name:
                same.add(row)
                continue
            after = with_entry(after, name, None)
            if new:
                if bare != name:
                    bare = free_path(bare, set(fold_all(decode_tree(after))))
                after = with_entry(after, bare, Entry(entry.is_dir, new))
        text = tree if after == before else self._keep(git_object("tree", after)).id
        self._trees[key] = text if after else None
        return self._trees[key]

    def _blob(self, id_: str, path: str) -> str | None:
        key = (id_, path)
        if key not in self._blobs:
            if not self._objects.has(id_):  # a submodule
                return id_
            before = self._objects.read(id_)
            after = self._eraser.cleaned(path, before)
            if after is None or after == before:
                self._blobs[key] = None if after is None else id_
            else:
                self._blobs[key] = self._keep(git_object("blob", after)).id
        return self._blobs[key]

    def _keep(self, one: GitObject) -> GitObject:
        self._new.append(one)
        self._fresh[one.id] = one.content
        return one

    def _read(self, id_: str) -> bytes:
        return self._fresh.get(id_) or self._objects.read(id_)

    def _drop_refs(self) -> None:
        """Remove every ref except the memory's own, and all files that refer to old commits."""
        path, branch = self._repository.path, self._repository.branch_path
        for name in os.listdir(path):
            whole = os.path.join(path, name)
            if name in _DROPPED and os.path.isdir(whole):
                shutil.rmtree(whole)
            elif name in _DROPPED:
                remove(whole)
        for directory, _, names in os.walk(os.path.join(path, "refs"), topdown=False):
            for whole in (os.path.join(directory, name) for name in names):
                if whole != branch:
                    remove(whole)
            with suppress(OSError):  # not empty
                os.rmdir(directory)
        self._repository.disk.make_dirs(os.path.join(path, "refs", "heads"))
        self._repository.disk.make_dirs(os.path.join(path, "refs", "tags"))


class LargeFileEraser(PageEraser, frozen=True):
    """Removes files that are too large to be received by every machine, and nothing else."""

    def cleaned(self, rel_path: str, content: bytes) -> bytes | None:
        """Return a file, or None if it is too large."""
        del rel_path
        return None if len(content) > MOST_OBJECT_BYTES else content

    def mentions(self, text: str) -> bool:
        """Tell whether a text is about a forgotten person: there is none."""
        del text
        return False


def drop_large_files(repository: Repository) -> bool:
    """Take files out of the history that are too large to be received by every machine.

    Objects are looked at once; see `SIZES_FILE`. The caller holds the familiar's lock.

    Raises:
        FamiliarError: The journal is damaged, or cannot be written.
    """
    noted = os.path.join(repository.path, SIZES_FILE)
    if os.path.exists(noted):
        return False
    with translate_errors(repository.path):
        is_large = repository.objects.largest_bytes() > MOST_OBJECT_BYTES
        nobody = LargeFileEraser(frozenset(), lambda *_: False, lambda _: False, lambda _: False)
        has_dropped = is_large and EpochWriter(repository, nobody).drop_large_files()
        repository.disk.put(noted, b"")
    return has_dropped


def keep_reachable(repository: Repository, heads: Iterable[str]) -> None:
    """Repack all objects reachable from `heads` and delete the rest. May raise OSError."""
    objects = repository.objects
    objects.close()
    kept = list(new_objects(objects, heads, lambda _: False))
    packs = os.path.join(objects.directory, "pack")
    repository.disk.make_dirs(packs)  # a copied journal may lack empty directories
    old = [os.path.join(packs, name) for name in sorted(os.listdir(packs))]
    lines = set()
    for batch in object_batches(map(objects.get, kept)):
        lines.add(objects.add_pack(len(batch), delta_objects(batch)))
    objects.keep()
    objects.close()
    for id_ in objects.loose():
        objects.forget_loose(id_)
    for path in old:
        if os.path.splitext(path)[0] not in lines:
            remove(path)


def orders_path(instance: str) -> str:
    """Return the path of the file, beside its turns, that lists an instance's orders."""
    return f"forgotten/{instance}.txt"


def first_commit(read: Read, head: str) -> str:
    """Return the original id of a familiar's first commit, which identifies it."""
    at = head
    while before := tree_and_parent(read(at))[1]:
        at = before
    return first_id(at, read(at))


def order_commits(read: Read, heads: Iterable[str]) -> Iterator[tuple[str, ForgetOrder]]:
    """Yield each commit that starts an epoch, with its order, among `heads` and their ancestors."""
    for id_ in walk_ancestors(heads, lambda one: parents_of(read(one))):
        for line in orders_in(read(id_)):
            with suppress(BadInputError):  # a person's own words in a message of git
                yield id_, ForgetOrder.from_line(line)


def memory_orders(read: Read, head: str) -> tuple[ForgetOrder, ...]:
    """Return the orders that a version of the memory complies with."""
    return tuple({order.id: order for _, order in order_commits(read, [head])}.values())


def turn_orders(read: Read, head: str, instance: str) -> tuple[ForgetOrder, ...]:
    """Return the orders that an instance's turns comply with."""
    id_ = file_id(read, tree_and_parent(read(head))[0], orders_path(instance))
    lines = bare_lines(read(id_).decode(errors="replace")) if id_ else ()
    return tuple(map(ForgetOrder.from_line, lines))


class EpochCheck(Struct, frozen=True):
    """Tells versions of this epoch from older ones, and finds orders of a newer one.

    Args:
        repository: The journal.
        orders: The orders that were carried out here.
    """

    repository: Repository
    orders: Collection[ForgetOrder] = ()

    def unmet(self, read: Read, heads: Iterable[str]) -> dict[str, ForgetOrder]:
        """Return the orders that were not carried out here yet, by the commit that gives them."""
        known = {order.id for order in self.orders}
        return {id_: one for id_, one in order_commits(read, heads) if one.id not in known}

    def check_memory(self, read: Read, head: str) -> None:
        """Refuse a version that lacks an order carried out here, or follows a replaced version.

        Raises:
            OlderEpochError: It does.
        """
        self._check(memory_orders(read, head))
        dead = dead_commits(self.repository)
        if dead and not dead.isdisjoint(walk_ancestors([head], lambda one: parents_of(read(one)))):
            raise OlderEpochError(_BEHIND)

    def check_turns(self, read: Read, head: str, instance: str) -> None:
        """Refuse turns that lack an order carried out here.

        Raises:
            OlderEpochError: They do.
        """
        self._check(turn_orders(read, head, instance))

    def _check(self, found: Collection[ForgetOrder]) -> None:
        if {order.id for order in self.orders} - {order.id for order in found}:
            raise OlderEpochError(_BEHIND)
