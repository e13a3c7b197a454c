"""HTML of the pages: templates, Markdown, and the one page that is exported."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from familiar_cli.base.times.clock import now
from familiar_cli.base.times.when import day_words
from familiar_cli.base.who.visibility import OWNER, Viewer
from familiar_cli.servers.web.html.elements import Html, el, environment, plain, text
from familiar_cli.store.memory.pages.lines import TAG, Numbering, is_reference, number_spans
from familiar_cli.store.memory.pages.links import resolve_target

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token


_PACKAGE: Final = "familiar_cli.servers.web"
_MAIN: Final = ("home", "chat", "search", "people", "person", "file", "journal", "timeline")


def draw_page(template: str, values: Mapping[str, Any]) -> str:
    """Render a template.

    Args:
        template: Its name, without `.html`.
        values: Template values; an undefined name is an error.
    """
    return environment(_PACKAGE).get_template(f"{template}.html").render(values)


def preload_pages() -> None:
    """Compile the templates of the main pages, and the parser of Markdown."""
    _make_parser()
    for template in _MAIN:
        environment(_PACKAGE).get_template(f"{template}.html")


def refused_page(message: str) -> bytes:
    """Render the error page for a request without a familiar, with a link back."""
    return draw_page("refused", {"message": message}).encode("utf-8", "replace")


@cache
def stylesheet() -> bytes:
    """Return the stylesheet; its first part is that of printed pages."""
    return files("familiar_cli.servers.web.html").joinpath("page.css").read_bytes() + static_file(
        "web.css"
    )


@cache
def static_file(name: str) -> bytes:
    """Return a static file."""
    return files(_PACKAGE).joinpath(f"static/{name}").read_bytes()


_WIKI: Final = re.compile(r"\[\[([^\[\]\n|#]{1,200})(#[^\[\]\n|]*)?(?:\|([^\[\]\n]{1,200}))?\]\]")
_WEB: Final = re.compile(r"https?://", re.IGNORECASE)
_MOST_DAYS: Final = 3
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)


RENDERED_CHARS: Final = 24_000
"""Size limit for formatting, which keeps it under 100 ms; longer files are shown as plain text."""


def render_markdown(
    markdown: str, rel_path: str, base: str, numbering: Numbering, viewer: Viewer = OWNER
) -> Html:
    """Render the Markdown of a file as HTML.

    Args:
        markdown: The text, without its front matter.
        rel_path: The file, to resolve relative links.
        base: Address prefix of the familiar's pages.
        numbering: Resolves citations.
        viewer: Viewer; turns hidden from them give no evidence.
    """
    comments = [comment for comment in set(_COMMENT.findall(markdown)) if is_reference(comment)]
    days = dict(zip(comments, numbering.cited_days(comments, viewer), strict=True))
    try:
        made = _make_parser().render(markdown, {"rel_path": rel_path, "base": base, "days": days})
    except RecursionError:
        return el("pre", markdown, dir="auto")
    return Html(made)


def render_inline(words: str, rel_path: str, base: str) -> Html:
    """Render one line of a page as HTML, without a paragraph around it."""
    env = {"rel_path": rel_path, "base": base, "days": {}}
    return Html(_make_parser().renderInline(words, env))


@cache
def _make_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005  # `_link` decides
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    parser.core.ruler.push("directions", _set_directions)
    return parser


def _set_directions(state: StateCore) -> None:
    """Set the text direction of each block from its first letters."""
    for token in state.tokens:
        if token.nesting == 1 and token.tag in _BLOCKS:
            token.attrSet("dir", "auto")


def _text(_: Any, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:  # noqa: ANN401
    pieces, end, content = [], 0, TAG.sub("", tokens[at].content)
    for match in _WIKI.finditer(content):
        name = match[1].strip()
        href = f"{env['base']}/find?name={quote(name)}&from={quote(env['rel_path'])}"
        pieces += [text(content[end : match.start()]), el("a", match[3] or name, href=href)]
        end = match.end()
    return "".join([*pieces, text(content[end:])])


def _code_token(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:  # noqa: ANN401
    return el("code", tokens[at].content)


def _block_token(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:  # noqa: ANN401
    return el("pre", tokens[at].content, dir="auto", tabindex="0")


def _html_token(_: Any, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:  # noqa: ANN401
    """Escape raw HTML; drop comments, which are for the program or citations."""
    content, pieces, end = tokens[at].content, [], 0
    for comment in _COMMENT.finditer(content):
        pieces += [
            text(content[end : comment.start()].strip("\n")),
            evidence_links(env["days"].get(comment[0]), env["base"]),
        ]
        end = comment.end()
    return "".join([*pieces, text(content[end:].strip("\n"))])


def evidence_links(days: Mapping[date, Sequence[int]] | None, base: str) -> Html:
    """Return links to the cited turns, such as `said on 25 August`.

    Args:
        days: Cited turns by day; None without citations.
        base: Address prefix of the familiar's pages.
    """
    if days is None:
        return Html("")
    if not days:
        return el(
            "span", "said elsewhere", class_="evidence", title="The turns are not stored here"
        )
    year, links = now().year, []
    for number, day in enumerate(sorted(days)[-_MOST_DAYS:]):
        said = day_words(day) if day.year != year else day_words(day)[: -len(f" {year}")]
        href = f"{base}/turns/{days[day][0]}"
        told = f"turn {number_spans(days[day])}"
        links.append(el("a", f"{'' if number else 'said on '}{said}", href=href, title=told))
    return el("span", Html(", ".join(links)), class_="evidence")


def imported_evidence(day: date | None) -> Html:
    """Return the evidence of a fact imported from another program."""
    words = f"said on {day_words(day)}, imported" if day else "imported"
    return el("span", words, class_="evidence")


def _image_token(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:  # noqa: ANN401
    source = tokens[at].attrs.get("src", "")
    return el("span", f"image: {tokens[at].content} ({source})", class_="image")


def _open_link(_: Any, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:  # noqa: ANN401
    href = str(tokens[at].attrs.get("href", ""))
    if _WEB.match(href):
        away = plain(quote(href, safe=":/?#[]@!$&'()*+,;=%~-._"))
        return Html(el("a", href=away, rel="noreferrer noopener", class_="away")[: -len("</a>")])
    there = resolve_target(href, env["rel_path"])
    if there is None:
        return Html(el("a", title=f"leads nowhere: {href}", class_="dead")[: -len("</a>")])
    return Html(el("a", href=f"{env['base']}/memory/{quote(there)}")[: -len("</a>")])


def _cell_token(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:  # noqa: ANN401
    return f'<{tokens[at].tag} dir="auto">'


_BLOCKS: Final = frozenset({"p", "li", "h1", "h2", "h3", "h4", "h5", "h6", "th", "td"})
_RULES: Final = {
    "text": _text,
    "code_inline": _code_token,
    "code_block": _block_token,
    "fence": _block_token,
    "html_inline": _html_token,
    "html_block": _html_token,
    "image": _image_token,
    "link_open": _open_link,
    "th_open": _cell_token,
    "td_open": _cell_token,
}
