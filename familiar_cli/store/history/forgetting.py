"""Orders to forget people, and whose turns they cover.

An order identifies accounts by a keyed hash, so it can be kept and synchronised without naming
anybody. Every machine carries it out, and turns of anyone it covers are never stored again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.errors import BadInputError, ForgottenPersonError
from familiar_cli.base.text import words_of
from familiar_cli.base.who.identity import Author

if TYPE_CHECKING:
    import sqlite3

    from familiar_cli.store.history.rows import Turn
    from familiar_cli.store.history.schema import HistoryFile

PLATFORM: Final = "forgotten"
"""The platform of whoever was forgotten; the user id is that of the order."""

_ORDER: Final = "forget:"  # prefix of an order's id in `sync_state`
_LOST: Final = "forgotten-words:"  # prefix of the keyed hash of forgotten words
_LINE: Final = (
    r"([0-9a-f]{12}) ([0-9a-f]{32}) ([0-9a-f]{64}(?:,[0-9a-f]{64})*)((?: [a-z0-9-]+:[0-9]{1,16})*)"
    r"((?: [0-9a-f]{64})*)"
)
_TELLING_CHARS: Final = 20  # minimum words to recognise a line, whoever it is attributed to


class ForgetOrder(Struct, frozen=True):
    """A person's order to forget somebody.

    Args:
        id: Its random id, from which the pseudonym is made.
        key: The secret key of its hashes, in hexadecimal.
        people: A keyed hash of each account.
        turns: Turns of other people that lose their words too, as `instance:number`.
        lines: A keyed hash of each line of memory that goes, whomever it names.
    """

    id: str
    key: str
    people: frozenset[str]
    turns: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    @classmethod
    def for_accounts(
        cls, accounts: Iterable[Author], turns: Iterable[str] = (), lines: Iterable[str] = ()
    ) -> ForgetOrder:
        """Create an order for all accounts of one person; `lines` are normalized."""
        import secrets  # noqa: PLC0415  # starting is quicker without it

        order = cls(secrets.token_hex(6), secrets.token_hex(16), frozenset())
        people = frozenset(map(order.account_hash, accounts))
        hashes = tuple(sorted(map(order.keyed_hash, lines)))
        return cls(order.id, order.key, people, tuple(sorted(turns)), hashes)

    @classmethod
    def from_line(cls, line: str) -> ForgetOrder:
        """Parse the output of `to_line`.

        Raises:
            BadInputError: The line is not a valid order.
        """
        match = re.fullmatch(_LINE, line.strip())
        if not match:
            raise BadInputError("A request to forget a person is invalid; nothing was changed")
        people, *others = frozenset(match[3].split(",")), match[4].split(), match[5].split()
        return cls(match[1], match[2], people, *map(tuple, others))

    def to_line(self) -> str:
        """Encode the order as one line, for storage and synchronisation."""
        people = ",".join(sorted(self.people))
        return " ".join((self.id, self.key, people, *self.turns, *self.lines))

    @property
    def pseudonym(self) -> Author:
        """Author named by the tombstones."""
        return Author(PLATFORM, self.id)

    def keyed_hash(self, text: str) -> str:
        """Return a hash that cannot be looked up without the key."""
        import hmac  # noqa: PLC0415  # starting is quicker without it

        content = text.encode("utf-8", errors="surrogatepass")
        return hmac.new(bytes.fromhex(self.key), content, "sha256").hexdigest()

    def account_hash(self, author: Author) -> str:
        """Return the order's hash of an account."""
        return self.keyed_hash(f"{author.platform}:{author.user_id}")

    @property
    def row(self) -> tuple[str, str]:
        """Its name and text in `sync_state`."""
        return _ORDER + self.id, self.to_line()

    def words_name(self, words: str) -> str:
        """Name of forgotten words in `sync_state`."""
        return _LOST + self.keyed_hash(words)

    def covers(self, author: Author | None) -> bool:
        """Tell whether an author is to be forgotten."""
        return author is not None and self.account_hash(author) in self.people

    def names_line(self, line: str) -> bool:
        """Tell whether a normalized line of memory is to be forgotten, whomever it names."""
        return bool(self.lines) and self.keyed_hash(line) in self.lines


def read_orders(connection: sqlite3.Connection) -> tuple[ForgetOrder, ...]:
    """Return all orders carried out in a history."""
    sql = "SELECT value FROM sync_state WHERE name > ? AND name < 'forget;' ORDER BY name"
    return tuple(ForgetOrder.from_line(row[0]) for row in connection.execute(sql, (_ORDER,)))


def orders_of(history: HistoryFile) -> tuple[ForgetOrder, ...]:
    """Return all orders carried out in a history."""
    with history.use(create=False) as connection:
        return read_orders(connection)


def is_forgotten(
    connection: sqlite3.Connection, turn: Turn, *, is_attributed: bool = False
) -> bool:
    """Tell whether a turn must not be stored because its author was forgotten.

    Args:
        connection: The history.
        is_attributed: Whether its author is certain; a client that sends a whole past names only
            one.
    """
    orders = read_orders(connection)
    if not orders or any(order.covers(turn.author) for order in orders):
        return bool(orders)
    words = bare_words(turn.content)
    if turn.role != "assistant" and (is_attributed or len(words) < _TELLING_CHARS):
        return False
    hashes = (order.words_name(words) for order in orders if words)
    sql = "SELECT 1 FROM sync_state WHERE name = ?"
    return any(connection.execute(sql, (name,)).fetchone() for name in hashes)


def bare_words(text: str) -> str:
    """Return the words by which forgotten ones are recognised."""
    return " ".join(words_of(text))


def check_may_speak(connection: sqlite3.Connection, author: Author | None) -> None:
    """Refuse turns by an author who was forgotten.

    Raises:
        ForgottenPersonError: The author was forgotten.
    """
    if author and any(order.covers(author) for order in read_orders(connection)):
        raise ForgottenPersonError(
            "This person was forgotten on request: nothing they say is kept; nothing was changed",
            hint="They can only return with another account: a forgotten one stays forgotten.",
        )


def note_order(history: HistoryFile, order: ForgetOrder) -> None:
    """Store an order that has nothing left to carry out."""
    with history.change() as connection:
        connection.execute("INSERT OR REPLACE INTO sync_state VALUES (?, ?)", order.row)
