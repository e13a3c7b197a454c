"""Valid inputs to begin with: cards of every container, lorebooks, settings, histories, traces."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from familiar_cli.base.config.settings import all_settings
from familiar_cli.base.who.identity import Author
from familiar_cli.imports.containers import asset_chunk, text_chunk
from familiar_cli.store.history.store import HistoryStore
from tests.support.cards import as_json, charx_card, encoded, itxt, png_card, png_with, v2, v3, ztxt
from tests.support.lorebooks import book_entry, lore, world
from tests.support.traces import trace

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CORPUS = Path(__file__).resolve().parents[1] / "imports" / "lorebooks" / "corpus"
BOOK = {
    "name": "Town",
    "description": "",
    "scan_depth": 7,
    "recursive_scanning": False,
    "extensions": {"x": 1},
    "entries": [
        book_entry("Square", "Pigeons, {{char}}.", ["square", "広場"], extensions={"depth": 2}),
        book_entry("Clock", "@@depth 4\nIt ticks.", ["/clo(ck)?/i"], secondary_keys=["tick"]),
    ],
}
ASSETS = [
    {"type": "icon", "name": "main", "ext": "png", "uri": "ccdefault:"},
    {"type": "other", "name": "bell", "ext": "ogg", "uri": "embeded://assets/bell.ogg"},
    {"type": "other", "name": "drum", "ext": "ogg", "uri": "__asset:drum.ogg"},
]
CARD_VALUES = (
    v2(character_book=BOOK),
    v3(character_book=BOOK, assets=ASSETS, nickname="Il", creation_date=1700000000, source=["x"]),
    v2() | {"name": "Ilse", "description": "other", "unknown": {"a": [1, None]}},
    {"name": "Bo", "description": "cook", "first_mes": "Hi", "mes_example": "<START>", "chat": 1},
    {"char_name": "Pyg", "char_persona": "x", "char_greeting": "Hi", "world_scenario": "s"},
    {"name": "Tex", "context": "x", "greeting": "Hi", "example_dialogue": "a"},
)
BOOK_VALUES = (
    world(lore("Castle", "Old.", ["castle", "城"], order=5), lore("Moat", disable=True), name="W"),
    {"spec": "lorebook_v3", "data": BOOK},
    v2(character_book=BOOK),
    json.loads((CORPUS / "agnai.json").read_text("utf-8")),
    json.loads((CORPUS / "risu.json").read_text("utf-8")),
    json.loads((CORPUS / "novelai.lorebook").read_text("utf-8")),
    [lore("Bare")],
)
YAML = (EXAMPLES / "cards" / "pip.yaml").read_bytes()


@cache
def pictures() -> tuple[bytes, ...]:
    """Return PNG cards, plain, compressed and with assets."""
    drum = asset_chunk("drum.ogg", b"boom")
    return (
        png_card(CARD_VALUES[0]),
        png_with(text_chunk("ccv3", encoded(CARD_VALUES[1])), drum),
        png_with(text_chunk("chara", encoded(v2())), text_chunk("ccv3", encoded(v3())), after=True),
        png_with(ztxt("chara", encoded(v2()))),
        png_with(itxt("ccv3", encoded(v3()), packed=True), itxt("chara", b"{}", packed=False)),
    )


@cache
def archives() -> tuple[bytes, ...]:
    """Return CHARX cards, also behind a picture and with deflated and stored members."""
    members = {"assets/bell.ogg": b"ding", "module.risum": b"\0\1"}
    stored = BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        archive.writestr("card.json", json.dumps(v2()))
    return (
        charx_card(CARD_VALUES[1], members),
        charx_card(v3(), {}, prefix=b"\xff\xd8\xff picture"),
        stored.getvalue(),
    )


@cache
def settings() -> tuple[bytes, ...]:
    """Return texts of `character.toml`: with every setting, with comments, and a short one."""
    lines = ['name = "Ada" # 城']
    last = ""
    for setting in all_settings().values():
        if not setting.section or setting.section.startswith("llm.slots"):
            continue
        if setting.section != last:
            lines.append(f"[{setting.section}]")
            last = setting.section
        value = setting.default
        written = str(value).lower() if isinstance(value, bool) else json.dumps(value)
        lines.append(f"{setting.key.rpartition('.')[2]} = {written}")
    slots = (
        '[llm]\npreset = "custom"\nbase_url = "http://x"\n[llm.slots.memory_writer]\nmodel="m"\n'
    )
    return ("\n".join(lines).encode(), slots.encode(), b"\xef\xbb\xbfname = 'Ada'\r\n")


def history(path: Path) -> bytes:
    """Return a history with turns of several people in two channels."""
    store = HistoryStore(path)
    for number in range(30):
        author = Author("cli", f"u{number % 3}", "name", "Shown 城")
        channel = f"c{number % 2}"
        store.append(channel, "user", f"Hello {number} \ud83d", author=author)
        store.append(channel, "assistant", "reply " * 50, partial=number % 7 == 0)
    store.move_watermark("memory_writer", 12)
    store.close()
    return path.read_bytes()


def old_history(path: Path) -> bytes:
    """Return a history as an earlier program left it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE turns (id INTEGER PRIMARY KEY, channel_id INTEGER, role TEXT, "
            "speaker TEXT, content TEXT, timestamp TEXT)"
        )
        for number in range(20):
            row = (number + 1, 77, "user", "Anna", f"Hi {number}", "2024-05-01T10:00:00+00:00")
            connection.execute("INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?)", row)
    return path.read_bytes()


def record() -> Any:
    """Return a trace as plain values."""
    return trace().to_json()


def stream() -> tuple[bytes, ...]:
    """Return what servers send: a stream of events, and one whole reply."""
    choice = {"index": 0, "delta": {"content": "Hello"}, "finish_reason": None}
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "cost": 0.1}
    whole = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "usage": usage}
    return (as_json({"model": "m", "choices": [choice]}), as_json(whole | {"model": "m"}))
