"""What is wrong or unusual in a card is found, and a good card has no findings."""

from __future__ import annotations

from familiar_cli.imports.card_check import MANY_TOKENS, check_card, summarise_card
from familiar_cli.imports.reading import read_card
from familiar_cli.llm.tokens import heuristic
from tests.support.cards import as_json, v2, v3
from tests.support.cases import each


def found(value) -> list[tuple[str, str]]:
    card = read_card(as_json(value), origin="x.json")
    return [(f.severity, f.where) for f in check_card(card, heuristic())]


ENTRY = {"keys": ["a"], "content": "x", "enabled": True, "insertion_order": 1}
CASES = {
    "no description": ({"description": " ", "personality": ""}, ("error", "description")),
    "no greeting": ({"first_mes": ""}, ("warning", "first_mes")),
    "no start": ({"mes_example": "a: b"}, ("warning", "mes_example")),
    "open macro": ({"description": "{{char"}, ("warning", "description")),
    "original elsewhere": ({"scenario": "{{Original}}"}, ("warning", "scenario")),
    "escape": ({"description": "\x1b[31m"}, ("warning", "description")),
    "right to left": ({"first_mes": "\u202eabc"}, ("warning", "first_mes")),
    "half character": ({"tags": ["\ud800"]}, ("warning", "tags")),
    "empty greeting": ({"alternate_greetings": [" "]}, ("note", "alternate_greetings")),
    "greeting twice": ({"alternate_greetings": ["a", "a"]}, ("note", "alternate_greetings")),
    "depth prompt text": (
        {"extensions": {"depth_prompt": "x"}},
        ("error", "extensions.depth_prompt"),
    ),
    "depth": (
        {"extensions": {"depth_prompt": {"prompt": "x", "depth": -1}}},
        ("warning", "extensions.depth_prompt"),
    ),
    "depth true": (
        {"extensions": {"depth_prompt": {"prompt": "x", "depth": True}}},
        ("warning", "extensions.depth_prompt"),
    ),
    "depth role": (
        {"extensions": {"depth_prompt": {"prompt": "x", "role": ["a"]}}},
        ("warning", "extensions.depth_prompt"),
    ),
    "missing asset": ({"assets": [{"uri": "embeded://a.png"}]}, ("error", "assets")),
    "asset without address": ({"assets": [{}]}, ("error", "assets")),
    "milliseconds": ({"creation_date": 1767225600000}, ("warning", "creation_date")),
    "entry without keys": (
        {"character_book": {"entries": [ENTRY | {"keys": []}]}},
        ("warning", "character_book entry 1"),
    ),
    "entry without content": (
        {"character_book": {"entries": [ENTRY | {"content": ""}]}},
        ("note", "character_book entry 1"),
    ),
    "entry without enabled": (
        {"character_book": {"entries": [{"keys": ["a"], "content": "x"}]}},
        ("note", "character_book entry 1"),
    ),
    "entry no object": (
        {"character_book": {"entries": ["x"]}},
        ("error", "character_book entry 1"),
    ),
    "large": ({"description": "word " * (MANY_TOKENS + 500)}, ("warning", "size")),
    "wrong shape": ({"tags": "a,b"}, ("warning", "format")),
}


@each(("change", "finding"), CASES.values(), ids=CASES)
def test_what_is_wrong_is_found(change, finding) -> None:
    assert found(v3(**change)) == [finding]


@each("value", [v2(), v3(), v3(character_book={"entries": [ENTRY]})])
def test_a_good_card_has_no_findings(value) -> None:
    assert found(value) == []


def test_the_worst_comes_first() -> None:
    severities = [
        severity for severity, _ in found(v3(assets=[{}], first_mes="", alternate_greetings=[""]))
    ]
    assert severities == ["error", "warning", "note"]


def test_a_summary_counts_what_is_in_every_prompt_once() -> None:
    summary = summarise_card(read_card(as_json(v2()), origin="x.json"), heuristic())
    always = {
        "description",
        "personality",
        "scenario",
        "system_prompt",
        "post_history_instructions",
    }
    assert summary.sent_tokens == sum(f.tokens for f in summary.fields if f.field in always)


def test_a_summary_holds_greetings_examples_and_depth_prompt() -> None:
    summary = summarise_card(read_card(as_json(v2()), origin="x.json"), heuristic())
    assert summary.greetings == ("It ticks again.", "Oh!", "時計は好き？")
    assert summary.example_blocks == 1
    assert summary.depth_prompt == {"depth": 4, "role": "system", "prompt": "tick"}
