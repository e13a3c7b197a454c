"""What the reference page shows in Python runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from familiar_cli.familiar import Familiar
from familiar_cli.store.memory.store.store import MemoryStore

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "memory-store.md"


def test_the_examples_of_the_reference_run(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FAMILIAR_HOME")
    store = MemoryStore(Path("data/familiars/ada/memory"))
    store.write_file("people/alice.md", "# Alice")
    store.write_file("notes.md", "Go to the concert.")
    example, past = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    exec(compile(example, PAGE.name, "exec"), {})
    assert capsys.readouterr().out == "('notes.md', 'topics/concert.md') ()\n"
    assert store.read_file("people/alice.md") == "# Alice\n- plays the violin"
    Path("data/familiars/ada/character.toml").touch()
    trailers = {"Run-Id": "20260131T235959-a1b2c3"}
    familiar = Familiar.load_from_disk(familiar="ada")
    with familiar, familiar.memory.transaction("memory_writer", "a pass", trailers=trailers) as tx:
        tx.write("people/alice.md", "# Alice\n")
    exec(compile(past, PAGE.name, "exec"), {})
    assert capsys.readouterr().out == "a pass ['people/alice.md']\n['people/alice.md']\n"
