"""Example dialogues become blocks of messages."""

from __future__ import annotations

from familiar_cli.context.character import Macros, example_blocks
from tests.support.cases import each

MACROS = Macros(char="Aria", user="Zoë")


def blocks(text):
    return [[(line.role[0], line.text) for line in block] for block in example_blocks(text, MACROS)]


@each(
    ("text", "becomes"),
    [
        ("", []),
        ("<START>\n", []),
        ("<START>\n{{user}}: Hi\n{{char}}: Hello", [[("u", "Hi"), ("a", "Hello")]]),
        ("<start>\n{{USER}}: a\n<Start>\n{{Char}}: b", [[("u", "a")], [("a", "b")]]),
        ("{{user}}: no mark", [[("u", "no mark")]]),
        ("<START>\r\n{{user}}: Hi\r\n{{char}}: Ho\r\n", [[("u", "Hi"), ("a", "Ho")]]),
        ("<START>\n<USER>: a\n<BOT>: b", [[("u", "a"), ("a", "b")]]),
        ("<START>\nAria: by name\nZoë: me too", [[("a", "by name"), ("u", "me too")]]),
        ("<START>\n{{char}}: one\ntwo\n\nthree", [[("a", "one\ntwo\n\nthree")]]),
        ("<START>\nAt dusk.\n{{char}}: Hm.", [[("s", "At dusk."), ("a", "Hm.")]]),
        ("<START>\nOnly narration.", [[("s", "Only narration.")]]),
        ("{{char}}: I know {{user}}.", [[("a", "I know Zoë.")]]),
        ("{{char}}: at 10: {{user}}: no", [[("a", "at 10: Zoë: no")]]),
    ],
)
def test_an_example_becomes(text, becomes) -> None:
    assert blocks(text) == becomes
