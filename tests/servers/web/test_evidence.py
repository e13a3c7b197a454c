"""What the program wrote leads, on every page, to the words that it rests on."""

from __future__ import annotations

import json
import re
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.servers.web.drawing import render_markdown
from familiar_cli.servers.web.html.elements import spoken
from familiar_cli.store.memory.pages.lines import Numbering, citations_in
from tests.support.browsing import looking
from tests.support.viewers import viewer_in
from tests.support.world import run
from tests.support.writing import ANNAS, SESSION, answer, memory, talked

EVIDENCE = re.compile(r'<span class="evidence"><a href="/turns/(\d+)"[^>]*>said on [^<]+</a>')


@pytest.fixture
def written(serve):
    """A familiar whose memory its own writer wrote."""
    root = talked(6)
    facts = [f"Anna keeps bees of kind {n}." for n in range(4)]
    both = [
        *json.loads(answer(*facts, turns=(2, 3)))["operations"],
        *json.loads(answer("They spoke of bees.", file=SESSION, turns=(1, 4), op="set_summary"))[
            "operations"
        ],
    ]
    serve(json.dumps({"operations": both}))
    assert run("write-memory", "--newest").exit_code == 0
    return root


def test_lines_of_the_writer_lead_to_their_turns(written) -> None:
    with looking() as client:
        for path in (ANNAS, SESSION):
            lines = [line for line in memory(written, path).splitlines() if citations_in(line)]
            if path == ANNAS:
                assert len(lines) >= 4
            for view in ("text", "blame", "history"):
                page = client.get(f"/memory/{path}?view={view}").text
                turns = EVIDENCE.findall(page)
                assert len(turns) >= 0.95 * len(lines), (path, view)
                assert "<!-- turns" not in re.sub(r"<pre.*?</pre>", "", page, flags=re.DOTALL)
                for turn in set(turns):
                    assert "my bees" in client.get(f"/turns/{turn}").text


def test_facts_of_a_person_lead_to_their_turns(written) -> None:
    with looking() as client:
        page = client.get("/people/discord-42").text
    assert len(EVIDENCE.findall(page)) == page.count('<li class="fact">') == 4


def august(ids, _viewer):
    return {n: date(2023, 8, 25) + timedelta(n // 10) for n in ids}


def found(days=august):
    return Numbering(
        "laptop-7f3a", "desk-9c2d", lambda _, some: {n: n + 500 for n in some}, days=days
    )


def test_a_citation_is_read_by_the_numbers_of_its_instance() -> None:
    text = "- ours <!-- turns laptop-7f3a:12 -->\n- theirs <!-- turns desk-9c2d:12 -->\n"
    html = render_markdown(text, "notes.md", "", found())
    assert re.findall(r'href="(/turns/\d+)"', html) == ["/turns/12", "/turns/512"]
    assert "said on 26 August 2023" in html


def test_days_that_are_not_kept_or_not_visible_are_no_links() -> None:
    def days(ids, viewer):
        return {n: date(2023, 8, 25) for n in ids} if viewer.sees_everything else {}

    text = "- hers <!-- turns laptop-7f3a:12 -->\n"
    assert "/turns/" in render_markdown(text, "n.md", "", found(days), OWNER)
    seen = render_markdown(text, "n.md", "", found(days), viewer_in(None))
    assert "/turns/" not in seen
    assert "said elsewhere" in seen


def test_tags_and_marks_of_the_program_are_not_shown() -> None:
    text = "- a walk [chat:dm] [via:laptop-7f3a] <!-- ended 2026-03-14 -->\n"
    assert "chat:" not in (html := render_markdown(text, "daily/x.md", "", found()))
    assert "ended" not in html


def test_actions_quotes_and_bold_are_elements() -> None:
    assert spoken('*nods* "so **be** it"') == (
        "<em>nods</em> <q>&quot;so </q><q><strong>be</strong></q><q> it&quot;</q>"
    )
    assert spoken("2*3*4 and `a*b`") == "2*3*4 and <code>a*b</code>"


@given(st.text('ab<&" *`\n', max_size=40))
def test_no_words_are_lost_in_elements(text) -> None:
    def bare(shown: str) -> str:
        return re.sub(r"[*`•]", "", shown)

    html = re.sub(r"</?(?:em|strong|q|code|span)\b[^>]*>", "", spoken(text))
    plain = html.replace("&lt;", "<").replace("&quot;", '"').replace("&amp;", "&")
    assert bare(plain) == bare(text)
