"""Changing a setting changes that setting alone."""

from __future__ import annotations

import sys
import threading
import tomllib
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.config import edit
from familiar_cli.base.config.edit import new_config, set_values, unset_values, write_new
from familiar_cli.base.config.settings import all_settings, load_config
from familiar_cli.base.config.values import value_problem
from familiar_cli.base.errors import (
    ConfigError,
    ConflictError,
    FamiliarError,
    LockedError,
    NotFoundError,
)
from tests.support.cases import each

COMMENTED = """\
# mine

name = "Ada"  # of course

[budget] # small
total = 900

[llm]
# try others later
preset = "local"
"""
SHAPES = [
    "",
    "# only a comment",
    COMMENTED,
    "[llm]\npreset='local'\n",
    "llm.preset='local' # dotted\n",
    "llm = {preset='local'}\n",
    "llm = {slots={main={model='x'}}}",
    "[llm.slots.main]\nmodel='x'\n[budget]\ntotal=1\n",
    "[budget]\n[llm]\n[history]\n[llm.slots.main]\n",
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "character.toml"


def read(data, key):
    return reduce(lambda inner, part: inner[part], key.split("."), data)


@pytest.mark.parametrize("before", SHAPES)
@each(
    ("key", "text", "value"),
    [
        ("name", "Bo", "Bo"),
        ("llm.model", "m", "m"),
        ("llm.slots.main.retries", "3", 3),
        ("llm.slots.recast.temperature", "1", 1.0),
        ("budget.total", "9", 9),
    ],
)
def test_any_setting_can_be_set_in_any_shape_of_file(path, before, key, text, value) -> None:
    path.write_text(before, encoding="utf-8")
    set_values(path, {key: text})
    after = tomllib.loads(path.read_text("utf-8"))
    assert read(after, key) == value


def test_comments_order_and_the_other_settings_stay(path) -> None:
    path.write_text(COMMENTED, encoding="utf-8")
    set_values(path, {"llm.preset": "ollama"})
    assert path.read_text("utf-8") == COMMENTED.replace('"local"', '"ollama"')


def test_windows_line_ends_and_the_byte_order_mark_stay(path) -> None:
    before = b"\xef\xbb\xbf# mine\r\n[llm]\r\npreset = 'local'\r\n"
    path.write_bytes(before)
    set_values(path, {"llm.model": "m"})
    after = path.read_bytes()
    assert after == before + b'model = "m"\r\n'


def test_a_file_that_is_not_there_is_made(path) -> None:
    set_values(path, {"llm.preset": "ollama"})
    assert load_config(path).llm.preset == "ollama"


@each(
    ("key", "text"),
    [
        ("llm.presett", "x"),
        ("llm", "x"),
        ("llm.preset", "olama"),
        ("llm.retries", "1.5"),
        ("llm.retries", "-1"),
        ("llm.retries", "true"),
        ("history.recent_turns", "99999999999999999999"),
        ("llm.temperature", "nan"),
        ("llm.temperature", "inf"),
        ("timezone", "Mars/Base"),
        ("name", "  "),
        ("distill.long_at", "monthly 0 04:00"),
        ("llm.base_url", "localhost"),
        ("llm.api_key_env", "sk-123"),
    ],
)
def test_what_is_not_allowed_is_refused_and_nothing_changes(path, key, text) -> None:
    path.write_text(COMMENTED, encoding="utf-8")
    with pytest.raises(ConfigError):
        set_values(path, {key: text})
    assert path.read_text("utf-8") == COMMENTED


def test_the_nearest_setting_is_named() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'history\.recent_turns'"):
        new_config({"history.recent_turn": 3})


def test_a_wrong_value_can_be_mended_while_another_is_wrong(path) -> None:
    path.write_text("[llm]\npreset = 'olama'\nretries = -1\n", encoding="utf-8")
    set_values(path, {"llm.preset": "ollama"})
    unset_values(path, ("llm.retries",))
    assert load_config(path).llm.preset == "ollama"


def test_an_unknown_setting_can_be_taken_out(path) -> None:
    path.write_text("[llm]\nprset = 'x' # typo\n", encoding="utf-8")
    unset_values(path, ("llm.prset",))
    assert load_config(path).llm.preset == "local"


def test_taking_out_what_is_not_there_is_refused(path) -> None:
    path.write_text(COMMENTED, encoding="utf-8")
    with pytest.raises(NotFoundError, match=r"does not set 'llm\.model'"):
        unset_values(path, ("llm.model",))


def test_a_value_where_a_table_belongs_is_not_overwritten(path) -> None:
    path.write_text("llm = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="must be a table"):
        set_values(path, {"llm.model": "m"})
    assert path.read_text("utf-8") == "llm = 3\n"


def test_broken_toml_is_not_touched(path) -> None:
    path.write_text("[llm\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        set_values(path, {"llm.model": "m"})
    assert path.read_text("utf-8") == "[llm\n"


def test_a_dry_run_tells_and_changes_nothing(path) -> None:
    path.write_text(COMMENTED, encoding="utf-8")
    planned = set_values(path, {"budget.total": "5"}, dry_run=True)
    assert "-total = 900\n+total = 5\n" in planned.diff
    assert path.read_text("utf-8") == COMMENTED


def test_the_same_value_again_changes_nothing(path) -> None:
    path.write_text(COMMENTED, encoding="utf-8")
    before = path.stat().st_mtime_ns
    assert not set_values(path, {"budget.total": "900"}).changes
    assert path.stat().st_mtime_ns == before


def test_a_first_file_is_short_and_holds_what_was_chosen(path) -> None:
    write_new(path, {"llm.preset": "ollama", "name": "Zoë"})
    config = load_config(path)
    assert (config.name, config.llm.preset) == ("Zoë", "ollama")
    assert len(path.read_text("utf-8").splitlines()) < 10


def test_a_first_file_never_replaces_another(path) -> None:
    path.write_text("# mine\n", encoding="utf-8")
    with pytest.raises(ConflictError):
        write_new(path, {"name": "x"})
    assert path.read_text("utf-8") == "# mine\n"


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_link_stays_a_link(path, tmp_path) -> None:
    real = tmp_path / "elsewhere.toml"
    real.write_text("name = 'a'\n", encoding="utf-8")
    path.symlink_to(real)
    set_values(path, {"name": "b"})
    assert path.is_symlink()
    assert load_config(real).name == "b"


@pytest.mark.skipif(sys.platform == "win32", reason="modes mean little there")
def test_a_file_that_others_may_read_is_closed_to_them(path) -> None:
    path.write_text("", encoding="utf-8")
    path.chmod(0o640)
    set_values(path, {"name": "b"})
    assert path.stat().st_mode & 0o777 == 0o600


def test_nothing_is_left_beside_the_file(path, tmp_path) -> None:
    set_values(path, {"name": "b"})
    left = {file.name for file in tmp_path.iterdir() if file.suffix != ".lock"}
    assert left == {"character.toml"}


def test_two_writers_lose_neither_change(path) -> None:
    keys = ["name", "user_name", "llm.model", "budget.total", "budget.core", "history.recent_turns"]
    threads = [threading.Thread(target=set_values, args=(path, {key: "7"})) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = tomllib.loads(path.read_text("utf-8"))
    assert [str(read(after, key)) for key in keys] == ["7"] * len(keys)


def test_another_writer_is_waited_for_and_then_named(path, monkeypatch) -> None:
    monkeypatch.setattr(edit, "_LOCK_WAIT_S", 0.05)
    with edit.locked(path), pytest.raises(LockedError, match=r"character\.toml"):
        set_values(path, {"name": "b"})


def test_a_directory_that_cannot_be_made_is_an_error_and_no_traceback(tmp_path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(FamiliarError, match="could not be changed"):
        set_values(tmp_path / "file" / "character.toml", {"name": "b"})


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


@given(texts)
def test_any_text_comes_back_as_it_was(tmp_path_factory, text) -> None:
    path = tmp_path_factory.mktemp("edit") / "character.toml"
    set_values(path, {"system_prompt": text})
    assert load_config(path).system_prompt == text


@given(st.data())
def test_what_is_set_is_what_holds(tmp_path_factory, data) -> None:
    single = [one for one in all_settings().values() if not isinstance(one.default, tuple)]
    setting = data.draw(st.sampled_from(single))
    kinds = {
        str: st.sampled_from(setting.choices) if setting.choices else st.just("PATH"),
        int: st.integers(0, 10**9),
        float: st.floats(0, 1e9),
    }
    value = data.draw(
        kinds[type(setting.default)].filter(lambda v: value_problem(setting, v) is None)
    )
    path = tmp_path_factory.mktemp("edit") / "character.toml"
    set_values(path, {setting.key: str(value)})
    assert read(tomllib.loads(path.read_text("utf-8")), setting.key) == value
