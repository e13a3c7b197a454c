"""`familiar me`: who speaks, wherever nobody else is named."""

from __future__ import annotations

import io
import json
import os
import tomllib

import pytest

from familiar_cli.base.who.identity import Author
from tests.support.cases import each
from tests.support.terminals import call
from tests.support.world import data, home, live, run
from tests.support.writing import NOTHING

LOGIN = "zqxlogin"
ABOUT = "{{user}} is a nurse.\nShe has two cats.\n"
FACT = {"op": "add_bullets", "section": "Facts", "lines": ["She likes tea."], "kind": "said"}


@pytest.fixture
def about(tmp_path):
    path = tmp_path / "anna.md"
    path.write_text(ABOUT, encoding="utf-8")
    return str(path)


@pytest.fixture
def login(monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, LOGIN)
    return Author("cli", LOGIN)


def lead(server) -> str:
    """Return the beginning of the prompt that was sent last."""
    return server.last.json()["messages"][0]["content"]


def sent(server) -> str:
    return "\n".join(request.body.decode() for request in server.requests)


def test_it_is_kept_at_the_home_and_shown_with_its_origin(about) -> None:
    run("me", "--name", "Anna", "--pronouns", "she/her")
    changed = data("me", "--description", about)
    shown = data("me")

    assert tomllib.loads((home() / "me.toml").read_text("utf-8")) == {
        "name": "Anna",
        "pronouns": "she/her",
        "description": ABOUT.strip(),
    }
    assert changed["changed"]
    assert (shown["name"], shown["account"], shown["changed"]) == ("Anna", "cli:user", False)
    assert set(shown["sources"].values()) == {"me.toml"}


def test_a_familiar_and_a_channel_have_it_their_own_way() -> None:
    live("ada")
    live("bo")
    run("me", "--name", "Anna", "--pronouns", "she/her")
    run("me", "--name", "Dr Bell", "--familiar", "ada")
    run("me", "--name", "Sir Galahad", "--familiar", "ada", "--channel", "castle")

    assert data("me", "--familiar", "bo")["name"] == "Anna"
    assert data("me", "--familiar", "ada")["sources"] == {
        "name": "character.toml",
        "description": "default",
        "pronouns": "me.toml",
    }
    there = data("me", "--familiar", "ada", "--channel", "castle")
    assert (there["name"], there["sources"]["name"]) == ("Sir Galahad", "channel")
    row = data("config", "show", "me.pronouns", "--familiar", "ada")
    assert (row["effective"], row["effective_source"]) == ("she/her", "me.toml")


def test_clear_leads_back_and_what_others_wrote_stays() -> None:
    root = live("ada")
    (root / "character.toml").write_text('# mine\nname = "Ada"\n', encoding="utf-8")
    run("me", "--name", "Anna")
    run("me", "--name", "Bell", "--familiar", "ada")

    assert run("me", "--clear", "--familiar", "ada").exit_code == 0
    assert data("me")["name"] == "Anna"
    assert (root / "character.toml").read_text("utf-8").startswith('# mine\nname = "Ada"\n')
    assert run("me", "--clear").exit_code == 0
    assert (data("me")["name"], data("me")["label"]) == ("", "User")
    assert run("me", "--clear").exit_code == 4
    assert run("me", "--clear", "--name", "x").exit_code == 2


def test_a_dry_run_changes_nothing() -> None:
    result = run("me", "--name", "Anna", "--dry-run")

    assert '+name = "Anna"' in result.stdout
    assert not (home() / "me.toml").exists()


def test_whoever_speaks_is_me_unless_somebody_is_named(serve) -> None:
    live("ada")
    serve("Hi.", "Hi.", "Hi.")
    run("me", "--name", "Anna")
    run("ask", "One")
    run("chat", stdin="Two\n")
    run("hear", "Three")
    run("ask", "Four", "--as", "discord:7", "--name", "Bo")

    turns = data("history", "show")["turns"]
    authors = [turn["author"] for turn in turns if turn["role"] == "user"]
    assert [author["display_name"] for author in authors] == ["Anna", "Anna", "Anna", "Bo"]
    assert {author["user_id"] for author in authors[:3]} == {"user"}


def test_a_prompt_tells_who_i_am_near_the_character(serve, about) -> None:
    root = live("ada")
    (root / "memory/self").mkdir()
    (root / "memory/self/description.md").write_text("# Description\n\nA lighthouse keeper.")
    server = serve("Hi.")
    run("me", "--name", "Anna", "--pronouns", "she/her", "--description", about)
    run("ask", "Hello")

    assert (
        "[About Anna]\nAnna is a nurse.\nShe has two cats.\nAnna's pronouns: she/her.\n\nA light"
    ) in lead(server)
    piece = next(p for p in data("context", "--last")["contributions"] if p["source"] == "me")
    assert (piece["layer"], piece["kept"]) == ("character", True)


def test_a_card_places_it_with_a_macro(serve, about) -> None:
    root = live("ada")
    (root / "memory/self").mkdir()
    (root / "memory/self/scenario.md").write_text("# Scenario\n\nBeside you: {{persona}}")
    server = serve("Hi.", "Hi.")
    run("me", "--name", "Anna", "--description", about)
    run("ask", "Hello")
    assert "Beside you: Anna is a nurse.\nShe has two cats." in lead(server)
    assert "[About" not in lead(server)

    run("ask", "Hello", "--as", "discord:7", "--name", "Bo")
    assert "nurse" not in lead(server)


def test_who_names_himself_later_is_the_same_person(serve) -> None:
    root = live("ada")
    fact = {**FACT, "file": "people/cli-user.md", "turns": [1]}
    server = serve("Hi.", "Hi.", json.dumps({"operations": [fact]}), "Hi.", "Hi.", NOTHING)
    run("channel", "set", "den", "--kind", "text")
    run("ask", "I like tea.", "--channel", "den")
    run("ask", "Well?", "--channel", "den")
    assert run("write-memory").exit_code == 0
    run("me", "--name", "Anna")
    run("ask", "And you?", "--channel", "den")
    run("ask", "Hm.", "--channel", "den", "--as", "discord:7", "--name", "Bo")

    assert "Anna: I like tea." in str(server.last.json()["messages"])
    assert run("write-memory").exit_code == 0
    assert "She likes tea." in run("people", "show", "Anna").stdout
    assert [path.name for path in (root / "memory/people").glob("cli-*")] == ["cli-user.md"]
    assert (root / "memory/people/cli-user.md").read_text("utf-8").startswith("# Anna\n")


def talk(root) -> None:
    """Let every kind of model call happen that is made of turns."""
    settings = 'timezone = "UTC"\n[history]\nrecent_turns = 2\nsummary_every = 2\n'
    (root / "character.toml").write_text(settings, encoding="utf-8")
    for n in range(4):
        assert run("ask", f"Remark {n} on my bees.").exit_code == 0
    run("ask", "Hm.", "--as", "discord:7", "--name", "Bo")
    assert run("again").exit_code == 0
    assert run("chat", stdin="And now?\n").exit_code == 0
    for argv in (["write-memory"], ["consolidate", "daily"], ["distill", "short"]):
        run(*argv)


@pytest.mark.parametrize("name", ["", "Anna"])
def test_no_model_is_ever_shown_the_login_name(serve, login, name) -> None:
    root = live("ada")
    bees = {**FACT, "lines": ["She keeps bees."], "file": "people/cli-user.md", "turns": [1]}
    servers = [serve("Hello.")]
    if name:
        run("me", "--name", name)
    talk(root)
    servers.append(serve(json.dumps({"operations": [bees]})))
    assert run("write-memory", "--all").exit_code == 0
    servers.append(serve("Hello."))
    talk(root)

    seen = "\n".join(map(sent, servers))
    assert "She keeps bees." in seen
    assert LOGIN not in seen
    assert (name or "User") in seen
    accounts = {t["author"]["user_id"] for t in data("history", "show")["turns"] if t["author"]}
    assert accounts == {"user", "7"}


def test_personas_of_sillytavern_can_be_taken(tmp_path) -> None:
    settings = {
        "user_avatar": "a.png",
        "power_user": {
            "personas": {"a.png": "Anna", "b.png": "Sir Galahad"},
            "persona_descriptions": {"b.png": {"description": "A knight."}},
        },
    }
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(settings))

    assert data("me", "--from-sillytavern", str(path))["name"] == "Anna"
    taken = data("me", "--from-sillytavern", str(path), "--name", "sir galahad")
    assert (taken["name"], taken["description"]) == ("Sir Galahad", "A knight.")
    assert run("me", "--from-sillytavern", str(path), "--name", "Bo").exit_code == 4


@each(("content", "code"), [(b"\xff\xfe\x00", 5), (b"x" * 30_000, 5), (None, 4)])
def test_a_description_that_cannot_be_used_changes_nothing(tmp_path, content, code) -> None:
    path = tmp_path / "me.md"
    if content is not None:
        path.write_bytes(content)

    assert run("me", "--description", str(path)).exit_code == code
    assert not (home() / "me.toml").exists()


def at_terminal(*argv: str) -> str:
    """Run a command of a person at a terminal, and return what it told on stderr."""
    import pty  # not on Windows

    main, other = pty.openpty()
    with (
        os.fdopen(other, "w", encoding="utf-8") as told,
        open(os.ttyname(other), encoding="utf-8") as typed,  # noqa: PTH123
    ):
        call(argv, stdout=io.TextIOWrapper(io.BytesIO()), stderr=told, stdin=typed)
        told.write("end")
        told.flush()
        got = os.read(main, 65536).decode()
    os.close(main)
    return got


@pytest.mark.posix
def test_the_first_message_at_a_terminal_tells_once_how_to_say_who_one_is(serve) -> None:
    live("ada")
    serve("Hi.")
    piped = run("ask", "Hello", "--off-record")
    first, second = (at_terminal("ask", text, "--no-background") for text in ("One", "Two"))

    assert "familiar me" not in piped.stderr
    assert "You are called 'User'; `familiar me --name NAME` says who you are." in first
    assert "familiar me" not in second


@pytest.mark.posix
def test_who_has_a_name_is_told_nothing(serve) -> None:
    live("ada")
    serve("Hi.")
    run("me", "--name", "Anna")

    assert "familiar me" not in at_terminal("ask", "One", "--no-background")


@pytest.fixture
def scott(about):
    live("ada")
    run("me", "--name", "Anna", "--pronouns", "she/her")
    run("me", "--as", "scott", "--name", "Scott", "--description", about, "--also", "discord:77")


def test_another_owner_is_shown_changed_and_removed(scott) -> None:
    assert data("me")["owners"] == ["scott"]
    shown = data("me", "--as", "scott", "--pronouns", "he/him")
    assert (shown["name"], shown["pronouns"], shown["account"], shown["also"]) == (
        "Scott",
        "he/him",
        "cli:scott",
        ["discord:77"],
    )
    run("me", "--as", "holly", "--pronouns", "she/her")
    assert data("me", "--as", "holly")["label"] == "holly"
    assert run("me", "--clear", "--as", "scott").exit_code == 0
    assert run("me", "--as", "scott").exit_code == 4
    assert (data("me")["name"], data("me")["owners"]) == ("Anna", ["holly"])


@pytest.mark.parametrize("given", [("--as", "scott"), ("--as", "cli:scott"), ("--as=discord:77",)])
def test_another_owner_speaks_with_a_persona_of_their_own(scott, serve, given) -> None:
    server = serve("Hi.", "Hi.")
    run("ask", "Hello", *given)
    assert "[About Scott]\nScott is a nurse." in lead(server)
    assert "she/her" not in sent(server)
    run("ask", "Hello")
    assert "Anna's pronouns: she/her" in lead(server)
    assert "a nurse" not in lead(server)


def test_accounts_of_owners_have_their_names(scott) -> None:
    run("hear", "I like coffee.", "--as", "scott")
    run("hear", "So do I.", "--as", "discord:77")
    run("hear", "I like tea.")
    turns = data("history", "show")["turns"]
    assert [turn["author"]["user_id"] for turn in turns] == ["scott", "77", "user"]
    people = {one["slug"]: one["name"] for one in data("people", "ls")["people"]}
    assert people == {"cli-user": "Anna", "cli-scott": "Scott", "discord-77": "Scott"}


def test_nobody_can_forget_an_owner(scott) -> None:
    for account in ("cli:user", "cli:scott", "discord:77"):
        run("hear", "Hello", "--as", account)
        assert run("people", "forget", account, "--yes").exit_code == 5
    assert len(data("history", "show")["turns"]) == 3


def test_who_cannot_be_an_owner_is_one_clear_error(scott) -> None:
    refused = {
        ("me", "--as", "user", "--name", "x"): 2,
        ("me", "--as", "Scott", "--name", "x"): 2,
        ("me", "--as", "a:b", "--name", "x"): 2,
        ("me", "--as", "scott", "--familiar", "ada", "--name", "x"): 2,
        ("me", "--as", "scott", "--channel", "den", "--name", "x"): 2,
        ("me", "--also", "discord:77"): 2,
        ("me", "--as", "holly", "--also", "discord:77"): 2,
        ("me", "--clear", "--as", "holly"): 4,
        ("ask", "Hello", "--as", "holly"): 2,
        ("hear", "Hello", "--as", "holly"): 2,
    }
    before = (home() / "me.toml").read_bytes()
    assert {argv: run(*argv).exit_code for argv in refused} == refused
    assert (home() / "me.toml").read_bytes() == before


def test_a_chat_goes_on_as_another_owner(scott, serve) -> None:
    serve("Hi.", "Hi.")
    run("chat", "--as", "scott", stdin="One\n")
    run("chat", stdin="/as scott\nTwo\n")
    turns = data("history", "show")["turns"]
    assert [t["author"]["user_id"] for t in turns if t["role"] == "user"] == ["scott", "scott"]
