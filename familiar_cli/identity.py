"""Who is who: authors of turns, and the names of familiars."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from familiar_cli.errors import UsageError
from familiar_cli.text import fold, framed, is_hidden, is_visible, one_line, slugify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from familiar_cli.languages import Phrases

_PLACEHOLDER = r"\{\{|\}\}"
MAX_ID_CHARS = 200
"""Maximum length of the id of an account, a channel or a message."""
_ID_HINT = "Use visible characters only, and plain spaces inside."
_WINDOWS_DEVICES = {"con", "prn", "aux", "nul"} | {
    f"{port}{n}" for port in ("com", "lpt") for n in range(10)
}


@dataclass(frozen=True, slots=True)
class Author:
    """Someone who wrote a turn, known by an id that their platform never changes.

    Args:
        platform: Lower case name of the platform, e.g. `discord`, `cli`.
        user_id: The platform's own id; its case is kept.
        username: The account's name, if known.
        display_name: What others see, if known.
    """

    platform: str
    user_id: str
    username: str | None = None
    display_name: str | None = None

    @property
    def slug(self) -> str:
        """The stem of this person's file in `people/`: `<platform>-<user_id>`, percent-encoded.

        Dots are encoded too, so that no slug ends in what looks like a suffix.
        """
        quoted = quote(self.user_id, safe="-_", errors="surrogatepass")
        return f"{self.platform}-{quoted.replace('.', '%2E')}"

    @classmethod
    def from_slug(cls, slug: str) -> Author:
        """Build an author without names from a slug."""
        platform, _, user_id = slug.partition("-")
        return cls(platform, unquote(user_id, errors="surrogatepass"))

    @property
    def label(self) -> str:
        """The best name there is to show."""
        return self.display_name or self.username or self.user_id


NEUTRAL = Author("cli", "user")
"""Under this account is kept what is said here, unless somebody is named."""


@dataclass(frozen=True, slots=True)
class Me:
    """Who speaks here, unless somebody is named: one person, however they are called.

    Args:
        account: The account under which they speak.
        name: What they are called; empty: nobody said.
        description: Who they are; macros work in it.
        pronouns: Their pronouns.
        stands_for_name: What they are called without a name.
        slugs: Accounts that are known by a login name, which no model is shown.
    """

    account: Author = NEUTRAL
    name: str = ""
    description: str = ""
    pronouns: str = ""
    stands_for_name: str = "User"
    slugs: frozenset[str] = frozenset({NEUTRAL.slug})

    @property
    def author(self) -> Author:
        """Who says something here."""
        return replace(self.account, display_name=self.name or None)

    def persona(self, phrases: Phrases) -> str:
        """Return who I am, as a prompt says it; macros work in it."""
        told = phrases.pronouns.format("{{user}}", self.pronouns)
        pronouns = told if self.pronouns else ""
        return "\n".join(filter(None, (self.description.strip(), pronouns)))

    def is_me(self, author: Author | None) -> bool:
        """Return whether that is me."""
        return author is not None and author.slug in self.slugs

    def named(self, author: Author) -> Author:
        """Return an author of a turn with my name, if it is me, and the turn gives no name."""
        if not self.name or not self.is_me(author) or author.display_name or author.username:
            return author
        return replace(author, display_name=self.name)

    def name_of(self, author: Author) -> str:
        """Return a person's name as it may stand in the frame of a prompt."""
        author = self.named(author)
        if self.is_me(author) and not (author.display_name or author.username):
            return framed(self.stands_for_name)
        return _name_of(author)

    def handle(self, slug: str) -> str:
        """Return an account as a text names it; of mine, not the login name."""
        return handle_of(NEUTRAL.slug if slug in self.slugs else slug)


@dataclass(frozen=True, slots=True)
class Labels:
    """What people are called in a text for a model.

    Who shares a name with somebody else, or with the familiar, is told apart by the account:
    `Alex (discord 42)`.

    Args:
        people: Everybody who may be called something there; the more, the longer a label stays.
        familiar: The familiar's name.
        me: Whose home it is.
    """

    people: frozenset[Author] = frozenset()
    familiar: str = ""
    me: Me = Me()  # frozen
    _shared: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Find the names that several have."""
        owners: dict[str, set[str]] = {_key(framed(self.familiar)): {""}}
        for author in self.people:
            owner = self.me.handle(author.slug)
            owners.setdefault(_key(self.me.name_of(author)), set()).add(owner)
        shared = frozenset(key for key, slugs in owners.items() if len(slugs) > 1)
        object.__setattr__(self, "_shared", shared)

    def joined(self, authors: Iterable[Author | None]) -> Labels:
        """Return the labels of these people and some more."""
        more = self.people.union(filter(None, authors))
        return self if more == self.people else Labels(more, self.familiar, self.me)

    def is_shared(self, name: str) -> bool:
        """Return whether several people, or somebody and the familiar, are called so."""
        return _key(framed(name)) in self._shared

    def is_familiars(self, name: str) -> bool:
        """Return whether the familiar is called so."""
        return bool(self.familiar) and _key(framed(name)) == _key(framed(self.familiar))

    def of(self, author: Author) -> str:
        """Return a person's name as it may stand in the frame of a prompt."""
        name = self.me.name_of(author)
        if self.is_shared(name) or re.search(r"\(\w+ [^()]+\)$", name):
            return f"{name} ({self.me.handle(author.slug)})"
        return name


def _name_of(author: Author) -> str:
    for name in (author.display_name, author.username, author.user_id):
        # A colon parts a name from words.
        shown = framed(re.sub("[:：]", " ", name)) if name else ""
        if is_visible(shown):
            return shown
    return handle_of(author.slug)


def _key(name: str) -> str:
    return fold(re.sub("[\u200c\u200d]", "", name))


NO_LABELS = Labels()


def english_phrases() -> Phrases:
    """Load the English wordings, the default wherever no language is set."""
    from familiar_cli.languages import ENGLISH  # noqa: PLC0415  # starting is quicker without it

    return ENGLISH


@dataclass(frozen=True, slots=True)
class Who:
    """Who the familiar is, for a model that writes its memory.

    Args:
        name: What it is called.
        voice: How it is, in a few sentences.
        texts: All that makes it who it is. What repeats it is not a memory.
        phrases: The titles and headings of what is written for it.
    """

    name: str
    voice: str = ""
    texts: tuple[str, ...] = ()
    phrases: Phrases = field(default_factory=english_phrases, repr=False)


def handle_of(slug: str) -> str:
    """Return an account as a text names it, by the slug: `discord 42`."""
    platform, dash, user_id = slug.partition("-")
    return framed(f"{platform} {unquote(user_id)}" if dash else slug)


def parse_author(
    text: str, *, display_name: str | None = None, field: str = "The account"
) -> Author:
    """Return the author that `PLATFORM:ID` names.

    Args:
        text: The account.
        display_name: What others see; cleaned, never refused.
        field: What an error calls the account, e.g. the name of a header.

    Raises:
        UsageError: There is no colon, the platform is not a plain word, or the id is unusable.
    """
    platform, colon, user_id = text.partition(":")
    platform, user_id = platform.strip(" ").lower(), user_id.strip(" ")
    problem = (
        ""
        if colon and re.fullmatch(r"[a-z0-9]+(?:_[a-z0-9]+)*", platform)
        else "is not a valid account"
    )
    problem = problem or _id_problem(user_id)
    if problem:
        raise UsageError(
            f"{field} {_quoted(text)} {problem}", hint="Use PLATFORM:ID, e.g. `discord:1234`."
        )
    return Author(platform, user_id, display_name=clean_name(display_name))


def check_id(value: str, field: str) -> str:
    """Validate the id of a channel or a message, and return it.

    Anything that a reader cannot see is refused, so that no two ids look the same: control and
    format characters (zero-width spaces, joiners, marks that reverse text), spaces other than the
    plain one, half characters, a template placeholder that nobody filled in, and the
    percent-encoded form of any of these. Only the marks that choose how an emoji is drawn may stay.

    Args:
        value: The id.
        field: What an error calls it.

    Raises:
        UsageError: It is empty, longer than `MAX_ID_CHARS`, or holds what cannot be seen.
    """
    if problem := _id_problem(value, re.sub("[\ufe0e\ufe0f]", "", value)):
        raise UsageError(f"{field} {_quoted(value)} {problem}", hint=_ID_HINT)
    return value


def clean_name(name: str | None) -> str | None:
    """Strip invisible characters from a display name; return None if nothing is left."""
    if not name or re.search(_PLACEHOLDER, name):
        return None
    shown = one_line(name, MAX_ID_CHARS)
    return shown if is_visible(shown) else None


def is_placeholder(value: str) -> bool:
    """Tell whether a text is nothing but an unfilled template variable."""
    return value.startswith("{{") and value.endswith("}}")


def _id_problem(value: str, shown: str | None = None) -> str:
    """Return why a text is not a valid id, or an empty string if it is."""
    shown = value if shown is None else shown
    if not value.strip():
        return "is empty"
    if len(value) > MAX_ID_CHARS:
        return f"is longer than {MAX_ID_CHARS} characters"
    if value != value.strip():
        return "begins or ends with a space"
    if re.search(_PLACEHOLDER, value):
        return "is a placeholder that was not filled in"
    for text in (shown, unquote(shown)):
        if hidden := next(filter(is_hidden, text), None):
            return f"contains the invisible character U+{ord(hidden):04X}"
    return "" if is_visible(value) else "contains no visible character"


def _quoted(value: str) -> str:
    return one_line(ascii(value) if any(map(is_hidden, value)) else repr(value), 80)


def check_familiar_id(name: str) -> str:
    """Return `name` when it is a familiar's id: a slug, and a directory name on every system.

    Raises:
        UsageError: It is not.
    """
    slug = slugify(name)
    if not name or name != slug or name in _WINDOWS_DEVICES:
        better = slug if slug and slug not in _WINDOWS_DEVICES else "my-familiar"
        raise UsageError(
            f"{name!r} is not a valid familiar id: use only lower-case letters, digits and '-'",
            hint=f"Try {better!r}.",
        )
    return name
