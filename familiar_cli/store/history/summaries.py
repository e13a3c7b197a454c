"""Rolling summaries of the conversation, and the steps they consist of.

One summary covers all channels that are neither private nor branches; each other channel has its
own, with its id as `scope`. Each step is a row, keyed by the last turn it covers. Everything here
can be rebuilt from the turns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from familiar_cli.base.sqlite import rows_among
from familiar_cli.base.who.visibility import OWNERS, PrivacyRules, Viewer
from familiar_cli.store.history.events import END, PLACED, BranchPart, parts_condition, parts_of
from familiar_cli.store.history.rows import (
    STANDING,
    Row,
    Turn,
    from_ms,
    in_ms,
    pack,
    to_number,
    to_turn,
    unpack,
)
from familiar_cli.store.history.selection import oldest_rows, visible_condition

if TYPE_CHECKING:
    from familiar_cli.store.history.schema import HistoryFile

PUBLIC: Final = ""
"""The scope of the summary of all channels that are not private."""
OWN: Final = " owner"
"""The scope of the summary of the owner's private channels; no channel has this name."""

_OF_MANY: Final = (PUBLIC, OWN)


class Summary(Struct, frozen=True):
    """A summary of all turns of its scope up to one.

    Args:
        scope: `PUBLIC`, `OWN`, or the id of another private channel or of a branch.
        last_turn_id: The last turn that it covers.
        made_at: When it was made, in UTC.
        model: The model that made it.
        cut: Whether it exceeded its limit and lost its end.
    """

    scope: str
    last_turn_id: int
    text: str
    made_at: datetime
    model: str
    cut: bool = False


class Summaries:
    """The summaries of one familiar.

    Args:
        history: Where they are stored, beside the turns.
    """

    def __init__(self, history: HistoryFile) -> None:
        self._history = history

    def latest(
        self, scope: str, rules: PrivacyRules, *, before_id: int | None = None
    ) -> Summary | None:
        """Return the newest summary of a scope, or None.

        A summary is withheld while it covers a channel that has since become private and is not
        part of the scope. A branch without a summary of its own uses its parent's from before the
        branch point.

        Args:
            rules: The current privacy rules.
            before_id: Only summaries of turns before this one.
        """
        sql = (
            "SELECT scope, last_turn_id, text, made_at_ms, model, cut FROM summaries "
            "WHERE scope = ? AND last_turn_id < ? ORDER BY last_turn_id DESC LIMIT 1"
        )
        end, past = END if before_id is None else before_id, self._past(scope)
        for part in past:
            end = min(end, part.end)
            is_own = part.channel_id == scope
            its_scope = scope if is_own else self.scope_of(part.channel_id, rules)
            row = next(iter(self._history.rows(sql, (pack(its_scope), end))), None)
            if row:
                others = rules.private_channels - {one.channel_id for one in past}
                if its_scope == OWN:
                    others -= _owners_channels(rules)
                is_open = not others or self.channels(its_scope).isdisjoint(others)
                return _to_summary(row) if is_open else None
        if scope == OWN:  # the summary of a familiar that only its owner talked to
            row = next(iter(self._history.rows(sql, (pack(PUBLIC), end))), None)
            return _to_summary(row) if row and self._is_owners(rules) else None
        return None

    def _is_owners(self, rules: PrivacyRules) -> bool:
        channels = self.channels(PUBLIC)
        return bool(channels) and channels <= _owners_channels(rules)

    def scope_of(self, channel_id: str, rules: PrivacyRules) -> str:
        """Return the scope of the summary for a channel's past."""
        is_branch = len(self._past(channel_id)) > 1
        if channel_id == OWN or (rules.scope_of_channel(channel_id) == OWNERS and not is_branch):
            return OWN
        is_own = channel_id in rules.private_channels or is_branch
        return channel_id if is_own else PUBLIC

    def scopes_in(self, channel_id: str, rules: PrivacyRules) -> list[str]:
        """Return the scopes whose summaries may be used in a channel.

        A branch may also use the public one, from before its parent went on without it.
        """
        past = self._past(channel_id)
        own = self.scope_of(channel_id, rules)
        if own == PUBLIC:
            return [PUBLIC]
        root = self.scope_of(past[-1].channel_id, rules)
        return [own] if len(past) > 1 and root == PUBLIC else [PUBLIC, own]

    def _past(self, scope: str) -> list[BranchPart]:
        with self._history.use(create=False) as connection:
            is_one = scope in _OF_MANY
            return [BranchPart(scope)] if is_one else parts_of(connection, scope)

    def channels(self, scope: str) -> frozenset[str]:
        """Return the channels whose turns are in a summary."""
        sql = "SELECT channel_id FROM summary_channels WHERE scope = ?"
        return frozenset(unpack(row[0]) for row in self._history.rows(sql, (pack(scope),)))

    def scopes(self) -> list[str]:
        """Return all scopes that have a summary, or should have one, sorted."""
        sql = "SELECT scope FROM summaries UNION SELECT scope FROM summary_state"
        return sorted(unpack(row[0]) for row in self._history.rows(sql))

    def keep(
        self,
        summary: Summary,
        channels: Collection[str],
        *,
        is_current: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Store a step and the channels whose turns it added; return whether it was stored.

        Args:
            summary: The step.
            channels: The channels of the turns it added.
            is_current: Checked in the same transaction: whether the step's input still stands.

        Raises:
            FamiliarError: It cannot be written; nothing changed.
        """
        values = (
            pack(summary.scope),
            summary.last_turn_id,
            pack(summary.text),
            in_ms(summary.made_at),
            pack(summary.model),
            int(summary.cut),
        )
        with self._history.change() as connection:
            if not is_current():
                return False
            connection.execute("INSERT OR REPLACE INTO summaries VALUES (?, ?, ?, ?, ?, ?)", values)
            connection.executemany(
                "INSERT OR IGNORE INTO summary_channels VALUES (?, ?)",
                [(pack(summary.scope), pack(channel_id)) for channel_id in channels],
            )
        return True

    def first_place(self, turn_ids: Collection[int]) -> int:
        """Return the lowest place among these turns; 0: none exists."""
        sql = f"SELECT {PLACED} FROM turns WHERE id IN"  # noqa: S608  # our own names
        with self._history.use(create=False) as connection:
            rows = rows_among(connection, sql, turn_ids)
            return min((to_number(row[0]) for row in rows), default=0)

    def forget(self, scope: str) -> None:
        """Delete a scope's summaries; they can be rebuilt."""
        with self._history.change() as connection:
            for table in ("summaries", "summary_channels"):
                connection.execute(f"DELETE FROM {table} WHERE scope = ?", (pack(scope),))  # noqa: S608

    def wanted(self, scope: str) -> int:
        """Return the turn that a summary should reach; 0: no request yet."""
        sql = "SELECT wanted_id FROM summary_state WHERE scope = ?"
        return next((to_number(row[0]) for row in self._history.rows(sql, (pack(scope),))), 0)

    def want(self, scope: str, turn_id: int) -> None:
        """Request that a summary reach a turn."""
        sql = (
            "INSERT INTO summary_state (scope, wanted_id) VALUES (?, ?) ON CONFLICT (scope) "
            "DO UPDATE SET wanted_id = max(wanted_id, excluded.wanted_id)"
        )
        with self._history.change() as connection:
            connection.execute(sql, (pack(scope), turn_id))

    def turns(
        self, scope: str, after_id: int, through_id: int, limit: int, rules: PrivacyRules
    ) -> list[Turn]:
        """Return the oldest `limit` turns of a scope with ids in (`after_id`, `through_id`]."""
        with self._history.use(create=False) as connection:
            if limit <= 0:
                return []
            between = (after_id + 1, min(through_id + 1, END))
            here = None if scope in _OF_MANY else scope
            where = _visible_in(scope, rules)
            rows, _ = oldest_rows(connection, STANDING, where, limit, between, channel_id=here)
        return [to_turn(row) for row in rows[:limit]]

    def count(
        self, scope: str, after_id: int, through_id: int, limit: int, rules: PrivacyRules
    ) -> int:
        """Count the turns that `turns` would return, up to `limit`."""
        where, values = _visible_in(scope, rules)
        if scope not in _OF_MANY:
            sql, past = parts_condition(self._past(scope))
            where, values = f" AND {sql}{where}", [*past, *values]
        there = "FROM standing AS turns"
        sql = (
            f"SELECT count(*) FROM (SELECT 1 {there} WHERE id > ? AND id <= ? "  # noqa: S608
            f"AND NOT EXISTS (SELECT 1 FROM places WHERE places.turn_id = turns.id){where} "
            f"UNION ALL SELECT 1 {there} WHERE turns.id IN (SELECT turn_id FROM places "
            f"WHERE place > ? AND place <= ?){where} LIMIT ?)"
        )
        given = [after_id, min(through_id, END), *values]
        return to_number(self._history.rows(sql, (*given, *given, limit))[0][0])


def _to_summary(row: Row) -> Summary:
    scope, last_turn_id, text, made_at_ms, model, cut = row
    return Summary(
        unpack(scope),
        to_number(last_turn_id),
        unpack(text),
        from_ms(made_at_ms).astimezone(UTC),
        unpack(model),
        bool(cut),
    )


def _owners_channels(rules: PrivacyRules) -> frozenset[str]:
    private = rules.private_channels
    return frozenset(one for one in private if rules.scope_of_channel(one) == OWNERS)


def _visible_in(scope: str, rules: PrivacyRules) -> tuple[str, list[Any]]:
    """Build the SQL condition, and its values, for turns that a summary may cover."""
    public, of_public = visible_condition(Viewer(rules, frozenset()))
    if scope == OWN:
        sql, values = visible_condition(Viewer(rules, frozenset({OWNERS})))
        sql, values = f"{sql} AND NOT ({public})", [*values, *of_public]
    elif scope == PUBLIC:
        sql, values = public, of_public
    else:
        own = frozenset({rules.scope_of_channel(scope)})
        sql, values = visible_condition(Viewer(rules, own, scope))
        return f" AND {sql}", values
    no_branches = "channel_id NOT IN (SELECT channel_id FROM branches)"
    return f" AND {sql} AND {no_branches}", values
