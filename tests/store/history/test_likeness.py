"""Who is named or quoted by a text, and what a reply to somebody else loses of it."""

from __future__ import annotations

import pytest

from familiar_cli.base.text import words_of
from familiar_cli.store.history.likeness import NameForms, Traces, runs_of


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("zoe", "memory"),  # a directory
        ("zoe-trip", "trip"),
        ("zoe-lee-trip.md", "trip.md"),
        ("zoes.md", "memory.md"),
        ("2026-01-02_zoe.md", "2026-01-02_memory.md"),
        (".zoe.json", ".memory.json"),
        ("ZoesCat.md", "Cat.md"),
        ("zoetrope.md", "zoetrope.md"),
    ],
)
def test_nothing_of_a_name_is_left_in_the_name_of_a_file(name, bare) -> None:
    traces = Traces(NameForms.of(["Zoe", "Zoe Lee"]))
    assert traces.without_name(name) == bare
    assert traces.without_name(bare) == bare


@pytest.mark.parametrize(
    ("names", "text", "redacted"),
    [
        (["Zoë"], "I saw ZOE\u0308's cat; zoe is no name", "I saw [forgotten] cat; zoe is no name"),
        (["Mei Tanaka"], "Ask Tanaka, not Meiko", "Ask [forgotten], not Meiko"),
        (["花子"], "昨日花子さんは来た", "昨日[forgotten]さんは来た"),
        (["민준"], "민준이는 왔다", "[forgotten]이는 왔다"),
        (["May"], "It may rain. May I? I asked May.", "It may rain. May I? I asked [forgotten]."),
        (["Jo"], "A job for Jo and Joan", "A job for [forgotten] and Joan"),
        (["42"], "Room 42, <@42> and @42, b@42", "Room 42, [forgotten] and [forgotten], b@42"),
    ],
)
def test_a_name_is_found_where_it_stands_as_one(names, text, redacted) -> None:
    assert Traces(NameForms.of(names)).redacted(text) == redacted


def test_a_part_of_a_name_that_others_use_as_a_word_is_no_name() -> None:
    forms = NameForms.of(["Nick Harbour"], ["Nick Bell"]).without_ordinary("the old harbour")
    traces = Traces(forms)
    assert traces.redacted("Harbour lights, Nick! Off to the harbour") == (
        "Harbour lights, Nick! Off to the harbour"
    )
    assert traces.redacted("I met Nick Harbour") == "I met [forgotten]"


def test_a_name_that_others_have_too_is_no_name() -> None:
    traces = Traces(NameForms.of(["Zoltan", "Zoltan Vance"], ["Zoltan", "Zoltan Hale"]))
    assert traces.redacted("Zoltan sat by Zoltan Vance") == "Zoltan sat by [forgotten]"
    assert traces.names.may_be_in("Zoltan sat") > traces.names.may_be_in("Hale sat")


def test_a_platform_is_no_part_of_a_name() -> None:
    names = ["discord 4242", "Zoe discord"]
    traces = Traces(NameForms.of(names, ["discord 7"], ["discord-4242"]))
    text = "We met on Discord: discord:4242, discord 7 and Zoe"
    assert traces.redacted(text) == "We met on Discord: [forgotten], discord 7 and Zoe"
    assert traces.redacted("a zoe discord") == "a [forgotten]"
    assert traces.without_name("discord-general") == "discord-general"


def test_only_the_quoted_words_go() -> None:
    words = "my vexlorn is hidden under the tree"
    traces = Traces(quotes=frozenset(runs_of(words_of(words))))
    told = "Well: “My Vexlorn is hidden, under the tree!” Is it?"
    assert traces.redacted(told) == "Well: “[forgotten]!” Is it?"
    assert traces.redacted("under the tree") == "under the tree"
