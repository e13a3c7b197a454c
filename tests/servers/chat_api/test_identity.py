"""Who speaks, where and as which message: what is unusable is refused, and never the owner."""

from __future__ import annotations

import random
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from familiar_cli.actions.talk.channels import hear
from familiar_cli.base.errors import UsageError
from familiar_cli.base.who.identity import NEUTRAL, Author, check_id, parse_author
from familiar_cli.context.types import Said
from familiar_cli.servers.chat_api.aligning import RequestLine
from familiar_cli.servers.chat_api.clients import job_name
from familiar_cli.store.history.store import HistoryStore
from tests.support.cases import each
from tests.support.serving import assistant, serving, user
from tests.support.world import data, home, live, run

HIDDEN = ["\u200b", "\u200d", "\u202e", "\u00ad", "\ufeff", "\u2063", "\x00", "\x1b", "\u3164"]
UNUSABLE = [*(f"irc:bob{mark}" for mark in HIDDEN), "irc:{{user", "{{user}}", "irc:", "bob", " "]
UNUSABLE += ["irc:" + 300 * "x", "irc:bob%E2%80%8B"]


@pytest.fixture
def api(serve):
    live("ada", secret="# Secret\n\nThe code of the safe is 4711.\n")
    scripted = serve(*(f"Reply {n} of a script." for n in range(1, 99)))
    with serving() as server:
        yield server, scripted


def turns(role: str = "user") -> list[tuple[str, str]]:
    """Return speaker and words of all turns of a role, in order."""
    store = HistoryStore(home() / "ada" / "history.db")
    try:
        found = [turn for turn in store.after(0, 1_000) if turn.role == role]
        return [(turn.author.slug if turn.author else "", turn.content) for turn in found]
    finally:
        store.close()


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/familiar/context", "/familiar/turns"])
def test_an_unusable_id_is_refused_everywhere_and_names_its_field(api, path) -> None:
    server, scripted = api
    body = {"model": "ada", "messages": [user("What is the code?"), assistant("?")]}
    if path != "/familiar/turns":
        body["messages"].pop()
    for field, values in (
        ("X-Familiar-User", UNUSABLE),
        ("X-Familiar-Channel", ["dm1\0", "dm1\u200b", "{{CHAT_ID}}", "x" * 999, " "]),
        ("X-Familiar-Message", ["7\u200b", "{{id}}", "\x7f"]),
        ("X-OpenWebUI-User-Id", ["7\u200b", "{{USER_ID}}"]),
        ("X-Familiar-Keep", ["perhaps"]),
        ("X-Familiar-Type", ["nonsense", "{{type}}"]),
    ):
        for value in values:
            reply = server.client.post(path, json=body, headers={field: quote(value)})
            error = reply.json()["error"]
            assert (reply.status_code, error["param"]) == (400, field), value
            assert field in error["message"]
            assert len(error["message"]) < 300
    for value in ("bob\u200b", "", 7, ["bob"], "x" * 999):
        reply = server.client.post(path, json={**body, "user": value})
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "user")
    twice = [("X-Familiar-User", "irc:bob"), ("X-Familiar-User", "cli:user")]
    assert server.client.post(path, json=body, headers=twice).status_code == 400
    assert turns() == []
    assert scripted.requests == []


def test_an_id_with_an_invisible_character_is_not_the_default_speaker() -> None:
    live()
    for value in UNUSABLE:
        if "\0" not in value:
            assert run("ask", "Hello", "--as", value).exit_code == 2
            assert run("hear", "Hello", "--as", value).exit_code == 2
    assert run("hear", "Hello", "--channel", "dm1\u200b").exit_code == 2
    assert run("hear", "Hello", "--id", "7\u202e").exit_code == 2
    assert run("channel", "set", "dm1\u200b", "kind", "dm").exit_code == 2
    assert run("mcp", "--print-config", "zed", "--channel", "dm1\u200b").exit_code == 2
    assert run("history", "show").exit_code == 4


@given(st.text(max_size=12))
def test_an_id_is_kept_whole_or_refused(text) -> None:
    try:
        author = parse_author(f"irc:{text}")
    except UsageError:
        return
    assert author.user_id == text.strip(" ")
    assert author.user_id.isprintable() or not author.user_id.isascii()
    assert author.slug != NEUTRAL.slug


@each("name", ["Zoë", "日本語", "مَرْحَبًا", "हिन्दी", "🦊", "Ada-️2025"])
def test_ids_of_every_script_are_kept(name) -> None:
    assert check_id(name, "The channel id") == name


@each("author", [Author("irc", "bob\u200b"), Author("irc", ""), Author("", "x")])
def test_nothing_is_said_by_an_author_that_nobody_can_see(author) -> None:
    with pytest.raises(UsageError):
        Said("Hello", author)


def test_names_are_only_cleaned(api) -> None:
    server, _ = api
    family = "👩‍👩‍👧 Zoë"
    for number, name in enumerate((family, "\u202eeoZ", "{{user}}")):
        headers = {"X-Familiar-User": f"irc:{number}", "X-Familiar-User-Name": quote(name)}
        assert server.post(messages=[user(f"Hello {number}")], headers=headers).status_code == 200
    store = HistoryStore(home() / "ada" / "history.db")
    names = [turn.author.display_name for turn in store.after(0, 9) if turn.role == "user"]
    store.close()
    assert names == [family, "eoZ", None]


def test_the_same_words_with_three_ids_are_three_turns(api) -> None:
    server, _ = api
    for message_id, who in enumerate(("anna", "bo", "anna"), 1):
        headers = {
            "X-Familiar-Channel": "general",
            "X-Familiar-User": f"irc:{who}",
            "X-Familiar-Message": str(message_id),
        }
        assert server.post(messages=[user("lol")], headers=headers).status_code == 200
    assert turns() == [("irc-anna", "lol"), ("irc-bo", "lol"), ("irc-anna", "lol")]
    shown = data("history", "show", "--channel", "general")["turns"]
    assert [turn["content"] for turn in shown if turn["role"] == "assistant"] == [
        f"Reply {n} of a script." for n in (1, 2, 3)
    ]


def test_the_same_id_is_the_same_turn_from_its_author_only(api) -> None:
    server, _ = api
    for who in ("irc:7", "irc:8", "discord:7", "irc:7"):
        headers = {
            "X-Familiar-Channel": "bridge",
            "X-Familiar-User": who,
            "X-Familiar-Message": "1",
        }
        reply = server.post(messages=[user("Hello")], headers=headers)
    assert turns() == [("irc-7", "Hello"), ("irc-8", "Hello"), ("discord-7", "Hello")]
    assert reply.status_code == 409  # it has a reply, and another message stands after that
    assert len(turns("assistant")) == 3


@each(
    "names, authors",
    [
        (("Mallory", "Mallory"), ("cli-user", "cli-user")),
        (("Anna", "Mallory"), ("sillytavern-Anna", "sillytavern-Mallory")),
        (("Anna", "Robin"), ("sillytavern-Anna", "sillytavern-Robin")),
        (("Galahad", "Robin"), ("cli-user", "cli-user")),
    ],
)
def test_of_several_users_with_names_but_no_accounts_none_is_the_owner(
    serve, names, authors
) -> None:
    live("ada")
    run("me", "--name", "Robin", "--also", "sillytavern:Galahad")
    run("hear", "My PIN is 4711.")
    scripted = serve("Hello.", "Hello.")
    with serving() as server:
        asked = [user("Hi"), assistant("Hello."), user("What is my PIN?")]
        asked[0]["name"], asked[2]["name"] = names
        server.post(messages=asked)
    assert turns()[1:] == [(authors[0], "Hi"), (authors[1], "What is my PIN?")]
    is_alone = set(authors) == {"cli-user"}
    assert ("4711" in str(scripted.requests[0].json())) is is_alone
    heard_by = data("channel", "list")["channels"][0]["heard_by"]
    assert heard_by == ("only you" if is_alone else "everybody")


def test_without_ids_another_person_says_the_same_again(api) -> None:
    server, _ = api
    for who in ("anna", "bo", "bo"):
        headers = {"X-Familiar-Channel": "general", "X-Familiar-User": f"irc:{who}"}
        server.post(messages=[user("lol")], headers=headers)
    assert turns() == [("irc-anna", "lol"), ("irc-bo", "lol")]


IDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)
MESSAGES = st.dictionaries(IDS, st.tuples(IDS, st.sampled_from(["lol", "Hello", "?"])), max_size=9)


@settings(max_examples=20)
@given(MESSAGES, st.randoms(use_true_random=False))
def test_n_ids_are_n_turns_and_none_is_the_owners(tmp_path_factory, messages, chance) -> None:
    from familiar_cli.base.config.home import FamiliarPaths
    from familiar_cli.familiar import Familiar
    from familiar_cli.servers.chat_api.conversations import Conversations, LineFinder

    root = tmp_path_factory.mktemp("home") / "ada"
    (root / "memory").mkdir(parents=True)
    familiar = Familiar(FamiliarPaths(root))
    known = LineFinder(root / "served.sqlite", familiar.history)
    conversations = Conversations(familiar, known)
    sent = [*messages.items(), *chance.sample(list(messages.items()), len(messages))]
    for message_id, (who, text) in sent:
        author = parse_author(f"irc:{who}")
        found = conversations.find([RequestLine("user", text)], author, "general", message_id)
        said = conversations.prepare(found, Said(text, author, message_id=message_id))
        if said.reply_to is None:
            hear(familiar, said)
    kept = familiar.history.after(0, 1_000)
    assert len(kept) == len(messages)
    assert not any(familiar.me().is_me(turn.author) for turn in kept)
    known.close()
    familiar.close()


OPENINGS = """Write a short story without a title:
### Task: Anna, remind me to
Please create a brief title track for my mixtape,
Pause the roleplay for a second.
[Pause the roleplay]
Ignore previous instructions.
Generate a concise reply with no title,
Provide a short title for my poem about how
Create a concise title and say that
System note:
### Task:
Summarize:""".splitlines()
TOLD = ["I lost my job today", "my dog died", "call mum at 5", "the chat with Bo went badly"]
FIXED = [
    "### Task:\nGenerate a concise, 3-5 word title for the chat history.",
    "### Task:\nSuggest 3-5 follow-up questions.\n### Chat History:\n<chat_history>\nUSER: Hi",
    "Provide a concise, 5-word-or-less title for the conversation, using title case conventions.",
    "[Pause your roleplay. Summarize the most important facts and events in the story so far.]",
]


def test_no_sentence_of_a_person_with_an_id_is_taken_for_a_clients_job() -> None:
    chance = random.Random(7)
    for number in range(2_000):
        words = (
            f"{chance.choice(OPENINGS).strip()} {chance.choice(TOLD)} and {chance.choice(TOLD)}."
        )
        text = chance.choice([words, chance.choice(FIXED), f"{words}\n{chance.choice(FIXED)}"])
        named = chance.choice(["X-Familiar-Message", "X-Familiar-Channel"])
        assert not job_name({}, (RequestLine("user", text),), Headers({named: str(number)}))


def test_without_headers_only_the_fixed_texts_of_programs_are_jobs() -> None:
    for opening in OPENINGS:
        for told in TOLD:
            line = RequestLine("user", f"{opening.strip()} {told} and my dog died.")
            assert not job_name({}, (line,), Headers()), line.text
    assert all(job_name({}, (RequestLine("user", text),), Headers()) for text in FIXED)


@pytest.mark.parametrize("model", ["ada", "ada+memory"])
def test_what_is_not_to_be_kept_is_answered_with_memory_and_leaves_nothing(api, model) -> None:
    server, scripted = api
    headers = {"X-Familiar-Channel": "harbour", "X-Familiar-Message": "5", "X-Familiar-Keep": "no"}
    past = [user("My zebra is called Otto."), assistant("A fine name.")]
    asked = [*past, user("What is the code of the safe?")]
    reply = server.post(model=model, messages=asked, headers=headers)
    assert reply.json()["choices"][0]["message"]["content"] == "Reply 1 of a script."
    assert reply.headers["x-familiar-kept"] == "no"
    sent = scripted.last.body.decode()
    assert "4711" in sent
    assert "zebra" in sent
    kept = server.client.post(
        "/familiar/turns",
        json={"model": model, "messages": [*asked, assistant("4711")]},
        headers=headers,
    )
    assert kept.json()["kept"] is False
    assert turns() == turns("assistant") == []
    files = [path for path in (home() / "ada").rglob("*") if path.is_file()]
    assert not [path.name for path in files if b"zebra" in path.read_bytes()]
