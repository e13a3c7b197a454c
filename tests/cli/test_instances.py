"""A familiar that was made before instances had ids."""

from __future__ import annotations

from familiar_cli.base.config.home import host_name
from familiar_cli.familiar import Familiar
from tests.support.cases import each
from tests.support.world import live, run

MADE_BEFORE = """---
made_by: familiar
sources: {"sessions/2024-04-08-evening.md": "3cf36773a1d23a36"}
blocks: ce6b43c5 df207009
---
# 2024-04-08, 8 April 2024

- Anna keeps bees. [chat:2024-04-08-evening] [via:HOST] <!-- turns 1 -->
"""


def test_the_days_of_a_familiar_made_before_instances_had_ids_stay_its_own():
    own = f"daily/2024-04-08_{host_name()}"
    session = "# 2024-04-08, evening\n\n- Anna keeps bees. <!-- turns 1 -->\n- Bo called.\n"
    before = MADE_BEFORE.replace("HOST", host_name())
    root = live("ada", **{own: before, "sessions/2024-04-08-evening": session})
    with Familiar.load_from_disk() as familiar:
        assert familiar.instance.id != host_name()

    assert "made again" in run("consolidate", "daily").stdout

    files = [file.name for file in (root / "memory" / "daily").iterdir()]
    assert files == [f"{own.removeprefix('daily/')}.md"]
    assert "- Bo called." in (root / "memory" / f"{own}.md").read_text("utf-8")


@each("argv", [("search", "bees"), ("ask", "Hi", "--dry-run"), ("consolidate",)])
def test_a_damaged_id_is_told_once_and_stays_as_it_is(argv):
    root = live("ada", notes="- Anna keeps bees.\n")
    (root / "instance.id").write_text("laptop", encoding="utf-8")

    done = run(*argv)

    assert done.exit_code == 3
    assert done.stderr.count("instance.id' is damaged; nothing was changed") == 1
    assert "Restore it from a backup" in done.stderr
    assert (root / "instance.id").read_text("utf-8") == "laptop"
