from __future__ import annotations

import io
import os
import sys

import pytest

from familiar_cli.base.config.environment import install_command
from familiar_cli.base.errors import RemoteKeyError
from familiar_cli.sync.sealing import PASSPHRASE, SEALED, FileCipher, no_key, read_key
from tests.support.cases import IS_NIGHT, each

pyrage = pytest.importorskip("pyrage")

WORDS = "correct horse battery staple"
CHEAP = (
    b"age-encryption.org/v1\n-> scrypt omZnUv5NOtVFRVZTekfHIg 1\n"
    b"gygUj4IQ/8b+WLovjphTVdYfynAf/m5rCfmeqo19/tY\n"
    b"--- W8gpkkJ5ilf4Ct4xouHLrStljD/PgHSz6sKmqrD51Vg\n"
) + bytes.fromhex(
    "ab0225d7d07696892f4028ce569756e2aafe30e57f8a07b4e5b0d194edf3b7316278b5893d51067ca9"
)
"""What was sealed with `WORDS` and the least work; what we seal takes a second, and one to open."""


def identity() -> tuple[str, str]:
    """Return a recipient, and the secret that opens what is sealed for it."""
    made = pyrage.x25519.Identity.generate()
    return str(made.to_public()), str(made)


def sealed(sealing, content: bytes) -> bytes:
    target = io.BytesIO()
    sealing.seal(io.BytesIO(content), target)
    return target.getvalue()


def opened(sealing, content: bytes) -> bytes:
    target = io.BytesIO()
    sealing.open(io.BytesIO(content), target)
    return target.getvalue()


def never() -> str:
    raise AssertionError("the key was asked for")


def test_what_is_sealed_for_a_recipient_is_opened_with_its_key_alone() -> None:
    recipient, secret = identity()
    made = sealed(FileCipher([recipient], never), b"likes tea")
    assert made.startswith(SEALED)
    assert b"tea" not in made
    assert opened(FileCipher([recipient], lambda: f"# mine\n{secret}\n"), made) == b"likes tea"


def test_each_of_several_recipients_opens_it() -> None:
    one, two = identity(), identity()
    made = sealed(FileCipher([one[0], two[0]], never), b"likes tea")
    for _, secret in (one, two):
        assert opened(FileCipher([one[0]], lambda secret=secret: secret), made) == b"likes tea"


def test_a_passphrase_seals_and_opens_and_is_asked_for_once(monkeypatch) -> None:
    if not IS_NIGHT:
        made = {(b"likes tea", WORDS): CHEAP}
        monkeypatch.setattr(pyrage.passphrase, "encrypt", lambda *given: made[given])
    asked: list[str] = []
    sealing = FileCipher([PASSPHRASE], lambda: asked.append("") or WORDS)
    assert opened(sealing, sealed(sealing, b"likes tea")) == b"likes tea"
    assert len(asked) == 1


@each("secret", [identity()[1], "not a key", "-----BEGIN nothing"], ids=str.split("another no ssh"))
def test_another_key_opens_nothing_and_is_not_quoted(secret) -> None:
    recipient, _ = identity()
    made = sealed(FileCipher([recipient], never), b"likes tea")
    with pytest.raises(RemoteKeyError) as caught:
        opened(FileCipher([recipient], lambda: secret), made)
    assert secret not in f"{caught.value} {caught.value.hint}"


def test_another_passphrase_opens_nothing() -> None:
    with pytest.raises(RemoteKeyError, match="does not decrypt"):
        opened(FileCipher([PASSPHRASE], lambda: "something else"), CHEAP)


def test_a_word_that_is_no_recipient_is_refused_and_a_secret_is_not_quoted() -> None:
    _, secret = identity()
    with pytest.raises(RemoteKeyError, match="not a recipient") as caught:
        sealed(FileCipher([secret], never), b"x")
    assert secret not in str(caught.value)


def test_without_a_terminal_or_a_file_the_next_step_is_told() -> None:
    with pytest.raises(RemoteKeyError) as caught:
        opened(FileCipher([PASSPHRASE], no_key), SEALED)
    assert "sync.key_file" in caught.value.hint


def test_without_the_extra_the_command_that_adds_it_is_told(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyrage", None)
    with pytest.raises(RemoteKeyError) as caught:
        sealed(FileCipher([PASSPHRASE], lambda: WORDS), b"x")
    assert install_command("sync") in caught.value.hint


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "keys" / "sync.key"
    path.parent.mkdir()
    path.write_text(f"{WORDS}\r\nand more\n")
    path.chmod(0o600)
    return path


def test_the_first_line_of_a_file_is_the_passphrase(key_file) -> None:
    assert opened(FileCipher([], lambda: read_key(key_file)), CHEAP) == b"likes tea"


@pytest.mark.posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_file_that_others_can_read_is_refused(key_file, mode) -> None:
    key_file.chmod(mode)
    with pytest.raises(RemoteKeyError) as caught:
        read_key(key_file)
    assert "chmod 600" in caught.value.hint
    assert WORDS not in str(caught.value)


def test_a_key_beside_what_it_opens_is_refused(key_file) -> None:
    with pytest.raises(RemoteKeyError, match="with the data it decrypts"):
        read_key(key_file, away_from=[key_file.parent])
    assert read_key(key_file, away_from=[key_file.parent / "stick"])


@pytest.mark.posix
def test_a_link_to_a_key_beside_what_it_opens_is_refused(key_file, tmp_path) -> None:
    link = tmp_path / "link"
    link.symlink_to(key_file)
    with pytest.raises(RemoteKeyError, match="with the data it decrypts"):
        read_key(link, away_from=[key_file.parent])


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe"])
def test_a_file_that_holds_no_key_is_refused(key_file, content) -> None:
    key_file.write_bytes(content)
    with pytest.raises(RemoteKeyError):
        read_key(key_file)


def test_a_missing_key_file_is_told(tmp_path) -> None:
    with pytest.raises(RemoteKeyError, match="cannot be read"):
        read_key(tmp_path / "nothing")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_no_key_file(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(RemoteKeyError):
        read_key(tmp_path / "pipe")


def everything_in(folder) -> bytes:
    return b"".join(p.name.encode() + p.read_bytes() for p in folder.iterdir())


def test_what_leaves_the_machine_is_unreadable_names_included(machines) -> None:
    recipient, secret = identity()
    laptop, desktop = machines("laptop-7f3a"), machines("desktop-0b1c")
    laptop.commit("about ann", people__ann_secret="- likes tea\n")
    laptop.push(sealing=FileCipher([recipient], never))
    left = everything_in(laptop.folder)
    for word in (b"ann", b"tea", b"people", b"refs/heads", laptop.head.encode()):
        assert word not in left
    refs = desktop.pull(sealing=FileCipher([recipient], lambda: secret))
    assert refs[laptop.ref] == laptop.head
    assert desktop.file_at(laptop.head, "people/ann_secret.md") == b"- likes tea\n"


def test_nothing_decrypted_stays_behind(machines) -> None:
    recipient, secret = identity()
    laptop, desktop = machines("laptop-7f3a"), machines("desktop-0b1c")
    laptop.note("tea")
    laptop.push(sealing=FileCipher([recipient], never))
    desktop.pull(sealing=FileCipher([recipient], lambda: secret))
    for machine in (laptop, desktop):
        assert not list(machine.root.glob("journal.git/incoming-*"))


def test_with_nothing_new_no_key_is_asked_for(machines) -> None:
    recipient, secret = identity()
    laptop, desktop = machines("laptop-7f3a"), machines("desktop-0b1c")
    laptop.note("tea")
    laptop.push(sealing=FileCipher([recipient], never))
    desktop.pull(sealing=FileCipher([recipient], lambda: secret))
    assert desktop.pull(sealing=FileCipher([recipient], never))[laptop.ref] == laptop.head
    before = laptop.bundles()
    laptop.push(sealing=FileCipher([recipient], never))
    assert laptop.bundles() == before


def test_bundles_from_before_encryption_are_replaced_by_encrypted_ones(machines) -> None:
    recipient, secret = identity()
    laptop, desktop = machines("laptop-7f3a"), machines("desktop-0b1c")
    laptop.note("tea")
    laptop.push()
    laptop.push(sealing=FileCipher([recipient], never))
    (only,) = laptop.bundles()
    assert only.endswith(".age")
    assert desktop.pull(sealing=FileCipher([recipient], lambda: secret))[laptop.ref] == laptop.head


def test_an_encrypted_folder_says_so_to_who_has_set_no_key(machines) -> None:
    recipient, secret = identity()
    laptop, desktop = machines("laptop-7f3a"), machines("desktop-0b1c")
    laptop.note("tea")
    laptop.push(sealing=FileCipher([recipient], never))
    with pytest.raises(RemoteKeyError, match="is encrypted"):
        desktop.pull()
    desktop.note("open")
    with pytest.raises(RemoteKeyError, match="nothing was sent"):
        desktop.push(sealing=FileCipher([], lambda: secret))
    assert len(laptop.bundles()) == 1


def test_half_an_encrypted_bundle_waits_without_a_key(machines) -> None:
    recipient, _ = identity()
    laptop, desktop = machines("laptop-7f3a"), machines("desktop-0b1c")
    laptop.note("tea")
    laptop.push(sealing=FileCipher([recipient], never))
    path = laptop.folder / laptop.bundles()[0]
    path.write_bytes(path.read_bytes()[:-10])
    assert desktop.pull(sealing=FileCipher([recipient], never)) == {}
    assert "has not arrived completely" in desktop.told[0]


def test_an_encrypted_folder_takes_nothing_plain(machines) -> None:
    recipient, secret = identity()
    laptop, desktop, mallory = (machines(n) for n in ("laptop-7f3a", "desktop-0b1c", "evil-0000"))
    mallory.note("poison")
    mallory.push()
    laptop.note("tea")
    laptop.push(sealing=FileCipher([recipient], never))
    refs = desktop.pull(sealing=FileCipher([recipient], lambda: secret))
    assert mallory.ref not in refs
    assert refs[laptop.ref] == laptop.head
    (told,) = (text for text in desktop.told if "not encrypted" in text)
    assert "evil-0000" in told


def test_a_bundle_speaks_for_no_other_machine(machines) -> None:
    laptop, mallory = machines("laptop-7f3a"), machines("evil-0000")
    mallory.note("poison")
    mallory.push()
    (name,) = mallory.bundles()
    forged = mallory.folder / name.replace("evil-0000", "laptop-7f3a")
    (mallory.folder / name).rename(forged)
    assert laptop.pull() == {}
    assert "branches of another machine" in laptop.told[0]


def with_factor(content: bytes, factor: int) -> bytes:
    """Return a sealed file that claims another work factor."""
    begin, _, rest = content.partition(b"\n-> scrypt ")
    line, _, rest = rest.partition(b"\n")
    return begin + b"\n-> scrypt " + line.split(b" ")[0] + f" {factor}\n".encode() + rest


def test_one_file_that_costs_gigabytes_to_open_is_named_and_hides_no_other(machines) -> None:
    import hashlib

    laptop, desktop = machines("laptop-7f3a"), machines("desktop-0b1c")
    laptop.note("tea")
    recipient, secret = identity()
    laptop.push(sealing=FileCipher([recipient], never))
    costly = with_factor(CHEAP, 22)
    digest = hashlib.sha256(costly).hexdigest()[:16]
    (laptop.folder / f"evil-0000.000001.{digest}.bundle.age").write_bytes(costly)
    refs = desktop.pull(sealing=FileCipher([recipient], lambda: secret))
    assert refs[laptop.ref] == laptop.head
    assert "scrypt factor is 22" in desktop.told[0]
    assert "evil-0000" in desktop.told[0]


def test_a_file_for_another_key_hides_no_other(machines) -> None:
    (recipient, secret), (stranger, _) = identity(), identity()
    laptop, desktop, other = (machines(n) for n in ("laptop-7f3a", "desktop-0b1c", "evil-0000"))
    other.note("poison")
    other.push(sealing=FileCipher([stranger], never))
    (name,) = other.bundles()
    hidden = (other.folder / name).rename(other.root / name)
    laptop.note("tea")
    laptop.push(sealing=FileCipher([recipient], never))
    hidden.rename(other.folder / name)
    refs = desktop.pull(sealing=FileCipher([recipient], lambda: secret))
    assert refs[laptop.ref] == laptop.head
    assert "cannot be opened" in desktop.told[0]


def test_old_bundles_stay_readable_with_the_old_key() -> None:
    old, new = identity(), identity()
    made = sealed(FileCipher([old[0]], never), b"likes tea")
    sealing = FileCipher([new[0]], lambda: new[1], lambda: (old[1],))
    assert opened(sealing, made) == b"likes tea"
    assert opened(sealing, sealed(sealing, b"later")) == b"later"


def test_rekeyed_bundles_are_opened_with_the_new_key_alone(machines) -> None:
    old, new = identity(), identity()
    laptop, desktop = machines("laptop-7f3a"), machines("desktop-0b1c")
    laptop.note("tea")
    laptop.push(sealing=FileCipher([old[0]], lambda: old[1]))
    laptop.note("coffee")
    laptop.push(sealing=FileCipher([old[0]], lambda: old[1]))
    both = FileCipher([new[0]], lambda: new[1], lambda: (old[1],))
    with laptop.transport(sealing=both) as transport:
        assert transport.rewrite(laptop.instance)
    assert len(laptop.own_bundles()) == 1
    refs = desktop.pull(sealing=FileCipher([new[0]], lambda: new[1]))
    assert refs[laptop.ref] == laptop.head
