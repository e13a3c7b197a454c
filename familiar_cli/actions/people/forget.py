"""`familiar people export` and `forget`: a person's data, exported for them and erased."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from msgspec import Struct

from familiar_cli.actions.people.people import find_person
from familiar_cli.base import errors
from familiar_cli.base.config.home import FamiliarPaths, list_familiars
from familiar_cli.base.config.settings import read_text
from familiar_cli.base.files import read_plain, write_whole
from familiar_cli.base.text import bare_lines, shorten_list, typed
from familiar_cli.base.times.clock import iso
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import Viewer
from familiar_cli.familiar import Familiar
from familiar_cli.store.history import attachments
from familiar_cli.store.history.forgetting import ForgetOrder, orders_of
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.history.tombstones import accounts_of
from familiar_cli.store.memory.aliases import main_account
from familiar_cli.store.memory.layout import PENDING_DIR, SUFFIXES, is_page, people_path
from familiar_cli.store.memory.pages.erasing import page_items
from familiar_cli.store.memory.pages.lines import normal_line
from familiar_cli.store.memory.pages.visible_lines import visible_in
from familiar_cli.sync.forget_orders import ForgetRun, carry_out_known_orders, people_pages

_PRIVATE_HEADING: Final = (
    "# Said about them in private, by others (for the owner alone: do not hand this over)"
)
NOT_COVERED: Final = (
    (
        "backups (`familiar backup`): a restored familiar forgets the person again, but the "
        "backup itself keeps everything; remove old ones with `--keep`"
    ),
    "objects that a git host keeps after a push: run `git gc --prune=now` there, or ask the host",
    "copies elsewhere: exports, logs of programs that send messages, and other people's clones",
)
"""What forgetting never reaches."""


class WordLoss(Struct, frozen=True):
    """What a reply to somebody else loses: the name, a quotation, or both.

    Args:
        turn: Number of the turn.
        why: `name`, `quotation`, or both.
        chars: How many characters it loses.
        words: What they are; empty once they are forgotten.
    """

    turn: int
    why: str
    chars: int
    words: tuple[str, ...] = ()


class ForgetReport(Struct, frozen=True):
    """What forgetting a person erased, or would erase.

    Args:
        turns: Their turns, which lose their text.
        replies: The familiar's turns that lose their text, too.
        to_others: Replies to others that lose words only, since they name or quote them.
        files: Memory files that are deleted.
        changed: Memory files that lose lines, with the bytes removed from each.
        records: Traces, records of passes and the like that are deleted.
        records_of_others: Those among them that are traces of replies to others.
        quoting: Other turns that quote them, or name them or a namesake, for a person to decide on.
        remaining: Lines of memory that keep a word like their name, as `path:line`.
        shared: Their names, or words of these, that others have as well.
        renamed: Memory files that lose a name, with their new path.
        channels: Channels of their own, or with their name, with their new name.
        order: The order that is synced with the memory; empty for a dry run.
        dry_run: Nothing was changed.
        not_covered: What forgetting cannot reach.
    """

    turns: int
    replies: int
    files: tuple[str, ...]
    changed: dict[str, int]
    records: int
    quoting: tuple[int, ...]
    to_others: tuple[WordLoss, ...] = ()
    remaining: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    renamed: dict[str, str] = {}
    channels: dict[str, str] = {}
    records_of_others: int = 0
    order: str = ""
    dry_run: bool = False
    not_covered: tuple[str, ...] = NOT_COVERED


class ExportReport(Struct, frozen=True):
    """What an export of a person's data holds.

    Args:
        turns: Their turns.
        replies: The replies to them.
        pictures: Pictures in both.
        lines: Lines of memory in `about.md`.
        files: Memory files about them.
        remaining: Lines left out that have a word like their name, as `path:line`.
        shared: Their names, or words of these, that others have as well.
    """

    turns: int
    replies: int
    pictures: int
    lines: int
    files: int
    remaining: tuple[str, ...]
    shared: tuple[str, ...]


def _accounts(familiar: Familiar, person: str) -> list[Author]:
    """Return all accounts of a person, including merged ones.

    Raises:
        NotFoundError: Nobody has this name.
        UsageError: Several people have it.
    """
    with closing(familiar.names()) as names:
        names.refresh(thorough=True)
        slug = find_person(familiar, names, person, loosely=True)
    pages = dict(people_pages(familiar.memory))
    main = (main_account(pages[slug]) if slug in pages else None) or slug
    slugs = {main, slug} | {s for s, text in pages.items() if main_account(text) == main}
    return [Author.from_slug(one) for one in sorted(slugs)]


def _report_of(familiar: Familiar, forgetting: ForgetRun, *, dry_run: bool) -> ForgetReport:
    """Report what is erased."""
    changes, settings = forgetting.changes(), forgetting.settings()
    return ForgetReport(
        len(forgetting.found.said),
        len(forgetting.found.replies),
        tuple(p for p, (_, a) in changes.items() if a is None and p not in forgetting.new_names),
        {p: len(b) - len(a) for p, (b, a) in changes.items() if a is not None and b}
        | {path.name: len(read_text(path)) - len(s) for path, s in settings.items()},
        len(forgetting.records()),
        forgetting.found.quoted,
        tuple(_word_losses(familiar, forgetting, dry_run=dry_run)),
        tuple(forgetting.remaining(afterwards=not dry_run)),
        tuple(sorted(forgetting.found.traces.names.shared)),
        forgetting.new_names,
        dict(forgetting.found.channels),
        forgetting.records_of_others(),
        "" if dry_run else forgetting.order.id,
        dry_run,
        (
            *_remaining_names(familiar, forgetting, changes, settings),
            *_remaining_copies(familiar, forgetting),
            *NOT_COVERED,
        ),
    )


def _remaining_names(
    familiar: Familiar,
    forgetting: ForgetRun,
    changes: Mapping[str, tuple[bytes, bytes | None]],
    settings: Mapping[Path, str],
) -> Iterator[str]:
    """Yield what keeps a word like their name outside the lines of pages."""
    files = familiar.memory.walk("", hidden=True, missing_ok=True).files
    stored = [entry.rel_path for entry in files if entry.rel_path not in changes]
    stored += [path for path, (_, after) in changes.items() if after is not None]
    for path in stored:
        if forgetting.may_name(path) and not forgetting.is_page_of_speaker(path):
            yield f"the name of {typed(path)}: `familiar memory mv` changes it"
        if path.startswith(f"{PENDING_DIR}/"):
            content = changes[path][1] if path in changes else familiar.memory.read_bytes(path)
            if content and forgetting.may_name(content.decode(errors="replace")):
                yield f"a plan that may name them: `familiar review show {Path(path).stem}`"
    for file in forgetting.settings_files():
        for number, line in enumerate(settings.get(file, read_text(file)).split("\n"), 1):
            if forgetting.may_name(line):
                yield f"settings that may name them: line {number} of {typed(str(file))}"
    names = {one.channel_id for one in familiar.history.channels()} - {*forgetting.found.channels}
    for name in sorted(filter(forgetting.may_name, names)):
        yield f"the channel {name!r}, whose name may be theirs"


def _remaining_copies(familiar: Familiar, forgetting: ForgetRun) -> Iterator[str]:
    """Yield what else in the home has their words, with the command that removes it."""
    for path in forgetting.foreign_files():
        yield f"a file that this program did not make: delete {typed(str(path))}"
    if (familiar.memory.root / ".git").exists():
        yield "your own git repository in the memory, which has earlier versions of its files"
    home = familiar.paths.root.parent
    for other in list_familiars(home):
        if other == familiar.paths.id:
            continue
        paths = FamiliarPaths(home / other)
        pages = [slug for slug in forgetting.slugs if (paths.memory / people_path(slug)).exists()]
        command = f"`familiar people forget {{}} --familiar {typed(other)}`"
        try:
            with closing(HistoryStore(paths.history)) as history:
                pages += [a.slug for a in accounts_of(history) if forgetting.order.covers(a)]
        except errors.FamiliarError as error:
            yield f"the familiar {other!r}, if it knows them ({error}): {command.format('NAME')}"
        if pages:
            known = command.format(typed(min(pages)))
            yield f"the familiar {other!r} of this home, which knows them as well: {known}"


def _word_losses(familiar: Familiar, forgetting: ForgetRun, *, dry_run: bool) -> Iterator[WordLoss]:
    """Yield what replies to others lose; the words themselves only before they are gone."""
    for number, losses in forgetting.found.to_others.items():
        turn = familiar.history.turn(number)
        texts = [turn.content[one.start : one.end] for one in losses] if turn else []
        why = ", ".join(sorted({one.why for one in losses}))
        yield WordLoss(number, why, sum(map(len, texts)), tuple(texts) if dry_run else ())


def forget_person(
    familiar: Familiar,
    person: str,
    *,
    turns: Sequence[str] = (),
    lines: Sequence[str] = (),
    dry_run: bool = False,
) -> ForgetReport:
    """Forget a person on this machine, and order it on all others.

    Args:
        person: The person: a slug, `PLATFORM:ID` or a name.
        turns: Other people's turns that lose their text as well, by number or `INSTANCE:NUMBER`.
        lines: Lines of memory that go as well, as `PATH:NUMBER`.
        dry_run: Report what would be erased, and change nothing.

    Raises:
        NotFoundError: Nobody has this name, or there is no such turn or line.
        UsageError: A line is blank, or not given as `PATH:NUMBER`.
        RefusedError: It is an owner.
        FamiliarError: Something cannot be written; running the command again continues.
    """
    accounts = _accounts(familiar, person)
    me = familiar.me()
    owner = next(filter(None, map(me.owner, accounts)), None)
    if owner:
        what = "That is you, and" if owner == me else f"{owner.name} is an owner, and"
        raise errors.RefusedError(
            f"{what} a familiar cannot forget its owner; nothing was changed",
            hint=f"To remove everything, delete {typed(str(familiar.paths.root))}.",
        )
    others = [familiar.turn_number(name) for name in turns]
    names = [
        name if ":" in name else f"{familiar.instance.id}:{number}"
        for number, name in familiar.turn_names(others).items()
    ]
    texts = [_line_text(familiar, place) for place in lines]
    order = ForgetOrder.for_accounts(accounts, names, texts)
    forgetting = ForgetRun(familiar.forget_place, order)
    is_known = any(o.covers(a) for o in orders_of(familiar.history) for a in accounts)
    if not (forgetting.found.turns or forgetting.changes() or is_known):
        raise errors.NotFoundError(
            f"Nothing is known about {person!r}; nothing was changed",
            hint="Run `familiar people list`.",
        )
    report = _report_of(familiar, forgetting, dry_run=dry_run)
    if not dry_run:
        forgetting.carry_out()
        carry_out_known_orders(familiar.forget_place, accounts)
    return report


def _line_text(familiar: Familiar, place: str) -> str:
    """Return the normalized text of the item to which a line belongs."""
    path, _, number = place.rpartition(":")
    if not (path.lower().endswith(SUFFIXES) and number.isdecimal()):
        raise errors.UsageError(
            f"{place!r} is not a line of memory; nothing was changed",
            hint="Write it as in the report: --line topics/mill.md:2",
        )
    left = int(number)
    for lines in page_items(familiar.memory.read_file(path)):
        if 0 < left <= len(lines):
            if text := normal_line("".join(lines)):
                return text
            raise errors.UsageError(f"The line {place!r} has no words; nothing was changed")
        left -= len(lines)
    raise errors.NotFoundError(
        f"{path!r} has no line {number}; nothing was changed",
        hint=f"`familiar memory cat {typed(path)}` shows it.",
    )


def carry_out_order(familiar: Familiar, order: ForgetOrder, built_on: Collection[str] = ()) -> None:
    """Carry out an order from another machine, or one that a restored backup lacks.

    Args:
        built_on: Versions of the memory in which it was carried out.
    """
    forgetting = ForgetRun(familiar.forget_place, order)
    left = [f"turn {number}" for number in forgetting.found.quoted]
    left += forgetting.remaining(afterwards=True)
    forgetting.carry_out(built_on)
    if left:
        familiar.tell(
            f"A person was forgotten, and these may still name them: {shorten_list(left, 10)}; "
            "`familiar people forget ACCOUNT`, with --turn N or --line PATH:N, removes them"
        )


def export_person(
    familiar: Familiar,
    person: str,
    target: Path,
    *,
    lines: Sequence[str] = (),
    for_owner: bool = False,
) -> ExportReport:
    """Write what a person said, and what they may be told of themselves, to a new directory.

    Args:
        person: The person: a slug, `PLATFORM:ID` or a name.
        target: The directory; it must be empty or missing.
        lines: Lines of memory that are about them as well, as `PATH:NUMBER`.
        for_owner: Add what others said about them in private.

    Raises:
        NotFoundError: Nobody has this name, or there is no such line.
        UsageError: A line is blank, or not given as `PATH:NUMBER`.
        ConflictError: The directory is not empty.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise errors.ConflictError(
            f"{str(target)!r} is not empty; nothing was written", hint="Choose a new directory."
        )
    accounts = _accounts(familiar, person)
    texts = [_line_text(familiar, place) for place in lines]
    order = ForgetOrder.for_accounts(accounts, lines=texts)
    forgetting = ForgetRun(familiar.forget_place, order)
    changes = forgetting.changes()
    if not (forgetting.found.turns or changes):
        raise errors.NotFoundError(
            f"Nothing is known about {person!r}", hint="Run `familiar people list`."
        )
    viewer = familiar.privacy.of_person(accounts)
    target.mkdir(parents=True, exist_ok=True)
    turns = _export_turns(familiar, forgetting.found.turns, viewer, target)
    pictures = _export_pictures(familiar, turns, target)
    about: list[str] = []
    private: list[str] = []
    files = 0
    for rel_path, (before, made) in changes.items():
        if rel_path.startswith(f"{PENDING_DIR}/"):  # proposed only, and about others, too
            continue
        content = before.decode(errors="replace")
        seen = visible_in(content, viewer, rel_path)
        new = forgetting.new_names.get(rel_path)
        after = changes[new][1] if new else made
        is_own = forgetting.eraser.drops(rel_path) or (after is None and not is_page(rel_path))
        if is_own and seen.strip():
            files += 1
            place = target / "memory" / rel_path
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, seen)
        kept = set(bare_lines((after or b"").decode(errors="replace")))
        gone = [line for line in bare_lines(content) if line.strip() and line not in kept]
        parts = set(bare_lines(seen))
        if not is_own and (shown := [line for line in gone if line in parts]):
            about += [f"## {rel_path}", "", *shown, ""]
        if hidden := [line for line in gone if line not in parts]:
            private += [f"## {rel_path}", "", *hidden, ""]
    if for_owner:
        about += [_PRIVATE_HEADING, "", *private]
    head = f"# What {familiar.name} has noted\n\nLines of files about others and of days.\n\n"
    write_whole(target / "about.md", head + "\n".join(about))
    remaining = forgetting.remaining(afterwards=False)
    return ExportReport(
        sum(turn.id in forgetting.found.said for turn in turns),
        sum(turn.id in forgetting.found.replies for turn in turns),
        pictures,
        sum(1 for line in about if line and not line.startswith("#")),
        files,
        tuple(p for p in remaining if for_owner or _may_see(familiar, viewer, p)),
        tuple(sorted(forgetting.found.traces.names.shared)),
    )


def _may_see(familiar: Familiar, viewer: Viewer, place: str) -> bool:
    """Tell whether a viewer may see a line, given as `path:line`."""
    path, _, number = place.rpartition(":")
    text = familiar.memory.read_bytes(path).decode(errors="replace")
    line = bare_lines(text)[int(number) - 1]
    return line in bare_lines(visible_in(text, viewer, path))


def _export_turns(
    familiar: Familiar, numbers: Collection[int], viewer: Viewer, target: Path
) -> list[Turn]:
    """Write the turns that a person may be told of, and return them."""
    found = (familiar.history.turn(number) for number in sorted(numbers))
    turns = [turn for turn in found if turn and viewer.sees_turn(turn)]
    rows = [
        {
            "turn": turn.id,
            "at": iso(turn.at),
            "channel": turn.channel_id,
            "author": turn.author.label if turn.author else familiar.name,
            "role": turn.role,
            "content": turn.content,
        }
        for turn in turns
    ]
    text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    write_whole(target / "turns.jsonl", text)
    return turns


def _export_pictures(familiar: Familiar, turns: Sequence[Turn], target: Path) -> int:
    """Write the pictures of turns, and return their number."""
    names = {name for turn in turns for name in attachments.pictures_in(turn.content)}
    pictures = attachments.picture_files(familiar.paths.root, names)
    for path in pictures:
        attachments.put_picture(target / attachments.DIRECTORY / path.name, read_plain(path))
    return len(pictures)
