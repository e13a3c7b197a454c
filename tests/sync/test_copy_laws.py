"""Copies, backups and replaced histories at random: what a line cites never changes its words.

python -m tests.sync.test_copy_laws 200    # so many random runs of each law
"""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from familiar_cli.actions.people.forget import forget_person
from familiar_cli.actions.share.backup import BackupTarget, back_up, restore
from familiar_cli.actions.share.sync import sync
from familiar_cli.actions.share.sync_decisions import remotes_of
from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.base.who.identity import Author
from familiar_cli.familiar import Familiar
from familiar_cli.store.memory.pages.lines import citation_comment, turn_ids
from familiar_cli.sync.engine import SyncOptions
from familiar_cli.sync.sealing import FileCipher
from tests.support.remotes import HAS_GIT, bare, bare_by_hand

PEOPLE = ("anna", "bo", "nia")
NOTES = "notes.md"


class Copies:
    """Homes of one familiar, each a directory; some are copies of others."""

    def __init__(self, top: Path, seed: int) -> None:
        self.top, self.random = top, random.Random(seed)
        self.hub = bare(top / "hub.git") if HAS_GIT else bare_by_hand(top / "hub.git")
        self.said: dict[str, str] = {}
        self.count = 0
        self.homes = [top / "home-0"]
        root = self.homes[0] / "ada"
        root.mkdir(parents=True)
        (root / "character.toml").write_text('name = "Ada"\n')
        with self.open(self.homes[0]) as familiar:
            familiar.memory.write_file(NOTES, "# Notes\n\n")
            _ = familiar.instance
            remotes_of(familiar).add("hub", str(self.hub))
        self.target = BackupTarget(str(top / "backups"), FileCipher((), lambda: ""))

    def open(self, home: Path) -> Familiar:
        return Familiar(FamiliarPaths(home / "ada"))

    def say(self, home: Path) -> None:
        """Say something, and write a line that rests on it."""
        self.count += 1
        who = self.random.choice(PEOPLE)
        words = f"word {self.count} of {who}"
        self.said[words] = who
        with self.open(home) as familiar:
            turn = familiar.history.append("room", "user", words, author=Author("discord", who))
            cited = citation_comment(familiar.numbering.cite([turn.id]))
            familiar.memory.append_file(NOTES, f"- {words} {cited}\n")

    def sync(self, home: Path) -> bool:
        """Sync, and tell whether nothing was left to a person."""
        with self.open(home) as familiar:
            report = asyncio.run(sync(familiar, None, SyncOptions()))
        assert not report.failed, report.failed
        return not report.pending.here

    def copy(self, home: Path) -> None:
        self.homes.append(self.top / f"home-{len(self.homes)}")
        shutil.copytree(home, self.homes[-1])

    def back_up(self, home: Path) -> None:
        back_up(FamiliarPaths(home / "ada"), self.target)

    def restore(self, _: Path) -> None:
        if self.target.familiars():
            self.homes.append(self.top / f"home-{len(self.homes)}")
            restore(self.target, self.homes[-1], "ada")

    def lines(self, home: Path) -> list[tuple[str, list[str]]]:
        """Return each line's words, and the words of the turns that it cites."""
        with self.open(home) as familiar:
            found, said = [], {t.id: t.content for t in familiar.history.after(0, 9999)}
            for line in familiar.memory.read_file(NOTES).splitlines():
                if line.startswith("- "):
                    ids = turn_ids(line, familiar.numbering)
                    found.append((line[2:].partition(" <!--")[0], [said[i] for i in ids]))
            return found

    def texts(self, home: Path) -> list[str]:
        with self.open(home) as familiar:
            return sorted(turn.content for turn in familiar.history.after(0, 9999))


def check_copies(top: Path, seed: int) -> None:
    """No citation changes its words; forgetting one person removes no other's line."""
    copies = Copies(top, seed)
    chosen = copies.random
    actions = [copies.say] * 5 + [copies.sync] * 3 + [copies.copy, copies.back_up, copies.restore]
    for _ in range(14):
        chosen.choice(actions)(chosen.choice(copies.homes))
    for home in copies.homes * 2:
        copies.sync(home)
    for home in copies.homes:
        for words, cited in copies.lines(home):
            assert cited, (seed, home, words)
            assert set(cited) == {words}, (seed, home, words, cited)
    with copies.open(copies.homes[0]) as familiar:
        there = any(copies.said[words] == "nia" for words, _ in copies.lines(copies.homes[0]))
        if there:
            forget_person(familiar, "discord:nia")
    for home in copies.homes * 2:
        copies.sync(home)
    wanted = {words for words, who in copies.said.items() if who != "nia" or not there}
    for home in copies.homes:
        left = {words for words, _ in copies.lines(home)}
        assert wanted <= left, (seed, home, wanted - left)  # an order may wait for `sync allow`


def check_older_history(top: Path, seed: int) -> None:
    """A history put back or deleted: each turn arrives everywhere once, or its loss is told."""
    copies = Copies(top, seed)
    first, chosen = copies.homes[0], copies.random
    database = first / "ada" / "history.db"
    copies.say(first)
    copies.sync(first)
    copies.copy(first)
    second = copies.homes[1]
    copies.say(second)
    actions = [copies.say] * 3 + [copies.sync]
    for _ in range(chosen.randrange(5)):
        chosen.choice(actions)(first)
    shutil.copy(database, top / "older.db")
    for _ in range(chosen.randrange(6)):
        chosen.choice(actions)(first)
    for name in ("history.db-wal", "history.db-shm"):
        (database.parent / name).unlink(missing_ok=True)
    if chosen.randrange(4):
        shutil.copy(top / "older.db", database)
    else:
        database.unlink()
    copies.say(first)
    told = [copies.sync(home) for home in (first, second) * 2]
    every = sorted(copies.said)
    if copies.texts(first) == copies.texts(second) == every:
        return
    assert not told[0], (seed, copies.texts(first), every)
    assert not told[2]


@pytest.mark.parametrize("seed", range(2))
def test_no_citation_changes_its_words(tmp_path, seed) -> None:
    check_copies(tmp_path, seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_turn_arrives_everywhere_or_its_loss_is_told(tmp_path, seed) -> None:
    check_older_history(tmp_path, seed)


def _main(count: int, first: int) -> None:
    for check in (check_copies, check_older_history):
        failed = []
        for seed in range(first, first + count):
            with tempfile.TemporaryDirectory() as top:
                try:
                    check(Path(top), seed)
                except (AssertionError, subprocess.SubprocessError) as error:
                    failed.append((seed, str(error)[:300]))
        sys.stdout.write(f"{check.__name__}: {count} runs, {len(failed)} failed {failed[:3]}\n")


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
