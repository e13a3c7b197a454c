from __future__ import annotations

from time import process_time

import pytest

from familiar_cli.servers.chat_api.aligning import RequestLine
from familiar_cli.servers.chat_api.threads import read_thread
from familiar_cli.store.history.store import HistoryStore
from tests.servers.chat_api.test_api import turns
from tests.support.serving import serving, user
from tests.support.world import data, home, live

SAID = "Plums, and nobody ever picks them."


@pytest.fixture
def api(serve):
    live("ada")
    scripted = serve(*(f"{SAID} ({n})" for n in range(1, 9)))
    with serving() as server:
        yield server, scripted


def mention(server, name: str, words: str, *past: str, model: str = "ada"):
    """Mention a model in a channel of Open WebUI."""
    told = "You are Ada, participating in a threaded conversation. Be concise and conversational."
    if past:
        told += (
            "Here's the thread history:\n\n\n" + "\n\n".join(past) + "\n\n\nContinue the "
            "conversation naturally as Ada, addressing the most recent message while being aware "
            "of the full context."
        )
    messages = [{"role": "system", "content": told}, user(f"{name}: {words}")]
    return server.post(model=model, messages=messages)


def channels() -> set[str]:
    store = HistoryStore(home() / "ada" / "history.db")
    try:
        return {turn.channel_id for turn in store.after(0, 100)}
    finally:
        store.close()


def test_mentions_in_a_thread_are_one_conversation(api) -> None:
    server, scripted = api
    first = mention(server, "Robin", "What grows there?", "Mia: We were at the old mill.")
    mention(
        server,
        "Mia",
        "Are they ripe?",
        "Mia: We were at the old mill.",
        "Robin: What grows there?",
        f"Ada: {SAID} (1)",
        "Mia: Plums!\n\nI love them.",
    )
    prompt = scripted.last.body.decode()
    assert first.status_code == 200
    assert len(channels()) == 1
    assert "We were at the old mill." in prompt
    assert [words for _, words in turns()] == [
        "We were at the old mill.",
        "What grows there?",
        f"{SAID} (1)",
        "Plums!\n\nI love them.",
        "Are they ripe?",
        f"{SAID} (2)",
    ]


def test_who_speaks_in_a_thread_is_told_by_name_and_is_not_the_owner(api) -> None:
    server, _ = api
    mention(server, "Robin", "What grows there?", "Mia: We were at the old mill.")
    people = {turn["author"]["user_id"] for turn in _people()}
    assert people == {"Mia", "Robin"}


def _people() -> list[dict[str, dict[str, str]]]:
    found = data("history", "show")["turns"]
    return [turn for turn in found if turn["author"]]


def test_a_thread_that_holds_the_message_itself_has_it_once(api) -> None:
    server, _ = api
    mention(server, "Robin", "Hello Ada", "Robin: Hello Ada")
    assert [words for role, words in turns() if role == "user"] == ["Hello Ada"]


def test_messages_pasted_into_one_are_a_thread(api) -> None:
    server, _ = api
    server.post(messages=[user("Recent messages:\nBob: Hi all\nAda: Hi Bob\nEve: What is ripe?")])
    assert [words for _, words in turns()] == ["Hi all", "Hi Bob", "What is ripe?", f"{SAID} (1)"]


@pytest.mark.parametrize(
    "text",
    [
        "Note: buy milk\nAlso: bread\nAnd: tea",
        "Bob: Hi\nEve: Hello\nBob: Bye",
        "Ada: do you hear?",
        "Bob: Hi all\nAda: Hi Bob\nEve: What is ripe?",
        "From the office:\nBob: Hi all\nAda: Hi Bob\nEve: What is ripe?",
        "What do you make of this chat:\nBob: Hi all\nAda: Hi Bob\nEve: Bye",
    ],
)
def test_labels_alone_make_no_thread(api, text) -> None:
    server, _ = api
    server.post(messages=[user(text)])
    assert turns()[0] == ("user", text)


def test_messages_without_an_introduction_are_a_thread_if_the_familiar_said_one(api) -> None:
    server, _ = api
    server.post(messages=[user("Hi Ada")])
    server.post(messages=[user(f"Bob: Hi Ada\nAda: {SAID} (1)\nEve: What is ripe?")])
    assert ("user", "What is ripe?") in turns()


def test_what_the_familiar_said_to_somebody_alone_makes_no_thread_for_another(api) -> None:
    server, _ = api
    server.post(messages=[user("My PIN is 1.")], headers={"X-Familiar-User": "irc:bob"})
    text = f"Bob: Hi Ada\nAda: {SAID} (1)\nEve: What is ripe?"
    server.post(messages=[user(text)], headers={"X-Familiar-User": "irc:eve"})
    assert ("user", text) in turns()


def test_the_newest_message_of_a_merged_prompt_is_kept_alone(api) -> None:
    server, _ = api
    server.post(messages=[user("Card. Anna: Hello")])
    merged = f"Card. Anna: Hello\nAda: {SAID} (1)\nAnna: And pears?"
    reply = server.post(messages=[user(merged)])
    assert (reply.status_code, reply.headers["x-familiar-kept"]) == (200, "yes")
    assert turns()[2] == ("user", "And pears?")
    assert len(channels()) == 1


def test_a_merged_prompt_without_a_new_message_is_answered_and_not_kept(api) -> None:
    server, _ = api
    server.post(messages=[user("Card. Anna: Hello")])
    reply = server.post(messages=[user(f"Card. Anna: Hello\nAda: {SAID} (1)")])
    assert (reply.status_code, reply.headers["x-familiar-kept"]) == (200, "no")
    assert len(turns()) == 2


def test_a_message_that_quotes_a_reply_is_kept_whole(api) -> None:
    server, _ = api
    server.post(messages=[user("What grows by the mill?")])
    server.post(messages=[user(f"You said: {SAID} (1) But why?")])
    assert turns()[2] == ("user", f"You said: {SAID} (1) But why?")


@pytest.mark.parametrize("rest", ["", " Why?"])
def test_a_reply_quoted_within_a_line_makes_no_merged_prompt(api, rest) -> None:
    server, _ = api
    server.post(messages=[user("hi")])
    said = f"This is what you told me: {SAID} (1){rest}"
    reply = server.post(messages=[user(said)])
    assert reply.headers["x-familiar-kept"] == "yes"
    assert turns()[2] == ("user", said)


def test_a_message_with_an_id_is_kept_whole(api) -> None:
    server, _ = api
    server.post(messages=[user("hi")])
    said = f"hi\n{SAID} (1)\nWhy did you say that?"
    server.post(messages=[user(said)], headers={"X-Familiar-Message": "m-2"})
    assert turns()[2] == ("user", said)


def test_instructions_of_blank_lines_are_read_at_once() -> None:
    told = "You are Ada, participating in a threaded conversation. Here's the thread history:\n"
    body = {"messages": [{"role": "system", "content": told + "\n" * 4_000}]}
    begin_s = process_time()
    assert read_thread(body, [RequestLine("user", "Hi")], "Ada".__eq__, bool) == ()
    assert process_time() - begin_s < 1
