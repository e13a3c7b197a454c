"""Packs of git and of dulwich are read object by object; damaged ones are refused."""

from __future__ import annotations

import subprocess
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import RemoteDamagedError
from familiar_cli.store.journal.objects import make_delta
from familiar_cli.store.journal.packs import PackReader, UnknownIndexError, apply_delta
from tests.support.cases import each

BODY = "".join(f"- line {n} of a page that grows\n" for n in range(400))


def git(where: Path, *words: str, given: bytes = b"") -> bytes:
    run = subprocess.run(
        ["git", "-C", str(where), *words], input=given, capture_output=True, check=True
    )
    return run.stdout


def packed(where: Path, *options: str) -> dict[str, bytes]:
    """Make a repository whose objects are all in one pack, and return its files' contents."""
    git(where, "init", "-q", "--bare", ".")
    texts = [f"{BODY}- version {n}\n".encode() for n in range(60)] + [b"", b"x" * 100_000]
    ids = [
        git(where, "hash-object", "-w", "--stdin", given=text).decode().strip() for text in texts
    ]
    rows = "\n".join(f"{id_} page.md" for id_ in ids).encode()
    git(where, *options, "pack-objects", "-q", "--depth=30", "objects/pack/pack", given=rows)
    git(where, "prune-packed", "-q")
    return dict(zip(ids, texts, strict=True))


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> tuple[Path, dict[str, bytes]]:
    where = tmp_path_factory.mktemp("repository")
    return where / "objects" / "pack", packed(where)


@each("options", [(), ("-c", "repack.useDeltaBaseOffset=false"), ("-c", "pack.compression=9")])
def test_what_git_packs_is_read(tmp_path, options) -> None:
    contents = packed(tmp_path, *options)
    reader = PackReader(str(tmp_path / "objects" / "pack"))

    assert {id_: reader.get(id_) for id_ in contents} == {
        id_: (3, text) for id_, text in contents.items()
    }
    assert all(map(reader.has, contents))
    assert not reader.has("0" * 40)
    with pytest.raises(KeyError):
        reader.get("f" * 40)
    reader.close()


def test_a_pack_that_comes_later_is_found(tmp_path) -> None:
    (tmp_path / "objects" / "pack").mkdir(parents=True)
    reader = PackReader(str(tmp_path / "objects" / "pack"))
    assert not reader.has("0" * 40)

    contents = packed(tmp_path)

    assert all(map(reader.has, contents))
    reader.close()


def test_an_object_that_is_too_large_is_not_unpacked(repository) -> None:
    directory, contents = repository
    reader = PackReader(str(directory), most_bytes=50_000)
    large = next(id_ for id_, text in contents.items() if len(text) > 50_000)

    with pytest.raises(RemoteDamagedError, match="100,000 bytes"):
        reader.get(large)
    reader.close()


def test_an_index_of_another_kind_is_told(tmp_path) -> None:
    (tmp_path / "pack-1.idx").write_bytes(bytes(2000))
    with pytest.raises(UnknownIndexError):
        PackReader(str(tmp_path)).has("0" * 40)


@given(st.sampled_from([".pack", ".idx"]), st.integers(8, 20_000), st.binary(min_size=1))
def test_a_damaged_pack_gives_what_was_there_or_an_error(
    repository, tmp_path_factory, suffix, at, bad
) -> None:
    directory, contents = repository
    there = tmp_path_factory.mktemp("damaged")
    for path in directory.iterdir():
        content = path.read_bytes()
        if path.suffix == suffix:
            content = content[: at % len(content)] + bad + content[at % len(content) + len(bad) :]
        (there / path.name).write_bytes(content)
    reader = PackReader(str(there))
    for id_ in list(contents)[::6]:
        with suppress(KeyError, ValueError, OSError, zlib.error, UnknownIndexError):
            reader.get(id_)
    reader.close()


@given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=300))
def test_a_difference_makes_what_it_was_made_of(one, middle, other) -> None:
    base, target = one + other, one + middle + other
    assert apply_delta(base, make_delta(base, target)) == target


@given(st.binary(max_size=50), st.binary(max_size=100))
def test_any_bytes_are_a_difference_or_are_refused(base, difference) -> None:
    try:
        apply_delta(base, difference)
    except ValueError:
        return


def test_a_number_without_end_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="unterminated"):
        apply_delta(b"", b"\x80" * 50_000_000)
