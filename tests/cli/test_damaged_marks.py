"""Damage to the machine parts of a file is a finding of doctor, and stops no command."""

from __future__ import annotations

import random
from contextlib import closing

import pytest

from familiar_cli.actions.health.damaged_marks import damage_in
from familiar_cli.base.who.identity import Author
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.memory.pages.visible_lines import visible_in
from tests.support.cases import each
from tests.support.viewers import viewer_in
from tests.support.world import data, live, run

RECORD = '---\nmade_by: familiar\nsources: {"daily/2024-04-08_ada.md": "0123456789abcdef"}\n'
BLOCKS = "blocks: 1a2b3c4d\n---\n"
PRIVATE = "## In private: DM:anna <!-- private dm%2D42 -->\n\n- secret\n"
FILES = {
    "people/discord-42.md": f"# Anna\n\n- Bakes. <!-- turns 1-2 -->\n\n{PRIVATE}",
    "people/twitch-9.md": "# Ann\n\nThe same person. <!-- same person as discord-42 -->\n",
    "sessions/2024-04-08-evening.md": "# 2024-04-08, evening\n\n- Bread. <!-- turn 1 -->\n",
    "daily/2024-04-08_ada.md": f"{RECORD}{BLOCKS}# 2024-04-08\n\n- Bread. [chat:cli]\n",
    "weekly/2024-W15.md": f"{RECORD}{BLOCKS}# Week 15\n\n- Bread. <!-- from 1 -->\n",
    "digest/mid.md": f"{RECORD}made_at: 2024-04-09T00:00:00Z\n{BLOCKS}# Now\n\nBread.\n",
    "lore/tower.md": "# Tower\n\n- lamp\n\n<!-- lorebook entry 0123456789abcdef -->\n\nTall.\n",
    "topics/bread.md": "---\ntags: [bread]\n---\n# Bread\n\nSour. <!-- turns 1 -->\n",
    "reminders.md": "# Reminders\n\n- [ ] bake (2024-04-09 09:00)\n",
}
COMMANDS = (
    ("ask", "What of bread, Anna?", "--dry-run"),
    ("search", "bread"),
    ("status",),
    ("housekeep",),
    ("consolidate", "daily", "--dry-run"),
    ("consolidate", "daily"),
    ("distill", "short"),
    ("distill", "status"),
    ("people", "ls"),
    ("people", "show", "discord:42"),
    ("memory", "ls"),
    ("memory", "links"),
    ("memory", "grep", "bread"),
    ("memory", "log"),
    ("write-memory", "--dry-run"),
    ("remind", "ls"),
    ("doctor",),
)
JUNK = (
    "\0",
    "\ufeff",
    "---\n",
    "<!--",
    "-->",
    "{",
    "[",
    "99999999999999999999",
    "%FF%ZZ",
    "\t",
    ": ",
)


@pytest.fixture
def root():
    root = live("ada")
    (root / "character.toml").write_text('timezone = "UTC"\n', encoding="utf-8")
    write(root, FILES)
    with closing(HistoryStore(root / "history.db")) as history:
        history.append("cli", "user", "I bake bread.", author=Author("discord", "42", None, "Anna"))
    return root


def write(root, files) -> None:
    for rel_path, text in files.items():
        path = root / "memory" / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))


def damaged(text: str, chance: random.Random) -> str:
    """Return `text` with a few changes where the program's own marks stand."""
    for _ in range(chance.randint(1, 3)):
        marks = [n for n, char in enumerate(text) if char in "-<>:%{}[]0123456789"] or [0]
        at = chance.choice(marks)
        match chance.randint(0, 3):
            case 0:
                text = text[:at] + text[at + chance.randint(1, 4) :]
            case 1:
                text = text[:at] + chance.choice(JUNK) + text[at:]
            case 2:
                text = text[:at] + chance.choice(JUNK) + text[at + 1 :]
            case _:
                text = text[:at] if chance.random() < 0.2 else text + text[at : at + 30]
    return text


@pytest.mark.parametrize("seed", range(4))
def test_no_damage_is_an_exception_in_any_command(root, seed) -> None:
    chance = random.Random(seed)
    write(root, {rel_path: damaged(text, chance) for rel_path, text in FILES.items()})
    for argv in COMMANDS:
        result = run(*argv)
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            argv,
            result.exc_info,
        )
        assert "the check itself failed" not in result.output
        assert "unexpected" not in result.output.lower(), (argv, result.output)


def test_what_is_whole_is_no_finding(root) -> None:
    assert [damage_in(text) for text in FILES.values()] == [[]] * len(FILES)
    assert "marks" not in {check["name"] for check in data("doctor")["checks"]}


@pytest.mark.parametrize(
    ("rel_path", "old", "new", "line"),
    [
        ("people/discord-42.md", "<!-- turns 1-2 -->", "<!-- turns one -->", 3),
        ("people/discord-42.md", "<!-- turns 1-2 -->", "<!-- turns 1-2", 3),
        ("people/discord-42.md", "<!-- turns 1-2 -->", "<!-- trns 1-2 -->", 3),
        ("people/discord-42.md", "<!-- private dm%2D42 -->", "<!-- private dm", 5),
        ("people/discord-42.md", " <!-- private dm%2D42 -->", "", 5),
        ("people/twitch-9.md", "same person as discord-42", "same person as", 3),
        ("daily/2024-04-08_ada.md", "blocks: 1a2b3c4d", "blocks: 1a2b3c", 2),
        ("weekly/2024-W15.md", '{"daily', '{["daily', 2),
        ("weekly/2024-W15.md", "<!-- from 1 -->", "<!-- from 1", 8),
        ("digest/mid.md", "\n---\n# Now", "\n# Now", 1),
        ("lore/tower.md", "entry 0123456789abcdef", "entry xyz", 5),
        ("topics/bread.md", "tags: [bread]", "tags: [bread", 2),
    ],
)
def test_each_damaged_part_is_one_finding_with_file_and_line(
    root, rel_path, old, new, line
) -> None:
    assert old in FILES[rel_path]
    write(root, {rel_path: FILES[rel_path].replace(old, new)})
    checks = data("doctor")["checks"]
    (found,) = [check for check in checks if check["name"] == "marks"]
    assert found["verdict"] == "warn"
    assert found["detail"].startswith(f"{rel_path}:{line}: ")


@each(
    "heading",
    [
        "## In private: DM:anna <!-- private dm%2D42",
        "## In private: DM:anna <!-- private -->",
        "## In private: DM:anna <!--private dm-->",
        "## In private: DM:anna",
        "## DM:anna <!-- priv dm -->",
    ],
)
def test_a_damaged_private_mark_shows_its_section_to_nobody(heading) -> None:
    text = f"# Anna\n\n- bakes\n\n{heading}\n\n- secret\n\n## Likes\n\n- tea\n"
    for channel in (None, "dm", "dm-42"):
        seen = visible_in(text, viewer_in(channel))
        assert "secret" not in seen
        assert "- tea" in seen


def test_a_heading_without_its_space_keeps_its_section_to_its_channel() -> None:
    text = "# Anna\n\n##In private: DM:anna <!-- private dm -->\n\n- secret\n\n## Likes\n\n- tea\n"
    seen = {channel: visible_in(text, viewer_in(channel)) for channel in (None, "dm", "dm-42")}
    assert [channel for channel, shown in seen.items() if "secret" in shown] == ["dm"]
