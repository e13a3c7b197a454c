"""A SillyTavern chat becomes turns, and nothing of it is lost."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from familiar_cli.base.errors import RefusedError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.imports.cast import Cast
from familiar_cli.imports.contract import Reading
from familiar_cli.store.history import HistoryStore
from tests.support.chats import HEAD, bring, exported, only, robin, said, save, talk, yuzu


def turns(store, channel="c"):
    from familiar_cli.store.history.selection import TurnFilter, select_turns

    return [kept.turn for kept in select_turns(store, TurnFilter(OWNER, channel))]


def test_messages_become_turns_with_their_times_and_authors(store, tmp_path) -> None:
    chat = only(bring(store, save(tmp_path / "c.jsonl", HEAD, yuzu("Hello"), robin("Hi"))))

    assert (chat.channel, chat.imported, chat.skipped) == ("c", 2, ())
    first, second = turns(store)
    assert (first.role, first.author, first.content, first.source) == (
        "assistant",
        None,
        "Hello",
        "import-chat",
    )
    assert second.author == Author("sillytavern", "Robin", display_name="Robin")
    assert second.at.isoformat() == "2025-11-14T22:00:00+00:00"


def test_imported_turns_await_the_memory_writer(store, tmp_path) -> None:
    bring(store, save(tmp_path / "c.jsonl", HEAD, *talk(3)))
    assert store.unsummarised_count() == 3


def test_the_person_may_be_somebody_who_is_known(store, tmp_path) -> None:
    reading = Reading(Cast(("Yuzu",), user=Author("discord", "7")))
    bring(store, save(tmp_path / "c.jsonl", HEAD, robin("Hi")), reading)
    assert turns(store)[0].author == Author("discord", "7", display_name="Robin")


def test_the_chosen_swipe_is_the_turn_and_the_others_are_kept(store, tmp_path) -> None:
    line = yuzu("B", swipes=["A", "B", "C"], swipe_id=1, extra={"reasoning": "because"})
    bring(store, save(tmp_path / "c.jsonl", HEAD, line))

    assert said(store, "c") == ["B"]
    assert exported(store, "c") == [HEAD, line]


def test_hidden_messages_are_kept_and_no_model_is_shown_them(store, tmp_path) -> None:
    lines = [
        yuzu("a"),
        robin("b", is_system=True),
        yuzu("c", is_system=True),
        {"name": "SillyTavern System", "is_system": True, "mes": "d", "is_user": False},
    ]
    chat = only(bring(store, save(tmp_path / "c.jsonl", HEAD, *lines)))

    assert chat.hidden == 3
    assert [(t.role, t.hidden) for t in turns(store)] == [
        ("assistant", False),
        ("user", True),
        ("assistant", True),
        ("system", True),
    ]
    assert [turn.content for turn in store.recent("c", 10, viewer=OWNER)] == ["a"]


def test_a_narrator_speaks_as_nobody(store, tmp_path) -> None:
    line = {"name": "System", "is_user": False, "mes": "It snows.", "extra": {"type": "narrator"}}
    bring(store, save(tmp_path / "c.jsonl", HEAD, yuzu("a"), line))
    assert [(t.role, t.author, t.hidden) for t in turns(store)][1] == ("system", None, False)


def test_in_a_group_the_others_are_people_of_their_own(store, tmp_path) -> None:
    heron = {"name": "Inspector", "is_user": False, "mes": "Quark."}
    bring(store, save(tmp_path / "c.jsonl", HEAD, heron, yuzu("Hush.")))
    assert [(t.role, t.author) for t in turns(store)] == [
        ("user", Author("sillytavern_character", "Inspector", display_name="Inspector")),
        ("assistant", None),
    ]


def test_a_chat_with_somebody_else_is_refused(store, tmp_path) -> None:
    path = save(tmp_path / "c.jsonl", HEAD, {"name": "Ilmari", "is_user": False, "mes": "Hm."})
    (failed,) = bring(store, path).failed
    assert isinstance(failed.error, RefusedError)
    assert "'Ilmari'" in str(failed.error)
    assert "--character Ilmari" in failed.error.hint
    assert not store.path.exists()


def test_character_says_who_is_the_familiar(store, tmp_path) -> None:
    path = save(tmp_path / "c.jsonl", HEAD, {"name": "Yuzu v2", "is_user": False, "mes": "Hm."})
    reading = Reading(Cast(("Yuzu",), character=("yuzu V2",)))
    only(bring(store, path, reading))
    assert turns(store)[0].role == "assistant"


def test_a_character_who_is_not_in_the_chat_is_refused(store, tmp_path) -> None:
    reading = Reading(Cast(("Yuzu",), character=("Ilmari",)))
    (failed,) = bring(store, save(tmp_path / "c.jsonl", HEAD, yuzu("a")), reading).failed
    assert "No speaker" in str(failed.error)


def test_a_name_in_other_letters_is_the_familiars(store, tmp_path) -> None:
    only(bring(store, save(tmp_path / "c.jsonl", HEAD, yuzu("a") | {"name": "ＹＵＺＵ"})))
    assert turns(store)[0].role == "assistant"


def test_a_chat_without_a_head_is_read_and_comes_out_without_one(store, tmp_path) -> None:
    lines = talk(3)
    only(bring(store, save(tmp_path / "c.jsonl", *lines)))
    assert exported(store, "c") == lines


def test_the_newest_head_is_kept(store, tmp_path) -> None:
    bring(store, save(tmp_path / "c.jsonl", HEAD, *talk(2)))
    bring(store, save(tmp_path / "c.jsonl", HEAD | {"chat_metadata": {"note": 1}}, *talk(2)))
    assert exported(store, "c")[0]["chat_metadata"] == {"note": 1}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding(store, tmp_path, encoding) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes("\n".join(json.dumps(line) for line in [HEAD, yuzu("雪")]).encode(encoding))
    only(bring(store, path))
    assert said(store, "c") == ["雪"]


def test_windows_line_ends_are_no_part_of_a_message(store, tmp_path) -> None:
    path = save(tmp_path / "c.jsonl", HEAD, yuzu("a\r\nb"))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    only(bring(store, path))
    assert said(store, "c") == ["a\r\nb"]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
MESSAGES = st.fixed_dictionaries(
    {
        "mes": st.text(st.characters(), max_size=20),
        "name": st.sampled_from(["Yuzu", "Robin", "Heron"]),
    },
    optional={
        "is_user": st.booleans() | JSON,
        "is_system": st.booleans() | JSON,
        "send_date": JSON
        | st.sampled_from(["June 19, 2023 2:20pm", "2023-6-19 @14h 20m 05s 123ms"]),
        "swipes": st.lists(st.text(st.characters(), max_size=5), max_size=3) | JSON,
        "swipe_id": JSON,
        "extra": JSON,
        "force_avatar": JSON,
    },
)
HEADS = st.fixed_dictionaries({"chat_metadata": JSON}, optional={"user_name": JSON, "x": JSON})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(head=HEADS, messages=st.lists(MESSAGES, min_size=1, max_size=6))
def test_what_is_imported_is_exported_equal_in_meaning(tmp_path, head, messages) -> None:
    place = tmp_path / "history.db"
    place.unlink(missing_ok=True)
    store = HistoryStore(place)
    try:
        reading = Reading(Cast(("Yuzu", "Heron", "Robin")))
        chat = only(bring(store, save(tmp_path / "c.jsonl", head, *messages), reading))
        assert chat.imported == len(messages)
        assert exported(store, "c") == [head, *messages]
        again = only(bring(store, tmp_path / "c.jsonl", reading))
        assert (again.imported, again.already_there, again.skipped) == (0, len(messages), ())
    finally:
        store.close()
