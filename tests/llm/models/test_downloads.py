from __future__ import annotations

import hashlib

import pytest

from familiar_cli.base.errors import FetchError
from familiar_cli.llm.models import fetch
from familiar_cli.llm.models.store import sha256_of
from tests.support.cases import each
from tests.support.wheels import zipped


def test_the_checksum_is_sha256(tmp_path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert sha256_of(path) == hashlib.sha256(b"abc").hexdigest()


def test_the_name_that_git_gives_is_what_git_gives(tmp_path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"test content\n")
    assert fetch.git_sha1_of(path) == "d670460b4b4aece5915caf5c68d12f560a9fe3e4"


def test_another_file_is_refused(tmp_path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    with pytest.raises(FetchError, match="not the expected file"):
        fetch.check_sha256(path, "0" * 64, "a test")


def test_a_member_is_written_where_it_is_asked_for_whatever_its_name(tmp_path) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped({"../../evil": b"data"}))
    fetch.extract(archive, "../../evil", tmp_path / "good")
    assert (tmp_path / "good").read_bytes() == b"data"
    assert not (tmp_path.parent / "evil").exists()


def test_a_member_larger_than_it_should_be_is_refused(tmp_path) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped({"bomb": b"\x00" * 3_000_000}))
    with pytest.raises(FetchError, match="larger than the 1,000 bytes"):
        fetch.extract(archive, "bomb", tmp_path / "out", 1000)
    assert not (tmp_path / "out").stat().st_size


def test_a_member_that_is_not_there_is_an_error(tmp_path) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped({"a": b""}))
    with pytest.raises(FetchError, match="No 'b'"):
        fetch.extract(archive, "b", tmp_path / "out")


@each("cut", [0, 10, -30])
def test_a_broken_archive_is_an_error(cut, tmp_path) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped({"a": b"data" * 100})[:cut])
    with pytest.raises(FetchError, match="not a usable archive"):
        fetch.extract(archive, "a", tmp_path / "out")


def test_a_member_with_a_wrong_checksum_is_an_error(tmp_path) -> None:
    content = bytearray(zipped({"a": bytes(range(256))}))
    content[40] ^= 0xFF
    archive = tmp_path / "a.zip"
    archive.write_bytes(content)
    with pytest.raises(FetchError, match="not a usable archive"):
        fetch.extract(archive, "a", tmp_path / "out")
