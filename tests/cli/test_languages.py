"""A familiar that is spoken to in another language keeps its files and prompts in that language."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.store.history import HistoryStore
from tests.support.server import Say
from tests.support.world import data, live, own, run

SESSION = "sessions/2024-04-07-evening.md"
ANNAS = "people/discord-42.md"
TOPIC = "topics/garden.md"
EVENING = datetime(2024, 4, 7, 18, 0, tzinfo=UTC)

SAID = {
    "de": (
        "Anna",
        "Ich habe heute mit meiner Schwester im Garten Bienen gehalten, und es war schön.",
    ),
    "ja": ("春香", "今日は妹と一緒に庭でミツバチの世話をしました。とても楽しかったです。"),
    "ar": ("سارة", "اعتنيت اليوم بالنحل في الحديقة مع أختي، وكان يومًا جميلًا جدًا."),
}
"""In each language a name, and what that person says."""

FACT = {
    "de": "Anna hält Bienen im Garten.",
    "ja": "春香は庭でミツバチの世話をしている。",
    "ar": "سارة تربي النحل في الحديقة.",
}


def talked(code: str, settings: str = "", count: int = 8):
    """Make a familiar to whom somebody has spoken in a language; return its root."""
    name, words = SAID[code]
    root = live("ada")
    (root / "character.toml").write_text(
        f'timezone = "UTC"\n{settings}\n[instance]\nid = "laptop"\n', encoding="utf-8"
    )
    (root / "channels").mkdir()
    (root / "channels" / "cli.toml").write_text('kind = "text"\n', encoding="utf-8")
    who = Author("discord", "42", "user42", name)
    with closing(HistoryStore(root / "history.db")) as history:
        for n in range(count):
            at = EVENING + timedelta(minutes=n)
            history.append("cli", "user", f"{words} ({n})", author=who, at=at)
            history.append("cli", "assistant", words, at=at + timedelta(seconds=30))
    return root


def plan(code: str, section: str = "") -> str:
    fact = {"lines": [FACT[code]], "turns": [1], "kind": "said"}
    return json.dumps(
        {
            "operations": [
                {"op": "set_summary", "file": SESSION, "section": "", **fact},
                {"op": "add_bullets", "file": ANNAS, "section": section, **fact},
                {"op": "create", "file": TOPIC, "section": "", **fact},
            ]
        },
        ensure_ascii=False,
    )


def memory(root, rel_path: str) -> str:
    return (root / "memory" / rel_path).read_text(encoding="utf-8")


def headings(root, rel_path: str) -> list[str]:
    return [line for line in memory(root, rel_path).splitlines() if line.startswith("#")]


@pytest.mark.parametrize(
    ("code", "session", "person"),
    [
        ("de", "# 2024-04-07, Abend", ["## Weitere Namen", "## Fakten", "## Themen"]),
        ("ja", "# 2024-04-07、夜", ["## 別名", "## わかっていること", "## 話題"]),
        ("ar", "# 2024-04-07، مساءً", ["## أسماء أخرى", "## معلومات", "## المواضيع"]),
    ],
)
def test_what_the_writer_writes_is_headed_in_the_language(code, session, person, serve) -> None:
    root = talked(code)
    serve(Say(plan(code)))
    assert run("write-memory").exit_code == 0
    assert headings(root, SESSION) == [session]
    assert headings(root, ANNAS) == [f"# {SAID[code][0]}", *person]


@pytest.mark.parametrize("section", ["", "Facts", "facts:", "Fakten", "わかっていること"])
def test_whatever_a_model_calls_a_usual_section_it_is_one_section(section, serve) -> None:
    root = talked("de")
    (root / "memory" / "people").mkdir(parents=True)
    (root / "memory" / ANNAS).write_text(
        "# Anna\n\n## Aliases\n\n- Anna\n\n## Facts\n\n- She paints.\n", encoding="utf-8"
    )
    serve(Say(plan("de", section)))
    assert run("write-memory").exit_code == 0
    assert headings(root, ANNAS) == ["# Anna", "## Aliases", "## Facts", "## Themen"]
    assert f"- She paints.\n- Anna hält Bienen im Garten. <!-- turns {own(root)}:1 -->\n" in memory(
        root, ANNAS
    )


def test_another_language_begins_no_second_file_and_no_second_heading(serve) -> None:
    root = talked("de")
    serve(Say(plan("de")), Say(plan("de").replace("im Garten", "hinter dem Haus")))
    run("write-memory")
    before = headings(root, ANNAS)
    assert run("config", "set", "language", "ja").exit_code == 0
    assert run("write-memory", "--all").exit_code == 0
    assert "hinter dem Haus" in memory(root, ANNAS)
    assert headings(root, ANNAS) == before
    sessions = root / "memory" / "sessions"
    assert [path.name for path in sessions.glob("*.md")] == ["2024-04-07-evening.md"]
    assert headings(root, SESSION) == ["# 2024-04-07, Abend"]


@pytest.mark.parametrize(
    ("code", "day", "week", "digests"),
    [
        (
            "de",
            "# 2024-04-07, 7. April 2024",
            "# 2024-W14, 1. April 2024 bis 7. April 2024",
            ["# Die letzten Gespräche", "## 2024-04-07 Abend", "# Stand der Dinge"],
        ),
        (
            "ja",
            "# 2024-04-07、2024年4月7日",
            "# 2024-W14、2024年4月1日〜2024年4月7日",
            ["# 最近の会話", "## 2024-04-07 夜", "# 現在の状況"],
        ),
        (
            "ar",
            "# 2024-04-07، 7 أبريل 2024",
            "# 2024-W14، 1 أبريل 2024 إلى 7 أبريل 2024",
            ["# أحدث المحادثات", "## 2024-04-07 مساءً", "# الوضع الحالي"],
        ),
    ],
)
def test_days_weeks_and_digests_are_titled_in_the_language(code, day, week, digests, serve) -> None:
    root = talked(code)
    summed_up = json.dumps(
        {"summary": FACT[code], "points": [{"text": FACT[code], "from": [1]}]}, ensure_ascii=False
    )
    serve(Say(plan(code)), *[Say(summed_up)] * 6)
    run("write-memory")
    assert run("consolidate").exit_code == 0
    assert headings(root, "daily/2024-04-07_laptop.md") == [day]
    assert headings(root, "weekly/2024-W14.md") == [week]
    assert run("distill", "short").exit_code == 0
    assert run("distill", "mid").exit_code == 0
    assert [*headings(root, "digest/short.md"), *headings(root, "digest/mid.md")] == digests


@pytest.mark.parametrize(
    ("code", "block", "quoted"),
    [
        ("de", "Datum und Uhrzeit: ", "[Früher gesagt: "),
        ("ja", "日時：", "[過去の発言："),
        ("ar", "التاريخ والوقت: ", "[قيل سابقًا: "),
    ],
)
def test_a_prompt_speaks_the_language(code, block, quoted, serve) -> None:
    root = talked(code, "[history]\nrecent_turns = 2\n")
    (root / "memory").mkdir(exist_ok=True)
    desk = f"# ?\n\n- [ ] {SAID[code][1]} @2024-01-01\n"
    for name in ("reminders", "tasks", "scratch"):
        (root / "memory" / f"{name}.md").write_text(desk, encoding="utf-8")
    serve(Say("…"))
    assert run("ask", SAID[code][1], "--tier", "4").exit_code == 0
    sent = run("context", "--last", "--raw").stdout
    sent = "\n".join(message["content"] for message in json.loads(sent)["messages"])
    assert block in sent
    assert quoted in sent
    for english in ("[From", "[Said", "Date and time", "[Remind", "(due", "System"):
        assert english not in sent or (code == "de" and english == "System")


def test_topics_are_named_in_the_language(serve) -> None:
    root = talked("ja")
    server = serve(Say(plan("ja").replace("garden.md", "庭.md")))
    assert run("write-memory").exit_code == 0
    assert headings(root, "topics/庭.md") == ["# 庭", "## 会話", "## 人物"]
    asked = json.dumps(server.requests[0].json(), ensure_ascii=False)
    assert "Name new topics in the language of the conversation" in asked
    assert "a-z0-9" not in asked


def test_the_setting_goes_before_what_is_spoken() -> None:
    talked("ja", 'language = "fr"')
    assert run("remind", "add", "Thé", "--at", "2099-01-01").exit_code == 0
    assert data("memory", "cat", "reminders.md")["text"].startswith("# Rappels\n")


def test_the_status_names_the_language_and_whether_it_was_set() -> None:
    talked("ja")
    assert "language   ja, detected from turns and character\n" in run("status").stdout
    run("config", "set", "language", "de")
    assert "language   de, as set\n" in run("status").stdout


def test_a_language_without_a_table_is_refused_and_the_others_are_listed() -> None:
    live("ada")
    result = run("config", "set", "language", "tlh")
    assert result.exit_code == 3
    assert "'tlh'" in result.stderr
    assert "auto, en, de, ja, ar, es, fr" in result.stderr
