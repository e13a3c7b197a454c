"""Write a home with the program of an earlier commit, as `NAME.tar.xz` beside this file holds it.

Run in a checkout of that commit: `PYTHONPATH=. python write_home.py DIR`, then pack DIR without
locks and `memory/.index`. Commands that a commit does not know yet are passed over.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path


def operation(file: str, line: str, *turns: int) -> dict[str, object]:
    return {"op": "add_bullets", "file": file, "lines": [line], "turns": turns}


PLAN = json.dumps(
    {
        "operations": [
            operation("people/discord-42.md", "Keeps bees in Harrow.", 1),
            operation("people/discord-7.md", "Is afraid of bees.", 3),
            operation("sessions/2026-04-06-evening.md", "Anna and Bo talked about bees.", 1, 3),
            operation("topics/bees.md", "Anna's bees swarm in May.", 5),
        ]
    }
)
SUMMARY = json.dumps(
    {
        "summary": "Anna keeps bees; Bo fears them. They spoke of swarms.",
        "highlights": ["Anna keeps bees."],
        "title": "Bees",
    }
)
AS_ANNA = ("--as", "discord:42", "--name", "Anna", "--channel", "tea-room", "--no-background")


def main(home: Path) -> None:
    for name in [name for name in os.environ if name.startswith("FAMILIAR_")]:
        del os.environ[name]
    os.environ |= {"FAMILIAR_HOME": str(home), "FAMILIAR_CACHE": f"{home}-cache"}
    os.environ |= {"FAMILIAR_OFFLINE": "1", "TZ": "UTC", "FAMILIAR_LLM_MODEL": "scripted-1"}
    socket.gethostname = lambda: "laptop"

    from familiar_cli.base.who.identity import Author
    from familiar_cli.store.history import HistoryStore
    from tests.support.server import ChatServer, Say
    from tests.support.world import run

    def with_replies(*commands: tuple[str, ...], replies: list[str]) -> None:
        with ChatServer([Say(text) for text in replies]) as server:
            os.environ["FAMILIAR_LLM_BASE_URL"] = server.base_url
            for argv in commands:
                sys.stdout.write(f"{run(*argv).exit_code} {' '.join(argv)}\n")

    run("init", "ada", "--template", "companion")
    run("config", "set", "timezone", "UTC")
    speakers = (Author("discord", "42", "anna", "Anna"), Author("discord", "7", "bo", "Bo"))
    with closing(HistoryStore(home / "ada" / "history.db")) as history:
        for day in range(3):
            for nth in range(4):
                at = datetime(2026, 4, 6 + day, 18, 2 * nth, tzinfo=UTC)
                who = speakers[nth % 2]
                words = f"Day {day}, remark {nth} about my bees."
                history.append("tea-room", "user", words, author=who, at=at)
                answer = f"I hear you, {who.display_name}."
                history.append("tea-room", "assistant", answer, at=at + timedelta(minutes=1))
    with_replies(("write-memory", "--all"), replies=[PLAN, '{"operations": []}'])
    digests = [("distill", tier) for tier in ("short", "mid", "long")]
    with_replies(("consolidate",), *digests, replies=[SUMMARY])
    with_replies(
        ("ask", "Who keeps bees?", "--channel", "cli"),
        ("ask", "And who fears them?", *AS_ANNA),
        ("memory", "append", "notes.md", "- Robin likes green tea."),
        ("memory", "pin", "topics/bees.md"),
        ("people", "alias", "discord-42", "Annie"),
        ("remember", "Anna's first swarm."),
        ("remind", "add", "feed the bees", "--at", "2027-01-01"),
        ("task", "add", "clean the hive"),
        replies=["Anna keeps bees; Bo fears them."],
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
