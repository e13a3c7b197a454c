"""The channels that a familiar listens to."""

from __future__ import annotations

import threading

import pytest

from familiar_cli.base.config.channel import Subscription, SubscriptionRegistry
from familiar_cli.base.errors import ConfigError


@pytest.fixture
def registry(tmp_path):
    return SubscriptionRegistry(tmp_path / "ada" / "subscriptions.toml")


def test_looking_makes_no_file(registry) -> None:
    assert registry.all() == []
    assert not registry.path.exists()


def test_a_channel_is_listened_to_until_it_is_not(registry) -> None:
    assert registry.add("42")
    assert registry.add("42", "voice")
    assert not registry.add("42")
    assert registry.listens_to("42") == ("text", "voice")

    assert registry.remove("42")
    assert not registry.remove("42")
    assert registry.all() == []


def test_another_process_reads_what_was_written(registry) -> None:
    registry.add('a "quoted" id\n', "voice")

    assert SubscriptionRegistry(registry.path).all() == [
        Subscription('a "quoted" id\n', "voice"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "subscription = 1",
        "[[subscription]]\nchannel = 'x'",
        "[[subscription]]\nchannel_id = 1",
        "[[subscription]]\nchannel_id = 'x'\nmodality = 'smell'",
        "not toml",
        "subscription = ['x']",
        "[[subscription]]\nchannel_id = ['x']",
    ],
)
def test_a_broken_file_is_told_and_stays(registry, text) -> None:
    registry.path.parent.mkdir()
    registry.path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match="subscriptions"):
        registry.add("42")
    assert registry.path.read_text("utf-8") == text


def test_no_subscription_is_lost_between_writers(registry) -> None:
    threads = [threading.Thread(target=registry.add, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(registry.all()) == 8
