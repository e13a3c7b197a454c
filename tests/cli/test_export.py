"""`familiar export`: everything, in files that other programs and another home read."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from familiar_cli.base.who.identity import NEUTRAL, Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.imports.reading import load_book, read_card
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.selection import TurnFilter, claim_chat, select_turns
from tests.support.chats import HEAD, save, talk
from tests.support.lorebooks import lore, world
from tests.support.sillytavern import card
from tests.support.world import data, home, run

ANNA = Author("discord", "7", display_name="Anna")
BO = Author("chat", "Бо", display_name="Бо")


@pytest.fixture
def mira(tmp_path):
    """A familiar with a card, a lorebook, a chat with swipes, private conversations and memory."""
    book = {"name": "Harbour", "entries": [lore("Quay")]}
    (tmp_path / "mira.json").write_text(json.dumps(card("Mira", character_book=book)), "utf-8")
    (tmp_path / "w.json").write_text(json.dumps(world(lore("Moon"))), "utf-8")
    swiped = talk(6)
    swiped[3] |= {"swipes": ["line 3", "another"], "swipe_id": 0}
    head = HEAD | {"character_name": "Mira", "chat_metadata": {"note_prompt": "It rains."}}
    save(tmp_path / "c.jsonl", head, *swiped)
    files = [str(tmp_path / name) for name in ("mira.json", "w.json", "c.jsonl")]
    data("import", *files, "--character", "Yuzu")
    with closing(HistoryStore(home() / "mira" / "history.db")) as store:
        store.append("dm", "user", "My password is xyzzy.", author=ANNA)
        store.append("dm", "assistant", "I keep it.")
        store.append("pier/海", "user", "Just us.", author=BO)
        store.append("pier/海", "user", "And me.", author=ANNA)
        store.append("pier/海", "user", "Hello both.", author=BO)
        first = store.append("stove", "user", "It needs a pipe.", author=BO)
        store.append("stove", "user", "Yes, a pipe.", author=ANNA)
        claim_chat(store, "stove", first.id, NEUTRAL)
    data("channel", "set", "dm", "kind", "private")
    text = "# Anna\n\n- Rows.\n\n## Secret <!-- private @discord-7 -->\n\n- Has a secret boat.\n"
    people = home() / "mira" / "memory" / "people"
    people.mkdir(exist_ok=True)
    (people / "discord-7.md").write_text(text, "utf-8")
    return home() / "mira"


def turns_in(root):
    with closing(HistoryStore(root / "history.db")) as store:
        return {
            one.channel_id: [
                (k.turn.role, k.turn.content, k.turn.at, k.turn.author, k.turn.one_to_one)
                for k in select_turns(store, TurnFilter(OWNER, one.channel_id))
            ]
            for one in store.channels()
        }


def files_in(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def memory_in(root):
    skipped = (".index/", ".gitignore", "people/_aliases.json")
    found = files_in(root / "memory")
    return {path: raw for path, raw in found.items() if not path.startswith(skipped)}


def test_an_export_makes_the_same_familiar_in_another_home(mira, tmp_path) -> None:
    out = tmp_path / "out"
    assert run("export", str(out)).exit_code == 0
    other = ["--home", str(tmp_path / "other")]
    (told,) = data("import", str(out), "--dry-run", *other)["items"]
    assert not (tmp_path / "other").exists()
    (item,) = data("import", str(out), *other)["items"]
    assert told["results"][0]["written"] == item["results"][0]["written"]
    assert item["familiar"] == "mira"
    made = tmp_path / "other" / "mira"
    assert memory_in(made) == memory_in(mira)
    assert turns_in(made) == turns_in(mira)
    assert (made / "channels" / "dm.toml").read_text("utf-8") == 'kind = "private"\n'
    assert run("export", str(tmp_path / "back"), *other).exit_code == 0
    chats = [tmp_path / name / "mira" / "chats" / "c.jsonl" for name in ("out", "back")]
    first, second = (list(map(json.loads, chat.read_text("utf-8").splitlines())) for chat in chats)
    assert first == second
    assert (first[0]["chat_metadata"]["note_prompt"], "swipes" in first[4]) == ("It rains.", True)
    part = ["--home", str(tmp_path / "part")]
    (item,) = data("import", str(out / "mira"), *part)["items"]
    assert turns_in(tmp_path / "part" / "mira") == turns_in(mira)
    before = turns_in(mira)
    for where in (other, ()):
        (again,) = data("import", str(out), *where)["items"]
        assert (again["results"][0]["written"], again["results"][1]["imported"]) == ([], 0)
    assert turns_in(mira) == before


def test_a_line_without_a_time_that_was_added_to_an_exported_chat_is_imported(
    mira, tmp_path
) -> None:
    out = tmp_path / "dm.jsonl"
    data("history", "export", "--channel", "dm", "--format", "jsonl", "--out", str(out))
    (same,) = data("import-chat", str(out))["chats"]
    out.write_text(out.read_text("utf-8") + '{"role": "user", "content": "New."}\n', "utf-8")
    data("import-chat", str(out))
    said = [words for turns in turns_in(mira).values() for _, words, *_ in turns]
    assert (same["imported"], said.count("New.")) == (0, 1)


def test_other_programs_read_what_is_in_it(mira, tmp_path) -> None:
    out = tmp_path / "out"
    (told,) = data("export", str(out))["familiars"]
    for name in ("card.png", "card.json"):
        read = read_card((out / "mira" / name).read_bytes(), origin=name)
        assert (read.name, len(read.data["character_book"]["entries"])) == ("Mira", 1)
    assert len(told["lorebooks"]) == 2
    for path in told["lorebooks"]:
        assert load_book((out / "mira" / path).read_bytes(), origin=path).entries
    lines = (out / "mira" / told["chats"]["c"]).read_text("utf-8").splitlines()
    assert json.loads(lines[4])["swipes"] == ["line 3", "another"]
    page = (out / "README.md").read_text("utf-8")
    for path in (*told["lorebooks"], *told["chats"].values(), "turns.jsonl"):
        assert f"`mira/{path}`" in page
    assert "channel `dm`, private" in page


def test_what_was_withdrawn_is_left_out_and_that_is_told(mira, tmp_path) -> None:
    for channel in ("g", "h"):
        for words in ("one", "two"):
            assert run("hear", words, "--channel", channel).exit_code == 0
    last = data("hear", "three", "--channel", "g")["turn"]
    assert run("history", "withdraw", str(last)).exit_code == 0
    assert run("channel", "withdraw", "h").exit_code == 0
    (one,) = data("export", str(tmp_path / "all"))["familiars"]
    assert "h" not in one["chats"]
    told = " ".join(one["warnings"])
    assert "the channel h is withdrawn" in told
    assert f"1 withdrawn turn left out ({last})" in told
    assert data("export", str(tmp_path / "some"), "--public")["familiars"][0]["warnings"] == []


def test_a_public_export_holds_nothing_private(mira, tmp_path) -> None:
    out = tmp_path / "out"
    for name, text in (("Empty deed", b""), ("Blank deed", b" \n")):  # names are content, too
        (mira / "memory" / f"{name}.md").write_bytes(text)
    (told,) = data("export", str(out), "--public")["familiars"]
    assert not [path for path in files_in(out) if "deed" in str(path)]
    assert told["chats"].keys() == {"pier/海"}  # what the owner said alone is private, too
    whole = b"\n".join(files_in(out).values())
    for secret in (b"xyzzy", b"secret boat", b"Just us.", b'"dm"', b"`dm`"):
        assert secret not in whole
    assert b"Rows." in whole
    assert "Hello both." in (out / "mira" / "turns.jsonl").read_text("utf-8")


def test_nothing_that_is_there_is_overwritten(mira, tmp_path) -> None:
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.png").write_bytes(b"cat")
    assert run("export", str(other), "--force").exit_code == 5
    out = tmp_path / "out"
    assert run("export", "--out", str(out), "--dry-run").exit_code == 0
    assert not out.exists()
    assert run("export", "--out", str(out)).exit_code == 0
    (out / "mine.txt").write_text("mine", "utf-8")
    refused = run("export", str(out))
    assert (refused.exit_code, "`--force`" in refused.stderr) == (5, True)
    assert run("export", str(out), "--force").exit_code == 0
    assert run("export", str(out), "--out", str(out)).exit_code == 2
    assert run("export").exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_without_a_familiar_there_is_nothing_to_export(tmp_path) -> None:
    assert run("export", str(tmp_path / "out")).exit_code == 4
    assert not (tmp_path / "out").exists()
