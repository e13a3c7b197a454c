"""Forgetting follows links, not likeness, and takes a name out of names as well."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote

import pytest
from dulwich.repo import Repo

from familiar_cli.base.errors import ConflictError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history.attachments import keep_pictures, picture_mark
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.sync import forget_orders
from familiar_cli.sync.forget_orders import ForgetRun
from tests.support.world import data, live, run

CATCHPHRASE = "Wonderful splendiferous morning, wanderer! Whatever shall we discover today?"
NAME = "Zyphrandra"


def say(root, account: str, name: str, words: str, reply: str) -> None:
    with closing(HistoryStore(root / "history.db")) as history:
        author = Author("discord", account, display_name=name)
        turn = history.append(f"room-{account}", "user", words, author=author)
        history.append(f"room-{account}", "assistant", reply, reply_to=turn.id)


def replies(root) -> dict[int, str]:
    with closing(HistoryStore(root / "history.db")) as history:
        channels = [one.channel_id for one in history.channels()]
        turns = [turn for one in channels for turn in history.recent(one, 99, viewer=OWNER)]
        return {turn.id: turn.content for turn in turns if turn.role == "assistant"}


def leftovers(root) -> list[str]:
    """Return where the name stands, in names of files and in contents, journal included."""
    name = NAME.lower()
    files = [path for path in root.rglob("*") if path.is_file()]
    found = [str(p) for p in files if name in unquote(str(p)).lower()]
    found += [str(p) for p in files if name.encode() in p.read_bytes().lower()]
    with closing(Repo(str(root / "journal.git"))) as repo:
        contents = ((id_, repo[id_].as_raw_string().lower()) for id_ in repo.object_store)
        return found + [str(id_) for id_, content in contents if name.encode() in content]


@pytest.fixture
def root():
    root = live(
        **{
            "topics/cat": f"# {NAME}'s cat\n\nIt is grey.\n",
            f"significant/2026-01-02_{NAME.lower()}s-cat": "# The cat\n\nIt came.\n",
            "people/discord-555": f"# {NAME}\n\nRows.\n",
        }
    )
    for what in (f"Ask {NAME}", "Ask about the weather"):
        assert run("job", "add", "every day 8:00", "--say", what).exit_code == 0
    for number in range(6):
        say(root, f"10{number}", f"Guest {number}", f"Hello, I am Guest {number}", CATCHPHRASE)
    say(root, "555", NAME, f"Hello, I am {NAME}", CATCHPHRASE)
    return root


def test_replies_to_others_stay_byte_for_byte(root) -> None:
    before = replies(root)
    assert data("people", "forget", NAME, "--dry-run")["to_others"] == []
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    after = replies(root)
    changed = [turn for turn, text in before.items() if after.get(turn) != text]
    assert len(changed) == 1


def test_a_reply_to_others_loses_only_the_name_and_what_it_quotes(root) -> None:
    say(root, "555", NAME, "My parrot sings at dawn", CATCHPHRASE)
    say(root, "100", "Guest 0", "What did she say?", f"So: {NAME}'s parrot sings at dawn! Nice.")
    number = max(replies(root))
    told = data("people", "forget", NAME, "--dry-run")["to_others"]
    lost = {"turn": number, "why": "name, quotation", "chars": 32}
    assert told == [{**lost, "words": [f"{NAME}'s", "parrot sings at dawn"]}]
    shown = run("people", "forget", NAME, "--dry-run").output
    assert "1 reply to others loses a name or a quotation, and nothing else" in shown
    assert data("people", "forget", NAME, "--yes")["to_others"] == [{**lost, "words": []}]
    assert replies(root)[number] == "So: [forgotten] [forgotten]! Nice."


def test_no_name_of_a_file_and_no_content_has_the_name(root) -> None:
    told = data("people", "forget", NAME, "--dry-run")
    assert told["files"] == ["people/discord-555.md"]
    assert list(told["renamed"].values()) == ["significant/2026-01-02_cat.md"]
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    assert leftovers(root) == []


def test_copies_that_the_program_made_go_and_other_places_are_named(root) -> None:
    say(live("bea"), "555", NAME, f"I am {NAME}", "Hello!")
    words = (root / "history.db").read_bytes()
    (root / "history.db-wal").write_bytes(words)  # not valid, but full of them
    left = ".tmp-familiar-99999999-0123456789ab.new"
    copies = ("history.db.damaged-20260101-000000", "quarantine/a.txt", left, f"memory/{left}")
    for name in (*copies, "history.db.bak", "memory/.trash/old.md"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(words)
    told = " ".join(data("people", "forget", NAME, "--yes", "--familiar", "ada")["not_covered"])
    assert {*leftovers(root)} == {str(root / "history.db.bak"), str(root / "memory/.trash/old.md")}
    assert ["history.db.bak" in told, "memory/.trash/old.md" in told] == [True, True]
    assert "history.db-wal" not in told
    assert "`familiar people forget discord-555 --familiar bea`" in told


def test_an_older_history_loses_who_was_forgotten_at_its_next_opening(root) -> None:
    older = (root / "history.db").read_bytes()
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    (root / "history.db").write_bytes(older)
    assert "is now forgotten here, too" in run("history", "list").stderr
    assert leftovers(root) == []
    (root / "history.db").write_bytes(older)
    (root.parent / ".forgotten.json").unlink()
    assert "also without a remote" in run("doctor").stdout
    assert run("sync").exit_code == 0
    assert leftovers(root) == []
    (root / "history.db").write_bytes(older)
    (root.parent / ".forgotten.json").unlink()
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    assert "never carried out" not in run("doctor").stdout


def watched_lock(monkeypatch) -> list[Path]:
    """Return the familiars whose order is locked from now on, each time it is."""
    held, lock = [], forget_orders._only_one_order

    def noted(paths):
        held.append(paths.root)
        return lock(paths)

    monkeypatch.setattr(forget_orders, "_only_one_order", noted)
    return held


@pytest.mark.parametrize(
    ("step", "of"),
    [
        ("_announce", 1),
        ("_remove_records", 1),
        ("_rewrite_memory", 1),
        ("_remove_records", 2),
        ("_announce", 2),
    ],
)
def test_whoever_opens_it_next_finishes_what_was_cut_off(root, step, of, monkeypatch) -> None:
    calls = []

    def breaks(self, *args) -> None:
        calls.append(step)
        if len(calls) == of:
            raise KeyboardInterrupt
        whole(self, *args)

    whole = getattr(ForgetRun, step)
    with monkeypatch.context() as patch:
        patch.setattr(ForgetRun, step, breaks)
        assert run("people", "forget", NAME, "--yes").exit_code == 130
    held = watched_lock(monkeypatch)
    assert (result := run("memory", "ls")).exit_code == 0, result.output
    assert leftovers(root) == []
    assert not (root / ".forgetting.json").exists()
    # No other order comes between reading it and finishing it; the last case has finished.
    assert held.count(root) == ((step, of) != ("_announce", 2))
    assert run("hear", "Hi", "--as", "discord:555", "--channel", "x").exit_code == 5


def test_an_order_that_cannot_be_finished_is_named(root, monkeypatch) -> None:
    def breaks(self, *_) -> None:
        raise ConflictError("The memory kept changing")

    monkeypatch.setattr(ForgetRun, "_rewrite_memory", breaks)
    assert run("people", "forget", NAME, "--yes").exit_code == 5
    (problem,) = data("status")["problems"]
    assert "`people forget` was interrupted" in problem
    (told,) = (c for c in data("doctor", code=7)["checks"] if c["name"] == "forgetting")
    assert "`people forget` was interrupted" in str(told)
    assert NAME not in problem + str(told)


def test_a_damaged_order_is_told_once_and_not_taken_for_finished(root) -> None:
    (root / ".forgetting.json").write_text("{")
    told = run("search", "tea").stderr
    assert told.count("An interrupted `people forget` cannot be completed") == 1
    assert "has now been completed" not in told
    assert data("status")["problems"]
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    assert data("status")["problems"] == []


def test_a_channel_named_after_them_keeps_its_settings_under_another_name(root) -> None:
    channel = f"{NAME}'s birthday"
    assert run("channel", "set", channel, "--kind", "private").exit_code == 0
    note = f"Be kind.\nAsk {NAME}."
    assert run("channel", "set", channel, "author_note.text", note).exit_code == 0
    assert run("hear", "Hi", "--channel", channel, "--as", "discord:100").exit_code == 0
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    assert leftovers(root) == []
    (file,) = [p for p in (root / "channels").iterdir() if "Be kind." in p.read_text()]
    assert file.name.startswith("forgotten-")
    assert 'kind = "private"' in file.read_text()


def test_an_export_is_what_they_could_have_heard(root, tmp_path) -> None:
    picture = picture_mark("data:image/png;base64,iVBORw0KGgo=")
    keep_pictures(root, ["data:image/png;base64,iVBORw0KGgo="])
    say(root, "555", NAME, f"Look {picture}", "Nice.")
    assert run("channel", "set", "room-100", "--kind", "dm").exit_code == 0
    said = run("hear", "She owes me", "--channel", "room-100", "--as", "discord:100", "--json")
    turn = json.loads(said.stdout)["data"]["turn"]
    topics = root / "memory" / "topics"
    (topics / "debts.md").write_text(f"# Debts\n\n- {NAME} owes Guest <!-- turns {turn} -->\n")
    (topics / "boat.md").write_text(f"# Boat\n\n- {NAME} rows it\n")
    done = data("people", "export", NAME, str(tmp_path / "out"))
    turns = (tmp_path / "out" / "turns.jsonl").read_text().splitlines()
    assert done["turns"] + done["replies"] == len(turns)
    about = (tmp_path / "out" / "about.md").read_text()
    assert f"{NAME} rows it" in about
    assert "owes" not in about
    assert done["pictures"] == len(list((tmp_path / "out" / "attachments").iterdir())) == 1
    assert run("people", "export", NAME, str(tmp_path / "mine"), "--owner").exit_code == 0
    _, heading, private = (tmp_path / "mine" / "about.md").read_text().partition("in private")
    assert heading
    assert f"{NAME} owes Guest" in private


def test_an_export_lists_lines_that_a_namesake_shares_and_adds_those_given(root, tmp_path) -> None:
    say(root, "556", NAME, "I am called so, too", "Hello!")
    assert run("channel", "set", "room-100", "--kind", "dm").exit_code == 0
    said = run("hear", "She owes me", "--channel", "room-100", "--as", "discord:100", "--json")
    turn = json.loads(said.stdout)["data"]["turn"]
    topics = root / "memory" / "topics"
    (topics / "boat.md").write_text(f"# Boat\n\n- {NAME} rows it\n- {NAME} paints it\n")
    (topics / "debts.md").write_text(f"# Debts\n\n- {NAME} owes Guest <!-- turns {turn} -->\n")

    def exported(name: str, *options: str) -> tuple[list[str], str]:
        out = tmp_path / name
        done = data("people", "export", "discord:555", str(out), *options)
        assert done["shared"] == [NAME]
        return done["remaining"], (out / "about.md").read_text()

    uncertain = ["topics/boat.md:3", "topics/boat.md:4", "topics/cat.md:1"]
    left, about = exported("first")
    assert left == uncertain
    assert "rows it" not in about
    left, about = exported("second", "--line", "topics/boat.md:3")
    assert left == uncertain[1:]
    assert "rows it" in about
    assert "paints it" not in about
    left, about = exported("third", "--line", "topics/debts.md:3")
    assert left == uncertain
    assert "owes" not in about
    left, about = exported("owner", "--owner", "--line", "topics/boat.md:3")
    assert left == [*uncertain[1:], "topics/debts.md:3"]
    assert "owes" not in about
    left, about = exported("both", "--owner", "--line", "topics/debts.md:3")
    assert "owes" in about.partition("in private")[2]
    shown = run("people", "export", "discord:555", str(tmp_path / "last")).stdout
    assert "  topics/boat.md:3\n" in shown
    assert "Add --line PATH:N for each" in shown


def test_a_shared_name_proves_nothing_although_only_one_of_them_wrote_it(root) -> None:
    say(root, "556", NAME, "Good evening", "Hello!")
    say(root, "100", "Guest 0", "She rows the boat", "So she does.")
    boat = root / "memory" / "topics" / "boat.md"
    boat.write_text(f"# Boat\n\n- {NAME} rows it <!-- turns {max(replies(root)) - 1} -->\n")
    told = data("people", "forget", "discord:555", "--yes")
    assert "topics/boat.md:3" in told["remaining"]
    assert f"{NAME} rows it" in boat.read_text()


def test_jobs_about_others_still_run(root) -> None:
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    assert [job["id"] for job in data("job", "list")["jobs"]] == ["ask-about-the-weather"]


def test_a_damaged_file_of_jobs_is_one_error_before_anything_goes(root) -> None:
    (root / "jobs.toml").write_text("[[job]\n")
    told = run("people", "forget", NAME, "--yes")
    assert told.exit_code == 3
    assert "jobs.toml" in told.output
    assert (root / "memory" / "people" / "discord-555.md").exists()


def test_a_file_whose_name_they_lose_replaces_no_other_file(root) -> None:
    topics = root / "memory" / "topics"
    (topics / "boat.md").write_text("# Boat\n\nIt is red.\n")
    for name in (f"{NAME}-boat", f"{NAME}s-boat"):
        (topics / f"{name}.md").write_text(f"# Boat\n\nFrom {len(name)}.\n")
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    assert (topics / "boat.md").read_text() == "# Boat\n\nIt is red.\n"
    others = {(topics / f"boat-{number}.md").read_text() for number in (2, 3)}
    assert others == {"# Boat\n\nFrom 15.\n", "# Boat\n\nFrom 16.\n"}
    with closing(Repo(str(root / "journal.git"))) as repo:
        was = repo[repo[repo.head()].parents[0]]
        _, topics_id = repo[was.tree][b"topics"]
        assert {b"boat.md", b"boat-2.md", b"boat-3.md"} <= set(repo[topics_id])


def test_a_directory_of_every_memory_keeps_its_name(root) -> None:
    harbour = root / "memory" / "lore" / "harbour.md"
    harbour.parent.mkdir(exist_ok=True)
    harbour.write_text("# Harbour\n\nIt is old.\n")
    say(root, "888", "Lore", "Hello, I am Lore", CATCHPHRASE)
    assert run("people", "forget", "discord:888", "--yes").exit_code == 0
    assert harbour.exists()


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [("Max", "memory.max_results", "77"), ("Owner", "privacy.notes", "owner")],
)
def test_settings_that_are_only_called_like_them_stay(root, name, key, value) -> None:
    say(root, "777", name, f"Hello, I am {name}", CATCHPHRASE)
    assert run("config", "set", key, value).exit_code == 0
    assert run("people", "forget", "discord:777", "--yes").exit_code == 0
    assert data("config", "get", key)["value"] == {"77": 77}.get(value, value)


def test_what_the_owner_says_in_their_room_stays(root) -> None:
    assert run("hear", "I baked bread", "--channel", "room-555").exit_code == 0
    assert run("people", "forget", NAME, "--yes").exit_code == 0
    with closing(HistoryStore(root / "history.db")) as history:
        channels = [one.channel_id for one in history.channels()]
        turns = [turn for one in channels for turn in history.recent(one, 99, viewer=OWNER)]
    assert "I baked bread" in [turn.content for turn in turns]


def test_the_page_and_the_channel_of_another_account_keep_their_names(root) -> None:
    say(root, "42", "", "I keep bees", "Nice.")
    people = root / "memory" / "people"
    (people / "discord-7.md").write_text("# Ilo\n\n- Ilo moderates a Discord server.\n")
    (people / f"irc-{NAME.lower()}-fan.md").write_text("# Fan\n\n- Rows.\n")
    (people / "discord-42.md").write_text("# discord 42\n\n- Hums.\n")
    (people / "discord-8.md").write_text("# Uma\n\n- Met [them](discord-555.md).\n")
    say(root, "777", "Discord", "I sell tulips", "Nice.")
    for account in ("discord:42", "discord:555", "discord:777"):
        assert data("people", "forget", account, "--yes")["renamed"].keys() <= {
            f"significant/2026-01-02_{NAME.lower()}s-cat.md"
        }
    assert "Discord server" in (people / "discord-7.md").read_text()
    assert (people / "discord-8.md").read_text() == "# Uma\n\n"
    assert (people / f"irc-{NAME.lower()}-fan.md").exists()


def test_a_namesake_hides_nothing_of_whom_is_forgotten(root) -> None:
    say(root, "666", NAME, "Good evening", CATCHPHRASE)
    say(root, "100", "Guest 0", f"{NAME} has a wimbleyarn", f"So {NAME} has one?")
    topics = root / "memory" / "topics"
    (topics / "mill.md").write_text(
        f"# Mill\n\n- It is old.\n- {NAME} keeps bees\n  at the mill.\n"
    )
    (topics / "bare.md").write_text("# Bare\n\n- see [her](../people/discord-555.md)\n")
    (topics / "tags.md").write_text(f"# Tags\n\n#todo mend it\n\n- {NAME}\n- The mill\n")
    day = root / "memory" / "daily" / "2026-01-03.md"
    day.parent.mkdir(exist_ok=True)
    day.write_text("# Day\n\n- The mill was loud.\n")
    by_hand = f"people/{NAME.lower()}.md"
    (root / "memory" / by_hand).write_text(f"# {NAME}\n\nRows.\n")
    (reply, said) = (max(replies(root)), max(replies(root)) - 1)
    told = data("people", "forget", "discord:555", "--dry-run")
    assert f"{by_hand}:1" in told["remaining"]
    assert any(by_hand in what for what in told["not_covered"])
    assert [told["shared"], told["to_others"]] == [[NAME], []]
    assert {said, reply} <= {*told["quoting"]}
    assert "topics/mill.md:4" in told["remaining"]
    assert "topics/bare.md" in told["files"]
    also = [f"--line={place}" for place in told["remaining"] if place.startswith("topics")]
    also += ["--line=topics/tags.md:6"]
    assert run("people", "forget", "discord:555", "--yes", "--line=self/card.json:1").exit_code == 2
    also += [f"--turn={number}" for number in (said, reply)]
    assert run("people", "forget", "discord:555", "--yes", *also).exit_code == 0
    assert (topics / "mill.md").read_text() == "# Mill\n\n- It is old.\n"
    assert (topics / "tags.md").read_text() == "# Tags\n\n#todo mend it\n\n"
    assert day.read_text() == "# Day\n\n- The mill was loud.\n"  # few words prove nothing
    with closing(Repo(str(root / "journal.git"))) as repo:
        contents = [repo[id_].as_raw_string() for id_ in repo.object_store]
    assert not any(b"keeps bees" in content for content in contents)
    assert reply not in replies(root)
