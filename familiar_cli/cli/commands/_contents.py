"""The table of contents: every command, its section, and its aliases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from familiar_cli.base.text import nearest

Section = dict[str, tuple[str, str]]

# Section -> command -> (module, one line). `talk:ask` is `ask_app` in the module `talk`; a module
# without a colon has one `app`. A module is imported only when its command runs.
SECTIONS: Final[dict[str, Section]] = {
    "Start": {
        "start": ("start", "Set up a familiar step by step, and talk to it."),
        "init": ("init:init", "Make a familiar from a card, a persona or a template."),
        "me": ("people:me", "Say who you are, or show it."),
        "demo": ("init:demo", "Try everything in a temporary home, from card to reply."),
        "list": ("status:list", "List the familiars."),
        "use": ("status:use", "Set the familiar that commands use by default."),
        "card": ("imports:card", "Show, check and export character cards."),
        "help": ("help", "Search the commands and the documentation."),
    },
    "Talk": {
        "chat": ("talk:chat", "Chat with the familiar."),
        "ask": ("talk:ask", "Send one message and print the reply."),
        "why": ("context:why", "Explain a reply in a sentence."),
        "context": ("context", "Show everything that was sent to the model, and why."),
        "again": ("talk:again", "Ask for another reply, or for the first one after a failure."),
        "continue": ("talk:continue", "Continue the last reply."),
        "hear": ("talk:hear", "Save a message without asking for a reply."),
        "history": ("history", "Read, search, count and export past turns."),
        "channel": ("config:channel", "List channels and change their settings."),
    },
    "Memory": {
        "memory": ("memory", "Read, change and undo what is remembered."),
        "search": ("search", "Search memory and the past by words and by meaning."),
        "review": ("review", "Apply or reject proposed changes to memory."),
        "write-memory": ("upkeep:write_memory", "Write what matters from recent turns to memory."),
        "people": ("people", "Show the people the familiar knows, and their names."),
        "todo": ("desk:todo", "Keep reminders, tasks and notes."),
        "job": ("desk:job", "Schedule what the familiar does on its own."),
        "remember": ("upkeep:remember", "Save a significant moment in a file of its own."),
        "graph": ("people:graph", "Show who and what somebody is related to."),
        "housekeep": ("upkeep:housekeep", "Find things in memory that may need tidying up."),
        "consolidate": (
            "upkeep:consolidate",
            "Summarise sessions into days, weeks, months and years.",
        ),
        "distill": ("upkeep:distill", "Make the digests that every prompt includes."),
        "index": ("upkeep:index", "Build, inspect and delete the search index."),
    },
    "Import and export": {
        "import": ("bring:import", "Import a card, a lorebook, chats, notes or a whole folder."),
        "import-lorebook": ("imports:import_lorebook", "Convert a lorebook to Markdown files."),
        "import-chat": ("imports:chat", "Import chats from other programs into the history."),
        "import-sillytavern": ("imports:sillytavern", "Import SillyTavern's whole data folder."),
        "import-memories": (
            "imports:memories",
            "Import daily, weekly, monthly and yearly memories.",
        ),
        "export": ("bring:export", "Export everything for other programs."),
        "export-lorebook": ("imports:export_lorebook", "Convert lore files back to a lorebook."),
        "backup": ("backup:backup", "Back up familiars; list and verify backups."),
        "restore": ("backup:restore", "Restore familiars from a backup."),
    },
    "Programs and machines": {
        "web": ("serve:web", "Show turns, prompts and memory in a browser."),
        "serve": ("serve:serve", "Serve familiars to chat programs (OpenAI-compatible API)."),
        "mcp": ("serve:mcp", "Give an agent access to the memory over MCP."),
        "sync": ("sync", "Share one memory between several machines."),
        "daemon": ("serve:daemon", "Run in the background, writing memory and due summaries."),
    },
    "Settings": {
        "config": ("config:config", "Show and change settings."),
        "status": ("status:status", "Show a familiar's state, and what waits for you."),
        "doctor": ("status:doctor", "Check every part of the setup, and say how to fix it."),
        "model": ("config:model", "Download, list, test and remove model files."),
    },
}
"""What `familiar help --all` lists, in the order in which a person meets it."""

# The commands of the first screen.
_FIRST: Final = "start init me chat ask why context memory search review import config"

HIDDEN: Final[Section] = {
    "remind": ("desk:remind", "Manage reminders; `familiar todo` does the same."),
    "task": ("desk:task", "Manage a task list; `familiar todo` does the same."),
    "scratch": ("desk:scratch", "Manage the notes of `familiar todo`."),
}
"""Names that go on working and are listed nowhere."""

COMMANDS: Final[Section] = {
    **{name: entry for section in SECTIONS.values() for name, entry in section.items()},
    **HIDDEN,
}

ALIASES: Final = {"list": "ls", "ls": "list", "delete": "rm", "remove": "rm"}
"""Another name of a command in any group that has only the second one."""

_CALLED: Final = {
    "again": "regenerate reroll retry redo swipe resend regen",
    "ask": "say message send prompt query run generate complete",
    "card": "character characters card-export",
    "card export": "export-card export-character",
    "channel": "channels group groups room rooms conversation conversations",
    "channel branch": "branch fork checkpoint",
    "chat": "talk repl interactive tui shell",
    "config": "settings setting preferences options configure env",
    "config get": "get",
    "config set": "set",
    "consolidate": "summarize summarise summary summaries rollup",
    "context": "trace inspect prompt-log itemization debug tokens",
    "continue": "resume go-on",
    "daemon": "background service watch",
    "doctor": "check diagnose diagnostics troubleshoot health verify selftest",
    "graph": "relations relationships network",
    "history": "chat-history chats-history log logs turns transcript transcripts messages",
    "history export": "export-chat export-chats chat-export save-chat",
    "history edit": "edit edit-message",
    "history withdraw": "delete-message remove-message unsend",
    "housekeep": "tidy clean cleanup dedupe duplicates maintenance",
    "export": "export-all dump takeout",
    "import": "load bring import-file import-folder obsidian vault",
    "import-chat": "chat-import import-chats import-history",
    "import-lorebook": "lorebook lorebooks lore world worlds world-info worldinfo wi "
    "lorebook-import import-world",
    "import-sillytavern": "sillytavern tavern silly-tavern st",
    "index": "reindex embed embeddings vector vectors vectorize databank data-bank rag",
    "init": "new create make add persona-create import-card import-character",
    "job": "jobs cron crons schedule-job timer timers",
    "list": "bots companions familiars characters-list personas",
    "mcp": "agent agents claude cursor tools",
    "me": "whoami user persona profile name account",
    "memory": "memories file files mem",
    "memory undo": "undo revert rollback",
    "memory log": "changes changelog journal commits",
    "memory cat": "cat read",
    "memory write": "write remember-this memory-edit edit-memory",
    "memory pin": "pin author-note authors-note",
    "memory rm": "rm delete remove",
    "model": "models download pull ollama llm provider providers",
    "people": "person contacts users friends",
    "people forget": "forget forget-me erase",
    "review": "approve approvals pending plans diff apply",
    "search": "find grep query-memory lookup semantic",
    "serve": "server api openai proxy backend host",
    "start": "setup wizard quickstart onboard onboarding begin hello install",
    "status": "info state stats overview",
    "sync": "push pull-memory clone remote share devices computer machine laptop",
    "todo": "todos reminders reminder tasks note notes alarm schedule agenda",
    "todo note": "note notes scratchpad",
    "use": "switch select choose checkout default",
    "web": "ui gui browser page dashboard webui open",
    "why": "explain reason because sources citations",
    "write-memory": "extract learn memorize memorise save-memory",
    "help": "man usage commands",
}
CALLED: Final = {word: name for name, words in _CALLED.items() for word in words.split()}
"""What other programs call a command."""

_LONGEST: Final = 3  # words in a name


def meant_command(words: Sequence[str], *, least: int = 1) -> str | None:
    """Suggest the command meant by words such as `chat history` or `memry`.

    Args:
        words: The words typed, without options.
        least: Minimum number of words that must match; the others, at the end, are ignored.
    """
    lowered = [word.lower() for word in words[:_LONGEST]]
    for count in range(len(lowered), least - 1, -1):
        name = "-".join(lowered[:count])
        for one in (name, name.removesuffix("s"), "-".join(reversed(lowered[:count]))):
            if one in COMMANDS:
                return one
            if one in CALLED:
                return CALLED[one]
    if least > 1 or not lowered:
        return None
    guess = nearest(lowered[0], [*SHOWN, *CALLED])
    return CALLED.get(guess, guess) if guess else None


SHOWN: Final = [name for section in SECTIONS.values() for name in section]


def first_screen() -> dict[str, list[tuple[str, str]]]:
    """Return the sections of `familiar --help`, with their commands and what each does."""
    first = _FIRST.split()
    rows = {
        section: [(name, line) for name, (_, line) in commands.items() if name in first]
        for section, commands in SECTIONS.items()
    }
    return {section: commands for section, commands in rows.items() if commands}
