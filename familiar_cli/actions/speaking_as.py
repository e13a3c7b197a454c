"""Who somebody means by a name: one who spoke here before, or somebody new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.errors import UsageError
from familiar_cli.identity import NEUTRAL, Author, parse_author
from familiar_cli.text import fold, slugify
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar


def speaking_as(familiar: Familiar, named: str) -> Author:
    """Return who is meant by `PLATFORM:ID`, by my name, or by that of somebody who spoke before.

    Another name is that of a new person, with an account of their own.

    Raises:
        UsageError: No account can be made of the name.
    """
    if ":" in named:
        return parse_author(named)
    me = familiar.me()
    if fold(me.name_of(me.author)) == fold(named):
        return me.author
    for name, author in people_here(familiar).items():
        if fold(name) == fold(named):
            return author
    slug = slugify(named)
    if not slug:
        raise UsageError(f"{named!r} is not a name", hint="Use PLATFORM:ID, e.g. `discord:1234`.")
    return Author(NEUTRAL.platform, slug, display_name=named)


def people_here(familiar: Familiar) -> dict[str, Author]:
    """Return who spoke, the latest last, by the names that the owner knows them by."""
    me = familiar.me()
    speakers = [speaker.author for speaker in familiar.history.speakers(OWNER)]
    return {me.name_of(author): author for author in reversed(speakers)}
