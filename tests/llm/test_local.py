from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import httpx
import pytest

from familiar_cli.base.config.environment import install_command
from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.base.errors import ModelError, ModelUnknownError, PromptTooLongError
from familiar_cli.llm.client import LocalModel
from familiar_cli.llm.models.store import path_of
from familiar_cli.llm.open import open_model, probe_model
from familiar_cli.llm.slots import resolve_slot
from tests.support.cases import each

HELLO = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello, Zoë."}]


def local(cache, **settings) -> LocalModel:
    model = open_model(resolve_slot(LLMSettings(**settings)), cache_dir=cache)
    assert isinstance(model, LocalModel)
    return model


@pytest.fixture(scope="module")
def loaded(model_cache):
    """One model for the tests that only talk to it."""
    model = local(model_cache, max_tokens=6)
    yield model
    asyncio.run(model.aclose())


def test_it_streams_replies_to_several_event_loops_and_keeps_to_the_token_limit(loaded) -> None:
    for asked in (HELLO, [{"role": "user", "content": "Tell a long story about the sea."}]):
        pieces: list[str] = []
        reply = asyncio.run(loaded.complete(loaded.prepare(asked), pieces.append))
        assert reply.text == "".join(pieces) != ""
        assert reply.model == "smollm2-135m-instruct"
        assert reply.usage.prompt_tokens > 10
        assert 0 < reply.usage.completion_tokens <= 6
    assert reply.finish_reason == "length"


def test_other_users_of_the_machine_cannot_use_it(loaded) -> None:
    asyncio.run(loaded.complete(loaded.prepare(HELLO)))
    address = loaded._server.listening_address
    assert address.startswith("http://127.0.0.1:")
    answer = httpx.post(f"{address}/v1/chat/completions", json={"messages": HELLO})
    assert answer.status_code == 401


def test_a_prompt_that_is_too_long_is_named_so(loaded) -> None:
    asked = [{"role": "user", "content": "sea " * 9000}]
    with pytest.raises(PromptTooLongError, match="exceeds the available context"):
        asyncio.run(loaded.complete(loaded.prepare(asked)))


def test_cancelling_leaves_it_ready_for_the_next_question(loaded) -> None:
    async def cancel_then_ask() -> str:
        begun = asyncio.Event()
        request = loaded.prepare([{"role": "user", "content": "Count to a thousand."}])
        task = asyncio.create_task(loaded.complete(request, lambda _: begun.set()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return (await loaded.complete(loaded.prepare(HELLO))).text

    assert asyncio.run(cancel_then_ask())


def test_preparing_loads_nothing(tmp_path) -> None:
    model = local(tmp_path)
    request = model.prepare(HELLO)
    assert request.url == "local:smollm2-135m-instruct/chat/completions"
    assert "Zoë".encode() in request.body
    assert model._server is None


async def test_a_model_that_is_not_on_disk_names_the_command_that_fetches_it(tmp_path) -> None:
    model = local(tmp_path)
    with pytest.raises(ModelUnknownError, match="not on this machine yet") as caught:
        await model.complete(model.prepare(HELLO))
    assert caught.value.hint == "Run `familiar model pull smollm2-135m-instruct`."


@each("name", ["smolm2-135m", "minilm-l6-v2", "nowhere.gguf"])
async def test_a_model_that_cannot_chat_is_an_error(name, tmp_path) -> None:
    model = local(tmp_path, model=name)
    with pytest.raises(ModelUnknownError, match=name) as caught:
        await model.complete(model.prepare(HELLO))
    assert "familiar config set llm.model" in caught.value.hint


async def test_without_the_extra_the_error_tells_how_to_install_it(
    model_cache, monkeypatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    model = local(model_cache)
    with pytest.raises(ModelError, match="not installed") as caught:
        await model.complete(model.prepare(HELLO))
    assert install_command("local") in caught.value.hint


async def test_a_file_that_is_no_model_is_an_error(tmp_path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    model = local(tmp_path, model=str(path))
    with pytest.raises(ModelError, match="could not be loaded"):
        await model.complete(model.prepare(HELLO))


def test_of_any_file_a_probe_closes_the_server_and_asking_starts_it_again(model_cache) -> None:
    named = str(path_of("smollm2-135m-instruct", model_cache))
    model = local(model_cache, model=named, max_tokens=4)
    found = asyncio.run(probe_model(model))
    assert 0 < found.first_text_s <= found.total_s
    assert found.tokens_per_s > 1
    assert model._server is None
    reply = asyncio.run(model.complete(model.prepare(HELLO)))
    assert (reply.model, reply.text != "") == (model.name, True)
    address = model._server.listening_address
    asyncio.run(model.aclose())
    with pytest.raises(httpx.ConnectError):
        httpx.get(address)


TALK = """
import asyncio, sys
from pathlib import Path
from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.llm.open import open_model
from familiar_cli.llm.slots import resolve_slot

async def talk():
    model = open_model(resolve_slot(LLMSettings(max_tokens={tokens})), cache_dir=Path({cache!r}))
    request = model.prepare([{{"role": "user", "content": "Tell a long story."}}])
    await model.complete(request, lambda _: print("#", end="", flush=True))

asyncio.run(talk())
"""


def test_nothing_but_the_reply_reaches_the_streams_and_the_process_ends_cleanly(model_cache):
    code = TALK.format(tokens=3, cache=str(model_cache))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert set(done.stdout) == {ord("#")}


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_ctrl_c_in_the_middle_of_a_reply_ends_the_process_at_once(model_cache) -> None:
    code = TALK.format(tokens=1000, cache=str(model_cache))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.read(3) == b"###"
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert stderr.rstrip().endswith(b"KeyboardInterrupt")
