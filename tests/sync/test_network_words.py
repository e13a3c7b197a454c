"""What a user is told when a connection fails."""

from __future__ import annotations

import pytest

from familiar_cli.sync.git_remotes import GitRemote, _network_words
from familiar_cli.sync.remotes import read_address


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError("('Connection aborted.', RemoteDisconnected('Remote end closed'))"), "broke"),
        (OSError("HTTPSConnectionPool: NewConnectionError(<x.y object>): refused"), "refused"),
        (OSError("MaxRetryError(ReadTimeoutError('Read timed out'))"), "in time"),
        (OSError("SSLError(CERTIFICATE_VERIFY_FAILED)"), "certificate"),
        (OSError("unexpected http resp 500"), "unexpected http resp 500"),
        (OSError(), "the connection broke"),
    ],
)
def test_a_broken_connection_is_told_without_names_of_classes(error, words) -> None:
    told = _network_words(error)
    assert words in told
    assert "Error(" not in told


def test_a_refused_ssh_key_is_told_with_what_to_do_about_keys() -> None:
    remote = GitRemote(read_address("me@example.org:ada.git"), None)
    assert "ssh-add" in remote._unreachable("git@host: Permission denied (publickey).").hint
