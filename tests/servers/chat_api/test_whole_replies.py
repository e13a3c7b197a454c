"""A program that wants a whole reply has one, whatever the model server streams."""

from __future__ import annotations

import json

from tests.support.cases import each
from tests.support.server import Script, chunk, sse
from tests.support.serving import serving, user
from tests.support.world import live

END = {"index": 0, "delta": {}, "finish_reason": "stop"}


@each("last", [{"created": "2024-01-01", "choices": [END]}, {"created": None, "choices": [None]}])
def test_a_reply_that_is_streamed_unasked_is_put_together(last, serve) -> None:
    live("ada")
    serve(Script([sse(chunk("Hello."), chunk(finish_reason="stop"), last, "[DONE]")]))
    with serving() as server:
        reply = server.post(model="ada+memory", messages=[user("Hi")])
    assert reply.status_code == 200, reply.text
    assert json.loads(reply.text)["choices"][0]["message"]["content"] == "Hello."
