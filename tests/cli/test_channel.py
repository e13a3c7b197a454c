"""`familiar channel`: which there are, what holds there, and how that is changed."""

from __future__ import annotations

import pytest

from familiar_cli.base.languages import ENGLISH
from familiar_cli.store.history.store import HistoryStore
from tests.support.server import Fail
from tests.support.world import data, live, run
from tests.support.writing import ANNAS, answer, memory, point_at, talked


@pytest.fixture
def root():
    root = live("ada", notes="x")
    store = HistoryStore(root / "history.db")
    store.append("cli", "user", "hi")
    store.append("4711", "user", "hello")
    store.append("4711", "assistant", "ho")
    store.close()
    return root


def test_channels_come_from_turns_settings_and_subscriptions(root) -> None:
    run("channel", "set", "quiet", "--name", "attic")
    run("channel", "set", "heard", "--subscribe")

    rows = data("channel", "ls")["channels"]

    assert [(row["id"], row["turns"]) for row in rows] == [
        ("4711", 2),
        ("cli", 1),
        ("heard", 0),
        ("quiet", 0),
    ]
    assert rows[2]["subscribed"] == ["text"]
    assert rows[3]["label"] == "#attic"
    assert rows[0]["last_at"].endswith("Z")


def test_who_can_hear_a_channel_is_said_when_its_kind_changes() -> None:
    live("ada")
    run("hear", "Hi", "--as", "discord:1", "--name", "Bo", "--channel", "room")
    told = run("channel", "set", "room", "--kind", "text").stderr
    assert told == "Everything said in 'room' can be heard by everybody.\n"
    told = run("channel", "set", "room", "--unset", "kind").stderr
    assert told == "From now on, what is said in 'room' can be heard by you and Bo.\n"
    assert run("channel", "set", "room", "--name", "Room").stderr == ""


def test_the_list_is_a_table(root) -> None:
    run("channel", "set", "4711", "--kind", "dm", "--name", "anna")

    printed = run("channel", "ls").stdout
    assert "DM:anna" in printed
    assert "private" in printed


def test_without_channels_the_next_step_is_told() -> None:
    live("ada", notes="x")
    result = run("channel", "ls")

    assert (result.exit_code, result.stdout) == (0, "")
    assert "familiar ask" in result.stderr


def test_what_holds_is_shown_with_where_it_comes_from(root) -> None:
    run("channel", "set", "4711", "--mode", "full_rp")
    run("config", "set", "llm.preset", "custom")
    run("config", "set", "author_note.text", "Be brief.")

    found = data("channel", "show", "4711")

    held = {row["key"]: (row["value"], row["source"]) for row in found["settings"]}
    assert held["mode"] == ("full_rp", "channel")
    assert held["recent_turns"] == (60, "mode full_rp")
    assert held["author_note.text"] == ("Be brief.", "character.toml")
    assert held["author_note.depth"] == (4, "default")
    assert found["budget"]["total"] == 7680
    assert found["budget"]["reason"] == (
        "the model's context window without the reply (8,192 tokens, assumed by the preset)"
    )


def test_a_channel_nobody_knows_has_the_defaults(root) -> None:
    result = run("channel", "show", "nowhere")

    assert result.exit_code == 0
    assert "no turns yet" in result.stdout
    assert not (root / "channels").exists()


def test_a_voice_has_its_own_defaults(root) -> None:
    found = data("channel", "show", "4711", "--modality", "voice")

    assert found["settings"][0] == {
        "key": "mode",
        "value": "imitate_voice",
        "source": "voice turns",
    }
    assert run("channel", "show", "4711", "--modality", "smell").exit_code == 2


def test_a_change_is_shown_and_written(root) -> None:
    result = run("channel", "set", "4711", "author_note.text", "Rain.", "--name", "den")

    assert '+name = "den"' in result.stdout
    text = (root / "channels" / "4711.toml").read_text("utf-8")
    assert 'text = "Rain."' in text


def test_a_dry_run_writes_nothing(root) -> None:
    result = run("channel", "set", "4711", "--name", "den", "--subscribe", "--dry-run")

    assert '+name = "den"' in result.stdout
    assert not (root / "channels" / "4711.toml").exists()
    assert not (root / "subscriptions.toml").exists()


def test_a_setting_can_be_taken_out(root) -> None:
    run("channel", "set", "4711", "--name", "den")

    assert '-name = "den"' in run("channel", "set", "4711", "--unset", "name").stdout
    assert run("channel", "set", "4711", "--unset", "name").exit_code == 4


def test_listening_ends(root) -> None:
    run("channel", "set", "4711", "--subscribe")
    assert data("channel", "set", "4711", "--unsubscribe")["subscribed"] is False
    assert data("channel", "ls")["channels"][0]["subscribed"] == []


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["mood", "x"], 3, "No such setting: 'mood'; did you mean 'mode'?"),
        (["--mode", "loud"], 3, "must be one of auto, full_rp"),
        (["name"], 2, "No value given for 'name'"),
        (["kind=dm"], 2, "Run `familiar channel set 4711 kind dm`."),
        ([], 2, "Nothing to change"),
        (["--unset", "name", "--name", "x"], 2, "--unset cannot be combined with other changes"),
    ],
)
def test_what_cannot_be_set_says_why(root, argv, code, says) -> None:
    result = run("channel", "set", "4711", *argv)

    assert result.exit_code == code
    assert says in result.stderr
    assert not (root / "channels" / "4711.toml").exists()


def test_a_broken_file_names_its_line_and_hides_no_other_channel(root) -> None:
    (root / "channels").mkdir()
    (root / "channels" / "4711.toml").write_text('name = "x"\nmod = "y"\n', encoding="utf-8")

    shown = run("channel", "show", "4711")
    assert shown.exit_code == 3
    assert "line 2" in shown.stderr
    assert "did you mean 'mode'?" in shown.stderr
    rows = data("channel", "ls")["channels"]
    assert [row["id"] for row in rows] == ["4711", "cli"]
    assert "line 2" in rows[0]["problem"]
    assert rows[0]["private"]


def test_a_channel_s_settings_reach_its_prompts_alone(root) -> None:
    run("config", "set", "llm.preset", "custom")
    run("channel", "set", "4711", "author_note.text", "It rains on {{user}}.")
    run("channel", "set", "4711", "--mode", "full_rp")

    here = data("ask", "Hi", "--channel", "4711", "--name", "Bo", "--dry-run")
    there = data("ask", "Hi", "--channel", "cli", "--name", "Bo", "--dry-run")

    assert "It rains on Bo." in str(here["messages"])
    assert "It rains" not in str(there["messages"])
    assert (here["budget_tokens"], there["budget_tokens"]) != (6000, 6000)


def test_an_id_becomes_no_path(root) -> None:
    run("channel", "set", "../../evil", "--name", "x")

    names = [path.name for path in (root / "channels").glob("*.toml")]
    assert names == ["%2E%2E%2F%2E%2E%2Fevil.toml"]


def test_a_wrong_value_names_the_command_that_shows_the_right_one() -> None:
    live("ada")
    told = run("channel", "set", "cli", "--mode", "nope").stderr
    assert "`familiar channel show CHANNEL`" in told


def test_a_model_that_reads_much_gets_more_of_memory_unless_a_tier_is_set(root) -> None:
    def tier(window: int) -> tuple[int, str]:
        assert run("config", "set", "llm.context_tokens", str(window)).exit_code == 0
        settings = data("channel", "show", "cli")["settings"]
        shown = next(one for one in settings if one["key"] == "tier")
        return shown["value"], shown["source"]

    assert tier(15_999) == (2, "default")
    assert tier(16_000) == (3, "model's window")
    assert run("channel", "set", "cli", "tier", "1").exit_code == 0
    assert tier(16_000) == (1, "channel")


def test_what_waits_is_written_when_a_channel_is_left(serve, monkeypatch) -> None:
    root = talked(6)
    run("channel", "set", "cli", "--subscribe")
    server = serve(answer("Anna keeps bees.", turns=(1,)))
    point_at(server, monkeypatch)

    done = run("channel", "set", "cli", "--unsubscribe")

    assert (done.exit_code, done.stderr) == (0, "6 turns of cli written into memory.\n")
    assert "Anna keeps bees." in memory(root, ANNAS)
    assert run("channel", "set", "cli", "--unsubscribe").stderr == ""


def test_without_a_model_a_channel_that_is_left_says_what_stays(serve, monkeypatch) -> None:
    talked(6)
    point_at(serve(Fail(400, "no")), monkeypatch)

    done = run("channel", "set", "cli", "--unsubscribe")

    assert done.exit_code == 0
    assert "6 turns of cli not yet in memory" in done.stderr
    assert "familiar write-memory --channel cli" in done.stderr


def test_a_channel_may_have_no_date_and_time(root) -> None:
    def blocks(channel: str) -> str:
        shown = data("ask", "Hello", "--channel", channel, "--dry-run")["messages"]
        return "\n".join(message["content"] for message in shown)

    run("channel", "set", "cli", "datetime", "off")
    told = ENGLISH.date_and_time
    assert (told in blocks("4711"), told in blocks("cli")) == (True, False)
    held = {one["key"]: one["source"] for one in data("channel", "show", "cli")["settings"]}
    assert held["datetime"] == "channel"
