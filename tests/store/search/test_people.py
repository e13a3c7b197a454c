"""Whom a question names, in every script, and which files are preferred for it."""

from __future__ import annotations

import numpy as np
import pytest

from familiar_cli.store import fts
from familiar_cli.store.search.embedder import Encoded
from familiar_cli.store.search.weights import WEIGHTS
from familiar_cli.store.search.who_when import named_in, named_shares, people_among, people_named


def talk(*speakers: str, about: str = "the garden") -> str:
    lines = [f"**{speaker}:** We spoke of {about}." for speaker in speakers * 2]
    return "# 2026-01-03, evening\n\n" + "\n\n".join(lines) + "\n"


def named(world, query: str) -> dict[str, float]:
    """Return the share of those named by path; files without any are left out."""
    world.index.refresh()
    paths = dict(world.rows("SELECT id, rel_path FROM documents"))
    found = world.index.use(lambda c: named_shares(c, people_named(c, query), set(paths)))
    return {paths[id_]: share for id_, share in found.items() if share}


@pytest.fixture
def two(world):
    world.put("sessions/a.md", talk("Anna", "Bo"))
    world.put("sessions/b.md", talk("Cleo", "Bo"))
    return world


def test_a_file_in_which_who_is_named_speaks_is_preferred(two) -> None:
    assert two.paths("What did Cleo say of the garden?") == ["sessions/b.md", "sessions/a.md"]
    assert two.paths("What did Anna say of the garden?") == ["sessions/a.md", "sessions/b.md"]


def test_the_share_of_those_who_are_named_counts(two) -> None:
    assert named(two, "Did Bo and Anna agree?") == {"sessions/a.md": 1, "sessions/b.md": 0.5}


def test_the_share_is_shown_and_added_once(two) -> None:
    best, other = two.ask("What did Cleo say of the garden?").hits
    assert (best.signals.people, other.signals.people) == (1, 0)
    gain = best.signals.relevance - other.signals.relevance
    assert gain >= WEIGHTS.people


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("Where does Josephine paint?", {"josephine"}),
        ("What did Jos paint with Anna Berg?", {"jos", "anna", "berg"}),
        ("Where was the berg?", {"berg"}),
        ("Who paints?", set()),
    ],
)
def test_the_words_that_are_names_are_known(query, names) -> None:
    named = people_among(["Josephine", "Anna Berg", ""], query)
    assert named.words_among(fts.content_words(query)) == names


def test_a_question_loses_no_more_than_names() -> None:
    rows = np.eye(4, dtype=np.float32)
    asked = Encoded(rows[:2], rows, (1, 3), ("anna", "bo", "lives", "where"))
    assert asked.without({"anna", "bo"}).words == ("lives", "where")
    assert asked.without({"anna", "bo"}).counts == (0, 2)
    assert asked.without({"bo"}).tokens.tolist() == rows[[0, 2, 3]].tolist()
    assert asked.without(asked.words) is asked


@pytest.mark.parametrize("query", ["Who knows the garden?", "did she sing?", "?"])
def test_a_question_that_names_nobody_prefers_no_file(two, query) -> None:
    assert named(two, query) == {}


@pytest.mark.parametrize(
    ("label", "query"),
    [
        ("Zoë", "what does zoë like"),
        ("Zoë Smith", "What does Zoë like?"),
        ("Josephine", "What did Jos paint?"),
        ("さくら", "さくらは何が好き？"),
        ("田中", "昨日田中さんは何と言った？"),
        ("지민", "지민은 뭘 좋아해?"),
        ("سارة", "ماذا قالت سارة؟"),
        ("Аня", "что сказала аня"),
        ("अनिल", "अनिल ने क्या कहा"),
    ],
)
def test_a_speaker_is_known_by_name_in_every_script(world, label, query) -> None:
    world.put("sessions/a.md", talk(label, "Bo"))
    world.put("sessions/b.md", talk("Cleo", "Bo"))
    assert named(world, query) == {"sessions/a.md": 1}


def test_an_alias_stands_for_whoever_speaks_under_another_name(two) -> None:
    two.put("people/cli-anna.md", "# Anna\n\n## Aliases\n\n- Nani\n")
    found = named(two, "What did Nani say?")
    assert found == {"people/cli-anna.md": 1, "sessions/a.md": 1}


def test_who_only_shares_a_word_of_a_name_is_another(world) -> None:
    world.put("people/cli-anna.md", "# Anna Berg\n\n## Aliases\n\n- Nani\n")
    world.put("sessions/b.md", talk("Cleo Berg", "Bo"))
    assert named(world, "What did Nani say?") == {"people/cli-anna.md": 1}


def test_a_word_that_is_also_a_name_needs_its_capital(world) -> None:
    world.put("sessions/a.md", talk("Rose", "Bo"))
    assert named(world, "the price of milk rose") == {}
    assert named(world, "What does Rose like?") == {"sessions/a.md": 1}


def test_what_is_no_conversation_tells_of_whom_it_names(world) -> None:
    world.put("people/cli-anna.md", "# Anna\n")
    world.put("people/cli-sakura.md", "# さくら\n")
    world.put("sessions/a.md", "# 2026-01-03, evening\n\n- Anna keeps bees.\n")
    world.put("sessions/b.md", "# 2026-01-04, evening\n\n- さくらはお茶が好き。\n")
    world.put("sessions/c.md", "# 2026-01-05, evening\n\n- Likes: tea\n- Born: in Oslo\n")
    assert named(world, "Where is Anna?") == {"people/cli-anna.md": 1, "sessions/a.md": 1}
    assert named(world, "さくらは？") == {"people/cli-sakura.md": 1, "sessions/b.md": 1}
    assert named(world, "Where was she born?") == {}


def test_who_is_only_spoken_of_in_a_conversation_holds_none_of_it(two) -> None:
    two.put("sessions/b.md", talk("Cleo", "Bo", about="Anna"))
    assert named(two, "Where is Anna?") == {"sessions/a.md": 1}


def test_who_spoke_in_a_file_that_is_gone_is_not_known_any_more(two) -> None:
    two.index.refresh()
    (two.root / "sessions/b.md").unlink()
    assert named(two, "Where is Cleo?") == {}


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("昨日は青森港まで行った", ["topics/harbour.md"]),
        ("明天我们去茶馆吧", ["topics/tea.md"]),
        ("茶馆在青森港旁边", ["topics/harbour.md", "topics/tea.md"]),
        ("青森は寒い", []),
        ("Where is 茶馆?", ["topics/tea.md"]),
        ("茶 馆", []),
    ],
)
@pytest.mark.parametrize(
    "before", ["", "あの日のことはいまでもよくおぼえているつもりだけれども" * 2]
)
def test_titles_within_words_of_scripts_without_spaces_are_named(
    world, text, paths, before
) -> None:
    world.put("topics/harbour.md", "# 青森港\n\n- cold\n")
    world.put("topics/tea.md", "# 茶馆\n\n- green\n")
    world.index.refresh()
    known = dict(world.rows("SELECT id, rel_path FROM documents"))
    found = world.index.use(lambda c: named_in(c, before + text))
    assert sorted(known[id_] for id_ in found) == paths
