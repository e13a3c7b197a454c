"""Make the example of SillyTavern's data folder: `python examples/make_sillytavern.py`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOLDER = HERE / "sillytavern" / "default-user"


def head(character: str, created: str, **metadata: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the first line of a chat."""
    return {
        "user_name": "Robin",
        "character_name": character,
        "create_date": created,
        "chat_metadata": metadata,
    }


def line(name: str, date: str, mes: str, **extra: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a message."""
    return {
        "name": name,
        "is_user": name == "Robin",
        "is_system": False,
        "send_date": date,
        "mes": mes,
        "extra": extra,
    }


MAIN = "Yuzu - 2025-11-21@20h15m00s"
BRANCH = "Branch #1 - 2025-11-21@20h31m00s"
TOGETHER = "2025-12-05@18h00m00s"
EVENING = [
    line(
        "Yuzu",
        "2025-11-21T20:15:00.000Z",
        "Good evening. The heron has been asking for you. What have we lost this week?",
    ),
    line("Robin", "2025-11-21T20:16:10.000Z", "A mitten. The left one, grey, from the ferry."),
    line(
        "Yuzu",
        "2025-11-21T20:17:00.000Z",
        "Mittens from the ferry are on shelf nine. Was it lost in rain, or before?",
        branches=[BRANCH],
    ),
]
CHATS: dict[str, list[dict[str, Any]]] = {
    f"chats/Yuzu/{MAIN}.jsonl": [
        head("Yuzu", "2025-11-21@20h15m00s"),
        *EVENING,
        line("Robin", "2025-11-21T20:18:20.000Z", "In rain. It rained on all of us."),
        line("Yuzu", "2025-11-21T20:19:00.000Z", "Then it is drying on the stove. Come and see."),
    ],
    f"chats/Yuzu/{BRANCH}.jsonl": [
        head("Yuzu", "2025-11-21@20h15m00s", main_chat=MAIN),
        *(message | {"extra": {}} for message in EVENING),
        line("Robin", "2025-11-21T20:31:30.000Z", "Before. I still had it at the lighthouse."),
        line("Yuzu", "2025-11-21T20:32:00.000Z", "Then the keeper has it. He wears one as a hat."),
    ],
    "chats/Old Gneiss/First climb.jsonl": [
        head("Old Gneiss", "2025-11-23@09h00m00s"),
        line("Old Gneiss", "2025-11-23T09:00:00.000Z", "You came by the north side. Few do."),
        line("Robin", "2025-11-23T09:02:00.000Z", "The south side was closed for lambing."),
    ],
    f"group chats/{TOGETHER}.jsonl": [
        head("unused", TOGETHER),
        line("Robin", "2025-12-05T18:00:00.000Z", "Yuzu, this is the mountain I told you about."),
        line("Yuzu", "2025-12-05T18:01:00.000Z", "Has it lost anything?"),
        line("Old Gneiss", "2025-12-05T18:04:00.000Z", "A path, in 1911. I do not miss it."),
    ],
}
VALUES: dict[str, Any] = {
    "groups/1764957600000.json": {
        "id": "1764957600000",
        "name": "Station and mountain",
        "members": ["Yuzu.png", "Old Gneiss.png"],
        "chat_id": TOGETHER,
        "chats": [TOGETHER],
    },
    "settings.json": {
        "username": "Robin",
        "user_avatar": "robin.png",
        "power_user": {
            "personas": {"robin.png": "Robin"},
            "default_persona": "robin.png",
            "persona_descriptions": {
                "robin.png": {"description": "{{user}} teaches cello in Ashford.", "position": 0}
            },
        },
        "world_info_settings": {
            "world_info": {
                "globalSelect": [],
                "charLore": [{"name": "Yuzu", "extraBooks": ["Kazahaya valley"]}],
            }
        },
    },
}
COPIES = {
    "cards/yuzu.png": "characters/Yuzu.png",
    "cards/old-gneiss.png": "characters/Old Gneiss.png",
    "lorebooks/kazahaya-valley.json": "worlds/Kazahaya valley.json",
}


def main() -> None:
    """Write the folder anew."""
    shutil.rmtree(FOLDER.parent, ignore_errors=True)
    for source, target in COPIES.items():
        _place(target).write_bytes((HERE / source).read_bytes())
    for target, lines in CHATS.items():
        text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in lines)
        _place(target).write_bytes(text.encode())
    for target, value in VALUES.items():
        text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
        _place(target).write_bytes(text.encode())


def _place(rel_path: str) -> Path:
    path = FOLDER / rel_path
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


if __name__ == "__main__":
    main()
