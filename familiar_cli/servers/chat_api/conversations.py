"""Find the stored conversation of a request, and what has to be stored before the reply."""

from __future__ import annotations

import re
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import takewhile
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.actions.talk.change_turns import EDIT, edit_turn
from familiar_cli.actions.talk.served_log import SOURCE
from familiar_cli.base.files import remove
from familiar_cli.base.sqlite import connect_derived, is_useless, transaction
from familiar_cli.base.text import digest_of
from familiar_cli.base.times.clock import elapsed_s, now, to_ms
from familiar_cli.base.who.identity import MAX_ID_CHARS, Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.context.types import Said, Spoken
from familiar_cli.familiar import Familiar
from familiar_cli.imports.cast import SILLY_TAVERN, known_names
from familiar_cli.servers.api_errors import ApiError
from familiar_cli.servers.chat_api.aligning import KeptLine, Placement, RequestLine, align_lines
from familiar_cli.servers.chat_api.threads import KIND as THREAD
from familiar_cli.store.history import marks
from familiar_cli.store.history.rows import IMPORTED, Role, Turn, place_of
from familiar_cli.store.history.same_message import are_alike, normal_words
from familiar_cli.store.history.schema import translate_errors
from familiar_cli.store.history.selection import TurnFilter, newest_turns, turns_from
from familiar_cli.store.history.store import GREETING, HistoryStore, reply_to_turn, turn_of_message

_VERSION: Final = 2
_BEGINNING: Final = 60  # characters of a reply
_BATCH: Final = 2_000
_MOST: Final = 50  # rows per text; "Hello" occurs in many conversations
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS lines (turn_id INTEGER PRIMARY KEY, key INTEGER, channel_id TEXT);
CREATE INDEX IF NOT EXISTS lines_by_key ON lines (key, turn_id);
"""


class LineFinder:
    """Finds the channels in which something was said. Thread-safe.

    Args:
        history: The history from which it is derived.
    """

    def __init__(self, path: Path, history: HistoryStore) -> None:
        self._path = path
        self._history = history
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def channels(self, lines: Sequence[RequestLine]) -> list[str]:
        """List the channels that contain any of these lines, most recent first.

        Raises:
            FamiliarError: The disk is full or read-only.
        """
        with self._lock, translate_errors(self._path):
            try:
                return self._find_turns(lines)
            except sqlite3.DatabaseError as error:
                if not is_useless(error):
                    raise
                self._forget()  # it is made again
                return self._find_turns(lines)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection:
                self._connection.close()
                self._connection = None

    def _find_turns(self, lines: Sequence[RequestLine]) -> list[str]:
        connection = self._open_table()
        self._catch_up(connection)
        sql = "SELECT turn_id, channel_id FROM lines WHERE key = ? ORDER BY turn_id DESC LIMIT ?"
        latest: dict[str, int] = {}
        for line in lines:
            for turn_id, channel_id in connection.execute(
                sql, (_line_hash(line.role, line.text), _MOST)
            ):
                latest[channel_id] = max(turn_id, latest.get(channel_id, 0))
        return sorted(latest, key=lambda channel_id: -latest[channel_id])

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Read the turns added since the last call."""
        (newest,) = connection.execute("SELECT coalesce(max(turn_id), 0) FROM lines").fetchone()
        while turns := turns_from(self._history, None, newest, _BATCH):
            rows = [
                (turn_id, _line_hash(role, text), channel) for turn_id, channel, role, text in turns
            ]
            with transaction(connection):
                connection.executemany("INSERT OR REPLACE INTO lines VALUES (?, ?, ?)", rows)
            newest = turns[-1][0]

    def _open_table(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = connect_derived(self._path, 5.0)
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in {0, _VERSION}:
                connection.execute("DROP TABLE IF EXISTS lines")
            connection.executescript(f"{_SCHEMA}PRAGMA user_version = {_VERSION};")
            self._connection = connection
        return self._connection

    def _forget(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None
        for end in ("", "-wal", "-shm", "-journal"):
            remove(self._path.with_name(self._path.name + end))


def _line_hash(role: str, text: str) -> int:
    """Hash the significant part of a line to an SQLite integer.

    Of a reply, only the beginning counts, since programs truncate some.
    """
    words = normal_words(text)
    if role == "assistant":
        words = words[:_BEGINNING]
    return int.from_bytes(digest_of(f"{role}\n{words}", 8), "big", signed=True)


KNOWN_FILE: Final = "served.sqlite"
_LOOKED_UP: Final = 8  # newest lines used to find their conversation
_MOST_CHANNELS: Final = 24  # that are looked at
_LEAST_TURNS: Final = 200  # of each
_FEW_TURNS: Final = 8  # of which two are a question and its reply, or the other way round
# Within this time, a repeated first message asks for another reply.
_SAME_QUESTION: Final = timedelta(hours=1)
_TRUSTED_LINES: Final = 3  # a run of this length beyond the greeting is no coincidence
_TRUSTED_PAIR_CHARS: Final = 80  # nor are two lines of this length
_KEEPING_BRANCHES: Final = ("open-webui-", "librechat-")  # points to which a person can go back
_FROM_CLIENTS: Final = frozenset({SOURCE, IMPORTED, GREETING, EDIT})
_MERGED_CHARS: Final = 20  # of a reply that a whole prompt holds with its question
_MOST_PLACES: Final = 50  # at which a message is looked for in a whole prompt
_LABEL_CHARS: Final = 64
_LABEL: Final = re.compile(r"[^\n:]{1,60}: ?(?=\S)")


class RequestConversation(Struct, frozen=True):
    """The conversation of a request.

    Args:
        channel_id: Its channel, which may be empty.
        placement: Position of the request; None for the end.
        unknown: Lines to store first if there is no placement.
        parent: The channel from which a new branch starts; None if no branch starts.
        is_correction: The lines that the branch does not share were edited or deleted in the
            program.
        words: The current message, if it was found inside a whole prompt; otherwise empty.
        is_unreadable: The message is a whole prompt, and the current message was not found in it.
    """

    channel_id: str
    placement: Placement | None = None
    unknown: tuple[RequestLine, ...] = ()
    parent: str | None = None
    is_correction: bool = False
    words: str = ""
    is_unreadable: bool = False

    @property
    def changes_history(self) -> bool:
        """Whether something must be stored before the message is said."""
        placed = self.placement
        changes = placed and (placed.unknown or placed.chosen or placed.revised)
        return bool(self.parent is not None or self.unknown or changes)


class Conversations:
    """Finds the conversations of one familiar, and prepares them for a reply.

    Args:
        known: The lines said through the server.
    """

    def __init__(self, familiar: Familiar, known: LineFinder) -> None:
        self._familiar = familiar
        self._known = known

    def find(
        self,
        lines: Sequence[RequestLine],
        author: Author,
        channel_id: str = "",
        message_id: str = "",
        *,
        kind: str = "",
    ) -> RequestConversation:
        """Find where the last of `lines` belongs.

        A message with an id is the stored message with that id, or else a new one, whatever its
        text. One without an id is the stored message with the same text and author that is followed
        by nothing but its reply.

        Args:
            lines: The request's lines; the last is the current message.
            channel_id: The conversation named by the program; empty if none.
            message_id: The message's id on its platform; empty if none.
            kind: The conversation's kind, if it is stated; who speaks in a group for the first time
                takes part in it.

        Raises:
            ApiError: The conversation is another person's.
        """
        channels = list[str]()
        if channel_id:
            self.check_own(channel_id, author, kind)
            if message_id or len(lines) > 1:  # otherwise it belongs to the end of its channel
                channels = self._family(channel_id, author)
        else:
            channels = self._candidates(lines, author, is_group=kind == THREAD)
        conversation = self._with_id(lines[-1], author, channels, message_id)
        return conversation or self._by_words(lines, author, channels, channel_id, message_id)

    def _by_words(
        self,
        lines: Sequence[RequestLine],
        author: Author,
        channels: Sequence[str],
        channel_id: str,
        message_id: str,
    ) -> RequestConversation:
        if not message_id and (merged := self._read_merged(lines, author, channel_id)):
            return merged
        best = None
        if len(lines) > 1 or not channel_id:
            best = self._best(lines, channels, is_named=bool(channel_id))
        if best is not None:
            if self._is_allowed(best[1], lines[-1], author, message_id):
                return self._settle_placement(*best)
            if channel_id or len(lines) > 1:
                return RequestConversation(best[0])
        if not channel_id:
            return RequestConversation(_new_channel(), unknown=tuple(lines[:-1]))
        kept = self._newest_lines(channel_id, lines)
        if len(lines) > 1:
            return (
                RequestConversation(channel_id)
                if kept
                else self._start_branch(lines, author, channel_id)
            )
        placement = self._at_end(lines[-1], kept)
        is_allowed = placement and self._is_allowed(placement, lines[-1], author, message_id)
        return RequestConversation(channel_id, placement if is_allowed else None)

    def past_of_turn(
        self, number: int, author: Author, kind: str = ""
    ) -> tuple[str, list[RequestLine]] | None:
        """Return the channel of a turn, and its lines up to the reply that `author` may see.

        There is none if they do not see the turn.
        """
        history = self._familiar.history
        turn = history.turn(number)
        if turn is None:
            return None
        reply = reply_to_turn(history, number, turn.channel_id)
        end = (place_of(reply) if reply else number) + 1
        viewer = self._familiar.privacy.viewer_in(turn.channel_id, author, kind)
        past = history.recent(turn.channel_id, _LEAST_TURNS, end, viewer=viewer)
        if number not in {one.id for one in past}:
            return None
        return turn.channel_id, [RequestLine(t.role, t.content, author=t.author) for t in past]

    def off_record(
        self, found: RequestConversation, said: Said, past: Sequence[RequestLine]
    ) -> Said:
        """Prepare a message that is not stored, together with the program's messages before it.

        Args:
            found: Its conversation.
            said: The message.
            past: The program's earlier messages.
        """
        placement = found.placement
        unknown = placement.unknown if placement else found.unknown
        channel_id = found.channel_id
        if found.parent is not None:  # the branch is gone, and its parent has diverged
            channel_id, unknown = _new_channel(), tuple(past)
        before = tuple(
            Spoken(line.role, line.text, said.author if line.role == "user" else None)
            for line in unknown
        )
        return replace(said, channel_id=channel_id, off_record=True, remembered=before)

    def prepare(self, found: RequestConversation, said: Said, *, is_stored: bool = False) -> Said:
        """Store the lines that only the program knows; return the message as it is to be said.

        Args:
            found: Its conversation.
            said: The message.
            is_stored: The caller stores it; otherwise it is said, which checks the speaker, too.

        Raises:
            FamiliarError: The history cannot be written.
        """
        history, placement, notices = self._familiar.history, found.placement, said.notices
        if is_stored or found.changes_history:
            notices = self._familiar.privacy.enter(found.channel_id, said.author, said.kind)
        if found.parent is not None and placement and placement.after:
            replaced = found.is_correction and self._replaced_turns(found.parent, placement.after)
            history.branch(found.channel_id, placement.after, found.parent)
            marks.withdraw_turns(history, replaced or ())
        if placement and placement.chosen:
            marks.select_alternative(history, placement.chosen, by_source=True)
        if placement and placement.revised:
            edit_turn(self._familiar, placement.revised, placement.words)
        if unknown := self._not_restored(found):
            history.append_all(_lines_as_turns(unknown, found.channel_id, said.author))
        return self._place_message(said, found, notices)

    def keep(self, conversation: RequestConversation, said: Said, reply: str) -> tuple[Turn, Turn]:
        """Store a message and a reply by another model; return both turns.

        Stored turns are not added again; a different reply replaces the last one.

        Raises:
            FamiliarError: The history cannot be written.
        """
        said, history = self.prepare(conversation, said, is_stored=True), self._familiar.history
        question = self._kept_line(said, "user")
        old = said.instead_of
        if old is None:
            made = history.append(
                said.channel_id, "assistant", reply, source=SOURCE, reply_to=question.id
            )
            return question, made
        if normal_words(old.content) == normal_words(reply):
            return question, old
        for turn_id, text in self._alternatives([old]).get(old.id, {}).items():
            if normal_words(text) == normal_words(reply):
                marks.select_alternative(history, turn_id, by_source=True)
                return question, history.turn(turn_id) or old
        new = replace(old, id=0, content=reply, at=to_ms(now()), source=SOURCE, partial=False)
        new = replace(new, reply_to=question.id)
        return question, marks.supersede_turn(history, old, new, by_source=True)

    def keep_line(self, conversation: RequestConversation, said: Said, role: Role) -> Turn:
        """Store a line that does not reply to the one before it; return its turn.

        Raises:
            FamiliarError: The history cannot be written.
        """
        return self._kept_line(self.prepare(conversation, said, is_stored=True), role)

    def _kept_line(self, said: Said, role: Role) -> Turn:
        kept = self._familiar.history.turn(said.reply_to) if said.reply_to is not None else None
        return kept or self._familiar.history.append(
            said.channel_id,
            role,
            said.text,
            author=said.author,
            source=SOURCE,
            message_id=said.message_id,
        )

    def _place_message(
        self, said: Said, conversation: RequestConversation, notices: tuple[str, ...]
    ) -> Said:
        placement, channel_id = conversation.placement, conversation.channel_id
        if placement is None or placement.step in {"say", "branch"}:
            return replace(said, channel_id=channel_id, notices=notices)
        reply = placement.reply and self._familiar.history.turn(placement.reply)
        return replace(
            said,
            channel_id=channel_id,
            notices=notices,
            reply_to=placement.question,
            instead_of=reply or None,
        )

    def _start_branch(
        self, lines: Sequence[RequestLine], author: Author, channel_id: str
    ) -> RequestConversation:
        """Start a branch of the conversation that holds the request's past, if there is one."""
        best = self._best(lines, self._candidates(lines, author))
        if best is None or best[1].after is None:
            return RequestConversation(channel_id, unknown=tuple(lines[:-1]))
        parent, placement = best
        unknown = tuple(lines[placement.common : -1])
        placement = replace(placement, step="branch", unknown=unknown, chosen=None, revised=None)
        return RequestConversation(channel_id, placement, parent=parent)

    def _family(self, channel_id: str, author: Author) -> list[str]:
        others = sorted(self._familiar.history.family(channel_id) - {channel_id})
        return [channel_id, *(name for name in others if self._is_own(name, author))]

    def _with_id(
        self, line: RequestLine, author: Author, channels: Sequence[str], message_id: str
    ) -> RequestConversation | None:
        """Find the stored message with an id; None if there is none.

        There is no placement if its text has changed since, or if more than its reply follows it.
        """
        if not message_id:
            return None
        history = self._familiar.history
        for channel_id in channels:
            turn = turn_of_message(history, channel_id, message_id, author)
            if turn is None:
                continue
            reply, last = (
                reply_to_turn(history, turn.id, channel_id),
                self._newest_lines(channel_id, ())[-1:],
            )
            if normal_words(turn.content) != normal_words(line.text):
                return RequestConversation(channel_id)
            if reply is None or reply.partial:
                broken_off = reply.id if reply else None
                answer = Placement("answer", 0, is_whole=False, question=turn.id, reply=broken_off)
                return RequestConversation(channel_id, answer)
            if not last or last[0].turn_id != reply.id:
                return RequestConversation(channel_id)
            again = Placement("again", 0, is_whole=False, question=turn.id, reply=reply.id)
            return RequestConversation(channel_id, again)
        return None

    def _is_allowed(
        self, placement: Placement, line: RequestLine, author: Author, message_id: str
    ) -> bool:
        """Tell whether a message may be the stored one at a placement."""
        if placement.step not in {"again", "answer"} or placement.question is None:
            return True
        question = self._familiar.history.turn(placement.question)
        author = line.author or author
        if message_id or question is None or question.author is None:
            return not message_id
        owner = self._familiar.me().owner(author)
        are_both_me = owner is not None and owner.is_me(question.author)
        return are_both_me or question.author.slug == author.slug

    def _at_end(self, line: RequestLine, lines: list[KeptLine]) -> Placement | None:
        """Place a message that came alone, from a program that leaves the past to this server."""
        for tail in (lines[-2:], lines[-1:]):
            placement = align_lines([line], tail) if tail else None
            if placement and placement.step in {"again", "answer"}:
                return placement
        return None

    def _best(
        self, lines: Sequence[RequestLine], channels: Sequence[str], *, is_named: bool = False
    ) -> tuple[str, Placement] | None:
        """Find the channel that contains the most of `lines`; the first of equals.

        Args:
            lines: The request's lines.
            channels: Channels to search.
            is_named: Whether the program named one of these channels.
        """
        best: tuple[tuple[int, bool, bool, str], str, Placement] | None = None
        for channel_id in channels:
            kept = self._kept_lines(channel_id, lines)
            placement = align_lines(lines, kept)
            if placement is None:
                continue
            if not is_named and not self._is_credible(placement, kept):
                continue
            # A conversation that stores the message itself shares more than one where it is new.
            step = "" if placement.step == "branch" else "1" if placement.step == "say" else "2"
            is_current = not self._was_left(channel_id, placement, lines)
            rank = (placement.common, placement.is_whole, is_current, step)
            if best is None or rank > best[0]:
                best = (rank, channel_id, placement)
        return best[1:] if best else None

    def _is_credible(self, placement: Placement, lines: Sequence[KeptLine]) -> bool:
        """Tell whether lines come from this conversation and not from a similar one.

        They reach the newest turn, or share enough beyond the greeting. Another reply to the first
        message is requested soon after it; later, the same message begins another conversation.
        """
        ids = [line.turn_id for line in lines]
        end = ids.index(placement.after) + 1 if placement.after in ids else 0
        shared = lines[end - placement.common : end]
        beyond = (
            shared[1:] if shared and shared[0] is lines[0] and _is_opening(lines[0]) else shared
        )
        chars = sum(len(line.text) for line in beyond)
        if len(beyond) >= _TRUSTED_LINES or (len(beyond) > 1 and chars >= _TRUSTED_PAIR_CHARS):
            return True
        if placement.step in {"again", "answer"} and not beyond:
            return self._is_soon(placement)
        if placement.revised is not None:
            return are_alike(placement.words, lines[end].text)
        return bool(placement.common) and placement.step != "branch"

    def _is_soon(self, placement: Placement) -> bool:
        if placement.question is None:
            return False
        question = self._familiar.history.turn(placement.question)
        return question is not None and elapsed_s(question.at) <= _SAME_QUESTION.total_seconds()

    def _settle_placement(self, channel_id: str, placement: Placement) -> RequestConversation:
        if placement.step != "branch":
            return RequestConversation(channel_id, placement)
        if placement.after is None:
            return RequestConversation(_new_channel(), unknown=placement.unknown)
        return RequestConversation(
            self._branch_of(channel_id),
            placement,
            parent=channel_id,
            is_correction=not channel_id.startswith(_KEEPING_BRANCHES),
        )

    def _replaced_turns(self, channel_id: str, after: int) -> list[int]:
        """List the turns that an edited past replaces, starting from a shared one.

        They belong to the most recently active conversation. Turns shared with a conversation that
        continued elsewhere stay, and so do other people's.
        """
        history = self._familiar.history
        pasts = [
            history.recent(name, _LEAST_TURNS, viewer=OWNER) for name in history.family(channel_id)
        ]
        current = max((past for past in pasts if past), key=lambda past: past[-1].id, default=[])
        ids = [turn.id for turn in current]
        if after not in ids:
            return []
        tail = current[ids.index(after) + 1 :]
        shared = {turn.id for past in pasts if past and past[-1].id not in ids for turn in past}
        people = {turn.author.slug for turn in tail if turn.author}
        if len(people) > 1 or not _FROM_CLIENTS.issuperset(turn.source for turn in tail):
            return []
        return [turn.id for turn in tail if turn.id not in shared]

    def _not_restored(self, conversation: RequestConversation) -> Sequence[RequestLine]:
        """Restore withdrawn lines that the request continues from; return lines not stored yet."""
        placement = conversation.placement
        lines = placement.unknown if placement else conversation.unknown
        if not lines or placement is None or placement.step != "say" or conversation.parent:
            return lines
        withdrawn = self._withdrawn(conversation.channel_id, placement)
        same = takewhile(_are_same, zip(lines, withdrawn, strict=False))
        restored = [turn.id for _, turn in same]
        marks.restore_turns(self._familiar.history, restored)
        return lines[len(restored) :]

    def _was_left(
        self, channel_id: str, placement: Placement, lines: Sequence[RequestLine]
    ) -> bool:
        """Tell whether a conversation continued elsewhere, apart from the lines."""
        if placement.step != "say" or len(self._familiar.history.family(channel_id)) == 1:
            return False
        withdrawn = self._withdrawn(channel_id, placement)
        next_line = (*placement.unknown, lines[-1])[0]
        return bool(withdrawn) and not _are_same((next_line, withdrawn[0]))

    def _withdrawn(self, channel_id: str, placement: Placement) -> list[Turn]:
        """List the withdrawn turns after the shared part of a conversation, in order."""
        history = self._familiar.history
        everything = TurnFilter(OWNER, channel_id, everything=True)
        turns = (one.turn for one in newest_turns(history, everything, _LEAST_TURNS))
        later = [turn for turn in turns if turn.id > (placement.after or 0)]
        states = marks.turn_statuses(history, [turn.id for turn in later])
        return [turn for turn in later if states[turn.id].withdrawn]

    def _branch_of(self, channel_id: str) -> str:
        """Make an id for a branch from the id of the original conversation."""
        parents = {branch.channel_id: branch.parent for branch in self._familiar.history.branches()}
        seen = {channel_id}
        while (parent := parents.get(channel_id)) and parent not in seen:
            channel_id = parent
            seen.add(channel_id)
        return f"{channel_id[: MAX_ID_CHARS - 7]}-{secrets.token_hex(3)}"

    def _candidates(
        self, lines: Sequence[RequestLine], author: Author, *, is_group: bool = False
    ) -> list[str]:
        looked_up = lines[-1 - _LOOKED_UP : -1] or lines[-1:]
        result: dict[str, None] = {}
        for channel_id in self._known.channels(looked_up):
            result[channel_id] = None
            result.update(dict.fromkeys(sorted(self._familiar.history.family(channel_id))))
            if len(result) >= _MOST_CHANNELS:
                break
        fits = self._is_own if is_group else self._takes_part
        return [name for name in result if fits(name, author)]

    def _takes_part(self, channel_id: str, author: Author) -> bool:
        """Tell whether an unnamed conversation may be a person's.

        It is if they spoke there. Imported conversations and those without named speakers are an
        owner's.
        """
        if not self._is_own(channel_id, author):
            return False
        authors = self.people(channel_id)
        if not authors or author.slug in {known.slug for known in authors}:
            return True
        owner = self._familiar.me().owner(author)
        if owner is None:
            return False
        last = self._familiar.history.recent(channel_id, 1, viewer=OWNER)[-1:]
        return any(map(owner.is_me, authors)) or any(turn.source == IMPORTED for turn in last)

    def _newest_lines(self, channel_id: str, lines: Sequence[RequestLine]) -> list[KeptLine]:
        """Return at least the two newest lines of a channel, if it has as many."""
        kept = self._kept_lines(channel_id, lines, _FEW_TURNS)
        return kept if len(kept) > 1 else self._kept_lines(channel_id, lines)

    def _kept_lines(
        self, channel_id: str, lines: Sequence[RequestLine], limit: int = 0
    ) -> list[KeptLine]:
        limit = limit or max(_LEAST_TURNS, 2 * len(lines))
        said = {line.role for line in lines}
        turns = self._familiar.history.recent(channel_id, limit, viewer=OWNER)
        turns = [turn for turn in turns if turn.role in {"user", "assistant", *said}]
        others = self._alternatives(turns[-1:]) if turns and turns[-1].role in said else {}
        return [
            KeptLine(
                turn.id,
                turn.role,
                turn.content,
                others.get(turn.id, {}),
                is_greeting=turn.source == GREETING,
            )
            for turn in turns
        ]

    def _alternatives(self, turns: Sequence[Turn]) -> dict[int, dict[int, str]]:
        history, result = self._familiar.history, {}
        for turn_id, state in marks.turn_statuses(history, [turn.id for turn in turns]).items():
            others = [history.turn(other) for other in state.alternatives if other != turn_id]
            result[turn_id] = {other.id: other.content for other in others if other}
        return result

    def people(self, channel_id: str) -> list[Author]:
        """Return those who spoke in a channel, as far as its newest turns show."""
        history = self._familiar.history
        return history.recent_distinct_authors(channel_id, _LEAST_TURNS, viewer=OWNER)

    def check_own(self, channel_id: str, author: Author, kind: str = "") -> None:
        """Check that somebody may get a reply in a channel.

        Args:
            kind: The conversation's kind, as stated by a program that may add people to it.

        Raises:
            ApiError: The channel is private or the owner's, and they never spoke there.
        """
        if not self._is_own(channel_id, author, kind):
            raise ApiError(
                403,
                f"Channel {channel_id!r} is private, and this speaker has never spoken there",
                code="private_channel",
            )

    def _is_own(self, channel_id: str, author: Author, kind: str = "") -> bool:
        """Tell whether somebody may see a channel's turns in a reply."""
        privacy = self._familiar.privacy
        is_barred = author.platform != SILLY_TAVERN and privacy.is_barred(channel_id, author)
        return not is_barred and privacy.is_member(channel_id, author, kind)

    def _read_merged(
        self, lines: Sequence[RequestLine], author: Author, channel_id: str
    ) -> RequestConversation | None:
        """Find the current message in a whole prompt that came as one; None if it is not one.

        A whole prompt holds a stored question with its reply. What follows the last reply is the
        current message.
        """
        text = lines[0].text
        if len(lines) > 1 or "\n" not in text.strip():  # messages have lines of their own
            return None
        last = self._familiar.history.last_turn()
        if last is None:
            return None
        for turn in reversed(self._familiar.history.since(last.id - _LEAST_TURNS, 50)):
            reply = turn.content.strip()
            at = _find_message(text, reply) if len(reply) >= _MERGED_CHARS else -1
            if turn.role != "assistant" or at < 0 or not self._takes_part(turn.channel_id, author):
                continue
            question = self._familiar.history.turn(turn.reply_to) if turn.reply_to else None
            if question is None or _find_message(text[:at], question.content.strip()) < 0:
                continue
            words = _without_label(text[at + len(reply) :].strip(), text[:at])
            channel_id = channel_id or turn.channel_id
            return RequestConversation(channel_id, words=words, is_unreadable=not words)
        return None


def _find_message(text: str, message: str) -> int:
    """Find the last place where a message has lines of its own, after at most a label; else -1."""
    at = len(text)
    for _ in range(_MOST_PLACES):
        at = text.rfind(message, 0, at + len(message) - 1)
        if at < 0:
            break
        start = text.rfind("\n", max(at - _LABEL_CHARS, 0), at) + 1
        label = _LABEL.match(text, start)
        is_begun = at == start or (label is not None and label.end() == at)
        if is_begun and text[at + len(message) :].partition("\n")[0].strip() == "":
            return at
    return -1


def _without_label(words: str, before: str) -> str:
    """Remove a speaker's label in front of a message, if the text before it has the same one."""
    label = _LABEL.match(words)
    return words[label.end() :] if label and label[0].strip() in before else words


def _lines_as_turns(
    lines: Sequence[RequestLine], channel_id: str, author: Author | None
) -> Iterator[Turn]:
    """Convert lines to consecutive turns that end now."""
    for number, line in enumerate(lines):
        who = line.author or (author if line.role == "user" else None)
        at = to_ms(now() - timedelta(milliseconds=len(lines) - number))
        yield Turn(0, channel_id, who, line.role, line.text, at, "text", SOURCE, partial=False)


def _new_channel() -> str:
    return f"serve-{now():%Y%m%d}-{secrets.token_hex(4)}"


def _are_same(pair: tuple[RequestLine, Turn]) -> bool:
    line, turn = pair
    return line.role == turn.role and normal_words(line.text) == normal_words(turn.content)


def _is_opening(line: KeptLine) -> bool:
    return line.is_greeting or line.role == "assistant"


class ServedFamiliar:
    """A familiar that is open for chat programs, with its conversations."""

    def __init__(self, familiar: Familiar) -> None:
        self.familiar = familiar
        self._known = LineFinder(familiar.paths.root / KNOWN_FILE, familiar.history)
        self.conversations = Conversations(familiar, self._known)
        self._names: tuple[int, tuple[str, ...]] = 0, ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the familiar; its card is read again once memory may have changed."""
        familiar, since = self.familiar, self.familiar.memory.quiet_since()
        if not since or since != self._names[0]:
            names = known_names(
                familiar.memory, familiar_id=familiar.paths.id, name=familiar.config.name
            )
            self._names = since, names
        return self._names[1]

    @property
    def is_outdated(self) -> bool:
        """Whether its settings have changed since it was opened."""
        return self.familiar.is_outdated

    async def aclose(self) -> None:
        """Close its files and models."""
        self._known.close()
        await self.familiar.aclose()
