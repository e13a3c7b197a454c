"""What reaches the model in twelve situations: exactly what the page of that name shows."""

from __future__ import annotations

import re
import shlex

import pytest

from familiar_cli.base.markdown import sections
from tests.support.pages import ROOT
from tests.support.world import data, home, run

PAGE = (ROOT / "docs" / "explanation" / "what-reaches-the-model.md").read_text("utf-8")
SECTIONS = {section.title: section.body for section in sections(PAGE, 2) if section.level == 2}
FENCE = re.compile(r"^```(\w+)(?: ([^\n]+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CHARACTER = (
    'name = "Ada"\ntimezone = "UTC"\n[llm]\npreset = "openai"\n'
    '[context]\nprovider_deadline_s = 30\n[embedding]\nmodel = "none"\n'
)
OF_MEMORY = ("content_search.", "recall.", "memory.pinned")


def set_up(body: str, tmp_path) -> None:
    """Make the familiar that a section of the page describes."""
    root = home() / "ada"
    (root / "memory" / "self").mkdir(parents=True)
    (root / "memory" / "self" / "description.md").write_text("# Description\n\nAda.\n", "utf-8")
    fences = FENCE.findall(body)
    settings = "".join(text for kind, _, text in fences if kind == "toml")
    (root / "character.toml").write_text(CHARACTER + settings, "utf-8")
    for kind, name, text in fences:
        if kind == "markdown":
            path = root / "memory" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        elif kind in {"json", "jsonl"}:
            source = tmp_path / f"{name}.{kind}"
            source.write_text(text, "utf-8")
            book = ("import-lorebook", str(source))
            names = re.findall(r'"role": "user".*?"name": "([^"]+)"', text)
            mine = ("--me", names[0]) if len(set(names)) == 1 else ()
            chat = ("import-chat", str(source), "--channel", name, *mine)
            done(*(book if kind == "json" else chat))
    for command in re.findall(r"`familiar ([^`]+)`", body):
        done(*shlex.split(command))


def done(*argv: str) -> None:
    result = run(*argv)
    assert result.exit_code == 0, result.output


def memory_block(said: str) -> tuple[str, str]:
    """Return the memory in the prompt for what Robin says, and all of the prompt."""
    asked = data("ask", said, "--dry-run", "--name", "Robin")
    kept = [p for p in asked["contributions"] if p["kept"] and p["source"].startswith(OF_MEMORY)]
    prompt = "\n".join(message["content"] for message in asked["messages"])
    assert all(piece["text"] in prompt for piece in kept)
    return "\n".join(piece["text"] for piece in kept), prompt


@pytest.mark.parametrize("title", SECTIONS)
def test_the_prompt_gets_what_the_page_shows(title, tmp_path) -> None:
    body = SECTIONS[title]
    ((_, _, shown),) = [fence for fence in FENCE.findall(body) if fence[0] == "text"]
    (said,) = re.findall(r"^> (.+)$", body, re.MULTILINE)
    set_up(body, tmp_path)

    block, prompt = memory_block(said)

    assert block == shown.rstrip("\n")
    assert not re.search(r"<!--|blocks:|sources:|\[via:", prompt)


def test_there_are_twelve_situations() -> None:
    assert len(SECTIONS) == 12
