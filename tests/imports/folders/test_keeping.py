"""Where originals are kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.text import fold
from familiar_cli.imports.folders import is_plain, kept_paths
from familiar_cli.store.memory.store.files import parse_new_path

_NAMES = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=300).filter(
    lambda name: name not in {".", ".."}
)
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join)


@given(st.sets(_PATHS, max_size=8))
def test_any_name_has_a_place_of_its_own_on_every_system(sources) -> None:
    made = kept_paths(sources, "self/.persona")
    assert set(made) == sources
    assert len({fold(path) for path in made.values()}) == len(sources)
    for path in made.values():
        assert parse_new_path(path) == path


def test_a_usual_name_stays_as_it_is() -> None:
    assert kept_paths(["notes/Åse 1.md"], "k") == {"notes/Åse 1.md": "k/notes/Åse 1.md"}


def test_names_that_differ_in_case_only_are_two_files() -> None:
    assert len(set(map(fold, kept_paths(["a.md", "A.md"], "k").values()))) == 2


def test_what_windows_or_a_terminal_cannot_show_is_encoded() -> None:
    made = kept_paths(["con.md", "a:b.md", "x\u202e.md", "\udcff.md", ".git/x"], "k")
    assert sorted(made.values()) == [
        "k/%2Egit/x",
        "k/%63on.md",
        "k/%FF.md",
        "k/a%3Ab.md",
        "k/x%E2%80%AE.md",
    ]


def test_only_a_plain_name_may_stand_in_memory_itself() -> None:
    plain = ["daily/2026-01-01_x.md", ".hidden.md", "a:b.md", "_x.md", "a/../b.md", "x\u200b.md"]
    assert [is_plain(name) for name in plain] == [True, False, False, False, False, False]
