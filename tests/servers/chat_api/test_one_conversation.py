"""One conversation, however it comes in: imported, live, or both."""

from __future__ import annotations

import json

import pytest

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history.same_message import without_fence
from familiar_cli.store.history.store import HistoryStore
from tests.support.serving import assistant, serving, user
from tests.support.sillytavern import DataFolder, said
from tests.support.world import data, home, live, run

GREETING = "Welcome to the harbour, Robin. What brings you here?"
TALK = [
    ("Robin", "Good evening, Ada."),
    ("Ada", "Good evening. The tide is low."),
    ("Robin", "My dog Biscuit is brown."),
    ("Ada", "A fine dog, brown as the mud here."),
]


@pytest.fixture
def api(serve):
    live("ada")
    scripted = serve(*(f"Reply {n} of a script." for n in range(1, 99)))
    with serving() as server:
        yield server, scripted


def chat_file(talk=TALK, name: str = "evening"):
    """Write a chat as SillyTavern keeps it, and return its path."""
    path = home().parent / "Ada" / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    head = {"user_name": "Robin", "character_name": "Ada", "chat_metadata": {}}
    lines = [("Ada", GREETING), *talk]
    messages = [
        {
            "name": who,
            "is_user": who == "Robin",
            "send_date": f"2024-05-01T10:{n:02d}:00.000Z",
            "mes": text,
        }
        for n, (who, text) in enumerate(lines)
    ]
    path.write_text("\n".join(json.dumps(line) for line in [head, *messages]) + "\n")
    return path


def messages(talk=TALK):
    """Return the chat as SillyTavern sends it."""
    found = [assistant(GREETING)]
    return found + [user(text) if who == "Robin" else assistant(text) for who, text in talk]


def turns(channel: str | None = None) -> list[tuple[str, str, str]]:
    store = HistoryStore(home() / "ada" / "history.db")
    try:
        found = store.recent(channel, 1_000, viewer=OWNER) if channel else store.after(0, 1_000)
        return [(t.role, t.author.slug if t.author else "", t.content) for t in found]
    finally:
        store.close()


def test_what_was_imported_goes_on_in_its_channel_with_its_times(api) -> None:
    server, _ = api
    assert run("import-chat", str(chat_file())).exit_code == 0
    before = data("history", "show")["turns"]
    asked = [*messages(), user("Do you remember his name?")]
    reply = server.post(model="ada+memory", messages=asked)
    after = data("history", "show")["turns"]
    assert after[: len(before)] == before
    assert [turn["content"] for turn in after[len(before) :]] == [
        "Do you remember his name?",
        "Reply 1 of a script.",
    ]
    assert reply.headers["x-familiar-channel"] == before[0]["channel"]


def test_another_chat_with_the_same_beginning_is_another_conversation(api) -> None:
    server, _ = api
    beginning = [assistant(GREETING), user("Hello")]
    first = server.post(messages=beginning)
    goes_on = [*beginning, assistant("Reply 1 of a script."), user("I am Robin.")]
    assert (
        server.post(messages=goes_on).headers["x-familiar-channel"]
        == (first.headers["x-familiar-channel"])
    )
    other = server.post(messages=beginning)
    assert other.headers["x-familiar-channel"] != first.headers["x-familiar-channel"]


def test_our_own_fence_is_never_kept_nor_sent_twice(api) -> None:
    server, scripted = api
    fenced = "<memory>\nWhat Ada remembers, as notes.\n\n- old\n</memory>\n\nHello again"
    server.post(model="ada+memory", messages=[user(fenced), assistant("Hi."), user(fenced)])
    assert "<memory" not in json.dumps(turns())
    assert "old" not in scripted.last.body.decode()


def test_a_tag_that_a_person_types_is_kept_as_text_without_the_fence_around_it(api) -> None:
    """What the program added goes, whichever way a client joins messages; words of people stay."""
    server, scripted = api
    (home() / "ada" / "memory" / "boat.md").write_text(
        "# Boat\n\nThe boat Alma </memory> is red.\n"
    )
    typed = "What is a <memory> tag for in the boat Alma?</memory> And <memory>?"
    server.post(model="ada+memory", messages=[user(typed)])
    sent = json.loads(scripted.last.body)["messages"][-1]["content"]
    assert sent.startswith("<memory>\nWhat ada remembers, as notes.")
    assert sent.endswith(typed)
    kept = [content for _, _, content in turns()]
    assert kept == [typed.replace("<memory", "‹memory"), "Reply 1 of a script."]
    for again in (sent, f"Robin said so.\n\n{sent}", [{"type": "text", "text": sent}]):
        server.post(model="ada+memory", messages=[user(again), assistant(kept[1]), user("Yes.")])
        assert "is red" not in json.dumps(json.loads(scripted.last.body)["messages"][0])
    assert [content for _, _, content in turns()].count(kept[0]) == 1
    assert "<memory" not in json.dumps(turns())


def test_a_typed_tag_is_one_line_imported_and_live(api) -> None:
    server, _ = api
    talk = [*TALK, ("Robin", "What is <memory>?"), ("Ada", "A tag, <memory> and all.")]
    assert run("import-chat", str(chat_file(talk))).exit_code == 0
    before = turns()
    server.post(model="ada+memory", messages=[*messages(talk), user("And <memory>?")])
    assert turns()[:-2] == before
    live = [("Robin", "And <memory>?"), ("Ada", "Reply 1 of a script.")]
    assert [content for _, _, content in turns()][-2:] == ["And ‹memory>?", live[1][1]]
    assert run("import-chat", str(chat_file([*talk, *live]))).exit_code == 0
    assert turns()[: len(before)] == before
    assert len(turns()) == len(before) + 2


def test_a_reply_that_repeats_the_notes_is_kept_without_them_however_it_comes(serve) -> None:
    live("ada")
    echoed = "<memory>\nWhat ada remembers, as notes.\n\n- old\n</memory>\n\nIt is red, I think."
    serve(echoed, "Gladly.")
    asked = [*messages(TALK), user("Which colour is the boat?")]
    with serving() as server:
        reply = server.post(model="ada+memory", messages=asked)
        assert reply.json()["choices"][0]["message"]["content"] == echoed
        asked += [assistant(echoed), user("Say it again.")]
        server.post(model="ada+memory", messages=asked)
    kept = [content for _, _, content in turns()]
    assert kept[-4:] == [asked[-3]["content"], "It is red, I think.", "Say it again.", "Gladly."]
    talk = [*TALK, ("Robin", asked[-3]["content"]), ("Ada", echoed), ("Robin", "Say it again.")]
    assert run("import-chat", str(chat_file([*talk, ("Ada", "Gladly.")]))).exit_code == 0
    assert [content for _, _, content in turns()] == kept


def test_fences_that_nothing_closes_take_no_time() -> None:
    opened = "<memory>\nWhat Ada remembers, as notes. "
    text = f"</memory>{opened * 20_000}"
    assert without_fence(text) == text


def test_forty_edits_do_not_lengthen_the_channel(api) -> None:
    server, _ = api
    talk = [user("First words of a talk, long enough."), assistant("Reply 1 of a script.")]
    channel = ""
    for number in range(12):
        asked = [*talk, user(f"Edit number {number}")]
        headers = {"X-OpenWebUI-Chat-Id": "c-1"}
        channel = server.post(messages=asked, headers=headers).headers["x-familiar-channel"]
    assert len(channel) < 40


def test_a_chat_file_that_begins_like_another_one_shares_its_beginning(api) -> None:
    server, _ = api
    assert run("import-chat", str(chat_file())).exit_code == 0
    headers = {"X-Familiar-Channel": "branch-2"}
    asked = [*messages(TALK[:3]), user("And mine is black.")]
    reply = server.post(messages=asked, headers=headers)
    channel = reply.headers["x-familiar-channel"]
    assert channel == "branch-2"
    assert [content for _, _, content in turns(channel)] == [
        GREETING,
        *(text for _, text in TALK[:3]),
        "And mine is black.",
        "Reply 1 of a script.",
    ]
    assert len(turns()) == 5 + 2


def test_a_group_with_a_narrator_is_kept_as_the_importer_keeps_it(api) -> None:
    server, _ = api
    group = {
        "model": "ada",
        "messages": [
            {"role": "user", "name": "Robin", "content": "Who is here?"},
            {"role": "system", "name": "Narrator", "content": "The lamps go out."},
            {"role": "assistant", "name": "Bo", "content": "Me."},
            {"role": "assistant", "name": "Ada", "content": "And I."},
        ],
    }
    headers = {"X-Familiar-Channel": "evening", "X-Familiar-User-Name": "Robin"}
    for _ in range(2):
        assert server.client.post("/familiar/turns", json=group, headers=headers).json()["kept"]
    assert turns() == [
        ("user", "cli-user", "Who is here?"),
        ("system", "", "The lamps go out."),
        ("user", "sillytavern_character-Bo", "Me."),
        ("assistant", "", "And I."),
    ]


def test_prefixes_of_a_plain_client_name_who_speaks(api) -> None:
    server, _ = api
    card = (
        "Write Ada's next reply in a fictional chat between Ada, Bo and Robin.\n"
        "[Start a new group chat. Group members: Ada, Bo]"
    )
    asked = [
        {"role": "system", "content": card},
        user("Robin: Who is here?"),
        assistant("Bo: Me."),
    ]
    server.post(model="ada+memory", messages=asked)
    assert turns() == [
        ("user", "cli-user", "Who is here?"),
        ("user", "sillytavern_character-Bo", "Me."),
        ("assistant", "", "Reply 1 of a script."),
    ]


def test_a_foreign_character_is_routed_to_the_familiar_of_that_name_or_refused(api) -> None:
    server, _ = api
    live("yuzu")
    card = "Write {}'s next reply in a fictional chat between {} and Robin."
    for name in ("Yuzu", "Kiku"):
        asked = [{"role": "system", "content": card.format(name, name)}, user(f"Hello {name}")]
        reply = server.post(model="ada+memory", messages=asked)
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "other_character")
    assert "Model" in reply.json()["error"]["message"]
    assert not (home() / "ada" / "history.db").exists() or turns() == []
    assert data("history", "show", "--familiar", "yuzu")["turns"][0]["content"] == "Hello Yuzu"
    named = {"X-Familiar-Character": "Kiku"}
    assert server.post(messages=[user("Hello")], headers=named).status_code == 409


def test_memory_is_the_complement_of_the_clients_prompt(serve) -> None:
    lore = {
        f"lore/entry-{n}": f"# Shadowfang {n}\n\nA Shadowfang of clan {n} hunts under moon {n}.\n"
        for n in range(12)
    }
    live("ada", topics="# Tea\n\n- Robin told the Shadowfang hunter that tea heals.\n", **lore)
    scripted = serve("Aye.")
    talk = [("Robin", "Where did we see the Shadowfang?"), ("Ada", "By the mill, in a red fog.")]
    assert run("import-chat", str(chat_file(talk, "long ago"))).exit_code == 0
    book = "\n".join(text.split("\n\n")[1] for text in list(lore.values())[:9])
    asked = [
        {"role": "system", "content": f"You are Ada.\n{book}"},
        assistant("A Shadowfang scratched my door last night, did I say?"),
        user("Which Shadowfang was it?"),
    ]
    with serving() as server:
        for _ in range(2):
            server.post(model="ada+memory", messages=asked)
    sent = scripted.last.json()["messages"]
    added = sent[-1]["content"].removesuffix(asked[-1]["content"])
    assert sent[:-1] == asked[:-1]
    assert "in a red fog" in added
    assert "tea heals" in added
    assert "hunts under moon" not in added
    assert "scratched my door" not in added
    assert added.count("Where did we see") <= added.count("in a red fog")


def test_an_edit_in_a_client_is_a_correction_until_somebody_goes_on_from_it(api) -> None:
    server, _ = api
    talk = [user("Let us talk of the animals that we have at home, you and I.")]

    def say(past, text: str) -> list[dict[str, str]]:
        asked = [*past, user(text)]
        reply = server.post(model="ada+memory", messages=asked).json()
        return [*asked, assistant(reply["choices"][0]["message"]["content"])]

    reply = server.post(model="ada+memory", messages=talk).json()
    talk.append(assistant(reply["choices"][0]["message"]["content"]))
    talk = say(talk, "Gladly. You first?")
    old = say(talk, "I have a brown dog called Biscuit, who sleeps under the stairs.")
    new = say(talk, "I have a black cat called Inky, who sleeps on the stove.")
    found = run("history", "search", "Biscuit").stdout + run("history", "search", "Inky").stdout
    assert "Inky" in found
    assert "Biscuit" not in found
    say(new, "She is old.")
    say(old, "He is young.")
    assert "brown dog called Biscuit" in run("history", "search", "Biscuit").stdout
    contents = [content for _, _, content in turns()]
    assert len(contents) == len(set(contents))


def test_import_then_live_then_import_holds_each_line_once(serve, tmp_path) -> None:
    folder = DataFolder(tmp_path / "st")
    folder.character("Ada")
    lines = [
        said("Ada", "Ada looks up from her charts and smiles.", 0),
        said("Robin", "Good evening, I brought the old barometer.", 1, user=True),
        said("Ada", "It says storm, and so do my knees.", 2),
        said("Robin", "Then let us close the shutters.", 3, user=True),
        said("Ada", "I will hold the ladder for you.", 4),
    ]
    folder.chat("Ada", "evening", *lines)
    assert run("import-sillytavern", str(folder.root)).exit_code == 0
    serve("The lamp is lit now.", "Sleep well, and mind the step.")
    asked = [{"role": "system", "content": "Write Ada's next reply."}]
    asked += [(user if line["is_user"] else assistant)(line["mes"]) for line in lines]
    with serving() as server:
        for minute, text in ((5, "Is the lamp lit?"), (7, "Good night then, dear Ada.")):
            asked.append(user(text))
            reply = server.post(model="ada+memory", messages=asked)
            answer = reply.json()["choices"][0]["message"]["content"]
            asked.append(assistant(answer))
            lines += [said("Robin", text, minute, user=True), said("Ada", answer, minute + 1)]
    folder.chat("Ada", "evening", *lines)
    for _ in range(2):
        again = run("import-sillytavern", str(folder.root))
        assert again.exit_code == 0, again.output
    assert [content for _, _, content in turns()] == [line["mes"] for line in lines]
    for line in lines:
        shown = run("history", "search", line["mes"]).stdout
        assert shown.count(line["mes"]) == 1
    assert "<memory" not in str(turns())
