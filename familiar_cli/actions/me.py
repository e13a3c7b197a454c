"""Who I am: what the home, a familiar and a channel say of it, and how to change that."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from familiar_cli.config.home import ME_FILE, who_speaks
from familiar_cli.config.schema import ChannelConfig, CharacterConfig, MeSettings
from familiar_cli.config.settings import FileSettings, load_written
from familiar_cli.errors import ConfigError, NotFoundError
from familiar_cli.identity import NEUTRAL, Author, parse_author
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from familiar_cli.config.edit import Edit
    from familiar_cli.familiar import Familiar

NAMES = tuple(entry.name for entry in fields(MeSettings))


@dataclass(frozen=True, slots=True)
class ShownMe:
    """Who I am, and where that is said.

    Args:
        label: What I am called in a prompt.
        account: The account under which my words are kept, as `PLATFORM:ID`.
        sources: The file that says each setting, by its name; `default`: none does.
        also: My other accounts.
    """

    name: str
    description: str
    pronouns: str
    label: str
    account: str
    sources: dict[str, str]
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MePlace:
    """A file that says who I am.

    Args:
        path: The file.
        root: What the file holds.
        title: Where it holds, in words.
    """

    path: Path
    root: type[Any]
    title: str

    @property
    def prefix(self) -> str:
        """What stands before a setting's name there."""
        return "" if self.root is MeSettings else "me."


def show_me(home: Path, familiar: Familiar | None, channel_id: str = "") -> ShownMe:
    """Return who I am in a channel of a familiar; without one, at the home.

    Raises:
        ConfigError: A file has something wrong in it.
    """
    if familiar is None:
        written = load_written(home / ME_FILE, MeSettings)
        sources = {n: ME_FILE if n in written.tables else "default" for n in NAMES if n != "also"}
        return _describe_me(written.settings, sources, "User", NEUTRAL)
    channel = familiar.channel(channel_id)
    sources = {
        held.key.removeprefix("me."): held.source
        for held in channel.held
        if held.key.startswith("me.") and held.key != "me.also"
    }
    me = familiar.me_in(channel)
    return _describe_me(channel.me, sources, me.name_of(me.author), me.account)


def _describe_me(me: MeSettings, sources: dict[str, str], label: str, account: Author) -> ShownMe:
    return ShownMe(
        me.name,
        me.description,
        me.pronouns,
        one_line(me.name) or label,
        f"{account.platform}:{account.user_id}",
        sources,
        me.also,
    )


def place_of_me(home: Path, familiar: Familiar | None, channel_id: str = "") -> MePlace:
    """Return the file that says who I am in a channel, in a familiar, or else in all of the home.

    Raises:
        ConfigError: It has something wrong in it.
    """
    if familiar is None:
        return MePlace(home / ME_FILE, MeSettings, "everywhere in this home")
    if channel_id:
        path = familiar.channels.path(channel_id)
        return MePlace(path, ChannelConfig, f"in channel {channel_id!r} of {familiar.paths.id}")
    return MePlace(familiar.paths.config, CharacterConfig, f"for {familiar.paths.id}")


def change_me(
    familiar: Familiar | None,
    place: MePlace,
    values: Mapping[str, str],
    *,
    channel_id: str = "",
    dry_run: bool = False,
) -> Edit:
    """Say who I am in one place. What is not among `values` stays.

    Raises:
        ConfigError: The file cannot be changed; it is as it was.
    """
    from familiar_cli.config.edit import set_values

    texts = {f"{place.prefix}{name}": value for name, value in values.items()}
    if familiar is not None and channel_id:
        return familiar.channels.set_values(channel_id, texts, dry_run=dry_run)
    return set_values(place.path, texts, dry_run=dry_run, root=place.root)


def with_accounts(place: MePlace, accounts: Sequence[str]) -> str:
    """Return the value of `also` with more accounts added.

    Raises:
        UsageError: One of them is not an account.
    """
    named = [parse_author(account) for account in accounts if account]
    there = () if "" in accounts else _source_of(place).get("also", ())
    found = dict.fromkeys([*there, *(f"{a.platform}:{a.user_id}" for a in named)])
    return json.dumps(list(found), ensure_ascii=False)


def forget_me(place: MePlace, *, dry_run: bool = False) -> Edit:
    """Take out of one file all that it says of me.

    Raises:
        NotFoundError: It says nothing.
    """
    from familiar_cli.config.edit import unset_values

    tables: Any = _source_of(place)
    keys = [f"{place.prefix}{name}" for name in NAMES if name in tables]
    if not keys:
        raise NotFoundError(
            f"{place.path.name!r} says nothing about you; nothing was changed",
            hint="`familiar me` shows who you are, and where each value comes from.",
        )
    return unset_values(place.path, keys, dry_run=dry_run, root=place.root)


def _source_of(place: MePlace) -> Any:  # noqa: ANN401  # a table of TOML
    written: FileSettings[Any] = load_written(place.path, place.root)
    return written.tables if place.root is MeSettings else written.tables.get("me", {})


def author_in_channel(
    familiar: Familiar, channel_id: str, account: str | None = None, name: str | None = None
) -> Author:
    """Return who says something in a channel: `account`, `PLATFORM:ID`; None: whose home it is.

    Raises:
        UsageError: `account` names nobody.
        ConfigError: The settings have something wrong in them.
    """
    return who_speaks(account, name, familiar.me(channel_id).author)


def hint_of_me(familiar: Familiar, author: Author | None) -> str:
    """Return how to say who one is, for whoever speaks for the first time and has not said it."""
    try:
        me = familiar.me()
    except ConfigError:
        return ""
    if author is None or author.display_name or not me.is_me(author):
        return ""
    if familiar.history.has_speaker(author):
        return ""
    return f"You are called {me.name_of(author)!r}; `familiar me --name NAME` says who you are."
