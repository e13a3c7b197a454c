"""Small things done to text: making it harmless, comparable, short, a file name, or a diff.

Folding makes words comparable. What is only a matter of writing does not count: case and width (`ß`
is `ss`); Arabic and Hebrew vowel points, tatweel, the forms of alef, alef maqsura, ta marbuta, and
the Persian ya and kaf; Indic nuktas, stress marks and candrabindu; Thai and Lao tone marks;
hiragana or katakana; Chinese characters that Unicode itself calls the same. What stays apart:
accents of Latin, Greek and Cyrillic letters, Indic and Thai vowel signs, the long vowels of kana,
and traditional, simplified and Japanese characters, of which Unicode's tables in Python say
nothing.
"""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Final

from msgspec import Struct

try:
    from _blake2 import blake2b  # what `hashlib` gives, without loading OpenSSL
except ImportError:  # a Python that was built without it
    from hashlib import blake2b

# C0 and C1 controls but tab and newline, marks that reorder text on a terminal, half characters.
_HARMFUL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"  # letters and signs that are drawn as nothing
# What is drawn as nothing and joins no letters: soft hyphens, zero-width spaces, invisible tags.
_UNSEEN = "[\u00ad\u180e\u200b\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})
# Marks, letters and reserved code points that Unicode has programs draw as nothing.
_IGNORABLE = (
    f"[{_BLANK}\u034f\u17b4\u17b5\u180b-\u180f\u2065\ufdd0-\ufdef\ufe00-\ufe0f\ufff0-\ufffd"
    "\U000e0000-\U000e0fff]"
)
_DELIMITERS = str.maketrans({"<": "‹", ">": "›", "[": "(", "]": ")", '"': "'", "`": "'"})
_TAGS = (
    r"(?i)<(?=\s*/?\s*(?:turns|memory|voice|lore|source|kept|message|passage|lines|findings"
    r"|hidden[_\s-]?note)\b)"
)
_SHELL_SIGNS = r"""[\s'"`$\\&|;<>()*?!#~^{}\[\]]"""
LANGUAGES: Final = ("en", "de", "ja", "ar", "es", "fr", "zh")
"""The languages with a table of words, by their codes as in ISO 639."""

NAME_CHARS = 60
"""Most characters of a name in a prompt."""
_MOST_NAME_CHARS = 200  # of what somebody may have mistyped; comparing is quadratic
# What may stand in a name beside letters, digits and marks: no file system, link or shell minds it.
_HARMLESS_SIGNS = "・·（）「」『』【】《》〈〉〜"
_WITHOUT_JOINERS = str.maketrans("", "", "\u200c\u200d")


def without_secrets(address: str) -> str:
    """Strip user, password, query and fragment from an address, or what looks like one."""
    address = re.sub(r"([?#]).*", r"\1***", address, flags=re.DOTALL)
    return re.sub(r"^([\w+.-]*://)?.*@", r"\1***@", address, flags=re.DOTALL)


class Discreet(Struct, frozen=True):
    """A record with secrets: only the fields named in `shown` are ever written out."""

    shown: ClassVar[tuple[str, ...]] = ()

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [(name, getattr(self, name)) for name in self.shown]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({fields})"


def well_formed(text: str) -> str:
    """Join the halves of surrogate pairs, and replace a lone half by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def harmless(text: str) -> str:
    """Remove escape sequences and other controls that could affect a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_HARMFUL, "", text.replace("\r\n", "\n"))


def harmless_json(line: str) -> str:
    """Escape a line of JSON, so that it cannot affect a terminal."""
    return re.sub(_HARMFUL, lambda match: f"\\u{ord(match[0]):04x}", line)


def whole_line(text: str) -> str:
    """Format `text` as one harmless line of any length."""
    return " ".join(harmless(text).split())


def one_line(text: str, width: int = 80) -> str:
    """Format `text` as one harmless line of at most `width` characters."""
    line = whole_line(text)
    return line if len(line) <= width else line[: max(width - 1, 0)].rstrip() + "…"


def typed(word: str, *, windows: bool = os.name == "nt") -> str:
    """Quote a word, such as a path, for a shell if necessary."""
    if word and not re.search(_SHELL_SIGNS, word):
        return word
    if windows:
        return f'"{word}"'
    import shlex  # noqa: PLC0415  # starting is quicker without it

    return shlex.quote(word)


def channel_option(channel_id: str) -> str:
    """Return the option that names a channel in a hint; empty for the default one."""
    return "" if channel_id == "cli" else f" --channel {typed(channel_id)}"


def hint_sentence(hint: str) -> str:
    """Return a hint as a sentence; one that is only a command is put into one."""
    return hint if "`" in hint or hint[:1].isupper() else f"Run `{hint}`."


def bare_lines(text: str) -> list[str]:
    """Split a text at line feeds, without the line ends; U+2028 and the like are text."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


MOST_NUMBER: Final = 1_000_000_000
"""The largest number in a setting or an option: as seconds 31 years, which every timer takes."""


def counted(number: int, noun: str, many: str = "") -> str:
    """Format a number with its noun: `1 file`, `1,200 files`."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def size_words(size_bytes: int) -> str:
    """Format a size for people: `312 B`, `4.1 KB`, `93.8 MB`."""
    units = (("GB", 1e9), ("MB", 1e6), ("KB", 1e3))
    name, unit = next((one for one in units if size_bytes >= one[1]), ("B", 1))
    return f"{size_bytes / unit:,.{0 if name == 'B' else 1}f} {name}"


def shorten_list(names: Iterable[str], most: int, separator: str = ", ") -> str:
    """Join the first `most` names and count the rest: `a, b and 3 more`."""
    every = list(names)
    more = len(every) - most
    return separator.join(every[:most]) + (f" and {more:,} more" if more > 0 else "")


def join_names(names: Iterable[str], word: str = "and") -> str:
    """Join names as a sentence does: `a, b and c`."""
    *before, last = names
    return f"{', '.join(before)} {word} {last}" if before else last


@lru_cache(maxsize=512)  # of one prompt: the same few names stand before many lines
def framed(text: str, width: int = NAME_CHARS) -> str:
    """Format outside text for the frame of a prompt.

    It becomes one line of at most `width` characters, without invisible characters except joiners,
    and without the signs that open or close a part of a prompt.
    """
    return one_line(re.sub(_UNSEEN, "", text).translate(_DELIMITERS), width)


def unfenced(text: str) -> str:
    """Escape an outside text between tags, so that it cannot close them."""
    return re.sub(_TAGS, "‹", harmless(text))


def is_visible(text: str) -> bool:
    """Tell whether `text` has anything visible; a lone combining mark is not."""
    unseen = {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs", "Mc", "Me", "Mn"}
    return any(c not in _BLANK and unicodedata.category(c) not in unseen for c in text)


def is_hidden(character: str) -> bool:
    """Tell whether a character is invisible in an id, or looks like a space."""
    if character.isascii():
        return not character.isprintable()
    is_noncharacter = ord(character) & 0xFFFE == 0xFFFE  # noqa: PLR2004  # the last two of a plane
    is_space_or_control = unicodedata.category(character) in _HIDDEN_CATEGORIES
    return is_noncharacter or is_space_or_control or re.match(_IGNORABLE, character) is not None


def slugify(title: str, *, max_chars: int = 60) -> str:
    """Make a file-name stem from `title`: lower case letters and digits, `-` between.

    Letters of every script are kept with their combining marks, and so are signs such as `・` and
    `（）`. The stem is empty without a letter or digit.
    """
    slug = _slug_of if len(title) <= _USUAL_CHARS else _slug_of.__wrapped__
    return slug(title, max_chars)


_USUAL_CHARS: Final = 200


@lru_cache(maxsize=128)
def _slug_of(title: str, max_chars: int) -> str:
    parts = re.split(f"([{_HARMLESS_SIGNS}])", title)
    plain = "".join(p if p in _HARMLESS_SIGNS else unicodedata.normalize("NFKC", p) for p in parts)
    folded = unicodedata.normalize("NFC", plain.lower().translate(_WITHOUT_JOINERS))
    text = "".join(c if is_of_names(c) else "-" for c in folded)
    stem = _cut_before_marks("-".join(filter(None, text.split("-"))), max_chars).strip("-")
    return stem if any(c.isalnum() for c in stem) else ""


def is_of_names(character: str) -> bool:
    """Tell whether a character may occur in a name: letters, digits, marks, harmless signs."""
    if character.isalnum() or character in _HARMLESS_SIGNS:
        return True
    return unicodedata.category(character) in {"Mn", "Mc"}


def _cut_before_marks(text: str, most: int) -> str:
    """Truncate `text` without separating a letter from its marks."""
    end = most
    while 0 < end < len(text) and unicodedata.category(text[end])[0] == "M":
        end -= 1
    return text[:end]


def fold(text: str) -> str:
    """Fold `text`, so that names that people consider equal compare equal."""
    if text.isascii():
        return text.lower()  # all that the rest would do to it
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", text).casefold())


def words_of(text: str) -> list[str]:
    """Split a text into case-folded words."""
    return re.findall(r"\w+", fold(text))


def fold_all(texts: Iterable[str]) -> list[str]:
    """Fold each text; quick for thousands of plain ones."""
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


def digest_of(content: str | bytes, size: int) -> bytes:
    """Return a digest of a text as UTF-8, or of bytes; for keys and stamps of our own.

    Args:
        content: What it tells apart.
        size: Its length, in bytes.
    """
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return blake2b(raw, digest_size=size).digest()


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most like `name`, or None if none is similar."""
    if len(name) > _MOST_NAME_CHARS:
        return None
    close_matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return close_matches[0] if close_matches else None


def str_or_empty(value: object) -> str:
    """Return `value` if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


_DROPPED: Final = (
    ("\u0591", "\u05bd"),  # Hebrew accents and points
    *((mark, mark) for mark in "\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"),
    ("\u0610", "\u061a"),  # Arabic marks and vowel points
    ("\u064b", "\u065f"),
    ("\u06d6", "\u06dc"),
    ("\u06df", "\u06e4"),
    *((mark, mark) for mark in "\u0640\u0670\u06e7\u06e8\u06ea\u06eb\u06ec\u06ed"),
    *((mark, mark) for mark in "\u093c\u09bc\u0a3c\u0abc\u0b3c\u0c3c\u0cbc"),  # Indic nuktas
    ("\u0951", "\u0954"),  # Vedic accents
    ("\u0e47", "\u0e4c"),  # Thai tone marks and the sign of a silent letter
    ("\u0ec8", "\u0ecc"),  # Lao tone marks
    ("\u200b", "\u200d"),  # joiners, and a space without width
    ("\ufe00", "\ufe0f"),  # variation selectors
    ("\U000e0100", "\U000e01ef"),
    ("\u00ad", "\u00ad"),  # a soft hyphen
    ("\u2060", "\u2060"),
    ("\ufeff", "\ufeff"),
)
_SAME: Final = {
    **dict.fromkeys("آأإٱ", "ا"),
    **dict.fromkeys("ىیې", "ي"),
    "ة": "ه",
    "ۀ": "ه",
    "ک": "ك",
    "ё": "е",
    # candrabindu as anusvara, script by script
    **{chr(block + 1): chr(block + 2) for block in range(0x0900, 0x0D00, 0x80)},
}
_KANA: Final = {
    **{chr(point): chr(point - 0x60) for point in range(0x30A1, 0x30F7)},
    "ヽ": "ゝ",
    "ヾ": "ゞ",
}
_LETTERS: Final = {**{chr(p): "" for a, b in _DROPPED for p in range(ord(a), ord(b) + 1)}, **_SAME}

_JOINERS: Final = dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff", "")


def fold_word(text: str) -> str:
    """Fold a word for comparison."""
    return text.lower() if text.isascii() else fold_kana(fold_letters(text))


def fold_letters(text: str) -> str:
    """Fold `text` like `fold_word`, keeping katakana."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text).casefold().replace("i\u0307", "i")
    return unicodedata.normalize("NFKC", _replace_letters(plain, _LETTERS))


_NO_ACCENT: Final = str.maketrans("đøłı", "doli")


def without_accents(text: str) -> str:
    """Return a folded text with its Latin letters bare of accents."""
    if text.isascii():
        return text
    bare: list[str] = []
    for letter in unicodedata.normalize("NFD", text):
        is_accent = unicodedata.category(letter) == "Mn" and bare and bare[-1].isascii()
        bare += [] if is_accent else [letter]
    return unicodedata.normalize("NFC", "".join(bare)).translate(_NO_ACCENT)


def without_joiners(text: str) -> str:
    """Remove invisible characters inside words."""
    return text if text.isascii() else _replace_letters(text, _JOINERS)


def _replace_letters(text: str, table: Mapping[str, str]) -> str:
    # `str.translate` takes ten times as long: few of the table's letters stand in one text.
    for letter in table.keys() & set(text):
        text = text.replace(letter, table[letter])
    return text


def fold_kana(text: str) -> str:
    """Convert katakana to hiragana, letter by letter."""
    return text if text.isascii() else _replace_letters(text, _KANA)


USEFUL_TOKENS: Final = 20
"""A text that had to be cut shorter than this says nothing any more."""

_CLOSERS: Final = r"[\"'”’»)\]*_」』）】]*"
# A stop ends a sentence when white space follows; the stops of CJK scripts need none.
_ENDS: Final = rf"[.!?…।؟۔]+{_CLOSERS}(?=\s|$)|[。！？]+{_CLOSERS}|\n"
_WRAPPED_CHARS: Final = 60
_STOPS: Final = ".!?…"  # what follows these with a small letter is no new sentence
_LAST_WORD: Final = re.compile(r"(\w[\w.]*)\.$")
_ABBREVIATIONS: Final = frozenset(
    "dr mr mrs ms mx prof st sr jr rev capt lt sgt vs e.g eg i.e ie cf ca approx vol pp "  # noqa: SIM905
    "bzw z.b d.h u.a f.eks dvs p.ex mme mlle sra sta".split()
)
_MODIFIERS: Final = range(0x1F3FB, 0x1F400)  # skin tones, which belong to the emoji before them
_EMOJI_JOINERS: Final = "\u200d\ufe0e\ufe0f"


def cut_to(text: str, limit_tokens: int, count: Callable[[str], int]) -> str:
    """Truncate `text` to `limit_tokens`; empty if too little would be left.

    It ends after a sentence, or between words, if that keeps at least half of what fits. The rest
    has at least `USEFUL_TOKENS`.
    """
    fits = _longest_fit(text, limit_tokens, count)
    for end in (_sentence_end(text, fits), _word_end(text, fits), _whole_character(text, fits)):
        cut = text[:end].rstrip()
        if 2 * end >= fits and USEFUL_TOKENS <= count(cut) <= limit_tokens:
            return cut
    return ""


def whole_sentences(
    text: str, limit_tokens: int, count: Callable[[str], int], *, least: int = USEFUL_TOKENS
) -> str:
    """Return the leading sentences of `text` that fit; see `cut_to` if none does.

    Args:
        limit_tokens: Most tokens.
        count: Counts tokens.
        least: Sentences with fewer tokens count as none.
    """
    if count(text) <= limit_tokens:
        return text
    whole = text[: _sentence_end(text, _longest_fit(text, limit_tokens, count))].rstrip()
    return whole if count(whole) >= least else cut_to(text, limit_tokens, count)


def sentence_ends(text: str) -> Iterator[int]:
    """Yield the offset after each sentence of `text`."""
    for match in re.finditer(_ENDS, text):
        if match[0] == "\n":
            goes_on = _is_wrapped(text, match.start())
        else:
            goes_on = match[0][0] in _STOPS and _goes_on(text, match)
        if not goes_on:
            yield match.end()


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a line."""
    cuts = [0, *sentence_ends(text), len(text)]
    items = (text[start:end].strip() for start, end in pairwise(cuts))
    return [sentence for sentence in items if sentence]


def _is_wrapped(text: str, at: int) -> bool:
    """Tell whether a line break only wraps a paragraph."""
    line = text[text.rfind("\n", 0, at) + 1 : at].rstrip()
    is_long = len(line) >= _WRAPPED_CHARS and line[-1].isalnum()
    return is_long and text[at + 1 : at + 2].isalpha()


def _goes_on(text: str, stop: re.Match[str]) -> bool:
    """Tell whether the sentence continues after this stop."""
    before = _LAST_WORD.search(text, max(0, stop.start() - 20), stop.start() + 1)
    if before and stop[0][:2] != "..":
        word = before[1]
        line_start = text[: before.start()].rpartition("\n")[2].strip(" -*#>") == ""
        initial = (len(word) == 1 and word.isupper()) or (line_start and word.isdigit())
        if initial or word.lower() in _ABBREVIATIONS:
            return True
    return text[stop.end() : stop.end() + 2].strip()[:1].islower()


def _longest_fit(text: str, limit_tokens: int, count: Callable[[str], int]) -> int:
    """Return how many leading characters of `text` have at most `limit_tokens`."""
    high = max(8 * limit_tokens, 64)
    while high < len(text) and count(text[:high]) <= limit_tokens:
        high *= 2
    high = min(high, len(text))
    return largest_fit(0, high, lambda end: count(text[:end]) <= limit_tokens)


def largest_fit(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `high` that fits, at least `low`."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _sentence_end(text: str, fits: int) -> int:
    """Return the last sentence end within `fits`, judged by what follows it."""
    return max((end for end in sentence_ends(text[: fits + 3]) if end <= fits), default=0)


def _word_end(text: str, fits: int) -> int:
    if text[fits : fits + 1].isspace():
        return fits
    return max((match.start() for match in re.finditer(r"\s", text[:fits])), default=0)


def _whole_character(text: str, fits: int) -> int:
    """Return the last offset within `fits` that does not separate a letter from its marks."""
    end = fits
    while 0 < end < len(text) and (
        _belongs_before(text[end]) or text[end - 1] == _EMOJI_JOINERS[0]
    ):
        end -= 1
    return end


def _belongs_before(character: str) -> bool:
    return (
        character in _EMOJI_JOINERS
        or ord(character) in _MODIFIERS
        or unicodedata.category(character).startswith("M")
    )


_MOST_PAIRS: Final = 250_000  # beyond which comparing all pairs takes too long

NO_NEWLINE: Final = "\\ No newline at end of file"


def unified(before: str, after: str, old: str, new: str | None = None) -> str:
    """Format a unified diff of two texts; empty if they are equal.

    Args:
        before: The one text.
        after: The other.
        old: What the one is called.
        new: What the other is called; the same when None.
    """
    names = old, old if new is None else new
    lines = difflib.unified_diff(marked_lines(before), marked_lines(after), *names, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def unified_file(rel_path: str, before: str | None, after: str | None) -> str:
    """Format a unified diff of a file with git's names; None stands for no file."""
    old, new = (
        f"{side}/{rel_path}" if text is not None else "/dev/null"
        for side, text in (("a", before), ("b", after))
    )
    return unified(before or "", after or "", old, new)


def marked_lines(text: str) -> list[str]:
    """Split a text into lines without their ends, marking a last line without a newline.

    Only newlines end a line: other characters that Python treats as line ends are part of the text.
    """
    *lines, last = text.split("\n")
    return [*lines, f"{last}\n{NO_NEWLINE}"] if last else lines


def matching_blocks(
    before: Sequence[Hashable], after: Sequence[Hashable]
) -> list[tuple[int, int, int]]:
    """Return the matching runs of two lists, in order: start in each, and length.

    They are those of `difflib`, but long lists are first split at items unique in both, which takes
    hardly longer than reading them.
    """
    items: list[tuple[int, int, int]] = []
    waiting = [(0, len(before), 0, len(after))]
    while waiting:
        a, a_end, b, b_end = waiting.pop()
        size = (a_end - a) * (b_end - b)
        parts = before[a:a_end], after[b:b_end]
        cuts = [(a + i, b + j) for i, j in _anchors(*parts)] if size > _MOST_PAIRS else []
        if not cuts:
            matcher = difflib.SequenceMatcher(None, *parts, autojunk=size > _MOST_PAIRS)
            items += [(a + i, b + j, n) for i, j, n in matcher.get_matching_blocks() if n]
            continue
        items += [(i, j, 1) for i, j in cuts]
        edges = [(a - 1, b - 1), *cuts, (a_end, b_end)]
        for (i, j), (i_end, j_end) in pairwise(edges):
            if i_end - i > 1 and j_end - j > 1:
                waiting.append((i + 1, i_end, j + 1, j_end))
    return list(_join_blocks(sorted(items)))


def changed_blocks(
    before: Sequence[Hashable], after: Sequence[Hashable]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the gaps between matching blocks: start and end in each list."""
    a = b = 0
    for i, j, n in [*matching_blocks(before, after), (len(before), len(after), 0)]:
        if (a, b) != (i, j):
            yield a, i, b, j
        a, b = i + n, j + n


def _anchors(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the longest increasing sequence of items unique in both lists (patience diff)."""
    counts = Counter(before), Counter(after)
    place = {one: j for j, one in enumerate(after) if counts[0][one] == counts[1][one] == 1}
    pairs = [(i, place[one]) for i, one in enumerate(before) if one in place]
    ends: list[int] = []  # the lowest place in `after` with which a row of that length ends
    last: list[int] = []
    former: list[int] = []
    for at, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        former.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        last[length : length + 1] = [at]
    items: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        items.append(pairs[at])
        at = former[at]
    return items[::-1]


def _join_blocks(blocks: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    a, b, n = -1, -1, 0
    for i, j, m in blocks:
        if n and (a + n, b + n) == (i, j):
            n += m
            continue
        if n:
            yield a, b, n
        a, b, n = i, j, m
    if n:
        yield a, b, n
