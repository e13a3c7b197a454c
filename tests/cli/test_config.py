"""`familiar config`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import pytest

from familiar_cli.familiar import Familiar
from tests.support.cases import each
from tests.support.world import data, home, live, run


@pytest.fixture(autouse=True)
def root():
    return live("ada")


def test_show_lists_every_setting_with_where_it_comes_from(monkeypatch) -> None:
    run("config", "set", "llm.preset", "ollama")
    monkeypatch.setenv("FAMILIAR_LLM_MODEL", "other")
    lines = {line.split()[0]: line for line in run("config", "show").stdout.splitlines()}
    assert lines["home"].split() == ["home", str(home()), "FAMILIAR_HOME"]
    assert lines["familiar"].split(maxsplit=2) == ["familiar", "ada", "the only familiar"]
    assert lines["llm.preset"].split(maxsplit=2)[1:] == ["ollama", "file, default local"]
    assert lines["llm.model"].split(maxsplit=2)[1:] == ["other", 'FAMILIAR_LLM_MODEL, default ""']
    assert lines["llm.retries"].split(maxsplit=2)[1:] == ["2", "default"]


@pytest.mark.parametrize(("key", "code"), [("llm.preset", 0), ("llm.nonsense", 3)])
def test_what_a_command_opened_is_closed_also_when_it_fails(monkeypatch, key, code) -> None:
    opened, closed, close = [], [], Familiar.close
    made = Familiar.load_from_disk

    def load(*args):
        opened.append(made(*args))
        return opened[-1]

    def end(familiar) -> None:
        closed.append(familiar)
        close(familiar)

    monkeypatch.setattr(Familiar, "load_from_disk", load)
    monkeypatch.setattr(Familiar, "close", end)
    assert run("config", "show", key).exit_code == code
    assert opened
    assert closed == opened


def test_show_one_tells_what_it_may_be_and_what_it_means() -> None:
    page = run("config", "show", "llm.preset").stdout
    for word in ("local", "default", "one of local, openrouter", "Kind of server to use"):
        assert word in page


def test_show_data_names_value_source_and_default() -> None:
    found = data("config", "show")
    preset = next(row for row in found["settings"] if row["key"] == "llm.preset")
    assert (preset["value"], preset["source"], preset["default"]) == ("local", "default", "local")
    assert {row["key"] for row in found["where"]} == {"home", "familiar"}


def shown(key) -> tuple[object, str, object, str]:
    row = next(row for row in data("config", "show")["settings"] if row["key"] == key)
    assert row == data("config", "show", key)
    return (row["value"], row["source"], row["effective"], row["effective_source"])


def test_a_default_shows_what_it_comes_to_and_where_that_is_from() -> None:
    assert shown("budget.total") == (0, "default", 1280, "model's window")
    assert shown("budget.content") == (0, "default", 192, "15 % of budget.total")
    assert shown("llm.model") == ("", "default", "smollm2-135m-instruct", "preset local")
    assert shown("llm.context_tokens") == (0, "default", 1536, "the catalogue")
    assert shown("recall.tokens") == (0, "default", 1280, "budget.content")
    assert shown("processors.recast") == ("auto", "default", "off", "no llm.slots.recast")
    assert shown("embedding.model") == ("auto", "default", "none", "what is on disk")
    assert shown("llm.retries") == (2, "default", 2, "default")
    lines = {line.split()[0]: line for line in run("config", "show").stdout.splitlines()}
    assert lines["budget.total"].split(maxsplit=2)[1:] == ["1280", "model's window, default"]
    assert "in effect  1280 (model's window)" in run("config", "show", "budget.total").stdout


def test_a_slot_of_plans_shows_what_its_window_and_task_come_to() -> None:
    run("config", "set", "llm.preset", "openai")
    run("config", "set", "llm.slots.memory_writer.model", "small")
    key = "llm.slots.memory_writer"
    assert shown(f"{key}.max_tokens") == (0, "default", 4096, "the context window")
    assert shown(f"{key}.temperature") == (0.8, "default", 0.2, "the task")
    run("config", "set", f"{key}.temperature", "0.8")
    run("config", "set", f"{key}.max_tokens", "700")
    assert shown(f"{key}.max_tokens") == (700, "file", 700, "file")
    assert shown(f"{key}.temperature") == (0.8, "file", 0.8, "file")


def test_what_is_set_is_what_it_comes_to() -> None:
    run("config", "set", "budget.total", "900")
    assert shown("budget.total") == (900, "file", 900, "file")
    assert shown("budget.content") == (0, "default", 135, "15 % of budget.total")


def test_a_window_that_is_set_moves_the_total() -> None:
    run("config", "set", "llm.preset", "openai")
    assert shown("budget.total") == (0, "default", 6000, "mode text_conversation_rp")
    run("config", "set", "llm.context_tokens", "30000")
    assert shown("budget.total") == (0, "default", 15_000, "model's window")
    assert shown("llm.context_tokens") == (30_000, "file", 30_000, "file")


def test_a_budget_beyond_the_window_shows_what_is_left_of_it() -> None:
    run("config", "set", "budget.total", "5000")
    assert shown("budget.total") == (5000, "file", 1280, "model's window")


def test_a_server_in_the_environment_changes_the_preset(monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    assert shown("llm.preset") == ("local", "default", "custom", "FAMILIAR_LLM_BASE_URL")
    assert shown("llm.base_url")[:2] == ("http://127.0.0.1:9/v1", "FAMILIAR_LLM_BASE_URL")
    assert shown("budget.total")[2:] == (6000, "mode text_conversation_rp")


def test_a_large_character_shows_in_its_share(root) -> None:
    run("config", "set", "llm.preset", "openai")
    (root / "memory" / "self").mkdir(parents=True)
    text = "# Description\n\n" + "She counts every ship that passes. " * 500
    (root / "memory" / "self" / "description.md").write_text(text, "utf-8")
    _, _, tokens, source = shown("budget.character")
    assert tokens > 2400
    assert source == "the character's size"
    assert shown("budget.total")[2] == 6000 + tokens - 2400


def test_settings_are_shown_though_something_else_is_wrong(root) -> None:
    run("config", "set", "llm.max_tokens", "9000")
    assert shown("budget.total") == (0, "default", 0, "default")
    assert shown("llm.model")[2] == "smollm2-135m-instruct"


def test_get_prints_the_value_and_nothing_else() -> None:
    result = run("config", "get", "history.recent_turns")
    assert (result.stdout, result.stderr, result.exit_code) == ("40\n", "", 0)


def test_set_changes_the_file_and_says_so_in_a_line(root) -> None:
    assert run("config", "set", "name", "b").stdout == "Set name to 'b'.\n"
    assert run("config", "unset", "name").stdout == "Removed name; its default applies.\n"


def test_set_shows_the_change_where_it_is_asked_to(root) -> None:
    (root / "character.toml").write_text("# mine\nname = 'a'\n", encoding="utf-8")
    result = run("config", "set", "name", "b", "--verbose")
    assert "-name = 'a'\n+name = \"b\"\n" in result.stdout
    assert run("config", "get", "name").stdout == "b\n"
    assert "# mine" in (root / "character.toml").read_text("utf-8")


def test_set_what_stands_so_already_says_so() -> None:
    run("config", "set", "name", "b")
    assert (
        run("config", "set", "name", "b").stdout
        == "name already has this value; nothing was changed\n"
    )


def test_a_dry_run_shows_the_change_and_makes_none(root) -> None:
    result = run("config", "set", "--dry-run", "name", "b")
    assert '+name = "b"' in result.stdout
    assert result.stderr == "Nothing was changed (--dry-run).\n"
    assert not (root / "character.toml").exists()


def test_a_value_may_begin_with_a_dash() -> None:
    run("config", "set", "--", "name", "- Ada -")
    assert run("config", "get", "name").stdout == "- Ada -\n"


def test_unset_brings_the_default_back() -> None:
    run("config", "set", "llm.preset", "ollama")
    assert run("config", "unset", "llm.preset").exit_code == 0
    assert run("config", "get", "llm.preset").stdout == "local\n"


def test_path_is_told_also_before_there_is_a_file(root) -> None:
    assert run("config", "path").stdout == f"{root / 'character.toml'}\n"
    assert data("config", "path")["exists"] is False


@each(
    ("argv", "code", "words"),
    [
        (("get", "llm.presett"), 3, "did you mean 'llm.preset'?"),
        (("show", "qqqq"), 3, "No such setting: 'qqqq'"),
        (("set", "llm.retries", "two"), 3, "must be a whole number, at least 0, not 'two'"),
        (("set", "llm.preset", "olama"), 3, "must be one of local, openrouter"),
        (("unset", "llm.preset"), 4, "does not set 'llm.preset'"),
        (("set", "llm.preset"), 2, "Missing argument"),
    ],
)
def test_every_refusal_has_its_exit_code_and_a_hint(argv, code, words) -> None:
    result = run("config", *argv)
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr
    assert "\nhint: " in result.stderr


@pytest.mark.parametrize("command", [("status",), ("config", "show"), ("config", "get", "name")])
def test_a_wrong_setting_stops_with_file_line_and_nearest_key(root, command) -> None:
    (root / "character.toml").write_text("[llm]\n\npresett = 'x'\n", encoding="utf-8")
    result = run(*command)
    assert result.exit_code == 3
    assert f"{str(root / 'character.toml')!r}, line 3: 'llm.presett'" in result.stderr
    assert "did you mean 'llm.preset'?" in result.stderr


def test_a_wrong_setting_can_be_mended_with_commands_alone(root) -> None:
    (root / "character.toml").write_text("[llm]\npresett = 'x'\n", encoding="utf-8")
    assert run("config", "unset", "llm.presett").exit_code == 0
    assert run("config", "show").exit_code == 0


def test_a_key_that_is_pasted_as_a_setting_is_shown_nowhere(root) -> None:
    result = run("config", "set", "llm.api_key_env", "sk-secret")
    assert result.exit_code == 3
    assert "sk-secret" not in result.output
    assert not (root / "character.toml").exists()


def test_without_a_familiar_it_says_how_to_make_one() -> None:
    result = run("config", "show", "--home", str(home() / "empty"))
    assert result.exit_code == 4
    assert "familiar init" in result.stderr
