"""Markdown of a memory as HTML: no raw HTML, nothing loaded, links only to pages and web sites."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from familiar_cli.memory.pages.lines import spans, turn_ids
from familiar_cli.memory.pages.links import resolve_target
from familiar_cli.ui.html.elements import Html, el, environment, plain, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    from familiar_cli.memory.pages.lines import Numbering

_PACKAGE: Final = "familiar_cli.web"


def draw(template: str, values: Mapping[str, Any]) -> str:
    """Return the page that `template` makes of `values`.

    Args:
        template: Its name, without `.html`.
        values: What stands in it; a name that is missing is an error, not an empty string.
    """
    return environment(_PACKAGE).get_template(f"{template}.html").render(values)


@cache
def stylesheet() -> bytes:
    """Return the one stylesheet; that of the printed pages is its first part."""
    return files("familiar_cli.ui.html").joinpath("page.css").read_bytes() + static("web.css")


@cache
def static(name: str) -> bytes:
    """Return a file that every page may load."""
    return files(_PACKAGE).joinpath(f"static/{name}").read_bytes()


_WIKI: Final = re.compile(r"\[\[([^\[\]\n|#]{1,200})(#[^\[\]\n|]*)?(?:\|([^\[\]\n]{1,200}))?\]\]")
_WEB: Final = re.compile(r"https?://", re.IGNORECASE)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)


def rendered(markdown: str, rel_path: str, base: str, numbering: Numbering) -> Html:
    """Return what a file says, as HTML.

    Args:
        markdown: The text, without its front matter.
        rel_path: The file, since links in it begin there.
        base: What the addresses of the familiar's pages begin with.
        numbering: Which turns it cites.
    """
    try:
        made = _parser().render(
            markdown, {"rel_path": rel_path, "base": base, "numbering": numbering}
        )
    except RecursionError:
        return el("pre", markdown, dir="auto")
    return Html(made)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005  # `_link` decides
    for name, rule in _RULES.items():
        parser.add_render_rule(name, rule)
    return parser


def _text(_: Any, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:  # noqa: ANN401
    pieces, end, content = [], 0, tokens[at].content
    for found in _WIKI.finditer(content):
        name = found[1].strip()
        href = f"{env['base']}/find?name={quote(name)}&from={quote(env['rel_path'])}"
        pieces += [text(content[end : found.start()]), el("a", found[3] or name, href=href)]
        end = found.end()
    return "".join([*pieces, text(content[end:])])


def _code(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:  # noqa: ANN401
    return el("code", tokens[at].content)


def _block(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:  # noqa: ANN401
    return el("pre", tokens[at].content, dir="auto", tabindex="0")


def _html(_: Any, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:  # noqa: ANN401
    """Return raw HTML as the text that it is; comments are for the program, or name turns."""
    content, pieces, end = tokens[at].content, [], 0
    for comment in _COMMENT.finditer(content):
        pieces += [text(content[end : comment.start()].strip("\n")), turns_named(comment[0], env)]
        end = comment.end()
    return "".join([*pieces, text(content[end:].strip("\n"))])


def turns_named(comment: str, env: dict[str, Any]) -> Html:
    """Return a link to the turns that a comment names; nothing for any other comment."""
    turns = turn_ids(comment, env["numbering"])
    if not turns:
        return Html("")
    said = f"turn {spans(turns)}"
    return el("a", said, href=f"{env['base']}/turns/{turns[0]}", class_="evidence")


def _image(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:  # noqa: ANN401
    source = tokens[at].attrs.get("src", "")
    return el("span", f"image: {tokens[at].content} ({source})", class_="image")


def _link(_: Any, tokens: Sequence[Token], at: int, __: Any, env: Any) -> str:  # noqa: ANN401
    href = str(tokens[at].attrs.get("href", ""))
    if _WEB.match(href):
        away = plain(quote(href, safe=":/?#[]@!$&'()*+,;=%~-._"))
        return Html(el("a", href=away, rel="noreferrer noopener", class_="away")[: -len("</a>")])
    there = resolve_target(href, env["rel_path"])
    if there is None:
        return Html(el("a", title=f"leads nowhere: {href}", class_="dead")[: -len("</a>")])
    return Html(el("a", href=f"{env['base']}/memory/{quote(there)}")[: -len("</a>")])


def _cell(_: Any, tokens: Sequence[Token], at: int, *__: Any) -> str:  # noqa: ANN401
    return f"<{tokens[at].tag}>"


_RULES: Final = {
    "text": _text,
    "code_inline": _code,
    "code_block": _block,
    "fence": _block,
    "html_inline": _html,
    "html_block": _html,
    "image": _image,
    "link_open": _link,
    "th_open": _cell,
    "td_open": _cell,
}
