"""Change people: aliases, merges, splits and names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import groupby
from types import MappingProxyType

from msgspec import Struct

from familiar_cli.actions.people.people import find_person, publish_names, shared_names, speakers_of
from familiar_cli.base import markdown
from familiar_cli.base.errors import NotFoundError, RefusedError, UsageError
from familiar_cli.base.languages import ENGLISH, Phrases, heading_in
from familiar_cli.base.markdown import body_start, split_lines, title_of
from familiar_cli.base.text import bare_lines, one_line
from familiar_cli.base.who.visibility import channel_scope, split_scope
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.tombstones import accounts_of
from familiar_cli.store.memory.aliases import (
    Aliases,
    SharedName,
    aliases_of,
    main_account,
    main_slug,
    names_of,
    stub_page,
    with_alias,
    without_alias,
)
from familiar_cli.store.memory.layout import people_path
from familiar_cli.store.memory.mentions import key_of
from familiar_cli.store.memory.merge.blocks import parse_blocks
from familiar_cli.store.memory.merge.content import MergeFindings, merge_front
from familiar_cli.store.memory.pages import lines as memory_lines
from familiar_cli.store.memory.pages import visible_lines
from familiar_cli.store.memory.pages.links import LinkChanges, LinkedPages, Relabel
from familiar_cli.store.memory.pages.relations import tidy_relations
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.pending import Draft
from familiar_cli.writing.writer import page_text


class AliasChange(Struct, frozen=True):
    """The result of changing an alias.

    Args:
        name: The alias.
        changed: The file changed.
        diff: A unified diff, empty if nothing changed.
        collisions: Names they share with others.
        notices: Notices for the user.
        dry_run: Nothing was written.
    """

    slug: str
    rel_path: str
    name: str
    changed: bool
    diff: str
    collisions: tuple[SharedName, ...]
    notices: tuple[str, ...]
    dry_run: bool


class PeopleChange(Struct, frozen=True):
    """The result of merging, splitting or renaming.

    Args:
        slug: The person whose file was kept.
        other: The other person, or the old name.
        files: The changed files.
        moved: Number of lines moved.
        diff: The unified diff.
        notices: Notices for the user.
        dry_run: Nothing was written.
    """

    slug: str
    other: str
    files: tuple[str, ...]
    moved: int
    diff: str
    notices: tuple[str, ...]
    dry_run: bool


def add_alias(familiar: Familiar, person: str, name: str, *, dry_run: bool = False) -> AliasChange:
    """Add a name to a person, creating their file if needed.

    Raises:
        NotFoundError: Nobody is called `person`.
        UsageError: Several people are, or `name` is not valid.
        RefusedError: The file is protected, or was changed meanwhile; nothing was changed.
    """
    with _find_person(familiar, person) as (names, slug):
        draft = with_name(familiar.memory, slug, name, _new_page(familiar, slug), familiar.phrases)
        return _change_alias(familiar, names, slug, name, draft, dry_run=dry_run)


def remove_alias(
    familiar: Familiar, person: str, name: str, *, dry_run: bool = False
) -> AliasChange:
    """Remove a name from a person's aliases.

    Raises:
        NotFoundError: Nobody is called `person`, or their list does not contain `name`.
        UsageError: Several people are, or a line of the list contains other names as well.
        RefusedError: The file is protected, or was changed meanwhile; nothing was changed.
    """
    with _find_person(familiar, person) as (names, slug):
        draft = without_name(familiar.memory, slug, name)
        return _change_alias(familiar, names, slug, name, draft, dry_run=dry_run)


def merge(familiar: Familiar, text: str, other: str, *, dry_run: bool = False) -> PeopleChange:
    """Merge the file of `other` into that of `text`.

    Raises:
        NotFoundError: Nobody has this name; `other` has neither a file nor turns.
        UsageError: Several people have the name, or they are merged already.
        RefusedError: A file is protected; nothing was changed.
    """
    with _find_person(familiar, text) as (names, slug):
        person = find_person(familiar, names, other)
        titles = _person_titles(familiar)
        draft = merge_files(familiar.memory, slug, person, familiar.phrases, titles)
        message = f"merge {person} into {slug}"
        return _carry_out(familiar, names, draft, slug, person, message=message, dry_run=dry_run)


def split(familiar: Familiar, other: str, *, dry_run: bool = False) -> PeopleChange:
    """Give a merged person a file of their own again.

    Raises:
        NotFoundError: Nobody has this name.
        UsageError: Several people have it, or the person was never merged.
        RefusedError: A file is protected; nothing was changed.
    """

    def said_by(turn_id: int) -> str | None:
        turn = familiar.history.turn(turn_id)
        return turn.author.slug if turn and turn.author else None

    with _find_person(familiar, other) as (names, slug):
        memory, titles, numbering = familiar.memory, _person_titles(familiar), familiar.numbering
        accounts, main = accounts_of(familiar.history), main_slug(memory, slug)
        theirs, ours = (
            {name for a in accounts if a.slug == one for name in (a.username, a.display_name)}
            for one in (slug, main)
        )
        said_as = [name for name in theirs - ours if name]
        draft = split_draft(
            memory, slug, said_by, familiar.phrases, titles, said_as=said_as, numbering=numbering
        )
        message = f"split {slug}"
        return _carry_out(familiar, names, draft, slug, "", message=message, dry_run=dry_run)


def rename(
    familiar: Familiar, person: str, old: str, new: str, *, dry_run: bool = False
) -> PeopleChange:
    """Rename a person from `old` to `new`, in their file and in links to it.

    Raises:
        NotFoundError: Nobody is called `person`, or that person is not called `old`.
        UsageError: Several people are, or `new` is not valid.
        RefusedError: A file is protected; nothing was changed.
    """
    with _find_person(familiar, person) as (names, slug):
        draft = rename_files(familiar.memory, slug, old, new, familiar.phrases)
        message = f"rename {old!r} of {slug}"
        return _carry_out(familiar, names, draft, slug, old, message=message, dry_run=dry_run)


@contextmanager
def _find_person(familiar: Familiar, person: str) -> Iterator[tuple[Aliases, str]]:
    """Open the index of names, and resolve `person`."""
    with closing(familiar.names()) as names:
        names.refresh(thorough=True)
        yield names, find_person(familiar, names, person)


def _change_alias(
    familiar: Familiar, names: Aliases, slug: str, name: str, draft: PeopleDraft, *, dry_run: bool
) -> AliasChange:
    message = f"alias {name!r} of {slug}"
    change = _carry_out(familiar, names, draft, slug, name, message=message, dry_run=dry_run)
    shared = () if dry_run else shared_names(names, slug)
    changed, path = bool(change.files), people_path(slug)
    return AliasChange(slug, path, name, changed, change.diff, shared, change.notices, dry_run)


def _carry_out(
    familiar: Familiar,
    names: Aliases,
    draft: PeopleDraft,
    slug: str,
    other: str,
    *,
    message: str,
    dry_run: bool,
) -> PeopleChange:
    # All files are prepared before the transaction, which refuses them if they changed meanwhile.
    diff = draft.draft.diff()
    files = apply_draft(familiar.memory, draft, message, dry_run=dry_run)
    notices = () if dry_run else publish_names(names)
    return PeopleChange(slug, other, files, draft.moved, diff, notices, dry_run)


def _new_page(familiar: Familiar, slug: str) -> str:
    """Return the beginning of a file about somebody who is known from turns only."""
    title = _person_titles(familiar).get(slug)
    return f"# {title}\n" if title else ""


def _person_titles(familiar: Familiar) -> dict[str, str]:
    """Return titles for the files of speakers, by slug: a name known in public, or the account."""
    me = familiar.me()
    titles = {}
    for slug, speaker in speakers_of(familiar, familiar.privacy.program()).items():
        owner, author = me.owner(speaker.author), speaker.author
        name = (owner and owner.name) or author.display_name or author.username
        titles[slug] = one_line(name or me.handle(slug))
    return titles


class PeopleDraft(Struct, frozen=True):
    """A change of people: the files, and the number of lines moved."""

    draft: Draft
    moved: int


def with_name(
    store: MemoryStore, slug: str, name: str, beginning: str, phrases: Phrases = ENGLISH
) -> PeopleDraft:
    """Draft adding a name to a person; a new file starts with `beginning`.

    Raises:
        UsageError: `name` is not valid.
    """
    draft = Draft(store)
    before = draft.text(people_path(slug))
    after = with_alias(beginning if before is None else before, name, phrases.heading("aliases"))
    if after != before:
        draft.put(people_path(slug), after)
    return PeopleDraft(draft, 0)


def without_name(store: MemoryStore, slug: str, name: str) -> PeopleDraft:
    """Draft removing a name from a person's aliases.

    Raises:
        NotFoundError: They have no file, or their list does not contain `name`.
        UsageError: A line of the list contains other names as well.
    """
    draft = Draft(store)
    before = _person_text(draft, slug)
    after = without_alias(before, name)
    if after == before:
        raise NotFoundError(
            f"{people_path(slug)!r} does not list the alias {name!r}",
            hint=f"Show their names: `familiar people show {slug}`.",
        )
    draft.put(people_path(slug), after)
    return PeopleDraft(draft, 0)


def merge_files(
    store: MemoryStore,
    kept: str,
    other: str,
    phrases: Phrases = ENGLISH,
    titles: Mapping[str, str] = MappingProxyType({}),
) -> PeopleDraft:
    """Draft merging the file of `other` into that of `kept`.

    The file of `other` stays, and refers to `kept`. Links to it are redirected. A missing file is
    created.

    Args:
        kept: Slug of the person whose file is kept.
        other: Slug of the account that is theirs, too.
        phrases: Language of the files.
        titles: Titles of people without a file who have spoken, by slug.

    Raises:
        UsageError: They are merged already.
        NotFoundError: One of them has no file and never spoke.
    """
    draft, pages = Draft(store), LinkedPages(store)
    if kept == other:
        raise UsageError(
            f"{kept!r} is already one person; nothing was changed",
            hint="Give two people: `familiar people list` lists them.",
        )
    theirs = _person_text(draft, other, titles.get(other, ""))
    ours = _person_text(draft, kept, titles.get(kept, ""))
    for slug, text in ((kept, ours), (other, theirs)):
        if main_account(text):
            raise UsageError(
                f"{slug!r} was merged into {main_account(text)!r} already; nothing was changed",
                hint=f"Undo that first: `familiar people split {slug}`.",
            )
    after, moved = _join_texts(ours, theirs, phrases)
    names = aliases_of(theirs)
    name = title_of(after) or kept
    draft.put(people_path(kept), after)
    draft.put(people_path(other), stub_page(title_of(theirs) or other, kept, name, names, phrases))
    moved_to = {people_path(other): people_path(kept)}
    _relink_all(draft, store, pages, moved_to, skip=people_path(other))
    for file in list(draft):
        draft.put(file.rel_path, tidy_relations(file.after, file.rel_path))
    return PeopleDraft(draft, moved)


def split_draft(
    store: MemoryStore,
    other: str,
    said_by: Callable[[int], str | None],
    phrases: Phrases = ENGLISH,
    titles: Mapping[str, str] = MappingProxyType({}),
    *,
    said_as: Collection[str] = (),
    numbering: memory_lines.Numbering = memory_lines.PLAIN,
) -> PeopleDraft:
    """Draft giving `other` a file of their own again.

    Lines that rest on turns of `other` alone move there; all others stay.

    Args:
        other: Slug that was merged into another person.
        said_by: Returns the slug of a turn's author.
        phrases: Language of the heading of a new list of names.
        titles: Titles of people without a file who have spoken, by slug.
        said_as: Names that `other` has used, and nobody else who is the same person.
        numbering: The mapping of citations to turns.

    Raises:
        UsageError: They were not merged.
        NotFoundError: `other` has no file and never spoke.
    """
    draft = Draft(store)
    theirs = _person_text(draft, other, titles.get(other, ""))
    text = main_account(theirs)
    if text is None:
        raise UsageError(
            f"{other!r} has not been merged into anybody; nothing was changed",
            hint="`familiar people merge` merges two people.",
        )
    ours = _with_own_title(_person_text(draft, text), (*names_of(theirs), *said_as), theirs)
    own = page_text.new_file(title_of(theirs) or other)
    for name in names_of(theirs):
        if name in aliases_of(theirs):
            own = with_alias(own, name, phrases.heading("aliases"))
        if key_of(name) != key_of(title_of(ours)):
            ours = _without_alias(ours, name)
    moved = 0
    for heading, texts in _split_sections(ours, phrases):
        lines = [line for line in texts if heading and _rests_on(line, other, said_by, numbering)]
        if lines:
            own = page_text.with_bullets(own, heading, [line.rstrip("\r\n") for line in lines])
            moved += len(lines)
            for line in lines:
                ours = ours.replace(line, "", 1)
    draft.put(people_path(text), ours)
    draft.put(people_path(other), own)
    return PeopleDraft(draft, moved)


def _with_own_title(ours: str, names: Iterable[str], theirs: str) -> str:
    """Return a page with the title that it had when it was merged, if it now has another's name.

    Args:
        names: The other's names.
        theirs: The other's page, which has a link with the title from then.
    """
    title = title_of(ours)
    label = re.search(r"\[(.+)\]\([^()]*\.md\)[^<\n]*<!-- same person as", theirs)
    is_theirs = key_of(title) in map(key_of, names)
    if not (is_theirs and label) or key_of(label[1]) == key_of(title):
        return ours
    return _without_alias(page_text.with_title(ours, title, label[1]), title)


def rename_files(
    store: MemoryStore, slug: str, old: str, new: str, phrases: Phrases = ENGLISH
) -> PeopleDraft:
    """Draft renaming a person from `old` to `new`, in their file and in links.

    Raises:
        NotFoundError: They have no file, or are not called `old`.
        UsageError: `new` is not valid.
    """
    draft, pages = Draft(store), LinkedPages(store)
    text = _person_text(draft, slug)
    if key_of(old) not in {key_of(name) for name in names_of(text)}:
        raise NotFoundError(
            f"{slug!r} is not called {old!r}; nothing was changed",
            hint=f"Show their names: `familiar people show {slug}`.",
        )
    after = with_alias(_without_alias(text, old), new, phrases.heading("aliases"))
    title = title_of(text)
    path, relabel = people_path(slug), None
    if key_of(title) == key_of(old):
        after = page_text.with_title(after, title, new)
        relabel = Relabel(path, title, new)
    draft.put(path, after)
    _relink_all(draft, store, pages, {}, skip=path, relabel=relabel)
    return PeopleDraft(draft, 0)


def apply_draft(
    store: MemoryStore, change: PeopleDraft, message: str, *, dry_run: bool
) -> tuple[str, ...]:
    """Apply a draft in one transaction; return the files changed, or those that would be."""
    with store.transaction("human", message, dry_run=dry_run) as tx:
        change.draft.stage(tx)
    return tx.result.written


def _join_texts(ours: str, theirs: str, phrases: Phrases) -> tuple[str, int]:
    """Merge the other file's text into ours; return the result and the number of lines added."""
    after = _with_head(ours, theirs)
    moved = 0
    known = memory_lines.normal_lines(ours) - {""}
    rest: list[str] = []
    own, summary = page_text.summary_of(ours), page_text.summary_of(theirs)
    if summary and memory_lines.normal_line(summary) not in memory_lines.normal_line(own):
        after = page_text.with_summary(after, [part for part in (own, summary) if part])
        moved += len(split_lines(summary))
    for name in names_of(theirs):
        after = with_alias(after, name, phrases.heading("aliases"))
    for heading, texts in _split_sections(theirs, phrases):
        if heading_in(heading.lstrip("# ")) == "aliases":
            continue
        fresh = [
            line.text.rstrip()
            for line in markdown.scan("".join(texts))
            if line.in_code or line.is_fence or memory_lines.normal_line(line.text) not in known
        ]
        if heading and fresh:
            after = page_text.with_bullets(after, heading, fresh)
        elif not heading:
            rest.append("".join(texts).strip("\r\n") + "\n")
        moved += len(fresh if heading else texts)
    return "\n".join([after, *rest]), moved


def _with_head(ours: str, theirs: str) -> str:
    """Add the other file's front matter, and its text above the H1, to our file.

    For a key with two values, theirs becomes a comment.
    """
    pages = parse_blocks(ours), parse_blocks(theirs)
    findings = MergeFindings()
    front = merge_front("", pages[0].front, pages[1].front, "ours", findings)
    above = ""
    lead, *titled = markdown.sections(theirs, page_text.DEEPEST)
    if any(section.level == 1 for section in titled):
        start = body_start(theirs)
        private = {line.start for line, owners in visible_lines.owned_lines(theirs) if owners}
        lines = [one.text for one in lead.lines if one.start >= start and one.start not in private]
        above = "".join(lines).strip("\ufeff \t\r\n")
    if findings.clashes:
        lost = [line for line in bare_lines(pages[1].front) if line not in bare_lines(front)]
        shown = "\n".join(lost).replace("--", "- -")
        above = f"<!-- front matter of the other file:\n{shown}\n-->\n\n{above}".strip()
    body = ours[len(pages[0].bom) + len(pages[0].front) :]
    if above:
        body = f"\n{above}\n\n{body.lstrip()}"
    return f"{pages[0].bom}{front}{body}"


def _split_sections(text: str, phrases: Phrases) -> Iterator[tuple[str, list[str]]]:
    """Yield the H2 headings, each with its non-blank lines.

    Text that is private for another reason than its heading gets a heading that says so. Everything
    from a second H1 on is yielded without a heading.
    """
    channels = {line.start: owners for line, owners in visible_lines.owned_lines(text)}
    every = list(markdown.sections(text, page_text.DEEPEST))
    title = next((section for section in every if section.level == 1), every[0])
    for section in every:
        heading = section.lines[0].text.strip() if section.level == page_text.DEEPEST else ""
        said = [line for line in section.below if line.in_code or line.text.strip()]
        if section is title:  # its text is the summary
            continue
        if not heading:
            said = [line for line in section.lines if section.level or channels[line.start]]
        for owners, lines in groupby(said, key=lambda line: channels[line.start]):
            is_told = owners <= {visible_lines.private_scope(heading)}
            # A scope that nobody has holds what belongs to several of them.
            scope = next(iter(owners)) if len(owners) == 1 else channel_scope("\0")
            name = " and ".join(sorted(split_scope(owner)[1] for owner in owners))
            shown = heading if is_told else visible_lines.private_heading(name, scope, phrases)
            yield (
                shown,
                [
                    line.text
                    for line in lines
                    if not (line.level and visible_lines.private_scope(line.text))
                ],
            )


def _relink_all(
    draft: Draft,
    store: MemoryStore,
    before: LinkedPages,
    to: Mapping[str, str],
    *,
    skip: str,
    relabel: Relabel | None = None,
) -> None:
    """Redirect all links; unreadable files stay as they are."""
    after = LinkedPages(store, draft.text, more=[file.rel_path for file in draft])
    for file in after.relinked(LinkChanges(before.names, after.names, to, relabel), moved=False):
        if file.rel_path != skip:
            draft.put(file.rel_path, file.after)


def _person_text(draft: Draft, slug: str, title: str = "") -> str:
    """Return a person's file; a new one starts with `title`, if there is one."""
    text = draft.text(people_path(slug))
    if text is None and title:
        return page_text.new_file(title)
    if text is None:
        raise NotFoundError(
            f"No file about {slug!r}; nothing was changed", hint="Run `familiar people list`."
        )
    return text


def _without_alias(text: str, name: str) -> str:
    try:
        return without_alias(text, name)
    except UsageError as error:
        raise RefusedError(str(error), hint=error.hint) from error


def _rests_on(
    line: str, slug: str, said_by: Callable[[int], str | None], numbering: memory_lines.Numbering
) -> bool:
    """Tell whether all known turns that a line rests on are one person's."""
    ids = memory_lines.turn_ids(line, numbering)
    people = {said_by(n) for n in ids} - {None}
    return bool(ids) and people == {slug} and numbering.holds(line)
