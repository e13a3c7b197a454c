from __future__ import annotations

import re

from familiar_cli.llm.models.catalog import CATALOG, Hub, Wheel
from tests.support.cases import each

MODELS = sorted(CATALOG)


@each("name", MODELS)
def test_every_model_says_whose_it_is_and_what_it_is_for(name) -> None:
    model = CATALOG[name]
    assert model.name == name == name.lower()
    assert model.licence in {"Apache-2.0", "MIT"}
    assert model.purpose


@each("name", MODELS)
def test_every_file_is_pinned_unless_the_hub_alone_has_it(name) -> None:
    for part in CATALOG[name].parts:
        pinned = all(re.fullmatch(r"[0-9a-f]{64}", file.sha256) for file in part.files)
        assert pinned or all(isinstance(source, Hub) for source in part.sources)


@each("name", MODELS)
def test_the_hub_comes_before_the_index(name) -> None:
    for part in CATALOG[name].parts:
        kinds = [source.name for source in part.sources]
        assert kinds == sorted(kinds) != []


@each("name", MODELS)
def test_file_names_are_plain(name) -> None:
    for file in CATALOG[name].files:
        assert re.fullmatch(r"[A-Za-z0-9][\w.-]*", file.name)


def test_a_package_is_always_one_version() -> None:
    wheels = [
        source
        for model in CATALOG.values()
        for part in model.parts
        for source in part.sources
        if isinstance(source, Wheel)
    ]
    assert all(re.fullmatch(r"\d+(\.\d+)+", wheel.version) for wheel in wheels)


def test_the_default_chat_model_and_the_encoding_are_in_the_catalog() -> None:
    from familiar_cli.llm.models.store import TOKEN_ENCODING
    from familiar_cli.llm.slots import LOCAL_MODEL

    assert CATALOG[LOCAL_MODEL].kind == "gguf"
    assert CATALOG[TOKEN_ENCODING].kind == "encoding"


def test_embedding_models_have_the_names_and_files_that_fastembed_knows() -> None:
    from fastembed import TextEmbedding

    known = {entry["model"]: entry for entry in TextEmbedding.list_supported_models()}
    for model in CATALOG.values():
        if model.kind == "onnx":
            assert known[model.hub_id]["model_file"] in {file.name for file in model.files}
            assert known[model.hub_id]["license"].upper() == model.licence.upper()


def test_three_larger_chat_models_tell_their_size_and_memory() -> None:
    larger = [model for model in CATALOG.values() if model.parameters >= 1_000_000_000]
    assert len(larger) == 3
    for model in larger:
        assert model.kind == "gguf"
        assert model.parameters < 4_100_000_000
        assert model.memory_bytes > model.size_bytes > 1_000_000_000
        assert not model.is_small


def test_only_the_model_that_every_machine_runs_is_small() -> None:
    from familiar_cli.llm.slots import LOCAL_MODEL

    assert [model.name for model in CATALOG.values() if model.is_small] == [LOCAL_MODEL]
