"""What is edited in a client leaves search, prompt and digests, whichever way the edit comes in."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime

import pytest

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.summaries import PUBLIC, Summary
from tests.support.serving import assistant, serving, user
from tests.support.sillytavern import DataFolder, said
from tests.support.world import data, home, run

OLD = "I have a brown dog called Biscuit, who sleeps under the stairs."
NEW = "I have a black cat called Inky, who sleeps on the stove."
WORDS = [
    "Let us talk of the animals that we have at home, you and I.",
    "Gladly. You first, I am all ears tonight.",
    OLD,
    "That sounds like a good place for a nap.",
    "It is. And the lamp is lit?",
    "It burns until the morning, as always.",
]
DAY = "2025-03-01"


class Client:
    """A chat program with one chat, which comes in by one of three ways."""

    def __init__(self, way: str, folder: DataFolder, server) -> None:
        self.way, self.folder, self.server = way, folder, server
        folder.character("Ada")
        self.bring(WORDS[:1], first=True)

    def bring(self, words: list[str], *, first: bool = False) -> None:
        """Let the familiar know the chat as it is shown now."""
        lines = [
            said("Ada" if n % 2 else "Robin", text, n, user=not n % 2)
            for n, text in enumerate(words)
        ]
        if self.way == "import" or first:
            self.folder.chat("Ada", "evening", *lines)
            done = run("import-sillytavern", str(self.folder.root))
            assert done.exit_code == 0, done.output
        elif self.way == "extension":
            body = {"model": "ada", "chat": "evening", "directory": "Ada"}
            head = {"user_name": "Robin", "character_name": "Ada", "chat_metadata": {}}
            reply = self.server.client.post("/familiar/chat", json=body | {"lines": [head, *lines]})
            assert reply.status_code == 200, reply.text
        else:
            sent = [assistant(t) if n % 2 else user(t) for n, t in enumerate(words)]
            reply = self.server.post(model="ada+memory", messages=[*sent, user("And the tide?")])
            assert reply.headers["x-familiar-kept"] == "yes"


def written(text: str) -> list[str]:
    """Return the paths of the memory's files that hold a text."""
    memory = home() / "ada" / "memory"
    found = (path for path in memory.rglob("*.md") if "/." not in path.as_posix())
    return sorted(p.relative_to(memory).as_posix() for p in found if text in p.read_text("utf-8"))


def remember(familiar: Familiar) -> None:
    """Have summaries, a session, its day and a digest rest on what is edited later."""
    turns = familiar.history.after(0, 100)
    (old,) = (turn.id for turn in turns if turn.content == OLD)
    now, last = datetime.now(UTC), turns[-1]
    for scope in (PUBLIC, last.channel_id):
        familiar.summaries.keep(Summary(scope, last.id, OLD, now, "m"), {last.channel_id})
    session = home() / "ada" / "memory" / "sessions" / f"{DAY}-evening.md"
    session.parent.mkdir(exist_ok=True)
    line = f"- Robin has a brown dog called Biscuit. <!-- turns {old} -->\n"
    session.write_text(f"# {DAY}\n\n## Highlights\n\n{line}", "utf-8")
    assert run("consolidate", "daily").exit_code == 0
    assert run("distill", "short").exit_code == 0


@pytest.mark.parametrize("way", ["server", "extension", "import"])
def test_an_edit_takes_the_old_words_out_of_everything(serve, tmp_path, way) -> None:
    chat = serve(*(f"Reply {n} of a script." for n in range(9)))
    with serving() as server:
        client = Client(way, DataFolder(tmp_path / "st"), server)
        client.bring(WORDS)
        familiar = Familiar.load_from_disk(home(), "ada")
        with closing(familiar.history):
            remember(familiar)
            made = [f"daily/{DAY}", "digest/short.md", f"sessions/{DAY}-evening.md"]
            assert [re.sub(r"_.*", "", path) for path in written("Biscuit")] == made

            client.bring([*WORDS[:2], NEW])

            rules = familiar.privacy.rules()
            scopes = (PUBLIC, *{turn.channel_id for turn in familiar.history.after(0, 100)})
            told = [familiar.summaries.latest(scope, rules) for scope in scopes]
            assert not any(summary and "Biscuit" in summary.text for summary in told)
            standing = [t.content for t in familiar.history.recent(scopes[1], 99, viewer=OWNER)]
            assert OLD not in standing
        assert "Inky" in run("history", "search", "Inky").stdout
        assert OLD not in run("history", "search", "Biscuit").stdout

        findings = data("housekeep", "withdrawn", "--propose")["findings"]
        paths = [re.sub(r"_.*", "", path) for finding in findings for path in finding["paths"]]
        assert sorted(paths) == made
        for finding in findings:
            applied = run("review", "apply", finding["plan_id"], "--all")
            assert applied.exit_code == 0, applied.output
        assert written("Biscuit") == []
        assert data("housekeep", "withdrawn")["findings"] == []

        for again in (False, True):  # nor does it come back when they are made again
            if again:
                assert run("consolidate", "daily").exit_code == 0
                assert run("distill", "short").exit_code == 0
            for model in ("ada", "ada+memory"):
                asked = [user(f"Which animal sleeps where, Biscuit or Inky? {model} {again}")]
                server.post(model=model, messages=asked, headers={"X-Familiar-Channel": "new"})
                assert "brown dog" not in chat.last.body.decode()
                assert "black cat called Inky" in chat.last.body.decode()
