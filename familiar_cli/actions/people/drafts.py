"""What changes in which files when people get a name, are merged, split or renamed: drafts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING

from familiar_cli import markdown
from familiar_cli.errors import NotFoundError, RefusedError, UsageError
from familiar_cli.languages import ENGLISH
from familiar_cli.languages.headings import heading_in
from familiar_cli.markdown import body_start, split_lines, title_of
from familiar_cli.memory.layout import people_path
from familiar_cli.memory.merge.blocks import take_apart
from familiar_cli.memory.merge.front import merge_front
from familiar_cli.memory.merge.sections import Findings
from familiar_cli.memory.pages.evidence import PLAIN, turn_ids
from familiar_cli.memory.pages.privacy import owned, private_heading, private_scope
from familiar_cli.memory.pages.relations import tidied
from familiar_cli.memory.pages.relink import LinkedPages, Relabel, Relinking
from familiar_cli.memory.pages.similarity import normal, normal_lines
from familiar_cli.memory.people.alias_section import (
    aliases_of,
    names_of,
    same_as,
    stub,
    with_alias,
    without_alias,
)
from familiar_cli.memory.people.mentions import key_of
from familiar_cli.review.draft import Draft
from familiar_cli.visibility import channel_scope, split_scope
from familiar_cli.writer import applying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from familiar_cli.languages import Phrases
    from familiar_cli.memory.pages.evidence import Numbering
    from familiar_cli.memory.store.store import MemoryStore


@dataclass(frozen=True, slots=True)
class PeopleDraft:
    """What a change of people comes to: the files, and how many lines move."""

    draft: Draft
    moved: int


def with_name(
    store: MemoryStore, slug: str, name: str, beginning: str, phrases: Phrases = ENGLISH
) -> PeopleDraft:
    """Return the change that gives somebody one more name; a new file begins with `beginning`.

    Raises:
        UsageError: `name` can be no name.
    """
    draft = Draft(store)
    before = draft.text(people_path(slug))
    after = with_alias(beginning if before is None else before, name, phrases.heading("aliases"))
    if after != before:
        draft.put(people_path(slug), after)
    return PeopleDraft(draft, 0)


def without_name(store: MemoryStore, slug: str, name: str) -> PeopleDraft:
    """Return the change that takes a name out of the list of somebody's aliases.

    Raises:
        NotFoundError: They have no file, or their list does not say `name`.
        UsageError: A line of the list says other names as well.
    """
    draft = Draft(store)
    before = _text(draft, slug)
    after = without_alias(before, name)
    if after == before:
        raise NotFoundError(
            f"{people_path(slug)!r} does not list the alias {name!r}",
            hint=f"Show their names: `familiar people show {slug}`.",
        )
    draft.put(people_path(slug), after)
    return PeopleDraft(draft, 0)


def merged(
    store: MemoryStore,
    kept: str,
    other: str,
    phrases: Phrases = ENGLISH,
    titles: Mapping[str, str] = MappingProxyType({}),
) -> PeopleDraft:
    """Return the change that puts all that is known of `other` into the file of `kept`.

    The file of `other` stays, and says whose it is. Links to it lead to `kept`. A file that is not
    there yet is made.

    Args:
        store: The memory.
        kept: The slug of the person whose file is kept.
        other: The slug of the account that is theirs, too.
        phrases: The language of the files.
        titles: The titles of those who are known by what they said, by slug.

    Raises:
        UsageError: They are the same already.
        NotFoundError: One of them has no file, and never said anything.
    """
    draft, pages = Draft(store), LinkedPages(store)
    if kept == other:
        raise UsageError(
            f"{kept!r} is already one person; nothing was changed",
            hint="Give two people: `familiar people ls` lists them.",
        )
    theirs = _text(draft, other, titles.get(other, ""))
    ours = _text(draft, kept, titles.get(kept, ""))
    for slug, text in ((kept, ours), (other, theirs)):
        if same_as(text):
            raise UsageError(
                f"{slug!r} was merged into {same_as(text)!r} already; nothing was changed",
                hint=f"Undo that first: `familiar people split {slug}`.",
            )
    after, moved = _joined(ours, theirs, phrases)
    names = aliases_of(theirs)
    name = title_of(after) or kept
    draft.put(people_path(kept), after)
    draft.put(people_path(other), stub(title_of(theirs) or other, kept, name, names, phrases))
    _relink(draft, store, pages, {people_path(other): people_path(kept)}, skip=people_path(other))
    for file in list(draft):
        draft.put(file.rel_path, tidied(file.after, file.rel_path))
    return PeopleDraft(draft, moved)


def split(
    store: MemoryStore,
    other: str,
    said_by: Callable[[int], str | None],
    phrases: Phrases = ENGLISH,
    titles: Mapping[str, str] = MappingProxyType({}),
    *,
    numbering: Numbering = PLAIN,
) -> PeopleDraft:
    """Return the change that gives `other` a file of their own again.

    Lines that rest on turns of `other` alone move there; all others stay where they are.

    Args:
        store: The memory.
        other: The slug that was merged into somebody else.
        said_by: Gives the slug of who said a turn.
        phrases: In which language a new list of names is headed.
        titles: The titles of those who are known by what they said, by slug.
        numbering: Which turns lines name.

    Raises:
        UsageError: They were not merged.
        NotFoundError: `other` has no file, and never said anything.
    """
    draft = Draft(store)
    theirs = _text(draft, other, titles.get(other, ""))
    kept = same_as(theirs)
    if kept is None:
        raise UsageError(
            f"{other!r} was not merged into anybody; nothing was changed",
            hint="`familiar people merge` merges two people.",
        )
    ours = _text(draft, kept)
    own = applying.new_file(title_of(theirs) or other)
    for name in names_of(theirs):
        if name in aliases_of(theirs):
            own = with_alias(own, name, phrases.heading("aliases"))
        if key_of(name) != key_of(title_of(ours)):
            ours = _without(ours, name)
    moved = 0
    for heading, said in _parts(ours, phrases):
        lines = [line for line in said if heading and _rests_on(line, other, said_by, numbering)]
        if lines:
            own = applying.with_bullets(own, heading, [line.rstrip("\r\n") for line in lines])
            moved += len(lines)
            for line in lines:
                ours = ours.replace(line, "", 1)
    draft.put(people_path(kept), ours)
    draft.put(people_path(other), own)
    return PeopleDraft(draft, moved)


def renamed(
    store: MemoryStore, slug: str, old: str, new: str, phrases: Phrases = ENGLISH
) -> PeopleDraft:
    """Return the change that calls somebody `new` instead of `old`, in their file and in links.

    Raises:
        NotFoundError: They have no file, or are not called `old`.
        UsageError: `new` can be no name.
    """
    draft, pages = Draft(store), LinkedPages(store)
    text = _text(draft, slug)
    if key_of(old) not in {key_of(name) for name in names_of(text)}:
        raise NotFoundError(
            f"{slug!r} is not called {old!r}; nothing was changed",
            hint=f"Show their names: `familiar people show {slug}`.",
        )
    after = with_alias(_without(text, old), new, phrases.heading("aliases"))
    title = title_of(text)
    path, relabel = people_path(slug), None
    if key_of(title) == key_of(old):
        after = applying.with_title(after, title, new)
        relabel = Relabel(path, title, new)
    draft.put(path, after)
    _relink(draft, store, pages, {}, skip=path, relabel=relabel)
    return PeopleDraft(draft, 0)


def make(
    store: MemoryStore, change: PeopleDraft, message: str, *, dry_run: bool
) -> tuple[str, ...]:
    """Make a change in one transaction; return the files that changed, or would."""
    with store.transaction("human", message, dry_run=dry_run) as tx:
        change.draft.stage(tx)
    return tx.result.written


def _joined(ours: str, theirs: str, phrases: Phrases) -> tuple[str, int]:
    """Return our file with all that only theirs says, and how many lines that is."""
    after = _with_head(ours, theirs)
    moved = 0
    known = normal_lines(ours) - {""}
    rest: list[str] = []
    summary = applying.summary_of(theirs)
    if summary and normal(summary) not in normal(applying.summary_of(ours)):
        both = [part for part in (applying.summary_of(ours), summary) if part]
        after = applying.with_summary(after, both)
        moved += len(split_lines(summary))
    for name in names_of(theirs):
        after = with_alias(after, name, phrases.heading("aliases"))
    for heading, said in _parts(theirs, phrases):
        if heading_in(heading.lstrip("# ")) == "aliases":
            continue
        fresh = [
            line.text.rstrip()
            for line in markdown.scan("".join(said))
            if line.in_code or line.is_fence or normal(line.text) not in known
        ]
        if heading and fresh:
            after = applying.with_bullets(after, heading, fresh)
        elif not heading:
            rest.append("".join(said).strip("\r\n") + "\n")
        moved += len(fresh if heading else said)
    return "\n".join([after, *rest]), moved


def _with_head(ours: str, theirs: str) -> str:
    """Add the other file's front matter, and its text above the H1, to our file.

    Of a key that both have in two ways, theirs stands in a comment.
    """
    pages = take_apart(ours), take_apart(theirs)
    findings = Findings()
    front = merge_front("", pages[0].front, pages[1].front, "ours", findings)
    above = ""
    lead, *titled = markdown.sections(theirs, applying.DEEPEST)
    if any(section.level == 1 for section in titled):
        start = body_start(theirs)
        private = {line.start for line, owners in owned(theirs) if owners}
        lines = [one.text for one in lead.lines if one.start >= start and one.start not in private]
        above = "".join(lines).strip("\ufeff \t\r\n")
    if findings.clashes:
        lost = [line for line in pages[1].front.splitlines() if line not in front.splitlines()]
        shown = "\n".join(lost).replace("--", "- -")
        above = f"<!-- front matter of the other file:\n{shown}\n-->\n\n{above}".strip()
    body = ours[len(pages[0].bom) + len(pages[0].front) :]
    if above:
        body = f"\n{above}\n\n{body.lstrip()}"
    return f"{pages[0].bom}{front}{body}"


def _parts(text: str, phrases: Phrases) -> Iterator[tuple[str, list[str]]]:
    """Yield the H2 headings, each with the lines below it that are not blank.

    What is private for another reason than that heading comes below one that says so. Whatever
    begins with a second H1 comes whole, below no heading.
    """
    channels = {line.start: owners for line, owners in owned(text)}
    every = list(markdown.sections(text, applying.DEEPEST))
    title = next((section for section in every if section.level == 1), every[0])
    for section in every:
        heading = section.lines[0].text.strip() if section.level == applying.DEEPEST else ""
        said = [line for line in section.below if line.in_code or line.text.strip()]
        if section is title:  # its text is the summary
            continue
        if not heading:
            said = [line for line in section.lines if section.level or channels[line.start]]
        for owners, lines in groupby(said, key=lambda line: channels[line.start]):
            is_told = owners <= {private_scope(heading)}
            # A scope that nobody has keeps what belongs to several of them.
            scope = next(iter(owners)) if len(owners) == 1 else channel_scope("\0")
            name = " and ".join(sorted(split_scope(owner)[1] for owner in owners))
            shown = heading if is_told else private_heading(name, scope, phrases)
            yield (
                shown,
                [line.text for line in lines if not (line.level and private_scope(line.text))],
            )


def _relink(
    draft: Draft,
    store: MemoryStore,
    before: LinkedPages,
    to: Mapping[str, str],
    *,
    skip: str,
    relabel: Relabel | None = None,
) -> None:
    """Let all links lead where they should; files that cannot be read stay as they are."""
    after = LinkedPages(store, draft.text, more=[file.rel_path for file in draft])
    for file in after.relinked(Relinking(before.names, after.names, to, relabel), moved=False):
        if file.rel_path != skip:
            draft.put(file.rel_path, file.after)


def _text(draft: Draft, slug: str, title: str = "") -> str:
    """Return somebody's file; one that is not there begins with `title`, if there is one."""
    text = draft.text(people_path(slug))
    if text is None and title:
        return applying.new_file(title)
    if text is None:
        raise NotFoundError(
            f"No file about {slug!r}; nothing was changed",
            hint="Run `familiar people ls`.",
        )
    return text


def _without(text: str, name: str) -> str:
    try:
        return without_alias(text, name)
    except UsageError as error:
        raise RefusedError(str(error), hint=error.hint) from error


def _rests_on(
    line: str, slug: str, said_by: Callable[[int], str | None], numbering: Numbering
) -> bool:
    """Tell whether a line rests on turns of one person alone; of all its turns that are known."""
    ids = turn_ids(line, numbering)
    people = {said_by(n) for n in ids} - {None}
    return bool(ids) and people == {slug} and numbering.holds(line)
