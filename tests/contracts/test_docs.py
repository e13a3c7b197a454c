"""Every command shown in the documentation is run, and prints what the page says."""

from __future__ import annotations

import os
import re

import pytest

from tests.support import pages

PAGES = [pages.ROOT / "README.md", *sorted((pages.ROOT / "docs").rglob("*.md"))]


def name(page) -> str:
    return page.relative_to(pages.ROOT).as_posix()


@pytest.mark.parametrize(
    "page", [p for p in PAGES if "```console" in p.read_text("utf-8")], ids=name
)
def test_shown_commands_print_what_the_page_shows(page, tmp_path, model_cache) -> None:
    (tmp_path / "examples").symlink_to(pages.ROOT / "examples", target_is_directory=True)
    env = dict(os.environ)
    env |= {"FAMILIAR_HOME": str(tmp_path / "familiars"), "FAMILIAR_CACHE": str(model_cache)}
    env |= {"PYTHONIOENCODING": "utf-8", "COLUMNS": "100", "PYTHONPATH": str(pages.ROOT)}
    for step in pages.steps(page.read_text("utf-8")):
        code, printed = pages.run(step.command, tmp_path, env)
        where = f"{name(page)}:{step.line}: $ {step.command}"
        fails = any(line.startswith("error:") for line in step.shown)
        assert (code != 0) == fails, f"{where} ended with {code}:\n{printed}"
        assert pages.matches(step.shown, printed), f"{where} printed:\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_between_pages_lead_somewhere(page) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []


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
