"""The file with the id of an instance."""

from __future__ import annotations

from tests.support.cases import each
from tests.support.world import live, run


@each("argv", [("search", "bees"), ("ask", "Hi", "--dry-run"), ("consolidate",)])
def test_a_damaged_id_is_told_once_and_stays_as_it_is(argv):
    root = live("ada", notes="- Anna keeps bees.\n")
    (root / "instance.id").write_text("laptop", encoding="utf-8")

    done = run(*argv)

    assert done.exit_code == 3
    assert done.stderr.count("instance.id' is damaged; nothing was changed") == 1
    assert "Restore it from a backup" in done.stderr
    assert (root / "instance.id").read_text("utf-8") == "laptop"
