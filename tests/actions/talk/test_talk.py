"""What a turn leaves behind beside its words."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from familiar_cli.actions.talk.talk import Asking, take_turn
from familiar_cli.base import files
from familiar_cli.base.who.identity import Author
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar
from familiar_cli.llm.types import ScriptedModel
from familiar_cli.store.memory.aliases import Aliases
from familiar_cli.store.memory.layout import ALIASES_JSON
from familiar_cli.store.memory.store import watch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = '[llm]\npreset = "custom"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
ANNA = Author("discord", "42", display_name="Anna")


@pytest.fixture
def familiar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Familiar]:
    """A familiar whose memory is watched from its second scan on."""
    monkeypatch.setattr(watch, "WORTH_FILES", 1)
    monkeypatch.setattr(watch, "is_local_disk", lambda _: True)
    monkeypatch.setattr(files, "SETTLED_NS", -1)  # as if all had been there for a while
    person = tmp_path / "ada" / "memory" / "people" / "discord-42.md"
    person.parent.mkdir(parents=True)
    person.write_text("# Anna\n")
    (tmp_path / "ada" / "character.toml").write_text(SETTINGS)
    with Familiar.load_from_disk(tmp_path, "ada") as familiar:
        yield familiar
    watch.stop_watching()


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each check of the list of names."""
    found: list[int] = []
    publish = Aliases.publish
    monkeypatch.setattr(Aliases, "publish", lambda names: found.append(1) or publish(names))
    return found


def talk(familiar: Familiar, times: int = 1) -> None:
    asking = Asking(model=lambda _: ScriptedModel(["Hello."]))
    for _ in range(times):
        asyncio.run(take_turn(familiar, Said("Where is Anna?", ANNA), asking=asking))


@pytest.mark.skipif("sys.platform != 'linux'", reason="only Linux tells of changes so")
def test_the_list_of_names_is_not_checked_after_turns_without_changes(familiar, checks) -> None:
    talk(familiar, 5)
    checks.clear()
    talk(familiar, 3)
    assert not checks


def test_a_name_that_was_written_by_hand_is_listed_after_the_next_turn(familiar) -> None:
    talk(familiar, 5)
    (familiar.paths.memory / "people" / "discord-7.md").write_text("# Zoë Bell\n")
    talk(familiar)
    assert "zoë bell" in (familiar.paths.memory / ALIASES_JSON).read_text("utf-8").lower()
    (familiar.paths.memory / "people" / "discord-42.md").write_text("# Annika\n")
    talk(familiar)
    assert "annika" in (familiar.paths.memory / ALIASES_JSON).read_text("utf-8")
