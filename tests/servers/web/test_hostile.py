"""Memory is data: whatever stands in it, a page holds no more elements than it should."""

from __future__ import annotations

from familiar_cli.servers.web.drawing import render_markdown
from familiar_cli.store.memory.pages.lines import PLAIN
from tests.support.browsing import looking
from tests.support.cases import each
from tests.support.world import live, run

EVIL = [
    "</script><script>alert(1)</script>",
    '<img src="http://evil.example/x.png" onerror=alert(1)>',
    "![x](http://evil.example/x.png)",
    "[x](javascript:alert(1)) [y](JaVaScRiPt:alert(1)) [z](data:text/html,x) [v](vbscript:x)",
    "<https://evil.example> <javascript:alert(1)>",
    "[x]: javascript:alert(1)\n\n[x]",
    "<style>*{display:none}</style><iframe src=//evil.example></iframe>",
    "{{ 7 * 7 }} {% for x in y %} $& ${x} $1",
    "<!-- <script>alert(1)</script> -->",
    "<!-- turns 1 --><script>alert(1)</script>",
    "[[<b>x|<script>]] [[../../x]]",
    "`<script>` \n\n```html\n<script>\n```\n\n    <script>",
    "| a |\n|:-:|\n| <script> |",
    "\u202etxet\u202c \x1b[2J \x00 \x07",
    '[x](a.md "onmouseover=alert(1)") [y](http://a/"onmouseover="x)',
    "[x](//evil.example/a) [y](\\\\evil\\a) [z](file:///etc/passwd)",
]
OURS = ("<script src=", "<script>")


@each("text", EVIL)
def test_markdown_becomes_no_element_that_runs_or_loads(text) -> None:
    html = render_markdown(text, "notes.md", "", PLAIN).lower()
    for tag in ("<script", "<img", "<iframe", "<style", "<object", "<link", " style=", "<b>"):
        assert tag not in html
    for href in ('href="javascript', 'href="data', 'href="vbscript', 'href="file', 'href="//'):
        assert href not in html
    assert " onerror=" not in html.replace("&quot;", "").partition("<a")[0] or "&lt;img" in html
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_every_page_of_a_hostile_memory_stays_whole() -> None:
    text = "\n\n".join(EVIL).replace("\x00", "")
    live("ada", evil=f"# {EVIL[0]}\n\n{text}\n")
    assert run("memory", "append", "evil.md", "$& </textarea><script>x</script>").exit_code == 0
    paths = [
        "/",
        "/memory",
        *(f"/memory/evil.md?view={v}" for v in ("text", "source", "blame", "history", "edit")),
        "/search?q=script",
        "/journal/HEAD",
        "/asof",
        "/asof/files/evil.md",
        "/search?q=%3Cscript%3Ealert(1)%3C/script%3E",
        "/turns?q=%3C/title%3E%3Cscript%3E",
        "/turns?channel=%22%3E%3Cscript%3E",
    ]
    with looking() as client:
        for path in paths:
            answer = client.get(path)
            assert answer.status_code == 200, (path, answer.text)
            assert answer.text.lower().count("<script") == 1, path
            assert "<img src=" in answer.text
            assert "evil.example" not in answer.text.partition('<link rel="icon"')[0], path


def test_a_huge_file_is_shown_in_part_and_soon() -> None:
    live("ada", huge="- a line of a list with [a link](x.md)\n" * 200_000)
    with looking() as client:
        answer = client.get("/memory/huge.md")
        assert answer.status_code == 200
        assert len(answer.text) < 1_500_000


def test_bytes_that_are_no_text_are_said_to_be_none() -> None:
    root = live("ada")
    (root / "memory/photo.md").write_bytes(b"\xff\xfe\x00binary")
    with looking() as client:
        answer = client.get("/memory/photo.md")
        assert answer.status_code == 200
        assert "UTF-8" in answer.text
        assert client.get("/memory/photo.md?raw=1").content == b"\xff\xfe\x00binary"
