"""The author's note and texts of one's own stand where SillyTavern would put them."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from familiar_cli.base.config.schema import InjectSettings, NoteSettings
from familiar_cli.context.character import Macros
from familiar_cli.context.pipeline import ContextPipeline
from familiar_cli.context.providers.history import HistoryProvider
from familiar_cli.context.providers.pins import NotesProvider
from familiar_cli.context.types import PromptSpan
from familiar_cli.llm import tokens
from familiar_cli.store.history import HistoryStore
from tests.context.support import ANNA, Scripted, piece, request


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as opened:
        for text in ("A1", "u2", "A3", "u4"):
            role = "user" if text.islower() else "assistant"
            opened.append("cli", role, text, author=ANNA if role == "user" else None)
        yield opened


class Card(Scripted):
    async def contribute(self, asked):
        return [piece("MA"), piece("SC", PromptSpan.scenario), piece("WA", PromptSpan.world_after)]


def shown(store, note=None, **inject) -> str:
    notes = NotesProvider(
        NoteSettings(**(note or {})),
        {name: InjectSettings(**entry) for name, entry in inject.items()},
        lambda _: Macros(char="Aria", user="Anna"),
        store,
    )
    parts = [Card("card"), notes, HistoryProvider(store, recent_turns=9)]
    made = ContextPipeline(parts, tokens.heuristic())
    assembled = asyncio.run(made.assemble(request("u5")))
    return " | ".join(f"{m['role'][0]}:{m['content']}" for m in assembled.messages)


LEAD = "s:MA\n\nSC\n\nWA | "
CASES = {
    "nothing set, nothing there": ({}, {}, LEAD + "a:A1 | u:u2 | a:A3 | u:u4 | u:u5"),
    "the note stands at depth 4": (
        {"text": "NO"},
        {},
        LEAD + "a:A1 | s:NO | u:u2 | a:A3 | u:u4 | u:u5",
    ),
    "or at its own": (
        {"text": "NO", "depth": 0, "role": "user"},
        {},
        LEAD + "a:A1 | u:u2 | a:A3 | u:u4 | u:u5 | u:NO",
    ),
    "or after the scenario": (
        {"text": "NO", "place": "scenario", "role": "user"},
        {},
        "s:MA\n\nSC\n\nNO\n\nWA | a:A1 | u:u2 | a:A3 | u:u4 | u:u5",
    ),
    "beyond the chat it stands before the oldest": (
        {"text": "NO", "depth": 99, "role": "user"},
        {},
        LEAD + "u:NO | a:A1 | u:u2 | a:A3 | u:u4 | u:u5",
    ),
    "texts of one's own stand at theirs, assistant highest": (
        {"text": "NO", "depth": 1},
        {
            "a": {"text": "sys", "depth": 1},
            "b": {"text": "ASS", "depth": 1, "role": "assistant"},
            "c": {"text": "", "depth": 1},
        },
        LEAD + "a:A1 | u:u2 | a:A3 | u:u4 | a:ASS | s:NO\nsys | u:u5",
    ),
    "macros work as in a card": (
        {"text": "{{char}} trusts {{user}}.", "depth": 0},
        {},
        LEAD + "a:A1 | u:u2 | a:A3 | u:u4 | u:u5 | s:Aria trusts Anna.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_placement(store, case) -> None:
    note, inject, expected = CASES[case]

    assert shown(store, note, **inject) == expected


@pytest.mark.parametrize(
    ("interval", "there"), [(0, False), (1, True), (2, False), (3, True), (4, False)]
)
def test_a_note_is_there_at_every_so_many_th_thing_said(store, interval, there) -> None:
    # Two things were said before, so this is the third.
    assert ("NO" in shown(store, {"text": "NO", "interval": interval})) == there
