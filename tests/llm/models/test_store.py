from __future__ import annotations

import pytest

from familiar_cli.base.errors import NotFoundError
from familiar_cli.llm.models import store
from familiar_cli.llm.models.catalog import ModelFile, ModelPart
from familiar_cli.llm.models.store import listing
from tests.llm.models.conftest import CONTENT, PINNED, WHEEL, model_of

SECOND = ModelFile(
    "config.json", 2, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
)


@pytest.fixture
def model(catalogued):
    return catalogued(model_of(ModelPart((PINNED,), (WHEEL,)), ModelPart((SECOND,), (WHEEL,))))


def put(cache, name: str, content: bytes) -> None:
    directory = cache / "models" / "tiny"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(content)


def test_a_model_is_ready_when_all_its_files_are_there(model, cache) -> None:
    assert store.state(model, cache) == "absent"
    put(cache, "tiny.gguf", CONTENT)
    assert store.state(model, cache) == "partial"
    put(cache, "config.json", b"{}")
    assert store.state(model, cache) == "ready"
    assert store.path_of("tiny", cache) == cache / "models" / "tiny"


def test_a_model_of_one_file_is_that_file(catalogued, cache) -> None:
    catalogued(model_of(ModelPart((PINNED,), (WHEEL,))))
    put(cache, "tiny.gguf", CONTENT)
    assert store.path_of("tiny", cache) == cache / "models" / "tiny" / "tiny.gguf"


def test_a_file_that_is_cut_short_does_not_count_as_there(model, cache) -> None:
    put(cache, "tiny.gguf", CONTENT[:-1])
    put(cache, "config.json", b"{}")
    assert store.path_of("tiny", cache) is None


def test_a_directory_in_place_of_a_file_does_not_count_as_there(model, cache) -> None:
    (cache / "models" / "tiny" / "tiny.gguf").mkdir(parents=True)
    assert store.state(model, cache) == "absent"


def test_a_file_with_other_content_is_found_by_reading_it(model, cache) -> None:
    put(cache, "tiny.gguf", bytes(len(CONTENT)))
    put(cache, "config.json", b"{}")
    assert store.state(model, cache) == "ready"
    assert store.broken_files(model, cache) == ["tiny.gguf"]
    listed = {entry.name: entry for entry in listing(cache, check=True)}
    assert listed["tiny"].broken == ("tiny.gguf",)


def test_a_file_of_the_hub_counts_as_there_only_with_its_receipt(catalogued, cache) -> None:
    catalogued(model_of(ModelPart((ModelFile("tiny.gguf", 5),), (WHEEL,))))
    put(cache, "tiny.gguf", CONTENT)
    assert store.path_of("tiny", cache) is None
    note = f'{{"tiny.gguf": {{"size_bytes": {len(CONTENT)}, "sha256": "x"}}}}'
    put(cache, store.RECEIPT, note.encode())
    assert store.path_of("tiny", cache) is not None


@pytest.mark.parametrize("note", [b"", b"[]", b"{", b'{"tiny.gguf": {}}', b"\xff"])
def test_a_broken_receipt_is_none(note, catalogued, cache) -> None:
    catalogued(model_of(ModelPart((ModelFile("tiny.gguf", 5),), (WHEEL,))))
    put(cache, "tiny.gguf", CONTENT)
    put(cache, store.RECEIPT, note)
    assert store.path_of("tiny", cache) is None


def test_removing_tells_how_much_room_that_gives(model, cache) -> None:
    put(cache, "tiny.gguf", CONTENT)
    assert store.remove("tiny", cache).freed_bytes == len(CONTENT)
    assert store.remove("tiny", cache).freed_bytes == 0
    assert not (cache / "models" / "tiny").exists()


def test_an_unknown_name_is_an_error_with_the_nearest(cache) -> None:
    with pytest.raises(NotFoundError, match="smollm-135") as caught:
        store.path_of("smollm-135m-instruct", cache)
    assert "smollm2-135m-instruct" in caught.value.hint


@pytest.mark.parametrize("name", ["", "../../etc", "SmolLM2/..", "\x1b[31m"])
def test_a_name_is_never_a_path(name, cache) -> None:
    with pytest.raises(NotFoundError):
        store.remove(name, cache)


def test_a_model_is_known_by_the_name_of_its_library_too() -> None:
    assert store.find("BAAI/bge-small-en-v1.5").name == "bge-small-en-v1.5"


def test_the_encoding_is_found_once_it_is_there(cache, model_cache) -> None:
    assert store.encoding_path(cache) is None
    assert store.encoding_path(model_cache).name == "cl100k_base.tiktoken"
