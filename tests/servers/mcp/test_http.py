"""The memory at `/mcp` of `familiar serve`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from mcp import Client

from familiar_cli.base.config.environment import install_command
from tests.support.clients import called
from tests.support.serving import serving
from tests.support.world import data, live, run

HEADERS = {"accept": "application/json, text/event-stream"}
BO = {"people/bo": "# Bo\n\n- Bo likes green tea.\n"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def test_a_request_without_any_session_is_answered():
    live(**BO)
    search = {"name": "memory_search", "arguments": {"query": "green tea"}}
    with serving() as server:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": search}
        reply = server.client.post("/mcp", json=body, headers=HEADERS)
    [found] = reply.json()["result"]["structuredContent"]["results"]
    assert found["path"] == "people/bo.md"


async def test_the_sdk_s_client_lists_and_calls():
    live(**BO)
    with serving() as server:
        async with Client(f"{server.url}/mcp") as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            found = await called(client, "memory_read", path="people/bo.md")
    assert "memory_search" in names
    assert found["results"][0]["path"] == "people/bo.md"


def test_several_familiars_are_told_apart_by_their_path():
    live(**BO)
    live("bob", **{"topics/coffee": "# Coffee\n\n- Coffee.\n"})

    def read(server: Any, path: str) -> Any:
        call = {"name": "memory_list", "arguments": {}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        return server.client.post(path, json=body, headers=HEADERS)

    with serving() as server:
        for address, path in (("/ada", "people/bo.md"), ("/bob", "topics/coffee.md")):
            for named in (address, f"?familiar={address[1:]}"):
                assert [one["path"] for one in _results(read(server, f"/mcp{named}"))] == [path]
        unclear, unknown = read(server, "/mcp"), read(server, "/mcp/eve")
        assert run("use", "bob").exit_code == 0
        assert [one["path"] for one in _results(read(server, "/mcp"))] == ["topics/coffee.md"]
    assert (unclear.status_code, unknown.status_code) == (400, 404)
    assert "/mcp?familiar=ada" in unclear.json()["error"]["message"]


def test_a_second_familiar_does_not_break_clients_of_the_first():
    live(**BO)
    call = {"name": "memory_list", "arguments": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    with serving() as server:
        before = server.client.post("/mcp", json=body, headers=HEADERS)
        live("bob", **{"topics/coffee": "# Coffee\n\n- Coffee.\n"})
        after = server.client.post("/mcp", json=body, headers=HEADERS)
    assert _results(before) == _results(after) != []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": ""}, 401),
        ({}, 200),
    ],
)
def test_the_rules_of_the_server_hold_here_too(headers, status):
    live(**BO)
    with serving(tokens=("secret",)) as server:
        sent = {**HEADERS, "authorization": "Bearer secret", **headers}
        assert server.client.post("/mcp", json=LIST, headers=sent).status_code == status


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_is_no_session_to_listen_to_or_to_end(method):
    live(**BO)
    with serving() as server:
        assert server.client.request(method, "/mcp", headers=HEADERS).status_code == 405


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_each_client_takes_back_its_own_plans_only(mode):
    live(**BO)
    path, text = "people/bo.md", "# Bo\n\n- Bo likes {}.\n"
    with serving() as server:
        url = f"{server.url}/mcp"
        async with Client(url, mode=mode) as one, Client(url, mode=mode) as two:
            mine = await called(one, "memory_update", path=path, content=text.format("rum"))
            same = await called(one, "memory_update", path=path, content=text.format("gin"))
            other = await called(two, "memory_update", path=path, content=text.format("ale"))
            nothing_yet = await two.call_tool("memory_undo", {"all": True})
            undone = await two.call_tool("memory_undo", {})
    plans = {plan["id"] for plan in data("review", "list")["plans"]}
    assert mine["results"][0]["plan"] == same["results"][0]["plan"]
    assert other["results"][0]["plan"] not in plans
    assert plans == {mine["results"][0]["plan"]}
    assert not nothing_yet.is_error
    assert undone.is_error


async def test_several_clients_at_once_lose_nothing():
    live(**{f"notes/{n}": f"# {n}\n\n- word{n} is here.\n" for n in range(6)})

    async def ask(url: str, number: int) -> None:
        async with Client(f"{url}/mcp") as client:
            for _ in range(4):
                found = await called(client, "memory_read", path=f"notes/{number}.md")
                assert f"word{number} " in found["results"][0]["text"]

    with serving() as server:
        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(ask(server.url, number))


def _results(reply: Any) -> list[dict[str, Any]]:
    assert reply.status_code == 200, reply.text
    return reply.json()["result"]["structuredContent"]["results"]


def test_without_the_package_the_server_starts_and_says_what_is_missing(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "familiar_cli.servers.mcp.transports", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    live(**BO)
    with serving() as server:
        reply = server.client.post("/mcp", json=LIST, headers=HEADERS)
        assert server.client.get("/v1/models").status_code == 200
    assert reply.status_code == 501
    assert install_command("mcp") in reply.json()["error"]["message"]
