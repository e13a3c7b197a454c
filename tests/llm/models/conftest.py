from __future__ import annotations

import hashlib
import threading
from functools import partial

import pytest

from familiar_cli.llm.models import fetch
from familiar_cli.llm.models.catalog import CATALOG, Hub, Model, ModelFile, ModelPart, Wheel
from tests.support.hub import HubServer
from tests.support.wheels import copied_from, make_wheel

CONTENT = bytes(range(256)) * 600
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PINNED = ModelFile("tiny.gguf", len(CONTENT), SHA256)
HUB = Hub("someone/tiny")
WHEEL = Wheel("tiny-model", "1.0", "tiny_model/")


def model_of(*parts: ModelPart, name: str = "tiny") -> Model:
    return Model(name, "gguf", "MIT", "tests", parts)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def pip() -> None:
    """Have the real pip fetch from the index, which takes half a second."""


@pytest.fixture
def index(request, tmp_path, monkeypatch):
    """An empty package index that pip uses; `make_wheel` fills it."""
    directory = tmp_path / "index"
    if "pip" not in request.fixturenames:
        monkeypatch.setattr(fetch, "_lines_of", partial(copied_from, directory))
    directory.mkdir()
    monkeypatch.delenv("FAMILIAR_OFFLINE")
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(directory), "CONFIG_FILE": ""}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    return directory


@pytest.fixture
def hub(monkeypatch):
    """A model hub without files; a test adds to `.files`."""
    from huggingface_hub import constants

    monkeypatch.delenv("FAMILIAR_OFFLINE", raising=False)
    with HubServer({}) as server:
        template = server.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield server


@pytest.fixture
def catalogued(monkeypatch):
    """Put a model into the catalog for one test."""

    def add(model: Model) -> Model:
        monkeypatch.setitem(CATALOG, model.name, model)
        return model

    return add


@pytest.fixture
def tiny(catalogued, index):
    """A model that the package index has."""
    make_wheel(index, "tiny-model", {"tiny_model/tiny.gguf": CONTENT})
    return catalogued(model_of(ModelPart((PINNED,), (WHEEL,))))


@pytest.fixture
def at_once():
    """Run something in several threads and return what each gave."""

    def run(number, job):
        results: list[object] = [None] * number

        def one(position: int) -> None:
            results[position] = job()

        threads = [threading.Thread(target=one, args=(n,)) for n in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    return run
