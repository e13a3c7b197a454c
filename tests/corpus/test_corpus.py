"""Every malformed file in this directory ends as `verdicts.json` says, from argv to exit code.

A verdict is the exit code and the beginning of the first line on stderr (nothing for 0 without a
warning). Lorebooks have a corpus of their own, in tests/imports/lorebooks/corpus.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from familiar_cli.base.config.settings import MAX_CONFIG_BYTES
from familiar_cli.imports.foreign_files import MAX_YAML_BYTES
from tests.support.cases import each
from tests.support.world import home, live, run

HERE = Path(__file__).parent
LOREBOOKS = HERE.parent / "imports" / "lorebooks" / "corpus"
VERDICTS = json.loads((HERE / "verdicts.json").read_text(encoding="utf-8"))
REFUSED_BOOKS = [
    name
    for name, verdict in json.loads((LOREBOOKS / "verdicts.json").read_text("utf-8")).items()
    if "refused" in verdict
]


def outcome(name: str):
    """Give the file to the command that meets such files, and return what the command did."""
    kind, _, _ = name.partition("/")
    if kind == "cards":
        return run("card", "show", str(HERE / name))
    root = live("ada")
    place = {
        "settings": root / "character.toml",
        "histories": root / "history.db",
        "traces": root / "traces" / "7.json",
    }[kind]
    place.parent.mkdir(exist_ok=True)
    shutil.copy(HERE / name, place)
    return run("context") if kind == "traces" else run("status")


def told(result) -> str:
    return next(iter(result.stderr.replace(str(home()), "HOME").splitlines()), "")


def test_every_file_has_a_verdict() -> None:
    files = {path.relative_to(HERE).as_posix() for path in HERE.glob("*/*")}
    assert {name for name in files if "__pycache__" not in name} == set(VERDICTS)


@each("name", sorted(VERDICTS))
def test_verdict(name) -> None:
    result, verdict = outcome(name), VERDICTS[name]
    assert (result.exit_code, result.exception.__class__) in {
        (verdict["code"], SystemExit),
        (verdict["code"], type(None)),
    }, result.output
    assert told(result).startswith(verdict["told"]), told(result)
    assert bool(told(result)) == bool(verdict["told"])
    assert not {"\x1b", "\x9b", "\u202e"} & set(result.stderr)


@each("name", sorted(n for n, v in VERDICTS.items() if "cards/" in n))
def test_what_can_be_shown_can_be_brought_in_and_what_cannot_leaves_nothing(name) -> None:
    result = run("init", "ada", "--from-card", str(HERE / name))
    assert result.exit_code == VERDICTS[name]["code"]
    assert ("ada" in run("list").stdout) == (result.exit_code == 0)


@each("name", sorted(n for n, v in VERDICTS.items() if v["code"]))
def test_a_refused_file_stays_as_it_is(name) -> None:
    outcome(name)
    place = home() / "ada"
    copies = {
        "settings": place / "character.toml",
        "histories": place / "history.db",
        "traces": place / "traces" / "7.json",
    }
    after = copies.get(name.partition("/")[0], HERE / name).read_bytes()
    header = 100 if name.startswith("histories/") else 0  # opening it may set the kind of journal
    assert after[header:] == (HERE / name).read_bytes()[header:]


@each("name", REFUSED_BOOKS)
def test_a_refused_lorebook_is_one_error_and_changes_nothing(name) -> None:
    root = live("ada")
    result = run("import-lorebook", str(LOREBOOKS / name))
    assert result.exit_code == 5
    assert told(result).startswith("error: ")
    assert not any(root.joinpath("memory").iterdir())


def test_a_text_too_long_for_a_card_in_yaml(tmp_path) -> None:
    path = tmp_path / "long.yaml"
    path.write_bytes(b"name: x\ncontext: " + b"y" * MAX_YAML_BYTES)
    result = run("card", "show", str(path))
    assert (result.exit_code, told(result)) == (
        5,
        "error: 'long.yaml' is text over 512 KiB, too long for a YAML card",
    )


def test_a_settings_file_too_large_to_be_read() -> None:
    (live("ada") / "character.toml").write_bytes(b"#" * (MAX_CONFIG_BYTES + 1))
    result = run("status")
    assert result.exit_code == 3
    assert "is larger than 1,048,576 bytes; it was not read" in told(result)
