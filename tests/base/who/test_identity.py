"""Names of people and familiars are safe as file names and never mix two up."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from familiar_cli.base.errors import UsageError
from familiar_cli.base.text import slugify
from familiar_cli.base.who.identity import (
    NEUTRAL,
    Author,
    Labels,
    Me,
    check_familiar_id,
    parse_author,
)
from tests.support.cases import each

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(ids, ids)
def test_two_people_never_share_a_file(one, other) -> None:
    same = Author("cli", one).slug == Author("cli", other).slug
    assert same == (one == other)


@given(ids)
def test_a_persons_file_name_is_plain_ascii_without_separators(user_id) -> None:
    slug = Author("discord", user_id).slug
    assert slug.isascii()
    assert not set(slug) & set('/\\:.*?"<>| ')


def test_the_case_of_an_id_is_kept() -> None:
    assert Author("x", "AbC").slug == "x-AbC"


def test_the_best_name_there_is_shown() -> None:
    assert Author("x", "1", "user", "Display").label == "Display"
    assert Author("x", "1", "user").label == "user"
    assert Author("x", "1").label == "1"


@each(
    ("text", "platform", "user_id"),
    [("discord:42", "discord", "42"), ("CLI: me ", "cli", "me"), ("irc:a:b", "irc", "a:b")],
)
def test_an_author_is_read_from_platform_and_id(text, platform, user_id) -> None:
    assert parse_author(text) == Author(platform, user_id)


@each("text", ["", "me", ":", "x:", ":1", "a b:1", "../x:1", "é:1"])
def test_what_names_nobody_is_refused_with_an_example(text) -> None:
    with pytest.raises(UsageError) as caught:
        parse_author(text)
    assert "PLATFORM:ID" in caught.value.hint


@example("COM0")
@given(st.text(max_size=70))
def test_a_familiars_id_is_always_its_own_slug(name) -> None:
    slug = slugify(name)
    is_device = re.fullmatch(r"con|prn|aux|nul|(com|lpt)[0-9]", slug)
    accepted = slug if slug and not is_device else "ada"
    assert check_familiar_id(accepted) == accepted


@each("name", ["", "Ada", "a b", "../a", "a/b", "a.b", "-a", "a--b", "con", "com1"])
def test_what_could_be_a_path_or_a_device_is_no_id(name) -> None:
    with pytest.raises(UsageError, match="not a valid familiar id"):
        check_familiar_id(name)


@given(ids, st.sampled_from(["", "Anna"]), st.booleans())
def test_another_account_is_no_name_of_mine(user_id, name, has_namesake) -> None:
    mine = Author("cli", f"zqx{user_id}")
    me = Me(mine, name, slugs=frozenset({NEUTRAL.slug, mine.slug}))
    namesake = [Author("discord", "7", display_name=name or "User")] if has_namesake else []
    labels = Labels(frozenset({mine, NEUTRAL, *namesake}), me=me)

    assert labels.of(mine) == labels.of(NEUTRAL)
    assert labels.of(mine).startswith(name or "User")
    assert ("(cli user)" in labels.of(mine)) == has_namesake
    assert "zqx" not in labels.of(mine) + labels.me.handle(mine.slug)
