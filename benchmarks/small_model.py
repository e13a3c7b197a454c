"""Replies of the local model side by side: `python -m benchmarks.small_model [--replies 2]`.

Each situation is a character, what memory holds, what was said before, and what is said now. It is
asked once with each frame (`context.frame`), through the whole program, as `familiar ask` does. The
output is for reading: no number can tell whether a reply is fair. What a reader went by, and found,
stands in docs/explanation/small-models.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.actions.talk.talk import take_turn
from familiar_cli.base.who.identity import Author
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.memory.pages.front_matter import field_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator

ROBIN = Author("cli", "robin", display_name="Robin")
FRAMES = ("full", "short")


@dataclass(frozen=True, slots=True)
class Character:
    """Who is talked to: each field as a card has it."""

    name: str
    description: str
    personality: str = ""
    scenario: str = ""
    system_prompt: str = ""
    post_history_instructions: str = ""
    mes_example: str = ""
    first_mes: str = ""


@dataclass(frozen=True, slots=True)
class Situation:
    """What is said to whom, and what memory and the conversation hold."""

    char: Character
    said: str
    memory: str = ""
    before: tuple[tuple[str, str], ...] = ()


ADA = Character(
    "Ada",
    "Ada is a patient companion who likes plants, maps and old radio plays. She remembers what "
    "Robin tells her and asks about it later.",
    "Calm, curious, a little dry.",
)
BRILL = Character(
    "Captain Brill",
    "Captain Brill is the retired captain of a river ferry. He is sixty-one, has a wooden leg he "
    "carved himself, a parrot called Minutes, and a story for every bend of the river. He grows "
    "tomatoes on the deck of his boat, which is called the Patient Otter.",
    "Loud, kind, superstitious.",
    "The Patient Otter lies at the pier. {{user}} has brought bread.",
    "You are {{char}}. Stay in character.",
    mes_example="<START>\n{{user}}: Is the river high today?\n{{char}}: High? I have seen it wet "
    "the church bell! Today she only licks the steps.",
    first_mes="Ahoy, {{user}}! Mind the tomatoes. What brings you aboard?",
)
MIRA = Character(
    "Mira",
    "Mira is a baker who works at night. Her shop is called Crumb. She has a younger brother, "
    "Jonas, who studies medicine. Mira is {{user}}'s oldest friend.",
    "Funny, direct, loyal.",
    "It is early morning and {{user}} calls her on the phone.",
    post_history_instructions="Reply as {{char}} only.",
    first_mes="Morning! You are up early. What happened?",
)
KEEPER = Character(
    "Keeper",
    "Keeper helps {{user}} with her work at a small museum: dates, names, lists, letters.",
    "Exact, friendly, brief.",
    system_prompt="You are {{char}}, a workmate who keeps notes for {{user}}. Be short and exact.",
)
YUZU = Character(
    "Yuzu",
    "Yuzu runs the Lost Property Office (忘れ物取扱所) at Kazahaya, the last station of a mountain "
    "railway. Yuzu writes a paper tag for each thing that people lose, asks good questions, and "
    "nearly always finds the owner. Yuzu shares the office with a heron called Inspector.",
    "Brisk, warm, nosy about small things; deadpan.",
    "It is late and snow is falling. {{user}} has come to the counter.",
    "Write {{char}}'s next reply. {{char}} speaks in two or three short sentences.",
    "[Stay {{char}}. Never speak or act for {{user}}.]",
    "<START>\n{{user}}: I think I left a red scarf on the train.\n{{char}}: *She counts along a "
    "rail.* This one smells of oranges. Yours?",
    "*The brass bell has not finished ringing.*\n\nGood evening. What have we lost?",
)
UMBRELLA = ("I think I left my green umbrella on the train.", "A green one. I will write a tag.")
SITUATIONS = (
    Situation(YUZU, "Good evening! I think I left my green umbrella on the last train."),
    Situation(
        YUZU,
        "What happens to my umbrella?",
        "A lost umbrella waits for a week, then it is lent.",
        (UMBRELLA,),
    ),
    Situation(
        YUZU,
        "Who is the bird behind you?",
        "The bird in the office is a grey heron called Inspector.",
    ),
    Situation(YUZU, "I am so tired. It was a long day."),
    Situation(
        YUZU, "What had I lost in January?", "In January Robin lost a red scarf on the train."
    ),
    Situation(ADA, "Hi Ada! How are you today?"),
    Situation(
        ADA, "I planted tomatoes on the balcony.", "Robin has a small balcony on the third floor."
    ),
    Situation(ADA, "What is my dog called?", "Robin has a brown dog called Biscuit."),
    Situation(ADA, "When is my sister's birthday?", "Nora, Robin's sister, was born on 4 May."),
    Situation(ADA, "I had a fight with my boss and I feel awful.", "Robin's boss is Mr. Tanner."),
    Situation(ADA, "Can you recommend a book?", "Robin likes a book best when the sea is in it."),
    Situation(ADA, "Good night!", before=(("I am going to bed.", "Is the alarm set?"),)),
    Situation(ADA, "Thanks, you are a good friend.", before=(("I was sad.", "What helped?"),)),
    Situation(BRILL, "Hello Captain! I brought you some bread."),
    Situation(BRILL, "What is your parrot called?"),
    Situation(BRILL, "Tell me about the storm.", "In the storm of 1987 the boat lost her anchor."),
    Situation(BRILL, "What did I promise you?", "Robin promised to paint the name on the bow."),
    Situation(BRILL, "Are you superstitious?"),
    Situation(MIRA, "I have got the job!", "Robin applied for a job at the city library."),
    Situation(MIRA, "How is your brother?", "Mira's brother Jonas passed his exam on Friday."),
    Situation(MIRA, "What did we eat on my birthday?", "On Robin's birthday there was plum cake."),
    Situation(MIRA, "I can't sleep. I keep thinking about Tom.", "Tom moved out in March."),
    Situation(
        KEEPER, "When does the exhibition open?", "The exhibition opens on 12 June at 18:00."
    ),
    Situation(KEEPER, "Who lent us the blue vase?", "Mrs. Okafor lent the museum the blue vase."),
    Situation(KEEPER, "What is still to do?", "Still to do: print the labels, hang the lamp."),
    Situation(KEEPER, "Thank you, that is all for today."),
)


def make(home: Path, situation: Situation, frame: str) -> None:
    """Make a familiar for a situation, with its memory and what was said."""
    root = home / "f"
    for name in situation.char.__slots__[1:]:
        text = getattr(situation.char, name)
        if text:
            path = root / "memory" / "self" / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(field_markdown(name, text), encoding="utf-8")
    if situation.memory:
        note = root / "memory" / "topics" / "notes.md"
        note.parent.mkdir()
        note.write_text(f"# Notes\n\n- {situation.memory}\n", encoding="utf-8")
    settings = f'name = "{situation.char.name}"\n[context]\nframe = "{frame}"\n'
    (root / "character.toml").write_text(settings, encoding="utf-8")
    with closing(HistoryStore(root / "history.db")) as history:
        for said, reply in situation.before:
            history.append("cli", "user", said, author=ROBIN)
            history.append("cli", "assistant", reply)


async def reply_to(home: Path, situation: Situation) -> dict[str, object]:
    """Ask, and return the reply with what it took."""
    async with Familiar.load_from_disk(home, "f") as familiar:
        result = await take_turn(familiar, Said(situation.said, ROBIN))
    trace = result.trace
    return {
        "char": situation.char.name,
        "said": situation.said,
        "reply": result.text,
        "raw": trace.raw_reply or result.text,
        "prompt_tokens": trace.usage.prompt_tokens if trace.usage else None,
        "seconds": round((trace.reply_ms or 0) / 1000, 1),
    }


def replies(frames: list[str], count: int, only: str) -> Iterator[dict[str, object]]:
    """Yield each reply to each situation, situation by situation."""
    for situation in SITUATIONS:
        if only.casefold() not in situation.said.casefold():
            continue
        for frame in frames:
            for _ in range(count):
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
                    make(Path(home), situation, frame)
                    row = asyncio.run(reply_to(Path(home), situation))
                yield {"frame": frame, "memory": situation.memory, **row}


def main() -> None:
    """Print replies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replies", type=int, default=2, help="of each situation and frame")
    parser.add_argument("--frames", nargs="+", choices=FRAMES, default=FRAMES)
    parser.add_argument("--only", default="", help="situations in which this is said")
    parser.add_argument("--json", action="store_true", help="print a JSON object a line")
    options = parser.parse_args()
    title = ""
    for row in replies(options.frames, options.replies, options.only):
        if options.json:
            print(json.dumps(row, ensure_ascii=False), flush=True)
            continue
        if title != (title := f"\n{row['char']}: {row['said']}  [{row['memory']}]"):
            print(title)
        print(f"  {row['frame']:5} {row['seconds']:>5} s  {row['reply']!r}", flush=True)


if __name__ == "__main__":
    main()
