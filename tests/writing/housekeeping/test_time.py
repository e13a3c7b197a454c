"""Contradictions and what time has overtaken."""

from __future__ import annotations

import os
from datetime import date

import pytest

from tests.support.cases import each


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("- City: Oslo (2024-01-02)", "- City: Bergen (2026-02-03)"),
        ("- **Job:** baker (2024-01)", "- Job: pilot (2026-01)"),
        ("- Mood ring: blue (2024-01-02)", "- Mood ring: green (2026-01-02)"),
        ("- Wohnort: Köln (2024-01-02)", "- Wohnort: Bonn (2025-01-02)"),
        ("- Ville : Lyon (2024-01-02)", "- Ville : Nice (2025-01-02)"),
        ("- 住所：東京 (2024-01-02)", "- 住所：大阪 (2025-01-02)"),
        ("- город: Псков (2024-01-02)", "- город: Казань (2025-01-02)"),
        ("- Favourite tea: oolong (2024-01-02)", "- Favourite tea: rooibos (2025-01-02)"),
    ],
)
def test_two_values_on_two_days_contradict(look, older, newer) -> None:
    (finding,) = look("contradictions", {"people/a-1.md": f"# A\n\n{newer}\n{older}\n"})
    assert [quote.text for quote in finding.evidence] == [older, newer]
    assert [quote.line for quote in finding.evidence] == [4, 3]


@pytest.mark.parametrize(
    "lines",
    [
        "- City: Oslo (2024-01-02)\n- City: Oslo, Norway (2026-01-02)",
        "- City: Oslo\n- City: Bergen",
        "- City: Oslo (2024-01-02)\n- City: Bergen",
        "- City: Oslo (2024-01-02)\n- City: Bergen (2024-01-02)",
        "- City: Oslo (2024-01-02) <!-- ended 2025-01-02 -->\n- City: Bergen (2026-01-02)",
        "- ~~City: Oslo (2024-01-02)~~\n- City: Bergen (2026-01-02)",
        "- Likes: tea (2024-01-02)\n- Likes: rye (2024-01-02)\n- Likes: coffee (2026-01-02)",
        "- Anna lives in Oslo (2024-01-02)\n- Anna lives in Rome (2026-01-02)",
        "- See https://a.example (2024-01-02)\n- See https://b.example (2026-01-02)",
        "- 2024-01-02: went to Oslo\n- 2026-01-02: went to Rome",
        "## Anna\n- City: Oslo (2024-01-02)\n## Bo\n- City: Rome (2026-01-02)",
    ],
)
def test_what_does_not_contradict(look, lines) -> None:
    assert look("contradictions", {"people/a-1.md": f"# A\n\n{lines}\n"}) == ()


def test_days_in_headings_count(look) -> None:
    text = "# A\n\n## 2024-01-02\n\nCity: Oslo\n\n## 2026-01-02\n\nCity: Rome\n"
    assert len(look("contradictions", {"people/a-1.md": text})) == 1


def test_a_diary_contradicts_nothing(look) -> None:
    text = "City: Oslo (2024-01-02)\nCity: Rome (2026-01-02)\n"
    assert look("contradictions", {"daily/2026-01-02_a.md": text}) == ()


@each(
    "line",
    [
        "- Goes to Rome next week (2026-04-01)",
        "- Will call tomorrow (2026-05-01)",
        "- Zieht nächsten Monat um (2026-01-01)",
        "- Part la semaine prochaine (2026-04-01)",
        "- Empieza el mes que viene (2026-01-01)",
        "- 来週引っ越す (2026-04-01)",
        "- 明年结婚 (2023-04-01)",
        "- Flies to Rome on 3 April 2026 (2026-03-01)",
        "- City: Oslo (2024-05-05)",
        "- **Employer:** Alder Mill (2024-05-05)",
    ],
)
def test_what_time_has_overtaken(look, line) -> None:
    (finding,) = look("stale", {"people/a-1.md": f"# A\n\n{line}\n"})
    assert [quote.text for quote in finding.evidence] == [line]


@each(
    "line",
    [
        "- Goes to Rome next week (2026-05-28)",
        "- Goes to Rome next year (2026-01-01)",
        "- 2024-01-01: said she would go next week",
        "- Has two cats (2024-05-05)",
        "- Ran a race for charity last Saturday. It was rewarding! (2024-05-05)",
        "- Goes to Rome next week? (2024-05-05)",
        "- ~~Goes to Rome next week (2024-05-05)~~",
        "- I can't stand 2024-05-05",
        "- City: Oslo (2019-05-05) <!-- confirmed 2026-05-05 -->",
        "- Her birthday is on 4 May (2019-05-05)",
        "- Born 1990-05-01",
        "- Married since 2010-01-01",
        "- Lived in Oslo until (2020-01-01)",
        "- The next weekly report",
    ],
)
def test_what_still_holds(look, line) -> None:
    assert look("stale", {"people/a-1.md": f"# A\n\n{line}\n"}) == ()


def test_without_a_day_the_files_own_time_is_the_latest_it_can_be(look, tmp_path) -> None:
    files = {"people/a-1.md": "- Goes to Rome next week\n"}
    assert look("stale", files) == ()
    os.utime(tmp_path / "memory/people/a-1.md", (1_600_000_000, 1_600_000_000))
    assert len(look("stale", {})) == 1


def test_how_old_is_old_is_a_setting(look) -> None:
    files = {"people/a-1.md": "- City: Oslo (2026-05-05)\n"}
    assert len(look("stale", files, stale_days=10)) == 1


def test_diaries_and_lists_of_their_own_are_never_out_of_date(look) -> None:
    line = "Will call tomorrow (2020-05-01)\n"
    paths = ["sessions/a.md", "weekly/2020-W01.md", "reminders.md", "tasks.md", "lore/a.md"]
    assert look("stale", dict.fromkeys(paths, line)) == ()


def test_the_turns_that_a_line_rests_on_tell_its_day(look) -> None:
    files = {"people/a-1.md": "# A\n\n- Goes to Rome next week <!-- turns 7, 12 -->\n"}
    assert look("stale", files, day_of_turn={12: date(2026, 5, 25)}.get) == ()
    (finding,) = look("stale", files, day_of_turn={12: date(2026, 3, 4)}.get)
    assert finding.message == "mentions a future time that has long passed: of 2026-03-04"


def test_turns_tell_which_of_two_values_is_newer(look) -> None:
    files = {"people/a-1.md": "- City: Oslo <!-- turns 9 -->\n- City: Rome <!-- turns 2 -->\n"}
    days = {9: date(2026, 5, 25), 2: date(2024, 1, 1)}
    (finding,) = look("contradictions", files, day_of_turn=days.get)
    assert [quote.line for quote in finding.evidence] == [2, 1]


def test_another_day_in_a_line_is_not_when_it_was_said(look) -> None:
    line = "- Was born in 1990-05; will call tomorrow"
    assert look("stale", {"people/a-1.md": f"{line.replace('Was born', 'Learnt it')}\n"}) == ()


@pytest.mark.parametrize(
    "lines",
    [
        "- Age: 34 (2024-01-02)\n- Age: 36 (2026-01-02)",
        "- Age: 34 (2025-12-30)\n- Age: 35 (2026-01-02)",
        "- Age: 34 (2020-01-02)\n- Age: 37 (2024-01-02)",
        "- City: Oslo (2024-01-02)\n- Address: Storgata 5 (2026-01-02)",
        "- Phone: 22 33 44 55 (2024-01-02)\n- Mobile: 91 92 93 94 (2026-01-02)",
        "- Partner: Tom (2024-01-02)\n- Relationship status: engaged (2026-01-02)",
    ],
)
def test_different_things_do_not_contradict(look, lines) -> None:
    assert look("contradictions", {"people/a-1.md": f"# A\n\n{lines}\n"}) == ()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("34 (2020-01-02)", "35 (2026-01-02)"),
        ("34 (2024-01-02)", "33 (2025-01-02)"),
        ("34 (2024-01-02)", "36 (2024-07-02)"),
        ("34 (2024-01-02)", "37 (2024-07-02)"),
        ("34 (2020-01-02)", "36 (2024-01-02)"),
    ],
)
def test_who_does_not_age_as_time_passes_contradicts(look, first, second) -> None:
    text = f"# A\n\n- Age: {first}\n- Age: {second}\n"
    assert len(look("contradictions", {"people/a-1.md": text})) == 1


def test_the_repair_of_a_contradiction_ends_the_older_line(look) -> None:
    older, newer = "- City: Oslo (2024-01-02)", "- City: Bergen (2026-02-03)"
    (finding,) = look("contradictions", {"people/a-1.md": f"# A\n\n{newer}\n{older}\n"})
    (file,) = finding.repair
    ended = f"{older} (until February 2026) <!-- ended 2026-02-03 -->"
    assert file.after == f"# A\n\n{newer}\n{ended}\n"
    assert look("contradictions", {"people/a-1.md": file.after}) == ()


def test_nothing_ends_across_private_sections_or_with_lines_below_it(look) -> None:
    older, newer = "- City: Oslo (2024-01-02)", "- City: Bergen (2026-02-03)"
    private = "## Facts <!-- private @a-1 -->"
    for text in (
        f"# A\n\n## Facts\n\n{older}\n  - by the sea\n{newer}\n",
        f"# A\n\n## Facts\n\n{older}\n\n{private}\n\n{newer}\n",
    ):
        (found,) = look("contradictions", {"people/a-1.md": text})
        assert not found.repair
