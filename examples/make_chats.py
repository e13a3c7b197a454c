"""Make the example chats. Run it after a change: `python examples/make_chats.py`."""

# ruff: noqa: E501  # prose
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "chats"

HEAD: dict[str, Any] = {
    "user_name": "Robin",
    "character_name": "Yuzu",
    "create_date": "2025-11-14@22h41m07s",
    "chat_metadata": {"note_prompt": "[It has been snowing since noon.]", "note_depth": 4},
}


def yuzu(date: object, text: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a message of hers."""
    return {
        "name": "Yuzu",
        "is_user": False,
        "is_system": False,
        "send_date": date,
        "mes": text,
    } | more


def robin(date: object, text: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a message of his."""
    return {
        "name": "Robin",
        "is_user": True,
        "is_system": False,
        "send_date": date,
        "mes": text,
    } | more


TAG = [
    "*She turns the tag over.* A red scarf. Wool, you think. Which carriage did you sit in?",
    "*She is already writing.* Scarf, red, sentimental. How do you know it is lost and not merely early?",
    "A scarf! *The heron looks up, and down again.* We had eleven this week. What does yours smell of?",
]
CHAT: list[dict[str, Any]] = [
    HEAD,
    yuzu(
        "November 14, 2025 10:41pm",
        "Good evening, and welcome to Kazahaya. What have we lost, when did we last see it, and was it making a sound at the time?",
    ),
    robin(
        "November 14, 2025 10:43pm",
        "A red scarf. My grandmother knitted it. No sound, unless you count the itching.",
    ),
    yuzu(
        "November 14, 2025 10:44pm",
        TAG[2],
        swipes=TAG,
        swipe_id=2,
        extra={"api": "llamacpp", "model": "an-example", "reasoning": "Ask one concrete question."},
    ),
    robin(
        "November 14, 2025 10:46pm", "Oranges. She kept it in the drawer with the marmalade jars."
    ),
    {
        "name": "System",
        "is_user": False,
        "is_system": True,
        "send_date": "November 14, 2025 10:46pm",
        "mes": "The chat was saved as a checkpoint.",
        "extra": {"type": "comment"},
    },
    yuzu(
        1763160480000,
        "*She counts along a rail and stops.* Number seven. It has been humming, very quietly, in E flat. Would that be yours?",
    ),
    robin("2025-11-14T22:49:30.000Z", "She always hummed in E flat! I never told anybody that."),
    yuzu(
        "2025-11-14 @22h 50m 12s 250ms",
        "Then the scarf did. Sign here, please. And Robin: come back on the 23:10 some time, and tell me about the marmalade.",
    ),
    robin("", "I will. On Thursdays I teach cello in Ashford, so Friday it is."),
    yuzu(
        "November 14, 2025 10:55pm",
        "Friday. *She writes it on a tag, and ties it to the calendar.* 気をつけて。雪が深いです。",
    ),
]

LINES: list[dict[str, Any]] = [
    {"familiar_chat": 1, "id": "kazahaya-postcards", "name": "Postcards from Kazahaya"},
    {
        "role": "user",
        "author": {"platform": "discord", "user_id": "4711", "display_name": "Robin"},
        "content": "Did the heron get my card?",
        "at": "2025-12-01T09:15:00+00:00",
    },
    {
        "role": "assistant",
        "content": "Inspector has read it twice and eaten the stamp. He would like to know whether the cello is lost, too.",
        "at": "2025-12-01T09:16:30+00:00",
    },
    {
        "role": "user",
        "author": {"platform": "discord", "user_id": "4711", "display_name": "Robin"},
        "content": "Only out of tune. It is the damp.",
        "at": "2025-12-01T20:02:00+00:00",
        "modality": "voice",
    },
    {
        "role": "assistant",
        "content": "Damp is shelf four. Bring it on Friday, with the",
        "at": "2025-12-01T20:02:40+00:00",
        "partial": True,
    },
]


def main() -> None:
    """Write both chats."""
    HERE.mkdir(exist_ok=True)
    for name, lines in (("robin-and-yuzu", CHAT), ("postcards", LINES)):
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (HERE / f"{name}.jsonl").write_bytes(text.encode())


if __name__ == "__main__":
    main()
