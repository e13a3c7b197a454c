"""Open a remote by its address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.config.environment import offline
from familiar_cli.errors import RemoteUnreachableError

if TYPE_CHECKING:
    from familiar_cli.memory.journal.exchange import Exchange
    from familiar_cli.sync.address import Address
    from familiar_cli.sync.transport import Transport

_LOOPBACK: Final = {"localhost", "127.0.0.1", "::1"}


def open_transport(address: Address, exchange: Exchange, *, ask: bool = False) -> Transport:
    """Return the way to a remote. The caller closes it.

    Args:
        address: Where it is.
        exchange: The journal.
        ask: A person sits there who may be asked for a password.

    Raises:
        RemoteUnreachableError: There is nothing, or `FAMILIAR_OFFLINE` forbids to go there.
    """
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


def _is_here(address: Address) -> bool:
    from urllib.parse import urlsplit

    scp = address.text.partition(":")[0].rpartition("@")[2]
    return (urlsplit(address.text).hostname if "://" in address.text else scp) in _LOOPBACK
