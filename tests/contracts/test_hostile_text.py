"""Whatever a text from outside holds, no command lets it steer a terminal or stop for it."""

from __future__ import annotations

import re
import shutil
import sys

import pytest
import typer

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.cli import app as cli
from familiar_cli.context.trace import TracedMessage, write_trace
from familiar_cli.store.history import HistoryStore
from tests.support.cards import as_json, v3
from tests.support.cases import IS_NIGHT, each
from tests.support.lorebooks import book_entry
from tests.support.server import ChatServer, Fail, Say
from tests.support.terminals import encoded, into_closed_pipe, on_terminal
from tests.support.traces import piece, trace
from tests.support.world import home, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\u202egnp\u2066\x08\x7f[/b]城👋"
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Colours, and how a progress bar hides the cursor, draws its line again and ends it.
OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\r?\x1b\[(?:2K|1A)|\r+\n")


def leaves(command, path=()):
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    if not names:
        return [path]
    return [leaf for n in names for leaf in leaves(command.get_command(None, n), (*path, n))]


LEAVES = leaves(typer.main.get_command(cli.app))
# Realistic words for each command; those that are not here are called without any.
WORDS = {
    ("init",): [["--from-card", "CARD", "--dry-run"], ["--from-card", EVIL], [EVIL]],
    ("use",): [["ada"], [EVIL]],
    ("start",): [["--card", EVIL], ["--template", EVIL], ["--preset", EVIL]],
    ("ask",): [["Hello", "--name", EVIL], ["Hello", "--dry-run"], [EVIL, "--channel", EVIL]],
    ("chat",): [["--name", EVIL]],
    ("context",): [["7"], ["7", "--messages"], ["7", "--diff", "7"], ["9"], ["7", "--raw"]],
    ("todo", "add"): [[EVIL], ["x", "--at", EVIL]],
    ("todo", "ls"): [[], ["--all"]],
    ("todo", "done"): [[EVIL]],
    ("todo", "note"): [[EVIL], []],
    ("help",): [[EVIL], ["reminder"], ["--all"]],
    ("why",): [["7"], ["9"], [EVIL]],
    ("memory", "ls"): [[], [EVIL], ["-a"]],
    ("memory", "cat"): [["evil.md"], [EVIL], ["self/description.md"]],
    ("memory", "grep"): [["e"], [EVIL], ["("], ["-l", "e"]],
    ("memory", "glob"): [["**/*"], [EVIL]],
    ("memory", "write"): [["new.md", EVIL], [EVIL, "x"], ["new.md", "x", "--expect", EVIL]],
    ("memory", "append"): [["new.md", EVIL, "--dry-run"]],
    ("memory", "rm"): [[EVIL]],
    ("memory", "mv"): [["evil.md", EVIL]],
    ("memory", "pin"): [["evil.md"], [EVIL], ["self/description.md"]],
    ("memory", "pins"): [[]],
    ("memory", "unpin"): [["evil.md"], [EVIL]],
    ("card", "show"): [["CARD"], [EVIL]],
    ("card", "check"): [["CARD"]],
    ("card", "export"): [["--format", "json"], ["--out", EVIL + "/x.png"]],
    ("import-lorebook",): [["CARD", "--dry-run"], ["CARD", "--into", EVIL], ["CARD"]],
    ("export-lorebook",): [[], ["--from", EVIL], ["--out", EVIL + "/x.json"]],
    ("config", "get"): [["name"], [EVIL]],
    ("config", "set"): [["name", EVIL], [EVIL, EVIL], ["llm.preset", EVIL]],
    ("config", "unset"): [[EVIL]],
    ("model", "pull"): [[EVIL]],
    ("model", "rm"): [[EVIL]],
    ("model", "test"): [[], [EVIL]],
    ("demo",): [["--dry-run"]],
    ("daemon",): [["--once"]],
    ("serve", "log"): [["--no-follow"]],
    ("web",): [["--no-open", "--familiar", EVIL]],  # without it, it stays
    ("search",): [["e"], [EVIL]],
    ("channel", "show"): [["cli"], [EVIL]],
    ("channel", "branch"): [[EVIL + "2", "--from", "1"], ["b", "--from", "1", "--channel", EVIL]],
    ("people", "show"): [[EVIL]],
    ("history", "show"): [["1"], [EVIL]],
    ("history", "search"): [["e"], [EVIL]],
    ("memory", "log"): [[], [EVIL]],
    ("memory", "links"): [["evil.md"], [EVIL]],
    ("memory", "blame"): [["evil.md"]],
    ("import-chat",): [[EVIL]],
}
CALLS = [(*path, *words) for path in LEAVES for words in WORDS.get(path, [[]])]
HEAVY = {("demo",), ("daemon",)}


def shown(argv) -> str:
    return " ".join(argv).encode("ascii", "ignore").decode().replace("\x1b", "")[:40] or "-"


@pytest.fixture(scope="module")
def evil_card(tmp_path_factory):
    """A card all of whose texts are hostile, and the tags, assets and lore, too."""
    texts = {
        name: f"{EVIL} {name}\n{EVIL}"
        for name in ("description", "personality", "scenario", "first_mes", "creator_notes")
    }
    book = {"name": EVIL, "entries": [book_entry(EVIL, EVIL, [EVIL], comment=EVIL)]}
    value = v3(
        **texts,
        name="Ada " + EVIL,
        nickname=EVIL,
        tags=[EVIL],
        creator=EVIL,
        character_version=EVIL,
        alternate_greetings=[EVIL],
        assets=[{"type": EVIL, "name": EVIL, "uri": EVIL, "ext": EVIL}],
        extensions={EVIL: 1, "depth_prompt": {"prompt": EVIL, "depth": 4, "role": EVIL}},
        character_book=book | {EVIL: EVIL},
    )
    path = tmp_path_factory.mktemp("cards") / "evil.json"
    path.write_bytes(as_json(value | {EVIL: EVIL}))
    return path


@pytest.fixture(scope="module")
def familiar(evil_card, tmp_path_factory):
    """A familiar full of hostile text."""
    place = tmp_path_factory.mktemp("home")
    made = run("init", "ada", "--from-card", str(evil_card), "--home", str(place))
    assert made.exit_code == 0, made.output
    root = place / "ada"
    (root / "memory" / "evil.md").write_text(f"# {EVIL}\n\n{EVIL}\n", encoding="utf-8")
    for name in ("\x1b[2J.md", "\u202egnp.md", "a\nb.md"):
        (root / "memory" / name).write_text("e", encoding="utf-8")
    (root / "memory" / "link.md").symlink_to("\x1b[31mnowhere")
    written = EVIL.translate({ord(c): f"\\u{ord(c):04x}" for c in EVIL if not c.isprintable()})
    toml = f'name = "{written}"\nuser_name = "{written}"\n'
    (root / "character.toml").write_text(toml, encoding="utf-8")
    store = HistoryStore(root / "history.db")
    store.append(EVIL, "user", EVIL, author=Author("cli", EVIL, EVIL, EVIL), source=EVIL)
    store.append("cli", "assistant", EVIL, modality=EVIL)
    store.close()
    hostile = piece(EVIL, rel_path=EVIL, reason=EVIL, text=EVIL, kept=False)
    record = trace(
        7,
        messages=(TracedMessage("user", EVIL),),
        model=EVIL,
        error=EVIL,
        channel_id=EVIL,
        counter=EVIL,
        finish_reason=EVIL,
        notices=(EVIL,),
        contributions=(hostile,),
    )
    write_trace(root / "traces", record)
    return root


@pytest.fixture
def world(familiar, monkeypatch):
    """The familiar in a home of its own, and a server that speaks nothing but hostile text."""
    shutil.copytree(familiar, home() / "ada", symlinks=True)
    monkeypatch.setenv("FAMILIAR_LLM_MODEL", EVIL.replace("\x1b", ""))
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm-256color")
    with ChatServer([Say(EVIL)]) as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        yield server


def filled(argv, evil_card) -> list[str]:
    return [str(evil_card) if word == "CARD" else word for word in argv]


def assert_harmless(printed: str) -> None:
    found = HARMFUL.search(OURS.sub("\n", printed))
    where = found and printed[max(found.start() - 60, 0) : found.end() + 60]
    assert found is None, repr(where)
    assert "Traceback" not in printed


@each("argv", CALLS, ids=shown)
def test_no_text_steers_a_terminal_or_stops_a_command(argv, world, evil_card) -> None:
    words = filled(argv, evil_card)
    assert_harmless(on_terminal(*words)[1])
    ways = ["--json", "ascii", "cp1252", "no reader"]
    for way in ways if IS_NIGHT else [ways[CALLS.index(argv) % len(ways)]]:
        if way == "--json":
            assert_harmless(on_terminal(*words, way)[1])
            continue
        code, *printed = into_closed_pipe(*words) if way == "no reader" else encoded(way, *words)
        assert code in range(8), way
        assert not re.search("Traceback|Broken pipe", str(printed)), way


@pytest.mark.parametrize(
    "step",
    [
        Fail(500, EVIL),
        Fail(401, EVIL, EVIL),
        Fail(429, EVIL, retry_after="0"),
        Fail(404, EVIL),
        Fail(400, body=EVIL.encode(), content_type="text/html"),
        Fail(418, EVIL, content_type=EVIL.encode("ascii", "ignore").decode()[:0] + "x"),
    ],
    ids=lambda step: str(step.status),
)
def test_a_servers_error_steers_no_terminal(step, world, monkeypatch) -> None:
    with ChatServer([step]) as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        for argv in (("ask", "Hello"), ("ask", "Hello", "--json"), ("model", "test"), ("context",)):
            assert_harmless(on_terminal(*argv)[1])


@pytest.mark.parametrize("argv", [("list",), ("status",), ("context", "7"), ("memory", "ls")])
def test_a_dumb_or_colourless_terminal_gets_no_colours(argv, world, monkeypatch) -> None:
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as environment:
            environment.setenv(name, value)
            environment.setenv("COLUMNS", "40")
            _, printed = on_terminal(*argv)
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]", printed)
        assert_harmless(printed)


@pytest.mark.parametrize("argv", [("list",), ("status",), ("context", "7"), ("config", "show")])
def test_a_narrow_terminal_gets_no_longer_lines(argv, world, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    _, printed = on_terminal(*argv)
    from rich.cells import cell_len

    lines = OURS.sub("\n", printed).split("\n")
    assert max(cell_len(line) for line in lines) <= 40


def test_what_was_said_into_a_closed_pipe_is_kept_with_its_reply(world) -> None:
    code, told = into_closed_pipe("ask", "Hello", "--channel", "c")
    store = HistoryStore(home() / "ada" / "history.db")
    kept = [(turn.role, turn.partial) for turn in store.recent("c", 5, viewer=OWNER)]
    store.close()
    assert kept[-2:] == [("user", False), ("assistant", False)], (code, told)
