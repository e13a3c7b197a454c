"""SillyTavern data folders for tests, put together file by file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.cards import png_card
from tests.support.chats import save
from tests.support.lorebooks import lore, world


def card(name, **changes):
    """Return a V2 card as SillyTavern writes it: the fields at the top level, and in `data`."""
    data = {
        "name": name,
        "description": f"{name} keeps a lighthouse.",
        "personality": "",
        "scenario": "",
        "first_mes": f"{name} looks up.",
        "mes_example": "",
        "creator_notes": "",
        "system_prompt": "",
        "post_history_instructions": "",
        "alternate_greetings": [],
        "tags": [],
        "creator": "",
        "character_version": "",
        "extensions": {"talkativeness": "0.5", "fav": False, "world": ""},
    } | changes
    top = {key: data[key] for key in ("name", "description", "first_mes")}
    more = {"chat": f"{name} - 2025-03-01@10h00m00s", "create_date": "2025-3-1 @10h 00m 00s"}
    return {"spec": "chara_card_v2", "spec_version": "2.0", "data": data} | top | more


def head(character, user="Robin", **metadata):
    """Return the first line of a chat."""
    return {
        "user_name": user,
        "character_name": character,
        "create_date": "2025-03-01@10h00m00s",
        "chat_metadata": metadata,
    }


def said(name, mes, minute, *, user=False, **more):
    """Return a message, so many minutes after ten o'clock."""
    date = f"2025-03-{1 + minute // 600:02}T{10 + minute % 600 // 60:02}:{minute % 60:02}:00.000Z"
    return {"name": name, "is_user": user, "is_system": False, "send_date": date, "mes": mes} | more


def talk(character, count, first=0, user="Robin", what="line"):
    """Return messages in turns, one a minute, the character's first."""
    return [
        said(user, f"{what} {n}", n, user=True) if n % 2 else said(character, f"{what} {n}", n)
        for n in range(first, first + count)
    ]


class DataFolder:
    """A data folder that grows as a test wants it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def put(self, rel_path, content) -> Path:
        """Write a file: bytes, a text, or a value as JSON."""
        path = self.root / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, bytes | str):
            content = json.dumps(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def character(self, name, stem=None, **changes) -> Path:
        return self.put(f"characters/{stem or name}.png", png_card(card(name, **changes)))

    def chat(self, character, stem, *lines, directory=None, **metadata) -> Path:
        path = self.root / "chats" / (directory or character) / f"{stem}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        return save(path, head(character, **metadata), *lines)

    def world(self, stem, *titles, **frame) -> Path:
        entries = [lore(title, f"{title} is old.", (title.lower(),)) for title in titles]
        return self.put(f"worlds/{stem}.json", world(*entries, **frame))

    def group(self, name, members, chats, stem="1700000000000") -> Path:
        value = {"id": stem, "name": name, "members": members, "chat_id": chats[-1], "chats": chats}
        return self.put(f"groups/{stem}.json", value)

    def group_chat(self, stem, *lines) -> Path:
        path = self.root / "group chats" / f"{stem}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        return save(path, head("unused"), *lines)

    def settings(self, **info) -> Path:
        return self.put("settings.json", {"world_info_settings": {"world_info": info}})


def lived_in(root) -> DataFolder:
    """Return a folder with something of everything, broken files included."""
    made = DataFolder(root)
    made.character("Mira", extensions={"world": "Harbour"})
    made.character("Old Tom", stem="tom")
    made.put("characters/broken.png", b"\x89PNG\r\n\x1a\nnot a picture")
    made.put("characters/Mira/joy.png", b"a sprite")
    made.world("Harbour", "Lighthouse", "Quay")
    made.world("Unused", "Moon")
    made.world("Everywhere", "Weather")
    made.put("worlds/broken.json", "{")
    made.settings(globalSelect=["Everywhere"], charLore=[])
    made.chat("Mira", "Mira - 2025-03-01@10h00m00s", *talk("Mira", 6))
    made.chat("Mira", "damaged", said("Mira", "hello", 500), "{not json", said("Mira", "bye", 501))
    made.chat("Old Tom", "Tom at sea", *talk("Old Tom", 4, 20), directory="tom")
    made.chat("Nobody", "lost", *talk("Nobody", 2), directory="Nobody")
    made.group("The pier", ["Mira.png", "tom.png", "gone.png"], ["2025-03-02@09h00m00s"])
    made.group_chat(
        "2025-03-02@09h00m00s",
        said("Mira", "Tom! The boat.", 100),
        said("Old Tom", "I see it.", 101),
        said("Robin", "What boat?", 102, user=True),
    )
    made.group_chat("orphan", *talk("Mira", 2))
    made.put("backups/chat_mira_1.jsonl", "{}")
    made.put("themes/dark.json", "{}")
    return made
