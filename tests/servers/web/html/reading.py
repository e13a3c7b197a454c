"""Reads a page back, and complains of whatever a browser would have to guess."""

from __future__ import annotations

import re
from html.parser import HTMLParser

UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069"
    r"\ufeff\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
VOID = {"meta", "br"}


def shown(text: str) -> str:
    """Return how a text of the record reads on the page."""
    return UNSEEN.sub(lambda found: f"U+{ord(found[0]):04X}", text.replace("\r\n", "\n"))


class Reading(HTMLParser):
    """What is in a page.

    Attributes:
        tags: The name of each element, in order.
        attributes: Each attribute with its value.
        pres: The text of each `pre`.
        words: All text outside `style`.
    """

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.pres: list[str] = []
        self.words = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        self.attributes += attrs
        if tag == "pre":
            self.pres.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        if "style" in self.open:
            return
        self.words += data
        if "pre" in self.open:
            self.pres[-1] += data

    def handle_comment(self, data) -> None:
        raise AssertionError(f"a comment: {data!r}")

    def values(self, name: str) -> list[str | None]:
        """Return the values of all attributes of that name."""
        return [value for key, value in self.attributes if key == name]
