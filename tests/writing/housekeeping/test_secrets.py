"""Secrets are found and never shown."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.writing.housekeeping.hazards import mask_secrets, passes_luhn
from tests.support.cases import each

SECRETS = [
    ("my key sk-proj-" + "a1B2" * 8, "a1B2a1B2"),
    ("AKIA" + "ABCDEFGH12345678", "ABCDEFGH"),
    ("ghp_" + "x9" * 18, "x9x9x9"),
    ("token: xoxb-1234567890-abcdef", "1234567890"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----", "OPENSSH PRIVATE"),
    ("postgres://ada:tr0ub4dor@db/x", "tr0ub4dor"),
    ("Password: hunter2!", "hunter2"),
    ("**Passwort:** geheim-77", "geheim-77"),
    ("Mot de passe : soleil1966", "soleil1966"),
    ("пароль: kotik-2020", "kotik-2020"),
    ("パスワードは neko1234 です", "neko1234"),
    ("密码：mima-8888", "mima-8888"),
    ("비밀번호: gom-1234", "gom-1234"),
    ("her card 4111 1111 1111 1111", "1111 1111"),
    ("5500-0000-0000-0004", "0000-0000"),
    ("Amex 3782 822463 10005", "822463"),
]
HARMLESS = [
    "She forgot her password again.",
    "password: none",
    "The password is secret",
    "passwords: a list",
    "Phone: +47 22 33 44 55",
    "ISBN 978-3-16-148410-0",
    "order 4111111111111112",
    "<@411111111111111117> said so",
    "+60111111111111117",
    "0.4111111111111111",
    "commit a4111111111111111",
    "https://example.org/id/4111111111111111/x",
    "https://user:password@proxy.example.org/",
    "AKIAIOSFODNN7EXAMPLE",
    "2026-01-01 2026-01-02 2026-01-03",
    "skateboarding-is-fun-and-very-healthy",
    "https://example.org/a:b/c@d",
    "0000000000000000",
    "パスワードを忘れた",
]


@each(("line", "secret"), SECRETS)
def test_a_secret_is_found_and_masked(look, line, secret) -> None:
    (finding,) = look("secrets", {"people/a.md": f"# A\n\n{line}\n"})
    assert finding.paths == ("people/a.md",)
    assert finding.evidence[0].line == 3
    assert secret not in finding.evidence[0].text
    assert finding.repair == ()


@each("line", HARMLESS)
def test_what_is_no_secret_is_left_alone(look, line) -> None:
    assert look("secrets", {"notes.md": line}) == ()
    assert mask_secrets(line) == line


def test_originals_kept_for_the_program_are_looked_at_too(look) -> None:
    found = look("secrets", {"self/.persona/HELP.md": "password: abc-123"})
    assert [f.paths for f in found] == [("self/.persona/HELP.md",)]


def test_no_other_check_shows_a_secret(look) -> None:
    line = "- Goes away next week, password: hunter2! (2026-01-01)\n"
    (finding,) = look("stale", {"people/a.md": line})
    assert "hunter2" not in finding.evidence[0].text


@given(st.text(alphabet="0123456789", min_size=2, max_size=19), st.data())
def test_law_one_wrong_digit_is_noticed(digits, data) -> None:
    body = digits[:-1]
    check = next(d for d in "0123456789" if passes_luhn(body + d))
    at = data.draw(st.integers(0, len(body)))
    number = body + check
    wrong = random.Random(1).choice([d for d in "0123456789" if d != number[at]])
    assert not passes_luhn(number[:at] + wrong + number[at + 1 :])
