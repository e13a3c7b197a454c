"""`familiar help`: all commands, one of them, or a search by a word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import familiar_cli
from familiar_cli.base.markdown import title_of
from familiar_cli.base.text import bare_lines, fold, nearest
from familiar_cli.cli.commands._base import App, output
from familiar_cli.cli.commands._contents import CALLED, SECTIONS, first_screen
from familiar_cli.pages.page import Columns, IndentedPart, Name, PagePart, plain
from familiar_cli.store.fts import content_words

app = App()

_MOST_COMMANDS: Final = 12
_MOST_PAGES: Final = 6
_PACKAGE: Final = Path(familiar_cli.__file__).parent
_DOCS: Final = (_PACKAGE / "docs", _PACKAGE.parent / "docs")
# Where the documentation is: in an installed package, else in a checkout.
_FOLDER: Final = next((folder for folder in _DOCS if folder.is_dir()), _DOCS[0])

# The help of all commands, lists of pages, and the reasons for how the program is built.
_NOT_SEARCHED: Final = {"commands.md", "README.md", "decisions"}

# Weight of a word in a name or title, in a summary or heading, and at most elsewhere.
_WEIGHTS: Final = (6, 3, 2)
_LEAST_SHARE: Final = 0.4  # of the best score

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
    """Find the commands that match `words` best; names count most."""
    called = CALLED.get(fold("-".join(words)))
    rows, places = [], []
    for name, line in _list_commands(root):
        if name == "help":  # its own examples do not count
            continue
        command = _walk_to(root, name.split())
        params = " ".join(f"{' '.join(p.opts)} {getattr(p, 'help', '')}" for p in command.params)
        others = " ".join(word for word, meant in CALLED.items() if meant == name)
        rows.append((name, line))
        places.append((f"{name} {others}", line, f"{command.help} {params}"))
    ranked = _rank(places, words)
    ranked.sort(key=lambda n: rows[n][0] != called)
    return [rows[n] for n in ranked[:_MOST_COMMANDS]]


def _rank(places: Sequence[tuple[str, str, str]], words: Sequence[str]) -> list[int]:
    """Return the numbers of the texts that match `words` best, the best one first.

    Args:
        places: The name, the summary and the whole of each text. A word counts by where it stands,
            how often for the length of the text, and how few texts have it.
    """
    folded = [tuple(map(fold, place)) for place in places]
    usual_chars = max(1, sum(len(text) for _, _, text in folded) / max(1, len(folded)))
    scores = [0.0] * len(folded)
    for target in map(fold, words):
        meant = CALLED.get(target, "")
        forms = {target} if " " in meant else {target, meant or target}
        found = [
            max(
                weight
                for form in forms
                for weight in (
                    _WEIGHTS[0] * _has_word(name, form),
                    _WEIGHTS[1] * _has_word(summary, form),
                    _WEIGHTS[2] * _share_of(form, text, len(text) / usual_chars),
                )
            )
            for name, summary, text in folded
        ]
        rarity = log(1 + len(found) / max(1, sum(map(bool, found))))
        scores = [score + rarity * n for score, n in zip(scores, found, strict=True)]
    least = max([*scores, 0.1]) * _LEAST_SHARE
    return sorted((n for n, s in enumerate(scores) if s >= least), key=lambda n: -scores[n])


def _share_of(word: str, text: str, length: float) -> float:
    """Return how much a text is about a word, below 1: by BM25, from how often it has the word."""
    count = text.count(word) or _has_word(text, word)
    return count / (count + 0.3 + 0.9 * length)


def _has_word(text: str, word: str) -> bool:
    """Tell whether a word of `text` starts with `word`, or with it without its ending."""
    stem = word[: max(5, len(word) - 3)] if len(word) > 6 else word.removesuffix("s") or word  # noqa: PLR2004
    return text.startswith(stem) or any(f"{before}{stem}" in text for before in " -`'\"(/[\n")


def _find_pages(words: Sequence[str]) -> list[_Row]:
    """Find the pages of the documentation that match `words` best."""
    paths = _list_pages()
    texts = [path.read_text("utf-8", errors="replace") for path in paths]
    titles = [title_of(text) for text in texts]
    headings = ["\n".join(one for one in bare_lines(text) if one[:1] == "#") for text in texts]
    ranked = _rank(list(zip(titles, headings, texts, strict=True)), words)
    return [(str(paths[n]), titles[n]) for n in ranked[:_MOST_PAGES]]


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
    found = sorted(_FOLDER.rglob("*.md"))
    return [path for path in found if _NOT_SEARCHED.isdisjoint((path.name, path.parent.name))]


def _found_page(text: str, commands: list[_Row], pages: list[_Row]) -> list[PagePart] | None:
    parts: list[PagePart] = [plain(text)] if text else []
    shown = [(str(Path(path).relative_to(_FOLDER)), title) for path, title in pages]
    for heading, rows in (("Commands", commands), (f"Documentation, in {_FOLDER}", shown)):
        if rows:
            title = f"\n{heading}:" if parts else f"{heading}:"
            parts += [
                plain(title, "bold"),
                IndentedPart(Columns([[Name(a), b] for a, b in rows]), 2),
            ]
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
        parts += [plain(f"{section}:", "bold"), IndentedPart(Columns(rows), 2), plain("")]
    return [*parts, plain(f"Each explains itself: `{root.command_path} COMMAND --help`.")]
