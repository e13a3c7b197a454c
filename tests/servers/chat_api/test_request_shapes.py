"""Open WebUI and LibreChat, as they send their requests: what their page shows is what is kept."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

import pytest

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history.store import HistoryStore
from tests.servers.chat_api.test_clients import FOLLOW_UPS, LIBRE_CHAT, OPEN_WEBUI, TITLE
from tests.support.serving import Serving, assistant, serving, user
from tests.support.world import home, live


@dataclass
class Page:
    """A chat as a program's page shows it; the whole of it goes with each request."""

    api: Serving
    headers: dict[str, str]
    fields: dict[str, object]
    shown: list[dict[str, str]] = field(default_factory=list)
    channel: str = ""

    def send(self, text: str) -> None:
        self.shown.append(user(text))
        self._reply()

    def regenerate(self) -> None:
        self.shown.pop()
        self._reply()

    def edit(self, number: int, text: str) -> None:
        """Send an earlier message in other words; what followed it is on another branch now."""
        self.shown[number:] = [user(text)]
        self._reply()

    def job(self, text: str) -> None:
        fields = self.fields | {"stream": False}
        found = self.api.post(messages=[user(text)], headers=self.headers, **fields)
        assert found.headers["x-familiar-kept"] == "no"

    def _reply(self) -> None:
        fields = self.fields | {"stream": False}
        found = self.api.post(messages=self.shown, headers=self.headers, **fields)
        assert found.status_code == 200, found.text
        self.channel = found.headers["x-familiar-channel"]
        self.shown.append(assistant(found.json()["choices"][0]["message"]["content"]))

    def check(self) -> None:
        with closing(HistoryStore(home() / "ada" / "history.db")) as store:
            turns = store.recent(self.channel, 99, viewer=OWNER)
        assert [turn.content for turn in turns] == [line["content"] for line in self.shown]


@pytest.mark.parametrize(
    ("headers", "fields", "jobs"),
    [
        ({"X-OpenWebUI-Chat-Id": "c-1", "X-OpenWebUI-User-Id": "u-9"}, OPEN_WEBUI, [FOLLOW_UPS]),
        ({}, OPEN_WEBUI, [FOLLOW_UPS]),
        ({"X-LibreChat-Conversation-Id": "6f1c"}, LIBRE_CHAT, []),
        ({}, LIBRE_CHAT, [TITLE]),
    ],
    ids=["open-webui", "open-webui-without-headers", "librechat", "librechat-without-headers"],
)
def test_what_a_page_shows_is_what_is_kept(serve, headers, fields, jobs) -> None:
    live("ada")
    serve(*(f"Reply {n} of the script." for n in range(20)))
    fields = {key: value for key, value in fields.items() if key != "stream_options"}
    with serving() as api:
        page = Page(api, headers, fields)
        for act, *values in (
            (page.send, "Is the lighthouse lit tonight?"),
            *((page.job, job) for job in jobs),
            (page.send, "And who keeps it?"),
            (page.regenerate,),
            (page.send, "Good. Is there a boat?"),
            (page.edit, 4, "Good. Is there a bridge?"),
            (page.send, "Then I will walk."),
            (page.regenerate,),
            (page.edit, 2, "And who lives there?"),
            (page.send, "Thank you."),
        ):
            act(*values)
            page.check()
