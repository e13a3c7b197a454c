"""Macros of cards: what each becomes, and that nothing else becomes anything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.context.character import MAX_ADDED_CHARS, Macros
from tests.support.cases import each

MACROS = Macros(char="Aria", user="Zoë", seed="turn 1", pick_seed="aria")


@each(
    ("text", "becomes"),
    [
        ("{{char}} and {{user}}", "Aria and Zoë"),
        ("{{CHAR}} {{ User }}", "Aria Zoë"),
        ("<BOT> <char> <User>", "Aria Aria Zoë"),
        ("{{{char}}}", "{Aria}"),
        ("{{// a note for authors}}Hi", "Hi"),
        ("{{comment: hidden}}Hi", "Hi"),
        ("{{reverse:abc}}", "cba"),
        ("{{reverse:to {{user}}}}", "ëoZ ot"),
        ("one\n\n{{trim}}\n\ntwo", "onetwo"),
        ("{{random:only}}", "only"),
        ("{{random::a, b}}", "a, b"),
        (r"{{pick:a\, b}}", "a, b"),
        ("{{random:{{char}},{{CHAR}}}}", "Aria"),
        ("{{roll:1}} {{roll:d1}} {{roll:3d1}}", "1 1 3"),
        ("{{roll:none}} {{roll:0}}", "{{roll:none}} {{roll:0}}"),
        ("{{getvar::mood}} {{unknown}}", "{{getvar::mood}} {{unknown}}"),
        ("{{mood:{{char}}}}", "{{mood:Aria}}"),
        ("{{ and }} and {{char}", "{{ and }} and {{char}"),
        ("a < b <START>", "a < b <START>"),
        ("{{original}}", "{{original}}"),
    ],
)
def test_a_macro_becomes(text, becomes) -> None:
    assert MACROS.expand(text) == becomes


def test_original_is_taken_in_once_and_expanded() -> None:
    text = MACROS.expand("{{ORIGINAL}} Then: {{original}}.", original="You are {{char}}.")

    assert text == "You are Aria. Then: ."


def test_names_are_never_read_as_macros() -> None:
    sly = Macros(char="{{user}}", user="{{random:a,b}}, {{char}} <USER>")

    assert sly.expand("{{char}}|{{random:{{user}}}}") == "{{user}}|{{random:a,b}}, {{char}} ‹USER›"


def test_a_comma_in_a_name_parts_no_list() -> None:
    assert Macros(char="A", user="Zoë, M.D.").expand("{{random:{{user}}}}") == "Zoë, M.D."


def test_the_same_turn_draws_the_same() -> None:
    text = "{{random:a,b,c,d,e,f,g}}{{roll:d1000}}"

    assert MACROS.expand(text) == MACROS.expand(text)


def test_another_turn_draws_anew() -> None:
    drawn = {Macros("A", "B", seed=str(turn)).expand("{{roll:1000}}") for turn in range(20)}

    assert len(drawn) > 10


def test_pick_stays_from_turn_to_turn() -> None:
    text = "{{pick:a,b,c,d,e,f}} {{pick:a,b,c,d,e,f}}"
    picked = {Macros("A", "B", seed=str(turn), pick_seed="x").expand(text) for turn in range(20)}

    assert len(picked) == 1


def test_deep_nesting_ends() -> None:
    MACROS.expand("{{reverse:" * 20_000 + "x" + "}}" * 20_000)


@given(st.text(alphabet="ab{}<>:,/ \n"))
def test_text_without_known_macros_stays(text) -> None:
    assert Macros(char="Aria", user="Zoë").expand(text.replace("//", "/")) == text.replace(
        "//", "/"
    )


def test_texts_that_name_each_other_do_not_grow_without_end() -> None:
    names = ("description", "personality", "scenario", "mesexamples")
    fields = {name: f"{{{{{names[n - 3]}}}}}" * 400 for n, name in enumerate(names)}
    told = Macros("Ada", "Bo", fields=fields).expand("{{description}} {{char}}")
    assert len(told) < 2 * MAX_ADDED_CHARS
    assert told.endswith("Ada")
