"""A page as other programs hold it: no front matter, nothing private; and their words put back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.errors import RefusedError
from familiar_cli.markdown import body_start
from familiar_cli.memory.pages.privacy import owned, private_spans, visible_in

if TYPE_CHECKING:
    from familiar_cli.visibility import Viewer


def outward(text: str, viewer: Viewer) -> str:
    """Return what of a page another program is given.

    Args:
        text: The page.
        viewer: Who will see it.
    """
    shown = visible_in(text[_start(text) :], viewer).strip("\n")
    return f"{shown}\n" if shown else ""


def holds_back(text: str, viewer: Viewer) -> bool:
    """Return whether a page has something private that `outward` leaves out."""
    return bool(private_spans(text, viewer))


def put_back(text: str, new: str, viewer: Viewer) -> str:
    """Return a page that says `new` to other programs; what was kept from them stays in it.

    What is private then stands at the end, where it cannot swallow what follows.

    Args:
        text: The page as it is; empty where there is none.
        new: What `outward` gave, changed.
        viewer: As it was given to `outward`.

    Raises:
        RefusedError: What is private could not be kept so.
    """
    if outward(text, viewer) == new:
        return text
    start = _start(text)
    body = text[start:]
    kept = "".join(line.text for line, scopes in owned(body) if not viewer.sees(scopes))
    gap = "" if not kept or new.endswith("\n\n") else "\n" if new.endswith("\n") else "\n\n"
    made = text[:start] + new + gap + kept
    if kept and outward(made, viewer) != outward(new, viewer):
        raise RefusedError(
            "What the file holds in private could not be kept apart; nothing was changed",
            hint="A person can edit the file itself.",
        )
    return made


def _start(text: str) -> int:
    """Return where the words of a page begin: below its front matter, and the empty line there."""
    start = body_start(text)
    return len(text) - len(text[start:].lstrip("\n"))
