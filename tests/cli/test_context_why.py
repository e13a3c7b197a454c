"""`familiar context --why` answers from the record, and else from what the providers know."""

from __future__ import annotations

import os

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.context.trace import write_trace
from familiar_cli.context.types import Layer, LayerUse, Report
from familiar_cli.store.history.store import HistoryStore
from tests.support.traces import piece, trace
from tests.support.world import data, live, run

BEFORE = 1_700_000_000  # long before the records of these tests


@pytest.fixture
def root():
    """A familiar with files, turns 1 to 8, and the record of turn 7."""
    root = live("ada", notes="# Notes\n")
    put(root, "extra/pic.bin", "?")
    files = {"description": "Tall.", "personality": "Dry.", "scenario": "", "first_mes": "Ahoy."}
    for name, text in files.items():
        put(root, f"self/{name}.md", f"# T\n\n{text}")
    store = HistoryStore(root / "history.db")
    for number in range(1, 9):
        role = "user" if number % 2 else "assistant"
        store.append("cli", role, f"words {number}", author=Author("cli", "anna"))
    store.append("harbour", "user", "elsewhere")
    store.close()
    write_trace(root / "traces", made())
    return root


def put(root, rel_path, text, at=BEFORE) -> None:
    path = root / "memory" / rel_path
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, "utf-8")
    os.utime(path, (at, at))


def made(**more):
    parts = (Report("character", "answered", 1.5), Report("history", "answered", 2.0))
    return trace(7, **{"providers": parts, **more})


def test_a_file_that_is_there_says_from_where_and_what_it_cost(root) -> None:
    found = data("context", "7", "--why", "self/description.md")
    assert (found["turn"], found["subject"], found["verdict"]) == (7, "self/description.md", "kept")
    assert [one["tokens"] for one in found["contributions"]] == [300]
    assert [layer["name"] for layer in found["layers"]] == ["character", "prompt"]
    page = run("context", "7", "--why", "./self//description.md").stdout
    assert page.startswith("self/description.md is in the prompt of turn 7.\n")


def test_a_file_that_was_cut_names_what_was_served_before_it(root) -> None:
    found = data("context", "7", "--why", "self/scenario.md")
    assert (found["verdict"], found["reasons"]) == ("cut", ["the layer is full"])
    assert [one["source"] for one in found["rivals"]] == ["character.description"]
    page = run("context", "7", "--why", "self/scenario.md").stdout
    assert "100 of 260 tokens  cut" in page
    assert "400 of 400 tokens" in page


def test_a_file_that_found_no_room_in_the_whole_prompt_names_rivals_of_all_layers(root) -> None:
    pieces = (
        piece("character.description", rel_path="self/description.md", priority=98),
        piece("utterance", layer=Layer.recent_history, priority=1000),
        piece(
            "lore",
            layer=Layer.content,
            rel_path="lore/a.md",
            kept=False,
            tokens=0,
            offered_tokens=50,
            reason="left out (50 tokens): the prompt holds 1000",
        ),
    )
    layers = (LayerUse("content", 400, 0), LayerUse("character", 400, 10))
    write_trace(root / "traces", made(contributions=pieces, layers=layers))

    found = data("context", "7", "--why", "lore/a.md")
    assert found["verdict"] == "out"
    assert [one["source"] for one in found["rivals"]] == ["utterance", "character.description"]
    assert found["since"] == "The file no longer exists."


def lost(offered, kept=0):
    """Return a piece of lore of which not all found room."""
    return piece(
        "lore",
        layer=Layer.content,
        rel_path="lore/a.md",
        kept=kept > 0,
        tokens=kept,
        offered_tokens=offered,
        reason="no room",
    )


@pytest.mark.parametrize(
    ("pieces", "rivals"),
    [
        ([lost(100)], ["utterance", "found"]),
        ([lost(101)], ["found"]),
        ([lost(150, kept=50)], ["utterance", "found"]),
        ([lost(151, kept=50)], ["found"]),
        ([lost(101), lost(5)], ["found"]),
    ],
)
def test_a_layer_is_full_where_one_piece_had_no_room_in_it(root, pieces, rivals) -> None:
    served = (
        piece("found", layer=Layer.content, priority=98),
        piece("utterance", layer=Layer.recent_history, priority=1000),
    )
    layers = (LayerUse("content", 400, 300), LayerUse("recent_history", 400, 10))
    write_trace(root / "traces", made(contributions=(*served, *pieces), layers=layers))
    found = data("context", "7", "--why", "lore/a.md")
    assert [one["source"] for one in found["rivals"]] == rivals


def test_many_rivals_are_counted(root) -> None:
    many = [piece(f"part.{n}", priority=99) for n in range(30)]
    lost = piece("lost", rel_path="self/scenario.md", kept=False, tokens=0, reason="no room")
    layers = (LayerUse("character", 300, 300),)
    write_trace(root / "traces", made(contributions=(*many, lost), layers=layers))
    assert "and 18 more" in run("context", "--why", "self/scenario.md").stdout


def test_a_file_that_was_changed_since_says_so(root) -> None:
    offered = piece("character.description", rel_path="self/description.md", sha256="0" * 64)
    write_trace(root / "traces", made(contributions=(offered,)))
    why = data("context", "7", "--why", "self/description.md")
    assert why["since"] == "The file has changed since."


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("self/first_mes.md", "character: it is the greeting: it opens a channel"),
        ("turn:9", "history: it was said in channel 'harbour', not in 'cli'."),
        ("turn:8", "It is the reply to this prompt."),
        ("extra/pic.bin", "No provider reads it."),
    ],
)
def test_what_was_never_offered_has_a_reason(root, asked, reason) -> None:
    found = data("context", "7", "--why", asked)
    assert found["verdict"] == "absent"
    assert found["reasons"][0].startswith(reason)
    assert reason in run("context", "7", "--why", asked).stdout


def test_a_file_that_nobody_looks_at_is_told_what_is_looked_at(root) -> None:
    reasons = data("context", "7", "--why", "extra/pic.bin")["reasons"]
    assert "character: the character's own files: self/<field>.md and self/card.json" in reasons
    assert any(reason.startswith("history: ") for reason in reasons)


def test_a_turn_older_than_the_window_says_so(root) -> None:
    (root / "character.toml").write_text("[history]\nrecent_turns = 2\n", "utf-8")
    write_trace(root / "traces", made(contributions=()))
    reasons = data("context", "7", "--why", "turn:3")["reasons"]
    assert "history: the channel has 2 newer ones (history.recent_turns)." in reasons


def test_a_provider_that_was_late_takes_the_blame(root) -> None:
    parts = (Report("character", "late", 2000.0, "no answer within 2 s", 2.0),)
    write_trace(root / "traces", made(contributions=(), providers=parts))
    (reason,) = data("context", "7", "--why", "self/personality.md")["reasons"]
    assert reason.startswith("character: it was late (no answer within 2 s), so nothing")


def test_a_part_that_took_no_part_says_so(root) -> None:
    write_trace(root / "traces", made(contributions=(), providers=()))
    (reason,) = data("context", "7", "--why", "self/personality.md")["reasons"]
    assert reason == "character: it was not used for this prompt."


def test_a_failed_part_that_is_not_there_any_more_is_named(root) -> None:
    parts = (Report("character", "answered", 1.0), Report("oracle", "failed", 1.0, "no idea"))
    write_trace(root / "traces", made(providers=parts))
    assert data("context", "7", "--why", "extra/pic.bin")["reasons"][-1].startswith(
        "oracle: it failed"
    )


def test_a_file_written_after_the_prompt_was_made_says_so(root) -> None:
    put(root, "self/personality.md", "# T\n\nDry.", at=2_000_000_000)
    found = data("context", "7", "--why", "self/personality.md")
    assert found["reasons"] == [
        "character: it would offer this now, but did not then; something has changed since."
    ]
    assert found["since"].startswith("The file was written at 2033-05-18T03:33:20.000Z, after")


def test_what_is_said_now_is_a_turn_too(root) -> None:
    said = piece("utterance", layer=Layer.recent_history, priority=1000)
    write_trace(root / "traces", made(contributions=(said,)))
    assert data("context", "7", "--why", "turn:7")["verdict"] == "kept"


def test_the_greeting_that_was_offered_before_it_had_a_number_is_a_turn_too(root) -> None:
    store = HistoryStore(root / "history.db")
    opened = store.begin("porch", "Ahoy.")
    store.close()
    offered = piece("history.greeting", layer=Layer.recent_history)
    write_trace(root / "traces", made(channel_id="porch", contributions=(offered,)))
    assert data("context", "7", "--why", f"turn:{opened.id}")["verdict"] == "kept"
    assert data("context", "7", "--why", str(opened.id))["verdict"] == "kept"
    assert data("context", "7", "--why", "turn:1")["verdict"] == "absent"


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        ("self/descripton.md", 4, "Did you mean 'self/description.md'?"),
        ("turn:99", 4, "The newest is turn 9."),
        ("../secret", 5, "leads outside the memory"),
        ("", 2, "--why requires a memory file or a turn"),
    ],
)
def test_what_is_not_there_is_an_error_that_helps(root, asked, code, words) -> None:
    result = run("context", "7", "--why", asked)
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr


def test_a_reason_from_outside_steers_no_terminal(root) -> None:
    evil = piece("a", rel_path="self/scenario.md", kept=False, reason="\x1b[2J\u202e [b]x")
    write_trace(root / "traces", made(contributions=(evil,)))
    printed = run("context", "7", "--why", "self/scenario.md").stdout
    assert not set(printed) & set("\x1b\u202e")
    assert "[b]x" in printed
