"""Import the chats of files and directories, in the order in which they began."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import (
    BadInputError,
    FamiliarError,
    LockedError,
    NotFoundError,
    PartialError,
    RefusedError,
    UsageError,
)
from familiar_cli.imports.chat_formats import SUFFIXES, TEXT_SUFFIXES, read_chats
from familiar_cli.imports.chat_import import Bringing, ChatImportOptions, ImportedChat
from familiar_cli.imports.foreign_chat import (
    ForeignChat,
    Skip,
    as_source,
)
from familiar_cli.imports.what_is_it import instead, is_data_folder, taken_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from familiar_cli.history.store import HistoryStore
    from familiar_cli.imports.chat_import import OnProgress
    from familiar_cli.imports.foreign_chat import ChatFile, Reading

_MEND: Final = "Fix those and run the same command again; nothing is imported twice."
_NEVER_REWRITTEN: Final = (
    "Turns are never rewritten. `familiar hear --at TIME` adds a message at its time."
)


@dataclass(frozen=True, slots=True)
class NotImported:
    """A file, or a chat in one, that was not imported."""

    file: str
    error: FamiliarError


@dataclass(frozen=True, slots=True)
class ImportedChats:
    """What an import did.

    Args:
        chats: What became of each chat, the one that began first at the start.
        failed: What was not imported.
        passed_over: Texts in a directory that are no chats.
    """

    chats: tuple[ImportedChat, ...]
    failed: tuple[NotImported, ...]
    passed_over: tuple[NotImported, ...] = ()

    @property
    def problem(self) -> FamiliarError | None:
        """Why the import is not whole; None: it is."""
        if self.failed and not self.chats:
            return self.failed[0].error
        damaged = sum(chat.damaged for chat in self.chats)
        changed = sum(chat.changed for chat in self.chats)
        inserted = sum(chat.inserted for chat in self.chats)
        what = [f"{len(self.failed)} not imported"] if self.failed else []
        what += [f"{_lines(damaged, 'damaged ')} left out"] if damaged else []
        what += [f"{_lines(changed, 'changed ')} left as imported before"] if changed else []
        what += [f"{_lines(inserted)} between imported ones left out"] if inserted else []
        if not what:
            return None
        return PartialError(
            f"Not everything was imported: {', '.join(what)}",
            hint=_MEND if self.failed or damaged else _NEVER_REWRITTEN,
        )


def import_chats(
    history: HistoryStore,
    path: Path | None,
    wish: ChatImportOptions,
    on_progress: OnProgress = lambda _name, _lines: None,
) -> ImportedChats:
    """Bring the chats of a file or of all files below a directory into the history.

    What is there already is not added again, so an import that was broken off is run again.

    Args:
        history: The history.
        path: The file or directory; None: standard input.
        wish: How.
        on_progress: Told a chat's name and how many of its lines are done.

    Raises:
        NotFoundError: Nothing is at `path`, or no chat below it.
        UsageError: All chats of a directory were to go into one channel.
        FamiliarError: The history cannot be used.
    """
    if path is not None and path.is_dir() and is_data_folder(path):
        raise instead("chat", path) or BadInputError(f"{str(path)!r} holds no chats")
    files, closed = _files(path)
    over: list[NotImported] = []
    if wish.channel and path is not None and path.is_dir():
        raise UsageError(
            "`--channel` cannot be used with a directory: each chat gets its own channel",
            hint="Omit `--channel`, or import a single file.",
        )
    with ExitStack() as stack:
        chats, failed = _find(((file, wish.reading) for file in files), stack)
        failed.extend(closed)
        if path is not None and path.is_dir():
            over = [one for one in failed if _is_other_text(one)]
            failed = [one for one in failed if one not in over]
        if over and not chats and not failed:
            raise NotFoundError(
                f"No chats below {str(path)!r}: {over[0].error}", hint=over[0].error.hint
            )
        if wish.channel and len(chats) > 1:
            raise UsageError(
                f"{chats[0][0].name!r} holds {len(chats)} chats, which cannot share a channel",
                hint="Omit `--channel`: each chat gets its own channel.",
            )
        with _on_trial(history, dry_run=wish.dry_run) as where:
            done = _bring_in(where, chats, failed, wish, on_progress)
            return replace(done, passed_over=tuple(over))


def import_chat_files(
    history: HistoryStore,
    files: Iterable[tuple[Path, Reading]],
    wish: ChatImportOptions,
    on_progress: OnProgress = lambda _name, _lines: None,
) -> ImportedChats:
    """Bring chats into the history as `import_chats` does, each file with a reading of its own.

    Raises:
        FamiliarError: The history cannot be used.
    """
    with ExitStack() as stack:
        return _bring_in(history, *_find(files, stack), wish, on_progress)


def _bring_in(
    history: HistoryStore,
    chats: list[tuple[ChatFile, ForeignChat]],
    failed: list[NotImported],
    wish: ChatImportOptions,
    on_progress: OnProgress,
) -> ImportedChats:
    """Import `chats` in the order in which they began; one that fails does not stop the others."""
    done: list[ImportedChat] = []
    wish = replace(wish, names=frozenset(chat.name for _, chat in chats))
    for source, chat in _in_order(chats):
        bringing = Bringing(history, source, chat, wish, on_progress)
        try:
            try:
                bringing.run()
            except RefusedError as error:
                # Any other refusal than that the channel goes on has a class of its own.
                if not wish.aside or type(error) is not RefusedError:
                    raise
                bringing = Bringing(history, source, chat, wish, on_progress)
                bringing.run(aside=True)
        except FamiliarError as error:
            failed.append(NotImported(source.name, error))
            if bringing.imported:
                done.append(bringing.result())
            if isinstance(error, LockedError):  # it holds for the others, too
                break
        else:
            done.append(bringing.result())
    return ImportedChats(tuple(done), tuple(failed))


def _files(path: Path | None) -> tuple[list[Path | None], list[NotImported]]:
    """Return the files that are meant, and the directories that cannot be looked into."""
    if path is None or not path.is_dir():
        return [path], []
    closed: list[NotImported] = []

    def note(error: OSError) -> None:
        reason = FamiliarError(f"{error.filename!r} cannot be read: {error.strerror}")
        closed.append(NotImported(str(error.filename), reason))

    found = [Path(here, name) for here, _, names in os.walk(path, onerror=note) for name in names]
    suffixes = SUFFIXES | TEXT_SUFFIXES
    chats = sorted(file for file in found if file.suffix.lower() in suffixes)
    if not chats and not closed:
        raise NotFoundError(
            f"No chats below {str(path)!r}: no file ends in {', '.join(sorted(suffixes))}"
        )
    return [*chats], closed


def _find(
    files: Iterable[tuple[Path | None, Reading]], stack: ExitStack
) -> tuple[list[tuple[ChatFile, ForeignChat]], list[NotImported]]:
    """Return the chats in all files, and which files or parts of files have none."""
    chats: list[tuple[ChatFile, ForeignChat]] = []
    failed: list[NotImported] = []
    for file, reading in files:
        name = "stdin" if file is None else str(file)
        try:
            with taken_for("chat", file):
                source = stack.enter_context(as_source(file))
                for found in read_chats(source, reading):
                    if isinstance(found, ForeignChat):
                        chats.append((source, found))
                    else:
                        failed.append(NotImported(name, _bad_part(name, found)))
        except FamiliarError as error:
            failed.append(NotImported(name, error))
    return chats, failed


@contextmanager
def _on_trial(history: HistoryStore, *, dry_run: bool) -> Iterator[HistoryStore]:
    """Lend the history, or for a dry run a copy of it that goes again."""
    if not dry_run:
        yield history
        return
    with tempfile.TemporaryDirectory(prefix="familiar-") as scratch:
        copy = history.copy_to(Path(scratch) / "history.db")
        try:
            yield copy
        finally:
            copy.close()


def _in_order(chats: list[tuple[ChatFile, ForeignChat]]) -> list[tuple[ChatFile, ForeignChat]]:
    """Return the chats in the order in which they began, but no branch before what it left."""
    ordered: dict[int, tuple[ChatFile, ForeignChat]] = {}
    by_name = {(Path(source.name).parent, chat.name): (source, chat) for source, chat in chats}
    for found in sorted(chats, key=_began):
        line = [found]
        while (above := _left(line[-1], by_name)) and id(above[1]) not in ordered:
            if above in line:  # they say that they left each other
                break
            line.append(above)
        for one in reversed(line):
            ordered.setdefault(id(one[1]), one)
    return list(ordered.values())


def _left(
    found: tuple[ChatFile, ForeignChat],
    by_name: Mapping[tuple[Path, str], tuple[ChatFile, ForeignChat]],
) -> tuple[ChatFile, ForeignChat] | None:
    """Return the chat that another one left, if it is among those that are brought in."""
    source, chat = found
    return by_name.get((Path(source.name).parent, chat.parent)) if chat.parent else None


def _is_other_text(one: NotImported) -> bool:
    """Tell whether a file of a directory is a text that nobody said was a chat."""
    is_text = Path(one.file).suffix.lower() in TEXT_SUFFIXES
    return is_text and isinstance(one.error, BadInputError)


def _lines(count: int, kind: str = "") -> str:
    return f"{count} {kind}line{'s' if count > 1 else ''}"


def _bad_part(name: str, part: Skip) -> FamiliarError:
    return BadInputError(f"Conversation {part.line} of {name!r} was left out: {part.reason}")


def _began(found: tuple[ChatFile, ForeignChat]) -> tuple[datetime, int, str]:
    """Return the sort key of a chat; among copies, the shortest name is the original."""
    source, chat = found
    return chat.began or datetime.max.replace(tzinfo=UTC), len(chat.name), source.name
