"""A format of its own in one file, as somebody would add it: the log of a tide gauge."""

from familiar_cli.imports.contract import Format, certain_if
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, build_chat
from familiar_cli.imports.transcript_lines import text_lines


def _lines(source):
    for number, line in text_lines(source):
        if line and line.startswith("~"):
            name, _, text = line[1:].partition("|")
            yield SourceMessage(text, speaker=name, line=number)


FORMAT = Format(
    name="tide",
    program="Tide",
    forms=("chat",),
    sniff=lambda source: certain_if(source.start.startswith(b"~")),
    read=lambda source, reading: [
        build_chat(source, reading, Program("tide"), SourceChat(lambda: _lines(source)))
    ],
)
