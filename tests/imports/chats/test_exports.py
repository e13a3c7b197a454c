"""Exports of chat services: the branch that was shown becomes turns, the others are kept beside."""

from __future__ import annotations

import json

import pytest

from familiar_cli.base.errors import PartialError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.imports import source
from familiar_cli.imports.cast import Cast
from familiar_cli.imports.contract import ForeignMessage, Reading
from familiar_cli.imports.conversation import shown_branch
from familiar_cli.imports.reading import read_chats
from familiar_cli.imports.source import ForeignFile, object_spans
from familiar_cli.store.history.selection import TurnFilter, imported_from, select_turns
from tests.support.chats import bring, only, said


def node(name, parent, role=None, *parts, **more):
    message = None
    if role:
        content = more.pop("content", {"content_type": "text", "parts": list(parts)})
        message = {"id": name, "author": {"role": role}, "content": content} | more
    return {"id": name, "parent": parent, "children": [], "message": message}


def gpt(*nodes, current=None, **more):
    about = {"title": "Tea", "create_time": 1706745600.0, "conversation_id": "abcdef12-3456"}
    mapping = {n["id"]: n for n in nodes}
    return about | {"mapping": mapping, "current_node": current or nodes[-1]["id"]} | more


def claude(*messages, **more):
    about = {"uuid": "99887766-1", "name": "Trains", "created_at": "2025-02-14T10:04:22Z"}
    return about | {"account": {"uuid": "acc-1"}, "chat_messages": list(messages)} | more


def message(uuid, sender, text, **more):
    return {
        "uuid": uuid,
        "sender": sender,
        "text": text,
        "created_at": "2025-02-14T10:05:00Z",
    } | more


def save(path, value, **how):
    path.write_text(json.dumps(value, **how), encoding="utf-8")
    return path


CHAT = gpt(
    node("root", None),
    node("s", "root", "system", ""),
    node("q", "s", "user", "Which tea?", create_time=1706745600.25),
    node("old", "q", "assistant", "Black.", create_time=1706745601),
    node("new", "q", "assistant", "Barley.", create_time=1706745700),
)


def test_the_current_branch_of_chatgpt_becomes_turns(store, tmp_path) -> None:
    chat = only(bring(store, save(tmp_path / "conversations.json", [CHAT])))

    assert (chat.name, chat.channel, chat.format) == ("Tea", "tea-abcdef12", "chatgpt")
    assert (chat.imported, chat.aside) == (2, 1)
    turns = [kept.turn for kept in select_turns(store, TurnFilter(OWNER, "tea-abcdef12"))]
    assert [(t.role, t.content) for t in turns] == [
        ("user", "Which tea?"),
        ("assistant", "Barley."),
    ]
    assert turns[0].author == Author("chatgpt", "user")
    assert turns[0].at.isoformat(timespec="milliseconds") == "2024-02-01T00:00:00.250+00:00"


def test_other_branches_are_kept_beside_the_turns(store, tmp_path) -> None:
    bring(store, save(tmp_path / "conversations.json", [CHAT]))
    (kept,) = imported_from(store, "tea-abcdef12")
    mapping = json.loads(kept.head)["mapping"]
    assert mapping["old"]["message"]["content"]["parts"] == ["Black."]
    assert "message" not in mapping["new"]


def test_tools_thoughts_and_hidden_messages_are_hidden(store, tmp_path) -> None:
    thoughts = {"content_type": "thoughts", "thoughts": [{"content": "Hm."}]}
    chat = gpt(
        node("a", None, "user", "Hi"),
        node("b", "a", "assistant", content=thoughts),
        node("c", "b", "assistant", "search()", recipient="browser"),
        node("d", "c", "tool", "results"),
        node("e", "d", "user", "secret", metadata={"is_visually_hidden_from_conversation": True}),
        node("f", "e", "assistant", {"asset_pointer": "x"}, "A picture."),
    )
    bring(store, save(tmp_path / "conversations.json", [chat]))
    turns = [kept.turn for kept in select_turns(store, TurnFilter(OWNER, "tea-abcdef12"))]
    assert [(t.content, t.hidden) for t in turns] == [
        ("Hi", False),
        ("Hm.", True),
        ("search()", True),
        ("results", True),
        ("secret", True),
        ("A picture.", False),
    ]


def test_files_and_pictures_of_chatgpt_are_named(store, tmp_path) -> None:
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://1"}
    listed = {"metadata": {"attachments": [{"name": "IMG 1.png"}, {"name": "a.pdf"}]}}
    chat = gpt(
        node("a", None, "user", picture, "And this?", **listed),
        node("b", "a", "assistant", "A boat."),
        node("c", "b", "user", picture),
    )
    done = only(bring(store, save(tmp_path / "c.json", [chat])))
    named = "And this?\n[attachment: IMG 1.png]\n[attachment: a.pdf]"
    assert said(store, done.channel) == [named, "A boat.", "[attachment]"]


def test_the_first_conversation_is_imported_first(store, tmp_path) -> None:
    later = CHAT | {"conversation_id": "z", "title": "Later", "create_time": 1806745600}
    done = bring(store, save(tmp_path / "conversations.json", [later, CHAT]))
    assert [chat.name for chat in done.chats] == ["Tea", "Later"]


def test_a_renamed_conversation_stays_in_its_channel(store, tmp_path) -> None:
    bring(store, save(tmp_path / "conversations.json", [CHAT]))
    chat = only(bring(store, save(tmp_path / "other.json", [CHAT | {"title": "Kettles"}])))
    assert (chat.channel, chat.imported, chat.already_there) == ("tea-abcdef12", 0, 2)


def test_one_conversation_alone_over_many_lines_is_read(store, tmp_path) -> None:
    assert only(bring(store, save(tmp_path / "one.json", CHAT, indent=2))).imported == 2
    assert only(bring(store, save(tmp_path / "same.json", CHAT))).already_there == 2


@pytest.mark.parametrize(
    "odd",
    [
        {"mapping": {}},
        {"mapping": None},
        {"mapping": {"a": None, "b": {"message": []}}},
        {"mapping": {"a": {"parent": "a", "message": {"author": None, "content": 1}}}},
        {"current_node": "nowhere", "mapping": {"a": {"children": 7}}},
    ],
)
def test_an_odd_tree_stops_nothing(store, tmp_path, odd) -> None:
    done = bring(
        store, save(tmp_path / "c.json", [CHAT | {"id": "x", "conversation_id": "x"} | odd, CHAT])
    )
    assert sum(chat.imported for chat in done.chats) == 2


def test_claude_messages_become_turns(store, tmp_path) -> None:
    parts = [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "At ten."}]
    chat = claude(message("1", "human", "When?"), message("2", "assistant", "x", content=parts))
    found = only(bring(store, save(tmp_path / "conversations.json", [chat])))

    assert (found.channel, found.format) == ("trains-99887766", "claude")
    turns = [kept.turn for kept in select_turns(store, TurnFilter(OWNER, "trains-99887766"))]
    assert [(t.role, t.content) for t in turns] == [("user", "When?"), ("assistant", "At ten.")]
    assert turns[0].author == Author("claude", "acc-1")


def test_what_claude_shows_besides_text_is_named_and_pasted_text_is_said(store, tmp_path) -> None:
    gap = "```\nThis block is not supported on your current device yet.\n```"
    pasted = {"file_name": "paste.txt", "extracted_content": "The hull is ash."}
    plans = {"file_name": "plans.pdf", "extracted_content": "Five metres."}
    parts = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "tool_use", "name": "artifacts", "input": {"title": "Sails", "content": "x"}},
        {"type": "tool_result", "content": [{"type": "text", "text": "OK"}]},
    ]
    chat = claude(
        message("1", "human", "", attachments=[pasted, plans], files=[{"file_name": "plans.pdf"}]),
        message("2", "assistant", gap, content=parts),
        message("3", "assistant", f"Let me look.\n{gap}\n\n{gap}" + "\n" * 200_000 + "Done."),
        message("4", "assistant", gap, content=[{"type": "tool_use", "name": "web_search"}]),
        message("5", "human", "See", files=[{"file_uuid": "u"}]),
    )
    done = only(bring(store, save(tmp_path / "c.json", [chat])))
    assert said(store, done.channel) == [
        "The hull is ash.\n[attachment: plans.pdf]",
        "[artifact: Sails]",
        "Let me look.\n\nDone.",
        "[tool: web_search]",
        "See\n[attachment]",
    ]
    assert done.notes[0].startswith("2 attachments: named in the turns")


@pytest.mark.parametrize("leaf", [{"current_leaf_message_uuid": "3"}, {}])
def test_the_branch_that_claude_shows_is_taken(leaf, store, tmp_path) -> None:
    chat = claude(
        message("1", "human", "When?", parent_message_uuid="root"),
        message("2", "assistant", "At nine.", parent_message_uuid="1"),
        message("3", "assistant", "At ten.", parent_message_uuid="1"),
        **leaf,
    )
    found = only(bring(store, save(tmp_path / "conversations.json", [chat])))
    assert (said(store, found.channel), found.aside) == (["When?", "At ten."], 1)


def test_the_person_may_be_named(store, tmp_path) -> None:
    reading = Reading(Cast(("Yuzu",), user=Author("discord", "7")))
    found = only(
        bring(store, save(tmp_path / "c.json", [claude(message("1", "human", "a"))]), reading)
    )
    assert store.recent(found.channel, 1, viewer=OWNER)[0].author == Author("discord", "7")


def test_an_export_that_was_cut_off_gives_what_is_whole(store, tmp_path) -> None:
    path = save(tmp_path / "c.json", [CHAT, CHAT | {"conversation_id": "b"}])
    path.write_bytes(path.read_bytes()[:-50])
    done = bring(store, path)
    assert [chat.imported for chat in done.chats] == [2]
    assert isinstance(done.problem, PartialError)
    assert "is incomplete" in str(done.failed[0].error)


def test_a_loop_in_a_tree_ends() -> None:
    assert shown_branch({"a": {"up": "b"}, "b": {"up": "a"}}, "up", "a") == ["b", "a"]
    assert shown_branch({}, "up", "a") == []


def test_elements_are_found_whatever_their_strings_hold(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(source, "_BLOCK_BYTES", 7)
    values = [{"a": 'quo"te \\'}, {"b": "[{]}" * 9}, {"c": [{"d": "雪" * 20}]}, {}]
    path = save(tmp_path / "c.json", values, ensure_ascii=False)
    with path.open("rb") as stream:
        found = [json.loads(span.read(stream)) for span in object_spans(ForeignFile(path, "c"))]
    assert found == values


def test_gemini_questions_lose_the_word_for_asking_and_no_word_of_the_person(tmp_path) -> None:
    asked = ["Çevir: kedi", "Çevir: köpek", "Çevir: kuş", "Çevir: balık", "Çevir: at"]
    about = {"header": "Gemini Uygulamaları", "time": "2025-03-28T21:25:00Z"}
    answer = {"safeHtmlItem": [{"html": "<p>Evet.</p>"}]}
    records = [about | answer | {"title": question} for question in asked]
    path = save(tmp_path / "a.json", [*records, about | {"title": "Geri bildirim: iyi"}])
    assert gemini_questions(path) == asked[::-1]
    cells = [(f"Soruldu:&nbsp;{question}", "<p>Evet.</p>") for question in asked]
    page = "".join(
        '<div class="outer-cell x"><div class="header-cell x"><p>Gemini Uygulamaları<br></p></div>'
        f'<div class="content-cell x">{title}<br>28 Mar 2025, 21:25:00 CET<br>{reply}</div></div>'
        for title, reply in [*cells, ("Geri bildirim:&nbsp;iyi", "")]
    )
    path = tmp_path / "a.html"
    path.write_text(f"<html><body>{page}</body></html>", encoding="utf-8")
    assert gemini_questions(path) == asked[::-1]


def gemini_questions(path):
    (chat,) = read_chats(ForeignFile(path, str(path)), Reading(Cast(unnamed="familiar")))
    lines = [line for line in chat.messages() if isinstance(line, ForeignMessage)]
    return [line.text for line in lines if line.role == "user"]


def test_librechat_messages_without_parents_come_whole(tmp_path) -> None:
    lines = [
        {"messageId": name, "text": name, "isCreatedByUser": number % 2 == 0}
        for number, name in enumerate("abcd")
    ]
    chat = {"conversationId": "1", "title": "Herons", "messages": lines}
    path = save(tmp_path / "c.json", chat)
    (found,) = read_chats(ForeignFile(path, str(path)), Reading(Cast(unnamed="familiar")))
    said = [line.text for line in found.messages() if isinstance(line, ForeignMessage)]
    assert (said, found.aside) == ([*"abcd"], 0)


def test_conversations_without_ids_stay_apart_when_their_file_grows(store, tmp_path) -> None:
    def messages(*texts):
        roles = ("user", "assistant") * len(texts)
        return {"messages": [{"role": r, "content": t} for r, t in zip(roles, texts, strict=False)]}

    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(messages("One?", "ok")), "utf-8")
    assert only(bring(store, path)).imported == 2
    grown = messages("Two?", "ok"), messages("One?", "ok", "More?"), messages("Hi", "ok")
    path.write_text("\n".join(map(json.dumps, grown)), "utf-8")
    assert [chat.imported for chat in bring(store, path).chats] == [2, 1, 2]
    path.write_text(json.dumps([messages("Hi", "ok"), messages("Two?", "ok")]), "utf-8")
    done = bring(store, path.rename(tmp_path / "data (1).json"))
    assert [(chat.imported, chat.skipped) for chat in done.chats] == [(0, ()), (0, ())]
    there = {one.channel_id: said(store, one.channel_id) for one in store.channels()}
    assert there == {
        "data": ["One?", "ok", "More?"],
        "data-2": ["Two?", "ok"],
        "data-3": ["Hi", "ok"],
    }
