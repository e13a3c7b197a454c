"""Draw the pictures of the code from the code: its layers, and the ways of a turn and of a write.

`python -m tools.pictures commands` writes them. A way is a list of functions; its picture has the
first line of each docstring. A test runs a turn and a write, and fails unless the functions are
called in this order.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import threading
import tomllib
from contextlib import contextmanager
from html import escape
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.base import jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

ROOT = Path(__file__).parent.parent
PACKAGE = "familiar_cli"

TURN = (
    "cli.commands.talk:ask",
    "base.who.identity:parse_author",
    "actions.talk.talk:take_turn",
    "context.turn:request_for",
    "base.who.visibility:Viewer.hidden_channels",
    "context.pipeline:ContextPipeline.assemble",
    "context.providers.content_search:ContentSearchProvider.contribute",
    "store.search.finding:Finder.search",
    "context.budget:Budgeter.fill",
    "context.pipeline:render_messages",
    "store.history.store:keep_once",
    "context.trace:write_trace",
    "llm.client:LLMClient.complete",
    "context.pipeline:ContextPipeline.post_process",
    "context.on_record:ReplySpool.close",
)
"""What `familiar ask` calls, of all that it calls, from the words to the reply."""

WRITE = (
    "cli.commands.upkeep:write_memory",
    "store.passes:Pass.run",
    "writing.writer.memory_writer:MemoryWriter.run",
    "writing.writer.grounds:by_privacy",
    "writing.writer.prompts:Questions.about",
    "writing.writer.contract:parse_reply",
    "writing.writer.rails:judge_operations",
    "writing.writer.applying:commit_step",
    "store.memory.store.store:MemoryStore.transaction",
    "store.journal.git:GitJournal.prepare",
    "store.memory.store.transactions:apply_plan",
    "store.journal.git:GitJournal.applied",
)
"""What `familiar write-memory` calls, from the turns to files and a commit."""


def read_layers() -> list[list[str]]:
    """Return the rooms from the top to the bottom, as the import contract has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]
    return [layer.split(" | ") for layer in contract["layers"]]


def file_of(step: str) -> str:
    """Return the path of the module that a step stands in."""
    return f"{PACKAGE}/{step.partition(':')[0].replace('.', '/')}.py"


def first_line(step: str) -> str:
    """Return what the docstring of a function or a room says first.

    Raises:
        AttributeError: Nothing of that name exists.
    """
    module, _, name = step.partition(":")
    found = importlib.import_module(f"{PACKAGE}.{module}")
    text = inspect.getdoc(attrgetter(name)(found) if name else found) or ""
    return " ".join(text.partition("\n\n")[0].split())


@contextmanager
def record_calls() -> Iterator[list[str]]:
    """Record the functions of the package that are called, in order."""
    called: list[str] = []
    hand_over = jobs._hand_over  # noqa: SLF001

    def profile(frame: FrameType, event: str, arg: object) -> None:
        del arg
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith(f"{PACKAGE}."):
            called.append(f"{module.removeprefix(f'{PACKAGE}.')}:{frame.f_code.co_qualname}")

    def follow(work: Callable[[], Callable[[], None]]) -> None:
        """Hand over what notes its calls, also if its thread has been there for long."""

        def run() -> Callable[[], None]:
            sys.setprofile(profile)
            try:
                return work()
            finally:
                sys.setprofile(None)

        hand_over(run)

    jobs._hand_over = follow  # noqa: SLF001
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield called
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        jobs._hand_over = hand_over  # noqa: SLF001


def draw_architecture() -> dict[str, str]:
    """Return the pictures of the code as SVG, by their names."""
    layers = [[(room, first_line(room)) for room in rooms] for rooms in read_layers()]
    ways = {"way-of-a-turn": TURN, "way-of-a-write": WRITE}
    drawn = {
        name: _draw_boxes([[(step, first_line(step))] for step in steps], gap=14)
        for name, steps in ways.items()
    }
    return {"layers": _draw_boxes(layers, gap=4), **drawn}


WIDTH, LINE, MARGIN = 800, 17, 9
MOST_CHARS = 106
_STYLE = (
    "<style>text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#1f2933}"
    ".b{font-weight:700}.s{font-size:11.5px;fill:#52606d}</style>"
)


def _draw_boxes(boxes: list[list[tuple[str, str]]], *, gap: int) -> str:
    """Draw a box below the other, each with names and what they are; wide gaps have arrows."""
    parts, y = [], gap
    for number, box in enumerate(boxes):
        height = 2 * LINE * len(box) + MARGIN
        if number and gap > MARGIN:
            arrow = f"M{WIDTH // 2} {y - gap}v{gap - 3}m-4 -4l4 5l4 -5"
            parts.append(f'<path d="{arrow}" fill="none" stroke="#52606d" stroke-width="1.5"/>')
        frame = f'<rect x="12" y="{y}" width="{WIDTH - 24}" height="{height}" rx="6"'
        parts.append(f'{frame} fill="#f0f4f8" stroke="#9fb3c8"/>')
        for place, (title, words) in enumerate(box):
            top = y + LINE + 2 * LINE * place
            shown = words if len(words) <= MOST_CHARS else f"{words[: MOST_CHARS - 1]}…"
            parts.append(f'<text class="b" x="24" y="{top}">{escape(title)}</text>')
            parts.append(f'<text class="s" x="24" y="{top + LINE - 2}">{escape(shown)}</text>')
        y += height + gap
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}">',
        _STYLE,
        f'<rect width="{WIDTH}" height="{y}" rx="8" fill="#ffffff"/>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"
