"""Who may see a turn: it is decided when it is said, by who had spoken there."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from familiar_cli.base.errors import RefusedError
from familiar_cli.base.who.identity import NEUTRAL, Author
from familiar_cli.base.who.visibility import NOBODY, OWNER, channel_scope, person_scope
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.selection import visible_condition
from tests.support.world import home, live, run

if TYPE_CHECKING:
    from pathlib import Path

ANNA, BO = Author("discord", "anna"), Author("discord", "bo")


@pytest.fixture
def familiar(tmp_path: Path) -> Familiar:
    home = tmp_path / "home"
    (home / "luna").mkdir(parents=True)
    (home / "luna" / "character.toml").write_text("")
    return Familiar.load_from_disk(home, "luna")


def test_what_the_only_speaker_said_stays_private_when_a_second_one_comes(
    familiar: Familiar,
) -> None:
    history = familiar.history
    first = history.append("new", "user", "I am pregnant", author=ANNA)
    reply = history.append("new", "assistant", "Congratulations!", reply_to=first.id)
    second = history.append("new", "user", "hello", author=BO)
    late = history.append("new", "assistant", "And a name?", reply_to=first.id)
    third = history.append("new", "user", "hi Bo", author=ANNA)

    bo = familiar.privacy.viewer_in("new", BO)
    turns = (first, reply, second, late, third)
    seen = [bo.sees_turn(t) for t in turns]
    assert seen == [False, False, True, False, True]
    assert all(OWNER.sees_turn(t) for t in turns)


def test_a_persons_one_to_one_conversations_share_what_they_said(familiar: Familiar) -> None:
    said = familiar.history.append("chat-1", "user", "My PIN is 4711", author=ANNA)

    viewers = {who: familiar.privacy.viewer_in("chat-2", who) for who in (ANNA, BO, NEUTRAL)}
    assert [v.sees_turn(said) for v in viewers.values()] == [
        True,
        False,
        False,
    ]
    with familiar.history.use(create=False) as connection:
        for who, viewer in viewers.items():
            sql, values = visible_condition(viewer)
            found = connection.execute(f"SELECT count(*) FROM turns WHERE {sql}", values)
            assert found.fetchone()[0] == (who is ANNA)


def test_the_owners_accounts_are_one_person(familiar: Familiar) -> None:
    familiar.paths.me.write_text('also = ["discord:anna"]\n')
    familiar.channels.set_values("dm", {"kind": "dm"})
    said = familiar.history.append("dm", "user", "a secret", author=ANNA)

    assert familiar.privacy.viewer_in("cli", NEUTRAL).sees_turn(said)
    assert not familiar.privacy.viewer_in("dm-2", BO).sees_turn(said)


def test_a_declared_kind_wins(familiar: Familiar) -> None:
    said = familiar.history.append("town", "user", "hello all", author=ANNA)
    assert not familiar.privacy.program().sees_turn(said)
    familiar.channels.set_values("town", {"kind": "text"})
    assert familiar.privacy.program().sees_turn(said)


@pytest.mark.parametrize("settings", ["", '[channels]\nprivate = ["new*"]\n'])
def test_nobody_publishes_what_was_said_in_private_by_calling_it_public(
    familiar: Familiar, settings: str
) -> None:
    (familiar.paths.root / "character.toml").write_text(settings)
    familiar = Familiar.load_from_disk(familiar.paths.root.parent, "luna")
    said = familiar.history.append("new", "user", "I am pregnant", author=ANNA)
    for who in (ANNA, BO):
        with suppress(RefusedError):
            familiar.privacy.enter("new", who, "text")
        assert not familiar.privacy.viewer_in("new", BO, "text").sees_turn(said)
        assert not familiar.privacy.program().sees_turn(said)


def test_only_who_is_in_a_conversation_that_has_begun_makes_it_private(familiar: Familiar) -> None:
    for who in (ANNA, BO):
        said = familiar.history.append("town", "user", "hello all", author=who)
    for who, kind in ((Author("discord", "eve"), "private"), (ANNA, "dm"), (None, "private")):
        familiar.privacy.enter("town", who, kind)
        assert familiar.privacy.program().sees_turn(said)
    familiar.privacy.enter("town", ANNA, "private")
    assert not familiar.privacy.program().sees_turn(said)


def test_who_states_that_several_are_among_themselves_may_bring_another(familiar: Familiar) -> None:
    privacy = familiar.privacy
    for channel, kind in (("board", "private"), ("dm-anna", "dm")):
        privacy.enter(channel, ANNA, kind)
        familiar.history.append(channel, "user", "The budget is 900", author=ANNA)
    for channel, kind in (("board", ""), ("board", "group_dm"), ("dm-anna", "dm")):
        assert not privacy.viewer_in(channel, BO, kind).scopes
        with pytest.raises(RefusedError):
            privacy.enter(channel, BO, kind)
    privacy.enter("board", BO, "private")
    said = familiar.history.last_turn("board")
    assert privacy.viewer_in("board", BO, "private").sees_turn(said)
    assert not privacy.viewer_in("town", BO).sees_turn(said)


def test_a_branch_of_a_one_to_one_conversation_is_one(familiar: Familiar) -> None:
    history = familiar.history
    greeting = history.begin("new", "Hello.")
    assert greeting
    history.append("new", "user", "I am pregnant", author=ANNA)
    history.branch("other", greeting.id)
    again = history.append("other", "user", "I am expecting", author=ANNA)
    assert again.one_to_one == ANNA
    assert not familiar.privacy.viewer_in("other", BO).sees_turn(again)


def test_a_damaged_scope_is_shown_to_nobody_but_the_owner() -> None:
    assert OWNER.sees([person_scope("discord-anna"), channel_scope("x")])
    assert not NOBODY.sees([channel_scope("x")])
    assert NOBODY.sees([])


def test_a_pattern_makes_every_channel_of_a_bot_private_to_its_person(familiar: Familiar) -> None:
    familiar.paths.config.write_text('[channels]\nprivate = ["dm-*"]\n')
    familiar = Familiar.load_from_disk(familiar.paths.root.parent, "luna")
    said = [familiar.history.append(at, "user", "a secret", author=ANNA) for at in ("dm-1", "Dm-1")]
    familiar.history.append("Dm-1", "user", "mine", author=BO)
    open_ = familiar.history.append("Dm-1", "user", "for all", author=ANNA)

    assert familiar.privacy.rules().private == {"dm-1": person_scope(ANNA.slug)}
    assert familiar.privacy.viewer_in("dm-2", ANNA).sees_turn(said[0])
    assert not familiar.privacy.viewer_in("dm-2", BO).sees_turn(said[0])
    assert familiar.privacy.program().sees_turn(open_)  # a pattern tells capitals apart
    familiar.channels.set_values("dm-1", {"kind": "text"})
    assert familiar.privacy.program().sees_turn(said[0])


def test_rules_that_are_kept_follow_who_speaks_and_what_files_say(familiar: Familiar) -> None:
    privacy = familiar.privacy
    familiar.history.append("new", "user", "a secret", author=ANNA)
    first = privacy.rules()
    assert [first.scope_of_channel(one) for one in ("new", "old")] == [person_scope(ANNA.slug), ""]
    assert (first.one_to_one, privacy.rules()) == ({"new": person_scope(ANNA.slug)}, first)
    assert privacy.rules() is first
    familiar.history.append("new", "user", "hello", author=BO)
    assert privacy.rules().one_to_one == {}
    familiar.channels.set_values("new", {"kind": "private"})
    assert set(privacy.rules().private) == {"new"}


def test_another_account_of_the_owner_is_named_at_the_terminal() -> None:
    live("ada")
    ada = Familiar.load_from_disk(home(), "ada")
    said = ada.history.append("a-new-chat", "user", "a secret", author=ANNA)
    assert not ada.privacy.viewer_in("cli", NEUTRAL).sees_turn(said)
    assert run("me", "--also", "discord:anna").exit_code == 0
    ada = Familiar.load_from_disk(home(), "ada")
    assert ada.privacy.viewer_in("cli", NEUTRAL).sees_turn(said)
    assert run("me", "--also", "no-account").exit_code == 2


def test_owners_of_a_home_see_everything_and_share_what_is_private_to_them() -> None:
    live("ada")
    run("me", "--as", "scott", "--also", "discord:bo")
    ada = Familiar.load_from_disk(home(), "ada")
    ada.channels.set_values("dm-1", {"kind": "dm"})
    said = ada.history.append("dm-1", "user", "a secret", author=Author("cli", "scott"))
    others = ada.history.append("new", "user", "another", author=ANNA)
    assert ada.privacy.rules().scope_of_turn(said) == person_scope(NEUTRAL.slug)
    for owner in (NEUTRAL, Author("cli", "scott"), BO):
        assert ada.privacy.viewer_in("a-dm", owner, "dm").sees_turn(said)
        assert ada.privacy.is_member("dm-1", owner)
        assert not ada.privacy.viewer_in("a-dm", owner, "dm").sees_turn(others)
    assert not ada.privacy.viewer_in("b-dm", ANNA, "dm").sees_turn(said)
    assert not ada.privacy.program().sees_turn(said)
    assert not ada.privacy.is_member("dm-1", ANNA)


@pytest.mark.parametrize(
    ("people", "is_public"),
    [(("anna",), False), (("anna", "bo"), False), (("anna", "bo", "cy"), True)],
)
def test_an_import_is_judged_as_a_whole_file(people, is_public, tmp_path) -> None:
    live("ada")
    lines = [{"role": "user", "content": f"{who} says", "name": who} for who in people]
    lines = [line | {"author": f"discord:{line['name']}"} for line in lines]
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    result = run("import-chat", str(path), "--channel", "old")
    assert result.exit_code == 0, result.output
    ada = Familiar.load_from_disk(home(), "ada")
    turns = ada.history.recent("old", 9, viewer=OWNER)
    assert {turn.author.platform for turn in turns} == {"discord"}
    assert [ada.privacy.program().sees_turn(turn) for turn in turns] == [is_public] * len(people)
