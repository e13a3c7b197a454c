"""Sync on the page: a button that syncs, and both versions of what machines disagree about."""

from __future__ import annotations

import pytest

from tests.cli.test_sync import Home, first, hub, made  # noqa: F401  # fixtures
from tests.servers.web.test_pages import words
from tests.support.browsing import looking
from tests.support.cases import each
from tests.support.world import home, run

TEA, COPY = "topics/tea.md", "conflicts/topics/tea.md"


@pytest.fixture
def here(first: Home, hub) -> Home:  # noqa: F811
    """The machine whose page is looked at; the other one is `first`."""
    first.run("sync")
    begun = run("init", "ada", "--from-remote", str(hub))
    assert begun.exit_code == 0, made.output
    return Home(home())


@pytest.fixture
def client(here):
    with looking() as found:
        yield found


@pytest.fixture
def apart(first: Home, here: Home) -> Home:  # noqa: F811
    """The machine of the page, with one line changed there and elsewhere."""
    (first.memory / TEA).write_text("# Tea\n\n- green, not black\n")
    (here.memory / TEA).write_text("# Tea\n\n- green with mint\n")
    first.run("sync")
    return here


def press(client, address: str, **form: str):
    """Press a button as a browser does, and return the page that comes."""
    answer = client.post(address, data=form)
    assert answer.status_code == 303, answer.text
    return client.get(answer.headers["location"])


def test_what_others_did_comes_with_a_button(client, first, here) -> None:  # noqa: F811
    first.append("topics/rain.md", "# Rain\n\n- falls in Bergen\n")
    first.run("sync")
    assert 'action="/sync/now"' in client.get("/sync").text
    told = words(press(client, "/sync/now"))
    assert "wrote 1 file" in told
    assert "falls in Bergen" in (here.memory / "topics/rain.md").read_text()
    assert "nothing new" in words(press(client, "/sync/now"))


def test_what_was_done_here_goes_out_with_a_button(client, first, here) -> None:  # noqa: F811
    here.append("topics/snow.md", "# Snow\n\n- melts\n")
    assert "pushed" in words(press(client, "/sync/now"))
    first.run("sync")
    assert (first.memory / "topics/snow.md").exists()


def test_a_remote_that_is_gone_is_told(client, hub) -> None:  # noqa: F811
    hub.rename(hub.with_name("moved.git"))
    page = press(client, "/sync/now")
    assert page.status_code == 200
    assert 'class="callout"' in page.text
    assert "hub.git" in words(page)


def test_a_familiar_without_remotes_is_told_how_to_get_one(here) -> None:
    here.run("sync", "remote", "rm", "hub")
    with looking() as client:
        assert 'action="/sync/now"' not in client.get("/sync").text
        answer = client.post("/sync/now")
    assert answer.status_code == 404
    assert "familiar sync remote add" in answer.text


@pytest.mark.parametrize(("choice", "count"), [("file", 1), ("copy", 1), ("merged", 2)])
def test_a_conflict_is_settled_with_a_button(apart, client, first, choice, count) -> None:  # noqa: F811
    page = press(client, "/sync/now")
    assert "Two machines changed the same lines" in words(page)
    versions = {"green with mint", "green, not black"}
    assert {line for line in versions if line in page.text} == versions
    before = (apart.memory / TEA).read_text()
    page = press(client, "/sync/settle", path=COPY, choice=choice)
    assert f"Resolved: {COPY}" in words(page)
    assert "Two machines" not in words(page)
    text = (apart.memory / TEA).read_text()
    assert (sum(line in text for line in versions), text == before) == (count, choice == "file")

    press(client, "/sync/now")
    first.run("sync")
    assert (first.memory / TEA).read_text() == text
    assert not list((first.memory / "conflicts").rglob("*.md"))


@each(
    "form",
    [
        {"path": COPY, "choice": "mine"},
        {"path": COPY},
        {"path": "topics/nothing.md", "choice": "file"},
        {"path": "../../x", "choice": "file"},
    ],
)
def test_a_choice_that_is_none_changes_nothing(apart, client, form) -> None:
    press(client, "/sync/now")
    before = apart.files()
    assert client.post("/sync/settle", data=form).status_code in {400, 404, 409}
    assert apart.files() == before


def test_what_others_did_is_undone_only_with_a_yes(client, first, here) -> None:  # noqa: F811
    first.append("topics/rain.md", "# Rain\n\n- falls in Bergen\n")
    first.run("sync")
    press(client, "/sync/now")
    assert 'name="yes"' in client.get("/journal/HEAD").text
    assert client.post("/journal/HEAD/undo").status_code == 409
    assert (here.memory / "topics/rain.md").exists()
    press(client, "/journal/HEAD/undo", yes="1")
    assert not (here.memory / "topics/rain.md").exists()
