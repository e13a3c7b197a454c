"""The section Relations is read line by line, in any language; nothing else is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.languages import tables
from familiar_cli.base.who.visibility import channel_scope
from familiar_cli.store.memory.pages.lines import TurnRange
from familiar_cli.store.memory.pages.relations import (
    Relation,
    line_of,
    relations_in,
    tidy_relations,
)
from tests.support.cases import each

PATH = "people/mika.md"
WORDS = st.text(st.sampled_from("abc xyzéß日"), min_size=1, max_size=20).filter(
    lambda words: words.strip() == words and any(map(str.isalpha, words))
)
DATES = st.sampled_from(["", "2024", "2024-03", "2024-03-09"])


def read(*lines: str, heading: str = "## Relations", known=()):
    text = f"# Mika\n\n{heading}\n\n" + "".join(f"{line}\n" for line in lines)
    return relations_in(text, PATH, known)


def one(line: str, **more) -> Relation:
    (found,) = read(line, **more).relations
    return found


def test_a_line_says_what_the_page_is_to_another() -> None:
    found = one("- sister of [Robin](discord-42.md) (since 2024-03, turns laptop-7f3a:12-15)")
    assert found == Relation(
        "sister of",
        "people/discord-42.md",
        "Robin",
        since="2024-03",
        evidence=(TurnRange("laptop-7f3a", 12, 15),),
        line=5,
    )


def test_the_comment_of_a_line_is_its_evidence_too() -> None:
    assert one("- knows [Bo](bo.md) <!-- turns 3; desk-9c2d:4 -->").evidence == (
        TurnRange("", 3, 3),
        TurnRange("desk-9c2d", 4, 4),
    )


@each(
    ("note", "since", "until"),
    [
        ("(since 2024)", "2024", ""),
        ("(until 2025-01)", "", "2025-01"),
        ("(since 2024-03, until 2025-01-31)", "2024-03", "2025-01-31"),
        ("(2020 to 2023)", "2020", "2023"),
        ("(2020–2023)", "2020", "2023"),
        ("(seit 2019)", "2019", ""),
        ("(2019から)", "2019", ""),
        ("since 2024, they say", "2024", ""),
        ("(seit 12.03.2021)", "2021-03-12", ""),
        ("(seit März 2020, bis Mai 2024)", "2020-03", "2024-05"),
        ("(seit dem 3. Mai 2020)", "2020-05-03", ""),
        ("(von 2019 bis 2023)", "2019", "2023"),
        ("(March 2019 to 4 May 2023)", "2019-03", "2023-05-04"),
        ("(depuis le 3 mars 2021)", "2021-03-03", ""),
        ("(jusqu'à mars 2021)", "", "2021-03"),
        ("(de 2019 à 2023)", "2019", "2023"),
        ("(desde el 3 de mayo de 2020)", "2020-05-03", ""),
        ("(2021年3月から2023年まで)", "2021-03", "2023"),
        ("（自2021年3月5日）", "2021-03-05", ""),
        ("(vom 3. Mai 2019 bis zum 4. Juni 2020)", "2019-05-03", "2020-06-04"),
        ("(من 2019 إلى 2023)", "2019", "2023"),
        ("(since about 2019)", "2019", ""),
        ("(since 2024-02-30)", "2024-02-30", ""),
        ("(met in 2019)", "", ""),
        ("", "", ""),
    ],
)
def test_it_has_a_beginning_and_an_end(note, since, until) -> None:
    found = one(f"- knows [Bo](bo.md) {note}")
    assert (found.since, found.until) == (since, until)


@each("table", list(tables()), ids=lambda table: table.code)
def test_every_language_has_its_heading_and_its_dates(table) -> None:
    since, until = table.since_when.format("2024-03"), table.until_when.format("2025")
    found = one(f"- x [Bo](bo.md) ({since}, {until})", heading=table.heading("relations"))
    assert (found.since, found.until) == ("2024-03", "2025")


def test_a_wiki_link_leads_by_name() -> None:
    found = one("- works with [[Bo]] (since 2024)")
    assert (found.relation, found.target, found.name) == ("works with", "", "Bo")


def test_a_name_alone_is_read_behind_a_known_relation_only() -> None:
    found = read("- sister of Robin Hood (since 2024)", "- tea with Bo", known={"sister of"})
    assert [(r.relation, r.name, r.since) for r in found.relations] == [
        ("sister of", "Robin Hood", "2024")
    ]
    assert found.unread == (6,)


def test_a_colon_may_stand_before_the_name() -> None:
    (found,) = read("- Sister of: Robin", known={"sister of"}).relations
    assert (found.relation, found.name) == ("Sister of", "Robin")


def test_one_line_may_lead_to_several() -> None:
    found = read("- sister of [A](a.md) and [B](b.md) (since 2020)").relations
    assert [(r.target, r.relation, r.since) for r in found] == [
        ("people/a.md", "sister of", "2020"),
        ("people/b.md", "sister of", "2020"),
    ]


def test_nothing_is_read_out_of_prose_code_or_other_sections() -> None:
    text = (
        "# Mika\n\n- sister of [Robin](robin.md)\n\n## Facts\n\n- sister of [Robin](robin.md)\n\n"
        "## Relations\n\nShe is sister of [Robin](robin.md).\n\n```\n- sister of [R](r.md)\n```\n\n"
        "<!-- - sister of [Robin](robin.md) -->\n## Notes\n\n- knows [Bo](bo.md)\n"
    )
    assert relations_in(text, PATH).relations == ()


def test_what_stands_below_a_smaller_heading_belongs_to_it() -> None:
    found = read("### Family", "", "- sister of [Robin](robin.md)", "", "## Facts", "- a [B](b.md)")
    assert [r.target for r in found.relations] == ["people/robin.md"]


def test_a_private_relation_says_to_whom_it_is_kept() -> None:
    text = (
        "# Mika\n\n## In private: x <!-- private dm -->\n\n### Relations\n\n- loves [Bo](bo.md)\n"
    )
    (found,) = relations_in(text, PATH).relations
    assert found.private == {channel_scope("dm")}


@given(relation=WORDS, name=WORDS, since=DATES, until=DATES, turns=st.sets(st.integers(1, 99)))
def test_what_is_written_is_read_again(relation, name, since, until, turns) -> None:
    evidence = tuple(TurnRange("laptop-7f3a", n, n) for n in sorted(turns))
    made = Relation(relation, "people/bo.md", name, since, until, evidence)
    found = one(line_of(made, "bo.md"))
    assert (found.relation, found.target, found.since, found.until) == (
        " ".join(relation.split()),
        "people/bo.md",
        since,
        until,
    )
    assert {n for c in found.evidence for n in c.ids} == turns


def test_what_is_said_twice_becomes_one_line_with_the_evidence_of_both() -> None:
    text = (
        "# Mika\n\n## Relations\n\n- sister of [Robin](robin.md) <!-- turns 1 -->\n"
        "- Sister of [R.](robin.md) (since 2024-01) <!-- turns laptop-7f3a:2 -->\n- a note\n"
        "- knows [herself](mika.md)\n- knows [Bo](bo.md)\n\n## Facts\n\n- knows [Bo](bo.md)\n"
    )
    assert tidy_relations(text, PATH) == (
        "# Mika\n\n## Relations\n\n"
        "- Sister of [R.](robin.md) (since 2024-01) <!-- turns 1; laptop-7f3a:2 -->\n- a note\n"
        "- knows [Bo](bo.md)\n\n## Facts\n\n- knows [Bo](bo.md)\n"
    )
    assert tidy_relations(tidy_relations(text, PATH), PATH) == tidy_relations(text, PATH)


def test_the_same_relation_at_two_times_stays_two() -> None:
    text = "## Relations\n- wife of [A](a.md) (until 2001)\n- wife of [A](a.md) (since 2009)\n"
    assert tidy_relations(text, PATH) == text


def test_a_hostile_line_is_read_in_no_time() -> None:
    lines = read("- " + "(" * 1_900, "- " + "[a](" * 400, "- " + "since " * 300 + "[x](x.md)")
    assert len(lines.relations) <= 1
