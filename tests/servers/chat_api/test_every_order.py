"""A chat that is imported, goes on live, is edited and imported again, in every order."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from itertools import permutations
from pathlib import Path

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.selection import TurnFilter, select_turns
from tests.support.cases import IS_NIGHT
from tests.support.serving import assistant, serving, user
from tests.support.sillytavern import DataFolder, said
from tests.support.world import data, home

STEPS = ("import", "chat", "edit", "delete")
ORDERS = list(permutations(STEPS))[:: 1 if IS_NIGHT else 6]


def imported(folder: DataFolder) -> int:
    """Import the folder, and return how many turns are new."""
    found = data("import-sillytavern", str(folder.root))
    return sum(familiar["turns"] for familiar in found["familiars"])


class Chat:
    """A chat file that its program writes, with the same chat going on through a server."""

    def __init__(self, folder: DataFolder, api, number: int) -> None:
        self.folder, self.api, self.name = folder, api, f"chat {number}"
        self.minute = 100 * number
        self.lines = []
        for role, text in (
            ("a", "looks up."),
            ("u", "Hello"),
            ("a", "Good evening."),
            ("u", "Tea?"),
        ):
            self._add(role, text if text in {"looks up.", "Hello"} else f"{text} {number}")
        self._add("a", f"Yes, chat {number}.")
        self.save()

    def _add(self, role: str, text: str) -> None:
        self.minute += 1
        name, is_user = ("Robin", True) if role == "u" else ("Mira", False)
        self.lines.append(said(name, text, self.minute, user=is_user))

    def save(self) -> None:
        self.folder.chat("Mira", self.name, *self.lines)

    def do(self, step: str) -> None:
        if step == "import":
            imported(self.folder)
        elif step == "chat":
            self._add("u", f"And more of {self.name}?")
            said_so_far = [
                (user if line["is_user"] else assistant)(line["mes"]) for line in self.lines
            ]
            reply = self.api.post(model="mira+memory", messages=said_so_far).json()
            self._add("a", reply["choices"][0]["message"]["content"])
        elif step == "edit":
            self.lines[3] = self.lines[3] | {"mes": f"Coffee in {self.name}?"}
        else:
            del self.lines[4]
        self.save()


def kept() -> Counter:
    """Return how often each line stands in the history, greetings and first words apart."""
    with closing(HistoryStore(home() / "mira" / "history.db")) as store:
        return Counter(one.turn.content for one in select_turns(store, TurnFilter(OWNER)))


def test_chats_in_as_many_orders_hold_each_line_once(serve, tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "st")
    folder.character("Mira")
    serve(*(f"Scripted reply {n}." for n in range(60)))
    imported(folder)
    with serving() as api:
        chats = [Chat(folder, api, number) for number in range(len(ORDERS))]
        for chat, order in zip(chats, ORDERS, strict=True):
            for step in (*order, "import", "chat", "import"):
                chat.do(step)
    assert imported(folder) == 0
    assert kept() == Counter(line["mes"] for chat in chats for line in chat.lines)
