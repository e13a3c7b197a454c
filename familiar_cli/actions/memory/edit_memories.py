"""Let a program edit part of a page: append, replace text or a section, change a list."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.actions.memory import write_memories
from familiar_cli.base.errors import RefusedError, UsageError
from familiar_cli.base.markdown import bullet, sections
from familiar_cli.base.text import fold, harmless
from familiar_cli.familiar import Familiar
from familiar_cli.store.memory.layout import DAILY_DIR, told_path
from familiar_cli.store.memory.pages.items import bullet_items, key_of
from familiar_cli.store.memory.pages.visible_lines import outward_text, put_back

_NAMED: Final = 5  # positions of an ambiguous text
_SECTION_LEVEL: Final = 2  # of an added section


class TextEdit(Struct, frozen=True):
    """An edit of part of a page.

    Args:
        append: Text to add at the end of the page or `section`; None for none.
        old_text: Unique text to replace; None for a whole section.
        new_text: Replacement; empty to delete.
        section: Heading of the section, possibly new; empty for the page.
    """

    append: str | None = None
    old_text: str | None = None
    new_text: str | None = None
    section: str = ""


def edit_memory(
    familiar: Familiar,
    writer: write_memories.Writer,
    place: write_memories.MemoryAddress,
    edit: TextEdit,
    *,
    checksum: str = "",
    chats: Sequence[str] = (),
) -> write_memories.WriteOutcome:
    """Edit part of a memory. Appending to a day adds unique bullets.

    The edit applies to the version that the session read, and is merged with later changes.

    Args:
        writer: Who writes.
        place: The memory to edit.
        edit: The change.
        checksum: Version the edit is based on; empty for the one the session read.
        chats: Source conversations of text appended to a day.

    Raises:
        NotFoundError: No such memory; appending creates it instead.
        UsageError: `place` is not a memory, or `edit` is not valid.
        RefusedError: The text to replace is missing or ambiguous, the memory's version does not
            match `checksum`, or a rule forbids the edit. Nothing was changed.
    """
    rel_path = write_memories.place_of(familiar.memory, writer, place)
    _check_edit(edit)
    if edit.append is not None and not edit.section and rel_path.startswith(f"{DAILY_DIR}/"):
        if checksum and familiar.memory.exists(rel_path):
            now = outward_text(familiar.memory.read_file(rel_path), writer.viewer, rel_path)
            _base_of(writer, rel_path, now, checksum)
        return write_memories.create_memory(
            familiar, writer, replace(place, rel_path=told_path(rel_path)), edit.append, chats=chats
        )
    is_merged, known, name = False, None, told_path(rel_path)

    def made(before: str | None) -> str:
        nonlocal is_merged, known
        if edit.append is None and not (before and writer.sees(rel_path, before)):
            raise write_memories.not_found(rel_path)
        now = outward_text(before or "", writer.viewer, rel_path)
        base = _base_of(writer, rel_path, now, checksum)
        try:
            known = apply_edit(name, base, edit)
        except RefusedError:
            if base == now:
                raise
            base, known = now, apply_edit(name, now, edit)
        latest = writer.reads.text(writer.session, rel_path)
        if latest is not None and base not in (latest, now):  # the session itself edited it since
            base, known = latest, write_memories.merge_change(rel_path, base, latest, known)
        is_merged = base != now
        merged = write_memories.merge_change(rel_path, base, now, known)
        return put_back(before, merged, writer.viewer, rel_path) if before else merged

    done = write_memories.write_or_plan(familiar, writer, rel_path, "edit", made)
    was_read = writer.reads.text(writer.session, rel_path) is not None
    if done.outcome == "written" and was_read and known is not None:
        writer.reads.note(writer.session, rel_path, known)
    return replace(done, is_merged=is_merged)


def edit_list(
    familiar: Familiar, writer: write_memories.Writer, rel_path: str, change: Callable[[str], str]
) -> write_memories.WriteOutcome:
    """Edit a list, such as the tasks, preserving private parts.

    Args:
        writer: The author of the change.
        rel_path: The list; it need not exist.
        change: Returns the new text, given the old.

    Raises:
        RefusedError: A rule forbids it; nothing was changed.
    """
    place = write_memories.MemoryAddress(rel_path)
    rel_path = write_memories.place_of(familiar.memory, writer, place)

    def made(before: str | None) -> str:
        after = change(outward_text(before or "", writer.viewer, rel_path))
        write_memories.check_content(after)
        return after if before is None else put_back(before, after, writer.viewer, rel_path)

    return write_memories.write_or_plan(familiar, writer, rel_path, "edit", made)


def apply_edit(rel_path: str, text: str, edit: TextEdit) -> str:
    """Apply an edit to a text.

    Raises:
        RefusedError: The text to replace is missing or ambiguous.
    """
    start, end = _section_span(rel_path, text, edit.section) or (len(text), len(text))
    is_new = bool(edit.section) and start == end
    if edit.old_text is not None:
        if not edit.section:
            start, end = 0, len(text)
        return _replace_once(rel_path, text, (start, end), edit)
    words = harmless(edit.append or edit.new_text or "").replace("\r", "\n").strip("\n")
    if is_new:
        heading = f"{'#' * _SECTION_LEVEL} {edit.section.lstrip('# ').strip()}"
        return _insert(text, len(text), f"{heading}\n\n{_without_heading(words, edit.section)}")
    if edit.append is not None:
        within = text[start:end] if edit.section else text
        return _insert(text, end, _lacking_items(within, words))
    body = text.find("\n", start, end) + 1 or end
    kept = text[:body] + text[end:]
    return _insert(kept, body, _without_heading(words, edit.section))


def _check_edit(edit: TextEdit) -> None:
    """Validate an edit.

    Raises:
        UsageError: It specifies nothing, or conflicting changes.
        RefusedError: It writes a secret, or nothing visible.
    """
    if edit.append is None and edit.old_text is None and not (edit.section and edit.new_text):
        raise UsageError(
            "memory_edit needs a change to make; nothing was changed",
            hint="Send `append`, `old_text` with `new_text`, or `section` with `new_text`.",
        )
    if edit.append is not None and (edit.old_text is not None or edit.new_text is not None):
        raise UsageError(
            "`append` cannot be combined with `old_text` or `new_text`; nothing was changed",
            hint="Make two calls.",
        )
    if edit.old_text is not None and not edit.old_text.strip("\n"):
        raise UsageError("`old_text` is blank; nothing was changed")
    if words := edit.append if edit.append is not None else edit.new_text:
        write_memories.check_content(words)
    elif edit.append is not None:
        raise UsageError("`append` is blank; nothing was changed")


def _base_of(writer: write_memories.Writer, rel_path: str, now: str, checksum: str) -> str:
    """Return the version that an edit is based on.

    Raises:
        RefusedError: `checksum` matches no version known to the session.
    """
    known = writer.reads.versions(writer.session, rel_path)
    if not checksum:
        return known[0] if known else now
    for version in (now, *known):
        if write_memories.checksum_of(version) == checksum:
            return version
    raise write_memories.refuse_edited(rel_path)


def _replace_once(rel_path: str, text: str, span: tuple[int, int], edit: TextEdit) -> str:
    old = (edit.old_text or "").replace("\r\n", "\n")
    within = text[span[0] : span[1]]
    if old not in within:
        old = old.strip()
    places = [match.start() for match in re.finditer(re.escape(old), within)] if old else []
    if len(places) == 1:
        at = span[0] + places[0]
        new = harmless(edit.new_text or "").replace("\r", "\n")
        end = at + len(old)
        is_line = not new and text[:at].endswith(("\n", "")) and text[end : end + 1] == "\n"
        if is_line and (at == 0 or text[at - 1] == "\n"):
            end += 1  # a line goes as a whole
        return text[:at] + new + text[end:]
    if not places:
        raise RefusedError(
            f"`old_text` does not occur in {rel_path!r}; nothing was changed",
            hint="Read that passage with memory_read and `find`, and copy the text exactly.",
        )
    lines = [text.count("\n", 0, span[0] + place) + 1 for place in places[:_NAMED]]
    shown = ", ".join(map(str, lines)) + (", …" if len(places) > _NAMED else "")
    raise RefusedError(
        f"`old_text` occurs {len(places)} times in {rel_path!r}, in lines {shown}; nothing was "
        "changed",
        hint="Send more of the text around it, or its `section`.",
    )


def _section_span(rel_path: str, text: str, target: str) -> tuple[int, int] | None:
    """Return the range of a section with its subsections, or None.

    Raises:
        RefusedError: The heading is ambiguous.
    """
    if not target:
        return None
    name = fold(target.lstrip("# ").strip())
    every = [section for section in sections(text) if section.level]
    items = [n for n, section in enumerate(every) if fold(section.title) == name]
    if len(items) > 1:
        raise RefusedError(
            f"{len(items)} sections of {rel_path!r} are called {target!r}; nothing was changed",
            hint="Replace the text itself, with `old_text` and `new_text`.",
        )
    if not items:
        return None
    first = every[items[0]]
    after = (one.start for one in every[items[0] + 1 :] if one.level <= first.level)
    return first.start, next(after, len(text))


def _without_heading(words: str, section: str) -> str:
    """Strip a repeated heading from a section's text."""
    first, _, rest = words.partition("\n")
    same = first.startswith("#") and fold(first.strip("# ")) == fold(section.strip("# "))
    return rest.strip("\n") if same else words


def _lacking_items(text: str, words: str) -> str:
    """Return the text to append; of a plain list, only the missing items."""
    items = bullet_items(words)
    if not all(bullet(item) for item in items):
        return words
    keys = {key_of(item) for item in bullet_items(text)}
    return "".join(item for item in items if key_of(item) not in keys).strip("\n")


def _insert(text: str, at: int, words: str) -> str:
    """Insert a block into a text, separated by a blank line or as part of a list."""
    if not words:
        return text
    before, after = text[:at].rstrip("\n"), text[at:].lstrip("\n")
    last = before.rpartition("\n")[2]
    is_list = bullet(words) and (bullet(last) or last[:1].isspace())
    gap = "" if not before else "\n" if is_list else "\n\n"
    below = f"\n{after}" if after else ""
    return f"{before}{gap}{words}\n{below}"
