"""Find instructions to models, invisible text, and secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from familiar_cli.base.markdown import replace_spans
from familiar_cli.store.memory.layout import SELF_DIR
from familiar_cli.writing.housekeeping.lines import (
    MOST_QUOTES,
    Corpus,
    Finding,
    MemoryText,
    Options,
    Quote,
    Wordings,
    any_of,
    comments_in,
    known_in,
    line_at,
    without_comments,
)
from familiar_cli.writing.pending import PlannedFile

_PHRASES: Final = (
    (
        r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,30}"
        r"\b(?:previous|prior|above|earlier|preceding|your|system)\b[^.\n]{0,20}"
        r"\b(?:instructions?|prompts?|rules|guidelines|messages?)\b"
    ),
    (
        r"\b(?:reveal|print|repeat|output|show)\b[^.\n]{0,20}"
        r"\b(?:your|the)\s+(?:system prompt|hidden instructions?|initial prompt)\b"
    ),
    r"\byou are now (?:dan\b|in developer mode|jailbroken|unrestricted)",
    r"\bdo not (?:tell|inform|mention (?:this|it) to) the user\b",
    r"\b(?:new|updated) (?:system )?instructions?\s*:",
    r"\bignorier\w{0,5}\s+(?:alle|sämtliche|die|deine)[^.\n]{0,20}(?:anweisungen|instruktionen|regeln)",
    r"\bvergiss\s+(?:alle|die|deine)[^.\n]{0,20}(?:anweisungen|instruktionen|regeln)",
    r"\bignore[rz]?\s+(?:toutes\s+)?(?:les|tes|vos)\s+(?:instructions|consignes)",
    r"\bignora\s+(?:todas\s+)?(?:las|tus)\s+instrucciones",
    r"\bignor[ae]\s+(?:todas\s+)?(?:as|suas)\s+instruções",
    r"\bignora\s+(?:tutte\s+)?le\s+(?:tue\s+)?istruzioni",
    r"игнорируй\w{0,5}\s+(?:все\s+)?(?:предыдущие|прошлые|свои)?\s*(?:инструкции|указания)",
    r"(?:忽略|无视|無視)[^。\n]{0,8}(?:指令|指示|说明|說明|提示词|规则)",
    r"(?:これまで|以前|上記|前|すべて)の?[^。\n]{0,6}(?:指示|命令|ルール)を?[^。\n]{0,6}(?:無視|忘れ)",
    r"이전[^.\n]{0,6}(?:지시|명령)[^.\n]{0,8}무시",
    r"تجاهل\s+(?:جميع\s+|كل\s+)?(?:التعليمات|الأوامر)",
    r"<\|(?:im_start|im_end|system|assistant|endoftext)\|>|\[/?INST\]|<</?SYS>>",
    (
        r"^(?:#{1,6}\s*)?(?:system|developer)(?: prompt| message)?\s*:[^\n]{0,80}"
        r"\b(?:you|your|ignore|obey|always|never)\b"
    ),
)
_ORDER: Final = re.compile("|".join(f"(?:{p})" for p in _PHRASES), re.IGNORECASE | re.MULTILINE)
_LATIN: Final = (
    *("instru", "prompt", "rules", "guideline", "message", "you are now", "the user", "system"),
    *("developer", "anweis", "regel", "consigne", "istruz", "<|", "[inst", "[/inst", "<sys>"),
    "</sys>",
)
# One of these, folded, is in every text that `_ORDER` finds anything in.
_OTHERS: Final = (
    *("instruç", "инструкц", "указан", "指令", "指示", "说明", "說明", "提示", "规则", "命令"),
    *("ルール", "지시", "명령", "التعليمات", "الأوامر"),
)
# Comments for people may well say "you should fill this in", or mention instructions.
_IN_COMMENT: Final = re.compile(
    r"\b(?:you (?:must|should|will|shall)(?: now| always| never| not)?"
    r" (?:say|tell|reply|answer|respond|mention|obey|pretend|act|ignore|reveal|believe|send)"
    r"|(?:do not|don't|never|always) (?:say|tell|mention|reveal|reply|answer|respond|obey)"
    r"|(?:dear |attention,? )?(?:assistant|ai|model) ?:"
    r"|system prompt)\b",
    re.IGNORECASE,
)
# Marks that turn text around, but those that chats put around names and numbers; letters of the
# "tag" block but in flags; marks of no width, where no script needs them: those that join or part
# letters are needed beside letters of many scripts.
_HIDDEN: Final = re.compile(
    "[\u202d\u202e]+"
    "|(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0000-\U000e007f]+"
    "|(?<!^)\ufeff+|[\u200b\u2060-\u2064\u00ad]{2,}|(?<=[A-Za-z0-9])[\u200b-\u200d\u2060-\u2064]+(?=[A-Za-z0-9])"
    "|[\u200b-\u200d\u2060-\u2064]{4,}"
)
_MAY_HIDE: Final = re.compile(
    "[\u00ad\u200b-\u200d\u202d\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]"
)


def check_orders(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding per file and kind of suspicious text."""
    del options
    for note in (*corpus.notes, *corpus.hidden):
        if note.directory != SELF_DIR or note.is_hidden:
            yield from _find_orders(note)
        yield from _find_comments(note)
        yield from _find_hidden(note)


def gives_orders(text: str) -> bool:
    """Tell whether a text looks like instructions to a model."""
    return _ORDER.search(text) is not None


def without_hidden(text: str) -> str:
    """Remove invisible characters from `text`."""
    return _HIDDEN.sub("", text)


def _find_orders(note: MemoryText) -> Iterator[Finding]:
    if not _may_order(note.folded):
        return
    quotes = [
        Quote(note.rel_path, number, line)
        for number, line in enumerate(note.text.split("\n"), 1)
        if _ORDER.search(line)
    ]
    if quotes and _ORDER.search(without_comments(note.text)):
        yield Finding(
            (note.rel_path,),
            "looks like instructions to a model",
            tuple(quotes),
            hint="If it is not meant as a note, remove the line.",
        )


def _may_order(folded: str) -> bool:
    found = any(literal in folded for literal in _LATIN)
    return found or (not folded.isascii() and any(literal in folded for literal in _OTHERS))


def _find_comments(note: MemoryText) -> Iterator[Finding]:
    if "<!--" not in note.text:
        return
    items = [(at, end) for at, end in comments_in(note.text) if _has_order(note.text[at:end])]
    if items:
        yield Finding(
            (note.rel_path,),
            "a hidden comment addresses a model",
            tuple(_quote_line(note, at, note.text[at:end]) for at, end in items[:MOST_QUOTES]),
            repair=_plan_repair(note, without_comments(note.text, _has_order)),
            hint="`--propose` plans to remove the comment.",
        )


def _find_hidden(note: MemoryText) -> Iterator[Finding]:
    if not _MAY_HIDE.search(note.text):
        return
    items = set("".join(match[0] for match in _HIDDEN.finditer(note.text)))
    if items:
        names = sorted(f"U+{ord(char):04X}" for char in items)
        shown = ", ".join(names[:6]) + (" …" if len(names) > 6 else "")  # noqa: PLR2004
        lines = note.text.split("\n")
        hiding = [number for number, line in enumerate(lines, 1) if _HIDDEN.search(line)]
        yield Finding(
            (note.rel_path,),
            f"contains invisible characters: {shown}",
            tuple(
                Quote(note.rel_path, at, _visible_text(lines[at - 1]))
                for at in hiding[:MOST_QUOTES]
            ),
            repair=_plan_repair(note, without_hidden(note.text)),
            hint="`--propose` plans to remove them.",
        )


def _has_order(comment: str) -> bool:
    return bool(_ORDER.search(comment) or _IN_COMMENT.search(comment))


def _visible_text(line: str) -> str:
    return _HIDDEN.sub(lambda m: "".join(f"<U+{ord(c):04X}>" for c in m[0][:8]), line)


def _plan_repair(note: MemoryText, after: str) -> tuple[PlannedFile, ...]:
    return () if note.is_hidden else (PlannedFile(note.rel_path, note.text, after),)


def _quote_line(note: MemoryText, offset: int, text: str) -> Quote:
    return Quote(note.rel_path, line_at(note.text, offset), " ".join(text.split()))


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
SECRET_WORDS: Final = Wordings.of("""
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
    rf"(?:{SECRET_WORDS.pattern.pattern}){_MARKS}[ \t]*(?:[:=：]|{_IS}){_MARKS}[ \t]*{_MARKS}"
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
    """Yield a finding for each file that contains a secret."""
    del options
    for note in (*corpus.notes, *corpus.hidden):
        items = _in_note(note)
        if items:
            kinds = ", ".join(dict.fromkeys(kind for kind, _ in items))
            yield Finding(
                (note.rel_path,),
                f"looks like a secret: {kinds}",
                tuple(quote for _, quote in items),
                hint="Change it where it is used, because the journal still contains it. Then "
                "remove it from the file.",
            )


def mask_secrets(text: str) -> str:
    """Mask all secrets in `text`."""
    spans = sorted((start, end) for _, start, end in _secret_spans(text))
    return replace_spans(text, ((*span, _mask_secret(text[slice(*span)])) for span in spans))


def passes_luhn(digits: str) -> bool:
    """Tell whether a number has a valid Luhn check digit, like those of cards."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (1 + place % 2)
        total += doubled - 9 if doubled > 9 else doubled  # noqa: PLR2004
    return total % 10 == 0


def _in_note(note: MemoryText) -> list[tuple[str, Quote]]:
    if not _may_hold(note.folded, known_in(note.folded, SECRET_WORDS.heads)):
        return []
    items: list[tuple[str, Quote]] = []
    for number, line in enumerate(note.text.split("\n"), 1):
        kinds = dict.fromkeys(kind for kind, _, _ in _secret_spans(line))
        items += [(kind, Quote(note.rel_path, number, line)) for kind in kinds]
    return items


def _may_hold(folded: str, known: frozenset[str]) -> bool:
    """Check cheaply whether a text may contain a secret.

    Args:
        folded: The case-folded text.
        known: The words for secrets that it contains.
    """
    begins = any(beginning in folded for beginning in _BEGINNINGS)
    return begins or bool(known) or _FEW_DIGITS.search(folded) is not None


def _secret_spans(text: str) -> Iterator[tuple[str, int, int]]:
    folded = text.casefold()
    if not _may_hold(folded, known_in(folded, SECRET_WORDS.heads)):
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
        if _ISSUERS.match(digits) and len(set(digits)) > 1 and passes_luhn(digits):
            yield "card number", found.start(), found.end()


def _is_secret(value: str) -> bool:
    """Tell whether the text after `password:` may be one; plain words are prose."""
    text = value.strip("*_.!?<>()[]{}")
    plain = not _NEEDS_DIGIT.search(text) and len(text) < _LONG
    return bool(text) and not plain and not text.startswith(("[removed", "***", "…", "$", "http"))


def _mask_secret(secret: str) -> str:
    text = secret[:2] if len(secret) >= _LONG else ""
    return f"{text}…({len(secret)} characters)"


_COMPILED: Final = tuple((kind, re.compile(pattern)) for kind, pattern in _KEYS)
