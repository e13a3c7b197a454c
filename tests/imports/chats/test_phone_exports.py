"""What phones export: their dates in every language, any contact as an author, notices as notes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from familiar_cli.base.errors import RefusedError
from familiar_cli.imports.cast import Cast
from familiar_cli.imports.contract import Reading
from familiar_cli.imports.reading import read_chats
from familiar_cli.imports.source import as_source

AT = datetime(2025, 3, 28, 21, 25, tzinfo=UTC)
HEADS = {
    "am": "28/03/2025 9:25 ከሰዓት - ",
    "ar": "٢٨\u200f/٣\u200f/٢٠٢٥، ٩:٢٥ م - ",
    "ar-ios": "[٢٨/٣/٢٠٢٥، ٩:٢٥:٠٠ م] ",
    "bg": "28.03.25 г., 21:25 ч. - ",
    "bn": "২৮/৩/২৫, ৯:২৫ PM - ",
    "cs": "28. 3. 2025 21:25 - ",
    "de": "28.03.25, 21:25 - ",
    "de-ios": "\u200e[28.03.25, 21:25:00] ",
    "el": "28/3/25, 9:25 μ.μ. - ",
    "en-us": "3/28/25, 9:25\u202fPM - ",
    "es": "28/3/2025, 9:25 p.\u00a0m. - ",
    "fa": "۱۴۰۴/۱/۸،\u200f ۲۱:۲۵ - ",
    "fi": "28.3.2025 klo 21.25 - ",
    "fr": "28/03/2025 à 21:25 - ",
    "hr": "28. 03. 2025. 21:25 - ",
    "hu": "2025. 03. 28. 21:25 - ",
    "ko": "2025. 3. 28. 오후 9:25, ",
    "ko-ios": "[2025. 3. 28. 오후 9:25:00] ",
    "mk": "28.3.2025, во 21:25 - ",
    "mr": "२८/३/२५, ९:२५ PM - ",
    "pt": "28/03/2025 às 21:25 - ",
    "seconds": "28.03.25 21.25.00: ",
    "sq": "28.3.25, 9:25 e pasdites - ",
    "sv": "2025-03-28 21:25 - ",
    "th": "28/3/2568 21:25 - ",
    "uk": "28.03.25 о 21:25 - ",
    "vi": "28/3/25, 9:25 CH - ",
    "zh": "2025/3/28 下午9:25 - ",
    "zh-tw": "2025/3/28 晚上9:25 - ",
}


def read(tmp_path, text, *, known="Tess", **options):
    path = tmp_path / "chat.txt"
    path.write_text(text, encoding="utf-8")
    with as_source(path) as source:
        cast = Cast(known=(known,), unnamed="others", **options)
        (chat,) = read_chats(source, Reading(cast, UTC))
        return chat, list(chat.messages())


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_a_date_is_read_in_the_phones_language(tmp_path, head) -> None:
    _, found = read(tmp_path, f"{head}Nell: Low tide: at six.\n{head}Tess: Good.\nAnd dry.\n")
    assert [(m.speaker, m.text, m.at) for m in found] == [
        ("Nell", "Low tide: at six.", AT),
        ("Tess", "Good.\nAnd dry.", AT),
    ]


def test_early_morning_has_a_word_of_its_own(tmp_path) -> None:
    head = "2025/3/28 凌晨12:05 - "
    _, found = read(tmp_path, f"{head}Nell: Hi\n{head}Tess: Hi\n")
    assert found[0].at == datetime(2025, 3, 28, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize("name", ["+34 600 11 22 33", "7", "🐝", "K", "12345", "Ana (work)"])
def test_whatever_a_contact_is_called_is_an_author(tmp_path, name) -> None:
    line = "28/03/2025, 21:25 - "
    chat, found = read(tmp_path, f"{line}{name}: Hi\n{line}Tess: Hi\n{line}{name}: So?\n")
    assert [m.speaker for m in found] == [name, "Tess", name]
    assert [m.role for m in found] == ["user", "assistant", "user"]
    assert chat.roles[name] == "me"


def test_a_number_can_be_me(tmp_path) -> None:
    line = "28/03/2025, 21:25 - "
    text = f"{line}\u202a+34 600 11 22 33\u202c: Hi\n{line}Tess: Hi\n"
    chat, _ = read(tmp_path, text, mine=("+34 600 11 22 33",))
    assert chat.roles == {"+34 600 11 22 33": "me", "Tess": "familiar"}


def test_a_hint_never_proposes_the_familiar(tmp_path) -> None:
    line = "28/03/2025, 21:25 - "
    with pytest.raises(RefusedError) as refused:
        read(tmp_path, f"{line}Zed: Hi\n{line}Alba: Hi\n", known="Alba", mine=("Nobody",))
    assert refused.value.hint == "Try `--me Zed`."


def test_who_speaks_once_and_is_called_like_another_is_a_speaker(tmp_path) -> None:
    line = "28/03/2025, 21:25 - "
    text = (
        f"{line}Ana: Who comes?\n{line}Ana Maria Soler: I do: with Bruno.\n"
        f'{line}Ana changed the subject to "Boats: spring"\n{line}Tess: Me.\n'
    )
    _, found = read(tmp_path, text)
    assert [(m.speaker, m.hidden) for m in found] == [
        ("Ana", False),
        ("Ana Maria Soler", False),
        ("", True),
        ("Tess", False),
    ]


NOTICES = [
    "\u200eMessages and calls are end-to-end encrypted.",
    "\u200eimage omitted",
    "<Media omitted>",
    "<Medien ausgeschlossen>",
    "null",
    "This message was deleted",
    "Diese Nachricht wurde gelöscht.",
    "Данное сообщение удалено",
    "このメッセージは削除されました",
    "\u200eTess added Nell",
]


@pytest.mark.parametrize("notice", NOTICES)
def test_a_notice_is_nobodys_words(tmp_path, notice) -> None:
    line = "28/03/2025, 21:25 - " if notice[0] == "<" else "[28.03.25, 21:25:00] "
    _, found = read(tmp_path, f"{line}Nell: {notice}\n{line}Nell: Hi\n{line}Tess: Hi\n")
    first = found[0]
    assert (first.role, first.author, first.hidden) == ("system", None, True)
    assert [m.role for m in found[1:]] == ["user", "assistant"]


def test_angle_brackets_are_a_persons_but_on_android(tmp_path) -> None:
    line = "[28.03.25, 21:25:00] "
    _, found = read(tmp_path, f"{line}Nell: <smiles softly>\n{line}Tess: Hi\n")
    assert (found[0].role, found[0].text, found[0].hidden) == ("user", "<smiles softly>", False)


def test_a_groups_name_is_no_person(tmp_path) -> None:
    line = "[28.03.25, 21:25:00] "
    text = f"{line}Boats: \u200eNell created this group\n{line}Nell: Hi\n{line}Tess: Hi\n"
    chat, _ = read(tmp_path, text)
    assert set(chat.roles) == {"Nell", "Tess"}


def test_words_beside_an_attachment_or_an_edit_are_words(tmp_path) -> None:
    line = "[28.03.25, 21:25:00] "
    text = (
        f"{line}Nell: plum jam \u200e<attached: 1-PHOTO.jpg>\n"
        f"{line}Nell: At six. \u200e<This message was edited>\n{line}Tess: Hi\n"
    )
    _, found = read(tmp_path, text)
    assert [m.text for m in found] == ["plum jam <attached: 1-PHOTO.jpg>", "At six.", "Hi"]
    assert not any(m.hidden for m in found)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("ok <see you soon>", "ok <see you soon>"),
        ("plum jam <two large jars>", "plum jam <two large jars>"),
        ("At six. <This message was edited>", "At six."),
        ("Um sechs. <Diese Nachricht wurde bearbeitet.>", "Um sechs."),
        ("At six. \u200e<any words, in a language not listed>", "At six."),
    ],
)
def test_only_a_messengers_remark_is_taken_off_a_message(tmp_path, written, text) -> None:
    line = "28/03/2025, 21:25 - "
    _, found = read(tmp_path, f"{line}Nell: {written}\n{line}Tess: Hi\n")
    assert [m.text for m in found] == [text, "Hi"]


def test_a_sentence_of_a_message_is_no_speaker(tmp_path) -> None:
    _, found = read(tmp_path, "Tess: You are late.\n\nNell: I ran.\n\nIt left: early.\n")
    assert [m.speaker for m in found] == ["Tess", "Nell"]


def test_a_time_that_cannot_be_read_is_told_by_its_line(tmp_path) -> None:
    text = "2025-03-28 21:25 - Nell: Hi\n2025-02-31 21:26 - Tess: Hi\n2025-03-28 21:27 - Nell: So\n"
    chat, _ = read(tmp_path, text)
    assert chat.notes == ("1 time cannot be read (line 2): estimated",)
