"""Each place where a familiar lives has an id of its own, made once and kept outside memory."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli import Familiar
from familiar_cli.base.config import home as instances
from familiar_cli.base.config.home import (
    FamiliarPaths,
    begin_instance,
    ensure_instance,
    host_name,
    is_instance_id,
    new_id,
    read_instance,
    replace_id,
)
from familiar_cli.base.errors import ConfigError
from tests.support.processes import Process


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mo" / "instance.id"


def test_an_id_is_made_once(path) -> None:
    assert ensure_instance(path) == ensure_instance(path) == read_instance(path)


def test_the_instance_that_made_a_familiar_began_it(path) -> None:
    assert ensure_instance(path).is_first


def test_what_the_settings_choose_is_the_readable_part(path) -> None:
    assert ensure_instance(path, chosen="büro").id.startswith("buro-")


@given(st.text(max_size=80))
def test_any_name_makes_an_id(chosen) -> None:
    assert is_instance_id(new_id(chosen))


def test_two_ids_of_one_machine_differ() -> None:
    assert len({new_id("laptop") for _ in range(20)}) > 1


ENSURE = """
import sys
from pathlib import Path
from familiar_cli.base.config.home import ensure_instance
print(ensure_instance(Path(sys.argv[1])).id)
"""


def test_processes_that_race_agree(path) -> None:
    argv = [sys.executable, "-c", ENSURE, str(path)]
    racing = [Process(argv, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    found = {one.communicate(timeout=60)[0].strip() for one in racing}
    assert found == {read_instance(path).id}
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_disk_without_second_names_gets_an_id_too(path, monkeypatch) -> None:
    def refuse(*_) -> None:
        raise OSError(errno.EPERM, "no second names here")

    monkeypatch.setattr(os, "link", refuse)
    assert ensure_instance(path) == ensure_instance(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"laptop-7f3a", b'id = "laptop"', b'id = 5\nbegan = "a"', b"\xff\xfe", b'id = "../x"\n'],
)
def test_a_damaged_file_is_one_clear_error(path, content) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="is damaged; nothing was changed"):
        ensure_instance(path)
    assert path.read_bytes() == content


def test_a_file_that_cannot_be_read_is_one_clear_error(path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be read"):
        ensure_instance(path)


def test_a_person_may_write_the_file_by_hand(path) -> None:
    path.parent.mkdir()
    path.write_text("id='desk-1'  # mine\nbegan = 'laptop-7f3a'\n", encoding="utf-8")
    found = read_instance(path)
    assert (found.id, found.began) == ("desk-1", "laptop-7f3a")


def test_a_second_machine_knows_where_the_familiar_began(path) -> None:
    made = begin_instance(path, "laptop-7f3a")
    assert (made.began, made.is_first, read_instance(path)) == ("laptop-7f3a", False, made)


def test_a_second_machine_does_not_replace_an_instance(path) -> None:
    made = ensure_instance(path)
    with pytest.raises(ConfigError, match="is there already"):
        begin_instance(path, "laptop-7f3a")
    assert read_instance(path) == made


def test_an_id_that_two_machines_have_is_replaced_on_one(path) -> None:
    old = ensure_instance(path)
    new = replace_id(path, old.id)
    assert new == read_instance(path)
    assert (new.id != old.id, new.began) == (True, old.id)


def test_an_id_is_replaced_once_even_if_two_processes_notice(path) -> None:
    old = ensure_instance(path)
    assert replace_id(path, old.id) == replace_id(path, old.id)


def test_a_full_disk_is_no_reason_to_delete_the_id(path, monkeypatch) -> None:
    known = ensure_instance(path)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(instances.files, "write_whole", fail)
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        replace_id(path, known.id)
    assert caught.value.hint.startswith("The disk is full")


def test_an_id_is_made_when_it_is_needed(tmp_path) -> None:
    paths = FamiliarPaths(tmp_path / "mo")
    paths.memory.mkdir(parents=True)
    with Familiar(paths) as familiar:
        assert familiar.days_name == host_name()
        assert not paths.instance.exists()
        assert familiar.instance == read_instance(paths.instance)
        assert familiar.days_name == familiar.instance.id


def test_the_setting_decides_what_days_are_named_after(tmp_path) -> None:
    paths = FamiliarPaths(tmp_path / "mo")
    paths.memory.mkdir(parents=True)
    paths.config.write_text('[instance]\nid = "laptop"\n', encoding="utf-8")
    with Familiar(paths) as familiar:
        assert familiar.instance.id.startswith("laptop-")
        assert familiar.days_name == "laptop"


def test_the_note_in_the_file_says_what_it_is(path) -> None:
    ensure_instance(path)
    assert path.read_text(encoding="utf-8").startswith(instances._NOTE)
