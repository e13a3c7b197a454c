"""Who I am: what the home, a familiar and a channel say of it, and how to change that."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from msgspec import Struct

from familiar_cli.base.config.edit import Edit, set_values, unset_values
from familiar_cli.base.config.home import ME_FILE, list_familiars, other_owners
from familiar_cli.base.config.schema import ChannelConfig, CharacterConfig, HomeSettings, MeSettings
from familiar_cli.base.config.settings import FileSettings, is_name, load_written
from familiar_cli.base.errors import ConfigError, FamiliarError, NotFoundError, UsageError
from familiar_cli.base.text import fold, one_line, slugify
from familiar_cli.base.who.identity import CHARACTERS, NEUTRAL, Author, Me, parse_author
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.selection import imported_accounts

NAMES = tuple(entry.name for entry in fields(MeSettings))


class OwnerProfile(Struct, frozen=True):
    """Who I am, and where that is said.

    Args:
        label: What I am called in a prompt.
        account: The account under which my words are kept, as `PLATFORM:ID`.
        sources: The file that says each setting, by its name; `default`: none does.
        also: My other accounts.
        owners: The home's other owners, as `--as` names them.
    """

    name: str
    description: str
    pronouns: str
    label: str
    account: str
    sources: dict[str, str]
    also: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()


class MePlace(Struct, frozen=True):
    """A file that says who I am.

    Args:
        root: What the file holds.
        title: Where it holds, in words.
        prefix: What stands before a setting's name there.
    """

    path: Path
    root: type[Any]
    title: str
    prefix: str = "me."


def show_me(
    home: Path, familiar: Familiar | None, channel_id: str = "", owner: str | None = None
) -> OwnerProfile:
    """Describe an owner as seen in a channel, in a familiar, or in the whole home.

    Args:
        familiar: Which familiar; None: any.
        channel_id: Which channel; empty: any.
        owner: Which of the other owners; None: the first owner.

    Raises:
        ConfigError: A file has something wrong in it.
    """
    written = load_written(home / ME_FILE, HomeSettings)
    owners = tuple(written.settings.owners)
    if owner is not None or familiar is None:
        place = place_of_me(home, None, owner=owner)
        me: MeSettings = written.settings
        label, account = "User", NEUTRAL
        if owner is not None:
            me = written.settings.owners.get(owner, MeSettings())
            label, account = owner, Author(NEUTRAL.platform, owner)
        tables = _source_of(place)
        sources = {n: ME_FILE if n in tables else "default" for n in NAMES if n != "also"}
    else:
        channel = familiar.channel(channel_id)
        sources = {
            value.key.removeprefix("me."): value.source
            for value in channel.held
            if value.key.startswith("me.") and value.key != "me.also"
        }
        own = familiar.me_in(channel)
        me, label, account = channel.me, own.name_of(own.author), own.account
    return OwnerProfile(
        me.name,
        me.description,
        me.pronouns,
        one_line(me.name) or label,
        f"{account.platform}:{account.user_id}",
        sources,
        me.also,
        owners,
    )


def check_owner(name: str) -> str:
    """Validate the name of another owner, as `--as` takes it, and return it.

    Raises:
        UsageError: It is not valid, or stands for the first owner.
    """
    if not is_name(name) or name != name.lower():
        better = slugify(name) or "scott"
        raise UsageError(f"{name!r} cannot be an owner's name", hint=f"Try {better!r}.")
    if name == NEUTRAL.user_id:
        raise UsageError(
            f"{name!r} is the account of the first owner already; nothing was changed",
            hint="Leave out --as, or choose another name.",
        )
    return name


def home_owners(home: Path) -> Me:
    """List a home's owners, the first one first, without opening a familiar."""
    return Me(others=other_owners(load_written(home / ME_FILE, HomeSettings).settings))


def place_of_me(
    home: Path, familiar: Familiar | None, channel_id: str = "", owner: str | None = None
) -> MePlace:
    """Return the file about the owner for a channel, a familiar, or the whole home.

    Raises:
        ConfigError: It has something wrong in it.
        UsageError: `owner` cannot be the name of one.
    """
    if owner is not None:
        title = f"for the owner {check_owner(owner)!r}, everywhere in this home"
        return MePlace(home / ME_FILE, HomeSettings, title, f"owners.{owner}.")
    if familiar is None:
        return MePlace(home / ME_FILE, HomeSettings, "everywhere in this home", "")
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
    """Store values about the owner in one place; values not given are kept.

    Raises:
        ConfigError: The file cannot be changed; it is unchanged.
    """
    texts = {f"{place.prefix}{name}": value for name, value in values.items()}
    if familiar is not None and channel_id:
        return familiar.channels.set_values(channel_id, texts, dry_run=dry_run)
    return set_values(place.path, texts, dry_run=dry_run, root=place.root)


def namesakes(home: Path, name: str) -> list[str]:
    """List the accounts of imported chats that have a name and do not belong to an owner.

    A name proves nothing: anybody may use it.
    """
    authors = set[Author]()
    for familiar_id in list_familiars(home):
        with suppress(FamiliarError), Familiar.load_from_disk(home, familiar_id) as familiar:
            me = familiar.me()
            accounts = imported_accounts(familiar.history, fold(name))
            people = (one for one in accounts if one.platform != CHARACTERS)
            authors.update(one for one in people if me.owner(one) is None)
    return sorted(f"{one.platform}:{one.user_id}" for one in authors)


def with_accounts(home: Path, place: MePlace, accounts: Sequence[str]) -> str:
    """Extend the value of `also` by more accounts.

    Raises:
        UsageError: One of them is not an account, or another owner's.
    """
    authors = [parse_author(account) for account in accounts if account]
    for owner in other_owners(load_written(home / ME_FILE, HomeSettings).settings):
        if place.prefix != f"owners.{owner.account.user_id}." and any(map(owner.is_me, authors)):
            raise UsageError(
                f"{owner.name} has one of these accounts already; nothing was changed",
                hint=f"Look: `familiar me --as {owner.account.user_id}`.",
            )
    there = () if "" in accounts else _source_of(place).get("also", ())
    result = dict.fromkeys([*there, *(f"{a.platform}:{a.user_id}" for a in authors)])
    return json.dumps(list(result), ensure_ascii=False)


def forget_me(place: MePlace, *, dry_run: bool = False) -> Edit:
    """Remove everything about the owner from one file.

    Raises:
        NotFoundError: It says nothing.
    """
    tables: Any = _source_of(place)
    keys = [f"{place.prefix}{name}" for name in NAMES if name in tables]
    if place.prefix.startswith("owners.") and tables:
        keys = [place.prefix.removesuffix(".")]
    if not keys:
        raise NotFoundError(
            f"{place.path.name!r} contains nothing about you; nothing was changed",
            hint="`familiar me` shows who you are, and where each value comes from.",
        )
    return unset_values(place.path, keys, dry_run=dry_run, root=place.root)


def _source_of(place: MePlace) -> Any:  # noqa: ANN401  # a table of TOML
    settings: FileSettings[Any] = load_written(place.path, place.root)
    tables: Any = settings.tables
    for part in filter(None, place.prefix.split(".")):
        tables = tables.get(part, {})
    return tables


def hint_of_me(familiar: Familiar, author: Author | None) -> str:
    """Build a hint on how to introduce oneself, for a first message without a name."""
    try:
        me = familiar.me()
    except ConfigError:
        return ""
    if author is None or author.display_name or not me.is_me(author):
        return ""
    if familiar.history.has_speaker(author):
        return ""
    return f"You are called {me.name_of(author)!r}; `familiar me --name NAME` says who you are."
