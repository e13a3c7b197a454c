"""What a lorebook forbids is in no prompt; what it leaves open is, at the place it names."""

from __future__ import annotations

import json

import pytest

from tests.support.lorebooks import book_entry, lore, world
from tests.support.world import data, home, run

AT_NIGHT = "We reach the castle at night. Which way?"
BY_DAY = "We reach the castle by day. Which way?"


@pytest.fixture
def memory():
    memory = home() / "mira" / "memory"
    memory.mkdir(parents=True)
    (memory.parent / "character.toml").write_text(
        'name = "Mira"\n\n[context]\nprovider_deadline_s = 20\n', encoding="utf-8"
    )
    return memory


def bring(tmp_path, *entries, **frame) -> None:
    path = tmp_path / "book.json"
    path.write_text(json.dumps(world(*entries, **frame)), encoding="utf-8")
    data("import-lorebook", str(path))


def castle(title, **more):
    return lore(title, f"The castle: {title.lower()}.", ["castle"], **more)


def shown(words, *args) -> str:
    return "\n".join(m["content"] for m in data("ask", words, "--dry-run", *args)["messages"])


def why(title: str, words: str) -> str:
    path = next(p for p in (home() / "mira" / "memory" / "lore").rglob(f"{title}.md"))
    rel_path = path.relative_to(home() / "mira" / "memory").as_posix()
    assert rel_path not in str(data("ask", words, "--dry-run")["messages"])
    return " ".join(run("context", "--last", "--why", rel_path).stdout.split())


SECONDARY = {"selective": True, "keysecondary": ["night"]}
FORBIDDEN = {
    "Probability": {"probability": 0},
    "Delay": {"delay": 40},
    "Not any": {**SECONDARY, "selectiveLogic": 2},
    "And all": {"selective": True, "keysecondary": ["night", "drawbridge"], "selectiveLogic": 3},
    "And any": {"selective": True, "keysecondary": ["moat", "drawbridge"], "selectiveLogic": 0},
    "Not all": {"selective": True, "keysecondary": ["night", "castle"], "selectiveLogic": 1},
    "Expression": {"selective": True, "keysecondary": ["/n[iy]ght\\b/i"], "selectiveLogic": 2},
    "Other character": {"characterFilter": {"isExclude": False, "names": ["Seraphina"]}},
    "Not this one": {"characterFilter": {"isExclude": True, "names": ["mira"]}},
    "Other replies": {"triggers": ["impersonate", "quiet"]},
}
DECORATED = {
    "After": "@@activate_only_after 50",
    "Never": "@@dont_activate",
    "Every": "@@activate_only_every 7",
    "Excluded": "@@exclude_keys dawn, night",
}


@pytest.fixture
def gated(tmp_path, memory):
    decorated = [
        lore(title, f"{line}\nThe castle: {title.lower()}.", ["castle"])
        for title, line in DECORATED.items()
    ]
    gates = [castle(title, **more) for title, more in FORBIDDEN.items()]
    bring(tmp_path, castle("Open gate"), *gates, *decorated)


def test_what_the_book_forbids_is_in_no_prompt(gated) -> None:
    said = shown(AT_NIGHT)
    there = [title for title in (*FORBIDDEN, *DECORATED) if f"castle: {title.lower()}." in said]
    assert there == []
    assert "The castle: open gate." in said


def test_a_gate_opens_when_its_word_is_not_said(gated) -> None:
    said = shown(BY_DAY)
    assert "The castle: not any." in said
    assert "The castle: excluded." in said
    assert "The castle: expression." in said
    assert "The castle: and any." not in said


def test_what_keeps_an_entry_back_is_told(gated) -> None:
    run("ask", AT_NIGHT)  # no model is set up: the prompt is traced
    answer = why("not-any", AT_NIGHT)
    assert "its book holds it back now: 'night' was said (NOT ANY); it opens once this" in answer


def test_a_search_by_the_owner_shows_and_marks_what_is_kept_back(gated) -> None:
    found = run("search", "castle never")
    assert "The castle: never." in found.stdout
    assert "its book holds it back now: its decorator `@@dont_activate`" in found.stdout
    hits = {hit["title"]: hit["kept_back"] for hit in data("search", "castle", "-k", "20")["hits"]}
    assert hits["Never"].startswith("its book holds it back now")
    assert hits["Open gate"] == ""


def test_a_card_book_spells_its_gates_in_another_way(tmp_path, memory) -> None:
    entries = [
        book_entry("Open", "The castle: open.", ["castle"]),
        book_entry("Rare", "The castle: rare.", ["castle"], extensions={"probability": 0}),
        book_entry("Late", "The castle: late.", ["castle"], extensions={"delay": "40"}),
        book_entry(
            "Day",
            "The castle: day.",
            ["castle"],
            selective=True,
            secondary_keys=["night"],
            extensions={"selectiveLogic": 2},
        ),
    ]
    path = tmp_path / "book.json"
    book = {"spec": "lorebook_v3", "data": {"name": "Keep", "extensions": {}, "entries": entries}}
    path.write_text(json.dumps(book), encoding="utf-8")
    data("import-lorebook", str(path))
    said = shown(AT_NIGHT)
    assert [w for w in ("open", "rare", "late", "day") if f"The castle: {w}." in said] == ["open"]


def test_one_entry_of_a_group_is_shown_and_its_weight_decides(tmp_path, memory) -> None:
    bring(
        tmp_path,
        castle("Never drawn", group="gate", groupWeight=0),
        castle("Always drawn", group="gate", groupWeight=100),
        castle("Apart"),
    )
    said = shown(AT_NIGHT)
    assert "always drawn." in said
    assert "never drawn." not in said
    assert "apart." in said


def test_an_entry_rests_after_it_was_named_and_comes_back(tmp_path, memory) -> None:
    bring(
        tmp_path,
        castle("Resting", cooldown=2),
        lore("Once", "@@dont_activate_after_match\nThe castle: once.", ["castle"]),
    )
    assert "resting." in shown(AT_NIGHT)
    assert "once." in shown(AT_NIGHT)
    run("hear", AT_NIGHT, "--channel", "cli")
    assert "resting." not in shown(AT_NIGHT)
    for word in ("One.", "Two."):
        run("hear", word, "--channel", "cli")
    said = shown(AT_NIGHT)
    assert "resting." in said
    assert "once." not in said


def test_a_constant_entry_that_is_not_due_is_no_pin_now(tmp_path, memory) -> None:
    bring(tmp_path, castle("Constant", constant=True, delay=3))
    assert "constant." not in shown("Hello.")
    for word in ("One.", "Two."):
        run("hear", word, "--channel", "cli")
    assert "constant." in shown("Hello.")


def test_an_entry_that_no_word_could_bring_stays_out(tmp_path, memory) -> None:
    bring(tmp_path, lore("Castle folder", "The castle: a divider.", []), castle("Open"))
    assert "divider" not in shown(AT_NIGHT)


def test_an_entry_that_was_moved_keeps_its_gates(gated, memory) -> None:
    path = next(memory.rglob("never.md"))
    run("memory", "mv", path.relative_to(memory).as_posix(), "lore/never.md")
    assert "castle: never." not in shown(AT_NIGHT)


def test_damaged_settings_keep_entries_back_and_say_so(tmp_path, memory) -> None:
    bring(tmp_path, castle("Open"))
    settings = next(memory.rglob(".lorebook.json"))
    settings.write_text("{", encoding="utf-8")
    assert "The castle: open." not in shown(AT_NIGHT)


def keep(title, **more):
    return lore(title, f"{title} of the castle.", ["castle"], **more)


PLACED = (
    keep("Second", position=0, order=20),
    keep("First", position=0, order=10, constant=True),
    keep("After", position=1),
    keep("Above", position=2),
    keep("Below", position=3),
    keep("User", position=4, depth=3, role=1),
    keep("Example", position=6),
    keep("Low", position=7, outletName="places", order=1),
    keep("High", position=7, outletName="places", order=9),
    keep("Lost", position=7, outletName="nowhere"),
)


@pytest.fixture
def placed(tmp_path, memory):
    (memory / "self").mkdir()
    (memory / "self" / "description.md").write_text(
        "# Description\n\nA guide. {{outlet::places}}\n", encoding="utf-8"
    )
    settings = memory.parent / "character.toml"
    more = '[author_note]\ntext = "The note."\n[search]\nk = 20\n'
    settings.write_text(settings.read_text(encoding="utf-8") + more, encoding="utf-8")
    bring(tmp_path, *PLACED)


def test_what_is_shown_stands_where_its_book_places_it(placed) -> None:
    for word in ("One.", "Two.", "Three.", "Four.", "Five."):
        run("hear", word, "--channel", "cli")
    messages = data("ask", "The {{outlet::places}} castle?", "--dry-run")["messages"]
    whole = "\n".join(message["content"] for message in messages)
    expected = ("First of", "Second of", "A guide. High of the castle.\nLow of", "After of")
    expected += ("[Example Chat]\n", "Example of", "Above of", "The note.", "Below of", "User of")
    assert [*expected] == sorted(expected, key=whole.index)
    assert "Lost of" not in whole
    assert "The {{outlet::places}} castle?" in messages[-1]["content"]  # words of people are data
    assert {"role": "user", "content": "User of the castle."} in messages


def test_the_place_and_why_it_is_there_are_shown(placed) -> None:
    page = run("ask", "The castle?", "--dry-run").stdout
    assert "user.md:1-8 at depth 3, as user" in " ".join(page.split())
    assert "no text has `{{outlet::nowhere}}`" in page


def test_a_book_takes_no_more_tokens_than_it_says(tmp_path, memory) -> None:
    entries = [
        book_entry(name, f"{name} of the castle.", ["castle"], insertion_order=order)
        for name, order in (("Low", 1), ("High", 9), ("Middle", 5))
    ]
    path = tmp_path / "book.json"
    book = {"name": "Keep", "extensions": {}, "entries": entries, "token_budget": 12}
    path.write_text(json.dumps({"spec": "lorebook_v3", "data": book}), encoding="utf-8")
    assert "the book's token_budget" in str(
        data("import-lorebook", str(path))["found_when_it_fits"]
    )
    said = shown("The castle?")
    assert [name for name in ("High", "Middle", "Low") if f"{name} of" in said] == [
        "High",
        "Middle",
    ]
