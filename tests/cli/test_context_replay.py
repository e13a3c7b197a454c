"""`familiar context --replay` sends the same bytes again, shows both replies, and keeps nothing."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from familiar_cli.actions.talk.replay import Replay, ReplayedReply
from familiar_cli.pages.context_page import replay_page
from tests.support.server import ChatServer, Fail, Say, closed_port
from tests.support.world import data, live, run


@pytest.fixture
def root():
    return live("ada")


@pytest.fixture
def serve():
    servers = []

    def _serve(*script) -> ChatServer:
        servers.append(ChatServer(script).__enter__())
        return servers[-1]

    yield _serve
    for server in servers:
        server.__exit__(None, None, None)


def settings(root, server, **slots: str) -> None:
    text = f'[llm]\npreset = "custom"\nbase_url = "{server.base_url}"\nmodel = "m-1"\n'
    (root / "character.toml").write_text(text + "".join(slots.values()), "utf-8")


@pytest.fixture
def asked(root, serve):
    """A server that was asked once, and says something else the next time."""
    costs = {"prompt_tokens": 9, "completion_tokens": 2, "cost": 0.002}
    server = serve("The old words.", Say("The new words.", usage=costs))
    settings(root, server)
    assert run("ask", "hello").stdout == "The old words.\n"
    return server


def files(root) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_the_very_same_bytes_go_out_and_both_replies_are_shown(root, asked) -> None:
    page = run("context", "--replay").stdout
    assert asked.requests[1].body == asked.requests[0].body
    assert page.startswith("Sent the request of turn 1 to the same server again, byte for byte.\n")
    assert "--- then\nThe old words.\n\n--- now\nThe new words.\n" in page
    assert "cost" in page
    assert "0.002" in page


def test_nothing_of_it_is_kept(root, asked) -> None:
    before = files(root)
    run("context", "--replay")
    assert files(root) == before


def test_as_data_it_has_both_replies_and_their_difference(root, asked) -> None:
    found = data("context", "1", "--replay")
    assert (found["then"]["text"], found["now"]["text"]) == ("The old words.", "The new words.")
    assert (found["same_bytes"], found["differences"]) == (True, [])
    assert found["now"]["usage"] == {"prompt_tokens": 9, "completion_tokens": 2, "cost": 0.002}
    assert "\n-The old words.\n+The new words." in found["diff"]


def test_with_another_model_only_the_model_differs(root, asked) -> None:
    result = run("context", "--replay", "--model", "m-2")
    first, second = (json.loads(request.body) for request in asked.requests)
    assert second == {**first, "model": "m-2"}
    old = asked.requests[0].body
    assert asked.requests[1].body == old.replace(b'"model":"m-1"', b'"model":"m-2"')
    assert "  model: 'm-1' became 'm-2'\n  Every other byte of the request is identical.\n" in (
        result.stdout
    )


def test_a_slot_brings_its_own_server_and_model(root, asked, serve) -> None:
    other = serve("From elsewhere.")
    slot = f'[llm.slots.recast]\npreset = "custom"\nbase_url = "{other.base_url}"\nmodel = "m-3"\n'
    settings(root, asked, recast=slot)

    found = data("context", "--replay", "--slot", "recast")

    assert other.last.json() == {**asked.requests[0].json(), "model": "m-3"}
    assert len(asked.requests) == 1
    assert found["now"]["url"] == f"{other.base_url}/chat/completions"
    assert [line.partition(":")[0] for line in found["differences"]] == ["model", "server"]


def test_another_server_of_today_is_named_and_the_bytes_stay(root, asked, serve) -> None:
    other = serve("From elsewhere.")
    settings(root, other)
    page = run("context", "--replay").stdout
    assert other.last.body == asked.requests[0].body
    assert f"server: {asked.base_url}/chat/completions became {other.base_url}" in page
    assert "Every byte of the request is identical." in page


def test_the_main_slot_named_means_todays_model(root, asked) -> None:
    config = root / "character.toml"
    config.write_text(config.read_text("utf-8").replace("m-1", "m-9"), "utf-8")
    run("context", "--replay")
    run("context", "--replay", "--slot", "main")
    assert [r.json()["model"] for r in asked.requests] == ["m-1", "m-1", "m-9"]


@pytest.mark.parametrize(
    ("step", "words"),
    [(Fail(500), "500"), (Say(""), "empty reply"), (Fail(404, "no such model"), "model")],
)
def test_a_failure_exits_6_and_keeps_nothing(root, serve, step, words) -> None:
    server = serve("One.", step)
    settings(root, server)
    config = root / "character.toml"
    config.write_text(config.read_text("utf-8") + "retries = 0\n", "utf-8")
    run("ask", "hello")
    before = files(root)
    result = run("context", "--replay")
    assert (result.exit_code, result.stdout) == (6, "")
    assert words in result.stderr
    assert files(root) == before


def test_a_turn_without_a_reply_has_nothing_to_compare_with(root, serve) -> None:
    config = '[llm]\npreset = "custom"\nmodel = "m"\nretries = 0\nbase_url = '
    path = root / "character.toml"
    path.write_text(f'{config}"http://127.0.0.1:{closed_port()}/v1"\n', "utf-8")
    assert run("ask", "hello").exit_code == 6
    path.write_text(f'{config}"{serve("At last.").base_url}"\n', "utf-8")

    page = run("context", "1", "--replay").stdout
    assert "No earlier reply to compare with: " in page
    assert page.endswith("--- now\nAt last.\n")
    assert data("context", "1", "--replay")["then"] is None


@pytest.mark.parametrize(
    "argv",
    [("--slot", "main"), ("--model", "m"), ("--replay", "--raw"), ("--replay", "--why", "x")],
)
def test_what_makes_no_sense_is_a_usage_error(root, asked, argv) -> None:
    assert run("context", *argv).exit_code == 2


def test_an_unknown_slot_is_a_configuration_error(root, asked) -> None:
    result = run("context", "--replay", "--slot", "recst")
    assert result.exit_code == 3
    assert "Did you mean 'recast'?" in result.stderr


def shown(then: str, now: str, width: int, **more) -> str:
    old, new = (ReplayedReply("u", "m", text, 1.0, "stop", None) for text in (then, now))
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, markup=False, force_terminal=True, **more)
    console.print(replay_page(Replay(1, "main", "m", "m", "u", old, new, "")))
    return buffer.getvalue()


def test_a_wide_terminal_shows_the_replies_beside_each_other() -> None:
    wide = shown("old words " * 30, "new words " * 30, 120, color_system=None)
    assert any("old words" in line and "new words" in line for line in wide.splitlines())
    narrow = shown("old words " * 30, "new words " * 30, 80, color_system=None)
    assert not any("old" in line and "new" in line for line in narrow.splitlines())
    assert max(len(line) for line in wide.splitlines()) <= 120


def test_words_that_differ_are_marked() -> None:
    page = shown("a b c d", "a b x d", 80, color_system="standard", no_color=False)
    assert "\x1b[31mc\x1b[0m" in page
    assert "\x1b[32mx\x1b[0m" in page


def test_equal_replies_are_called_equal_and_long_ones_take_no_time() -> None:
    assert "The replies are identical." in shown("same", "same", 80)
    assert "The replies differ." in shown("a b " * 9999, "b a " * 9999, 80)
    assert "67 % alike." in shown("a b", "a c", 80)


def test_a_reply_steers_no_terminal() -> None:
    assert "\x1b" not in shown("\x1b[2J [b]", "\x1b]0;x\x07", 80, color_system=None)
