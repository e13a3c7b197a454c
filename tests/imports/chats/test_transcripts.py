"""Transcripts as people keep them become turns, and every line is in one or told."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import to_builtins
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError, NotFoundError
from familiar_cli.base.who.identity import Author
from familiar_cli.imports import transcript_lines
from familiar_cli.imports.cast import Cast
from familiar_cli.imports.contract import ForeignMessage, Reading, recognise
from familiar_cli.imports.import_chat import ChatImportOptions, import_chats
from familiar_cli.imports.reading import read_chats
from familiar_cli.imports.source import Skip, as_source
from familiar_cli.imports.transcript_lines import harmonise_line
from tests.support.cases import each
from tests.support.chats import READING, bring, only, said

INSIST = replace(READING, format="transcript")
no_slow = settings(suppress_health_check=list(HealthCheck))


def write(path, text, encoding="utf-8"):
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


def found(path, reading=READING):
    """Return all that a file is read as: messages, and lines that are in none."""
    with as_source(path) as source:
        (chat,) = read_chats(source, reading)
        return list(chat.messages())


def spoken(path, reading=READING):
    """Return who says what when, in short."""
    return [
        (m.speaker, f"{m.at:%Y-%m-%d %H:%M}" if m.at and not m.estimated else "", m.text)
        for m in found(path, reading)
        if isinstance(m, ForeignMessage)
    ]


TALK = [("Robin", "Hello there"), ("Yuzu", "Good evening.\nWhat is lost?"), ("Robin", "A: scarf")]
AT = datetime(2024, 3, 13, 12, 30, tzinfo=UTC)

STYLES = {
    "brackets": lambda who, at, text: f"[{at:%Y-%m-%d %H:%M}] {who}: {text}",
    "seconds": lambda who, at, text: f"[{at:%d.%m.%y, %H:%M:%S}] {who}: {text}",
    "iphone": lambda who, at, text: (
        f"\u200e[{at:%d/%m/%Y}, {at:%I:%M:%S}\u202f{at:%p}] {who}: {text}"
    ),
    "android": lambda who, at, text: f"{at:%d/%m/%Y, %H:%M} - {who}: {text}",
    "american": lambda who, at, text: f"{at:%m/%d/%y, %I:%M %p} - {who}: {text}",
    "iso": lambda who, at, text: f"{at:%Y-%m-%dT%H:%M:%SZ} {who}: {text}",
    "words": lambda who, at, text: f"{at:%A, %d %B %Y, %H:%M} - {who}: {text}",
    "parentheses": lambda who, at, text: f"{who} ({at:%Y-%m-%d %H:%M}): {text}",
    "bold": lambda who, at, text: f"**{who}** ({at:%Y-%m-%d %H:%M}): {text}",
    "all bold": lambda who, at, text: f"**[{at:%Y-%m-%d %H:%M}] {who}:** {text}",
    "irc": lambda who, at, text: f"[{at:%Y-%m-%d %H:%M}] <{who}> {text}",
    "wide": lambda who, at, text: f"[{at:%Y/%m/%d %H:%M}] {who}：{text}",
    "japanese": lambda who, at, text: f"[{at:%Y年%m月%d日 %H:%M}] {who}: {text}",
    "copied": lambda who, at, text: f"{who} — {at:%d/%m/%Y %H:%M}\n{text}",
}
BARE = {
    "colon": lambda who, text: f"{who}: {text}",
    "bold": lambda who, text: f"**{who}:** {text}",
    "bold outside": lambda who, text: f"**{who}**: {text}",
    "wide colon": lambda who, text: f"{who}：{text}",
    "irc": lambda who, text: f"<{who}> {text}",
    "heading": lambda who, text: f"### {who}:\n{text}",
}


@each("style", STYLES)
def test_messages_with_a_time(style, tmp_path) -> None:
    rendered = [
        STYLES[style](who, AT + timedelta(minutes=n), text) for n, (who, text) in enumerate(TALK)
    ]
    path = write(tmp_path / "c.txt", "\n".join(rendered))

    assert spoken(path) == [
        (who, f"{AT + timedelta(minutes=n):%Y-%m-%d %H:%M}", text)
        for n, (who, text) in enumerate(TALK)
    ]


@each("gap", ["\n", "\n\n"])
@each("style", BARE)
def test_messages_without_a_time(style, gap, tmp_path) -> None:
    path = write(tmp_path / "c.md", gap.join(BARE[style](who, text) for who, text in TALK) + "\n")

    assert spoken(path) == [(who, "", text) for who, text in TALK]


def test_headings_are_the_days_of_what_is_below_and_midnight_passes(tmp_path) -> None:
    text = "# Robin and Yuzu\n## Friday, 1 March 2024\nRobin (23:50): a\nYuzu (00:10): b\n"
    path = write(tmp_path / "c.md", text + "## 2024-03-05\n**Robin** (10:00): c\nYuzu (10:01): d\n")

    assert spoken(path)[:2] == [
        ("Robin", "2024-03-01 23:50", "a"),
        ("Yuzu", "2024-03-02 00:10", "b"),
    ]
    assert spoken(path)[-1] == ("Yuzu", "2024-03-05 10:01", "d")
    skips = [(s.line, s.damaged) for s in found(path) if isinstance(s, Skip)]
    assert skips == [(1, False), (2, False), (5, False)]


def test_a_line_export_has_tabs(tmp_path) -> None:
    text = "[LINE] Chat history\n\n2024/03/01(金)\n12:30\tRobin\tHi: you\n12:31\tYuzu\tHello\n"
    with as_source(write(tmp_path / "c.txt", text)) as source:
        (chat,) = read_chats(source, READING)
        assert chat.is_private
    assert spoken(tmp_path / "c.txt") == [
        ("Robin", "2024-03-01 12:30", "Hi: you"),
        ("Yuzu", "2024-03-01 12:31", "Hello"),
    ]


LINE_TALK = "\nFri, 2024/03/01\n12:30\tRobin\tHi\n12:31\tYuzu\tHello\n"
KAKAO_TALK = "\n2024. 3. 1. 오후 3:10, Robin : Hi\n2024. 3. 1. 오후 3:11, Yuzu : Hello\n"
KAKAO_TOP = "Robin 님과 카카오톡 대화\n저장한 날짜 : 2024-03-06 00:10:11\n"


@each(
    ("top", "talk", "damaged"),
    [
        ("[LINE] Chat history with Robin\nSaved on: 2024/03/06 00:10\n", LINE_TALK, []),
        ("[LINE] Robinとのトーク履歴\n保存日時：2024/03/06 00:10\n", LINE_TALK, []),
        ("[LINE] Chat history with Robin\nand a line of nobody\n", LINE_TALK, [2]),
        ("Saved on: 2024/03/06 00:10\n", LINE_TALK, [1]),
        (KAKAO_TOP, KAKAO_TALK, []),
    ],
)
def test_what_a_phone_writes_above_a_chat_is_no_damage(tmp_path, top, talk, damaged) -> None:
    skips = [one for one in found(write(tmp_path / "c.txt", top + talk)) if isinstance(one, Skip)]
    assert [one.line for one in skips if one.damaged] == damaged
    assert {one.line for one in skips} >= set(range(1, 1 + top.count("\n")))


def test_a_message_that_was_edited_on_skype_is_one(tmp_path) -> None:
    lines = (
        "[13.03.2024 12:30:07] Robin: Hello",
        "[13.03.2024 12:31:07 | Edited 12:40:00] Yuzu: Good evening",
        "[13.03.2024 12:32:07 | Bearbeitet 12:41:00] Robin: No | yes",
    )
    assert spoken(write(tmp_path / "skype.txt", "\n".join(lines))) == [
        ("Robin", "2024-03-13 12:30", "Hello"),
        ("Yuzu", "2024-03-13 12:31", "Good evening"),
        ("Robin", "2024-03-13 12:32", "No | yes"),
    ]


def test_colours_of_irc_are_not_part_of_a_text(tmp_path) -> None:
    lines = (
        "[12:30] <\x0304robin\x03> \x02Hello\x0f \x034,12there\x03, 7",
        "[12:31] <yuzu> \x1dGood\x1d \x0303,evening\x1f 5\x16",
    )
    assert [
        (who, text) for who, _, text in spoken(write(tmp_path / "t.log", "\n".join(lines)))
    ] == [
        ("robin", "Hello there, 7"),
        ("yuzu", "Good ,evening 5"),
    ]


def test_what_sigtop_writes_at_length_is_refused_with_the_form_that_is_read(tmp_path) -> None:
    head = "Type: incoming\nSent: Wed, 13 Mar 2024 12:30:07 +0100\n\n"
    text = f"Conversation: Robin\n\nFrom: Robin\n{head}Hello\n\nFrom: You\n{head}hi: there\n"
    path = write(tmp_path / "signal.txt", text)
    with as_source(path) as source:
        assert recognise(source)[0].is_certain
    with pytest.raises(FamiliarError, match="sigtop") as caught:
        found(path)
    assert "text-short" in caught.value.hint
    short = "2024-03-13 12:30 Robin: Hello\n2024-03-13 12:31 Yuzu: [edited] hi: there\n"
    assert [who for who, _, _ in spoken(write(tmp_path / "short.txt", short))] == ["Robin", "Yuzu"]


def test_a_line_export_quotes_messages_of_several_lines(tmp_path) -> None:
    text = '12:30\tRobin\t"a ""b""\n2024/03/05(火)\nc"\n'
    text += '12:31\tYuzuが取り消しました\n12:32\tYuzu\t"d"\n'
    told = [text for _, _, text in spoken(write(tmp_path / "c 2024-03-01.txt", text))]
    assert told == ['a "b"\n2024/03/05(火)\nc', "Yuzuが取り消しました", '"d"']


@each(
    ("begins", "told"),
    [
        ("[2024-03-12 {}] ", ["* Yuzu (~y@host) Quit (x: y)", "*** Joins: carl (~c@host)"]),
        ("[2024-03-12T{}:00.000Z] ", ["⇐ carl quit (~c@host): x", "*** Topic: " + "x" * 500]),
        ("2024-03-12 {} ", ["-!- carl [~c@host] has joined #x", "*\tYuzu has joined"]),
        ("{} ", ["-!- Robin was kicked from #x by Yuzu [spam: ads]", "* carl waves"]),
        ("2024-03-12 {}:00\t", ["-->\tcarl (~c@host) has joined #x", "--\tTopic for #x is: a"]),
    ],
)
def test_what_irc_tells_is_said_by_nobody(begins, told, tmp_path) -> None:
    said = ["<@Yuzu> Hello", *told, "<Robin> Hi", "<b|away> 30 people", "* Yuzu bows", "<Yuzu> Bye"]
    if begins.endswith("\t"):
        said = [text.replace("<", "").replace("> ", "\t").replace("* ", "*\t") for text in said]
        said[1:3] = told
    lines = (begins.format(f"10:{n:02}") + text for n, text in enumerate(said))
    day, end = "--- Log opened Tue Mar 12 10:00:00 2024", "--- Day changed Wed Mar 13 2024"
    text = "\n".join([day, *lines, end] if begins == "{} " else lines)
    read = spoken(write(tmp_path / "c.log", text + "\n"))
    assert [name for name, _, _ in read] == ["Yuzu", "", "", "Robin", "b|away", "Yuzu", "Yuzu"]
    assert [text for _, _, text in read[1:3]] == [text.replace("\t", " ") for text in told]
    assert (read[0][1], read[-1][2]) == ("2024-03-12 10:00", "Bye")
    assert [text for _, _, text in read[4:6]] == ["30 people", "*bows*"]


@each(
    ("say", "told", "more"),
    [
        ("({at}:00 AM) {who}: {text}", "({at}:00 AM) The topic for #x is: a: b", "\n(10:30) tea"),
        (
            "2024년 3월 12일 오전 {at}, {who} : {text}",
            "2024년 3월 12일 오전 {at}: 칼님이 나갔습니다.",
            "",
        ),
        ("{at}:00 {who}: {text}", "{at}:00 carl has joined", "\n10:30 tea"),
        ("{who} ({at}): {text}", "({at}) carl left", "\n* tea"),
        (
            "{who} — 12/03/2024 {at} AM\n{text}",
            "carl just slid into the server. — 12/03/2024 {at} AM",
            "",
        ),
        ("**[2024-03-12 {at}] {who}:** {text}", "[2024-03-12 {at}] carl left", "\n[10:30] tea"),
    ],
)
def test_a_line_with_a_time_like_a_messages_and_no_speaker_is_a_notice(
    say, told, more, tmp_path
) -> None:
    lines = [
        say.format(at="10:04", who="Robin", text=f"Hi{more}"),
        told.format(at="10:05"),
        say.format(at="10:06", who="Yuzu", text="Ho"),
    ]
    read = spoken(
        write(tmp_path / "c 2024-03-12.txt", "\n".join(lines)),
        Reading(READING.cast, UTC, dates="dmy"),
    )
    assert [(name, at[-5:]) for name, at, _ in read] == [
        ("Robin", "10:04"),
        ("", "10:05"),
        ("Yuzu", "10:06"),
    ]
    assert (read[0][2], read[2][2]) == (f"Hi{more}", "Ho")


def test_the_name_of_the_file_tells_the_day(tmp_path) -> None:
    path = write(tmp_path / "chat 2024-03-01.txt", "12:30 Robin: a\n12:31 Yuzu: b\n")
    assert spoken(path)[1] == ("Yuzu", "2024-03-01 12:31", "b")


def test_times_are_in_the_familiars_timezone(tmp_path) -> None:
    from zoneinfo import ZoneInfo

    path = write(tmp_path / "c.txt", "[2024-07-01 12:30] Robin: a\n[2024-07-01 12:31] Yuzu: b\n")
    assert (
        spoken(path, replace(READING, zone=ZoneInfo("Europe/Berlin")))[0][1] == "2024-07-01 10:30"
    )


def test_what_the_program_tells_is_a_note_that_no_model_is_shown(store, tmp_path) -> None:
    text = (
        "13/03/2024, 12:30 - Messages and calls are end-to-end encrypted.\n"
        "13/03/2024, 12:30 - Robin: Hi\n13/03/2024, 12:30 - Yuzu: Hello\n"
        "13/03/2024, 12:31 - Robin changed the subject from a: b to c\n"
    )
    chat = only(bring(store, write(tmp_path / "c.txt", text)))
    assert (chat.imported, chat.hidden) == (4, 2)
    assert [(s.name, s.role, s.turns) for s in chat.speakers if s.name] == [
        ("Robin", "me", 1),
        ("Yuzu", "familiar", 1),
    ]


@each(
    ("first", "second", "day"),
    [
        ("01/03/2024", "13/03/2024", "2024-03-01"),
        ("03/01/2024", "03/13/2024", "2024-03-01"),
        ("01.03.2024", "02.03.2024", "2024-03-01"),
        ("30/01/2024", "01/02/2024", "2024-01-30"),
        ("03/12/2024", "04/01/2024", "2024-03-12"),
        ("2024-03-01", "2024-03-02", "2024-03-01"),
        ("01/01/2024", "02/02/2024", "2024-01-01"),
    ],
)
def test_all_dates_of_a_file_decide_their_order(first, second, day, tmp_path) -> None:
    text = f"{first}, 12:30 - Robin: a\n{second}, 12:31 - Yuzu: b\n"
    assert spoken(write(tmp_path / "c.txt", text))[0][1] == f"{day} 12:30"


@each(
    ("first", "last"),
    [
        ("31 December 10:04 - ", "2 January 9:30 - "),
        ("[Dec 31, 10:04 AM] ", "[Jan 2, 9:30 AM] "),
        ("[31/12 10:04] ", "[02/01 09:30] "),
        ("31.12. 10:04 - ", "2.1. 09:30 - "),
        ("12月31日 10:04 ", "1月2日 9:30 "),
        ("Dec 31 at 10:04 AM - ", "Jan 2 at 9:30 AM - "),
        ("Thursday, 31 December\n[10:04] ", "--- January 2 ---\n[9:30] "),
    ],
)
def test_a_year_that_no_date_states_is_asked_for_and_goes_on(first, last, tmp_path) -> None:
    path = write(tmp_path / "c.txt", f"{first}Robin: Hi\n{last}Yuzu: Ho\n")
    with pytest.raises(FamiliarError, match="have no year") as refused:
        found(path)
    option, (latest, *_) = refused.value.question
    assert (option, latest[0]) == ("--year", f"{datetime.now(UTC).year}")
    read = spoken(path, replace(READING, year=2023))
    assert [at for _, at, _ in read] == ["2023-12-31 10:04", "2024-01-02 09:30"]


def test_a_log_that_states_its_year_asks_for_none(tmp_path) -> None:
    parts = []
    for year, day in ((2023, "Dec 31"), (2025, "Mar 02")):
        parts += [
            f"**** BEGIN LOGGING AT Sun {day} 10:00:00 {year}",
            f"{day} 10:00:05 <Robin>\tGood morning",
            f"{day} 10:00:09 <Yuzu>\tHello",
        ]
    read = spoken(write(tmp_path / "x.log", "\n".join(parts) + "\n"))
    stated = ["2023-12-31", "2023-12-31", "2025-03-02", "2025-03-02"]
    assert [at[:10] for _, at, _ in read] == stated


def test_dates_that_nothing_decides_are_asked_for(tmp_path) -> None:
    path = write(tmp_path / "c.txt", "01/02/2024, 12:30 - Robin: a\n02/03/2024, 12:31 - Yuzu: b\n")
    with pytest.raises(FamiliarError, match="can be read in two ways") as refused:
        found(path)
    assert "--dates dmy" in refused.value.hint
    assert spoken(path, replace(READING, dates="mdy"))[0][1] == "2024-01-02 12:30"
    assert spoken(path, replace(READING, dates="dmy"))[0][1] == "2024-02-01 12:30"


def test_a_label_is_text_and_that_is_told(store, tmp_path) -> None:
    text = "Robin: Hi\nNote: I mean it\nYuzu: Hello\nIngredients: flour\nRobin: x\nYuzu: y\n"
    chat = only(bring(store, write(tmp_path / "c.txt", text)))
    assert said(store, "c") == ["Hi\nNote: I mean it", "Hello\nIngredients: flour", "x", "y"]
    assert "'Note' (line 2), 'Ingredients' (line 4)" in chat.notes[0]
    assert spoken(tmp_path / "c.txt", INSIST)[2] == ("Ingredients", "", "flour")


def test_lines_before_the_first_speaker_are_told_with_their_numbers(store, tmp_path) -> None:
    text = "# Talk\nSummer, at the sea.\n\nRobin: a\nYuzu: b\n---\nRobin: c\n"
    chat = only(bring(store, write(tmp_path / "c.md", text)))
    assert [(s.line, s.damaged) for s in chat.skipped] == [(1, False), (2, True), (6, False)]
    assert said(store, "c") == ["a", "b", "c"]


def test_front_matter_is_not_said_by_anybody(tmp_path) -> None:
    path = write(tmp_path / "c.md", "---\ntitle: x\nRobin: no\n---\nRobin: a\nYuzu: b\nRobin: c\n")
    assert [text for *_, text in spoken(path)][-3:] == ["a", "b", "c"]


def test_again_nothing_and_a_longer_file_adds_its_end(store, tmp_path) -> None:
    text = "Robin: a\nYuzu: b\nRobin: a\nYuzu: b\n"
    path = write(tmp_path / "c.txt", text)
    assert only(bring(store, path)).imported == 4
    assert only(bring(store, path)).imported == 0
    write(path, text + "Robin: a\nYuzu: c\n")
    assert only(bring(store, path)).imported == 2
    assert said(store, "c") == ["a", "b", "a", "b", "a", "c"]


def test_roles_in_place_of_names(tmp_path) -> None:
    path = write(tmp_path / "c.txt", "User: a\nAI: b\nUser: c\n")
    roles = [m.role for m in found(path, Reading(Cast(("Other",)), UTC))]
    assert roles == ["user", "assistant", "user"]


def test_of_several_people_one_is_me(store, tmp_path) -> None:
    path = write(tmp_path / "c.txt", "Robin: a\nYuzu: b\nBo: c\nRobin: d\nBo: e\n")
    cast = Cast(("Yuzu",), user=Author("discord", "7"))
    refused = bring(store, path, Reading(cast, UTC)).failed[0].error
    assert "--me" in refused.hint
    mine = Reading(replace(cast, mine=("bo",)), UTC)
    assert {m.author for m in found(path, mine)} == {
        None,
        Author("chat", "Robin", display_name="Robin"),
        Author("discord", "7", display_name="Bo"),
    }
    nobody = bring(store, path, Reading(replace(cast, mine=("Eve",)), UTC)).failed[0].error
    assert "No speaker" in str(nobody)


def test_nobody_who_is_the_familiar_is_refused(store, tmp_path) -> None:
    path = write(tmp_path / "c.txt", "Robin: a\nBo: b\nRobin: c\nBo: d\n")
    (failed,) = bring(store, path).failed
    assert "is a chat with 'Bo' and 'Robin'" in str(failed.error)


@pytest.mark.parametrize(
    "text",
    ["Dear diary,\n\nit rained: much.\n", "", "\n\n", "# Notes\n- a: b\n", "a\0b\0c\0" * 100],
)
def test_a_text_in_which_nobody_speaks_is_no_chat(text, store, tmp_path) -> None:
    done = bring(store, write(tmp_path / "c.txt", text))
    assert "not a chat" in str(done.failed[0].error)


def test_of_a_directory_other_texts_are_passed_over_and_told(store, tmp_path) -> None:
    write(tmp_path / "a.txt", "Robin: a\nYuzu: b\n")
    write(tmp_path / "readme.md", "# Read me\n\nNothing here.\n")
    done = bring(store, tmp_path)
    assert (done.problem, len(done.chats)) == (None, 1)
    assert [one.file.rpartition("/")[2] for one in done.passed_over] == ["readme.md"]


def test_a_directory_of_other_texts_has_no_chats(store, tmp_path) -> None:
    write(tmp_path / "readme.md", "# Read me\n\nNothing here.\n")
    with pytest.raises(NotFoundError, match="No chats below"):
        bring(store, tmp_path)


@each("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
@each("end", ["\n", "\r\n", "\r"])
def test_letters_and_line_ends(encoding, end, tmp_path) -> None:
    text = "Zoë: Grüße – ja\nYuzu: schön\nZoë: naïve…\n".replace("\n", end)
    path = write(tmp_path / "c.txt", text, encoding)
    assert [(who, text) for who, _, text in spoken(path)] == [
        ("Zoë", "Grüße – ja"),
        ("Yuzu", "schön"),
        ("Zoë", "naïve…"),
    ]


def test_a_stray_zero_and_mixed_line_ends(tmp_path) -> None:
    path = write(
        tmp_path / "c.txt", b"Robin: a" * 1 + b"b" * 90 + b"\0c\r\nmore\rYuzu: d\nRobin: e"
    )
    assert [text for *_, text in spoken(path)] == ["a" + "b" * 90 + "c\nmore", "d", "e"]


def test_a_line_that_is_too_long_is_told(monkeypatch, store, tmp_path) -> None:
    monkeypatch.setattr(transcript_lines, "MAX_LINE_CHARS", 1000)
    text = "Robin: a\n" + "x" * 2500 + "\nYuzu: b\nRobin: c\n"
    chat = only(bring(store, write(tmp_path / "c.txt", text)))
    assert [(s.line, s.damaged) for s in chat.skipped] == [(2, True)]
    assert said(store, "c") == ["a", "b", "c"]


def test_the_format_that_is_asked_for_is_held_against_what_is_there(store, tmp_path) -> None:
    path = write(tmp_path / "c.txt", "Robin: a\nYuzu: b\n")
    wish = ChatImportOptions(replace(READING, format="claude"))
    (failed,) = import_chats(store, path, wish).failed
    assert "looks like a chat (transcript)" in str(failed.error)


words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
texts = st.lists(
    st.lists(
        st.from_regex(r"[a-zäß日本0-9!?.,'*()]{1,9}", fullmatch=True), min_size=1, max_size=6
    ).map(" ".join),
    min_size=1,
    max_size=3,
).map("\n".join)
talks = st.lists(st.tuples(st.sampled_from(["Robin", "Yuzu", "名前", "Zoë B."]), texts), min_size=3)


@no_slow
@given(talk=talks, style=st.sampled_from(sorted(STYLES)))
def test_what_is_written_in_a_style_is_read_from_it(tmp_path_factory, talk, style) -> None:
    talk = [("Yuzu", "first"), *talk]
    moments = [AT + timedelta(hours=7 * n) for n in range(len(talk))]
    rendered = [STYLES[style](w, a, t) for a, (w, t) in zip(moments, talk, strict=True)]
    path = write(tmp_path_factory.mktemp("t") / "c.txt", "\n".join(rendered))

    assert spoken(path) == [
        (who, f"{at:%Y-%m-%d %H:%M}", text) for at, (who, text) in zip(moments, talk, strict=True)
    ]


pieces = st.sampled_from(
    (
        *(
            "Robin: ",
            "Yuzu: ",
            "**Robin:** ",
            "[12:30] ",
            "[2024-03-01 12:30] ",
            "01/02/2024, 12:30 - ",
        ),
        *(
            "Robin (12:30): ",
            "## 2024-03-01",
            "---",
            "=" * 30,
            "\n",
            "\n\n",
            "\r",
            "\0",
            "a",
            "b: c",
        ),
        *(
            "<Robin> ",
            "Guild: x",
            "12:30\tRobin\t",
            "：",
            "Note: ",
            "\u200e",
            "13/13/2024, 99:99 - A: b",
        ),
        *(
            "[",
            "{",
            '{"messages": [',
            '"channel"',
            "AuthorID,Author,Date,Content\n",
            "Exported 1 message(s)",
        ),
    )
)
anything = st.lists(pieces | words, max_size=30).map("".join) | st.text(max_size=300)


@no_slow
@given(text=anything | st.binary(max_size=300), insist=st.booleans())
@example(text="Robin: a\n\u200e\nYuzu: b", insist=True)
def test_no_text_raises_and_every_line_is_in_a_turn_or_told(tmp_path_factory, text, insist) -> None:
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    path = write(tmp_path_factory.mktemp("t") / "c.txt", text)
    reading = replace(INSIST if insist else READING, dates="dmy")
    try:
        with as_source(path) as source:
            (chat,) = read_chats(source, reading)
            read = list(chat.messages())
            plain = {
                n: harmonise_line(line or "").strip()
                for n, line in transcript_lines.text_lines(source)
            }
    except FamiliarError:
        return
    if chat.format != "transcript":  # JSON and tables have other lines than messages
        return
    told = {item.line for item in read if isinstance(item, Skip)}
    assert len(told) == sum(isinstance(item, Skip) for item in read)
    starts = {item.line: item.text for item in read if isinstance(item, ForeignMessage)}
    current = ""
    for number, line in sorted(plain.items()):
        assert not (number in told and number in starts)
        if number in starts:
            current = starts[number]
        elif line and number not in told:
            assert line in current
    assert not told - plain.keys()


def test_json_has_what_a_person_checks(store, tmp_path) -> None:
    from familiar_cli.pages.bring_pages import answer_data

    done = bring(
        store,
        write(tmp_path / "c.txt", "[2024-03-01 12:30] Robin: a\n[2024-03-01 12:31] Yuzu: b\n"),
    )
    (chat,) = to_builtins(answer_data(done, dry_run=True))["chats"]
    assert chat["taken_for"] == "a transcript with `[time] Name: text`"
    assert chat["speakers"][0] == {"name": "Robin", "role": "me", "turns": 1, "sample": ""}
    assert chat["first"][1] == {
        "at": "2024-03-01T12:31:00.000Z",
        "speaker": "Yuzu",
        "role": "assistant",
        "text": "b",
    }
    assert re.fullmatch(r"[\w ]+", chat["name"])
