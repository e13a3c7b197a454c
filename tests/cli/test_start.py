"""`familiar start`: from nothing to a reply, with answers from options or from a person."""

from __future__ import annotations

import json
import stat
import sys
from io import StringIO

import pytest

from familiar_cli.actions.health import start
from familiar_cli.base.config.home import list_familiars
from familiar_cli.base.errors import ConfigError, UsageError
from familiar_cli.cli.commands.start import _Wizard
from familiar_cli.cli.terminal.prompts import ask_yes
from tests.support import pages
from tests.support.server import ChatServer
from tests.support.world import data, home, run

CARD = str(pages.ROOT / "examples" / "cards" / "yuzu.png")
TAVERN = str(pages.ROOT / "examples" / "sillytavern" / "default-user")


@pytest.fixture
def server(monkeypatch):
    """A model server where Ollama usually is, and nothing where the others are."""
    models = ("nomic-embed-text", "llama3.1:8b", "mistral-nemo")
    with ChatServer(("Good evening!",) * 9, models=models) as chat:
        monkeypatch.setattr(start, "SERVERS", {"Ollama": ("ollama", chat.base_url)})
        yield chat


@pytest.fixture
def person(monkeypatch):
    """Let what is typed come from a person at a terminal."""
    monkeypatch.setattr("familiar_cli.pages.emit.is_terminal", lambda: True)


def test_options_lead_to_a_reply_without_a_question(server) -> None:
    result = run("start", "--card", CARD, "--name", "Robin", "--say", "Hello", stdin="")
    assert (result.exit_code, result.stdout) == (0, "Good evening!\n")
    told = [line[2:] for line in result.stderr.splitlines() if line.startswith("$ ")]
    assert told == [
        f"familiar init --from-card {CARD}",
        "familiar config set llm.preset ollama",
        f"familiar config set llm.base_url {server.base_url}",
        "familiar config set llm.model llama3.1:8b",
        "familiar me --name Robin",
        "familiar ask Hello",
    ]


@pytest.mark.usefixtures("server")
def test_what_is_there_is_not_done_or_asked_again() -> None:
    run("start", "--template", "companion", "--name", "Robin", stdin="")
    again = data("start", "--say", "Hello")
    assert again["commands"] == ["familiar ask Hello --json"]
    assert (again["familiar"], again["reply"]) == (*list_familiars(home()), "Good evening!")


def test_a_hosted_model_without_a_key_is_not_replaced_or_said_to_answer(server) -> None:
    run("init", "ada", "--template", "companion")
    run("config", "set", "llm.preset", "openrouter")
    run("config", "set", "llm.model", "openrouter/auto")
    result = run("start", "--say", "Hello", stdin="")
    assert (result.exit_code, "No key for" in result.stderr) == (3, True)
    assert "small model" not in result.stderr
    assert server.base_url not in result.stderr


def test_without_a_terminal_no_model_is_downloaded_unasked(monkeypatch) -> None:
    monkeypatch.setattr(start, "SERVERS", {})
    told = run("start", "--template", "companion", stdin="").stderr
    assert ("model pull" in told, "$ familiar model pull" in told) == (True, False)


@pytest.mark.usefixtures("server", "person")
def test_a_person_is_asked_for_a_card_a_model_and_a_name_and_again_after_a_mistake() -> None:
    typed = f"/nowhere.png\ncompnion\n'{CARD}'\n9\n2\nRobin\n"
    result = run("start", "--say", "Hello", stdin=typed)
    assert (result.exit_code, result.stdout) == (0, "Good evening!\n")
    assert "No such file: '/nowhere.png'" in result.stderr
    assert "No such template: 'compnion'" in result.stderr
    assert "2  Ollama: mistral-nemo" in result.stderr
    assert "Ollama: nomic-embed-text" not in result.stderr
    assert "Ollama can find memories by meaning, with nomic-embed-text" in result.stderr
    assert data("config", "get", "llm.model")["value"] == "mistral-nemo"
    assert data("me")["name"] == "Robin"


@pytest.mark.usefixtures("server", "person")
def test_what_was_before_is_asked_for_and_brought_along(tmp_path) -> None:
    path = tmp_path / "memories.txt"
    path.write_text("[2025-03-04] - Has a dog called Biscuit\n", "utf-8")
    typed = f"companion\n1\nRobin\n/nowhere.txt\n{path}\n\n"
    result = run("start", "--say", "Hello", stdin=typed)
    assert "Have you been using another companion or assistant" in result.stderr
    assert "No such file or directory: '/nowhere.txt'" in result.stderr
    assert (result.exit_code, "Imported 1 memory" in result.stdout) == (0, True)
    assert "Biscuit" in data("memory", "cat", "people/cli-user.md")["text"]


@pytest.mark.usefixtures("person")
def test_an_address_may_be_typed_for_a_number_and_is_asked_for_again(monkeypatch, server) -> None:
    monkeypatch.setattr(start, "SERVERS", {})
    wrong = ("what", "http://127.0.0.1:9/v1")
    lines = (CARD, *wrong, server.base_url, "2", "Robin", "n")
    result = run("start", "--say", "Hello", stdin="\n".join(lines) + "\n")
    assert result.exit_code == 0, result.stderr
    assert "'what' is none of 1 to 3" in result.stderr
    assert "Nothing responds at http://127.0.0.1:9/v1 yet" in result.stderr
    assert data("config", "get", "llm.base_url")["value"] == server.base_url
    assert data("config", "get", "llm.model")["value"] == "mistral-nemo"


@pytest.mark.usefixtures("person")
def test_a_wrong_address_is_told_and_asked_for_again(monkeypatch, server) -> None:
    monkeypatch.setattr(start, "SERVERS", {})
    lines = (CARD, "2", "127.0.0.1:80", "127.0.0.1:80", "m", server.base_url, "1", "Robin", "n")
    result = run("start", "--say", "Hello", stdin="\n".join(lines) + "\n")
    assert result.exit_code == 0, result.stderr
    assert "begins with http" in result.stderr
    assert data("config", "get", "llm.base_url")["value"] == server.base_url


@pytest.mark.usefixtures("server", "person")
def test_a_model_that_searches_by_meaning_is_offered(monkeypatch) -> None:
    pulled = []
    monkeypatch.setattr(
        "familiar_cli.cli.commands.start._Wizard._do",
        lambda self, *words, shown=False, do=_Wizard._do: (
            pulled.append(words) if words[0] == "model" else do(self, *words, shown=shown)
        ),
    )
    result = run("start", "--say", "Hello", stdin=f"{CARD}\n1\nRobin\n\n\n")
    assert result.exit_code == 0
    assert "23 MB" in result.stderr
    assert pulled == [("model", "pull", "minilm-l6-v2")]


@pytest.mark.usefixtures("server", "person")
def test_ctrl_d_stops_and_what_was_done_stays() -> None:
    result = run("start", stdin=f"{CARD}\n")
    assert result.exit_code == 130
    assert "`familiar start` continues from here" in result.stderr
    assert list_familiars(home()) == ["yuzu"]


def test_a_hosted_model_without_a_key_says_where_the_key_goes(monkeypatch) -> None:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    hosted = ("--preset", "openrouter", "--model", "a/b")
    result = run("start", "--template", "companion", *hosted, stdin="")
    assert result.exit_code == 3
    assert "OPENROUTER_API_KEY" in result.stderr


@pytest.mark.usefixtures("person")
def test_a_key_is_asked_for_and_kept_where_only_its_owner_reads(monkeypatch, tmp_path) -> None:
    keys = tmp_path / "config" / "keys.toml"
    monkeypatch.setenv("FAMILIAR_KEYS", str(keys))
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    answers = iter(["", "sk-secret"])
    monkeypatch.setattr("familiar_cli.cli.terminal.prompts.ask_hidden", lambda _: next(answers))
    hosted = ("--preset", "openrouter", "--model", "a/b", "--name", "Robin", "--json")
    result = run("start", "--template", "companion", *hosted, stdin="")
    assert result.exit_code == 0
    assert "sk-secret" not in result.output
    assert keys.read_text("utf-8") == 'OPENROUTER_API_KEY = "sk-secret"\n'
    if sys.platform != "win32":
        assert stat.S_IMODE(keys.stat().st_mode) == 0o600


def test_other_keys_stay_and_a_broken_file_is_not_touched(monkeypatch, tmp_path) -> None:
    keys = tmp_path / "keys.toml"
    monkeypatch.setenv("FAMILIAR_KEYS", str(keys))
    keys.write_text('# mine\nOPENAI_API_KEY = "one"\n', "utf-8")
    start.keep_key("OPENROUTER_API_KEY", " two \n")
    assert keys.read_text("utf-8") == (
        '# mine\nOPENAI_API_KEY = "one"\nOPENROUTER_API_KEY = "two"\n'
    )
    for wrong in ("", "a b", "“x”"):
        with pytest.raises(UsageError):
            start.check_key(wrong)
    keys.write_text("broken = sk-secret", "utf-8")
    with pytest.raises(ConfigError, match="not valid TOML") as raised:
        start.keep_key("X", "y")
    assert "sk-secret" not in str(raised.value)
    assert keys.read_text("utf-8") == "broken = sk-secret"


@pytest.mark.usefixtures("server")
def test_sillytaverns_folder_brings_its_characters_and_one_is_chosen() -> None:
    made = data("start", "--card", TAVERN, "--familiar", "yuzu")
    assert made["familiar"] == "yuzu"
    assert made["commands"][0] == f"familiar import-sillytavern {TAVERN}"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("--card", "x.png", "--template", "companion"), 2),
        (("--template", "companion", "--preset", "custom"), 2),
        (("--card", "/nowhere.png"), 4),
        (("--familiar", "nobody"), 4),
    ],
)
def test_what_is_missing_is_named(words, code) -> None:
    result = run("start", *words, stdin="")
    assert (result.exit_code, result.stderr.splitlines()[-2][:7]) == (code, "error: ")


def test_the_json_of_start_is_one_object(server) -> None:
    del server
    result = run("start", "--template", "companion", "--say", "Hi", "--json", stdin="")
    assert json.loads(result.stdout)["data"]["reply"] == "Good evening!"


def test_yes_or_no_is_asked_again_and_the_end_of_input_means_no(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("maybe\nYes\n"))
    assert ask_yes("Sure?")
    assert "'maybe' is neither y nor n." in capsys.readouterr().err
    assert not ask_yes("Sure?")
