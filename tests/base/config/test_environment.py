from __future__ import annotations

import os
import traceback
from pathlib import Path

import pytest

from familiar_cli.base.config import environment
from familiar_cli.base.errors import ConfigError
from tests.support.cases import each

posix = pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")


@pytest.fixture
def keys() -> Path:
    path = Path(os.environ["FAMILIAR_KEYS"])
    path.write_text('MY_KEY = "sk-from-file"\nother = 3\n', encoding="utf-8")
    path.chmod(0o600)
    return path


def test_a_key_is_read_from_the_file_when_the_environment_has_none(keys) -> None:
    assert environment.find_key("MY_KEY") == "sk-from-file"


def test_the_environment_wins_over_the_file(keys, monkeypatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-from-environment")
    assert environment.find_key("MY_KEY") == "sk-from-environment"


@pytest.mark.parametrize("name", ["", "NO_SUCH_KEY", "other"])
def test_a_key_that_is_not_there_is_empty(name, keys) -> None:
    assert environment.find_key(name) == ""


def test_without_a_file_there_is_no_key() -> None:
    assert environment.find_key("MY_KEY") == ""


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_may_open_is_refused(mode, keys) -> None:
    keys.chmod(mode)
    with pytest.raises(ConfigError, match="Other users can read") as caught:
        environment.find_key("MY_KEY")
    assert "chmod 600" in caught.value.hint


@pytest.mark.parametrize("content", [b'MY_KEY = "sk-sec', b"\xff\xfe", b"sk-sec"])
def test_a_broken_file_is_an_error_that_repeats_none_of_it(content, keys) -> None:
    keys.write_bytes(content)
    with pytest.raises(ConfigError, match="is not valid TOML") as caught:
        environment.find_key("MY_KEY")
    assert "sk-sec" not in "".join(traceback.format_exception(caught.value, chain=True))


def test_a_directory_in_its_place_is_an_error(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("FAMILIAR_KEYS", str(tmp_path))
    tmp_path.chmod(0o700)
    with pytest.raises(ConfigError, match="cannot be read"):
        environment.find_key("MY_KEY")


@each("key", ["sk-\nline", "sk-“quoted”", "sk-\x1b"])
def test_a_key_that_no_header_can_carry_is_refused_without_repeating_it(key, monkeypatch) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with pytest.raises(ConfigError, match="MY_KEY") as caught:
        environment.find_key("MY_KEY")
    assert "sk-" not in str(caught.value)


def test_without_the_variable_keys_live_in_the_users_configuration(monkeypatch) -> None:
    monkeypatch.delenv("FAMILIAR_KEYS")
    assert environment.keys_file().name == "keys.toml"


@each(("value", "offline"), [("", False), ("0", False), ("1", True)])
def test_offline_is_a_switch(value, offline, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_OFFLINE", value)
    assert environment.offline() is offline


@each(("given", "threads"), [("", None), ("1", 1), (" 8 ", 8)])
def test_the_threads_of_the_model_are_all_or_as_many_as_are_named(
    monkeypatch, given, threads
) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_THREADS", given)
    assert environment.llm_threads() == threads


@each("given", ["0", "-1", "many", "1.5", "9999"])
def test_a_number_of_threads_that_cannot_be_is_refused(monkeypatch, given) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_THREADS", given)
    with pytest.raises(ConfigError, match="FAMILIAR_LLM_THREADS"):
        environment.llm_threads()
