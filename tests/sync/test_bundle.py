from __future__ import annotations

import io
import subprocess
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import RemoteDamagedError
from familiar_cli.store.journal.exchange import JournalExchange
from familiar_cli.sync.sealing import Header, encode_bundle, read_header
from tests.support.cases import each
from tests.support.journals import HAS_GIT, World

ID = "0123456789" * 4
_ids = st.text("0123456789abcdef", min_size=40, max_size=40)
_refs = st.from_regex(r"refs/heads/(memory|turns)/[a-z0-9]{1,8}-[0-9a-f]{4}", fullmatch=True)
needs_git = pytest.mark.skipif(not HAS_GIT, reason="needs the git program")


def bundle(world, refs, needs=()) -> bytes:
    exchange = JournalExchange(world.journal.repository, nullcontext)
    count, objects = exchange.packed(exchange.new_ids(refs.values(), needs))
    made = b"".join(encode_bundle(Header(refs, tuple(needs)), count, objects))
    world.journal.repository.close()
    return made


@given(st.dictionaries(_refs, _ids, max_size=5), st.lists(_ids, max_size=5))
def test_a_header_is_read_as_it_was_written(refs, needs) -> None:
    file = io.BytesIO(b"".join(encode_bundle(Header(refs, tuple(needs)), 0, iter(()))))
    assert read_header(file) == Header(refs, tuple(needs))
    assert file.read(4) == b"PACK"


@given(st.binary(max_size=300))
def test_any_bytes_are_a_bundle_or_are_refused(content) -> None:
    for start in (b"", b"# v2 git bundle\n", b"# v3 git bundle\n"):
        try:
            read_header(io.BytesIO(start + content))
        except RemoteDamagedError:
            continue


@each(
    "content",
    [
        b"",
        b"# v2 git bundle\n",
        b"# v4 git bundle\n\n",
        b"# v3 git bundle\n@object-format=sha256\n\n",
        b"# v3 git bundle\n@filter=blob:none\n\n",
        f"# v2 git bundle\n{ID} refs/heads/../../x\n\n".encode(),
        f"# v2 git bundle\n{ID} refs/tags/v1\n\n".encode(),
        f"# v2 git bundle\n{ID}{ID} refs/heads/main\n\n".encode(),
        b"# v2 git bundle\n" + b"x" * 10_000_000,
    ],
)
def test_what_is_no_bundle_of_ours_is_refused(content) -> None:
    with pytest.raises(RemoteDamagedError):
        read_header(io.BytesIO(content))


@needs_git
def test_git_clones_a_bundle(tmp_path) -> None:
    world = World(tmp_path / "one")
    world.commit("first", notes="- one\n")
    head = world.commit("second", people__ann="- likes tea\n")
    path = tmp_path / "x.bundle"
    path.write_bytes(bundle(world, {"refs/heads/main": head, "HEAD": head}))
    subprocess.run(["git", "clone", "-q", path, tmp_path / "clone"], check=True)
    assert (tmp_path / "clone/people/ann.md").read_text() == "- likes tea\n"


@needs_git
def test_a_bundle_holds_only_what_its_reader_lacks(tmp_path) -> None:
    world = World(tmp_path / "one")
    first = world.commit("first", notes="- one\n" * 5_000)
    head = world.commit("second", people__ann="- likes tea\n")
    path = tmp_path / "x.bundle"
    path.write_bytes(bundle(world, {"refs/heads/main": head}, [first]))
    assert "is okay" in world_git(world, "bundle", "verify", str(path))
    assert path.stat().st_size < 1_500


def world_git(world, *argv) -> str:
    where = ["--git-dir", str(world.root / "journal.git")]
    done = subprocess.run(["git", *where, *argv], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr
