"""Lines that match, quickly, under a time limit."""

from __future__ import annotations

import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import LimitError, NotFoundError, TooManyResultsError, UsageError
from familiar_cli.store.memory.store.files import GrepHit
from familiar_cli.store.memory.store.store import Limits, MemoryStore
from tests.support.cases import each


def lines(store, pattern, **options) -> list[tuple[str, int]]:
    return [(h.rel_path, h.line) for h in store.search(pattern, **options).hits]


def test_a_hit_says_where_it_is(store) -> None:
    store.write_file("people/alice.md", "# Alice\n\nShe likes green tea.\nTea again\n")
    assert store.grep("green|tea") == [
        GrepHit("people/alice.md", 3, "She likes green tea.", 10, 15),
        GrepHit("people/alice.md", 4, "Tea again", 0, 3),
    ]


def test_case_counts_only_when_asked(store) -> None:
    store.write_file("a.md", "Tea\ntea\nΣΊΣΥΦΟΣ")
    assert lines(store, "TEA") == [("a.md", 1), ("a.md", 2)]
    assert lines(store, "tea", case_insensitive=False) == [("a.md", 2)]
    assert lines(store, "σίσυφο") == [("a.md", 3)]
    assert store.grep("tea", "", False)[0].line == 2


def test_hits_come_sorted_by_path_and_line(store) -> None:
    for name in ("c.md", "a/b.md", "a.md"):
        store.write_file(name, "x\ny\nx")
    expected = [(name, line) for name in ("a.md", "a/b.md", "c.md") for line in (1, 3)]
    assert lines(store, "x") == expected


def test_only_one_directory_or_file_is_searched_when_it_is_named(store) -> None:
    for name in ("a/x.md", "b/x.md"):
        store.write_file(name, "x")
    assert lines(store, "x", rel_path="a") == [("a/x.md", 1)]
    assert lines(store, "x", rel_path="b/x.md") == [("b/x.md", 1)]
    with pytest.raises(NotFoundError):
        store.grep("x", "c")


def test_a_match_lies_within_one_line(store) -> None:
    store.write_file("a.md", "one\ntwo\n\nthree")
    assert lines(store, r"one\s+two") == []
    assert lines(store, r"e[^x]*t") == []
    assert lines(store, r"^two$") == [("a.md", 2)]
    assert lines(store, r"^$") == [("a.md", 3)]
    assert lines(store, r"\Atwo\Z") == [("a.md", 2)]
    assert lines(store, r"one(?!\n)") == [("a.md", 1)]


def test_line_ends_of_windows_and_a_byte_order_mark_do_not_matter(store) -> None:
    store.write_file("a.md", "\ufeff# Title\r\ntea\r\n")
    assert [(h.line, h.text) for h in store.grep("^# Title$|^tea$")] == [(1, "# Title"), (2, "tea")]


def test_a_file_that_is_not_utf_8_never_stops_the_search(store, root) -> None:
    (root / "a.md").write_bytes(b"caf\xe9 tea")
    (root / "b.png").write_bytes(b"\x89PNG\0tea")
    (root / "c.md").write_text("tea", encoding="utf-8")
    found = store.search("tea")
    assert [h.rel_path for h in found.hits] == ["c.md"]
    assert [(s.rel_path, s.reason) for s in found.skipped] == [
        ("a.md", "is not UTF-8 text (byte 3)"),
        ("b.png", "is binary"),
    ]


def test_a_file_longer_than_one_read_is_searched_to_its_end(store, root) -> None:
    (root / "a.md").write_text("é" * 100_000 + "\nneedle\n", encoding="utf-8")
    assert lines(store, "needle") == [("a.md", 2)]


def test_hidden_files_are_searched_when_asked(store) -> None:
    store.write_file(".secret.md", "x")
    assert lines(store, "x") == []
    assert lines(store, "x", hidden=True)[-1] == (".secret.md", 1)


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "a{2,1}", "(?P<a>", "\\", "(?<!a*)("])
def test_a_pattern_that_is_none_says_where(store, pattern) -> None:
    with pytest.raises(UsageError, match=r"is not a regular expression.* at position") as caught:
        store.grep(pattern)
    assert caught.value.hint


@pytest.mark.parametrize(
    "pattern", ["(" * 600 + ")" * 600, "x" * 1001, "(a{1000}){1000}", "a{999999999,}"]
)
def test_a_pattern_too_large_is_refused_at_once(store, pattern) -> None:
    begun = time.process_time()
    with pytest.raises(LimitError):
        store.grep(pattern)
    assert time.process_time() - begun < 1


@pytest.mark.parametrize("pattern", ["(?R)?a", "((?1)?a)+z", "(?P<x>a(?&x)?)", "(?P<x>a(?P>x)?)"])
def test_a_pattern_that_calls_itself_is_refused(store, pattern) -> None:
    with pytest.raises(UsageError, match="is recursive"):
        store.grep(pattern)


def test_flags_that_exclude_each_other_are_no_pattern(store) -> None:
    with pytest.raises(UsageError, match="incompatible"):
        store.grep("(?a)(?u)x")


def test_a_search_that_takes_too_long_is_stopped_aloud(tmp_path) -> None:
    store = MemoryStore(tmp_path / "memory", limits=Limits(grep_timeout_s=0.2))
    store.write_file("a.md", "a" * 60 + "!\n")
    with pytest.raises(LimitError, match=r"ran out of time \(0\.2 s\)") as caught:
        store.grep(r"(?:a?){60}(?:a?){60}(?:a|aa)+$")
    assert caught.value.hint


@each("pattern", [r"(a+)+$", r"(a|a)*$", r"(.*)*(.*)*\1x", r"(?:a?){40}a{40}$"])
def test_a_regular_expression_from_a_model_hung_the_process(tmp_path, pattern) -> None:
    store = MemoryStore(tmp_path / "memory", limits=Limits(grep_timeout_s=0.3))
    store.write_file("a.md", ("a" * 40 + "!\n") * 50)
    begun = time.process_time()
    with suppress(LimitError):
        store.grep(pattern)
    assert time.process_time() - begun < 3


def test_the_cap_cuts_in_the_order_of_paths(tmp_path) -> None:
    store = MemoryStore(tmp_path / "memory", limits=Limits(max_results=3))
    for name in ("c.md", "a.md", "b.md"):
        store.write_file(name, "x\nx\n")
    found = store.search("x")
    assert [(h.rel_path, h.line) for h in found.hits] == [("a.md", 1), ("a.md", 2), ("b.md", 1)]
    assert found.truncated
    with pytest.raises(TooManyResultsError, match="more than 3 lines"):
        store.grep("x")
    assert not store.search("x", "a.md").truncated


TEXTS = st.text(st.sampled_from("aAbsſkKiİ é\n\r\t.-"), max_size=30)
LITERALS = st.text(st.sampled_from("aAbsk é.-"), min_size=1, max_size=3).map(re.escape)
ATOMS = st.sampled_from(
    [
        *("a", "b", "s", "é", ".", r"\s", r"\S", r"\w", r"\n", "[^a]", "[a-k]", r"(?:a\n?)"),
        *("^", "$", r"\b", r"\B", r"\A", r"\Z"),
        *("(?=b)", "(?!a)", "(?<=a)", r"(?<!\n)", r"(?<!\s)"),
    ]
)
REPEATS = st.sampled_from(["", "", "*", "+", "?", "*?", "{1,2}", "*+", "++"])
PATTERNS = st.lists(st.tuples(ATOMS, REPEATS), min_size=1, max_size=4).map(
    lambda parts: "".join(f"(?:{atom}){repeat}" for atom, repeat in parts)
)


def line_by_line(pattern, text, *, case_insensitive):
    """Search in the plainest way there is."""
    flags = regex.MULTILINE | (regex.IGNORECASE if case_insensitive else 0)
    text = text.replace("\r\n", "\n")
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], 1):
        match = regex.compile(pattern, flags).search(line)
        if match:
            yield number, line, match.start(), match.end()


@given(
    texts=st.lists(TEXTS, min_size=1, max_size=3),
    pattern=st.one_of(LITERALS, PATTERNS, st.tuples(PATTERNS, PATTERNS).map("|".join)),
    case_insensitive=st.booleans(),
)
def test_grep_finds_what_a_search_line_by_line_finds(texts, pattern, case_insensitive) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for number, text in enumerate(texts):
            (root / f"{number}.md").write_bytes(text.encode())
        found = MemoryStore(root).search(pattern, case_insensitive=case_insensitive)
    assert [(h.rel_path, h.line, h.text, h.start, h.end) for h in found.hits] == [
        (f"{number}.md", *hit)
        for number, text in enumerate(texts)
        for hit in line_by_line(pattern, text, case_insensitive=case_insensitive)
    ]
