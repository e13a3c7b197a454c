"""The model hub: files of a repository over HTTP. Its address comes from its own library."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from familiar_cli.errors import FetchError
from familiar_cli.models import downloads
from familiar_cli.models.downloads import Progress
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx

    from familiar_cli.models.catalog import File, Hub

# An unreachable hub should cost seconds, not minutes.
CONNECT_S = 4.0
READ_S = 30.0
_TRIES = 4


def fetch_file(hub: Hub, file: File, into: Path, report: Callable[[Progress], None]) -> None:
    """Put one file of a repository into the directory `into`.

    Raises:
        FetchError: The hub cannot be reached, lacks the file, or has another one by that name.
    """
    import httpx  # noqa: PLC0415
    from huggingface_hub import get_hf_file_metadata, hf_hub_url  # noqa: PLC0415  # 0.4 s
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled  # noqa: PLC0415

    path = hub.paths.get(file.name, file.name)
    url = hf_hub_url(hub.repo, path, revision=hub.revision)
    try:
        about = get_hf_file_metadata(url, token=False, timeout=CONNECT_S)
        announced = _announced(hub, file, about.etag, about.size)
        _download(url, into / file.name, announced, report, hub)
    except (HfHubHTTPError, OfflineModeIsEnabled, httpx.HTTPError, httpx.InvalidURL) as error:
        words = one_line(str(error), 160) or type(error).__name__
        raise FetchError(
            f"the model hub did not deliver {path!r} of {hub.repo!r}: {words}"
        ) from error
    _check_announced(into / file.name, announced, hub)


def _announced(hub: Hub, file: File, etag: str | None, size: int | None) -> File:
    """Return what the hub says the file is, before any of it is fetched.

    Raises:
        FetchError: It says nothing, or the pinned file is another one.
    """
    if not etag or size is None:
        raise FetchError(f"the model hub gives no checksum for {file.name!r} in {hub.repo!r}")
    if file.sha256 and (size != file.size_bytes or (_is_sha256(etag) and etag != file.sha256)):
        raise FetchError(f"the model hub's {file.name!r} in {hub.repo!r} is another file")
    return type(file)(file.name, size, file.sha256 or etag)


def _check_announced(path: Path, announced: File, hub: Hub) -> None:
    origin = f"{hub.repo!r} on the model hub"
    if _is_sha256(announced.sha256):
        downloads.check_sha256(path, announced.sha256, origin)
    elif downloads.git_sha1_of(path) != announced.sha256:
        raise FetchError(f"{path.name!r} from {origin} does not match what the hub announced")


def _is_sha256(checksum: str) -> bool:
    return len(checksum) == 64  # noqa: PLR2004


def _download(
    url: str, target: Path, announced: File, report: Callable[[Progress], None], hub: Hub
) -> None:
    """Fetch `url`, going on where a broken connection left off."""
    import httpx  # noqa: PLC0415

    timeout = httpx.Timeout(READ_S, connect=CONNECT_S)
    origin = f"the model hub, {hub.repo}"
    target.write_bytes(b"")
    with httpx.Client(timeout=timeout, follow_redirects=True) as client:
        for tried in range(_TRIES):
            try:
                for done in _append(client, url, target, announced.size_bytes):
                    report(Progress(target.name, origin, done, announced.size_bytes))
            except httpx.TransportError:
                if tried == _TRIES - 1:
                    raise
                time.sleep(0.2 * 2**tried)
            else:
                break
    if target.stat().st_size != announced.size_bytes:
        raise FetchError(f"{target.name!r} from {origin} arrived incomplete")


def _append(client: httpx.Client, url: str, target: Path, size_bytes: int) -> Iterator[int]:
    """Fetch what is missing of `target`; a server that cannot do that sends it all again."""
    have = target.stat().st_size
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with client.stream("GET", url, headers=headers) as response:
        response.raise_for_status()
        resumed = response.status_code == 206  # noqa: PLR2004
        with target.open("ab" if resumed else "wb") as file:
            for block in response.iter_raw():
                file.write(block)
                if file.tell() > size_bytes:
                    raise FetchError(f"{target.name!r} is larger than the hub announced")
                yield file.tell()
