"""Talk on the page, over real HTTP with a scripted model: forms alone, then streams of events."""

from __future__ import annotations

import json
import re
import threading
from contextlib import closing, contextmanager
from html import unescape

import pytest

from familiar_cli.actions.memory.due_work import DueWork
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.servers.web import conversations
from familiar_cli.store.history import HistoryStore
from tests.support.browsing import looking
from tests.support.cards import png_with, v2
from tests.support.server import Fail, Say
from tests.support.world import data, home, live, run

EVENTS = {"Accept": "text/event-stream"}


@pytest.fixture
def client():
    live("ada", **{"topics/boat": "# The boat\n\n- The boat is called Heron\n"})
    with looking() as found:
        yield found


def words(answer) -> str:
    """Return what a reader of a page sees."""
    body = answer.text.partition("<main")[2].partition("</main>")[0]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def say(client, text="", **more):
    """Send a form of the page as a browser without script does."""
    form = {"text": text, "channel": "cli", **more}
    return client.post("/chat", data=form, follow_redirects=True)


def events(answer):
    """Yield the events of a streamed reply."""
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            found = json.loads(line[6:])
            yield name, "".join(text for text, _ in found) if isinstance(found, list) else found


@contextmanager
def streaming(client, text="", **more):
    """Send a form as the page's script does, and read the events of the reply."""
    form = {"text": text, "channel": "cli", **more}
    with client.stream("POST", "/chat", data=form, headers=EVENTS) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events(answer)


def kept() -> list[tuple[str, str]]:
    """Return what the history holds of every conversation; empty: it is not even there."""
    if not (home() / "ada" / "history.db").exists():
        return []
    with closing(HistoryStore(home() / "ada" / "history.db")) as history:
        return [(turn.role, turn.content) for turn in history.recent("cli", 100, viewer=OWNER)]


def prompts(server) -> list[str]:
    return [request.body.decode() for request in server.requests]


def test_forms_alone_say_ask_again_choose_edit_and_take_back(client, serve) -> None:
    serve("Heron it is.", "The Heron.", "She is called Heron.")
    first = say(client, "What is my boat called?")
    assert first.url.path == "/chat"
    assert "Heron it is." in words(first)
    assert "I used the page on" in words(first)
    page = "topics/boat.md"
    assert f'/memory/{page}"' in first.text
    run("memory", "mv", page, "topics/ship.md")
    moved = client.get("/chat")
    assert "I used the page on" in words(moved)
    assert f'/memory/{page}"' not in moved.text
    run("memory", "mv", "topics/ship.md", page)
    assert "1 of 2" not in words(first)
    assert "2 of 2" in words(say(client, do="again"))
    chosen = client.post("/chat/choose", data={"number": "1"}, follow_redirects=True)
    assert "1 of 2" in words(chosen)
    assert kept()[-1] == ("assistant", "Heron it is.")
    asked = data("history", "show")["turns"][0]["id"]
    edited = say(client, "And her name?", do="edit", turn=asked)
    assert kept() == [("user", "And her name?"), ("assistant", "She is called Heron.")]
    assert "What is my boat" not in words(edited)
    back = client.post("/chat/withdraw", data={}, follow_redirects=True)
    assert "Withdrawn" in words(back)
    assert kept() == []


def send_file(client, name: str, content: bytes, **more):
    """Send a message with a file as a browser without script does."""
    form = {"text": "Look", "channel": "cli", **more}
    files = [("picture", (name, content))]
    return client.post("/chat", data=form, files=files, follow_redirects=True)


def test_a_picture_reaches_the_model_and_stands_in_the_conversation(client, serve) -> None:
    server, pixel = serve("A cat!"), png_with()
    assert 'type="file"' in client.get("/chat").text
    page = send_file(client, "cat.png", pixel)
    place = re.search(r'<img src="(/attachments/[0-9a-f]{16})"', page.text)
    assert client.get(place[1]).content == pixel
    assert client.get(place[1]).headers["content-type"] == "image/png"
    assert '<div class="words" dir="auto">Look<img' in page.text
    say(client, do="again")
    for request in server.requests[:2]:
        said = request.json()["messages"][-1]["content"]
        assert [part["type"] for part in said] == ["text", "image_url"]


def test_a_picture_off_the_record_is_sent_and_kept_nowhere(client, serve) -> None:
    server = serve("A cat!")
    send_file(client, "cat.png", png_with(), off="on")
    assert server.requests[0].json()["messages"][-1]["content"][1]["type"] == "image_url"
    assert not (home() / "ada" / "attachments").exists()


def test_what_is_no_picture_is_not_sent(client, serve) -> None:
    server = serve("A cat!")
    page = send_file(client, "cat.svg", b"<svg onload=alert(1)>")
    assert page.status_code == 400
    assert "is not a picture" in words(page)
    assert ">Look</textarea>" in page.text.replace("\n", "")
    assert (server.requests, kept()) == ([], [])


def test_one_message_is_remembered_and_each_says_whether_it_left_the_prompt(client, serve) -> None:
    run("config", "set", "history.recent_turns", "2")
    serve(*["Aye."] * 4)
    for number in range(4):
        page = say(client, f"I painted oar {number} green.")
    assert words(page).count("not in the prompt any more") > 1
    assert "any more" not in words(page).partition("oar 3")[2]
    done = client.post("/chat/remember", data={"turn": "1"}, follow_redirects=True)
    assert "Remembered in people/" in words(done)
    assert "“I painted oar 0 green.”" in run("memory", "grep", "oar 0").stdout
    assert client.post("/chat/remember", data={"turn": "99"}).status_code == 404


def test_a_reply_goes_on_where_it_ended(client, serve) -> None:
    serve("One, two,", " three.")
    say(client, "Count")
    say(client, do="continue")
    assert kept()[-1] == ("assistant", "One, two, three.")


def test_a_branch_leaves_the_conversation_as_it_is(client, serve) -> None:
    serve("First.", "Second.")
    say(client, "One")
    turn = data("history", "show")["turns"][-1]["id"]
    form = {"name": "apart", "turn": turn, "channel": "cli"}
    page = client.post("/chat/branch", data=form, follow_redirects=True)
    assert page.url.params["channel"] == "apart"
    assert "First." in words(page)
    assert "Second." in words(say(client, "Two", channel="apart"))
    assert "Second." not in words(client.get("/chat"))


def test_the_chosen_greeting_opens_the_conversation(serve, tmp_path) -> None:
    server = serve("Tea, then.")
    card = tmp_path / "yuzu.json"
    greetings = {"first_mes": "The kettle sings.", "alternate_greetings": ["The shop is dark."]}
    card.write_text(json.dumps(v2(name="Yuzu", **greetings)), "utf-8")
    assert run("init", "yuzu", "--from-card", str(card)).exit_code == 0
    with looking() as client:
        assert "The shop is dark." in words(client.get("/chat"))
        page = say(client, "Good evening", greeting="2")
        assert "not in the prompt any more" not in words(page)
        assert "The shop is dark." in prompts(server)[0]
        assert "The kettle sings." not in words(client.get("/chat"))


def test_pieces_come_before_the_model_has_ended(client, serve) -> None:
    hold = threading.Event()
    serve(Say("One two three four.", hold=hold))
    with streaming(client, "Count") as found:
        assert next(found)[0] == "begun"
        assert next(found) == ("text", "One ")
        assert next(found) == ("text", "two ")
        hold.set()
        *_, last = found
    assert last[0] == "page"
    assert "One two three four." in last[1]
    assert kept()[-1] == ("assistant", "One two three four.")


@pytest.mark.parametrize("leaves", [True, False], ids=["hang up", "stop"])
def test_what_came_of_a_stopped_reply_is_kept(client, serve, leaves) -> None:
    hold = threading.Event()
    serve(Say("One two three four.", hold=hold), "Better.")
    with streaming(client, "Count") as found:
        assert [next(found)[1] for _ in range(3)] == ["Count", "One ", "two "]
        if not leaves:
            assert "A reply is being written." in words(client.get("/chat"))
            client.post("/chat/stop", data={"channel": "cli"})
            page = dict(found)["page"]
            assert "broke off" in page
            assert "A reply is being written." not in page
    assert "Better." in words(say(client, do="again"))  # it waits until the first has ended
    hold.set()
    every = data("history", "show", "--all")["turns"]
    assert [(t["content"], t["partial"]) for t in every][1] == ("One two ", True)


def test_a_channel_answers_one_message_at_a_time(client, serve) -> None:
    hold = threading.Event()
    serve(Say("One two three four.", hold=hold), "Second.")
    with streaming(client, "First") as first:
        assert next(first)[0] == "begun"
        with streaming(client, "Next") as second:
            assert next(second)[0] == "wait"
            hold.set()
            assert "Second." in dict(second)["page"]
    assert [role for role, _ in kept()] == ["user", "assistant"] * 2


def test_what_was_stopped_before_it_was_kept_stays_in_the_box(client, serve) -> None:
    hold = threading.Event()
    serve(Say("One two three four.", hold=hold))
    with streaming(client, "First") as first:
        assert next(first)[0] == "begun"
        with streaming(client, "Not yet") as second:
            assert next(second)[0] == "wait"
            client.post("/chat/stop", data={"channel": "cli"})
            assert "Not yet</textarea>" in dict(second)["page"]
    hold.set()


def test_nothing_of_what_is_said_off_the_record_is_left(client, serve) -> None:
    server = serve("A secret kept.", "You said zanzibar.", "Zanzibar again.")
    say(client, "My word is zanzibar", off="on")
    first = say(client, "My word is zanzibar", off="on")
    spoken = unescape(re.search(r'name="spoken"[^>]* value="([^"]*)"', first.text)[1])
    assert json.loads(spoken)[0] == ["user", "My word is zanzibar"]
    assert "Off the record" in words(first)
    with streaming(client, "Which word?", off="on", spoken=spoken) as found:
        page = dict(found)["page"]
    assert "Zanzibar again." in page
    assert "You said zanzibar." in prompts(server)[-1]
    assert kept() == []
    files = [path for path in home().rglob("*") if path.is_file()]
    assert [path for path in files if b"anzibar" in path.read_bytes()] == []
    assert "anzibar" not in client.get("/chat").text
    wrong = say(client, "x", off="on", spoken='[["system", "x"]]')
    assert (wrong.status_code, len(server.requests)) == (400, 3)


def test_without_a_model_the_page_says_how_to_get_one_and_keeps_the_draft(client) -> None:
    assert "cannot reply yet" in words(client.get("/chat"))
    assert "Download it" in words(client.get("/chat"))
    answer = say(client, "Hello <there>")
    assert answer.status_code == 503
    assert "Hello &lt;there&gt;</textarea>" in answer.text
    assert kept() == []
    with streaming(client, "Hello") as found:
        assert [name for name, _ in found] == ["page"]


def test_a_failed_model_keeps_the_words_and_can_be_asked_again(client, serve) -> None:
    serve(Fail(500, "out of order"), Fail(500), Fail(500), Fail(500), "At last.")
    answer = say(client, "Hello")
    assert answer.status_code == 502
    assert "your message is saved as turn 1" in words(answer)
    assert "Ask for a reply" in words(answer)
    while "At last." not in words(say(client, do="again")):
        pass
    assert kept() == [("user", "Hello"), ("assistant", "At last.")]


@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {"cookie": ""}]
)
def test_no_page_from_elsewhere_can_talk(client, serve, headers) -> None:
    server = serve("Hello.")
    client.cookies.clear() if "cookie" in headers else None
    for accept in ("text/html", "text/event-stream"):
        answer = client.post("/chat", data={"text": "Hi"}, headers={**headers, "accept": accept})
        assert answer.status_code == 403
    assert client.post("/chat/stop", headers=headers).status_code == 403
    assert (server.requests, kept()) == ([], [])


def test_each_familiar_is_talked_to_at_its_own_address(client, serve) -> None:
    serve("I am Bo.")
    live("bo")
    page = client.post("/f/bo/chat", data={"text": "Who are you?"}, follow_redirects=True)
    assert page.url.path == "/f/bo/chat"
    assert "I am Bo." in words(page)
    assert kept() == []


def test_settings_that_change_reach_the_next_turn(client, serve) -> None:
    server = serve("Hello.")
    say(client, "Hi")
    assert run("me", "--name", "Marguerite").exit_code == 0
    say(client, "Hi again")
    assert ["Marguerite" in prompt for prompt in prompts(server)] == [False, True]


@pytest.mark.parametrize("api", [False, True], ids=["familiar web", "familiar serve"])
def test_a_turn_begins_what_it_made_due_where_no_daemon_does(serve, monkeypatch, api) -> None:
    begun = []

    def begin(_, result):
        begun.append(result.text)
        return DueWork(problems=("Memory is unchanged: x",))

    monkeypatch.setattr("familiar_cli.servers.web.talk_pages.begin_due_work", begin)
    serve("Hello.")
    live("ada")
    with looking(api=api) as client:
        say(client, "A secret", off="on")
        assert ("Memory is unchanged: x" in words(say(client, "Hi"))) is not api
    assert begun == ([] if api else ["Hello."])


def test_what_memory_learned_stands_beside_the_reply_until_it_is_undone(client, serve) -> None:
    from familiar_cli.familiar import Familiar

    serve("Noted.")
    say(client, "I like juniper tea")
    with Familiar.load_from_disk() as familiar:
        line = f"- likes juniper tea <!-- turns {familiar.instance.id}:1 -->\n"
        with familiar.memory.transaction("memory_writer", "1 turn") as tx:
            tx.write("topics/tea.md", f"# Tea\n\n{line}", expect="missing")
    page = client.get("/chat")
    assert "Learned 1 thing from it likes juniper tea Undo this" in words(page)
    commit = re.search(r'name="commit" value="([0-9a-f]+)"', page.text)[1]
    undone = client.post("/chat/undo", data={"commit": commit}, follow_redirects=True)
    assert "The change was undone" in words(undone)
    assert "juniper tea Undo" not in words(undone)


def test_conversations_are_listed_with_who_hears_them(client, serve) -> None:
    serve("Hello.")
    run("channel", "set", "4711", "--kind", "dm")
    run("ask", "Hi", "--channel", "4711", "--as", "discord:5", "--name", "Emily")
    run("channel", "set", "mine", "--kind", "dm")
    say(client, "Only between us", channel="mine")
    run("channel", "set", "hall", "--kind", "text")
    run("ask", "Hi all", "--channel", "hall", "--as", "discord:5", "--name", "Emily")
    listed = client.get("/chat").text.partition('<nav id="conversations"')[2].partition("</nav>")[0]
    heard = dict(re.findall(r'channel=(\w+)".*?</b> <span><bdi>(.*?)</bdi> ·', listed))
    assert heard == {"4711": "you and Emily", "mine": "only you", "hall": "everybody"}
    assert 'heard by <b dir="auto">only you</b>' in client.get("/chat?channel=mine").text
    assert 'heard by <b dir="auto">only you</b>' in client.get("/chat?channel=not-begun").text


def test_a_conversation_that_only_a_program_named_has_its_first_words_as_title(
    client, serve
) -> None:
    serve("Hello.")
    say(client, "*waves* Where is **Leo**?", channel="openwebui:5f0c9a7e-11aa")
    assert '<b dir="auto">waves Where is Leo?</b>' in client.get("/chat").text


def test_the_title_is_made_of_the_beginning_of_a_long_message(client, serve, monkeypatch) -> None:
    serve("Hello.")
    say(client, "*waves* " + "at the boat " * 300, channel="openwebui:5f0c9a7e-11aa")
    read = []
    monkeypatch.setattr(conversations, "spoken_text", lambda text: read.append(text) or text)
    assert "*waves* at the boat at the boat" in client.get("/chat").text
    assert 0 < sum(map(len, read)) < 1_000


def test_each_day_has_a_heading_and_lines_have_times_alone(client, serve) -> None:
    serve("Hello.")
    page = say(client, "Hi").text
    assert page.count('<li class="day"><h2><time datetime=') == 1
    assert re.search(r'<a class="at" href="/turns/\d+"><time [^>]*>\d\d:\d\d</time>', page)


def test_a_reply_streams_in_styled_runs_without_marks(client, serve) -> None:
    serve('*nods* "Yes"\n- **one**\n')
    form = {"text": "Is it *so*?", "channel": "cli"}
    runs = []
    with client.stream("POST", "/chat", data=form, headers=EVENTS) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: [["):
                runs += json.loads(line[6:])
    assert "".join(text for text, _ in runs) == 'Is it so?nods "Yes"\n• one\n'
    assert ["so", "italic"] in runs
    assert ["one", "item bold"] in runs


def test_stop_says_that_it_stopped(client, serve) -> None:
    hold = threading.Event()
    serve(Say("One two three four.", hold=hold))
    with streaming(client, "Count") as found:
        next(found), next(found)
        client.post("/chat/stop", data={"channel": "cli"})
        assert "Stopped. What had been written is saved." in dict(found)["page"]
    hold.set()
    idle = client.post("/chat/stop", data={"channel": "cli"}, follow_redirects=True)
    assert "No reply was being written." in words(idle)


def test_what_failed_is_no_note_of_success_and_names_no_module(client, serve) -> None:
    serve(Fail(401, "bad key"))
    page = say(client, "Hello").text
    assert 'class="callout failure" role="alert"' in page
    assert "content_search" not in page
    assert 'class="told"' not in page
