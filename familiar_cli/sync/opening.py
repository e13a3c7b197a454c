"""Open a remote by its address."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from familiar_cli.config.environment import offline
from familiar_cli.errors import RemoteKeyError, RemoteUnreachableError
from familiar_cli.files import remove
from familiar_cli.memory.journal.exchange import INCOMING
from familiar_cli.sync.sealing import no_key
from familiar_cli.sync.signing import KEY_FILE, SignatureTrust, SigningKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from familiar_cli.memory.journal.exchange import JournalExchange
    from familiar_cli.sync.transport import Address, Transport

_LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}


SEEN: Final = "familiar-folders"
"""The directory in the journal that remembers what was seen in folders."""


@dataclass(frozen=True, slots=True)
class Sender:
    """How what is pushed is kept from others.

    Args:
        encrypt: `sync.encrypt`; empty: nothing is encrypted.
        key: Returns the secret that opens what is encrypted; see `Sealing`.
        old_keys: Returns secrets that were used before.
        tell: Told in words what a person should look at.
        trust: What is accepted of encrypted bundles without proof.
    """

    encrypt: tuple[str, ...] = ()
    key: Callable[[], str] = no_key
    old_keys: Callable[[], Sequence[str]] = tuple
    tell: Callable[[str], None] = lambda _: None
    trust: SignatureTrust = field(default_factory=SignatureTrust)


def open_transport(
    address: Address,
    exchange: JournalExchange,
    sender: Sender | None = None,
    *,
    name: str = "origin",
    ask: bool = False,
) -> Transport:
    """Return the way to a remote. The caller closes it.

    Args:
        address: Where it is.
        exchange: The journal.
        sender: How it is kept from others; None: not at all.
        name: What the remote is called here.
        ask: A person sits there who may be asked for a password.

    Raises:
        RemoteUnreachableError: There is nothing, or `FAMILIAR_OFFLINE` forbids to go there.
        RemoteKeyError: All that leaves is to be encrypted, and there it cannot be.
    """
    if address.kind == "folder":
        return _folder(address, exchange, sender or Sender(), name)
    if sender and sender.encrypt:
        raise RemoteKeyError(
            f"sync.encrypt is set, but {address.text!r} is a git remote, which would hold plain "
            "text; nothing was sent",
            hint="Only a folder can be encrypted: `familiar sync remote add NAME dir:PATH`. For "
            "plain git, run `familiar config unset sync.encrypt`.",
        )
    if address.kind == "path":
        from familiar_cli.sync.path_remote import PathRemote

        return PathRemote(address, exchange)
    if offline() and not _is_here(address):
        raise RemoteUnreachableError(
            f"FAMILIAR_OFFLINE is set, so {address.text!r} was not contacted",
            hint="Unset it to sync.",
        )
    from familiar_cli.sync.git_remote import GitRemote

    return GitRemote(address, exchange, ask=ask)


def forget_folder(journal: str, name: str) -> None:
    """Forget what was seen in a folder: it may begin anew. May raise OSError.

    Args:
        journal: The journal's directory.
        name: What the remote was called here.
    """
    remove(_seen_path(journal, name))


def refused_bundles(journal: str, name: str) -> dict[str, str]:
    """Return what was wrong with bundles that the last sync with a folder skipped, by name."""
    from familiar_cli.sync.bundle import read_seen

    rows = read_seen(_seen_path(journal, name))
    return {file: one.refused for file, one in sorted(rows.items()) if one.refused}


def _seen_path(journal: str, name: str) -> str:
    return os.path.join(journal, SEEN, f"{name}.json")


def _folder(address: Address, exchange: JournalExchange, sender: Sender, name: str) -> Transport:
    from familiar_cli.sync.bundle_folder import BundleFolder
    from familiar_cli.sync.folder import FolderTransport
    from familiar_cli.sync.sealing import Sealing

    journal = exchange.repository.path
    folder = BundleFolder(
        address.path,
        os.path.join(journal, INCOMING),
        _seen_path(journal, name),
        SigningKey(Path(journal).with_name(KEY_FILE), sender.trust),
        sealing=Sealing(sender.encrypt, sender.key, sender.old_keys),
        tell=sender.tell,
    )
    return FolderTransport(folder, exchange)


def _is_here(address: Address) -> bool:
    from urllib.parse import urlsplit

    scp = address.text.partition(":")[0].rpartition("@")[2]
    return (urlsplit(address.text).hostname if "://" in address.text else scp) in _LOOPBACK
