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
    names = {who for role, who, _ in talk if who and role == "user"}
    mine = ("--me", *names) if len(names) == 1 else ()
    result = run("import-chat", str(path), "--channel", name, *mine)
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


def test_a_line_that_fits_brings_the_words_it_rests_on(tmp_path) -> None:
    made(tmp_path)
    talk = [("user", "Robin", f"It rained on day {n}.") for n in range(8)]
    talk[4] = ("user", "Robin", "We said yes to each other in the registry, only the two of us.")
    bring(tmp_path, talk=talk)
    page = "# Facts\n\n- Robin's wedding was small. <!-- turns 5 -->\n"
    (home() / "ada" / "memory" / "topics").mkdir()
    (home() / "ada" / "memory" / "topics" / "facts.md").write_text(page, "utf-8")
    kept = data("ask", "What do you know about the wedding?", "--dry-run")["contributions"]
    text = "\n".join(piece["text"] for piece in kept if piece["kept"])
    assert "- Robin's wedding was small. (June 2023)" in text
    assert "Robin: We said yes to each other in the registry" in text


def test_what_the_prompt_shows_anyhow_is_not_recalled(tmp_path) -> None:
    made(tmp_path)
    bring(tmp_path)
    assert recalled("What about my green umbrella?", "--channel", "old") == []


GARDEN = [
    ("2023-02-01", "I bought seeds for the garden."),
    ("2023-04-11", "The garden has a fence now."),
    ("2023-07-02", "We ate the first garden tomatoes."),
]


def test_the_order_of_things_is_told_in_their_order_with_their_days(tmp_path) -> None:
    made(tmp_path)
    for day, text in reversed(GARDEN):
        talk = [("user", "Robin", text), ("assistant", None, "Nice garden, garden, garden!")]
        bring(tmp_path, f"of-{day}", talk, day)
    told = recalled("In which order did I tell you about the garden?")
    assert [piece["text"] for piece in told] == [
        f"[Said: {day}, #of-{iso}]\nRobin: {text}"
        for (iso, text), day in zip(
            GARDEN, ("1 February 2023", "11 April 2023", "2 July 2023"), strict=True
        )
    ]


def test_days_of_things_whose_order_is_asked_do_not_limit_the_search(tmp_path) -> None:
    made(tmp_path)
    for day, text in GARDEN:
        bring(tmp_path, f"of-{day}", [("user", "Robin", text)], day)
    for times in ("last Saturday", "yesterday, and what I said three years ago"):
        told = recalled(f"In which order did I tell you about the garden, as I said {times}?")
        assert len(told) == len(GARDEN)


def test_what_changed_between_two_months_is_what_was_said_then(tmp_path) -> None:
    made(tmp_path)
    for day, text in GARDEN:
        bring(tmp_path, f"of-{day}", [("user", "Robin", text)], day)
    for asked in ("What changed in my life between March and May 2023?", "And in April?"):
        (piece,) = recalled(asked)
        assert piece["origin"] == "#of-2023-04-11, 2023-04-11"


def test_what_who_speaks_asks_of_themselves_is_found_in_what_people_said(tmp_path) -> None:
    made(tmp_path)
    assert run("config", "set", "recall.tokens", "36").exit_code == 0
    bring(tmp_path, "a", [("assistant", None, "A blue kite over the sea is a fine kite to fly.")])
    bring(tmp_path, "b", [("user", "Robin", "I bought a kite and it is blue.")], "2021-01-02")
    (own,) = recalled("Is my kite blue?")
    assert own["text"].endswith("Robin: I bought a kite and it is blue.")
    (told,) = recalled("Which fine kite did you say flies over the sea?")
    assert told["text"].endswith("Ada: A blue kite over the sea is a fine kite to fly.")


def test_a_standing_wish_is_recalled_though_nothing_else_fits(tmp_path) -> None:
    made(tmp_path)
    bring(tmp_path)
    wish = "Please include prices whenever I ask about umbrellas."
    bring(tmp_path, "wish", [("user", "Robin", wish), ("assistant", None, "Of course.")])
    told = "\n".join(piece["text"] for piece in recalled("Where do I find a parasol?"))
    assert wish in told
    assert "Of course." not in told


def test_a_private_standing_wish_is_recalled_where_it_was_said_and_nowhere_else(tmp_path) -> None:
    made(tmp_path)
    bring(tmp_path, "wish", [("user", "Robin", "Never suggest seafood.")])
    assert run("channel", "set", "wish", "--kind", "dm").exit_code == 0
    asked = "Where do I find a parasol?"
    assert recalled(asked, "--as", "discord:7", "--channel", "elsewhere") == []
    assert len(recalled(asked)) == 1


def test_wishes_of_others_are_not_those_of_the_speaker(tmp_path) -> None:
    made(tmp_path)
    bring(tmp_path, "a", [("user", "Robin", "Never suggest seafood.")])
    bring(tmp_path, "b", [("user", "Kim", "Never suggest meat.")])
    assert recalled("Where do I find a parasol?") == []


def test_a_private_chat_is_recalled_where_it_was_said_and_nowhere_else(tmp_path) -> None:
    made(tmp_path)
    bring(tmp_path, "secret")
    assert run("channel", "set", "secret", "--kind", "dm").exit_code == 0
    asked = ("What about my green umbrella?", "--as", "discord:7", "--channel", "elsewhere")
    assert recalled(*asked) == []
    assert recalled("Summarise all that I told you.", *asked[1:]) == []
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
