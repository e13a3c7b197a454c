"""Each page over a familiar with a past: what it shows, what it changes, and what it refuses."""

from __future__ import annotations

import re
from contextlib import closing
from html import unescape

import pytest

from familiar_cli.familiar import Familiar
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.pending import PlannedFile, ReviewPlan, stage_plan
from tests.servers.web.test_site import DRAWN
from tests.support.browsing import looking
from tests.support.cases import copy_home, each, shared_world
from tests.support.server import ChatServer
from tests.support.world import data, live, run
from tests.support.writing import point_at

NOTE = "# The umbrella\n\n- It is red <!-- turns 1-2 -->\n- See [Anna](../people/anna.md)\n"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    directory = tmp_path_factory.mktemp("prepared")
    script = ("It is red.", "On shelf four.")
    with shared_world(directory) as patches, ChatServer(script) as server:
        point_at(server, patches)
        live("ada")
        for words in (
            ("ask", "What colour is the umbrella?", "--name", "Robin"),
            ("ask", "Where is it?", "--name", "Robin"),
            ("memory", "write", "topics/umbrella.md", NOTE),
            ("memory", "write", "people/anna.md", "# Anna\n\n- keeps bees\n"),
            ("memory", "append", "people/anna.md", "- likes green tea"),
        ):
            result = run(*words)
            assert result.exit_code == 0, result.output
    return directory


@pytest.fixture
def world(prepared, serve):
    serve("On shelf four.")
    return copy_home(prepared) / "ada"


@pytest.fixture
def client(world):
    with looking() as found:
        yield found


def words(answer) -> str:
    """Return what a reader of a page sees."""
    body = answer.text.partition("<main")[2].partition("</main>")[0]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def hash_in(answer) -> str:
    return re.search(r'name="sha256" value="([0-9a-f]*)"', answer.text)[1]


@each(
    "path",
    [
        "/turns/1",
        "/turns/2",
        "/turns/layers",
        "/turns?q=umbrella",
        "/turns/1?why=topics/umbrella.md",
        "/turns/3?diff=1",
        "/memory/topics",
        "/memory/topics/umbrella.md",
        *(
            f"/memory/topics/umbrella.md?view={view}"
            for view in ("source", "blame", "history", "links", "edit")
        ),
        "/asof?at=2020-01-31",
        "/asof?at=0001-01-01",
        "/asof?at=9999-12-31",
        "/asof/files/people/anna.md?at=9999-12-31",
        "/asof?n=0",
        "/asof/files/people/anna.md",
        "/asof/files",
        "/search?q=umbrella",
        "/search?q=umbrella&in=past",
        "/timeline?year=1999",
        "/journal?path=people/anna.md",
        "/journal/HEAD",
        "/people/anna",
        "/distill/status",
    ],
)
def test_every_page_answers(client, path) -> None:
    answer = client.get(path, follow_redirects=True)
    assert answer.status_code == 200, answer.text


def test_every_link_and_tab_of_every_page_leads_to_a_page(client, world) -> None:
    leave_traces_of_absent_pages(world)
    addresses = ["/", *DRAWN]
    for address in addresses:
        answer = client.get(address, follow_redirects=True)
        assert answer.status_code == 200, f"{address}: {words(answer)}"
        links = (unescape(href) for href in re.findall(r'href="(/[^"#]*)', answer.text))
        addresses += dict.fromkeys(link for link in links if link not in addresses)
    assert len([one for one in addresses if one.startswith("/memory/topics/umbrella.md")]) > 5


def leave_traces_of_absent_pages(world) -> None:
    """Delete pages that a prompt and a link name, reject a plan, and leave one for a new page."""
    with Familiar.load_from_disk() as familiar:
        for plan_id in ("20260131T120000-a1b2c3", "20260131T120000-d4e5f6"):
            file = PlannedFile(f"topics/{plan_id[-6:]}.md", None, "# New\n\n- It is new.\n")
            plan = ReviewPlan(plan_id, plan_id, "2026-01-31T12:00:00Z", "review", "m", (), (file,))
            with familiar.memory.transaction("human", "a plan") as tx:
                stage_plan(tx, familiar.memory, plan)
    assert run("review", "reject", "20260131T120000-a1b2c3").exit_code == 0
    for rel_path in ("people/anna.md", "topics/umbrella.md"):
        assert run("memory", "rm", rel_path).exit_code == 0
        if rel_path.startswith("topics"):
            assert run("memory", "undo").exit_code == 0


@each(
    ("path", "status"),
    [
        ("/turns/99", 404),
        ("/turns/x", 400),
        ("/turns/99999999999999999999999", 400),
        ("/memory/nothing.md", 404),
        ("/memory/../../etc/passwd", 404),
        ("/memory/%2e%2e/character.toml", 409),
        ("/memory/topics/umbrella.md?view=nothing", 400),
        ("/asof?at=yesterday", 400),
        ("/asof/files/nothing.md", 404),
        ("/review/nothing", 404),
        ("/journal/zzzz", 400),
        ("/people/nobody", 404),
        ("/sessions/search?q=", 400),
    ],
)
def test_what_is_not_there_is_said_helpfully(client, path, status) -> None:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert "Traceback" not in answer.text


def test_a_turn_shows_its_prompt_and_where_each_piece_is_from(client) -> None:
    answer = client.get("/turns/3")
    assert "Where the budget went" in answer.text
    assert 'class="sankey wide"' in answer.text
    assert "What was offered" in answer.text
    assert "Where is it?" in words(answer)
    assert client.get("/turns/4").text.count('class="sankey wide"') == 1  # its reply, too


def test_a_turn_of_the_server_says_how_it_was_recognised(client, world) -> None:
    with closing(HistoryStore(world / "history.db")) as history:
        said = history.append("web-1", "user", "Is it raining?", source="serve")
        reply = history.append("web-1", "assistant", "Yes.", source="serve", reply_to=said.id)
    assert "written by serve, recognised as new" in words(client.get(f"/turns/{said.id}"))
    assert f"recognised as reply to turn {said.id}" in words(client.get(f"/turns/{reply.id}"))
    assert "recognised" not in words(client.get("/turns/1"))


def test_the_exact_bytes_are_those_that_went_out(client) -> None:
    shown = run("context", "3", "--raw").stdout_bytes
    assert client.get("/turns/3/raw").content == shown


def test_a_prompt_can_be_sent_again(client) -> None:
    answer = client.post("/turns/3/replay")
    assert answer.status_code == 200
    assert "On shelf four." in words(answer)


def test_what_was_found_is_marked(client) -> None:
    assert "<mark>umbrella</mark>" in client.get("/turns?q=UMBRELLA").text


def test_a_file_is_formatted_and_leads_to_its_turns(client) -> None:
    text = client.get("/memory/topics/umbrella.md").text
    assert '<a href="/memory/people/anna.md">Anna</a>' in text
    assert 'href="/turns/1"' in text
    assert "<!-- turns" not in text


def test_links_go_both_ways(client) -> None:
    assert "topics/umbrella.md" in words(client.get("/memory/people/anna.md?view=links"))


def test_each_line_says_who_wrote_it(client) -> None:
    text = client.get("/memory/people/anna.md?view=blame").text
    assert text.count("source-human") >= 2
    assert "likes green tea" in text


def test_an_edit_is_written_and_can_be_undone(client, world) -> None:
    page = client.get("/memory/people/anna.md?view=edit")
    form = {"sha256": hash_in(page), "text": "# Anna\r\n\r\n- keeps wasps\r\n"}
    done = client.post("/save/people/anna.md", data=form, follow_redirects=True)
    assert "Wrote people/anna.md" in words(done)
    assert (world / "memory/people/anna.md").read_bytes() == b"# Anna\n\n- keeps wasps\n"
    client.post("/journal/HEAD/undo")
    assert "keeps bees" in (world / "memory/people/anna.md").read_text("utf-8")


def test_an_edit_keeps_a_line_that_was_typed_elsewhere_meanwhile(client, world) -> None:
    page = client.get("/memory/people/anna.md?view=edit")
    path = world / "memory/people/anna.md"
    before = path.read_text("utf-8")
    path.write_text(before + "- typed elsewhere\n", "utf-8")
    form = {"sha256": hash_in(page), "text": before.replace("# Anna", "# Anna B.", 1)}
    done = client.post("/save/people/anna.md", data=form, follow_redirects=True)
    assert "Wrote people/anna.md" in words(done)
    after = path.read_text("utf-8")
    assert after == before.replace("# Anna", "# Anna B.", 1) + "- typed elsewhere\n"


def test_the_field_holds_the_file_to_the_character(client, world) -> None:
    odd = "\n\n<textarea> & \u202e \x1b [x](javascript:alert(1)) </textarea>\u200b\n"
    MemoryStore(world / "memory").write_file("odd.md", odd)
    text = client.get("/memory/odd.md?view=edit").text
    field = text.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0]
    assert unescape(field) == odd


def test_a_line_that_changed_meanwhile_is_not_overwritten(client, world) -> None:
    page = client.get("/memory/people/anna.md?view=edit")
    path = world / "memory/people/anna.md"
    before = path.read_text("utf-8")
    path.write_text(before.replace("green tea", "green tea in Lisbon"), "utf-8")
    mine = before.replace("green tea", "green tea in Porto")
    answer = client.post("/save/people/anna.md", data={"sha256": hash_in(page), "text": mine})
    assert answer.status_code == 409
    assert "in Lisbon" in answer.text
    assert "in Porto" in answer.text
    assert "Lisbon" in path.read_text("utf-8")
    again = {"sha256": hash_in(answer), "text": mine}
    assert client.post("/save/people/anna.md", data=again).status_code == 303
    assert "Porto" in path.read_text("utf-8")


def test_a_new_file_does_not_take_the_place_of_another(client) -> None:
    answer = client.post("/save/people/anna.md", data={"sha256": "", "text": "gone"})
    assert answer.status_code == 409


def test_line_ends_stay_as_the_file_has_them(client, world) -> None:
    (world / "memory/windows.md").write_bytes(b"# One\r\n\r\n- two\r\n")
    page = client.get("/memory/windows.md?view=edit")
    form = {"sha256": hash_in(page), "text": "# One\r\n\r\n- three\r\n"}
    client.post("/save/windows.md", data=form)
    assert (world / "memory/windows.md").read_bytes() == b"# One\r\n\r\n- three\r\n"


def test_files_can_be_moved_deleted_made_and_restored(client, world) -> None:
    memory = world / "memory"
    client.post("/move/people/anna.md", data={"to": "people/anna-2.md"})
    assert "../people/anna-2.md" in (memory / "topics/umbrella.md").read_text("utf-8")
    client.post("/delete/people/anna-2.md", data={"sha256": ""})
    assert not (memory / "people/anna-2.md").exists()
    made = client.post("/new", data={"path": "topics/tea"})
    assert made.headers["location"] == "/memory/topics/tea.md?view=edit"
    assert (memory / "topics/tea.md").read_text("utf-8") == "# Tea\n"
    first = data("memory", "log", "topics/umbrella.md")["commits"][-1]["id"]
    client.post("/restore/topics/umbrella.md", data={"at": first})
    assert (memory / "topics/umbrella.md").read_text("utf-8") == NOTE


def test_memory_is_shown_as_it_was(client) -> None:
    today = client.get("/asof")
    assert "topics/umbrella.md" in words(today)
    before = client.get("/asof?at=2020-01-31")
    assert "no memory yet" in words(before)


def test_the_prompt_of_a_day_is_made_of_its_memory(client, world) -> None:
    day = re.search(r'name="at" value="(\S+)"', client.get("/asof").text)[1]
    files = {p: p.read_bytes() for p in (world / "memory").rglob("*.md")}
    answer = client.post("/asof/prompt", data={"at": day, "text": "Tell me of Anna's bees"})
    assert answer.status_code == 200, answer.text
    assert "keeps bees" in words(answer)
    assert {p: p.read_bytes() for p in (world / "memory").rglob("*.md")} == files


def test_no_link_is_shown_as_it_is_written(client, world) -> None:
    (world / "memory/topics/hive.md").write_text(
        "- The hive of [Anna](../people/anna.md)\n", "utf-8"
    )
    assert "The hive of Anna" in words(client.get("/search?q=hive&method=lexical"))


def test_hits_say_why_they_stand_where_they_stand(client) -> None:
    answer = client.get("/search?q=green tea&method=lexical")
    assert 'href="/people/anna"' in answer.text
    assert 'aria-label="words 1.00"' in answer.text


def test_people_are_named_and_merged_and_split(client) -> None:
    client.post("/people/anna", data={"do": "add", "name": "Annie"})
    assert "Annie" in words(client.get("/people/anna"))
    client.post("/people/anna", data={"do": "remove", "name": "Annie"})
    assert "Annie" not in words(client.get("/people/anna"))
    assert client.post("/people/anna", data={"do": "x", "name": "y"}).status_code == 400


def test_one_page_of_a_familiar_needs_nothing_else(world, tmp_path) -> None:
    path = tmp_path / "ada.html"
    found = data("web", "--export", str(path))
    text = path.read_text("utf-8")
    assert found["bytes"] == path.stat().st_size
    assert "<script" not in text
    assert "src=" not in text
    assert "Where is it?" in text
    assert '<a href="#/memory/people/anna.md">Anna</a>' in text
    assert 'id="/memory/people/anna.md"' in text
    assert run("web", "--export", str(path)).exit_code == 5
    again = run("web", "--export", str(path), "--force")
    assert again.exit_code == 0
    assert "private channels too" in again.stderr


def test_each_block_runs_in_its_own_direction(client, world) -> None:
    MemoryStore(world / "memory").write_file("topics/salaam.md", "# Hi\n\nشكرا\n\n- تفاح\n")
    text = client.get("/memory/topics/salaam.md").text
    assert '<p dir="auto">شكرا</p>' in text
    assert '<li dir="auto">تفاح</li>' in text


def test_what_was_said_before_a_page_listens_is_told_as_soon_as_it_does(client) -> None:
    address = re.search(r'data-events="([^"]+)"', client.get("/").text)[1]
    run("hear", "A word in between")
    with client.stream("GET", unescape(address)) as events:
        assert next(line for line in events.iter_lines() if "event" in line) == "event: change"
