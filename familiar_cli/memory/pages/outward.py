"""A page as other programs hold it: no front matter, nothing private; and their words put back."""

from __future__ import annotations

from familiar_cli.markdown import body_start
from familiar_cli.memory.pages.privacy import owned, private_spans, visible_in


def outward(text: str, channel_id: str | None = None) -> str:
    """Return what of a page another program is given.

    Args:
        text: The page.
        channel_id: The private channel that it owns; None: none.
    """
    return visible_in(text[body_start(text) :], channel_id)


def holds_back(text: str, channel_id: str | None = None) -> bool:
    """Return whether a page has something private that `outward` leaves out."""
    return bool(private_spans(text, channel_id))


def put_back(text: str, new: str, channel_id: str | None = None) -> str:
    """Return a page that says `new` to other programs; what was kept from them stays in it.

    What is private then stands at the end, where it cannot swallow what follows.

    Args:
        text: The page as it is; empty where there is none.
        new: What `outward` gave, changed.
        channel_id: As it was given to `outward`.
    """
    start = body_start(text)
    body = text[start:]
    if new == visible_in(body, channel_id):
        return text
    kept = "".join(line.text for line, owners in owned(body) if not owners <= {channel_id})
    gap = "" if not kept or new.endswith("\n\n") else "\n" if new.endswith("\n") else "\n\n"
    return text[:start] + new + gap + kept
