"""`familiar index` and `familiar memory links`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from familiar_cli.familiar import Familiar
from familiar_cli.store.memory.store.files import MAX_READ_BYTES
from familiar_cli.store.search import schema
from familiar_cli.store.search.finding import Finder
from familiar_cli.store.search.turn_vectors import VERSION as TURNS_VERSION
from tests.support.embedders import EmbedderChoice, TokenWordEmbedder, WordEmbedder
from tests.support.world import data, live, run


@pytest.fixture
def memory() -> Path:
    return live("ada", alice="# Alice\n\nLikes tea.\n", notes="see [her](alice.md)\n") / "memory"


def test_build_says_what_it_did_and_what_is_missing(memory) -> None:
    result = run("index", "build")
    assert (result.exit_code, result.stdout) == (
        0,
        "files: 2 read, 0 removed, 0 unchanged\nvectors: 0 made, 2 waiting\n",
    )
    assert "familiar model pull minilm-l6-v2" in result.stderr


def test_building_twice_changes_nothing(memory) -> None:
    run("index", "build")
    assert data("index", "build")["refreshed"]["unchanged"] == 2


def test_status_before_and_after(memory) -> None:
    assert "none yet: `familiar index build`" in run("index", "status").stdout
    run("index", "build")
    with (memory / "bad.md").open("wb") as file:
        file.truncate(MAX_READ_BYTES + 1)
    run("index", "build")
    status = data("index", "status")["status"]
    assert (status["exists"], status["files"], status["waiting"]) == (True, 2, 2)
    assert status["problems"][0]["rel_path"] == "bad.md"
    assert "left out" in run("index", "status").stdout


def test_status_counts_vectors_of_tokens(memory, monkeypatch) -> None:
    monkeypatch.setattr(Finder, "embedder", EmbedderChoice(TokenWordEmbedder()))
    run("index", "build")
    assert data("index", "status")["status"]["token_vectors"] == 5
    assert "2 of words, 5 of tokens" in run("index", "status").stdout
    shown = run("search", "tea", "--explain").stdout
    assert "tokens 1.000 in the line, 1.000 around it" in shown


def test_clear_deletes_the_index_and_nothing_else(memory) -> None:
    run("index", "build")
    assert run("index", "clear").stdout == "deleted the index\n"
    assert run("index", "clear").stdout == "there was no index\n"
    assert sorted(p.name for p in memory.glob("*.md")) == ["alice.md", "notes.md"]


def test_links_show_both_directions(memory) -> None:
    shown = run("memory", "links", "alice.md").stdout
    assert shown == "1  notes.md  notes.md links to alice.md\n"
    (step,) = data("memory", "links", "notes.md")["steps"]
    assert (step["rel_path"], step["distance"], step["link"]["kind"]) == ("alice.md", 1, "link")


def test_links_that_lead_nowhere_are_warned_of(memory) -> None:
    (memory / "c.md").write_text("[gone](gone.md)", encoding="utf-8")
    result = run("memory", "links", "c.md")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "warning: c.md links to gone.md, which does not exist" in result.stderr


def test_links_of_a_missing_file_are_not_found(memory) -> None:
    result = run("memory", "links", "nope.md")
    assert result.exit_code == 4
    assert "hint: " in result.stderr


@pytest.fixture
def model(monkeypatch) -> WordEmbedder:
    embedder = WordEmbedder(alike=[("umbrella", "parasol")])
    monkeypatch.setattr(Finder, "embedder", EmbedderChoice(embedder))
    return embedder


def talk(tmp_path) -> None:
    path = tmp_path / "old.jsonl"
    said = ["Hello.", "I lost my umbrella.", "It rains."]
    path.write_text("".join(json.dumps({"role": "user", "content": s}) + "\n" for s in said))
    assert run("import-chat", str(path), "--as", "cli:1").exit_code == 0


def test_turns_have_words_after_an_import_and_vectors_after_a_build(
    memory, model, tmp_path
) -> None:
    talk(tmp_path)
    turns = data("index", "status")["turns"]
    assert (turns["turns"], turns["unread"], turns["vectors"], turns["waiting"]) == (3, 0, 0, 3)
    assert "3 waiting: `familiar index build`" in run("index", "status").stdout
    built = data("index", "build")
    assert (built["turns"], built["turns_waiting"]) == ({"done": 3, "busy": False}, 0)
    turns = data("index", "status")["turns"]
    assert (turns["vectors"], turns["waiting"]) == (3, 0)
    assert turns["size_bytes"] > 0


def test_clear_deletes_the_vectors_of_turns_and_no_turn(memory, model, tmp_path) -> None:
    talk(tmp_path)
    run("index", "build")
    assert data("index", "clear")["cleared"]
    turns = data("index", "status")["turns"]
    assert (turns["turns"], turns["vectors"], turns["waiting"]) == (3, 0, 3)


def test_a_prompt_recalls_by_meaning_what_shares_no_word(memory, model, tmp_path) -> None:
    for channel in ("cli", "harbour", "old", "pier"):
        run("channel", "set", channel, "--kind", "text")
    talk(tmp_path)
    config = memory.parent / "character.toml"
    config.write_text('[llm]\npreset = "custom"\n[context]\nprovider_deadline_s = 20\n')
    asked = ("ask", "Where is the parasol?", "--dry-run")
    before = [p for p in data(*asked)["contributions"] if p["source"] == "recall.turns"]
    run("index", "build")
    (piece,) = [
        p for p in data(*asked)["contributions"] if p["source"] == "recall.turns" and p["kept"]
    ]
    assert not before
    assert "I lost my umbrella." in piece["text"]
    assert "by words and meaning" in piece["cause"]


@pytest.mark.parametrize("command", ["import-chat", "import-lorebook", "import-memories", "init"])
def test_what_came_in_is_searchable_by_words_when_the_command_ends(
    memory, tmp_path, command
) -> None:
    if command == "import-chat":
        talk(tmp_path)
    elif command == "import-lorebook":
        book = {"entries": {"0": {"key": ["fang"], "content": "Shadowfangs are wolves."}}}
        (tmp_path / "book.json").write_text(json.dumps(book))
        assert run(command, str(tmp_path / "book.json")).exit_code == 0
    elif command == "import-memories":
        (tmp_path / "tree" / "daily").mkdir(parents=True)
        (tmp_path / "tree" / "daily" / "2024-03-14.md").write_text("# 2024-03-14\n\n- Rain.\n")
        assert run(command, str(tmp_path / "tree")).exit_code == 0
    else:
        assert run(command, "eve", "--template", "companion").exit_code == 0
    of = ("--familiar", "eve") if command == "init" else ("--familiar", "ada")
    status = data("index", "status", *of)
    assert status["status"]["exists"]
    assert status["status"]["stale_files"] == 0
    assert status["turns"]["unread"] == 0


def test_an_index_that_cannot_be_written_fails_no_import(memory, tmp_path) -> None:
    (memory / ".index").write_text("in the way")
    path = tmp_path / "old.jsonl"
    path.write_text(json.dumps({"role": "user", "content": "Hello."}) + "\n")
    result = run("import-chat", str(path), "--as", "cli:1")
    assert result.exit_code == 0
    assert "The imported text cannot be searched yet" in result.stderr


def test_doctor_says_what_is_found_by_meaning(memory, model, tmp_path, monkeypatch) -> None:
    talk(tmp_path)
    choice = EmbedderChoice(model)
    monkeypatch.setattr("familiar_cli.store.search.embedder.open_embedder", lambda *_: choice)
    monkeypatch.setattr("familiar_cli.store.search.build.SOME", 1)
    monkeypatch.setattr(Finder, "embedder", choice)

    def found() -> dict[str, str]:
        checks = json.loads(run("doctor", "--json").stdout)["data"]["checks"]
        mine = [check for check in checks if check["name"] == "recall"]
        mend = "Run `familiar index build`, or leave it to `familiar serve` or `familiar daemon`."
        assert all(check["mend"] == (mend if check["verdict"] == "warn" else "") for check in mine)
        return {check["detail"]: check["verdict"] for check in mine}

    by_meaning = "can be found by meaning"
    made = {f"3 of 3 turns {by_meaning}": "ok", f"2 of 2 lines of memory {by_meaning}": "ok"}
    alone = ", the others by words only"
    assert found() == {
        f"0 of 3 turns {by_meaning}{alone}": "warn",
        f"0 of 2 lines of memory {by_meaning}{alone}": "warn",
    }
    shutil.rmtree(memory / ".index")
    assert f"0 of 2 files of memory {by_meaning}{alone}" in found()
    run("index", "build")
    assert found() == made

    made_by_an_earlier_version(memory.parent)
    old = "; the vectors on disk are from another version or model"
    stale = "; 2 files changed since the index was made"
    assert found() == {
        f"0 of 3 turns {by_meaning}{alone}{old}": "warn",
        f"0 of 0 lines of memory {by_meaning}{stale}": "warn",
    }
    with Familiar.load_from_disk(familiar="ada") as familiar:
        while familiar.finder.embed_some():
            pass
    assert found() == made
    assert data("index", "status")["status"]["waiting"] == 0


def made_by_an_earlier_version(root) -> None:
    """Turn what an index build made into what an older program left behind."""
    with closing(sqlite3.connect(root / "memory" / ".index" / schema.FILE)) as index, index:
        index.execute("UPDATE meta SET value = '1' WHERE key = 'schema'")
    for path in (root / "recall").glob("turns-*"):
        path.rename(path.with_name(path.name.replace(f"-v{TURNS_VERSION}", "-v1")))


def test_doctor_suggests_a_model_for_a_language_that_is_not_english(memory) -> None:
    def found() -> list[tuple[str, str]]:
        checks = json.loads(run("doctor", "--json").stdout)["data"]["checks"]
        return [(c["detail"], c["mend"]) for c in checks if c["name"] == "meaning"]

    settings = memory.parent / "character.toml"
    plain = ""
    settings.write_text(f'language = "en"\n{plain}', encoding="utf-8")
    assert not found()
    settings.write_text(f'language = "de"\n{plain}', encoding="utf-8")
    ((detail, mend),) = found()
    assert "'de'" in detail
    assert "paraphrase-multilingual-MiniLM-L12-v2" in mend
