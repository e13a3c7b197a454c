"""How large a foreign file, and what is packed inside it, may be."""

from __future__ import annotations

from typing import Final

from familiar_cli.memory.store.files import MAX_READ_BYTES

MIB: Final = 1024 * 1024
MAX_FILE_BYTES: Final = MAX_READ_BYTES  # a card with many pictures and voices
MAX_CARD_BYTES: Final = 32 * MIB  # the card's JSON, after inflating
MAX_YAML_BYTES: Final = MIB // 2  # YAML is read slowly
MAX_MEMBERS: Final = 10_000  # files in one archive
MAX_TOTAL_BYTES: Final = 512 * MIB  # all files of one archive, after inflating
