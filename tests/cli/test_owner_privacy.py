"""What the owner says in private is told to nobody else, as what anybody says in private."""

from __future__ import annotations

import json
import re

import pytest

from familiar_cli.actions.talk.channels import audience_for, hear
from familiar_cli.base.errors import NotFoundError
from familiar_cli.base.who.identity import Author
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar
from familiar_cli.llm.types import Completion, ScriptedModel
from familiar_cli.servers.mcp.reading_tools import why
from familiar_cli.servers.mcp.tool import Caller, see
from tests.support.world import data, home, live, run

ANNA = ("--as", "discord:42", "--name", "Anna", "--channel", "general")
ASKED = "What do you know of zanzibar, of quokkas and of the bees?"


class Writer(ScriptedModel):
    """Answers, and writes down that somebody spoke of zanzibar, from turn 1."""

    def __init__(self):
        super().__init__([], context_tokens=16_000)

    async def complete(self, request, on_text=None):
        self.requests.append(request)
        user = json.loads(request.body)["messages"][-1]["content"]
        if "<turns>" not in user:
            return Completion("I will remember.", "stop", self.name, None)
        operations = [
            {"op": "add_bullets", "file": "people/cli-user.md", "lines": ["zanzibar"], "turns": [1]}
        ]
        for path, first in re.findall(r"^- (sessions/\S+): turns (\d+)", user, re.MULTILINE):
            said = re.search(rf"^\[{first}\].*: (.*)", user, re.MULTILINE)[1]
            summary = {"op": "set_summary", "file": path, "lines": [said], "turns": [int(first)]}
            operations.append(summary)
        return Completion(json.dumps({"operations": operations}), "stop", self.name, None)


@pytest.fixture
def model(monkeypatch):
    scripted = Writer()
    monkeypatch.setattr("familiar_cli.llm.open.open_model", lambda *_, **__: scripted)
    return scripted


@pytest.fixture
def robin(model):
    live()
    assert run("me", "--name", "Robin").exit_code == 0
    assert run("ask", "My word is zanzibar, and I like zebras").exit_code == 0
    return home() / "ada"


def prompt(*argv) -> str:
    shown = run("ask", ASKED, *argv, "--dry-run", "--json")
    assert shown.exit_code == 0, shown.output
    return shown.stdout.replace(ASKED, "")


def page(path: str, text: str) -> None:
    assert run("memory", "write", path, text).exit_code == 0


def test_one_pass_writes_a_public_session_apart_from_the_owners(robin) -> None:
    for name in ("anna", "bo", "cy"):
        run("hear", f"{name} bakes bread", "--as", f"discord:{name}", "--channel", "town")
    assert run("write-memory", "--newest").exit_code == 0
    assert run("review", "apply", "--all").exit_code == 0
    (apart,) = robin.glob("memory/sessions/@all/*.md")
    whole = (robin / "memory/sessions" / apart.name).read_text()
    assert ("bakes bread" in apart.read_text(), "zanzibar" in apart.read_text()) == (True, False)
    assert all(word in whole for word in ("zanzibar", "bakes bread"))
    familiar = Familiar.load_from_disk(home(), "ada")
    seen = see(Caller(familiar), f"sessions/{apart.name}")
    assert (seen.text in apart.read_text(), seen.file.rel_path) == (True, f"sessions/{apart.name}")
    assert run("channel", "set", "hall", "--kind", "text").exit_code == 0
    dry = ("ask", "Who bakes bread?", "--channel", "hall", "--dry-run", "--json")
    assert apart.relative_to(robin / "memory").as_posix() in run(*dry).stdout
    assert "@all" not in run(*dry, "--as", "discord:anna").stdout
    assert run("ask", "Bread?", "--as", "discord:anna", "--channel", "town").exit_code == 0
    for path in (f"sessions/@all/{apart.name}", f"./sessions/@all/{apart.name}"):
        with pytest.raises(NotFoundError, match="no memory file"):
            why(Caller(familiar), {"subject": path})
    assert "@all" not in str(why(Caller(familiar), {"subject": f"sessions/{apart.name}"}))


def test_a_strangers_search_does_not_tell_that_private_turns_wait(robin) -> None:
    argv, shown = ("search", "zebras", "--as", "discord:anna", "--json"), list[dict[str, object]]()
    for _ in range(2):
        shown.append(json.loads(run(*argv).stdout)["data"] | {"elapsed_ms": 0})
        assert run("write-memory", "--newest").exit_code == 0
    assert shown[0] == shown[1]


def test_a_strangers_prompt_holds_nothing_that_the_owner_said(robin) -> None:
    assert "zanzibar" in prompt()
    assert "zanzibar" not in prompt(*ANNA)


def test_a_line_is_as_private_as_the_turns_that_it_cites(robin) -> None:
    page("people/cli-user.md", "# Robin\n\n## Facts\n\n- Says zanzibar. <!-- turns 1 -->\n")
    assert "Says zanzibar" in prompt()
    assert "Says zanzibar" not in prompt(*ANNA)


@pytest.mark.parametrize(("heading", "is_told"), [("See also", True), ("People", False)])
def test_a_link_that_a_person_typed_is_told(robin, heading, is_told) -> None:
    page("people/discord-bo.md", "# Bo\n")
    link = f"## {heading}\n\n- [Bo](../people/discord-bo.md)\n"
    text = f"# Bees\n\n- Says zanzibar. <!-- turns 1 -->\n- Bees swarm.\n\n{link}"
    page("topics/bees.md", text)
    familiar = Familiar.load_from_disk(home(), "ada")
    assert (heading in see(Caller(familiar), "topics/bees.md").text) == is_told


def test_doctor_names_what_somebody_is_called_in_private_alone(robin) -> None:
    def hear(words: str, who: str, channel: str) -> None:
        assert run("hear", words, "--as", f"discord:{who}", "--channel", channel).exit_code == 0

    hear("Call me Larkspur, and Lark", "anna", "dm-7")
    for who in ("anna", "bo", "cy", "anna"):
        hear("Here I am Lark", who, "town")
    page("people/discord-anna.md", "# Anna\n\n## Aliases\n\n- Larkspur\n- Lark\n- Annie\n")
    said = run("doctor").output
    assert ("'Larkspur'" in said, "'Lark'" in said, "'Annie'" in said) == (True, False, False)


def test_the_desk_is_the_owners(robin) -> None:
    assert run("todo", "add", "feed the quokkas").exit_code == 0
    page("notes.md", "# Notes\n\nAbout quokkas and zanzibar.\n")
    page("significant/2026-01-02_trip.md", "# Trip\n\nTo the quokkas of zanzibar.\n")
    assert "quokkas" in prompt()
    assert "quokkas" not in prompt(*ANNA)


def test_what_a_person_types_is_told_until_they_keep_it_to_themselves(robin) -> None:
    page("topics/bees.md", "# Bees\n\nThe bees are kept by Bo.\n")
    assert "kept by Bo" in prompt(*ANNA)
    assert run("memory", "unpublish", "topics/bees.md").exit_code == 0
    assert "kept by Bo" not in prompt(*ANNA)
    assert "kept by Bo" in prompt()
    assert run("memory", "publish", "topics/bees.md").exit_code == 0
    assert "kept by Bo" in prompt(*ANNA)
    assert (robin / "memory" / "topics" / "bees.md").read_text().startswith("# Bees <!-- public")


def test_status_and_doctor_say_what_others_hear_once_others_have_spoken(robin) -> None:
    page("topics/bees.md", "# Bees\n\nThe bees are kept by Bo.\n")
    page("people/cli-user.md", "# Robin\n\n## Facts\n\n- Says zanzibar. <!-- turns 1 -->\n")
    assert data("status")["audience"] == {"notes": [], "withheld": [], "is_room_open": False}
    run("hear", "Hello", *ANNA)
    told = {"notes": ["topics/bees.md"], "withheld": ["people/cli-user.md"], "is_room_open": False}
    assert data("status")["audience"] == told
    shown = " ".join(run("doctor").output.split())
    for path, command in (("topics/bees.md", "unpublish"), ("people/cli-user.md", "publish")):
        assert path in shown
        assert f"`familiar memory {command} PATH`" in shown


def test_a_section_is_told_to_one_person_alone(robin) -> None:
    page("topics/bees.md", "# Bees\n\n## Place\n\nThe bees live in zanzibar.\n")
    assert (
        run("hear", "Hello", "--as", "discord:42", "--name", "Anna", "--channel", "x").exit_code
        == 0
    )
    assert run("memory", "unpublish", "topics/bees.md#Place").exit_code == 0
    assert run("memory", "publish", "topics/bees.md#Place", "--to", "discord:42").exit_code == 0
    assert "live in zanzibar" in prompt("--as", "discord:42", "--channel", "x")
    assert "live in zanzibar" in prompt()
    assert "live in zanzibar" not in prompt("--as", "discord:77", "--channel", "y")


def test_what_is_made_private_leaves_no_section_of_that_title_and_none_that_was_published(
    robin,
) -> None:
    page("topics/bees.md", "# Bees\n\n## Place\n\nA shed.\n\n## Place\n\nIn zanzibar.\n")
    assert run("memory", "unpublish", "topics/bees.md#Place").exit_code == 0
    assert "zanzibar" not in prompt("--as", "discord:77", "--channel", "y")
    assert run("memory", "publish", "topics/bees.md#Place").exit_code == 0
    assert "zanzibar" in prompt("--as", "discord:77", "--channel", "y")
    assert run("memory", "unpublish", "topics/bees.md").exit_code == 0
    assert "zanzibar" not in prompt("--as", "discord:77", "--channel", "y")
    assert run("memory", "unpublish", "topics/bees.md#Shed").exit_code == 4


def test_an_imported_chat_of_one_person_is_the_owners(robin, tmp_path) -> None:
    chat = tmp_path / "Rob.jsonl"
    lines = (
        {"user_name": "Rob", "character_name": "ada", "create_date": "2026-1-2@03h04m05s"},
        {"name": "Rob", "is_user": True, "mes": "A quokka lives in zanzibar.", "send_date": 1.7e12},
        {"name": "ada", "is_user": False, "mes": "Quokkas like zanzibar.", "send_date": 1.7e12 + 9},
    )
    chat.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert run("import-chat", str(chat)).exit_code == 0
    assert "quokka lives" in prompt()
    assert "uokka" not in prompt(*ANNA).replace("quokkas and", "")


def test_notes_may_be_the_owners(robin) -> None:
    page("topics/bees.md", "# Bees\n\nThe bees are kept by Bo.\n")
    assert run("config", "set", "privacy.notes", "owner").exit_code == 0
    assert "kept by Bo" not in prompt(*ANNA)
    assert "kept by Bo" in prompt()


def test_an_owner_may_share_everything(robin) -> None:
    assert run("config", "set", "privacy.owner", "share").exit_code == 0
    page("people/cli-user.md", "# Robin\n\n## Facts\n\n- Says zanzibar. <!-- turns 1 -->\n")
    assert "Says zanzibar" in prompt(*ANNA)
    found = json.dumps(run("doctor").output)
    assert "privacy.owner is `share`" in found


def test_an_owner_who_enters_a_conversation_opens_nothing(robin) -> None:
    emily = ("--as", "discord:7", "--name", "Emily", "--channel", "emily")
    assert run("ask", "Hi there", "--channel", "emily").exit_code == 0
    assert run("ask", "I keep a quokka in zanzibar", *emily).exit_code == 0
    stranger = prompt("--as", "discord:77", "--name", "Zed", "--channel", "lobby")
    assert "quokka in zanzibar" not in stranger
    assert "quokka in zanzibar" in prompt(*emily)
    assert "zebras" not in prompt(*emily)
    assert run("ask", "How are you, Emily?", "--channel", "emily").exit_code == 0
    assert run("ask", "Another quokka in zanzibar", *emily).exit_code == 0
    assert "Another quokka" not in prompt("--as", "discord:77", "--channel", "lobby")


def test_a_third_person_makes_it_a_group_for_what_follows(robin) -> None:
    anna, zed = (
        ("--as", "discord:7", "--channel", "room"),
        ("--as", "discord:8", "--channel", "room"),
    )
    assert run("ask", "Hi there", "--channel", "room").exit_code == 0
    assert "everybody can see" not in run("ask", "I keep a quokka in zanzibar", *anna).output
    assert heard_by("room") == "you and 7"
    told = run("ask", "Hello all, zanzibar", *zed)
    assert "everybody can see" in told.stderr
    assert heard_by("room") == "everybody"
    assert "everybody can see" not in run("ask", "Hello again", *zed).output
    elsewhere = prompt("--as", "discord:77", "--channel", "lobby")
    assert "Hello all, zanzibar" in elsewhere
    assert "quokka in zanzibar" not in elsewhere


@pytest.mark.parametrize("room", ["cli", "den"])
def test_an_owner_is_told_once_that_others_have_entered_their_room(room) -> None:
    live("ada")

    def notice(*argv: str) -> str:
        return "".join(data("hear", "Hello", "--channel", room, *argv)["notices"])

    ann, bo = ("--as", "discord:1"), ("--as", "discord:2")
    assert [notice(), notice(*ann)] == ["", ""]
    assert ("Somebody else has spoken here" in notice()) is (room == "den")  # `cli` is the owner's
    assert notice() == ""
    assert "everybody can see" in notice(*bo)
    assert "everybody" in run("status").stdout or room == "den"
    assert "everybody can see" in notice()
    assert [notice(), notice(*ann), heard_by(room)] == ["", "", "everybody"]


def test_who_is_only_heard_is_told_once_that_a_room_becomes_a_group() -> None:
    live("ada")
    for account, told in (("7", 0), ("8", 1), ("9", 0)):
        heard = data("hear", "Hello", "--as", f"discord:{account}", "--channel", "room")
        assert len(heard["notices"]) == told
    run("channel", "set", "den", "--kind", "private")
    for account in ("7", "8"):
        found = run("hear", "Hi", "--as", f"discord:{account}", "--channel", "den", "--json")
        assert "everybody can see" not in found.stdout


def test_a_stated_kind_that_does_not_count_makes_nothing_seem_private() -> None:
    live("ada")
    with Familiar.load_from_disk(home(), "ada") as ada:

        def audience(user: str, channel: str, kind: str = "") -> str:
            said = Said("Hi", Author("discord", user), channel_id=channel, kind=kind)
            return audience_for(ada, said)

        assert audience("7", "room") == "only this conversation"
        for user in "78":
            hear(ada, Said("Hi", Author("discord", user), channel_id="room"))
        assert audience("7", "room", "dm") == audience("9", "room", "private") == "everybody"
        assert audience("7", "room", "private") == "only this conversation"
        assert audience("9", "new", "text") == "everybody"
        assert audience("9", "new", "dm") == "only this conversation"


def heard_by(channel: str) -> str:
    return next(c["heard_by"] for c in data("channel", "list")["channels"] if c["id"] == channel)


def test_a_command_that_speaks_as_somebody_else_does_not_give_them_the_owners_room() -> None:
    live("ada")
    run("hear", "Good evening.", "--as", "discord:42", "--name", "Anna")
    run("hear", "My locker code is 9313.")
    shown = str(data("ask", "What is the locker code?", "--as", "discord:42", "--dry-run"))
    assert "9313" not in shown
    assert "9313" in str(data("ask", "What is the locker code?", "--dry-run"))
