"""Processes of their own for commands, forked from one that has loaded the program already.

To load the program takes many times as long as most commands do. A fork has what a test wants of a
process: signals, a terminal, a death at any moment. What concerns the start of Python or the end of
its libraries takes `subprocess`.

Run as a script, this is the process that is forked; each test worker has one.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path
from runpy import run_module
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CAN_FORK = sys.platform == "linux"
_BEGUN = dict(os.environ)
_LATE = (
    *("anyio._backends._asyncio", "certifi", "filelock", "httpcore", "httpx", "markdown_it"),
    *("mcp.types", "numpy", "prompt_toolkit", "rich.live", "sqlite3", "uvicorn", "uvloop"),
)
"""Of what commands import late, what takes long."""
_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
"""Whose being ignored is passed on to a process."""
_OURS = ("FAMILIAR_", "NO_COLOR", "COLUMNS", "TERM")


class Process(subprocess.Popen):
    """A `Popen` for `python -m MODULE` and `python -c`, forked where that is the same."""

    _status: socket.socket | None = None

    def _execute_child(self, *given: Any) -> None:
        names = list(signature(subprocess.Popen._execute_child).parameters)[1:]
        how = dict(zip(names, given, strict=True))
        env = dict(os.environ if how["env"] is None else how["env"])
        if not CAN_FORK or _start_settings(env) != _start_settings(_BEGUN):
            super()._execute_child(*given)
            return
        ends = [how[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        job = {
            "argv": [os.fspath(word) for word in how["args"]][1:],
            "env": env,
            "cwd": os.fspath(how["cwd"] or Path.cwd()),
            "own_session": how["start_new_session"],
            "ignored": [number for number in _SIGNALS if _is_ignored(number)],
        }
        streams = [end if end >= 0 else usual for usual, end in enumerate(ends)]
        self.pid, self._status = _forker().fork(job, streams)
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(how[name] for name in pipes))

    def _internal_poll(self, _deadstate: int | None = None, *more: Any) -> int | None:
        if self._status is None:
            return super()._internal_poll(_deadstate, *more)
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._status is None:
            return super()._try_wait(wait_flags)
        try:
            word = self._status.recv(4, socket.MSG_DONTWAIT if wait_flags else 0)
        except BlockingIOError:
            return 0, 0
        self._status.close()
        return self.pid, int.from_bytes(word, "big")


def run_process(argv: list[str], *, text: bool = False, **how: Any) -> subprocess.CompletedProcess:
    """Do as `subprocess.run` does with `capture_output`, or with the streams given."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    stdin = streams.pop("input", None)
    streams.setdefault("stdin", subprocess.PIPE if stdin is not None else subprocess.DEVNULL)
    with Process(argv, text=text, **streams) as process:
        out, err = process.communicate(stdin, timeout=60)
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def _start_settings(env: dict[str, str]) -> dict[str, str]:
    """Return what changes how Python starts."""
    started = ("PYTHON", "LC_", "LANG")
    anyhow = {"PYTHONPATH", "PYTHONUNBUFFERED"}
    return {k: v for k, v in env.items() if k.startswith(started) and k not in anyhow}


def _is_ignored(number: int) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


class _Forker:
    """The process that is forked, as its test worker sees it."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        self._lock = threading.Lock()
        env = {k: v for k, v in _BEGUN.items() if not k.startswith(_OURS)}
        argv = [sys.executable, "-m", "tests.support.processes", str(other.fileno())]
        self._process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=env | {"OPENBLAS_NUM_THREADS": "1"},  # a process with threads is not forked
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[other.fileno()],
            start_new_session=True,
        )
        other.close()

    def fork(self, job: dict[str, Any], streams: list[int]) -> tuple[int, socket.socket]:
        """Have a process do a job; return its number, and what tells its end."""
        ours, theirs = socket.socketpair()
        message = json.dumps(job).encode()
        with self._lock, theirs:
            size = len(message).to_bytes(4, "big")
            socket.send_fds(self._socket, [size], [*streams, theirs.fileno()])
            self._socket.sendall(message)
            return int.from_bytes(self._socket.recv(4), "big"), ours

    def close(self) -> None:
        self._socket.close()
        self._process.wait(20)


@cache
def _forker() -> _Forker:
    forker = _Forker()
    atexit.register(forker.close)
    return forker


def _load_program() -> None:
    import familiar_cli

    for module in pkgutil.walk_packages(familiar_cli.__path__, "familiar_cli."):
        with suppress(ImportError):
            import_module(module.name)
    for name in _LATE:
        with suppress(ImportError):
            import_module(name)
    gc.freeze()


def _serve(asked: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork whenever a job comes; return it in the fork, or None at the end."""
    ends: dict[int, int] = {}
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([asked, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            _report_ends(ends)
        if asked not in ready:
            continue
        size, streams, _, _ = socket.recv_fds(asked, 4, 4)
        if not size:
            return None
        message = b""
        while len(message) < int.from_bytes(size, "big"):
            message += asked.recv(65536)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            for one in (asked.detach(), woken.detach(), wakes.detach(), streams[3], *ends.values()):
                os.close(one)
            return json.loads(message), streams[:3]
        ends[pid] = streams[3]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        asked.sendall(pid.to_bytes(4, "big"))
        for one in streams[:3]:
            os.close(one)


def _report_ends(ends: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            pid, status = ended
            with suppress(OSError):  # nobody asks any more
                os.write(ends[pid], status.to_bytes(4, "big"))
            os.close(ends.pop(pid))


def _become(job: dict[str, Any], streams: list[int]) -> None:
    """Have streams, directory and environment as a process has them that was started so."""
    if job["own_session"]:
        os.setsid()
    for usual, stream in enumerate(streams):
        os.dup2(stream, usual)
        os.close(stream)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    time.tzset()
    for number in _SIGNALS:
        default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in job["ignored"] else default)
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        old = getattr(sys, name)
        stream = open(number, mode, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        stream.reconfigure(line_buffering=number == 2 or stream.isatty(), write_through=at_once)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _do(argv: list[str]) -> int:
    """Run a module or a text of Python; return the exit code."""
    way, what, *words = argv
    sys.argv = ["-c" if way == "-c" else str(ROOT / "familiar_cli" / "__main__.py"), *words]
    try:
        if way == "-c":
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
        elif what == "familiar_cli":
            import_module(f"{what}.__main__").main()
        else:
            run_module(what, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001  # as Python itself
        traceback.print_exc()
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        return 1
    return 0


def main() -> None:
    """Serve the test worker; in a fork, do the job and end."""
    _load_program()
    asked = socket.socket(fileno=int(sys.argv[1]))
    if found := _serve(asked):
        job, streams = found
        _become(job, streams)
        code = _do(job["argv"])
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # as while the interpreter shuts down
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
