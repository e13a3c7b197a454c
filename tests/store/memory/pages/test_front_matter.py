"""Front matter is read as YAML, else line by line; each entry knows where it stands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.markdown import body_start
from familiar_cli.store.memory.pages.front_matter import listed_aliases, read_front_matter, value_of
from tests.support.cases import each


@each(
    ("front", "names"),
    [
        ("aliases: Teo", ["Teo"]),
        ("aliases: Teo, Old Teo", ["Teo", "Old Teo"]),
        ('aliases: [Teo, "Smith, John"]', ["Teo", "Smith, John"]),
        ("aliases:\n  - Teo\n  - 'Old Teo' # by the children", ["Teo", "Old Teo"]),
        ("aliases:\n- Teo\n- 煎茶\ntags: [a]", ["Teo", "煎茶"]),
        ('"aliases": &a [Teo]\nother: *a', ["Teo"]),
        ("aliases:", []),
        ("note:\n  aliases: [Teo]", []),
        ("title: Tea: a history\naliases:\n  - Teo\n  - Old Teo", ["Teo", "Old Teo"]),
        ("title: Tea: a history\naliases: [Teo, Old Teo]", ["Teo", "Old Teo"]),
    ],
)
@each("newline", ["\n", "\r\n"])
def test_names_are_listed_in_every_way_there_is(front, names, newline) -> None:
    text = f"---\n{front}\n---\n# T\n".replace("\n", newline)
    assert list(listed_aliases(text)) == names


def test_what_goes_round_in_circles_is_read_line_by_line() -> None:
    circle = "---\naliases: &a [Teo, *a]\nb: {c: *a}\n---\n"
    assert listed_aliases(circle)[0] == "Teo"
    bomb = "".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert listed_aliases(f"---\nk0: &k0 x\n{bomb}aliases: [Teo]\n---\n") == ("Teo",)


@given(st.text(alphabet="ab: -\n\r#\"'[]{}|>&*!%~\ufeff\t,"))
def test_entries_lie_in_order_within_any_front_matter(body) -> None:
    text = f"---\n{body}\n---\nwords\n"
    front = read_front_matter(text)
    assert front is not None
    places = [front.start, *(p for e in front.entries for p in (e.start, e.end)), front.end]
    assert places == sorted(places)
    assert front.end <= body_start(text)
    assert text[front.end :].startswith("---")


@given(st.text())
def test_any_text_may_be_asked(text) -> None:
    value_of(text, "aliases")
    read_front_matter(f"---\n{text}\n---\n")
