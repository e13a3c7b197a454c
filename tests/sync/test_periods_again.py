"""A week that two machines made from their own days is made again from both."""

from __future__ import annotations

from familiar_cli.sync.joining import merge_heads
from familiar_cli.writing.consolidation.pages import MadePage, Record, page_text, read_page
from tests.support.versions import Versions
from tests.support.world import data, live

WEEK = "weekly/2026-W15.md"


def day(name: str) -> tuple[str, str]:
    body = f"# 2026-04-07\n\n- said on {name}\n"
    return f"daily/2026-04-07_{name}.md", page_text(MadePage(body, Record({"sessions/x.md": "0"})))


def week(rel_path: str, text: str) -> bytes:
    record = Record({rel_path: read_page(text).digest})
    return page_text(MadePage(f"# 2026-W15\n\n- from {rel_path}\n", record)).encode()


def test_a_week_of_two_machines_is_due_again_after_they_merge() -> None:
    past = Versions()
    root = past.add({})
    heads = []
    for name in ("desk", "laptop"):
        rel_path, text = day(name)
        files = {rel_path: text.encode(), WEEK: week(rel_path, text)}
        heads.append(past.add(files, [root], instance=name, source="consolidation"))
    made = merge_heads(heads, past)
    files = past.files(made.files, made.blobs)
    assert len(files) == 3
    live(**{path.removesuffix(".md"): content.decode() for path, content in files.items()})

    (again,) = data("consolidate", "weekly", "--dry-run")["done"]
    assert (again["period"], again["again"]) == ("2026-W15", True)
    assert again["sources"] == ["daily/2026-04-07_desk.md", "daily/2026-04-07_laptop.md"]
