"""A stranger's answers are a function of what the stranger may see.

A home is built twice, once with what Anna and the owner said in private, and every tool, resource,
prompt and prompt of a conversation answers a stranger with the same bytes. Entry points are found.
"""

from __future__ import annotations

import re
from functools import partial

import pytest
import typer

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import person_scope
from familiar_cli.cli import app as cli
from familiar_cli.familiar import Familiar
from familiar_cli.servers.mcp import catalogue
from familiar_cli.servers.mcp.catalogue import TOOLS
from familiar_cli.servers.mcp.tool import Caller
from familiar_cli.store.memory.pages.visible_lines import private_heading
from tests.support.world import home, live, run

ROOT = typer.main.get_command(cli.app)
ANNA, OWNER_SAYS = Author("discord", "anna", display_name="Anna"), "My locker code is zanzibar."
PUBLIC_PAGES = {
    "people/discord-bo": "# Bo\n\n## Facts\n\n- Rows on Sundays. <!-- turns 1 -->\n",
    "topics/bees": "# Bees\n\nThe bees are kept by Bo.\n",
}
SECRET_PAGES = {
    "people/cli-user": "# Robin\n\n## Facts\n\n- Locker zanzibar. <!-- turns {} -->\n",
    "topics/zanzibar": "# Zanzibar\n\n## Notes\n\n- Zanzibar locker. <!-- turns {} -->\n",
    "people/discord-anna": "# Anna\n\n{mark}\n\n- Keeps quokkas. <!-- turns {} -->\n",
    "reminders": "# Reminders\n\n- [ ] feed the quokkas\n",
    "significant/2026-01-02_quokka-day": "# Quokka day\n\nIt was one.\n",
}
WORDS = (
    "zanzibar",
    "Anna",
    "quokkas",
    "bees",
    "Bo",
    "Robin",
    "topics/zanzibar.md",
    "topics/bees.md",
)
PATHS = (
    *("topics/zanzibar.md", "topics/Zanzibar.md", "people/discord-anna.md", "REMINDERS.md"),
    *("reminders.md", "people/cli-user.md", "topics/bees.md", "topics/none.md"),
    *("significant/2026-01-02_quokka-day.md", "topics/zanzib\u0061\u0301r.md"),
)
MASKED = re.compile(
    r"[0-9a-f]{64}|[0-9a-f]{32}|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|\+00:00)?|discord-\d+-\w{4}"
)


def build(path, monkeypatch, *, secret: bool) -> Familiar:
    monkeypatch.setenv("FAMILIAR_HOME", str(path))
    path.mkdir()
    live(**PUBLIC_PAGES)
    familiar = Familiar.load_from_disk(home(), "ada")
    add = familiar.history.append
    for author in (Author("discord", "bo", display_name="Bo"), Author("discord", "cy")):
        add("town", "user", f"{author.user_id} here: bees and boats.", author=author)
    if secret:
        dm = add("dm-anna", "user", "I keep quokkas in zanzibar.", author=ANNA)
        add("dm-anna", "assistant", "Quokkas! I will not tell.", reply_to=dm.id)
        own = add("cli", "user", OWNER_SAYS, author=familiar.me().author)
        mark = private_heading("Anna", person_scope(ANNA.slug))
        for stem, text in SECRET_PAGES.items():
            cited = dm.id if "anna" in stem else own.id
            run("memory", "write", f"{stem}.md", text.format(cited, mark=mark))
    return familiar


@pytest.fixture
def homes(tmp_path, monkeypatch):
    """The home without the secrets, and the one with them."""
    both = [build(tmp_path / name, monkeypatch, secret=name == "with") for name in ("less", "with")]
    yield both
    for familiar in both:
        familiar.history.close()


def masked(text: str) -> str:
    return MASKED.sub("?", text)


def told(make) -> str:
    try:
        return masked(repr(make()))
    except FamiliarError as error:
        return masked(f"{type(error).__name__}: {error} {error.hint}")


def questions() -> list[tuple[str, dict[str, object]]]:
    """Return calls of every reading tool, with each word and path for each text parameter."""
    calls: list[tuple[str, dict[str, object]]] = []
    for tool in TOOLS:
        if tool.kind != "read":
            continue
        names = tool.takes
        values = [*WORDS, *PATHS]
        texts = [n for n in names if n in {"query", "path", "name", "subject", "message", "folder"}]
        usual = dict.fromkeys(tool.needs, WORDS[0])
        calls += [(tool.name, {**usual, name: value}) for name in texts for value in values]
        calls += [(tool.name, usual)]
        channels = ("dm-anna", "cli") if "channel" in names else ()
        calls += [(tool.name, {**usual, "channel": channel}) for channel in channels]
    return calls


def test_every_reading_tool_answers_a_stranger_with_the_same_bytes(homes) -> None:
    tools = {tool.name: tool for tool in TOOLS}
    different = []
    calls = questions()
    for name, arguments in calls:
        less, more = (told(partial(tools[name].run, Caller(one), arguments)) for one in homes)
        if less != more:
            different.append((name, arguments, less, more))
    assert different == []
    assert len(calls) > 150


def test_lists_of_resources_and_completions_are_the_same(homes) -> None:
    for begun in ("", "a", "z", "top", "people/"):
        for make in (
            catalogue.paths,
            lambda caller, begun=begun: catalogue.complete_argument(caller, "person", begun),
            lambda caller, begun=begun: catalogue.complete_argument(caller, "channel", begun),
        ):
            less, more = (told(lambda one=one, make=make: make(Caller(one))) for one in homes)
            assert less == more


@pytest.mark.parametrize("words", ["What of zanzibar?", "Who keeps quokkas, Anna?", "Hello Robin"])
def test_a_strangers_prompt_is_the_same(homes, monkeypatch, words) -> None:
    shown = []
    for one in homes:
        monkeypatch.setenv("FAMILIAR_HOME", str(one.paths.root.parent))
        argv = ("ask", words, "--as", "discord:zed", "--channel", "new", "--dry-run")
        answer = run(*argv, "--json")
        sent = re.search(r'"messages": .*?(?="layers"|"parts"|$)', answer.stdout, re.DOTALL)
        shown.append(masked(sent[0] if sent else answer.output))
    assert shown[0] == shown[1]
