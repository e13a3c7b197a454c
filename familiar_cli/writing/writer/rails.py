"""The rules that every operation must pass before it may change a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import UsageError
from familiar_cli.base.languages import Phrases, begins_with, heading_in
from familiar_cli.base.text import fold, is_of_names, one_line, slugify
from familiar_cli.base.times.when import with_dates
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.aliases import check_alias
from familiar_cli.store.memory.mentions import find_mentions, head_of, key_of, without_honorific
from familiar_cli.store.memory.pages.erasing import page_items
from familiar_cli.store.memory.pages.facts import LIMIT_DAYS, ended_on, holding_line, limit_days
from familiar_cli.store.memory.pages.lines import as_line, citations_in, main_script, normal_line
from familiar_cli.store.memory.pages.links import way_to
from familiar_cli.store.memory.pages.relations import SECTION as RELATIONS
from familiar_cli.store.memory.pages.relations import kinds_of, line_of, relations_in
from familiar_cli.store.search.who_when import states_limit
from familiar_cli.writing.writer.contract import KINDS, REWRITES, Operation, ProposedLine, Refusal
from familiar_cli.writing.writer.grounds import Grounds, Person, stems_of
from familiar_cli.writing.writer.page_text import section_of, summary_of


class UnrelatedError(Exception):
    """A line does not state a valid relation."""


def as_relation(words: str, operation: Operation, grounds: Grounds) -> str:
    """Rewrite a line of the Relations section with a link to the one page it refers to.

    Raises:
        UnrelatedError: It states no relation, or the page does not exist; the message says which.
    """
    if operation.kind != "said":
        raise UnrelatedError("a relation is a stated fact, not play or a feeling")
    if not operation.rel_path.startswith(f"{layout.PEOPLE_DIR}/"):
        raise UnrelatedError("only people can have relations")
    page = f"## Relations\n- {words}\n"
    found = relations_in(page, operation.rel_path, kinds_of().known).relations
    if len(found) != 1:
        raise UnrelatedError("it is not a relation to one person: `sister of Robin`")
    (one,) = found
    name = one.name.partition("|")[0]
    target = one.target or _file_of_name(name, grounds)
    if target == operation.rel_path:
        raise UnrelatedError("nobody is related to themselves")
    if not _is_there(target, name, grounds):
        raise UnrelatedError(f"there is no file about {name!r}")
    relation = replace(one, name=name, evidence=())
    return line_of(relation, way_to(target, operation.rel_path)).removeprefix("- ")


def _file_of_name(name: str, grounds: Grounds) -> str:
    """Return the file of the only person with this name; empty: none or several."""
    key = key_of(name)
    here = {p.rel_path for p in grounds.roster.people if key in map(key_of, p.names)}
    known = here | {layout.people_path(slug) for slug in grounds.others(name)}
    return known.pop() if len(known) == 1 else ""


def _is_there(rel_path: str, name: str, grounds: Grounds) -> bool:
    if grounds.roster.at(rel_path) or rel_path in grounds.topics or rel_path in grounds.shown:
        return True
    return rel_path in map(layout.people_path, grounds.others(name))


MOST_LINE_CHARS: Final = 600
MOST_SUMMARY_CHARS: Final = 4_000
MOST_LINES: Final = 40
_SHOWN_CHARS: Final = 200
_WORD: Final = re.compile(r"\w+")
_INSIDE_NAMES: Final = frozenset(" _-'’,、&+!！?？()\u200c\u200d")
_BY_HAND: Final = "the old text was written by a person; it is held for review"
_UNSUPPORTED: Final = "the turns it names share none of its words; it is held for review"
ASK_AGAIN_DAYS: Final = 30
"""How long something counts as impossible before the familiar asks again."""

_OF_LORE: Final = "only lorebook entries in the prompt say so"
_LINK: Final = re.compile(r"\[([^\[\]]*)\]\([^()]*\)|\[\[([^\[\]]*)\]\]")
_OWN_WORDS: Final = (RELATIONS, "wishes")  # sections in which nobody can speak for another person
_TAG: Final = re.compile(r"</?(?:turns|memory|voice|lore)\b", re.IGNORECASE)
_PLAY: Final = ("(play", "in the game")
_DEFAULT_SECTION: Final = {
    f"{layout.PEOPLE_DIR}/": {
        "said": "facts",
        "play": "play",
        "felt": "feelings",
        "limit": "facts",
    },
    f"{layout.TOPICS_DIR}/": {
        "said": "notes",
        "play": "play",
        "felt": "feelings",
        "limit": "notes",
    },
    f"{layout.SESSIONS_DIR}/": dict.fromkeys(KINDS, "highlights"),
}


class JudgedBatch(Struct, frozen=True):
    """A batch after its reply.

    Args:
        grounds: The evidence for it.
        operations: Operations to write.
        refused: Refused proposals, and why.
        held: Operations that await approval, since the turns they cite do not support them.
    """

    grounds: Grounds
    operations: tuple[Operation, ...]
    refused: tuple[Refusal, ...]
    held: tuple[Operation, ...] = ()


class _RefusedError(Exception):
    """Raised when a rule refuses a line or a whole operation."""

    def __init__(self, rail: str, reason: str) -> None:
        super().__init__(reason)
        self.rail = rail


def judge_operations(operations: Sequence[Operation], grounds: Grounds) -> JudgedBatch:
    """Apply the rules to `operations`; accepted lines are tidied."""
    accepted: list[Operation] = []
    refused: list[Refusal] = []
    held: list[Operation] = []
    for proposed in operations:
        try:
            at_path = _with_path(proposed, grounds, accepted)
            placed = _place_operation(_as_fact(at_path) if grounds.strict else at_path, grounds)
            if placed.op == "supersede":
                placed = _check_superseded(placed, grounds)
            for operation in _without_claims(placed, grounds):
                kept, refusals, doubtful = _check_lines(operation, grounds, accepted)
                if _replaces_hand(operation, grounds):
                    refusals += [_make_refusal(kept, "by_hand", _BY_HAND)] if kept.lines else []
                    kept, doubtful = replace(kept, lines=()), (*doubtful, *kept.lines)
                refused += refusals
                accepted += [kept] if kept.lines else []
                held += [replace(operation, lines=doubtful)] if doubtful else []
        except _RefusedError as no:
            refused.append(_make_refusal(proposed, no.rail, str(no)))
    return JudgedBatch(grounds, tuple(accepted), tuple(refused), tuple(held))


def _replaces_hand(operation: Operation, grounds: Grounds) -> bool:
    """Tell whether an operation ends or drops text that cites no turns: a person wrote it."""
    if operation.op == "supersede":
        return not citations_in(operation.replaces)
    file = grounds.shown.get(operation.rel_path)
    if operation.op not in REWRITES or file is None:
        return False
    is_summary = operation.op == "set_summary"
    body = summary_of(file.text) if is_summary else section_of(file.text, f"## {operation.section}")
    again = {normal_line(line.text) for line in operation.lines}
    items = ("".join(lines) for lines in page_items(body or ""))
    dropped = (one for one in items if not (citations_in(one) or ended_on(one)))
    return any(words not in again for words in map(normal_line, dropped) if words)


def _without_claims(operation: Operation, grounds: Grounds) -> tuple[Operation, ...]:
    """Turn relations and wishes stated by others into facts; return both operations."""
    if heading_in(operation.section) not in _OWN_WORDS or operation.op != "add_bullets":
        return (operation,)
    claims = tuple(one for one in operation.lines if _claiming_people(one, operation, grounds))
    own = tuple(one for one in operation.lines if one not in claims)
    facts = grounds.phrases.headings["facts"]
    moved = replace(operation, lines=claims, section=facts, op="add_bullets")
    return tuple(one for one in (replace(operation, lines=own), moved) if one.lines)


def _with_path(operation: Operation, grounds: Grounds, before: Sequence[Operation]) -> Operation:
    """Resolve the path of an operation."""
    rel_path = operation.rel_path
    directory, _, rest = rel_path.partition("/")
    if f"{directory}/" not in _DEFAULT_SECTION or not rest:
        raise _RefusedError("path", "only files in people/, topics/ and sessions/ are written")
    if directory == layout.TOPICS_DIR:
        topic = grounds.topic(rel_path) or _new_topic(rel_path, grounds, before)
        if grounds.batch.private is not None:
            raise _RefusedError("private", "what was said in private stays with the person")
        return replace(operation, rel_path=topic)
    if rel_path in grounds.sessions:
        return operation
    if "/" in rest or not rest.endswith(".md") or rest.startswith(("_", ".")):
        raise _RefusedError("path", "that is not the file of a person or a session")
    if rel_path.startswith(f"{layout.PEOPLE_DIR}/") and grounds.roster.at(rel_path) is None:
        raise _RefusedError("unknown_person", "no person with that id took part in these turns")
    if rel_path.startswith(f"{layout.SESSIONS_DIR}/"):
        rel_path = grounds.session_path(rel_path)
        if rel_path not in grounds.sessions:
            raise _RefusedError("session_slot", "none of these turns was said in that session")
    return replace(operation, rel_path=rel_path)


def _new_topic(rel_path: str, grounds: Grounds, before: Sequence[Operation]) -> str:
    """Return the path of a new topic in an existing directory."""
    directory, _, name = rel_path.removesuffix(".md").rpartition("/")
    stem = slugify(name)
    if (
        directory not in grounds.topic_directories
        or not all(is_of_names(c) or c in _INSIDE_NAMES for c in name)
        or not stem
    ):
        raise _RefusedError("path", "that is not a valid topic name")
    rel_paths = (o.rel_path for o in before if o.rel_path.startswith(f"{directory}/"))
    same = (path for path in rel_paths if path.endswith(f"/{stem}.md"))
    return next(same, f"{directory}/{stem}.md")


def _place_operation(operation: Operation, grounds: Grounds) -> Operation:
    """Choose the section of an operation, and check whether it may rewrite it."""
    if not any(line.text.strip() for line in operation.lines):
        raise _RefusedError("blank", "it is empty")
    if len(operation.lines) > MOST_LINES:
        raise _RefusedError("size", f"it has more than {MOST_LINES} lines")
    if grounds.batch.private is not None and operation.rel_path not in grounds.sessions:
        return _in_private(operation)
    file = grounds.shown.get(operation.rel_path)
    if heading_in(operation.section) == "aliases" and operation.op != "set_summary":
        operation = replace(operation, op="add_aliases", section="")
    if operation.op == "add_aliases":
        if not operation.rel_path.startswith(f"{layout.PEOPLE_DIR}/"):
            raise _RefusedError("form", "only people have aliases")
        if grounds.batch.viewer.scopes:
            raise _RefusedError("private", "a name said in private is not listed where others read")
        return operation
    if operation.op == "supersede":
        return replace(operation, section="")
    section = "" if operation.op == "set_summary" else _section_title(operation, grounds.phrases)
    if operation.op in REWRITES and file is not None and not file.holds(section):
        raise _RefusedError("not_shown", "the model saw only part of what it rewrites")
    return replace(operation, section=section)


def _in_private(operation: Operation) -> Operation:
    """Turn the operation into an addition to the person's private section, or refuse it."""
    if operation.op in {"add_aliases", "replace_section"}:
        raise _RefusedError("private", "turns of a private channel can only add to memory")
    op = operation.op if operation.op == "supersede" else "add_bullets"
    section = operation.section if _are_wishes(operation) else ""
    return replace(operation, op=op, section=section, title="")


def _are_wishes(operation: Operation) -> bool:
    """Tell whether lines state a person's lasting wishes for the familiar."""
    is_person = operation.rel_path.startswith(f"{layout.PEOPLE_DIR}/")
    return is_person and operation.kind == "said" and heading_in(operation.section) == "wishes"


def _as_fact(operation: Operation) -> Operation:
    """Turn a wish that a small model found into a fact; it mistakes anything for one."""
    return replace(operation, section="") if _are_wishes(operation) else operation


def _section_title(operation: Operation, phrases: Phrases) -> str:
    """Return the title of a section, translated if it is a standard one."""
    directory = operation.rel_path.partition("/")[0] + "/"
    usual = _DEFAULT_SECTION[directory][operation.kind]
    title = re.sub(r"<!--.*?(?:-->|$)", "", operation.section).strip()
    holds = heading_in(title) if title else usual
    if holds == "wishes" and not _are_wishes(operation):
        holds = usual
    return phrases.headings[holds] if holds else title


def _check_superseded(operation: Operation, grounds: Grounds) -> Operation:
    """Resolve the line that the operation replaces, and its last day."""
    if operation.kind != "said" or not operation.rel_path.startswith(f"{layout.PEOPLE_DIR}/"):
        raise _RefusedError(
            "supersede", "only what a person said about themselves can be superseded"
        )
    file = grounds.shown.get(operation.rel_path)
    line = grounds.without_day(as_line(operation.replaces), operation.rel_path)
    old = holding_line(file.text, line, grounds.batch.private) if file else None
    if old is None:
        raise _RefusedError("supersede", "the file has no such line to replace")
    (new,) = operation.lines
    turns = _with_evidence(new, grounds).turns
    _, until, is_newer = grounds.said_at(old.text, turns)
    if not is_newer:
        raise _RefusedError("supersede", "the turns it cites are not newer than the old line")
    if normal_line(new.text) == normal_line(old.text):
        raise _RefusedError("duplicate", "the file already says so")
    return replace(operation, replaces=old.text.rstrip("\r\n"), until=until)


def _check_lines(
    operation: Operation, grounds: Grounds, before: Sequence[Operation]
) -> tuple[Operation, list[Refusal], tuple[ProposedLine, ...]]:
    """Split an operation's lines into accepted, refused and held ones.

    A rewrite is accepted as a whole or not at all.
    """
    kept: list[ProposedLine] = []
    refused: list[Refusal] = []
    held: list[ProposedLine] = []
    for line in operation.lines:
        text = grounds.without_day(as_line(line.text), operation.rel_path)
        text, lore = _without_lore(text, operation, grounds)
        if lore:
            told = replace(line, text=lore)
            refused.append(_make_refusal(operation, "lore", _OF_LORE, told))
        if lore and not text:
            continue
        clean = replace(line, text=text)
        try:
            done = _check_line(
                clean, operation, grounds, [*kept, *_earlier_lines(operation, before)]
            )
            if _is_supported(clean, operation, grounds):
                kept.append(done)
            else:
                held.append(done)
                refused.append(_make_refusal(operation, "unsupported", _UNSUPPORTED, line))
        except _RefusedError as no:
            if operation.op in REWRITES:
                raise
            refused.append(_make_refusal(operation, no.rail, str(no), line))
    return replace(operation, lines=tuple(kept)), refused, tuple(held)


def _without_lore(text: str, operation: Operation, grounds: Grounds) -> tuple[str, str]:
    """Split a line into what people said and what only lorebooks say.

    Raises:
        _RefusedError: Nothing is left for a rewrite.
    """
    is_old = normal_line(text) in grounds.lines_of(operation.rel_path)
    if is_old or operation.op == "add_aliases":
        return text, ""
    kept, lore = grounds.lore_rail.split(text)
    if lore and not kept and operation.op in REWRITES:
        raise _RefusedError("lore", _OF_LORE)
    return kept, lore


def _earlier_lines(operation: Operation, before: Sequence[Operation]) -> list[ProposedLine]:
    """Return the lines that earlier operations add to the same file, even by `create`."""
    added = ("add_bullets", "create")
    same = [o for o in before if o.rel_path == operation.rel_path and o.op in added]
    return [line for o in same for line in o.lines]


def _check_line(
    line: ProposedLine, operation: Operation, grounds: Grounds, before: Sequence[ProposedLine]
) -> ProposedLine:
    """Check a line and return it as it will be written.

    Raises:
        _RefusedError: A rule refuses it.
    """
    line = _with_evidence(line, grounds)
    if operation.op == "add_aliases":
        return _check_alias(line, operation, grounds)
    for rule in _RULES:
        rule(line, operation, grounds)
    line = _link_relation(_date_line(line, operation, grounds), operation, grounds)
    is_limit = _is_limit(line.text, operation, grounds)
    if operation.op not in REWRITES and not (is_limit and _is_due(line, operation, grounds)):
        said = normal_line(line.text)
        if said in grounds.lines_of(operation.rel_path) or said in {
            normal_line(k.text) for k in before
        }:
            raise _RefusedError("duplicate", "the file already says so")
    line = _attribute_line(line, operation, grounds)
    line = _date_limit(line, grounds) if is_limit else line
    return replace(line, text=grounds.lore_rail.link(line.text, operation.rel_path))


def _date_limit(line: ProposedLine, grounds: Grounds) -> ProposedLine:
    """Add to a limit the day it was stated and the day to ask again."""
    text = LIMIT_DAYS.sub("", line.text).rstrip()
    day = grounds.day_said(line.turns)
    later = day + timedelta(days=ASK_AGAIN_DAYS)
    when = grounds.phrases.ask_again.format(day=day.isoformat(), later=later.isoformat())
    return replace(line, text=f"{text} {when}")


def _is_due(line: ProposedLine, operation: Operation, grounds: Grounds) -> bool:
    """Tell whether a limit in the file is due to be asked about again."""
    file = grounds.shown.get(operation.rel_path)
    days = limit_days(grounds.seen(file.text, operation.rel_path), line.text) if file else None
    return days is not None and grounds.day_said(line.turns).isoformat() > days[1]


def _is_limit(text: str, operation: Operation, grounds: Grounds) -> bool:
    """Tell whether a line states a limit of the familiar or of this place."""
    if operation.op in REWRITES or operation.kind not in {"said", "limit"}:
        return False
    people = tuple(name for person in grounds.roster.people for name in person.names)
    is_of_people = _has_name(text, people) and not _has_name(text, (grounds.labels.familiar,))
    return operation.kind == "limit" or (states_limit(text) and not is_of_people)


def _with_evidence(line: ProposedLine, grounds: Grounds) -> ProposedLine:
    known = tuple(n for n in line.turns if n in grounds.turns)
    if not known:
        why = "none of the turns it names is in this batch" if line.turns else "it names no turn"
        raise _RefusedError("evidence", why)
    return replace(line, turns=known)


def _date_line(line: ProposedLine, operation: Operation, grounds: Grounds) -> ProposedLine:
    """Replace "yesterday" and the like in a new line by a date; existing lines stay."""
    if normal_line(line.text) in grounds.lines_of(operation.rel_path):
        return line
    return replace(
        line, text=with_dates(line.text, lambda words: grounds.day_of(words, line.turns))
    )


def _link_relation(line: ProposedLine, operation: Operation, grounds: Grounds) -> ProposedLine:
    """Link the other page in a line that states a relation; other lines stay."""
    if heading_in(operation.section) != RELATIONS:
        return line
    try:
        return replace(line, text=as_relation(line.text, operation, grounds))
    except UnrelatedError as error:
        raise _RefusedError("relation", str(error)) from error


def _not_blank(line: ProposedLine, operation: Operation, grounds: Grounds) -> None:
    del operation, grounds
    if not normal_line(line.text):
        raise _RefusedError("blank", "it is empty")


def _not_too_long(line: ProposedLine, operation: Operation, grounds: Grounds) -> None:
    del grounds
    most = MOST_SUMMARY_CHARS if operation.op == "set_summary" else MOST_LINE_CHARS
    if len(line.text) > most:
        raise _RefusedError("size", f"a line has more than {most} characters")


def _in_their_language(line: ProposedLine, operation: Operation, grounds: Grounds) -> None:
    del operation
    script = main_script(line.text)
    if script is not None and script not in grounds.scripts:
        raise _RefusedError("language", f"nobody here writes in {script.capitalize()} letters")


def _not_the_prompt(line: ProposedLine, operation: Operation, grounds: Grounds) -> None:
    del operation
    if _TAG.search(line.text) or grounds.instructions.has(line.text):
        raise _RefusedError("instructions", "it repeats the prompt, not the conversation")


def _not_recalled(line: ProposedLine, operation: Operation, grounds: Grounds) -> None:
    if operation.op not in REWRITES and grounds.recalled(operation.rel_path).has(line.text):
        raise _RefusedError("recalled", "it repeats another memory")


def _said_in_their_words(line: ProposedLine, operation: Operation, grounds: Grounds) -> None:
    """Refuse a small model's invention: a line with a word that no person said in its turns."""
    if not grounds.strict or normal_line(line.text) in grounds.lines_of(operation.rel_path):
        return
    if not grounds.says_more_than_names(line.text):
        raise _RefusedError("blank", "it contains only names and numbers")
    if new := grounds.unsaid_words(_without_links(line.text), line.turns):
        raise _RefusedError("unsupported", f"nobody said {new!r} in the turns it cites")


def _rewritten_from_something(line: ProposedLine, operation: Operation, grounds: Grounds) -> None:
    if operation.op not in REWRITES or operation.kind == "felt":
        return
    file = grounds.shown.get(operation.rel_path)
    known = stems_of(file.shown) if file else frozenset()
    text = _without_links(line.text)
    if not (grounds.support(text, line.turns) or known & stems_of(text)):
        raise _RefusedError("unsupported", "neither the turns it cites nor the file say any of it")


_RULES: Final[tuple[Callable[[ProposedLine, Operation, Grounds], None], ...]] = (
    _not_blank,
    _not_too_long,
    _in_their_language,
    _not_the_prompt,
    _said_in_their_words,
    _not_recalled,
    _rewritten_from_something,
)


def _attribute_line(line: ProposedLine, operation: Operation, grounds: Grounds) -> ProposedLine:
    """Attribute a line to its author. Feelings are the familiar's own.

    Raises:
        _RefusedError: Only the familiar said it about a person.
    """
    subject = grounds.roster.at(operation.rel_path)
    speakers = grounds.roster.who_said(line.turns)
    is_old = normal_line(line.text) in grounds.lines_of(operation.rel_path)
    if operation.kind in {"felt", "limit"} or is_old:
        return line
    if subject and not speakers:
        raise _RefusedError("claim", "only the familiar said so in these turns, not a person")
    if subject and operation.op == "set_summary" and subject not in speakers:
        raise _RefusedError("claim", "a statement about who somebody is must cite their own words")
    text = _as_play(line.text, grounds.phrases) if operation.kind == "play" else line.text
    claimants = _claiming_people(line, operation, grounds)
    is_own = operation.op == "supersede" or heading_in(operation.section) in _OWN_WORDS
    if claimants and is_own:
        raise _RefusedError("claim", "only somebody else said so")
    if claimants:
        return replace(line, text=_as_claim(text, claimants, grounds))
    if operation.op in {*REWRITES, "create"} or any(_has_name(text, p.names) for p in speakers):
        return replace(line, text=text)
    who = ", ".join(p.label for p in speakers) or grounds.labels.familiar
    return replace(
        line, text=text if not speakers and _has_name(text, (who,)) else f"{text} ({who})"
    )


def _claiming_people(
    line: ProposedLine, operation: Operation, grounds: Grounds
) -> tuple[Person, ...]:
    """Return the authors of a line about somebody else; empty if about themselves.

    The authors of the supporting turns decide, not their text: citing another turn of the person as
    well does not make it their own statement.
    """
    if operation.op == "set_summary" or operation.kind == "felt":
        return ()
    saying = grounds.support(_without_links(line.text), line.turns, alone=True)
    speakers = grounds.roster.who_said(saying or line.turns)
    subject = grounds.roster.at(operation.rel_path)
    if subject:
        is_own = subject in speakers and (saying or len(speakers) == 1)
        return () if is_own else tuple(person for person in speakers if person != subject)
    named = [person for person in grounds.roster.people if _has_name(line.text, person.names)]
    return speakers if any(person not in speakers for person in named) else ()


def _as_claim(text: str, claimants: Sequence[Person], grounds: Grounds) -> str:
    """Rewrite a line as a claim of somebody about somebody else."""
    who = ", ".join(person.label for person in claimants)
    said, form = _without_links(text), grounds.phrases.claim
    is_told = said.startswith(form.format(who=who, line=""))
    return said if is_told else form.format(who=who, line=said)


def _is_supported(line: ProposedLine, operation: Operation, grounds: Grounds) -> bool:
    """Tell whether a line shares words with the turns it cites, or already exists."""
    if operation.kind == "felt" or operation.op in {"add_aliases", *REWRITES}:
        return True
    if normal_line(line.text) in grounds.lines_of(operation.rel_path):
        return True
    return bool(grounds.support(_without_links(line.text), line.turns))


def _without_links(text: str) -> str:
    """Replace links in a line by their text."""
    return _LINK.sub(r"\1\2", text)


def _as_play(text: str, phrases: Phrases) -> str:
    is_told = fold(text).startswith(_PLAY) or begins_with(text, "in_play")
    return text if is_told else phrases.in_play.format(text)


def _has_name(text: str, names: Sequence[str]) -> bool:
    words = f" {' '.join(_WORD.findall(fold(text)))} "
    return _mentions_name(text, names) or any(
        f" {normal_line(name)} " in words or (not name.isascii() and normal_line(name) in words)
        for name in names
        if normal_line(name)
    )


def _mentions_name(text: str, names: Sequence[str]) -> bool:
    """Tell whether `text` contains a name, even with other letters attached: `Saraさん`."""
    said = (*names, *map(without_honorific, names))
    keys = {key for name in said if (key := key_of(name))}
    heads = dict(map(head_of, keys))
    return bool(find_mentions(text, lambda _: heads, keys.intersection))


def _check_alias(line: ProposedLine, operation: Operation, grounds: Grounds) -> ProposedLine:
    """Check a person's alias and return it.

    Raises:
        _RefusedError: It is not a name, nobody used it, or it is another person's.
    """
    person = grounds.roster.at(operation.rel_path)
    assert person is not None
    try:
        name = check_alias(line.text)
    except UsageError as error:
        raise _RefusedError("form", "it cannot be a name") from error
    key = key_of(name)
    if key in {key_of(known) for known in person.names}:
        raise _RefusedError("duplicate", "the file already says so")
    people = (other for other in grounds.roster.people if other != person)
    others = [other.slug for other in people if key in map(key_of, other.names)]
    others += [slug for slug in grounds.others(name) if slug != person.slug]
    if others or grounds.labels.is_reserved(name, person.slug):
        raise _RefusedError(
            "identity", "someone else has that name; only accounts distinguish them"
        )
    if not any(key in fold(words) for words in grounds.words_of(line.turns)):
        raise _RefusedError("evidence", "that name was not said in the turns it cites")
    return replace(line, text=name)


def _make_refusal(
    operation: Operation, rail: str, reason: str, line: ProposedLine | None = None
) -> Refusal:
    lines = [line] if line else operation.lines
    text = one_line(" / ".join(entry.text for entry in lines), _SHOWN_CHARS)
    turns = tuple(sorted({n for entry in lines for n in entry.turns}))
    return Refusal(one_line(operation.rel_path, _SHOWN_CHARS), rail, reason, text, turns)
