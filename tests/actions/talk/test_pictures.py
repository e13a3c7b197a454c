"""Pictures on their way to a model."""

from __future__ import annotations

import json

import pytest

from familiar_cli.actions.talk.pictures import PictureModel, picture_address, picture_part
from familiar_cli.base.errors import UsageError
from familiar_cli.llm.types import ScriptedModel


def test_pictures_go_with_the_newest_message_of_a_person_whatever_they_hold() -> None:
    part = {**picture_part("data:image/png;base64,AA=="), "detail": "\ud800"}
    said = [{"role": "user", "content": "Look"}, {"role": "assistant", "content": "Yes?"}]
    sent = PictureModel(ScriptedModel([]), [part]).prepare(said)
    content = json.loads(sent.body)["messages"][0]["content"]
    assert content[0] == {"type": "text", "text": "Look"}
    assert content[1] == {**part, "detail": "\ufffd"}


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"\x89PNG\r\n", "png"), (b"\xff\xd8\xff\xe0", "jpeg"), (b"RIFF\n\0\0\0WEBP", "webp")],
)
def test_a_picture_is_known_by_its_content(content, kind) -> None:
    assert picture_address("a.txt", content).startswith(f"data:image/{kind};base64,")
    with pytest.raises(UsageError, match=r"'a\.png' is not a picture"):
        picture_address("a.png", b"RIFF" + content)
