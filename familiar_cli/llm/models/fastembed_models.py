"""Models beyond the catalog that fastembed knows by name, such as `intfloat/multilingual-e5-large`.

Importing fastembed takes a second or more, so it is imported only where such a model is fetched or
used. Files come from the model hub, and are opened from disk alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.config.home import fastembed_cache_dir
from familiar_cli.base.errors import FetchError, NotFoundError
from familiar_cli.base.text import nearest, one_line
from familiar_cli.llm.models.catalog import Hub, Model, ModelFile, ModelPart
from familiar_cli.llm.models.store import find_any, path_of_model

if TYPE_CHECKING:
    from fastembed import TextEmbedding

PURPOSE: Final = "searches by meaning, through fastembed"
_BESIDE_THE_MODEL: Final = frozenset(
    {"config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}
)
_CONNECT_S: Final = 4.0


def find_remote(name: str) -> Model:
    """Return a dense model with its current files on the hub.

    Raises:
        NotFoundError: fastembed is not installed, or knows no such model.
        FetchError: The hub cannot be reached, or lacks the model.
    """
    value = _find_description(name, _dense_models())
    repo = value.sources.hf
    if not repo:
        raise FetchError(f"{name!r} is not on the model hub")
    wanted = {value.model_file, *value.additional_files}
    revision, there = _list_files(repo)
    if not wanted <= there:
        raise FetchError(f"The model hub lacks {min(wanted - there)!r} of {repo!r}")
    size_bytes = int(value.size_in_GB * 1e9)
    files = tuple(
        ModelFile(path, size_bytes if path == value.model_file else 0)
        for path in sorted(there & (wanted | _BESIDE_THE_MODEL))
    )
    part = ModelPart(files, (Hub(repo, revision=revision),))
    return Model(value.model, "onnx", value.license, PURPOSE, (part,), value.model)


def directory_of(name: str, cache_dir: Path) -> Path | None:
    """Find a model's files in our cache, else in fastembed's.

    Raises:
        NotFoundError: It is in neither, and fastembed is not installed or knows no such model.
    """
    here, root = path_of_model(find_any(name, cache_dir), cache_dir), fastembed_cache_dir()
    if here or root is None:
        return here
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415

    known = _find_description(name, _dense_models())
    result = try_to_load_from_cache(known.sources.hf or name, known.model_file, cache_dir=root)
    depth = known.model_file.count("/")
    return Path(result).parents[depth] if isinstance(result, str) else None


def open_dense(name: str, directory: Path) -> TextEmbedding:
    """Open a dense model from its files.

    Raises:
        NotFoundError: fastembed is not installed, or knows no such model.
    """
    _find_description(name, _dense_models())
    from fastembed import TextEmbedding  # noqa: PLC0415

    return TextEmbedding(
        name,
        specific_model_path=str(directory),
        providers=["CPUExecutionProvider"],
        local_files_only=True,
    )


def dimension_of(name: str) -> int:
    """Return the length of a dense model's vectors.

    Raises:
        NotFoundError: fastembed is not installed, or knows no such model.
    """
    return int(_find_description(name, _dense_models()).dim)


def _dense_models() -> dict[str, Any]:
    _check_installed()
    from fastembed import TextEmbedding  # noqa: PLC0415

    return {one.model.lower(): one for one in TextEmbedding._list_supported_models()}  # noqa: SLF001


def _check_installed() -> None:
    try:
        import fastembed  # noqa: F401, PLC0415
        from loguru import logger  # noqa: PLC0415
    except ImportError as error:
        raise NotFoundError(
            f"fastembed does not work here: {error}",
            hint="Use a model from `familiar model list`, or install fastembed with pip.",
        ) from error
    logger.disable("fastembed")  # our errors say what it would print


def _find_description(name: str, known: dict[str, Any]) -> Any:  # noqa: ANN401  # of several classes
    value = known.get(name.lower())
    if value is None:
        guess = nearest(name.lower(), known)
        raise NotFoundError(
            f"fastembed knows no such model: {name!r}",
            hint=f"Did you mean {known[guess].model!r}?" if guess else "Run `familiar model list`.",
        )
    return value


def _list_files(repo: str) -> tuple[str, set[str]]:
    """Return the latest revision of a repository, and its files."""
    import httpx  # noqa: PLC0415
    from huggingface_hub import model_info  # noqa: PLC0415  # 0.4 s
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled  # noqa: PLC0415

    try:
        about = model_info(repo, timeout=_CONNECT_S, token=False)
    except (HfHubHTTPError, OfflineModeIsEnabled, httpx.HTTPError, OSError) as error:
        words = one_line(str(error), 160) or type(error).__name__
        raise FetchError(
            f"The model hub did not list the files of {repo!r}: {words}",
            hint="Check the network and try again.",
        ) from error
    return about.sha or "main", {one.rfilename for one in about.siblings or ()}
