"""Forget a person after many months of history, and kill the command at random moments.

The familiar says ten catchphrases to everybody. One of twelve people is forgotten: of the replies
to the others, those that change are counted, and all that name or quote that person must be among
them. Then copies of the same home are killed while forgetting, opened again, and searched for the
name: in names of files, in contents, and in every object of the journal.

`python -m benchmarks.forgetting [--months 24] [--kills 50] [--seed 1]`
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dulwich.repo import Repo

from familiar_cli import Familiar
from familiar_cli.actions.people.forget import forget_person
from familiar_cli.base.who.identity import Author

NAME = "Zyphrandra"
QUOTE = "The quibbrax sleeps below the crooked lighthouse"
PEOPLE = (
    "Anna",
    "Bo",
    "Chidi",
    "Dana",
    "Emil",
    "Farah",
    "Goran",
    "Hana",
    "Ivo",
    "June",
    "Kai",
    NAME,
)
CATCHPHRASES = tuple(
    f"{start}, wanderer! Whatever shall we {end} today?"
    for start in ("Splendid morning", "Marvellous evening", "By my whiskers", "Goodness", "Hear")
    for end in ("discover", "rummage through")
)  # fmt: skip
TOPICS = ("honey", "the harbour", "an old violin", "the orchard", "a broken compass", "saffron")


def live(home: Path, months: int, seed: int) -> tuple[set[int], dict[int, str]]:
    """Write a history; return the replies to others that concern the person, and all of them."""
    dice, at = random.Random(seed), datetime(2024, 1, 1, 9, tzinfo=UTC)
    concerned: set[int] = set()
    others: dict[int, str] = {}
    with Familiar.load_from_disk(home, "ada") as familiar:
        for day in range(months * 30):
            for _ in range(2):
                name = dice.choice(PEOPLE)
                who = Author("discord", str(70_000 + PEOPLE.index(name)), display_name=name)
                topic = dice.choice(TOPICS)
                said = f"Hello, I am {name}. Tell me about {topic}, it is day {day}"
                said = f"{said}. {QUOTE}" if name == NAME and dice.random() < 0.1 else said
                channel = f"room-{who.user_id}" if dice.random() < 0.5 else "tavern"
                turn = familiar.history.append(channel, "user", said, author=who, at=at)
                reply = f"{dice.choice(CATCHPHRASES)} I like {topic}."
                concerns = name != NAME and dice.random() < 0.01
                reply += f" {NAME} asked that, too." if concerns else ""
                kept = familiar.history.append(
                    channel, "assistant", reply, reply_to=turn.id, at=at + timedelta(minutes=1)
                )
                if name != NAME:
                    others[kept.id] = reply
                if concerns:
                    concerned.add(kept.id)
            at += timedelta(days=1)
        for number, topic in enumerate(TOPICS):
            text = f"# {topic}\n\n- {NAME} likes it\n- {PEOPLE[number]} does, too\n"
            familiar.memory.write_file(f"topics/{number}.md", text)
        familiar.memory.write_file(f"topics/{NAME.lower()}s-cat.md", f"# {NAME}'s cat\n\nGrey.\n")
    return concerned, others


def leftovers(root: Path) -> list[str]:
    """List the places where the name or the quotation remains."""
    secrets = (NAME.lower().encode(), QUOTE.lower().encode())
    found = [str(p) for p in root.rglob("*") if NAME.lower() in p.name.lower()]
    for path in (p for p in root.rglob("*") if p.is_file()):
        found += [str(path) for one in secrets if one in path.read_bytes().lower()]
    with closing(Repo(str(root / "journal.git"))) as repo:
        for id_ in repo.object_store:
            content = repo[id_].as_raw_string().lower()
            found += [id_.decode() for one in secrets if one in content]
    return found


def in_child(work: object, begun_at: Path | None = None, kill_after_s: float = 0.0) -> float:
    """Run a function in a process of its own; return its duration in seconds.

    Args:
        begun_at: Kill it so long after this file appears.
    """
    begun, pid = time.monotonic(), os.fork()
    if not pid:
        code = 1
        try:
            work()  # type: ignore[operator]
            code = 0
        finally:
            os._exit(code)
    if begun_at:
        while not begun_at.exists():
            time.sleep(0.0005)
        time.sleep(kill_after_s)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    assert begun_at or status == 0, status
    return time.monotonic() - begun


def forget(home: Path) -> None:
    """Forget the person."""
    with Familiar.load_from_disk(home, "ada") as familiar:
        forget_person(familiar, f"discord:{70_000 + PEOPLE.index(NAME)}")


def reopen(home: Path) -> None:
    """Open the familiar as any command does."""
    with Familiar.load_from_disk(home, "ada") as familiar:
        familiar.history.newest_id()
        familiar.memory.list_dir("")


def main() -> None:
    """Measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--months", type=int, default=24)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    dice = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        (home / "ada" / "memory").mkdir(parents=True)
        concerned, others = live(home, given.months, given.seed)
        shutil.copytree(home, Path(scratch) / "whole")
        whole_s = in_child(lambda: forget(Path(scratch) / "whole"))
        with Familiar.load_from_disk(Path(scratch) / "whole", "ada") as familiar:
            after = {n: turn.content for n in others if (turn := familiar.history.turn(n))}
        changed = {number for number, text in others.items() if after[number] != text}
        found = {
            "replies_to_others": len(others),
            "concerning_the_person": len(concerned),
            "changed": len(changed),
            "changed_for_no_reason": len(changed - concerned),
            "lost_whole": sum(after[number] == "[forgotten]" for number in changed),
            "leftovers": len(leftovers(Path(scratch) / "whole" / "ada")),
            "seconds": round(whole_s, 2),
        }
        print(json.dumps(found))
        kills = dict.fromkeys(("kills", "unfinished", "finished_later", "left"), 0)
        for number in range(given.kills):
            copy = Path(scratch) / f"killed-{number}"
            shutil.copytree(home, copy)
            mark = copy / "ada" / ".forgetting.json"
            in_child(lambda at=copy: forget(at), mark, dice.uniform(0, whole_s / 3))
            is_begun = mark.exists()
            in_child(lambda at=copy: reopen(at))
            left = len(leftovers(copy / "ada"))
            kills["kills"] += 1
            kills["unfinished"] += is_begun
            kills["finished_later"] += is_begun and not left
            kills["left"] += left > 0
            shutil.rmtree(copy)
        print(json.dumps(kills))
    sys.exit(bool(found["changed_for_no_reason"] or found["leftovers"] or kills["left"]))


if __name__ == "__main__":
    main()
