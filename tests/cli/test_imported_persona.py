"""A persona that was imported, and what the rest of the program makes of it; nothing is lost."""

from __future__ import annotations

import json
import re

import pytest

from familiar_cli.imports.folders import read_folder
from familiar_cli.imports.personas import LEDGER
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.imported import originals
from tests.support.server import ChatServer
from tests.support.world import data, home, run

TASKS = [
    {"id": "t-1", "title": "Mend the tide clock", "status": "open", "due": "2024-05-01"},
    {"id": "t-2", "title": "Answer Ib", "status": "in_progress", "meta": {"weight": 0.5}},
    {"id": "t-3", "title": "Buy oars", "completed": True},
]
FILES = {
    "IDENTITY.md": b"# Inara\r\n\r\nI am identity.\r\n",
    "SOUL.md": b"I am soul, no newline at the end",
    "PROTOCOLS.md": b"\xef\xbb\xbfI am protocols.\n\n\n",
    "CONTEXT_TIERS.md": b"I am tiers.  \n",
    "USER.md": "# USER\n\nName: Šárka\n\nI am user.\n".encode(),
    "HELP.md": b"I am help.\n",
    "MEMORY_SHORT.md": b"## 2024-04-08\n\nI am short.\n\n## 2024-04-09\n\nThe oars are gone.\n",
    "MEMORY_MID.md": b"# Mid\n\nI am mid.\n",
    "MEMORY_LONG.md": b"I am long.\r\n\r\n- We met in 2019.\r\n",
    "REMINDERS.md": b"# Reminders\r\n\r\n* [ ] I am reminders\r\n* [ ] never yet @2999-01-01\r\n",
    "SCRATCH.md": b"I am scratch.\n\n    indented\n",
    "TASKS.json": json.dumps({"version": 3, "tasks": TASKS}, indent="\t").encode(),
    "CRONS.json": b'[{"id": "tides", "schedule": "0 6 * * *"}]',
    "sessions/2024-04-08.md": b"# 2024-04-08\n\n**Anna** (05:12): I am session.\n",
    "sessions/2024-04-09.md": b"# 2024-04-09\n\nThe oars are gone.\n",
    "sessions/notes.txt": b"\xff\xfe no text",
    "portrait.png": bytes(range(256)),
}
WORDS = ("identity", "soul", "protocols", "tiers", "user", "help", "short", "mid", "long")
WORDS = (*WORDS, "reminders", "scratch", "session")
OF_TIER = {
    1: {"identity"},
    2: {"soul", "protocols", "user", "short", "mid", "reminders"},
    3: {"long", "tiers"},
    4: {"scratch"},
}
TASK = "Mend the tide clock"


@pytest.fixture
def folder(tmp_path):
    directory = tmp_path / "home" / "scott" / "persona" / "inara"
    for name, content in FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return directory


@pytest.fixture
def memory(folder):
    result = take(folder)
    assert result.exit_code == 0, result.output
    run("config", "set", "llm.preset", "custom")
    return home() / "inara" / "memory"


@pytest.fixture
def server(monkeypatch):
    reply = {"summary": "The tide clock stands still.", "points": []}
    with ChatServer([json.dumps(reply)]) as started:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", started.base_url)
        yield started


def take(folder, *options):
    return run("init", "--from-persona", str(folder), "--user", "cli:user", *options)


def tree(memory):
    walk = MemoryStore(memory).walk(hidden=True)
    return {file.rel_path: (memory / file.rel_path).read_bytes() for file in walk.files}


def test_every_byte_of_every_file_is_there(memory) -> None:
    stored = set(tree(memory).values())
    assert [name for name, content in FILES.items() if content not in stored] == []
    assert originals(MemoryStore(memory), LEDGER) == FILES


def test_a_second_import_changes_nothing(memory, folder) -> None:
    before, commits = tree(memory), data("memory", "log")["commits"]
    assert take(folder).stdout.startswith("Nothing to change in Inara (inara)\n")
    assert take(folder, "--update").stdout.startswith("Nothing to change")
    assert (tree(memory), data("memory", "log")["commits"]) == (before, commits)


def test_after_a_persons_edits_the_edits_win(memory, folder) -> None:
    shown = [path for path in tree(memory) if not re.search(r"(^|/)\.", path)]
    for path in shown:
        (memory / path).write_bytes(b"Mine: " + path.encode() + b"\n")
    made = json.loads(take(folder, "--json").stdout)["data"]["familiars"][0]
    assert (made["edited"], made["written"]) == (sorted(shown), [])
    assert all((memory / path).read_bytes() == f"Mine: {path}\n".encode() for path in shown)


def test_nothing_is_lost_by_what_the_program_does_with_it(memory, folder, server) -> None:
    for argv in (
        ("distill", "short"),
        ("distill", "mid"),
        ("distill", "long"),
        ("consolidate",),
        ("task", "done", "1"),
        ("remind", "done", "1"),
        ("scratch", "clear"),
    ):
        assert run(*argv).exit_code == 0, argv
    assert originals(MemoryStore(memory), LEDGER) == FILES
    assert read_folder(folder).files == FILES
    made = json.loads(take(folder, "--json").stdout)["data"]["familiars"][0]
    assert made["written"] == []
    assert {"digest/short.md", "tasks.md", "reminders.md", "scratch.md"} <= set(made["edited"])
    assert len(server.requests) == 5  # mid, long, the week, the month and the year


def sent(*options: str) -> set[str]:
    found = data("ask", "Hello", "--dry-run", *options)
    prompt = "\n".join(message["content"] for message in found["messages"])
    assert (TASK in prompt) == (found["tier"] == 4)
    assert ('meta: {"weight": 0.5}' in prompt) == (found["tier"] == 4)
    assert "Buy oars" not in prompt  # it is done
    assert "never yet" not in prompt  # it is not due
    return {word for word in WORDS if f"I am {word}" in prompt}


@pytest.mark.parametrize("tier", [1, 2, 3, 4])
@pytest.mark.usefixtures("memory")
def test_a_tier_loads_what_the_persona_had_for_it_by_option_and_by_channel(tier) -> None:
    wanted = set().union(*(words for number, words in OF_TIER.items() if number <= tier))
    assert sent("--tier", str(tier)) == wanted
    run("channel", "set", "deck", "tier", str(tier))
    assert sent("--channel", "deck") == wanted
    assert sent("--channel", "cabin") == OF_TIER[1] | OF_TIER[2]


@pytest.mark.usefixtures("memory")
def test_a_stranger_gets_the_persona_without_its_desk() -> None:
    found = data("ask", "Hello", "--as", "discord:7", "--dry-run", "--tier", "4")
    prompt = "\n".join(message["content"] for message in found["messages"])
    assert TASK not in prompt
    told = {word for word in WORDS if f"I am {word}" in prompt}
    assert told == set().union(*OF_TIER.values()) - {"reminders", "scratch", "user"}


def test_a_digest_that_came_with_the_persona_stays_when_one_is_made(memory, server) -> None:
    before = {
        name: (memory / f"digest/{name}.md").read_bytes() for name in ("short", "mid", "long")
    }
    for name, theirs in before.items():
        assert "contains text of yours, which is kept" in run("distill", name).stderr
        made = (memory / f"digest/{name}.md").read_text("utf-8")
        for line in theirs.decode().splitlines():
            assert line in made
        assert data("distill", name)["outcome"] == "unchanged"
    short = (memory / "digest/short.md").read_text("utf-8")
    assert short.count("The oars are gone.") == 1
    assert short.count("I am session.") == 1
    assert short.index("# The latest sessions") < short.index("I am short.")
    for name in ("long", "mid", "short"):
        run("memory", "undo")
        assert (memory / f"digest/{name}.md").read_bytes() == before[name]
    assert len(server.requests) == 2


@pytest.mark.usefixtures("server")
def test_making_it_again_and_again_neither_doubles_nor_loses_what_came_with_it(memory) -> None:
    seen = []
    for _ in range(3):
        for name in ("short", "mid", "long"):
            assert run("distill", name, "--redo").exit_code == 0
        made = {
            name: re.sub(r"made_at: .*|sources: .*", "", text.decode())
            for name, text in tree(memory).items()
            if name.startswith("digest/")
        }
        seen.append(made)
    assert seen == [seen[0]] * 3
    assert seen[0]["digest/long.md"].count("We met in 2019.") == 1


def test_tasks_that_came_with_it_are_listed_closed_and_keep_every_field(memory) -> None:
    items = data("task", "ls", "--all")["items"]
    assert [(item["text"], item["mark"], item["due"]) for item in items] == [
        ("Mend the tide clock", "open", "2024-05-01"),
        ("Answer Ib", "open", None),
        ("Buy oars", "done", None),
    ]
    assert run("task", "done", "2").exit_code == 0
    page = (memory / "tasks.md").read_text("utf-8")
    assert '- [x] Answer Ib\n  id: t-2\n  status: in_progress\n  meta: {"weight": 0.5}\n' in page
    assert (memory / "self/.persona/TASKS.json").read_bytes() == FILES["TASKS.json"]
    assert run("task", "add", "Caulk").exit_code == 0
    assert (memory / "tasks.md").read_text("utf-8").endswith("  id: t-3\n- [ ] Caulk\n")


def test_reminders_and_scratch_that_came_with_it_keep_their_form(memory) -> None:
    assert [item["text"] for item in data("remind", "ls")["items"]] == [
        "I am reminders",
        "never yet",
    ]
    run("remind", "done", "1")
    wanted = FILES["REMINDERS.md"].replace(b"[ ] I am", b"[x] I am")
    assert (memory / "reminders.md").read_bytes() == wanted
    run("scratch", "add", "more")
    assert (memory / "scratch.md").read_bytes() == FILES["SCRATCH.md"] + b"more\n"


def test_users_of_one_machine_have_a_home_each(folder, tmp_path) -> None:
    other = folder.parents[2] / "holly" / "persona" / "tina"
    other.mkdir(parents=True)
    (other / "IDENTITY.md").write_text("I am Tina.\n", "utf-8")
    for user in ("scott", "holly"):
        argv = ("--from-persona", str(folder.parents[2] / user), "--home", str(tmp_path / user))
        assert run("init", *argv).exit_code == 0
    known = {
        user: [one["id"] for one in data("list", "--home", str(tmp_path / user))["familiars"]]
        for user in ("scott", "holly")
    }
    assert known == {"scott": ["inara"], "holly": ["tina"]}
    assert data("list")["familiars"] == []
