"""`familiar import-lorebook`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from familiar_cli.base.config.home import find_home
from familiar_cli.cli.app import app
from tests.support.cards import png_card, v2
from tests.support.lorebooks import book_entry, lore, world
from tests.support.world import data as world_data


@pytest.fixture
def memory():
    memory = find_home() / "mira" / "memory"
    memory.mkdir(parents=True)
    return memory


@pytest.fixture
def book(tmp_path):
    return save(tmp_path / "north.json", world(lore("Citadel"), lore("城", probability=40)))


def save(path, data):
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def run(*argv, stdin=None):
    return CliRunner().invoke(app, ["import-lorebook", *map(str, argv)], input=stdin)


def test_it_tells_what_was_written_and_what_became_of_each_setting(memory, book) -> None:
    result = run(book)

    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "Imported north (World Info, 2 entries)",
        "  written  lore/imported/north/citadel.md",
        "  written  lore/imported/north/城.md",
        (
            "In prompts when relevant: probability may keep back 1 entry; "
            "title, keys and text of 2 entries"
        ),
    ]
    assert (memory / "lore/imported/north/城.md").is_file()


def test_a_setting_with_its_default_has_no_effect(memory, tmp_path) -> None:
    plain = {"delay": 0, "cooldown": 0, "sticky": 0, "position": 0, "probability": 100}
    inner = {**plain, "delay_until_recursion": 0, "display_index": 3, "useProbability": True}
    in_card = {
        "name": "south",
        "entries": [book_entry("Tower", insertion_order=100, extensions=inner)],
    }
    for number, book in enumerate((world(lore("Moat", **plain)), in_card)):
        result = run(save(tmp_path / f"book-{number}.json", book))
        assert result.stdout.splitlines()[2:] == [
            "In prompts when relevant: title, keys and text of 1 entry",
        ]


def test_json_has_the_lists(memory, book) -> None:
    data = json.loads(run(book, "--json").stdout)["data"]

    assert data["written"] == ["lore/imported/north/citadel.md", "lore/imported/north/城.md"]
    assert (data["unchanged"], data["warnings"]) == ([], [])
    assert data["in_every_prompt"] == []
    assert data["found_when_it_fits"] == [
        "probability may keep back 1 entry",
        "title, keys and text of 2 entries",
    ]
    assert data["kept_unmapped"] == []


def test_the_same_again_changes_nothing(memory, book) -> None:
    run(book)
    result = run(book)

    assert result.exit_code == 0
    assert result.stdout.startswith("Nothing to change for north")


def test_a_dry_run_writes_nothing(memory, book) -> None:
    result = run(book, "--dry-run")

    assert (result.exit_code, list(memory.iterdir())) == (0, [])
    assert result.stdout.startswith("Would import north")


def test_standard_input_is_read(memory, book) -> None:
    assert run("-", stdin=book.read_bytes()).exit_code == 0
    assert (memory / "lore/imported/stdin/citadel.md").is_file()


def test_into_names_the_directory(memory, book) -> None:
    assert run(book, "--into", "lore/north").exit_code == 0
    assert (memory / "lore/north/citadel.md").is_file()


def test_a_cards_own_book_is_read_from_its_picture(memory, tmp_path) -> None:
    card = tmp_path / "mira.png"
    card.write_bytes(png_card(v2(character_book={"entries": [book_entry("Citadel")]})))

    assert run(card).exit_code == 0
    assert (memory / "lore/imported/mira/citadel.md").is_file()


def test_odd_shapes_are_warned_of_on_stderr(memory, tmp_path) -> None:
    odd = save(tmp_path / "odd.json", world(lore("A") | {"key": "one, two"}))
    result = run(odd)

    assert result.exit_code == 0
    assert result.stderr == "warning: 'key' is a single text: split at its commas (entry 'A')\n"


def test_a_changed_source_exits_5_and_names_the_files(memory, book) -> None:
    run(book)
    save(book, world(lore("Citadel", "New."), lore("城", probability=40)))
    result = run(book)

    assert (result.exit_code, result.stdout) == (5, "")
    assert "lore/imported/north/citadel.md" in result.stderr
    assert "hint: Add `--update`" in result.stderr
    assert run(book, "--update").exit_code == 0


def test_a_hand_edit_in_the_way_exits_5_with_the_diff(memory, book) -> None:
    run(book)
    file = memory / "lore/imported/north/citadel.md"
    file.write_bytes(file.read_bytes().replace(b"Text.", b"Mine."))
    save(book, world(lore("Citadel", "New."), lore("城", probability=40)))
    result = run(book, "--update")

    assert (result.exit_code, result.stdout) == (5, "")
    assert {"-Mine.", "+New."} <= set(result.stderr.splitlines())
    assert b"Mine." in file.read_bytes()
    assert run(book, "--force").exit_code == 0
    assert b"New." in file.read_bytes()


def test_a_refusal_with_json_prints_the_envelope(memory, book) -> None:
    run(book)
    save(book, world(lore("Citadel", "New.")))
    result = run("--json", book)

    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["status"], answer["errors"][0]["code"]) == (
        5,
        "error",
        "refused",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"Dear diary", "is text, not a lorebook"),
        (b"", "is empty, not a lorebook"),
        (b"{", "is not valid JSON"),
        (b"[" * 100_000, "nests too deeply"),
        (b'{"entries": [NaN]}', "NaN"),
        (b'{"a": 1}', "is not a lorebook but an object with 'a'"),
        (b'{"entries": [{"date": 1}]}', "is not a lorebook but an object with 'entries'"),
        (b'{"spec": "chara_card_v2", "data": {"first_mes": "x"}}', "card without a lorebook"),
        (b"\x89PNG\r\n\x1a\n", "an incomplete PNG"),
        (b"\xff\xfe\x00\x01\x02", "wrong.json"),
    ],
)
def test_what_is_no_lorebook_exits_5_and_writes_nothing(memory, tmp_path, content, message) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_bytes(content)
    result = run(wrong)

    assert (result.exit_code, result.stdout, list(memory.iterdir())) == (5, "", [])
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_an_entry_larger_than_a_file_may_be_exits_5_and_writes_nothing(memory, tmp_path) -> None:
    big = save(tmp_path / "big.json", world(lore("A"), lore("B", "x" * 300_000)))
    result = run(big)

    assert (result.exit_code, list(memory.rglob("*.md"))) == (5, [])
    assert "lore/imported/big/b.md" in result.stderr


def test_a_missing_file_exits_4(memory, tmp_path) -> None:
    assert run(tmp_path / "none.json").exit_code == 4


def test_a_directory_exits_5(memory, tmp_path) -> None:
    assert run(tmp_path).exit_code == 5


def test_without_a_familiar_it_exits_4(book) -> None:
    assert run(book).exit_code == 4


@pytest.mark.parametrize("into", ["../out", "/tmp", ".", ".hidden", "lore/../../x"])
def test_a_directory_outside_the_memory_exits_5(memory, book, into) -> None:
    result = run(book, "--into", into)

    assert (result.exit_code, list(memory.iterdir())) == (5, [])


def test_a_file_where_the_directory_should_be_exits_5(memory, book) -> None:
    (memory / "lore").write_text("I am a file", encoding="utf-8")

    assert run(book).exit_code == 5


def test_damaged_settings_exit_5(memory, book) -> None:
    run(book)
    (memory / "lore/imported/north/.lorebook.json").write_text("{", encoding="utf-8")

    assert run(book).exit_code == 5


def test_titles_and_names_never_steer_the_terminal(memory, tmp_path) -> None:
    evil = save(
        tmp_path / "evil.json", world(lore("\x1b[31mred[/b] ../../x"), name="\x1b]0;x\x07[bold]n")
    )
    result = run(evil)

    assert result.exit_code == 0
    assert "\x1b" not in result.stdout + result.stderr
    assert [path.name for path in memory.rglob("*.md")] == ["31mred-b-x.md"]


def test_without_a_file_it_is_a_usage_error(memory) -> None:
    assert run().exit_code == 2


def test_the_journal_names_the_import(memory, book) -> None:
    run(book)
    (commit,) = world_data("memory", "log", "--source", "import-lorebook")["commits"]
    assert commit["run"]
