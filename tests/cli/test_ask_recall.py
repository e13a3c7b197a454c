"""A companion remembers imported chats before any model has distilled them."""

from __future__ import annotations

import json

from tests.support.world import data, home, run

TALK = [
    ("user", "Robin", "I lost my green umbrella on the 23:10, in the last carriage."),
    ("assistant", None, "Then it goes into the ledger. What did the handle look like?"),
    ("user", "Robin", "A duck. Do not laugh."),
    ("assistant", None, "I never laugh at what somebody has lost."),
]


def bring(tmp_path, name="old", talk=TALK, day="2023-06-19") -> None:
    lines = [
        {
            "role": role,
            "content": words,
            "at": f"{day}T20:0{n}:00Z",
            **({"name": who} if who else {}),
        }
        for n, (role, who, words) in enumerate(talk)
    ]
    path = tmp_path / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    result = run("import-chat", str(path), "--channel", name)
    assert result.exit_code == 0, result.output


def made(tmp_path) -> None:
    (home() / "ada" / "memory" / "self").mkdir(parents=True)
    (home() / "ada" / "memory" / "self" / "description.md").write_text("# Description\n\nAda.\n")
    (home() / "ada" / "character.toml").write_text(
        'name = "Ada"\ntimezone = "UTC"\n[context]\nprovider_deadline_s = 20\n', "utf-8"
    )


def recalled(*args) -> list[dict]:
    found = data("ask", *args, "--dry-run")["contributions"]
    return [piece for piece in found if piece["source"] == "recall.turns" and piece["kept"]]


def test_a_chat_is_recalled_right_after_its_import(tmp_path) -> None:
    made(tmp_path)
    bring(tmp_path)
    (piece,) = recalled("What about my green umbrella?")
    assert piece["text"] == (
        "[Said: 19 June 2023, #old]\n"
        "Robin: I lost my green umbrella on the 23:10, in the last carriage.\n"
        "Ada: Then it goes into the ledger. What did the handle look like?\n"
        "Robin: A duck. Do not laugh.\n"
        "Ada: I never laugh at what somebody has lost."
    )
    assert piece["turns"] == [1, 4]
    assert piece["origin"] == "#old, 2023-06-19"
    assert piece["rel_path"] is None


def test_the_page_says_which_channel_day_and_turns_are_quoted(tmp_path) -> None:
    made(tmp_path)
    bring(tmp_path)
    shown = run("ask", "What about my green umbrella?", "--dry-run").stdout
    assert "#old, 2023-06-19, turns 1-4" in " ".join(shown.split())


def test_a_conversation_that_finds_no_room_is_named(tmp_path) -> None:
    made(tmp_path)
    assert run("config", "set", "recall.tokens", "60").exit_code == 0
    bring(tmp_path)
    bring(tmp_path, "older", day="2022-01-02")
    found = data("ask", "What about my green umbrella?", "--dry-run")["contributions"]
    left = [p["origin"] for p in found if p["source"] == "recall.turns" and not p["kept"]]
    assert left in (["#old, 2023-06-19"], ["#older, 2022-01-02"])


def test_what_the_prompt_shows_anyhow_is_not_recalled(tmp_path) -> None:
    made(tmp_path)
    bring(tmp_path)
    assert recalled("What about my green umbrella?", "--channel", "old") == []


def test_a_private_chat_is_recalled_where_it_was_said_and_nowhere_else(tmp_path) -> None:
    made(tmp_path)
    bring(tmp_path, "secret")
    assert run("channel", "set", "secret", "--kind", "dm").exit_code == 0
    asked = ("What about my green umbrella?", "--as", "discord:7", "--channel", "elsewhere")
    assert recalled(*asked) == []
    (piece,) = recalled("What about my green umbrella?")  # the owner's conversations share a memory
    assert piece["origin"].startswith("DM:secret")


def test_it_can_be_turned_off(tmp_path) -> None:
    made(tmp_path)
    bring(tmp_path)
    assert run("config", "set", "recall.enabled", "off").exit_code == 0
    assert recalled("What about my green umbrella?") == []


def test_it_has_a_budget_of_its_own(tmp_path) -> None:
    made(tmp_path)
    bring(tmp_path)
    assert run("config", "set", "recall.tokens", "40").exit_code == 0
    (piece,) = recalled("What about my green umbrella?")
    assert piece["tokens"] <= 41
