"""Each way to a git remote: what it lists, brings and sends, with git itself on the other side."""

from __future__ import annotations

import shutil

import pytest

from familiar_cli.base.errors import (
    FamiliarError,
    RemoteDamagedError,
    RemoteUnreachableError,
    UsageError,
)
from familiar_cli.store.journal.exchange import JournalExchange
from familiar_cli.store.memory.store.store import hold_lock
from familiar_cli.sync.begin import open_transport
from familiar_cli.sync.remotes import read_address
from tests.support.cases import each
from tests.support.journals import World
from tests.support.remotes import (
    HAS_GIT,
    bare,
    bare_by_hand,
    git,
    http_server,
    ssh_stand_in,
)

needs_git = pytest.mark.skipif(not HAS_GIT, reason="there is no git program")
OURS = "refs/heads/memory/one-1111"


def exchange_of(world: World) -> JournalExchange:
    lock_path = world.store.lock_path
    return JournalExchange(world.journal.repository, lambda: hold_lock(lock_path, 10))


@pytest.fixture(params=["path", "file", "ssh", "scp", "http"])
def address(request, tmp_path, monkeypatch):
    """The address of an empty remote, reached each way."""
    if request.param == "path" and not HAS_GIT:
        yield str(bare_by_hand(tmp_path / "hub.git"))
        return
    if not HAS_GIT:
        pytest.skip("there is no git program")
    there = bare(tmp_path / "hub.git")
    git(there, "config", "http.receivepack", "true")
    monkeypatch.setenv("GIT_SSH_COMMAND", ssh_stand_in(tmp_path))
    forms = {
        "path": str(there),
        "file": there.as_uri(),
        "ssh": f"ssh://localhost{there}",
        "scp": f"me@localhost:{there}",
    }
    if request.param in forms:
        yield forms[request.param]
        return
    with http_server(tmp_path) as url:
        yield f"{url}/hub.git"


@pytest.fixture
def remote(address, world):
    exchange = exchange_of(world)
    transport = open_transport(read_address(address), exchange)
    yield transport
    transport.close()
    exchange.repository.close()


@pytest.fixture
def other(tmp_path):
    (tmp_path / "other").mkdir()
    world = World(tmp_path / "other")
    yield world
    world.journal.repository.close()


def fetched(world: World, address: str, ref: str) -> str:
    """Bring what a ref names into another journal, and return its id."""
    exchange = exchange_of(world)
    world.journal.repository.exists or world.journal.repository.create()
    transport = open_transport(read_address(address), exchange)
    id_ = transport.refs()[ref]
    with exchange.incoming() as incoming:
        transport.fetch([id_], [], incoming)
        incoming.accept([id_])
    transport.close()
    return id_


def test_an_empty_remote_has_no_refs(remote) -> None:
    assert remote.refs() == {}


def test_what_was_pushed_is_listed_and_can_be_fetched_elsewhere(
    world, remote, address, other
) -> None:
    head = world.commit("first", a="a\n", people__bo="bo\n")
    assert [pushed.refused for pushed in remote.push({OURS: head})] == [""]
    assert remote.refs() == {OURS: head}
    assert fetched(other, address, OURS) == head
    assert other.journal.repository.file_at(head, "people/bo.md") == b"bo\n"


def test_only_what_is_new_is_sent_and_fetched(world, remote, address, other) -> None:
    remote.push({OURS: world.commit("first", a="a\n")})
    fetched(other, address, OURS)
    head = world.commit("second", a="a\nb\n")
    assert [pushed.refused for pushed in remote.push({OURS: head})] == [""]
    assert fetched(other, address, OURS) == head
    assert other.journal.repository.file_at(head, "a.md") == b"a\nb\n"


@needs_git
def test_a_remote_may_keep_its_objects_in_another_repository(world, other, tmp_path) -> None:
    there = bare(tmp_path / "hub.git")
    first = open_transport(read_address(str(there)), exchange_of(world))
    head = world.commit("first", a="a\n", people__bo="bo\n")
    first.push({OURS: head})
    first.close()
    shared = tmp_path / "shared.git"
    git(tmp_path, "clone", "-q", "--bare", "--shared", str(there), str(shared))
    assert fetched(other, str(shared), OURS) == head
    assert other.journal.repository.file_at(head, "people/bo.md") == b"bo\n"


def test_many_objects_travel_as_a_pack(world, remote, address, other) -> None:
    head = world.commit("many", **{f"topics__t{n}": f"{n}\n" for n in range(80)})
    remote.push({OURS: head})
    fetched(other, address, OURS)
    assert other.journal.repository.file_at(head, "topics/t79.md") == b"79\n"


def test_a_ref_that_holds_more_is_never_moved_back(world, remote) -> None:
    first = world.commit("first", a="a\n")
    second = world.commit("second", a="b\n")
    remote.push({OURS: second})
    (pushed,) = remote.push({OURS: first})
    assert "not an ancestor" in pushed.refused
    assert remote.refs() == {OURS: second}


def test_a_ref_that_names_what_is_not_known_here_is_left_alone(
    world, remote, address, other
) -> None:
    theirs = other.commit("theirs", a="theirs\n")
    open_transport(read_address(address), exchange_of(other)).push({OURS: theirs})
    (pushed,) = remote.push({OURS: world.commit("ours", a="ours\n")})
    assert "not known here" in pushed.refused
    assert remote.refs() == {OURS: theirs}


@needs_git
def test_git_finds_nothing_wrong_with_what_was_sent(world, remote, tmp_path) -> None:
    for n in range(3):
        remote.push({OURS: world.commit(f"change {n}", a=f"{n}\n", deep__b=f"{n}\n")})
    assert git(tmp_path / "hub.git", "fsck", "--strict", "--full") == ""
    assert git(tmp_path / "hub.git", "log", "--format=%s", OURS).split("\n")[0] == "change 2"


@needs_git
def test_packed_refs_and_packs_of_the_remote_are_read(world, remote, tmp_path, address, other):
    head = world.commit("first", a="a\n")
    remote.push({OURS: head})
    git(tmp_path / "hub.git", "gc", "-q")
    assert remote.refs() == {OURS: head}
    assert fetched(other, address, OURS) == head
    second = world.commit("second", a="b\n")
    assert [pushed.refused for pushed in remote.push({OURS: second})] == [""]
    assert remote.refs() == {OURS: second}


@needs_git
def test_a_plain_clone_shows_main(world, tmp_path) -> None:
    there = bare(tmp_path / "hub.git", "--initial-branch=master")
    transport = open_transport(read_address(str(there)), exchange_of(world))
    transport.push({"refs/heads/main": world.commit("first", a="# A\n")})
    git(tmp_path, "clone", "-q", str(there), "clone")
    assert (tmp_path / "clone" / "a.md").read_text() == "# A\n"


@needs_git
def test_what_is_missing_at_the_remote_is_noticed_and_nothing_is_taken_in(
    world, other, tmp_path
) -> None:
    there = bare(tmp_path / "hub.git")
    head = world.commit("first", a="a\n")
    open_transport(read_address(str(there)), exchange_of(world)).push({OURS: head})
    blob = git(there, "rev-parse", f"{head}:a.md").strip()
    (there / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(FamiliarError, match="missing"):
        fetched(other, str(there), OURS)
    assert not other.journal.repository.objects.has(head)


@needs_git
def test_a_repository_with_sha256_ids_is_refused(world, tmp_path) -> None:
    there = bare(tmp_path / "hub.git", "--object-format=sha256")
    with pytest.raises(RemoteDamagedError, match="SHA-256"):
        open_transport(read_address(str(there)), exchange_of(world)).refs()


def test_a_path_without_a_repository_is_told(world, tmp_path) -> None:
    with pytest.raises(RemoteUnreachableError, match="nothing at"):
        open_transport(read_address(str(tmp_path / "none")), exchange_of(world))
    with pytest.raises(RemoteUnreachableError, match="no git repository"):
        open_transport(read_address(str(tmp_path)), exchange_of(world))


@needs_git
@pytest.mark.parametrize("secret", ["s3cret", "wrong"])
def test_a_token_opens_a_remote_and_is_never_shown(world, tmp_path, monkeypatch, secret) -> None:
    there = bare(tmp_path / "hub.git")
    git(there, "config", "http.receivepack", "true")
    monkeypatch.setenv("FAMILIAR_SYNC_TOKEN", secret)
    with http_server(tmp_path, login=("git", "s3cret")) as url:
        transport = open_transport(read_address(f"{url}/hub.git"), exchange_of(world))
        if secret == "wrong":
            with pytest.raises(RemoteUnreachableError, match="requires a login") as caught:
                transport.refs()
            assert secret not in f"{caught.value} {caught.value.hint}"
            return
        transport.push({OURS: world.commit("first", a="a\n")})
        assert list(transport.refs()) == [OURS]


@needs_git
def test_gits_own_helpers_open_a_remote(world, tmp_path, monkeypatch) -> None:
    bare(tmp_path / "hub.git")
    config = tmp_path / "gitconfig"
    config.write_text(
        '[credential]\n\thelper = "!f() { echo username=me; echo password=pw; }; f"\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    with http_server(tmp_path, login=("me", "pw")) as url:
        hub = open_transport(read_address(f"{url}/hub.git"), exchange_of(world))
        assert hub.refs() == {}
        hub.close()


@needs_git
def test_a_refused_request_leaves_no_connection_open(world, tmp_path, monkeypatch) -> None:
    from urllib3 import HTTPResponse, PoolManager

    responses: list[HTTPResponse] = []
    request = PoolManager.request

    def requested(self, *args, **more):
        responses.append(request(self, *args, **more))
        return responses[-1]

    monkeypatch.setattr(PoolManager, "request", requested)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    with http_server(tmp_path, login=("me", "pw")) as url:
        hub = open_transport(read_address(f"{url}/hub.git"), exchange_of(world))
        with pytest.raises(RemoteUnreachableError, match="requires a login") as caught:
            hub.refs()
        hub.close()
    assert f"`git ls-remote {url}/hub.git`" in caught.value.hint
    assert [(response.status, response.closed) for response in responses] == [(401, True)]


@needs_git
def test_a_server_that_hangs_up_is_told_with_its_words(world, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GIT_SSH_COMMAND", ssh_stand_in(tmp_path))
    transport = open_transport(read_address(f"ssh://localhost{tmp_path}/none"), exchange_of(world))
    with pytest.raises(RemoteUnreachableError, match=r"could not be reached: .*none"):
        transport.refs()


@each(
    "text",
    [
        "",
        "-x",
        "git://host/x",
        "ssh://-oProxyCommand=x/y",
        "https://me:pw@host/x",
        "ssh://",
        "dir:",
    ],
)
def test_what_is_no_address_is_refused(text) -> None:
    with pytest.raises(UsageError) as caught:
        read_address(text)
    assert "pw" not in str(caught.value)


@each(
    ("text", "kind"),
    [
        ("hub.git", "path"),
        ("~/hub.git", "path"),
        ("file:///srv/hub.git", "path"),
        ("ssh://me@host:2222/hub.git", "ssh"),
        ("me@host:hub.git", "ssh"),
        ("host:hub.git", "ssh"),
        ("https://me@host/hub.git", "http"),
        ("dir:stick", "folder"),
    ],
)
def test_addresses_mean_what_they_mean_to_git(text, kind) -> None:
    assert read_address(text).kind == kind


def test_two_writers_of_one_ref_never_overwrite_each_other(world, tmp_path) -> None:
    there = bare_by_hand(tmp_path / "hub.git")
    transport = open_transport(read_address(str(there)), exchange_of(world))
    head = world.commit("first", a="a\n")
    (there / "refs" / "heads" / "memory").mkdir()
    lock = there / "refs" / "heads" / "memory" / "one-1111.lock"
    lock.write_text("another\n")
    (pushed,) = transport.push({OURS: head})
    assert "another process" in pushed.refused
    shutil.rmtree(there / "refs" / "heads" / "memory")
