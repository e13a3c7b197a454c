"""The page of the scoreboard, from the newest result that is checked in.

`python -m benchmarks.scoreboard_page` draws `docs/images/scoreboard.svg`; the tables are written
into `docs/reference/scoreboard.md` by `cog`.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
CHART = Path(__file__).parents[1] / "docs" / "images" / "scoreboard.svg"
TITLES = {
    "grep": "grep",
    "bm25 turns": "FTS5 over turns",
    "bm25 pairs": "FTS5 over pairs of turns",
    "dense": "vectors alone",
    "words": "familiar, words",
    "search": "familiar, words and meaning",
}
COLOURS = {
    "grep": "#9aa0a6",
    "bm25 turns": "#c58b2a",
    "bm25 pairs": "#8a6d3b",
    "dense": "#5b7db1",
    "words": "#4f9d69",
    "search": "#b5446e",
}
WIDTH, HEIGHT, LEFT, TOP = 640, 360, 56, 24
RIGHT, BOTTOM = 210, 40


def newest() -> dict[str, Any]:
    """Return the newest result, by its date and then its name."""
    found = [json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    result: dict[str, Any] = max(found, key=lambda one: str(one["date"]))
    return result


def tables() -> str:
    """Return the tables of the newest result, in Markdown."""
    made = newest()
    machine = made["machine"]
    asked = made["questions"]
    parts = [
        (
            f"Commit `{made['commit']}`, {made['date']}, model `{made['model']}`, "
            f"{'all questions' if asked == 'all' else f'{asked} questions of each conversation'}; "
            f"{machine['cores']} cores with a load of {machine['load']}, "
            f"Python {machine['python']} on {machine['system']}; "
            f"at most {made['peak_mb']:.0f} MB."
        )
    ]
    for name, found in made["sets"].items():
        parts.append(f"## {name}")
        parts.append(
            f"{found['conversations']} conversations, {found['sessions']} sessions, "
            f"{found['turns']:,} turns; indexed in {found['build_s']:.1f} s, "
            f"{found['index_mb']} MB."
        )
        parts += [overview(found), by_kind(found)]
    return "\n\n".join(parts) + "\n"


def summary() -> str:
    """Return the figures of the newest result that the page of measurements shows, in Markdown."""
    name, found = next(iter(newest()["sets"].items()))
    methods = [*reversed(found["methods"])]
    whole = [found["methods"][method]["all"] for method in methods]
    rows = {
        "sessions with evidence, among the first five (R@5)": [one["r5"] for one in whole],
        "turns with evidence, among the first ten": [one["turns_r10"] for one in whole],
        "evidence in 1,000 tokens": [one["evidence"]["1000"] for one in whole],
        "evidence in 4,000 tokens": [one["evidence"]["4000"] for one in whole],
    }
    shown = [[what, *(f"{share:.3f}" for share in shares)] for what, shares in rows.items()]
    return table([name, *(TITLES.get(method, method) for method in methods)], shown)


def overview(found: dict[str, Any]) -> str:
    """Return one row a method, over all kinds."""
    budgets = list(next(iter(found["methods"].values()))["all"]["evidence"])
    heads = ["", "R@5", "R@10", "MRR", "turns R@10", *(f"{int(n):,} tokens" for n in budgets), "ms"]
    rows = []
    for method, numbers in found["methods"].items():
        whole = numbers["all"]
        cells = [whole[key] for key in ("r5", "r10", "mrr", "turns_r10")]
        cells += whole["evidence"].values()
        shown = [f"{cell:.3f}" for cell in cells]
        rows.append([TITLES.get(method, method), *shown, f"{whole['ms_p50']:.1f}"])
    return table(heads, rows)


def by_kind(found: dict[str, Any]) -> str:
    """Return R@5 and the evidence in 1,000 tokens, one row a kind of question."""
    methods = found["methods"]
    heads = ["R@5 · evidence in 1,000 tokens", "n", *(TITLES.get(m, m) for m in methods)]
    kinds = next(iter(methods.values()))["kinds"]
    rows = [
        [
            kind,
            str(kinds[kind]["n"]),
            *(
                f"{m['kinds'][kind]['r5']:.2f} · {m['kinds'][kind]['evidence']['1000']:.2f}"
                for m in methods.values()
            ),
        ]
        for kind in kinds
    ]
    return table(heads, rows)


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def chart() -> str:
    """Return an SVG: evidence in the prompt by the tokens it costs, of the first data set."""
    name, found = next(iter(newest()["sets"].items()))
    budgets = [int(n) for n in next(iter(found["methods"].values()))["all"]["evidence"]]
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    step = wide / (len(budgets) - 1)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="sans-serif" font-size="12" role="img">'
        ),
        f"<title>Evidence in the prompt by tokens, {escape(name)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for tenth in range(0, 11, 2):
        y = TOP + high * (1 - tenth / 10)
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tenth / 10:.1f}</text>'
        )
    for place, tokens in enumerate(budgets):
        x = LEFT + step * place
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 14}" text-anchor="middle">{tokens:,}</text>')
    for number, (method, numbers) in enumerate(found["methods"].items()):
        values = [numbers["all"]["evidence"][str(n)] for n in budgets]
        points = [
            f"{LEFT + step * place:.1f},{TOP + high * (1 - value):.1f}"
            for place, value in enumerate(values)
        ]
        colour, y = COLOURS.get(method, "#000000"), TOP + 18 * number
        parts.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" '
            f'stroke-width="2.5"/>'
            f'<rect x="{LEFT + wide + 16}" y="{y}" width="12" height="12" fill="{colour}"/>'
            f'<text x="{LEFT + wide + 34}" y="{y + 11}">{escape(TITLES.get(method, method))}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    CHART.write_text(chart(), encoding="utf-8")
