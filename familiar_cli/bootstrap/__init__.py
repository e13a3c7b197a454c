"""The bootstrap room: foreign formats in and out: cards, lorebooks, templates."""
