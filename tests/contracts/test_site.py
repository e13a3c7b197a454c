"""The documentation as a site: all pages are in its navigation, and named pages exist."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import yaml

from familiar_cli import __version__
from familiar_cli.cli.commands.help import _FOLDER
from tests.support.pages import ROOT
from tests.support.world import data, run

DOCS = ROOT / "docs"
PATHS = re.compile(r"`((?:familiar_cli|tests|docs|examples|tools)/[\w./-]+)`")


def navigation(entry) -> list[str]:
    """Return the pages of a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in navigation(part)]


def test_each_page_stands_in_the_navigation_once() -> None:
    nav = navigation(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])
    assert sorted(nav) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


@pytest.mark.skipif(not shutil.which("zensical"), reason="the extra docs is not installed")
def test_the_site_builds_strictly_and_fetches_nothing(tmp_path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    built = subprocess.run(
        ["zensical", "build", "--strict"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {page: page.read_text("utf-8") for page in (tmp_path / "site").rglob("*.html")}
    assert len(pages) > 90
    fetched = re.compile(
        r"<(?:script|img)[^>]+src=\"https?:|<link rel=\"(?:stylesheet|preconnect)\"[^>]+https?:"
    )
    assert [page.name for page, text in pages.items() if fetched.search(text)] == []
    assert (tmp_path / "site" / "search.json").stat().st_size > 100_000


def test_versions_that_pages_mark_are_in_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    known = set(re.findall(r"^## v?(\d+\.\d+)", changelog, re.MULTILINE))
    known.add(__version__.rpartition(".")[0])
    marked = {
        version
        for page in [ROOT / "README.md", *DOCS.rglob("*.md")]
        for version in re.findall(r"\bsince (\d+\.\d+)\b", page.read_text("utf-8"))
    }
    assert marked <= known


def test_pages_that_the_program_names_exist() -> None:
    named = {
        page
        for path in (ROOT / "familiar_cli").rglob("*.py")
        for page in re.findall(r"docs/[\w/-]+\.md", path.read_text("utf-8"))
    }
    assert len(named) > 10
    assert [page for page in named if not (ROOT / page).is_file()] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/explanation/architecture.md"])
def test_paths_that_contributors_are_told_exist(page) -> None:
    named = set(PATHS.findall((ROOT / page).read_text("utf-8")))
    assert len(named) > 2
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_help_names_pages_that_exist() -> None:
    pages = data("help", "reminder")["pages"]
    assert pages
    assert [page for page in pages if not (_FOLDER / page["path"]).is_file()] == []


@pytest.mark.parametrize(("typed", "meant"), [("remidner", "reminder"), ("lorbook", "lorebook")])
def test_a_word_that_nothing_mentions_is_corrected(typed, meant) -> None:
    corrected, right = run("help", typed), run("help", meant)
    assert f"Did you mean {meant!r}?" in corrected.stderr
    assert corrected.stdout == right.stdout != ""


def test_a_word_like_no_other_finds_nothing() -> None:
    result = run("help", "zzzzqq")
    assert result.stdout == ""
    assert "Did you mean" not in result.stderr
