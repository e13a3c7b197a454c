"""A number of tokens is filled with the best pieces, each fact once, and what is left is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.context.providers.packing import (
    OWN_TOKENS,
    Excerpt,
    Fact,
    PieceSource,
    brief_headings,
    fill_room,
    rank_pieces,
)
from familiar_cli.llm import tokens
from familiar_cli.store.memory.pages.lines import normal_line

COUNTER = tokens.heuristic()


def piece(source, start, text, score=1.0, **more) -> Excerpt:
    return Excerpt(source, start, start + 1, text, score, **more)


def filled(pieces, room=500, sources=None, *, most_sources=40, **more):
    known = sources or {p.source: PieceSource(p.source, p.source.title()) for p in pieces}
    ranked = rank_pieces(pieces, str(more.get("query", "")))
    return fill_room(ranked, known, room, COUNTER, most_sources=most_sources, **more)


def texts(filling) -> list[str]:
    return [packed.text for packed in filling.passages]


words = st.text(alphabet=st.sampled_from("abc 日本。.-\u0301é\n"), min_size=0, max_size=400)
pieces_of_any_kind = st.lists(
    st.builds(
        Excerpt,
        source=st.sampled_from(["a", "b", "c"]),
        start=st.integers(0, 30),
        end=st.just(31),
        text=words,
        score=st.floats(0, 1),
        turns=st.frozensets(st.integers(1, 4), max_size=2),
        vague=st.integers(0, 3),
        before=st.none(),
    ),
    max_size=12,
)


@given(pieces_of_any_kind, st.integers(0, 300), st.booleans())
def test_no_filling_takes_more_tokens_than_there_are(pieces, room, is_entry) -> None:
    sources = {
        key: PieceSource(key, key, whole="".join(p.text for p in pieces), is_entry=is_entry)
        for key in "abc"
    }
    filling = filled(pieces, room, sources)
    shown = [f"{p.source.heading}\n{p.text}" for p in filling.passages]
    assert sum(map(COUNTER.count, shown)) <= room + 3 * len(pieces)


@given(pieces_of_any_kind, st.integers(1, 300), st.booleans())
def test_where_there_is_room_more_of_it_changes_nothing(pieces, room, is_entry) -> None:
    sources = {key: PieceSource(key, key, whole="Tea. " * 20, is_entry=is_entry) for key in "abc"}
    filling = filled(pieces, room, sources, guaranteed=room)
    assert not filling.has_room or filling == filled(pieces, room + 500, sources, guaranteed=room)
    assert filled([piece("a", 1, "Tea.")], guaranteed=1).has_room


@given(pieces_of_any_kind, st.integers(1, 300), st.integers(0, 300), st.booleans())
def test_a_filling_that_goes_on_from_less_room_is_the_same(pieces, room, more, is_entry) -> None:
    pieces = [replace(p, is_turn=not p.vague, lift=0.3 * (p.start % 2)) for p in pieces]
    sources = {key: PieceSource(key, key, whole="Tea. " * 20, is_entry=is_entry) for key in "ab"}
    sources["c"] = PieceSource("c", "c")
    options = {"guaranteed": room, "line_tokens": 40}
    first = filled(pieces, room, sources, **options)
    once = filled(pieces, room + more, sources, **options)
    again = filled(pieces, room + more, sources, **options, resume=first.resume)
    assert again == once
    assert first == filled(pieces, room, sources, **options)  # unchanged


@given(pieces_of_any_kind, st.integers(0, 300))
def test_no_passage_is_without_a_letter(pieces, room) -> None:
    assert all(any(c.isalnum() for c in text) for text in texts(filled(pieces, room)))


@given(pieces_of_any_kind, st.integers(20, 300))
def test_nothing_is_said_twice(pieces, room) -> None:
    lines = [normal_line(p.text) for packed in filled(pieces, room).passages for p in packed.pieces]
    assert len(lines) == len(set(lines))


turns_and_lines = st.tuples(
    st.lists(st.tuples(st.floats(0.5, 1), st.integers(1, 40)), max_size=12),
    st.lists(st.tuples(st.floats(0, 2), st.integers(1, 40)), max_size=12),
)


@given(turns_and_lines, st.integers(0, 300))
def test_where_quotes_come_first_lines_take_nothing_from_them(scored, room) -> None:
    turns = [
        piece("past", 2 * n, f"Bo: {n} {'word ' * length}", score, is_turn=True, turns={n})
        for n, (score, length) in enumerate(scored[0])
    ]
    lines = [
        piece(f"days/{n}", 0, f"told {n} {'line ' * length}", score, vague=1, turns={100 + n})
        for n, (score, length) in enumerate(scored[1])
    ]

    def quoted(pieces):
        packed = filled(pieces, room, quotes_first=True).passages
        return {p.start for one in packed if one.source.key == "past" for p in one.pieces}

    assert quoted([*lines, *turns]) == quoted(turns)


@pytest.mark.parametrize(("room", "shown"), [(40, "own"), (OWN_TOKENS + 400, "cited")])
def test_turns_that_a_line_points_to_come_after_the_first_quotes(room, shown) -> None:
    turns = [
        piece("past", 2 * n, f"Bo: own {n} {'word ' * 20}", 0.7, is_turn=True)
        for n in range(room // 20 + 20)
    ]
    cited = piece("past", 999, f"Bo: cited {'word ' * 20}", 0.4, is_turn=True, lift=0.5)
    (packed,) = filled([*turns, cited], room, quotes_first=True).passages
    assert shown in packed.text
    assert ("cited" in packed.text) == (shown == "cited")
    (packed,) = filled([*turns, cited], room).passages
    assert "cited" in packed.text


def test_a_lore_entry_goes_in_whole_with_the_answer_below_its_question() -> None:
    entry = 'User: "What are Shadowfangs?"\n\nBeasts of living shadow that hunt at dusk.'
    sources = {"x": PieceSource("x", "Shadowfang", whole=entry, is_entry=True)}
    (packed,) = filled([piece("x", 0, 'User: "What are Shadowfangs?"')], 200, sources).passages
    assert packed.text == entry
    assert not packed.is_cut


def test_an_entry_too_long_for_its_room_ends_at_a_sentence_and_is_cut() -> None:
    entry = "Shadowfangs hunt at dusk. " * 60
    sources = {"x": PieceSource("x", "Shadowfang", whole=entry, is_entry=True)}
    (packed,) = filled([piece("x", 0, entry[:25])], 100, sources).passages
    assert packed.is_cut
    assert packed.text.endswith(".")


def test_a_cut_in_a_script_without_spaces_keeps_its_words() -> None:
    line = "- 今日は友達と一緒に夢の街を歩いた。空には二つの月があった。" * 10
    sources = {"x": PieceSource("x", "2020-08-15", whole=line, is_entry=True)}
    (packed,) = filled([piece("x", 0, line)], 90, sources).passages
    assert packed.text.startswith("- 今日は友達")
    assert packed.text.endswith("。")


def test_what_a_session_says_is_not_said_again_by_its_week() -> None:
    week = piece("weekly/w.md", 0, "- Robin moved to Bergen.", 0.9, turns=frozenset({4}), vague=2)
    session = piece("sessions/s.md", 0, "- Moved: Bergen", 0.5, turns=frozenset({4}))
    assert texts(filled([week, session])) == ["- Moved: Bergen"]


def test_the_same_sentence_in_three_tiers_comes_from_the_most_precise() -> None:
    told = [
        piece(name, 0, "- Robin moved to Bergen.", 0.9 - vague / 10, vague=vague)
        for vague, name in enumerate(["sessions/a.md", "daily/a.md", "weekly/a.md"])
    ]
    (packed,) = filled(told).passages
    assert packed.source.key == "sessions/a.md"


def test_a_fact_of_other_turns_is_another_fact() -> None:
    week = piece("weekly/w.md", 0, "- Robin moved.", 0.9, turns=frozenset({4, 9}), vague=2)
    session = piece("sessions/s.md", 0, "- Moved: Bergen", 0.5, turns=frozenset({4}))
    assert len(filled([week, session]).passages) == 2


def short_day(*facts: Fact) -> PieceSource:
    text = "\n".join(fact.said for fact in facts)
    return PieceSource("daily/a.md", "Day", whole=text, facts=facts)


def test_of_a_long_turn_the_part_that_fits_is_quoted_with_its_speaker() -> None:
    advice = "Rest helps. Walk a little every day. Drink enough water. " * 5
    turn = piece("past", 7, f"Ada: {advice}Your cello is in the attic. {advice}", lead=5)
    (text,) = texts(filled([turn], line_tokens=30, query="Where is my cello?"))
    assert text.startswith("Ada: … ")
    assert "Your cello is in the attic." in text
    assert text.endswith(" …")


def test_a_part_of_a_long_reply_stands_below_what_it_answers() -> None:
    advice = "Rest helps. Walk a little every day. Drink enough water. " * 5
    asked = piece("past", 6, "Bo: My back hurts whenever I carry the thing.", 0.0, lead=4)
    reply = f"Ada: {advice}Your cello is in the attic. {advice}"
    turn = piece("past", 7, reply, lead=5, before=lambda: asked)
    (text,) = texts(filled([turn], line_tokens=30, query="Where is my cello?"))
    assert text.startswith("Bo: My back hurts whenever I carry the thing.\nAda: … ")


def test_of_a_long_turn_all_parts_that_fit_are_quoted_in_its_order_and_once() -> None:
    walk = "Walk a little every day, and rest well."
    advice = "\n".join([walk] * 12)
    reply = f"Ada: {advice}\nThe cello is in the attic.\n{advice}\nThe cello needs new strings."
    turn = piece("past", 7, reply, lead=5, is_turn=True)
    (text,) = texts(filled([turn], room=120, query="What about my cello?"))
    attic, strings = text.index("The cello is in the attic."), text.index("new strings.")
    assert attic < strings
    assert text.startswith("Ada: … ")
    assert text.count("Ada:") == text.count("attic") == 1
    assert text[attic:strings].count(" … ") == 1


def test_a_long_turn_that_fits_is_quoted_whole() -> None:
    said = "\n  ".join(f"On day {n} we walked. It was lake number {n}." for n in range(30))
    (text,) = texts(
        filled([piece("past", 7, f"Ada: {said}", lead=5, is_turn=True)], room=900, query="lake")
    )
    assert text == f"Ada: {said}"


def test_a_short_day_does_not_bring_along_what_its_session_says() -> None:
    moved, baked = Fact("robin moved to bergen"), Fact("ada baked rye bread")
    sources = {
        "daily/a.md": short_day(moved, baked),
        "sessions/a.md": PieceSource("sessions/a.md", "Night"),
    }
    pieces = [
        piece("daily/a.md", 9, "Ada baked rye bread.", 0.9, vague=1),
        piece("sessions/a.md", 0, "Robin moved to Bergen.", 0.5),
    ]
    assert texts(filled(pieces, sources=sources)) == [
        "Ada baked rye bread.",
        "Robin moved to Bergen.",
    ]


def test_what_a_short_file_said_whole_is_not_said_again() -> None:
    moved, baked = Fact("robin moved to bergen"), Fact("ada baked rye bread")
    sources = {"daily/a.md": short_day(moved, baked), "b": PieceSource("b", "B")}
    pieces = [
        piece("daily/a.md", 9, "Ada baked rye bread.", 0.9, vague=1),
        piece("b", 0, "Robin moved to Bergen.", 0.5, vague=1),
    ]
    assert texts(filled(pieces, sources=sources)) == [sources["daily/a.md"].whole]


QUOTE = piece("past:cli", 4, "Robin: I moved to Bergen.", 0.9, turns=frozenset({4}), is_turn=True)


def test_a_line_of_memory_and_the_turn_it_rests_on_stand_together() -> None:
    line = piece("sessions/a.md", 0, "- Moved: Bergen", 0.9, turns=frozenset({4}))
    turn = piece("past:cli", 4, "Robin: I moved.", 0.5, turns=frozenset({4}), is_turn=True)
    assert set(texts(filled([line, turn]))) == {"- Moved: Bergen", "Robin: I moved."}


def test_where_there_is_little_room_the_words_themselves_come_before_what_was_written() -> None:
    line = piece("sessions/a.md", 0, "- Robin has moved to Bergen", 1.0, turns=frozenset({4}))
    assert texts(filled([line, QUOTE], 20)) == ["Robin: I moved to Bergen."]


def test_a_line_stands_below_the_turn_that_says_the_same_on_its_day() -> None:
    line = piece("topics/a.md", 0, "- Robin moved to Bergen. (March 2026)", turns=frozenset({4}))
    assert texts(filled([line, QUOTE])) == [QUOTE.text, line.text]


def test_lines_leave_weaker_turns_the_room_that_is_guaranteed() -> None:
    turns = [
        piece("past", n, f"Robin: {name} is a station.", score, is_turn=True, turns=frozenset({n}))
        for n, (name, score) in enumerate([("Vold", 1.0), ("Fern", 0.4)], 1)
    ]
    lines = [piece(f"topics/{n}.md", 0, f"- Line {n} says something else.", 0.9) for n in range(5)]
    alone = texts(filled(turns, guaranteed=40))
    assert "Fern" in alone[0]
    assert alone[0] in texts(filled([*turns, *lines], guaranteed=40))


def test_a_line_that_a_person_corrected_stands_beside_the_turn() -> None:
    line = piece("sessions/a.md", 0, "- Robin moved to Oslo.", 0.5, turns=frozenset({4}))
    assert "- Robin moved to Oslo." in texts(filled([line, QUOTE]))


def test_a_line_about_a_long_talk_does_not_stand_for_its_turns() -> None:
    long = frozenset(range(4, 30))
    line = piece("sessions/a.md", 0, "- Moved: Bergen", 0.9, turns=long)
    turn = piece("past:cli", 4, "Robin: I moved.", 0.5, turns=frozenset({4}), is_turn=True)
    assert len(filled([line, turn]).passages) == 2


def test_several_lines_of_one_file_stand_in_its_order_with_a_mark_between() -> None:
    lines = [piece("a", 9, "Third thing said.", 0.9), piece("a", 1, "First thing said.", 0.8)]
    assert texts(filled(lines)) == ["First thing said.\n…\nThird thing said."]


def test_a_short_answer_brings_what_it_answers() -> None:
    asked = piece("a", 1, "Robin: Do you still have the lamp?", 0.1)
    answer = piece("a", 2, "Yuzu: Yes.", 0.9, before=lambda: asked)
    assert texts(filled([answer])) == ["Robin: Do you still have the lamp?\nYuzu: Yes."]


def test_what_is_weak_is_left_out_though_there_is_room() -> None:
    filling = filled([piece("a", 0, "The lamp is in the attic."), piece("b", 0, "Bread.", 0.1)])
    assert texts(filling) == ["The lamp is in the attic."]
    assert filling.left == {"b": "it scored far lower than the other results"}


def test_a_wide_question_takes_what_is_weak_as_well_in_the_order_of_days() -> None:
    sources = {
        name: PieceSource(name, name.title(), day=day)
        for name, day in (("a", "2024-03-02"), ("b", "2024-01-05"), ("c", "2024-02-01"))
    }
    said = (("a", "The lamp.", 1.0, {1}), ("b", "Bread.", 0.1, {2}), ("c", "Tea.", 0.5, {3}))
    pieces = [
        piece(name, 0, text, score, is_turn=True, turns=frozenset(turns))
        for name, text, score, turns in said
    ]
    filling = filled(pieces, sources=sources, wide=True, in_order=True)
    assert texts(filling) == ["Bread.", "Tea.", "The lamp."]


def test_a_heading_says_once_what_the_next_ones_share() -> None:
    sources = {
        name: PieceSource(name, f"{name}{place}", kind, place=place, brief=brief)
        for name, kind, place, brief in (
            ("3 May 2026", "Said", ", #den", "3 May 2026"),
            ("Tea", "From memory", "", ""),
            ("4 May 2026", "Said", ", #den", "4 May 2026"),
            ("5 May 2026", "Said", ", #sea", "5 May 2026"),
        )
    }
    pieces = [piece(name, 0, f"{n} tea", 1 - n / 10) for n, name in enumerate(sources)]
    shown = brief_headings(
        [packed.passage() for packed in filled(pieces, sources=sources).passages]
    )
    assert [one.heading for one in shown] == [
        *("[Said: 3 May 2026, #den]", "[4 May 2026]"),
        *("[From memory: Tea]", "[Said: 5 May 2026, #sea]"),
    ]


def test_a_heading_does_not_rely_on_that_of_an_entry_which_may_stand_elsewhere() -> None:
    sources = {
        name: PieceSource(name, name, "From memory", brief=name, is_entry=name == "Tea")
        for name in ("Tea", "3 May 2026", "4 May 2026")
    }
    pieces = [piece(name, 0, f"{n} tea", 1 - n / 10) for n, name in enumerate(sources)]
    packed = filled(pieces, sources=sources).passages
    shown = brief_headings([one.passage() for one in packed])
    assert [one.heading for one in shown][1:] == ["[From memory: 3 May 2026]", "[4 May 2026]"]


def test_what_does_not_fit_is_listed() -> None:
    long = piece("b", 0, "word " * 40, 0.9)
    filling = filled([piece("a", 0, "The lamp is in the attic."), long], 30)
    assert "b" in filling.left
    assert "were left" in filling.left["b"]


def test_what_the_prompt_says_already_is_not_said_again() -> None:
    line = "Robin keeps bees in Bergen."
    assert texts(filled([piece("a", 0, line)], known=[normal_line(line)])) == []


def test_a_mark_between_turns_tells_of_their_own_channel_only() -> None:
    """Numbers of turns would show that something was said elsewhere in between."""
    first = piece("past:town", 3, "Bo: The ferry sank.", 0.9, is_turn=True)
    later = piece("past:town", 7, "Bo: We swam ashore.", 0.8, is_turn=True)
    assert "…" not in texts(filled([first, replace(later, after=3)]))[0]
    assert "\n…\n" in texts(filled([first, replace(later, after=5)]))[0]
