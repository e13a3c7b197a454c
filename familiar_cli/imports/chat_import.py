"""One chat on its way into the history: what of it is new, and what became of the rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import BadInputError
from familiar_cli.history import store
from familiar_cli.history.imports import Appender, ChatOrigin, Reconciliation, ShownChat, survey
from familiar_cli.history.matching import (
    SERVED,
    Arrival,
    ChatPlacement,
    IncomingLine,
    LineMatch,
    branching,
    doubles_of,
    kept_words,
    placed,
)
from familiar_cli.history.rows import HEARD, IMPORTED, Turn
from familiar_cli.history.selection import publish_chat
from familiar_cli.imports.chat_times import dated
from familiar_cli.imports.foreign_chat import PLATFORM, TITLES, ForeignMessage, Reading, Skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from familiar_cli.history.store import HistoryStore
    from familiar_cli.imports.foreign_chat import ChatFile, ForeignChat, SpeakerRole

    OnProgress = Callable[[str, int], None]

MAX_SPEAKERS: Final = 100
"""Speakers of one chat that are named."""

_FIRST_SHOWN: Final = 3
MAX_NAMED: Final = 10_000
"""Lines of one chat that are named when they are left out; the others are counted."""

_BATCH: Final = 5_000  # turns that are written in one transaction
_BATCH_CHARS: Final = 8_000_000
_REASONS: Final = {
    LineMatch.edited: "it has changed since it was imported; the imported text is kept",
    LineMatch.inserted: "it is new between lines already imported; turns are only added at the end",
    LineMatch.details_changed: "its swipes or details have changed since it was imported; the "
    "imported ones are kept",
}
_SHARED: Final = "it differs from the chat that this one left; the turns that both share stay"


@dataclass(frozen=True, slots=True)
class ImportedChat:
    """What became of one chat.

    Args:
        file: Its file.
        name: What its source calls it.
        format: Its format.
        channel: The channel that it is in.
        imported: How many turns were added, or would be.
        already_there: How many were there before.
        skipped: Lines that were left out; at most `MAX_NAMED`.
        skipped_count: How many were left out.
        damaged: How many of them are no messages.
        changed: How many of them are there in other words.
        inserted: How many of them came in between turns that are there.
        corrected: How many turns have another wording now, as their lines do.
        withdrawn: How many turns the chat does not show any more.
        doubles: How many live turns of another channel were withdrawn: the chat has them all.
        estimated_times: How many added turns have a time that is a guess.
        hidden: How many added turns no model is shown.
        aside: How many messages of other branches are kept beside the turns.
        branch_of: The channel that its channel branched off now; empty: none.
        is_new: Its channel is new.
        is_copy: The channel holds all of it, under another name.
        taken_for: What the file was taken for.
        speakers: Who speaks in it, the most talkative first.
        first: Its first messages.
        notes: What a person should know of how it was read.
    """

    file: str
    name: str
    format: str
    channel: str
    imported: int
    already_there: int
    skipped: tuple[Skip, ...]
    skipped_count: int
    damaged: int
    changed: int
    inserted: int
    estimated_times: int
    hidden: int
    aside: int
    taken_for: str
    speakers: tuple[SpeakerCount, ...]
    first: tuple[ForeignMessage, ...]
    notes: tuple[str, ...]
    branch_of: str = ""
    is_new: bool = False
    is_copy: bool = False
    corrected: int = 0
    withdrawn: int = 0
    doubles: int = 0


@dataclass(frozen=True, slots=True)
class SpeakerCount:
    """Somebody who speaks in a chat.

    Args:
        name: What the chat calls them; empty: nobody speaks, the program tells something.
        role: Who that is.
        turns: How many messages are theirs.
    """

    name: str
    role: SpeakerRole
    turns: int


@dataclass(frozen=True, slots=True)
class ChatImportOptions:
    """How chats are to be imported.

    Args:
        reading: How files are read.
        channel: The channel; empty: each chat's own.
        dry_run: Write nothing.
        names: What all chats are called that are brought in together.
        aside: A chat that grew, though its channel went on here, goes on in a branch.
        is_current: The chats are as they are at this moment; a file may be older than what is kept.
    """

    reading: Reading = field(default_factory=Reading)
    channel: str = ""
    dry_run: bool = False
    names: frozenset[str] = frozenset()
    aside: bool = False
    is_current: bool = False


class Bringing:
    """Brings one chat in.

    Args:
        history: The history.
        source: The chat's file.
        chat: The chat.
        wish: How it is to be imported.
        on_progress: Told how many lines are done.
    """

    def __init__(
        self,
        history: HistoryStore,
        source: ChatFile,
        chat: ForeignChat,
        wish: ChatImportOptions,
        on_progress: OnProgress,
    ) -> None:
        self.imported = 0
        self._history = history
        self._source = source
        self._chat = chat
        self._wish = wish
        self._on_progress = on_progress
        self._channel = wish.channel
        self._place = ChatPlacement(wish.channel)
        self._verdicts = bytearray()
        self._changes: Reconciliation | None = None
        self._bare: list[tuple[int, IncomingLine]] = []
        self._waiting: list[ForeignMessage] = []
        self._waiting_chars = 0
        self._counts: Counter[str] = Counter()
        self._skipped: list[Skip] = []
        self._speakers: Counter[tuple[str, SpeakerRole]] = Counter()
        self._first: list[ForeignMessage] = []
        self._people: set[tuple[str, str]] = set()

    def run(self, *, aside: bool = False) -> None:
        """Write down what is new, batch by batch.

        Args:
            aside: In a new branch, after the last line that is known.

        Raises:
            RefusedError: The channel goes on after the first new line was said.
            FamiliarError: The history cannot be used.
        """
        find = branching if aside else placed
        self._place = find(self._history, self._arrival())
        self._channel = self._place.channel_id
        origin = ChatOrigin(self._key(), self._chat.format, self._chat.name, self._chat.head())
        appender = Appender(self._history, self._place, origin)
        self._survey(origin)
        number, before = -1, self._history.newest_id()
        for found in self._found():
            if isinstance(found, Skip):
                self._skip(found)
                continue
            number += 1
            self._speakers[found.speaker, self._role(found)] += 1
            if found.author:
                self._people.add((found.author.platform, found.author.user_id))
            if len(self._first) < _FIRST_SHOWN:
                self._first.append(found)
            verdict = self._verdicts[number] if number < len(self._verdicts) else LineMatch.new
            if not (self._changes and self._follow(appender, number, found)):
                self._take(found, LineMatch(verdict))
            if len(self._waiting) >= _BATCH or self._waiting_chars > _BATCH_CHARS:
                self._write(appender)
            if number % _BATCH == 0:
                self._on_progress(self._chat.name, number)
        self._write(appender)
        if self.imported and not self._is_one_to_one():
            publish_chat(self._history, self._channel, before + 1)
        self._finish(appender, number + 1)

    def result(self) -> ImportedChat:
        """Return what became of the chat so far."""
        return ImportedChat(
            file=self._source.name,
            name=self._chat.name,
            format=self._chat.format,
            channel=self._channel,
            imported=self.imported,
            already_there=self._counts[LineMatch.there.name]
            + self._counts[LineMatch.details_changed.name],
            skipped=tuple(self._skipped),
            skipped_count=self._counts["skipped"],
            damaged=self._counts["damaged"],
            changed=self._counts[LineMatch.edited.name],
            inserted=self._counts[LineMatch.inserted.name],
            corrected=self._counts["corrected"],
            withdrawn=self._counts["withdrawn"],
            doubles=self._counts["doubles"],
            estimated_times=self._counts["estimated"],
            hidden=self._counts["hidden"],
            aside=self._chat.aside,
            branch_of=self._place.parent,
            is_new=self._place.is_new,
            is_copy=self._place.is_copy,
            taken_for=self._chat.kind or TITLES[self._chat.format],
            speakers=tuple(
                SpeakerCount(name, role, turns)
                for (name, role), turns in self._speakers.most_common(MAX_SPEAKERS)
            ),
            first=tuple(self._first),
            notes=self._chat.notes,
        )

    def _survey(self, origin: ChatOrigin) -> None:
        """Match lines to turns; of a whole chat, also find the turns it no longer shows."""
        place = self._place
        if not self._chat.is_whole or place.is_copy or (place.is_new and not place.parent):
            self._verdicts = survey(self._history, place, self._lines())
            return
        changed = None if self._wish.is_current else self._source.changed
        shown = ShownChat(origin.name, self._lines(), changed)
        self._changes = Reconciliation(self._history, place, shown)
        self._verdicts = self._changes.verdicts
        is_damaged = any(isinstance(found, Skip) for found in self._found())
        if not is_damaged:
            store.withdraw(self._history, self._changes.withdrawn)
            self._counts["withdrawn"] += len(self._changes.withdrawn)

    def _finish(self, appender: Appender, messages: int) -> None:
        if self._verdicts and not self._place.is_copy:
            appender.note_head()
        if self._chat.is_whole and messages:
            doubles = doubles_of(self._history, self._channel, list(self._lines()))
            self._counts["doubles"] += len(store.withdraw(self._history, doubles))
        self._check_any(messages)

    def _follow(self, appender: Appender, number: int, message: ForeignMessage) -> bool:
        """Save a line that is not at the end; tell whether it was one."""
        assert self._changes
        line, old = self._incoming(message, self._channel), self._changes.turns.get(number)
        verdict = self._verdicts[number]
        if verdict == LineMatch.edited and old:
            appender.correct(old, line)
            self._counts["corrected"] += 1
            return True
        if verdict == LineMatch.inserted:
            latest = self._changes.latest.get(number)
            if latest:
                late = replace(line.turn, at=latest, source=HEARD)
                appender.add([replace(line, turn=late)], is_late=True)
                self.imported += 1
            else:
                self._skip(Skip(message.line, _SHARED, damaged=False))
            return True
        if old and number in self._changes.bare:
            self._bare.append((old.id, line))
        return False

    def _is_one_to_one(self) -> bool:
        """Tell whether a single person with an account of their own speaks in the chat.

        Somebody who is known by a name alone is whoever brings the chat.
        """
        return len(self._people) == 1 and all(platform != PLATFORM for platform, _ in self._people)

    def _role(self, message: ForeignMessage) -> SpeakerRole:
        if message.role != "user":
            return "familiar" if message.role == "assistant" else "note"
        return self._chat.roles.get(message.speaker, "person")

    def _arrival(self) -> Arrival:
        names = self._chat.channels

        def channels() -> Iterator[str]:
            return chain(names, (f"{names[0]}-{number}" for number in count(2)))

        def lines() -> Iterator[IncomingLine]:
            found = (message for message in self._found() if isinstance(message, ForeignMessage))
            return (self._incoming(message, names[0]) for message in found)

        return Arrival(
            self._chat.key,
            self._chat.format,
            self._chat.name,
            self._chat.parent,
            lines,
            self._wish.channel,
            channels,
            self._wish.names,
            self._chat.is_apart,
        )

    def _key(self) -> str:
        own = f"{self._chat.format}:{self._channel}:{self._chat.name}"
        return self._chat.key or own

    def _found(self) -> Iterator[ForeignMessage | Skip]:
        return dated(self._chat.messages(), self._source.changed)

    def _lines(self) -> Iterator[IncomingLine]:
        for found in self._found():
            if isinstance(found, ForeignMessage):
                yield self._incoming(found, self._channel)

    def _take(self, message: ForeignMessage, verdict: LineMatch) -> None:
        if verdict is LineMatch.new:
            self._waiting.append(message)
            self._waiting_chars += len(message.raw)
        else:
            self._count(message, verdict)

    def _count(self, message: ForeignMessage, verdict: LineMatch) -> None:
        self._counts[verdict.name] += 1
        if verdict is LineMatch.new:
            self.imported += 1
            self._counts["estimated"] += message.estimated
            self._counts["hidden"] += message.hidden
        elif verdict in _REASONS:
            self._skip(Skip(message.line, _REASONS[verdict], damaged=False))

    def _skip(self, skip: Skip) -> None:
        self._counts["skipped"] += 1
        self._counts["damaged"] += skip.damaged
        if len(self._skipped) < MAX_NAMED:
            self._skipped.append(skip)

    def _write(self, appender: Appender) -> None:
        if self._bare:  # first, so that the channel is known to end with a line of the chat
            appender.describe(self._bare)
            self._bare = []
        verdicts = [LineMatch.new] * len(self._waiting)
        if self._waiting:
            verdicts = appender.add([self._incoming(m, self._channel) for m in self._waiting])
        for message, verdict in zip(self._waiting, verdicts, strict=True):
            self._count(message, verdict)
        self._waiting, self._waiting_chars = [], 0

    def _check_any(self, messages: int) -> None:
        if messages or not self._skipped:
            return
        first = self._skipped[0]
        raise BadInputError(
            f"{self._source.name!r} has no readable message: line {first.line}: "
            f"{first.reason}; nothing was imported"
        )

    def _incoming(self, message: ForeignMessage, channel_id: str) -> IncomingLine:
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
        )
        return IncomingLine(
            turn,
            message.fingerprint,
            message.estimated,
            message.raw,
            tuple(map(kept_words, message.others)),
            message.message_id,
            names_speaker=bool(message.speaker) or message.role != "user",
        )
