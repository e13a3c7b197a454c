"""What clients' settings have to say."""

from __future__ import annotations

import json
import sys

import pytest

from familiar_cli.base.config.environment import install_command
from familiar_cli.servers.mcp.clients import CLIENTS
from tests.support.world import data, home, live, run


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_is_told_which_familiar_of_which_home(client):
    live()
    config = json.loads(run("mcp", "--print-config", client).stdout)
    [servers] = config.values()
    [(name, server)] = servers.items()
    assert name == "familiar-ada"
    assert server["args"] == ["mcp", "--home", str(home()), "--familiar", "ada"]


def test_options_of_the_server_are_passed_on():
    live()
    options = ("--allow-write", "--channel", "dm-42")
    found = data("mcp", "--print-config", "cursor", *options)
    [server] = found["config"]["mcpServers"].values()
    assert server["args"][-3:] == ["--channel", "dm-42", "--allow-write"]


def test_a_client_that_nobody_knows_is_named():
    live()
    result = run("mcp", "--print-config", "emacs")
    assert result.exit_code == 2
    assert "'emacs'" in result.stderr


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    live()
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = run("mcp")
    assert result.exit_code == 3
    assert install_command("mcp") in result.stderr
