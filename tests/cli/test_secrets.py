"""A key or a password in an address, of a server or of a proxy, is shown by no command."""

from __future__ import annotations

import json

from tests.support.cases import each
from tests.support.world import live, run

SECRET = "hunter2"
ADDRESSES = [
    f"http://me:{SECRET}@127.0.0.1:1/v1",
    f"http://me:a/{SECRET}@127.0.0.1:1/v1",
    f"http://me:a@{SECRET}@127.0.0.1:1/v1",
    f"http://me:{SECRET}@127.0.0.1:99999/v1",
    f"http://127.0.0.1:1/v1?api_key={SECRET}",
    f"http://127.0.0.1:99999/v1?api_key={SECRET}",
    f"http://127.0.0.1:1/v1#{SECRET}",
    f"me:{SECRET}@127.0.0.1",
]
COMMANDS = [
    ("config", "show"),
    ("config", "show", "llm.base_url"),
    ("config", "get", "llm.base_url"),
    ("doctor",),
    ("ask", "Hello"),
    ("ask", "Hello", "--dry-run"),
    ("context", "Hello"),
    ("status",),
    ("model", "test"),
]


@each("command", COMMANDS, ids=" ".join)
@each("address", ADDRESSES)
def test_a_secret_in_the_address_of_a_server_is_not_shown(command, address, monkeypatch) -> None:
    live()
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", address)
    for more in ([], ["--json"]):
        result = run(*command, *more)
        assert SECRET not in result.output
        assert "Traceback" not in result.output


@each("address", [a for a in ADDRESSES if "?" in a or "#" in a])
def test_a_secret_in_an_address_of_the_settings_file_is_not_shown(address) -> None:
    root = live()
    (root / "character.toml").write_text(
        f'name = "Ada"\n[llm]\npreset = "custom"\nbase_url = "{address}"\n', encoding="utf-8"
    )
    for command in COMMANDS:
        result = run(*command, "--json")
        assert SECRET not in result.output, command


@each("port", ["99999", "-1", "p"])
def test_a_proxy_with_a_port_out_of_range_is_an_error_of_the_model(port, monkeypatch) -> None:
    live()
    monkeypatch.delenv("FAMILIAR_OFFLINE", raising=False)
    monkeypatch.setenv("HTTP_PROXY", f"http://me:{SECRET}@127.0.0.1:{port}")
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", "http://192.0.2.1/v1")
    for command in (["ask", "Hello"], ["model", "test"]):
        result = run(*command, "--json")
        assert result.exit_code == 6
        assert json.loads(result.stdout)["status"] == "error"
        assert SECRET not in result.output
    checks = json.loads(run("doctor", "--json").stdout)["data"]["checks"]
    (server,) = [check for check in checks if check["name"] == "server"]
    assert server["verdict"] == "fail"
    assert SECRET not in str(server)
