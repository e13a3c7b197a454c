"""Which message is meant: ids decide where both have one; author, words and place otherwise.

Laws: the same id is the same message, and another id another one, whatever the words. Without ids,
messages of different roles or people differ, and so do those with different words, except for
whitespace, look-alike tags, and a reply that a program has truncated. The same line of a chat in
the same channel has the same identity on every machine.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final

from familiar_cli.base.text import digest_of
from familiar_cli.store.history.rows import Turn

Account = tuple[str | None, str | None]
"""Platform and user id of an author; None for both if there is none."""

Wording = tuple[bool, str]

_KEPT_SHARE: Final = 0.5  # of a reply that a program has truncated
_FENCED: Final = re.compile(
    r"<memory>\s*What [^\n]{1,1000}? remembers, as notes\..*?</memory>\s*", re.DOTALL
)


def compare_ids(one: str, other: Callable[[], str]) -> bool | None:
    """Tell whether two message ids are equal; None if one of the messages has none.

    Args:
        one: An id, or an empty string.
        other: Returns the other id; called only if there is `one`.
    """
    name = one and other()
    return one == name if name else None


def is_same_message(one: Turn, other: Turn) -> bool:
    """Tell whether two turns without message ids may be the same message."""
    is_by_one = may_be_one_person(account_of(one), account_of(other))
    return is_by_one and wording_of(one) == wording_of(other)


def account_of(turn: Turn) -> Account:
    """Return the account of a turn's author."""
    return (turn.author.platform, turn.author.user_id) if turn.author else (None, None)


def may_be_one_person(one: Account, other: Account) -> bool:
    """Tell whether two accounts may be the same person's; ids differ between platforms."""
    return None in (one[0], other[0]) or one[0] != other[0] or one == other


def is_same_text(said: str, text: str, role: str) -> bool:
    """Tell whether `said` is `text`, or a reply that a program truncated; both are normalised."""
    if said == text:
        return True
    is_cut = role == "assistant" and len(said) >= _KEPT_SHARE * len(text) > 0
    return is_cut and text.startswith(said)


def are_alike(text: str, other: str) -> bool:
    """Tell whether one text may be an edit of the other: they share half of their words."""
    words, others = set(normal_words(text).split()), set(normal_words(other).split())
    return 2 * len(words & others) >= min(len(words), len(others))


def wording_of(turn: Turn) -> Wording:
    """Tell whether the familiar is the speaker, and the words without whitespace."""
    return turn.role == "assistant", normal_words(turn.content)


def normal_words(text: str) -> str:
    """Normalise whitespace, line ends and quoted tags for comparison."""
    return " ".join(unicodedata.normalize("NFC", text).replace("‹", "<").split())


def without_fence(text: str) -> str:
    """Remove the notes that the server or its extension added to a text."""
    if "<memory>" not in text:
        return text
    head, end, tail = text.rpartition("</memory>")  # skip the search if the fence is never closed
    rest = tail.lstrip()
    return _FENCED.sub("", f"{head}{end}{tail[: len(tail) - len(rest)]}") + rest


def kept_words(text: str) -> str:
    """Return a text as it is stored: without our notes, and with look-alike tags escaped.

    A text that consists only of notes is kept, with its tag quoted.
    """
    if "<memory" not in text:
        return text
    words = without_fence(text)
    return (words if words.strip() else text).replace("<memory", "‹memory")


def stated_id(value: Mapping[str, Any]) -> str:
    """Return the message id in a raw line; empty: none."""
    given = value.get("id")
    return str(given) if isinstance(given, str | int) and not isinstance(given, bool) else ""


def identity_of(channel_id: str, fingerprint: bytes) -> bytes:
    """Return the key by which a channel's line is recognised."""
    channel = channel_id.encode("utf-8", errors="surrogatepass")
    return digest_of(channel + b"\0" + fingerprint, 16)
