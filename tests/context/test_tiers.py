"""Which files a prompt of each tier is made of, and what `why` says of the others."""

from __future__ import annotations

import pytest

from familiar_cli.context.tiers import LOADED, TIERS_NOTE, is_loaded, lowest_tier
from familiar_cli.store.memory.pages.front_matter import SELF_FILES
from tests.support.world import data, live, run

FILES = {
    "self/description.md": "# D\n\nI am identity.",
    "self/personality.md": "# P\n\nI am soul.",
    "self/system_prompt.md": "# S\n\nI am protocols.",
    "self/post_history_instructions.md": "# P\n\nI am last.",
    "self/scenario.md": "# S\n\nI am scenario.",
    "people/cli-user.md": "# Anna\n\nI am user.",
    "digest/short.md": "# Short\n\n## 2026-01-01\n\nI am short.",
    "digest/mid.md": "# Mid\n\nI am mid.",
    "digest/long.md": "# Long\n\nI am long.",
    "reminders.md": "- [ ] I am reminders @2026-01-01",
    TIERS_NOTE: "I am tiers.",
    "scratch.md": "I am scratch.",
    "tasks.md": "- [ ] I am tasks",
}
OF_TIER = {
    1: {"identity"},
    2: {"soul", "protocols", "last", "scenario", "user", "short", "mid", "reminders"},
    3: {"long", "tiers"},
    4: {"scratch", "tasks"},
}
EVERY = set().union(*OF_TIER.values())


@pytest.fixture
def root():
    root = live("ada")
    for rel_path, text in FILES.items():
        path = root / "memory" / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return root


def sent(*options: str) -> set[str]:
    found = data("ask", "Hello", "--dry-run", *options)
    prompt = "\n".join(message["content"] for message in found["messages"])
    return {word for word in EVERY if f"I am {word}" in prompt}


def upto(tier: int) -> set[str]:
    return set().union(*(words for number, words in OF_TIER.items() if number <= tier))


@pytest.mark.parametrize("tier", [1, 2, 3, 4])
@pytest.mark.usefixtures("root")
def test_a_tier_loads_what_the_one_below_it_does_and_more(tier) -> None:
    assert sent("--tier", str(tier)) == upto(tier)


@pytest.mark.usefixtures("root")
def test_two_is_the_usual_one() -> None:
    assert sent() == upto(2)


@pytest.mark.usefixtures("root")
def test_the_option_comes_before_the_channel_and_that_before_the_setting() -> None:
    run("config", "set", "context.tier", "3")
    run("channel", "set", "quick", "tier", "1")
    assert sent() == upto(3)
    assert sent("--channel", "quick") == upto(1)
    assert sent("--channel", "quick", "--tier", "4") == upto(4)
    assert data("ask", "Hi", "--dry-run", "--channel", "quick")["tier"] == 1


@pytest.mark.parametrize("value", ["0", "5", "two"])
@pytest.mark.usefixtures("root")
def test_there_are_four(value) -> None:
    assert run("ask", "Hello", "--dry-run", "--tier", value).exit_code == 2
    assert run("config", "set", "context.tier", value).exit_code == 3


def test_every_file_of_the_character_that_is_sent_has_a_tier() -> None:
    without = {f.field for f in SELF_FILES if lowest_tier(f.rel_path) is None}
    assert without == {"first_mes"}  # it opens a channel, and is history from then on
    assert is_loaded("topics/sea.md", 1)


def test_why_names_the_tier(root, monkeypatch) -> None:
    from tests.support.server import ChatServer

    with ChatServer(["Hm."]) as server:
        monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
        run("config", "set", "llm.preset", "custom")
        assert run("ask", "Hello", "--as", "cli:anna", "--tier", "1").exit_code == 0
        for entry in LOADED[1:]:
            rel_path = "people/cli-anna.md" if entry.rel_path == "people/" else entry.rel_path
            if (root / "memory" / rel_path).exists():
                reasons = " ".join(data("context", "--last", "--why", rel_path)["reasons"])
                assert "tier 1 does not load it" in reasons, rel_path
