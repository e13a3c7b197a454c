"""Rules for what an instance may state about its own and others' turns and channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.history.branches import branch_of
from familiar_cli.history.lines import BranchLine, ChannelMarkLine, ChatLine, MarkLine, TurnName
from familiar_cli.history.rows import pack

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from familiar_cli.history.file import HistoryFile
    from familiar_cli.history.lines import Fact

UNTRUSTED: Final = "untrusted"
"""In `lines_waiting`: the line is about others and waits until its instance is allowed."""

REFUSED: Final = "refused"
"""In `lines_waiting`: the line is kept, and never applied."""


@dataclass(frozen=True, slots=True)
class FactScope:
    """Policy for the facts of one instance.

    Args:
        is_trusted: It may state facts about turns that other instances wrote, as a person does who
            withdraws on one machine what was said on another. Otherwise only about its own.
        existing_through: Channels with turns of others up to this one exist already, and are never
            put under another channel; None: any may be.
    """

    is_trusted: bool = True
    existing_through: int | None = None

    def obstacle(
        self, connection: sqlite3.Connection, own: str, instance: str, line: Fact
    ) -> str | None:
        """Return `UNTRUSTED` or `REFUSED`, or None if a fact is accepted.

        Args:
            connection: The history, inside a transaction.
            own: The instance that lives here.
            instance: The one that states the fact.
            line: The fact; turns that it names are here.
        """
        if not self.is_trusted and not _is_about_own(connection, own, instance, line):
            return UNTRUSTED
        if isinstance(line, BranchLine) and self.existing_through is not None:
            known = branch_of(connection, line.channel)
            is_known = known is not None and known.parent == line.parent
            through = self.existing_through
            if not is_known and not _is_channel_of(connection, instance, line.channel, through):
                return REFUSED
        return None


def unrestricted(_: str) -> FactScope:
    """Accept every fact of every instance."""
    return FactScope()


def count_held(history: HistoryFile) -> dict[str, int]:
    """Count the facts about others that wait for approval, by instance."""
    sql = (
        "SELECT instance, count(*) FROM lines_waiting WHERE needs_instance = ? "
        "GROUP BY instance ORDER BY instance"
    )
    return dict(history.rows(sql, (UNTRUSTED,)))


def _is_about_own(connection: sqlite3.Connection, own: str, instance: str, line: Fact) -> bool:
    if isinstance(line, MarkLine):
        named = [line.turn, *([line.value] if isinstance(line.value, TurnName) else [])]
        return all(name.instance == instance for name in named)
    if isinstance(line, ChannelMarkLine):
        return _is_channel_of(connection, instance, line.channel)
    if isinstance(line, BranchLine):
        channels = (line.channel, line.parent)
        return all(_is_channel_of(connection, instance, channel) for channel in channels)
    return isinstance(line, ChatLine) and (
        _says_nothing_new(connection, line) or _is_chat_of(connection, own, instance, line.key)
    )


def _is_channel_of(
    connection: sqlite3.Connection, instance: str, channel_id: str, through: int | None = None
) -> bool:
    """Tell whether no other instance has a turn in a channel or branches it off elsewhere.

    Args:
        connection: The history.
        instance: Whose it may be.
        channel_id: The channel.
        through: Ignore turns that are newer here than this one.
    """
    sql = (
        "SELECT 1 FROM turns LEFT JOIN elsewhere ON turn_id = turns.id WHERE channel_id = ?1 "
        "AND coalesce(instance, '') != ?2 AND (?3 IS NULL OR turns.id <= ?3) "
        "UNION ALL SELECT 1 FROM events WHERE kind = 'branch' AND subject = ?1 "
        "AND coalesce(instance, '') != ?2 LIMIT 1"
    )
    values = (pack(channel_id), instance, through)
    return connection.execute(sql, values).fetchone() is None


def _says_nothing_new(connection: sqlite3.Connection, line: ChatLine) -> bool:
    """Tell whether a chat is known here as the line describes it: both machines imported it."""
    sql = "SELECT channel_id, kind, format, name, head FROM chats WHERE key = ?"
    told = (line.channel, line.chat_kind, line.format, line.name, line.head)
    known: tuple[object, ...] | None = connection.execute(sql, (pack(line.key),)).fetchone()
    return known == tuple(map(pack, told))


def _is_chat_of(connection: sqlite3.Connection, own: str, instance: str, key: str) -> bool:
    sql = (
        "SELECT coalesce(instance, ?1) FROM events WHERE kind = 'chat' AND subject = ?2 "
        "UNION SELECT coalesce(instance, ?1) FROM chats JOIN turn_extras ON chat_id = chats.id "
        "LEFT JOIN elsewhere USING (turn_id) WHERE key = ?2"
    )
    found: Iterable[tuple[str]] = connection.execute(sql, (own, pack(key)))
    return all(row[0] == instance for row in found)
