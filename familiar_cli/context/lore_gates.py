"""The gates of lorebooks: entries that their book keeps back in a turn.

What is offered is chosen by names and meaning; a gate only forbids. Cooldowns are counted by going
through the conversation again, so a swipe or a branch counts once and no state is kept.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.text import fold, one_line, slugify
from familiar_cli.store.memory.pages.front_matter import LorePage, is_expression
from familiar_cli.store.memory.pages.lore_settings import LoreSettings, load_lore_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from familiar_cli.context.character import Macros
    from familiar_cli.context.request import ContextRequest
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.memory.store.store import MemoryStore

_PREFIX: Final = "its book keeps it back now: "
_MOST_MESSAGES: Final = 5_000
_MOST_EXPRESSION_CHARS: Final = 1_000
_EXPRESSION_S: Final = 0.05
_PERCENT: Final = 100
_FLAGS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}
_ANY, _NOT_ALL, _NOT_ANY, _ALL = range(4)
_REPLY: Final = frozenset({"normal", "swipe", "regenerate"})
_CONTINUED: Final = frozenset({"continue"})


class LoreGates:
    """The gates of all lore in one turn.

    Args:
        macros: The values of macros, in keys.
    """

    def __init__(
        self, store: MemoryStore, history: HistoryStore, request: ContextRequest, macros: Macros
    ) -> None:
        self._store = store
        self._history = history
        self._request = request
        self._macros = macros
        self._books: dict[str, dict[str, LoreSettings] | str] = {}
        self._reasons: dict[str, str] = {}
        self._winners: dict[tuple[str, str], str] = {}  # by directory and group
        self._slow: set[str] = set()  # expressions that took too long
        self._messages: list[tuple[str, bool]] = []  # newest last; whether a person said it
        self._read = -1

    def reason(self, rel_path: str, page: LorePage) -> str:
        """Return why an entry is kept back, and what would open it; empty if it is not."""
        if page.entry_id is None:
            return ""
        if rel_path not in self._reasons:
            found = self._closed(rel_path.rpartition("/")[0], page.entry_id, page)
            self._reasons[rel_path] = found and _PREFIX + found
        return self._reasons[rel_path]

    def _closed(self, directory: str, entry_id: str, page: LorePage) -> str:
        book = self._book(directory)
        if isinstance(book, str):
            return book
        entry = book.get(entry_id)
        if entry is None:
            return ""
        keys = page.keys or entry.keys
        if not (keys or entry.is_constant or entry.is_vectorized or page.pinned):
            return "it has no keys, and is neither constant nor vectorized"
        return (
            self._forbidden(entry)
            or self._resting(entry, keys)
            or self._unlucky(entry_id, entry)
            or self._other_of_group(directory, book, entry_id)
        )

    def _book(self, directory: str) -> dict[str, LoreSettings] | str:
        if directory not in self._books:
            try:
                self._books[directory] = load_lore_settings(self._store, directory)
            except FamiliarError as error:
                self._books[directory] = str(error)
        return self._books[directory]

    def _forbidden(self, entry: LoreSettings) -> str:
        """Return why the settings forbid an entry at this point of the conversation."""
        return (
            ("its decorator `@@dont_activate`" if entry.is_off else "")
            or self._wrong_kind(entry)
            or self._wrong_character(entry)
            or self._too_early(entry)
            or self._wrong_words(entry, self._scanned(entry, None))
        )

    def _wrong_kind(self, entry: LoreSettings) -> str:
        kinds = _CONTINUED if self._request.begun else _REPLY
        if not entry.triggers or entry.triggers & kinds:
            return ""
        return f"it is only for: {', '.join(sorted(entry.triggers))}"

    def _wrong_character(self, entry: LoreSettings) -> str:
        if not entry.characters:
            return ""
        own = {fold(self._macros.char), fold(self._request.familiar_id)}
        named = {fold(name) for name in entry.characters}
        named |= {fold(slugify(name)) for name in entry.characters}
        if bool(own & named) != entry.excludes_characters:
            return ""
        names = one_line(", ".join(entry.characters), 80)
        return f"it is {'not ' if entry.excludes_characters else 'only '}for {names}"

    def _too_early(self, entry: LoreSettings) -> str:
        least = max(entry.delay, entry.after)
        if not (least or entry.every):
            return ""
        said = self._count(_MOST_MESSAGES if entry.every else least)
        if said < least:
            return f"it waits for message {least}, and this is message {said}"
        if entry.every and said % entry.every:
            return f"it is due at each {entry.every}th message, and this is message {said}"
        return ""

    def _wrong_words(self, entry: LoreSettings, text: str) -> str:
        for key in entry.exclude_keys:
            if self._matches(entry, key, text):
                return f"{key!r} was said (`@@exclude_keys`)"
        if not entry.secondary or entry.is_constant:
            return ""
        held = [key for key in entry.secondary if self._matches(entry, key, text)]
        lacked = [key for key in entry.secondary if key not in held]
        match entry.logic:
            case 1:  # NOT ALL
                return "" if lacked else f"all of these were said: {_listed(held)} (NOT ALL)"
            case 2:  # NOT ANY
                return f"{held[0]!r} was said (NOT ANY)" if held else ""
            case 3:  # AND ALL
                return f"{lacked[0]!r} was not said (AND ALL)" if lacked else ""
            case _:
                return "" if held else f"none of these was said: {_listed(lacked)} (AND ANY)"

    def _unlucky(self, entry_id: str, entry: LoreSettings) -> str:
        if entry.probability >= _PERCENT:
            return ""
        if not entry.probability:
            return "its probability is 0 %"
        drawn = self._draw(entry_id) * _PERCENT
        if drawn < entry.probability:
            return ""
        return f"its probability is {entry.probability} %, and {drawn:.0f} was drawn for this turn"

    def _other_of_group(self, directory: str, book: dict[str, LoreSettings], entry_id: str) -> str:
        """Return which group another entry was drawn from."""
        for group in book[entry_id].groups:
            place = directory, group
            if place not in self._winners:
                self._winners[place] = self._winner(group, self._candidates(book, group))
            if self._winners[place] != entry_id:
                return f"another entry of its group {one_line(group, 40)!r} was drawn"
        return ""

    def _candidates(self, book: dict[str, LoreSettings], group: str) -> dict[str, LoreSettings]:
        """Return the entries from which a group draws: first those that are named."""
        members = {
            key: one
            for key, one in book.items()
            if group in one.groups
            and not self._forbidden(one)
            and not self._resting(one, one.keys)
            and not self._unlucky(key, one)
        }
        return {key: one for key, one in members.items() if self._is_named(one)} or members

    def _winner(self, group: str, members: dict[str, LoreSettings]) -> str:
        preferred = [key for key, one in members.items() if one.is_preferred]
        if preferred:
            return max(preferred, key=lambda key: (members[key].order, key))
        left = self._draw(group) * sum(one.weight for one in members.values())
        for key in sorted(members):
            left -= members[key].weight
            if left < 0:
                return key
        return min(members, default="")

    def _resting(self, entry: LoreSettings, keys: tuple[str, ...]) -> str:
        """Return whether an entry rests after a match earlier in the conversation."""
        if not (entry.cooldown or entry.is_single):
            return ""
        now = self._count(_MOST_MESSAGES)
        sticky_until = resting_until = 0
        for place in range(1, now):
            _, is_said = self._messages[place - 1]
            if not is_said or place <= sticky_until:
                continue
            if sticky_until and entry.cooldown:
                resting_until, sticky_until = place + entry.cooldown, 0
            if place <= resting_until or not self._was_matched(entry, keys, place):
                continue
            if entry.is_single:
                return "it was named before (`@@dont_activate_after_match`)"
            sticky_until = place + entry.sticky if entry.sticky else 0
            resting_until = 0 if entry.sticky else place + entry.cooldown
        is_over = 0 < sticky_until < now  # with this message, its rest begins
        if now > resting_until and not (is_over and entry.cooldown):
            return ""
        return f"it rests for {entry.cooldown} messages after it was named (cooldown)"

    def _was_matched(self, entry: LoreSettings, keys: tuple[str, ...], place: int) -> bool:
        if place < max(entry.delay, entry.after):
            return False
        text = self._scanned(entry, place)
        is_named = entry.is_constant or any(self._matches(entry, key, text) for key in keys)
        return is_named and not self._wrong_words(entry, text)

    def _is_named(self, entry: LoreSettings) -> bool:
        text = self._scanned(entry, None)
        return entry.is_constant or any(self._matches(entry, key, text) for key in entry.keys)

    def _scanned(self, entry: LoreSettings, place: int | None) -> str:
        """Return the messages in which keys count, up to a place or to what is said now."""
        if place is None:
            place = self._count(max(entry.scan_depth, 1))
        return _joined(text for text, _ in self._messages[max(place - entry.scan_depth, 0) : place])

    def _count(self, most: int) -> int:
        """Read the newest `most` messages, with what is said now; return how many there are."""
        if self._read < most:
            self._read = most
            self._messages = self._load(most)
        return len(self._messages)

    def _load(self, most: int) -> list[tuple[str, bool]]:
        request, found = self._request, []
        turns = self._history.recent(
            request.channel_id, most, request.before_id, viewer=request.viewer
        )
        if request.opening and len(turns) < most:
            found.append((f"{self._macros.char}: {request.opening}", False))
        for turn in turns:
            name = turn.author.label if turn.author else self._macros.char
            found.append((f"{name}: {turn.content}", turn.role == "user"))
        if request.utterance:
            found.append((f"{self._macros.user}: {request.utterance}", True))
        return found

    def _matches(self, entry: LoreSettings, key: str, text: str) -> bool:
        """Tell whether a key occurs in `text`, as SillyTavern compares them."""
        if is_expression(key):
            return self._expression_matches(key.strip(), text)
        key = self._macros.expand(key).strip()
        if not key:
            return False
        if not entry.is_case_sensitive:
            key, text = key.lower(), text.lower()
        if not entry.is_whole_word or len(key.split()) > 1:
            return key in text
        return (
            re.search(rf"(?:^|[^0-9A-Za-z_]){re.escape(key)}(?:$|[^0-9A-Za-z_])", text) is not None
        )

    def _expression_matches(self, key: str, text: str) -> bool:
        """Tell whether a regular expression matches; once it takes too long, it does no more."""
        import regex  # noqa: PLC0415  # few books have expressions

        pattern, _, flags = key[1:].rpartition("/")
        if len(pattern) > _MOST_EXPRESSION_CHARS or key in self._slow:
            return False
        wanted = sum(value for letter, value in _FLAGS.items() if letter in flags)
        try:
            return regex.search(pattern, text, flags=wanted, timeout=_EXPRESSION_S) is not None
        except TimeoutError:
            self._slow.add(key)
        except (regex.error, ValueError):
            pass
        return False

    def _draw(self, name: str) -> float:
        """Draw a number in [0, 1), the same for one turn of a conversation."""
        seed = f"{self._request.channel_id}\n{self._count(_MOST_MESSAGES)}\n{name}"
        return int.from_bytes(sha256(seed.encode()).digest()[:8]) / 2**64


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(texts)


def _listed(keys: list[str]) -> str:
    return one_line(", ".join(map(repr, keys)), 120)
