"""A model that is told some names as others."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.llm.types import Renaming, ScriptedModel

SHOWN = {"cli-zqx": "cli-me", "cli zqx": "cli user"}


def renaming(*replies: str) -> Renaming:
    return Renaming(ScriptedModel(replies), SHOWN, {"cli-me": "cli-zqx"})


@given(st.lists(st.sampled_from(["people/cli-zqx.md", "\n# cli zqx\n", "(cli-zqx)", " x "])))
def test_no_word_goes_out_that_is_shown_as_another(parts) -> None:
    text = " ".join(parts)
    schema = {"enum": parts}
    sent = renaming().prepare([{"role": "user", "content": text}], reply_schema=schema)

    assert "zqx" not in sent.body.decode()


def test_words_that_only_look_like_it_stay() -> None:
    sent = renaming().prepare([{"role": "user", "content": "cli-zqxy acli-zqx cli-zqx-b"}])

    assert "cli-zqxy acli-zqx cli-zqx-b" in sent.body.decode()


def test_a_reply_is_read_as_what_was_meant() -> None:
    model = renaming('{"file": "people/cli-me.md"}')
    sent = model.prepare([{"role": "user", "content": "Which file?"}], stream=False)

    assert asyncio.run(model.complete(sent)).text == '{"file": "people/cli-zqx.md"}'
