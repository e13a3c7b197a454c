"""A response of many short lines is split in time that grows with its size alone."""

from __future__ import annotations

import json
from time import process_time

from familiar_cli.llm.reply import EventSplitter


def test_an_object_of_many_lines_is_one_event_and_takes_little_time() -> None:
    text = b'{"choices": [{}\n' + b",{}\n" * 30_000 + b"]}"
    splitter, events, begin_s = EventSplitter(), [], process_time()
    for at in range(0, len(text), 4096):
        events += splitter.feed(text[at : at + 4096])
    events += splitter.close()
    assert process_time() - begin_s < 8
    assert [event.value for event in events] == [json.loads(text)]
