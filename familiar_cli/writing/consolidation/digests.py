"""The digests included in every prompt, and the command notified of them."""

from __future__ import annotations

import subprocess  # a command that the person set, as a list, without a shell
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from familiar_cli.base.config.environment import found_program
from familiar_cli.base.errors import ConfigError, FamiliarError
from familiar_cli.base.languages import ENGLISH, Phrases
from familiar_cli.base.markdown import scan, sections
from familiar_cli.base.text import framed
from familiar_cli.base.times.clock import iso, parse_iso
from familiar_cli.base.times.recurrence import Recurrence, last_occurrence, parse_recurrence
from familiar_cli.store.memory.layout import SESSIONS_DIR, digest_path
from familiar_cli.writing.consolidation import composing, pages
from familiar_cli.writing.consolidation.library import facts_of
from familiar_cli.writing.consolidation.periods import (
    PlannedDigest,
    Rejection,
    SourceItem,
    session_day,
)
from familiar_cli.writing.pending import Plans

if TYPE_CHECKING:
    from familiar_cli.writing.consolidation.period_states import PeriodState, Today

from familiar_cli.writing.consolidation.engine import FileMaker, plan_id

_SHOWN_CHARS = 200
_SCRIPTS = (".bat", ".cmd")
# Windows has a shell read the words of such a script, and the message may hold a name from a card.
_SIGNS = str.maketrans(dict.fromkeys('"%!^&|<>()\r\n', " "))


def run_notifier(command: Sequence[str], message: str, *, timeout_s: float = 30.0) -> str:
    """Run `command` with `message` as its last argument; return an error, or nothing.

    It runs without a shell or input, and is killed after the time limit.

    Args:
        command: A program and its arguments; empty: do nothing.
        timeout_s: Time limit in seconds.
    """
    if not command:
        return ""
    program = found_program(command)
    if program[0].lower().endswith(_SCRIPTS):
        message = message.translate(_SIGNS)
    try:
        process = subprocess.run(  # noqa: S603
            [*program, message],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"The notification {command[0]!r} took longer than {timeout_s:g} s and was stopped"
    except (OSError, ValueError) as error:
        return f"The notification {command[0]!r} could not be run: {error}"
    if process.returncode:
        text = " ".join(process.stderr.decode("utf-8", errors="replace").split())[:_SHOWN_CHARS]
        return f"The notification {command[0]!r} failed with {process.returncode}: {text}"
    return ""


def hold_back(plans: Plans, period_state: PeriodState, tag: str = "") -> str:
    """Return why a plan prevents making a period now, or an empty string.

    Args:
        plans: Existing plans.
        tag: Suffix of plan names; see `PrivateShelf`.
    """
    name = period_state.period.name
    plan = plan_id(f"{name}{tag}")
    if period_state.period.tier == "daily":
        return ""
    if plan in plans.waiting:
        return f"a plan for it awaits review: `familiar review show {plan}`"
    sources = pages.Record({file.rel_path: file.digest for file in period_state.sources})
    if not plans.is_rejected(plan, sources.input_hash):
        return ""
    return (
        "you rejected the plan from these sources; "
        f"`familiar consolidate --period {name} --redo` asks again"
    )


Name = Literal["short", "mid", "long"]
NAMES: Final[tuple[Name, ...]] = ("short", "mid", "long")
_GUIDANCE: Final[dict[Name, str]] = {"short": "", "mid": composing.MID, "long": composing.LONG}
_SESSION_LEVEL: Final = 2
_FEW: Final = 10  # sessions
_DAY: Final = timedelta(days=1)
_MONTH: Final = timedelta(days=31)
_DAY_CHARS: Final = len("2026-04-07")
_KNOWN: Final = "what you know already"
_NEW: Final = "what is new"
_READ: Final = "read"  # hash of a session that scrolled out of the digest below


def read_schedule(text: str, key: str) -> Recurrence:
    """Parse the schedule in the setting `key`.

    Raises:
        ConfigError: It is not a valid schedule.
    """
    recurrence = parse_recurrence(text)
    if recurrence is None or recurrence.hour is None:
        raise ConfigError(
            f"{key!r} is {text!r}, which is not a valid schedule",
            hint=f"`familiar config set {key} 'weekly sun 03:30'`; or `daily 03:00`, "
            "`monthly 1 04:00`, `every 2 days 03:00`.",
        )
    return recurrence


class Digest(Struct, frozen=True):
    """Settings of one digest.

    Args:
        budget_tokens: Token limit of its text.
        switched_on: Whether it is made on schedule.
    """

    name: Name
    budget_tokens: int
    schedule: Recurrence
    switched_on: bool

    @property
    def rel_path(self) -> str:
        """Its path."""
        return digest_path(self.name)


class DigestStatus(Struct, frozen=True):
    """Status of one digest.

    Args:
        tokens: Tokens of its text; 0: it does not exist.
        budget_tokens: Token limit of its text.
        made_at: When it was made, ISO 8601; None: not by this program.
        input_hash: Hash of its sources; None: it was not made.
        due: Whether it is scheduled by now and its sources have changed.
        fresh: Whether it is up to date with its sources.
        scheduled: Whether it is made on schedule.
        problem: Why it is unreadable.
        plan_id: Its plan that awaits approval.
        rejected: Whether a person rejected the plan made from the current sources.
    """

    name: Name
    tokens: int
    budget_tokens: int
    made_at: str | None
    input_hash: str | None
    due: bool
    fresh: bool
    scheduled: bool
    problem: str = ""
    plan_id: str = ""
    rejected: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the status as `--json` shows it."""
        told = {"problem": self.problem or None, "plan_id": self.plan_id or None}
        return asdict(self) | told


class DigestResult(Struct, frozen=True):
    """Result of making a digest.

    Args:
        outcome: `made`, `unchanged` (its sources have not changed), `held` (awaits approval),
            `rejected` (a person rejected it, and its sources have not changed since), or `nothing`
            (there are no sources).
        tokens: Tokens of its current text.
        sources: The files it was made from.
        plan_id: The plan that awaits approval.
        before: Its previous text, or None.
        after: Its current or proposed text; None if it would take a model to make it.
        refused: Proposals rejected by the rules.
    """

    name: Name
    rel_path: str
    outcome: Literal["made", "unchanged", "held", "rejected", "nothing"]
    tokens: int = 0
    sources: tuple[str, ...] = ()
    plan_id: str = ""
    before: str | None = None
    after: str | None = None
    refused: tuple[Rejection, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return it as `--json` shows it."""
        return {
            "name": self.name,
            "rel_path": self.rel_path,
            "outcome": self.outcome,
            "tokens": self.tokens,
            "sources": list(self.sources),
            "plan_id": self.plan_id or None,
            "refused": [{"rail": r.rail, "reason": r.reason} for r in self.refused],
        }


class Distiller(Struct, dict=True):
    """Makes digests.

    Args:
        sessions: All session files, newest first.
        digests: Settings of each digest.
        count: Counts tokens.
        engine: Returns the file maker for a digest; each may use another model.
        today: The current moment.
        name: The familiar's name.
        plans: Existing plans.
        phrases: Titles for the files.
    """

    sessions: Iterable[str]
    digests: Mapping[Name, Digest]
    count: Callable[[str], int]
    engine: Callable[[Name], FileMaker]
    today: Today
    name: str
    plans: Plans = Plans()
    phrases: Phrases = ENGLISH

    @cached_property
    def _maker(self) -> FileMaker:
        return self.engine("short")

    def status(self) -> list[DigestStatus]:
        """Return the status of each digest."""
        return [self._status(name) for name in NAMES]

    def due(self) -> list[Name]:
        """Return the digests that are due by schedule, in the order to make them."""
        return [name for name in NAMES if self._may_be_due(name) and self._status(name).due]

    def _may_be_due(self, name: Name) -> bool:
        """Check cheaply, without reading sources, whether a digest may be due."""
        try:
            record = self._page(self.digests[name].rel_path).record
        except FamiliarError:
            return False
        is_time = self._is_time(name, record.made_at if record else "")
        return self.digests[name].switched_on and is_time

    async def make(self, name: Name, *, again: bool = False) -> DigestResult:
        """Make a digest, unless its sources are unchanged.

        Args:
            again: Make it in any case.

        Raises:
            ModelError: The model could not be asked, or its reply is unusable.
            ConfigError: There is no model, or its context is too small.
            FamiliarError: A source is unreadable, or the disk failed. Nothing was changed.
        """
        digest = self._plan_digest(name)
        page = self._page(digest.rel_path)
        tokens = self.count(pages.readable_text(page.body))
        sources = tuple(digest.sources)
        if not digest.items and digest.body is None:
            return DigestResult(name, digest.rel_path, "nothing", tokens)
        if not again and self._is_fresh(page, digest):
            return DigestResult(name, digest.rel_path, "unchanged", tokens, sources)
        if self._plan_id(name) in self.plans.waiting:
            return DigestResult(name, digest.rel_path, "held", tokens, sources, self._plan_id(name))
        if not again and self._is_rejected(digest):
            return DigestResult(name, digest.rel_path, "rejected", tokens, sources)
        engine = self.engine(name)
        if engine.dry_run and digest.body is None:
            return DigestResult(name, digest.rel_path, "made", tokens, sources)
        digest = replace(digest, items=self._with_unseen(digest))
        made = await engine.make(digest)
        now = tokens if made.held else self.count(pages.readable_text(made.file.after))
        return DigestResult(
            name,
            digest.rel_path,
            "held" if made.held else "made",
            now,
            tuple(digest.sources),
            made.held,
            made.file.before,
            made.file.after,
            made.refused,
        )

    def _status(self, name: Name) -> DigestStatus:
        digest = self.digests[name]
        try:
            page = self._page(digest.rel_path)
            wanted = self._plan_digest(name)
        except FamiliarError as error:
            budget, on = digest.budget_tokens, digest.switched_on
            return DigestStatus(name, 0, budget, None, None, False, False, on, str(error))  # noqa: FBT003
        fresh = self._is_fresh(page, wanted)
        record = page.record
        made_at = record.made_at if record else ""
        waits = self._plan_id(name) in self.plans.waiting
        rejected = not fresh and self._is_rejected(wanted)
        wants = digest.switched_on and not (fresh or waits or rejected)
        wants = wants and (bool(wanted.items) or wanted.body is not None)
        return DigestStatus(
            name,
            self.count(pages.readable_text(page.body)),
            digest.budget_tokens,
            made_at or None,
            record.input_hash if record else None,
            wants and self._is_time(name, made_at) and self._has_enough_new(name, page, wanted),
            fresh,
            digest.switched_on,
            plan_id=self._plan_id(name) if waits else "",
            rejected=rejected,
        )

    def _is_time(self, name: Name, made_at: str) -> bool:
        """Tell whether a scheduled moment has passed since a digest was made."""
        if not made_at:
            return True
        try:
            last = parse_iso(made_at)
        except ValueError:
            return True
        due = last_occurrence(self.digests[name].schedule, self.today.now, self.today.zone)
        return last < due or last > self.today.now  # made while the clock was wrong

    def _has_enough_new(self, name: Name, page: pages.MadePage, digest: PlannedDigest) -> bool:
        """Tell whether a middle digest would gain enough new content.

        Newer sessions are in the short digest, which is also in every prompt. The middle one is
        remade once they make up half of the short one, or one of them has left it, or after a
        month. A short digest of a few sessions is cheap.
        """
        record, short = page.record, self._page(self.digests["short"].rel_path).record
        if name != "mid" or record is None or short is None or _READ in digest.sources.values():
            return True
        since = _day_of(record)
        placed = [session_day(path, self.today.cutoff_hour) for path in short.sources]
        days = [one[0] for one in placed if one is not None]
        today = self.today.now.date()
        is_old = since > today or today - since > _MONTH
        return is_old or len(days) < _FEW or sum(day > since for day in days) * 2 >= len(days)

    def _is_fresh(self, page: pages.MadePage, digest: PlannedDigest) -> bool:
        wants = pages.Record(digest.sources).input_hash
        return page.record is not None and page.record.input_hash == wants

    def _is_rejected(self, digest: PlannedDigest) -> bool:
        """Tell whether a person rejected the digest of exactly these sources."""
        named = self._plan_id(digest.name)
        return self.plans.is_rejected(named, pages.Record(digest.sources).input_hash)

    def _plan_id(self, name: str) -> str:
        return plan_id(f"{name}{self._maker.tag}")

    def _page(self, rel_path: str) -> pages.MadePage:
        store = self._maker.pages
        there = store.exists(rel_path)
        return pages.read_page(store.read_file(rel_path)) if there else pages.MadePage("")

    def _plan_digest(self, name: Name) -> PlannedDigest:
        digest = self.digests[name]
        wanted = self._short(digest) if name == "short" else self._above(name, digest)
        if wanted.items:
            return wanted
        is_emptied = name != "long" and self._is_emptied(digest.rel_path)
        return replace(wanted, body=f"# {wanted.title}\n" if is_emptied else None)

    def _is_emptied(self, rel_path: str) -> bool:
        """Tell whether a digest's sources exist but are now empty."""
        record, store = self._page(rel_path).record, self._maker.pages
        there = [path for path in (record.sources if record else ()) if store.exists(path)]
        return bool(there) and not any(facts_of(path, store.read_file(path)).says for path in there)

    def _above(self, name: Name, digest: Digest) -> PlannedDigest:
        items, sources = self._below(name)
        return PlannedDigest(
            name,
            digest.rel_path,
            self.phrases.digests[name],
            sources,
            items,
            guidance=_GUIDANCE[name].format(name=framed(self.name)),
            budget_tokens=digest.budget_tokens,
            made_at=iso(self.today.now),
            may_shrink=name == "mid",  # a quiet week yields little
        )

    def _below(self, name: Name) -> tuple[tuple[SourceItem, ...], dict[str, str]]:
        """Return the model's input for a digest, and the hashes of its sources."""
        source: Name = "short" if name == "mid" else "mid"
        page = self._page(self.digests[source].rel_path)
        text = pages.below_title(pages.readable_text(page.body))
        if not text:
            return (), {}
        own = self._page(self.digests[name].rel_path)
        unseen = dict.fromkeys(self._unseen(name, own, page), _READ)
        sources = {self.digests[source].rel_path: page.digest, **unseen}
        if name == "mid":
            return tuple(_by_session(text)), sources
        known = pages.below_title(pages.readable_text(own.body))
        old = (SourceItem(_KNOWN, known, _evidence_until(own)),) if known else ()
        return (*old, SourceItem(_NEW, text, _evidence_until(page))), sources

    def _unseen(self, name: Name, own: pages.MadePage, below: pages.MadePage) -> list[str]:
        """Return the sessions that left the digest below since this one was made.

        A first long digest takes in all sessions, a first middle one those of a month. A digest
        that a person wrote counts as having seen everything.
        """
        source = self.digests["short" if name == "mid" else "mid"].rel_path
        record = own.record
        if record and record.sources.get(source) == below.digest:
            return [path for path in record.sources if path.startswith(SESSIONS_DIR)]
        if record is None and pages.below_title(own.body):
            return []
        short = self._page(self.digests["short"].rel_path).record
        seen = {path for made in (short, below.record) if made for path in made.sources}
        first = date.min if name == "long" else _day_before(self.today.now.date(), _MONTH)
        since = _day_of(record) if record else first
        items: list[str] = []
        for path in self.sessions:
            placed = session_day(path, self.today.cutoff_hour)
            if placed is None or placed[0] < since:
                break
            if path not in seen:
                items.append(path)
        return items[::-1]

    def _with_unseen(self, wanted: PlannedDigest) -> tuple[SourceItem, ...]:
        """Return the input with the sessions that scrolled out, in chronological order."""
        paths = [path for path, digest in wanted.sources.items() if digest == _READ]
        unseen = [
            SourceItem(
                self.phrases.session(_file_stem(path)),
                pages.below_title(pages.readable_text(pages.read_page(text).body)),
            )
            for path, text in self._readable(paths)
        ]
        first = [item for item in wanted.items if item.label == _KNOWN]
        return (*first, *unseen, *(item for item in wanted.items if item.label != _KNOWN))

    def _short(self, digest: Digest) -> PlannedDigest:
        """Return the newest sessions that fit, oldest first."""
        taken: list[tuple[str, str, str]] = []
        title = self.phrases.digests["short"]
        room = digest.budget_tokens - self.count(f"# {title}\n")
        for path, text in self._readable(self.sessions):
            body = pages.read_page(text).body
            section = _session_section(
                self.phrases.session(_file_stem(path)), pages.readable_text(body)
            )
            if self.count(section) > room:
                if not taken:
                    taken.append(
                        (path, pages.digest_of(body), self._shorten_session(section, room))
                    )
                break
            room -= self.count(section)
            taken.append((path, pages.digest_of(body), section))
        taken.reverse()
        text = "\n".join([f"# {title}\n", *(section for _, _, section in taken)])
        return PlannedDigest(
            "short",
            digest.rel_path,
            title,
            {path: hashed for path, hashed, _ in taken},
            tuple(SourceItem(path, section) for path, _, section in taken),
            body=text,
            made_at=iso(self.today.now),
        )

    def _readable(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield path and text of each readable, non-empty session."""
        for path in paths:
            with suppress(FamiliarError):  # `consolidate` names it
                text = self._maker.pages.read_file(path)
                if facts_of(path, text).says:
                    yield path, text

    def _shorten_session(self, section: str, room: int) -> str:
        """Truncate a session that alone is too long, with a note."""
        found, _ = pages.blocks(section)
        rest = f"- {self.phrases.rest_left_out}\n"
        kept = ""
        for block in found:
            if self.count(kept + block.gap + block.text + rest) > room:
                break
            kept += block.gap + block.text
        return f"{kept}{rest}"


def _file_stem(rel_path: str) -> str:
    return rel_path.removeprefix(f"{SESSIONS_DIR}/").removesuffix(".md")


def _by_session(text: str) -> Iterator[SourceItem]:
    """Yield a digest's text about each session, so that points can cite the session."""
    for section in sections(text, _SESSION_LEVEL):
        said = section.body.strip()
        if said:
            yield SourceItem(section.title or "the latest sessions", said)


def _evidence_until(page: pages.MadePage) -> tuple[str, ...]:
    """Return the sources of a digest's text, as its points cite them; empty: unknown."""
    made_at = page.record.made_at[:_DAY_CHARS] if page.record else ""
    return (f"before {made_at}",) if made_at else ()


def _day_of(record: pages.Record) -> date:
    """Return the first day whose sessions a digest may have missed."""
    try:
        return _day_before(parse_iso(record.made_at).date(), _DAY)
    except ValueError:
        return date.max


def _day_before(day: date, span: timedelta) -> date:
    return day - min(span, day - date.min)


def _session_section(title: str, text: str) -> str:
    """Render a session as a section, its own headings as bold lines."""
    lines = (
        f"**{line.title}**" if line.title else line.text.rstrip("\r\n")
        for line in scan(pages.below_title(text))
    )
    return "\n".join((f"## {title}", "", *lines)).rstrip() + "\n"
