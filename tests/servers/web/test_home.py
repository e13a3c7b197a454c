"""The first page, and what a person says to a fact there."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import timedelta
from html import unescape

import pytest

from familiar_cli.base.times.clock import now
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.browsing import looking
from tests.support.cards import png_card, v2
from tests.support.cases import copy_home, shared_world
from tests.support.server import ChatServer
from tests.support.world import home, live, run
from tests.support.writing import point_at

PAGE = (
    "# Robin\n\n## Facts\n\n"
    "- Robin paints boats. <!-- turns 1 -->\n- Robin is 44. <!-- turns 1 -->\n"
    "- Robin lived in Oslo. (until March 2026) <!-- turns 1 --> <!-- ended 2026-03-14 -->\n"
    "\n## Likes\n\n- Robin likes tea.\n"
)
ROBINS = "people/cli-robin.md"


REPLY = "*nods* It is about **boats**."


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    directory = tmp_path_factory.mktemp("prepared")
    with shared_world(directory) as patches, ChatServer(REPLY) as server:
        point_at(server, patches)
        root = live("ada")
        assert run("ask", "I paint boats", "--name", "Robin").exit_code == 0
        with closing(HistoryStore(root / "history.db")) as history:
            author = history.turn(1).author
        path = f"people/{author.slug}.md"
        MemoryStore(root / "memory").write_file(path, PAGE)
        assert run("ask", "What do I paint? Boats?", "--name", "Robin").exit_code == 0
    return directory, path


@pytest.fixture
def root(prepared, serve):
    directory, path = prepared
    serve(REPLY)
    return copy_home(directory) / "ada" / "memory" / path


@pytest.fixture
def client(root):
    with looking() as found:
        yield found


def shown(answer) -> str:
    """Return what a reader sees of a page: neither marks nor what is folded in attributes."""
    body = answer.text.partition("<main")[2].partition("</main>")[0]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_an_imported_fact_shows_its_day_and_not_that_it_was_written_by_hand(client, root) -> None:
    mark = "<!-- from memories.json:3 0123456789 -->"
    root.write_text(f"# Robin\n\n- 2025-09-01: Robin sails. {mark}\n- Robin rows. {mark}\n")
    page = shown(client.get("/"))
    assert "said on 1 September 2025, imported" in page
    assert "2025-09-01" not in page
    assert "by hand" not in page


def say(client, root, fact: str, do: str, **more: str):
    """Press a button beside a fact."""
    page = client.get("/").text
    item = next(one for one in page.split("<li ") if fact in one and 'class="fact"' in one)
    key = re.search(r'name="line" value="([^"]+)"', item)[1]
    form = {"path": f"people/{root.name}", "line": key, "do": do, **more}
    return client.post("/facts", data=form, follow_redirects=True)


def test_home_says_what_is_known_and_why_the_last_reply_was_so(client, root) -> None:
    page = client.get("/")
    seen = shown(page)
    assert "You met today." in seen
    assert "What I know about" in seen
    assert "You paint boats." in seen
    assert "I used" in seen
    assert "what I know about you" in seen
    assert "in Oslo" not in seen.partition("My last reply")[0]
    for machine in (root.name, ".md", "sha", "run ", "#1"):
        assert machine not in seen.partition("Lately")[0], machine
    assert "<em>nods</em>" in page.text
    assert re.search(r'<a href="/turns/1"[^>]*>said on ', page.text)


def test_a_fact_is_confirmed_corrected_and_taken_out_with_undo(client, root) -> None:
    before = root.read_text("utf-8")
    assert "✓ confirmed" in shown(say(client, root, "paint boats", "right"))
    assert "<!-- turns 1 --> <!-- confirmed " in root.read_text("utf-8")
    say(client, root, "You are 44", "wrong", words="Robin is 45.\n# not a heading")
    assert "- Robin is 45. # not a heading\n" in root.read_text("utf-8")
    assert "corrected by you" in shown(client.get("/journal"))
    client.post("/journal/HEAD/undo")
    say(client, root, "like tea", "wrong")
    assert "tea" not in root.read_text("utf-8")
    client.post("/journal/HEAD/undo")
    confirmed = re.sub(r" <!-- confirmed [-0-9]+ -->", "", root.read_text("utf-8"))
    assert confirmed == before


def test_what_is_forgotten_leaves_memory_and_recall_until_it_is_restored(client, root) -> None:
    twin = root.parents[1] / "topics/boats.md"
    MemoryStore(root.parents[1]).write_file("topics/boats.md", "# Boats\n\n- Robin paints boats.\n")
    assert "will not be recalled" in shown(say(client, root, "paint boats", "forget"))
    assert "paints boats" not in root.read_text("utf-8") + twin.read_text("utf-8")
    assert "replaced or withdrawn" in shown(client.get("/turns/1"))
    client.post("/turns/1/restore")
    client.post("/journal/HEAD/undo")
    assert "replaced or withdrawn" not in shown(client.get("/turns/1"))
    assert "paints boats" in root.read_text("utf-8")


def test_a_line_that_changed_meanwhile_is_refused(client, root) -> None:
    key = re.search(r'name="line" value="([^"]+)"', client.get("/").text)[1]
    root.write_text("# Robin\n\n## Facts\n\n- Robin is 46.\n", "utf-8")
    form = {"path": f"people/{root.name}", "line": key, "do": "forget"}
    assert client.post("/facts", data=form).status_code == 409
    assert client.post("/facts", data={**form, "path": "self/card.json"}).status_code == 400
    assert "46" in root.read_text("utf-8")


def test_facts_of_pinned_pages_come_first(client, root) -> None:
    memory = MemoryStore(root.parents[1])
    memory.write_file("topics/boats.md", "---\npinned: true\n---\n# Boats\n\n- The boat is red.\n")
    memory.write_file("lore/sea.md", "---\npinned: true\n---\n# Sea\n\n- The sea is salt.\n")
    seen = shown(client.get("/"))
    known = seen.partition("What I know")[2]
    assert known.index("The boat is red") < known.index("You paint boats")
    assert "The sea is salt" not in seen.partition("Lately")[0]


def test_a_person_is_shown_by_themes_without_marks(client, root) -> None:
    page = client.get(f"/people/{root.stem}")
    assert "<!--" not in page.text
    assert "<!--" not in unescape(page.text)
    seen = shown(page)
    assert seen.index("Facts") < seen.index("You paint boats") < seen.index("Likes")
    assert "Undo the merge" not in seen
    assert "Conversations" in seen


def test_a_turn_says_why_before_the_chart_and_the_rest_is_folded(client) -> None:
    text = client.get("/turns/3").text
    order = [
        text.index(one)
        for one in ("What do I paint", "I used", "sankey wide", 'class="everything"')
    ]
    assert order == sorted(order)
    assert text.index("What was offered") > order[-1]


def test_an_empty_home_says_what_to_do_first() -> None:
    live("ada")
    with looking() as client:
        assert "Nothing has been said yet." in shown(client.get("/"))


def test_the_portrait_is_the_picture_of_the_card(tmp_path) -> None:
    card = tmp_path / "mira.png"
    card.write_bytes(png_card(v2(name="Mira")))
    assert run("init", "mira", "--from-card", str(card)).exit_code == 0
    assert (home() / "mira").is_dir()
    with looking() as client:
        assert 'src="/portrait/card"' in client.get("/").text
        answer = client.get("/portrait/card")
        assert answer.headers["content-type"] == "image/png"
        assert answer.content.startswith(b"\x89PNG")


def test_the_first_page_is_of_today(client, root) -> None:
    seen = shown(client.get("/"))
    assert f"{now():%A}" in seen
    assert "Where you were Main conversation" in seen
    assert "What do I paint? Boats?" in seen
    assert "Worth remembering You " in seen


def test_a_stranger_is_not_where_you_were(client, root) -> None:
    assert run("ask", "I am a stranger", "--as", "discord:7", "--channel", "hall").exit_code == 0
    section = client.get("/").text.partition('id="last-title"')[2].partition("</section>")[0]
    assert "stranger" not in section
    assert "What do I paint?" in section


def test_a_year_ago_is_shown_on_its_day(client, root) -> None:
    path = root.parents[1] / "topics/boats.md"
    with closing(HistoryStore(home() / "ada" / "history.db")) as history:
        at = now() - timedelta(days=365)
        turn = history.append("cli", "user", "Launched!", author=history.turn(1).author, at=at)
    line = f"# Boats\n\n- The Heron was launched. <!-- turns {turn.id} -->\n"
    MemoryStore(path.parents[1]).write_file("topics/boats.md", line)
    assert "You have known each other for 1" in shown(client.get("/"))
    assert "A year ago t" in shown(client.get("/"))
    assert "The Heron was launched." in shown(client.get("/"))


def test_each_day_of_a_week_has_a_memory_of_its_own(client, root, monkeypatch) -> None:
    lines = "".join(f"- Robin built boat {n}. <!-- turns 1 -->\n" for n in range(7))
    MemoryStore(root.parents[1]).write_file(f"people/{root.name}", f"# Robin\n\n{lines}")
    seen = []
    for days in range(7):
        today = now() + timedelta(days=days)
        monkeypatch.setattr("familiar_cli.servers.web.home_pages.now", lambda today=today: today)
        seen.append(shown(client.get("/")).partition("Worth remembering")[2].partition(".")[0])
    assert len(set(seen)) == 7
