"""Several characters answer one message: every reply is kept, once, as its speaker's."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.familiar import Familiar
from familiar_cli.servers.chat_api.conversations import ServedFamiliar
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.memory.store.watch import OFTEN, list_tree
from tests.support.serving import assistant, serving, user
from tests.support.world import home, live

ROBIN, ADA, BO = "cli-user", "sillytavern_character-Ada", "sillytavern_character-Bo"


def asking_for(member: str, *lines: dict[str, str]) -> list[dict[str, str]]:
    """Return a group's chat as SillyTavern sends it to have one member reply."""
    card = (
        f"Write {member}'s next reply in a fictional chat between Ada, Bo and Robin.\n"
        "[Start a new group chat. Group members: Ada, Bo]"
    )
    nudge = {"role": "system", "content": f"[Write the next reply only as {member}.]"}
    return [{"role": "system", "content": card}, *lines, nudge]


def kept(name: str) -> list[tuple[str, str, str]]:
    with closing(HistoryStore(home() / name / "history.db")) as store:
        turns = store.after(0, 100)
    assert len({turn.channel_id for turn in turns}) == 1
    return [(t.role, t.author.slug if t.author else "", t.content) for t in turns]


@pytest.mark.parametrize("suffix", ["", "+memory"])
@pytest.mark.parametrize("headers", [{}, {"X-Familiar-Channel": "evening"}])
def test_two_familiars_answer_one_message_and_both_keep_both_replies(
    serve, suffix, headers
) -> None:
    live("ada")
    live("bo")
    serve("I am, says the harbour.", "Me too, by the door.", "Storm tomorrow.", "And rain.")
    chat = [user("Robin: Who is here tonight?")]
    with serving() as server:
        for text in (None, "Robin: What will the weather be?"):
            if text:
                chat.append(user(text))
            for name in ("Ada", "Bo"):
                asked = asking_for(name, *chat)
                reply = server.post(model=name.lower() + suffix, messages=asked, headers=headers)
                answer = reply.json()["choices"][0]["message"]["content"]
                assert reply.headers["x-familiar-kept"] == "yes"
                chat.append(assistant(f"{name}: {answer}"))
        for name in ("Ada", "Bo"):  # both hear of all replies with what is said next
            asked = asking_for(name, *chat, user("Robin: Good night, you two."))
            server.post(model=name.lower() + suffix, messages=asked, headers=headers)
    said = [
        ("user", ROBIN, "Who is here tonight?"),
        ("Ada", ADA, "I am, says the harbour."),
        ("Bo", BO, "Me too, by the door."),
        ("user", ROBIN, "What will the weather be?"),
        ("Ada", ADA, "Storm tomorrow."),
        ("Bo", BO, "And rain."),
        ("user", ROBIN, "Good night, you two."),
    ]
    for name in ("Ada", "Bo"):
        own = [
            ("assistant", "", text) if who == name else ("user", slug, text)
            for who, slug, text in said
        ]
        assert kept(name.lower())[: len(said)] == own


@pytest.mark.parametrize("suffix", ["", "+memory"])
def test_a_member_without_a_familiar_is_kept_with_the_next_message(serve, suffix) -> None:
    live("ada")
    serve("I am, says the harbour.", "Me too, by the door.", "Storm tomorrow.")
    chat = [user("Robin: Who is here tonight?")]
    with serving() as server:
        for name in ("Ada", "Bo"):
            reply = server.post(model="ada" + suffix, messages=asking_for(name, *chat))
            answer = reply.json()["choices"][0]["message"]["content"]
            assert reply.headers["x-familiar-kept"] == ("yes" if name == "Ada" else "no")
            chat.append(assistant(f"{name}: {answer}"))
        chat.append(user("Robin: What will the weather be?"))
        server.post(model="ada" + suffix, messages=asking_for("Ada", *chat))
    assert kept("ada") == [
        ("user", ROBIN, "Who is here tonight?"),
        ("assistant", "", "I am, says the harbour."),
        ("user", BO, "Me too, by the door."),
        ("user", ROBIN, "What will the weather be?"),
        ("assistant", "", "Storm tomorrow."),
    ]


def test_a_familiar_of_a_running_server_follows_its_card(tmp_path) -> None:
    card = tmp_path / "ada" / "memory" / "self" / "card.json"
    card.parent.mkdir(parents=True)
    with Familiar(FamiliarPaths(tmp_path / "ada")) as familiar:
        served = ServedFamiliar(familiar)
        for name in ("Ada Byron", "Countess"):
            card.write_text(json.dumps({"data": {"name": name}}), "utf-8")
            for _ in range(OFTEN + 1):  # so that changes are watched for
                list_tree(str(familiar.paths.memory.resolve()))
            assert served.names[-2:] == (name, "ada")
