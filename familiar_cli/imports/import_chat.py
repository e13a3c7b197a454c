"""Import chats from files and directories, and report what became of each."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, tzinfo
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base import errors
from familiar_cli.base.text import fold, one_line, typed
from familiar_cli.base.who.identity import CHARACTERS, NEUTRAL, Author
from familiar_cli.base.who.visibility import EVERYBODY, OWNERS, PrivacyRules, audience_words
from familiar_cli.imports.cast import NO_CHARACTER, PLATFORM, SpeakerRole
from familiar_cli.imports.chat_times import date_messages
from familiar_cli.imports.contract import (
    ForeignChat,
    ForeignMemories,
    ForeignMessage,
    Reading,
    recognise,
)
from familiar_cli.imports.reading import read_chats, title_of_format
from familiar_cli.imports.source import ForeignFile, Skip, as_source
from familiar_cli.imports.what_is_it import (
    is_archive,
    is_data_folder,
    recognise_instead,
    taken_for,
    unpack_archive,
)
from familiar_cli.store.history import imports, marks, matching
from familiar_cli.store.history.matching import LineMatch
from familiar_cli.store.history.rows import HEARD, IMPORTED, SERVED, Turn
from familiar_cli.store.history.same_message import kept_words
from familiar_cli.store.history.selection import claim_chat, only_speaker, publish_chat
from familiar_cli.store.memory.pages.lines import number_spans

if TYPE_CHECKING:
    from familiar_cli.store.history.store import HistoryStore

    OnProgress = Callable[[str, int], None]


MAX_SPEAKERS: Final = 100
"""Speakers of one chat that are named."""

SUFFIXES: Final = frozenset({".jsonl", ".ndjson", ".json"})
"""What is looked for in a directory."""

TEXT_SUFFIXES: Final = frozenset({".txt", ".md", ".log", ".csv"})
"""Text files of a directory that are tried, and skipped if they hold no chat."""

WHOSE: Final = "--whose"
"""The question whose a one-to-one chat is; not an option of a command."""

STDIN: Final = "stdin"
"""The name of standard input as a source."""

_FIRST_SHOWN: Final = 3
MAX_NAMED: Final = 10_000
"""Lines of one chat that are named when they are left out; the others are counted."""

_ONE_TO_ONE: Final = 2  # people
_BATCH: Final = 5_000  # turns per transaction
_BATCH_CHARS: Final = 8_000_000
FORGOTTEN: Final = "it is from, or answers, a person who was forgotten"
_REASONS: Final = {
    LineMatch.edited: "its text, or whose it is, has changed since it was imported; what was "
    "imported is kept",
    LineMatch.inserted: (
        "it is new, but between lines already imported; turns are only added at the end"
    ),
    LineMatch.details_changed: "its swipes or details have changed since it was imported; the "
    "imported ones are kept",
    LineMatch.forgotten: FORGOTTEN,
}
_SHARED: Final = "it differs from the chat that it branched off; the shared turns stay, in both"
_MOST_COPIES: Final = 20  # lines put before turns; more would take their room in prompts
_PARTED: Final = (
    "it differs from the chat that it branched off, and has turns of its own from there"
)


class ImportedChat(Struct):
    """Result of importing one chat.

    Args:
        name: Its name in the source.
        imported: Number of turns added, or to be added.
        already_there: Number of turns that existed before.
        skipped: Skipped lines; at most `MAX_NAMED`.
        skipped_count: Number of skipped lines.
        damaged: How many of those are not valid messages.
        changed: How many of those exist with different text.
        inserted: How many of those belong between existing turns.
        corrected: Number of turns updated to their lines' new wording.
        withdrawn: Number of turns that the chat no longer shows.
        doubles: Number of live turns withdrawn in another channel because the chat contains them.
        estimated_times: Number of added turns with an estimated time.
        hidden: Number of added turns that are left out of prompts.
        aside: Number of messages of other branches kept beside the turns.
        branch_of: The channel that this import branched off; empty: none.
        is_new: Whether its channel is new.
        is_copy: Whether the channel already held the whole chat, under another name.
        taken_for: The detected kind of file.
        speakers: Its speakers, most messages first.
        first: Its first messages.
        notes: Remarks on how it was read.
        heard_by: Who may hear of it, in words.
        is_closed: Whether several people speak in it, but only the owner may hear of it.
        zone: The timezone in which people read its times; None: the system's.
        head: The source's metadata for it, in JSON; empty: none.
    """

    file: str
    name: str
    format: str
    taken_for: str
    aside: int
    notes: tuple[str, ...]
    channel: str = ""
    imported: int = 0
    already_there: int = 0
    skipped: tuple[Skip, ...] = ()
    skipped_count: int = 0
    damaged: int = 0
    changed: int = 0
    inserted: int = 0
    corrected: int = 0
    withdrawn: int = 0
    doubles: int = 0
    estimated_times: int = 0
    hidden: int = 0
    branch_of: str = ""
    is_new: bool = False
    is_copy: bool = False
    speakers: tuple[SpeakerCount, ...] = ()
    first: tuple[ForeignMessage, ...] = ()
    heard_by: str = ""
    is_closed: bool = False
    head: str = ""
    zone: tzinfo | None = None


class SpeakerCount(Struct, frozen=True):
    """A speaker of a chat.

    Args:
        name: The name in the chat; empty: a notice of the program.
        role: The speaker's role.
        turns: Number of messages.
        sample: The first text, for notices.
    """

    name: str
    role: SpeakerRole
    turns: int
    sample: str = ""


class ChatImportOptions(Struct, frozen=True):
    """Options for importing chats.

    Args:
        reading: Options for reading files.
        channel: The channel; empty: each chat's own.
        dry_run: Write nothing.
        names: Names of all chats imported together.
        aside: Continue a chat on a new branch if both it and its channel have grown.
        is_current: Whether the chats are live; a file may be older than the history.
        command: What a person types to import the file, without the file.
        rules: The privacy rules in effect.
        typed: What a person typed for a file that is a copy, by its path.
    """

    reading: Reading = field(default_factory=Reading)
    channel: str = ""
    dry_run: bool = False
    names: frozenset[str] = frozenset()
    aside: bool = False
    is_current: bool = False
    command: str = "familiar import"
    rules: PrivacyRules = field(default_factory=PrivacyRules)
    typed: Mapping[str, str] = field(default_factory=dict)


class ChatImport:
    """Imports one chat.

    Args:
        source: The chat's file.
        wish: Import options.
        on_progress: Called with the number of lines done.
    """

    def __init__(
        self,
        history: HistoryStore,
        source: ForeignFile,
        chat: ForeignChat,
        wish: ChatImportOptions,
        on_progress: OnProgress,
    ) -> None:
        self.done = ImportedChat(
            source.name,
            chat.name,
            chat.format,
            chat.kind or title_of_format(chat.format),
            chat.aside,
            chat.notes,
            zone=wish.reading.zone,
            head=chat.head(),
        )
        self._history = history
        self._source = source
        self._chat = chat
        self._wish = wish
        self._on_progress = on_progress
        self._channel = wish.channel
        self._place = matching.ChatPlacement(wish.channel)
        self._verdicts = bytearray()
        self._changes: imports.Reconciliation | None = None
        self._bare: list[tuple[int, matching.IncomingLine]] = []
        self._chosen: list[int] = []  # turns that stand although their lines changed
        self._waiting: list[ForeignMessage] = []
        self._waiting_chars = 0
        self._skipped: list[Skip] = []
        self._speakers: Counter[tuple[str, SpeakerRole]] = Counter()
        self._samples: dict[tuple[str, str], str] = {}
        self._first: list[ForeignMessage] = []
        self._people: dict[Author, str] = {}
        self._has_private = False

    def run(self, *, aside: bool = False) -> None:
        """Store what is new, batch by batch.

        Args:
            aside: Store it on a new branch after the last known line.

        Raises:
            RefusedError: The channel has turns later than the first new line.
            FamiliarError: The history cannot be used.
        """
        find = matching.branch_chat if aside else matching.place_chat
        arrival = self._arrival()
        self._place = find(self._history, arrival)
        self._channel = self._place.channel_id
        chat, first = self._chat, next(iter(arrival.lines()), None)
        key = chat.key or f"{chat.format}:{self._channel}:{chat.name}"
        origin = imports.ChatOrigin(key, chat.format, chat.name, chat.head(), first)
        self._survey(origin)
        appender = imports.Appender(self._history, self._place, origin)
        number, before = -1, self._history.newest_id()
        for line in self._dated_messages():
            if isinstance(line, Skip):
                self._skip(line)
                continue
            number += 1
            self._speakers[line.speaker, self._role(line)] += 1
            self._samples.setdefault((line.speaker, line.role), line.text)
            self._has_private |= line.is_one_to_one
            if line.author and line.author.platform != CHARACTERS:
                who = Author(line.author.platform, line.author.user_id)
                self._people[who] = line.author.label
            if len(self._first) < _FIRST_SHOWN:
                self._first.append(line)
            verdict = self._verdicts[number] if number < len(self._verdicts) else LineMatch.new
            if not (self._changes and self._follow(appender, number, line)):
                self._take(line, LineMatch(verdict))
            if len(self._waiting) >= _BATCH or self._waiting_chars > _BATCH_CHARS:
                self._write(appender)
            if number % _BATCH == 0:
                self._on_progress(self._chat.name, number)
        self._write(appender)
        self._note_audience(before + 1)
        self._finish(appender, number + 1)
        self.done.notes += tuple(self._withdrawn_before())

    def _withdrawn_before(self) -> Iterator[str]:
        """Say what of the chat a person has withdrawn, or restored."""
        channel_id, lines = self._channel, partial(self._lines, self._channel)
        if channel_id in marks.withdrawn_channels(self._history):
            back = f"`familiar channel restore {typed(channel_id)}` brings it back"
            yield f"channel {one_line(channel_id)} is withdrawn as a whole; {back}"
        if ids := imports.find_withdrawn(self._history, channel_id, lines):
            back = "`familiar history restore TURN` brings one back"
            yield f"withdrawn, and left so: turn {number_spans(ids)}; {back}"
        if self._changes and (kept := self._changes.restored):
            yield f"gone from the source, and kept as you restored it: turn {number_spans(kept)}"
        if self._chosen:
            other = "`familiar history choose` takes the source's, now one of its alternatives"
            turns = number_spans(self._chosen)
            yield f"changed in the source, and kept as you chose it: turn {turns}; {other}"

    def result(self) -> ImportedChat:
        """Return the outcome so far."""
        chat, place = self.done, self._place
        chat.channel, chat.branch_of = self._channel, place.parent
        chat.is_new, chat.is_copy = place.is_new, place.is_copy
        chat.skipped, chat.first = tuple(self._skipped), tuple(self._first)
        chat.speakers = tuple(
            SpeakerCount(
                name, role, turns, self._samples.get((name, "system"), "") if role == "note" else ""
            )
            for (name, role), turns in self._speakers.most_common(MAX_SPEAKERS)
        )
        return chat

    def _survey(self, origin: imports.ChatOrigin) -> None:
        """Match lines to turns; for a whole chat, also find the turns it no longer shows."""
        place = self._place
        if place.is_copy:
            self._verdicts = bytearray(LineMatch.there for _ in self._lines(self._channel))
            return
        if not self._chat.is_whole or (place.is_new and not place.parent):
            self._verdicts = imports.match_lines(self._history, place, self._lines(self._channel))
            return
        changed = None if self._wish.is_current else self._source.changed

        def compare() -> imports.Reconciliation:
            chat = imports.ShownChat(origin.name, self._lines(self._channel), changed)
            return imports.Reconciliation(self._history, self._place, chat)

        self._changes = compare()
        at = self._changes.parts_at
        if at is not None and self._changes.copies > _MOST_COPIES:
            self.done.notes += (_SHARED,)
        elif at is not None:
            last = self._changes.turns.get(at - 1)
            self._place = imports.part_branch(self._history, place, last.id if last else 0)
            self._changes = compare()
            self.done.notes += (_PARTED,)
        self._verdicts = self._changes.verdicts
        is_damaged = any(isinstance(line, Skip) for line in self._dated_messages())
        if not is_damaged:
            marks.withdraw_turns(self._history, self._changes.withdrawn)
            self.done.withdrawn += len(self._changes.withdrawn)

    def _finish(self, appender: imports.Appender, messages: int) -> None:
        if self._verdicts and not self._place.is_copy:
            appender.note_head()
        if self._changes and self._changes.shown:
            appender.note_shown(self._changes.shown)
        if self._chat.is_whole and messages:
            doubles = matching.doubles_of(
                self._history, self._channel, list(self._lines(self._channel))
            )
            self.done.doubles += len(marks.withdraw_turns(self._history, doubles))
        self._check_any(messages)

    def _follow(self, appender: imports.Appender, number: int, message: ForeignMessage) -> bool:
        """Store a line that belongs before the end; tell whether it was one."""
        assert self._changes
        line, old = self._incoming_line(message, self._channel), self._changes.turns.get(number)
        verdict = self._verdicts[number]
        if verdict == LineMatch.edited and old:
            is_chosen = number in self._changes.chosen
            appender.correct(old, line, stands=not is_chosen)
            self._chosen += [old.id] * is_chosen
            self.done.corrected += not is_chosen
            return True
        if verdict == LineMatch.inserted:
            latest = self._changes.latest.get(number)
            if latest:
                late = replace(line.turn, at=latest, source=HEARD)
                appender.add([replace(line, turn=late)], is_late=True)
                self.done.imported += 1
            else:
                self._skip(Skip(message.line, _SHARED, damaged=False))
            return True
        if old and number in self._changes.bare:
            self._bare.append((old.id, line))
        return False

    def _note_audience(self, first_id: int) -> None:
        """Record whose conversation it is."""
        rules, who = self._wish.rules, self._find_hearer()
        if self.done.imported and not self._has_private:
            if who is None:
                publish_chat(self._history, self._channel, first_id)
            else:
                claim_chat(self._history, self._channel, first_id, who)
        has_begun, only = only_speaker(self._history, self._channel)
        scope = rules.scope_said(self._channel, only if has_begun else NEUTRAL)
        others = [name for one, name in self._people.items() if one.slug not in rules.own]
        words = audience_words([] if scope == OWNERS else others)
        self.done.heard_by = words if scope else EVERYBODY
        self.done.is_closed = self._is_group and scope == OWNERS

    @property
    def _is_group(self) -> bool:
        """Whether several people speak, or a channel writes to many.

        A familiar's fellow characters are not people.
        """
        return len(self._people) > 1 or self._chat.is_broadcast

    def _find_hearer(self) -> Author | None:
        """Return the person to whom the chat is private; None if everybody may hear it.

        A private chat of several people is the owner's, and so is one of two people without the
        familiar, unless its source says that it is public.
        """
        if self._is_group:
            is_silent = all(role != "familiar" for _, role in self._speakers)
            is_two = is_silent and len(self._people) == _ONE_TO_ONE
            stated = self._chat.is_private
            return NEUTRAL if (is_two if stated is None else stated) else None
        who, roles = next(iter(self._people), NEUTRAL), self._chat.roles.values()
        is_mine = "person" not in roles and ("me" in roles or who.platform == PLATFORM)
        return NEUTRAL if is_mine else who

    def _role(self, message: ForeignMessage) -> SpeakerRole:
        if message.role != "user":
            return "familiar" if message.role == "assistant" else "note"
        role, who = self._chat.roles.get(message.speaker, "person"), message.author
        if message.speaker or who is None or role != "person":
            return role
        is_mine = who.platform == PLATFORM or who.slug in self._wish.rules.own
        return "me" if is_mine else "person"

    def _arrival(self) -> matching.Arrival:
        names = self._chat.channels
        return matching.Arrival(
            self._chat.key,
            self._chat.format,
            self._chat.name,
            self._chat.parent,
            lambda: self._lines(names[0]),
            self._wish.channel,
            lambda: chain(names, (f"{names[0]}-{number}" for number in count(2))),
            self._wish.names,
            self._chat.is_apart,
        )

    def _dated_messages(self) -> Iterator[ForeignMessage | Skip]:
        return date_messages(self._chat.messages(), self._source.changed)

    def _lines(self, channel_id: str) -> Iterator[matching.IncomingLine]:
        for line in self._dated_messages():
            if isinstance(line, ForeignMessage):
                yield self._incoming_line(line, channel_id)

    def _take(self, message: ForeignMessage, verdict: matching.LineMatch) -> None:
        if verdict is LineMatch.new:
            self._waiting.append(message)
            self._waiting_chars += len(message.raw)
        else:
            self._count(message, verdict)

    def _count(self, message: ForeignMessage, verdict: matching.LineMatch) -> None:
        chat = self.done
        if verdict is LineMatch.new:
            chat.imported += 1
            chat.estimated_times += message.estimated
            chat.hidden += message.hidden
            return
        chat.already_there += verdict in (LineMatch.there, LineMatch.details_changed)
        chat.changed += verdict is LineMatch.edited
        chat.inserted += verdict is LineMatch.inserted
        if verdict in _REASONS:
            self._skip(Skip(message.line, _REASONS[verdict], damaged=False))

    def _skip(self, skip: Skip) -> None:
        self.done.skipped_count += 1
        self.done.damaged += skip.damaged
        if len(self._skipped) < MAX_NAMED:
            self._skipped.append(skip)

    def _write(self, appender: imports.Appender) -> None:
        if self._bare:  # first, to make sure that the channel ends with a line of the chat
            appender.describe(self._bare)
            self._bare = []
        verdicts = [LineMatch.new] * len(self._waiting)
        if self._is_group and not self._has_private:  # it would be public until its end is reached
            appender.hearer = self._find_hearer()
        if self._waiting:
            verdicts = appender.add([self._incoming_line(m, self._channel) for m in self._waiting])
        for message, verdict in zip(self._waiting, verdicts, strict=True):
            self._count(message, verdict)
        self._waiting, self._waiting_chars = [], 0

    def _check_any(self, messages: int) -> None:
        if messages or not self._skipped:
            return
        first = self._skipped[0]
        is_part = self._chat.name != self._source.stem
        where, of_it = (f" of {self._chat.name!r}", " of that chat") if is_part else ("", "")
        raise errors.BadInputError(
            f"{self._source.name!r} has no readable message{where}: line {first.line}: "
            f"{first.reason}; nothing{of_it} was imported"
        )

    def _incoming_line(self, message: ForeignMessage, channel_id: str) -> matching.IncomingLine:
        assert message.at is not None
        turn = Turn(
            id=0,
            channel_id=channel_id,
            author=message.author,
            role=message.role,
            content=kept_words(message.text),
            at=message.at,
            modality=message.modality,
            source=SERVED if self._wish.is_current else IMPORTED,
            partial=message.partial,
            hidden=message.hidden,
            one_to_one=NEUTRAL if message.is_owners else None,
        )
        return matching.IncomingLine(
            turn,
            message.fingerprint,
            message.estimated,
            message.raw,
            tuple(map(kept_words, message.others)),
            message.message_id,
            names_speaker=bool(message.speaker) or message.role != "user",
        )


_MEND: Final = "Fix those and run the same command again; nothing is imported twice."
_NEVER_REWRITTEN: Final = (
    "Turns are never rewritten. `familiar hear --at TIME` adds a message at its time."
)


class NotImported(Struct, frozen=True):
    """A file, or a chat in one, that was not imported.

    Args:
        file: The file.
        error: Why.
        is_other: Whether it is a readable file of another kind, as an export has beside its chats.
    """

    file: str
    error: errors.FamiliarError
    is_other: bool = False


class ImportedChats(Struct, frozen=True):
    """Result of an import.

    Args:
        chats: The result for each chat, earliest start first.
        failed: What was not imported.
        passed_over: Other files of a directory, which are not chats.
        memories: What programs noted in the chats, with the file of each; not imported.
    """

    chats: tuple[ImportedChat, ...]
    failed: tuple[NotImported, ...]
    passed_over: tuple[NotImported, ...] = ()
    memories: tuple[tuple[str, ForeignMemories], ...] = ()

    @property
    def problem(self) -> errors.FamiliarError | None:
        """The error if the import is incomplete, else None."""
        if self.failed and not self.chats:
            return self.failed[0].error
        damaged = sum(chat.damaged for chat in self.chats)
        changed = sum(chat.changed for chat in self.chats)
        inserted = sum(chat.inserted for chat in self.chats)
        what = [f"{len(self.failed)} not imported"] if self.failed else []
        what += [f"{_text_lines(damaged, 'damaged ')} left out"] if damaged else []
        what += [f"{_text_lines(changed, 'changed ')} left as imported before"] if changed else []
        what += [f"{_text_lines(inserted)} between imported ones left out"] if inserted else []
        if not what:
            return None
        return errors.PartialError(
            f"Not everything was imported: {', '.join(what)}",
            hint=_MEND if self.failed or damaged else _NEVER_REWRITTEN,
        )


def import_chats(
    history: HistoryStore,
    path: Path | None,
    wish: ChatImportOptions,
    on_progress: OnProgress = lambda _name, _lines: None,
) -> ImportedChats:
    """Import the chats of a file, or of all files below a directory.

    Existing turns are not added again, so an interrupted import can simply be repeated.

    Args:
        path: The file or directory; None: standard input.
        wish: Import options.
        on_progress: Called with a chat's name and the number of lines done.

    Raises:
        NotFoundError: `path` does not exist, or contains no chat.
        UsageError: All chats of a directory were to go into one channel.
        FamiliarError: The history cannot be used.
    """
    if path is not None and path.is_dir() and is_data_folder(path):
        raise recognise_instead("chat", path) or errors.BadInputError(
            f"{str(path)!r} holds no chats"
        )
    over: list[NotImported] = []
    if wish.channel and path is not None and path.is_dir():
        raise errors.UsageError(
            "`--channel` cannot be used with a directory: each chat gets its own channel",
            hint="Omit `--channel`, or import a single file.",
        )
    with ExitStack() as stack:
        place = path
        if path is not None and is_archive(path):
            place = unpack_archive(path, stack)
            copies = dict.fromkeys(map(str, place.rglob("*")), str(path))
            wish = replace(wish, typed={**copies, **wish.typed})
        files, closed = _chat_files(place)
        found = _find_chats(((file, wish.reading) for file in files), stack)
        found.failed.extend(closed)
        if place is not None and place.is_dir():
            over = [one for one in found.failed if one.is_other]
            found.failed = [one for one in found.failed if one not in over]
        if over and not found.chats and not found.failed:
            raise errors.NotFoundError(
                f"No chats below {str(path)!r}: {over[0].error}", hint=over[0].error.hint
            )
        if wish.channel and len(found.chats) > 1:
            raise errors.UsageError(
                f"{found.chats[0][0].name!r} holds {len(found.chats)} chats, which cannot share a "
                "channel",
                hint="Omit `--channel`: each chat gets its own channel.",
            )
        with lend_history(history, is_trial=wish.dry_run) as where:
            bring = _bring_in(where, found, wish, on_progress)
            return replace(bring, passed_over=tuple(over))


def import_chat_files(
    history: HistoryStore,
    files: Iterable[tuple[Path, Reading]],
    wish: ChatImportOptions,
    on_progress: OnProgress = lambda _name, _lines: None,
) -> ImportedChats:
    """Import chats like `import_chats`, with reading options for each file.

    Raises:
        FamiliarError: The history cannot be used.
    """
    with ExitStack() as stack:
        return _bring_in(history, _find_chats(files, stack), wish, on_progress)


def find_questions(path: Path | None, reading: Reading) -> list[errors.Question]:
    """Return the questions whose the one-to-one chats are of which nobody said it, each once."""
    files, _ = _chat_files(path)
    with ExitStack() as stack:
        chats = _find_chats(((file, reading) for file in files), stack).chats
    strangers = {fold(chat.stranger.label): chat.stranger for _, chat in chats if chat.stranger}
    return [_question_of(who) for who in strangers.values()]


def _question_of(who: Author) -> errors.Question:
    name = one_line(who.label)
    return WHOSE, (
        (f"me:{who.label}", f"{name} is you; only you will see this chat"),
        (f"other:{who.label}", f"{name} is somebody else; only {name} and you will see it"),
    )


def _ask_whose(source: ForeignFile, who: Author, wish: ChatImportOptions) -> errors.UsageError:
    """Build the error for a one-to-one chat of which nobody said whose it is."""
    name, account = one_line(who.label), f"{who.platform}:{who.user_id}"
    reading = wish.reading
    options = [("--channel", wish.channel), ("--format", reading.format)]
    options += [("--dates", reading.dates or ""), ("--year", str(reading.year or ""))]
    names = reading.cast.character
    options += [("--character", name) for name in names]
    if reading.cast.unnamed in {"others", "nobody"}:
        options.append(("--character", NO_CHARACTER))
    file = wish.typed.get(source.name, "-" if source.name == STDIN else source.name)
    words = [wish.command, typed(file)]
    command = " ".join([*words, *(f"{option} {typed(text)}" for option, text in options if text)])
    error = errors.UsageError(
        f"{name!r} speaks in {STDIN if file == '-' else file!r}, and it is unknown whether that "
        "is you; nothing was imported",
        hint=f"If it is: `{command} --me {typed(name)}`; only you will see it. If not: "
        f"`{command} --as {typed(account)}`; only {name} and you will see it.",
    )
    error.question = _question_of(who)
    return error


def _bring_in(
    history: HistoryStore, files: _ChatsInFiles, wish: ChatImportOptions, on_progress: OnProgress
) -> ImportedChats:
    """Import chats in chronological order; a failure does not stop the others."""
    done: list[ImportedChat] = []
    failed = list(files.failed)
    wish = replace(wish, names=frozenset(chat.name for _, chat in files.chats))
    for source, chat in _in_order(files.chats):
        if chat.stranger:
            failed.append(NotImported(source.name, _ask_whose(source, chat.stranger, wish)))
            continue
        bringing = ChatImport(history, source, chat, wish, on_progress)
        try:
            try:
                bringing.run()
            except errors.RefusedError as error:
                # A plain RefusedError means that the channel has grown; others are subclasses.
                if not wish.aside or type(error) is not errors.RefusedError:
                    raise
                bringing = ChatImport(history, source, chat, wish, on_progress)
                bringing.run(aside=True)
        except errors.FamiliarError as error:
            failed.append(NotImported(source.name, error))
            if bringing.done.imported:
                done.append(bringing.result())
            if isinstance(error, errors.LockedError):  # it would affect the others, too
                break
        else:
            done.append(bringing.result())
    return ImportedChats(tuple(done), tuple(failed), memories=tuple(files.memories))


def _chat_files(path: Path | None) -> tuple[list[Path | None], list[NotImported]]:
    """Return the files to read, and those and the directories that are not read."""
    if path is None or not path.is_dir():
        return [path], []
    closed: list[NotImported] = []

    def note(error: OSError) -> None:
        reason = errors.FamiliarError(f"{error.filename!r} cannot be read: {error.strerror}")
        closed.append(NotImported(str(error.filename), reason))

    paths = [Path(here, name) for here, _, names in os.walk(path, onerror=note) for name in names]
    suffixes = SUFFIXES | TEXT_SUFFIXES
    chats = sorted(file for file in paths if file.suffix.lower() in suffixes)
    if not chats and not closed:
        raise errors.NotFoundError(
            f"No chats below {str(path)!r}: no file ends in {', '.join(sorted(suffixes))}"
        )
    rest = sorted(file for file in paths if file.suffix.lower() not in suffixes)
    shown = [file for file in rest if not any(p[0] == "." for p in file.relative_to(path).parts)]
    reason = errors.BadInputError("files of this type hold no chats")
    return [*chats], closed + [NotImported(str(file), reason, is_other=True) for file in shown]


class _ChatsInFiles(Struct):
    """The chats in files, the files or parts that contain none, and what is noted in the chats."""

    chats: list[tuple[ForeignFile, ForeignChat]] = field(default_factory=list)
    failed: list[NotImported] = field(default_factory=list)
    memories: list[tuple[str, ForeignMemories]] = field(default_factory=list)


def _find_chats(files: Iterable[tuple[Path | None, Reading]], stack: ExitStack) -> _ChatsInFiles:
    every = _ChatsInFiles()
    for file, reading in files:
        name = STDIN if file is None else str(file)
        try:
            with taken_for("chat", file):
                source = stack.enter_context(as_source(file))
                for chat in read_chats(source, reading):
                    if isinstance(chat, ForeignChat):
                        every.chats.append((source, chat))
                    elif isinstance(chat, ForeignMemories):
                        every.memories.append((name, chat))
                    else:
                        every.failed.append(NotImported(name, _bad_part(name, chat)))
        except errors.FamiliarError as error:
            every.failed.append(NotImported(name, error, _is_other(file, error)))
    return every


@contextmanager
def lend_history(history: HistoryStore, *, is_trial: bool) -> Iterator[HistoryStore]:
    """Yield the history, or for a trial a temporary copy of it."""
    if not is_trial:
        yield history
        return
    with tempfile.TemporaryDirectory(prefix="familiar-") as scratch:
        copy = history.copy_to(Path(scratch) / "history.db")
        try:
            yield copy
        finally:
            copy.close()


def _in_order(
    chats: list[tuple[ForeignFile, ForeignChat]],
) -> list[tuple[ForeignFile, ForeignChat]]:
    """Sort chats by their start, but branches after their parents."""
    ordered: dict[int, tuple[ForeignFile, ForeignChat]] = {}
    by_name = {(Path(source.name).parent, chat.name): (source, chat) for source, chat in chats}
    for found in sorted(chats, key=_sort_key):
        line = [found]
        while (above := _parent_of(line[-1], by_name)) and id(above[1]) not in ordered:
            if above in line:  # each claims to have branched off the other
                break
            line.append(above)
        for one in reversed(line):
            ordered.setdefault(id(one[1]), one)
    return list(ordered.values())


def _parent_of(
    found: tuple[ForeignFile, ForeignChat],
    by_name: Mapping[tuple[Path, str], tuple[ForeignFile, ForeignChat]],
) -> tuple[ForeignFile, ForeignChat] | None:
    """Return the chat that another one branched off, if it is in the same import."""
    source, chat = found
    return by_name.get((Path(source.name).parent, chat.parent)) if chat.parent else None


def _is_other(file: Path | None, error: errors.FamiliarError) -> bool:
    """Tell whether a file can be read, and nothing in it is a chat."""
    if file is None or not isinstance(error, errors.BadInputError):
        return False
    if file.suffix.lower() in TEXT_SUFFIXES:
        return True
    try:
        with as_source(file) as source:
            return source.value is not None and not recognise(source, "chat")
    except errors.FamiliarError:  # as has been said
        return False


def _text_lines(count: int, kind: str = "") -> str:
    return f"{count} {kind}line{'s' if count > 1 else ''}"


def _bad_part(name: str, part: Skip) -> errors.FamiliarError:
    return errors.BadInputError(f"Conversation {part.line} of {name!r} was left out: {part.reason}")


def _sort_key(found: tuple[ForeignFile, ForeignChat]) -> tuple[datetime, int, str]:
    """Return the sort key of a chat; among copies, the shortest name is the original."""
    source, chat = found
    return chat.began or datetime.max.replace(tzinfo=UTC), len(chat.name), source.name
