"""What a pass leaves out goes on waiting, and what it read never waits again."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.store.history import WRITER, HistoryStore
from familiar_cli.store.history.rows import IMPORTED
from familiar_cli.sync import turns_outgoing as outgoing
from familiar_cli.sync.turns_outgoing import ALL, SAID_HERE, UnreadFilter
from tests.support.chats import bring, robin, save, talk

ONLY_B = UnreadFilter(frozenset({"b"}))
WHICH = (ALL, SAID_HERE, ONLY_B, UnreadFilter(frozenset({"a", "b"}), said_here=True))


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as made:
        yield made


def said(store, *channels: str, source: str = "cli") -> list[int]:
    return [store.append(name, "user", "Hi.", source=source).id for name in channels]


def ids(store, which=ALL) -> list[int]:
    return [turn.id for turn in outgoing.unread_turns(store, which)]


def test_turns_of_other_channels_go_on_waiting(store) -> None:
    said(store, "a", "b", "a", "b", "a")

    outgoing.mark_read(store, ids(store, ONLY_B))

    assert ids(store) == [1, 3, 5]
    assert (store.unsummarised_count(), outgoing.count_unread_turns(store, ONLY_B)) == (3, 0)
    assert len(store.unsummarised_times()) == 3


def test_imported_turns_go_on_waiting(store, tmp_path) -> None:
    bring(store, save(tmp_path / "old.jsonl", *talk(3)))
    said(store, "cli", "cli")

    assert outgoing.count_unread_turns(store, SAID_HERE) == 2
    outgoing.mark_read(store, ids(store, SAID_HERE))

    assert (outgoing.count_unread_turns(store, SAID_HERE), store.unsummarised_count()) == (0, 3)
    assert [turn.source for turn in outgoing.unread_turns(store)] == ["import-chat"] * 3


def test_a_channel_that_goes_on_after_an_import_is_told_apart(store, tmp_path) -> None:
    path = save(tmp_path / "robin.jsonl", robin("Hello."), robin("There."))
    bring(store, path)
    channel = store.channels()[0].channel_id
    said(store, channel)
    bring(store, save(tmp_path / "b.jsonl", robin("B.", "2031-01-01T00:00:00Z")))

    assert outgoing.count_unread_turns(store, SAID_HERE) == 1
    outgoing.mark_read(store, ids(store, SAID_HERE))

    assert ids(store) == [1, 2, 4]


def test_a_pass_in_steps_may_end_anywhere(store) -> None:
    said(store, "a", "b", "b", "a", "b")
    outgoing.mark_read(store, ids(store, ONLY_B)[:2])
    assert (ids(store), store.watermark(WRITER)) == ([1, 4, 5], 3)

    outgoing.mark_read(store, [1, 4])
    assert ids(store) == [5]


def test_looking_writes_nothing(store) -> None:
    assert (outgoing.count_unread_turns(store, SAID_HERE), ids(store)) == (0, [])
    assert not store.path.exists()


def test_what_was_done_when_killed_is_either_done_or_waits(store, monkeypatch) -> None:
    said(store, "a", "b")

    def dies(*_) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(HistoryStore, "note_read", dies)
        with pytest.raises(KeyboardInterrupt):
            outgoing.mark_read(store, [2])

    assert ids(store) == [1, 2]


@given(st.data())
def test_a_turn_is_read_once_and_none_is_lost(tmp_path_factory, data) -> None:
    with closing(HistoryStore(tmp_path_factory.mktemp("w") / "history.db")) as store:
        kind: dict[int, tuple[str, str]] = {}
        pending: set[int] = set()
        for _ in range(data.draw(st.integers(1, 6))):
            for _ in range(data.draw(st.integers(0, 5))):
                channel = data.draw(st.sampled_from("abc"))
                source = data.draw(st.sampled_from(["cli", IMPORTED]))
                (new,) = said(store, channel, source=source)
                kind[new] = (channel, source)
                pending.add(new)
            which = data.draw(st.sampled_from(WHICH))
            meant = {
                n for n in pending if which.takes_of(kind[n][0], imported=kind[n][1] == IMPORTED)
            }
            found = ids(store, which)
            assert (set(found), len(found)) == (meant, len(meant))
            assert outgoing.count_unread_turns(store, which) == len(meant)
            done = found[: data.draw(st.integers(0, len(found)))]
            outgoing.mark_read(store, done)
            pending -= set(done)
            assert set(ids(store)) == pending
            assert store.unsummarised_count() == len(store.unsummarised_times()) == len(pending)
