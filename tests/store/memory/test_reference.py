"""What the reference page shows in Python runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from familiar_cli.store.memory.store.store import MemoryStore

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "memory-store.md"


def test_the_example_of_the_reference_runs(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    store = MemoryStore(Path("data/familiars/ada/memory"))
    store.write_file("people/alice.md", "# Alice")
    store.write_file("notes.md", "Go to the concert.")
    (example, _) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    exec(compile(example, PAGE.name, "exec"), {})
    assert capsys.readouterr().out == "('notes.md', 'topics/concert.md') ()\n"
    assert store.read_file("people/alice.md") == "# Alice\n- plays the violin"
