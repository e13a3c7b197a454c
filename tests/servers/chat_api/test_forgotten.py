"""What a server does with a person who was forgotten while it ran."""

from __future__ import annotations

from familiar_cli.store.history.store import HistoryStore
from tests.support.serving import assistant, serving, user
from tests.support.world import data, home, live

WORDS = "My vexlorn is hidden under the plimbuck tree"
REPLY = "A vexlorn, hidden? How daring."


def test_words_that_a_program_sends_again_are_not_kept_again(serve) -> None:
    live("ada")
    serve(REPLY, "Hello Bob.", "Once more, Bob.")
    nela = {"X-Familiar-User": "discord:42", "X-Familiar-Channel": "garden"}
    bob = {"X-Familiar-User": "discord:7", "X-Familiar-Channel": "garden"}
    with serving() as server:
        assert server.post(messages=[user(WORDS)], headers=nela).status_code == 200
        data("people", "forget", "discord:42", "--yes")
        refused = server.post(messages=[user("It is me, Nela")], headers=nela)
        assert refused.status_code == 403
        assert "forgotten" in refused.text
        past = [user(WORDS), assistant(REPLY), user("Hi, Bob here")]
        assert server.post(messages=past, headers=bob).status_code == 200
        again = [user(WORDS), assistant(REPLY), user("A place of my own")]
        elsewhere = {**bob, "X-Familiar-Channel": "elsewhere"}
        assert server.post(messages=again, headers=elsewhere).status_code == 200
    store = HistoryStore(home() / "ada" / "history.db")
    said = [turn.content for turn in store.after(0, 99)]
    store.close()
    assert said[:2] == ["[forgotten]", "[forgotten]"]
    assert "vexlorn" not in "".join(said)
    assert {"Hi, Bob here", "A place of my own"} <= set(said)
