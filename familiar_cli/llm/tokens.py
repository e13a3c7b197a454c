"""Count tokens with an encoding on disk, or estimate them. Never downloads anything."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from familiar_cli.base.errors import ConfigError

if TYPE_CHECKING:
    from tiktoken import Encoding

# How cl100k_base splits text before merging bytes; part of its definition, see
# `tiktoken_ext.openai_public.cl100k_base`.
_CL100K: Final = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
# tiktoken is superlinear on runs without a space, so pieces are limited to this length.
_CHUNK_CHARS: Final = 4096
_SINGLE_SPACE: Final = re.compile(r"(?<=\S) (?=\S)")


class TokenCounter(Protocol):
    """A token counter."""

    @property
    def name(self) -> str:
        """The encoding, or `estimate`."""

    def count(self, text: str) -> int:
        """Count the tokens of `text`, in time linear in its length."""


def heuristic() -> TokenCounter:
    """Return a counter that needs no file.

    It is accurate within a quarter on prose, CJK and code; see docs/reference/models.md.
    """
    return _Estimate()


def load(encoding_file: Path | None) -> TokenCounter:
    """Return a counter that uses the ranks in `encoding_file`.

    Without that file or tiktoken, returns `heuristic()`.

    Raises:
        ConfigError: The file is not a valid list of ranks.
    """
    if encoding_file is None or not encoding_file.is_file():
        return heuristic()
    stat = encoding_file.stat()
    return _load_once(encoding_file, stat.st_size, stat.st_mtime_ns)


@cache
def _load_once(path: Path, size_bytes: int, mtime_ns: int) -> TokenCounter:
    del size_bytes, mtime_ns  # make a replaced file another cache key
    try:
        import tiktoken  # noqa: PLC0415  # 0.1 s
    except ImportError:  # no wheel for this platform
        return heuristic()
    try:
        ranks = _read_ranks(path.read_bytes())
        return _Exact(
            tiktoken.Encoding(path.stem, pat_str=_CL100K, mergeable_ranks=ranks, special_tokens={})
        )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"The encoding in {str(path)!r} is damaged: {error}",
            hint=f"Run `familiar model rm {path.stem}`, then `familiar model pull {path.stem}`.",
        ) from error


def _read_ranks(content: bytes) -> dict[bytes, int]:
    """Parse ranks from lines of `<token in base64> <rank>`."""
    words = content.split()
    decode = partial(binascii.a2b_base64, strict_mode=True)
    ranks = dict(zip(map(decode, words[::2]), map(int, words[1::2]), strict=True))
    # tiktoken aborts the process if a byte has no rank, or two tokens share one.
    if any(bytes([byte]) not in ranks for byte in range(256)):
        raise ValueError("it is incomplete")
    if len(set(ranks.values())) != len(ranks):
        raise ValueError("two tokens have the same rank")
    return ranks


class _Exact:
    """Counts with tiktoken, in chunks, which may add a token at each boundary."""

    def __init__(self, encoding: Encoding) -> None:
        self.name = encoding.name
        self._encoding = encoding

    def count(self, text: str) -> int:
        return sum(len(self._encoding.encode_ordinary(chunk)) for chunk in _chunks(text))


def _chunks(text: str) -> Iterator[str]:
    """Split `text` into chunks, preferably before a single space, which no token spans."""
    start = 0
    while len(text) - start > _CHUNK_CHARS:
        middle, end = start + _CHUNK_CHARS // 2, start + _CHUNK_CHARS
        spaces = [match.start() for match in _SINGLE_SPACE.finditer(text, middle, end)]
        cut = spaces[-1] if spaces else end
        yield text[start:cut]
        start = cut
    yield text[start:]


# Pieces of text much as cl100k_base cuts them: a word takes the one mark or space before it along.
_KINDS: Final = re.compile(
    # Before what takes a mark along: these stand between the letters of a word.
    r"(?P<niqqud>[\u0591-\u05c7]+)"
    r"|(?P<harakat>[\u0610-\u061a\u064b-\u065f\u0670]+)"
    r"|(?P<numerals>[\u0660-\u0669\u06f0-\u06f9]+)"  # Arabic-Indic, and the Persian ones
    r"|(?P<accents>[\u0300-\u036f]+)"
    r"|(?P<key>[A-Za-z0-9+/]{40,})"  # base64, a hash
    r"|(?:[^\w\r\n]|_)?(?:"
    r"(?P<word>[A-Z]*[a-z]+)"
    r"|(?P<upper>[A-Z]+)"
    r"|(?P<latin>[A-Za-z\u00c0-\u024f]+)"
    r"|(?P<greek>[\u0250-\u058f]+)"  # Greek, Cyrillic, Armenian
    r"|(?P<hebrew>[\u05d0-\u05ff]+)"
    r"|(?P<arabic>[\u0600-\u060f\u061b-\u064a\u066a-\u066f\u0671-\u06ef\u06fa-\u07ff]+)"
    r"|(?P<kana>[\u3041-\u30ff]+)"
    r"|(?P<han>[\u3400-\u9fff\uf900-\ufaff]+)"
    r"|(?P<hangul>[\u1100-\u11ff\uac00-\ud7af]+)"
    r")"
    r"|(?P<digits>[0-9]{1,3})"
    r"|(?P<mark> ?[!-/:-@\[-`{-~]+[\r\n]*)"
    r"|(?P<print> ?[\u2010-\u2027]+[\r\n]*)"  # dashes, quotation marks, an ellipsis
    r"|(?P<lines>\s*[\r\n])"
    r"|(?P<space>\s+(?!\S)|\s)"
    r"|(?P<indic>[\u0900-\u0fff]+)"
    r"|(?P<astral>[\U00010000-\U0010ffff])"  # emoji
    r"|(?P<other>.)",
    re.DOTALL,
)
# What a piece costs: at least one token, and so much for each character. Fitted to cl100k_base on
# the texts in tests/support/texts.py.
_PER_CHAR: Final = {
    "word": 0.19,
    "upper": 0.26,
    "latin": 0.42,
    "greek": 0.53,
    "hebrew": 1.15,
    "niqqud": 2.0,
    "arabic": 0.75,
    "harakat": 1.0,
    "numerals": 2.0,
    "accents": 1.7,
    "key": 0.75,
    "kana": 1.05,
    "han": 1.45,
    "hangul": 1.25,
    "mark": 0.4,
    "print": 0.6,
    "indic": 1.0,
    "astral": 2.3,
    "other": 1.6,
}


_MOST_PIECES: Final = 50_000
_MOST_PIECE_CHARS: Final = 32  # longer ones seldom occur twice, and would fill memory
_MOST_LINES: Final = 4_096
_MOST_LINE_CHARS: Final = 500


@cache
def _pieces() -> re.Pattern[str]:
    """Compile `_KINDS` without its groups, which `findall` reads twice as fast."""
    return re.compile(re.sub(r"\(\?P<\w+>", "(?:", _KINDS.pattern), re.DOTALL)


def _pieces_of(words: str) -> frozenset[str]:
    return frozenset(f" {word}" for word in words.split())


# Words that occur in most lines of one language.
_ENGLISH: Final = _pieces_of("the and of to you it is my your we they this that with are have")
_FOREIGN: Final = _pieces_of(
    "der das und ist ich nicht ein eine el la los que una con le les et est une di che il não um"
)
# What an English word of 1, 2, … letters costs on average: most are one token.
_ENGLISH_WORDS: Final = (1.0, 1.0, 1.0, 1.0, 1.0, 1.05, 1.12, 1.25, 1.35, 1.35, 1.5, 1.6, 1.7)

# The same for each letter of a longer one, or of a word in another language.
_RARE_CHAR: Final = 0.3


class _Costs(dict[str, float]):
    """The cost of each piece of text, computed once: most words occur often."""

    def __init__(self, cost: Callable[[re.Match[str]], float]) -> None:
        self._cost = cost

    def __missing__(self, piece: str) -> float:
        found = _KINDS.match(piece)
        assert found
        cost = self._cost(found)
        if len(piece) <= _MOST_PIECE_CHARS and len(self) < _MOST_PIECES:
            self[piece] = cost
        return cost


class _Estimate:
    """Estimates tokens by kinds of characters."""

    name: Final = "estimate"

    def count(self, text: str) -> int:
        lines = _split_lines(text)
        is_kept = max(map(len, lines)) <= _MOST_LINE_CHARS
        return round(sum(map(_known_cost if is_kept else _cost_of_line, lines)))


# Consuming the break, which ends a line, is four times as fast as looking behind for it.
_LINE_BREAK: Final = re.compile(r"\n(?=\S)")


def _split_lines(text: str) -> list[str]:
    """Split a text after the breaks at which a piece always ends."""
    *ended, last = _LINE_BREAK.split(text)
    return [*[f"{line}\n" for line in ended], last]


def _cost_of_line(line: str) -> float:
    return _known_cost(line) if len(line) <= _MOST_LINE_CHARS else _sum_costs(line)


@lru_cache(maxsize=_MOST_LINES)  # a prompt has most lines of the one before
def _known_cost(line: str) -> float:
    return _sum_costs(line)


def _sum_costs(text: str) -> float:
    pieces = _pieces().findall(text)
    is_foreign, is_english = (not words.isdisjoint(pieces) for words in (_FOREIGN, _ENGLISH))
    costs = _foreign_costs if is_foreign else _english_costs if is_english else _unknown_costs
    return sum(map(costs.__getitem__, pieces))


def reach(text: str, start: int, end: int, most: int) -> int:
    """Return an end so that `text[start:end]` has about `most` estimated tokens.

    Text beyond it is not read. At least one character is included.
    """
    total = 0.0
    for match in _KINDS.finditer(text, start, end):
        cost = _cost(match)
        if round(total + cost) > most:
            kind = match.lastgroup or ""
            room = int((most + 0.5 - total) / _PER_CHAR.get(kind, cost))  # rounded as in `count`
            stop = match.start(kind) + room if room else match.start()
            return max(start + 1, min(stop, match.end()))
        total += cost
    return end


def _cost(match: re.Match[str]) -> float:
    kind = match.lastgroup or ""
    chars = match.end(kind) - match.start(kind)
    return max(1.0, _PER_CHAR.get(kind, 0.0) * chars)


def _cost_among(usual: tuple[float, ...], found: re.Match[str]) -> float:
    """Return the cost of a piece in a language whose words cost `usual`, by their length."""
    if found.lastgroup != "word":
        return _cost(found)
    chars = found.end("word") - found.start("word")
    return usual[chars - 1] if chars <= len(usual) else max(1.0, _RARE_CHAR * chars)


_unknown_costs = _Costs(_cost)
_english_costs = _Costs(partial(_cost_among, _ENGLISH_WORDS))
_foreign_costs = _Costs(partial(_cost_among, ()))
