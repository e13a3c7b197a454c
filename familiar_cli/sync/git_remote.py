"""`GitRemote`: a git server, reached over SSH or HTTPS through dulwich."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from familiar_cli.config.environment import ssh_command
from familiar_cli.errors import (
    FamiliarError,
    RemoteDamagedError,
    RemoteRefusedError,
    RemoteUnreachableError,
)
from familiar_cli.memory.journal.objects import is_id
from familiar_cli.memory.journal.repository import translated
from familiar_cli.sync.transport import (
    MAIN_REF,
    Login,
    PushedRef,
    find_login,
    objection,
    shared_refs,
    tell_helpers,
)
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from dulwich.client import GitClient, LsRemoteResult
    from dulwich.objects import ObjectID
    from dulwich.refs import Ref

    from familiar_cli.memory.journal.exchange import IncomingObjects, JournalExchange
    from familiar_cli.sync.transport import Address

T = TypeVar("T")

TIMEOUT_S: Final = 30.0
"""Longest silence of a server."""

_HEADS: Final = b"refs/heads/"
_HEAD: Final = cast("Ref", b"HEAD")
_MASTER: Final = "refs/heads/master"
_IN_MEMORY_BYTES: Final = 16 * 1024 * 1024
_SSH: Final = "ssh -o ConnectTimeout=15"
_SECRET_IN_URL: Final = re.compile(r"(?<=://)[^\s/@]*@")
_MESSAGE_CHARS: Final = 300


class GitRemote:
    """A `Transport` to a git server.

    Args:
        address: Where it is.
        exchange: The journal.
        ask: A person sits there who may be asked for a password.
    """

    def __init__(self, address: Address, exchange: JournalExchange, *, ask: bool = False) -> None:
        self.address = address.text
        self.shared_refs: tuple[str, ...] = (MAIN_REF,)
        self._exchange = exchange
        self._ask = ask
        self._login: Login | None = None
        self._client: GitClient | None = None
        self._connections: list[Any] = []
        self._path = ""

    def refs(self) -> dict[str, str]:
        """See `Transport`."""
        prefixes = [b"HEAD", _HEADS]
        found = self._talk(lambda client, path: client.get_refs(_path(path), ref_prefix=prefixes))
        if found.object_format not in {None, "sha1"}:
            raise RemoteDamagedError(
                f"The remote {self.address!r} uses {found.object_format}, the journal SHA-1; "
                "nothing was changed",
                hint="Create it with `git init --bare --object-format=sha1`.",
            )
        self.shared_refs = self._shared_refs(found)
        rows = ((_text(ref), _text(id_ or b"")) for ref, id_ in found.refs.items())
        return {ref: id_ for ref, id_ in rows if ref.startswith(_text(_HEADS)) and is_id(id_)}

    def _shared_refs(self, found: LsRemoteResult) -> tuple[str, ...]:
        """Return `main` and the branch that HEAD names, as far as the server tells.

        An older server does not tell what HEAD will be; git's own default is `master` then.
        """
        head = found.symrefs.get(_HEAD)
        is_unborn = found.refs and not found.refs.get(_HEAD) and not head
        return shared_refs(_text(head) if head else _MASTER if is_unborn else None)

    def fetch(
        self, wants: Collection[str], haves: Collection[str], incoming: IncomingObjects
    ) -> None:
        """See `Transport`."""
        from dulwich.object_store import ObjectStoreGraphWalker

        wanted = [_id(id_) for id_ in wants]

        def wanted_of(refs: Mapping[Ref, ObjectID], depth: int | None = None) -> list[ObjectID]:
            del depth
            there = set(refs.values())  # what went away meanwhile would be refused with the rest
            return [id_ for id_ in wanted if id_ in there]

        def parents(id_: ObjectID) -> list[ObjectID]:
            return [_id(parent) for parent in self._exchange.parents(_text(id_))]

        def fetch(client: GitClient, path: str) -> None:
            file.seek(0)
            file.truncate()
            walker = ObjectStoreGraphWalker([_id(have) for have in haves], parents)
            client.fetch_pack(path, wanted_of, walker, keep, ref_prefix=[_HEADS])

        def keep(received: bytes) -> int:
            with translated(self._exchange.repository.path):
                return file.write(received)

        with SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES, dir=incoming.path) as file:
            self._talk(fetch)
            if file.tell():
                file.seek(0)
                incoming.add_pack(file)

    def push(self, refs: Mapping[str, str]) -> list[PushedRef]:
        """See `Transport`."""
        outcome = dict.fromkeys(refs, "")

        def allowed(there: dict[Ref, ObjectID]) -> dict[Any, ObjectID]:
            known = {_text(ref): _text(id_) for ref, id_ in there.items()}
            outcome.update({r: objection(self._exchange, known.get(r), refs[r]) for r in refs})
            return {
                ref.encode(): _id(id_)
                for ref, id_ in refs.items()
                if not outcome[ref] and known.get(ref) != id_
            }

        def pack(have: Any, want: Any, **_: object) -> Any:  # noqa: ANN401  # dulwich's own
            ids = self._exchange.new_ids(map(_text, want), map(_text, have))
            return self._exchange.packed(ids)

        done = self._talk(lambda client, path: client.send_pack(_path(path), allowed, pack))
        for name, status in (done.ref_status or {}).items():
            if status is not None and _text(name) in outcome:
                outcome[_text(name)] = _told(status)
        there = self.refs()  # a server that reports nothing may have refused all the same
        for ref, id_ in refs.items():
            if not outcome[ref] and there.get(ref) != id_:
                now = there.get(ref)
                outcome[ref] = f"it is at {now[:10] if now else 'nothing'} after the push"
        return [PushedRef(ref, id_, outcome[ref]) for ref, id_ in refs.items()]

    def close(self) -> None:
        """See `Transport`."""
        if self._client is not None:
            with suppress(Exception):  # what is let go of may fail as it likes
                self._client.close()
            self._client = None

    def _talk(self, work: Callable[[GitClient, str], T]) -> T:
        """Run `work` and return its result, with credentials if the server asks for them; once."""
        try:
            with self._translated():
                return work(*self._opened())
        except _WantsLoginError as first:
            self.close()
            self._login = find_login(self.address, ask=self._ask)
            if self._login is None:
                raise self._no_login() from first
        try:
            with self._translated():
                result = work(*self._opened())
        except _WantsLoginError as error:
            tell_helpers(self.address, self._login, worked=False)
            self._login = None
            self.close()
            raise self._no_login() from error
        tell_helpers(self.address, self._login, worked=True)
        return result

    def _opened(self) -> tuple[GitClient, str]:
        if self._client is None:
            from dulwich.client import get_transport_and_path
            from dulwich.config import StackedConfig

            command = ssh_command() or _SSH + ("" if self._ask else " -o BatchMode=yes")
            self._client, self._path = get_transport_and_path(
                self.address,
                config=StackedConfig.default(),
                username=self._login.user if self._login else None,
                password=self._login.secret if self._login else None,
                ssh_command=command,
                quiet=True,
            )
            if hasattr(self._client, "_timeout"):
                self._client._timeout = TIMEOUT_S  # noqa: SLF001  # not handed on otherwise
            if hasattr(self._client, "_connect"):
                self._keep_connections(self._client)
        return self._client, self._path

    def _keep_connections(self, client: Any) -> None:  # noqa: ANN401  # what dulwich keeps for itself
        """Remember each connection: dulwich leaves one open on which something failed."""
        connect = client._connect  # noqa: SLF001

        def connected(*args: object, **more: object) -> tuple[Any, ...]:
            found: tuple[Any, ...] = connect(*args, **more)
            self._connections.append(found[0])
            return found

        client._connect = connected  # noqa: SLF001

    def _hang_up(self) -> None:
        while self._connections:
            with suppress(Exception):  # it has failed already
                self._connections.pop().close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn whatever dulwich and the network raise into our own errors."""
        from dulwich.client import HTTPUnauthorized
        from dulwich.errors import HangupException, NotGitRepository, SendPackError

        try:
            yield
        except FamiliarError:
            raise
        except HTTPUnauthorized as error:
            raise _WantsLoginError from error
        except NotGitRepository as error:
            raise RemoteUnreachableError(
                f"There is no git repository at {self.address!r}",
                hint="Create an empty one on the server, or check the address: "
                "`familiar sync remote ls`.",
            ) from error
        except SendPackError as error:
            raise RemoteRefusedError(
                f"The remote {self.address!r} rejected the push: {self._clean(error)}",
                hint="Check that you have write access, and that its disk is not full.",
            ) from error
        except HangupException as error:
            said = b" ".join(error.stderr_lines or ()).decode("utf-8", errors="replace")
            raise self._unreachable(said or "it hung up") from error
        except Exception as error:  # dulwich lets through whatever a broken answer causes
            raise self._unreachable(str(error) or type(error).__name__) from error
        finally:
            self._hang_up()

    def _unreachable(self, why: str) -> RemoteUnreachableError:
        return RemoteUnreachableError(
            f"The remote {self.address!r} could not be reached: {self._clean(why)}",
            hint="Check the network and the address, then sync again; nothing is lost.",
        )

    def _no_login(self) -> RemoteUnreachableError:
        return RemoteUnreachableError(
            f"The remote {self.address!r} requires a login, and no stored one was accepted",
            hint="Set FAMILIAR_SYNC_TOKEN, or log in once with git: "
            f"`git ls-remote {self.address}`.",
        )

    def _clean(self, said: object) -> str:
        """Return a server's message in one line, without any secret that it repeats."""
        text = _SECRET_IN_URL.sub("", str(said))
        if self._login and self._login.secret:
            text = text.replace(self._login.secret, "***")
        return one_line(text, _MESSAGE_CHARS)


class _WantsLoginError(Exception):
    """The server wants to know who we are."""


def _id(id_: str) -> ObjectID:
    from dulwich.objects import ObjectID

    return ObjectID(id_.encode())


def _path(path: str) -> bytes:
    return path.encode("utf-8", errors="surrogateescape")


def _text(value: bytes) -> str:
    return value.decode("utf-8", errors="replace")


def _told(status: str | bytes) -> str:
    return one_line(status if isinstance(status, str) else _text(status), _MESSAGE_CHARS)
