"""Identities: authors of turns, labels, and ids of familiars."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.errors import UsageError
from familiar_cli.base.text import fold, framed, is_hidden, is_visible, one_line, slugify, words_of

if TYPE_CHECKING:
    from familiar_cli.base.languages import Phrases

_PLACEHOLDER = r"\{\{|\}\}"
MAX_ID_CHARS = 200
"""Maximum length of the id of an account, a channel or a message."""
_ID_HINT = "Use visible characters only, and plain spaces inside."
_WINDOWS_DEVICES = {"con", "prn", "aux", "nul"} | {
    f"{port}{n}" for port in ("com", "lpt") for n in range(10)
}


class Author(Struct, frozen=True):
    """The author of a turn, with an id that their platform never changes.

    Args:
        platform: Lower-case name of the platform, e.g. `discord`, `cli`.
        user_id: The platform's id, case-sensitive.
        username: The account's name, if known.
        display_name: Displayed name, if known.
    """

    platform: str
    user_id: str
    username: str | None = None
    display_name: str | None = None

    @property
    def slug(self) -> str:
        """The stem of this person's file in `people/`: `<platform>-<user_id>`, percent-encoded.

        Dots are encoded too, so that a slug never ends in a file extension.
        """
        return _slug_of(self.platform, self.user_id)

    @classmethod
    def from_slug(cls, slug: str) -> Author:
        """Build an author without names from a slug."""
        platform, _, user_id = slug.partition("-")
        return cls(platform, unquote(user_id, errors="surrogatepass"))

    @property
    def label(self) -> str:
        """The best available name."""
        return self.display_name or self.username or self.user_id


@lru_cache(maxsize=1024)  # asked for each turn of a prompt
def _slug_of(platform: str, user_id: str) -> str:
    quoted = quote(user_id, safe="-_", errors="surrogatepass")
    return f"{platform}-{quoted.replace('.', '%2E')}"


NEUTRAL = Author("cli", "user")
"""Default account for what is said here."""


class Me(Struct, frozen=True):
    """An owner, whatever their name; the first one is the default speaker.

    Args:
        account: Account that their turns are stored under.
        name: Their name; empty if unknown.
        description: Description; may use macros.
        stands_for_name: Fallback name.
        slugs: Their accounts.
        others: The home's other owners.
    """

    account: Author = NEUTRAL
    name: str = ""
    description: str = ""
    pronouns: str = ""
    stands_for_name: str = "User"
    slugs: frozenset[str] = frozenset({NEUTRAL.slug})
    others: tuple[Me, ...] = ()

    @property
    def author(self) -> Author:
        """The author for turns said here."""
        return replace(self.account, display_name=self.name or None)

    @property
    def owners(self) -> tuple[Me, ...]:
        """All owners of the home."""
        return (self, *self.others)

    def owner(self, author: Author | None) -> Me | None:
        """Find the owner whose account it is; None for anybody else."""
        return next((one for one in self.owners if one.is_me(author)), None)

    def persona(self, phrases: Phrases) -> str:
        """Return the persona for a prompt; may contain macros."""
        text = phrases.pronouns.format("{{user}}", self.pronouns)
        pronouns = text if self.pronouns else ""
        return "\n".join(filter(None, (self.description.strip(), pronouns)))

    def is_me(self, author: Author | None) -> bool:
        """Tell whether an author is this owner."""
        return author is not None and author.slug in self.slugs

    def named(self, author: Author) -> Author:
        """Add an owner's name to their turns that have none."""
        owner = self.owner(author)
        if not owner or not owner.name or author.display_name or author.username:
            return author
        return replace(author, display_name=owner.name)

    def name_of(self, author: Author) -> str:
        """Return a person's name, sanitized for use in a prompt."""
        author = self.named(author)
        if self.is_me(author) and not (author.display_name or author.username):
            return framed(self.stands_for_name)
        return _name_of(author)

    def handle(self, slug: str) -> str:
        """Return the main account of whoever has an account, for display."""
        if slug in self.slugs:
            return handle_of(NEUTRAL.slug)
        return handle_of(next((o.account.slug for o in self.others if slug in o.slugs), slug))


class Labels(Struct, frozen=True, dict=True):
    """People's labels in a text for a model.

    People who share a name with each other, with the familiar or with an owner are distinguished by
    account: `Alex (discord 42)`. So is a name of letters of several scripts, which may look like
    another.

    Args:
        people: Everyone who may appear; with more people, labels are more stable.
        familiar: The familiar's name.
        me: The first owner.
    """

    people: frozenset[Author] = frozenset()
    familiar: str = ""
    me: Me = Me()  # cache; the class is frozen

    @cached_property
    def _shared_names(self) -> frozenset[str]:
        """The names of more than one person."""
        owners: dict[str, set[str]] = {}
        for author in self.people:
            owner = self.me.handle(author.slug)
            owners.setdefault(_key(self.me.name_of(author)), set()).add(owner)
        return frozenset(key for key, slugs in owners.items() if len(slugs) > 1)

    @cached_property
    def _reserved_names(self) -> Mapping[str, frozenset[str]]:
        """The names of the owners and of the familiar, with the accounts that may use each."""
        names = {_key(framed(o.name or o.stands_for_name)): o.slugs for o in self.me.owners}
        return names | ({_key(framed(self.familiar)): frozenset()} if self.familiar else {})

    @cached_property
    def _known_names(self) -> Mapping[str, Author]:
        """Those who have a name, by slug."""
        named = (one for one in self.people if one.display_name or one.username)
        return {one.slug: one for one in sorted(named, key=lambda one: one.label)}

    def with_known_name(self, author: Author) -> Author:
        """Return an author with the name used before, if there is none now."""
        is_named = author.display_name or author.username
        return author if is_named else self._known_names.get(author.slug, author)

    def joined(self, authors: Iterable[Author | None]) -> Labels:
        """Return labels for these people as well."""
        more = self.people.union(filter(None, authors))
        return self if more == self.people else Labels(more, self.familiar, self.me)

    def is_reserved(self, name: str, slug: str) -> bool:
        """Tell whether it is the name of the familiar, or of an owner whose account is another."""
        return slug not in self._reserved_names.get(_key(framed(name)), (slug,))

    def is_ambiguous(self, name: str, slug: str) -> bool:
        """Tell whether the name of an account may be taken for somebody else's."""
        is_shared = _key(framed(name)) in self._shared_names
        return is_shared or self.is_reserved(name, slug) or _mixes_scripts(name)

    def of(self, author: Author) -> str:
        """Return a person's name, sanitized for use in a prompt."""
        name = self.me.name_of(self.with_known_name(author))
        if re.search(r"\(\w+ [^()]+\)$", name):
            return self.with_account(name, author.slug)
        return self.distinct(name, author.slug)

    def distinct(self, name: str, slug: str) -> str:
        """Return the name of an account, with the account if it is ambiguous."""
        return self.with_account(name, slug) if self.is_ambiguous(name, slug) else name

    def with_account(self, name: str, slug: str) -> str:
        """Return a name with its account, unless it ends with that."""
        account = f" ({self.me.handle(slug)})"
        return name if name.endswith(account) else f"{name}{account}"


def _name_of(author: Author) -> str:
    for name in (author.display_name, author.username, author.user_id):
        # A colon separates a name from the text.
        text = framed(re.sub("[:：]", " ", name)) if name else ""
        if is_visible(text):
            return text
    return handle_of(author.slug)


_LOOKALIKES: Final = str.maketrans(
    "асеоріхуѕјһԁԛԝвкмнтαβεζηικμνορτυχı01|l", "aceopixysjhdqwbkmhtabezhikmnoptyxioiii"
)


@lru_cache(maxsize=1024)
def _key(name: str) -> str:
    """Return a form of a name that is the same for all names that look like it."""
    bare = fold(re.sub(r"(?<=\w)\W*\(.*", "", name)).translate(_LOOKALIKES)
    return "".join(filter(str.isalnum, bare)) or fold(name)


def _mixes_scripts(name: str) -> bool:
    """Tell whether a word has letters of Latin and of another script, as `Rоbin` with `о`."""
    for word in () if name.isascii() else words_of(name):
        scripts = {unicodedata.name(one, "").partition(" ")[0] for one in word if one.isalpha()}
        if "LATIN" in scripts and len(scripts) > 1:
            return True
    return False


NO_LABELS = Labels()


def english_phrases() -> Phrases:
    """Load the English wordings, the default wherever no language is set."""
    from familiar_cli.base.languages import ENGLISH  # noqa: PLC0415  # starting is quicker without it

    return ENGLISH


class Who(Struct, frozen=True):
    """The familiar as described to a model that writes its memory.

    Args:
        voice: Its manner, in a few sentences.
        texts: All texts that define it; repeating them is not a memory.
        phrases: Titles and headings for its files.
    """

    name: str
    voice: str = ""
    texts: tuple[str, ...] = ()
    phrases: Phrases = field(default_factory=english_phrases)


def handle_of(slug: str) -> str:
    """Return the account of a slug for display: `discord 42`."""
    platform, dash, user_id = slug.partition("-")
    return framed(f"{platform} {unquote(user_id)}" if dash else slug)


CHARACTERS: Final = "sillytavern_character"
"""The platform of other characters in a group."""

# Platforms of imported chats, where the id of a person is their name.
_NAMED_BY_ID: Final = frozenset({"chat", CHARACTERS})


def title_of_account(slug: str, handle: str) -> str:
    """Return the heading of a page about somebody whose name is unknown or not public."""
    author = Author.from_slug(slug)
    return framed(author.user_id) if author.platform in _NAMED_BY_ID else handle


def parse_author(
    text: str, *, display_name: str | None = None, field: str = "The account"
) -> Author:
    """Parse an author given as `PLATFORM:ID`.

    Args:
        text: The account.
        display_name: Displayed name; cleaned, never refused.
        field: Name of the value in errors, e.g. of a header.

    Raises:
        UsageError: It has no colon, or an invalid platform or id.
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
            f"{field} {_quote(text)} {problem}", hint="Use PLATFORM:ID, e.g. `discord:1234`."
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
        field: Name of the value in errors.

    Raises:
        UsageError: It is empty, longer than `MAX_ID_CHARS`, or has invisible characters.
    """
    if problem := _id_problem(value, re.sub("[\ufe0e\ufe0f]", "", value)):
        raise UsageError(f"{field} {_quote(value)} {problem}", hint=_ID_HINT)
    return value


def clean_name(name: str | None) -> str | None:
    """Strip invisible characters from a display name; return None if nothing is left."""
    if not name or re.search(_PLACEHOLDER, name):
        return None
    text = one_line(name, MAX_ID_CHARS)
    return text if is_visible(text) else None


def is_placeholder(value: str) -> bool:
    """Tell whether a text is nothing but an unfilled template variable."""
    return value.startswith("{{") and value.endswith("}}")


def _id_problem(value: str, shown: str | None = None) -> str:
    """Return why a text is not a valid id, or an empty string if it is."""
    if not value.strip():
        return "is empty"
    if len(value) > MAX_ID_CHARS:
        return f"is longer than {MAX_ID_CHARS} characters"
    return _hidden_part(value, value if shown is None else shown)


@lru_cache(maxsize=64)  # the ids of a turn are checked at each of its steps
def _hidden_part(value: str, shown: str) -> str:
    if value != value.strip():
        return "begins or ends with a space"
    if re.search(_PLACEHOLDER, value):
        return "is a placeholder that was not filled in"
    for text in (shown, unquote(shown)):
        if hidden := next(filter(is_hidden, text), None):
            return f"contains the invisible character U+{ord(hidden):04X}"
    return "" if is_visible(value) else "contains no visible character"


def _quote(value: str) -> str:
    return one_line(ascii(value) if any(map(is_hidden, value)) else repr(value), 80)


def check_familiar_id(name: str) -> str:
    """Validate the id of a familiar: a slug that is a valid directory name on every system.

    Raises:
        UsageError: It is not valid.
    """
    slug = slugify(name)
    if not name or name != slug or name in _WINDOWS_DEVICES:
        better = slug if slug and slug not in _WINDOWS_DEVICES else "my-familiar"
        raise UsageError(
            f"{name!r} is not a valid familiar id: use only lower-case letters, digits and '-'",
            hint=f"Try {better!r}.",
        )
    return name
