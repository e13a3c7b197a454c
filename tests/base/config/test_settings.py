"""The flat table of settings says about each what a person needs to know."""

from __future__ import annotations

import pytest

from familiar_cli.base.config.settings import (
    all_settings,
    effective_settings,
    effective_value,
    line_of,
    nearest_key,
)
from familiar_cli.base.config.values import value_problem
from familiar_cli.base.times.clock import stopwatch_s
from tests.support.cases import each

SETTINGS = all_settings().values()


def test_every_default_is_allowed() -> None:
    found = {setting.key: value_problem(setting, setting.default) for setting in SETTINGS}
    assert len(found) > 100
    assert {key: why for key, why in found.items() if why is not None} == {}


def test_every_setting_has_a_meaning_in_one_line() -> None:
    docs = {setting.key: setting.doc for setting in SETTINGS}
    assert {key: d for key, d in docs.items() if not 10 < len(d) < 100 or "\n" in d} == {}


@each(
    ("typed", "meant"),
    [
        ("llm.presett", "llm.preset"),
        ("preset", "llm.preset"),
        ("lmm.model", "llm.model"),
        ("budget.history_sumary", "budget.history_summary"),
        ("llm.slots.recast.mdel", "llm.slots.recast.model"),
        ("timezon", "timezone"),
        ("qqqq", None),
    ],
)
def test_the_nearest_key_is_what_was_meant(typed, meant) -> None:
    assert nearest_key(typed) == meant


@each(
    ("text", "key", "line"),
    [
        ("a = 1\nb = 2\n", "b", 2),
        ("[t]\n\na = 1\n", "t.a", 3),
        ("[t]\n[u]\na = 1\n", "t.a", 1),
        ("s = '''\na = 1\n'''\na = 2\n", "a", 4),
        ("l = [\n 1,\n 2,\n]\na = 2\n", "a", 5),
        ("t.u.a = 1\n", "t.u.a", 1),
        ('"t.u" = 1\nt.u = 2\n', "t.u", 2),
        ("a = [\n{b=1},\n{c=']'}\n]\nd = 1\n", "d", 5),
        ('s = """\n]\n\'\'\'\n"""\nd = 1\n', "d", 5),
        ("a = 1\n", "b", None),
    ],
)
def test_a_key_is_found_on_its_line(text, key, line) -> None:
    assert line_of(text, tuple(key.split("."))) == line


def test_a_value_over_very_many_lines_does_not_hold_up_an_error() -> None:
    start = stopwatch_s()
    long = "]\n" * 100_000
    assert line_of(f"s = '''\n{long}'''\na = 1\n", ("a",)) is None
    assert stopwatch_s() - start < 10


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "character.toml"
    file.write_text(
        "[llm]\nmodel = 'big'\n[llm.slots.recast]\nretries = 9\n[budget]\ntotal = 0\n",
        encoding="utf-8",
    )
    return file


@pytest.mark.parametrize(
    ("key", "value", "source"),
    [
        ("llm.model", "big", "file"),
        ("llm.preset", "local", "default"),
        ("budget.total", 0, "file"),
        ("llm.slots.recast.retries", 9, "file"),
        ("llm.slots.recast.model", "big", "[llm]"),
        ("llm.slots.recast.preset", "local", "default"),
        ("llm.slots.memory_writer.model", "big", "[llm]"),
    ],
)
def test_what_holds_is_told_with_where_it_comes_from(path, key, value, source) -> None:
    row = effective_value(path, key)
    assert (row.value, row.source) == (value, source)


def test_the_environment_overrides_the_file(path, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_MODEL", "other")
    row = effective_value(path, "llm.model")
    assert (row.value, row.source) == ("other", "FAMILIAR_LLM_MODEL")


def test_only_the_slots_that_the_file_has_are_listed(path) -> None:
    slots = {row.setting.section for row in effective_settings(path) if "slots" in row.setting.key}
    assert slots == {"llm.slots.recast"}


def test_a_password_in_an_address_is_not_shown(path, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", "http://me:secret@host/v1")
    assert "secret" not in str(effective_value(path, "llm.base_url"))
