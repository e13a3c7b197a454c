"""What a lorebook gives to prompts: what is named, whole; what is constant, always."""

from __future__ import annotations

import json

import pytest

from tests.support.cards import as_json, v2
from tests.support.lorebooks import book_entry, lore, world
from tests.support.world import data, home, run

QUESTION = 'User: "What are Shadowfangs?"'
ANSWER = "Beasts of the corrupted forest; their howl steals the memory of whoever hears it."


@pytest.fixture
def memory():
    memory = home() / "mira" / "memory"
    memory.mkdir(parents=True)
    (memory.parent / "character.toml").write_text(
        "[context]\nprovider_deadline_s = 20\n", encoding="utf-8"
    )
    return memory


def bring(tmp_path, *entries, args=(), **frame) -> dict:
    path = tmp_path / "book.json"
    path.write_text(json.dumps(world(*entries, **frame)), encoding="utf-8")
    return data("import-lorebook", str(path), *args)


def prompt(words, *args) -> str:
    return "\n".join(m["content"] for m in data("ask", words, "--dry-run", *args)["messages"])


def kept(words, *args) -> list[str]:
    found = data("ask", words, "--dry-run", *args)["contributions"]
    return [p["rel_path"] for p in found if p["kept"] and (p["rel_path"] or "").startswith("lore/")]


class TestNamed:
    @pytest.mark.parametrize("words", ["What are Shadowfangs?", "Tell me of the shadowfang!"])
    def test_an_entry_that_begins_with_the_question_comes_with_its_answer(
        self, tmp_path, words
    ) -> None:
        """As in the card that SillyTavern brings along."""
        content = f'{QUESTION}\n{{{{char}}}}: *Her voice drops* "{ANSWER}"\n' + "*She nods.* " * 40
        keys = ["shadowfang", "shadowfangs", "beast"]
        book = {"entries": [book_entry("Shadowfang", content, keys)]}
        card = tmp_path / "seraphina.json"
        card.write_bytes(as_json(v2(name="Seraphina", character_book=book)))
        assert run("init", "--from-card", str(card)).exit_code == 0
        (home() / "seraphina" / "character.toml").write_text(
            "[context]\nprovider_deadline_s = 20\n", encoding="utf-8"
        )
        said = prompt(words)
        assert "[From memory: Shadowfang]" in said
        assert QUESTION in said
        assert ANSWER in said
        assert "Seraphina: *Her voice drops*" in said

    def test_eight_names_bring_eight_entries(self, memory, tmp_path) -> None:
        names = ["Arden", "Brisk", "Corvin", "Delphi", "Eskil", "Fenna", "Gorm", "Hilde"]
        entries = [lore(n, f"{n} guards gate number {k}.", [n]) for k, n in enumerate(names)]
        bring(tmp_path, *entries)
        said = f"Have {', '.join(names)} all come?"
        assert kept(said, "--tier", "2") == [f"lore/imported/book/{n.lower()}.md" for n in names]
        assert all(f"{n} guards gate number {k}." in prompt(said) for k, n in enumerate(names))

    def test_names_without_room_are_listed(self, memory, tmp_path) -> None:
        names = ["Arden", "Brisk", "Corvin", "Delphi"]
        bring(tmp_path, *(lore(n, f"{n} is tall. " * 200, [n]) for n in names))
        found = data("ask", f"Have {', '.join(names)} come?", "--dry-run")["contributions"]
        pieces = {p["rel_path"]: p for p in found if (p["rel_path"] or "").startswith("lore/")}
        assert len(pieces) == 4
        assert all(p["kept"] or p["reason"] for p in pieces.values())
        assert not all(p["kept"] for p in pieces.values())

    def test_an_expression_names_nothing_and_no_title_shows_one(self, memory, tmp_path) -> None:
        bring(tmp_path, lore("/zorg(on)?/i", "A moon.", ["/zorg(on)?/i", "the moon of glass"]))
        assert kept("The zorgon shines.") == []
        said = prompt("Where is the moon of glass?")
        assert "[From memory: the moon of glass]\nA moon." in said
        assert "/zorg" not in said


class TestConstant:
    def test_a_constant_entry_is_in_every_prompt(self, memory, tmp_path) -> None:
        done = bring(tmp_path, lore("Law", "{{char}} never lies.", ["law"], constant=True))
        assert done["in_every_prompt"] == ["constant of 1 entry"]
        for words in ("Hello", "What is the law?", "…"):
            assert prompt(words).count("[Pinned: Law]\nmira never lies.") == 1
            assert prompt(words).count("never lies") == 1

    def test_so_is_one_of_a_card(self, tmp_path) -> None:
        card = tmp_path / "card.json"
        book = {"entries": [book_entry("Law", "No war.", constant=True)], "name": "Laws"}
        card.write_bytes(as_json(v2(character_book=book)))
        done = data("init", "--from-card", str(card))
        assert "character_book: constant of 1 entry" in done["in_every_prompt"]
        assert "[Pinned: Law]\nNo war." in prompt("Hello")
        again = data("init", "--from-card", str(card))
        assert again["written"] == []
        assert again["in_every_prompt"] == done["in_every_prompt"]

    def test_a_disabled_one_is_not(self, memory, tmp_path) -> None:
        bring(tmp_path, lore("Law", "No war.", ["law"], constant=True, disable=True))
        assert "No war" not in prompt("What is the law?")

    def test_an_unpinned_one_is_found_when_it_fits(self, memory, tmp_path) -> None:
        bring(tmp_path, lore("Law", "No war.", ["law"], constant=True))
        run("memory", "unpin", "lore/imported/book/law.md")
        bring(tmp_path, lore("Law", "No war.", ["law"], constant=True), args=["--update"])
        assert "No war" not in prompt("Hello")
        assert "[From memory: Law]\nNo war." in prompt("What is the law?")

    def test_more_than_prompts_have_room_for_is_said(self, memory, tmp_path) -> None:
        path = tmp_path / "book.json"
        entries = [lore(f"Law {n}", "No war, ever. " * 60, constant=True) for n in range(9)]
        path.write_text(json.dumps(world(*entries)), encoding="utf-8")
        result = run("import-lorebook", str(path))
        assert result.exit_code == 0
        assert "Pinned files have" in result.stderr
        assert "familiar memory pins" in result.stderr
