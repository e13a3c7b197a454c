"""Every command shown in the documentation is run, and prints what the page says."""

from __future__ import annotations

import os
import re
import shutil

import pytest
import typer

from familiar_cli.base.markdown import scan
from familiar_cli.cli.app import app
from tests.support import pages
from tests.support.cases import IS_NIGHT, each
from tests.support.server import Say
from tests.support.world import home, run

ROOT = typer.main.get_command(app)
PAGES = [pages.ROOT / "README.md", *sorted((pages.ROOT / "docs").rglob("*.md"))]

PROSE = [*PAGES, pages.ROOT / "CHANGELOG.md"]
MENTIONED = sorted({words for page in PROSE for words in pages.inline(page.read_text("utf-8"))})
STAND_INS = {
    "ID": "cli",
    "KEY": "memory_writer.dm",
    "NAME": "scripted-1",
    "PATH": "notes.md",
    "TEXT": "Hello",
    "WHEN": "7d",
}
NOT_RUN = {
    "daemon",
    "serve",
    "mcp",
    "web",
    "edit",
    "pull",
    "FILE",
    "FILE|DIR",
    "graph.db",
    "graph.json",
    "DIR",
    "mira.png",
    "home/noor",
}
"""What stays, or needs the network, an editor or a file."""
ENDS = {
    "backup list backups": 4,  # there are none yet
    "ask": 2,  # without a text it replies to a turn, which --reply-to names
    "ask --json": 2,
    "ask --off-record": 2,
    "ask --show-thinking": 2,
    "config unset embedding.base_url": 4,
    "export --format mem": 2,  # it needs a directory
    "people show NAME": 4,
    "context --last --why lore/PATH": 4,
    "memory publish PATH#SECTION --to anna": 4,
    "sync adopt main": 4,
    "config unset sync.old_key_files": 4,
    "context --why 12": 4,
    "why 12": 4,
    "export-lorebook": 4,
    "history choose 1204 --swipe 2": 4,
    "graph NAME": 4,
    "init --from-remote ADDRESS": 1,
    "sync accept": 4,
    "sync allow NAME": 4,
    "sync block NAME": 4,
    "sync forget old-laptop-7f3a": 4,
    "sync forget phone": 4,
    "sync rekey": 5,
    "sync rekey --new-signing-key": 5,
    "sync resolve --merged": 4,
    "memory restore PATH --at COMMIT": 2,
    "memory undo --run ID": 4,
    "people forget PERSON": 4,
    "people merge KEPT OTHER": 4,
    "people split OTHER": 4,
    "review apply": 4,
    "review reject": 4,
    "review show": 4,
}
"""What ends with another code than 0 where nothing of the kind is there."""

IN_PROCESSES = {"README.md", "docs/tutorial/first-steps.md"} if IS_NIGHT else set()
"""Pages whose commands are programs of their own, as a reader runs them: ten times as slow.

The model in the program answers on all pages at night; else a script does.
"""


def name(page) -> str:
    return page.relative_to(pages.ROOT).as_posix()


@pytest.mark.parametrize(
    "page", [p for p in PAGES if "```console" in p.read_text("utf-8")], ids=name
)
@pytest.mark.posix
def test_shown_commands_print_what_the_page_shows(
    page, tmp_path, model_cache, monkeypatch, quick_engine
) -> None:
    (tmp_path / "examples").symlink_to(pages.ROOT / "examples", target_is_directory=True)
    env = {"FAMILIAR_HOME": str(tmp_path / "familiars"), "FAMILIAR_CACHE": str(model_cache)}
    env |= {"PYTHONIOENCODING": "utf-8", "COLUMNS": "100", "PYTHONPATH": str(pages.ROOT)}
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    here = name(page) not in IN_PROCESSES
    for step in pages.steps(page.read_text("utf-8")):
        code, printed = pages.run(step.command, tmp_path, dict(os.environ), in_process=here)
        where = f"{name(page)}:{step.line}: $ {step.command}"
        fails = any(line.startswith("error:") for line in step.shown)
        assert (code != 0) == fails, f"{where} ended with {code}:\n{printed}"
        assert pages.matches(step.shown, printed), f"{where} printed:\n{printed}"


@each("page", PAGES, ids=name)
def test_links_between_pages_lead_somewhere(page) -> None:
    prose = "".join(line.text for line in scan(page.read_text("utf-8")) if not line.in_code)
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", prose)
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


def parsed(words):
    """Return whether a command is whole; fail when nobody could type it so.

    One that only names a command or an option, such as `familiar init --template`, is not.
    """
    command, path, rest = ROOT, [], list(words)
    if rest[0] in {"--home", "--familiar"}:  # they may stand before the command or after it
        rest = [*rest[2:], *rest[:2]]
    while rest and hasattr(command, "get_command") and not rest[0].startswith("-"):
        command = command.get_command(None, rest[0])
        assert command is not None, f"there is no command {' '.join(words)!r}"
        path.append(rest.pop(0))
    if hasattr(command, "get_command"):
        known = {name for option in command.params for name in option.opts}
        assert {word for word in rest if word.startswith("--")} <= known
        return False
    try:
        command.make_context(" ".join(path), rest)
    except Exception as error:
        if type(error).__name__ == "MissingParameter" or "requires an argument" in str(error):
            return False
        raise
    return True


def test_a_command_in_a_sentence_can_be_typed_as_it_stands() -> None:
    wrong = {}
    for words in MENTIONED:
        try:
            parsed(words)
        except Exception as error:  # noqa: BLE001  # all are told at once
            wrong[" ".join(words)] = str(error)
    assert len(MENTIONED) > 150
    assert wrong == {}


@each("words", [["memry"], ["memory", "lgo"], ["ask", "--of-record"], ["use", "a", "b"]])
def test_a_command_that_cannot_be_typed_is_caught(words) -> None:
    with pytest.raises(Exception, match=r"no command|No such option|unexpected extra argument"):
        parsed(words)


def test_whole_commands_in_sentences_do_what_they_say(serve, tmp_path, monkeypatch) -> None:
    serve(Say('{"operations": []}'))
    run("init", "ada", "--template", "companion")
    run("memory", "write", "notes.md", "# Notes\n")
    run("memory", "write", "people/discord-42.md", "# Robin\n")
    run("memory", "write", "digest/long.md", "# What lasts\n")
    run("config", "set", "memory_writer.dm", "share")
    assert [run("ask", text).exit_code for text in ("Hello", "Good night")] == [0, 0]
    whole = [words for words in MENTIONED if parsed(words) and not NOT_RUN & set(words)]
    assert len(whole) > 40
    made, ended = home(), {}
    for number, words in enumerate(whole):
        copy = tmp_path / str(number)
        shutil.copytree(made, copy)
        monkeypatch.setenv("FAMILIAR_HOME", str(copy))
        result = run(*(STAND_INS.get(word, word) for word in words))
        if result.exit_code != ENDS.get(" ".join(words), 0):
            ended[" ".join(words)] = (result.exit_code, result.stderr)
    assert not ended, str(ended)


def test_a_page_that_shows_something_else_is_caught() -> None:
    assert pages.matches(("one", "...", "t…e"), "one\ntwo\nthree\n")
    assert not pages.matches(("one",), "one\ntwo\n")
    assert not pages.matches(("one", "...", "four"), "one\ntwo\n")


def test_steps_are_read_with_the_lines_below_them() -> None:
    page = "text\n```console\n$ familiar list\nada\n$ familiar use ada\n```\n"
    assert [(s.command, s.shown, s.line) for s in pages.steps(page)] == [
        ("familiar list", ("ada",), 3),
        ("familiar use ada", (), 5),
    ]
