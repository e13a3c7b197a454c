"""`familiar card`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import io
import json

import pytest
from typer.testing import CliRunner

from familiar_cli.cli.app import app
from familiar_cli.imports.reading import read_card
from familiar_cli.pages.card_pages import card_page
from familiar_cli.pages.terminal import console
from tests.support.cards import as_json, charx_card, png_card, v2, v3
from tests.support.cases import each
from tests.support.world import data


def run(*argv, stdin=None):
    return CliRunner().invoke(app, [str(arg) for arg in argv], input=stdin)


@pytest.fixture
def card(tmp_path):
    path = tmp_path / "ilse.png"
    path.write_bytes(
        png_card(
            v2(
                character_book={
                    "name": "Town",
                    "entries": [
                        {
                            "keys": ["clock"],
                            "content": "It ticks.",
                            "enabled": True,
                            "insertion_order": 1,
                        }
                    ],
                }
            )
        )
    )
    return path


@pytest.fixture
def familiar(card):
    assert run("init", "--from-card", card).exit_code == 0
    return card


def test_show_is_plain_text_in_a_pipe(card) -> None:
    result = run("card", "show", card)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "Ilse"
    assert lines[1] == "card of version 2, png · version 1 · by me"
    assert "Greeting 3, of 3" in lines
    assert "  時計は好き？" in lines
    assert "Depth prompt, depth 4, as system" in lines
    assert "Book “Town”, 1 entry" in lines
    assert not any(line.endswith(" ") for line in lines)


def test_show_is_framed_on_a_terminal(card) -> None:
    from familiar_cli.imports.card_check import summarise_card
    from familiar_cli.llm.tokens import heuristic

    summary = summarise_card(read_card(card.read_bytes(), origin="x"), heuristic())
    screen = io.StringIO()
    console(screen).print(card_page(summary, framed=True))
    assert "╔" in screen.getvalue()
    assert all(len(line) <= 100 for line in screen.getvalue().splitlines())


def test_show_json_has_every_text_in_full(card) -> None:
    data = json.loads(run("--json", "card", "show", card).stdout)["data"]
    assert data["name"] == "Ilse"
    assert data["fields"][0]["field"] == "description"
    assert data["fields"][0]["text"] == "{{char}} mends clocks."
    assert data["book"][0]["keys"] == ["clock"]
    assert data["sent_tokens"] > 0


def test_show_reads_standard_input(card) -> None:
    assert run("card", "show", "-", stdin=card.read_bytes()).stdout.startswith("Ilse\n")


def test_show_renders_nothing_from_a_card_as_markup_or_escape(tmp_path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(as_json(v3(name="[red]R\x1b[0m", tags=["[/b]"])))
    result = run("card", "show", path)
    assert result.stdout.splitlines()[0] == "[red]R[0m"
    assert "[/b]" in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("verb", ["show", "check"])
def test_a_file_that_is_no_card_is_refused(tmp_path, verb) -> None:
    (tmp_path / "x.webp").write_bytes(b"RIFF\xff\xff\0\0WEBP" + bytes(20))
    result = run("card", verb, tmp_path / "x.webp")
    assert (result.exit_code, result.stdout) == (5, "")
    assert "a WebP picture" in result.stderr


@pytest.mark.parametrize("verb", ["show", "check"])
def test_a_missing_file_is_not_found(tmp_path, verb) -> None:
    assert run("card", verb, tmp_path / "no.png").exit_code == 4


def test_check_is_content_with_a_good_card(tmp_path) -> None:
    (tmp_path / "x.json").write_bytes(as_json(v3()))
    result = run("card", "check", tmp_path / "x.json")
    assert (result.exit_code, result.stdout) == (0, "Ilse: no problems found\n")


def test_check_lists_findings_and_ends_with_7(tmp_path) -> None:
    (tmp_path / "x.json").write_bytes(as_json(v3(first_mes="", tags="a")))
    result = run("card", "check", tmp_path / "x.json")
    assert result.exit_code == 7
    assert result.stdout.splitlines() == [
        "warning  format     'tags' is text; it is read as a list",
        "warning  first_mes  empty: the character will not open the conversation",
    ]


def test_check_of_several_files_names_each_and_ends_with_the_worst_code(tmp_path) -> None:
    good, odd, bad = (str(tmp_path / name) for name in ("good.json", "odd.json", "bad.json"))
    (tmp_path / "good.json").write_bytes(as_json(v3()))
    (tmp_path / "odd.json").write_bytes(as_json(v3(first_mes="")))
    (tmp_path / "bad.json").write_bytes(b"[]")
    result = run("card", "check", bad, odd, good)
    assert result.exit_code == 5
    assert f"{odd}: Ilse\nwarning  first_mes" in result.stdout
    assert f"{good}: Ilse: no problems found" in result.stdout
    assert f"{odd!r} has 1 finding" in result.stderr
    assert f"error: {bad!r}: " in result.stderr
    assert run("card", "check", odd, good).exit_code == 7


def test_check_json_says_partial(tmp_path) -> None:
    (tmp_path / "x.json").write_bytes(as_json(v3(first_mes="")))
    result = run("--json", "card", "check", tmp_path / "x.json")
    envelope = json.loads(result.stdout)
    assert (result.exit_code, envelope["status"]) == (7, "partial")
    assert envelope["data"]["findings"][0]["severity"] == "warning"


@pytest.mark.parametrize("card_format", ["png", "json", "charx"])
def test_export_writes_the_card_to_stdout(familiar, card_format) -> None:
    result = run("card", "export", "--format", card_format)
    assert result.exit_code == 0
    made = read_card(result.stdout_bytes, origin="x")
    assert made.data["description"] == "{{char}} mends clocks."
    assert made.data["character_book"]["entries"][0]["content"] == "It ticks."


def test_export_has_the_edits(familiar) -> None:
    run("memory", "write", "self/description.md", "# Description\n\nedited")
    made = json.loads(run("card", "export", "--format", "json").stdout)
    assert made["data"]["description"] == "edited"


def test_export_into_a_file_says_so(familiar, tmp_path) -> None:
    target = tmp_path / "out.png"
    result = run("card", "export", "--out", target)
    assert result.stdout == f"Wrote {target} ({target.stat().st_size:,} bytes)\n"
    assert read_card(target.read_bytes(), origin="x").name == "Ilse"


@each("name", ["card.json", "CARD.JSON"])
def test_the_ending_of_the_file_says_the_format(familiar, tmp_path, name) -> None:
    target = tmp_path / name
    assert data("card", "export", "--out", str(target))["format"] == "json"
    assert json.loads(target.read_bytes())["data"]["name"]
    assert data("card", "export", "--out", str(target), "--format", "png", "--force")
    assert target.read_bytes().startswith(b"\x89PNG")


def test_export_never_overwrites_a_file_without_force(familiar, tmp_path) -> None:
    target = tmp_path / "out.png"
    target.write_bytes(b"mine")
    refused = run("card", "export", "--out", target)
    assert (refused.exit_code, target.read_bytes()) == (5, b"mine")
    assert "--force" in refused.stderr
    assert run("card", "export", "--out", target, "--force").exit_code == 0
    assert target.read_bytes() != b"mine"


def test_export_into_a_directory_is_refused(familiar, tmp_path) -> None:
    assert run("card", "export", "--out", tmp_path, "--force").exit_code == 5


def test_export_where_nothing_can_be_written_fails(familiar, tmp_path) -> None:
    result = run("card", "export", "--out", tmp_path / "no" / "out.png")
    assert result.exit_code == 1
    assert "cannot be written" in result.stderr


def test_export_of_an_unknown_format_is_a_usage_error(familiar) -> None:
    assert run("card", "export", "--format", "gif").exit_code == 2


def test_export_does_not_pour_bytes_into_a_terminal(familiar, monkeypatch) -> None:
    import sys

    from familiar_cli.base.errors import UsageError
    from familiar_cli.cli.commands.imports import _check_terminal

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(UsageError) as caught:
        _check_terminal("png", None)
    assert caught.value.hint == "Add `--out card.png`."
    _check_terminal("json", None)


def test_export_without_any_familiar_is_not_found() -> None:
    assert run("card", "export").exit_code == 4


def test_export_json_carries_the_card(familiar) -> None:
    data = json.loads(run("card", "export", "--format", "json", "--json").stdout)["data"]
    assert data["card"]["data"]["name"] == "Ilse"
    assert data["left_out"] == ["the picture"]


def test_export_says_what_stays_behind(tmp_path) -> None:
    (tmp_path / "x.charx").write_bytes(charx_card(v3(), {"other.json": b"{}"}))
    run("init", "--from-card", tmp_path / "x.charx")
    result = run("card", "export", "--format", "json")
    assert "warning: a json file cannot carry other.json; the original keeps it" in result.stderr
