"""Nobody speaks in a character's place: where its files cannot be used, nothing is asked."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest

from familiar_cli import Familiar, Said, take_turn
from familiar_cli.base.errors import CharacterUnreadableError
from tests.support.world import data, home, live, run

posix = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
DESCRIPTION = "# Description\n\nAda keeps a lighthouse.\n"


@pytest.fixture
def own(serve):
    """The `self/` of a familiar whose model answers."""
    live("ada")
    (home() / "ada" / "character.toml").write_text('timezone = "UTC"\n', encoding="utf-8")
    there = home() / "ada" / "memory" / "self"
    there.mkdir()
    (there / "description.md").write_text(DESCRIPTION, encoding="utf-8")
    serve("Hello.")
    return there


def no_text(own):
    (own / "description.md").write_bytes(b"\xff\xfe\x00")


def directory(own):
    (own / "description.md").unlink()
    (own / "description.md").mkdir()


def damaged_card(own):
    (own / "card.json").write_text("{", encoding="utf-8")


def link_out(own):
    (own / "description.md").unlink()
    (own / "description.md").symlink_to(home())


def dangling_link(own):
    (own / "description.md").unlink()
    (own / "description.md").symlink_to("gone.md")


def dangling_directory(own):
    (own / "description.md").unlink()
    own.rmdir()
    own.symlink_to("gone")


def file_for_directory(own):
    (own / "description.md").unlink()
    own.rmdir()
    own.write_text("no directory", encoding="utf-8")


def pipe(own):
    (own / "description.md").unlink()
    os.mkfifo(own / "description.md")


DAMAGE = (no_text, directory, damaged_card, file_for_directory)
LINKS = (link_out, dangling_link, dangling_directory, pipe)


@pytest.mark.parametrize("harm", [*DAMAGE, *(pytest.param(h, marks=posix) for h in LINKS)])
def test_ask_ends_with_3_and_nothing_is_sent_or_kept(own, harm) -> None:
    harm(own)

    for more in ((), ("--dry-run",), ("--off-record",)):
        done = run("ask", "Hello", *more)
        assert (done.exit_code, done.stdout) == (3, "")
        assert "error: The character cannot be read: self" in done.stderr
        assert "nothing was sent or kept" in done.stderr
        assert "hint: Repair or delete 'self" in done.stderr

    (error,) = json.loads(run("ask", "Hello", "--json").stdout)["errors"]
    assert error["code"] == "character_unreadable"
    assert data("status")["turns"] == 0


def test_chat_and_the_library_refuse_as_well(own) -> None:
    no_text(own)

    assert run("chat", stdin="Hello\n").exit_code == 3

    async def turn() -> None:
        async with Familiar.load_from_disk() as familiar:
            await take_turn(familiar, Said("Hello", None))

    with pytest.raises(CharacterUnreadableError):
        asyncio.run(turn())


def test_no_files_at_all_are_no_damage(own) -> None:
    (own / "description.md").unlink()
    own.rmdir()

    assert run("ask", "Hello").exit_code == 0


@posix
def test_a_link_within_the_memory_is_followed(own) -> None:
    (own / "description.md").rename(own / "original.md")
    (own / "description.md").symlink_to("original.md")

    assert run("ask", "Hello").exit_code == 0
    assert "lighthouse" in run("context", "--last", "--messages").stdout


def test_a_journal_with_a_damaged_mark_hides_no_character(own) -> None:
    assert run("memory", "write", "notes.md", "x").exit_code == 0
    (home() / "ada" / "journal.git" / "familiar-pending").write_bytes(b"garbage")

    done = run("ask", "Hello")

    assert done.exit_code == 0
    assert "warning: Files are read as they are" in done.stderr
    assert "lighthouse" in run("context", "--last", "--messages").stdout


@pytest.mark.parametrize("body", ["", "{{user}}: hi\n{{char}}: hello there\n"])
def test_a_card_that_takes_its_time_is_waited_for(own, body) -> None:
    text = "# Example messages\n\n" + f"<START>\n{body}" * 30_000
    (own / "mes_example.md").write_text(text, encoding="utf-8")
    run("config", "set", "context.provider_deadline_s", "0.01")

    found = data("ask", "Hello", "--dry-run")

    (character,) = (p for p in found["providers"] if p["name"] == "character")
    assert (character["verdict"], character["deadline_s"]) == ("answered", 0.0)
    assert any("lighthouse" in message["content"] for message in found["messages"])
    examples = [c for c in found["contributions"] if c["source"] == "character.mes_example"]
    assert len(examples) < 1000
    if body:
        assert examples[0]["kept"]
        assert "no prompt has room for so many examples" in examples[-1]["reason"]
