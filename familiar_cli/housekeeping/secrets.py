"""Secrets in memory: keys, passwords, numbers of cards. They are shown masked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.types import Check, Finding, Quote
from familiar_cli.housekeeping.wording import Wordings, any_of, known_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Corpus, Note, Options

_KEYS: Final = (
    ("private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    ("API key", r"\bsk-(?:[A-Za-z]+-)*[A-Za-z0-9_-]{20,}"),
    ("API key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    ("API key", r"\bAIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])"),
    ("token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,})"),
    ("token", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("token", r"\bhf_[A-Za-z0-9]{30,}"),
    ("token", r"\beyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,9000}\.[A-Za-z0-9_-]{10,}"),
    ("password", r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{1,64}:(?P<url>[^\s:/@]{3,128})@"),
)
_WORDS: Final = Wordings.of("""
    password | passphrase | passwd | passwort | kennwort | mot de passe | contraseña | senha
    parola | wachtwoord | lösenord | passord | adgangskode | salasana | hasło | heslo
    jelszó | пароль
    كلمة المرور | סיסמה | รหัสผ่าน | mật khẩu | 密码 | 密碼
    パスワード | 暗証番号 | 비밀번호
    api key | api-key | api_key | apikey | secret key | secret_key | access key | access_key
    pin code
""")
_IS: Final = any_of("is | ist | est | es | är | er | は | 是")
_MARKS: Final = r"[\"'*`「]{0,3}"
_NAMED: Final = re.compile(
    rf"(?:{_WORDS.pattern.pattern}){_MARKS}[ \t]*(?:[:=：]|{_IS}){_MARKS}[ \t]*{_MARKS}"
    r"(?P<value>[^\s\"'`「」,;，。]{4,128})",
    re.IGNORECASE,
)
# 16 digits, of one card 15, in a piece or in the groups that stand on it; never a part of an
# address, a commit or a number with a point. A longer one is the id of a chat, more often than not.
_CARD: Final = re.compile(
    r"(?<![A-Za-z0-9_.,/+#=@&<-])"
    r"(?:\d{16}|\d{4}([ -])\d{4}\1\d{4}\1\d{4}|3[47]\d{13}|3[47]\d{2}([ -])\d{6}\2\d{5})"
    r"(?![A-Za-z0-9_/@=>-]|[.,]\d)"
)
_ISSUERS: Final = re.compile(
    r"4|5[1-5]|2(?:2[2-9]|[3-6]|7[01])|35|3[47]\d{13}$|6(?:011|2|4[4-9]|5)"
)
_FEW_DIGITS: Final = re.compile(r"[0-9]{4}[ -]?[0-9]{4}")
_PLACEHOLDERS: Final = ("pass", "password", "passwd", "pw", "pwd", "secret", "token", "user")
_BEGINNINGS: Final = (
    *("-----begin", "sk-", "akia", "asia", "aiza", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    *("github_pat", "glpat-", "xox", "hf_", "eyj", "://"),
)
_NEEDS_DIGIT: Final = re.compile(r"[\d\W_]")
_LONG: Final = 12


def check_secrets(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each file that holds a secret."""
    del options
    for note in (*corpus.notes, *corpus.hidden):
        found = _in_note(note)
        if found:
            kinds = ", ".join(dict.fromkeys(kind for kind, _ in found))
            yield Finding(
                CHECK.name,
                (note.rel_path,),
                f"looks like a secret: {kinds}",
                tuple(quote for _, quote in found),
                hint="Change it where it is used, because the journal still contains it. Then "
                "remove it from the file.",
            )


def masked(text: str) -> str:
    """Return `text` with every secret in it masked."""
    spans = sorted((start, end) for _, start, end in _spans(text))
    parts, at = [], 0
    for start, end in spans:
        if start < at:
            continue
        parts += [text[at:start], _mask(text[start:end])]
        at = end
    return "".join((*parts, text[at:]))


def luhn(digits: str) -> bool:
    """Return whether the last digit of a number fits the others, as on a card."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (1 + place % 2)
        total += doubled - 9 if doubled > 9 else doubled  # noqa: PLR2004
    return total % 10 == 0


def _in_note(note: Note) -> list[tuple[str, Quote]]:
    if not _may_hold(note.folded, note.known & _WORDS.heads):
        return []
    found: list[tuple[str, Quote]] = []
    for number, line in enumerate(note.text.split("\n"), 1):
        kinds = dict.fromkeys(kind for kind, _, _ in _spans(line))
        found += [(kind, Quote(note.rel_path, number, line)) for kind in kinds]
    return found


def _may_hold(folded: str, known: frozenset[str]) -> bool:
    """Tell whether looking closer is worth it.

    Args:
        folded: The text, case folded.
        known: Which words that name a secret it holds.
    """
    begins = any(beginning in folded for beginning in _BEGINNINGS)
    return begins or bool(known) or _FEW_DIGITS.search(folded) is not None


def _spans(text: str) -> Iterator[tuple[str, int, int]]:
    folded = text.casefold()
    if not _may_hold(folded, known_in(folded, _WORDS.heads)):
        return
    for kind, pattern in _COMPILED:
        for found in pattern.finditer(text):
            group = "url" if "url" in pattern.groupindex else 0
            if "EXAMPLE" not in found[group] and found[group].casefold() not in _PLACEHOLDERS:
                yield kind, found.start(group), found.end(group)
    for found in _NAMED.finditer(text):
        if _is_secret(found["value"]):
            yield "password", found.start("value"), found.end("value")
    for found in _CARD.finditer(text):
        digits = re.sub(r"\D", "", found[0])
        if _ISSUERS.match(digits) and len(set(digits)) > 1 and luhn(digits):
            yield "card number", found.start(), found.end()


def _is_secret(value: str) -> bool:
    """Tell whether what follows `password:` may be one; a plain word after it is a sentence."""
    shown = value.strip("*_.!?<>()[]{}")
    plain = not _NEEDS_DIGIT.search(shown) and len(shown) < _LONG
    return bool(shown) and not plain and not shown.startswith(("[removed", "***", "…", "$", "http"))


def _mask(secret: str) -> str:
    shown = secret[:2] if len(secret) >= _LONG else ""
    return f"{shown}…({len(secret)} characters)"


_COMPILED: Final = tuple((kind, re.compile(pattern)) for kind, pattern in _KEYS)
CHECK: Final = Check(
    "secrets",
    "Secrets",
    check_secrets,
    _WORDS.heads,
)
