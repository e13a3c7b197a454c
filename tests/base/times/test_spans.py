"""Times that texts name, in seven languages; and what no calendar holds."""

from __future__ import annotations

import re
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.languages import CODES, LATIN, dates
from familiar_cli.base.times.spans import Span, Yearly, days_between, spans_in, times_asked
from tests.support.cases import each

TODAY = date(2023, 5, 8)  # a Monday
days = st.dates(date(1600, 1, 1), date(2150, 12, 31))


def only(text: str, today: date | None = TODAY) -> tuple[str, str]:
    (found,) = spans_in(text, today)
    assert isinstance(found, Span)
    return found.first.isoformat(), found.last.isoformat()


@each(
    "text",
    [
        *("I left yesterday.", "Ich war gestern da.", "昨日行きました。", "ذهبت أمس", "Fui ayer."),
        *("Je suis parti hier.", "我昨天去了", "7 May 2023", "May 7th, 2023", "2023-05-07"),
        *("7. Mai 2023", "7.5.2023", "2023年5月7日", "２０２３年５月７日", "7 de mayo de 2023"),
        *("7 mai 2023", "7 مايو 2023", "LAST SUNDAY", "letzten Sonntag", "1 day ago"),
        *("vor einem Tag", "1日前", "hace un día", "il y a un jour", "一天前", "dimanche dernier"),
        *("el domingo pasado", "الأحد الماضي", "上周日", "last night"),
    ],
)
def test_a_day_is_meant(text) -> None:
    assert only(text) == ("2023-05-07", "2023-05-07")


@each(
    ("text", "first", "last"),
    [
        ("last week", "2023-05-01", "2023-05-07"),
        ("letzte Woche", "2023-05-01", "2023-05-07"),
        ("先週", "2023-05-01", "2023-05-07"),
        ("الأسبوع الماضي", "2023-05-01", "2023-05-07"),
        ("la semana pasada", "2023-05-01", "2023-05-07"),
        ("la semaine dernière", "2023-05-01", "2023-05-07"),
        ("上周", "2023-05-01", "2023-05-07"),
        ("last weekend", "2023-05-06", "2023-05-07"),
        ("two weeks ago", "2023-04-24", "2023-04-30"),
        ("vor zwei Wochen", "2023-04-24", "2023-04-30"),
        ("last month", "2023-04-01", "2023-04-30"),
        ("next year", "2024-01-01", "2024-12-31"),
        ("来年", "2024-01-01", "2024-12-31"),
        ("in July 2023", "2023-07-01", "2023-07-31"),
        ("im Juli 2023", "2023-07-01", "2023-07-31"),
        ("2023年7月", "2023-07-01", "2023-07-31"),
        ("summer of 2022", "2022-06-01", "2022-08-31"),
        ("last summer", "2022-06-01", "2022-08-31"),
        ("letzten Sommer", "2022-06-01", "2022-08-31"),
        ("去年の夏", "2022-06-01", "2022-08-31"),
        ("l'été dernier", "2022-06-01", "2022-08-31"),
        ("winter 2022", "2022-12-01", "2023-02-28"),
        ("the past three days", "2023-05-05", "2023-05-08"),
        ("in 2021", "2021-01-01", "2021-12-31"),
    ],
)
def test_a_longer_time_is_meant(text, first, last) -> None:
    assert only(text) == (first, last)


@each(
    ("text", "today", "day"),
    [
        ("yesterday", date(2024, 1, 1), "2023-12-31"),
        ("morgen", date(2023, 12, 31), "2024-01-01"),
        ("last friday", date(2024, 1, 2), "2023-12-29"),
        ("先週の金曜日", date(2024, 1, 3), "2023-12-29"),
        ("3 days ago", date(2024, 3, 2), "2024-02-28"),
    ],
)
def test_relative_days_cross_the_ends_of_years_and_months(text, today, day) -> None:
    assert only(text, today) == (day, day)


def test_months_are_counted_across_years() -> None:
    assert only("last month", date(2024, 1, 31)) == ("2023-12-01", "2023-12-31")
    assert only("vor drei Monaten", date(2024, 2, 29)) == ("2023-11-01", "2023-11-30")
    assert only("last December", date(2024, 12, 5)) == ("2023-12-01", "2023-12-31")


def test_a_day_without_its_year_is_that_of_any_year() -> None:
    assert spans_in("on 7 May") == spans_in("5月7日") == [Yearly(5, 7)]
    assert spans_in("in June") == spans_in("im Juni") == [Yearly(6)]
    assert spans_in("during the winter") == [Yearly(12, months=3)]


@each("text", ["yesterday", "last friday", "vor zwei Wochen", "先週", "on Monday"])
def test_what_depends_on_today_means_nothing_without_it(text) -> None:
    assert spans_in(text) == []


@each(
    "text",
    [
        *("I may march on.", "Guten Morgen!", "the sun, to fall asleep", "so do we", ""),
        *("0000-13-99", "30 February", "99 May", "9999-12-31", "por la mañana", "12345-01-01"),
    ],
)
def test_what_is_no_time_means_none(text) -> None:
    assert spans_in(text, TODAY) == []


@each("today", [date.min, date.max, date(9999, 12, 31)])
@each(
    "text",
    [
        *("yesterday tomorrow next year last year next month last week next winter last weekend",),
        *("in 999 years", "999 years ago", "999 days ago", "in 999 weeks", "last May", "on 7 May"),
    ],
)
def test_no_calendar_is_left(text, today) -> None:
    for span in (*spans_in(text, today), *times_asked(f"since {text}", today)):
        assert isinstance(span, Yearly) or span.first <= span.last


@each(
    ("text", "first", "last"),
    [
        ("the first week of January 2023", "2023-01-01", "2023-01-07"),
        ("the last week of January 2023", "2023-01-25", "2023-01-31"),
        ("the last week of February 2024", "2024-02-23", "2024-02-29"),
        ("the last weekend of March 2023", "2023-03-25", "2023-03-26"),
        ("the last weekend of March 2018", "2018-03-31", "2018-04-01"),
        ("the second weekend in July 2023", "2023-07-08", "2023-07-09"),
        ("the first day of March 2023", "2023-03-01", "2023-03-01"),
        ("the last day of February 2024", "2024-02-29", "2024-02-29"),
        ("das letzte Wochenende im März 2023", "2023-03-25", "2023-03-26"),
        ("am letzten Wochenende des März 2023", "2023-03-25", "2023-03-26"),
        ("le dernier week-end de mars 2023", "2023-03-25", "2023-03-26"),
        ("el último fin de semana de marzo de 2023", "2023-03-25", "2023-03-26"),
        ("2023年3月の最後の週末", "2023-03-25", "2023-03-26"),
        ("2023年3月最后一个周末", "2023-03-25", "2023-03-26"),
        ("عطلة نهاية الأسبوع الأخيرة من مارس 2023", "2023-03-25", "2023-03-26"),
        ("la dernière semaine de janvier 2023", "2023-01-25", "2023-01-31"),
        ("the last Friday of March 2023", "2023-03-31", "2023-03-31"),
        ("the last Friday of February 2024", "2024-02-23", "2024-02-23"),
        ("on the second Monday in May 2023", "2023-05-08", "2023-05-08"),
        ("the fourth Sunday of February 2026", "2026-02-22", "2026-02-22"),
        ("der letzte Freitag im März 2023", "2023-03-31", "2023-03-31"),
        ("am letzten Freitag des Monats März 2023", "2023-03-31", "2023-03-31"),
        ("le dernier vendredi de mars 2023", "2023-03-31", "2023-03-31"),
        ("le deuxième mardi d'avril 2023", "2023-04-11", "2023-04-11"),
        ("el último viernes de marzo de 2023", "2023-03-31", "2023-03-31"),
        ("2023年3月の最後の金曜日", "2023-03-31", "2023-03-31"),
        ("2023年5月の第2月曜日", "2023-05-08", "2023-05-08"),
        ("2023年3月的最后一个星期五", "2023-03-31", "2023-03-31"),
        ("2023年5月的第二個週一", "2023-05-08", "2023-05-08"),
        ("آخر جمعة من مارس 2023", "2023-03-31", "2023-03-31"),
        ("الجمعة الأخيرة من مارس 2023", "2023-03-31", "2023-03-31"),
        ("the first Saturday of the month", "2023-05-06", "2023-05-06"),
        ("What did we do on the last Friday of the month?", "2023-04-28", "2023-04-28"),
        ("What will we do on the first Saturday of the month?", "2023-06-03", "2023-06-03"),
        ("the third Thursday of next month", "2023-06-15", "2023-06-15"),
        ("the last day of last month", "2023-04-30", "2023-04-30"),
        ("am ersten Samstag im Monat", "2023-05-06", "2023-05-06"),
        ("der erste Samstag des letzten Monats", "2023-04-01", "2023-04-01"),
        ("le premier samedi du mois", "2023-05-06", "2023-05-06"),
        ("le premier samedi du mois dernier", "2023-04-01", "2023-04-01"),
        ("el primer sábado del mes", "2023-05-06", "2023-05-06"),
        ("el primer sábado del mes pasado", "2023-04-01", "2023-04-01"),
        ("今月の最初の土曜日", "2023-05-06", "2023-05-06"),
        ("先月の第一土曜日", "2023-04-01", "2023-04-01"),
        ("这个月的第一个星期六", "2023-05-06", "2023-05-06"),
        ("上个月的第一个周六", "2023-04-01", "2023-04-01"),
        ("أول سبت من الشهر", "2023-05-06", "2023-05-06"),
        ("السبت الأول من الشهر الماضي", "2023-04-01", "2023-04-01"),
        ("die letzte Woche im Januar 2023", "2023-01-25", "2023-01-31"),
        ("early June 2022", "2022-06-01", "2022-06-10"),
        ("mid-June 2022", "2022-06-11", "2022-06-20"),
        ("late June 2022", "2022-06-21", "2022-06-30"),
        ("late 2022", "2022-09-01", "2022-12-31"),
        ("the end of last month", "2023-04-21", "2023-04-30"),
        ("June 2022", "2022-06-01", "2022-06-30"),
        ("last March", "2023-03-01", "2023-03-31"),
        ("this weekend", "2023-05-13", "2023-05-14"),
        ("in two weeks", "2023-05-22", "2023-05-28"),
        ("Anfang Juni 2022", "2022-06-01", "2022-06-10"),
        ("die erste Woche im Januar 2023", "2023-01-01", "2023-01-07"),
        ("la première semaine de janvier 2023", "2023-01-01", "2023-01-07"),
        ("la primera semana de enero de 2023", "2023-01-01", "2023-01-07"),
        ("fin juin 2022", "2022-06-21", "2022-06-30"),
        ("a finales de junio de 2022", "2022-06-21", "2022-06-30"),
        ("2022年6月末", "2022-06-21", "2022-06-30"),
        ("2023年1月第一周", "2023-01-01", "2023-01-07"),
        ("2023年1月の最初の週", "2023-01-01", "2023-01-07"),
        ("أواخر يونيو 2022", "2022-06-21", "2022-06-30"),
        ("I will see Bo on Friday.", "2023-05-12", "2023-05-12"),
        ("I saw Bo on Friday.", "2023-05-05", "2023-05-05"),
        ("Am Freitag werde ich tanzen.", "2023-05-12", "2023-05-12"),
    ],
)
def test_a_part_of_a_time_is_meant(text, first, last) -> None:
    assert only(text) == (first, last)


@each(
    "text",
    [
        *("the last Friday of March", "der letzte Freitag im März", "le dernier vendredi de mars"),
        *("el último viernes de marzo", "3月の最後の金曜日", "三月的最后一个星期五"),
        "آخر جمعة في مارس",
    ],
)
def test_a_weekday_in_a_month_without_a_year_is_one_day_of_each_year(text) -> None:
    (found,) = times_asked(f"{text}?", TODAY)
    assert isinstance(found, Yearly)
    days = [found.of(year) for year in (2022, 2023, 2024)]
    assert [day.first.isoformat() for day in days] == ["2022-03-25", "2023-03-31", "2024-03-29"]
    assert all(day.first == day.last for day in days)


@each(
    "text",
    [
        *("every first Saturday of the month", "jeden ersten Samstag im Monat"),
        *("chaque premier samedi du mois", "cada primer sábado del mes", "毎月の第一土曜日"),
        "كل أول سبت من الشهر",
    ],
)
def test_a_day_of_every_month_is_none(text) -> None:
    assert spans_in(text, TODAY) == []


@given(days, st.integers(1, 12), st.integers(0, 6))
def test_the_last_weekday_of_a_month_is_in_its_last_seven_days(day, month, weekday) -> None:
    last = Yearly(month, -7, weekday=weekday).of(day.year)
    assert (last.first.month, last.first.weekday()) == (month, weekday)
    assert (last.first + timedelta(days=7)).month != month


def asked(query: str) -> tuple[str, str]:
    (found,) = times_asked(query, TODAY)
    assert isinstance(found, Span)
    return found.first.isoformat(), found.last.isoformat()


@each(
    "query",
    [
        *("What changed since spring?", "Was hat sich seit dem Frühling geändert?"),
        *("Qu'est-ce qui a changé depuis le printemps ?", "¿Qué ha cambiado desde la primavera?"),
        *(
            "春から何が変わった？",
            "自春天以来有什么变化？",
            "ماذا تغير منذ الربيع؟",
            "after March 1, 2023",
        ),
    ],
)
def test_since_a_time_is_all_from_then_until_today(query) -> None:
    assert asked(query) == ("2023-03-01", "2023-05-08")


@each(
    "query",
    [
        *("between March and June 2022", "from March to June 2022", "zwischen März und Juni 2022"),
        *("entre mars et juin 2022", "entre marzo y junio de 2022", "2022年3月から2022年6月まで"),
        "2022年3月到2022年6月",
    ],
)
def test_between_two_times_is_all_from_one_to_the_other(query) -> None:
    assert asked(query) == ("2022-03-01", "2022-06-30")


def test_until_a_time_is_all_before_it() -> None:
    assert asked("before June 2022") == (date.min.isoformat(), "2022-06-30")


@given(days, days)
def test_a_time_since_then_lasts_until_today(today, then) -> None:
    for span in times_asked(f"what happened since {then}?", today):
        assert isinstance(span, Span)
        assert span.first == then
        assert span.last == max(then, today)


@given(days, st.integers(1, 12), st.sampled_from((-1, 1)))
def test_a_month_told_as_past_has_begun_and_one_to_come_is_not_over(day, month, tense) -> None:
    span = Yearly(month).beside(day, tense)
    assert span.first <= day if tense < 0 else span.last >= day
    assert abs((span.first - day).days) <= 366


@given(st.text(max_size=80), days)
def test_any_text_is_read(text, today) -> None:
    for span in (*spans_in(text, today), *times_asked(text, today)):
        assert isinstance(span, Yearly) or span.first <= span.last


@given(days)
def test_a_day_is_read_in_every_way_it_is_written(day) -> None:
    month = f"{day:%B}"
    forms = (day.isoformat(), f"{day.day} {month} {day.year}", f"{month} {day.day}, {day.year}")
    wanted = (day.isoformat(), day.isoformat())
    assert {only(form) for form in (*forms, f"{day.year}年{day.month}月{day.day}日")} == {wanted}


@given(days, st.integers(1, 300))
def test_counted_days_are_counted(day, count) -> None:
    past = (day - timedelta(days=count)).isoformat()
    for text in (f"{count} days ago", f"vor {count} Tagen", f"{count}日前", f"hace {count} días"):
        assert only(text, day) == (past, past)


@given(st.tuples(days, days, days, days))
def test_days_between_are_none_where_spans_meet_and_change_sign(found) -> None:
    a, b = (Span(*sorted(pair)) for pair in (found[:2], found[2:]))
    assert days_between(a, b) == -days_between(b, a)
    assert (days_between(a, b) == 0) == (a.first <= b.last and b.first <= a.last)


@given(days, st.integers(1, 12), st.integers(1, 28))
def test_the_nearest_is_at_most_half_a_year_away(day, month, of_month) -> None:
    near = Yearly(month, of_month).near(day)
    assert abs((near.first - day).days) <= 184


@each("name", CODES)
def test_a_table_is_complete(name) -> None:
    table = dates(name)
    assert (len(table.months), len(table.weekdays), len(table.seasons)) == (12, 7, 4)
    assert table.near.keys() >= {-2, -1, 0, 1, 2}
    assert table.ways.keys() == {-1, 0, 1}
    wanted = {"minute", "hour", "day", "week", "weekend", "month", "year"}
    assert table.units.keys() == wanted
    assert table.alone
    assert table.clocks
    assert len(table.numbers) >= 10
    assert (len(table.parts), len(table.ordinals), len(table.season_names)) == (3, 5, 4)
    assert table.sides.keys() == {"joined", "since", "until"}
    kinds = {"day", "about", "week", "weekend", "month", "season", "year"}
    assert table.written.keys() == kinds
    assert table.past
    assert table.future
    words = [*table.months, *table.weekdays, *table.seasons, *table.near.values()]
    assert all(all(word.split("|")) for word in (*words, *table.units.values(), *table.numbers))


@each("name", CODES)
def test_no_word_of_a_table_means_two_things(name) -> None:
    table = dates(name)
    for words in (table.months, table.weekdays, table.seasons, table.numbers, table.near.values()):
        listed = [word for one in words for word in one.split("|")]
        assert len(listed) == len(set(listed))


@each("name", sorted(set(CODES) - set(LATIN)))
def test_times_in_another_script_are_told_in_that_script(name) -> None:
    table = dates(name)
    words = (*table.months, *table.weekdays, *table.seasons, *table.parts)
    words += (*table.near.values(), *table.units.values())
    assert not any(word.isascii() for listed in words for word in listed.split("|"))
    assert not re.search("[a-z]", "".join(lead + tail for lead, tail in table.sides.values()))
