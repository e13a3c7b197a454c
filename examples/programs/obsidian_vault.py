"""A familiar's memory as an Obsidian vault, and a command that captures a note into it.

    python obsidian_vault.py ada                                 # set the vault up, say where it is
    python obsidian_vault.py ada "Bo brings [[Teodor]] to tea."  # capture a note

In Obsidian choose "Open folder as vault". Afterwards `familiar search`, every prompt and Obsidian
see the same notes. Bind the second command to a key to capture from anywhere.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from familiar_cli import Familiar, FamiliarError

INBOX = "topics/inbox.md"
OBSIDIAN = {
    # New notes become topics, and links keep leading to a note that moves.
    "app.json": {
        "newFileLocation": "folder",
        "newFileFolderPath": "topics",
        "attachmentFolderPath": "attachments",
        "alwaysUpdateLinks": True,
    },
    # Obsidian's daily note is the familiar's day.
    "daily-notes.json": {"folder": "daily", "format": "YYYY-MM-DD"},
}


def set_up_vault(root: Path) -> None:
    """Write Obsidian's settings for a memory, unless the vault has some."""
    directory = root / ".obsidian"
    directory.mkdir(parents=True, exist_ok=True)
    for name, settings in OBSIDIAN.items():
        path = directory / name
        if not path.exists():
            path.write_text(json.dumps(settings, indent=2), encoding="utf-8")


def capture(familiar: Familiar, text: str) -> str:
    """Append a note with its time to the inbox, and return its path."""
    memory, note = familiar.memory, " ".join(text.split())
    line = f"- {datetime.now().astimezone():%Y-%m-%d %H:%M} {note}\n"
    with memory.transaction("human", f"capture into {INBOX}") as change:
        if not memory.exists(INBOX):
            change.write(INBOX, "# Inbox\n\n")
        change.append(INBOX, line, on_new_line=True)
    return INBOX


def main(name: str, *words: str) -> None:
    """Capture `words`, or set the vault up if there are none."""
    with Familiar.load_from_disk(familiar=name) as familiar:
        root = familiar.memory.root
        if words:
            path = capture(familiar, " ".join(words))
            print(f"captured into {path}")
        else:
            set_up_vault(Path(root))
            path = ""
            print(f"The vault is {root}")
    print(f"obsidian://open?path={quote(str(Path(root, path)), safe='')}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except FamiliarError as error:
        sys.exit(f"error: {error}")
