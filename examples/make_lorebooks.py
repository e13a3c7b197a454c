"""Make the example lorebooks. Run it after a change: `python examples/make_lorebooks.py`.

The small one that `familiar demo` uses is written into the package, too.
"""

# ruff: noqa: E501  # prose
from __future__ import annotations

import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

from familiar_cli.imports.lorebook import DEFAULTS

HERE = Path(__file__).parent
DEMO = HERE.parent / "familiar_cli" / "imports" / "demo"

# World Info of the valley that Yuzu's railway runs through.
VALLEY: list[dict[str, Any]] = [
    {
        "comment": "The Kazahaya line",
        "key": ["railway", "the line", "/\\btrains?\\b/i"],
        "content": "The Kazahaya line climbs eleven tunnels in forty minutes. Locals count them aloud; the seventh is always skipped, and nobody says why.",
        "constant": True,
        "order": 10,
    },
    {
        "comment": "風早神社",
        "key": ["神社", "shrine", "fox"],
        "content": "The shrine above the station belongs to a fox who answers letters. Write small: she is proud of her eyes, and they are not what they were.",
        "order": 20,
    },
    {
        "comment": "Tunnel",
        "key": ["seventh tunnel", "tunnel seven"],
        "content": "In the seventh tunnel every watch loses four minutes. The railway keeps them in a ledger and gives them back on request.",
        "order": 30,
    },
    {
        "comment": "Tunnel",
        "key": ["eleventh tunnel", "last tunnel"],
        "keysecondary": ["snow", "雪"],
        "selective": True,
        "selectiveLogic": 0,
        "content": "The eleventh tunnel ends in snow, whatever the season at its other end.",
        "order": 31,
    },
    {
        "comment": "Weather now",
        "key": ["weather", "outside", "/(snow|sleet|hail)(ing|s)?/i"],
        "content": "{{random:Snow falls straight down.,Snow falls sideways.,It has stopped snowing and everybody distrusts it.}}",
        "position": 4,
        "depth": 2,
        "role": 0,
        "order": 40,
        "sticky": 3,
    },
    {
        "comment": "Станционный чайник",
        "key": ["kettle", "чайник", "tea, barley"],
        "content": "The station kettle came from a Russian engineer and sings in a minor key.{{// it stops when somebody lies}}",
        "probability": 60,
        "order": 50,
    },
    {
        "comment": "The stationmaster's secret (not yet)",
        "key": ["stationmaster", "Yuzu's cap"],
        "content": "There has been no stationmaster for nine years. The cap was lost property.",
        "disable": True,
        "order": 60,
    },
]

# Four entries that a first conversation is likely to touch.
DEMO_BOOK: list[dict[str, Any]] = [
    {
        "comment": "The four lost minutes",
        "key": ["minutes", "watch", "clock", "late"],
        "content": "In the seventh tunnel every watch loses four minutes. They end up at the Lost Property Office, in a tin on shelf nine, and rattle.",
        "order": 10,
    },
    {
        "comment": "Counter bell",
        "key": ["bell", "/\\b(ring|rang)\\b/i"],
        "content": "The brass bell on the counter rings a moment before anybody touches it.",
        "order": 20,
    },
    {
        "comment": "風早神社",
        "key": ["神社", "shrine", "fox"],
        "content": "The shrine above the station belongs to a fox who answers letters.",
        "order": 30,
    },
    {
        "comment": "The umbrella rule",
        "key": ["umbrella", "umbrellas"],
        "content": "Unclaimed umbrellas are lent to anyone for one rain. Most come back by themselves.",
        "order": 40,
    },
]

HARBOUR: dict[str, Any] = {
    "spec": "lorebook_v3",
    "data": {
        "name": "Harbour of Nine Bells",
        "description": "A fogbound harbour where each bell has an opinion.",
        "scan_depth": 6,
        "token_budget": 600,
        "recursive_scanning": True,
        "extensions": {"example/tide_table": {"high": "04:12", "low": "10:31"}},
        "entries": [
            {
                "id": 1,
                "name": "The ninth bell",
                "comment": "rings only for ships that are not there",
                "keys": ["ninth bell", "last bell"],
                "secondary_keys": ["fog", "ship", "霧"],
                "selective": True,
                "content": "@@depth 3\n@@role system\nThe ninth bell has no rope. It rings for ships that are not there, and it has never once been wrong.",
                "enabled": True,
                "insertion_order": 10,
                "use_regex": False,
                "constant": False,
                "priority": 8,
                "position": "before_char",
                "extensions": {"exclude_recursion": True},
            },
            {
                "id": "harbourmaster",
                "name": "Harbourmaster Oduya",
                "keys": ["Oduya", "/harbour ?master/i"],
                "secondary_keys": [],
                "content": "@@activate_only_after 2\n@@@scan_depth 4\n\nOduya signs for every arrival with the same pen. The ink is seawater; the entries are gone by morning, and she knows all of them by heart.",
                "enabled": True,
                "insertion_order": 20,
                "use_regex": True,
                "constant": False,
                "extensions": {},
            },
            {
                "id": 3,
                "name": "Ładunek №9",
                "keys": ["cargo nine", "ładunek"],
                "content": "A crate marked №9 has been on the quay for a year. Gulls will not stand on it.\n\n- It hums at low tide.\n- It is warm.\n",
                "enabled": False,
                "insertion_order": 30,
                "use_regex": False,
                "case_sensitive": True,
                "position": "after_char",
                "secondary_keys": [],
                "extensions": {},
            },
        ],
    },
}


def world(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return World Info with every setting written out, as SillyTavern saves it."""
    filled = (
        {**deepcopy(dict(DEFAULTS)), "uid": n, "displayIndex": n, "addMemo": True, **entry}
        for n, entry in enumerate(entries)
    )
    return {"entries": {str(entry["uid"]): entry for entry in filled}, "name": name}


def main() -> None:
    """Write all of them."""
    books = {
        HERE / "lorebooks" / "kazahaya-valley.json": world(VALLEY, "Kazahaya valley"),
        HERE / "lorebooks" / "nine-bells.json": HARBOUR,
        DEMO / "lost-property.json": world(DEMO_BOOK, "Lost property"),
    }
    for place, book in books.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(book, ensure_ascii=False, indent=2) + "\n"
        place.write_bytes(text.encode("utf-8"))
        print(f"{place.relative_to(HERE.parent)}: {len(book)} members", file=sys.stderr)


if __name__ == "__main__":
    main()
