"""`familiar ask` with people's files and processors, against a real server on loopback."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.context.replies import OPEN
from familiar_cli.context.trace import latest_trace
from familiar_cli.store.history import HistoryStore
from tests.support.server import ChatServer, Fail, Stall
from tests.support.world import data, live, run

SLOTS = "[llm.slots.stepped_thinking]\n[llm.slots.recast]\n"


@pytest.fixture
def root():
    return live("ada")


def configure(root, server, text="", **more) -> None:
    main = f'[llm]\npreset = "custom"\nbase_url = "{server.base_url}"\nmodel = "m"\nretries = 0\n'
    tables = "".join(f"[{name}]\n{lines}\n" for name, lines in more.items())
    (root / "character.toml").write_text(main + text + tables, encoding="utf-8")


def person(root, slug, text) -> None:
    path = root / "memory" / "people" / f"{slug}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def systems(received) -> str:
    return "\n".join(m["content"] for m in received.json()["messages"] if m["role"] == "system")


def test_who_speaks_and_who_is_named_stands_in_the_prompt(root) -> None:
    person(root, "cli-anna", "# Anna\n\nKeeps bees.")
    person(root, "discord-7", "# Zoë\n\nSails.")
    person(root, "discord-8", "# Mark\n\nPaints.")
    with ChatServer(["Hello."]) as server:
        configure(root, server)
        run("ask", "Where is Zoe\u0308? And mark my words.", "--as", "cli:anna")
    sent = systems(server.requests[0])
    assert "Keeps bees." in sent
    assert "Sails." in sent
    assert "Paints." not in sent


def test_a_fact_shows_when_it_was_said_and_which_of_two_is_older(root) -> None:
    with closing(HistoryStore(root / "history.db")) as history:
        for day in (datetime(2026, 2, 3, 9, tzinfo=UTC), datetime(2026, 2, 27, 9, tzinfo=UTC)):
            history.append("cli", "user", "hi", author=Author("cli", "anna"), at=day)
    lines = (
        "- Keeps bees.\n- Lives in Bergen. <!-- turns 2 -->\n- Lives in Oslo. <!-- turns 1 -->\n"
    )
    person(root, "cli-anna", f"# Anna\n\n## Facts\n\n{lines}")
    shown = run("ask", "Where do I live?", "--as", "cli:anna", "--dry-run").output
    assert "- Keeps bees.\n- Lives in Bergen. (27 February 2026)\n- Lives in Oslo. (3 Feb" in shown
    person(root, "cli-anna", "# Anna\n\n- Lives in Oslo. <!-- turns 1 -->\n")
    shown = run("ask", "Where do I live?", "--as", "cli:anna", "--dry-run").output
    assert "- Lives in Oslo. (February 2026)" in shown
    (root / "character.toml").write_text('language = "de"\n', encoding="utf-8")
    shown = run("ask", "Where do I live?", "--as", "cli:anna", "--dry-run").output
    assert "- Lives in Oslo. (Februar 2026)" in shown


def test_what_somebody_said_in_private_is_no_line_for_others(root) -> None:
    with closing(HistoryStore(root / "history.db")) as history:
        at = datetime(2026, 2, 3, 9, tzinfo=UTC)
        history.append("dm", "user", "I sail.", author=Author("discord", "7"), at=at)
    person(root, "discord-7", "# Zoë\n\n- Sails. <!-- turns 1 -->\n")
    others = run("ask", "Zoë?", "--as", "discord:8", "--channel", "room", "--dry-run").output
    assert "Sails" not in others
    assert "2026)" not in others
    own = run("ask", "Zoë?", "--as", "discord:7", "--channel", "dm", "--dry-run").output
    assert "- Sails. (February 2026)" in own


def test_after_the_turn_the_names_are_written_down(root) -> None:
    person(root, "discord-7", "# Zoë\n")
    with ChatServer(["Hello."]) as server:
        configure(root, server)
        run("ask", "hi")
    found = json.loads((root / "memory" / "people" / "_aliases.json").read_bytes())
    assert found == {"zoë": "discord-7"}


def test_a_dry_run_asks_no_model_and_says_what_is_missing(root) -> None:
    with ChatServer(["x"]) as server:
        configure(root, server, SLOTS)
        found = data("ask", "hi", "--dry-run")
    assert server.requests == []
    assert "stepped_thinking" in found["notices"][0]


def test_processors_need_a_slot(root) -> None:
    with ChatServer(["Hello."]) as server:
        configure(root, server)
        assert run("ask", "hi").stdout == "Hello.\n"
    assert len(server.requests) == 1


def test_in_text_both_run_where_they_have_a_slot(root) -> None:
    with ChatServer(["They are sad.", "Ada: oh oh.", "Oh."]) as server:
        configure(root, server, SLOTS)
        assert run("ask", "hi").stdout == "Oh.\n"
    think, reply, recast = server.requests
    assert "private note" in systems(think)
    assert "They are sad." in systems(reply)
    assert recast.json()["messages"][-1]["content"] == "Ada: oh oh."
    with closing(HistoryStore(root / "history.db")) as history:
        assert history.last_turn().content == "Oh."
    trace = latest_trace(root / "traces")
    assert trace.raw_reply == "Ada: oh oh."
    assert [call.name for call in trace.side_calls] == ["stepped_thinking", "recast"]


def test_a_voice_waits_for_no_second_model(root) -> None:
    with ChatServer(["Hello."]) as server:
        configure(root, server, SLOTS)
        assert run("ask", "hi", "--modality", "voice").stdout == "Hello.\n"
    assert len(server.requests) == 1


def test_a_channel_can_have_it_otherwise(root) -> None:
    with ChatServer(["Ada: hi hi.", "Hi."]) as server:
        configure(root, server, SLOTS)
        (root / "channels").mkdir()
        (root / "channels" / "cli.toml").write_text(
            '[processors]\nstepped_thinking = "off"\nrecast = "on"\n', encoding="utf-8"
        )
        assert run("ask", "hi", "--modality", "voice").stdout == "Hi.\n"
    assert len(server.requests) == 2
    assert "read aloud" in systems(server.requests[1])


def test_failures_of_both_are_told_and_the_turn_goes_on(root) -> None:
    with ChatServer([Fail(500), "Hello.", Fail(500)]) as server:
        configure(root, server, SLOTS)
        result = run("ask", "hi")
    assert (result.exit_code, result.stdout) == (0, "Hello.\n")
    assert "warning: thinking before the reply failed" in result.stderr
    assert "warning: tidying up the reply failed" in result.stderr


def test_a_server_that_hangs_is_not_waited_for(root) -> None:
    with ChatServer([Stall(seconds=3), "Hello."]) as server:
        configure(
            root, server, "[llm.slots.stepped_thinking]\n", context="processor_deadline_s = 0.2"
        )
        result = run("ask", "hi")
    assert result.stdout == "Hello.\n"
    assert "thinking before the reply took too long: no answer within 0.2 s" in result.stderr


def test_a_note_that_is_repeated_is_not_shown_while_it_streams(root) -> None:
    with ChatServer(["secret", f"{OPEN} secret </hidden_note> Hello there."]) as server:
        configure(root, server, "[llm.slots.stepped_thinking]\n")
        result = run("ask", "hi")
    assert result.stdout == "Hello there.\n"


def test_two_of_one_name_are_told(root) -> None:
    person(root, "discord-7", "# Zoë\n")
    person(root, "discord-8", "# zoë\n")
    with ChatServer(["Hello."]) as server:
        configure(root, server)
        result = run("ask", "Where is Zoë?")
    assert "'zoë' is discord-7, discord-8" in result.stderr


def test_a_line_that_ended_is_shown_where_the_question_is_about_the_past(root) -> None:
    ended = "- Lives in Oslo. (until March 2026) <!-- ended 2026-03-14 -->"
    person(root, "cli-anna", f"# Anna\n\n## Facts\n\n{ended}\n- Lives in Bergen.\n")
    now = run("ask", "Where do I live?", "--as", "cli:anna", "--dry-run").output
    assert "- Lives in Bergen." in now
    before = run("ask", "Where did I live before?", "--as", "cli:anna", "--dry-run").output
    assert "- Lives in Bergen." in before
    assert "- Lives in Oslo. (until March 2026)" in before


def test_a_contradiction_is_ended_by_review_and_undone(root) -> None:
    text = "# Anna\n\n- City: Oslo (2024-01-02)\n- City: Bergen (2026-02-03)\n"
    person(root, "cli-anna", text)
    found = data("housekeep", "contradictions", "--propose")
    assert found["findings"][0]["can_propose"]
    data("review", "apply", found["findings"][0]["plan_id"])
    path = root / "memory" / "people" / "cli-anna.md"
    assert "(until February 2026) <!-- ended 2026-02-03 -->" in path.read_text("utf-8")
    data("memory", "undo")
    assert path.read_text("utf-8") == text


def test_a_passage_holds_no_line_that_ended_unless_it_is_asked_for(root) -> None:
    path = root / "memory" / "topics" / "club.md"
    path.parent.mkdir(exist_ok=True)
    ended = "- The rowing club meets in Oslo. (until March 2026) <!-- ended 2026-03-14 -->"
    path.write_text(f"# Club\n\n{ended}\n- The rowing club meets in Bergen.\n", encoding="utf-8")
    now = run("ask", "Where does the rowing club meet?", "--dry-run").output
    assert "meets in Bergen." in now
    assert "Oslo" not in now
    before = run("ask", "Where did the rowing club meet before?", "--dry-run").output
    assert "meets in Oslo. (until March 2026)" in before


def test_a_pinned_page_has_dates_and_no_line_that_ended(root) -> None:
    with closing(HistoryStore(root / "history.db")) as history:
        at = datetime(2026, 2, 3, 9, tzinfo=UTC)
        history.append("cli", "user", "hi", author=Author("cli", "anna"), at=at)
    path = root / "memory" / "topics" / "club.md"
    path.parent.mkdir(exist_ok=True)
    lines = "- In Oslo. (until March 2026) <!-- ended 2026-03-14 -->\n- In Rome. <!-- turns 1 -->"
    path.write_text(f"# Club\n\n{lines}\n", encoding="utf-8")
    run("memory", "pin", "topics/club.md")
    shown = run("ask", "hi", "--as", "cli:anna", "--dry-run").output
    assert "- In Rome. (February 2026)" in shown
    assert "Oslo" not in shown


def test_more_of_who_speaks_is_shown_where_a_prompt_has_room(root) -> None:
    lines = "\n".join(f"- On day {n} of the year they counted {n} gulls." for n in range(140))
    person(root, "discord-42", f"# Anna\n\n## Facts\n\n{lines}\n")

    def tokens(budget: str) -> int:
        text = f'[llm]\npreset = "custom"\ncontext_tokens = 8192\n[budget]\n{budget}\n'
        (root / "character.toml").write_text(text, encoding="utf-8")
        made = data("ask", "Good morning!", "--as", "discord:42", "--dry-run")["contributions"]
        return sum(p["tokens"] for p in made if p["rel_path"] == "people/discord-42.md")

    most = 1600
    assert most / 2 < tokens("") <= most
    assert tokens("content = 700") <= 700
