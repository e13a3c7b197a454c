"""What `character.toml` says is read exactly, and what is wrong in it is named with its line."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.config.schema import CharacterConfig, HomeSettings
from familiar_cli.base.config.settings import build_settings, load_config
from familiar_cli.base.errors import ConfigError
from tests.support.cases import each


@pytest.fixture
def read(tmp_path):
    def _read(content: str | bytes) -> CharacterConfig:
        path = tmp_path / "character.toml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load_config(path)

    return _read


def problem(read, content: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        read(content)
    return str(caught.value)


def test_the_hint_fits_the_kind_of_file() -> None:
    tables = {"name": " ", "also": ["x"]}
    hints = {problem.hint for problem in build_settings(tables, HomeSettings)[1]}
    assert hints == {"Correct the line in that file, or remove it."}


def test_a_missing_file_gives_the_defaults(tmp_path) -> None:
    assert load_config(tmp_path / "none.toml") == CharacterConfig()


def test_an_empty_file_gives_the_defaults(read) -> None:
    assert read("") == CharacterConfig()


def test_values_are_read_where_they_stand(read) -> None:
    config = read('name = "Zoë"\n[llm]\npreset = "ollama"\n[budget]\ntotal = 900\n')
    assert (config.name, config.llm.preset, config.budget.total) == ("Zoë", "ollama", 900)


def test_a_whole_number_is_read_where_a_number_is_wanted(read) -> None:
    temperature = read("[llm]\ntemperature = 1\n").llm.temperature
    assert (temperature, type(temperature)) == (1.0, float)


def test_a_byte_order_mark_and_windows_line_ends_are_read(read) -> None:
    assert read(b'\xef\xbb\xbfname = "a"\r\n[llm]\r\nmodel = "b"\r\n').llm.model == "b"


@each(
    ("content", "line", "message"),
    [
        (
            "[llm]\n\npresett = 'x'",
            3,
            "'llm.presett' is not a known setting; did you mean 'llm.pres",
        ),
        ("[lmm]\n", 1, "'lmm' is not a known table"),
        ("preset = 'ollama'", 1, "'preset' is not a known setting; did you mean 'llm.preset'?"),
        ("[llm]\npreset = 'olama'", 2, "'llm.preset' is 'olama', but must be one of local, "),
        ("[llm]\nretries = true", 2, "'llm.retries' is true or false, but must be a whole number"),
        ("[llm]\nretries = 1.5", 2, "'llm.retries' is 1.5, but must be a whole number, at least 0"),
        ("[llm]\nretries = -1", 2, "'llm.retries' is -1, but must be a whole number, at least 0"),
        ("[llm]\ntemperature = nan", 2, "'llm.temperature' is nan, but must be a number"),
        ("[llm]\nmodel = 3", 2, "'llm.model' is 3, but must be text"),
        ("[llm]\nmodel = ['a']", 2, "'llm.model' is a list, but must be text"),
        ("x = '''\n[llm]\npreset = 1\n'''", 1, "'x' is not a known setting"),
        ("name = '''\n[llm]\nretries = 1\n'''\n[llm]\nretries = 'x'", 6, "'llm.retries' is text"),
        ("llm = 3", 1, "'llm' is a table, written as [llm]"),
        ("[[llm]]\n", 1, "'llm' is a table, written as [llm]"),
        ("\n[llm.slots.recats]\n", 2, "'llm.slots.recats' is unknown; did you mean 'recast'?"),
        ("[llm.slots]\nmain = 2", 2, "'llm.slots.main' is a table, written as [llm.slots.main]"),
        (
            "[llm.slots.main]\nmodle = ''",
            2,
            "'llm.slots.main.modle' is not a known setting; did you",
        ),
        (
            "history = {recent_turns = 99999999999999999999}",
            1,
            "'history.recent_turns' is too large: at most 1,",
        ),
        ("llm = {timeout_s = 1" + "0" * 400 + "}", 1, "'llm.timeout_s' is too large"),
        ("llm = {retries = 'x'}", 1, "'llm.retries' is text"),
        ("timezone = 'Mars/Base'", 1, "'timezone' is 'Mars/Base', which is not a valid time zone"),
        ("[distill]\nmid_at = 'sundays'", 2, "'distill.mid_at' is 'sundays', but must look like"),
        ("name = '  '", 1, "'name' is '  ', which has no visible characters"),
        ("[me]\nname = '\u200b'", 2, "'me.name' is"),
        ("[llm.slots.recast]\nmodel = ' '", 2, "'llm.slots.recast.model' is ' '"),
        ("timezone = '../x'", 1, "'timezone' is '../x', which is not a valid time zone"),
        (
            "[llm]\nbase_url = 'localhost:80'",
            2,
            "'llm.base_url' is not a valid address; expected e.g. http://",
        ),
        (
            "[llm]\nbase_url = 'http://['",
            2,
            "'llm.base_url' is not a valid address; expected e.g. http://",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(read, content, line, message) -> None:
    found = problem(read, content)
    assert f"line {line}: {message}" in found
    assert "character.toml" in found


def test_several_problems_are_counted_and_the_first_is_told(read) -> None:
    found = problem(read, "[llm]\nretries = 'x'\n[budget]\ntotal = 'x'\ncore = 'x'\n")
    assert "line 2: 'llm.retries'" in found
    assert found.endswith("(and 2 more)")


def test_broken_toml_is_named_with_its_line(read) -> None:
    assert "line 2" in problem(read, "name = 'a'\nnmae = \n")


@pytest.mark.parametrize("content", [b"name = 'a'\n# \xff\n", 'name = "a"\n'.encode("utf-16")])
def test_another_encoding_is_an_error_and_no_traceback(read, content) -> None:
    assert "not UTF-8" in problem(read, content)


def test_deep_nesting_is_an_error_and_no_traceback(read) -> None:
    assert "is not valid TOML" in problem(read, "x = " + "[" * 100_000)


def test_a_directory_in_its_place_is_an_error_and_no_traceback(tmp_path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "[llm]\napi_key = 'sk-secret'\n",
        "[llm]\napi_key_env = 'sk-secret'\n",
        "[llm]\nbase_url = 'http://me:sk-secret@host/v1'\n",
    ],
)
def test_a_key_in_the_file_is_refused_and_never_shown(read, content) -> None:
    with pytest.raises(ConfigError) as caught:
        read(content)
    assert "sk-secret" not in f"{caught.value} {caught.value.hint}"


def test_every_problem_has_a_hint(read) -> None:
    for content in ("x = 1", "[llm]\nretries = -1", "x =", b"\xff"):
        with pytest.raises(ConfigError) as caught:
            read(content)
        assert "`familiar config" in caught.value.hint or "UTF-8" in caught.value.hint


def test_a_slot_takes_what_it_does_not_set_from_llm(read) -> None:
    config = read(
        "[llm]\npreset = 'ollama'\nmodel = 'big'\nretries = 5\n"
        "[llm.slots.recast]\nmodel = 'small'\n"
    )
    slot = config.llm.slots["recast"]
    assert (slot.preset, slot.model, slot.retries) == ("ollama", "small", 5)


def test_a_slot_on_another_server_takes_no_address_or_key_from_llm(read) -> None:
    config = read(
        "[llm]\npreset = 'custom'\nbase_url = 'http://one/v1'\napi_key_env = 'ONE'\nretries = 5\n"
        "[llm.slots.recast]\npreset = 'openai'\n"
    )
    slot = config.llm.slots["recast"]
    assert (slot.base_url, slot.api_key_env, slot.model, slot.retries) == ("", "", "", 5)


def test_a_slot_that_nobody_set_up_is_not_there(read) -> None:
    assert read("[llm]\nmodel = 'x'\n").llm.slots == {}


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
names = st.sampled_from([field.name for field in fields(CharacterConfig)] + ["slots", "main", "x"])


@given(st.dictionaries(names, json_like | st.dictionaries(names, json_like)))
def test_whatever_stands_in_the_file_gives_settings_of_the_right_types(data) -> None:
    config, _ = build_settings(data, CharacterConfig)
    for field in fields(CharacterConfig):
        assert type(getattr(config, field.name)) is type(getattr(CharacterConfig(), field.name))
