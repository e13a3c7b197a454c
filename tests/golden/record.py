"""The golden record: what every command prints and writes, on three homes.

    python -m tests.golden.record check           # is everything as it was recorded?
    python -m tests.golden.record show DIRECTORY  # write every text, to compare two checkouts
    python -m tests.golden.record accept          # record what this checkout does

A script (`help.txt`; `small.txt`, `year.txt` and `synced.txt`, each a home) is a list of lines:

    at 2026-03-01T09:00:00Z           the time from here on; each command takes a minute
    home NAME                         the home that the following commands use
    reply TEXT                        what the model answers next (`\\n` is a line break)
    file PATH TEXT                    a person writes a file; PATH is relative to all homes
    chat PATH LANGUAGE MONTHS         a chat of that length, as another program exports it
    DIGESTS $ familiar …              a command; `< PATH` at its end gives it a file as stdin;
                                      EXAMPLES, GIT and PLAN stand for paths and the oldest plan

DIGESTS are the exit code and three short hashes, of stdout, stderr and the files that the command
added, changed or removed. Time and random numbers are the same in each run; ids are
numbered in the order in which a text names them, and paths that differ are named. Databases, git
objects, backups and caches are left out of the files: commands that read them stand in the scripts.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import platform
import re
import secrets
import shlex
import sqlite3
import sys
import tempfile
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest.mock import patch

from typer.testing import CliRunner

from tests.support.remotes import bare_by_hand
from tests.support.server import ChatServer, Say

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLES = ROOT / "examples"
SCRIPTS = ("help", "small", "year", "synced")
SILENT = '{"operations": []}'
_COMMAND = re.compile(r"(?:(\S+ \S+ \S+ \S+) )?\$ familiar ?(.*)")
_UNSTABLE = re.compile(
    r"\.index/|\.db(?:-\w+)?$|/journal\.git/|^hub\.git/|\.lock(?:\.next)?$|^cache/"
    r"|\.(?:pack|manifest)$|/\.backups/|/instance\.place$|/history\.cursor$"
)
_ID = re.compile(
    r"(?<=machine-)[0-9a-f]{4}"
    r"|(?<=\dZ-)[0-9a-f]{8}"
    r"|(?<![0-9a-zA-Z])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{4,64}(?![0-9a-zA-Z])"
)
_PACKED = re.compile(r"[\d.,]+ [KM]?B of [\d.,]+ [KM]?B written")
_FILE_TIME = re.compile(r'"modified": "[^"]+"')
_VOICES = {
    "en": ("Robin", ("I painted the boat blue", "Anna called about the harbour", "my knee hurts")),
    "de": ("Jonas", ("Ich habe Brot gebacken", "Oma ist nach Kiel gezogen", "Der Zug war spät")),
    "ja": ("ハル", ("山に登りました", "猫のモチが逃げた", "新しい仕事を始めた")),
}


@dataclass
class Outcome:
    """What one command did.

    Args:
        line: Its number in the script.
        files: The files it added or changed, with their content; None: removed.
        output: Both streams as a terminal mixes them.
    """

    line: int
    argv: str
    exit_code: int
    stdout: str
    stderr: str
    files: dict[str, bytes | None] = field(default_factory=dict)
    output: str = ""

    @property
    def digests(self) -> str:
        changed = hashlib.sha256()
        for path, content in sorted(self.files.items()):
            changed.update(f"{path}\n{content is None}\n".encode() + (content or b""))
        files = changed.hexdigest()[:8] if self.files else "-"
        return f"{self.exit_code} {_short(self.stdout)} {_short(self.stderr)} {files}"

    def text(self) -> str:
        """Return all of it, for people and `diff`."""
        parts = [f"$ familiar {self.argv}", f"exit {self.exit_code}", self.stdout, self.stderr]
        for path, content in sorted(self.files.items()):
            parts.append(f"--- {path}{' (removed)' if content is None else ''}")
            parts.append((content or b"").decode("utf-8", "replace"))
        return "\n".join(parts) + "\n"


class Player:
    """Plays one script in a directory of its own."""

    def __init__(self, world: Path) -> None:
        self._world = world
        self._at = datetime(2026, 1, 1, tzinfo=UTC)
        self._home = "home"
        self._numbers = itertools.count(1)
        self._before: dict[str, bytes] = {}
        self._read: dict[str, tuple[tuple[int, ...], str, bytes]] = {}
        self._server: ChatServer | None = None

    def play(self, script: str) -> list[Outcome]:
        """Return what each command of `script` did."""
        done: list[Outcome] = []
        bare_by_hand(self._world / "hub.git")
        with self._stage():
            for number, line in enumerate(script.splitlines(), 1):
                word, _, rest = line.partition(" ")
                if not line or line.startswith("#"):
                    continue
                if match := _COMMAND.fullmatch(line):
                    done.append(self._run(number, match[2]))
                elif word == "at":
                    self._at = datetime.fromisoformat(rest)
                elif word == "home":
                    self._home = rest
                elif word == "reply":
                    self._replies.insert(-1, Say(rest.replace("\\n", "\n")))
                elif word == "file":
                    path, _, text = rest.partition(" ")
                    self._write(path, text.replace("\\n", "\n"))
                elif word == "chat":
                    path, language, months = rest.split()
                    self._write(path, made_up_chat(language, int(months)))
                else:
                    raise ValueError(f"line {number} is not part of the script language: {line}")
        return done

    @property
    def _replies(self) -> list:
        assert self._server
        return self._server._steps

    def _write(self, path: str, text: str) -> None:
        target = self._world / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
        self._before = self._files()

    def _run(self, number: int, argv: str) -> Outcome:
        from familiar_cli.cli.app import app

        words, _, source = argv.partition(" < ")
        path = source.replace("EXAMPLES", str(EXAMPLES))
        stdin = (self._world / path).read_bytes() if source else b""
        for name, value in self._stand_ins().items():
            words = words.replace(name, value)
        self._at += timedelta(minutes=1)
        self._numbers = itertools.count(1)
        os.environ["FAMILIAR_HOME"] = str(self._world / self._home)
        os.environ["FAMILIAR_KEYS"] = str(self._world / self._home / "keys.toml")
        result = CliRunner().invoke(app, shlex.split(words), input=stdin)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        files = self._files()
        changed: dict[str, bytes | None] = {
            path: content for path, content in files.items() if self._before.get(path) != content
        }
        changed |= dict.fromkeys(self._before.keys() - files.keys())
        self._before = files
        out, err = self._neutral(result.stdout), self._neutral(result.stderr)
        shown = self._neutral(result.output)
        return Outcome(number, argv, result.exit_code, out, err, changed, shown)

    def _stand_ins(self) -> dict[str, str]:
        plans = sorted(self._world.glob(f"{self._home}/*/memory/sessions/.pending/*.json"))
        return {
            "EXAMPLES": str(EXAMPLES),
            "GIT": str(self._world / "hub.git"),
            "PLAN": plans[0].stem if plans else "nothing",
        }

    def _files(self) -> dict[str, bytes]:
        """Return the files by their path, and read those alone that are new or were written to."""
        read: dict[str, tuple[tuple[int, ...], str, bytes]] = {}
        for directory, _, names in os.walk(self._world):
            for path in (f"{directory}/{name}" for name in names):
                name = path[len(str(self._world)) + 1 :]
                if not _UNSTABLE.search(name) and Path(path).is_file():
                    read[path] = self._read_file(path, name)
        self._read = read
        in_order = sorted(read.items(), key=lambda item: item[0].split("/"))
        return {name: content for _, (_, name, content) in in_order}

    def _read_file(self, path: str, name: str) -> tuple[tuple[int, ...], str, bytes]:
        status = Path(path).stat()
        version = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if (known := self._read.get(path)) and known[0] == version:
            return known
        content = self._neutral(Path(path).read_bytes().decode("latin-1"))
        return version, self._neutral(name), content.encode("latin-1")

    def _neutral(self, text: str) -> str:
        """Return `text` without what differs from machine to machine."""
        assert self._server
        port = self._server.base_url.rsplit(":", 1)[1].split("/")[0]
        named = {
            str(self._world): "WORLD",
            str(EXAMPLES): "EXAMPLES",
            f"{platform.python_version()} on {platform.system()}": "PYTHON",
            f"{sqlite3.sqlite_version} with": "SQLITE with",
            f":{port}/": ":PORT/",
        }
        for value, name in named.items():
            text = text.replace(value, name)
        text = _FILE_TIME.sub('"modified": "TIME"', text)
        text = _PACKED.sub("SIZE of SIZE written", text)
        ids: dict[str, str] = {}
        return _ID.sub(lambda match: ids.setdefault(match[0], f"ID{len(ids) + 1}"), text)

    @contextmanager
    def _stage(self) -> Iterator[None]:
        """Hold everything still that a run could depend on."""
        player = self

        class Frozen(datetime):
            @classmethod
            def now(cls, tz=None):
                return player._at.astimezone(tz)

        def token(size: int | None = None) -> str:
            text = hashlib.sha256(f"{player._at} {next(player._numbers)}".encode()).hexdigest()
            return text[: 2 * (size or 32)]

        still = SimpleNamespace(
            perf_counter=lambda: 0.0,
            time_ns=lambda: int(player._at.timestamp() * 1e9),
        )
        environment = {
            "COLUMNS": "100",
            "LOGNAME": "robin",
            "NO_COLOR": "1",
            "FAMILIAR_OFFLINE": "1",
            "FAMILIAR_LLM_THREADS": "1",
            "FAMILIAR_LLM_MODEL": "scripted-1",
            "FAMILIAR_CACHE": str(self._world / "cache"),
            "TZ": "UTC",
        }
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("FAMILIAR_")
        }
        before = Path.cwd()
        with (
            ChatServer([Say(SILENT)]) as server,
            patch.dict(os.environ, kept | environment, clear=True),
            patch("familiar_cli.base.times.clock.datetime", Frozen),
            patch("familiar_cli.base.times.clock.time", still),
            patch("socket.gethostname", lambda: "machine"),
            patch("platform.node", lambda: "machine"),
            patch("familiar_cli.cli.app.find_commit", lambda _: "0123456789"),
            patch.object(secrets, "token_hex", token),
            patch.object(secrets, "token_urlsafe", token),
            patch.object(os, "urandom", lambda size: bytes.fromhex(token(size))),
            patch.object(uuid, "uuid4", lambda: uuid.UUID(token(16))),
        ):
            self._server = server
            os.environ["FAMILIAR_LLM_BASE_URL"] = server.base_url
            time.tzset()
            os.chdir(self._world)
            try:
                yield
            finally:
                os.chdir(before)
        time.tzset()


def made_up_chat(language: str, months: int) -> str:
    """Return a chat as SillyTavern saves it: three exchanges, every fifth day of 2025."""
    person, topics = _VOICES[language]
    head = {"user_name": person, "character_name": "Yuzu", "chat_metadata": {}}
    lines: list[dict[str, object]] = [head]
    for day in range(0, months * 30, 5):
        for n, topic in enumerate(topics):
            moment = datetime(2025, 1, 1, 18, tzinfo=UTC) + timedelta(days=day, minutes=2 * n)
            for name, words in ((person, f"{topic} ({day + n})."), ("Yuzu", f"{topic}?")):
                stamp = moment.isoformat().replace("+00:00", "Z")
                said = {"name": name, "is_user": name == person, "mes": words, "send_date": stamp}
                lines.append(said)
                moment += timedelta(minutes=1)
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def play(name: str) -> list[Outcome]:
    """Play the script of that name and return what its commands did."""
    # Both ways are equally long, as some lines break at their width.
    memory = Path("/dev/shm").is_dir()
    place, prefix = ("/dev/shm", "go-") if memory else ("/tmp", "golden-")
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as directory:
        return Player(Path(directory).resolve()).play(script_of(name))


def script_of(name: str) -> str:
    return (HERE / f"{name}.txt").read_text("utf-8")


def recorded(name: str) -> dict[int, str]:
    """Return the digests of each command by its line; empty where none are recorded yet."""
    matches = (_COMMAND.fullmatch(line) for line in script_of(name).splitlines())
    return {n: match[1] or "" for n, match in enumerate(matches, 1) if match}


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8] if text else "-"


def main(verb: str = "check", directory: str = "") -> int:
    """Run one verb of the command line and return the exit code."""
    code = 0
    for name in SCRIPTS:
        done = play(name)
        if verb == "show":
            Path(directory).mkdir(parents=True, exist_ok=True)
            text = "\n".join(outcome.text() for outcome in done)
            (Path(directory) / f"{name}.txt").write_text(text, "utf-8")
        elif verb == "accept":
            lines = script_of(name).splitlines()
            for outcome in done:
                lines[outcome.line - 1] = f"{outcome.digests} $ familiar {outcome.argv}"
            (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n", "utf-8")
        else:
            expected = recorded(name)
            for outcome in done:
                if outcome.digests != expected[outcome.line]:
                    was = expected[outcome.line]
                    line = f"{name}.txt:{outcome.line}: familiar {outcome.argv}\n"
                    sys.stdout.write(f"{line}    {was} -> {outcome.digests}\n")
                    code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
