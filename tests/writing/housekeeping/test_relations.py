"""Relations that cannot be are told of; those that can be are no finding."""

from __future__ import annotations


def page(title: str, *lines: str) -> str:
    return f"# {title}\n\n## Relations\n\n" + "".join(f"- {line}\n" for line in lines)


def messages(look, **pages: str) -> list[str]:
    files = {f"people/{name}.md": text for name, text in pages.items()}
    return [finding.message for finding in look("relations", files)]


def test_relations_that_fit_are_no_finding(look) -> None:
    found = messages(
        look,
        a=page("A", "mother of [B](b.md)", "friend of [C](c.md) (since 2019)", "knows [[C]]"),
        b=page("B", "child of [A](a.md)", "sister of C", "parent of [C](c.md)"),
        c=page("C", "works with [A](a.md)"),
    )
    assert found == []


def test_what_leads_nowhere_is_told(look) -> None:
    (finding, other) = look(
        "relations",
        {"people/a.md": page("A", "likes tea", "knows [B](b.md)", "sister of Robin")},
    )
    assert finding.message == "1 line below Relations refers to nobody"
    assert other.message == "2 relations to somebody without a file"
    assert [quote.line for quote in other.evidence] == [6, 7]


def test_a_relation_to_oneself_is_told(look) -> None:
    assert messages(look, a=page("A", "knows [A](a.md)")) == ["is related to itself"]


def test_an_end_before_the_beginning_is_told(look) -> None:
    found = messages(look, a=page("A", "knows [B](b.md) (2023 to 2020)"), b="# B\n")
    assert found == ["a relation ends before it begins"]


def test_two_that_are_each_above_the_other_contradict(look) -> None:
    found = messages(look, a=page("A", "mother of [B](b.md)"), b=page("B", "father of [A](a.md)"))
    assert found == ["'mother of' and 'father of' contradict each other"]


def test_what_is_over_contradicts_nothing(look) -> None:
    found = messages(
        look, a=page("A", "boss of [B](b.md) (until 2020)"), b=page("B", "boss of [A](a.md)")
    )
    assert found == []


def test_a_circle_is_told_once(look) -> None:
    found = messages(
        look,
        a=page("A", "parent of [B](b.md)"),
        b=page("B", "parent of [C](c.md)"),
        c=page("C", "parent of [A](a.md)"),
    )
    assert found == ["3 relations form a cycle"]
