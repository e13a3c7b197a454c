"""The imports room: foreign formats in and out: cards, lorebooks, chats, folders."""
