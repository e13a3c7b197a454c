"""An import says when others will be able to hear a chat."""

from __future__ import annotations

from tests.support.world import data, live, run

GROUP = (
    "28.03.25, 21:25 - +49 171 5550199: The stove needs a new pipe.\n"
    "28.03.25, 21:26 - Robin: I will bring one.\n"
    "28.03.25, 21:27 - Ada: At six.\n"
)
ARGS = ("--me", "Robin", "--character", "Ada", "--dates", "dmy")


def test_a_group_is_heard_by_everybody_and_the_import_says_how_to_make_it_private(tmp_path) -> None:
    live("ada")
    path = tmp_path / "stove.txt"
    path.write_text(GROUP, encoding="utf-8")
    told = "heard by everybody"
    assert told in " ".join(run("import", str(path), *ARGS, "--dry-run").stdout.split())
    assert told in " ".join(run("import", str(path), *ARGS).stdout.split())
    stranger = ("ask", "What does the stove need?", "--as", "discord:9", "--channel", "pub")
    assert "new pipe" in str(data(*stranger, "--dry-run"))
    assert run("channel", "set", "stove", "--kind", "dm").exit_code == 0
    assert "new pipe" not in str(data(*stranger, "--dry-run"))


def test_a_chat_of_two_says_nothing_of_others(tmp_path) -> None:
    live("ada")
    path = tmp_path / "two.txt"
    path.write_text(GROUP.partition("\n")[2], encoding="utf-8")
    assert "heard by" not in run("import", str(path), *ARGS).stdout
