"""Tombstones: what forgetting somebody leaves of the turns, and of everybody else's."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from familiar_cli.base.who.identity import Author
from familiar_cli.store.history.forgetting import ForgetOrder, orders_of
from familiar_cli.store.history.likeness import TOMBSTONE, NameForms
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.history.tombstones import bury_turns, find_forgotten
from tests.support.chats import HEAD, bring, robin, save, yuzu

PEOPLE = [Author("discord", str(n), display_name=f"Person{n}") for n in range(3)]
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)


@settings(deadline=None)
@given(said=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), TEXT), max_size=25))
def test_turns_of_others_stay_byte_for_byte(tmp_path_factory, said) -> None:
    store = HistoryStore(tmp_path_factory.mktemp("h") / "history.db")
    for who, channel, text in said:
        store.append(f"c{channel}", "user", text, author=PEOPLE[who])
    sql = "SELECT * FROM turns WHERE author_user_id IS NOT '0' ORDER BY id"
    before, count = store.rows(sql), len(store.after(0, 99))
    order = ForgetOrder.for_accounts(PEOPLE[:1])
    bury_turns(store, order, find_forgotten(store, order, "", NameForms.of(["Person0"]), ()))
    ids = {row[0] for row in before}
    kept = [row for row in store.rows("SELECT * FROM turns ORDER BY id") if row[0] in ids]
    assert kept == before
    gone = [turn for turn in store.after(0, 99) if turn.id not in ids]
    assert all(turn.content == TOMBSTONE and turn.hidden for turn in gone)
    assert len(store.after(0, 99)) == count
    assert orders_of(store) == (order,)
    store.close()


def test_an_order_names_nobody_and_survives_its_journey() -> None:
    order = ForgetOrder.for_accounts(PEOPLE[:1], ["laptop-7f3a:12"], ["a line", "another"])
    assert ForgetOrder.from_line(order.to_line()) == order
    assert order.covers(PEOPLE[0])
    assert not order.covers(PEOPLE[1])
    assert "discord" not in order.to_line()


def test_triggers_guard_the_turns_afterwards(tmp_path) -> None:
    store = HistoryStore(tmp_path / "history.db")
    store.append("c", "user", "a secret", author=PEOPLE[0])
    sql = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
    before = store.rows(sql)
    order = ForgetOrder.for_accounts(PEOPLE[:1])
    bury_turns(store, order, find_forgotten(store, order, "", NameForms(), ()))
    assert store.rows(sql) == before != []
    assert b"a secret" not in (tmp_path / "history.db").read_bytes()
    store.close()


def test_no_digest_of_a_line_is_left_of_an_imported_chat(tmp_path) -> None:
    store = HistoryStore(tmp_path / "history.db")
    bring(store, save(tmp_path / "chat.jsonl", HEAD, robin("a secret")))
    ((author, beginning, identity),) = store.rows(
        "SELECT author_user_id, beginning, identity FROM turns, chats, turn_extras"
    )
    assert beginning
    order = ForgetOrder.for_accounts([Author("sillytavern", author)])
    bury_turns(store, order, find_forgotten(store, order, "", NameForms(), ()))
    assert store.rows("SELECT beginning FROM chats") == [(None,)]
    assert store.rows("SELECT 1 FROM turn_extras WHERE identity = ?", (identity,)) == []
    later = save(tmp_path / "later.jsonl", HEAD, robin("another secret"), yuzu("Good evening."))
    bring(store, later)
    assert store.rows("SELECT beginning FROM chats") == [(None,), (None,)]
    store.close()
