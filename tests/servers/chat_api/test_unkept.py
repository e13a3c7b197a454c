"""What chat programs call temporary, and their jobs: answered, and kept nowhere."""

from __future__ import annotations

import openai
import pytest

from familiar_cli.servers.chat_api import replying
from tests.cli.test_partial_replies import CUDA
from tests.llm.test_situations import GOOD, STOP
from tests.servers.chat_api.test_api import turns
from tests.support.cases import each
from tests.support.server import Drop, Fail, Script
from tests.support.serving import assistant, serving, user
from tests.support.world import live, run

SCENE = "You are a talented summarist skilled at capturing scenes from stories comprehensively. "
UNKEPT = {
    "temporary chat": ([user("Hi")], {"X-OpenWebUI-Chat-Id": "local:abc"}, {}),
    "temporary chat of old": ([user("Hi")], {"X-OpenWebUI-Chat-Id": "local"}, {}),
    "do not store": ([user("Hi")], {}, {"store": False}),
    "keep no": ([user("Hi")], {"X-Familiar-Keep": "no"}, {}),
    "health check": ([user("What's 1 + 1?")], {}, {}),
    "greeting of a health check": ([user("Hey how's it going?")], {}, {"max_tokens": 5}),
    "older health check": ([user("test from litellm")], {}, {"max_tokens": 16}),
    "tracker": (
        [
            {"role": "system", "content": "You are a Scene Tracker Assistant, tasked with …"},
            user("Robin walks in."),
        ],
        {},
        {},
    ),
    "scene": (
        [
            user(
                f"{SCENE}Analyze the following roleplay scene and return a detailed memory as JSON."
            )
        ],
        {},
        {},
    ),
    "emotion": (
        [user("Ignore previous instructions. Classify the emotion of the last message. One word.")],
        {},
        {},
    ),
    "objective": (
        [user("Pause your roleplay. Determine if this task is completed: [tea]. Answer true.")],
        {},
        {},
    ),
}


@pytest.fixture
def api(serve):
    live("ada")
    scripted = serve("Yes.")
    with serving() as server:
        yield server, scripted


@each("model", ["ada", "ada+memory"])
@each("name", sorted(UNKEPT))
def test_it_is_answered_and_leaves_no_turn(name, model, api) -> None:
    server, _ = api
    messages, headers, body = UNKEPT[name]
    reply = server.post(model=model, messages=messages, headers=headers, **body)
    assert reply.status_code == 200, reply.text
    assert reply.headers["x-familiar-kept"] == "no"
    assert reply.headers["x-familiar-reason"]
    assert turns() == []


def test_reasoning_that_a_client_sends_back_is_not_kept(api) -> None:
    server, _ = api
    said = {"role": "assistant", "content": "<think>zeppelin</think>Hello, Robin."}
    server.post(messages=[user("Hi"), said, user("And now?")])
    assert turns()[1] == ("assistant", "Hello, Robin.")


def test_the_log_tells_why_nothing_was_kept(api) -> None:
    server, _ = api
    server.post(messages=[user("My secret")], headers={"X-OpenWebUI-Chat-Id": "local:abc"})
    shown = run("serve", "log", "--no-follow").stdout
    assert "not kept: a temporary chat of Open WebUI" in shown
    assert "secret" not in shown


@each(
    "text",
    [
        "What's 1 + 1? My niece asked me.",
        "Hey, how's it going?",
        "hey how's it going?",
        "You are a scene stealer, you know.",
        "Pause your roleplay for a second, my mother called.",
        "Analyze the following scene for me, please: a man walks in.",
    ],
)
def test_what_a_person_says_is_kept(text, api) -> None:
    server, _ = api
    assert server.post(messages=[user(text)]).headers["x-familiar-kept"] == "yes"


def test_a_stream_begins_before_the_model_says_anything(serve, monkeypatch) -> None:
    monkeypatch.setattr(replying, "_BEGIN_S", 0.05)
    monkeypatch.setattr(replying, "_BEAT_S", 0.05)
    live("ada")
    serve(Script([0.6, GOOD + STOP]))
    with serving() as server:
        reply = server.post(messages=[user("Hi")], stream=True)
    comments = [line for line in reply.text.split("\n\n") if line == ": waiting"]
    assert reply.text.startswith((": waiting", "data: "))
    assert len(comments) > 2
    assert "Good " in reply.text


def test_a_late_stream_says_what_is_kept(serve, monkeypatch) -> None:
    monkeypatch.setattr(replying, "_BEGIN_S", 0.0)
    live("ada")
    serve(Script([0.3, GOOD + STOP]))
    with serving() as server:
        kept = server.post(messages=[user("Hi")], stream=True)
        other = server.post(messages=[user("Ho")], stream=True, store=False)
    assert "x-familiar-turn" in kept.headers or ": x-familiar-turn: 1" in kept.text
    assert other.headers["x-familiar-kept"] == "no"
    assert kept.text.count('"role":"assistant"') == other.text.count('"role":"assistant"') == 1


def test_a_reply_that_takes_long_begins_with_empty_lines(serve, monkeypatch) -> None:
    monkeypatch.setattr(replying, "_SILENT_S", 0.05)
    monkeypatch.setattr(replying, "_BEAT_S", 0.05)
    live("ada")
    serve(Script([0.4, GOOD + STOP]), Script([0.4, CUDA]))
    with serving() as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0)
        raw = client.chat.completions.with_raw_response.create(model="ada", messages=[user("Hi")])
        failed = server.post(messages=[user("Hi"), assistant("Good "), user("So?")])
    assert raw.content.count(b"\n") > 2
    assert raw.parse().choices[0].message.content.startswith("Good")
    assert "CUDA out of memory" in failed.json()["error"]["message"]


def test_an_error_after_the_beginning_is_one_for_the_client_of_openai(serve, monkeypatch) -> None:
    monkeypatch.setattr(replying, "_BEGIN_S", 0.05)
    live("ada")
    serve(Script([0.4, GOOD, Drop()]))
    with serving() as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0)
        said = client.chat.completions.create(model="ada", messages=[user("Hi")], stream=True)
        with pytest.raises(openai.APIError, match="before the reply was complete"):
            list(said)


def test_an_error_before_the_beginning_has_its_status(serve) -> None:
    live("ada")
    serve(Fail(401, "no"))
    with serving() as server:
        assert server.post(messages=[user("Hi")], stream=True).status_code == 502
