from __future__ import annotations

import base64
import inspect
import json.decoder
import sys
import time
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import ConfigError
from familiar_cli.llm import tokens
from familiar_cli.llm.models.store import encoding_path
from tests.support.cases import each
from tests.support.texts import TEXTS

WITHIN_A_QUARTER = [
    *("English", "Markdown", "roleplay", "Python", "JavaScript", "JSON", "addresses"),
    *("Japanese", "Chinese", "Korean", "Russian", "emoji"),
    *("Arabic", "vocalised Arabic", "Arabic numbers", "Hebrew", "vocalised Hebrew"),
]
NOT_FITTED = [
    "ולדתי בחיפה בשנת 1987, ומאז אני אוהב את הים ואת הספינות הגדולות.",
    "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ",
    "بِسْمِ اللَّهِ الرَّحْمَٰنِ الرَّحِيمِ الْحَمْدُ لِلَّهِ رَبِّ الْعَالَمِينَ",
    "رقم الطلب ٩٨٧٦٥٤، السعر ٢٩٩ ريالاً، الموعد ١٤:٣٠ يوم ٥ مايو",
]

HOSTILE = [
    f"the key is {base64.b64encode(bytes(range(256)) * 4).decode()}",
    "you 😂👍🏽🎉🦄 " * 40,
    "t̷h̸e̶ ̷q̷u̸i̴c̸k̶ " * 20,
    "the 你好世界 and 日本語テキスト " * 20,
    "a case of hyperparathyroidism, nephrolithiasis and cholecystitis in the family",
]


@pytest.fixture(scope="session")
def exact(model_cache):
    return tokens.load(encoding_path(model_cache))


@each("kind", WITHIN_A_QUARTER)
def test_the_estimate_is_not_wrong_by_more_than_a_quarter(kind, exact) -> None:
    text = TEXTS[kind]
    assert tokens.heuristic().count(text) == pytest.approx(exact.count(text), rel=0.25)


@each("kind", sorted(set(TEXTS) - set(WITHIN_A_QUARTER)))
def test_the_estimate_is_not_wrong_by_more_than_a_third_elsewhere(kind, exact) -> None:
    text = TEXTS[kind]
    assert tokens.heuristic().count(text) == pytest.approx(exact.count(text), rel=0.34)


def test_the_estimate_holds_for_code_it_was_not_fitted_to(exact) -> None:
    code = inspect.getsource(json.decoder)
    assert tokens.heuristic().count(code) == pytest.approx(exact.count(code), rel=0.25)


def test_the_estimate_of_an_english_conversation_wastes_no_room(exact) -> None:
    text = TEXTS["English"] + TEXTS["roleplay"]
    assert tokens.heuristic().count(text) == pytest.approx(exact.count(text), rel=0.03)


@each("text", HOSTILE)
def test_what_is_no_prose_is_not_taken_for_less_than_it_costs(text, exact) -> None:
    assert tokens.heuristic().count(text) > 0.8 * exact.count(text)


@each("text", NOT_FITTED)
def test_the_estimate_holds_for_hebrew_and_arabic_it_was_not_fitted_to(text, exact) -> None:
    assert tokens.heuristic().count(text) == pytest.approx(exact.count(text), rel=0.25)


@each("kind", sorted(TEXTS))
def test_counting_with_the_encoding_is_what_tiktoken_counts(kind, exact) -> None:
    text = TEXTS[kind]
    assert exact.count(text) == len(exact._encoding.encode_ordinary(text))


def test_cjk_is_not_counted_as_a_quarter_of_its_tokens(exact) -> None:
    text = TEXTS["Japanese"] + TEXTS["Chinese"] + TEXTS["Korean"]
    assert tokens.heuristic().count(text) > 0.75 * exact.count(text)


@given(st.text(max_size=300))
def test_any_text_can_be_counted_both_ways(exact, text) -> None:
    assert exact.count(text) >= 0
    assert tokens.heuristic().count(text) >= (1 if text else 0)


@given(st.lists(st.sampled_from([*TEXTS.values(), " ", "\n", "'", "ab"]) | st.text(max_size=20)))
def test_pieces_are_found_and_cost_what_they_do_by_kind(parts) -> None:
    text = "".join(parts)
    pieces = list(tokens._KINDS.finditer(text))
    assert tokens._pieces().findall(text) == [found[0] for found in pieces]
    lines = tokens._split_lines(text)
    assert "".join(lines) == text
    found_in_lines = map(tokens._pieces().findall, lines)
    assert [*chain.from_iterable(found_in_lines)] == [found[0] for found in pieces]
    counted = sum(map(tokens._sum_costs, lines))
    assert tokens._Estimate().count(text) == round(counted)


def test_only_short_pieces_are_remembered() -> None:
    before = len(tokens._unknown_costs)
    assert tokens._Estimate().count("qz" * 50_000) > 1000
    assert len(tokens._unknown_costs) == before


@given(st.lists(st.text("abc ,.\n日本", min_size=1, max_size=40), min_size=20, max_size=40))
def test_cutting_a_long_text_costs_a_token_a_cut_at_most(exact, words) -> None:
    text = " ".join(words * 10)
    whole = len(exact._encoding.encode_ordinary(text))
    assert abs(exact.count(text) - whole) <= 2 * (1 + len(text) // 2048)


@each("unit", ["a", "日", " ", "=-", "word ", "\n", "😀"])
def test_counting_time_grows_with_the_length_only(unit, exact) -> None:
    short, long = unit * (8_000 // len(unit)), unit * (160_000 // len(unit))
    assert _best_s(exact, long) < 80 * max(_best_s(exact, short), 0.0002)


def _best_s(counter, text: str) -> float:
    taken = []
    for _ in range(3):
        began = time.thread_time()
        counter.count(text)
        taken.append(time.thread_time() - began)
    return min(taken)


def test_text_that_looks_like_a_special_token_is_plain_text(exact) -> None:
    assert exact.count("<|endoftext|>") > 1


def test_half_a_surrogate_pair_is_counted(exact) -> None:
    assert exact.count("a\ud800b") >= 2
    assert tokens.heuristic().count("a\ud800b") >= 2


def test_without_the_file_the_counter_is_the_estimate(tmp_path) -> None:
    assert tokens.load(None).name == "estimate"
    assert tokens.load(tmp_path / "cl100k_base.tiktoken").name == "estimate"


def test_the_counter_names_its_encoding(exact) -> None:
    assert exact.name == "cl100k_base"


@each("content", [b"", b"no ranks here\n", b"!!!! 1\n", b"YQ== x\n", b"YQ== 1\n"])
def test_a_broken_encoding_is_an_error_with_the_command_that_mends_it(content, tmp_path) -> None:
    path = tmp_path / "cl100k_base.tiktoken"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="cl100k_base") as caught:
        tokens.load(path).count("abc")
    assert "familiar model pull cl100k_base" in caught.value.hint


def test_tiktoken_get_encoding_is_never_called_so_nothing_is_downloaded(exact, monkeypatch) -> None:
    import tiktoken

    monkeypatch.setattr(tiktoken, "get_encoding", None)
    assert exact.count("hello world") == 2


def test_importing_the_module_does_not_import_tiktoken() -> None:
    import subprocess

    code = "import familiar_cli.llm.tokens, sys; sys.exit('tiktoken' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
