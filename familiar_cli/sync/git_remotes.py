"""Remotes that are git repositories, at a URL or a path."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from familiar_cli.base import errors
from familiar_cli.base.config.environment import ssh_command
from familiar_cli.base.files import Disk, SharedDisk, open_patiently, why
from familiar_cli.base.text import bare_lines, one_line
from familiar_cli.store.journal.exchange import IncomingObjects, JournalExchange, new_objects
from familiar_cli.store.journal.objects import PACK_FROM, Objects, is_id
from familiar_cli.store.journal.repository import packed_refs, read_text, translate_errors
from familiar_cli.sync import remotes

if TYPE_CHECKING:
    from dulwich.client import GitClient, LsRemoteResult
    from dulwich.objects import ObjectID
    from dulwich.refs import Ref


T = TypeVar("T")

TIMEOUT_S: Final = 30.0
"""Read timeout of a server connection."""

_HEADS_REF: Final = b"refs/heads/"
_HEAD: Final = cast("Ref", b"HEAD")
_MASTER: Final = "refs/heads/master"
_IN_MEMORY_BYTES: Final = 16 * 1024 * 1024
_SSH: Final = "ssh -o ConnectTimeout=15"
_SECRET_IN_URL: Final = re.compile(r"(?<=://)[^\s/@]*@")
_MESSAGE_CHARS: Final = 300
_SHA256_CHARS: Final = 64


class GitRemote:
    """A `Transport` to a git server.

    Args:
        exchange: The journal.
        ask: Whether a user may be asked for a password.
    """

    def __init__(
        self, address: remotes.Address, exchange: JournalExchange, *, ask: bool = False
    ) -> None:
        self.address = address.text
        self.shared_refs: tuple[str, ...] = (remotes.MAIN_REF,)
        self._exchange = exchange
        self._ask = ask
        self._login: remotes.Login | None = None
        self._client: GitClient | None = None
        self._connections: list[Any] = []
        self._path = ""

    def refs(self) -> dict[str, str]:
        """See `Transport`."""
        prefixes = [b"HEAD", _HEADS_REF]
        result = self._talk(
            lambda client, path: client.get_refs(_url_path(path), ref_prefix=prefixes)
        )
        if result.object_format not in {None, "sha1"}:
            raise _unsupported_format(self.address, result.object_format)
        self.shared_refs = self._shared_refs(result)
        return self._branches(result.refs)

    def _branches(self, result: Mapping[Ref, ObjectID | None]) -> dict[str, str]:
        rows = [(_decode(ref), _decode(id_ or b"")) for ref, id_ in result.items()]
        if any(len(id_) == _SHA256_CHARS for _, id_ in rows):
            raise _unsupported_format(self.address, "SHA-256")
        return {ref: id_ for ref, id_ in rows if ref.startswith(_decode(_HEADS_REF)) and is_id(id_)}

    def _shared_refs(self, result: LsRemoteResult) -> tuple[str, ...]:
        """Return `main` and the branch of the remote's HEAD, if known.

        Older servers do not report an unborn HEAD; git's default is `master` then.
        """
        head = result.symrefs.get(_HEAD)
        is_unborn = result.refs and not result.refs.get(_HEAD) and not head
        return remotes.shared_refs(_decode(head) if head else _MASTER if is_unborn else None)

    def fetch(
        self, wants: Collection[str], haves: Collection[str], incoming: IncomingObjects
    ) -> None:
        """See `Transport`."""
        # What went away meanwhile would be refused with the rest.
        self.fetch_chosen(lambda there: set(wants).intersection(there.values()), incoming, haves)

    def fetch_chosen(
        self,
        choose: Callable[[Mapping[str, str]], Collection[str]],
        incoming: IncomingObjects,
        haves: Collection[str] = (),
    ) -> None:
        """See `Transport`."""
        from dulwich.object_store import ObjectStoreGraphWalker

        def wanted(refs: Mapping[Ref, ObjectID], depth: int | None = None) -> list[ObjectID]:
            del depth
            return [_object_id(id_) for id_ in sorted(choose(self._branches(refs)))]

        def parents(id_: ObjectID) -> list[ObjectID]:
            return [_object_id(parent) for parent in self._exchange.parents(_decode(id_))]

        def fetch(client: GitClient, path: str) -> None:
            file.seek(0)
            file.truncate()
            walker = ObjectStoreGraphWalker([_object_id(have) for have in haves], parents)
            client.fetch_pack(path, wanted, walker, keep, ref_prefix=[_HEADS_REF])

        def keep(received: bytes) -> int:
            with translate_errors(self._exchange.repository.path):
                return file.write(received)

        with SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES, dir=incoming.path) as file:
            self._talk(fetch)
            if file.tell():
                file.seek(0)
                incoming.add_pack(file)

    def push(self, refs: Mapping[str, str]) -> list[remotes.PushedRef]:
        """See `Transport`."""
        outcome = dict.fromkeys(refs, "")

        def allowed(there: dict[Ref, ObjectID]) -> dict[Any, ObjectID]:
            known = {_decode(ref): _decode(id_) for ref, id_ in there.items()}
            outcome.update(
                {r: remotes.ref_objection(self._exchange, known.get(r), refs[r]) for r in refs}
            )
            return {
                ref.encode(): _object_id(id_)
                for ref, id_ in refs.items()
                if not outcome[ref] and known.get(ref) != id_
            }

        def pack(have: Any, want: Any, **_: object) -> Any:  # noqa: ANN401  # dulwich's own
            ids = self._exchange.new_ids(map(_decode, want), map(_decode, have))
            return self._exchange.packed(ids)

        done = self._talk(lambda client, path: client.send_pack(_url_path(path), allowed, pack))
        for name, status in (done.ref_status or {}).items():
            if status is not None and _decode(name) in outcome:
                outcome[_decode(name)] = _status_words(status)
        there = self.refs()  # a server that reports nothing may still have refused everything
        for ref, id_ in refs.items():
            if not outcome[ref] and there.get(ref) != id_:
                now = there.get(ref)
                outcome[ref] = f"it is at {now[:10] if now else 'nothing'} after the push"
        return [remotes.PushedRef(ref, id_, outcome[ref]) for ref, id_ in refs.items()]

    def close(self) -> None:
        """See `Transport`."""
        if self._client is not None:
            with suppress(Exception):  # errors while closing are ignored
                self._client.close()
            if hasattr(self._client, "pool_manager"):
                self._client.pool_manager.clear()
            self._client = None

    def _talk(self, work: Callable[[GitClient, str], T]) -> T:
        """Run `work`, once more with credentials if the server asks for them."""
        try:
            with self._translate_errors():
                return work(*self._opened())
        except _WantsLoginError as first:
            self.close()
            self._login = remotes.find_login(self.address, ask=self._ask)
            if self._login is None:
                raise self._no_login() from first
        try:
            with self._translate_errors():
                result = work(*self._opened())
        except _WantsLoginError as error:
            remotes.tell_helpers(self.address, self._login, worked=False)
            self._login = None
            self.close()
            raise self._no_login() from error
        remotes.tell_helpers(self.address, self._login, worked=True)
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
            if hasattr(self._client, "pool_manager"):
                self._keep_responses(self._client.pool_manager)
        return self._client, self._path

    def _keep_connections(self, client: Any) -> None:  # noqa: ANN401  # what dulwich keeps for itself
        """Record connections, since dulwich leaves them open on failure."""
        connect = client._connect  # noqa: SLF001

        def connected(*args: object, **more: object) -> tuple[Any, ...]:
            items: tuple[Any, ...] = connect(*args, **more)
            self._connections.append(items[0])
            return items

        client._connect = connected  # noqa: SLF001

    def _keep_responses(self, pool: Any) -> None:  # noqa: ANN401  # one of several classes
        """Record responses, since dulwich leaves those with an error open."""
        request = pool.request

        def requested(*args: object, **more: object) -> Any:  # noqa: ANN401
            response = request(*args, **more)
            self._connections.append(response)
            return response

        pool.request = requested

    def _hang_up(self) -> None:
        while self._connections:
            with suppress(Exception):  # it failed already
                self._connections.pop().close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate errors of dulwich and the network into ours."""
        from dulwich.client import HTTPUnauthorized
        from dulwich.errors import HangupException, NotGitRepository, SendPackError

        try:
            yield
        except errors.FamiliarError:
            raise
        except HTTPUnauthorized as error:
            raise _WantsLoginError from error
        except NotGitRepository as error:
            raise errors.RemoteUnreachableError(
                f"There is no git repository at {self.address!r}",
                hint="Create an empty one on the server, or check the address: "
                "`familiar sync remote list`.",
            ) from error
        except SendPackError as error:
            raise errors.RemoteRefusedError(
                f"The remote {self.address!r} rejected the push: {self._clean(error)}",
                hint="Check that you have write access, and that its disk is not full.",
            ) from error
        except HangupException as error:
            text = b" ".join(error.stderr_lines or ()).decode("utf-8", errors="replace")
            raise self._unreachable(text or "it hung up") from error
        except Exception as error:  # dulwich lets any exception through that a broken answer causes
            raise self._unreachable(_network_words(error)) from error
        finally:
            self._hang_up()

    def _unreachable(self, why: str) -> errors.RemoteUnreachableError:
        hints = (hint for text, hint in _SSH_HINTS.items() if text in why)
        return errors.RemoteUnreachableError(
            f"The remote {self.address!r} could not be reached: {self._clean(why)}",
            hint=next(
                hints, "Check the network and the address, then sync again; nothing is lost."
            ),
        )

    def _no_login(self) -> errors.RemoteUnreachableError:
        return errors.RemoteUnreachableError(
            f"The remote {self.address!r} requires a login, and no stored one was accepted",
            hint=f"Set FAMILIAR_SYNC_TOKEN, or log in with git: `git ls-remote {self.address}`.",
        )

    def _clean(self, said: object) -> str:
        """Return a server's message on one line, with secrets removed."""
        text = _SECRET_IN_URL.sub("", str(said))
        if self._login and self._login.secret:
            text = text.replace(self._login.secret, "***")
        return one_line(text, _MESSAGE_CHARS)


_SSH_HINTS: Final = {
    "Permission denied": "The server does not accept this machine's SSH key. Add the public key "
    "(`cat ~/.ssh/id_ed25519.pub`; `ssh-keygen` makes one) to your account there; if the key has "
    "a passphrase, load it into the agent: `ssh-add`.",
    "Host key verification failed": "Connect once with `ssh`, and confirm the server's key.",
}
_NETWORK_WORDS: Final = {
    "timed out": "it did not answer in time",
    "refused": "the connection was refused",
    "CERTIFICATE": "its certificate is not valid",
    "certificate": "its certificate is not valid",
    "resolve": "its host is unknown",
    "Name or service": "its host is unknown",
    "getaddrinfo": "its host is unknown",
}
_CLASS_NAME: Final = re.compile(r"\w+(?:Error|Exception|Disconnected|Read)\(|<\w+[.\w]* object")


def _network_words(error: Exception) -> str:
    """Describe a failure without names of classes."""
    text = str(error)
    if text and not _CLASS_NAME.search(text):
        return text
    known = (words for part, words in _NETWORK_WORDS.items() if part in text)
    return next(known, "the connection broke")


class _WantsLoginError(Exception):
    """The server requires credentials."""


def _unsupported_format(address: str, object_format: str | None) -> errors.RemoteDamagedError:
    return errors.RemoteDamagedError(
        f"The remote {address!r} uses {object_format}, the journal SHA-1; nothing was changed",
        hint="Create it with `git init --bare --object-format=sha1`.",
    )


def _object_id(id_: str) -> ObjectID:
    from dulwich.objects import ObjectID

    return ObjectID(id_.encode())


def _url_path(path: str) -> bytes:
    return path.encode("utf-8", errors="surrogateescape")


def _decode(value: bytes) -> str:
    return value.decode("utf-8", errors="replace")


def _status_words(status: str | bytes) -> str:
    return one_line(status if isinstance(status, str) else _decode(status), _MESSAGE_CHARS)


_HEADS: Final = "refs/heads/"
_DAMAGED: Final = "familiar-damaged"
_BARE: Final = re.compile(r"^\s*bare\s*=\s*true", re.MULTILINE | re.IGNORECASE)
_SHA256: Final = re.compile(r"^\s*objectformat\s*=\s*sha256", re.MULTILINE | re.IGNORECASE)
_REFTABLE: Final = re.compile(r"^\s*refstorage\s*=\s*reftable", re.MULTILINE | re.IGNORECASE)
_MERGE_S: Final = 120.0
_PLAIN_SETTING: Final = re.compile(
    r"[#;].*|\[(?:core|init|receive|user|(?:remote|branch) \"[^\"]*\")\]"
    r"|(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode"
    r"|symlinks|defaultbranch|deny\w+|url|fetch|remote|merge|name|email)\s*=.*"
)
_LOCKED_WAITS_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)


class PathRemote:
    """A `Transport` to a repository accessible as files.

    Args:
        address: Where it is.
        exchange: The journal.
        disk: The file system of the remote.
    """

    def __init__(
        self, address: remotes.Address, exchange: JournalExchange, disk: Disk | None = None
    ) -> None:
        self.address = address.text
        self.shared_refs: tuple[str, ...] = (remotes.MAIN_REF,)
        self._exchange = exchange
        self._disk = disk or SharedDisk()
        self._path = remotes.repository_at(address.path)
        self._objects = Objects(os.path.join(self._path, "objects"), self._disk, is_foreign=True)

    def refs(self) -> dict[str, str]:
        """See `Transport`."""
        try:
            self._check_format()
            loose = dict(self._loose())  # before packed refs: git packs, then deletes
            result, head = {**self._read_packed_refs(), **loose}, self._head()
        except OSError as error:
            raise self._unreadable(error) from error
        self.shared_refs = remotes.shared_refs(head if head in result else None)
        return result

    def fetch(
        self, wants: Collection[str], haves: Collection[str], incoming: IncomingObjects
    ) -> None:
        """See `Transport`."""
        try:
            is_whole = not haves and set(wants).issuperset(self.refs().values())
            if is_whole and not self._objects.alternates():
                return self._fetch_all(incoming)
            new = new_objects(self._objects, wants, self._exchange.has)
            incoming.add_objects(map(self._objects.get, new))
        except OSError as error:
            raise self._unreadable(error) from error
        finally:
            self._objects.close()

    def fetch_chosen(
        self, choose: Callable[[Mapping[str, str]], Collection[str]], incoming: IncomingObjects
    ) -> None:
        """See `Transport`."""
        self.fetch(choose(self.refs()), (), incoming)

    def _fetch_all(self, incoming: IncomingObjects) -> None:
        """Copy whole packs and all loose objects into an empty journal."""
        directory = os.path.join(self._objects.directory, "pack")
        for name in sorted(os.listdir(directory) if os.path.isdir(directory) else ()):
            if name.endswith(".pack") and os.path.isfile(os.path.join(directory, name)):
                with open_patiently(os.path.join(directory, name)) as file:
                    incoming.add_pack(file)
        incoming.add_objects(map(self._objects.get, self._objects.loose()))

    def push(self, refs: Mapping[str, str]) -> list[remotes.PushedRef]:
        """See `Transport`."""
        there = self.refs()
        outcome = {ref: self._objection(ref, id_, there) for ref, id_ in refs.items()}
        allowed = {ref: id_ for ref, id_ in refs.items() if not outcome[ref]}
        try:
            self._send([id_ for ref, id_ in allowed.items() if there.get(ref) != id_], there)
            for ref, id_ in allowed.items():
                if there.get(ref) != id_:
                    outcome[ref] = self._set_ref(ref, there.get(ref), id_)
            self._show_main()
        except OSError as error:
            raise errors.RemoteRefusedError(
                f"The remote {self.address!r} cannot be written to: {why(error)}",
                hint="Free some space there, or check its permissions.",
            ) from error
        finally:
            self._objects.close()
        return [remotes.PushedRef(ref, id_, outcome[ref]) for ref, id_ in refs.items()]

    def report_damage(self, *, is_damaged: bool = True) -> None:
        """Write or remove a note asking other machines for objects missing here."""
        note = os.path.join(self._path, _DAMAGED)
        with suppress(OSError):
            if is_damaged:
                self._disk.put(note, b"objects are missing or damaged\n")
            elif os.path.exists(note):
                self._disk.unlink(note)

    def repair(self, heads: Collection[str]) -> int:
        """Restore objects that the remote lost, if a loss was reported.

        Args:
            heads: Commits in the journal.

        Returns:
            Number of restored objects.
        """
        note = os.path.join(self._path, _DAMAGED)
        if not os.path.exists(note):
            return 0
        journal, count = self._exchange.repository.objects, 0
        try:
            for id_ in self._exchange.new_ids(heads, ()):
                try:
                    self._objects.get(id_)
                except errors.FamiliarError:
                    with suppress(OSError):
                        self._objects.forget_loose(id_)
                    self._objects.write([journal.get(id_)])
                    count += 1
            if count:
                self._disk.unlink(note)
        except OSError as error:
            raise self._unreadable(error) from error
        finally:
            self._objects.close()
        return count

    def close(self) -> None:
        """See `Transport`."""
        self._objects.close()

    def _check_format(self) -> None:
        config = _read_small(os.path.join(self._path, "config"))
        if _SHA256.search(config):
            raise _unsupported_format(self.address, "SHA-256")
        if _REFTABLE.search(config):
            raise errors.RemoteDamagedError(
                f"The remote {self.address!r} keeps its refs in a reftable, which is not supported;"
                " nothing was changed",
                hint="Create it with `git init --bare --ref-format=files`.",
            )
        self._is_bare, self._config = bool(_BARE.search(config)), config

    def _loose(self) -> list[tuple[str, str]]:
        return [
            (ref, id_)
            for ref, path in remotes.ref_files(os.path.join(self._path, "refs", "heads"))
            if not path.endswith(".lock") and is_id(id_ := _read_small(path).strip())
        ]

    def _read_packed_refs(self) -> dict[str, str]:
        result = packed_refs(self._path).items()
        return {ref: id_ for ref, id_ in result if ref.startswith(_HEADS) and is_id(id_)}

    def _objection(self, ref: str, id_: str, there: Mapping[str, str]) -> str:
        """Return why a ref may not be updated; empty if it may."""
        now = there.get(ref)
        if self._is_checked_out(ref) and not _is_plain_config(self._config):
            return "it is checked out there, and the repository has settings of its own"
        return remotes.ref_objection(self._exchange, now, id_)

    def _is_checked_out(self, ref: str) -> bool:
        return not self._is_bare and ref == self._head()

    def _send(self, wants: Collection[str], there: Mapping[str, str]) -> None:
        """Durably send objects the remote lacks. May raise OSError."""
        if not wants:
            return
        journal = self._exchange.repository.objects
        ids = self._exchange.new_ids(wants, there.values())
        if len(ids) < PACK_FROM:
            self._objects.write(map(journal.get, ids))
        else:
            self._objects.add_pack(*self._exchange.packed(ids))
        self._objects.close()
        missing = next((id_ for id_ in ids if not self._objects.has(id_)), None)
        if missing:
            raise errors.RemoteRefusedError(
                f"Object {missing} was sent to {self.address!r} but is missing; no ref was updated",
                hint="Check the disk of the remote, then sync again.",
            )

    def _set_ref(self, ref: str, old: str | None, new: str) -> str:
        """Update a ref from `old` to `new`; return why not, or an empty string."""
        if self._is_checked_out(ref):
            return _merge_checkout(os.path.dirname(self._path), new)
        path = os.path.join(self._path, *ref.split("/"))
        lock = f"{path}.lock"
        try:
            self._disk.make_dirs(os.path.dirname(path))
            self._lock(lock, new)
        except FileExistsError:
            return "another process is changing it"
        try:
            now = _read_small(path).strip() or self._read_packed_refs().get(ref)
            if now != old:
                return f"another process has just set it to {str(now)[:10]}"
            self._disk.replace(lock, path)
            self._disk.sync_dir(os.path.dirname(path))
        finally:
            with suppress(OSError):
                Disk().unlink(lock)
        return "" if _read_small(path).strip() == new else "it was not updated"

    def _lock(self, lock: str, new: str) -> None:
        """Create git's lock file for a ref with its new content. May raise FileExistsError."""
        for wait_s in _LOCKED_WAITS_S:
            try:
                return self._disk.create(lock, f"{new}\n".encode())
            except FileExistsError:
                time.sleep(wait_s)
        return self._disk.create(lock, f"{new}\n".encode())

    def _show_main(self) -> None:
        """Point an unborn HEAD to `main`, so that a plain clone shows the memory."""
        branch = self._head()
        if not branch or branch == remotes.MAIN_REF or not self._is_bare:
            return
        there = self.refs()
        if branch not in there and remotes.MAIN_REF in there:
            self._disk.put(os.path.join(self._path, "HEAD"), f"ref: {remotes.MAIN_REF}\n".encode())

    def _head(self) -> str:
        """Return the branch of HEAD, or an empty string."""
        head = _read_small(os.path.join(self._path, "HEAD")).strip()
        return head.removeprefix("ref:").strip() if head.startswith("ref:") else ""

    def _unreadable(self, error: OSError) -> errors.FamiliarError:
        return errors.RemoteUnreachableError(
            f"The remote {self.address!r} cannot be read: {why(error)}",
            hint="Check its permissions, and whether its disk is mounted.",
        )


def _is_plain_config(config: str) -> bool:
    """Tell whether a repository's settings name no program that git would run."""
    lines = (line.strip().lower() for line in bare_lines(config))
    return all(_PLAIN_SETTING.fullmatch(line) for line in lines if line)


def _merge_checkout(directory: str, commit: str) -> str:
    """Fast-forward a branch where it is checked out; return why not, or an empty string."""
    program = shutil.which("git")
    if program is None:
        return "it is checked out there, and only git can update it"
    command = [program, "-C", directory, "-c", f"core.hooksPath={os.devnull}"]
    # Where a hook of another repository runs this program, `GIT_DIR` names that one.
    environment = {k: value for k, value in os.environ.items() if not k.startswith("GIT_")}
    try:
        process = subprocess.run(  # noqa: S603  # git itself
            [*command, "merge", "--ff-only", "--quiet", commit],
            capture_output=True,
            text=True,
            timeout=_MERGE_S,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError, UnicodeError) as error:
        return one_line(str(error), _MESSAGE_CHARS)
    problem = process.stderr.strip().partition("\n")[0] or "git failed"
    return "" if process.returncode == 0 else f"it is checked out there: {one_line(problem, 200)}"


def _read_small(path: str) -> str:
    """Return a small file's text; empty if it is missing or a directory."""
    try:
        return read_text(path) or ""
    except IsADirectoryError:
        return ""
