"""`CharacterProvider`: the fields of the card, each at its place. Reads files only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, Final, TypedDict

from msgspec.structs import replace

from familiar_cli.base.errors import UsageError
from familiar_cli.context.budget import MESSAGE_TOKENS
from familiar_cli.context.character import (
    PERSONA_MACRO,
    Character,
    Macros,
    TurnValues,
    numbered_blocks,
)
from familiar_cli.context.tiers import DEEP, is_loaded, why_withheld
from familiar_cli.context.types import Contribution, Fit, Layer, PromptSpan, Subject
from familiar_cli.store.memory.layout import CARD_JSON, SELF_DIR
from familiar_cli.store.memory.pages.front_matter import SELF_FILES, TIERS_NOTE, self_file

if TYPE_CHECKING:
    from familiar_cli.base.languages import Phrases
    from familiar_cli.context.request import ContextRequest
    from familiar_cli.store.history.rows import Turn

# The card's own place among the priorities; see docs/reference/placement-and-budgets.md.
MAIN: Final = 100
POST_HISTORY: Final = 99
DESCRIPTION: Final = 98
DEPTH_PROMPT: Final = 97
PERSONALITY: Final = 96
SCENARIO: Final = 95
PERSONA: Final = 95
EXAMPLES: Final = 60
TIERS_TEXT: Final = 56
_CARD_NAME: Final = CARD_JSON.removeprefix(f"{SELF_DIR}/")


class CharacterProvider:
    """Provides the main instruction and the character.

    Args:
        character: The character as of the beginning of the turn.
        system_prompt: The main instruction; a card's own replaces or includes it.
        user_name: Value of `{{user}}` for a speaker without a name.
        zone: The timezone of macros that tell the time.
        recent: Returns the newest turns before a message, oldest first.
    """

    name: Final = "character"
    deadline_s: Final = None
    looks_at: Final = f"the character's own files: {SELF_DIR}/<field>.md and {CARD_JSON}"

    def __init__(
        self,
        character: Character,
        *,
        system_prompt: str,
        user_name: str = "User",
        zone: tzinfo | None = None,
        recent: Callable[[ContextRequest], Sequence[Turn]] = lambda _: (),
    ) -> None:
        self.character = character
        self._system_prompt = system_prompt
        self._user_name = user_name
        self._zone = zone
        self._recent = recent

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the main instruction, the character's fields and its examples."""
        character, macros = self.character, self.macros_of(request)
        offered = [
            *_problem_contributions(character),
            self._main(character, macros, request.tier),
            *self._persona(macros, request.phrases),
            *_field_contributions(character, macros),
            *_example_contributions(character, macros, request.budget_tokens),
            *_depth_prompt(character, macros),
            *_post_history(character, macros),
            *self._tiers_note(request.tier),
        ]
        return [p for p in offered if p.rel_path is None or is_loaded(p.rel_path, request.tier)]

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why a file is not in a prompt; see `Explains`."""
        rel_path = subject.rel_path
        if rel_path is None or not rel_path.startswith(f"{SELF_DIR}/"):
            return None
        higher = why_withheld(rel_path, request.tier)
        return higher or _why_not(self.character, rel_path)

    def opening(self, request: ContextRequest, number: int | None = None) -> str:
        """Return the greeting that opens a channel; empty if there is none.

        Args:
            number: Its number, from 1 for the first message; None for the first there is.

        Raises:
            UsageError: No such greeting.
        """
        greetings = self.character.greetings
        if number is not None and not 1 <= number <= len(greetings):
            raise UsageError(
                f"No such greeting: {number}; the character has {len(greetings)}",
                hint="Greeting 1 is the first message; the alternatives follow.",
            )
        choice = greetings[(number or 1) - 1] if greetings else ""
        return self.macros_of(request).expand(choice).strip()

    def macros_of(self, request: ContextRequest) -> Macros:
        """Return the values of macros in this turn, also for settings that use them."""
        author, me = (
            request.author and request.labels.with_known_name(request.author),
            request.labels.me,
        )
        owner = me.owner(author)
        has_name = author is not None and me.named(author).display_name
        return Macros(
            char=self.character.name,
            user=request.labels.of(author) if author and has_name else self._user_name,
            seed=request.seed,
            pick_seed=f"{request.familiar_id}\n{request.channel_id}",
            persona=owner.persona(request.phrases) if owner else "",
            fields=self.character.macro_texts,
            value=TurnValues(
                self.character, request, self._zone, lambda: self._recent(request)
            ).value,
        )

    def _persona(self, macros: Macros, phrases: Phrases) -> list[Contribution]:
        """Return the speaker's persona, unless a text of the character includes it."""
        texts = [self._system_prompt, *self.character.texts.values()]
        depth_prompt = self.character.depth_prompt
        if depth_prompt:
            texts.append(depth_prompt.prompt)
        if not macros.persona or any(map(PERSONA_MACRO.search, texts)):
            return []
        about = phrases.about.format("{{user}}")
        piece = Contribution(
            layer=Layer.character,
            priority=PERSONA,
            text=macros.expand(f"[{about}]\n{{{{persona}}}}"),
            source="me",
            place=PromptSpan.persona,
            cause="speaks",
        )
        return [piece]

    def _tiers_note(self, tier: int) -> list[Contribution]:
        """Return the tiers of an imported persona."""
        if tier < DEEP or not self.character.tiers_note:
            return []
        piece = Contribution(
            layer=Layer.character,
            priority=TIERS_TEXT,
            text=self.character.tiers_note,
            source="character.tiers",
            place=PromptSpan.scenario,
            rel_path=TIERS_NOTE,
            sha256=self.character.origins[TIERS_NOTE].sha256,
        )
        return [piece]

    def _main(self, character: Character, macros: Macros, tier: int) -> Contribution:
        own = character.texts.get("system_prompt", "")
        has_own = bool(own.strip()) and is_loaded(self_file("system_prompt").rel_path, tier)
        text = macros.expand(own if has_own else self._system_prompt, original=self._system_prompt)
        return Contribution(
            layer=Layer.core,
            priority=MAIN,
            text=text,
            source="character.system_prompt" if has_own else "config.system_prompt",
            place=PromptSpan.main,
            **(_field_origin(character, "system_prompt") if has_own else {}),
        )


def _field_contributions(character: Character, macros: Macros) -> list[Contribution]:
    places = (
        ("description", PromptSpan.description, DESCRIPTION),
        ("personality", PromptSpan.personality, PERSONALITY),
        ("scenario", PromptSpan.scenario, SCENARIO),
    )
    return [
        Contribution(
            layer=Layer.character,
            priority=priority,
            text=macros.expand(character.texts[name]),
            source=f"character.{name}",
            place=place,
            **_field_origin(character, name),
        )
        for name, place, priority in places
        if character.texts.get(name, "").strip()
    ]


def _example_contributions(
    character: Character, macros: Macros, budget_tokens: int
) -> Iterator[Contribution]:
    """Yield each example, and one note for all that no prompt could hold."""
    left = budget_tokens
    for lines, block in numbered_blocks(character.texts.get("mes_example", ""), macros):
        piece = Contribution(
            layer=Layer.character,
            priority=EXAMPLES,
            text="\n".join(f"{line.role}: {line.text}" for line in block),
            source="character.mes_example",
            place=PromptSpan.example,
            fit=Fit.whole,
            dialogue=block,
            **_field_origin(character, "mes_example", lines),
        )
        if left <= 0:
            why = "left out, with all that follow: no prompt has room for so many examples"
            yield replace(piece, text="", dialogue=(), remark=why)
            return
        yield piece
        left -= MESSAGE_TOKENS * (1 + len(block))


def _depth_prompt(character: Character, macros: Macros) -> list[Contribution]:
    found = character.depth_prompt
    if found is None:
        return []
    return [
        Contribution(
            layer=Layer.depth_inject,
            priority=DEPTH_PROMPT,
            text=macros.expand(found.prompt),
            source="character.depth_prompt",
            place=PromptSpan.depth,
            rel_path=CARD_JSON,
            sha256=character.origins[CARD_JSON].sha256,
            role=found.role,
            depth=found.depth,
        )
    ]


def _post_history(character: Character, macros: Macros) -> list[Contribution]:
    text = character.texts.get("post_history_instructions", "")
    if not text.strip():
        return []
    return [
        Contribution(
            layer=Layer.core,
            priority=POST_HISTORY,
            text=macros.expand(text, original=""),
            source="character.post_history_instructions",
            place=PromptSpan.post_history,
            **_field_origin(character, "post_history_instructions"),
        )
    ]


def _why_not(character: Character, rel_path: str) -> str:
    if rel_path in character.problems:
        return character.problems[rel_path]
    if rel_path == TIERS_NOTE or (rel_path == CARD_JSON and character.depth_prompt):
        return ""
    if rel_path == CARD_JSON:
        return "only its depth prompt is used, and it has none"
    name = next((f.field for f in SELF_FILES if f.rel_path == rel_path), None)
    if name is None:
        known = ", ".join(f.rel_path.removeprefix(f"{SELF_DIR}/") for f in SELF_FILES)
        return f"in {SELF_DIR}/, only these are read: {known}, {_CARD_NAME}"
    if not character.texts.get(name, "").strip():
        return "it has no text below its heading"
    opens = "it is the greeting: it opens a channel and is then part of the history"
    return opens if name == "first_mes" else ""


class _From(TypedDict, total=False):
    """The source of a piece of the character."""

    rel_path: str
    lines: tuple[int, int]
    sha256: str


def _field_origin(character: Character, name: str, lines: tuple[int, int] | None = None) -> _From:
    """Return the location of the field `name`, or of some `lines` of its text."""
    origin = character.origins[name]
    first, last = lines or (1, 1 + character.texts[name].rstrip().count("\n"))
    above = origin.first_line - 1
    return {
        "rel_path": origin.rel_path,
        "lines": (above + first, above + last),
        "sha256": origin.sha256,
    }


def _problem_contributions(character: Character) -> list[Contribution]:
    """Return notes about missing parts of the character."""
    result = dict(character.problems)
    if not character.texts and not result:
        result = {SELF_DIR: f"there is no character in {SELF_DIR}/"}
    return [
        Contribution(
            layer=Layer.character,
            priority=0,
            text="",
            source="character",
            place=PromptSpan.description,
            rel_path=rel_path,
            problem=why,
        )
        for rel_path, why in result.items()
    ]
