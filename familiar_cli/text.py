"""Small things done to text: making it harmless, short, comparable, or a file name."""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# C0 and C1 controls but tab and newline, marks that reorder text on a terminal, half characters.
_HARMFUL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # letters and signs that are drawn as nothing
# What is drawn as nothing and joins no letters: soft hyphens, zero-width spaces, invisible tags.
_UNSEEN = re.compile(
    "[\u00ad\u180e\u200b\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})
# Marks, letters and reserved code points that Unicode has programs draw as nothing.
_IGNORABLE = re.compile(
    f"[{_BLANK}\u034f\u17b4\u17b5\u180b-\u180f\u2065\ufdd0-\ufdef\ufe00-\ufe0f\ufff0-\ufffd"
    "\U000e0000-\U000e0fff]"
)
_DELIMITERS = str.maketrans({"<": "‹", ">": "›", "[": "(", "]": ")", '"': "'", "`": "'"})
_TAGS = re.compile(
    r"<(?=\s*/?\s*(?:turns|memory|voice|source|kept|message|passage|lines|findings|hidden[_\s-]?note)\b)",
    re.IGNORECASE,
)
_SHELL_SIGNS = re.compile(r"""[\s'"`$\\&|;<>()*?!#~^{}\[\]]""")
NAME_CHARS = 60
"""Most characters of a name in a prompt."""
_MOST_NAME_CHARS = 200  # of what somebody may have mistyped; comparing is quadratic
# What may stand in a name beside letters, digits and marks: no file system, link or shell minds it.
_HARMLESS_SIGNS = "・·（）「」『』【】《》〈〉〜"
_WITHOUT_JOINERS = str.maketrans("", "", "\u200c\u200d")


def harmless(text: str) -> str:
    """Return `text` without escape sequences or marks that could steer a terminal."""
    return _HARMFUL.sub("", text.replace("\r\n", "\n"))


def harmless_json(line: str) -> str:
    """Return a line of JSON that means the same and could not steer a terminal."""
    return _HARMFUL.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def one_line(text: str, width: int = 80) -> str:
    """Return `text` as one harmless line of at most `width` characters."""
    line = " ".join(harmless(text).split())
    return line if len(line) <= width else line[: max(width - 1, 0)].rstrip() + "…"


def typed(word: str, *, windows: bool = os.name == "nt") -> str:
    """Return a word, such as a path, as it is typed in a shell: quoted where it has to be."""
    if word and not _SHELL_SIGNS.search(word):
        return word
    if windows:
        return f'"{word}"'
    import shlex  # noqa: PLC0415  # starting is quicker without it

    return shlex.quote(word)


def counted(number: int, noun: str, many: str = "") -> str:
    """Return a number and what it counts: `1 file`, `1,200 files`."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def framed(text: str, width: int = NAME_CHARS) -> str:
    """Return text from outside as it may stand in the frame of a prompt.

    It is one line of at most `width` characters, holds nothing invisible but what joins letters,
    and none of the signs that open or close a part of a prompt.
    """
    return one_line(_UNSEEN.sub("", text).translate(_DELIMITERS), width)


def unfenced(text: str) -> str:
    """Return a text from outside that stands between tags, so that it cannot close them."""
    return _TAGS.sub("‹", harmless(text))


def is_visible(text: str) -> bool:
    """Return whether a reader sees anything of `text`; a lone combining mark counts as nothing."""
    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs", "Mc", "Me", "Mn"}
    return any(c not in _BLANK and unicodedata.category(c) not in unseen for c in text)


def is_hidden(character: str) -> bool:
    """Tell whether a character is invisible in an id, or looks like a space."""
    if character.isascii():
        return not character.isprintable()
    is_noncharacter = ord(character) & 0xFFFE == 0xFFFE  # noqa: PLR2004  # the last two of a plane
    is_space_or_control = unicodedata.category(character) in _HIDDEN_CATEGORIES
    return is_noncharacter or is_space_or_control or _IGNORABLE.match(character) is not None


def slugify(title: str, *, max_chars: int = 60) -> str:
    """Return a file-name stem for `title`: lower case letters and digits, `-` between.

    Letters of every script stay, with the marks that belong to them, and so do signs such as `・`
    and `（）`. The stem is empty when `title` holds neither letter nor digit.
    """
    parts = re.split(f"([{_HARMLESS_SIGNS}])", title)
    plain = "".join(p if p in _HARMLESS_SIGNS else unicodedata.normalize("NFKC", p) for p in parts)
    folded = unicodedata.normalize("NFC", plain.lower().translate(_WITHOUT_JOINERS))
    kept = "".join(c if is_of_names(c) else "-" for c in folded)
    stem = _cut_before_marks("-".join(filter(None, kept.split("-"))), max_chars).strip("-")
    return stem if any(c.isalnum() for c in stem) else ""


def is_of_names(character: str) -> bool:
    """Return whether a character may stand in a name: letters, digits, marks, harmless signs."""
    if character.isalnum() or character in _HARMLESS_SIGNS:
        return True
    return unicodedata.category(character) in {"Mn", "Mc"}


def _cut_before_marks(text: str, most: int) -> str:
    """Return the first characters of `text`; no letter loses its marks."""
    end = most
    while 0 < end < len(text) and unicodedata.category(text[end])[0] == "M":
        end -= 1
    return text[:end]


def fold(text: str) -> str:
    """Return `text` so that two names a person would call the same compare equal."""
    if text.isascii():
        return text.lower()  # all that the rest would do to it
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).casefold())


def fold_all(texts: Iterable[str]) -> list[str]:
    """Return what `fold` makes of each text; quick for thousands of plain ones."""
    known = list(texts)
    joined = "\0".join(known)
    if joined.isascii() and joined.count("\0") == len(known) - 1:
        return joined.lower().split("\0")
    return [fold(text) for text in known]


def sha256_of(content: str | bytes) -> str:
    """Return the SHA-256 of a text as UTF-8, or of bytes, in hex."""
    import hashlib  # noqa: PLC0415  # starting is quicker without it

    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.sha256(raw).hexdigest()


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name`, or None when none is alike."""
    if len(name) > _MOST_NAME_CHARS:
        return None
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def str_or_empty(value: object) -> str:
    """Return `value` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""
