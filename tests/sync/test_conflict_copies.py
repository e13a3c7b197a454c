"""The other version of a file in conflict is no second memory."""

from __future__ import annotations

from familiar_cli.store.memory.merge.files import Conflict, list_text
from familiar_cli.store.memory.pages.relations import build_graph
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.housekeeping.lines import read_corpus
from tests.support.world import data, live, run

COPY = "conflicts/people/anna"


def test_no_search_finds_a_copy() -> None:
    live(**{"people/anna": "# Anna\n\n- keeps bees\n", COPY: "# Anna\n\n- keeps wasps\n"})

    assert data("search", "bees")["hits"]
    assert not [hit for hit in data("search", "wasps")["hits"] if "conflicts" in str(hit)]


def test_neither_links_nor_housekeeping_see_a_copy() -> None:
    root = live(**{"people/anna": "# Anna\n", COPY: "# Anna\n\n[x](../gone.md)\n"})
    store = MemoryStore(root / "memory")

    assert not build_graph(store).broken
    assert [note.rel_path for note in read_corpus(store).notes] == ["people/anna.md"]


def test_moving_a_page_leaves_a_copy_as_it_is() -> None:
    text = "[Anna](../people/anna.md)\n"
    root = live(**{"people/anna": "# Anna\n", "notes": "[A](people/anna.md)\n", COPY: text})

    data("memory", "mv", "people/anna.md", "people/anne.md")

    assert (root / "memory/notes.md").read_text() == "[A](people/anne.md)\n"
    assert (root / f"memory/{COPY}.md").read_text() == text


def test_status_names_what_is_in_conflict() -> None:
    live(**{"people/anna": "# Anna\n", COPY: "# Anna!\n"})

    assert data("status")["desk"]["conflicts"] == ["people/anna.md"]
    assert "two versions each of people/anna.md" in run("status").stdout


def test_a_prompt_names_what_is_in_conflict_and_holds_no_copy() -> None:
    one = Conflict("people/anna.md", f"{COPY}.md", "lap-1", "desk-2", "", ("list item",))
    live(**{COPY: "# Anna\n\n- keeps wasps\n", "conflicts/README": list_text([one])})

    prompt = str(data("ask", "Does Anna keep wasps or bees?", "--dry-run", "--tier", "4"))

    assert "- people/anna.md (lap-1 / desk-2)" in prompt
    assert "- keeps wasps" not in prompt
    assert "(lap-1" not in str(data("ask", "Anna?", "--dry-run", "--tier", "3"))
