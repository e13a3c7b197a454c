"""What two machines disagree on is shown with both versions, and settled in one change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from familiar_cli.actions.share.sync_decisions import (
    open_conflicts,
    resolve,
    resolve_by_hand,
    to_edit,
)
from familiar_cli.base.errors import NotFoundError, RefusedError, UsageError
from familiar_cli.familiar import Familiar
from familiar_cli.store.memory.layout import CONFLICTS_LIST
from familiar_cli.store.memory.merge.files import Conflict, blob_id, list_text
from tests.support.world import home, live

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH, COPY = "people/anna.md", "conflicts/people/anna.md"
BASE = "# Anna\n\n- likes tea\n"
OURS = "# Anna\n\n- likes milk\n- sings\n"
THEIRS = "# Anna\n\n- likes coffee\n- dances\n"
JSON = "self/card.json"


@pytest.fixture
def ada() -> Iterator[Familiar]:
    live()
    with Familiar.load_from_disk(home(), "ada") as familiar:
        store = familiar.memory
        store.write_file(PATH, BASE)
        with store.transaction("sync", "merge") as tx:
            tx.write(PATH, OURS)
            tx.write(COPY, THEIRS)
            tx.write(JSON, "1")
            tx.write(f"conflicts/{JSON}", "2")
            tx.write(
                CONFLICTS_LIST,
                list_text(
                    [
                        Conflict(
                            PATH, COPY, "lap-1", "desk-2", blob_id(BASE.encode()), ("list item",)
                        ),
                        Conflict(JSON, f"conflicts/{JSON}", "lap-1", "desk-2", "", ("file",)),
                    ]
                ),
            )
        yield familiar


def test_each_conflict_is_shown_with_both_versions(ada: Familiar) -> None:
    first, second = open_conflicts(ada)

    assert (first.path, first.copy, first.ours, first.theirs) == (PATH, COPY, "lap-1", "desk-2")
    assert "-- likes milk\n" in first.diff
    assert "+- likes coffee\n" in first.diff
    assert second.what == ("file",)


@pytest.mark.parametrize(
    ("choice", "lines"),
    [
        ("ours", "- likes milk\n- sings\n"),
        ("theirs", "- likes coffee\n- sings\n- dances\n"),
        ("merged", "- likes milk\n- likes coffee\n- sings\n- dances\n"),
    ],
)
def test_what_both_agree_on_stays_whichever_version_is_chosen(
    ada: Familiar, choice: str, lines: str
) -> None:
    done = resolve(ada, PATH, choice)  # type: ignore[arg-type]

    assert ada.memory.read_file(PATH) == f"# Anna\n\n{lines}"
    assert not ada.memory.exists(COPY)
    assert done.left == 1
    assert [one.path for one in open_conflicts(ada)] == [JSON]


def test_what_was_written_since_stays_whichever_version_is_chosen(ada: Familiar) -> None:
    ada.memory.append_file(PATH, "- since then\n", source="memory_writer")

    resolve(ada, COPY, "theirs")

    assert ada.memory.read_file(PATH).endswith("- likes coffee\n- sings\n- since then\n- dances\n")


def test_all_are_settled_at_once_and_it_can_be_taken_back(ada: Familiar) -> None:
    resolve(ada, None, "theirs")

    assert ada.memory.read_file(JSON) == "2"
    assert not open_conflicts(ada)
    assert not ada.memory.exists(CONFLICTS_LIST)

    ada.past.undo(ada.past.log(limit=1)[0].commit.id)

    assert ada.memory.read_file(COPY) == THEIRS
    assert len(open_conflicts(ada)) == 2


def test_a_dry_run_changes_nothing(ada: Familiar) -> None:
    done = resolve(ada, PATH, "theirs", dry_run=True)

    assert "+- likes coffee\n" in done.files[0].diff
    assert ada.memory.read_file(PATH) == OURS
    assert len(open_conflicts(ada)) == 2


def test_what_is_no_text_cannot_hold_both(ada: Familiar) -> None:
    with pytest.raises(RefusedError, match="do not fit"):
        resolve(ada, JSON, "merged")


def test_of_all_what_cannot_hold_both_stays_and_stops_no_other(ada: Familiar) -> None:
    done = resolve(ada, None, "merged")

    assert [one.path for one in done.files] == [PATH]
    assert list(done.skipped) == [f"conflicts/{JSON}"]
    assert "do not fit into one file" in done.skipped[f"conflicts/{JSON}"]
    assert [one.path for one in open_conflicts(ada)] == [JSON]
    with pytest.raises(RefusedError):
        resolve(ada, None, "merged")
    assert resolve(ada, None, "theirs").left == 0
    assert ada.memory.read_bytes(JSON) == b"2"


def test_a_file_in_no_conflict_is_named(ada: Familiar) -> None:
    with pytest.raises(NotFoundError, match=r"notes\.md"):
        resolve(ada, "notes.md", "ours")


def test_a_person_writes_what_is_right(ada: Familiar) -> None:
    path, begin = to_edit(ada, PATH)
    assert (path, begin.count("likes")) == (COPY, 2)

    resolve_by_hand(ada, path, "# Anna\n\n- likes cocoa\n")

    assert ada.memory.read_file(PATH) == "# Anna\n\n- likes cocoa\n"
    assert not ada.memory.exists(COPY)


def test_an_empty_text_settles_nothing(ada: Familiar) -> None:
    with pytest.raises(UsageError, match="still in conflict"):
        resolve_by_hand(ada, PATH, " \n")
    assert ada.memory.exists(COPY)
