"""One pool keeps familiars open for servers: what a person changes reaches the next request."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest

from familiar_cli.actions.talk.channels import hear
from familiar_cli.base.errors import NotFoundError
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar
from familiar_cli.servers.familiar_pool import FamiliarPool
from tests.support.world import home, live, run


class Watched(Familiar):
    """A familiar that notes whether it was closed."""

    is_closed = False

    async def aclose(self) -> None:
        self.is_closed = True
        await super().aclose()


@pytest.fixture
def pool():
    live("ada")
    return FamiliarPool(home(), Watched)


async def test_a_familiar_is_opened_once(pool) -> None:
    async with pool.lease("ada") as first, pool.lease(None) as second:
        assert first is second
    async with pool.lease("ada") as third:
        assert third is first
    assert not first.is_closed
    await pool.aclose()
    assert first.is_closed


async def test_the_least_recently_used_are_closed_and_none_that_is_in_use() -> None:
    for name in ("ada", "bo", "cy"):
        live(name)
    left: list[str] = []
    few = FamiliarPool(home(), Watched, most_open=1, on_leave=left.append)
    async with few.lease("ada") as ada, few.lease("bo") as bo:
        assert (ada.is_closed, bo.is_closed) == (False, False)
    async with few.lease("cy") as cy:
        assert (ada.is_closed, bo.is_closed, cy.is_closed) == (True, True, False)
    async with few.lease("ada") as again:
        assert (again is ada, cy.is_closed) == (False, True)
    assert left == ["bo", "ada", "cy", "ada"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="lists open files as Linux does")
async def test_work_that_comes_late_to_a_closed_familiar_leaves_no_file_open(pool) -> None:
    async with pool.lease("ada") as ada:
        hear(ada, Said("The lighthouse is lit.", None))
        ada.index.build_if_stale(None)
    assert files_of(ada)
    await pool.aclose()
    assert files_of(ada) == []

    assert ada.history.turn(1).content == "The lighthouse is lit."
    ada.index.use(lambda _: None)
    assert files_of(ada) == []


def files_of(familiar: Familiar) -> list[str]:
    """List the files of a familiar that this process holds open."""
    targets = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them
            targets.append(str(descriptor.readlink()))
    return [target for target in targets if target.startswith(str(familiar.paths.root))]


@pytest.mark.parametrize(
    "argv", [("me", "--name", "Zelda"), ("config", "set", "name", "Zelda")], ids=" ".join
)
async def test_a_setting_that_was_read_opens_it_anew_and_the_last_user_closes_the_old_one(
    pool, argv
) -> None:
    async with pool.lease("ada") as old:
        assert old.me().name != "Zelda"
        assert old.name != "Zelda"
        assert run(*argv).exit_code == 0
        async with pool.lease("ada") as new:
            assert "Zelda" in (new.me().name, new.name)
            assert new is not old
            assert not old.is_closed
    assert old.is_closed
    assert not new.is_closed


async def test_a_key_that_changed_reaches_the_next_model(pool, tmp_path, monkeypatch) -> None:
    keys = tmp_path / "keys.toml"
    monkeypatch.setenv("FAMILIAR_KEYS", str(keys))
    async with pool.lease("ada") as old:
        old.models.open()
        keys.write_text('OPENROUTER_API_KEY = "x"\n')
    async with pool.lease("ada") as new:
        assert new is not old


async def test_a_setting_that_nobody_read_changes_nothing(pool) -> None:
    async with pool.lease("ada") as old:
        pass
    assert run("me", "--name", "Zelda").exit_code == 0
    async with pool.lease("ada") as new:
        assert new is old


def test_threads_have_it_one_after_another(pool) -> None:
    began, may_end, held = threading.Event(), threading.Event(), []

    def work(name: str) -> None:
        with pool.hold("ada"):
            held.append(name)
            began.set()
            may_end.wait(10)
            held.append(name)

    first = threading.Thread(target=work, args=("first",))
    first.start()
    assert began.wait(10)
    second = threading.Thread(target=work, args=("second",))
    second.start()
    may_end.set()
    first.join()
    second.join()
    assert held == ["first", "first", "second", "second"]


def test_who_is_not_there_is_not_found(pool) -> None:
    with pytest.raises(NotFoundError), pool.hold("bob"):
        pass
