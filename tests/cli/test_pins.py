"""`familiar memory pin`, `unpin` and `pins`, and what prompts make of them."""

from __future__ import annotations

import json

import pytest

from tests.support.world import data, live, run

RULES = "# House rules\n\nNever mention the war.\n"
PINNED = "---\npinned: true\n---\n"


@pytest.fixture
def memory():
    """A memory with three files; prompts have all the time they need."""
    root = live("ada", notes="Ask Bob.\n", rules=RULES)
    (root / "memory" / "people").mkdir()
    (root / "memory" / "people" / "cli-bob.md").write_text("# Bob\n\nPlays ska.\n", "utf-8")
    (root / "character.toml").write_text("[context]\nprovider_deadline_s = 20\n", "utf-8")
    return root / "memory"


def text(path) -> str:
    return path.read_bytes().decode()


def offered(*args, words="Hello") -> dict[str, dict]:
    """Return what pins offer to a prompt, by file."""
    found = data("ask", words, *args, "--dry-run")["contributions"]
    return {piece["rel_path"]: piece for piece in found if piece["source"] == "memory.pinned"}


def system(*args, words="Hello") -> str:
    return data("ask", words, *args, "--dry-run")["messages"][0]["content"]


class TestPin:
    def test_it_is_a_line_in_the_front_matter(self, memory) -> None:
        result = run("memory", "pin", "rules.md", "notes.md", "rules.md")
        assert (result.exit_code, result.stdout) == (0, "wrote notes.md\nwrote rules.md\n")
        assert text(memory / "rules.md") == PINNED + RULES
        assert run("memory", "pin", "rules.md").stdout == "unchanged rules.md\n"

    def test_unpin_gives_the_bytes_back(self, memory) -> None:
        odd = "\ufeff---\r\ntags:  [a,  b]   # mine\r\n---\r\nRules.\r\n"
        (memory / "rules.md").write_bytes(odd.encode())
        run("memory", "pin", "rules.md")
        assert text(memory / "rules.md") == odd.replace("mine\r\n", "mine\r\npinned: true\r\n")
        assert run("memory", "unpin", "rules.md").stdout == "wrote rules.md\n"
        assert text(memory / "rules.md") == odd
        assert run("memory", "unpin", "rules.md").stdout == "unchanged rules.md\n"

    def test_a_dry_run_changes_nothing(self, memory) -> None:
        result = run("memory", "pin", "rules.md", "--dry-run")
        assert (result.stdout, result.exit_code) == ("would write rules.md\n", 0)
        assert text(memory / "rules.md") == RULES

    def test_it_is_a_change_that_can_be_undone(self, memory) -> None:
        run("memory", "pin", "rules.md")
        (newest,) = data("memory", "log", "-n", "1")["commits"]
        assert (newest["source"], newest["message"]) == ("human", "pin rules.md")
        blamed = data("memory", "blame", "rules.md")["lines"]
        assert {line["commit"]["message"] for line in blamed[:3]} == {"pin rules.md"}
        run("memory", "undo", newest["id"])
        assert text(memory / "rules.md") == RULES

    @pytest.mark.parametrize(
        ("path", "code", "words"),
        [
            ("nope.md", 4, "nope.md"),
            ("people", 4, "directory"),
            ("../x.md", 5, "x.md"),
            ("self/description.md", 5, "in every prompt"),
            ("tasks.json", 5, "only .md"),
            (".odd/x.md", 5, "hidden"),
        ],
    )
    def test_what_cannot_be_pinned_is_refused_and_nothing_changes(
        self, memory, path, code, words
    ) -> None:
        for name in ("self/description.md", "tasks.json", ".odd/x.md"):
            (memory / name).parent.mkdir(exist_ok=True)
            (memory / name).write_text("{}", "utf-8")
        result = run("memory", "pin", "rules.md", path)
        assert (result.exit_code, result.stdout) == (code, "")
        assert words in result.stderr
        assert text(memory / "rules.md") == RULES

    def test_front_matter_that_is_no_list_of_keys_is_refused(self, memory) -> None:
        (memory / "rules.md").write_text("---\n{a: b}\n---\nWords\n", "utf-8")
        result = run("memory", "pin", "rules.md")
        assert result.exit_code == 5
        assert "nothing was changed" in result.stderr

    def test_no_path_is_a_usage_error(self, memory) -> None:
        assert run("memory", "pin").exit_code == 2
        assert run("memory", "unpin").exit_code == 2


class TestPins:
    def test_nothing_pinned_is_said(self, memory) -> None:
        result = run("memory", "pins")
        assert (result.exit_code, result.stdout) == (0, "")
        assert "memory pin" in result.stderr

    def test_they_are_listed_with_what_they_cost(self, memory) -> None:
        run("memory", "pin", "rules.md")
        found = data("memory", "pins")
        assert [(pin["rel_path"], pin["fits"], pin["note"]) for pin in found["pins"]] == [
            ("rules.md", True, "")
        ]
        assert found["tokens"] == found["pins"][0]["tokens"] < found["budget_tokens"]
        shown = run("memory", "pins").stdout
        assert f"rules.md  {found['tokens']} tokens" in shown
        assert f"of the {found['budget_tokens']:,} guaranteed to pins" in shown

    def test_one_without_room_says_so(self, memory) -> None:
        (memory / "rules.md").write_text(PINNED + "Never mention the war. " * 90, "utf-8")
        run("config", "set", "budget.pinned", "60")
        (pin,) = data("memory", "pins")["pins"]
        assert not pin["fits"]
        assert "no room" in pin["note"]
        assert "no room" in run("memory", "pins").stdout

    def test_one_that_nobody_sees_says_why(self, memory) -> None:
        run("memory", "write", "lore/x.md", PINNED + "# X\n\n- x\n- **Disabled**\n\nWords.\n")
        (pin,) = data("memory", "pins")["pins"]
        assert (pin["fits"], pin["tokens"]) == (False, 0)
        assert "disabled" in pin["note"]


class TestPrompts:
    def test_a_pinned_file_is_in_every_prompt_at_every_tier(self, memory) -> None:
        run("memory", "pin", "rules.md")
        for tier in "1234":
            for words in ("Hello", "What about the war?", "日本"):
                assert "[Pinned: House rules]\nNever mention the war." in system(
                    "--tier", tier, words=words
                )
        piece = offered()["rules.md"]
        assert (piece["layer"], piece["kept"], piece["reason"]) == ("pinned", True, "")
        assert piece["lines"] == [1, 6]

    def test_one_pinned_by_hand_a_second_ago_counts(self, memory) -> None:
        assert offered() == {}
        (memory / "rules.md").write_text(f"---\npinned: yes\ntags: [x]\n---\n{RULES}", "utf-8")
        assert offered()["rules.md"]["kept"]
        assert "tags" not in system()
        run("memory", "unpin", "rules.md")
        assert offered() == {}

    def test_it_is_not_offered_twice(self, memory) -> None:
        run("memory", "pin", "rules.md", "people/cli-bob.md")
        words = "House rules: does Bob play ska, and who may mention the war?"
        found = data("ask", words, "--dry-run")
        kept = [p["rel_path"] for p in found["contributions"] if p["kept"] and p["rel_path"]]
        assert sorted(kept) == ["notes.md", "people/cli-bob.md", "rules.md"]
        assert json.dumps(found["messages"]).count("Plays ska") == 1

    def test_those_without_room_are_listed_and_others_are_not_starved(self, memory) -> None:
        run("config", "set", "budget.total", "700")
        long = PINNED + "# Annals\n\n" + "The keeper wrote down another ship. " * 300
        (memory / "annals.md").write_text(long, "utf-8")
        (memory / "codex.md").write_text(PINNED + "# Codex\n\n" + "Cut text. " * 500, "utf-8")
        run("memory", "pin", "rules.md")
        pins = offered()
        assert pins["rules.md"]["kept"]
        assert pins["rules.md"]["reason"] == ""
        assert pins["annals.md"]["tokens"] < pins["annals.md"]["offered_tokens"]
        assert pins["annals.md"]["reason"]
        assert (pins["codex.md"]["kept"], bool(pins["codex.md"]["reason"])) == (False, True)

    def test_room_that_the_prompt_leaves_goes_to_pins(self, memory) -> None:
        run("config", "set", "budget.pinned", "30")
        run("config", "set", "budget.total", "3000")
        (memory / "rules.md").write_text(PINNED + "Never mention the war. " * 90, "utf-8")
        piece = offered()["rules.md"]
        assert piece["tokens"] == piece["offered_tokens"] > 300

    def test_one_that_finds_only_free_room_is_still_not_offered_twice(self, memory) -> None:
        run("config", "set", "budget.pinned", "30")
        run("config", "set", "budget.total", "3000")
        words = "The lighthouse keeper counts ships. " + "The sea is calm. " * 60
        (memory / "sea.md").write_text(f"{PINNED}# The sea\n\n{words}", "utf-8")
        found = data("ask", "Who counts ships?", "--dry-run")
        assert json.dumps(found["messages"]).count("keeper counts ships") == 1

    def test_what_was_said_in_private_is_pinned_there_only(self, memory) -> None:
        run("channel", "set", "dm-1", "--kind", "dm")
        (memory / "rules.md").write_text(
            PINNED + RULES + "\n## In private: x <!-- private dm%2D1 -->\n\nThe code is 7.\n",
            "utf-8",
        )
        assert "The code is 7" not in system()
        assert "The code is 7" in system("--channel", "dm-1")
        assert "Never mention the war" in system()
        assert "private elsewhere" in offered()["rules.md"]["reason"]

    def test_a_disabled_entry_is_left_out_and_said_why(self, memory) -> None:
        run("memory", "write", "lore/x.md", PINNED + "# X\n\n- x\n- **Disabled**\n\nWords.\n")
        piece = offered()["lore/x.md"]
        assert not piece["kept"]
        assert "disabled" in piece["reason"]

    def test_macros_of_lore_are_expanded_and_keys_left_out(self, memory) -> None:
        run("memory", "write", "lore/x.md", PINNED + "# X\n\n- key\n\n{{char}} is tall.\n")
        assert "[Pinned: X]\nada is tall." in system()


class TestElsewhere:
    def test_the_scratchpad_is_shown_without_its_front_matter(self, memory) -> None:
        (memory / "scratch.md").write_text(PINNED + "Half a thought.\n", "utf-8")
        assert "[Pinned: scratch.md]\nHalf a thought." in system("--tier", "1")
        everything = system("--tier", "4")
        assert everything.count("Half a thought.") == 1
        assert "pinned: true" not in everything
        assert "included elsewhere" in offered("--tier", "4")["scratch.md"]["reason"]

    def test_a_file_of_the_character_keeps_its_place_and_hides_its_front_matter(
        self, memory
    ) -> None:
        (memory / "self").mkdir()
        (memory / "self" / "description.md").write_text(PINNED + "# D\n\nAda is tall.", "utf-8")
        assert system().count("Ada is tall.") == 1
        assert "pinned" not in system()

    def test_a_new_name_of_a_pinned_person_leaves_the_pin(self, memory) -> None:
        run("memory", "pin", "people/cli-bob.md")
        assert run("people", "alias", "cli:bob", "Bobby").exit_code == 0
        assert text(memory / "people" / "cli-bob.md").startswith(PINNED + "# Bob\n")
        assert offered()["people/cli-bob.md"]["kept"]

    def test_housekeeping_finds_nothing_wrong_with_pins(self, memory) -> None:
        before = data("housekeep")["findings"]
        run("memory", "pin", "rules.md", "notes.md", "people/cli-bob.md")
        assert data("housekeep")["findings"] == before


class TestDoctor:
    def checks(self) -> list[tuple[str, str]]:
        result = run("doctor", "--json")
        checks = json.loads(result.stdout)["data"]["checks"]
        return [(one["verdict"], one["detail"]) for one in checks if one["name"] == "pins"]

    def test_without_pins_it_says_nothing(self, memory) -> None:
        assert self.checks() == []

    def test_pins_that_fit_are_counted_and_no_index_is_made(self, memory) -> None:
        (memory / "rules.md").write_text(PINNED + RULES, "utf-8")
        ((verdict, detail),) = self.checks()
        assert verdict == "ok"
        assert detail.startswith("1 with ")
        assert not (memory / ".index" / "embeddings.sqlite").exists()

    def test_pins_without_room_are_a_warning(self, memory) -> None:
        (memory / "rules.md").write_text(PINNED + "Never mention the war. " * 900, "utf-8")
        ((verdict, detail),) = self.checks()
        assert verdict == "warn"
        assert "are guaranteed only" in detail

    def test_a_pin_that_nobody_sees_is_a_warning(self, memory) -> None:
        run("memory", "write", "lore/x.md", PINNED + "# X\n\n- x\n- **Disabled**\n\nWords.\n")
        assert ("warn", "pinned, but in no prompt") in [
            (verdict, detail.partition(":")[0]) for verdict, detail in self.checks()
        ]
