from __future__ import annotations

import hashlib
import io
import os
import struct
import zlib
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import FamiliarError, RemoteDamagedError
from familiar_cli.store.journal.objects import Objects, git_object
from familiar_cli.store.journal.packs import check_pack

BLOB = 3
REF_DELTA = 7


def varint(size: int) -> bytes:
    out = bytearray()
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*out, size])


def entry(kind: int, claimed: int, compressed: bytes, base: bytes = b"") -> bytes:
    head = kind << 4 | claimed & 15
    more = claimed >> 4
    return (
        bytes([head | (0x80 if more else 0)]) + (varint(more) if more else b"") + base + compressed
    )


def pack(*entries: bytes) -> io.BytesIO:
    content = b"PACK" + struct.pack(">LL", 2, len(entries)) + b"".join(entries)
    return io.BytesIO(content + hashlib.sha1(content).digest())


def blob(content: bytes) -> bytes:
    return entry(BLOB, len(content), zlib.compress(content))


@given(st.lists(st.binary(max_size=40_000), max_size=8))
def test_a_pack_of_ordinary_objects_is_read_to_its_checksum(contents) -> None:
    check_pack(pack(*map(blob, contents)))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_pack_or_are_refused(content) -> None:
    for start in (b"", b"PACK\0\0\0\2\0\0\0\3"):
        with pytest.raises(RemoteDamagedError):
            check_pack(io.BytesIO(start + content + b"."))


@cache
def deflated_zeros(count: int) -> bytes:
    maker = zlib.compressobj(1)
    part = b"\0" * (1 << 20)
    return b"".join(maker.compress(part) for _ in range(count >> 20)) + maker.flush()


@pytest.mark.parametrize("claimed", [2 << 30, 100])
def test_many_zeros_are_refused_without_being_held(claimed) -> None:
    resource = pytest.importorskip("resource")
    bomb = pack(entry(BLOB, claimed, deflated_zeros(1 << 28)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RemoteDamagedError):
        check_pack(bomb)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # in KB


def test_a_small_difference_that_becomes_a_large_object_is_refused() -> None:
    delta = varint(10) + varint(2 << 30) + b"\x90\x0a"
    bomb = pack(entry(REF_DELTA, len(delta), zlib.compress(delta), bytes(20)))
    with pytest.raises(RemoteDamagedError, match="2,147,483,648"):
        check_pack(bomb)


def test_a_number_without_end_is_no_size() -> None:
    with pytest.raises(RemoteDamagedError):
        check_pack(io.BytesIO(b"PACK\0\0\0\2\0\0\0\1" + b"\xff" * 100_000))


def test_a_pack_that_ends_early_is_refused() -> None:
    whole = pack(blob(b"one"), blob(b"two")).getvalue()
    with pytest.raises(RemoteDamagedError, match="truncated"):
        check_pack(io.BytesIO(whole[:30]))


def test_a_loose_object_of_others_is_not_unpacked_when_it_is_too_large(tmp_path) -> None:
    objects = Objects(str(tmp_path), is_foreign=True)
    id_ = "ab" + "0" * 38
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / id_[2:]).write_bytes(deflated_zeros(1 << 28))
    with pytest.raises(FamiliarError, match="nothing was merged"):
        objects.get(id_)


def test_what_others_wrote_is_read_like_our_own(tmp_path) -> None:
    own = [git_object("blob", os.urandom(n * 100)) for n in range(40)]
    ours = Objects(str(tmp_path))
    (tmp_path / "pack").mkdir()
    ours.write(own)
    ours.write(own[:3])
    objects = Objects(str(tmp_path), is_foreign=True)
    assert [objects.get(one.id) for one in own] == own
    objects.close()
    ours.close()


def test_what_was_packed_before_stays_when_the_same_is_written_and_taken_back(tmp_path) -> None:
    own = [git_object("blob", bytes([n])) for n in range(40)]
    objects = Objects(str(tmp_path))
    (tmp_path / "pack").mkdir()
    objects.write(own)
    objects.keep()
    objects.write(own)
    objects.discard()
    assert [objects.get(one.id) for one in own] == own
    assert len(list((tmp_path / "pack").iterdir())) == 2
    objects.close()
