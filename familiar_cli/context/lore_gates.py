"""The gates of lorebooks: entries that their book keeps back in a turn.

What is offered is chosen by names and meaning; a gate only forbids. Cooldowns are counted by going
through the conversation again, so a swipe or a branch counts once and no state is kept.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.text import counted, fold, one_line, slugify
from familiar_cli.context.lore_keys import KeyMatcher, Messages
from familiar_cli.context.types import KEPT_BACK
from familiar_cli.store.memory.layout import CARD_JSON, LORE_DIR
from familiar_cli.store.memory.pages.front_matter import LorePage, parse_lore
from familiar_cli.store.memory.pages.lore_settings import (
    LORE_SETTINGS,
    LoreSettings,
    load_lore_settings,
)

if TYPE_CHECKING:
    from familiar_cli.context.character import Macros
    from familiar_cli.context.request import ContextRequest
    from familiar_cli.store.history.store import HistoryStore
    from familiar_cli.store.memory.store.store import MemoryStore

_MOST_MESSAGES: Final = 5_000
_PERCENT: Final = 100
# SillyTavern's kinds of generation, by ours.
_KINDS: Final = {
    "normal": frozenset({"normal"}),
    "again": frozenset({"swipe", "regenerate"}),
    "continue": frozenset({"continue"}),
}

_Book = dict[str, LoreSettings]


class _Rest(Struct):
    """Until which message an entry stays after a match, and until which it rests; 0 for neither."""

    stays_until: int = 0
    rests_until: int = 0

    def come_to(self, place: int, entry: LoreSettings, said: Sequence[int]) -> None:
        """End what is over at the message number `place`; after it stayed, an entry rests.

        Args:
            said: The numbers of the messages at which entries are shown.
        """
        if self.stays_until and place >= self.stays_until:
            ended = next(iter(said[bisect_left(said, self.stays_until) :]), place)
            if entry.cooldown and not entry.is_single:
                self.rests_until = min(ended, place) + entry.cooldown
            self.stays_until = 0
        if place >= self.rests_until:
            self.rests_until = 0

    def match(self, place: int, entry: LoreSettings) -> None:
        """Note that an entry was shown at the message number `place`."""
        if entry.is_single:
            self.rests_until = self.rests_until or 10 * _MOST_MESSAGES
        if entry.sticky and not self.stays_until:
            self.stays_until = place + entry.sticky
        if entry.cooldown and not self.rests_until:
            self.rests_until = place + entry.cooldown

    def is_on(self, entry: LoreSettings) -> bool:
        """Tell whether an entry rests; one that stays does not, unless it is in a group."""
        return self.rests_until > 0 and (not self.stays_until or bool(entry.groups))


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
        self._books: dict[str, _Book | str] = {}
        self._reasons: dict[str, str] = {}
        self._winners: dict[tuple[str, str, int], str] = {}  # by directory, group and place
        self._rests: dict[tuple[str, str], _Rest] = {}
        self._pages: dict[tuple[str, str], LoreSettings] = {}
        self._places: list[int] = []  # of what people said, from 1
        self._replies: list[int] = []
        self._read = -1
        self._keys = KeyMatcher(macros.expand, self._beside)

    def reason(self, rel_path: str, page: LorePage) -> str:
        """Return why an entry is kept back, and what would open it; empty if it is not."""
        if page.entry_id is None:
            return ""
        if rel_path not in self._reasons:
            try:
                cause = self._closed_reason(rel_path, page.entry_id, page)
            except FamiliarError as error:  # a damaged book, or a slow expression
                cause = str(error)
            self._reasons[rel_path] = cause and f"{KEPT_BACK}: {cause}"
        return self._reasons[rel_path]

    def settings(self, rel_path: str, text: str) -> LoreSettings | None:
        """Return the settings of an entry; None if it has none, or its prompt is not ours."""
        entry_id = parse_lore(text).entry_id
        if entry_id is None or self._request.is_complement:
            return None
        try:
            return self._book_of(rel_path, entry_id)[1].get(entry_id)
        except FamiliarError:  # its book is damaged, which keeps it back
            return None

    def _closed_reason(self, rel_path: str, entry_id: str, page: LorePage) -> str:
        directory, book = self._book_of(rel_path, entry_id)
        if entry_id not in book:
            return ""
        entry = book[entry_id]
        entry = book[entry_id] = replace(entry, keys=page.keys or entry.keys, path=rel_path)
        is_free = entry.is_constant or entry.is_vectorized or page.pinned
        if not (entry.keys or is_free):
            return "it has no keys, and is neither constant nor vectorized; a key opens it"
        if not (entry.scan_depth or is_free):
            return "it looks for its keys in no message (scan depth 0), but can be pinned"
        if not is_free and self._keys.contradicts(entry):
            return "each of its keys is also one that forbids it"
        now = self._count(entry)
        return (
            self._forbidden(entry, now)
            or self._resting_reason(directory, book, entry_id, now)
            or self._wrong_words(entry, now)
            or self._alone(directory, book, entry_id, now)
            or self._other_of_group(directory, book, entry_id, now)
            or self._unlucky(entry_id, entry, now)
        )

    def _book_of(self, rel_path: str, entry_id: str | None) -> tuple[str, _Book]:
        """Return the book that has an entry, with its directory: the page may have been moved."""
        own = rel_path.rpartition("/")[0]
        if entry_id is None or entry_id in self._book(own):
            return own, self._book(own)
        walk = self._store.walk(LORE_DIR, hidden=True, missing_ok=True)
        paths = (entry.rel_path.rpartition("/") for entry in walk.files)
        others = sorted(where for where, _, name in paths if name == LORE_SETTINGS)
        place = next((where for where in others if entry_id in self._book(where)), own)
        return place, self._book(place)

    def _book(self, directory: str) -> _Book:
        if directory not in self._books:
            try:
                self._books[directory] = load_lore_settings(self._store, directory)
            except FamiliarError as error:
                self._books[directory] = str(error)
        book = self._books[directory]
        if isinstance(book, str):
            raise FamiliarError(book)
        return book

    def _forbidden(self, entry: LoreSettings, place: int) -> str:
        """Return why the settings forbid an entry at a message, whatever it says."""
        return (
            ("its decorator `@@dont_activate` forbids it always" if entry.is_off else "")
            or self._wrong_kind(entry)
            or self._wrong_character(entry)
            or self._too_early(entry, place)
        )

    def _wrong_kind(self, entry: LoreSettings) -> str:
        kind = "continue" if self._request.begun else "again" if self._request.is_again else ""
        if not entry.triggers or entry.triggers & _KINDS[kind or "normal"]:
            return ""
        return f"it is only for replies of the kind {', '.join(sorted(entry.triggers))}"

    def _wrong_character(self, entry: LoreSettings) -> str:
        own = {fold(self._macros.char), fold(self._request.familiar_id)}
        named = {fold(name) for name in entry.characters}
        named |= {fold(slugify(name)) for name in entry.characters}
        tags = {fold(tag) for tag in entry.tags}
        own_tags = {fold(str(tag)) for tag in self._card.get("tags") or ()} if tags else set()
        for targets, held in ((named, own), (tags, own_tags)):
            if targets and bool(targets & held) == entry.excludes_characters:
                names = one_line(", ".join(entry.characters + entry.tags), 80)
                return f"it is {'not ' if entry.excludes_characters else 'only '}for {names}"
        return ""

    def _too_early(self, entry: LoreSettings, place: int) -> str:
        if place < entry.delay:
            return f"it waits for message {entry.delay}, and this is message {place}"
        replies = bisect_left(self._replies, place)
        if replies < entry.after:
            return f"it waits for {entry.after} replies, and there are {replies}"
        if entry.every and (not replies or replies % entry.every):
            return f"it is due every {entry.every} replies, and there are {replies}"
        return ""

    def _wrong_words(self, entry: LoreSettings, place: int) -> str:
        for key in entry.exclude_keys:
            if self._keys.occurs(entry, key, place):
                return f"{key!r} was said (`@@exclude_keys`){_until(entry, 'no longer ')}"
        if entry.required and not self._any_occurs(entry, entry.required, place):
            words = _list_keys(entry.required)
            return f"none of these was said: {words} (`@@additional_keys`){_until(entry)}"
        if entry.is_constant:
            return ""
        keys = [key for key in entry.secondary if self._keys.occurs(entry, key, place)]
        lacked = [key for key in entry.secondary if key not in keys]
        why = _wrong_logic(entry.logic, keys, lacked) if entry.secondary else ""
        is_not = entry.logic in {1, 2}
        return why and f"{why}{_until(entry, 'no longer ' if is_not else '')}"

    def _any_occurs(self, entry: LoreSettings, keys: Iterable[str], place: int) -> bool:
        return any(self._keys.occurs(entry, key, place) for key in keys)

    def _is_named(self, entry: LoreSettings, place: int) -> bool:
        """Tell whether the words said would show an entry."""
        if entry.is_constant:
            return not self._wrong_words(entry, place)
        is_said = self._any_occurs(entry, entry.keys, place)
        return is_said and not self._wrong_words(entry, place)

    def _alone(self, directory: str, book: _Book, entry_id: str, now: int) -> str:
        """Return whether an entry waits for others whose text may bring it."""
        if not book[entry_id].recursion_level:
            return ""
        if len({one.recursion_level for one in book.values()} - {0}) > 1:
            return ""  # SillyTavern tries several levels in turn
        for key, one in book.items():
            if one.recursion_level or not one.spreads or self._forbidden(one, now):
                continue
            is_named = self._is_named(one, now) and self._with_page(directory, book, key).path
            if is_named and not self._resting_reason(directory, book, key, now):
                return ""
        return "it waits until another entry of its book is named (delay until recursion)"

    def _unlucky(self, entry_id: str, entry: LoreSettings, place: int) -> str:
        if entry.probability >= _PERCENT:
            return ""
        if not entry.probability:
            return "its probability is 0 %, so only another probability in its book opens it"
        drawn = self._draw(entry_id, place) * _PERCENT
        if drawn < entry.probability:
            return ""
        chance = f"{entry.probability} %"
        return f"its probability is {chance}, and {drawn:.0f} was drawn; each message draws again"

    def _other_of_group(self, directory: str, book: _Book, entry_id: str, place: int) -> str:
        """Return the reason why an entry lost the draw of a group; empty if it did not."""
        for group in book[entry_id].groups:
            key = directory, group, place
            if key not in self._winners:
                self._winners[key] = self._winner(directory, book, group, place)
            if self._winners[key] != entry_id:
                name = one_line(group, 40)
                return f"another entry of its group {name!r} was drawn for this message"
        return ""

    def _winner(self, directory: str, book: _Book, group: str, place: int) -> str:
        """Draw an entry of a group: among those that are named, else among all that may be."""
        members = {
            key: self._with_page(directory, book, key)
            for key, one in sorted(book.items(), key=lambda item: (-item[1].order, item[1].place))
            if group in one.groups and not self._forbidden(one, place)
        }
        members = {key: one for key, one in members.items() if one.path}
        rests = {key: self._rest_at(directory, book, key, place) for key in members}
        members = {key: one for key, one in members.items() if not rests[key].is_on(one)}
        settings = {key: one for key, one in members.items() if self._is_named(one, place)}
        if staying := [key for key in members if rests[key].stays_until]:
            return staying[0]
        at_once = {key: one for key, one in settings.items() if not one.recursion_level}
        members = (
            at_once
            or settings
            or {k: e for k, e in members.items() if not self._wrong_words(e, place)}
        )
        scores = {key: self._score(one, place) for key, one in members.items()}
        if any(one.is_scored for one in members.values()):
            best = max(scores.values())
            members = {k: e for k, e in members.items() if not e.is_scored or scores[k] == best}
        preferred = [key for key, one in members.items() if one.is_preferred]
        left = self._draw(group, place) * sum(one.weight for one in members.values())
        for key, one in members.items() if not preferred else ():
            left -= one.weight
            if left < 0:
                return key
        return next(iter(preferred or members), "")

    def _with_page(self, directory: str, book: _Book, entry_id: str) -> LoreSettings:
        """Return the settings with what a person has changed; without a path if it is off."""
        if (directory, entry_id) not in self._pages:
            entry = book[entry_id]
            try:
                page = parse_lore(self._store.read_file(entry.path))
                path, keys = entry.path if page.enabled else "", page.keys or entry.keys
            except FamiliarError:
                path, keys = "", entry.keys
            self._pages[directory, entry_id] = replace(entry, keys=keys, path=path)
        return self._pages[directory, entry_id]

    def _score(self, entry: LoreSettings, place: int) -> int:
        """Count the keys of an entry that were said, as SillyTavern compares a group."""
        said = sum(self._keys.occurs(entry, key, place) for key in entry.keys)
        more = sum(self._keys.occurs(entry, key, place) for key in entry.secondary)
        counts = entry.logic == 0 or (entry.logic == 3 and more == len(entry.secondary))  # noqa: PLR2004
        return said + more if said and counts else said

    def _resting_reason(self, directory: str, book: _Book, entry_id: str, now: int) -> str:
        """Return whether an entry rests after a match earlier in the conversation."""
        entry = book[entry_id]
        if not self._rest_at(directory, book, entry_id, now).is_on(entry):
            return ""
        if entry.is_single:
            return "it was named before in this conversation (`@@dont_activate_after_match`)"
        until = self._rest_at(directory, book, entry_id, now).rests_until
        return f"it was named, and is on cooldown until message {until}; this is message {now}"

    def _rest_at(self, directory: str, book: _Book, entry_id: str, place: int) -> _Rest:
        """Return whether an entry rests at the message number `place`."""
        if not book[entry_id].is_timed:
            return _Rest()
        if place < self._count_all():  # while going through the conversation
            return self._rests.get((directory, entry_id), _Rest())
        if (directory, entry_id) not in self._rests:
            self._go_through(directory, book, entry_id, place)
        return self._rests[directory, entry_id]

    def _go_through(self, directory: str, book: _Book, entry_id: str, now: int) -> None:
        """Find until when an entry rests, and those of its groups with it."""
        related = _related_entries(book, entry_id)
        rests = {key: _Rest() for key in related}
        self._rests |= {(directory, key): rest for key, rest in rests.items()}
        for place in self._last_places([book[key] for key in related], now):
            for key, rest in rests.items():
                rest.come_to(place, book[key], self._places)
            for key in [k for k in related if self._was_shown(directory, book, k, place)]:
                rests[key].match(place, book[key])
        for key, rest in rests.items():
            rest.come_to(now, book[key], self._places)

    def _last_places(self, entries: Sequence[LoreSettings], now: int) -> list[int]:
        """Return the places before `now` at which entries may be named, and that still matter.

        What was named longer ago than entries stay and rest afterwards has no effect any more.
        """
        said = self._places[: bisect_left(self._places, now)]
        numbers = [self._keys.may_be_named(entry) for entry in entries]
        depths = [entry.scan_depth for entry in entries]
        stays = max(entry.sticky for entry in entries)
        rests = max(entry.cooldown for entry in entries)
        is_for_good = any(entry.is_single for entry in entries)
        if is_for_good and None not in numbers:
            spans = [
                (bisect_left(said, n), bisect_left(said, n + depth))
                for listed, depth in zip(numbers, depths, strict=True)
                for n in listed or ()
            ]
            return sorted({place for first, last in spans for place in said[first:last]})
        items: list[int] = []
        for place in reversed(said):
            ended = next(iter(self._places[bisect_left(self._places, place + stays) :]), now)
            if not is_for_good and (items[-1] if items else now) >= max(ended, place) + rests:
                break
            if any(
                listed is None or _is_within(listed, place, depth)
                for listed, depth in zip(numbers, depths, strict=True)
            ):
                items.append(place)
        return items[::-1]

    def _was_shown(self, directory: str, book: _Book, entry_id: str, place: int) -> bool:
        entry, rest = book[entry_id], self._rests[directory, entry_id]
        if rest.is_on(entry) or rest.stays_until:
            return not rest.is_on(entry)
        return (
            self._is_named(entry, place)
            and not self._forbidden(entry, place)
            and not self._other_of_group(directory, book, entry_id, place)
            and not self._unlucky(entry_id, entry, place)
        )

    def _count(self, entry: LoreSettings) -> int:
        """Read as many of the newest messages as an entry looks at; return how many there are."""
        looks_back = (
            entry.is_timed or entry.groups or entry.after or entry.every or entry.recursion_level
        )
        if looks_back or 0 < entry.probability < _PERCENT:
            return self._count_all()
        return self._read_messages(max(entry.scan_depth, entry.delay, 1))

    def _count_all(self) -> int:
        return self._read_messages(_MOST_MESSAGES)

    def _read_messages(self, most: int) -> int:
        if self._read < most:
            self._read = most
            said = list(self._load(most))
            self._keys.messages = Messages([text for text, _ in said])
            self._places = [place for place, (_, is_said) in enumerate(said, 1) if is_said]
            self._replies = [place for place, (_, is_said) in enumerate(said, 1) if not is_said]
        return len(self._keys.messages.texts)

    def _load(self, most: int) -> Iterator[tuple[str, bool]]:
        """Yield the messages, oldest first, and whether a person said them."""
        request = self._request
        turns = self._history.recent(
            request.channel_id, most, request.before_id, viewer=request.viewer
        )
        if request.opening and len(turns) < most:
            yield f"{self._macros.char}: {request.opening}", False
        for turn in turns:
            name = turn.author.label if turn.author else self._macros.char
            yield f"{name}: {turn.content}", turn.role == "user"
        if request.utterance:
            yield f"{self._macros.user}: {request.utterance}", True
        if request.begun:
            yield f"{self._macros.char}: {request.begun.text}", False

    @cached_property
    def _card(self) -> dict[str, Any]:
        try:
            data = json.loads(self._store.read_file(CARD_JSON))["data"]
        except (FamiliarError, ValueError, KeyError, TypeError):
            return {}
        return data if isinstance(data, dict) else {}

    def _beside(self, name: str) -> str:
        """Return a text beside the chat in which keys may count."""
        fields, macros = self._macros.fields, self._macros
        prompt = (self._card.get("extensions") or {}).get("depth_prompt") or {}
        texts = {
            "PersonaDescription": macros.persona,
            "CharacterDescription": fields.get("description", ""),
            "CharacterPersonality": fields.get("personality", ""),
            "Scenario": fields.get("scenario", ""),
            "CharacterDepthPrompt": str(prompt.get("prompt") or ""),
            "CreatorNotes": str(self._card.get("creator_notes") or ""),
        }
        return macros.expand(texts[name])

    def _draw(self, name: str, place: int) -> float:
        """Draw a number in [0, 1), the same for one turn of a conversation."""
        seed = f"{self._request.channel_id}\n{place}\n{name}"
        return int.from_bytes(sha256(seed.encode()).digest()[:8]) / 2**64


def _is_within(numbers: Sequence[int], place: int, depth: int) -> bool:
    """Tell whether any of the sorted numbers is among the last `depth` up to `place`."""
    last = bisect_right(numbers, place)
    return last > 0 and numbers[last - 1] > place - depth


def _related_entries(book: _Book, entry_id: str) -> list[str]:
    """Return an entry with those that share a group with it, directly or through others."""
    groups, matches = set(book[entry_id].groups), {entry_id}
    if not groups:
        return [entry_id]
    while more := {key for key, one in book.items() if groups.intersection(one.groups)} - matches:
        matches |= more
        groups.update(*(book[key].groups for key in more))
    return sorted(matches, key=lambda key: (-book[key].order, book[key].place))


def _wrong_logic(logic: int, held: list[str], lacked: list[str]) -> str:
    """Return why the secondary keys that were said, and those that were not, keep an entry back."""
    match logic:
        case 1:  # NOT ALL
            return "" if lacked else f"all of these were said: {_list_keys(held)} (NOT ALL)"
        case 2:  # NOT ANY
            return f"{held[0]!r} was said (NOT ANY)" if held else ""
        case 3:  # AND ALL
            return f"{lacked[0]!r} was not said (AND ALL)" if lacked else ""
        case _:
            return "" if held else f"none of these was said: {_list_keys(lacked)} (AND ANY)"


def _until(entry: LoreSettings, change: str = "") -> str:
    """Say what opens an entry again."""
    scanned = counted(entry.scan_depth, "message")
    return f"; it opens once this is {change}so within the last {scanned}"


def _list_keys(keys: Iterable[str]) -> str:
    return one_line(", ".join(map(repr, keys)), 120)
