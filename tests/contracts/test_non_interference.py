"""A stranger's answers are a function of what the stranger may see.

A home is built twice, once with what Anna and the owner said in private, and every tool, resource
and prompt of MCP, every address of the server and the page, and every command that can speak for
somebody answers a stranger with the same bytes. Entry points are found.
"""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from contextlib import ExitStack
from functools import partial
from itertools import product
from random import Random

import pytest
import typer
from msgspec.structs import replace
from starlette.routing import Route

from familiar_cli.base.config.serving import Grant, GrantFile
from familiar_cli.base.errors import FamiliarError, RefusedError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import person_scope
from familiar_cli.cli import app as cli
from familiar_cli.familiar import Familiar
from familiar_cli.llm.types import ScriptedModel
from familiar_cli.servers import application
from familiar_cli.servers.mcp import catalogue
from familiar_cli.servers.mcp.catalogue import TOOLS
from familiar_cli.servers.mcp.tool import ActsFor, Caller
from familiar_cli.servers.web.site import PAGES
from familiar_cli.store.history import marks
from familiar_cli.store.history.recall import recall
from familiar_cli.store.memory.layout import told_path
from familiar_cli.store.memory.pages.visible_lines import private_heading
from familiar_cli.store.memory.store import files as store_files
from familiar_cli.store.search.types import SearchOptions
from familiar_cli.writing.pending import PlannedFile, ReviewPlan, decide_plan, stage_plan
from familiar_cli.writing.writer.memory_writer import MemoryWriter
from tests.contracts.test_visibility import speaking
from tests.support.cases import IS_NIGHT
from tests.support.server import Say
from tests.support.serving import serving
from tests.support.world import home, live, run
from tests.writing.writer.support import op, reply

ROOT = typer.main.get_command(cli.app)
ANNA, OWNER_SAYS = Author("discord", "anna", display_name="Anna"), "My locker code is zanzibar."
PUBLIC_PAGES = {
    "people/discord-bo": "# Bo\n\n## Facts\n\n- Rows on Sundays. <!-- turns 1 -->\n",
    "topics/bees": "# Bees\n\n- The bees are kept by Bo.\n- Bees swarm in May.\n\n## Hives\n\n"
    "- Two hives of bees stand by the river.\n",
    "topics/boats": "## Times <!-- public -->\n\n- The boats with bees sail at nine.\n",
    "sessions/2026-01-05-morning": "# 2026-01-05, morning\n\nBees and boats. <!-- turns 2 -->\n",
}
APART = "sessions/@all/2026-01-05-morning"
MIXED_PAGES = {
    "topics/bees": "# Bees\n\n- Zanzibar has bees. <!-- turns {own} -->\n"
    "- The bees are kept by Bo.\n- Quokkas fear bees. <!-- turns {dm} -->\n"
    "- Bees swarm in May.\n\n{mark}\n\n- Anna likes bees.\n\n## Hives\n\n"
    "- Two hives of bees stand by the river.\n- And one of quokkas. <!-- turns {dm} -->\n",
    "topics/boats": "# Boats {owners}\n\nA boat and bees to Zanzibar.\n\n"
    "## Times <!-- public -->\n\n- The boats with bees sail at nine.\n",
}
OWNERS_MARK = "<!-- private @cli%2Duser -->"
SECRET_PAGES = {
    "topics/zanzibar": "# Zanzibar\n\n## Notes\n\n- Zanzibar locker. <!-- turns {} -->\n",
    "people/discord-anna": "# Anna\n\n{mark}\n\n- Keeps quokkas. <!-- turns {} -->\n",
    "reminders": "# Reminders\n\n- [ ] feed the quokkas\n",
    APART: PUBLIC_PAGES[APART.replace("@all/", "")],
    APART.replace("@all/", ""): "# 2026-01-05, morning\n\nA quokka. <!-- turns {} -->\n",
    "significant/2026-01-02_quokka-day": "# Quokka day\n\nIt was one.\n",
    "daily/2026-01-07": "# 2026-01-07\n\nA quokka. <!-- turns {} -->\n",
    "digest/mid": "# Digest\n\nQuokkas. <!-- turns {} -->\n",
}
IMPORTED = {
    "import-memories": ("daily/2026-01-08.md", "# 2026-01-08\n\nQuokkas all night.\n"),
    "import": ("topics/garden.md", "# Garden\n\nThe quokkas live in the garden.\n"),
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
    *(f"{APART}.md", f"{APART.replace('@all/', '')}.md"),
    *("significant/2026-01-02_quokka-day.md", "topics/zanzib\u0061\u0301r.md"),
    *("TOPICS/ZANZIBAR.MD", "people/Discord-Anna.md", "./topics//zanzibar.md", "topics/zanzibar"),
    unicodedata.normalize("NFKD", "topics/ﬁle.md"),
    *("sessions/@all", "./sessions/@all", "sessions/./@all/", f"./{APART}.md"),
    "topics/ｚａｎｚｉｂａｒ.md",
    *("daily/2026-01-07.md", "daily/2026-01-08.md", "digest/mid.md", "topics/garden.md"),
)
# Pages that cannot be read, and paths in whose way something hidden stands.
IN_THE_WAY = (
    *("topics/quokka-huge.md", "topics/Quokka-Latin.md", "topics/quokka-folder.md", "tasks.md"),
    *("topics/zanzibar.md/beach.md", "topics/QUOKKAS/food.md", "daily/2026-01-04_quokka.md"),
)
READABLE_BYTES = 100_000
# Turn numbers, ids that are made at random, addresses, times and how long something took.
MASKED = re.compile(
    "|".join(  # noqa: FLY002  # one line each
        (
            r"[0-9a-f]{64}|[0-9a-f]{32}|discord-\d+-\w{4}|\b\w+-[0-9a-f]{4}\b(?::\d+)?|127\.0\.0\.1:\d+",
            r"\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|\+00:00)?|\d\d:\d\d| *[\d.]+ ms",
            r"(?:turns?|_turn|turns:|after)[^\d\n]{0,5}\d+(?:-\d+)?|[\w-]*/(?:less|with)\b",
            r"just now|\d+ minutes? ago",
            r"(?<=created\":) ?\d+|(?<=created_at\":)\d+|chatcmpl-[\w-]+|(?:resp|msg)_\d+",
            r"mcp-\w+-[0-9a-f]{16}|serve-\d{8}-[0-9a-f]{8}",
            r"^[\w{}=\", /.]*(?:seconds|created|bytes)[\w{}=\", /.]* [\d.e+-]+$",
        )
    ),
    re.MULTILINE,
)


def build(path, monkeypatch, *, secret: bool) -> Familiar:
    monkeypatch.setenv("FAMILIAR_HOME", str(path))
    path.mkdir()
    config = live(**PUBLIC_PAGES) / "character.toml"
    config.write_text("[context]\nprovider_deadline_s = 30\n", "utf-8")  # also on a busy machine
    assert run("me", "--name", "Robin").exit_code == 0
    # On a busy machine, what is late would be missing from one of the homes alone.
    assert run("config", "set", "context.provider_deadline_s", "60").exit_code == 0
    familiar = Familiar.load_from_disk(home(), "ada")
    add = familiar.history.append
    for author in (Author("discord", "bo", display_name="Bo"), Author("discord", "cy")):
        add("town", "user", f"{author.user_id} here: bees and boats.", author=author)
    for words in ("I row boats.", "My lockers hold boats."):
        add("town", "user", words, author=familiar.me().author)
    rowing, lockers = "topics/rowing.md", "topics/lockers.md"
    rows = op(file="people/cli-user.md", lines=["Robin rows boats."], turns=[3])
    write(familiar, reply(), reply(op(file=rowing, lines=["Cy has boats."], turns=[2]), rows))
    if secret:
        dm = add("dm-anna", "user", "I keep quokkas in zanzibar.", author=ANNA)
        add("dm-anna", "assistant", "Quokkas! I will not tell.", reply_to=dm.id)
        own = add("cli", "user", OWNER_SAYS, author=familiar.me().author)
        said = {"lines": ["The locker code is zanzibar."], "turns": [own.id], "title": "Zanzibar"}
        write(familiar, reply(), reply(*(op(file=file, **said) for file in (rowing, lockers))))
        mark = private_heading("Anna", person_scope(ANNA.slug))
        for stem, text in SECRET_PAGES.items():
            cited = dm.id if "anna" in stem else own.id
            run("memory", "write", f"{stem}.md", text.format(cited, mark=mark))
        known = {"own": own.id, "dm": dm.id, "mark": mark, "owners": OWNERS_MARK}
        for stem, text in MIXED_PAGES.items():
            run("memory", "write", f"{stem}.md", text.format(**known))
        for command, (name, text) in IMPORTED.items():
            file = path.parent / command / name
            file.parent.mkdir(parents=True)
            file.write_text(text, "utf-8")
            assert run(command, str(path.parent / command)).exit_code == 0
        line = f"- Zanzibar, says the owner. <!-- turns {own.id} -->"
        run("memory", "append", "people/discord-bo.md", line)
    holds = {"lines": ["The lockers hold boats."], "turns": [4]}
    public = reply(*(op(file=file, **holds) for file in (lockers, rowing)))
    write(familiar, reply(), public, *[reply()] * (2 if secret else 0), again=True)
    if secret:
        propose_plans(familiar, own.id)
        put_in_the_way(familiar.memory.root, mark)
    return familiar


def put_in_the_way(memory, mark: str) -> None:
    """Add pages and folders that fail each in its own way when somebody comes across them."""
    (memory / "topics/quokkas").mkdir()
    for folder in ("topics/quokkas", "topics/quokka-folder.md"):
        (memory / folder).mkdir(exist_ok=True)
        (memory / folder / "food.md").write_text(f"# Food\n\n{mark}\n\n- Leaves.\n", "utf-8")
    for name in ("topics/quokka-latin.md", "daily/2026-01-04_quokka.md", "tasks.md"):
        (memory / name).write_bytes(f"# Käfig\n\n{mark}\n\n- Quokkas.\n".encode("latin-1"))
    (memory / "topics/quokka-huge.md").write_bytes(b" " * (READABLE_BYTES + 1))


def propose_plans(familiar: Familiar, turn_id: int) -> None:
    """Let changes of private text wait, and decide on two of them."""
    page = (
        f"# Robin\n\n## Aliases\n\n- Rob\n\n## Facts\n\n- Has lockers. <!-- turns {turn_id} -->\n"
    )
    store, hidden = familiar.memory, f"- In zanzibar, too. <!-- turns {turn_id} -->\n"
    moment, bees = "significant/2026-01-02_quokka-day.md", "topics/bees.md"
    files = [
        PlannedFile("people/cli-user.md", store.read_file("people/cli-user.md"), page),
        PlannedFile("topics/quay.md", None, page),  # its words beside the line cite nothing
        PlannedFile("significant/2026-01-03_zanzibar.md", None, "# Zanzibar\n\nIt is far.\n"),
        PlannedFile(moment, store.read_file(moment), "", deletes=True),
        PlannedFile("tasks.md", None, "# Tasks\n\n- [ ] lock zanzibar\n"),
        PlannedFile(bees, store.read_file(bees), store.read_file(bees) + hidden),
    ]
    decided = {"p2": {"apply": [1]}, "p3": {"reject": [1]}}
    own = [PlannedFile("topics/heron.md", None, "# Heron\n\nIt is the owner's word.\n")]
    for name, planned in (("p1", files), ("p2", files[5:]), ("p3", files[2:3]), ("p4", own)):
        day, turns = "2026-01-06T00:00:00Z", (turn_id, turn_id)
        plan = ReviewPlan(name, "run", day, "review", "m", turns, tuple(planned), "mcp:unknown")
        plan = replace(plan, scopes=None if name == "p4" else ())  # None: the owner's agent's
        with store.transaction(plan.source, "Propose") as tx:
            stage_plan(tx, store, plan)
        if name in decided:
            decide_plan(store, plan, **decided[name])


def write(familiar: Familiar, *replies: str, again: bool = False) -> None:
    """Let the writer note what was said since its last pass, or everything."""
    model = ScriptedModel(replies, context_tokens=8192, max_tokens=1024)
    parts = familiar.memory, familiar.history, model, familiar.counter, familiar.runs
    who, rules, me = familiar.who, familiar.privacy.rules, familiar.me()
    report = asyncio.run(
        MemoryWriter(*parts, who=who, rules=rules, me=me).run(newest=True, again=again)
    )
    assert not report.refused
    assert len(model.requests) == len(replies)


def build_both(place, monkeypatch) -> list[Familiar]:
    kinds = {"less": False, "with": True}
    return [build(place / name, monkeypatch, secret=secret) for name, secret in kinds.items()]


@pytest.fixture(scope="module")
def built():
    """The home without the secrets, and the one with them; made by the first test."""
    found: list[Familiar] = []
    yield found
    for familiar in found:
        familiar.history.close()


@pytest.fixture
def homes(built, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(store_files, "MAX_READ_BYTES", READABLE_BYTES)
    if not built:
        built += build_both(tmp_path_factory.mktemp("homes"), monkeypatch)
    return built


@pytest.fixture
def new_homes(tmp_path, monkeypatch):
    """Both homes as they were made, whatever other tests have written since."""
    monkeypatch.setattr(store_files, "MAX_READ_BYTES", READABLE_BYTES)
    found = [
        build(tmp_path / name, monkeypatch, secret=name == "with") for name in ("less", "with")
    ]
    yield found
    for familiar in found:
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
    calls: list[tuple[str, dict[str, object]]] = [("todo", {"action": "list"})]
    for tool in TOOLS:
        if tool.kind != "read":
            continue
        names = tool.takes
        values = [*WORDS, *PATHS, *IN_THE_WAY]
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


def test_changes_are_announced_by_what_a_stranger_sees_of_them(homes) -> None:
    less, more = (Caller(one) for one in homes)
    files = {one: one.familiar.memory.walk("").files for one in (less, more)}
    prints = [
        {caller.told(f.rel_path): caller.fingerprint(f.rel_path) for f in files[caller]}
        for caller in (less, more)
    ]
    less_seen, more_seen = ({p: h for p, h in one.items() if h} for one in prints)
    assert less_seen == more_seen
    assert "topics/bees.md" in less_seen


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
@pytest.mark.parametrize("channel", ["new", "dm-anna"])
def test_a_strangers_prompt_is_the_same(homes, monkeypatch, words, channel) -> None:
    shown = []
    for one in homes:
        monkeypatch.setenv("FAMILIAR_HOME", str(one.paths.root.parent))
        argv = ("ask", words, "--as", "discord:zed", "--channel", channel, "--dry-run")
        answer = run(*argv, "--json")
        sent = re.search(r'"messages": .*?(?="layers"|"parts"|$)', answer.stdout, re.DOTALL)
        shown.append(masked(sent[0] if sent else answer.output))
    assert shown[0] == shown[1]


def entered(one: Familiar, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_HOME", str(one.paths.root.parent))


def drawn_questions(count: int) -> list[str]:
    """Return questions made of the words of both homes, the same ones each time."""
    texts = (*PUBLIC_PAGES.values(), *MIXED_PAGES.values(), *SECRET_PAGES.values(), OWNER_SAYS)
    known = sorted({word for text in texts for word in re.findall(r"[A-Za-z]{2,}", text)})
    dice = Random(48)
    return [
        *("Bo, a boat?", "bees and quokkas in zanzibar", "boats and bees"),
        *(" ".join(dice.sample(known, dice.randint(1, 5))) for _ in range(count)),
    ]


def test_what_a_stranger_finds_has_the_same_order_scores_and_text(homes) -> None:
    found, different = 0, []
    for words in drawn_questions(200 if IS_NIGHT else 60):
        shown: list[list[object]] = []
        for one in homes:
            viewer = one.privacy.program()
            hits = [
                hit
                for lines in (False, True)
                for hit in one.finder.search(words, SearchOptions(lines=lines, viewer=viewer)).hits
            ]
            signals = [replace(hit.signals, recency=0.0) for hit in hits if hit.day]
            places = [
                (hit.score, told_path(hit.rel_path), hit.title, hit.text, hit.best) for hit in hits
            ]
            past = recall(one.history, words, viewer=viewer).turns
            shown.append([signals, places, [(t.turn.content, t.score, t.lift) for t in past]])
            found += len(hits)
        if shown[0] != shown[1]:
            different.append((words, *shown))
    assert different == []
    assert found > 300


@pytest.mark.parametrize("words", drawn_questions(9))
def test_random_questions_reach_every_face_with_the_same_bytes(homes, monkeypatch, words) -> None:
    tools, shown = {tool.name: tool for tool in TOOLS}, []
    for one in homes:
        entered(one, monkeypatch)
        argv = ("ask", words, "--as", "discord:9", "--channel", "dm-x", "--dry-run", "--json")
        answer = json.loads(run(*argv).stdout)["data"]
        keys = ("rel_path", "sha256", "cause", "text", "score")
        pieces = [[piece[key] for key in keys] for piece in answer["contributions"]]
        asked = {"query": words}
        names = ("memory_search", "history_search")
        told_of = [told(partial(tools[name].run, Caller(one), asked)) for name in names]
        shown.append([pieces, told_of])
    assert shown[0] == shown[1]


NAMES = ("", "Robin", "ada", "Ada", "Anna")  # a stranger may call himself anything


@pytest.mark.parametrize("name", NAMES)
def test_every_command_that_speaks_for_a_stranger_prints_the_same(homes, monkeypatch, name) -> None:
    for path, _ in speaking():
        for channel, words in product(("new", "town"), WORDS[:2]):
            if path == ("hear",):
                continue  # it changes the homes
            argv = [*path, *([] if path == ("chat",) else [f"What of {words}?"])]
            argv += ["--as", "discord:zed", "--channel", channel]
            argv += ["--all"] if path == ("search",) else ["--name", name]
            argv += ["--dry-run"] if path == ("ask",) else []
            shown = []
            for one in homes:
                entered(one, monkeypatch)
                shown.append(masked(run(*argv, stdin="/quit\n").output))
            assert shown[0] == shown[1], argv


ZED = {"X-Familiar-User": "discord:zed", "X-Familiar-User-Name": "Zed"}


def requests_of(path: str) -> list[tuple[str, str, object]]:
    """Return requests for an address, as a stranger may make them."""
    path = re.sub(r"\{model\w*(:\w+)?\}|\{familiar\}", "ada", path)
    values = [WORDS[0], PATHS[0]] if "{" in path or "search" in path else [WORDS[0]]
    found: list[tuple[str, str, object]] = []
    for value in values:
        filled = re.sub(r"\{\w+(:\w+)?\}", value, path)
        asked = {"query": value, "q": value, "channel": "new", "model": "ada", "path": value}
        found += [("GET", f"{filled}?{'&'.join(f'{k}={v}' for k, v in asked.items())}", None)]
    said = {"role": "user", "content": "What of zanzibar, Anna and Robin?"}
    for model, more in [*product(("ada", "ada+memory"), ({}, {"input": said["content"]}))][
        :: 1 if IS_NIGHT else 3
    ]:
        found += [("POST", path, {"model": model, "messages": [said], **more})]
    return found


def told_by(server, chat, headers, request) -> str:
    """Return the answer to a request, and what its model was sent."""
    before, (method, path, body) = len(chat.requests), request
    reply = server.client.request(method, path, json=body, headers=headers)
    sent = [one.body.decode() for one in chat.requests[before:]]
    shown = {k: v for k, v in reply.headers.items() if k.startswith("x-familiar")}
    return masked(f"{reply.status_code} {shown} {reply.text} {sent}")


def test_every_address_answers_a_stranger_with_the_same_bytes(
    homes, serve, monkeypatch, record_property
) -> None:
    known = set()
    monkeypatch.setattr(application, "Route", lambda *a, **k: known.add(a[0]) or Route(*a, **k))
    chat, different, count = serve(*[Say("I do not know.")] * 900), [], 0
    with ExitStack() as running:
        servers = []
        for one in homes:
            entered(one, monkeypatch)
            servers.append(running.enter_context(serving()))
        paths = sorted({*known, *(page.path for page in PAGES), "/sessions/search"})
        for is_tenant in (False, True):
            tokens = [{}, {}]
            if is_tenant:
                grant = Grant("", "", ("ada",), ("discord:zed",))
                files = (GrantFile(one.paths.root.parent) for one in homes)
                tokens = [{"Authorization": f"Bearer {file.add(grant)[1]}"} for file in files]
            for path in paths:
                for request in requests_of(path):
                    answers = [
                        told_by(server, chat, {**ZED, **token}, request)
                        for server, token in zip(servers, tokens, strict=True)
                    ]
                    count += 1
                    if answers[0] != answers[1]:
                        different.append((is_tenant, request, *answers))
    assert different == []
    record_property("addresses", len(paths))
    assert len(paths) > 40
    assert count > 250


def test_a_stranger_deletes_what_is_seen_and_takes_it_back(homes) -> None:
    tools, acts = {tool.name: tool for tool in TOOLS}, ActsFor(("discord:zed",))
    bees = {"path": "topics/bees.md"}
    moment = {"text": "A heron.", "title": "Quokka day", "date": "2026-01-02"}  # as a hidden one
    for name, arguments in (
        ("remember", moment),
        ("memory_undo", {}),
        ("memory_create", {"path": "topics/heron.md", "content": "A heron."}),  # so has a plan
        ("memory_undo", {}),
        ("memory_delete", bees),
        ("memory_read", bees),
        ("memory_undo", {}),
        ("memory_read", bees),
    ):
        callers = (Caller(one, acts=acts, allow_write=True, session="bees") for one in homes)
        less, more = (told(partial(tools[name].run, caller, arguments)) for caller in callers)
        assert less == more, name
    assert "Two hives" in more


EDITS = (
    {"append": "A heron."},
    {"append": "A heron.", "section": "Birds"},
    {"old_text": "bees", "new_text": "herons"},
)


def written(tool, value: str) -> list[dict[str, object]]:
    """Return calls of a writing tool that name a page by its path, and by its day."""
    named = [{"path": value}]
    if value[-4:-3].isdigit() and "date" in tool.parameters:
        day = {"date": value[-13:-3], "instanceId": "" if tool.name != "memory_create" else "zed"}
        named += [{**day, "granularity": tier} for tier in ("daily", "significant")]
    texts = {*tool.needs} | ({"text", "content", "name", "about"} & {*tool.takes})
    ways = EDITS if tool.name == "memory_edit" else [dict.fromkeys(texts - {"path"}, "A heron.")]
    calls = [{**way, **names} for way, names in product(ways, named)]
    return [{k: v for k, v in one.items() if k in tool.parameters and v} for one in calls]


def test_writing_tools_answer_a_stranger_with_the_same_bytes(homes) -> None:
    different, count = [], 0
    acts = ActsFor(("discord:zed",))
    # What is undone is the session's own; the test above has it.
    tools = [one for one in TOOLS if one.kind != "read" and one.name != "memory_undo"]
    tools += [one for one in TOOLS if one.name == "memory_read"]
    for (number, allow), tool in product(enumerate((False, True)), tools):
        for value in (*PATHS[1 : 11 : 1 if IS_NIGHT else 3], *PATHS[-4:], *IN_THE_WAY):
            for arguments in written(tool, value):
                less, more = (
                    told(
                        partial(
                            tool.run,
                            Caller(one, acts=acts, allow_write=allow, session=str(number)),
                            arguments,
                        )
                    )
                    for one in homes
                )
                count += 1
                if less != more:
                    different.append((tool.name, arguments, less, more))
    assert different == []
    assert count > 200
    plans = next(one for one in TOOLS if one.name == "plans_list")
    listed = (plans.run(Caller(one, acts=acts), {}).items for one in homes)
    less, more = (sorted(masked(repr(item)) for item in items) for items in listed)
    assert less == more


def test_the_length_of_what_is_hidden_decides_nothing(homes, monkeypatch) -> None:
    edit, acts = next(one for one in TOOLS if one.name == "memory_edit"), ActsFor(("discord:zed",))
    path, mark = "topics/gulls.md", private_heading("Anna", person_scope(ANNA.slug))
    page, hidden = f"# Gulls\n\n- {'They shout. ' * 50}\n", f"\n{mark}\n\n- {'Quokkas. ' * 100}\n"
    for one, text in zip(homes, (page, page + hidden), strict=True):
        monkeypatch.setattr(one.memory, "limits", replace(one.memory.limits, max_file_bytes=1200))
        (one.memory.root / path).write_text(text, "utf-8")
    for change in (
        {"append": "- A gull's cry. " * 20},
        {"append": "- A gull. " * 200},  # too long
        {"old_text": "They shout. " * 50, "new_text": "Few."},  # halves what is seen
    ):
        callers = (Caller(one, acts=acts, allow_write=True, session="gulls") for one in homes)
        less, more = (told(partial(edit.run, one, {"path": path, **change})) for one in callers)
        assert less == more
    assert "waits for review" in more


def test_a_stranger_keeps_no_copy_and_starts_no_writer(homes) -> None:
    tools = {tool.name: tool for tool in TOOLS}
    gone = {"granularity": "significant", "date": "2026-01-02", "slug": "quokka-day"}
    calls = [
        ("sync_pull", {"instanceId": "phone"}),
        ("sync_push", {"instance": {"id": "phone"}, "memoryChanges": [{**gone, "deleted": True}]}),
        ("sync_status", {}),
        ("memory_write", {}),
        ("memory_consolidate", {}),
    ]
    acts = ActsFor(("discord:*",))
    for name, arguments in calls:
        callers = (Caller(one, acts=acts, embodiments=True, allow_write=True) for one in homes)
        less, more = (told(partial(tools[name].run, caller, arguments)) for caller in callers)
        assert less == more
        assert "RefusedError" in more or name == "sync_status"


def test_a_program_without_a_token_copies_what_is_public_if_the_server_was_started_for_it(
    homes,
) -> None:
    tools = {tool.name: tool for tool in TOOLS}
    pull, day = tools["sync_pull"], "daily/2026-03-04.md"
    with pytest.raises(RefusedError):
        pull.run(Caller(homes[1]), {"instanceId": "phone"})
    for one in homes:
        caller = Caller(one, embodiments=True, allow_write=True)
        tools["memory_create"].run(caller, {"path": day, "content": "- A heron."})
        pulled = pull.run(caller, {"instanceId": "phone"})
        paths = {item.about["path"] for item in pulled.items}
        assert day in paths
        assert not any(path.startswith("significant/") for path in paths)
        words = " ".join(item.text for item in pulled.items).lower()
        assert not re.search("zanzibar|quokka|locker", words)


@pytest.mark.parametrize("path", ["daily/2026-03-06.md", "weekly/2026-W10.md"])
def test_what_a_stranger_adds_to_a_hidden_page_is_in_its_copy(new_homes, path) -> None:
    tools, hidden = (
        {tool.name: tool.run for tool in TOOLS},
        f"# Terns {OWNERS_MARK}\n\n- Quokkas.\n",
    )
    new_homes[1].memory.write_file(path, hidden)
    told_of = []
    for one in new_homes:
        caller = Caller(one, embodiments=True, allow_write=True, session="terns")
        tools["memory_create"](caller, {"path": path, "content": "- A tern."})
        tools["memory_edit"](caller, {"path": path, "append": "- A second."})
        answer = tools["sync_pull"](caller, {"instanceId": "copy"})
        told_of.append([item for item in answer.items if item.about["path"] == path])
    assert "A second" in told_of[0][0].text
    assert told_of[0] == told_of[1]


def test_what_a_copy_is_told_changes_only_with_what_it_may_see(new_homes) -> None:
    homes = new_homes
    tools = {tool.name: tool.run for tool in TOOLS}
    tokens, answers = [{}, {}], []
    moment, day = "significant/2026-01-09_quokka.md", "daily/2026-01-09.md"
    for step in ("start", "hidden", "removed", "public", "pushed"):
        for one, token in zip(homes, tokens, strict=True):
            caller = Caller(one, embodiments=True, allow_write=True)
            store = one.memory
            if one is homes[1] and step == "hidden":
                store.write_file(moment, f"# Quokka {OWNERS_MARK}\n\nIt smiled.\n")
                store.write_file(day, f"# 2026-01-09 {OWNERS_MARK}\n\n- A quokka.\n")
            elif one is homes[1] and step == "removed":
                store.delete_file(moment)
            elif step == "public":
                tools["memory_create"](caller, {"path": "daily/2026-03-05.md", "content": "- Two."})
            since = {"lastSyncToken": token} if token else {}
            if step == "pushed":
                edit = {"granularity": "daily", "date": "2026-03-05", "text": "- Two.\n- Three.\n"}
                sent = {"instance": {"id": "copy"}, "memoryChanges": [edit], **since}
                answer = tools["sync_push"](caller, sent)
            else:
                answer = tools["sync_pull"](caller, {"instanceId": "copy", **since})
            token.update(answer.more["newSyncToken"])
            answers.append((step, answer.items, answer.notes, answer.more))
    for less, more in zip(answers[::2], answers[1::2], strict=True):
        assert less == more
    counts = [more["newSyncToken"]["serverVersion"] for *_, more in answers[::2]]
    assert counts == [counts[0], counts[0], counts[0], counts[0] + 1, counts[0] + 2]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_heard_from_a_stranger_is_answered_the_same(homes, monkeypatch, name) -> None:
    shown = []
    for one in homes:
        entered(one, monkeypatch)
        argv = ("hear", "Hello, Anna and Robin!", "--as", "discord:zed", "--name", name)
        shown += [masked(run(*argv, "--channel", "heard").output)]
    assert shown[0] == shown[1]


@pytest.mark.parametrize("within", [*PATHS[:2], *IN_THE_WAY, f"{APART}.md", "sessions", "none"])
def test_where_a_stranger_searches_tells_nothing(homes, monkeypatch, within) -> None:
    shown = []
    for one in homes:
        entered(one, monkeypatch)
        shown += [masked(run("search", "boats", "--in", within, "--as", "discord:zed").output)]
    assert shown[0] == shown[1]


def test_the_owners_name_is_private_until_it_is_used_in_public(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_HOME", str(tmp_path))
    live()
    run("me", "--name", "Zebulon")
    familiar = Familiar.load_from_disk(home(), "ada")
    add, me = familiar.history.append, familiar.me().author
    for author in (replace(me, display_name=None), ANNA, Author("discord", "cy", "Cy")):
        row = add("town", "user", "We row.", author=author)
    own = add("cli", "user", "My cat is here.", author=me)
    page = f"# Zebulon\n\n## Aliases\n\n- Zebulon\n\n## Facts\n\n- Cat. <!-- turns {own.id} -->\n"
    page = f"---\naliases: [Zebulon]\n---\n{page}- Rows. <!-- turns {row.id} -->\n"
    run("memory", "write", "people/cli-user.md", page)
    tools = {tool.name: tool for tool in TOOLS}

    def answers() -> list[str]:
        one = Caller(familiar, acts=ActsFor(("discord:*",)))
        words = "rows zebulon"
        calls = [("memory_search", {"query": words}), ("context", {"message": words})]
        calls += [("memory_read", {"path": "people/cli-user.md"}), ("memory_list", {})]
        calls += [("person", {"name": name}) for name in ("cli-user", "Anna", "Cy")]
        shown = [told(partial(tools[name].run, one, arguments)) for name, arguments in calls]
        asked = ("What of Zebulon?", "--as", "discord:9", "--channel", "x", "--dry-run", "--json")
        sent = json.loads(run("ask", *asked).stdout)["data"]["contributions"]
        return [*shown, *catalogue.complete_argument(one, "person", ""), repr(sent)]

    hidden = answers()
    assert "- Rows." in hidden[2]
    assert "Nobody" in hidden[5]  # Anna was alone with the owner when she spoke
    assert "Nothing has been written about 'discord-cy'" in hidden[6]
    assert "Zebulon" not in repr(hidden).replace("What of Zebulon", "")
    add("town", "user", "It is me.", author=me)
    familiar = Familiar.load_from_disk(home(), "ada")
    assert "names': ['Zebulon']" in repr(answers()[4])
    marks.withdraw_channel(familiar.history, "town")
    assert "Zebulon" not in repr(answers()[4])
