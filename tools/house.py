"""Count the package: lines, files and imports by room, and what makes it hard to read.

Run `python -m tools.house` in the repository; `python -m tools.house --base REV` compares with a
revision. It always exits 0: a person judges the numbers.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = "familiar_cli"

SMALL_LINES, LARGE_LINES = 40, 500
"""A module with fewer or more code lines is worth a question."""

Sources = dict[PurePosixPath, str]


@dataclass(slots=True)
class House:
    """Figures of one version of the package."""

    lines: Counter[str] = field(default_factory=Counter)
    files: Counter[str] = field(default_factory=Counter)
    imports: int = 0
    small: list[str] = field(default_factory=list)
    large: list[str] = field(default_factory=list)
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    functions: int = 0
    one_word_functions: int = 0
    circles: list[list[str]] = field(default_factory=list)


def read_working_tree(root: Path) -> Sources:
    """Read every module of the package below `root`."""
    return {
        PurePosixPath(path.relative_to(root).as_posix()): path.read_text(encoding="utf-8")
        for path in sorted((root / PACKAGE).rglob("*.py"))
    }


def read_revision(root: Path, revision: str) -> Sources:
    """Read every module of the package as git has it at `revision`."""
    command = ["git", "-C", str(root), "archive", "--format=tar", revision, PACKAGE]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    sources = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            content = members.extractfile(member) if member.name.endswith(".py") else None
            if content is not None:
                sources[PurePosixPath(member.name)] = content.read().decode()
    return sources


def measure(sources: Sources) -> House:
    """Count `sources`, which map a module's path to its text."""
    house = House()
    modules = {module_name(path): path for path in sources}
    graph: dict[str, set[str]] = {}
    for path, text in sources.items():
        tree = ast.parse(text)
        nodes = [*ast.walk(tree)]
        room = path.parts[1] if len(path.parts) > 2 else "(top)"
        lines = count_code_lines(text, nodes)
        house.lines[room] += lines
        house.files[room] += 1
        if path.name != "__init__.py":
            name = "/".join(path.parts[1:])
            if lines < SMALL_LINES:
                house.small.append(name)
            elif lines > LARGE_LINES:
                house.large.append(name)
            graph[module_name(path)] = imported_modules(path, nodes, modules)
        count_definitions(house, path, nodes)
    without_packages = {name: wanted & graph.keys() for name, wanted in graph.items()}
    house.circles = find_circles(without_packages)
    return house


def module_name(path: PurePosixPath) -> str:
    """Return the dotted name of the module at `path`."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def count_code_lines(text: str, nodes: Sequence[ast.AST]) -> int:
    """Count the lines of `text` without blank lines, comments and docstrings."""
    prose: set[int] = set()
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in prose
        for number, line in enumerate(text.split("\n"), 1)
    )


def count_definitions(house: House, path: PurePosixPath, nodes: Sequence[ast.AST]) -> None:
    """Add the imports, classes and functions of one module to `house`."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            house.imports += (node.end_lineno or node.lineno) - node.lineno + 1
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[:2] != "__":
            house.functions += 1
            house.one_word_functions += "_" not in node.name.strip("_")
    for node in nodes:
        if isinstance(node, ast.ClassDef) and not (node.col_offset or node.name.startswith("_")):
            house.classes[node.name].append(str(path))


def imported_modules(
    path: PurePosixPath, nodes: Sequence[ast.AST], modules: dict[str, PurePosixPath]
) -> set[str]:
    """Return the package's modules that one module imports anywhere, also for types only."""
    wanted: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            wanted.add(node.module)
            wanted.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            wanted.update(alias.name for alias in node.names)
    return (wanted & modules.keys()) - {module_name(path)}


def find_circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, largest first."""
    reachable: dict[str, set[str]] = {}
    for start, wanted in graph.items():
        met: set[str] = set()
        waiting = list(wanted)
        while waiting:
            module = waiting.pop()
            if module not in met:
                met.add(module)
                waiting.extend(graph[module])
        reachable[start] = met
    groups = {
        tuple(sorted(other for other in reachable[module] if module in reachable[other]))
        for module in graph
        if module in reachable[module]
    }
    return sorted((list(group) for group in groups), key=len, reverse=True)


def draw_table(house: House, base: House | None) -> str:
    """Return the rooms as a table, largest first, each beside what it was in `base`."""
    rows = []
    for room, lines in house.lines.most_common():
        row = f"{lines:7,} {house.files[room]:4}  {room}"
        if base is not None:
            row += f"  ({lines - base.lines[room]:+,} lines, "
            row += f"{house.files[room] - base.files[room]:+} files)"
        rows.append(row)
    return "\n".join(["  lines files  room", *rows])


def summarise(house: House) -> str:
    """Return the figures of the whole package, one on a line."""
    twice = {name: paths for name, paths in house.classes.items() if len(paths) > 1}
    share = house.one_word_functions / max(house.functions, 1)
    lines, files = sum(house.lines.values()), sum(house.files.values())
    return "\n".join(
        [
            f"{lines:,} code lines in {files} files, {house.imports:,} of them imports",
            f"{len(house.small)} modules under {SMALL_LINES} lines",
            f"{len(house.large)} modules above {LARGE_LINES}: {', '.join(house.large) or 'none'}",
            f"{len(house.circles)} circles of modules: {house.circles or 'none'}",
            f"{len(twice)} class names twice: {', '.join(sorted(twice)) or 'none'}",
            f"{share:.0%} of {house.functions:,} functions have a name of one word",
        ]
    )


def main() -> None:
    """Print the table and the summary."""
    parser = argparse.ArgumentParser(description="Count the package by room.")
    parser.add_argument("--base", metavar="REV", help="a git revision to compare with")
    options = parser.parse_args()
    root = Path(__file__).parent.parent
    house = measure(read_working_tree(root))
    base = None if options.base is None else measure(read_revision(root, options.base))
    print(draw_table(house, base))
    print(summarise(house))


if __name__ == "__main__":
    main()
