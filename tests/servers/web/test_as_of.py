"""Memory on any day, by when things were said, not by when they were written down."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from familiar_cli.familiar import Familiar
from tests.support.browsing import looking
from tests.support.world import live, run

DAYS = ("2023-05-08", "2023-05-25", "2023-06-09")
LINES = ("I adopted Leo.", "Leo ate a shoe.", "Leo learned to sit.")


@pytest.fixture
def client(tmp_path):
    live("ada")
    chat = tmp_path / "Ada - long ago.jsonl"
    lines = [{"user_name": "Robin", "character_name": "Ada", "chat_metadata": {}}]
    lines += [
        {"name": "Robin", "is_user": True, "send_date": f"{day}T12:00:00.000Z", "mes": text}
        for day, text in zip(DAYS, LINES, strict=True)
    ]
    chat.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    assert run("import-chat", str(chat)).exit_code == 0
    with looking() as found:
        yield found


def learn() -> None:
    """Write all facts down today, as the writer does after an import."""
    with Familiar.load_from_disk() as familiar:
        lines = (
            f"- {text} <!-- turns {familiar.instance.id}:{number} -->\n"
            for number, text in enumerate(LINES, start=1)
        )
        with familiar.memory.transaction("memory_writer", "3 turns") as tx:
            tx.write("topics/leo.md", f"# Leo\n\n{''.join(lines)}")


def seen(answer) -> str:
    body = answer.text.partition('<div id="then">')[2] or answer.text.partition("<main")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body.partition("</main>")[0])).split())


@pytest.mark.parametrize("path", ["/as-of", "/asof"])
def test_an_import_gives_a_stop_for_each_of_its_days(client, path) -> None:
    stops = re.search(r'data-days="([^"]*)"', client.get(path).text)[1].split()
    assert set(DAYS) <= set(stops)
    assert stops == sorted(stops)


def test_a_fact_is_shown_on_its_day_and_never_before(client) -> None:
    learn()
    day = seen(client.get("/asof?at=2023-05-25"))
    assert "Leo ate a shoe." in day
    assert "sit" not in day
    assert "2 facts" in day
    file = seen(client.get("/asof/files/topics/leo.md?at=2023-05-25"))
    assert ("adopted" in file, "shoe" in file, "sit" in file) == (True, True, False)
    assert client.get("/asof/files/topics/leo.md?at=2023-05-07").status_code == 404


def test_what_a_day_knew_is_in_the_prompt_of_that_day(client) -> None:
    learn()
    form = {"at": "2023-05-25", "text": "What did Leo eat?"}
    answer = client.post("/asof/prompt", data=form)
    assert answer.status_code == 200
    assert "ate a shoe" in answer.text
    assert "learned to sit" not in answer.text


def test_the_diary_says_what_was_learned_from_a_day_that_was_imported(client) -> None:
    learn()
    page = seen(client.get("/diary/2023-06-09"))
    assert "What was learned from it Leo learned to sit." in page
    assert "Written on this day" not in page


def test_the_day_of_writing_is_told_second(client) -> None:
    learn()
    page = seen(client.get("/asof"))
    assert page.index("Nothing in memory is based on this day") < page.index("Written on")


def test_a_line_written_by_hand_keeps_its_day_of_writing(client) -> None:
    learn()
    with Familiar.load_from_disk() as familiar:
        text = familiar.memory.read_file("topics/leo.md")
        familiar.memory.write_file("topics/leo.md", f"{text}- Leo is brown.\n")
    assert "brown" not in seen(client.get("/asof/files/topics/leo.md?at=2023-06-30"))
    assert "brown" in seen(client.get("/asof/files/topics/leo.md"))


def test_the_first_day_of_a_character_is_a_sentence(tmp_path) -> None:
    card = tmp_path / "yuzu.json"
    found = {"spec": "chara_card_v2", "data": {"name": "Yuzu", "description": "{{char}} bakes."}}
    card.write_text(json.dumps(found), "utf-8")
    assert run("init", "--from-card", str(card)).exit_code == 0
    with looking() as client:
        page = seen(client.get("/journal"))
    assert "began with a character of" in page
    assert "{{char}}" not in page
