"""An import says when others will be able to hear a chat."""

from __future__ import annotations

import json

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


def test_a_chat_of_two_says_that_only_they_hear_it(tmp_path) -> None:
    live("ada")
    path = tmp_path / "two.txt"
    path.write_text(GROUP.partition("\n")[2], encoding="utf-8")
    assert "heard by only you" in " ".join(run("import", str(path), *ARGS).stdout.split())


def test_a_directory_names_each_chat_of_which_nobody_said_whose_it_is(tmp_path) -> None:
    live("ada")
    for name in ("Bo", "Cy"):
        text = GROUP.partition("\n")[2].replace("Robin", name)
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    refused = run("import", str(tmp_path), "--character", "Ada", "--dates", "dmy")
    assert refused.exit_code == 2
    said = f"{tmp_path / 'Bo.txt'} --dates dmy --character Ada"
    assert f"`familiar import {said} --as chat:Bo`" in refused.stderr
    run("me", "--name", "Bo")
    partial = run("import", str(tmp_path), "--character", "Ada", "--dates", "dmy")
    assert partial.exit_code == 7
    assert "--me Cy" in partial.output


def test_the_command_to_type_names_the_familiar_and_standard_input() -> None:
    live("ada")
    live("bo")
    text = GROUP.partition("\n")[2]
    for command in ("import", "import-chat"):
        words = (command, "-", "--familiar", "ada", "--character", "Ada", "--dates", "dmy")
        refused = run(*words, stdin=text)
        assert "'Robin' speaks in 'stdin'" in refused.stderr
        said = f"familiar {command} --familiar ada - --dates dmy --character Ada --me Robin"
        assert f"`{said}`" in refused.stderr


def test_a_group_of_characters_is_a_conversation_of_the_owner_alone(tmp_path) -> None:
    live("ada")
    lines = [
        {"name": "Galahad", "is_user": True, "mes": "A zebra lives here.", "send_date": 1.7e12},
        {"name": "Ada", "is_user": False, "mes": "A zebra!", "send_date": 1.7e12 + 9},
        {"name": "Bors", "is_user": False, "mes": "Two zebras.", "send_date": 1.7e12 + 99},
    ]
    path = tmp_path / "group.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    assert "heard by only you" in " ".join(run("import", str(path)).stdout.split())
    stranger = ("ask", "Which animal lives here?", "--as", "discord:9", "--channel", "pub")
    assert "zebra" not in str(data(*stranger, "--dry-run"))
    assert "Two zebras" in str(data("ask", "Which animal lives here?", "--dry-run"))
