"""Names and keys are found in any spelling that people consider equal; the exact one wins."""

from __future__ import annotations

import json

import pytest

from tests.support.lorebooks import lore, world
from tests.support.world import data, live, run

KEYS = [
    ("猫", "Its collar is red.", "这只猫叫什么"),
    ("мёд", "Bees of the abbey.", "где мед?"),
    ("Zoë", "She mends clocks.", "did zoe call?"),
    ("Jose", "He never pays.", "José, come here"),
    ("👩🏻‍⚖️", "She wears green boots.", "ask 👩🏻‍⚖️ please"),
    ("⚓", "It is rusty.", "please polish the ⚓️"),
    ("Đà Nẵng", "Its bridge breathes fire.", "Toi o Da Nang"),
    ("ﬁre", "The ligature burns.", "is there fire"),
]


@pytest.mark.parametrize(("key", "text", "question"), KEYS)
def test_a_key_brings_its_entry_however_it_is_spelled(tmp_path, key, text, question) -> None:
    live("ada")
    others = [lore(f"Place {n}", key=[f"harbour{n}"], content=f"Gulls {n}.") for n in range(12)]
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(world(lore("", key=[key], content=text), *others)), "utf-8")
    assert run("import-lorebook", str(path)).exit_code == 0
    assert text in run("ask", question, "--dry-run").stdout


def test_yo_is_found_by_ye() -> None:
    live("ada", **{"topics/alena": "# Поездка\n\n- Алёна любит море\n"})
    assert "Алёна" in run("search", "Алена").stdout


def test_a_person_with_an_accent_is_found_without_it_and_the_exact_name_wins() -> None:
    live("ada", **{"people/chat-1": "# Zoë\n\n- Mends clocks.\n"})
    assert data("people", "show", "Zoe")["slug"] == "chat-1"
    live("bo", **{"people/chat-1": "# Zoë\n", "people/chat-2": "# Zoe\n"})
    assert data("people", "show", "Zoe", "--familiar", "bo")["slug"] == "chat-2"
    assert data("people", "show", "Zoë", "--familiar", "bo")["slug"] == "chat-1"
