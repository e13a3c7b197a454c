"""Requests in the shape that chat programs document, with the fields and headers they add."""

from __future__ import annotations

import pytest

from tests.support.serving import assistant, serving, user
from tests.support.world import data, live

SILLY_TAVERN = {
    "temperature": 0.9,
    "frequency_penalty": 0,
    "presence_penalty": 0.1,
    "top_p": 0.98,
    "max_tokens": 400,
    "stop": ["\nAnna:"],
    "stream": True,
    "seed": 7,
    "n": 1,
    "logit_bias": {},
    "custom_prompt_post_processing": "",
}
OPEN_WEBUI = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "params": {},
    "chat_id": "c-1",
    "id": "m-2",
    "session_id": "s-3",
    "background_tasks": {"title_generation": True},
    "features": {"web_search": False},
}
LIBRE_CHAT = {"user": "65f0c1", "stream": True, "temperature": 1, "top_p": 1}
FOLLOW_UPS = (
    "### Task:\nSuggest 3-5 relevant follow-up questions that the user might naturally ask next.\n"
    "### Chat History:\n<chat_history>\nUSER: Hello\n</chat_history>"
)
TITLE = (
    "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. "
    "Only return the title itself.\n\nConversation:\nUser: Hello\nAI: Reply."
)


@pytest.fixture
def server(serve):
    live("ada")
    scripted = serve(*(f"Reply {n} of the script." for n in range(1, 7)))
    with serving() as found:
        yield found, scripted


def said() -> list[str]:
    return [turn["content"] for turn in data("history", "show")["turns"]]


def test_sillytavern_swipes_and_goes_on(server) -> None:
    api, scripted = server
    card = [{"role": "system", "content": "Write Ada's next reply."}, assistant("Welcome, Anna.")]
    prompt = [*card, user("Hello")]
    for _ in range(2):
        api.post(model="ada+memory", messages=prompt, **SILLY_TAVERN)
    prompt += [assistant("Reply 2 of the script."), {"role": "system", "content": "[Note]"}]
    api.post(model="ada+memory", messages=[*prompt, user("And?")], **SILLY_TAVERN)
    body = scripted.last.json()
    assert {key: body[key] for key in SILLY_TAVERN} == SILLY_TAVERN
    assert said() == [
        "Welcome, Anna.",
        "Hello",
        "Reply 2 of the script.",
        "And?",
        "Reply 3 of the script.",
    ]


def test_sillytavern_goes_back_to_an_earlier_swipe(server) -> None:
    api, _ = server
    for _ in range(2):
        api.post(model="ada+memory", messages=[user("Hello")], **SILLY_TAVERN)
    earlier = [user("Hello"), assistant("Reply 1 of the script."), user("And?")]
    api.post(model="ada+memory", messages=earlier, **SILLY_TAVERN)
    assert said()[:2] == ["Hello", "Reply 1 of the script."]


@pytest.mark.parametrize("forwards", [True, False])
def test_open_webui_keeps_the_chat_and_no_chores(server, forwards) -> None:
    api, _ = server
    headers = {"X-OpenWebUI-Chat-Id": "c-1", "X-OpenWebUI-User-Id": "u-9"} if forwards else {}
    first = api.post(messages=[user("Hello")], headers=headers, **OPEN_WEBUI)
    chore = api.post(messages=[user(FOLLOW_UPS)], headers=headers, stream=False)
    assert chore.headers["x-familiar-kept"] == "no"
    goes_on = [user("Hello"), assistant("Reply 1 of the script."), user("And?")]
    second = api.post(messages=goes_on, headers=headers, **OPEN_WEBUI)
    assert first.headers["x-familiar-channel"] == second.headers["x-familiar-channel"]
    assert '"usage"' in second.text
    assert said() == [
        "Hello",
        "Reply 1 of the script.",
        "And?",
        "Reply 3 of the script.",
    ]


def test_librechat_is_known_by_the_person_and_asks_for_titles(server) -> None:
    api, _ = server
    api.post(messages=[user("Hello")], headers={"X-Familiar-Channel": "6f1c"}, **LIBRE_CHAT)
    title = api.post(messages=[user(TITLE)], model="ada", user="65f0c1")
    assert title.headers["x-familiar-kept"] == "no"
    turns = data("history", "show")["turns"]
    assert [turn["channel"] for turn in turns] == ["6f1c", "6f1c"]
    [person] = data("people", "ls")["people"]
    assert person["slug"] == "serve-65f0c1"


def test_open_webui_edits_an_earlier_message(server) -> None:
    api, _ = server
    headers = {"X-OpenWebUI-Chat-Id": "c-1"}
    talk = [user("Hello"), assistant("Reply 1 of the script."), user("And?")]
    api.post(messages=talk[:1], headers=headers)
    api.post(messages=talk, headers=headers)
    edited = [*talk[:2], user("Or rather?")]
    branch = api.post(messages=edited, headers=headers).headers["x-familiar-channel"]
    assert branch.startswith("open-webui-c-1-")
    further = [*edited, assistant("Reply 3 of the script."), user("Good.")]
    again = api.post(messages=further, headers=headers)
    assert again.headers["x-familiar-channel"] == branch
    old = data("history", "show", "--channel", "open-webui-c-1")["turns"]
    assert [turn["content"] for turn in old][-2:] == ["And?", "Reply 2 of the script."]


def test_sillytavern_s_test_message_and_the_mark_of_a_new_chat_are_kept_nowhere(server) -> None:
    api, _ = server
    test = SILLY_TAVERN | {"stream": False}
    tried = api.post(model="ada+memory", messages=[user("Hi")], **test)
    assert tried.headers["x-familiar-kept"] == "no"
    strict = [user("[Start a new Chat]"), assistant("Welcome, Anna."), user("Hi")]
    api.post(model="ada+memory", messages=strict, **test)
    assert said() == ["Welcome, Anna.", "Hi", "Reply 2 of the script."]
