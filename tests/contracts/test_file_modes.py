"""What a familiar keeps is read by its owner alone, whatever the umask."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path

import pytest

from tests.contracts.test_command_tree import LEAVES
from tests.support import pages
from tests.support.remotes import bare_by_hand
from tests.support.world import home, run, spawn

pytestmark = pytest.mark.posix

# One line a command, in an order in which each finds something to do; a new command is added here.
SESSION = """
init ada --from-card EX/cards/pomona-vale.json
init bo --template keeper
use ada
list
me --name Zelda
job add "every day 8:00" --run sync
job list
job run sync
job rm sync
backup OUT/copy
restore OUT/copy bo --home OUT/restored
config set timezone UTC
ask "I live in Oslo"
again
continue
hear "lunch at one?" --as irc:anna
chat
context --last
why
status
doctor
memory write topics/sea.md "# Sea\\n\\n- wide\\n"
memory append notes.md "- a line"
memory list
memory unpublish notes.md
memory publish notes.md
memory cat notes.md
memory grep line
memory glob *.md
memory pin notes.md
memory pins
memory unpin notes.md
memory links notes.md
memory mv notes.md other.md
memory log
memory show HEAD
memory diff
memory blame other.md
memory undo
memory restore topics/sea.md --at HEAD
memory rm topics/sea.md
memory compact
write-memory
review list
review show
review apply
review reject
housekeep
index build
index status
search sea
todo add Sing --at "every friday"
todo add Mend
todo list
todo done r1
todo drop t1
todo note x
todo note --clear
help reminder
start --say Hi
remind add "Call Anna" --at friday
remind list
remind drop 1
remind done 1
task add Mend
task list
task done 1
task drop 1
scratch add x
scratch show
scratch edit
scratch clear
consolidate
distill short
distill mid
distill long
distill status
remember "The sea"
people list
people show irc:anna
people alias irc:anna Annie
people rename-alias irc:anna Annie Ann
people merge irc:anna irc:bob
people split irc:anna
people export irc:anna OUT/anna
people forget irc:nobody --dry-run
graph
graph "irc:anna" --html OUT/graph.html
card show EX/cards/yuzu.png
card check EX/cards/pomona-vale.json
card export --format json --out OUT/card.json
import EX/vault
export OUT/everything
import-lorebook EX/lorebooks/nine-bells.json
export-lorebook --out OUT/book.json
import-chat EX/chats/postcards.jsonl
import-sillytavern EX/sillytavern/default-user
import-memories EX/memories
history list
history show
history edit 1 hey
history withdraw 2
history restore 2
history choose 1
history search oslo
history stats
history salvage
history export --channel cli --out OUT/turns.jsonl
sync remote add hub HUB
sync remote list
sync push
sync pull
sync status
sync rekey
sync resolve
sync devices
sync allow x
sync block x
sync accept
sync adopt main
sync forget x
sync remote rm hub
serve log --no-follow
serve token add --familiar ada --user *
serve token list
serve token rm ada-1
web --export OUT/page.html
mcp
daemon --once
channel list
channel show cli
channel set cli --name x
channel branch cli 1 new
channel withdraw cli
channel restore cli
config show
config get name
config unset timezone
config path
model list
model pull x
model rm x
model test
index clear
demo
"""

OF_ITS_OWN = {
    "mcp",
    "daemon --once",
}  # they take standard input, or the main thread, for themselves


def open_to_others(root: Path) -> list[str]:
    """Return the files that somebody else may use, and the root if it is, with their modes."""
    modes = {str(root): root.lstat().st_mode}
    waiting = [str(root)]
    while waiting:
        with suppress(FileNotFoundError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):  # SQLite is done with it
                        modes[entry.path] = entry.stat(follow_symlinks=False).st_mode
    return [f"{path} {mode:o}" for path, mode in modes.items() if mode & 0o077]


@pytest.fixture
def umask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_no_command_leaves_a_file_that_others_can_read(umask, serve, tmp_path) -> None:
    serve("Noted.")
    words = {
        "EX/": f"{pages.ROOT / 'examples'}/",
        "OUT/": f"{tmp_path}/",
        "HUB": str(bare_by_hand(tmp_path / "hub.git")),
    }
    ran, left_open = set(), []
    for line in SESSION.strip().splitlines():
        argv = shlex.split(line)
        for word, meant in words.items():
            argv = [given.replace(word, meant) for given in argv]
        ran.add(next(leaf for leaf in LEAVES if tuple(argv[: len(leaf)]) == leaf))
        if line in OF_ITS_OWN:
            spawn(*argv)
        else:
            run(*argv, stdin="")
        left_open += [f"{line}: {found}" for found in open_to_others(home())]
    assert left_open == []
    assert ran == set(LEAVES)
