"""`familiar help`: all commands, one of them, or a search by a word."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import familiar_cli
from familiar_cli.base.markdown import title_of
from familiar_cli.base.text import bare_lines, fold, nearest
from familiar_cli.cli.commands._base import App, output
from familiar_cli.cli.commands._contents import CALLED, SECTIONS, first_screen
from familiar_cli.pages.page import Columns, Indented, Name, PagePart, plain
from familiar_cli.store.fts import content_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


app = App()

_MOST_COMMANDS: Final = 12
_MOST_PAGES: Final = 6
_PACKAGE: Final = Path(familiar_cli.__file__).parent
_DOCS: Final = (_PACKAGE / "docs", _PACKAGE.parent / "docs")
_FOLDER: Final = next((folder for folder in _DOCS if folder.is_dir()), _DOCS[0])
"""Where the documentation is: in an installed package, else in a checkout."""

_NOT_SEARCHED: Final = {"commands.md", "README.md"}  # the help of all commands; a list of pages

_Row = tuple[str, str]


@app.command("help")
def show_help(
    ctx: typer.Context,
    words: Annotated[list[str] | None, typer.Argument()] = None,
    *,
    every: Annotated[bool, typer.Option("--all")] = False,
) -> None:
    """Show a command's help, or search the commands and the documentation.

    \b
    familiar help --all
    familiar help memory undo
    familiar help reminder

    Args:
        words ([WORD]...): A command, or words to search for.
        every: List every command.
    """
    out, root = output(ctx), ctx.find_root()
    words = [word for text in words or () for word in text.split()]
    if not words:
        first = [row for rows in first_screen().values() for row in rows]
        rows = list(_list_commands(root)) if every else first
        out.answer({"commands": _row_data(rows)}, _whole_tree(root) if every else root.get_help())
        return
    text = _help_of(root, words)
    words = words if text else content_words(" ".join(words))
    commands, pages = _find_commands(root, words), _find_pages(words)
    meant = [] if text or commands or pages else _words_meant(root, words)
    if meant:
        commands, pages = _find_commands(root, meant), _find_pages(meant)
    data: dict[str, object] = {
        "commands": _row_data(commands),
        "pages": [{"path": path, "title": title} for path, title in pages],
        "text": text,
    }
    if meant or not (text or commands or pages):
        guess = f" Did you mean {' '.join(meant)!r}?" if meant else ""
        out.note(f"No command or page mentions {' '.join(words)!r}.{guess}")
    out.answer(data, _found_page(text, commands, pages))
    if not (text or commands or pages):
        out.note(f"List all commands: `{root.command_path} help --all`.")


def _row_data(rows: Sequence[_Row]) -> list[dict[str, str]]:
    return [{"command": name, "help": line} for name, line in rows]


def _list_commands(root: Any, path: Sequence[str] = ()) -> Iterator[_Row]:  # noqa: ANN401
    """Yield each command with its summary, those of groups below their group."""
    group = _walk_to(root, path)
    names = [n for s in SECTIONS.values() for n in s] if not path else list(group.commands)
    for name in names:
        command = _walk_to(root, [*path, name])
        yield " ".join([*path, name]), command.get_short_help_str()
        if hasattr(command, "commands"):
            yield from _list_commands(root, [*path, name])


def _walk_to(root: Any, path: Sequence[str]) -> Any:  # noqa: ANN401  # Click's context and command
    """Find the command at a path, if any."""
    command = root.command
    for name in path:
        find = getattr(command, "get_command", None)
        command = find(root, name) if find else None
    return command


def _help_of(root: Any, words: Sequence[str]) -> str:  # noqa: ANN401
    """Return the help of the command named exactly by `words`; empty if none."""
    command = _walk_to(root, words)
    if command is None:
        return ""
    path = " ".join([root.command_path, *words])
    page: str = command.get_help(command.make_context(path, [], resilient_parsing=True))
    return page


def _find_commands(root: Any, words: Sequence[str]) -> list[_Row]:  # noqa: ANN401
    """Find the commands that mention all of `words`, matching names first."""
    targets = [fold(word) for word in words]
    meant = {CALLED.get(fold("-".join(words))), *(CALLED.get(word) for word in targets)}
    items = []
    for name, line in _list_commands(root):
        if name == "help":  # its own examples do not count
            continue
        command = _walk_to(root, name.split())
        params = " ".join(f"{' '.join(p.opts)} {getattr(p, 'help', '')}" for p in command.params)
        places = (fold(name), fold(line), fold(f"{name} {command.help} {params}"))
        ranks = [n for n, text in enumerate(places) if all(_has_word(text, w) for w in targets)]
        if name in meant or ranks:
            items.append((-1 if name in meant else ranks[0], name, line))
    items.sort(key=lambda one: one[0])
    return [(name, line) for _, name, line in items[:_MOST_COMMANDS]]


def _has_word(text: str, word: str) -> bool:
    """Tell whether a word of `text` starts with `word`, or with its singular."""
    stem = word[:-1] if word.endswith("s") and len(word) > 3 else word  # noqa: PLR2004
    return text.startswith(stem) or any(f"{before}{stem}" in text for before in " -`'\"(/[\n")


def _find_pages(words: Sequence[str]) -> list[_Row]:
    """Find the pages of the documentation that mention all of `words`, matching titles first."""
    targets = [fold(word) for word in words]
    items = []
    for path in _list_pages():
        text = path.read_text("utf-8", errors="replace")
        title = title_of(text)
        headings = "\n".join(line for line in bare_lines(text) if line.startswith("#"))
        places = (fold(title), fold(headings), fold(text))
        ranks = [n for n, place in enumerate(places) if all(_has_word(place, w) for w in targets)]
        if ranks:
            # A word in the title or a heading says more than many in the text.
            weights = (9, 3, 1)
            mentions = sum(
                weight * min(place.count(word), 3)
                for weight, place in zip(weights, places, strict=True)
                for word in targets
            )
            items.append((ranks[0], -mentions, str(path), title))
    return [(path, title) for _, _, path, title in sorted(items)[:_MOST_PAGES]]


def _words_meant(root: Any, words: Sequence[str]) -> list[str]:  # noqa: ANN401
    """Correct unknown words by those of commands, titles and settings."""
    from familiar_cli.base.config.settings import all_settings

    titles = (title_of(path.read_text("utf-8", errors="replace")) for path in _list_pages())
    texts = [*(name for name, _ in _list_commands(root)), *CALLED, *titles, *all_settings()]
    known = {word for text in texts for word in fold(text).replace("-", " ").split()}
    known |= {fold(text) for text in (*CALLED, *all_settings())}
    meant = [word if fold(word) in known else nearest(fold(word), known) for word in words]
    items = [word for word in meant if word]
    is_whole = len(items) == len(words) and items != list(words)
    return items if is_whole and (_find_commands(root, items) or _find_pages(items)) else []


def _list_pages() -> list[Path]:
    return [path for path in sorted(_FOLDER.rglob("*.md")) if path.name not in _NOT_SEARCHED]


def _found_page(text: str, commands: list[_Row], pages: list[_Row]) -> list[PagePart] | None:
    parts: list[PagePart] = [plain(text)] if text else []
    shown = [(str(Path(path).relative_to(_FOLDER)), title) for path, title in pages]
    for heading, rows in (("Commands", commands), (f"Documentation, in {_FOLDER}", shown)):
        if rows:
            title = f"\n{heading}:" if parts else f"{heading}:"
            parts += [plain(title, "bold"), Indented(Columns([[Name(a), b] for a, b in rows]), 2)]
    return parts or None


def _whole_tree(root: Any) -> list[PagePart]:  # noqa: ANN401
    """List all commands by section; a group is followed by the names of its commands."""
    parts: list[PagePart] = []
    for section, commands in SECTIONS.items():
        rows: list[list[object]] = []
        for name, (_, line) in commands.items():
            rows.append([Name(name), line])
            below = getattr(_walk_to(root, [name]), "commands", {})
            if below:
                rows.append(["", plain(" · ".join(below), "dim")])
        parts += [plain(f"{section}:", "bold"), Indented(Columns(rows), 2), plain("")]
    return [*parts, plain(f"Each explains itself: `{root.command_path} COMMAND --help`.")]
