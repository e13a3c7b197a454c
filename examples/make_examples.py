"""Make the example cards. Run it after a change: `python examples/make_examples.py`.

The card that `familiar demo` uses is written into the package, too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import characters
import pictures

from familiar_cli.imports.containers import (
    V2_KEYWORD,
    card_chunks,
    parse_png,
    with_text,
    write_charx,
    write_png,
)

HERE = Path(__file__).parent
DEMO = HERE.parent / "familiar_cli" / "imports" / "demo"


def cards() -> dict[str, bytes]:
    """Return the example cards by the name of their file."""
    return {
        "yuzu.png": v3_png(pictures.yuzu(), characters.YUZU),
        "old-gneiss.png": v2_png(pictures.gneiss(), characters.GNEISS),
        "pomona-vale.json": pretty(characters.POMONA).encode("utf-8"),
        "ilmari.charx": write_charx(
            pretty(characters.ILMARI),
            {
                "assets/icon/images/main.png": pictures.ilmari(),
                "assets/other/images/envelope.png": pictures.envelope(),
            },
        ),
        "pip.yaml": characters.PIP.encode("utf-8"),
    }


def v3_png(picture: bytes, card: dict[str, object]) -> bytes:
    """Return a picture that holds a V3 card, and the same as V2 for older readers."""
    older = card | {"spec": "chara_card_v2", "spec_version": "2.0"}
    chunks = card_chunks(v3_json=compact(card), v2_json=compact(older))
    return write_png(with_text(parse_png(picture, origin="picture"), (), chunks))


def v2_png(picture: bytes, card: dict[str, object]) -> bytes:
    """Return a picture that holds a V2 card alone."""
    chunks = card_chunks(v3_json="", v2_json=compact(card))
    only_v2 = [chunk for chunk in chunks if chunk.content.startswith(V2_KEYWORD.encode() + b"\0")]
    return write_png(with_text(parse_png(picture, origin="picture"), (), only_v2))


def compact(card: dict[str, object]) -> str:
    """Return a card as JSON in as few bytes as it takes."""
    return json.dumps(card, ensure_ascii=False, separators=(",", ":"))


def pretty(card: dict[str, object]) -> str:
    """Return a card as JSON for people."""
    return json.dumps(card, ensure_ascii=False, indent=2) + "\n"


def main() -> None:
    """Write all of them."""
    for name, content in cards().items():
        places = [HERE / "cards" / name]
        if name == "yuzu.png":
            places.append(DEMO / name)
        for place in places:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            print(f"{place.relative_to(HERE.parent)}: {len(content)} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
