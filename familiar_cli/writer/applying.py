"""Put accepted operations into a draft, file by file; what a file cannot take is refused alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import FamiliarError, UsageError
from familiar_cli.identity import handle_of
from familiar_cli.markdown import title_of
from familiar_cli.memory.layout import SESSIONS_DIR, TOPICS_DIR
from familiar_cli.memory.pages import links
from familiar_cli.memory.people.alias_section import with_alias
from familiar_cli.text import one_line
from familiar_cli.writer import sections
from familiar_cli.writer.edits import edited, shrinks
from familiar_cli.writer.slots import session_title
from familiar_cli.writer.types import REWRITES, Operation, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.review.draft import Draft
    from familiar_cli.writer.grounds import Grounds

_SHOWN_CHARS: Final = 200
_TITLE_CHARS: Final = 80


@dataclass(slots=True)
class Applying:
    """Puts the operations of one batch into a draft.

    Args:
        draft: The changes so far.
        grounds: The batch.
        max_file_bytes: Largest file that may be written.

    Attributes:
        refused: What a file could not take.
        held: Operations that wait for a person's yes.
    """

    draft: Draft
    grounds: Grounds
    max_file_bytes: int
    refused: list[Refusal] = field(default_factory=list)
    held: list[Operation] = field(default_factory=list)
    _touched: set[str] = field(default_factory=set)
    _stale: set[str] = field(default_factory=set)

    def run(self, operations: Sequence[Operation]) -> None:
        """Put all `operations` into the draft, then the links and names that follow from them."""
        done = [operation for operation in operations if self._one(operation)]
        self._link(done)
        self._name()

    def hold(self, other: Draft) -> None:
        """Copy the operations that await approval into another draft."""
        for operation in self.held:
            text = other.text(operation.rel_path) or self._new(operation)
            other.put(operation.rel_path, self._edited(text, operation))

    def _edited(self, text: str, operation: Operation) -> str:
        grounds = self.grounds
        return edited(text, operation, self._private_heading, grounds.phrases, grounds.numbering)

    def _one(self, operation: Operation) -> bool:
        rel_path = operation.rel_path
        try:
            text = self._opened(rel_path)
            if text is None:
                text = self._new(operation)
            elif operation.op == "create":
                operation = replace(operation, op="add_bullets")
            elif operation.op in REWRITES and not self._may_rewrite(operation):
                return False
            after = self._edited(text, operation)
        except FamiliarError as error:
            return self._refuse(operation, "unreadable", str(error))
        if operation.op in REWRITES and shrinks(text, after, operation):
            self.held.append(operation)
            return self._refuse(operation, "shrink", "more than half of it would be gone; held")
        if after == text and operation.op == "add_bullets":
            return self._refuse(operation, "duplicate", "the file already says so")
        return self._put(operation, after)

    def _put(self, operation: Operation, after: str) -> bool:
        if len(after.encode("utf-8", errors="replace")) > self.max_file_bytes:
            why = f"the file would be larger than {self.max_file_bytes:,} bytes; trim it first"
            return self._refuse(operation, "too_large", why)
        try:
            self.draft.put(operation.rel_path, after)
        except FamiliarError as error:
            return self._refuse(operation, "unreadable", str(error))
        return True

    def _opened(self, rel_path: str) -> str | None:
        """Return a file, and note whether it is still what the model was shown."""
        text = self.draft.text(rel_path)
        if rel_path not in self._touched:
            self._touched.add(rel_path)
            shown = self.grounds.shown.get(rel_path)
            if shown is not None and self.draft.sha256(rel_path) != shown.sha256:
                self._stale.add(rel_path)
            if shown is None and text is not None:
                self._stale.add(rel_path)
        return text

    def _may_rewrite(self, operation: Operation) -> bool:
        if operation.rel_path not in self._stale:
            return True
        if operation.rel_path in self.grounds.shown:
            return self._refuse(operation, "changed", "the file was changed meanwhile")
        return self._refuse(operation, "not_shown", "the model had not seen the file")

    def _new(self, operation: Operation) -> str:
        """Return the beginning of a new file: its H1, and a person's names."""
        person = self.grounds.roster.at(operation.rel_path)
        text = sections.new_file(self._title(operation))
        for name in person.given if person else ():
            text = with_alias(text, name, self._aliases)
        return text

    @property
    def _aliases(self) -> str:
        return self.grounds.phrases.heading("aliases")

    @property
    def _private_heading(self) -> str:
        return self.grounds.private_heading if self.grounds.batch.private is not None else ""

    def _title(self, operation: Operation) -> str:
        directory, _, name = operation.rel_path.partition("/")
        person = self.grounds.roster.at(operation.rel_path)
        if person:
            return person.title
        if directory == SESSIONS_DIR:
            return session_title(operation.rel_path, self.grounds.phrases)
        stem = name.rpartition("/")[2].removesuffix(".md").replace("-", " ")
        return one_line(operation.title, _TITLE_CHARS) or stem[:1].upper() + stem[1:]

    def _link(self, done: Sequence[Operation]) -> None:
        """Let each topic name its sessions and people, and each person their topics."""
        heading = self.grounds.phrases.heading
        for operation in done:
            if not operation.rel_path.startswith(f"{TOPICS_DIR}/"):
                continue
            turns = set(operation.turns)
            met = [path for path, ids in self.grounds.sessions.items() if turns & set(ids)]
            people = [p.rel_path for p in self.grounds.roster.who_said(turns)]
            self._add_links(operation.rel_path, heading("sessions"), met)
            self._add_links(operation.rel_path, heading("people"), people)
            for rel_path in people:
                self._add_links(rel_path, heading("topics"), [operation.rel_path])

    def _add_links(self, rel_path: str, heading: str, targets: Sequence[str]) -> None:
        """Add links to files that are there, or will be, and are not linked yet."""
        try:
            text = self.draft.text(rel_path)
            fresh = {t: self.draft.text(t) for t in targets}
        except FamiliarError:
            return  # it was refused by name already, or nothing depends on it
        linked = set(links.targets(text or "", rel_path))
        items = [
            f"- [{_link_text(said, target)}]({links.way_to(target, rel_path)})"
            for target, said in fresh.items()
            if said and target not in linked
        ]
        if text is not None and items:
            self._follow_up(rel_path, sections.with_bullets(text, heading, items))

    def _name(self) -> None:
        """Write the names that the platform gave into the files of people who have one.

        What somebody is called in private stays there.
        """
        if self.grounds.batch.private is not None:
            return
        for person in self.grounds.roster.people:
            try:
                text = self.draft.text(person.rel_path)
                if text is None:
                    continue
                after = text
                if person.given and title_of(text) in {handle_of(person.slug), person.account}:
                    after = sections.with_title(text, title_of(text), person.title)
                for name in person.given:
                    after = with_alias(after, name, self._aliases)
            except (UsageError, FamiliarError):
                continue
            if after != text:
                self._follow_up(person.rel_path, after)

    def _follow_up(self, rel_path: str, after: str) -> None:
        if len(after.encode("utf-8", errors="replace")) <= self.max_file_bytes:
            self.draft.put(rel_path, after)

    def _refuse(self, operation: Operation, rail: str, reason: str) -> bool:
        text = one_line(" / ".join(line.text for line in operation.lines), _SHOWN_CHARS)
        self.refused.append(Refusal(operation.rel_path, rail, reason, text, operation.turns))
        return False


def _link_text(text: str, rel_path: str) -> str:
    title = one_line(title_of(text), _TITLE_CHARS) or rel_path.rpartition("/")[2].removesuffix(
        ".md"
    )
    return title.replace("[", "(").replace("]", ")")
