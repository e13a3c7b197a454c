"""The extension for SillyTavern, in Node, against a real server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from familiar_cli.store.history.store import HistoryStore
from tests.support.cases import each
from tests.support.node import node
from tests.support.pages import ROOT
from tests.support.serving import serving, user
from tests.support.world import home, live

EXTENSION = ROOT / "integrations" / "sillytavern"
BOAT = "# Boat\n\nThe red boat Alma lies in the harbour of Risor.\n"
PAGE = "http://127.0.0.1:8000"
QUESTION = "Where is the red boat Alma?"


pytestmark = pytest.mark.skipif(node() is None, reason="there is no Node")


@pytest.fixture(scope="module")
def play():
    """Runs the extension for one generation, and returns what came of it."""
    program = [node(), str(Path(__file__).with_name("extension.mjs"))]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as running:

        def run(url: str, chat: list[dict], **scenario):
            settings = {"address": url, **scenario.pop("settings", {})}
            scenario |= {
                "settings": settings,
                "chat": chat,
                "extension": str(EXTENSION / "index.js"),
            }
            running.stdin.write(json.dumps(scenario) + "\n")
            running.stdin.flush()
            found = json.loads(running.stdout.readline())
            assert "error" not in found, found["error"]
            return found

        yield run
        running.stdin.close()


def said(text: str, *, by_user: bool = True) -> dict:
    name = "Anna" if by_user else "Ada"
    date = "2026-01-01T10:00:00.000Z"
    return {"is_user": by_user, "name": name, "mes": text, "send_date": date}


def turns() -> list[tuple[str, str]]:
    store = HistoryStore(home() / "ada" / "history.db")
    try:
        return [(turn.role, turn.content) for turn in store.after(0, 100) if turn.stands]
    finally:
        store.close()


@pytest.fixture
def url(serve):
    live("ada", boat=BOAT)
    serve("unused")
    with serving(origins=(PAGE,)) as server:
        yield server.url


def test_memory_goes_into_a_copy_of_the_newest_message(play, url) -> None:
    found = play(url, [said("Ahoy!", by_user=False), said(QUESTION)])
    assert "harbour of Risor" in found["sent"][-1]["mes"]
    assert found["sent"][-1]["mes"].endswith(QUESTION)
    assert found["sent"][0]["mes"] == "Ahoy!"
    assert found["chat"][-1]["mes"] == QUESTION


def test_a_quiet_request_is_left_alone_and_kept_nowhere(play, url) -> None:
    found = play(url, [said(QUESTION)], type="quiet", reply="A title")
    assert found["sent"][-1]["mes"] == QUESTION
    assert not (home() / "ada" / "history.db").exists()


def test_what_was_recalled_stands_under_the_reply(play, url) -> None:
    found = play(url, [said(QUESTION)], reply="In Risor.")
    assert "1 memory recalled" in found["shown"]
    assert "boat.md:" in found["shown"]
    assert "harbour of Risor" in found["shown"]


def test_a_card_is_bound_to_a_familiar_by_picture_and_digest_after_one_question(play, url) -> None:
    first = play(url, [said(QUESTION)])
    assert "Whose memory is Ada" in first["questions"][0]
    assert "harbour of Risor" in first["sent"][-1]["mes"]
    bound = {"bindings": first["bindings"]}
    assert play(url, [said(QUESTION)], settings=bound)["questions"] == []
    for foreign in ({"avatar": "Ada1.png"}, {"card": {"name": "Ada", "description": "evil"}}):
        found = play(url, [said(QUESTION)], settings=bound, answer=False, **foreign)
        assert (len(found["questions"]), found["sent"][-1]["mes"]) == (1, QUESTION)
        assert (
            play(url, [said(QUESTION)], settings={"bindings": found["bindings"]}, **foreign)[
                "questions"
            ]
            == []
        )


def test_an_exchange_is_kept_once_and_a_swipe_replaces_the_reply(play, url) -> None:
    for reply in ("In Risor.", "In Risor.", "At home."):
        found = play(url, [said(QUESTION)], reply=reply)
        assert found["warnings"] == []
    assert turns() == [("user", QUESTION), ("assistant", "At home.")]


def test_one_message_is_remembered_and_those_that_left_the_prompt_are_marked(play, url) -> None:
    chat = [said("Ahoy!", by_user=False), said("My oar is made of ash.")]
    bound = {"bindings": play(url, chat)["bindings"], "keep": False}
    marked = {"metadata": {"lastInContextMessageId": 1}}
    found = play(url, chat, settings=bound, remember=1, **marked)
    assert (found["out"], found["warnings"]) == ([True, False], [])
    (told,) = found["infos"]
    page = home() / "ada" / "memory" / told.removeprefix("Familiar: Remembered in ")
    assert "“My oar is made of ash.” (Anna) <!-- turns 2 -->" in page.read_text("utf-8")


def test_going_on_stays_in_the_chat(play, url) -> None:
    play(url, [said(QUESTION)], reply="In Risor.")
    chat = [said(QUESTION), said("In Risor.", by_user=False), said("Thanks.")]
    play(url, chat, reply="Gladly.")
    assert [text for _, text in turns()] == [QUESTION, "In Risor.", "Thanks.", "Gladly."]


def test_without_a_server_the_reply_is_made_without_memory(play) -> None:
    found = play("http://127.0.0.1:9", [said(QUESTION)])
    assert found["sent"][-1]["mes"] == QUESTION
    assert len(found["warnings"]) == 1


def test_what_is_wrong_is_told_in_the_servers_words(play, url) -> None:
    bound = play(url, [said(QUESTION)])["bindings"]
    bound["Ada.png"]["familiar"] = "nobody-known"
    found = play(url, [said(QUESTION)], settings={"bindings": bound})
    assert "'nobody-known' does not exist" in found["warnings"][0]


def test_memory_never_becomes_markup(play, serve) -> None:
    live("ada", boat="# Boat\n\nThe red boat Alma <img src=x onerror=alert(1)> is here.\n")
    serve("unused")
    with serving(origins=(PAGE,)) as server:
        found = play(server.url, [said(QUESTION)], reply="Aye.")
    assert "<img src=x" in found["shown"]
    source = (EXTENSION / "index.js").read_text(encoding="utf-8")
    assert "innerHTML" not in source


def test_the_context_endpoint_says_where_each_piece_is_from(url) -> None:
    with serving() as server:
        body = {"model": "ada", "messages": [user(QUESTION)]}
        found = server.client.post("/familiar/context", json=body).json()
    [piece] = found["recalled"]
    assert (piece["path"], piece["lines"][0]) == ("boat.md", 1)
    assert piece["text"] in found["memory"]
    assert not (home() / "ada" / "history.db").exists()


DIAGNOSE = """
import { diagnose } from %s;
const settings = { timeoutMs: 9, token: '', ...%s };
const answers = %s;
const ask = async (url, options) => {
    const key = `${options.mode ?? 'cors'} ${new URL(url).pathname}`;
    if (!(key in answers)) { throw new TypeError('Failed to fetch'); }
    const [status, body] = answers[key];
    return { status, ok: status < 300, json: async () => body };
};
console.log(JSON.stringify(await diagnose(settings, ask, %s)));
"""
HERE = {"address": "http://127.0.0.1:8765"}
HEALTHY = {"cors /health": [200, {"status": "ok"}]}
OPEN = {"no-cors /health": [0, None]}


@each(
    ("settings", "answers", "page", "words"),
    [
        (HERE, {}, PAGE, "start it with familiar serve"),
        (HERE, OPEN, "http://localhost:8000", 'origins = ["http://localhost:8000"]'),
        ({"address": "127.0.0.1:8765"}, HEALTHY, PAGE, "with http://, e.g. http://127.0.0.1:8765"),
        ({"address": "localhost:8765"}, HEALTHY, PAGE, "with http://"),
        ({"address": PAGE}, HEALTHY, PAGE, "SillyTavern's own address"),
        (HERE | {"token": "x"}, HEALTHY | {"cors /v1/models": [401, {}]}, PAGE, "token_file ="),
        (HERE, HEALTHY | {"cors /v1/models": [401, {}]}, PAGE, "needs a token"),
        (HERE, {"cors /health": [421, {}]}, PAGE, 'hosts = ["127.0.0.1:8765"]'),
        (HERE, {"cors /health": [200, {"hello": 1}]}, PAGE, "is not familiar serve"),
        (HERE, {}, "https://tavern.example", "under https cannot reach"),
        (HERE, HEALTHY | {"cors /v1/models": [200, {"data": []}]}, PAGE, "familiar init NAME"),
    ],
)
def test_each_misconfiguration_has_one_sentence_with_what_to_set(settings, answers, page, words):
    logic = json.dumps((EXTENSION / "logic.js").as_uri())
    code = DIAGNOSE % (logic, *(json.dumps(value) for value in (settings, answers, page)))
    argv = [node(), "--input-type=module", "-e", code]
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", timeout=60, check=True)
    found = json.loads(done.stdout)
    assert not found["ok"]
    assert words in found["words"]
    assert "\n" not in found["words"]
