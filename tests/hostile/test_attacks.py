"""Every attack of the table is answered as it says there, and learns nothing that is private."""

from __future__ import annotations

from tests.hostile.attacks import ATTACKS, CHAT, SECRET, said
from tests.support.serving import serving
from tests.support.world import live

PRIVATE = {
    "X-Familiar-Channel": "dm-anna",
    "X-Familiar-User": "irc:anna",
    "X-Familiar-Kind": "dm",
    "Content-Type": "application/json",
}


def test_sixty_attacks_end_as_the_table_says_and_none_learns_the_secret(serve) -> None:
    live("ada")
    model = serve(*["Noted."] * 40)
    wrong = []
    with serving() as server:
        told = server.client.post(CHAT, content=said(f"My word is {SECRET}"), headers=PRIVATE)
        assert told.status_code == 200
        before = len(model.requests)
        for attack in ATTACKS:
            headers = {"Content-Type": "application/json", "Accept": "text/html", **attack.headers}
            reply = server.client.request(
                attack.method, attack.path, content=attack.body(), headers=headers
            )
            leaks = SECRET in _without_query(reply.text)
            is_long = reply.status_code >= 400 and len(reply.content) > 10_000
            if reply.status_code != attack.status or leaks or is_long:
                wrong.append((attack.name, reply.status_code, leaks, reply.text[:200]))
        assert server.client.get("/health").status_code == 200
    prompts = [request.body.decode("utf-8", "replace") for request in model.requests[before:]]
    assert not wrong, "\n".join(map(str, wrong))
    assert not any(SECRET in prompt for prompt in prompts)
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= 60


def _without_query(text: str) -> str:
    """Return an answer of a search without the words that were searched for."""
    return text.replace(f'"query": "{SECRET}"', "")
