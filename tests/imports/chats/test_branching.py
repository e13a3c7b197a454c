"""Chats that share a beginning: what both say is there once."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import HistoryStore, matching
from familiar_cli.store.history import marks as standing
from familiar_cli.store.history.selection import TurnFilter, newest_turns
from familiar_cli.sync.turns_outgoing import count_unread_turns
from tests.support.chats import HEAD, bring, exported, only, robin, said, save, talk, yuzu


def left(name):
    """Return the head of a branch or a checkpoint."""
    return HEAD | {"chat_metadata": {"main_chat": name}}


def bring_all(store, tmp_path, **files):
    for stem, lines in files.items():
        save(tmp_path / f"{stem}.jsonl", *lines)
    return {chat.name: chat for chat in bring(store, tmp_path).chats}


def shown(store, channel):
    """Return the words in a channel as they are shown."""
    return [one.turn.content for one in newest_turns(store, TurnFilter(OWNER, channel), 50)]


def turns(store):
    return {one.channel_id: one.turns for one in store.channels()}


def test_a_branch_holds_only_what_it_says_itself(store, tmp_path) -> None:
    main, other = talk(8), [*talk(4), *talk(2, first=30)]
    done = bring_all(store, tmp_path, main=[HEAD, *main], other=[left("main"), *other])
    assert turns(store) == {"main": 8, "other": 2}
    assert (done["other"].branch_of, done["other"].already_there) == ("main", 4)
    assert said(store, "other") == [line["mes"] for line in other]
    assert count_unread_turns(store) == 10


def test_a_branch_is_one_again_in_another_home(store, tmp_path) -> None:
    main, other = talk(8), [*talk(4), *talk(2, first=30)]
    bring_all(store, tmp_path, main=[HEAD, *main], a_branch=[left("main"), *other])
    path = save(tmp_path / "turns.jsonl", *exported(store, None, "jsonl"))
    with closing(HistoryStore(tmp_path / "elsewhere.db")) as elsewhere:
        for again in range(2):  # the second adds nothing
            done = bring(elsewhere, path)
            assert (len(done.failed), turns(elsewhere)) == (0, {"main": 8, "a-branch": 2}), again
        assert said(elsewhere, "a-branch") == said(store, "a-branch")
        (alone, *_) = exported(elsewhere, "a-branch", "jsonl")
        assert alone.pop("heads").keys() == {"a-branch"}
        assert alone == {"familiar_chat": 1, "channel": "a-branch"}


def test_a_shared_beginning_is_enough(store, tmp_path) -> None:
    bring_all(store, tmp_path, main=[HEAD, *talk(8)], other=[HEAD, *talk(4), *talk(2, first=30)])
    assert sorted(turns(store).values()) == [2, 8]


def test_the_order_of_the_names_does_not_matter(store, tmp_path) -> None:
    branch = [left("main"), *talk(4), *talk(2, first=30)]
    bring_all(store, tmp_path, a_branch=branch, main=[HEAD, *talk(8)])
    assert turns(store) == {"main": 8, "a-branch": 2}


def test_a_branch_of_a_branch(store, tmp_path) -> None:
    first = [*talk(4), *talk(4, first=30)]
    second = [*first[:6], *talk(3, first=60)]
    bring_all(
        store,
        tmp_path,
        main=[HEAD, *talk(8)],
        first=[left("main"), *first],
        second=[left("first"), *second],
    )
    assert turns(store) == {"main": 8, "first": 4, "second": 3}
    assert said(store, "second") == [line["mes"] for line in second]


def test_the_same_greeting_makes_no_branch(store, tmp_path) -> None:
    greeting = yuzu("Welcome.", "")
    bring_all(
        store,
        tmp_path,
        one=[HEAD, greeting, robin("a"), yuzu("b")],
        two=[HEAD, greeting, robin("c"), yuzu("d")],
    )
    assert turns(store) == {"one": 3, "two": 3}


def test_a_branch_at_the_greeting_is_one_when_it_says_so(store, tmp_path) -> None:
    greeting = yuzu("Welcome.")
    bring_all(
        store,
        tmp_path,
        one=[HEAD, greeting, robin("a"), yuzu("b")],
        two=[left("one"), greeting, robin("c"), yuzu("d")],
    )
    assert turns(store) == {"one": 3, "two": 2}


def test_a_checkpoint_is_a_branch_that_says_nothing_yet(store, tmp_path) -> None:
    done = bring_all(store, tmp_path, main=[HEAD, *talk(8)], mark=[left("main"), *talk(5)])
    assert (done["mark"].branch_of, done["mark"].is_new) == ("main", True)
    assert turns(store) == {"main": 8}
    assert said(store, "mark") == [f"line {n}" for n in range(5)]
    again = bring_all(store, tmp_path, mark=[left("main"), *talk(7)])["mark"]
    assert (again.imported, again.inserted) == (2, 0)
    assert said(store, "mark") == [f"line {n}" for n in range(7)]


def test_a_copy_under_another_name_is_no_chat(store, tmp_path) -> None:
    bring_all(store, tmp_path, main=[HEAD, *talk(8)])
    copied = bring_all(store, tmp_path, copy=[HEAD, *talk(8)], start=[HEAD, *talk(3)])
    assert [(c.channel, c.is_copy, c.imported) for c in copied.values() if c.name != "main"] == [
        ("main", True, 0)
    ] * 2
    assert [branch.channel_id for branch in store.branches()] == []


def test_a_chat_that_was_renamed_and_grew_goes_on_where_it_was(store, tmp_path) -> None:
    bring(store, save(tmp_path / "one.jsonl", HEAD, *talk(4)))
    chat = only(bring(store, save(tmp_path / "two.jsonl", HEAD, *talk(6))))
    assert (chat.channel, chat.imported, turns(store)) == ("one", 2, {"one": 6})
    assert only(bring(store, tmp_path / "two.jsonl")).imported == 0
    assert only(bring(store, tmp_path / "one.jsonl")).imported == 0


def test_a_chat_that_goes_on_after_all_of_another_that_is_still_there_branches(
    store, tmp_path
) -> None:
    bring_all(store, tmp_path, one=[HEAD, *talk(4)], two=[HEAD, *talk(6)])
    assert turns(store) == {"one": 4, "two": 2}


def test_both_may_grow(store, tmp_path) -> None:
    main, other = talk(8), [*talk(4), *talk(2, first=30)]
    bring_all(store, tmp_path, main=[HEAD, *main], other=[left("main"), *other])
    main, other = talk(10), [*other, *talk(2, first=40)]
    done = bring_all(store, tmp_path, main=[HEAD, *main], other=[left("main"), *other])
    assert [done[name].imported for name in ("main", "other")] == [2, 2]
    assert said(store, "main") == [line["mes"] for line in main]
    assert said(store, "other") == [line["mes"] for line in other]


def test_a_line_that_was_replaced_since_may_be_branched_off_at(store, tmp_path) -> None:
    bring(store, save(tmp_path / "main.jsonl", HEAD, *talk(6)))
    standing.withdraw_turns(store, [4])
    bring(store, save(tmp_path / "other.jsonl", HEAD, *talk(4), *talk(2, first=30)))
    assert said(store, "other") == ["line 0", "line 1", "line 2", "line 30", "line 31"]


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("own", [0, 2])
@pytest.mark.parametrize("at", [0, 2])
def test_a_branch_keeps_its_lines_when_those_of_its_parent_change(
    store, tmp_path, at, own, is_known
) -> None:
    main, other = talk(8), [*talk(4), *talk(own, first=30)]
    bring_all(store, tmp_path, main=[HEAD, *main])
    if is_known:
        bring_all(store, tmp_path, other=[left("main"), *other])
    changed = [*main[:at], main[at] | {"mes": "reworded"}, *main[at + 1 :]]
    for _ in range(2):
        done = bring_all(store, tmp_path, main=[HEAD, *changed], other=[left("main"), *other])
        assert said(store, "main") == [line["mes"] for line in changed]
        if own or is_known:
            assert shown(store, "other") == [line["mes"] for line in other]
    assert [done[name].imported for name in done] == [0, 0]


def test_a_branch_may_change_what_it_shares_and_a_person_may_in_both(store, tmp_path) -> None:
    main, other = talk(8), [*talk(4), *talk(2, first=30)]
    bring_all(store, tmp_path, main=[HEAD, *main], other=[left("main"), *other])
    standing.supersede_turn(store, store.turn(2), replace(store.turn(2), content="by hand"))
    done = bring_all(store, tmp_path, main=[HEAD, *main], other=[left("main"), *other])
    assert [said(store, name)[1] for name in done] == ["by hand"] * 2
    other[3] |= {"mes": "elsewhere"}
    done = bring_all(store, tmp_path, main=[HEAD, *main], other=[left("main"), *other])
    assert [shown(store, name)[3] for name in ("main", "other")] == ["line 3", "elsewhere"]
    assert "differs from the chat" in done["other"].notes[0]


def test_a_line_that_is_gone_from_the_parent_alone_is_told(store, tmp_path) -> None:
    main, other = talk(8), [*talk(4), *talk(2, first=30)]
    bring_all(store, tmp_path, main=[HEAD, *main], other=[left("main"), *other])
    del main[1]
    done = bring_all(store, tmp_path, main=[HEAD, *main], other=[left("main"), *other])
    assert "line 1" not in shown(store, "other")
    assert "withdrawn, and left so: turn 2" in done["other"].notes[0]


def test_a_long_part_that_differs_stays_shared_and_that_is_told(store, tmp_path) -> None:
    main, other = talk(30), [*talk(25), *talk(1, first=40)]
    bring_all(store, tmp_path, main=[HEAD, *main], other=[left("main"), *other])
    main[1] |= {"mes": "reworded"}
    done = bring_all(store, tmp_path, main=[HEAD, *main], other=[left("main"), *other])
    assert (done["other"].imported, shown(store, "other")[1]) == (0, "reworded")
    assert done["other"].notes[0].endswith("the shared turns stay, in both")


def test_another_channel_that_is_wanted_is_a_branch_too(store, tmp_path) -> None:
    bring(store, save(tmp_path / "one.jsonl", HEAD, *talk(4)))
    store.append("one", "user", "said here")
    chat = only(bring(store, save(tmp_path / "one.jsonl", HEAD, *talk(7)), channel="more"))
    assert (chat.channel, chat.imported, chat.branch_of) == ("more", 3, "one")


def test_the_names_of_branches_are_no_change_of_a_line(store, tmp_path) -> None:
    lines = talk(4)
    lines[3] |= {"extra": {"branches": ["other"], "bookmark_link": "mark"}}
    bring(store, save(tmp_path / "main.jsonl", HEAD, *talk(4)))
    assert only(bring(store, save(tmp_path / "main.jsonl", HEAD, *lines))).skipped == ()


def test_an_export_of_a_branch_is_the_whole_chat(store, tmp_path) -> None:
    other = [*talk(4), *talk(2, first=30)]
    bring_all(store, tmp_path, main=[HEAD, *talk(8)], other=[left("main"), *other])
    assert exported(store, "other") == [left("main"), *other]


def test_a_loop_of_branches_is_no_trouble(store, tmp_path) -> None:
    one, two = [*talk(4), *talk(1, first=20)], [*talk(4), *talk(1, first=30)]
    bring_all(store, tmp_path, one=[left("two"), *one], two=[left("one"), *two])
    assert sorted(turns(store).values()) == [1, 5]


def test_a_dry_run_tells_what_the_run_then_does(store, tmp_path) -> None:
    save(tmp_path / "main.jsonl", HEAD, *talk(8))
    save(tmp_path / "other.jsonl", left("main"), *talk(4), *talk(2, first=30))
    save(tmp_path / "copy.jsonl", HEAD, *talk(6))
    told = bring(store, tmp_path, dry_run=True)
    assert store.channels() == []
    assert told == bring(store, tmp_path)


# Each conversation is a tree of lines; a file holds the lines from its root to one of them.
_trees = st.lists(st.integers(0, 30), min_size=2, max_size=14)
_files = st.lists(st.tuples(st.integers(0, 13), st.booleans()), min_size=1, max_size=7)


def _line(tree, node):
    who = yuzu if node % 2 else robin
    return who(f"{tree}.{node}", f"2025-11-{14 + tree}T10:{node:02}:00Z")


def _path(parents, node):
    """Return the nodes from the root of a tree to `node`; a parent has a lower number."""
    path = [node]
    while path[-1]:
        path.append(parents[path[-1] - 1] % path[-1])
    return path[::-1]


@given(st.lists(st.tuples(_trees, _files), min_size=1, max_size=2), st.data())
def test_each_line_of_any_conversations_is_there_once(trees, data) -> None:
    files = {}
    for tree, (parents, wanted) in enumerate(trees):
        for number, (node, _) in enumerate(wanted):
            path = _path(parents, node % (len(parents) + 1))
            files[f"t{tree}f{number}"] = [(tree, node) for node in path]
    runs = data.draw(st.lists(st.sampled_from(sorted(files)), max_size=4))
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch, "chats")
        place.mkdir()
        for name, lines in files.items():
            save(place / f"{name}.jsonl", HEAD, *(_line(*line) for line in lines))
        with closing(HistoryStore(Path(scratch, "history.db"))) as store:
            for name in runs:
                told = bring(store, place / f"{name}.jsonl", dry_run=True)
                assert told == bring(store, place / f"{name}.jsonl")
            told = bring(store, place, dry_run=True)
            done = bring(store, place)
            assert told == done
            assert done.problem is None
            assert store.count() == len({line for lines in files.values() for line in lines})
            for chat in done.chats:
                wanted = [f"{tree}.{node}" for tree, node in files[chat.name]]
                assert said(store, chat.channel)[: len(wanted)] == wanted
            before = _everything(store)
            assert sum(chat.imported for chat in bring(store, place).chats) == 0
            assert _everything(store) == before


def _everything(store):
    with store.use(create=False) as connection:
        return list(connection.iterdump())


def test_unrelated_chats_are_not_compared_with_each_other(store, tmp_path, monkeypatch) -> None:
    compared = []
    monkeypatch.setattr(matching, "_may_begin", lambda *of: compared.append(of))
    for number in range(12):
        save(tmp_path / f"{number}.jsonl", HEAD, robin(f"Line {number}"))
        bring(store, tmp_path)  # those of earlier imports, too
    assert (store.count(), compared) == (12, [])


def test_chats_whose_beginning_was_not_recorded_are_compared(store, tmp_path) -> None:
    bring(store, save(tmp_path / "one.jsonl", HEAD, *talk(4)))
    with store.change() as connection:
        connection.execute("UPDATE chats SET beginning = NULL")
    assert only(bring(store, save(tmp_path / "copy.jsonl", HEAD, *talk(4)))).is_copy


def test_a_live_conversation_is_found_by_lines_that_begin_alike(store, tmp_path) -> None:
    long = "The same beginning of a line, "
    lines = [robin(f"{long}{n} \0 \ud800", f"2025-11-14T10:0{n}:00Z") for n in range(4)]
    for line in lines:
        store.append("live", "user", line["mes"], source="serve")
    chat = only(bring(store, save(tmp_path / "chat.jsonl", HEAD, *lines)))
    assert (chat.channel, chat.imported) == ("live", 0)
    other = [robin(f"{long}{n}", f"2025-11-15T10:0{n}:00Z") for n in "abcd"]
    assert only(bring(store, save(tmp_path / "other.jsonl", HEAD, *other))).imported == 4
