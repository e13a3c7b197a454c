"""Wherever a name becomes a file, it is one that Windows can hold, too."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.config.channel import ChannelConfigs, file_stem
from familiar_cli.base.errors import UnsafePathError, UsageError
from familiar_cli.base.who.identity import Author, check_familiar_id
from familiar_cli.imports.create import id_for
from familiar_cli.imports.import_lorebook import import_lorebook
from familiar_cli.imports.reading import read_book, read_card
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.cards import as_json, v3
from tests.support.cases import each
from tests.support.lorebooks import lore, world

DEVICES = ("con", "prn", "aux", "nul", "com0", "com1", "com9", "lpt0", "lpt1", "lpt9")
UNUSABLE = (
    *DEVICES,
    *map(str.upper, DEVICES),
    "con.md",
    "nul.tar.gz",
    "com¹",
    "lpt³.txt",
    "CONIN$",
    "conout$",
    "aux .md",
    "a.",
    "a ",
    " a",
    "a:b",
    "a:b.md",
    "a<b",
    "a>b",
    'a"b',
    "a|b",
    "a?b",
    "a*b",
    "a\\b",
    "a\tb",
    "a\x00b",
    "a\u202eb",
    "C:",
    "C:\\x",
    "..",
    "\ud800",
    "x" * 256,
    "城" * 86,
)
# Of one name: no device whatever its suffix, no character that Windows or a path gives a meaning.
DEVICE = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\..*)?", re.IGNORECASE
)
FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')

names = st.text(max_size=40) | st.sampled_from(UNUSABLE) | st.from_regex(r"[a-zA-Z.: ]{1,8}")


def holds(name: str) -> bool:
    """Tell whether Windows can hold a file of this name, and ext4, too."""
    return not (
        DEVICE.fullmatch(name)
        or FORBIDDEN.search(name)
        or name != name.strip(" ")
        or name.endswith(".")
        or name in {"", ".", ".."}
        or len(name.encode("utf-8", errors="surrogatepass")) > 255
    )


@each("name", UNUSABLE)
def test_the_rule_of_these_tests_knows_what_is_unusable(name) -> None:
    assert not holds(name) or re.search("[\ud800\u202e]", name)


@each("name", UNUSABLE)
@each("shape", ["{}", "people/{}", "{}/below.md"])
def test_memory_refuses_them_as_new_paths(name, shape, tmp_path) -> None:
    store = MemoryStore(tmp_path / "memory")
    store.write_file("here.md", "x")
    with pytest.raises(UnsafePathError):
        store.write_file(shape.format(name), "x")
    with pytest.raises(UnsafePathError):
        store.move_file("here.md", shape.format(name))


@given(names)
def test_a_familiars_id_is_a_directory_everywhere(name) -> None:
    made = id_for(read_card(as_json(v3(name=name or "x")), origin=f"{name}.json"))
    assert holds(made)
    assert check_familiar_id(made) == made
    try:
        assert holds(check_familiar_id(name))
    except UsageError:
        return


@given(names.filter(bool))
def test_a_persons_file_is_one_everywhere(user_id) -> None:
    user_id = user_id.encode("utf-8", "replace").decode()
    assert holds(Author("discord", user_id).slug[:200] + ".md")


@given(names, names)
def test_a_channels_file_is_one_everywhere_and_its_own(one, other) -> None:
    try:
        stems = [file_stem(channel_id) for channel_id in (one, other)]
    except UsageError:
        return
    assert all(holds(f"{stem}.toml") for stem in stems)
    assert (stems[0].casefold() == stems[1].casefold()) == (one == other)


@each("stem", ["%ff", "%", "A" * 150, "%ED%A0", "a b", "con", "é"])
def test_a_channel_file_named_by_a_person_is_nobodys(stem, tmp_path) -> None:
    (tmp_path / f"{stem}.toml").write_text("private = true\n")
    (tmp_path / "cli.toml").write_text("")
    assert list(ChannelConfigs(tmp_path).known()) == ["cli"]


@given(st.lists(names, min_size=1, max_size=5))
def test_lore_files_are_ones_everywhere_and_never_the_same_one(titles) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = MemoryStore(Path(directory) / "memory")
        book = world(*(lore(title) for title in titles), name=titles[0])
        written = import_lorebook(store, read_book(book, origin="w.json")).written
    parts = [part for path in written for part in path.split("/")]
    assert all(holds(part) for part in parts)
    assert len({path.casefold() for path in written}) == len(titles)
