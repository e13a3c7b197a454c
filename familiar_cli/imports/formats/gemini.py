"""Conversations with Gemini, as the activity of a Google account has them in JSON or HTML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from html.parser import HTMLParser
from typing import Any, Final

from familiar_cli.base.text import sha256_of
from familiar_cli.imports.contract import ForeignChat, Format, Reading
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, build_chat
from familiar_cli.imports.foreign_files import LENIENT, objects_at, text_at
from familiar_cli.imports.source import ForeignFile, Skip, array_objects
from familiar_cli.imports.written_times import in_ascii_digits, read_day, read_stamp

_PROGRAM: Final = Program("gemini")
_ID_CHARS: Final = 16
_PRODUCT: Final = re.compile(r"\b(?:Gemini|Bard)\b")  # in any language: `Gemini-Apps`
_NBSP: Final = "\u00a0"  # in HTML it follows the word for asking
_VERB: Final = re.compile(
    r"(?:Prompted|Branched|Answered|Asked|Said|Solicitou|Solicitó|Preguntó|Demandé|Angefordert|"
    r"Gefragt|Richiesto|Gevraagd)\b:?\s*"
)
_PAGE: Final = re.compile(rb"<(?:!doctype|html)", re.IGNORECASE)
_BREAKS: Final = frozenset({"p", "br", "div", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre"})
_STAMP: Final = re.compile(r".{0,40}\b\d{4}\b.{0,20}\b\d{1,2}:\d{2}(?::\d{2})?\b.{0,16}")
_NO_QUESTION: Final = "it is not a conversation, but for example feedback or a picture alone"


def _is_page(source: ForeignFile) -> bool:
    """Tell whether a file is the HTML of an account's activity with Gemini."""
    if source.shape != "text" or not _PAGE.match(source.start):
        return False
    return b"outer-cell" in source.raw and any(_page_records(source))


def _is_activity(source: ForeignFile) -> bool:
    if source.shape != "array":
        return _is_page(source)
    first = source.first
    return "title" in first and "time" in first and _is_of_gemini(first)


def _is_of_gemini(record: dict[str, Any]) -> bool:
    return bool(_PRODUCT.search(text_at(record, "header")))


def _read(source: ForeignFile, reading: Reading) -> Iterator[ForeignChat]:
    chat = SourceChat(partial(_lines, source), name="Gemini", channels=("gemini",), is_apart=False)
    yield build_chat(source, reading, _PROGRAM, chat)


def _lines(source: ForeignFile) -> Iterator[SourceMessage | Skip]:
    """Yield the questions and answers, oldest first; the file has the newest first.

    The words of an exchange identify it: it has no id, and HTML has another time than JSON.
    """
    if source.shape == "array":
        rows = [
            row if isinstance(row, Skip) else (row[0], _record(row[2]), row[1])
            for row in array_objects(source)
            if isinstance(row, Skip) or _is_of_gemini(row[2])
        ]
    else:
        rows = [(number, one, "") for number, one in enumerate(_page_records(source), 1)]
    counts = Counter[str]()
    for row in reversed(rows):
        if isinstance(row, Skip):
            yield row
            continue
        number, (title, answer, when), raw = row
        question = _question(title, answer)
        if not question:
            yield Skip(number, _NO_QUESTION, damaged=False)
            continue
        words = sha256_of(f"{question}\0{answer}")[:_ID_CHARS]
        counts[words] += 1
        name = f"{words}-{counts[words]}"
        yield SourceMessage(question, "user", time=when, raw=raw or None, id=f"{name}-q")
        if answer:
            yield SourceMessage(answer, "assistant", time=when, id=f"{name}-a")


_Record = tuple[str, str, object]  # its title, the answer, and when


def _question(title: str, answer: str) -> str:
    """Return the prompt without the verb before it; empty if the record is not of a prompt.

    In JSON, a verb of an unknown language cannot be told from the person's words, and stays.
    """
    if verb := _VERB.match(title):
        question = title[verb.end() :]
    elif answer:
        before, _, after = title.partition(_NBSP)
        question = title if "\n" in before else after or title
    else:
        question = ""
    return question.replace(_NBSP, " ").strip()


def _record(row: dict[str, Any]) -> _Record:
    items = objects_at(row, "safeHtmlItem")
    answer = "\n\n".join(filter(None, (_text(text_at(one, "html")) for one in items)))
    return text_at(row, "title").replace(_NBSP, " "), answer, row.get("time")


def _page_records(source: ForeignFile) -> Iterator[_Record]:
    text = source.raw.decode("utf-8", LENIENT)
    for cell in re.split(r'<div[^>]*class="outer-cell', text)[1:]:
        parser = _Cell()
        parser.feed(f"<div {cell}")
        head, body = parser.parts
        lines = [line.strip() for line in body.split("\n")]
        at = next((n for n, line in enumerate(lines) if _stamp_of(line)), None)
        if at is not None and _PRODUCT.search(head):
            yield "\n".join(lines[:at]), "\n".join(lines[at + 1 :]).strip(), _stamp_of(lines[at])


def _stamp_of(line: str) -> str:
    """Return the time in a line as ISO 8601, without a timezone; empty if it has none."""
    plain = in_ascii_digits(" ".join(line.split()))
    if not _STAMP.fullmatch(plain):
        return ""
    time = read_stamp(plain)
    day = read_day(time.day, "dmy") if time.day else None
    return datetime.combine(day, time.clock).isoformat() if day and time.clock else ""


class _Text(HTMLParser):
    """Collects the text of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.found.append("\n- " if tag == "li" else "\n" if tag in _BREAKS else "")

    def handle_data(self, data: str) -> None:
        self.found.append(data)


def _text(html: str) -> str:
    parser = _Text()
    parser.feed(html)
    parser.close()
    return re.sub(r"\n{3,}", "\n\n", "".join(parser.found)).strip()


class _Cell(_Text):
    """Collects the heading and the first content of a cell of activity."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0
        self._within = ""
        self._parts = {"header-cell": "", "content-cell": ""}

    @property
    def parts(self) -> tuple[str, str]:
        """The heading and the content."""
        return self._parts["header-cell"], self._parts["content-cell"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs).get("class") or ""
        begun = next((n for n, text in self._parts.items() if n in names and not text), "")
        if begun and not self._within:
            self._within, self._depth, self.found = begun, 0, []
        super().handle_starttag(tag, attrs)
        self._depth += tag == "div"

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag == "div"
        if self._within and tag == "div" and not self._depth:
            self._parts[self._within] = "".join(self.found).strip("\n")
            self._within = ""


FORMAT: Final = Format("gemini", "Gemini Apps Activity", ("chat",), _is_activity, _read)
