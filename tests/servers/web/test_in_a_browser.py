"""The pages in headless Chromium, where there is one: nothing breaks, and nothing leaves."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from familiar_cli.servers.web.site import Door
from familiar_cli.store.journal.edits import UnseenCommits
from familiar_cli.store.journal.git import GitJournal
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.pending import PlannedFile, ReviewPlan, stage_plan
from tests.support.browsing import BROWSER, FLAGS
from tests.support.cases import IS_NIGHT, copy_home, shared_world
from tests.support.server import ChatServer, Say
from tests.support.serving import serving
from tests.support.world import live, run
from tests.support.writing import point_at

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")
PATHS = [
    "/",
    "/chat",
    "/turns",
    "/turns/3",
    "/turns/layers",
    "/turns?q=umbrella",
    "/memory",
    "/memory/people/anna.md",
    "/memory/people/anna.md?view=blame",
    "/memory/people/anna.md?view=history",
    "/memory/people/anna.md?view=links",
    "/memory/people/anna.md?view=edit",
    "/memory/evil.md",
    "/asof",
    "/asof/files/people/anna.md",
    "/review",
    "/search?q=bees",
    "/timeline",
    "/journal",
    "/journal/HEAD",
    "/people",
    "/people/anna",
    "/graph",
    "/graph?name=anna",
    "/desk",
    "/distill",
    "/sync",
    "/settings",
    "/doctor",
]
EVIL = (
    "# </script><script>alert(1)</script>\n\n![x](http://evil.example/x.png)\n\n"
    '<img src="http://evil.example/y.png" onerror="document.title=1">\n\n'
    "[x](javascript:document.title=1) $& {{ 1 }}\n"
)


class Looking:
    """A browser that came through the link, and what it complained of."""

    def __init__(self, page, server, door) -> None:
        self.page, self.url = page, server.url
        self._client, self.door = server.client, door
        self.complaints = []
        self._heard = {
            "console": lambda m: self.complaints.append((page.url, m.type, m.text)),
            "pageerror": lambda error: self.complaints.append((page.url, str(error))),
            "request": self._asked,
        }
        for event, hear in self._heard.items():
            page.on(event, hear)

    def enter(self, context) -> None:
        """Give a browser the cookie; the link would lead to the first page, which takes long."""
        if not self._client.cookies:
            assert self._client.get(self.door.link).status_code == 303
        held = self._client.cookies.items()
        context.add_cookies(
            [{"name": name, "value": value, "url": self.url} for name, value in held]
        )

    def leave(self) -> None:
        self.page.goto("about:blank")
        for event, hear in self._heard.items():
            self.page.remove_listener(event, hear)
        self.page.context.clear_cookies()

    def _asked(self, request) -> None:
        if not request.url.startswith(self.url):
            self.complaints.append((self.page.url, "asked for", request.url))

    def go(self, path: str):
        self.enter(self.page.context)
        found = self.page.goto(self.url + path, wait_until="load")
        assert found.status == 200, path
        return self.page

    def text(self) -> str:
        return self.page.inner_text("main")


def do(*words: str) -> None:
    """Run a command in a thread of its own: Playwright has an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(run, *words).result()
    assert done.exit_code == 0, done.output


def long_ago(root, rel_path: str, content: bytes) -> None:
    """Make a file whose first commit is old."""
    (root / "memory" / rel_path).parent.mkdir(parents=True, exist_ok=True)
    (root / "memory" / rel_path).write_bytes(content)
    repository = GitJournal(root / "journal.git", root / "memory").repository
    repository.create()
    draft = UnseenCommits(repository, None)
    draft.commit("human", "first", [(rel_path, content)], datetime(2025, 1, 31, 12, tzinfo=UTC))
    draft.save()
    repository.set_head(draft.head)
    repository.objects.keep()
    repository.close()


def plan(root) -> None:
    """Put a plan with two pieces before the person."""
    before = "# Tea\n\n- green\n" + "\n- x" * 12 + "\n"
    after = before.replace("- green", "- green\n- oolong") + "- coffee\n"
    store = MemoryStore(root / "memory")
    store.write_file("topics/tea.md", before)
    made = ReviewPlan(
        "20260131T120000-a1b2c3",
        "20260131T120000-a1b2c3",
        "2026-01-31T12:00:00Z",
        "review",
        "scripted-1",
        (1, 4),
        (PlannedFile("topics/tea.md", before, after),),
    )
    with store.transaction("human", "a plan") as tx:
        stage_plan(tx, store, made)


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page(chromium):
    """One page for all tests: a new one is a new process."""
    return chromium.new_context().new_page()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    directory = tmp_path_factory.mktemp("prepared")
    with shared_world(directory) as patches, ChatServer(["It is red.", "On shelf four."]) as server:
        point_at(server, patches)
        root = live("ada", evil=EVIL)
        long_ago(root, "people/anna.md", b"# Anna\n\n- lives in Porto\n")
        said = [("ask", text, "--name", "Robin") for text in ("Which umbrella?", "Where is it?")]
        for words in (*said, ("memory", "append", "people/anna.md", "- keeps bees")):
            do(*words)
    return directory


@pytest.fixture
def looking(serve, page, prepared):
    serve("On shelf four.")
    root = copy_home(prepared) / "ada"
    page.set_viewport_size({"width": 1024, "height": 900})
    door = Door()
    with serving(api=False, door=door) as server:
        found = Looking(page, server, door)
        found.root = root
        yield found
        found.leave()
        assert not found.complaints


def test_every_page_fits_has_its_landmarks_and_labels_and_nothing_is_complained_of(looking) -> None:
    for path in PATHS if IS_NIGHT else PATHS[::3]:
        page = looking.go(path)
        assert page.title().endswith(" · ada"), path
        for width in (320, 1024, 2560):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
        landmarks = ("main", "nav", "header", "footer", "h1")
        lacking = f"{[*landmarks]}.filter(name => !document.querySelector(name))"
        assert page.evaluate(lacking) == [], path
        unnamed = page.evaluate(
            "[...document.querySelectorAll('input:not([type=hidden]), select, textarea')]"
            ".filter(e => !e.labels.length && !e.ariaLabel).map(e => e.outerHTML)"
        )
        assert unnamed == [], path


def test_the_token_is_gone_from_the_address(looking) -> None:
    looking.page.goto(looking.url + looking.door.link)
    assert looking.page.url == f"{looking.url}/"


def test_an_edit_is_saved(looking) -> None:
    page = looking.go("/memory/people/anna.md?view=edit")
    page.fill("textarea", "# Anna\n\n- keeps wasps\n")
    page.click("text=Save")
    assert "Wrote people/anna.md" in looking.text()
    assert (looking.root / "memory/people/anna.md").read_bytes() == b"# Anna\n\n- keeps wasps\n"


def test_an_edit_of_what_changed_meanwhile_shows_both(looking) -> None:
    page, path = looking.go("/memory/people/anna.md?view=edit"), "memory/people/anna.md"
    base = (looking.root / path).read_text("utf-8")
    theirs, mine = (base.replace("bees", f"bees in {town}") for town in ("Lisbon", "Porto"))
    (looking.root / path).write_text(theirs, "utf-8")
    page.fill("textarea", mine)
    page.click("text=Save")
    assert page.input_value("#theirs") == theirs
    assert page.input_value("#mine") == mine
    page.fill("#mine", f"{theirs}- keeps wasps\n")
    page.click("text=Save what is on the right")
    assert (looking.root / path).read_text("utf-8") == f"{theirs}- keeps wasps\n"
    looking.complaints = [c for c in looking.complaints if "409" not in c[-1]]


def test_a_change_is_undone_from_the_journal(looking) -> None:
    page = looking.go("/journal/HEAD")
    page.click("text=Undo this change")
    assert "Undone" in looking.text()


def test_the_slider_leads_to_another_day(looking) -> None:
    page = looking.go("/asof")
    assert "keeps bees" in looking.text()
    page.focus("#n")
    page.keyboard.press("Home")
    page.wait_for_url("**/asof?at=2025-01-31")
    page.wait_for_selector("text=lives in Porto")
    assert page.evaluate("document.activeElement.id") == "n"
    assert "As of 31 January 2025" in looking.text()
    page = looking.go("/asof/files/people/anna.md?at=2025-01-31")
    assert "lives in Porto" in looking.text()
    assert "keeps bees" not in looking.text()


def test_a_plan_is_taken_and_rejected_by_piece(looking) -> None:
    plan(looking.root)
    page = looking.go("/review")
    page.click("h2 a")
    page.check("input[name=piece-1][value=take]")
    page.check("input[name=piece-2][value=reject]")
    page.click("text=Apply my choices")
    assert "The plan is complete." in looking.text()
    now = (looking.root / "memory/topics/tea.md").read_text("utf-8")
    assert "oolong" in now
    assert "coffee" not in now


def test_the_keyboard_reaches_everything(looking) -> None:
    page = looking.go("/turns")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.outerHTML.slice(0, 40)"))
    assert any("<input" in one for one in seen)
    assert any("<button" in one for one in seen)


def test_new_turns_appear_by_themselves(looking) -> None:
    page = looking.go("/")
    do("hear", "A new word", "--name", "Robin")
    page.wait_for_selector("text=A new word")


def test_one_talks_stops_asks_again_chooses_edits_and_leaves_the_record(looking, serve) -> None:
    hold = threading.Event()
    held = Say("One two three four.", hold=hold)
    server = serve(held, "All four.", "Five.", "Between us.", "Still between us.")
    looking.page.set_viewport_size({"width": 390, "height": 844})
    page = looking.go("/chat")
    replies = page.locator("[role=log] li.assistant .words")
    page.fill("#say", "Count to four")
    page.click("#send")
    page.wait_for_selector("text=One two")  # while the model is still writing
    page.fill("#say", "a draft")
    page.click("#stop")
    page.wait_for_selector("text=broke off")
    assert replies.last.inner_text().strip() == "One two"
    assert page.input_value("#say") == "a draft"
    page.click("text=Again")
    page.wait_for_selector("text=2 of 2")
    assert replies.last.inner_text() == "All four."
    page.wait_for_selector("#writing >> text=ada has replied.")
    page.click("button[aria-label='The reply before']")
    page.wait_for_selector("text=1 of 2")
    said = page.locator("[role=log] li.user").last
    said.locator("details.more summary").click()
    said.locator("textarea").fill("Count to five")
    page.click("text=Say this instead")
    page.wait_for_selector(".words >> text=Five.")
    assert "Count to four" not in looking.text()
    page.check("text=Off the record")
    for words, answer in (("Whisper", "Between us."), ("And now?", "Still between us.")):
        page.fill("#say", words)
        page.click("#send")
        page.wait_for_selector(f".off .acts >> xpath=.. >> text={answer}")
    assert "Between us." in server.last.body.decode()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    hold.set()
    assert "between us" not in looking.go("/chat").inner_text("main").lower()


def test_one_talks_and_looks_back_without_scripts(looking, chromium, serve) -> None:
    serve("It is red.")
    context = chromium.new_context(java_script_enabled=False)
    looking.enter(context)
    page = context.new_page()
    page.goto(looking.url + "/chat?channel=new")
    page.fill("#say", "Which umbrella?")
    page.click("#send")
    assert page.url.startswith(f"{looking.url}/chat?channel=new")
    assert "It is red." in page.inner_text("main")
    page.click("text=Again")
    assert "2 of 2" in page.inner_text("main")
    assert page.goto(looking.url + "/asof").status == 200
    page.fill("input[name=at]", "2025-01-31")
    page.click("form.bar button")
    assert "As of 31 January 2025" in page.inner_text("main")
    context.close()


def test_a_formatted_reply_shows_no_marks_and_stays_where_it_is_when_it_ends(
    looking, serve
) -> None:
    text = '*She nods.* "It is **fine**."\n\n- one\n- *two*\n\n' + "And so it goes on. " * 12
    serve(Say(text, pause_s=0.01))
    page = looking.go("/chat?channel=frames")
    page.evaluate(FRAMES)
    for _ in range(2):
        page.fill("#say", "Is it *so*?")
        page.click("#send")
        until(page, "document.getElementById('writing').textContent.includes('has replied')")
        frames = page.evaluate("window.frames_.splice(0)")
        assert [shown for shown, *_ in frames if re.search(r"\*|`|^- ", shown, re.MULTILINE)] == []
        writing = [top for _, top, is_busy in frames if is_busy and top is not None]
        assert abs(writing[-1] - frames[-1][1]) < 2
    assert page.url.endswith("/chat?channel=frames")


def test_replies_are_swiped_in_place(looking, serve) -> None:
    serve("First.", "Second.")
    page = looking.go("/chat?channel=swipes")
    loads = []
    page.on("framenavigated", lambda frame: loads.append(frame.url))
    page.fill("#say", "Hello")
    page.click("#send")
    until(page, "document.querySelector('[role=log]').innerText.includes('First.')")
    until(page, "document.querySelector('.acts button[value=again]:enabled')")
    page.click(".acts button[value=again]")
    until(page, "document.querySelector('.swipe')?.innerText.includes('2 of 2')")
    page.click("button[aria-label='The reply before']")
    until(page, "document.querySelector('.swipe')?.innerText.includes('1 of 2')")
    assert "First." in looking.text()
    assert loads == []


def test_control_k_leads_to_the_search(looking) -> None:
    page = looking.go("/people")
    page.keyboard.press("Control+k")
    page.keyboard.type("umbrella")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=umbrella")


FRAMES = """() => {
  window.frames_ = [];
  const look = () => {
    const all = [...document.querySelectorAll("#conversation li.turn .words")];
    const last = document.querySelector("#conversation li.assistant:last-of-type .words");
    const shown = all.map((one) => one.innerText).join("\\n");
    const top = last?.innerText ? last.getBoundingClientRect().top : null;
    frames_.push([shown, top, !document.getElementById("stop").hidden]);
    requestAnimationFrame(look);
  };
  look();
}"""


def until(page, script: str) -> None:
    """Wait for a script to be true; the policy of the pages forbids to wait within them."""
    for _ in range(400):
        if page.evaluate(f"Boolean({script})"):
            return
        page.wait_for_timeout(50)
    raise AssertionError(script)
