"""A Discord bot with a memory: it listens in every channel, and replies when it is addressed.

    pip install discord.py
    familiar init ada --template companion       # then choose a model
    DISCORD_TOKEN=... python discord_bot.py ada

In Discord's developer portal, turn on the bot's privileged intent "Message Content".
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

import discord

from familiar_cli import Author, Familiar, FamiliarError, Said, begin_due_work, hear, take_turn

MESSAGE_CHARS = 2000  # Discord's limit


def kind_of(channel: discord.abc.Messageable) -> str:
    """Tell how private a channel is; what is said in a private one stays there."""
    if isinstance(channel, discord.DMChannel):
        return "dm"
    is_thread = isinstance(channel, discord.Thread)
    everyone = channel.guild.default_role
    if (is_thread and channel.is_private()) or not channel.permissions_for(everyone).view_channel:
        return "private"
    return "thread" if is_thread else "text"


class Bot(discord.Client):
    """Passes messages to a familiar, and its replies to Discord."""

    def __init__(self, familiar: Familiar) -> None:
        intents = discord.Intents.default()
        intents.message_content = True
        # Whatever the model writes, it notifies nobody.
        super().__init__(intents=intents, allowed_mentions=discord.AllowedMentions.none())
        self.familiar = familiar

    async def on_message(self, message: discord.Message) -> None:
        """Reply to a message for the bot, and remember any other."""
        user, text = message.author, message.clean_content
        if user.bot or not text.strip():
            return
        author = Author("discord", str(user.id), user.name, user.display_name)
        channel, kind = f"discord-{message.channel.id}", kind_of(message.channel)
        said = Said(text, author, channel, kind=kind, source="bot", message_id=str(message.id))
        try:
            if kind != "dm" and self.user not in message.mentions:
                hear(self.familiar, said, message.created_at)
                return
            async with message.channel.typing():
                result = await take_turn(self.familiar, said)
        except FamiliarError as error:
            print(f"{channel}: {error}", file=sys.stderr)
            return
        for start in range(0, len(result.text), MESSAGE_CHARS):
            await message.channel.send(result.text[start : start + MESSAGE_CHARS])
        begin_due_work(self.familiar, result)


async def main(name: str) -> None:
    """Run the bot until Ctrl-C, then finish its background work."""
    async with Familiar.load_from_disk(familiar=name) as familiar:
        try:
            async with Bot(familiar) as bot:
                await bot.start(os.environ["DISCORD_TOKEN"])
        finally:
            await familiar.jobs.finish(limit_s=120)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1]))
