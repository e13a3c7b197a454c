"""Laws of syncing with embodiments, whatever is lost, repeated, reordered or wiped."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from types import SimpleNamespace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.base.errors import FamiliarError
from familiar_cli.familiar import Familiar
from familiar_cli.servers.mcp.catalogue import TOOLS
from familiar_cli.servers.mcp.tool import ActsFor, Caller
from tests.support.embodiment import Embodiment

NAMES = ("phone", "tablet")
PATHS = ("self/soul.md", "daily/2026-01-31_phone.md", "monthly/2026-01.md")
NAMED = (
    {"category": "self", "filename": "soul.md"},
    {"granularity": "daily", "date": "2026-01-31", "sourceInstance": "phone"},
    {"granularity": "monthly", "date": "2026-01"},
)
STEPS = st.tuples(
    st.sampled_from(
        ["write", "write", "delete", "sync", "push", "lose", "repeat", "wipe", "forget", "hand"]
    ),
    st.sampled_from(range(2)),
    st.sampled_from(range(3)),
)


class Direct:
    """Calls tools without a protocol between."""

    def __init__(self, familiar: Familiar, *, by_owner: bool) -> None:
        acts = ActsFor(by_owner=by_owner)
        self._caller = Caller(
            familiar, None, "test", "5e5510", acts, allow_write=True, embodiments=True
        )

    async def call_tool(self, name, arguments):
        tool = next(tool for tool in TOOLS if tool.name == name)
        try:
            answer = tool.run(self._caller, arguments)
        except FamiliarError as error:
            words = [SimpleNamespace(text=str(error))]
            return SimpleNamespace(is_error=True, content=words)
        results = [
            {**item.about, **({"text": item.text} if item.text else {})} for item in answer.items
        ]
        content = {"results": results, **answer.more}
        return SimpleNamespace(is_error=False, structured_content=content)


class Run:
    """A familiar with two embodiments that step by step write, sync and misbehave."""

    def __init__(self, root: Path, *, by_owner: bool) -> None:
        (root / "memory" / "self").mkdir(parents=True)
        (root / "memory" / "self" / "soul.md").write_text("# Soul\n")
        self.memory = root / "memory"
        self.familiar = Familiar(FamiliarPaths(root))
        calls = Direct(self.familiar, by_owner=by_owner)
        self.devices = [Embodiment(calls, name) for name in NAMES]
        self.written: list[str] = []
        self.unsent: dict[str, list[str]] = {name: [] for name in NAMES}
        self.sent: list[tuple[Embodiment, dict]] = []

    async def step(self, what: str, who: int, where: int) -> None:
        device, path = self.devices[who], PATHS[where]
        line = f"- line{len(self.written)} of {what}"
        if what == "write":
            old = device.texts.get(path, "# Soul\n" if where == 0 else "")
            device.write(path, f"{old}{line}\n", **NAMED[where])
            self._note(device, line)
        elif what == "delete":
            known = device.texts.get(path, "")
            self.written = [one for one in self.written if one not in known]
            if known:
                device.delete(path)
        elif what == "hand":
            file = self.memory / path
            file.parent.mkdir(exist_ok=True)
            old = file.read_text() if file.exists() else ""
            file.write_text(f"{old}{line}\n")
            self.written.append(line)
        elif what == "wipe":
            device.wipe()
            self.written = [one for one in self.written if one not in self.unsent[device.id]]
            self.unsent[device.id] = []
        elif what == "repeat":
            for sender, sent in self.sent[-3:]:
                await self._try(sender.push(sent, answer="is lost"))
        elif what == "forget":
            from familiar_cli.actions.share.embodiments import forget_device

            forget_device(self.familiar, device.id)
        else:
            await self._push(device, is_lost=what == "lose")
            if what == "sync":
                await device.pull()

    async def quiet(self) -> None:
        """Sync until nobody has anything to say."""
        for _ in range(2):
            for device in self.devices:
                await device.pull()
                await self._push(device)
        for device in self.devices:
            await device.pull()

    def _note(self, device: Embodiment, line: str) -> None:
        self.written.append(line)
        self.unsent[device.id].append(line)

    async def _push(self, device: Embodiment, *, is_lost: bool = False) -> None:
        if not device.dirty:
            return
        sent = device.outgoing()
        answer = "is lost" if is_lost else "comes"
        if await self._try(device.push(sent, answer=answer)):
            self.sent.append((device, sent))
            self.unsent[device.id] = []

    async def _try(self, push) -> bool:
        """Push; one that was forgotten has to pull first."""
        try:
            await push
        except RuntimeError as error:
            if "not known here" not in str(error):
                raise
            return False
        return True

    @property
    def words(self) -> str:
        return "".join(file.read_text() for file in self.memory.rglob("*.md"))

    @property
    def shared(self) -> dict[str, str]:
        found = {path: self.memory / path for path in PATHS}
        return {p: f.read_text().strip() for p, f in found.items() if f.exists()}


def after(steps, *, by_owner: bool) -> Run:
    with tempfile.TemporaryDirectory() as name:
        run = Run(Path(name) / "ada", by_owner=by_owner)

        async def go() -> None:
            for step in steps:
                await run.step(*step)
            await run.quiet()

        asyncio.run(go())
        run.result = (run.words, run.shared, [device.texts for device in run.devices])
        run.familiar.close()
    return run


@settings(suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, max_size=14), st.booleans())
def test_no_line_is_lost_and_all_copies_become_the_same(steps, by_owner) -> None:
    run = after(steps, by_owner=by_owner)
    words, shared, copies = run.result
    lost = [line for line in run.written if line.removeprefix("- ") not in words]
    assert not lost
    for copy in copies:
        assert {path: text.strip() for path, text in copy.items()} == shared
