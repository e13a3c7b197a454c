"""Reminders and tasks, added and ticked off in a browser."""

from __future__ import annotations

import pytest

from tests.support.browsing import looking
from tests.support.world import live


@pytest.fixture
def root():
    return live("ada", reminders="# Reminders\n\n- [ ] call Anna\n- [x] water the fern\n")


def test_a_task_is_added_and_told_once(root) -> None:
    with looking() as client:
        answer = client.post("/desk/task", data={"text": "Mend <b>the</b> lamp", "at": ""})
        shown = client.get(answer.headers["location"])
        assert "Added: Mend &lt;b&gt;the&lt;/b&gt; lamp" in shown.text
        assert "Added:" not in client.get("/desk").text
    assert "- [ ] Mend <b>the</b> lamp" in (root / "memory" / "tasks.md").read_text()


def test_an_item_is_ticked_off_and_opened_again(root) -> None:
    path = root / "memory" / "reminders.md"
    with looking() as client:
        assert "water the fern" not in client.get("/desk").text
        client.post("/desk/reminder/1", data={"mark": "done"})
        assert "- [x] call Anna" in path.read_text()
        assert "water the fern" in client.get("/desk?all=on").text
        client.post("/desk/reminder/1", data={"mark": "open"})
        assert "- [ ] call Anna" in path.read_text()


@pytest.mark.parametrize(
    ("path", "form", "status"),
    [
        ("/desk/reminder", {"text": "", "at": "tomorrow"}, 400),
        ("/desk/reminder", {"text": "x", "at": "whenever"}, 400),
        ("/desk/task/99", {"mark": "done"}, 404),
        ("/desk/task/x", {"mark": "done"}, 400),
        ("/desk/task/1", {"mark": "lost"}, 400),
    ],
)
def test_what_cannot_be_done_changes_nothing(root, path, form, status) -> None:
    before = (root / "memory" / "reminders.md").read_bytes()
    with looking() as client:
        assert client.post(path, data=form).status_code == status
    assert (root / "memory" / "reminders.md").read_bytes() == before
    assert not (root / "memory" / "tasks.md").exists()


def test_a_reminder_that_has_become_due_is_told_on_one_page_and_comes_again(root) -> None:
    line = "- [ ] water the fern @2026-01-05 09:00 (every monday 9:00)\n"
    (root / "memory" / "reminders.md").write_text(line, "utf-8")
    told = "Reminder: water the fern (due since 2026-01-05 09:00)"
    with looking() as client:
        pages = [client.get(path).text for path in ("/", "/", "/desk")]
        assert [told in page for page in pages] == [True, False, False]
        assert "every monday 09:00" in pages[2]
        answer = client.post("/desk/reminder/1", data={"mark": "done"})
        shown = client.get(answer.headers["location"]).text
        assert "Done: water the fern, due again" in shown
