"""Ctrl-C at any moment of making a familiar or bringing in lore leaves all of it, or nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.support.cards import as_json, v3
from tests.support.cases import IS_NIGHT
from tests.support.lorebooks import lore, world
from tests.support.processes import Process, run_process
from tests.support.sillytavern import DataFolder, talk
from tests.support.world import data, home, live, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send")
MOMENTS = 6 if IS_NIGHT else 3
ENTRIES = 150
# Says that it is ready when all is imported, so that the moments fall into the work itself.
PROGRAM = """
import sys
from familiar_cli.__main__ import main
from familiar_cli.imports import create, import_lorebook
from familiar_cli.actions.bring import import_sillytavern
from familiar_cli.cli.commands import imports, init
from familiar_cli.store.memory.store import transactions
print("ready", file=sys.stderr, flush=True)
main()
"""


def interrupted(delay_s: float, *argv: str) -> tuple[int, str]:
    """Run a command, interrupt it `delay_s` after it was ready; return exit code and stderr."""
    with Process(
        [sys.executable, "-c", PROGRAM, *argv],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr.readline() == "ready\n"
        time.sleep(delay_s)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGINT)
        told = process.stderr.read()
    # While the interpreter shuts down, after the command, a signal ends the process as it is.
    return 0 if process.returncode == -signal.SIGINT else process.returncode, told


@pytest.fixture
def moments():
    return [random.Random(7).uniform(0, 0.6) for _ in range(MOMENTS)]


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.json"
    path.write_bytes(as_json(world(*(lore(f"Place {n}", f"Text {n}.") for n in range(ENTRIES)))))
    return path


def files(root) -> set[str]:
    """Return the names of all files but those of the index, which the next command makes."""
    found = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    return {name for name in found if not name.startswith(".index/")}


def test_init_is_all_or_nothing(moments, tmp_path) -> None:
    book = {"entries": json.loads(as_json(world(*(lore(f"P{n}") for n in range(ENTRIES)))))}
    card = tmp_path / "card.json"
    card.write_bytes(as_json(v3(character_book=book["entries"])))
    run("init", "whole", "--from-card", str(card))
    whole = files(home() / "whole" / "memory")
    for number, moment in enumerate(moments):
        code, told = interrupted(moment, "init", f"f{number}", "--from-card", str(card))
        made = home() / f"f{number}"
        assert (code, "Traceback" in told) in {(0, False), (130, False)}, told
        assert (files(made / "memory") == whole) if made.exists() else code == 130
        assert not list(home().glob(".tmp-*"))


def test_an_import_is_all_or_nothing(moments, book) -> None:
    for number, moment in enumerate(moments):
        run("init", f"f{number}", "--template", "companion")
        memory = home() / f"f{number}" / "memory"
        before = files(memory)
        code, told = interrupted(
            moment, "import-lorebook", str(book), "--familiar", f"f{number}", "--quiet"
        )
        new = {name for name in files(memory) - before if name.endswith(".md")}
        assert (code, "Traceback" in told) in {(0, False), (130, False)}, told
        assert len(new) in {0, ENTRIES}
        assert not [name for name in files(memory) if ".tmp-familiar" in name]


def test_ctrl_c_in_a_finaliser_is_not_lost() -> None:
    code = """
import sys, time
from familiar_cli.cli.app import interrupt_again

class Closing:
    def __del__(self):
        raise KeyboardInterrupt

sys.unraisablehook = interrupt_again
try:
    Closing()
    for _ in range(100):
        time.sleep(0.05)
    print("lost")
except KeyboardInterrupt:
    print("told")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("told\n", "")


def test_ctrl_c_while_the_program_is_loaded_ends_with_130(tmp_path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "familiar_cli", "init", "ada", "--template", "companion"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("command", [("init", "new", "--template", "companion"), ("doctor",)])
def test_what_a_killed_init_left_is_deleted_by_the_next_command_that_looks(command) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    home().mkdir(exist_ok=True)
    left = home() / f".tmp-familiar-{ended.pid}-{'a' * 12}.some-one"
    (left / "memory").mkdir(parents=True)
    alive = home() / f".tmp-familiar-{os.getpid()}-{'a' * 12}.ada"
    others = [home() / f"{one}{ended.pid}" for one in (".new-notes-", ".tmp-familiar-", "tmp")]
    for one in (alive, *others):
        one.mkdir()
    result = run(*command)
    assert result.exit_code in {0, 7}, result.output
    assert not left.exists()
    assert all(one.exists() for one in (alive, *others))
    assert left.name in result.output or command[0] == "init"


def test_what_an_init_that_is_killed_left_is_gone_after_the_next() -> None:
    code = """
import os, sys
from familiar_cli.imports import import_plan
import_plan._move_into_place = lambda *_: os._exit(9)
from familiar_cli.cli.app import main
main()
"""
    argv = [sys.executable, "-c", code, "init", "ada", "--template", "companion"]
    killed = run_process(argv)
    assert killed.returncode == 9
    assert list(home().glob(".tmp-*"))
    assert run("init", "ada", "--template", "companion").exit_code == 0
    assert not list(home().glob(".tmp-*"))


def test_a_whole_folder_goes_on_where_it_was_interrupted(tmp_path) -> None:
    folder = DataFolder(tmp_path / "default-user")
    for n in range(12):
        folder.character(f"C{n}")
        folder.chat(f"C{n}", "one", *talk(f"C{n}", 40))
    command = ("import-sillytavern", str(folder.root))
    ended = [interrupted(0.2 + 0.15 * n, *command) for n in range(MOMENTS)]
    assert not [told for _, told in ended if "Traceback" in told]
    assert 130 in {code for code, _ in ended} <= {0, 130}
    hint = f"continue with `familiar import-sillytavern {folder.root}`"
    assert any(hint in told for _, told in ended)
    done = data(*command)
    assert [one["turns"] + one["already_there"] for one in done["familiars"]] == [40] * 12
    made = sorted(path.name for path in home().iterdir() if path.name != ".chosen")
    assert made == sorted(f"c{n}" for n in range(12))


def test_a_long_command_says_what_is_kept(monkeypatch, tmp_path) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    live("ada")
    monkeypatch.setattr("familiar_cli.actions.bring.import_files.FileImporter.recognise", stop)
    done = run("import", str(tmp_path))
    assert done.exit_code == 130
    assert "What was imported is kept; run the same command again" in done.stderr
