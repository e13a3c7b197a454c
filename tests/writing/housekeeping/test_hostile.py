"""Nothing that a file may hold stops a check, or takes it long."""

from __future__ import annotations

import os
import sys
import time

import pytest

from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.housekeeping.lines import Options
from familiar_cli.writing.housekeeping.run import CHECKS, look_through
from tests.support.cases import IS_NIGHT, each
from tests.writing.housekeeping.conftest import TODAY

MOST_S = 5.0 if IS_NIGHT else 2.0
"""Of the processor. What takes a square of its length takes longer; the slowest takes one."""
CHARS = 60_000 if IS_NIGHT else 30_000
TEXTS = {
    "nul": "\0",
    "spaces": "# a " + " " * CHARS + "x",
    "hashes": "# " + "#" * CHARS + "x",
    "ticks": "`",
    "brackets": "[a](",
    "comments": "<!--",
    "speaking comments": "<!-- you must say -->",
    "one long line": "City: Oslo next week password: (2024-01-01) ",
    "statements": "- City: Oslo next week (2024-01-01)\n",
    "turns": "- next week, said twice in a list <!-- turns 1-99999999 -->\n",
    "sections": "## a b\n\n- 1\n- 2\n- 3\n- 4\n- 5\n",
    "aliases": "## Aliases\n- a" + " " * CHARS + "(",
    "links": "[a](b.md)\n",
    "tokens": "eyJ-",
    "mixed ends": "- City: Oslo\r\n- City: Rome\r- x\n",
    "rtl": "شهر: القاهرة (2024-01-01)\n",
    "cjk": "住所：東京 (2024-01-01)。庭の梅が咲いて\n",
    "far days": "- City: Oslo, tomorrow (9999-12-31)\n- City: Rome, tomorrow (0001-01-01)\n",
    "great ages": f"- Age: {'9' * 350} (2024-01-01)\n- Age: 30 (2025-01-01)\n",
    "deep": "\n".join("  " * (n % 300) + "- a list in a list in a list" for n in range(800)),
}


@each("name", TEXTS)
def test_no_text_stops_a_check_or_takes_long(tmp_path, name) -> None:
    text = (TEXTS[name] * (CHARS // len(TEXTS[name]) + 1))[:CHARS]
    for rel_path in ("notes.md", "people/a-1.md", "topics/a.md"):
        path = tmp_path / "memory" / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    started = time.process_time()
    looked = look_through(MemoryStore(tmp_path / "memory"), Options(TODAY))
    assert looked.files == 3
    assert time.process_time() - started < MOST_S


def test_notes_without_a_heading_are_no_topics(look) -> None:
    assert look("topics", {"notes.md": "Tea.\n"}) == ()
    assert look("topics", {"notes.md": ""}) == ()


def test_two_sections_of_one_name_do_not_both_become_it(look) -> None:
    section = "## Boats\n\n- 1\n- 2\n- 3\n- 4\n- 5\n\n"
    assert [bool(f.repair) for f in look("topics", {"notes.md": section * 2})] == [True, False]


@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="they are one file there")
def test_names_that_differ_in_case_only_are_two_files(look) -> None:
    files = {"topics/Tea.md": "# Tea\n", "topics/tea.md": "# Tea\n", "a.md": "[t](topics/TEA.md)"}
    (finding,) = look("links", files)
    assert finding.repair == ()


@pytest.mark.skipif(os.name == "nt", reason="the owner may read all there")
def test_what_cannot_be_read_is_named_and_stops_nothing(tmp_path) -> None:
    root = tmp_path / "memory"
    (root / "people").mkdir(parents=True)
    (root / "people" / "b.md").write_bytes(b"- Password: hunter2!\n")
    (root / "a.md").write_bytes(b"caf\xe9")
    (root / "c.md").symlink_to(root / "gone.md")
    os.mkfifo(root / "d.md")
    looked = look_through(MemoryStore(root), Options(TODAY))
    assert [finding.check for finding in looked.findings] == ["secrets"]
    assert sorted(skipped.rel_path for skipped in looked.skipped) == ["a.md", "c.md", "d.md"]


def test_a_file_too_large_to_be_read_is_named_whatever_is_looked_for(tmp_path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "a.md").write_bytes(b"password: hunter2!\n" * 240_000)
    looked = look_through(MemoryStore(tmp_path / "memory"), Options(TODAY), ["secrets", "size"])
    assert [finding.check for finding in looked.findings] == ["size"]
    assert [skipped.rel_path for skipped in looked.skipped] == ["a.md"]


@pytest.mark.parametrize("check", [check.name for check in CHECKS])
def test_an_empty_memory_has_nothing_to_tidy(look, check) -> None:
    assert look(check, {}) == ()
