"""The first minute with a memory that is not indexed yet."""

from __future__ import annotations

import time

from familiar_cli.store.search import scan
from familiar_cli.store.search.build import EmbeddingIndex
from familiar_cli.store.search.types import REFRESH_S
from tests.support.cases import IS_NIGHT
from tests.support.world import data, live, run

FILES = 3_000 if IS_NIGHT else 600
REFRESH_S = REFRESH_S if IS_NIGHT else 0.1


def test_a_word_of_the_last_of_many_new_files_is_found_within_ten_seconds(monkeypatch) -> None:
    refresh = EmbeddingIndex.refresh_by

    def briefly(index, connection, progress, within_s, *viewer):
        return refresh(index, connection, progress, min(within_s, REFRESH_S), *viewer)

    monkeypatch.setattr(EmbeddingIndex, "refresh_by", briefly)
    memory = live("ada") / "memory" / "notes"
    memory.mkdir()
    for number in range(FILES):
        text = f"# Note {number}\n\n" + "- The kettle is on, and the rain goes by.\n" * 20
        (memory / f"{number:04}.md").write_text(text)
    (memory / "zz.md").write_text("# Last\n\nThe quokka sleeps.\n")
    began = time.process_time()
    result = run("search", "quokka")
    assert time.process_time() - began < 10
    assert "The quokka sleeps." in result.stdout
    assert "read and searched by words alone" in result.stderr
    assert "hint: Run `familiar index build`" in result.stderr
    assert data("search", "quokka")["direct"] > 0


def test_a_prompt_quotes_what_is_not_indexed_yet(monkeypatch) -> None:
    monkeypatch.setattr("familiar_cli.actions.talk.prompt.REFRESH_SHARE", 0.0)
    memory = live("ada") / "memory"
    (memory / "zz.md").write_text("# Zoo\n\nThe quokka sleeps in the willow.\n")
    scans, scan_root = [], scan.scan_root
    monkeypatch.setattr(scan, "scan_root", lambda *given: scans.append(1) or scan_root(*given))
    shown = run("ask", "Where does the quokka sleep?", "--dry-run")
    assert "The quokka sleeps in the willow." in shown.output
    assert len(scans) == 1  # the files are listed once
