"""The page of a turn: well-formed, self-contained, and nothing in a record can become markup."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.context.trace import TracedMessage
from familiar_cli.context.types import Report
from familiar_cli.llm.types import PreparedRequest, SideCall
from familiar_cli.servers.web.html.elements import el
from familiar_cli.servers.web.html.page import page
from tests.servers.web.html.reading import Reading, shown
from tests.support.traces import piece, trace

EVIL = (
    '<script>alert(1)</script></pre></details></style><img src=x onerror=alert(1)> &amp; "q" '
    "'s' \u202e reversed \u202c \x1b[2J \x00 zero\u200bwidth ]]> <!-- --> [b]"
)


def texts(read: Reading) -> list[str]:
    return [text.removeprefix("\n") for text in read.pres]


def made(**more):
    return trace(7, **more)


@pytest.mark.parametrize("one", [made(), trace(None, request=None, reply_turn=None)])
def test_a_page_is_well_formed_and_names_its_parts(one) -> None:
    read = Reading(page(one))
    ids = read.values("id")
    assert len(ids) == len(set(ids))
    assert read.tags.count("h1") == 1
    assert set(read.values("aria-labelledby")) <= set(ids)
    anchors = [value.removeprefix("#") for value in read.values("href")]
    assert set(anchors) <= set(ids)
    assert all(read.values("aria-label"))
    assert read.values("lang") == ["en"]


def test_a_page_loads_nothing_and_runs_nothing() -> None:
    printed = page(made())
    read = Reading(printed)
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & set(read.tags)
    assert read.values("src") == []
    assert all(value.startswith("#") for value in read.values("href"))
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert all(found.startswith("#") for found in re.findall(r"url\(([^)]*)\)", printed))
    assert "@import" not in printed
    assert any("default-src 'none'" in (value or "") for value in read.values("content"))


def test_every_piece_and_every_message_is_there_word_for_word() -> None:
    pieces = tuple(piece(f"part.{n}", text=f"\n text {n}\n\n end ") for n in range(5))
    read = Reading(page(made(contributions=pieces)))
    assert set(texts(read)) >= {one.text for one in pieces}
    assert set(texts(read)) >= {message.content for message in made().messages}
    assert read.tags.count("details") == 5 + 3


def evil(text: str):
    sent = PreparedRequest(text, text, True, text.encode("utf-8", "surrogatepass"))
    pieces = (
        piece(text, text=text, rel_path=text, reason=text, cause=text),
        piece(text, text=text, turn_id=3, kept=False, reason=text),
    )
    reports = (Report(text, "failed", 3.0, text, 1.0),)
    call = SideCall(text, sent, text, text, text, None, 1.0, text)
    return made(
        contributions=pieces,
        providers=reports,
        processors=reports,
        messages=(TracedMessage("system", text),),
        request=sent,
        side_calls=(call,),
        model=text,
        channel_id=text,
        familiar=text,
        counter=text,
        finish_reason=text,
        error=text,
        notices=(text,),
    )


def test_nothing_in_a_record_becomes_markup() -> None:
    plain, read = Reading(page(evil("x"))), Reading(page(evil(EVIL)))
    freely = {"span", "tspan"}  # marks for what cannot be seen; room for a file's name
    assert [t for t in read.tags if t not in freely] == [t for t in plain.tags if t not in freely]
    assert texts(read).count(shown(EVIL)) >= 4


def test_what_cannot_be_seen_is_shown_by_its_number() -> None:
    printed = page(evil(EVIL))
    assert not set(printed) & set("\x1b\x00\u202e\u202c\u200b")
    assert '<span class="unseen">U+202E</span>' in printed


@given(st.text(max_size=60))
def test_any_text_comes_back_as_it_was(text) -> None:
    printed = page(evil(text))
    read = Reading(printed.encode("utf-8").decode("utf-8"))
    if text:
        assert texts(read).count(shown(text)) >= 3


def test_emoji_and_scripts_that_need_joiners_stay_whole() -> None:
    text = "👩‍🚀 می‌خواهم 日本"
    assert text in texts(Reading(page(made(contributions=(piece("a", text=text),)))))


def test_turns_with_one_fate_share_a_row_and_keep_their_texts() -> None:
    pieces = tuple(piece("history.cli", turn_id=n, text=f"words {n}") for n in range(1, 301))
    read = Reading(page(made(contributions=pieces)))
    assert "turns 1-300" in read.words
    assert "history.cli ×300" in read.words
    assert len(texts(read)) == 300 + 2


def test_kept_cut_and_left_out_differ_in_words_too() -> None:
    words = Reading(page(made())).words
    for told in ("● kept", "◐ cut", "○ left out"):
        assert told in words


def test_a_late_provider_has_its_deadline_marked() -> None:
    reports = (Report("slow", "late", 2000.0, "no answer", 2.0), Report("quick", "answered", 1.0))
    printed = page(made(providers=reports))
    assert 'class="time late"' in printed
    assert "slow: late after 2000.0 ms, allowed 2 s" in printed


def test_numbers_of_the_server_are_told_as_far_as_there_are_any() -> None:
    usage = replace(made().usage, cost=0.0021)
    assert "cost 0.0021" in Reading(page(made(usage=usage))).words
    assert "the server counted" not in Reading(page(made(usage=None))).words


def test_a_turn_without_an_answer_says_why() -> None:
    words = Reading(page(made(error="the server was gone", reply_ms=None))).words
    assert "the server was gone" in words
    assert "answered in" not in words


def test_an_attribute_with_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match="is not an attribute"):
        el("p", **{"on click": "x"})
