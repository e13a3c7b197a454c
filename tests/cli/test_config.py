"""`familiar config`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import pytest

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


def test_show_one_tells_what_it_may_be_and_what_it_means() -> None:
    page = run("config", "show", "llm.preset").stdout
    for word in ("local", "default", "one of local, openrouter", "Kind of server to use"):
        assert word in page


def test_show_data_names_value_source_and_default() -> None:
    found = data("config", "show")
    preset = next(row for row in found["settings"] if row["key"] == "llm.preset")
    assert (preset["value"], preset["source"], preset["default"]) == ("local", "default", "local")
    assert {row["key"] for row in found["where"]} == {"home", "familiar"}


def test_get_prints_the_value_and_nothing_else() -> None:
    result = run("config", "get", "history.recent_turns")
    assert (result.stdout, result.stderr, result.exit_code) == ("40\n", "", 0)


def test_set_changes_the_file_and_shows_how(root) -> None:
    (root / "character.toml").write_text("# mine\nname = 'a'\n", encoding="utf-8")
    result = run("config", "set", "name", "b")
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


@pytest.mark.parametrize(
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
