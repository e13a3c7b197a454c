"""Gates of lorebooks, compared with SillyTavern's own module.

`python -m benchmarks.lorebooks WORLD_INFO_JS [--cases 200] [--seed 1] [--json]` makes books and
conversations, asks SillyTavern's `world-info.js` (of its npm package `sillytavern`, in
`public/scripts/`; Node runs it) which entries each conversation activates, and looks which of them
a dry run of `familiar ask` shows.

`forbidden` counts entries that were shown although no primary key, had it been said as well, could
have activated them there. `open` counts entries that were named in the last message and that
SillyTavern activates whatever chance decides, or groups of which it activates one; `shown` is the
share of them in the prompt. No text has another entry's key, since nothing here recurs, and no
entry is in two groups, of which SillyTavern removes others by mistake. Gates that SillyTavern does
not have, the decorators of the V3 specification, are judged by a few lines of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from familiar_cli.actions.talk import talk
from familiar_cli.base.who.identity import Author
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar
from familiar_cli.imports.import_lorebook import import_lorebook
from familiar_cli.imports.reading import read_book

if TYPE_CHECKING:
    from collections.abc import Callable

OWNER = Author("cli", "ulla", display_name="Ulla")
KEYS = [
    *("castle", "moat", "tower", "bridge", "orchard", "smithy", "abbey", "harbour"),
    *("城", "Заречье", "/gallows?/i"),
]
EXPRESSIONS = {"/gallows?/i": "gallow", r"/sto(rm|ne)\b/": "storm", "/w[ao]lf/i": "Wolf"}
WORDS = ["night", "rain", "dawn", "lantern", "snow", "drums", "Feast", "candlelight", "nightfall"]
FILLER = [
    *("travellers", "walk", "the", "long", "road", "and", "wonder", "what", "they", "will"),
    *("find", "there"),
]
CHARACTER = "mira"
DECORATED, SELDOM, HALF = 0.1, 0.25, 0.5
SAMPLES = {"/gallows?/i": "gallows"}


def make_entry(dice: random.Random, uid: int) -> dict[str, Any]:
    """Return an entry with some gates."""
    keys = dice.sample(KEYS, dice.choice((1, 1, 2)))
    text = f"Fact {uid}: {' '.join(dice.sample(FILLER, 5))}."
    entry: dict[str, Any] = {"uid": uid, "comment": f"Entry {uid}", "key": keys, "content": text}
    for gate in dice.sample(GATES, dice.choice((0, 1, 1, 2, 3))):
        entry |= gate(dice)
    decorators = dice.choice(DECORATORS) if dice.random() < DECORATED else ""
    return _whole({**entry, "content": decorators + text})


def _words(dice: random.Random) -> dict[str, Any]:
    words = dice.sample([*WORDS, *EXPRESSIONS], dice.randint(1, 3))
    return {"keysecondary": words, "selective": True, "selectiveLogic": dice.randint(0, 3)}


def _group(dice: random.Random) -> dict[str, Any]:
    return {
        "group": dice.choice(("a", "b")),
        "groupWeight": dice.choice((0, 50, 100)),
        "groupOverride": dice.random() < SELDOM,
        "useGroupScoring": dice.random() < SELDOM,
        "order": dice.randint(1, 200),
    }


def _characters(dice: random.Random) -> dict[str, Any]:
    names = dice.choice(([CHARACTER], ["Seraphina"], []))
    tags = dice.choice(([], [], ["fantasy"], ["horror"]))
    return {"characterFilter": {"isExclude": dice.random() < HALF, "names": names, "tags": tags}}


KINDS = ["normal", "continue", "swipe", "quiet", "impersonate", "regenerate"]
GATES: list[Callable[[random.Random], dict[str, Any]]] = [
    lambda dice: {
        "probability": dice.choice((0, 0, 30, 70, 100)),
        "useProbability": dice.random() > SELDOM,
    },
    lambda dice: {"delay": dice.randint(1, 12)},
    _words,
    lambda dice: _words(dice) | {"matchWholeWords": True},
    lambda dice: _words(dice) | {"caseSensitive": True},
    lambda dice: {"cooldown": dice.randint(1, 8), "sticky": dice.choice((0, 0, 2, 5))},
    _group,
    _characters,
    lambda dice: {"triggers": dice.sample(KINDS, 2)},
    lambda dice: {"scanDepth": dice.choice((0, 1, 3, 6))},
    lambda dice: {"delayUntilRecursion": dice.choice((True, 1, 2)), "preventRecursion": True},
    lambda dice: dice.choice(({"constant": True}, {"disable": True})),
]
DECORATORS = (
    "@@dont_activate\n",
    "@@activate\n@@dont_activate\n",
    "@@unknown 4\n@@@dont_activate\n",
    "@@activate_only_after 3\n@@@dont_activate\n",
    "@@exclude_keys night, rain\n",
    "@@additional_keys snow,dawn\n",
)


def _whole(entry: dict[str, Any]) -> dict[str, Any]:
    """Add the fields that SillyTavern expects in each entry."""
    usual: dict[str, Any] = {
        "order": 100,
        "selective": True,
        "probability": 100,
        "useProbability": True,
    }
    usual |= {"keysecondary": [], "position": 0, "disable": False, "constant": False}
    return {**usual, **entry}


def make_case(dice: random.Random) -> dict[str, Any]:
    """Return a book and a conversation about it."""
    entries = [make_entry(dice, uid) for uid in range(dice.randint(6, 14))]
    chat = []
    for number in range(2 * dice.randint(0, 6) + 1):
        words = dice.sample([*KEYS, *WORDS, "storm", "wolf", "gallows"], dice.randint(0, 4))
        words = [word for word in words if not word.startswith("/")]
        said = [*dice.sample(FILLER, 4), *words, *dice.sample(KEYS[:8], dice.randint(0, 2))]
        dice.shuffle(said)
        who = number % 2 == 0
        chat.append({"name": "Ulla" if who else CHARACTER, "text": " ".join(said), "isUser": who})
    if len(chat) > 1 and dice.random() < SELDOM:
        chat.insert(0, {"name": CHARACTER, "text": "Welcome, wanderer.", "isUser": False})
    samples = {
        entry["uid"]: [EXPRESSIONS.get(k, "gallows" if k[0] == "/" else k) for k in entry["key"]]
        for entry in entries
    }
    listed = {str(one["uid"]): {**one, "samples": samples[one["uid"]]} for one in entries}
    return {"entries": listed, "chat": chat, "character": CHARACTER, "tags": ["fantasy"]}


def activations(script: Path, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what SillyTavern activates in each case."""
    driver = Path(__file__).with_name("world_info.mjs")
    done = subprocess.run(
        ["node", str(driver), str(script)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def shown(case: dict[str, Any], root: Path) -> set[int]:
    """Return the entries that a dry run of the last message shows."""
    memory = root / CHARACTER / "memory"
    (memory / "self").mkdir(parents=True)
    card = {"spec": "chara_card_v3", "data": {"name": CHARACTER, "tags": case["tags"]}}
    (memory / "self" / "card.json").write_text(json.dumps(card), encoding="utf-8")
    settings = f'name = "{CHARACTER}"\n[context]\nprovider_deadline_s = 60\n[search]\nk = 30\n'
    settings += '[llm]\ncontext_tokens = 32000\n[recall]\nenabled = "off"\n'
    (root / CHARACTER / "character.toml").write_text(settings, encoding="utf-8")
    with Familiar.load_from_disk(root, CHARACTER) as familiar:
        book = {"entries": {key: {**one, "samples": None} for key, one in case["entries"].items()}}
        import_lorebook(familiar.memory, read_book(book, origin="book.json"))
        *before, last = case["chat"]
        for said in before:
            if said["isUser"]:
                familiar.history.append("cli", "user", said["text"], author=OWNER)
            else:
                familiar.history.append("cli", "assistant", said["text"])
        trace = asyncio.run(talk.assemble(familiar, Said(last["text"], OWNER)))
    prompt = "\n".join(message.content for message in trace.messages)
    return {uid for uid in map(int, case["entries"]) if f"Fact {uid}:" in prompt}


def _may_be_shown(entry: dict[str, Any], case: dict[str, Any]) -> bool:
    """Judge the decorators that SillyTavern does not support."""
    newest = case["chat"][-entry.get("scanDepth", 2) :]
    said = "\n".join(f"{one['name']}: {one['text']}" for one in newest)
    said = said if entry.get("caseSensitive") else said.lower()
    content = entry["content"]
    replies = sum(not one["isUser"] for one in case["chat"])
    if content.startswith("@@activate_only_after") and replies < 3:
        return False
    if content.startswith("@@exclude_keys") and _holds(entry, said, "night", "rain"):
        return False
    return not content.startswith("@@additional_keys") or _holds(entry, said, "snow", "dawn")


def _holds(entry: dict[str, Any], said: str, *words: str) -> bool:
    if entry.get("matchWholeWords"):
        return any(word in re.split(r"\W+", said) for word in words)
    return any(word in said for word in words)


def compare(case: dict[str, Any], found: dict[str, Any], there: set[int]) -> dict[str, Any]:
    """Count the entries shown against their gates, and those named whose gates are open."""
    entries = {int(key): one for key, one in case["entries"].items()}
    possible = set().union(*map(set, found["possible"]))
    may = {uid for uid, one in entries.items() if _may_be_shown(one, case)}
    last = case["chat"][-1]["text"].split()
    named = {uid for uid, one in entries.items() if one["constant"] or set(one["key"]) & set(last)}
    # What rests or shares a group is another where SillyTavern ignores a decorator; and what stays
    # (sticky) is not wanted here.
    own = {uid for uid, one in entries.items() if one.get("cooldown") and "@@" in one["content"]}
    groups = {entries[uid].get("group") for uid in may.symmetric_difference(entries)} - {None}
    own |= {uid for uid, one in entries.items() if one.get("group") in groups}
    forbidden = {uid for uid in there - own if uid not in possible or uid not in may}
    always = set.intersection(*map(set, found["named"])) & named & may - own
    own |= {uid for uid, one in entries.items() if one.get("sticky")}
    always -= own
    groups = {g.strip() for one in entries.values() for g in one.get("group", "").split(",") if g}
    wanted = {frozenset([uid]) for uid in always if not entries[uid].get("group")}
    for group in groups:
        members = {uid for uid, one in entries.items() if one.get("group") == group}
        if all(members & set(one) & named & may for one in found["named"]):
            wanted.add(frozenset(members))
    missing = [sorted(one) for one in wanted if not one & there]
    return {"forbidden": sorted(forbidden), "open": len(wanted), "missing": missing}


def main() -> None:
    """Compare, and print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("script", type=Path, help="SillyTavern's public/scripts/world-info.js")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--explain", action="store_true", help="print each difference")
    options = parser.parse_args()
    dice = random.Random(options.seed)  # test data
    cases = [make_case(dice) for _ in range(options.cases)]
    results = []
    for case, found in zip(cases, activations(options.script, cases), strict=True):
        with tempfile.TemporaryDirectory() as root:
            results.append((case, compare(case, found, shown(case, Path(root)))))
    for number, (case, one) in enumerate(results):
        odd = [*one["forbidden"], *(uid for group in one["missing"] for uid in group)]
        if options.explain and odd:
            print(number, {key: one[key] for key in ("forbidden", "missing")})
            print("  ", *(json.dumps(case["entries"][str(uid)]) for uid in odd), sep="\n   ")
            print("  ", *(said["text"] for said in case["chat"]), sep="\n   ")
    wanted = sum(one["open"] for _, one in results)
    missing = sum(len(one["missing"]) for _, one in results)
    numbers = {
        "cases": len(cases),
        "forbidden": sum(len(one["forbidden"]) for _, one in results),
        "open": wanted,
        "shown": round(1 - missing / max(wanted, 1), 4),
    }
    print(
        json.dumps(numbers) if options.json else "  ".join(f"{k} {v}" for k, v in numbers.items())
    )


if __name__ == "__main__":
    main()
