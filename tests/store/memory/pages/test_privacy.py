from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from familiar_cli.base.who.visibility import NOBODY, channel_scope, person_scope
from familiar_cli.context.character import Macros
from familiar_cli.context.providers.passages import Sight
from familiar_cli.store.memory.aliases import names_of
from familiar_cli.store.memory.layout import path_in_scope
from familiar_cli.store.memory.pages.lines import Numbering
from familiar_cli.store.memory.pages.visible_lines import (
    as_private,
    as_public,
    outward_text,
    private_heading,
    private_scope,
    private_spans,
    visible_in,
)
from familiar_cli.writing.consolidation.library import facts_of
from familiar_cli.writing.consolidation.pages import bullets_from_session, bullets_of, readable_text
from tests.support.cases import each
from tests.support.viewers import viewer_in

SECRET = private_heading("DM:anna", channel_scope("dm-1"))
TEXT = (
    f"# Anna\n\n## Facts\n\n- open\n\n{SECRET}\n\n- secret\n\n### more\n\n- too\n"
    "\n## After\n\n- open\n"
)


@given(channel=st.text(min_size=1, max_size=20), label=st.text(max_size=20))
def test_a_heading_names_its_channel_whatever_it_is_called(channel, label) -> None:
    heading = private_heading(label, channel_scope(channel))
    assert private_scope(heading) == channel_scope(channel)
    assert "\n" not in heading
    assert heading.partition("<!--")[2].count("--") == 1  # the comment ends once


def test_a_private_section_is_seen_in_its_channel_only() -> None:
    assert visible_in(TEXT, viewer_in("dm-1")) == TEXT
    for elsewhere in (None, "cli", "dm-2"):
        seen = visible_in(TEXT, viewer_in(elsewhere))
        assert "secret" not in seen
        assert "too" not in seen
        assert seen.count("open") == 2


def test_what_looks_like_a_heading_in_code_ends_nothing() -> None:
    text = f"{SECRET}\n```\n## not one\n```\nsecret\n"
    assert visible_in(text, NOBODY) == ""


def test_a_text_without_secrets_is_all_there() -> None:
    assert visible_in("# A\n\n## B\r\n", NOBODY) == "# A\n\n## B\r\n"


# What may stand in a private section: any characters but the newline, code that is closed or not,
# lower headings, headings inside lists, and what only some programs take for the end of a line.
_words = st.text(st.characters(exclude_characters="\n"), max_size=8)
_line = _words.map(lambda words: f"- secret {words}")
_break = st.sampled_from(["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
_broken = _break.map(lambda end: f"- secret{end}# x{end}## y secret")
_fence = st.sampled_from(["```", "~~~", "`````"])
_code = st.builds("{0}\n# secret\n``\n{1}\n{0}".format, _fence, _line)
_heading = st.sampled_from(["### secret", "###### secret", "  # secret", " ## secret", "#secret"])
_held = st.lists(st.one_of(_line, _broken, _code, _heading, st.just("")), max_size=6)
_open = st.sampled_from(
    ["", "```\n# secret\n## secret", "~~~~\n~~~\n# secret", "```\n``` x\n# secret"]
)


@given(_held, _open, st.sampled_from(["\n", "\r\n"]))
@example(["- secret\u2028# x", "- secret2"], "", "\n")
@example(["- a\r# x\r- secret"], "", "\r\n")
def test_nothing_that_a_private_section_holds_is_public(held, unclosed, newline) -> None:
    lines = ["# Anna", "", "- open", SECRET, *held, unclosed]
    private = "\n".join(lines).replace("\n", newline)
    after = "" if unclosed else f"{newline}## After{newline}- open{newline}"
    text = private + after

    assert visible_in(text, viewer_in("dm-1")) == text
    _assert_hidden(text, seen_times=1 if unclosed else 2)
    assert not facts_of("a.md", text.replace("- open", "")).says


@each(
    "text",
    [
        "# A <!-- private dm-1 -->\n## Aliases\n- secret\n## Facts\n- secret\n",
        f"{SECRET}\n### B <!-- private dm-2 -->\n- b\n### C\n- secret\n",
        f"{SECRET}\n```\n# B <!-- private dm-2 -->\n```\n- secret\n",
        f"```\nnever closed\n\n{SECRET}\n- secret\n```\n# x\n```\n- secret\n",
        f"- a\r{SECRET}\r- secret\r\n- secret",
        f"\ufeff{SECRET}\n- secret\n",
        f"{SECRET}\r## B <!-- private dm-2 -->\r- secret",
    ],
)
def test_in_doubt_a_line_stays_private(text) -> None:
    _assert_hidden(text, seen_times=0)
    assert "secret" not in visible_in(text, viewer_in("dm-2"))


def test_what_follows_a_section_in_another_is_of_the_outer_one() -> None:
    text = f"{SECRET}\n### B <!-- private dm-2 -->\n- of two\n### C\n- of one\n"
    assert visible_in(text, viewer_in("dm-1")) == text.replace(
        "### B <!-- private dm-2 -->\n- of two\n", ""
    )
    assert visible_in(text, viewer_in("dm-2")) == ""


def _assert_hidden(text: str, seen_times: int) -> None:
    """Assert that no reader of a memory file shows what is private in it."""
    spans = private_spans(text, NOBODY)
    sight = Sight(NOBODY, frozenset, Macros("Aria", "Anna")).of("people/a.md", text)
    views = [
        visible_in(text, NOBODY),
        "".join(char for at, char in enumerate(text) if not any(a <= at < b for a, b in spans)),
        sight.between(0, len(text)),
        readable_text(text),
        repr(bullets_of(text)),
        repr(bullets_from_session(text, "2026-01-01", "laptop", lambda _: ())),
        repr(names_of(text)),
    ]
    assert [view for view in views if "secret" in view] == []
    assert views[0].count("open") == seen_times


def test_a_line_whose_turns_are_not_all_held_here_is_no_repetition() -> None:
    here = Numbering("desk-9c2d", "laptop-7f3a", lambda _, ids: {5: 1} if 5 in ids else {})
    sight = Sight(NOBODY, lambda: frozenset({1, 5}), Macros("Aria", "Anna"), numbering=here)
    text = "- Shown <!-- turns 5 -->\n- Elsewhere <!-- turns 5-6 -->\n"
    text += "- Own <!-- turns desk-9c2d:5 -->\n"
    assert sight.of("topics/a.md", text).shown == "- Elsewhere"


_damages = st.sampled_from(
    [
        lambda text: text.replace("- secret", "# typed\n\n- secret", 1),
        lambda text: text.replace("## In private", "> ## In private"),
        lambda text: text.replace("## In private", "    ## In private"),
        lambda text: text.replace("## In private", "\t## In private"),
        lambda text: text.replace("## In private", "- ## In private"),
        lambda text: text.replace("## In private", "In private"),
        lambda text: text.replace("## In private", "#### In private"),
        lambda text: text.replace(" <!-- private dm%2D1 -->", ""),
        lambda text: text.replace("private dm%2D1 -->", "privat"),
        lambda text: text.replace("## In private: DM:anna ", "> "),
    ]
)


_LINES = ["# A title\n", "Words.\n", "\n", "## Part\n", "- item\n", "```\n", "    # x\n", "A\r\n"]
PAGES = st.lists(st.sampled_from(_LINES), max_size=12).map("".join)


@given(page=PAGES)
def test_all_of_a_page_in_a_private_folder_is_private_whatever_its_titles_say(page) -> None:
    path = path_in_scope("daily/2026-04-07.md", channel_scope("dm-1"))
    text = f"# Typed anew\n\n- secret\n\n{page}"
    assert visible_in(text, NOBODY, path) == ""
    assert visible_in(text, viewer_in("dm-1"), path) == text
    assert visible_in(text, viewer_in("dm-2"), path) == ""
    assert outward_text(text, NOBODY, path) == ""


@given(st.lists(_damages, max_size=2))
def test_a_section_that_a_hand_edit_damages_stays_private(damages) -> None:
    text = f"# Anna\n\n- open\n\n{SECRET}\n\n- secret\n- secret 2\n\n## After\n\n- open\n"
    for damage in damages:
        text = damage(text)
    if "In private" in text or "<!--" in text:
        assert "secret" not in visible_in(text, NOBODY)


@given(page=PAGES, slug=st.text(min_size=1, max_size=8))
@example("# One\n\nA.\n\n# Two\n\nB.\n", "discord-1")
@example("```\n# in code\n```\n", "discord-1")
@example("\n# A title\n", "discord-1")
def test_a_private_page_shows_nobody_else_any_word_and_its_own_viewer_all(page, slug) -> None:
    scope = person_scope(slug)
    made = as_private(page, scope, "2026-03")
    assert not visible_in(made, NOBODY).strip()
    assert as_public(made, scope).endswith(page)
    assert as_private(as_public(made, scope), scope, "x") == made
